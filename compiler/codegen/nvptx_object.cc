#include "compiler/codegen/nvptx_object.h"

#include <mutex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/base/status.h"
#include "compiler/codegen/optimise.h"
#include "llvm/CodeGen/MachineModuleInfo.h"
#include "llvm/CodeGen/Passes.h"
#include "llvm/CodeGen/TargetPassConfig.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"

namespace kiln::codegen {
namespace {

constexpr char kTriple[] = "nvptx64-nvidia-cuda";
constexpr char kPtxFeature[] = "+ptx85";

// Addresses of shared memory take 32 bits, and so does what they are computed from. LLVM has it as
// an option of the process; its default is set, as lld puts options back to theirs.
void ShortenPointers() {
  llvm::cl::Option* option = llvm::cl::getRegisteredOptions().lookup("nvptx-short-ptr");
  KILN_CHECK(option != nullptr);
  static_cast<llvm::cl::opt<bool>*>(option)->setInitialValue(true);
}

void InitializeOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    ShortenPointers();
  });
}

bool KnownToLlvm(const std::string& arch) { return arch != "sm_100a"; }

absl::StatusOr<std::unique_ptr<llvm::TargetMachine>> MakeTargetMachine(const std::string& arch) {
  InitializeOnce();
  std::string error;
  const llvm::Target* backend = llvm::TargetRegistry::lookupTarget(kTriple, error);
  if (backend == nullptr) return absl::InternalError(error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  const std::string cpu = KnownToLlvm(arch) ? arch : "sm_90a";
  std::unique_ptr<llvm::TargetMachine> machine(
      backend->createTargetMachine(kTriple, cpu, kPtxFeature, options, llvm::Reloc::PIC_,
                                   std::nullopt, llvm::CodeGenOptLevel::Less));
  if (machine == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("LLVM has no NVPTX target '", arch, "'"));
  }
  return machine;
}

// As TargetMachine::addPassesToEmitFile, without the sinking of machine code. Results are stored in
// parts with branches between them: of what is computed for later parts it would move some behind
// those, and keep two registers for one. Whether there is a PTX printer.
bool AddPasses(llvm::LLVMTargetMachine& machine, llvm::legacy::PassManager& passes,
               llvm::raw_pwrite_stream& out) {
  llvm::TargetPassConfig* config = machine.createPassConfig(passes);
  config->setDisableVerify(true);
  config->disablePass(&llvm::MachineSinkingID);
  auto* code = new llvm::MachineModuleInfoWrapperPass(&machine);
  passes.add(config);
  passes.add(code);
  if (config->addISelPasses()) return false;
  config->addMachinePasses();
  config->setInitialized();
  if (machine.addAsmPrinter(passes, out, nullptr, llvm::CodeGenFileType::AssemblyFile,
                            code->getMMI().getContext())) {
    return false;
  }
  passes.add(llvm::createFreeMachineFunctionPass());
  return true;
}

}  // namespace

absl::StatusOr<std::string> EmitNvptx(std::unique_ptr<llvm::Module> module, const std::string& arch,
                                      NvptxText what) {
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<llvm::TargetMachine> machine, MakeTargetMachine(arch));
  module->setTargetTriple(kTriple);
  module->setDataLayout(machine->createDataLayout());
  std::string problem;
  llvm::raw_string_ostream problem_stream(problem);
  if (llvm::verifyModule(*module, &problem_stream)) {
    return absl::InternalError(absl::StrCat("code generation made an invalid module: ", problem));
  }
  OptimiseGpu(*module, *machine);
  if (what == NvptxText::kLlvm) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    module->print(stream, nullptr);
    return text;
  }
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager codegen;
  if (!AddPasses(static_cast<llvm::LLVMTargetMachine&>(*machine), codegen, stream)) {
    return absl::InternalError("the NVPTX back end cannot write PTX");
  }
  codegen.run(*module);
  std::string ptx(bytes.begin(), bytes.end());
  if (KnownToLlvm(arch)) return ptx;
  return absl::StrReplaceAll(
      ptx, {{".version 8.5", ".version 8.6"}, {".target sm_90a", absl::StrCat(".target ", arch)}});
}

}  // namespace kiln::codegen
