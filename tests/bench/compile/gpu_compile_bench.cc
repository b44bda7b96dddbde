// What compiling for a GPU costs: the whole way from kernel text to a shared object with its cubin,
// in this process, beside nvcc on CUDA sources of the same kernels (CUDA is looked for on the
// PATH).
//
//   gpu_compile_bench              prints "name value" lines, the parts of an sm_90a candidate last
//                                  (with an LD_PRELOAD every ptxas is a process of its own)
//   gpu_compile_bench memory       resident memory after 1,000 compiles over that after 100
//   gpu_compile_bench split        the parts of a candidate's time
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/codegen/assembler.h"
#include "compiler/codegen/compile.h"
#include "compiler/target/arch.h"
#include "compiler/templates/templates.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

// C = A B^T, 128 x 256 x 64, as CUTLASS-like CUDA: a producer warpgroup with TMA, two that
// multiply.
constexpr char kHopperSource[] = R"(
#include <cuda.h>
#include <cuda_bf16.h>
#include <cstdint>
constexpr int kStages = 4;
__device__ void wait(uint32_t bar, uint32_t parity) {
  asm volatile("{\n.reg .pred p;\nL:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
               "@!p bra L;\n}"
               :: "r"(bar), "r"(parity) : "memory");
}
__device__ void load(uint32_t to, const CUtensorMap* map, int x, int y, uint32_t bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%2, %3}], [%4];"
               :: "r"(to), "l"(map), "r"(x), "r"(y), "r"(bar) : "memory");
}
__device__ uint64_t describe(uint32_t at) {
  return uint64_t((at >> 4) & 0x3fff) | uint64_t(1) << 16 | uint64_t(64) << 32 | uint64_t(1) << 62;
}
#define R4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define R16(i) R4(i), R4(i + 4), R4(i + 8), R4(i + 12)
__device__ void multiply(float (&d)[128], uint64_t a, uint64_t b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 "
  "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
  "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
  "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
  "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,"
  "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,"
  "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,"
  "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,"
  "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127},"
  " %128, %129, 1, 1, 1, 0, 0;"
  : R16(0), R16(16), R16(32), R16(48), R16(64), R16(80), R16(96), R16(112)
  : "l"(a), "l"(b));
}
extern "C" __global__ void __launch_bounds__(384, 1) gemm(const __grid_constant__ CUtensorMap am,
    const __grid_constant__ CUtensorMap bm, __nv_bfloat16* c, int N, int K) {
  extern __shared__ __align__(1024) unsigned char tiles[];
  __shared__ uint64_t full[kStages], empty[kStages];
  const uint32_t base = __cvta_generic_to_shared(tiles);
  const uint32_t f = __cvta_generic_to_shared(full), e = __cvta_generic_to_shared(empty);
  if (threadIdx.x == 0)
    for (int s = 0; s < kStages; ++s) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(f + 8 * s));
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 8;" :: "r"(e + 8 * s));
    }
  __syncthreads();
  const int steps = K / 64;
  if (threadIdx.x >= 256) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 256)
      for (int k = 0; k < steps; ++k) {
        const int s = k % kStages;
        wait(e + 8 * s, 1 - k / kStages % 2);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 49152;"
                     :: "r"(f + 8 * s));
        load(base + s * 16384, &am, k * 64, blockIdx.y * 128, f + 8 * s);
        load(base + kStages * 16384 + s * 32768, &bm, k * 64, blockIdx.x * 256, f + 8 * s);
      }
    return;
  }
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  float d[128];
  for (int i = 0; i < 128; ++i) d[i] = 0;
  const int group = threadIdx.x / 128;
  for (int k = 0; k < steps; ++k) {
    const int s = k % kStages;
    wait(f + 8 * s, k / kStages % 2);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int i = 0; i < 4; ++i)
      multiply(d, describe(base + s * 16384 + group * 8192 + i * 32),
               describe(base + kStages * 16384 + s * 32768 + i * 32));
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    if (threadIdx.x % 32 == 0)
      asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(e + 8 * s));
  }
  const int row = blockIdx.y * 128 + threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4;
  for (int i = 0; i < 128; i += 4)
    for (int h = 0; h < 2; ++h)
      *reinterpret_cast<__nv_bfloat162*>(c + size_t(row + 8 * h) * N + blockIdx.x * 256 + i * 2 +
          threadIdx.x % 4 * 2) = __floats2bfloat162_rn(d[i + 2 * h], d[i + 2 * h + 1]);
}
)";

// The same on sm_80, 128 x 128 x 32: cp.async, ldmatrix and mma.sync by four warps.
constexpr char kAmpereSource[] = R"(
#include <cuda_bf16.h>
#include <cstdint>
constexpr int kStages = 3;
__device__ void ldmatrix(uint32_t (&r)[4], uint32_t at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
__device__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
               "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ uint32_t place(int row, int chunk) {
  return row * 64 + ((chunk ^ (row / 2 % 4)) * 16);
}
extern "C" __global__ void __launch_bounds__(128)
gemm(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int N, int K) {
  extern __shared__ __align__(128) unsigned char tiles[];
  const uint32_t base = __cvta_generic_to_shared(tiles);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const auto fetch = [&](int k) {
    const uint32_t at = base + k % kStages * 16384;
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = i * 32 + threadIdx.x / 4, chunk = threadIdx.x % 4;
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at + place(row, chunk)),
                   "l"(a + size_t(blockIdx.y * 128 + row) * K + k * 32 + chunk * 8));
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                   :: "r"(at + 8192 + place(row, chunk)),
                   "l"(b + size_t(blockIdx.x * 128 + row) * K + k * 32 + chunk * 8));
    }
  };
  float d[4][8][4] = {};
  const int steps = K / 32;
  for (int s = 0; s < kStages - 1; ++s) {
    fetch(s);
    asm volatile("cp.async.commit_group;");
  }
  for (int k = 0; k < steps; ++k) {
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    if (k + kStages - 1 < steps) fetch(k + kStages - 1);
    asm volatile("cp.async.commit_group;");
    const uint32_t at = base + k % kStages * 16384;
    #pragma unroll
    for (int step = 0; step < 2; ++step) {
      uint32_t right[4][4];
      #pragma unroll
      for (int n = 0; n < 4; ++n)
        ldmatrix(right[n], at + 8192 + place(warp / 2 * 64 + n * 16 + lane % 8 + lane / 16 * 8,
                                             step * 2 + lane / 8 % 2));
      #pragma unroll
      for (int m = 0; m < 4; ++m) {
        uint32_t left[4];
        ldmatrix(left, at + place(warp % 2 * 64 + m * 16 + lane % 16, step * 2 + lane / 16));
        #pragma unroll
        for (int n = 0; n < 8; ++n)
          mma(d[m][n], left, right[n / 2][n % 2 * 2], right[n / 2][n % 2 * 2 + 1]);
      }
    }
  }
  #pragma unroll
  for (int m = 0; m < 4; ++m)
    #pragma unroll
    for (int n = 0; n < 8; ++n)
      #pragma unroll
      for (int h = 0; h < 2; ++h)
        *reinterpret_cast<__nv_bfloat162*>(
            c + size_t(blockIdx.y * 128 + warp % 2 * 64 + m * 16 + h * 8 + lane / 4) * N +
            blockIdx.x * 128 + warp / 2 * 64 + n * 8 + lane % 4 * 2) =
            __floats2bfloat162_rn(d[m][n][2 * h], d[m][n][2 * h + 1]);
}
)";

codegen::CompileInput Input(const std::string& arch, const std::string& config) {
  const KernelTemplate* kernel = FindKernelTemplate("matmul");
  KILN_CHECK(kernel != nullptr);
  codegen::CompileInput input;
  input.kernel_source = std::string(kernel->source);
  input.entry = std::string(kernel->entry);
  input.arguments = {{"M", "4096"},
                     {"N", "4096"},
                     {"K", "4096"},
                     {"dtype", "bfloat16"},
                     {"out_dtype", "bfloat16"},
                     {"trans_B", "True"}};
  input.config = *Config::Parse(config);
  input.arch_record = target::ToText(*target::NamedArch(arch));
  return input;
}

std::vector<codegen::CompileInput> Hopper() {
  std::vector<codegen::CompileInput> slate;
  for (const char* block :
       {"block_M=128,block_N=256,threads=256", "block_M=256,block_N=128,threads=256",
        "block_M=128,block_N=128,threads=256", "block_M=128,block_N=128,threads=128",
        "block_M=64,block_N=256,threads=128"}) {
    for (const char* stages : {"num_stages=3", "num_stages=4"}) {
      for (const char* panel : {"panel=0", "panel=8"}) {
        slate.push_back(
            Input("sm_90a", absl::StrCat("block_K=64,", block, ",", stages, ",", panel)));
      }
    }
  }
  return slate;
}

std::vector<codegen::CompileInput> Ampere() {
  std::vector<codegen::CompileInput> slate;
  for (const char* stages : {"num_stages=2", "num_stages=3", "num_stages=4"}) {
    for (const char* panel : {"panel=0", "panel=8"}) {
      slate.push_back(Input("sm_80", absl::StrCat("block_M=128,block_N=128,block_K=32,threads=128,",
                                                  stages, ",", panel)));
    }
  }
  return slate;
}

void Compile(const codegen::CompileInput& input) {
  const auto out = codegen::CompileKernel(input);
  if (out.ok()) return;
  std::fprintf(stderr, "%s\n", std::string(out.status().message()).c_str());
  std::exit(1);
}

double Seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

// Seconds in all; of each candidate, if asked.
double CompileAll(const std::vector<codegen::CompileInput>& slate, int threads,
                  std::vector<double>* each = nullptr) {
  std::atomic<size_t> next{0};
  std::vector<double> seconds(slate.size());
  const auto start = Clock::now();
  std::vector<std::thread> crew;
  for (int t = 0; t < threads; ++t) {
    crew.emplace_back([&] {
      for (size_t i = next++; i < slate.size(); i = next++) {
        const auto begin = Clock::now();
        Compile(slate[i]);
        seconds[i] = Seconds(begin);
      }
    });
  }
  for (std::thread& t : crew) t.join();
  if (each != nullptr) each->insert(each->end(), seconds.begin(), seconds.end());
  return Seconds(start);
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Seconds that nvcc takes from a source to a cubin; 0 where there is no nvcc.
double Nvcc(const char* source, const char* arch) {
  if (std::system("command -v nvcc > /dev/null") != 0) return 0;
  const std::string path = absl::StrCat("/tmp/kiln-nvcc-", getpid());
  std::ofstream(path + ".cu") << source;
  const std::string command =
      absl::StrCat("nvcc -O3 -arch=", arch, " -cubin -o ", path, ".cubin ", path, ".cu");
  const auto start = Clock::now();
  const bool ok = std::system(command.c_str()) == 0;
  const double seconds = Seconds(start);
  std::remove((path + ".cu").c_str());
  std::remove((path + ".cubin").c_str());
  if (ok) return seconds;
  std::fprintf(stderr, "nvcc failed: %s\n", command.c_str());
  std::exit(1);
}

void Compare(const char* name, const std::vector<codegen::CompileInput>& slate, const char* source,
             const char* arch) {
  CompileAll(slate, 1);  // warm-up
  std::vector<double> each, rival;
  for (int round = 0; round < 3; ++round) {  // interleaved: both see the machine in the same state
    CompileAll(slate, 1, &each);
    rival.push_back(Nvcc(source, arch));
  }
  std::printf("gpu_compile_%s_median_ms %.1f\n", name, Median(each) * 1e3);
  std::printf("gpu_compile_%s_nvcc_ms %.1f\n", name, Median(rival) * 1e3);
  std::printf("gpu_compile_%s_nvcc_ratio %.2f\n", name, Median(rival) / Median(each));
}

int64_t ResidentPages() {
  int64_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident;
}

int Memory() {
  const std::vector<codegen::CompileInput> slate = Hopper();
  int64_t early = 0;
  for (int i = 1; i <= 1000; ++i) {
    Compile(slate[static_cast<size_t>(i) % slate.size()]);
    if (i == 100) early = ResidentPages();
  }
  std::printf("gpu_compile_memory_ratio %.4f\n",
              static_cast<double>(ResidentPages()) / static_cast<double>(early));
  return 0;
}

// Milliseconds of a candidate, the slate's mean: of each candidate the least of five rounds, in
// which other programs disturbed it least.
template <typename F>
double Part(const std::vector<codegen::CompileInput>& slate, F part) {
  double sum = 0;
  for (size_t i = 0; i < slate.size(); ++i) {
    double least = 1e9;
    for (int round = 0; round < 5; ++round) {
      const Clock::time_point start = Clock::now();
      part(i);
      least = std::min(least, Seconds(start) * 1e3);
    }
    sum += least;
  }
  return sum / static_cast<double>(slate.size());
}

struct Parts {
  double whole = 0, front = 0, passes = 0, ptx = 0, assembler = 0, host = 0;
};

Parts SplitOf(const std::vector<codegen::CompileInput>& slate) {
  std::vector<codegen::CompileOutput> made;
  for (const codegen::CompileInput& input : slate) {
    absl::StatusOr<codegen::CompileOutput> out = codegen::CompileKernel(input);
    KILN_CHECK(out.ok());
    made.push_back(*std::move(out));
  }
  Parts p;
  p.whole = Part(slate, [&](size_t i) { Compile(slate[i]); });
  p.front = Part(slate, [&](size_t i) { KILN_CHECK(codegen::EmitStage(slate[i], "tile").ok()); });
  p.passes =
      Part(slate, [&](size_t i) { KILN_CHECK(codegen::LowerKernel(slate[i]).ok()); }) - p.front;
  p.ptx = Part(slate, [&](size_t i) { KILN_CHECK(codegen::EmitStage(slate[i], "asm").ok()); }) -
          p.passes - p.front;
  p.assembler = Part(slate, [&](size_t i) {
    KILN_CHECK(codegen::Assemble(made[i].assembly, made[i].target).ok());
  });
  p.host = p.whole - p.front - p.passes - p.ptx - p.assembler;
  return p;
}

void PrintSplit(const char* name, const std::vector<codegen::CompileInput>& slate) {
  const Parts p = SplitOf(slate);
  std::printf("%-8s whole %.1f: front %.1f, passes %.1f, PTX %.1f, assembler %.1f, host %.1f ms\n",
              name, p.whole, p.front, p.passes, p.ptx, p.assembler, p.host);
}

int Split() {
  PrintSplit("sm_90a", Hopper());
  PrintSplit("sm_80", Ampere());
  return 0;
}

void PrintParts(const char* name, const std::vector<codegen::CompileInput>& slate) {
  const Parts p = SplitOf(slate);
  for (const auto& [part, ms] : {std::pair<const char*, double>("front", p.front),
                                 {"passes", p.passes},
                                 {"ptx", p.ptx},
                                 {"assembler", p.assembler},
                                 {"host", p.host}}) {
    std::printf("gpu_compile_%s_%s_ms %.1f\n", name, part, ms);
  }
}

int Main() {
  Compare("sm_90a", Hopper(), kHopperSource, "sm_90a");
  Compare("sm_80", Ampere(), kAmpereSource, "sm_80");
  const std::vector<codegen::CompileInput> slate = Hopper();
  CompileAll(slate, 2);  // warm-up: each thread has an assembler of its own
  double one = 0, two = 0;
  for (int round = 0; round < 3; ++round) {
    one += CompileAll(slate, 1);
    two += CompileAll(slate, 2);
  }
  std::printf("gpu_compile_two_threads_speedup %.2f\n", one / two);
  PrintParts("sm_90a", slate);
  return 0;
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  return what == "memory" ? kiln::Memory() : what == "split" ? kiln::Split() : kiln::Main();
}
