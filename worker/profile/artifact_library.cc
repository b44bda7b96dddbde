#include "worker/profile/artifact_library.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"

namespace kiln::worker {
namespace {

constexpr size_t kMaxArguments = 64;
using Words = std::array<uint64_t, kMaxArguments>;

template <size_t>
using Word = uint64_t;

// Pointers and int64 are passed alike, and the caller cleans the stack, so words behind those that
// the entry point declares are not seen by it (System V ABI of x86-64, AAPCS64).
template <size_t... I>
int32_t CallIndexed(void* entry, const kiln_launch& launch, const Words& words,
                    std::index_sequence<I...>) {
  using Entry = int32_t (*)(const kiln_launch*, Word<I>...);
  return reinterpret_cast<Entry>(entry)(&launch, words[I]...);
}

template <size_t N>
int32_t CallWith(void* entry, const kiln_launch& launch, const Words& words) {
  return CallIndexed(entry, launch, words, std::make_index_sequence<N>());
}

// dlopen maps what the headers promise and dies of SIGBUS when a truncated file does not hold it.
bool IsWholeElf(const std::string& bytes) {
  Elf64_Ehdr header;
  if (bytes.size() < sizeof(header)) return false;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return false;
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr)) {
    return false;
  }
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    uint64_t at = header.e_phoff + i * sizeof(Elf64_Phdr);
    Elf64_Phdr segment;
    if (at < header.e_phoff || at > bytes.size() - sizeof(segment)) return false;
    std::memcpy(&segment, bytes.data() + at, sizeof(segment));
    if (segment.p_offset > bytes.size() || segment.p_filesz > bytes.size() - segment.p_offset) {
      return false;
    }
  }
  return true;
}

absl::Status WriteAll(int fd, const std::string& bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    ssize_t n = ::write(fd, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return absl::ResourceExhaustedError("cannot write the shared object");
    done += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

// The descriptors of one memory file.
class MemoryFile {
 public:
  MemoryFile() : descriptors_({::memfd_create("kiln-candidate", MFD_CLOEXEC)}) {}
  ~MemoryFile() {
    for (int fd : descriptors_) ::close(fd);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  int fd() const { return descriptors_.back(); }
  std::string path() const { return absl::StrCat("/proc/self/fd/", fd()); }
  // Another path of the same file. False: there are no more descriptors.
  bool Rename() {
    descriptors_.push_back(::fcntl(fd(), F_DUPFD_CLOEXEC, 0));
    return fd() >= 0;
  }

 private:
  std::vector<int> descriptors_;
};

bool IsLoaded(const std::string& path) {
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (library != nullptr) ::dlclose(library);
  return library != nullptr;
}

absl::StatusOr<void*> LoadFile(const std::string& path) {
  // RTLD_NODELETE is not set: the object goes with its last user.
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  return absl::InvalidArgumentError(absl::StrCat("the shared object does not load: ", ::dlerror()));
}

absl::StatusOr<void*> LoadFromDisk(const std::string& bytes, const std::string& scratch_dir) {
  std::string path = scratch_dir + "/candidate-XXXXXX";
  const int fd = ::mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) return absl::UnavailableError("no place for the shared object");
  const absl::Status written = WriteAll(fd, bytes);
  const absl::StatusOr<void*> library = written.ok() ? LoadFile(path) : written;
  ::close(fd);
  ::unlink(path.c_str());
  return library;
}

// dlopen by way of a file that nobody else sees. What dlopen knows by its path it takes for that,
// whatever the file is by now: of several objects at a time each needs a path of its own, and the
// number of a descriptor that was closed comes again.
absl::StatusOr<void*> LoadBytes(const std::string& bytes, const std::string& scratch_dir) {
  MemoryFile file;
  if (file.fd() < 0) return LoadFromDisk(bytes, scratch_dir);
  KILN_RETURN_IF_ERROR(WriteAll(file.fd(), bytes));
  while (IsLoaded(file.path())) {
    if (!file.Rename()) return absl::UnavailableError("no descriptor for the shared object");
  }
  return LoadFile(file.path());
}

}  // namespace

absl::StatusOr<std::unique_ptr<ArtifactLibrary>> ArtifactLibrary::Open(
    const v1::ArtifactBundle& bundle, const std::string& scratch_dir) {
  if (!IsWholeElf(bundle.shared_object())) {
    return absl::InvalidArgumentError("the artifact holds no whole shared object");
  }
  KILN_ASSIGN_OR_RETURN(void* library, LoadBytes(bundle.shared_object(), scratch_dir));
  void* entry = ::dlsym(library, bundle.name().c_str());
  if (entry == nullptr) {
    ::dlclose(library);
    return absl::NotFoundError(
        absl::StrCat("the artifact exports no function '", bundle.name(), "'"));
  }
  return std::unique_ptr<ArtifactLibrary>(new ArtifactLibrary(library, entry));
}

ArtifactLibrary::~ArtifactLibrary() { ::dlclose(library_); }

int32_t ArtifactLibrary::Call(const kiln_launch& launch, const LaunchArguments& arguments) const {
  Words words = {};
  size_t count = 0;
  for (void* pointer : arguments.pointers) words[count++] = reinterpret_cast<uint64_t>(pointer);
  for (int64_t value : arguments.values) words[count++] = static_cast<uint64_t>(value);
  if (count <= 8) return CallWith<8>(entry_, launch, words);
  if (count <= 16) return CallWith<16>(entry_, launch, words);
  return CallWith<kMaxArguments>(entry_, launch, words);
}

absl::Status CheckArgumentCount(const LaunchArguments& arguments) {
  size_t count = arguments.pointers.size() + arguments.values.size();
  if (count <= kMaxArguments) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the kernel has ", count, " arguments; the limit is ", kMaxArguments));
}

absl::Status ExplainReturn(int32_t code) {
  switch (code) {
    case KILN_OK:
      return absl::OkStatus();
    case KILN_ERROR_ARGUMENT:
      return absl::InternalError("the kernel refused its arguments (KILN_ERROR_ARGUMENT)");
    case KILN_ERROR_MEMORY:
      return absl::InternalError("the kernel got no scratch memory (KILN_ERROR_MEMORY)");
    case KILN_ERROR_ASSERT:
      return absl::InternalError("an assertion of the kernel failed (KILN_ERROR_ASSERT)");
    case KILN_ERROR_UNSUPPORTED:
      return absl::InternalError(
          "the processor lacks what the artifact was compiled for, or the system does not let this "
          "process use it (KILN_ERROR_UNSUPPORTED)");
    case KILN_ERROR_DEVICE:
      return absl::InternalError("the GPU's driver failed (KILN_ERROR_DEVICE)");
    default:
      return absl::InternalError(absl::StrCat("the kernel returned the unknown code ", code));
  }
}

}  // namespace kiln::worker
