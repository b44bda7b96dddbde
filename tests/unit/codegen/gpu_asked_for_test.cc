// Instructions that kernels ask for, as GPU code: tf32, additions to neighbours, cache hints.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/unit/codegen/gpu_compile.h"

namespace kiln {
namespace {

// The template with a pass option.
codegen::CompileInput WithOption(codegen::CompileInput input, const std::string& option) {
  const std::string decorator = "@tilelang.jit(";
  const size_t at = input.kernel_source.find(decorator);
  EXPECT_NE(at, std::string::npos) << input.kernel_path;
  input.kernel_source.insert(at + decorator.size(), absl::StrCat("pass_configs={", option, "}, "));
  return input;
}

TEST_F(GpuAssemble, ProductsOfTf32AssembleWithoutSpills) {
  const auto check = [](const std::string& arch, const char* trans_a, const char* trans_b,
                        const std::string& columns) {
    const std::string config =
        absl::StrCat("block_M=128,block_N=", columns, ",block_K=32,num_stages=3,threads=128");
    const Case c = {"matmul", Product("float32", "float32", trans_a, trans_b), config.c_str()};
    const auto ptx = codegen::EmitStage(WithOption(Input(c, arch), "\"kiln.tf32\": 1"), "asm");
    ASSERT_TRUE(ptx.ok()) << ptx.status();
    const bool k_major = trans_a == std::string("False") && trans_b == std::string("True");
    const bool loaded = trans_a == std::string(trans_b);  // from registers, the other as it lies
    const bool wgmma = (k_major || loaded) && arch == "sm_90a";
    const bool tcgen05 = k_major && arch == "sm_100a";
    const bool mma = !wgmma && !tcgen05;
    EXPECT_EQ(absl::StrContains(*ptx, absl::StrCat(".m64n", columns, "k8.f32.tf32.tf32")), wgmma);
    EXPECT_EQ(absl::StrContains(*ptx, "tcgen05.mma.cta_group::1.kind::tf32"), tcgen05) << arch;
    EXPECT_EQ(absl::StrContains(*ptx, ".m16n8k8.row.col.f32.tf32.tf32.f32"), mma) << arch;
    EXPECT_EQ(absl::StrContains(*ptx, "cvt.rna.tf32.f32"), mma) << arch;
    ExpectAssembles(absl::StrCat("tf32 ", trans_a, " ", trans_b, " ", columns), *ptx, arch);
  };
  for (const char* arch : {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a"}) {
    for (const char* trans_a : {"False", "True"}) {
      for (const char* trans_b : {"False", "True"}) {
        check(arch, trans_a, trans_b, "128");
      }
    }
  }
}

// Results of 16 bits go to shared memory by matrices, where the GPU has an instruction for it.
TEST_F(GpuAssemble, ResultsAreStoredByMatrices) {
  const char* config = "block_M=128,block_N=128,block_K=64,num_stages=3,threads=128";
  for (const char* type : {"float16", "bfloat16"}) {
    for (const char* out : {type, "float32"}) {
      const Case c = {"matmul", Product(type, out, "False", "True"), config};
      const std::string ptx = Ptx(c, "sm_90a");
      const bool narrow = out == std::string(type);
      EXPECT_EQ(absl::StrContains(ptx, "stmatrix.sync.aligned.m8n8.x4.shared.b16"), narrow) << out;
      const char* pair = type == std::string("float16") ? "cvt.rn.f16x2.f32" : "cvt.rn.bf16x2.f32";
      EXPECT_EQ(absl::StrContains(ptx, pair), narrow) << out;
      ExpectAssembles(absl::StrCat("results of ", out), ptx, "sm_90a");
      EXPECT_FALSE(absl::StrContains(Ptx(c, "sm_89"), "stmatrix"));
    }
  }
}

// The second product's left operand is the first one's result: in the registers that it lies in, or
// by way of shared memory to a warpgroup. It stays exact for the copy after it.
TEST_F(GpuAssemble, ChainedProductsOfTf32AssembleWithoutSpills) {
  codegen::CompileInput input;
  input.kernel_source = R"(import tilelang
import tilelang.language as T


@tilelang.jit(pass_configs={"kiln.tf32": True})
def chained():
    @T.prim_func
    def main(Q: T.Tensor((512, 64), "float32"), K: T.Tensor((512, 64), "float32"),
             V: T.Tensor((64, 512), "float32"), S: T.Tensor((512, 512), "float32"),
             O: T.Tensor((512, 64), "float32")):
        with T.Kernel(8, threads=128) as bx:
            q = T.alloc_shared((64, 64), "float32")
            k = T.alloc_shared((32, 64), "float32")
            v = T.alloc_shared((64, 32), "float32")
            s = T.alloc_fragment((64, 32), "float32")
            p = T.alloc_fragment((64, 32), "float32")
            o = T.alloc_fragment((64, 64), "float32")
            T.copy(Q[bx * 64, 0], q)
            T.clear(o)
            for step in T.Pipelined(16, num_stages=2):
                T.copy(K[step * 32, 0], k)
                T.copy(V[0, step * 32], v)
                T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                T.copy(s, p)
                T.gemm(p, v, o, transpose_B=True)
                T.copy(p, S[bx * 64, step * 32])
            T.copy(o, O[bx * 64, 0])

    return main
)";
  for (const char* arch : {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a"}) {
    input.arch_record = target::ToText(*target::NamedArch(arch));
    const auto ptx = codegen::EmitStage(input, "asm");
    ASSERT_TRUE(ptx.ok()) << ptx.status();
    const bool wgmma = arch == std::string("sm_90a");
    EXPECT_EQ(absl::StrContains(*ptx, "wgmma.mma_async"), wgmma) << arch;
    EXPECT_EQ(absl::StrContains(*ptx, "cvt.rna.tf32.f32"), !wgmma) << arch;
    ExpectAssembles("chained", *ptx, arch);
  }
}

TEST_F(GpuAssemble, AdditionsToNeighboursAreInstructions) {
  codegen::CompileInput input;
  input.kernel_source = R"(import tilelang
import tilelang.language as T


@tilelang.jit
def added(type):
    @T.prim_func
    def main(A: T.Tensor((256, 264), type), C: T.Tensor((256, 264), type),
             D: T.Tensor((256, 261), type)):
        with T.Kernel(4, 5, threads=128) as (bx, by):
            f = T.alloc_fragment((64, 64), type)
            g = T.alloc_fragment((64, 64), type)
            T.copy(A[bx * 64, by * 64], f)
            T.atomic_add(C[bx * 64, by * 64], f)
            T.copy(A[bx * 64, by * 64], g)
            T.atomic_add(D[bx * 64, by * 64], g)

    return main
)";
  struct Want {
    const char *type, *wide, *narrow, *before;  // before: sm_80 to sm_89
  };
  for (const Want& want :
       {Want{"float32", "red.global.add.v4.f32", "atom.global.add.f32", "atom.global.add.f32"},
        Want{"float16", "red.global.add.noftz.v4.f16x2", "red.global.add.noftz.f16 ",
             "red.global.add.noftz.f16x2"},
        Want{"bfloat16", "red.global.add.noftz.v4.bf16x2", "red.global.add.noftz.bf16 ",
             "atom.global.cas.b32"}}) {
    input.arguments = {{"type", want.type}};
    for (const char* arch : {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a"}) {
      input.arch_record = target::ToText(*target::NamedArch(arch));
      const auto ptx = codegen::EmitStage(input, "asm");
      ASSERT_TRUE(ptx.ok()) << arch << ptx.status();
      const bool older = arch == std::string("sm_80") || arch == std::string("sm_86") ||
                         arch == std::string("sm_89");
      EXPECT_EQ(absl::StrContains(*ptx, want.wide), !older) << arch << " " << want.wide;
      EXPECT_TRUE(absl::StrContains(*ptx, older ? want.before : want.narrow)) << arch << want.type;
      ExpectAssembles(want.type, *ptx, arch);
    }
  }
}

// What the kernel says of the second-level cache is said to it, whatever a copy becomes.
class CacheHints : public GpuAssemble {
 protected:
  // The product's PTX, `from` replaced by `to` in its text.
  std::string With(const std::string& from, const std::string& to, const char* arch) const {
    codegen::CompileInput input = Input(product_, arch);
    const size_t at = input.kernel_source.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    input.kernel_source.replace(at, from.size(), to);
    const std::string ptx = codegen::EmitStage(input, "asm").value_or("");
    ExpectAssembles(to, ptx, arch);
    return ptx;
  }

  // The copy of A, or of the results, with a policy.
  std::string Fetched(const std::string& policy, const char* arch) const {
    return With("T.copy(A[by * block_M, k * block_K], A_shared)",
                absl::StrCat("T.copy(A[by * block_M, k * block_K], A_shared, eviction_policy='",
                             policy, "')"),
                arch);
  }
  std::string Stored(const std::string& policy, const char* arch) const {
    return With("T.copy(C_local, C[by * block_M, bx * block_N])",
                absl::StrCat("T.copy(C_local, C[by * block_M, bx * block_N], eviction_policy='",
                             policy, "')"),
                arch);
  }

  const Case product_ = {"matmul", Product("bfloat16", "bfloat16", "False", "True"),
                         "block_M=128,block_N=256,block_K=64,num_stages=3,threads=256"};
};

TEST_F(CacheHints, OfCopies) {
  const std::string fetch = "complete_tx::bytes.L2::cache_hint";
  for (const auto& [arch, store] :
       {std::pair{"sm_80", "st.global.L2::cache_hint"}, {"sm_90a", "bulk_group.L2::cache_hint"}}) {
    const bool tma = arch == std::string("sm_90a");
    const std::string plain = Ptx(product_, arch);
    EXPECT_FALSE(absl::StrContains(plain, "cache_hint"));
    EXPECT_EQ(Fetched("evict_normal", arch), plain);
    for (const char* policy : {"evict_first", "evict_last"}) {
      const std::string asked = absl::StrCat("createpolicy.fractional.L2::", policy, ".b64");
      const std::string fetched = Fetched(policy, arch), stored = Stored(policy, arch);
      EXPECT_EQ(absl::StrContains(fetched, asked), tma) << policy << arch;  // cp.async: never
      EXPECT_EQ(absl::StrContains(fetched, fetch), tma) << policy << arch;
      EXPECT_FALSE(absl::StrContains(fetched, store)) << policy << arch;
      EXPECT_TRUE(absl::StrContains(stored, asked)) << policy << arch;
      EXPECT_TRUE(absl::StrContains(stored, store)) << policy << arch;
      EXPECT_FALSE(absl::StrContains(stored, fetch)) << policy << arch;
    }
  }
}

TEST_F(CacheHints, OfTensors) {
  const std::string clear = "T.clear(C_local)";
  const std::string kept = absl::StrCat("T.annotate_l2_hit_ratio({B: 0.75})\n            ", clear);
  const std::string ptx = With(clear, kept, "sm_90a");
  EXPECT_TRUE(absl::StrContains(ptx, "L2::evict_last.b64"));
  EXPECT_TRUE(absl::StrContains(ptx, "0f3F400000"));
  EXPECT_EQ(With(clear, kept, "sm_80"), Ptx(product_, "sm_80"));  // cp.async alone reads B
}

// A row is loaded and stored by threads, a part of it in steps of several elements.
TEST_F(CacheHints, OfLoadsAndStores) {
  constexpr char kText[] = R"(
import tilelang
import tilelang.language as T

@tilelang.jit
def twice(dtype, load, store, more, same):
    @T.prim_func
    def main(x: T.Tensor((64, 4096), dtype), y: T.Tensor((64, 4096), dtype)):
        with T.Kernel(64, threads=128) as b:
            tile = T.alloc_fragment((4096,), dtype)
            out = x if same else y
            T.copy(x[b, 0], tile, eviction_policy=load)
            for i in T.Parallel(4096):
                tile[i] = tile[i] + tile[i]
            T.copy(tile[0:2048], out[b, 0:2048], eviction_policy=store)
            T.copy(tile[2048:4096], out[b, 2048:4096], eviction_policy=more)
    return main
)";
  const auto ptx = [&](const char* dtype, const std::string& more, bool same) {
    codegen::CompileInput input;
    input.kernel_source = kText;
    input.arch_record = target::ToText(*target::NamedArch("sm_80"));
    input.arguments = {{"dtype", dtype},
                       {"load", "'evict_last'"},
                       {"store", "'evict_first'"},
                       {"more", absl::StrCat("'", more, "'")},
                       {"same", same ? "True" : "False"}};
    const std::string text = codegen::EmitStage(input, "asm").value_or("");
    ExpectAssembles(dtype, text, "sm_80");
    return text;
  };
  for (const char* dtype : {"float64", "float32", "float16", "bfloat16", "int8"}) {
    const std::string both = ptx(dtype, "evict_first", false);
    const bool wide = dtype == std::string("float64");  // no word holds an element
    EXPECT_EQ(absl::StrContains(both, "ld.global.L2::cache_hint.v4.b32"), !wide) << dtype;
    EXPECT_EQ(absl::StrContains(both, "st.global.L2::cache_hint.v4.b32"), !wide) << dtype;
    const std::string apart = ptx(dtype, "evict_last", false);
    EXPECT_FALSE(absl::StrContains(apart, "st.global.L2::cache_hint")) << "copies do not agree";
    const std::string one = ptx(dtype, "evict_first", true);
    EXPECT_FALSE(absl::StrContains(one, "cache_hint")) << "a tensor that is read and written";
  }
}

// What a thread may not read it does not read, however often the loop around comes by.
TEST_F(CacheHints, StayBehindGuards) {
  codegen::CompileInput input;
  input.kernel_source = R"(
import tilelang
import tilelang.language as T

@tilelang.jit
def scaled(M, N, S):
    @T.prim_func
    def main(x: T.Tensor((M, N), T.float32), w: T.Tensor((S, M), T.float32),
             out: T.Tensor((S, M, N), T.float32)):
        with T.Kernel(T.ceildiv(N, 128), T.ceildiv(M, 64), threads=128) as (bx, by):
            tile = T.alloc_fragment((64, 128), T.float32)
            for s in T.serial(S):
                T.copy(x[by * 64, bx * 128], tile, eviction_policy="evict_last")
                for i, j in T.Parallel(64, 128):
                    tile[i, j] = tile[i, j] * w[s, by * 64 + i]
                T.copy(tile, out[s, by * 64, bx * 128])
    return main
)";
  input.arguments = {{"M", "1"}, {"N", "16384"}, {"S", "8"}};
  for (const char* arch : {"sm_80", "sm_90a"}) {
    input.arch_record = target::ToText(*target::NamedArch(arch));
    const std::string ptx = codegen::EmitStage(input, "asm").value_or("");
    const size_t load = ptx.find("ld.global.L2::cache_hint"), guard = ptx.find("bra");
    ASSERT_NE(load, std::string::npos) << arch;
    EXPECT_LT(guard, load) << arch;
  }
}

// Workspaces, other names of a tensor and tensors of a table are meant too; ratios are a float's.
TEST_F(CacheHints, OfWhateverIsCalledATensor) {
  const auto ptx = [&](const std::string& about) {
    codegen::CompileInput input;
    input.kernel_source = absl::StrCat(R"(
import tilelang
import tilelang.language as T

@tilelang.jit
def doubled(n):
    @T.prim_func
    def main(p: T.Tensor([n], T.ptr), x: T.Tensor((n, 4096), T.float32),
             out: T.Tensor((n, 4096), T.float32)):
        W = T.alloc_global((n, 4096), T.float32)
        with T.Kernel(n, threads=128) as b:
            for i in T.Parallel(4096):
                W[b, i] = x[b, i]
        with T.Kernel(n, threads=128) as b:
            A = T.make_tensor(p[b], (4096,), T.float32)
            y = T.reshape(x, (n * 4096,))
            T.annotate_l2_hit_ratio()",
                                       about, R"()
            for i in T.Parallel(4096):
                out[b, i] = A[i] + y[b * 4096 + i] + W[b, i]
    return main
)");
    input.arguments = {{"n", "8"}};
    input.arch_record = target::ToText(*target::NamedArch("sm_80"));
    const absl::StatusOr<std::string> text = codegen::EmitStage(input, "asm");
    return text.ok() ? *text : std::string(text.status().message());
  };
  EXPECT_TRUE(absl::StrContains(ptx("{W: 1 / 3}"), "evict_last.b64"));
  EXPECT_TRUE(absl::StrContains(ptx("{W: 1 / 3}"), "0f3EAAAAAB"));
  EXPECT_TRUE(absl::StrContains(ptx("{y: 0.5}"), "ld.global.L2::cache_hint"));
  EXPECT_TRUE(absl::StrContains(ptx("{A: 0.5}"), "evict_last.b64"));
  EXPECT_TRUE(absl::StrContains(ptx("{x: 1e-50}"), "no number above 0"));
}

// A loop of many long steps is not unrolled, though it looks up what each thread keeps for them.
TEST_F(GpuAssemble, LongLoopsStayLoops) {
  codegen::CompileInput input;
  input.kernel_source = R"(
import tilelang
import tilelang.language as T

@tilelang.jit
def masked(steps, block=128):
    @T.prim_func
    def main(A: T.Tensor((block, steps * 64), T.float16),
             B: T.Tensor((block, steps * 64), T.float16),
             mask: T.Tensor((steps,), T.int8), C: T.Tensor((block, block), T.float32)):
        with T.Kernel(1, threads=128) as b:
            a = T.alloc_shared((block, 64), T.float16)
            c = T.alloc_shared((block, 64), T.float16)
            sums = T.alloc_fragment((block, block), T.float32)
            kept = T.alloc_local((steps,), T.int8)
            T.clear(sums)
            for k in T.serial(steps):
                kept[k] = mask[k]
            for k in T.Pipelined(steps, num_stages=2):
                if kept[k] != 0:
                    T.copy(A[0, k * 64], a)
                    T.copy(B[0, k * 64], c)
                    T.gemm(a, c, sums, transpose_B=True)
            T.copy(sums, C)
    return main
)";
  for (const char* arch : {"sm_80", "sm_90a"}) {
    input.arch_record = target::ToText(*target::NamedArch(arch));
    const auto lines = [&](const char* steps) {
      input.arguments = {{"steps", steps}};
      const std::string ptx = codegen::EmitStage(input, "asm").value_or("");
      EXPECT_TRUE(codegen::Assemble(ptx, arch).ok()) << arch << steps;
      return std::count(ptx.begin(), ptx.end(), '\n');
    };
    EXPECT_LT(lines("512"), 3 * lines("8")) << arch;
  }
}

// Functions of double are our own (emit_wide.h), whose sums of two live on exact roundings.
TEST_F(GpuAssemble, FunctionsOfDouble) {
  constexpr char kText[] = R"(
import tilelang
import tilelang.language as T

@tilelang.jit
def functions():
    @T.prim_func
    def main(x: T.Tensor((8, 256), "float64"), out: T.Tensor((12, 8, 256), "float64")):
        with T.Kernel(8, threads=128) as b:
            for j in T.Parallel(256):
                out[0, b, j] = T.sin(x[b, j])
                out[1, b, j] = T.cos(x[b, j])
                out[2, b, j] = T.erf(x[b, j])
                out[3, b, j] = T.pow(x[b, j], 1.7)
                out[4, b, j] = T.tanh(x[b, j])
                out[5, b, j] = T.exp(x[b, j])
                out[6, b, j] = T.exp2(x[b, j])
                out[7, b, j] = T.log(x[b, j])
                out[8, b, j] = T.log2(x[b, j])
                out[9, b, j] = T.sigmoid(x[b, j])
                out[10, b, j] = T.sqrt(x[b, j])
                out[11, b, j] = T.rsqrt(x[b, j])
    return main
)";
  for (const char* arch : {"sm_80", "sm_90a", "sm_100a"}) {
    codegen::CompileInput input;
    input.kernel_source = kText;
    input.arch_record = target::ToText(*target::NamedArch(arch));
    const auto ptx = codegen::EmitStage(input, "asm");
    ASSERT_TRUE(ptx.ok()) << ptx.status();
    for (const char* loose : {"mul.f64", "add.f64", "sub.f64"}) {
      EXPECT_FALSE(absl::StrContains(*ptx, loose)) << "the assembler may contract it";
    }
    ExpectAssembles("functions of double", *ptx, arch);
  }
}

}  // namespace
}  // namespace kiln
