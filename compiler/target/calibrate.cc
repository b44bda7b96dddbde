#include "compiler/target/calibrate.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace kiln::target {

#if defined(__x86_64__)

namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// Keeps a value alive without storing it.
template <typename T>
void Keep(const T& value) {
  __asm__ volatile("" : : "m"(value) : "memory");
}

// ---- arithmetic kernels: `rounds` rounds of independent chains; the operation count is returned
// --

#define KILN_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))
#define KILN_AVX512BF16 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#define KILN_AVX2 __attribute__((target("avx2,fma")))
#define KILN_AMX __attribute__((target("amx-tile,amx-bf16")))

KILN_AVX512 double FmaF32Avx512(int64_t rounds) {
  __m512 acc[12];
  for (int i = 0; i < 12; ++i) acc[i] = _mm512_set1_ps(1.0f + i);
  const __m512 x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(0.001f);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) acc[i] = _mm512_fmadd_ps(acc[i], x, y);
  }
  for (auto& v : acc) Keep(v);
  return static_cast<double>(rounds) * 12 * 16 * 2;
}

KILN_AVX512 double FmaF64Avx512(int64_t rounds) {
  __m512d acc[12];
  for (int i = 0; i < 12; ++i) acc[i] = _mm512_set1_pd(1.0 + i);
  const __m512d x = _mm512_set1_pd(0.999), y = _mm512_set1_pd(0.001);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) acc[i] = _mm512_fmadd_pd(acc[i], x, y);
  }
  for (auto& v : acc) Keep(v);
  return static_cast<double>(rounds) * 12 * 8 * 2;
}

KILN_AVX512BF16 double DotBf16Avx512(int64_t rounds) {
  __m512 acc[12];
  for (int i = 0; i < 12; ++i) acc[i] = _mm512_set1_ps(1.0f + i);
  const __m512bh x = (__m512bh)_mm512_set1_epi32(0x3f803f80);
  const __m512bh y = (__m512bh)_mm512_set1_epi32(0x38003800);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) acc[i] = _mm512_dpbf16_ps(acc[i], x, y);
  }
  for (auto& v : acc) Keep(v);
  return static_cast<double>(rounds) * 12 * 32 * 2;
}

KILN_AVX2 double FmaF32Avx2(int64_t rounds) {
  __m256 acc[12];
  for (int i = 0; i < 12; ++i) acc[i] = _mm256_set1_ps(1.0f + i);
  const __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) acc[i] = _mm256_fmadd_ps(acc[i], x, y);
  }
  for (auto& v : acc) Keep(v);
  return static_cast<double>(rounds) * 12 * 8 * 2;
}

KILN_AVX2 double FmaF64Avx2(int64_t rounds) {
  __m256d acc[12];
  for (int i = 0; i < 12; ++i) acc[i] = _mm256_set1_pd(1.0 + i);
  const __m256d x = _mm256_set1_pd(0.999), y = _mm256_set1_pd(0.001);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) acc[i] = _mm256_fmadd_pd(acc[i], x, y);
  }
  for (auto& v : acc) Keep(v);
  return static_cast<double>(rounds) * 12 * 4 * 2;
}

// The system grants tile registers to a process on request.
bool RequestTiles() {
  constexpr long kArchReqXcompPerm = 0x1023;
  constexpr long kTileData = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kTileData) == 0;
}

KILN_AMX double DotBf16Amx(int64_t rounds) {
  alignas(64) uint8_t config[64] = {};
  config[0] = 1;
  for (int t = 0; t < 8; ++t) {
    config[16 + 2 * t] = 64;  // bytes a row
    config[48 + t] = 16;      // rows
  }
  __asm__ volatile("" : : "r"(config) : "memory");  // all 64 bytes are read
  _tile_loadconfig(config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  for (int64_t r = 0; r < rounds; ++r) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  return static_cast<double>(rounds) * 4 * 16 * 16 * 32 * 2;
}

// A chain of multiplications, three cycles each on every x86-64 of the last fifteen years
// (additions will not do: recent cores fold chains of small additions away). Counts cycles.
double MultiplyChain(int64_t rounds) {
  uint64_t x = 3;
  for (int64_t r = 0; r < rounds; ++r) {
    __asm__ volatile("imul %0, %0\n\timul %0, %0\n\timul %0, %0\n\timul %0, %0" : "+r"(x));
  }
  Keep(x);
  return static_cast<double>(rounds) * 4 * 3;
}

// ---- memory kernels
// ------------------------------------------------------------------------------

KILN_AVX512 void Read512(char* p, int64_t bytes) {
  __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
  for (int64_t i = 0; i < bytes; i += 256) {
    a = _mm512_or_si512(a, _mm512_load_si512(p + i));
    b = _mm512_or_si512(b, _mm512_load_si512(p + i + 64));
    c = _mm512_or_si512(c, _mm512_load_si512(p + i + 128));
    d = _mm512_or_si512(d, _mm512_load_si512(p + i + 192));
  }
  Keep(a);
  Keep(b);
  Keep(c);
  Keep(d);
}

KILN_AVX512 void Write512(char* p, int64_t bytes) {
  const __m512i v = _mm512_set1_epi32(7);
  for (int64_t i = 0; i < bytes; i += 256) {
    _mm512_store_si512(p + i, v);
    _mm512_store_si512(p + i + 64, v);
    _mm512_store_si512(p + i + 128, v);
    _mm512_store_si512(p + i + 192, v);
    Keep(p);
  }
}

KILN_AVX512 void Copy512(char* p, int64_t bytes) {
  char* const q = p + bytes / 2;
  for (int64_t i = 0; i < bytes / 2; i += 128) {
    _mm512_store_si512(q + i, _mm512_load_si512(p + i));
    _mm512_store_si512(q + i + 64, _mm512_load_si512(p + i + 64));
    Keep(q);
  }
}

KILN_AVX2 void Read256(char* p, int64_t bytes) {
  __m256i a = _mm256_setzero_si256(), b = a;
  for (int64_t i = 0; i < bytes; i += 64) {
    a = _mm256_or_si256(a, _mm256_load_si256(reinterpret_cast<__m256i*>(p + i)));
    b = _mm256_or_si256(b, _mm256_load_si256(reinterpret_cast<__m256i*>(p + i + 32)));
  }
  Keep(a);
  Keep(b);
}

KILN_AVX2 void Write256(char* p, int64_t bytes) {
  const __m256i v = _mm256_set1_epi32(7);
  for (int64_t i = 0; i < bytes; i += 64) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(p + i), v);
    _mm256_store_si256(reinterpret_cast<__m256i*>(p + i + 32), v);
    Keep(p);
  }
}

KILN_AVX2 void Copy256(char* p, int64_t bytes) {
  char* const q = p + bytes / 2;
  for (int64_t i = 0; i < bytes / 2; i += 32) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(q + i),
                       _mm256_load_si256(reinterpret_cast<__m256i*>(p + i)));
    Keep(q);
  }
}

using MemoryKernel = void (*)(char*, int64_t);
using RateKernel = double (*)(int64_t);

// Zeroed pages, 2 MiB ones where the system grants them.
class Pages {
 public:
  explicit Pages(int64_t bytes) : bytes_(bytes) {
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return;
    madvise(p, bytes, MADV_HUGEPAGE);
    data_ = static_cast<char*>(p);
    std::memset(data_, 1, bytes);
  }
  ~Pages() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  char* data() const { return data_; }

 private:
  int64_t bytes_;
  char* data_ = nullptr;
};

double ThreadSeconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Best effort: a machine that refuses just measures a little less steadily.
void PinToAllowedCore(int index) {
  cpu_set_t allowed, one;
  CPU_ZERO(&allowed);
  CPU_ZERO(&one);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || index-- > 0) continue;
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

// Runs work(thread) on `threads` threads that start together, each on its own core.
struct Spans {
  double wall = 0;          // seconds from the first start to the last end
  std::vector<double> cpu;  // processor seconds of each thread: waiting for a core is not in them
};
Spans Together(int threads, const std::function<void(int)>& work) {
  Spans spans;
  spans.cpu.resize(threads);
  std::atomic<int> ready{0};
  std::vector<Clock::time_point> begin(threads), end(threads);
  const auto one = [&](int t) {
    ready.fetch_add(1);
    while (ready.load() < threads) std::this_thread::yield();
    begin[t] = Clock::now();
    const double from = ThreadSeconds();
    work(t);
    spans.cpu[t] = ThreadSeconds() - from;
    end[t] = Clock::now();
  };
  if (threads == 1) {
    one(0);
  } else {
    std::vector<std::thread> pool;
    for (int t = 0; t < threads; ++t) {
      pool.emplace_back([&one, t] {
        PinToAllowedCore(t);
        one(t);
      });
    }
    for (std::thread& t : pool) t.join();
  }
  spans.wall = Seconds(*std::min_element(begin.begin(), begin.end()),
                       *std::max_element(end.begin(), end.end()));
  return spans;
}

// GFLOP/s of `kernel` on `threads` threads together: best of six runs of about 3 ms, by processor
// time, because arithmetic shares nothing between cores but the clock.
double Rate(RateKernel kernel, int threads) {
  int64_t rounds = 1000;
  double seconds = 0;
  while (rounds < (int64_t{1} << 40)) {
    const double from = ThreadSeconds();
    kernel(rounds);
    seconds = ThreadSeconds() - from;
    if (seconds > 5e-4) break;
    rounds *= 4;
  }
  rounds = std::max<int64_t>(1, static_cast<int64_t>(rounds * 3e-3 / seconds));
  double best = 0;
  for (int run = 0; run < 6; ++run) {
    std::vector<double> work(threads);
    const Spans spans = Together(threads, [&](int t) { work[t] = kernel(rounds); });
    double total = 0;
    for (int t = 0; t < threads; ++t) total += work[t] / std::max(spans.cpu[t], 1e-9) / 1e9;
    best = std::max(best, total);
  }
  return best;
}

// Writes back and drops the lines of [p, p + bytes) from every cache.
void Evict(char* p, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) _mm_clflush(p + i);
  _mm_mfence();
}

// GB/s of streaming over `bytes` a thread, `threads` threads together, each over its own part. Runs
// are slices of a few milliseconds that walk through the part, evicted first when `cold`; those in
// which a thread had to wait for a core count only when there is nothing better. Best of five good
// ones.
double Bandwidth(MemoryKernel kernel, const Pages& pages, int64_t bytes, int threads, bool cold) {
  constexpr int64_t kSlice = int64_t{6} << 20;
  constexpr int kGood = 4;
  constexpr double kBudget = 0.03;  // seconds
  bytes = bytes / 4096 * 4096;
  const int64_t slice = std::min(bytes, kSlice);
  const int64_t slices = bytes / slice;
  const int64_t sweeps = std::max<int64_t>(1, kSlice / slice);
  double best = 0, best_disturbed = 0, spent = 0;
  int good = 0;
  for (int run = 0; good < kGood && (spent < kBudget || run < kGood); ++run) {
    const auto part = [&](int t) { return pages.data() + t * bytes + run % slices * slice; };
    for (int t = 0; cold && t < threads; ++t) Evict(part(t), slice);
    const Spans spans = Together(threads, [&](int t) {
      for (int64_t i = 0; i < sweeps; ++i) kernel(part(t), slice);
    });
    spent += spans.wall;
    const double rate = static_cast<double>(slice * sweeps * threads) / spans.wall / 1e9;
    const double least = *std::min_element(spans.cpu.begin(), spans.cpu.end());
    if (least < 0.9 * spans.wall) {
      best_disturbed = std::max(best_disturbed, rate);
      continue;
    }
    best = std::max(best, rate);
    ++good;
  }
  return best > 0 ? best : best_disturbed;
}

struct MemoryKernels {
  MemoryKernel read, write, copy;
};

void MeasureLevel(MemoryLevel& level, const MemoryKernels& k, const Pages& pages, int64_t bytes,
                  int cores, bool cold = false) {
  level.read_core = Bandwidth(k.read, pages, bytes, 1, cold);
  level.write_core = Bandwidth(k.write, pages, bytes, 1, cold);
  level.copy_core = Bandwidth(k.copy, pages, bytes, 1, cold);
  if (cores == 1) {
    level.read_all = level.read_core;
    level.write_all = level.write_core;
    level.copy_all = level.copy_core;
    return;
  }
  level.read_all = std::max(level.read_core, Bandwidth(k.read, pages, bytes, cores, cold));
  level.write_all = std::max(level.write_core, Bandwidth(k.write, pages, bytes, cores, cold));
  level.copy_all = std::max(level.copy_core, Bandwidth(k.copy, pages, bytes, cores, cold));
}

void MeasureUnits(Arch& arch) {
  const bool wide = arch.vector_bits >= 512;
  const int n = arch.cores;
  std::vector<ComputeUnit> units;
  const auto add = [&](const char* unit, DType type, RateKernel kernel) {
    const double core = Rate(kernel, 1);
    units.push_back({unit, type, core, n == 1 ? core : std::max(core, Rate(kernel, n))});
  };
  if (wide) {
    add("fma", kFloat32, FmaF32Avx512);
    add("fma", kFloat64, FmaF64Avx512);
  } else if (arch.Has("fma")) {
    add("fma", kFloat32, FmaF32Avx2);
    add("fma", kFloat64, FmaF64Avx2);
  }
  if (wide && arch.Has("avx512bf16")) add("dot", kBFloat16, DotBf16Avx512);
  if (arch.Has("amx-tile") && arch.Has("amx-bf16") && RequestTiles()) {
    add("tensor", kBFloat16, DotBf16Amx);
  }
  if (!units.empty()) arch.units = std::move(units);
}

void MeasureMemory(Arch& arch) {
  const bool wide = arch.vector_bits >= 512;
  if (!wide && !arch.Has("avx2")) return;
  const MemoryKernels k =
      wide ? MemoryKernels{Read512, Write512, Copy512} : MemoryKernels{Read256, Write256, Copy256};
  constexpr int64_t kMiB = 1 << 20;
  const int n = arch.cores;
  const int64_t l1 = arch.l1.bytes / 2;
  const int64_t l2 = arch.l2.bytes / 2;
  const int64_t llc = std::clamp<int64_t>(arch.llc.bytes / (4 * n), l2, 8 * kMiB);
  const int64_t dram = 24 * kMiB;
  const Pages pages(n * std::max({dram, llc, l2}));
  if (pages.data() == nullptr) return;
  MeasureLevel(arch.l1, k, pages, l1, n);
  MeasureLevel(arch.l2, k, pages, l2, n);
  MeasureLevel(arch.llc, k, pages, llc, n);
  MeasureLevel(arch.dram, k, pages, dram, n, /*cold=*/true);
  arch.dram.bytes = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

// Waking sleeping helpers, one task each, and waiting for them: what a parallel-for costs, ns.
// Median of those in which no helper waited for a core, as for a time slice on a busy machine;
// `nominal` where each did.
double MeasureLaunch(int cores, double nominal) {
  constexpr int kRuns = 100;
  constexpr double kBudget = 1;                // seconds
  const double waited = 1e-3 + 20e-6 * cores;  // seconds: of a time slice some are more
  if (cores == 1) return 100;
  std::atomic<int> generation{0}, done{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> helpers;
  for (int t = 1; t < cores; ++t) {
    helpers.emplace_back([&] {
      int seen = 0;
      while (true) {
        generation.wait(seen);
        if (stop.load()) return;
        seen = generation.load();
        done.fetch_add(1);
        done.notify_one();
      }
    });
  }
  std::vector<double> ns;
  const auto begin = Clock::now();
  for (int run = 0; run < kRuns && Seconds(begin, Clock::now()) < kBudget; ++run) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));  // let them sleep
    done.store(0);
    const auto from = Clock::now();
    generation.fetch_add(1);
    generation.notify_all();
    for (int d = done.load(); d < cores - 1; d = done.load()) done.wait(d);
    const double seconds = Seconds(from, Clock::now());
    if (seconds < waited) ns.push_back(seconds * 1e9);
  }
  stop.store(true);
  generation.fetch_add(1);
  generation.notify_all();
  for (std::thread& t : helpers) t.join();
  if (ns.empty()) return nominal;
  std::nth_element(ns.begin(), ns.begin() + ns.size() / 2, ns.end());
  return ns[ns.size() / 2];
}

}  // namespace

void Calibrate(Arch& arch) {
  arch.clock_ghz = Rate(MultiplyChain, 1);
  MeasureUnits(arch);
  MeasureMemory(arch);
  arch.launch_ns = MeasureLaunch(arch.cores, arch.launch_ns);
  arch.calibrated = true;
}

#else

void Calibrate(Arch&) {}

#endif

}  // namespace kiln::target
