#include "compiler/codegen/nvptx_module.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "compiler/codegen/gpu_expr.h"
#include "compiler/codegen/gpu_stmt.h"
#include "compiler/codegen/launch_slots.h"
#include "compiler/codegen/runtime/gpu_launch.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/shared_use.h"
#include "compiler/passes/even_registers.h"
#include "compiler/target/warps.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Module.h"

namespace kiln::codegen {
namespace {

using llvm::Value;

constexpr unsigned kGlobalSpace = 1;  // NVPTX address spaces
constexpr unsigned kSharedSpace = 3;
constexpr int64_t kTensorMapBytes = 128;  // CUtensorMap
constexpr int64_t kTensorMapAlign = 64;
constexpr int64_t kPointerAlign = 16;  // what the entry point has checked
constexpr int64_t kSharedAlign = 1024;
constexpr int kEarlyLaunches = 90;  // the first with griddepcontrol (PTX 9.7.13.17)

class NvptxBuilder {
 public:
  NvptxBuilder(const ir::Program& program, const std::string& symbol, const target::Arch& arch,
               llvm::LLVMContext& context)
      : program_(program),
        symbol_(symbol),
        arch_(arch),
        context_(context),
        slots_(program),
        module_(std::make_unique<llvm::Module>(symbol, context)) {}

  absl::StatusOr<std::unique_ptr<llvm::Module>> Build(std::vector<GpuKernel>* kernels) {
    auto* bytes = llvm::ArrayType::get(llvm::Type::getInt8Ty(context_), 0);
    shared_ = new llvm::GlobalVariable(*module_, bytes, false, llvm::GlobalValue::ExternalLinkage,
                                       nullptr, "kiln_shared", nullptr,
                                       llvm::GlobalValue::NotThreadLocal, kSharedSpace);
    shared_->setAlignment(llvm::Align(kSharedAlign));
    launches_ = absl::c_count_if(
        slots_.host(), [](const ir::Stmt& s) { return s.kind() == ir::StmtKind::kLaunch; });
    for (const ir::Stmt& s : slots_.host()) {
      const auto* launch = s.As<ir::Launch>();
      if (launch == nullptr) continue;
      GpuKernel kernel;
      kernel.name = absl::StrCat(symbol_, "_", kernels->size());
      kernel.even = launch->annotations.count(passes::kEvenRegisters) > 0;
      kernel.follows = !kernels->empty() && target::CapabilityOf(arch_) >= kEarlyLaunches;
      KILN_RETURN_IF_ERROR(EmitKernel(*launch, &kernel));
      kernels->push_back(std::move(kernel));
    }
    return std::move(module_);
  }

 private:
  absl::Status EmitKernel(const ir::Launch& launch, GpuKernel* kernel) {
    const auto threads = ir::ThreadsOf(launch);
    if (!threads) return Limit(launch, "the number of threads is not a compile-time constant");
    if (*threads > arch_.threads_block) {
      return Limit(launch, absl::StrCat("a block of ", *threads, " threads; ", arch_.name,
                                        " runs at most ", arch_.threads_block));
    }
    kernel->threads = static_cast<int>(*threads);
    kernel->maps = CollectTensorMaps(launch);
    for (const TensorMap& map : kernel->maps) {
      const int64_t side = *std::max_element(map.box.begin(), map.box.end());
      if (side > target::kMostBox) {
        return Limit(launch, absl::StrCat("a box of '", map.tensor->name, "' with a side of ", side,
                                          "; TMA moves at most ", target::kMostBox));
      }
    }
    const auto cluster = launch.annotations.find("cluster");
    if (cluster != launch.annotations.end()) {
      KILN_CHECK(absl::SimpleAtoi(cluster->second, &kernel->cluster));
    }
    if (slots_.size() > KILN_MOST_SLOTS || kernel->maps.size() > KILN_MOST_MAPS) {
      return Limit(launch, absl::StrCat("a kernel with ", slots_.size(), " parameters and ",
                                        kernel->maps.size(), " tensor maps; it has at most ",
                                        KILN_MOST_SLOTS, " and ", KILN_MOST_MAPS));
    }
    llvm::Function* function = Declare(*kernel);
    llvm::IRBuilder<> b(llvm::BasicBlock::Create(context_, "entry", function));
    auto* body = llvm::BasicBlock::Create(context_, "block", function);
    llvm::BranchInst* to_body = b.CreateBr(body);
    b.SetInsertPoint(to_body);
    const auto fast = program_.attrs.find("tl.enable_fast_math");
    GpuExprEmitter exprs(b, *module_, target::CapabilityOf(arch_),
                         fast != program_.attrs.end() && fast->second == "true");
    slots_.Bind(b, exprs, [&](size_t slot, llvm::Type*) {
      return static_cast<Value*>(function->getArg(static_cast<unsigned>(slot)));
    });
    Value* thread = Special(b, llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, *threads);
    Value* block = Special(b, llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, int64_t{1} << 31);
    TensorMaps maps{kernel->maps, {}};
    exprs.SetCacheHints(ir::CacheHintsOf(launch));
    for (size_t i = 0; i < kernel->maps.size(); ++i) {
      maps.parameters.push_back(function->getArg(static_cast<unsigned>(slots_.size() + i)));
    }
    b.SetInsertPoint(body);
    MeetNeighbours(b, *kernel);
    BindBlockIndices(b, exprs, launch, b.CreateZExt(block, b.getInt64Ty()));
    GpuStmtEmitter stmts(b, exprs, shared_, thread, *threads, maps, launch.body);
    if (kernel->cluster > 1 && launch.annotations.count(ir::kSharesMemory) > 0) {
      const ir::Expr& x = launch.grid[0].var;
      stmts.SetOwnRank(launch, FloorMod(x, ir::MakeInt(kernel->cluster, x.dtype())));
    }
    stmts.Emit(launch.body);
    b.CreateRetVoid();
    kernel->shared_bytes = stmts.shared_bytes();
    KILN_RETURN_IF_ERROR(exprs.status());
    if (kernel->shared_bytes <= arch_.smem_block) return absl::OkStatus();
    return Limit(launch,
                 absl::StrCat("a block needs ", kernel->shared_bytes, " bytes of shared memory; ",
                              arch_.name, " gives one ", arch_.smem_block));
  }

  // A kernel that follows another may be started while that one runs, and waits here until it has
  // ended and can be seen; the next one may be started once all blocks have come by.
  void MeetNeighbours(llvm::IRBuilder<>& b, const GpuKernel& kernel) const {
    const auto emit = [&](const char* text) {
      auto* type = llvm::FunctionType::get(b.getVoidTy(), false);
      b.CreateCall(llvm::InlineAsm::get(type, text, "~{memory}", /*hasSideEffects=*/true));
    };
    if (kernel.follows) emit("griddepcontrol.wait;");
    if (launches_ > 1 && target::CapabilityOf(arch_) >= kEarlyLaunches) {
      emit("griddepcontrol.launch_dependents;");
    }
  }

  absl::Status Limit(const ir::Launch& launch, std::string message) const {
    return ir::ErrorAt(program_, launch.loc, std::move(message),
                       "make tiles, stages or the number of threads smaller",
                       absl::StatusCode::kResourceExhausted);
  }

  llvm::Function* Declare(const GpuKernel& kernel) {
    llvm::Type* i64 = llvm::Type::getInt64Ty(context_);
    std::vector<llvm::Type*> types(slots_.size(), i64);
    const auto pointer = [&](const ir::Buffer& buffer) {
      types[slots_.SlotOf(buffer)] = llvm::PointerType::get(context_, kGlobalSpace);
    };
    std::set<size_t> tables;
    for (const ir::Param& p : program_.params) {
      if (p.kind != ir::Param::kTensor) continue;
      pointer(p.buffer);
      if (p.buffer->table) tables.insert(slots_.SlotOf(p.buffer));
    }
    for (const ir::Buffer& w : slots_.workspaces()) pointer(w);
    types.insert(types.end(), kernel.maps.size(), llvm::PointerType::getUnqual(context_));
    auto* function = llvm::Function::Create(
        llvm::FunctionType::get(llvm::Type::getVoidTy(context_), types, false),
        llvm::Function::ExternalLinkage, kernel.name, *module_);
    for (unsigned i = 0; i < slots_.size(); ++i) {
      if (types[i] != i64) {
        const llvm::Align align(tables.count(i) > 0 ? sizeof(int64_t) : kPointerAlign);
        function->addParamAttr(i, llvm::Attribute::getWithAlignment(context_, align));
        function->addParamAttr(i, llvm::Attribute::NoAlias);
      }
    }
    auto* map_type = llvm::ArrayType::get(llvm::Type::getInt8Ty(context_), kTensorMapBytes);
    std::vector<llvm::Metadata*> grid_constants;
    for (unsigned i = 0; i < kernel.maps.size(); ++i) {
      const unsigned arg = static_cast<unsigned>(slots_.size()) + i;
      function->addParamAttr(arg, llvm::Attribute::getWithByValType(context_, map_type));
      function->addParamAttr(
          arg, llvm::Attribute::getWithAlignment(context_, llvm::Align(kTensorMapAlign)));
      grid_constants.push_back(Number(static_cast<int>(arg) + 1));
    }
    Annotate(function, "kernel", Number(1));
    Annotate(function, "maxntidx", Number(kernel.threads));
    Annotate(function, "minctasm", Number(1));  // without it ptxas ignores setmaxnreg (C7508)
    if (!grid_constants.empty()) {
      Annotate(function, "grid_constant", llvm::MDNode::get(context_, grid_constants));
    }
    return function;
  }

  llvm::Metadata* Number(int value) {
    return llvm::ConstantAsMetadata::get(
        llvm::ConstantInt::get(llvm::Type::getInt32Ty(context_), static_cast<uint32_t>(value)));
  }

  void Annotate(llvm::Function* function, const char* name, llvm::Metadata* value) {
    module_->getOrInsertNamedMetadata("nvvm.annotations")
        ->addOperand(llvm::MDNode::get(context_, {llvm::ValueAsMetadata::get(function),
                                                  llvm::MDString::get(context_, name), value}));
  }

  // A special register, whose value is below `bound`.
  Value* Special(llvm::IRBuilder<>& b, llvm::Intrinsic::ID id, int64_t bound) {
    llvm::CallInst* value = b.CreateIntrinsic(id, {}, {});
    llvm::MDBuilder notes(context_);
    value->setMetadata(
        llvm::LLVMContext::MD_range,
        notes.createRange(llvm::APInt(32, 0), llvm::APInt(32, static_cast<uint64_t>(bound))));
    return value;
  }

  const ir::Program& program_;
  const std::string symbol_;
  const target::Arch& arch_;
  llvm::LLVMContext& context_;
  const LaunchSlots slots_;
  int64_t launches_ = 0;
  std::unique_ptr<llvm::Module> module_;
  llvm::GlobalVariable* shared_ = nullptr;
};

}  // namespace

absl::StatusOr<std::unique_ptr<llvm::Module>> BuildNvptxModule(const ir::Program& program,
                                                               const std::string& symbol,
                                                               const target::Arch& arch,
                                                               llvm::LLVMContext& context,
                                                               std::vector<GpuKernel>* kernels) {
  return NvptxBuilder(program, symbol, arch, context).Build(kernels);
}

}  // namespace kiln::codegen
