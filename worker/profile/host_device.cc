#include "worker/profile/host_device.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "compiler/base/status.h"
#include "compiler/codegen/runtime/kiln_launch.h"

namespace kiln::worker {
namespace {

// /proc/stat counts stolen time in ticks of 10 ms: for shorter launches it says nothing.
constexpr double kStealVisibleNs = 10e6;
constexpr size_t kMaxArguments = 64;

class HostKernel : public LoadedKernel {
 public:
  HostKernel(void* library, void* entry, int threads)
      : library_(library), entry_(entry), threads_(threads) {}
  ~HostKernel() override { ::dlclose(library_); }

  int32_t Call(const LaunchArguments& arguments) const {
    kiln_launch launch = {};
    launch.size = sizeof(launch);
    launch.version = 1;
    launch.threads = threads_;
    std::array<uint64_t, kMaxArguments> words = {};
    size_t count = 0;
    for (void* pointer : arguments.pointers) words[count++] = reinterpret_cast<uint64_t>(pointer);
    for (int64_t value : arguments.values) words[count++] = static_cast<uint64_t>(value);
    if (count <= 8) return CallWith<8>(launch, words);
    if (count <= 16) return CallWith<16>(launch, words);
    return CallWith<kMaxArguments>(launch, words);
  }

 private:
  template <size_t>
  using Word = uint64_t;

  // Pointers and int64 are passed alike, and the caller cleans the stack, so words behind those
  // that the entry point declares are not seen by it (System V ABI of x86-64, AAPCS64).
  template <size_t... I>
  int32_t CallIndexed(const kiln_launch& launch, const std::array<uint64_t, kMaxArguments>& words,
                      std::index_sequence<I...>) const {
    using Entry = int32_t (*)(const kiln_launch*, Word<I>...);
    return reinterpret_cast<Entry>(entry_)(&launch, words[I]...);
  }
  template <size_t N>
  int32_t CallWith(const kiln_launch& launch,
                   const std::array<uint64_t, kMaxArguments>& words) const {
    return CallIndexed(launch, words, std::make_index_sequence<N>());
  }

  void* library_;
  void* entry_;
  int threads_;
};

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
    default:
      return absl::InternalError(absl::StrCat("the kernel returned the unknown code ", code));
  }
}

int64_t InvoluntarySwitches() {
  rusage usage;
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

// Ticks that a hypervisor took from this machine; 0 where the system does not say.
int64_t StolenTicks() {
  std::ifstream stat("/proc/stat");
  std::string line;
  if (!std::getline(stat, line)) return 0;
  std::vector<std::string> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
  int64_t stolen = 0;
  if (fields.size() > 8) (void)absl::SimpleAtoi(fields[8], &stolen);
  return stolen;
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

class HostDevice : public Device {
 public:
  HostDevice(int64_t cache_bytes, std::string scratch_dir)
      : cache_bytes_(cache_bytes > 0 ? cache_bytes : LastLevelCacheBytes()),
        scratch_dir_(std::move(scratch_dir)) {}

  std::string name() const override { return "cpu"; }
  int64_t cache_bytes() const override { return cache_bytes_; }

  absl::StatusOr<std::unique_ptr<LoadedKernel>> Load(const v1::ArtifactBundle& bundle,
                                                     int threads) override {
    if (!IsWholeElf(bundle.shared_object())) {
      return absl::InvalidArgumentError("the artifact holds no whole shared object");
    }
    KILN_ASSIGN_OR_RETURN(void* library, Open(bundle.shared_object()));
    void* entry = ::dlsym(library, bundle.name().c_str());
    if (entry == nullptr) {
      ::dlclose(library);
      return absl::NotFoundError(
          absl::StrCat("the artifact exports no function '", bundle.name(), "'"));
    }
    return std::unique_ptr<LoadedKernel>(std::make_unique<HostKernel>(library, entry, threads));
  }

  absl::StatusOr<void*> Allocate(int64_t bytes) override {
    void* address = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) {
      return absl::ResourceExhaustedError(absl::StrCat("no room for ", bytes, " bytes"));
    }
    return address;
  }
  void Free(void* address, int64_t bytes) override {
    ::munmap(address, static_cast<size_t>(bytes));
  }
  absl::Status Write(void* to, const void* from_host, int64_t bytes) override {
    std::memcpy(to, from_host, static_cast<size_t>(bytes));
    return absl::OkStatus();
  }
  absl::Status Read(void* to_host, const void* from, int64_t bytes) override {
    std::memcpy(to_host, from, static_cast<size_t>(bytes));
    return absl::OkStatus();
  }

  absl::Status Launch(LoadedKernel* kernel, const LaunchArguments& arguments) override {
    KILN_RETURN_IF_ERROR(CheckCount(arguments));
    return ExplainReturn(static_cast<HostKernel*>(kernel)->Call(arguments));
  }

  absl::StatusOr<std::vector<Sample>> Time(LoadedKernel* kernel,
                                           absl::Span<const LaunchArguments> launches) override {
    using Clock = std::chrono::steady_clock;
    const auto* host_kernel = static_cast<HostKernel*>(kernel);
    std::vector<Sample> samples;
    samples.reserve(launches.size());
    int64_t stolen_before = StolenTicks();
    for (const LaunchArguments& arguments : launches) {
      KILN_RETURN_IF_ERROR(CheckCount(arguments));
      int64_t switches = InvoluntarySwitches();
      Clock::time_point begin = Clock::now();
      int32_t code = host_kernel->Call(arguments);
      Clock::time_point end = Clock::now();
      KILN_RETURN_IF_ERROR(ExplainReturn(code));
      Sample sample;
      sample.ns = std::chrono::duration<double, std::nano>(end - begin).count();
      sample.disturbed = InvoluntarySwitches() != switches;
      if (sample.ns >= kStealVisibleNs) {
        int64_t stolen = StolenTicks();
        sample.disturbed = sample.disturbed || stolen != stolen_before;
        stolen_before = stolen;
      }
      samples.push_back(sample);
    }
    return samples;
  }

 private:
  static absl::Status CheckCount(const LaunchArguments& arguments) {
    size_t count = arguments.pointers.size() + arguments.values.size();
    if (count <= kMaxArguments) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("the kernel has ", count, " arguments; the limit is ", kMaxArguments));
  }

  // dlopen by way of a file that nobody else sees. RTLD_NODELETE is not set: the object goes with
  // its last user, so that thousands of candidates do not pile up.
  absl::StatusOr<void*> Open(const std::string& bytes) {
    int fd = ::memfd_create("kiln-candidate", MFD_CLOEXEC);
    std::string path;
    if (fd >= 0) {
      path = absl::StrCat("/proc/self/fd/", fd);
    } else {
      path = scratch_dir_ + "/candidate-XXXXXX";
      fd = ::mkostemp(path.data(), O_CLOEXEC);
      if (fd < 0) return absl::UnavailableError("no place for the shared object");
    }
    absl::Status written = WriteAll(fd, bytes);
    void* library = nullptr;
    std::string error;
    if (written.ok()) {
      library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (library == nullptr) error = ::dlerror();
    }
    ::close(fd);
    if (!absl::StartsWith(path, "/proc/")) ::unlink(path.c_str());
    KILN_RETURN_IF_ERROR(written);
    if (library != nullptr) return library;
    return absl::InvalidArgumentError(absl::StrCat("the shared object does not load: ", error));
  }

  const int64_t cache_bytes_;
  const std::string scratch_dir_;
};

}  // namespace

int64_t LastLevelCacheBytes() {
  int64_t largest = 0;
  for (int index = 0; index < 16; ++index) {
    std::ifstream in(absl::StrCat("/sys/devices/system/cpu/cpu0/cache/index", index, "/size"));
    std::string text;
    if (!(in >> text)) continue;
    int64_t unit = 1;
    absl::string_view digits = text;
    if (absl::ConsumeSuffix(&digits, "K")) unit = 1 << 10;
    if (absl::ConsumeSuffix(&digits, "M")) unit = 1 << 20;
    int64_t size = 0;
    if (absl::SimpleAtoi(digits, &size)) largest = std::max(largest, size * unit);
  }
  return largest;
}

std::unique_ptr<Device> MakeHostDevice(int64_t cache_bytes, const std::string& scratch_dir) {
  return std::make_unique<HostDevice>(cache_bytes, scratch_dir);
}

}  // namespace kiln::worker
