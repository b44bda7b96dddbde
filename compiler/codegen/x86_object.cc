#include "compiler/codegen/x86_object.h"

#include <mutex>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/base/status.h"
#include "compiler/codegen/optimise.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Linker/Linker.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/IPO/Internalize.h"

// The run-time support (runtime_data.S).
extern "C" const char kiln_cpu_runtime_bitcode[];
extern "C" const char kiln_cpu_runtime_bitcode_end[];
extern "C" const char kiln_gpu_runtime_assembly[];
extern "C" const char kiln_gpu_runtime_assembly_end[];

namespace kiln::codegen {
namespace {

constexpr char kTriple[] = "x86_64-unknown-linux-gnu";

void InitializeOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeX86AsmParser();
  });
}

absl::StatusOr<std::unique_ptr<llvm::TargetMachine>> MakeTargetMachine(
    const X86Target& target, llvm::CodeGenOptLevel level) {
  InitializeOnce();
  std::string error;
  const llvm::Target* backend = llvm::TargetRegistry::lookupTarget(kTriple, error);
  if (backend == nullptr) return absl::InternalError(error);
  const std::string features = absl::StrJoin(
      target.features, ",", [](std::string* out, auto& f) { absl::StrAppend(out, "+", f); });
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard;
  options.UseInitArray = true;  // else destructors land in .dtors, which nothing runs
  std::unique_ptr<llvm::TargetMachine> machine(backend->createTargetMachine(
      kTriple, target.cpu, features, options, llvm::Reloc::PIC_, llvm::CodeModel::Small, level));
  if (machine == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("LLVM has no x86-64 target '", target.cpu, "'"));
  }
  return machine;
}

llvm::StringRef Between(const char* first, const char* last) {
  return {first, static_cast<size_t>(last - first)};
}

absl::Status AddRuntime(llvm::Module& module, Runtime which) {
  if (which == Runtime::kGpu) {
    module.appendModuleInlineAsm(Between(kiln_gpu_runtime_assembly, kiln_gpu_runtime_assembly_end));
    return absl::OkStatus();
  }
  const llvm::StringRef bytes = Between(kiln_cpu_runtime_bitcode, kiln_cpu_runtime_bitcode_end);
  auto runtime =
      llvm::parseBitcodeFile(llvm::MemoryBufferRef(bytes, "runtime"), module.getContext());
  if (!runtime) {
    return absl::InternalError(
        absl::StrCat("runtime bitcode: ", llvm::toString(runtime.takeError())));
  }
  (*runtime)->setDataLayout(module.getDataLayout());
  (*runtime)->setTargetTriple(module.getTargetTriple());
  if (llvm::Linker::linkModules(module, std::move(*runtime))) {
    return absl::InternalError("linking the run-time support failed");
  }
  return absl::OkStatus();
}

void SetFunctionAttributes(llvm::Module& module, const X86Target& target) {
  const std::string bits = std::to_string(target.vector_bits);
  const std::string features = absl::StrJoin(
      target.features, ",", [](std::string* out, auto& f) { absl::StrAppend(out, "+", f); });
  for (llvm::Function& f : module) {
    if (f.isDeclaration()) continue;
    f.addFnAttr("target-cpu", target.cpu);
    f.addFnAttr("target-features", features);
    f.addFnAttr("tune-cpu", target.cpu);
    f.addFnAttr("prefer-vector-width", bits);
    f.addFnAttr("min-legal-vector-width", bits);
    f.addFnAttr(llvm::Attribute::NoUnwind);
  }
}

}  // namespace

absl::StatusOr<std::string> EmitX86(std::unique_ptr<llvm::Module> module, const std::string& symbol,
                                    const X86Target& target, Emit what, Runtime runtime) {
  const bool computes = runtime == Runtime::kCpu;
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<llvm::TargetMachine> machine,
                        MakeTargetMachine(target, computes ? llvm::CodeGenOptLevel::Default
                                                           : llvm::CodeGenOptLevel::None));
  module->setTargetTriple(kTriple);
  module->setDataLayout(machine->createDataLayout());
  std::string problem;
  llvm::raw_string_ostream problem_stream(problem);
  if (llvm::verifyModule(*module, &problem_stream)) {
    return absl::InternalError(absl::StrCat("code generation made an invalid module: ", problem));
  }
  KILN_RETURN_IF_ERROR(AddRuntime(*module, runtime));
  llvm::internalizeModule(*module,
                          [&](const llvm::GlobalValue& v) { return v.getName() == symbol; });
  SetFunctionAttributes(*module, target);
  computes ? Optimise(*module, *machine) : OptimiseGpuHost(*module, *machine);
  if (what == Emit::kLlvm) {
    std::string text;
    llvm::raw_string_ostream stream(text);
    module->print(stream, nullptr);
    return text;
  }
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager codegen;
  const auto type = what == Emit::kObject ? llvm::CodeGenFileType::ObjectFile
                                          : llvm::CodeGenFileType::AssemblyFile;
  if (machine->addPassesToEmitFile(codegen, stream, nullptr, type)) {
    return absl::InternalError("the x86-64 back end cannot write this kind of file");
  }
  codegen.run(*module);
  return std::string(bytes.begin(), bytes.end());
}

}  // namespace kiln::codegen
