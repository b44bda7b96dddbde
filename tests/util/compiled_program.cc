#include "tests/util/compiled_program.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/codegen/link.h"
#include "compiler/codegen/x86_module.h"
#include "compiler/codegen/x86_object.h"
#include "compiler/passes/pipeline.h"
#include "compiler/target/host_arch.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

namespace kiln::testing {
namespace {

// Arguments are all pointers or int64, which pass alike in integer registers and on the stack.
int CallWith(void* entry, const kiln_launch* launch, const std::vector<int64_t>& a) {
  using I = int64_t;
  switch (a.size()) {
    case 1:
      return reinterpret_cast<int (*)(const kiln_launch*, I)>(entry)(launch, a[0]);
    case 2:
      return reinterpret_cast<int (*)(const kiln_launch*, I, I)>(entry)(launch, a[0], a[1]);
    case 3:
      return reinterpret_cast<int (*)(const kiln_launch*, I, I, I)>(entry)(launch, a[0], a[1],
                                                                           a[2]);
    case 4:
      return reinterpret_cast<int (*)(const kiln_launch*, I, I, I, I)>(entry)(launch, a[0], a[1],
                                                                              a[2], a[3]);
    case 5:
      return reinterpret_cast<int (*)(const kiln_launch*, I, I, I, I, I)>(entry)(launch, a[0], a[1],
                                                                                 a[2], a[3], a[4]);
    case 6:
      return reinterpret_cast<int (*)(const kiln_launch*, I, I, I, I, I, I)>(entry)(
          launch, a[0], a[1], a[2], a[3], a[4], a[5]);
    default:
      KILN_CHECK(false && "too many arguments for CompiledProgram::Run");
      return 0;
  }
}

}  // namespace

passes::PassContext HostPassContext(int vector_bits) {
  const absl::StatusOr<target::Arch> host = target::DescribeHost();
  KILN_CHECK(host.ok());
  passes::PassContext context;
  context.vector.bits = vector_bits != 0 ? vector_bits : host->vector_bits;
  context.vector.registers = context.vector.bits == 512 ? 32 : 16;
  context.amx_bf16 = vector_bits == 0 && host->Has("amx-tile") && host->Has("amx-bf16");
  return context;
}

absl::StatusOr<CompiledProgram> CompiledProgram::Compile(const ir::Program& program,
                                                         int vector_bits) {
  return Compile(program, HostPassContext(vector_bits));
}

absl::StatusOr<CompiledProgram> CompiledProgram::Compile(const ir::Program& program,
                                                         const passes::PassContext& context) {
  KILN_ASSIGN_OR_RETURN(const target::Arch host, target::DescribeHost());
  KILN_ASSIGN_OR_RETURN(const ir::Program lowered,
                        passes::RunPipeline(passes::CpuPipeline(), program, context));
  llvm::LLVMContext llvm_context;
  codegen::ModuleFacts facts;
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<llvm::Module> module,
                        codegen::BuildX86Module(lowered, "kiln_test_entry", llvm_context, &facts));
  codegen::X86Target target{host.name, host.features, context.vector.bits};
  if (context.vector.bits == 256) target = {"x86-64-v3", {}, 256};
  KILN_ASSIGN_OR_RETURN(
      const std::string object,
      codegen::EmitX86(std::move(module), "kiln_test_entry", target, codegen::Emit::kObject));
  KILN_ASSIGN_OR_RETURN(const std::string library,
                        codegen::LinkSharedObject(object, "kiln_test_entry.so"));
  return Load(library, "kiln_test_entry");
}

absl::StatusOr<CompiledProgram> CompiledProgram::Load(const std::string& shared_object,
                                                      const std::string& symbol) {
  const int fd = memfd_create("kiln-test", MFD_CLOEXEC);
  if (fd < 0 || write(fd, shared_object.data(), shared_object.size()) !=
                    static_cast<ssize_t>(shared_object.size())) {
    return absl::InternalError("cannot write the library to memory");
  }
  void* handle = dlopen(absl::StrCat("/proc/self/fd/", fd).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    close(fd);
    return absl::InternalError(dlerror());
  }
  CompiledProgram compiled;
  // The descriptor stays open with the library: its number is the library's name, and a second
  // library of the same name would be the first one again.
  compiled.handle_ = std::shared_ptr<void>(handle, [fd](void* h) {
    dlclose(h);
    close(fd);
  });
  compiled.entry_ = dlsym(handle, symbol.c_str());
  if (compiled.entry_ == nullptr) return absl::NotFoundError(dlerror());
  return compiled;
}

int CompiledProgram::Run(const std::vector<void*>& tensors, const kiln_launch* launch) const {
  return Run(tensors, {}, launch);
}

int CompiledProgram::Run(const std::vector<void*>& tensors, const std::vector<int64_t>& dims,
                         const kiln_launch* launch) const {
  std::vector<int64_t> args;
  for (void* t : tensors) args.push_back(reinterpret_cast<int64_t>(t));
  args.insert(args.end(), dims.begin(), dims.end());
  return CallWith(entry_, launch, args);
}

}  // namespace kiln::testing
