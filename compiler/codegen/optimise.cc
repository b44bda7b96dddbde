#include "compiler/codegen/optimise.h"

#include "compiler/codegen/cache_policy.h"
#include "compiler/codegen/named_sums.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/IPO/GlobalDCE.h"
#include "llvm/Transforms/InstCombine/InstCombine.h"
#include "llvm/Transforms/Scalar/ADCE.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/IndVarSimplify.h"
#include "llvm/Transforms/Scalar/InferAlignment.h"
#include "llvm/Transforms/Scalar/LICM.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"
#include "llvm/Transforms/Scalar/LoopRotation.h"
#include "llvm/Transforms/Scalar/LoopUnrollPass.h"
#include "llvm/Transforms/Scalar/SROA.h"
#include "llvm/Transforms/Scalar/SeparateConstOffsetFromGEP.h"
#include "llvm/Transforms/Scalar/SimplifyCFG.h"
#include "llvm/Transforms/Scalar/StraightLineStrengthReduce.h"
#include "llvm/Transforms/Vectorize/LoadStoreVectorizer.h"

namespace kiln::codegen {

namespace {

// A pass builder with its analyses.
struct Pipeline {
  explicit Pipeline(llvm::TargetMachine& machine) : builder(&machine, Tuning()) {
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(sccs);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, sccs, modules);
  }

  static llvm::PipelineTuningOptions Tuning() {
    llvm::PipelineTuningOptions tuning;
    tuning.LoopVectorization = false;
    tuning.SLPVectorization = false;
    tuning.LoopInterleaving = false;
    return tuning;
  }

  llvm::PassBuilder builder;
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
};

// Neighbours are merged first, as the back end would later.
struct CachePolicyPass : llvm::PassInfoMixin<CachePolicyPass> {
  llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses) {
    if (!HasPolicies(function)) return llvm::PreservedAnalyses::all();
    llvm::FunctionPassManager merge;
    merge.addPass(llvm::SeparateConstOffsetFromGEPPass());
    merge.addPass(llvm::StraightLineStrengthReducePass());
    merge.addPass(llvm::EarlyCSEPass());
    merge.addPass(llvm::LoadStoreVectorizerPass());
    merge.run(function, analyses);
    LowerPolicies(function);
    return llvm::PreservedAnalyses::none();
  }
};

struct NamedSumsPass : llvm::PassInfoMixin<NamedSumsPass> {
  static llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager&) {
    LowerNamedSums(function);
    return llvm::PreservedAnalyses::none();
  }
};

// Whether the loop's own blocks, not those of loops inside it, store to a tensor.
bool StoresItself(const llvm::Loop& loop, const llvm::LoopInfo& loops) {
  return llvm::any_of(loop.blocks(), [&](const llvm::BasicBlock* block) {
    return loops.getLoopFor(block) == &loop && llvm::any_of(*block, [](const llvm::Instruction& i) {
             const auto* store = llvm::dyn_cast<llvm::StoreInst>(&i);
             return store != nullptr && llvm::isa<llvm::Argument>(llvm::getUnderlyingObject(
                                            store->getPointerOperand(), /*MaxLookup=*/0));
           });
  });
}

// What does not change in a loop is computed before it; but not before a loop over tiles whose
// threads store results themselves, where TMA fetches: what a tile's steps need is little then, and
// all the addresses of its results would take registers, or a place in memory, while they run.
struct HoistPass : llvm::PassInfoMixin<HoistPass> {
  llvm::PreservedAnalyses run(llvm::Loop& loop, llvm::LoopAnalysisManager& analyses,
                              llvm::LoopStandardAnalysisResults& results,
                              llvm::LPMUpdater& updater) {
    const llvm::Function& function = *loop.getHeader()->getParent();
    if (function.hasFnAttribute(kTensorLoads) && !loop.isInnermost() &&
        StoresItself(loop, results.LI)) {
      return llvm::PreservedAnalyses::all();
    }
    return llvm::LICMPass(llvm::LICMOptions()).run(loop, analyses, results, updater);
  }
};

}  // namespace

void Optimise(llvm::Module& module, llvm::TargetMachine& machine) {
  Pipeline pipeline(machine);
  pipeline.builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2)
      .run(module, pipeline.modules);
}

void OptimiseGpuHost(llvm::Module& module, llvm::TargetMachine& machine) {
  Pipeline pipeline(machine);
  llvm::ModulePassManager passes;
  passes.addPass(llvm::GlobalDCEPass());
  passes.run(module, pipeline.modules);
}

void OptimiseGpu(llvm::Module& module, llvm::TargetMachine& machine) {
  Pipeline pipeline(machine);
  llvm::FunctionPassManager passes;
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  passes.addPass(llvm::EarlyCSEPass());
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SimplifyCFGPass());
  llvm::LoopPassManager unroll;
  unroll.addPass(llvm::LoopRotatePass());
  unroll.addPass(llvm::IndVarSimplifyPass());
  unroll.addPass(llvm::LoopFullUnrollPass());
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(unroll)));
  passes.addPass(llvm::EarlyCSEPass());
  passes.addPass(llvm::InstCombinePass());
  passes.addPass(llvm::SROAPass(llvm::SROAOptions::ModifyCFG));
  passes.addPass(llvm::EarlyCSEPass(/*UseMemorySSA=*/true));
  passes.addPass(llvm::InstCombinePass());
  llvm::LoopPassManager hoist;
  hoist.addPass(HoistPass());
  passes.addPass(llvm::createFunctionToLoopPassAdaptor(std::move(hoist), /*UseMemorySSA=*/true));
  passes.addPass(llvm::SimplifyCFGPass(
      llvm::SimplifyCFGOptions().hoistCommonInsts(true).sinkCommonInsts(true)));
  passes.addPass(llvm::ADCEPass());
  passes.addPass(llvm::InferAlignmentPass());  // what neighbouring accesses are merged by
  passes.addPass(CachePolicyPass());
  passes.addPass(NamedSumsPass());
  llvm::ModulePassManager whole;
  whole.addPass(llvm::createModuleToFunctionPassAdaptor(std::move(passes)));
  whole.addPass(llvm::GlobalDCEPass());  // tables that only constants looked up
  whole.run(module, pipeline.modules);
}

}  // namespace kiln::codegen
