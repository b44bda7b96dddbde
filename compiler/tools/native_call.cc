#include "compiler/tools/native_call.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <list>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/codegen/runtime/kiln_launch.h"

namespace kiln::tools {
namespace {

constexpr size_t kMaxArguments = 24;

// The entry's arguments are pointers and int64s, which the x86-64 convention passes alike.
template <size_t... I>
int32_t CallWith(void* entry, const kiln_launch* launch, const std::vector<int64_t>& a,
                 std::index_sequence<I...>) {
  using Entry = int32_t (*)(const kiln_launch*, decltype(static_cast<int64_t>(I))...);
  return reinterpret_cast<Entry>(entry)(launch, a[I]...);
}

template <size_t... N>
int32_t Dispatch(void* entry, const kiln_launch* launch, const std::vector<int64_t>& a,
                 std::index_sequence<N...>) {
  using Call = int32_t (*)(void*, const kiln_launch*, const std::vector<int64_t>&);
  static constexpr std::array<Call, sizeof...(N)> kCalls = {
      [](void* e, const kiln_launch* l, const std::vector<int64_t>& args) {
        return CallWith(e, l, args, std::make_index_sequence<N>{});
      }...};
  return kCalls[a.size()](entry, launch, a);
}

absl::StatusOr<std::shared_ptr<void>> LoadLibrary(const std::string& bytes) {
  const int fd = memfd_create("kiln-artifact", MFD_CLOEXEC);
  if (fd < 0) return absl::UnavailableError("cannot make a memory file for the artifact");
  const bool written = write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  void* handle =
      written ? dlopen(absl::StrCat("/proc/self/fd/", fd).c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  close(fd);
  if (handle == nullptr) {
    return absl::InternalError(absl::StrCat("cannot load the artifact: ", dlerror()));
  }
  return std::shared_ptr<void>(handle, [](void* h) { dlclose(h); });
}

// The value of a run-time dimension: given by name, else read off a tensor that has it as extent.
absl::StatusOr<int64_t> DimensionValue(const ir::Program& program, const ir::Expr& dim,
                                       const interp::Options& options,
                                       const std::vector<interp::Tensor>& tensors) {
  const std::string& name = dim.As<ir::Var>()->name;
  const auto given = options.dims.find(name);
  if (given != options.dims.end()) return given->second;
  size_t index = 0;
  for (const ir::Param& p : program.params) {
    if (p.kind != ir::Param::kTensor) continue;
    for (size_t d = 0; d < p.buffer->shape.size(); ++d) {
      if (p.buffer->shape[d].same_as(dim)) return tensors[index].shape()[d];
    }
    ++index;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the run-time dimension '", name, "' has no value; give --runtime ", name, "=VALUE"));
}

int64_t ScalarBits(double value, DType type) {
  if (type == kFloat64) return std::bit_cast<int64_t>(value);
  if (type.is_float()) return std::bit_cast<uint32_t>(static_cast<float>(value));
  return static_cast<int64_t>(value);
}

// Where the tensors of a table lie that are passed as one, one after the other.
std::vector<int64_t> AddressesIn(const interp::Tensor& all) {
  int64_t step = all.strides().empty() ? 1 : all.strides()[0];
  for (size_t d = 1; all.strides().empty() && d < all.shape().size(); ++d) step *= all.shape()[d];
  std::vector<int64_t> addresses;
  for (int64_t i = 0; i < all.shape()[0]; ++i) {
    addresses.push_back(reinterpret_cast<int64_t>(all.data()) + i * step * all.dtype().bytes());
  }
  return addresses;
}

// What an entry point means by a number (kiln_launch.h), and what to do.
std::string ErrorText(int32_t code, const std::string& target) {
  switch (code) {
    case KILN_ERROR_ARGUMENT:
      return "it does not take a size that it was called with, or a tensor's address: see the "
             "kernel's T.assume, and give other values with -r";
    case KILN_ERROR_MEMORY:
      return "its scratch memory could not be allocated: try smaller sizes";
    case KILN_ERROR_ASSERT:
      return "an assertion of the kernel failed while it ran; --interpret says which";
    case KILN_ERROR_UNSUPPORTED:
      return absl::StrCat("this machine's processor lacks what ", target,
                          " has, or the system does not let the process use it: compile for this "
                          "machine (--arch host), or use --interpret");
    case KILN_ERROR_DEVICE:
      return "the GPU's driver failed";
    default:
      return absl::StrCat("it returned ", code, ", which kiln_launch.h does not list");
  }
}

}  // namespace

absl::StatusOr<double> CallNative(const codegen::CompileOutput& compiled,
                                  const ir::Program& program, const interp::Options& options,
                                  const std::vector<interp::Tensor>& tensors, int threads) {
  KILN_ASSIGN_OR_RETURN(const std::shared_ptr<void> library, LoadLibrary(compiled.shared_object));
  void* entry = dlsym(library.get(), compiled.name.c_str());
  if (entry == nullptr) {
    return absl::InternalError(absl::StrCat("the artifact lacks '", compiled.name, "'"));
  }
  std::vector<int64_t> arguments;
  std::list<std::vector<int64_t>> tables;
  size_t next = 0;
  for (const ir::Param& p : program.params) {
    if (p.kind != ir::Param::kTensor) continue;
    const interp::Tensor& t = tensors[next++];
    arguments.push_back(reinterpret_cast<int64_t>(t.data()));
    if (!p.buffer->table) continue;
    tables.push_back(AddressesIn(t));
    arguments.back() = reinterpret_cast<int64_t>(tables.back().data());
  }
  for (const ir::Param& p : program.params) {
    if (p.kind != ir::Param::kScalar) continue;
    const auto value = options.scalars.find(p.name);
    if (value == options.scalars.end()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the scalar '", p.name, "' has no value; give --runtime ", p.name, "=VALUE"));
    }
    arguments.push_back(ScalarBits(value->second, p.scalar.dtype()));
  }
  for (const ir::Expr& dim : program.dims) {
    KILN_ASSIGN_OR_RETURN(const int64_t value, DimensionValue(program, dim, options, tensors));
    arguments.push_back(value);
  }
  if (arguments.size() >= kMaxArguments) {
    return absl::UnimplementedError(absl::StrCat("a kernel of ", arguments.size(),
                                                 " parameters; this tool calls up to ",
                                                 kMaxArguments - 1));
  }
  kiln_launch launch = {};
  launch.size = sizeof(launch);
  launch.version = 1;
  launch.threads = threads;
  const auto start = std::chrono::steady_clock::now();
  const int32_t code =
      Dispatch(entry, &launch, arguments, std::make_index_sequence<kMaxArguments>{});
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (code != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the kernel did not run: ", ErrorText(code, compiled.target)));
  }
  return seconds.count();
}

}  // namespace kiln::tools
