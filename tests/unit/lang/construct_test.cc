// What each construct of the language means, as program text.
#include <set>

#include "compiler/lang/pass_options.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/lang/lang_test_util.h"

namespace kiln::lang {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Constructs, ReduceAndProdOfTheLibraries) {
  const std::string module =
      "import numpy as np\nfrom functools import lru_cache, reduce\n"
      "@lru_cache(maxsize=None)\ndef minus(a, b): return a - b\n";
  const std::string body =
      "v[0] = reduce(minus, [9, 2, 3])\nv[1] = reduce(minus, [], 7)\nv[2] = np.prod((2, 3, 4))\n";
  const std::string text = Elaborated(InKernel(body, "", module));
  for (const char* stored : {"v[0] = 4", "v[1] = 7", "v[2] = 24"}) {
    EXPECT_THAT(text, HasSubstr(stored));
  }
  EXPECT_THAT(Elaborated(InKernel("v[0] = reduce(minus, [])\n", "", module)),
              HasSubstr("reduce of nothing has no value"));
}

// Python expressions on compile-time values, checked with Python's own results.
TEST(Constructs, CompileTimeArithmeticIsPythons) {
  const std::pair<const char*, const char*> kCases[] = {
      {"7 // 2", "3"},
      {"-7 // 2", "-4"},
      {"7 // -2", "-4"},
      {"-7 % 3", "2"},
      {"7 % -3", "-2"},
      {"7 / 2", "3.5"},
      {"2 ** 10", "1024"},
      {"2 ** -1", "0.5"},
      {"-2 ** 2", "-4"},
      {"1 << 10 | 3", "1027"},
      {"~5", "-6"},
      {"6 & 3 ^ 1", "3"},
      {"-1 >> 70", "-1"},
      {"True + True", "2"},
      {"True & False", "False"},
      {"not 3", "False"},
      {"3 and 5", "5"},
      {"0 or 'a'", "'a'"},
      {"1 < 2 < 3", "True"},
      {"1 < 3 < 2", "False"},
      {"'a' in 'cat'", "True"},
      {"3 not in [1, 2]", "True"},
      {"None is None", "True"},
      {"4 if 0 else 5", "5"},
      {"[1, 2] + [3]", "[1, 2, 3]"},
      {"(1, 2) * 2", "(1, 2, 1, 2)"},
      {"'ab' * 2", "'abab'"},
      {"[1, 2, 3, 4][1:3]", "[2, 3]"},
      {"[1, 2, 3][::-1]", "[3, 2, 1]"},
      {"(1, 2, 3)[-1]", "3"},
      {"'kiln'[1:]", "'iln'"},
      {"len('kiln')", "4"},
      {"'a_b_c'.count('_')", "2"},
      {"'aaa'.count('aa')", "1"},
      {"'ab'.count('')", "3"},
      {"sum(range(5))", "10"},
      {"[i * j for i in range(3) for j in range(2) if i != j]", "[0, 0, 0, 2]"},
      {"{k: v for k, v in zip('ab', (1, 2))}", "{'a': 1, 'b': 2}"},
      {"[*range(3), *(7, 8)]", "[0, 1, 2, 7, 8]"},
      {"dict(a=1, b=2)['b']", "2"},
      {"max(3, 7, 5)", "7"},
      {"min([3, 1, 2])", "1"},
      {"sorted([3, 1, 2])", "[1, 2, 3]"},
      {"sorted([3, 1, 2], key=lambda v: -v)", "[3, 2, 1]"},
      {"list(reversed((1, 2)))", "[2, 1]"},
      {"int(3.9)", "3"},
      {"int(-3.9)", "-3"},
      {"float(2)", "2.0"},
      {"str(12)", "'12'"},
      {"round(2.5)", "2"},
      {"divmod(-7, 2)", "(-4, 1)"},
      {"abs(-3)", "3"},
      {"bool([])", "False"},
      {"any([0, 2])", "True"},
      {"all([])", "True"},
      {"isinstance(3, int)", "True"},
      {"isinstance(3, (str, float))", "False"},
      {"math.ceil(2.1)", "3"},
      {"math.log2(8)", "3.0"},
      {"math.gcd(12, 18)", "6"},
      {"math.isqrt(17)", "4"},
      {"math.prod([2, 3])", "6"},
      {"tilelang.cdiv(7, 2)", "4"},
      {"tilelang.next_power_of_2(65)", "128"},
      {"T.ceildiv(7, 2)", "4"},
      {"list(itertools.product([1, 2], 'a'))", "[(1, 'a'), (2, 'a')]"},
      {"list(map(lambda v: v + 1, [1]))", "[2]"},
      {"list(enumerate('ab', 1))", "[(1, 'a'), (2, 'b')]"},
      {"f'{3}-{2.5:.2f}-{7:03d}-{\"s\"!r}-{1+1=}'", "\"3-2.50-007-'s'-1+1=2\""},
      {"f'{1 + 1 = }{2==2}{2 == 2 = }{\"a\" = !s}{2.5 = :.2f}'",
       "'1 + 1 = 2True2 == 2 = True\"a\" = a2.5 = 2.50'"},
      {"f'{{x}}'", "'{x}'"},
      {"f'{3 = } {4 =:2d} {5 != 6}'", "'3 = 3 4 = 4 True'"},
      {"'a' 'b' f'{1}'", "'ab1'"},
      {"(lambda a, b=2: a * b)(3)", "6"},
      {"(lambda *a, **k: (a, k))(1, z=2)", "((1,), {'z': 2})"},
      {"T.float16.bits", "16"},
      {"T.dtype('int8') == 'int8'", "True"},
      {"T.float32 == T.float16", "False"},
      {"''.join(c for c in T.int8 if c.isdigit())", "'8'"},
      {"('float8' in T.float8_e4m3fn, T.float16.startswith('int'), isinstance(T.int8, str))",
       "(True, False, True)"},
      {"(T.bfloat16[:2], T.float16x4.lanes, T.float16x4.bits)", "('bf', 4, 16)"},
      {"T.Ramp(1, 2, 3) + T.Broadcast(10, 3)", "(11, 13, 15)"},
      {"T.Shuffle([T.Ramp(0, 1, 4), 9], [4, 0, 3])", "(9, 0, 3)"},
      {"T.extract_lane(T.Ramp(0, 5, 4), 2)", "10"},
      {"'x,y'.split(',')", "['x', 'y']"},
      {"'-'.join(['a', 'b'])", "'a-b'"},
      {"0x1F + 0b11 + 0o7", "41"},
      {"1_000", "1000"},
      {"1e3", "1000.0"},
      {".5", "0.5"},
      {"\"\\x41\\u00e9\\n\"", "'A\xc3\xa9\\n'"},
      {"r'\\n'", "'\\\\n'"},
      {"(1,) == (1,)", "True"},
      {"[1, 2] < [1, 3]", "True"},
      {"...", "Ellipsis"},
      {"x.shape", "(64, 64)"},
      {"x.dtype", "float32"},
      {"x.shape[0] // 3", "21"},
      {"1 if q is None else 2", "1"},
  };
  for (const auto& [expr, expected] : kCases) {
    const std::string text = InKernel(absl::StrCat("assert False, repr(", expr, ")\n"));
    const auto d = DiagnosticOf(ElaborateText(text).status());
    ASSERT_TRUE(d.has_value()) << expr << ": " << Elaborated(text);
    EXPECT_EQ(d->message, absl::StrCat("assertion failed: ", expected)) << expr;
  }
}

struct Construct {
  const char* body;
  const char* expected;
  const char* module = "";
};

void CheckAll(const std::vector<Construct>& cases) {
  for (const Construct& c : cases) {
    const std::string text = Elaborated(InKernel(c.body, "", c.module));
    EXPECT_THAT(text, HasSubstr(c.expected)) << c.body;
  }
}

TEST(Constructs, RunTimeExpressions) {
  CheckAll({
      {"x[0, 0] = y[0, 0] * 2 + 1", "x[0, 0] = y[0, 0] * 2.0 + 1.0"},
      {"x[0, 0] = v[0]", "x[0, 0] = float32(v[0])"},
      {"v[0] = x[0, 0]", "v[0] = int32(x[0, 0])"},
      {"v[0] = (v[1] + 3) // 4 % 5", "v[0] = (v[1] + 3) // 4 % 5"},
      {"v[0] = v[1] & 15 | v[2] << 2 ^ v[3] >> 1", "v[0] = v[1] & 15 | v[2] << 2 ^ v[3] >> 1"},
      {"x[0, 0] = T.cast(v[0], 'float16')", "float16(v[0])"},
      {"x[0, 0] = T.Cast('float16', v[0])", "float16(v[0])"},
      {"x[0, 0] = v[0].astype(T.float16)", "float16(v[0])"},
      {"x[0, 0] = T.float16(v[0])", "float16(v[0])"},
      {"x[0, 0] = T.float16(1.5) * y[0, 0]", "1.5 * y[0, 0]"},
      {"x[0, 0] = T.exp2(y[0, 0])", "exp2(y[0, 0])"},
      {"x[0, 0] = T.sigmoid(v[0])", "sigmoid(float32(v[0]))"},
      {"x[0, 0] = T.pow(y[0, 0], 3)", "pow(y[0, 0], 3.0)"},
      {"x[0, 0] = T.max(y[0, 0], 0)", "max(y[0, 0], 0.0)"},
      {"x[0, 0] = max(y[0, 0], y[0, 1], 0)", "max(max(y[0, 0], y[0, 1]), 0.0)"},
      {"x[0, 0] = T.clamp(y[0, 0], -1, 1)", "min(max(y[0, 0], -1.0), 1.0)"},
      {"x[0, 0] = -y[0, 0]", "x[0, 0] = -y[0, 0]"},
      {"x[0, 0] = abs(y[0, 0])", "abs(y[0, 0])"},
      {"x[0, 0] = y[0, 0] if n > 0 else 0", "select(n > 0, y[0, 0], 0.0)"},
      {"x[0, 0] = T.if_then_else(n > 0, 1, y[0, 0])", "select(n > 0, 1.0, y[0, 0])"},
      {"x[0, 0] = 5 if p == 4 else y[0, 0]", "x[0, 0] = 5.0"},
      {"v[0] = 0 <= n < 10", "0 <= n and n < 10"},
      {"v[0] = not n > 3", "n"},
      // What a condition guards is not read when the condition fails.
      {"if n < 64 and v[n] > 0:\n    v[0] = 1", "if select(n < 64, v[n] > 0, False)"},
      {"if n < 64 or n > 70:\n    v[0] = 1", "if n < 64 or n > 70:"},
      {"x[0, 0] = -T.infinity('float32')", "-inf"},
      {"v[0] = T.max_value('int8') + T.min_value('int8')", "v[0] = -1"},
      {"v[0] = T.reinterpret(y[0, 0], T.int32)", "reinterpret"},
      {"v[-1] = 3", "v[63] = 3"},
      {"x[0, 0] = sum([y[0, i] for i in range(3)])", "y[0, 0] + y[0, 1] + y[0, 2]"},
      {"v[0] = T.ceildiv(n, 4)", "(n + 3) // 4"},
      {"x[(0, 1)] = 2", "x[0, 1] = 2.0"},
      {"x[0, T.Ramp(2, 1, 2)] = T.Broadcast(3.0, 2)", "x[0, 3] = 3.0"},
      {"x[0, T.Ramp(n, 1, 2)] = y[0, T.Ramp(n, 1, 2)] * 2", "x[0, n + 1] = "},
      {"x[0, 4:6] = T.Cast('float32x2', v[2:4])", "= float32(v[3])"},
      {"x[0, T.Ramp(0, 1, 2)] = T.fma2(y[0, 0:2], y[1, 0:2], y[2, 0:2])",
       "fma(y[0, 1], y[1, 1], y[2, 1])"},
      {"x[0, T.Ramp(0, 1, 2)] += 1.0", "x[0, 1] = "},
      {"v[T.Ramp(0, 1, 2)] = T.reinterpret(T.ldg64(y[0, 0]), 'int32x2')", "reinterpret"},
      {"x[0, T.Ramp(0, 1, 2)] = T.max(y[0, T.Ramp(0, 1, 2)], 0)", "max(y[0, 1], 0.0)"},
      {"x[*[0, 1]] = 2", "x[0, 1] = 2.0"},
  });
}

TEST(Constructs, BindingsAreTakenWhenTheyAreMade) {
  CheckAll({
      {"a = y[0, 0]\ny[0, 0] = 1\nx[0, 0] = a",
       "let a: float32 = y[0, 0]\n    y[0, 0] = 1.0\n    x[0, 0] = a"},
      {"y[0, 0], y[0, 1] = y[0, 1], y[0, 0]",
       "let value: float32 = y[0, 1]\n    let value_1: float32 = y[0, 0]\n    y[0, 0] = value\n    "
       "y[0, 1] = value_1"},
      {"a = T.alloc_var('int32', 1)\nb = T.alloc_var('int32', 2)\na, b = b, a",
       "let value = b[0]\n    let value_1 = a[0]\n    a[0] = value\n    b[0] = value_1"},
      {"l = [y[0, 0], 1]\ny[0, 0] = 2\nx[0, 0] = l[0]", "x[0, 0] = l"},
      {"a = b = v[0]\nv[0] = a + b", "let value = v[0]\n    v[0] = value + value"},
      {"a = 3\na = a + 4\nv[0] = a", "v[0] = 7"},
      {"c = T.alloc_var('float32', init=1.5)\nc += 1\nx[0, 0] = c",
       "alloc c: var float32[1] = 1.5\n    c[0] = c[0] + 1.0\n    x[0, 0] = c[0]"},
      {"for i in range(4):\n    t = v[i]\n    v[i] = t\nfor i in range(4):\n    t = v[i] + 1\n    "
       "v[i] = t",
       "let t_1 = v[i_1] + 1"},
      {"for i in range(4):\n    t = i\n    t = t + 1\n    v[t] = 0",
       "let t = i + 1\n      v[t] = 0"},
      {"v[0] += 2\nv[0] *= v[1]", "v[0] = v[0] + 2\n    v[0] = v[0] * v[1]"},
  });
}

TEST(Constructs, CopyExtents) {
  const char* kTile = "s = T.alloc_shared((16, 8), 'float32')\n";
  const std::pair<const char*, const char*> kCases[] = {
      {"T.copy(x[bx * 16, 8], s)", "copy x[bx * 16 : +16, 8 : +8] -> s"},
      {"T.copy(s, x[bx * 16, 8])", "copy s -> x[bx * 16 : +16, 8 : +8]"},
      {"T.copy(x[bx * 16:(bx + 1) * 16, 0:8], s)", "copy x[bx * 16 : +16, 0 : +8] -> s"},
      {"T.copy(x[bx * 16:bx * 16 + 16, :8], s[:, :])", "copy x[bx * 16 : +16, 0 : +8] -> s"},
      {"T.copy(x[3, 0:8], s[2, :])", "copy x[3, 0 : +8] -> s[2, 0 : +8]"},
      {"T.copy(v[bx * 16], s[:, 1])", "copy v[bx * 16 : +16] -> s[0 : +16, 1]"},
      {"T.copy(x[0, 1], s[2, 3])", "s[2, 3] = x[0, 1]"},
      {"T.copy(x[-16:, 0:8], s)", "copy x[48 : +16, 0 : +8] -> s"},
      {"a = x[bx, 3]\nT.copy(a, s)", "copy x[bx : +16, 3 : +8] -> s"},
      {"T.copy(v[8], s[0])", "copy v[8 : +8] -> s[0, 0 : +8]"},
      {"T.copy(x[0, 0], s, coalesced_width=4, disable_tma=True)", "coalesced_width=\"4\""},
  };
  for (const auto& [copy, expected] : kCases) {
    EXPECT_THAT(Elaborated(InKernel(absl::StrCat(kTile, copy))), HasSubstr(expected)) << copy;
  }
}

TEST(Constructs, RankAdaptsWhereIndicesDropDimensions) {
  const std::string text =
      "import tilelang\nimport tilelang.language as T\n@tilelang.jit\ndef k(q):\n"
      "    q: T.Tensor((2, 64, 4, 32), 'float16')\n    with T.Kernel(2, 4) as (b, h):\n"
      "        s = T.alloc_shared((16, 32), 'float16')\n"
      "        T.copy(q[b, 16:32, h, :], s)\n        T.copy(q[b, 16, h, 0], s)\n"
      "        t = T.alloc_shared((1, 16, 32), 'float16')\n        T.copy(t, s)\n";
  const std::string program = Elaborated(text);
  EXPECT_THAT(program, HasSubstr("copy q[b, 16 : +16, h, 0 : +32] -> s"));
  // A start takes the extents of the other side from the right, as TileLang does.
  EXPECT_THAT(program, HasSubstr("copy q[b, 16, h : +16, 0 : +32] -> s"));
  EXPECT_THAT(program, HasSubstr("copy t -> s"));
}

// A sparse form becomes the matrix that it stands for, which is multiplied.
TEST(Constructs, SparseProducts) {
  const std::string tiles =
      "a = T.alloc_shared((16, 32), 'float16')\ne = T.alloc_shared((4, 16), 'int16')\n"
      "b = T.alloc_shared((8, 64), 'float16')\nc = T.alloc_fragment((16, 8), 'float32')\n";
  for (const char* name : {"T.gemm_sp", "T.wgmma_gemm_sp"}) {
    const std::string program = Elaborated(InKernel(absl::StrCat(
        tiles, name, "(a, e, b, c, False, True, True, T.GemmWarpPolicy.FullRow, True)")));
    EXPECT_THAT(program, HasSubstr("alloc a_dense: shared float16[16, 64]"));
    EXPECT_THAT(program, HasSubstr("for parallel i, g, p in (16, 16, 4) {expands=\"e\"}:"));
    EXPECT_THAT(program, HasSubstr("a_dense[i, g * 4 + p] = select(int32(e[g // 4, i]) >>"));
    EXPECT_THAT(program, HasSubstr("g % 4 * 4 + 2 & 3 == p, a[i, g * 2 + 1], float16(0.0)))"));
    EXPECT_THAT(program, HasSubstr("gemm a_dense @ b.T -> c policy=full_row clear=True"));
  }
  const std::string text =
      "import tilelang\nimport tilelang.language as T\n"
      "from tilelang.cuda.intrinsics.sparse_layout import get_e_factor, get_e_replicate_factor\n"
      "@T.prim_func\ndef k(x: T.Tensor((9,), T.int32)):\n    with T.Kernel(1) as b:\n"
      "        x[0] = get_e_factor(T.float16, T.int16)\n        x[1] = get_e_factor('int8', "
      "T.int32)\n"
      "        x[2] = get_e_factor(T.float, 'int8')\n        x[3] = "
      "get_e_replicate_factor(T.int8)\n"
      "        x[4] = get_e_replicate_factor(T.bfloat16)\n";
  const std::string program = Elaborated(text);
  for (const char* line : {"x[0] = 16", "x[1] = 32", "x[2] = 4", "x[3] = 1", "x[4] = 2"}) {
    EXPECT_THAT(program, HasSubstr(line));
  }
}

// How warps share a product may be an argument.
TEST(Constructs, PoliciesAsArguments) {
  const std::string text =
      "import tilelang\nimport tilelang.language as T\n@tilelang.jit\ndef k(policy):\n"
      "    @T.prim_func\n    def main(x: T.Tensor((16, 16), T.float16)):\n"
      "        with T.Kernel(1) as b:\n"
      "            a = T.alloc_shared((16, 16), T.float16)\n"
      "            c = T.alloc_fragment((16, 16), T.float32)\n"
      "            T.copy(x, a)\n            T.gemm(a, a, c, policy=policy)\n    return main\n";
  EXPECT_THAT(Elaborated(text, {{"policy", "T.GemmWarpPolicy.FullCol"}}),
              HasSubstr("policy=full_col"));
  const auto unknown = ElaborateText(text, {{"policy", "T.GemmWarpPolicy.Round"}});
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("has no member 'Round'"));
}

TEST(Constructs, TileOps) {
  const char* kTiles =
      "a = T.alloc_shared((16, 32), 'float16')\nb = T.alloc_shared((8, 32), 'float16')\n"
      "c = T.alloc_fragment((16, 8), 'float32')\nr = T.alloc_fragment((16,), 'float32')\n"
      "r1 = T.alloc_fragment((16, 1), 'float32')\n";
  const std::pair<const char*, const char*> kCases[] = {
      {"T.gemm(a, b, c, transpose_B=True)", "gemm a @ b.T -> c policy=square"},
      {"T.gemm(a, b, c, False, True, T.GemmWarpPolicy.FullCol, clear_accum=True)",
       "policy=full_col clear"},
      {"T.gemm(a, b, c, transpose_B=True, clear_accum=n == 0)", "n == 0"},
      {"T.gemm(a[:, 0:16], b[:, 16:32], c, transpose_B=True)",
       "gemm a[0 : +16, 0 : +16] @ b[0 : +8, 16 : +16].T"},
      {"T.reduce_sum(c, r, dim=1)", "reduce_sum c -> r dim=1"},
      {"T.reduce_max(c, r, dim=-1, clear=False)", "reduce_max c -> r dim=1 accumulate"},
      {"T.reduce_min(c, r1, dim=1)", "reduce_min c -> r1 dim=1"},
      {"T.reduce_absmax(c, r)", "reduce_absmax c -> r dim=1"},
      {"T.fill(c, -T.infinity('float32'))", "fill c = float32(-inf)"},
      {"T.clear(c[0:4, :])", "fill c[0 : +4, 0 : +8] = 0.0"},
      {"T.atomic_add(x[0, 0], c)", "atomic_add x[0 : +16, 0 : +8] <- c"},
      {"T.atomic_add(v[3], 1)", "v[3]"},
      {"T.copy(T.access_ptr(v[n], 'r', 4), T.access_ptr(v[8], 'w', 4))",
       "copy v[n : +4] -> v.copy"},
      {"T.ptx_cp_async(T.access_ptr(c[0, 4], 'w', 4), T.access_ptr(x[n, 0], 'r', 4), 4)",
       "c[0, lane + 4] = x[n, lane]"},
      {"T.ptx_cp_async(T.access_ptr(c[0, 4], 'w'), T.access_ptr(x[n, 0], 'r'), 2, n > 3)",
       "select(n > 3"},
      {"T.atomic_addx2(x[1, 2], c[3, 4])", "atomic_add x[1, 3] <- c[3, 5]"},
      {"T.atomic_addx4(x[1, 2], c[3, 4])", "atomic_add x[1, 5] <- c[3, 7]"},
      {"T.atomic_max(v[n], v[0], memory_order='relaxed')", "atomic_max"},
      {"T.atomic_or(T.address_of(v[n]), 3, memory_order='acq_rel')", "atomic_or v[n] <- 3 acq_rel"},
      {"T.atomic_store(v[n], 3)", "atomic_store v[n] <- 3 seq_cst"},
      {"v[0] = T.atomic_load(v[n], 'acquire')", "atomic_load v[n] acquire -> previous"},
      {"v[0] = T.atomic_add(v[n], 2, return_prev=True) + 1", "atomic_add v[n] <- 2 -> previous"},
      {"T.cumsum(c)", "scan_sum c -> c dim=0"},
      {"T.cumsum(c, dim=-1)", "scan_sum c -> c dim=1"},
      {"T.cummax(c[2, :], c[3, :], reverse=True)",
       "scan_max c[2, 0 : +8] -> c[3, 0 : +8] dim=1 reverse"},
      {"i = T.alloc_fragment((16, 8), 'int32')\nj = T.alloc_fragment((8,), 'int32')\n"
       "T.reduce_bitxor(i, j, dim=0)",
       "reduce_bitxor i -> j dim=0"},
      {"t = T.alloc_shared((32, 16), 'float16')\nT.transpose(a, t)", "t[i, i_1] = a[i_1, i]"},
      {"T.print(c[n, 1], msg='c')", "print \"c: block \", bx"},
      {"T.device_assert(n > 0, 'no rows')", "assert n > 0, \"no rows\""},
      {"v[0] = T.popcount(v[n])", "popcount(v[n])"},
  };
  for (const auto& [op, expected] : kCases) {
    EXPECT_THAT(Elaborated(InKernel(absl::StrCat(kTiles, op))), HasSubstr(expected)) << op;
  }
}

// Names of one memory: every access is one of the memory, and tile operations keep their form where
// the memory looks like the name that they use.
TEST(Constructs, Views) {
  const std::pair<const char*, const char*> kCases[] = {
      {"s = T.alloc_shared((8, 16), 'int32')\nT.clear(s)\nw = T.reshape(s, (128,))\nw[n] = 1",
       "s[n // 16, n % 16] = 1"},
      {"s = T.alloc_shared((8, 16), 'int32')\nw = T.reshape(s, (128,))\ns[n, 3] = 1\nw[n] = 2",
       "s[n * 16 + 3] = 1"},
      {"s = T.alloc_shared((128,), 'int32')\nw = T.view(s, (8, 16))\nT.copy(v, s[64])\n"
       "w[n, 3] = 1",
       "s[n * 16 + 3] = 1"},
      {"s = T.alloc_shared((16, 8), 'float16')\nw = T.view(s, (4, 4, 8))\nT.clear(w[n])\n"
       "T.clear(w)",
       "fill s[n, 0 : +4, 0 : +8] = "},
      {"s = T.alloc_shared((8,), 'float32')\nw = T.view(s, (8,), 'int32')\nw[n] = w[n + 1]",
       "s: shared uint32[8]"},
      {"s = T.alloc_shared((8,), 'float32')\nw = T.view(s, (16,), 'float16')\nw[n] = w[n + 1]",
       "s[n] = reinterpret"},
      {"s = T.alloc_shared((8,), 'int32')\nw = T.view(s, (16,), 'int16')\ns[n] = w[n + 1]",
       "s[n * 2 + 1] = "},
      {"w = T.reshape(x, (4096,))\nw[n] = w[n + 1]", "x[n // 64, n % 64]{0 <= n and n < 4096} = "},
      {"s = T.alloc_shared((8,), 'int32')\nw = T.decl_buffer((2, 4), 'int32', scope='shared', "
       "data=s.data)\nw[n, 1] = 1",
       "s[n * 4 + 1] = 1"},
      {"s = T.alloc_shared((8,), 'int32')\nw = T.Tensor((2, 4), 'int32', s.data)\nw[n, 1] = 1",
       "s[n * 4 + 1] = 1"},
      {"s = T.alloc_shared((8, 4), 'int32')\nw = T.reshape(s, (4, 8))\nu = T.reshape(w, (32,))\n"
       "T.annotate_layout({w: T.Layout((4, 8), lambda i, j: (j, i))})\nu[n] = 1",
       "layout:s="},
  };
  for (const auto& [body, expected] : kCases) {
    EXPECT_THAT(Elaborated(InKernel(body)), HasSubstr(expected)) << body;
  }
}

TEST(Constructs, LaunchForms) {
  const std::string head =
      "import tilelang\nimport tilelang.language as T\n@T.prim_func\ndef k(x: T.Tensor((8,), "
      "'int32')):\n";
  const std::pair<const char*, const char*> kCases[] = {
      {"    with T.Kernel(4):\n        x[0] = 1\n", "launch bx in (4) threads(128)"},
      {"    with T.Kernel(4, 2) as (i, j):\n        x[i] = j\n",
       "launch i, j in (4, 2) threads(128)"},
      {"    with T.Kernel(4, 2, 3, threads=(32, 2)) as ids:\n        x[ids[2]] = ids[0]\n",
       "launch bx, by, bz in (4, 2, 3) threads(32, 2)"},
      {"    with T.Kernel(4) as (b,):\n        x[b] = 1\n", "launch b in (4)"},
      {"    with T.Kernel(1):\n        x[0] = 1\n    with T.Kernel(2) as b:\n        x[b] = 1\n",
       "launch b in (2)"},
      {"    with T.Kernel(4) as b:\n        T.use_swizzle(panel_size=8, order='col')\n        x[b] "
       "= 1\n",
       "{swizzle_order=\"column\", swizzle_panel=\"8\"}"},
      {"    with T.Kernel(4) as b:\n        T.use_swizzle(8, enable=False)\n        x[b] = 1\n",
       "launch b in (4) threads(128):"},
      {"    with T.Kernel(4) as b:\n        s = T.alloc_shared((4, 8), 'int32')\n"
       "        T.annotate_layout({s: T.Layout(s.shape, lambda i, j: (j, i))})\n        "
       "T.clear(s)\n",
       "layout:s=\"S[(4,8):(1,4)]\""},
  };
  for (const auto& [body, expected] : kCases) {
    EXPECT_THAT(Elaborated(absl::StrCat(head, body)), HasSubstr(expected)) << body;
  }
}

// The notation of TIRx, attached where a buffer is made or by T.annotate_layout.
TEST(Constructs, LayoutsOfTirx) {
  const std::string head = R"(import tilelang.language as T
from tvm.tirx.layout import (TileLayout, SwizzleLayout, ComposeLayout, S, R, m, laneid, warpid,
                             tid_in_wg, wg_local_layout, Iter, mma_shared_layout,
                             tcgen05_atom_layout)
@T.prim_func
def kernel(x: T.Tensor((64,), "int32")):
    with T.Kernel(1, threads=128) as b:
)";
  const std::pair<const char*, const char*> kCases[] = {
      {"T.alloc_shared((8, 64), 'float16', layout=TileLayout(S[(8, 64) : (64@m, 1@m)]))",
       "S[(8,64):(64,1)]"},
      {"T.alloc_shared((8, 64), 'float16', layout=ComposeLayout(SwizzleLayout(per_element=3, "
       "swizzle_len=3, atom_len=3), TileLayout(S[(8, 64) : (64@m, 1@m)])))",
       "<3,3,3> o S[(8,64):(64,1)]"},
      {"T.alloc_shared((8, 64), 'float16', layout=SwizzleLayout(3, 3, 3))", "<3,3,3> o S[512:1]"},
      {"T.alloc_shared((8, 64), 'float16', layout=mma_shared_layout('float16', '128B', (8, 64)))",
       "<3,3,3> o S[512:1]"},
      {"T.decl_buffer((8, 16), 'float32', scope='local.fragment', layout=TileLayout(S[(8, 2, 4, 2)"
       " : (4@laneid, 1@warpid, 1@laneid, 1)] + R[2 : 2@warpid]))",
       "S[(8,2,4,2):(4@laneid,1@warpid,1@laneid,1)] + R[2:2@warpid]"},
      {"T.alloc_fragment((8, 8), 'float32', layout=TileLayout.from_iters([Iter(8, 4, laneid), "
       "Iter(4, 1, laneid), Iter(2, 1)], [Iter(2, 4, warpid)], {warpid: 1}))",
       "S[(8,4,2):(4@laneid,1@laneid,1)] + R[2:4@warpid] + 1@warpid"},
      {"T.alloc_fragment((128, 4), 'float32', layout=wg_local_layout(4))",
       "S[(128,4):(1@tid_in_wg,1)]"},
      {"T.alloc_fragment((128, 64), 'float32', layout=tcgen05_atom_layout('32x32b', (128, 64), "
       "'float32'))",
       "S[(128,64):(1@tid_in_wg,1)]"},
      {"T.alloc_buffer((128,), 'float32', scope='local.fragment', layout=TileLayout(S[128 // 4 : "
       "1@laneid] + R[4 : 1@warpid]))",
       nullptr},  // 32 elements for 128
  };
  for (const auto& [alloc, layout] : kCases) {
    const std::string text = absl::StrCat(head, "        s = ", alloc, "\n        x[b] = 1\n");
    if (layout == nullptr) {
      EXPECT_FALSE(ElaborateText(text).ok()) << alloc;
    } else {
      EXPECT_THAT(Elaborated(text), HasSubstr(absl::StrCat("layout:s=\"", layout, "\""))) << alloc;
    }
  }
}

TEST(Constructs, OutputsAndSizes) {
  const std::string head = "import tilelang\nimport tilelang.language as T\n";
  EXPECT_THAT(
      Elaborated(head + "@tilelang.jit(out_idx=[0, -1])\ndef f():\n    @T.prim_func\n"
                        "    def main(a: T.Tensor((4,), 'int32'), b: T.Tensor((4,)), n: T.int64, "
                        "c: T.Tensor((4,))):\n        with T.Kernel(1):\n            T.clear(a)\n"
                        "    return main\n"),
      HasSubstr("def f(a: out global int32[4], b: global float32[4], n: int64, c: out global "
                "float32[4])"));
  const auto program = ElaborateText(
      head +
      "@tilelang.jit\ndef f(a, b):\n    M, K = T.dynamic('M, K')\n    unused = T.dynamic('U')\n"
      "    N = T.dynamic('N', dtype='int64')\n    a: T.Tensor((K, M), 'int32')\n"
      "    b: T.Tensor((M,), 'int32')\n    o = T.empty(N, dtype='int32')\n"
      "    p = T.empty((4,), 'int32')\n    with T.Kernel(T.ceildiv(M, 8)) as t:\n"
      "        o[t] = a[0, t] + b[t]\n        p[0] = 0\n    return p, o\n");
  ASSERT_TRUE(program.ok()) << program.status().message();
  ASSERT_EQ(program->dims.size(), 3u);
  EXPECT_EQ(program->dims[0].As<ir::Var>()->name, "M");
  EXPECT_EQ(program->dims[1].As<ir::Var>()->name, "K");
  EXPECT_EQ(program->dims[2].As<ir::Var>()->name, "N");
  EXPECT_EQ(program->dims[2].dtype(), kInt64);
  ASSERT_EQ(program->params.size(), 4u);
  EXPECT_EQ(program->params[2].name, "o");
  EXPECT_TRUE(program->params[2].is_output && program->params[3].is_output);
  EXPECT_FALSE(program->params[0].is_output);
  // Two spellings of one run-time size are one variable.
  EXPECT_TRUE(program->params[0].buffer->shape[1].same_as(program->params[1].buffer->shape[0]));
}

std::string WithPassConfigs(const std::string& dict) {
  return "import tilelang\nimport tilelang.language as T\n@tilelang.jit(" +
         (dict.empty() ? dict : "pass_configs={" + dict + "}") +
         ")\ndef f(a, n=4):\n    a: T.Tensor((n,), 'int32')\n    with T.Kernel(1):\n        "
         "T.clear(a)\n";
}

// A config's pass options are the kernel's own pass_configs by other means, and go over them.
TEST(Constructs, ConfigsGivePassOptions) {
  const auto plain = ElaborateText(WithPassConfigs(""), {}, "n=4");
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  std::set<std::string> digests = {ir::ProgramDigest(*plain)};
  for (const PassOptionRule& rule : PassOptionRules()) {
    for (const int64_t value : rule.values) {
      const std::string name(rule.name), text = absl::StrCat(value);
      const auto own = ElaborateText(WithPassConfigs("'" + name + "': " + text));
      ASSERT_TRUE(own.ok()) << own.status().message();
      const auto given = ElaborateText(WithPassConfigs(""), {}, name + "=" + text + ",n=4");
      ASSERT_TRUE(given.ok()) << given.status().message();
      EXPECT_EQ(ir::ProgramDigest(*given), ir::ProgramDigest(*own)) << name << " " << text;
      EXPECT_TRUE(digests.insert(ir::ProgramDigest(*given)).second) << name << " " << text;
      for (const int64_t other : rule.values) {
        const auto over = ElaborateText(WithPassConfigs("'" + name + "': " + absl::StrCat(other)),
                                        {}, name + "=" + text);
        ASSERT_TRUE(over.ok()) << over.status().message();
        EXPECT_EQ(ir::ProgramDigest(*over), ir::ProgramDigest(*own)) << name << " " << text;
      }
    }
  }
  const auto flag = ElaborateText(WithPassConfigs("'kiln.tf32': True"));
  const auto number = ElaborateText(WithPassConfigs(""), {}, "kiln.tf32=1");
  EXPECT_EQ(ir::ProgramDigest(*flag), ir::ProgramDigest(*number));
}

TEST(Constructs, ConfigsAreRefusedTheOptionsThatThereAreNot) {
  const std::vector<std::pair<std::string, std::string>> mistakes = {
      {"kiln.clutser=2", "did you mean 'kiln.cluster'?"},
      {"kiln.cluster=3", "cannot be 3"},
      {"kiln.cluster=two", "it takes 1 or 2"},
      {"kiln.instructions=75", "it takes 80, 86, 89, 90 or 100"},
      {"tl.enable_fast_math=2", "it takes True or False"},
      {"other.option=1", "there are kiln.alternate"},
  };
  for (const auto& [config, said] : mistakes) {
    const auto program = ElaborateText(WithPassConfigs(""), {}, config);
    ASSERT_FALSE(program.ok()) << config;
    EXPECT_NE(std::string(program.status().message()).find(said), std::string::npos)
        << program.status().message();
    EXPECT_TRUE(DiagnosticOf(program.status()).has_value());
  }
  const auto own = ElaborateText(WithPassConfigs("'kiln.cluster': 4"));
  EXPECT_NE(std::string(own.status().message()).find("cannot be 4"), std::string::npos);
  const auto argument = ElaborateText(WithPassConfigs(""), {{"kiln.cluster", "1"}});
  EXPECT_FALSE(argument.ok());
}

TEST(Constructs, PassConfigsAreHonouredOrRefusedByName) {
  auto text = [](const std::string& options) {
    return "import tilelang\nimport tilelang.language as T\n@tilelang.jit(" + options +
           ")\ndef f(a):\n    a: T.Tensor((4,), 'int32')\n    with T.Kernel(1):\n        "
           "T.clear(a)\n";
  };
  const auto program =
      ElaborateText(text("pass_configs={tilelang.PassConfigKey.TL_ENABLE_FAST_MATH: True, "
                         "'tl.disable_tma_lower': True, "
                         "tilelang.PassConfigKey.TL_PTXAS_REGISTER_USAGE_LEVEL: 5}, target='cuda', "
                         "compile_flags=['-O3']"));
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_EQ(program->attrs.at("tl.enable_fast_math"), "true");
  EXPECT_EQ(program->attrs.at("tl.disable_tma_lower"), "true");
  EXPECT_EQ(program->attrs.at("tl.ptxas_register_usage_level"), "5");
  EXPECT_EQ(program->attrs.at("compile_flags"), "-O3");
  EXPECT_THAT(Elaborated(text("pass_configs={'tl.enable_fast_meth': True}")),
              HasSubstr("did you mean 'tl.enable_fast_math'?"));
  EXPECT_THAT(Elaborated(text("out_index=[0]")), HasSubstr("no option 'out_index'"));
  EXPECT_THAT(Elaborated(text("out_idx=[0]")), HasSubstr("drop out_idx"));
}

TEST(Constructs, KernelInterface) {
  const auto kernel = Kernel::Parse(
      MakeSource(
          "import tilelang\nimport tilelang.language as T\n@tilelang.jit\n"
          "def f(a, b: T.Tensor[[int, 4], None], n: T.int32, dtype=T.float16, size=-3, opt=None, "
          "name='x', fn=len):\n    M, N = T.const('M, N')\n    a: T.Tensor((M, N), dtype)\n"
          "    with T.Kernel(1):\n        T.clear(a)\n"),
      "f");
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  std::vector<std::string> shown;
  for (const ParamInfo& p : kernel->params()) {
    shown.push_back(absl::StrCat(p.name, ":", static_cast<int>(p.kind), ":",
                                 p.default_text.value_or("-"), p.has_default ? "+" : ""));
  }
  EXPECT_THAT(shown, testing::ElementsAre("a:0:-", "b:0:-", "n:1:-", "dtype:2:float16+",
                                          "size:2:-3+", "opt:2:None+", "name:2:\"x\"+", "fn:2:-+"));
  EXPECT_THAT(kernel->consts(), testing::ElementsAre("b_shape_0", "b_dtype", "M", "N"));
  const auto names = Kernel::List(MakeSource(
      "import tilelang as tl\n@tl.jit\ndef a():\n    pass\ndef helper():\n    pass\n"
      "def b(n):\n    @T.prim_func\n    def main():\n        pass\n    return main\n"
      "@T.macro\ndef m():\n    pass\n@tl.autotune(configs=[])\n@tl.jit\ndef c():\n    pass\n"));
  ASSERT_TRUE(names.ok());
  EXPECT_THAT(*names, testing::ElementsAre("a", "b", "c"));
}

TEST(Constructs, HostCodeAroundKernelsDoesNotMatter) {
  const std::string text = InKernel(
      "x[0, 0] = HELPER(SIZE)\n", "",
      "import torch\nfrom os.path import *\nfrom .local import (a, b as c,)\nclass A(B, "
      "metaclass=M):\n"
      "    x: int = 3\n    async def f(self, *, k=1, **kw) -> 'A':\n        await g()\n"
      "        async with a as b, c: pass\n        async for i in z: yield i\n"
      "def h(a, /, b, *args: int, c, **kw): return lambda *a, k=1, **r: (yield)\n"
      "match = 3\nmatch.x = 4\nprint(match, *[1], **{'a': 1}, sep='')\n"
      "x = y = z = {**{}, 'a': {1, 2}, }\nif (n := 10) > 5: del x\n"
      "match n:\n    case 1 | 2 if n:\n        pass\n    case {'a': b, **rest}:\n        pass\n"
      "try:\n    raise ValueError('a') from None\nexcept* (A, B) as e:\n    pass\nelse:\n    "
      "pass\nfinally:\n    pass\n"
      "with (open('a') as f, open('b')): pass\nwith (yield_(1)): pass\n"
      "t = u'é' if 0 else rb'\\x00' b'' if 0 else f'{x!r:>{w}} {\"a\" if b else \"c\"} "
      "{d[\"e\"]}'\n"
      "a @= b; c **= 2; d: list[int]; assert x, 'y'\nglobal q\nSIZE = 4\nHELPER = lambda v: v * 2\n"
      "while False:\n    break\nelse:\n    pass\nx[1:2, ::3, ...] = -1 if not a else ~b ** -c\n"
      "if __name__ == '__main__':\n    SIZE = 99\n");
  EXPECT_THAT(Elaborated(text), testing::AnyOf(HasSubstr("x[0, 0] = 8.0"), HasSubstr("launch")));
}

TEST(Constructs, OpenTunables) {
  const auto kernel = Kernel::Parse(
      MakeSource("import tilelang\nimport tilelang.language as T\n@tilelang.jit\n"
                 "def f(a, b=8, s=2, t=128, w=None, flag=False):\n    N = T.const('N')\n"
                 "    a: T.Tensor((N,), 'float32')\n    assert N % b == 0\n"
                 "    n = b * 2 if flag else b\n    if w is not None:\n        assert w <= b\n"
                 "    with T.Kernel(T.ceildiv(N, b), threads=t) as i:\n"
                 "        q = T.alloc_shared((n,), 'float32')\n        r = T.alloc_shared((16,), "
                 "'float32')\n"
                 "        T.copy(a[i * b:(i + 1) * b], q)\n        T.copy(r, q)\n"
                 "        for k in T.Pipelined(4, num_stages=s):\n            T.clear(q)\n"),
      "f");
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  const Arguments arguments = {{"N", "64"}};
  const auto open = ElaborateOpen(*kernel, arguments, {}, {"b", "s", "t", "w"});
  ASSERT_TRUE(open.ok()) << open.status().message();
  ASSERT_TRUE(open->program.has_value()) << open->needs->why;
  const std::string text = ir::ToString(open->program->program);
  EXPECT_THAT(text, HasSubstr("threads(t)"));
  EXPECT_THAT(text, HasSubstr("copy a[i * b : +b] -> q"));
  EXPECT_THAT(text, HasSubstr("stages=s"));
  std::vector<std::string> constraints;
  for (const ir::Expr& c : open->program->constraints) constraints.push_back(ir::ToString(c));
  EXPECT_THAT(constraints, testing::ElementsAre("64 % b == 0", "w <= b", "b == 16"));
  EXPECT_EQ(open->program->tunables.size(), 4u);
  // A decision needs the value.
  const auto decided = ElaborateOpen(*kernel, arguments, {}, {"b", "flag"});
  ASSERT_TRUE(decided.ok()) << decided.status().message();
  ASSERT_TRUE(decided->program.has_value());  // a choice between integers stays open
  EXPECT_THAT(ir::ToString(decided->program->program), HasSubstr("select("));
}

TEST(Constructs, DecisionsOnOpenTunablesAskForValues) {
  const std::pair<const char*, const char*> kCases[] = {
      {"if p > 2:\n    v[0] = 1", "an if statement depends on it"},
      {"v[0] = [1, 2, 3, 4, 5][p]", "the index of a list must be a known integer"},
      {"v[0] = int(p / 2)", "'/' makes a float of it"},
      {"v[0] = 2 ** p", "'**' is computed at compile time"},
      {"v[0] = sum([i for i in range(p)])", "a range over it"},
      {"v[0] = int(math.log2(p))", "math functions"},
      {"v[0] = {4: 1}[p]", "the key of a dict"},
      {"v[0] = len(f'{p}')", "digits become text"},
      {"v[0] = 1 if p in (1, 2) else 2", "'in' compares"},
      {"z = (1, 2) if p > 3 else (3, 4)", "a conditional expression depends on it"},
  };
  for (const auto& [body, why] : kCases) {
    const auto kernel = Kernel::Parse(MakeSource(InKernel(body)), "");
    ASSERT_TRUE(kernel.ok()) << kernel.status().message();
    const auto result = ElaborateOpen(*kernel, {}, {}, {"p"});
    ASSERT_TRUE(result.ok()) << body << ": " << result.status().message();
    ASSERT_TRUE(result->needs.has_value()) << body;
    EXPECT_FALSE(result->program.has_value());
    EXPECT_THAT(result->needs->tunables, testing::ElementsAre("p")) << body;
    EXPECT_THAT(result->needs->why, HasSubstr(why)) << body;
    EXPECT_EQ(result->needs->loc.line, 9) << body;
    // With the value given, each of them is fine.
    EXPECT_TRUE(ElaborateOpen(*kernel, {}, *Config::Parse("p=4"), {}).ok()) << body;
  }
}

TEST(Constructs, AutotuneConfigs) {
  auto configs = [](const std::string& configs, const Arguments& arguments = {}) {
    const std::string text =
        "import itertools\nfrom itertools import product\nimport tilelang\nimport "
        "tilelang.language as T\n"
        "def by_size(M, extra=1):\n    out = []\n    for b in (32, 64, 128):\n        if b > M:\n"
        "            continue\n        out.append({'block': b, 'stages': extra})\n    return out\n"
        "def grid():\n    axes = dict(block=[32, 64], stages=[1, 2], fast=[True])\n"
        "    return [dict(zip(axes.keys(), c)) for c in itertools.product(*axes.values())]\n"
        "def own(M, fast, stages=5):\n    return [dict(block=32, stages=stages, fast=fast)]\n"
        "@tilelang.autotune(configs=" +
        configs +
        ", warmup=3)\n@tilelang.jit(out_idx=[0])\n"
        "def f(M, block=None, stages=1, fast=False, dtype='float16'):\n    @T.prim_func\n"
        "    def main(a: T.Tensor((M,), dtype)):\n        with T.Kernel(M // block):\n            "
        "T.clear(a)\n"
        "    return main\n";
    const auto kernel = Kernel::Parse(MakeSource(text), "f");
    if (!kernel.ok()) return std::vector<std::string>{std::string(kernel.status().message())};
    const auto result = AutotuneConfigs(*kernel, arguments);
    if (!result.ok()) return std::vector<std::string>{std::string(result.status().message())};
    std::vector<std::string> shown;
    for (const Config& c : *result) {
      shown.push_back(c.ToString());
      EXPECT_TRUE(Config::Parse(c.ToString()).ok()) << c.ToString();
      EXPECT_TRUE(Elaborate(*kernel, {{"M", "128"}}, c).ok()) << c.ToString();
    }
    return shown;
  };
  using testing::ElementsAre;
  EXPECT_THAT(configs("[{'block': 64}, dict(block=32, dtype=T.float32)]"),
              ElementsAre("block=64", "block=32,dtype=float32"));
  EXPECT_THAT(configs("by_size", {{"M", "64"}}),
              ElementsAre("block=32,stages=1", "block=64,stages=1"));
  EXPECT_THAT(configs("by_size(256, extra=3)"),
              ElementsAre("block=32,stages=3", "block=64,stages=3", "block=128,stages=3"));
  EXPECT_THAT(configs("grid"), testing::SizeIs(4));
  // What the call leaves out: the function's own default, or the kernel's.
  EXPECT_THAT(configs("own", {{"M", "64"}}), ElementsAre("block=32,fast=False,stages=5"));
  EXPECT_THAT(configs("own", {{"M", "64"}, {"stages", "2"}}),
              ElementsAre("block=32,fast=False,stages=2"));
  EXPECT_THAT(configs("own, do_not_specialize=['M']", {{"M", "64"}}),
              ElementsAre("block=32,fast=False,stages=1"));
  EXPECT_THAT(configs("[dict(block=b, stages=s) for b, s in product([32], repeat=2)]"),
              ElementsAre("block=32,stages=32"));
  EXPECT_THAT(configs("[{'block': 64, 'dtype': 'float32'}]"),
              ElementsAre("block=64,dtype=\"float32\""));
  EXPECT_THAT(configs("[{'blocks': 64}]")[0], HasSubstr("names 'blocks', which is no parameter"));
  EXPECT_THAT(configs("[3]")[0], HasSubstr("a config is a dict, not an integer"));
}

// A constant index outside of a tensor that a condition shields is no mistake; one that nothing
// shields is, and so is one of memory that has no guards.
TEST(Constructs, ConditionsShieldIndicesOutsideOfTensors) {
  for (const char* body :
       {"y[0, 0] = T.if_then_else(bx > 7, x[0, 64], 0)\n",
        "y[0, 0] = T.if_then_else(bx < 7, 0, x[64, 0])\n",
        "y[0, 0] = T.Select(bx > 7, x[0, 64], 0.0)\n", "y[0, 0] = x[0, 64] if bx > 7 else 0\n",
        "y[0, 0] = T.if_then_else(bx > 7 and x[0, 64] > 0, 1, 0)\n",
        "if bx > 7:\n    y[0, 64] = 1\n",
        "if bx > 7:\n    y[0, 0] = 1\nelse:\n    y[70, 0] = 1\n"}) {
    const auto program = ElaborateText(InKernel(body));
    EXPECT_TRUE(program.ok()) << body << program.status();
  }
  for (const char* body : {"y[0, 0] = T.if_then_else(x[0, 64] > 0, 1, 0)\n",
                           "y[0, 0] = T.if_then_else(bx > 7, 1, 0) + x[0, 64]\n",
                           "if bx > 7:\n    y[0, 0] = 1\ny[0, 64] = 1\n",
                           "y[0, 0] = T.if_then_else(bx > 7, x[0, -65], 0)\n",
                           "s = T.alloc_shared((64,), T.float32)\n"
                           "y[0, 0] = T.if_then_else(bx > 7, s[64], 0)\n"}) {
    EXPECT_THAT(Elaborated(InKernel(body)), HasSubstr("which has 64 elements")) << body;
  }
}

TEST(Constructs, SizesThatNoMachineHas) {
  const auto tensor = [](const std::string& type, const std::string& grid) {
    const auto program = ElaborateText(
        absl::StrCat("import tilelang.language as T\n\n@T.prim_func\ndef f(A: ", type,
                     "):\n    with T.Kernel(", grid, ", threads=32) as b:\n        A[0, 0] = 1\n"));
    return program.ok() ? "" : std::string(program.status().message());
  };
  EXPECT_EQ(tensor("T.StridedTensor((4, 4), (0, 1), 'float32')", "1"), "");
  EXPECT_THAT(tensor("T.StridedTensor((4, 4), (-4, 1), 'float32')", "1"),
              HasSubstr("stride 0 of the buffer is -4"));
  EXPECT_THAT(tensor("T.StridedTensor((4, 4), (4611686018427387904, 1), 'float32')", "1"),
              HasSubstr("reach further than 2^48 elements"));
  const std::string most = "2147483647";
  EXPECT_THAT(tensor("T.Tensor((4, 4), 'float32')", absl::StrCat(most, ", ", most, ", ", most)),
              HasSubstr("a grid of more than 2^48 blocks"));
}

TEST(Constructs, LocalNamesAndFormattingDoNotChangeTheDigest) {
  const std::string a = "t = x[0, 0] * 2\nx[0, 1] = t\n";
  const std::string b = "# other names\nvalue = (x[0,\n    0] *\n  2)\nx[0, 1] = value\n";
  const auto pa = ElaborateText(InKernel(a)), pb = ElaborateText(InKernel(b));
  ASSERT_TRUE(pa.ok() && pb.ok());
  EXPECT_EQ(ir::ProgramDigest(*pa), ir::ProgramDigest(*pb));
  const auto pc = ElaborateText(InKernel("t = x[0, 0] * 3\nx[0, 1] = t\n"));
  EXPECT_NE(ir::ProgramDigest(*pa), ir::ProgramDigest(*pc));
}

}  // namespace
}  // namespace kiln::lang
