#include "compiler/codegen/compile.h"

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/codegen/assembler.h"
#include "compiler/codegen/c_names.h"
#include "compiler/codegen/compile_steps.h"
#include "compiler/codegen/describe_kernels.h"
#include "compiler/codegen/gpu_host.h"
#include "compiler/codegen/link.h"
#include "compiler/codegen/nvptx_module.h"
#include "compiler/codegen/nvptx_object.h"
#include "compiler/codegen/x86_module.h"
#include "compiler/codegen/x86_object.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/verify.h"
#include "compiler/lang/kernel.h"
#include "compiler/passes/even_registers.h"
#include "compiler/passes/pipeline.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

namespace kiln::codegen {
namespace {

const X86Target kAnyHost = {"x86-64", {}, 128};  // for the host half of GPU artifacts

passes::PassContext ContextOf(const target::Arch& arch, bool plain) {
  passes::PassContext context;
  if (arch.kind == target::ArchKind::kGpu) {
    context.gpu = &arch;
    context.instruct = !plain;
    return context;
  }
  context.vector.bits = arch.vector_bits > 0 ? arch.vector_bits : 256;
  context.vector.registers = arch.vector_registers > 0 ? arch.vector_registers : 16;
  context.amx_bf16 = arch.Has("amx-tile") && arch.Has("amx-bf16");
  return context;
}

absl::StatusOr<ir::Program> Lower(const Elaborated& elaborated, absl::string_view stop_after) {
  const bool gpu = elaborated.arch.kind == target::ArchKind::kGpu;
  KILN_ASSIGN_OR_RETURN(
      const target::Arch machine,
      target::WithInstructions(elaborated.arch,
                               ir::PassOption(elaborated.program, "kiln.instructions", 0)));
  const bool plain = ir::PassOption(elaborated.program, "kiln.plain", 0) != 0;
  const auto& pipeline = !gpu    ? passes::CpuPipeline()
                         : plain ? passes::PlainGpuPipeline()
                                 : passes::GpuPipeline();
  return passes::RunPipeline(pipeline, elaborated.program, ContextOf(machine, plain), stop_after);
}

X86Target TargetOf(const target::Arch& arch) {
  return {arch.name, arch.features, arch.vector_bits > 0 ? arch.vector_bits : 256};
}

absl::StatusOr<std::string> EmitLowered(const Elaborated& elaborated, const ir::Program& lowered,
                                        Emit what, ModuleFacts* facts) {
  llvm::LLVMContext context;
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<llvm::Module> module,
                        BuildX86Module(lowered, elaborated.symbol, context, facts));
  return EmitX86(std::move(module), elaborated.symbol, TargetOf(elaborated.arch), what);
}

absl::StatusOr<std::string> EmitDevice(const Elaborated& elaborated, const ir::Program& lowered,
                                       NvptxText what, std::vector<GpuKernel>* kernels) {
  llvm::LLVMContext context;
  KILN_ASSIGN_OR_RETURN(
      std::unique_ptr<llvm::Module> module,
      BuildNvptxModule(lowered, elaborated.symbol, elaborated.arch, context, kernels));
  return EmitNvptx(std::move(module), elaborated.arch.name, what);
}

// What the kernel asks of the assembler: "kiln.assembler" = 1 for -O1, which takes less time.
absl::StatusOr<int> AssemblerLevel(const ir::Program& program) {
  const auto option = program.attrs.find("kiln.assembler");
  if (option == program.attrs.end()) return 3;
  int level = 0;
  if (absl::SimpleAtoi(option->second, &level) && level >= 0 && level <= 3) return level;
  return absl::InvalidArgumentError(absl::StrCat("pass option kiln.assembler = ", option->second,
                                                 " is no level of the assembler, 0 to 3"));
}

// The device's half of an artifact.
struct Device {
  ir::Program lowered;
  std::vector<GpuKernel> kernels;
  std::string ptx;
  Cubin cubin;
};

absl::StatusOr<Device> BuildDevice(const Elaborated& elaborated) {
  Device device;
  KILN_ASSIGN_OR_RETURN(device.lowered, Lower(elaborated, {}));
  KILN_ASSIGN_OR_RETURN(device.ptx,
                        EmitDevice(elaborated, device.lowered, NvptxText::kPtx, &device.kernels));
  KILN_ASSIGN_OR_RETURN(const int level, AssemblerLevel(elaborated.program));
  KILN_ASSIGN_OR_RETURN(device.cubin, Assemble(device.ptx, elaborated.arch.name, level));
  return device;
}

// Where threads spill for want of more than an even share of registers, and where nobody can say
// that they do not, once more with shares.
absl::StatusOr<Device> BuildDeviceThatFits(const Elaborated& elaborated) {
  KILN_ASSIGN_OR_RETURN(Device even, BuildDevice(elaborated));
  const Cubin& cubin = even.cubin;
  const bool wants = absl::c_any_of(even.kernels, [&](const GpuKernel& kernel) {
    return kernel.even && (cubin.by_driver || cubin.spills.count(kernel.name) > 0);
  });
  if (!wants) return even;
  Elaborated again = elaborated;
  again.program.attrs[passes::kEvenRegisters] = "0";
  absl::StatusOr<Device> shared = BuildDevice(again);
  if (!shared.ok()) return even;  // which works
  if (!cubin.by_driver && shared->cubin.spill_bytes() >= cubin.spill_bytes()) return even;
  return shared;
}

absl::StatusOr<std::unique_ptr<llvm::Module>> BuildGpuModule(const Elaborated& elaborated,
                                                             llvm::LLVMContext& context,
                                                             ModuleFacts* facts,
                                                             CompileOutput* out) {
  KILN_ASSIGN_OR_RETURN(Device device, BuildDeviceThatFits(elaborated));
  const Cubin& cubin = device.cubin;
  out->assembly = std::move(device.ptx);
  out->registers = cubin.registers;
  out->spill_bytes = cubin.spill_bytes();
  out->stack_bytes = cubin.stack_bytes;
  out->code_bytes = static_cast<int64_t>(cubin.bytes.size());
  out->by_driver = cubin.by_driver;
  if (!cubin.by_driver) out->cubin = cubin.bytes;
  out->kernels_json = DescribeKernels(device.lowered, device.kernels);
  return BuildGpuHost(device.lowered, elaborated.symbol, cubin.bytes, device.kernels, context,
                      facts);
}

absl::StatusOr<std::unique_ptr<llvm::Module>> BuildCpuModule(const Elaborated& elaborated,
                                                             llvm::LLVMContext& context,
                                                             ModuleFacts* facts) {
  KILN_ASSIGN_OR_RETURN(const ir::Program lowered, Lower(elaborated, {}));
  return BuildX86Module(lowered, elaborated.symbol, context, facts);
}

}  // namespace

absl::StatusOr<Elaborated> ElaborateInput(const CompileInput& input) {
  Elaborated out;
  KILN_ASSIGN_OR_RETURN(out.arch, target::ParseArch(input.arch_record));
  auto file = std::make_shared<const SourceFile>(
      SourceFile{input.kernel_path.empty() ? "kernel.py" : input.kernel_path, input.kernel_source});
  KILN_ASSIGN_OR_RETURN(const lang::Kernel kernel, lang::Kernel::Parse(file, input.entry));
  KILN_ASSIGN_OR_RETURN(
      out.program, lang::Elaborate(kernel, input.arguments, input.config, lang::FactsOf(out.arch)));
  out.symbol = input.symbol.empty() ? DefaultSymbol(kernel.name()) : input.symbol;
  if (!IsCIdentifier(out.symbol)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "symbol '", out.symbol, "' is no C identifier, or is taken by C, C++ or the header"));
  }
  return out;
}

absl::StatusOr<std::unique_ptr<llvm::Module>> BuildHostModule(const Elaborated& elaborated,
                                                              llvm::LLVMContext& context,
                                                              CompileOutput* out) {
  ModuleFacts facts;
  const bool gpu = elaborated.arch.kind == target::ArchKind::kGpu;
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<llvm::Module> module,
                        gpu ? BuildGpuModule(elaborated, context, &facts, out)
                            : BuildCpuModule(elaborated, context, &facts));
  out->scratch_bytes = facts.scratch_bytes;
  out->grid_blocks = facts.grid_blocks;
  out->threads = facts.threads;
  return module;
}

absl::StatusOr<std::string> EmitHostObject(std::unique_ptr<llvm::Module> module,
                                           const std::string& symbol, const target::Arch& arch) {
  const bool gpu = arch.kind == target::ArchKind::kGpu;
  return EmitX86(std::move(module), symbol, gpu ? kAnyHost : TargetOf(arch), Emit::kObject,
                 gpu ? Runtime::kGpu : Runtime::kCpu);
}

absl::StatusOr<CompileOutput> CompileKernel(const CompileInput& input) {
  KILN_ASSIGN_OR_RETURN(const Elaborated elaborated, ElaborateInput(input));
  CompileOutput out;
  llvm::LLVMContext context;
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<llvm::Module> module,
                        BuildHostModule(elaborated, context, &out));
  KILN_ASSIGN_OR_RETURN(out.object,
                        EmitHostObject(std::move(module), elaborated.symbol, elaborated.arch));
  if (out.kernels_json.empty()) out.code_bytes = static_cast<int64_t>(out.object.size());
  KILN_ASSIGN_OR_RETURN(out.shared_object, LinkSharedObject(out.object, elaborated.symbol + ".so"));
  out.name = elaborated.symbol;
  out.target = elaborated.arch.name;
  out.program_digest = ir::ProgramDigest(elaborated.program);
  out.header = CHeader(elaborated.program, out.name);
  out.manifest_json = ManifestJson(elaborated.program, input, out);
  return out;
}

absl::StatusOr<ir::Program> LowerKernel(const CompileInput& input, absl::string_view stop_after) {
  KILN_ASSIGN_OR_RETURN(const Elaborated elaborated, ElaborateInput(input));
  return Lower(elaborated, stop_after);
}

absl::StatusOr<std::string> EmitStage(const CompileInput& input, absl::string_view what,
                                      absl::string_view stop_after) {
  KILN_ASSIGN_OR_RETURN(const Elaborated elaborated, ElaborateInput(input));
  if (what == "tile") return ir::ToString(elaborated.program);
  KILN_ASSIGN_OR_RETURN(const ir::Program lowered, Lower(elaborated, stop_after));
  if (what == "lowered") return ir::ToString(lowered);
  if (elaborated.arch.kind == target::ArchKind::kGpu && (what == "llvm" || what == "asm")) {
    std::vector<GpuKernel> kernels;
    return EmitDevice(elaborated, lowered, what == "llvm" ? NvptxText::kLlvm : NvptxText::kPtx,
                      &kernels);
  }
  ModuleFacts facts;
  if (what == "llvm") return EmitLowered(elaborated, lowered, Emit::kLlvm, &facts);
  if (what == "asm") return EmitLowered(elaborated, lowered, Emit::kAssembly, &facts);
  return absl::InvalidArgumentError(
      absl::StrCat("no stage is called '", what, "'; the stages are tile, lowered, llvm, asm"));
}

}  // namespace kiln::codegen
