// Everything that the language refuses: the message, its position, its remedy and its code.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/lang/lang_test_util.h"

namespace kiln::lang {
namespace {

using absl::StatusCode;
using testing::HasSubstr;

// The body of a kernel (see InKernel), the position of the error as the text that it underlines,
// and what the message and the remedy say.
struct Refusal {
  const char* body;
  const char* at;  // the caret stands where this first occurs in the kernel, else in the file
  const char* message;
  const char* remedy;
  StatusCode code = StatusCode::kInvalidArgument;
  const char* before = "";
  const char* module = "";
};

void Check(const Refusal& r, const std::string& text) {
  SCOPED_TRACE(text);
  const auto program = ElaborateText(text);
  ASSERT_FALSE(program.ok()) << ir::ToString(*program);
  const absl::Status& status = program.status();
  EXPECT_EQ(status.code(), r.code) << status.message();
  const std::optional<Diagnostic> d = DiagnosticOf(status);
  ASSERT_TRUE(d.has_value()) << status.message();
  EXPECT_THAT(d->message, HasSubstr(r.message));
  EXPECT_THAT(d->remedy, HasSubstr(r.remedy)) << d->message;
  EXPECT_FALSE(d->remedy.empty());
  size_t offset = text.find(r.at, text.find('\n', text.find("def kernel(")));
  if (offset == std::string::npos) offset = text.find(r.at);
  ASSERT_NE(offset, std::string::npos) << r.at;
  const int line = 1 + static_cast<int>(std::count(text.begin(), text.begin() + offset, '\n'));
  const size_t line_start = offset == 0 ? 0 : text.rfind('\n', offset - 1) + 1;
  EXPECT_EQ(d->loc.line, line) << status.message();
  EXPECT_EQ(d->loc.column, static_cast<int>(offset - line_start) + 1) << status.message();
  EXPECT_GT(d->loc.end_column, d->loc.column - 1);
  EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("k.py:", line, ":")));
}

const Refusal kScoping[] = {
    // The known silent miscompile: a constant rebound under a run-time condition.
    {"a = 1\nif bx == 0:\n    a = 2\nx[bx, 0] = a", "a = 2",
     "'a' (line 9) is rebound inside a run-time branch", "T.alloc_var"},
    {"a = x[0, 0]\nif n > 0:\n    a = x[1, 1]\nx[bx, 0] = a", "a = x[1, 1]",
     "rebound inside a run-time branch", "T.if_then_else"},
    {"if n > 0:\n    b = 1\nelse:\n    b = 2\nx[0, 0] = b", "b\n",
     "'b' is read outside the loop or branch that made it (line 12)", "T.alloc_var"},
    {"for i in range(4):\n    c = i\nx[0, 0] = c", "c\n", "read outside the loop", "T.alloc_var"},
    {"for i in range(4):\n    pass\nx[0, 0] = i", "i\n", "'i' is read outside", "T.alloc_var"},
    {"s = 0\nfor i in range(4):\n    s = s + i\n", "s = s + i",
     "is read and then rebound in the loop of line 10", "before the loop"},
    {"s = 0\nfor i in range(4):\n    s += x[i, 0]\n", "s += x", "carry its value", "T.alloc_var"},
    {"s = 1.0\nwhile v[0] < n:\n    v[0] = s\n    s = s * 2\n", "s = s * 2",
     "in the while loop of line 10", "T.alloc_var"},
    {"l = [1]\nif n > 0:\n    l.append(2)\n", "l.append(2)", "changed inside a run-time branch",
     "T.alloc_local"},
    {"d = {'a': 1}\nfor i in range(4):\n    d['a'] = 2\n", "d['a'] = 2",
     "changed inside a run-time branch or loop", "T.alloc_local"},
    {"l = [1]\nfor i in range(4):\n    l += [2]\n", "l += [2]", "changed inside a run-time branch",
     "T.alloc_local"},
    {"x[0, 0] = late\nlate = 1\n", "late\n", "'late' is read before it has a value",
     "assign it before"},
    {"T.copy(x, tyle)", "tyle", "unknown name 'tyle'", "did you mean"},
    {"s = T.alloc_shared((8,), 'flaot32')", "'flaot32'", "'flaot32' is not a dtype",
     "did you mean 'float32'?"},
    {"z = y if n > 0 else x", "y if", "a run-time condition chooses the buffer 'y'",
     "choose between numbers"},
};

const Refusal kLoops[] = {
    {"for a in [1, 2, 3]:\n    x[a, 0] = 1\n", "[1, 2, 3]", "cannot iterate over a list",
     "T.unroll(n)"},
    {"for a in (1, 2):\n    x[a, 0] = 1\n", "(1, 2)", "cannot iterate over a tuple",
     "comprehension"},
    {"for a, b in zip([1], [2]):\n    x[a, 0] = 1\n", "zip", "cannot iterate over an iterator",
     "recursive macro"},
    {"for a in enumerate([1]):\n    pass\n", "enumerate", "cannot iterate over an iterator",
     "T.unroll"},
    {"for i in range(4):\n    pass\nelse:\n    pass\n", "else:", "'else' on a loop",
     "after the loop", StatusCode::kUnimplemented},
    {"while n > 0:\n    pass\nelse:\n    pass\n", "else:", "'else' on a loop", "after the loop",
     StatusCode::kUnimplemented},
    {"while True:\n    pass\n", "True", "never changes at run time", "T.alloc_var"},
    {"for i in x:\n    pass\n", "x:\n            pass", "cannot iterate over the buffer 'x'",
     "T.Parallel"},
    {"for i, j in T.Parallel(4):\n    pass\n", "i, j", "cannot unpack 1 values into 2",
     "one value"},
    {"for i, j, k in T.Parallel(4, 4):\n    pass\n", "i, j, k", "has 2 axes, but 3 loop variables",
     "one variable for each axis"},
    {"for i in T.Parallel(8):\n    break\n", "break", "in a loop that is not serial", "T.serial"},
    {"break\n", "break", "'break' outside a loop", "inside a for"},
    {"for i in T.serial(0, 8, 0):\n    pass\n", "0):", "step of a loop is zero", "1 or -1"},
    {"for i in T.Parallel():\n    pass\n", "T.Parallel()", "without an extent", "T.Parallel(m, n)"},
    {"for i in T.Pipelined(4, num_stages=n):\n    pass\n", "num_stages=n", "depends on a run-time",
     "a constant"},
    {"for i in T.serial(1.5):\n    pass\n", "1.5", "must be an integer, not a float", "//"},
    {"for k in T.Pipeline(4):\n    pass\n", "Pipeline(4)", "'T' has no member 'Pipeline'",
     "did you mean 'Pipelined'?", StatusCode::kUnimplemented},
};

// A tile of 8 elements that a loop certainly leaves.
const Refusal kOutside[] = {
    {"s = T.alloc_shared((8,), 'float32')\nfor i in T.Parallel(16):\n    s[i] = 0.0\n",
     "s[i] = 0.0", "access outside 's': index 15 of dimension 0, whose extent is 8",
     "make the loop's extent fit"},
    {"f = T.alloc_fragment((4, 8), 'float32')\nfor i, j in T.Parallel(4, 8):\n"
     "    x[i, j] = T.exp2(f[i, j + 1])\n",
     "x[i, j] =", "access outside 'f': index 8 of dimension 1", "guard the access"},
    {"f = T.alloc_local((8,), 'float32')\nfor i in T.serial(8):\n    j = i * 2 - 3\n"
     "    x[i, 0] = f[j]\n",
     "x[i, 0] =", "access outside 'f': index -3 of dimension 0", "guard the access"},
    {"s = T.alloc_shared((4,), 'float32')\nfor i in T.unroll(2):\n    s[bx + i] = 0.0\n",
     "s[bx + i] =", "access outside 's': index 4 of dimension 0", "guard the access"},
    {"s = T.alloc_shared((8,), 'float32')\nfor i in T.Parallel(9):\n    if s[i] > 0.0:\n"
     "        x[i, 0] = 1.0\n",
     "s[i] > 0.0", "access outside 's': index 8 of dimension 0", "guard the access"},
    // Behind what is certain: a part of the threads, a condition on an axis, both ways of any
    // other.
    {"s = T.alloc_shared((8,), 'float32')\nwith T.ws(0):\n    for i in T.Parallel(16):\n"
     "        s[i] = 0.0\n",
     "s[i] = 0.0", "access outside 's': index 15 of dimension 0", "guard the access"},
    {"s = T.alloc_shared((8,), 'float32')\nfor i in T.Parallel(16):\n    if i < 10:\n"
     "        s[i] = 0.0\n",
     "s[i] = 0.0", "access outside 's': index 9 of dimension 0", "guard the access"},
    {"s = T.alloc_shared((8,), 'float32')\nfor i in T.serial(16):\n    if i >= 4 and 2 * i < 9:\n"
     "        s[3 - i] = 0.0\n",
     "s[3 - i]", "access outside 's': index -1 of dimension 0", "guard the access"},
    {"s = T.alloc_shared((8,), 'float32')\nfor i in T.serial(16):\n    if i < 8:\n"
     "        s[i] = 0.0\n    else:\n        s[i - 7] = 0.0\n",
     "s[i - 7]", "access outside 's': index 8 of dimension 0", "guard the access"},
    {"s = T.alloc_shared((8,), 'float32')\nfor i in T.serial(4):\n    if i == 3:\n"
     "        s[i + 5] = 0.0\n",
     "s[i + 5]", "access outside 's': index 8 of dimension 0", "guard the access"},
    {"s = T.alloc_shared((8,), 'float32')\nfor i in T.serial(4):\n    if i != 3:\n"
     "        s[i + 6] = 0.0\n",
     "s[i + 6]", "access outside 's': index 8 of dimension 0", "guard the access"},
    {"s = T.alloc_shared((8,), 'float32')\nif n > 4:\n    for i in T.serial(9):\n"
     "        s[i] = 0.0\nelse:\n    for i in T.serial(10):\n        s[i] = 1.0\n",
     "s[i] = 0.0", "access outside 's': index 8 of dimension 0", "guard the access"},
    {"s = T.alloc_shared((8,), 'int32')\nfor i in T.Parallel(9):\n    T.atomic_add(s[i], 1)\n",
     "T.atomic_add", "access outside 's': index 8 of dimension 0", "guard the access"},
    {"s = T.alloc_shared((8,), 'int32')\nfor i in T.Parallel(9):\n"
     "    T.atomic_add(v[i], s[i])\n",
     "T.atomic_add", "access outside 's': index 8 of dimension 0", "guard the access"},
    {"s = T.alloc_shared((8,), 'float32')\ntx = T.get_thread_binding(0)\ns[tx] = 0.0\n",
     "s[tx] = 0.0", "access outside 's': index 127 of dimension 0", "guard the access"},
    {"s = T.alloc_shared((8,), 'float32')\ntx = T.get_thread_binding(0)\nif tx < 16:\n"
     "    s[tx] = 0.0\n",
     "s[tx] = 0.0", "access outside 's': index 15 of dimension 0", "guard the access"},
    {"s = T.alloc_shared((8,), 'int32')\nfor i in T.serial(9):\n"
     "    w = T.alloc_var('int32', init=s[i])\n    v[i] = w\n",
     "T.alloc_var", "access outside 's': index 8 of dimension 0", "guard the access"},
    {"s = T.alloc_shared((8,), 'float32')\nfor i in T.Parallel(16):\n"
     "    x[i, 0] = T.if_then_else(i < 9, s[i], 0.0)\n",
     "x[i, 0] =", "access outside 's': index 8 of dimension 0", "guard the access"},
    {"s = T.alloc_shared((8,), 'int32')\nfor i in T.serial(9):\n    while s[i] > 0:\n"
     "        s[0] = 0\n",
     "while s[i]", "access outside 's': index 8 of dimension 0", "guard the access"},
};

// What blocks may not keep where all of them meet.
const Refusal kGridMeetings[] = {
    {"if n > 0:\n    T.sync_grid()\n", "T.sync_grid()", "T.sync_grid() in a branch or loop",
     "end the loop before it", StatusCode::kUnimplemented},
    {"for i in T.serial(4):\n    T.sync_grid()\n", "T.sync_grid()", "in a branch or loop",
     "between statements", StatusCode::kUnimplemented},
    {"s = T.alloc_shared((64,), T.int32)\nT.copy(v, s)\nT.sync_grid()\nT.copy(s, v)\n",
     "T.sync_grid()", "'s' is used before and after T.sync_grid()", "through a tensor",
     StatusCode::kUnimplemented},
    {"w = T.alloc_var(T.int32, init=v[bx])\nx[bx, 0] = 1.0\nT.sync_grid()\nv[0] = w\n",
     "T.alloc_var(T.int32", "'w' is read from memory before T.sync_grid()", "read it again",
     StatusCode::kUnimplemented},
    {"first = v[bx]\nx[bx, 0] = 1.0\nT.sync_grid()\nv[first] = 1\n", "first = v[bx]",
     "'first' is read from memory before T.sync_grid()", "read it again",
     StatusCode::kUnimplemented},
};

const Refusal kTiles[] = {
    {"s = T.alloc_shared((8, 8), T.float32)\nT.copy(x, s)", "T.copy", "shapes that differ",
     "same extents"},
    {"s = T.alloc_shared((8, 8), T.float32)\nT.copy(x[0:8, 0:9], s)", "T.copy",
     "'x' has (8, 9), 's' has (8, 8)", "same extents"},
    {"T.copy(x, 3)", "3)", "must be a buffer or a region of one, not an integer", "pass a buffer"},
    {"T.copy(v[0:4], x[0:4, 0:4])", "T.copy", "shapes that differ", "same extents"},
    {"T.gemm(x, x, y)", "x, x, y", "is the global tensor 'x'", "T.alloc_shared"},
    {"a = T.alloc_shared((8, 16), T.float16)\nb = T.alloc_shared((8, 16), T.float16)\n"
     "c = T.alloc_fragment((8, 16), T.float32)\nT.gemm(a, b, c)",
     "T.gemm", "K differs between A and B: 16 and 8", "transpose_B"},
    {"a = T.alloc_shared((8, 16), T.float16)\nc = T.alloc_fragment((8, 8), T.float32)\n"
     "T.gemm(a, a, c, transpose_B=True, policy=1)",
     "policy=1", "must be a T.GemmWarpPolicy", "FullRow"},
    {"a = T.alloc_shared((8, 16), T.float16)\nc = T.alloc_fragment((8, 8), T.float32)\n"
     "T.gemm(a, a, c, tranpose_B=True)",
     "tranpose_B", "no parameter 'tranpose_B'", "did you mean 'transpose_B'?"},
    {"a = T.alloc_shared((8,), T.float16)\nT.gemm(a, a, a)", "a, a, a", "is not a matrix",
     "two dimensions"},
    {"a = T.alloc_shared((16, 32), T.float16)\ne = T.alloc_shared((16, 4), T.float32)\n"
     "b = T.alloc_shared((64, 8), T.float16)\nc = T.alloc_fragment((16, 8), T.float32)\n"
     "T.gemm_sp(a, e, b, c)",
     "e, b, c", "E of T.gemm_sp, 'e', is float32", "integers of 8, 16 or 32"},
    {"a = T.alloc_shared((16, 32), T.float16)\ne = T.alloc_shared((16, 2), T.int16)\n"
     "b = T.alloc_shared((64, 8), T.float16)\nc = T.alloc_fragment((16, 8), T.float32)\n"
     "T.gemm_sp(a, e, b, c)",
     "T.gemm_sp", "K differs between A and E, each of whose elements is about 16: 64 and 32",
     "get_e_factor"},
    {"a = T.alloc_shared((16, 32), T.float16)\ne = T.alloc_shared((16, 4), T.int16)\n"
     "b = T.alloc_shared((32, 8), T.float16)\nc = T.alloc_fragment((16, 8), T.float32)\n"
     "T.gemm_sp(a, e, b, c)",
     "T.gemm_sp", "K differs between A, which holds half of it, and B: 64 and 32",
     "A is [M, K / 2]"},
    {"a = T.alloc_shared((16, 32), T.float16)\ne = T.alloc_shared((8, 4), T.int16)\n"
     "b = T.alloc_shared((64, 8), T.float16)\nc = T.alloc_fragment((16, 8), T.float32)\n"
     "T.gemm_sp(a, e, b, c)",
     "T.gemm_sp", "M differs between A and E: 16 and 8", "each turned by"},
    {"a = T.alloc_shared((16, 32), T.float16)\ne = T.alloc_shared((16, 4), T.int16)\n"
     "b = T.alloc_shared((64, 8), T.float16)\nc = T.alloc_fragment((16, 8), T.float32)\n"
     "T.gemm_sp(a, e, b, c, transpose_A=True)",
     "T.gemm_sp", "K differs between A, which holds half of it, and B: 32 and 64",
     "A is [M, K / 2]"},
    {"a = T.alloc_shared((16, 32), T.int32)\ne = T.alloc_shared((16, 4), T.int16)\n"
     "b = T.alloc_shared((64, 8), T.float16)\nc = T.alloc_fragment((16, 8), T.float32)\n"
     "T.gemm_sp(a, e, b, c)",
     "a, e, b, c", "T.gemm_sp of int32", "int8 or uint8"},
    {"a = T.alloc_shared((16, 32), T.float16)\ne = T.alloc_shared((16, 4), T.int16)\n"
     "b = T.alloc_shared((64, 8), T.int8)\nc = T.alloc_fragment((16, 8), T.float32)\n"
     "T.gemm_sp(a, e, b, c)",
     "T.gemm_sp", "T.gemm_sp of float16 and int8 into float32", "one type"},
    {"a = T.alloc_shared((16, 32), T.float16)\ne = T.alloc_shared((16, 4), T.int16)\n"
     "b = T.alloc_shared((64, 8), T.float16)\nc = T.alloc_fragment((16, 8), T.float32)\n"
     "T.gemm_sp(a, x, b, c)",
     "x, b, c", "E of T.gemm_sp is the global tensor 'x'", "T.alloc_shared"},
    {"a = T.alloc_shared((16, 32), T.float16)\ne = T.alloc_shared((16, 4), T.int16)\n"
     "b = T.alloc_shared((64, 8), T.float16)\nc = T.alloc_fragment((16, 8), T.float32)\n"
     "T.gemm_sp(a, e, b, c, policy=1)",
     "policy=1", "the policy of T.gemm_sp must be a T.GemmWarpPolicy", "FullRow"},
    {"a = T.alloc_shared((16, 32), T.float16)\ne = T.alloc_shared((16, 4), T.int16)\n"
     "b = T.alloc_shared((64, 8), T.float16)\nc = T.alloc_fragment((16, 8), T.float32)\n"
     "T.tcgen05_gemm_sp(a, e, b, c)",
     "tcgen05_gemm_sp", "'T.tcgen05_gemm_sp' is not supported", "T.gemm",
     StatusCode::kUnimplemented},
    {"e = T.alloc_shared((16, 4), T.int16)\n"
     "T.annotate_layout({e: tilelang.layout.make_cutlass_metadata_layout(e)})",
     "make_cutlass_metadata_layout", "is not supported", "row by row", StatusCode::kUnimplemented},
    {"n = get_e_factor(T.int32, T.int16)", "T.int32, T.int16", "no sparse form of int32", "float32",
     StatusCode::kInvalidArgument, "",
     "from tilelang.cuda.intrinsics.sparse_layout import get_e_factor\n"},
    {"n = get_e_factor(T.float16, T.float16)", "T.float16)", "no metadata of float16",
     "8, 16 or 32 bits", StatusCode::kInvalidArgument, "",
     "from tilelang.cuda.intrinsics.sparse_layout import get_e_factor\n"},
    {"f = T.alloc_fragment((8, 4), T.float32)\nr = T.alloc_fragment((4,), T.float32)\n"
     "T.reduce_sum(f, r, dim=1)",
     "T.reduce_sum", "shapes that differ", "same extents"},
    {"f = T.alloc_fragment((8, 4), T.float32)\nr = T.alloc_fragment((4,), T.float32)\n"
     "T.reduce_sum(f, r, dim=2)",
     "dim=2", "dim 2 is out of range", "0 to 1"},
    {"x[0] = 1\n", "x[0]", "a part of 'x' (2 dimensions, 1 index) is assigned to", "x[i, j]"},
    {"x[0, 0, 0] = 1\n", "x[0, 0, 0]", "2 dimensions, but 3 indices", "drop"},
    {"x[0, 64] = 1\n", "64] = 1", "outside dimension 1 of 'x', which has 64 elements", "0 to 63"},
    {"x[0, -65] = 1\n", "-65", "outside dimension 1", "0 to 63"},
    {"T.copy(x[0:64:2, :], y)", "0:64:2", "step 2", "T.Parallel", StatusCode::kUnimplemented},
    {"T.copy(x[5:5, :], y)", "5:5", "is empty", "after its start"},
    {"s = T.alloc_shared((n,), T.float32)", "(n,)", "depends on a run-time value", "compile-time"},
    {"s = T.alloc_shared((0, 4), T.float32)", "T.alloc_shared", "dimension 0 of the buffer is 0",
     "at least 1"},
    {"s = T.alloc_shared((-4,), T.float32)", "T.alloc_shared", "is -4", "at least 1"},
    {"s = T.alloc_shared((1 << 30, 1 << 30), T.float32)", "T.alloc_shared", "more than 2^48",
     "smaller"},
    {"s = T.alloc_shared((4,), 'float17')", "'float17'", "is not a dtype", "float16"},
    {"x[0, 0] = x\n", "x\n", "not the whole buffer 'x'", "index it"},
    {"x[0, 0] = 'a'\n", "'a'", "must be a number or a run-time value, not a string",
     "pass a number"},
    {"v[0] = 1.5\n", "1.5", "is 1.5, which int32 cannot hold", "T.cast"},
    {"T.fill(v, T.infinity(T.float32))", "T.infinity", "has no infinity", "T.max_value"},
    {"v[0] = 1 << 40\n", "1 << 40", "which int32 cannot hold", "wider"},
    {"T.ptx_cp_async(T.access_ptr(x[0, 0], 'w', 3), T.access_ptr(x[4, 0], 'r', 3), 3)",
     "T.ptx_cp_async", "T.ptx_cp_async of 3 elements", "4, 8 or 16 bytes"},
    {"T.copy(T.access_ptr(x[0, 0], 'r', 2, 4), x)", "2, 4", "with extents", "pass a region"},
    {"T.atomic_add(x[0:4, 0:4], x[4:8, 0:4], return_prev=True)", "return_prev",
     "returns the previous value", "T.Parallel", StatusCode::kUnimplemented},
    {"T.atomic_or(x[0, 0], 1)", "x[0, 0], 1", "a bitwise update of 'x', which is float32",
     "integers"},
    {"T.atomic_add(x[0, 0], 1, memory_order='weak')", "memory_order", "the memory order 'weak'",
     "'relaxed'"},
    {"T.atomic_store(v[0], 1, memory_order='acquire')", "memory_order", "'acquire'",
     "a store is 'relaxed'"},
    {"z = T.atomic_load(v[0], memory_order='release')", "memory_order", "'release'",
     "a load is 'relaxed'"},
    {"T.atomic_store(v, 1)", "v, 1", "T.atomic_store of a whole region", "index one element"},
    {"z = v[0] if n > 0 else T.atomic_add(v[0], 1, return_prev=True)", "T.atomic_add",
     "has an effect", "under if"},
    {"T.atomic_addx4(x[0, 0], 1.0)", "1.0", "the value must be a buffer or a region",
     "pass a buffer"},
    {"T.atomic_addx2(x[0, 0], 1.0)", "1.0", "must be a buffer or a region of one", "x[a, c]"},
    {"s = T.alloc_shared((8, 8), T.float32)\nT.copy(x[0:8, 0:8], s, eviction_policy='evict_never')",
     "eviction_policy='evict_never'", "no eviction policy is called evict_never", "evict_first"},
    {"T.annotate_l2_hit_ratio({x: 1.5})", "{x: 1.5}", "hit ratio of 'x' is 1.5", "the part of"},
    {"s = T.alloc_shared((8, 8), T.float32)\nT.annotate_l2_hit_ratio({s: 0.5})", "{s: 0.5}", "maps",
     "in global memory"},
    {"z = x + y", "x + y", "no operator '+' for the buffer 'x' and the buffer 'y'", "T.Parallel"},
    {"if x:\n    pass\n", "x:\n            pass", "the buffer 'x' cannot be a condition",
     "x[i] > 0"},
};

const Refusal kExpressions[] = {
    {"z = v[0] / v[1]", "v[0] / v[1]", "'/' on run-time integers", "//"},
    {"z = v[0] // 0", "v[0] // 0", "division by zero", "divisor"},
    {"z = 1 % 0", "1 % 0", "division by zero", "divisor"},
    {"z = x[0, 0] << 2", "x[0, 0] << 2", "run-time floats have no operator '<<'", "T.reinterpret"},
    {"z = v[0] << 32", "v[0] << 32", "a shift of int32 by 32", "0 to 31"},
    {"z = 2 ** 10 ** 9", "2 ** 10", "does not fit 64 bits", "64-bit"},
    {"z = 1 << 64", "1 << 64", "does not fit 64 bits", "64-bit"},
    {"z = 9223372036854775807 + 1", "9223372036854775807 + 1", "does not fit 64 bits", "64-bit"},
    {"z = 9223372036854775808", "9223372036854775808", "above 2^63 - 1", "64-bit",
     StatusCode::kUnimplemented},
    {"z = [1, 2][2]", "[1, 2][2]", "index 2 is out of range for a list of length 2", "0 to 1"},
    {"z = [1, 2][v[0]]", "[1, 2][v[0]]", "must be known at compile time", "constant"},
    {"z = {'a': 1}['aa']", "{'a'", "no key 'aa'", "did you mean 'a'?"},
    {"z = T.expp(x[0, 0])", "expp", "'T' has no member 'expp'", "did you mean 'exp'?",
     StatusCode::kUnimplemented},
    {"z = T.cumsum(x)", "x)", "is the global tensor 'x'", "T.alloc_shared"},
    {"s = T.alloc_shared((4, 8), 'int32')\nT.cumsum(s, dim=-3)", "dim=-3", "dim -3 is out of range",
     "use 0 to 1"},
    {"s = T.alloc_shared((4, 8), 'int32')\nT.cumsum(s, dim=2)", "dim=2", "dim 2 is out of range",
     "0 to 1"},
    {"s = T.alloc_shared((4, 8), 'int32')\nr = T.alloc_shared((4, 9), 'int32')\nT.cumsum(s, r)",
     "T.cumsum(s, r)", "between shapes that differ", "the same extents"},
    {"s = T.alloc_shared((4, 8), 'int32')\nT.cumsum(s[0:2, :], s[1:3, :])", "T.cumsum(s[0:2",
     "that may share elements", "a tile of its own"},
    {"s = T.alloc_shared((4, 8), 'bool')\nT.cummax(s)", "T.cummax(s)", "T.cummax of bool", "cast"},
    {"s = T.alloc_shared((4, 8), 'int32')\nT.cumsum(s[1, 2])", "s[1, 2]", "a start without extents",
     "a region"},
    {"s = T.alloc_shared((4, 8), 'int32')\nT.transpose(s, s)", "T.transpose(s, s)", "into itself",
     "a tile of its own"},
    {"s = T.alloc_shared((4, 8), 'int32')\nr = T.alloc_shared((4, 8), 'int32')\n"
     "T.transpose(s, r)",
     "T.transpose(s, r)", "between shapes that differ", "the same extents"},
    {"s = T.alloc_shared((4, 8), 'float32')\nT.im2col(x, s, bx, 0, 3, 1, 1, 1)", "x, s, bx",
     "no whole tensor [n, h, w, c]", "channels last"},
    {"s = T.alloc_fragment((4, 8), 'float32')\nr = T.alloc_fragment((4,), 'float32')\n"
     "T.reduce_bitor(s, r, dim=1)",
     "T.reduce_bitor", "a bitwise reduction of 's', which is float32", "reinterpret"},
    {"z = T.popcount(x[0, 0])", "x[0, 0]", "is float32", "T.reinterpret"},
    {"z = T.ldexp(x[0, 0], x[0, 1])", "x[0, 1]", "the exponent of T.ldexp is float32",
     "an integer"},
    {"z = T.ieee_add(x[0, 0], x[0, 1], 'up')", "'up'", "the rounding mode 'up'", "'rn'"},
    {"z = T.ieee_mul(T.cast(x[0, 0], 'float16'), T.cast(x[0, 0], 'float16'))", "T.ieee_mul",
     "T.ieee_mul of float16", "float32"},
    {"z = T.rng_rand()", "T.rng_rand()", "before T.rng_init", "T.rng_init(seed)"},
    {"for i in T.Parallel(4):\n    T.rng_init(1)", "T.rng_init(1)", "in a loop over elements",
     "before the loop"},
    {"T.rng_init(1, generator='curandStateXORWOW_t')", "generator", "curandStateXORWOW_t",
     "Philox"},
    {"T.rng_init(1)\nz = T.rng_rand_float(bit=16)", "bit=16", "of 16 bits", "32 or 64"},
    {"T.rng_init(1)\nz = T.rng_rand_float(dist='even')", "dist='even'", "'even'", "'uniform'"},
    {"for i in T.Parallel(4):\n    T.print(x)", "x)", "in a loop over elements", "one element"},
    {"T.dp4a(v, v, v)", "v, v, v", "operand 0 of T.dp4a is int32", "int8"},
    {"s = T.alloc_shared((8,), T.float32)\nT.annotate_safe_value({s: 1.0})", "{s: 1.0}",
     "T.annotate_safe_value of", "name a tensor"},
    {"T.annotate_safe_value({x: 1.0})\nT.annotate_safe_value({x: 2.0})", "{x: 2.0}",
     "'x' has the safe values 1.0 and 2.0 in one launch", "give it one"},
    {"T.annotate_safe_value({x: y[0, 0]})", "{x: y[0, 0]}",
     "the safe value of 'x' is computed in the launch", "give a number"},
    {"a = T.atomic_cas(v[0], 0, 1)", "atomic_cas", "'T.atomic_cas' is not supported",
     "return_prev=True", StatusCode::kUnimplemented},
    {"z = T.add2(x[0, 0], x[0, 1])", "x[0, 0]", "T.add2 of", "two neighbours"},
    {"z = T.add2(v[0:2], v[0:2])", "v[0:2]", "T.add2 of int32", "float32, float16 or bfloat16"},
    {"x[0, 0] = T.Ramp(0, 1, 4)", "x[0, 0]", "a vector of 4 lanes is stored to an element",
     "T.Ramp"},
    {"x[0, T.Ramp(0, 1, 4)] = T.Broadcast(1.0, 8)", "x[0, T.Ramp(0, 1, 4)]",
     "a vector of 8 lanes beside one of 4", "as many lanes"},
    {"z = T.Ramp(0, 1, 65)", "65", "the lanes of T.Ramp is 65", "1 to 64"},
    {"z = T.Shuffle([T.Ramp(0, 1, 2)], [2])", "[2]", "T.Shuffle of lane 2 of 2", "from 0"},
    {"z = T.extract_lane(3, 0)", "3", "T.extract_lane of", "a vector"},
    {"z = T.alloc_local((4,), 'float32x2')", "'float32x2'", "float32x2, a type of vectors",
     "the element's type"},
    {"z = T.reinterpret(T.Ramp(0, 1, 2), 'int64x2')", "T.reinterpret", "int64x2 of 64 bits",
     "same number of bits"},
    {"T.stg128(x[0, 0], T.Ramp(0, 1, 2))", "T.Ramp", "a value of 64 bits for a store of 128",
     "as many bits"},
    {"q = T.alloc_shared((4, 3), 'int4')\nq[0, 0] = 1", "T.alloc_shared",
     "the last dimension of 'q' of int4 is not known to be even", "a multiple of 2"},
    {"q = T.alloc_shared((4, 4), 'int4')\nfor i in T.Parallel(4):\n    q[i, 0] = 1", "q[i, 0]",
     "may leave them to two threads", "x[.., e + v]", StatusCode::kUnimplemented},
    {"q = T.alloc_shared((4, 4), 'int4')\nfor i in T.Parallel(4):\n    if i > 1:\n"
     "        q[i, i] = 1",
     "q[i, i]", "may leave them to two threads", "x[.., e + v]", StatusCode::kUnimplemented},
    {"tx = T.get_thread_binding(0)\nq = T.alloc_shared((128,), 'int4')\nq[tx] = 1", "q[tx]",
     "may leave them to two threads", "x[.., e + v]", StatusCode::kUnimplemented},
    {"q = T.alloc_global((4, 4), 'uint4')\nq[0, 1] = 1", "q[0, 1]", "may leave them to two blocks",
     "x[.., e + v]", StatusCode::kUnimplemented},
    {"q = T.alloc_global((4, 4), 'uint4')\nfor i in T.Parallel(4):\n    if i != n:\n"
     "        q[0, i] = 1",
     "q[0, i]", "may leave them to two blocks", "both or neither", StatusCode::kUnimplemented},
    {"q = T.alloc_shared((4, 4), 'int4')\nr = T.alloc_fragment((4,), 'int32')\n"
     "T.reduce_sum(q, r, dim=1)",
     "T.reduce_sum", "a reduction of 'q' of int4", "into a fragment", StatusCode::kUnimplemented},
    {"q = T.alloc_shared((16, 16), 'int4')\nr = T.alloc_shared((16, 16), 'float8_e4m3fn')\n"
     "s = T.alloc_fragment((16, 16), 'float32')\nT.gemm(r, q, s)",
     "T.gemm", "a matrix product of float8_e4m3fn and int4", "to float16",
     StatusCode::kUnimplemented},
    {"q = T.alloc_shared((16, 16), 'int4')\nr = T.alloc_shared((16, 16), 'float16')\n"
     "s = T.alloc_fragment((16, 16), 'int32')\nT.gemm(r, q, s)",
     "T.gemm", "T.gemm of float16 and int4 into int32", "floats into floats"},
    {"q = T.alloc_fragment((4, 4), 'uint8')\nz = T.view(q, (4, 8), 'int4')\nz[0, 0] = 1", "T.view",
     "a view of registers", "view a shared tile", StatusCode::kUnimplemented},
    {"q = T.alloc_reducer((4,), 'int4', op='sum')", "'int4'", "a reducer of int4", "int32",
     StatusCode::kUnimplemented},
    {"z = T.max(x[0, 0])", "T.max", "needs its argument 'b'", "a, b"},
    {"z = T.exp(x[0, 0], 1, 2)", "1, 2)", "at most 1 positional", "drop"},
    {"z = (w := 3)", "w := 3", "an assignment expression (:=)", "statement of its own",
     StatusCode::kUnimplemented},
    {"z = list({1, 2})", "{1, 2}", "a set has no order in which its items come", "sorted(...)"},
    {"z = {1, [2]}", "{1, [2]}", "a list as the key of a dict or in a set", "a tuple"},
    {"z = {1, 2}\nif n > 0:\n    z.add(3)", "z.add(3)", "changed inside a run-time branch",
     "a buffer"},
    {"z = frozenset([1])\nz.add(3)", "z.add(3)", "a frozenset does not change", "a set"},
    {"z = {1}\nz.remove(3)", "3", "3 is not in the set", "discard"},
    {"z = {'a': 1}\nif n > 0:\n    z |= {'b': 2}", "z |= {'b': 2}", "a dict is changed inside",
     "a buffer"},
    {"z = 3j", "3j", "a complex number", "apart", StatusCode::kUnimplemented},
    {"z = b'ab'", "b'ab'", "a bytes literal", "string", StatusCode::kUnimplemented},
    {"z = 'a' + 1", "'a' + 1", "no operator '+' for a string and an integer", "types"},
    {"z = x.shpe", "shpe", "has no attribute 'shpe'", "did you mean 'shape'?"},
    {"z = x.dat", "dat", "has no attribute 'dat'", "did you mean 'data'?"},
    {"z = T.view(x[0:8, :], (512,))", "T.view(x[0:8, :], (512,))", "a view of a", "a whole tile"},
    {"z = T.reshape(x, (64, 63))", "T.reshape(x, (64, 63))",
     "'x', float32 (64, 64), viewed as float32 (64, 63), which is another number of bytes",
     "same number of bytes"},
    {"z = T.view(x, (64, 64), 'float16')", "T.view(x, (64, 64), 'float16')",
     "a view of the global tensor 'x' of float32 as float16", "declare the tensor as float16",
     StatusCode::kUnimplemented},
    {"s = T.alloc_shared((8,), 'uint8')\nz = T.view(s, (8,), 'bool')", "T.view(s, (8,), 'bool')",
     "as bool", "use uint8"},
    {"s = T.alloc_shared((8,), 'int32')\nz = T.view(s, (16,), 'int16')\n"
     "T.atomic_add(s[0], 1)",
     "T.view(s, (16,), 'int16')", "updated by atomics and is viewed as elements of another type",
     "a tile of its own"},
    {"with T.ws(1):\n    x[0, 0] = 1", "T.ws(1)", "T.ws names threads 128 to 255 of a block of 128",
     "launch more threads"},
    {"with T.ws(0):\n    with T.ws(0 + 0):\n        x[0, 0] = 1", "T.ws(0 + 0)",
     "T.ws inside of T.ws", "in one T.ws"},
    {"z = T.ws(0, 7)", "7", "warpgroup 7 of T.ws", "follow each other"},
    {"s = T.alloc_shared((8, 8), 'int32')\nz = T.reshape(s, (64,))\nT.annotate_layout({s: "
     "T.Layout((8, 8), lambda i, j: (j, i)), z: T.Layout((64,), lambda i: 63 - i)})",
     "T.reshape(s, (64,))", "is called by another name with another layout", "of its own"},
    {"s = T.alloc_shared((8,), 'int32')\nz = T.decl_buffer((8,), 'int32', scope='local', "
     "data=s.data)",
     "scope='local'", "the scope 'local' of a buffer over 's'", "leave the scope out"},
    {"for i in T.serial(4):\n    with T.ws(0):\n        break", "break",
     "'break' out of a T.ws block", "outside of T.ws"},
    {"s = T.alloc_var('int32')\nz = T.view(s, (1,))", "T.view(s, (1,))",
     "a view of the variable 's'", "T.reinterpret"},
    {"a, b = 1, 2, 3", "a, b", "cannot unpack 3 values into 2", "one value"},
    {"z = 3(4)", "3(4)", "an integer cannot be called", "call a function"},
    {"z = open('f')", "open('f')", "Python's 'open' is not in the kernel language", "parameters",
     StatusCode::kUnimplemented},
    {"z = T.infinity(T.int32)", "T.int32)\n", "int32 has no infinity", "T.max_value"},
    {"z = T.reinterpret(x[0, 0], T.int8)", "T.reinterpret", "from float32 to int8", "same number"},
    {"z = math.log2(v[0])", "v[0]", "takes a number, not an element of 'v'", "in T"},
    {"z = [1, 2].index(v[0])", "[1, 2].index", "whether 1 equals <an element of 'v'> must be known",
     "as in a == b"},
    {"z = -'a'", "-'a'", "no unary '-' for a string", "type"},
    {"z = 'abc' < 3", "'abc' < 3", "no order between", "numbers"},
};

const Refusal kStatements[] = {
    {"del x\n", "del x", "del is not in the kernel language", "scope", StatusCode::kUnimplemented},
    {"global x\n", "global x", "global is not", "parameter", StatusCode::kUnimplemented},
    {"nonlocal x\n", "nonlocal x", "nonlocal is not", "return", StatusCode::kUnimplemented},
    {"try:\n    pass\nexcept:\n    pass\n", "try:", "try is not in the kernel language", "assert",
     StatusCode::kUnimplemented},
    {"raise ValueError('too small')\n", "raise", "the kernel raised: too small", "accepts"},
    {"assert p == 5, f'p is {p}'\n", "p == 5", "assertion failed: p is 4", "satisfy"},
    {"return x\n", "return x", "only at its end", "guard"},
    {"x.a = 3\n", "x.a", "the buffer 'x' has no attributes to assign to", "T.alloc_var"},
    {"for i, j in T.Persistent((4, 4), 0, bx):\n    pass\n", "T.Persistent",
     "wave_size of T.Persistent is 0", "at least 1"},
    {"for i, j in T.Persistent((4, 4, 2), 4, bx):\n    pass\n", "i, j",
     "T.Persistent has 3 axes, but 2 loop variables", "one variable for each axis"},
    {"with T.Kernel(2) as by:\n    pass\n", "T.Kernel(2)", "T.Kernel inside T.Kernel", "directly"},
    {"with x:\n    pass\n", "x:\n            pass", "is no context", "T.Kernel"},
    {"T.use_swizzle(0)\n", "0)\n", "panel_size is 0", "enable=False"},
    {"T.use_swizzle(4, order='diagonal')\n", "order=", "the order 'diagonal'", "row"},
    {"z = T.empty((4,), T.float32)\n", "T.empty", "before its T.Kernel block", "T.alloc_global"},
    {"T.annotate_layout({x: 3})\n", "{x: 3}", "the layout of 'x' is an integer", "T.Layout"},
    {"T.annotate_layout({3: x})\n", "{3: x}", "maps an integer", "buffer: layout"},
    {"z = T.Layout((4, 4), lambda i, j: (0, i))\n", "T.Layout", "elements (0, 0) and (0, 1)",
     "a place of its own"},
    {"z = T.Layout((4, 4), lambda i, j: (i, -j))\n", "T.Layout",
     "element (0, 3) of the layout lies", "count from 0"},
    {"z = T.Layout((4, 4), lambda i, j: (j * 1099511627776 + i))\n", "T.Layout", "beyond place",
     "dense"},
    {"z = T.Layout((4, 4), lambda i, j: (i * 4 + j + bx))\n", "T.Layout", "depends on bx", "index"},
    {"z = T.Fragment((4,), lambda i: (i + bx, 0))\n", "T.Fragment", "depends on bx", "index"},
    {"T.annotate_layout({x: T.Layout((3, 5), lambda i, j: (i, j))})\n", "{x",
     "gets a layout of shape", "the buffer's shape"},
    {"helper(x)\n", "t[0, 0] = 1", "the plain function 'helper' stores to a buffer", "@T.macro",
     StatusCode::kInvalidArgument, "", "def helper(t):\n    t[0, 0] = 1\n"},
    {"z = pick(n)\n", "a > 3", "the plain function 'pick' branches on a run-time value", "@T.macro",
     StatusCode::kInvalidArgument, "",
     "def pick(a):\n    if a > 3:\n        return 1\n    return 2\n"},
    {"early(x, n)\n", "return 1", "cannot return from inside a run-time branch", "T.alloc_var",
     StatusCode::kInvalidArgument, "",
     "@T.macro\ndef early(t, a):\n    if a > 3:\n        return 1\n    return 2\n"},
    {"z = n > 0 and set_it(x)\n", "set_it(x)", "in an operand that run time may skip",
     "a statement", StatusCode::kInvalidArgument, "",
     "@T.macro\ndef set_it(t):\n    t[0, 0] = 1\n    return True\n"},
    {"by_ref(3)\n", "3)", "is a T.Ref and needs a place to store to, not an integer", "T.alloc_var",
     StatusCode::kInvalidArgument, "", "@T.macro\ndef by_ref(a: T.Ref):\n    a = 1\n"},
    {"forever(x)\n", "forever(t)\n", "calls are nested more than 200 deep", "bounded",
     StatusCode::kResourceExhausted, "", "@T.macro\ndef forever(t):\n    forever(t)\n"},
    {"gen()\n", "gen()\n", "a generator with effects", "return a list", StatusCode::kUnimplemented,
     "", "@T.macro\ndef gen():\n    yield 1\n"},
    {"z = (yield 3)\n", "yield 3", "yield in a kernel", "plain function",
     StatusCode::kUnimplemented},
    {"z = np.hypot(3, 4)\n", "hypot", "'numpy' has no member 'hypot'", "in kernels it is T.hypot",
     StatusCode::kUnimplemented, "", "import numpy as np\n"},
    {"z = fancy.stuff(3)\n", "fancy.stuff(3)", "'fancy.stuff' cannot be called here", "tilelang",
     StatusCode::kUnimplemented, "", "import fancy\n"},
    {"deep(x)\n", "elsewhere.deco", "the decorator 'deco' is not supported", "@T.macro",
     StatusCode::kUnimplemented, "", "import elsewhere\n@elsewhere.deco\ndef deep(t):\n    pass\n"},
    {"deep(x)\n", "deco", "unknown name 'deco'", "define it", StatusCode::kInvalidArgument, "",
     "@deco\ndef deep(t):\n    pass\n"},
};

const Refusal kInterface[] = {
    {"pass", "T.copy(x, y)\n", "T.copy stands outside a T.Kernel block", "T.Kernel",
     StatusCode::kInvalidArgument, "T.copy(x, y)"},
    {"pass", "for i in", "the loop range stands outside", "T.Kernel", StatusCode::kInvalidArgument,
     "for i in range(4):\n    x[i, 0] = 1"},
    {"pass", "kernel(", "the output 'o' is not returned", "return each",
     StatusCode::kInvalidArgument, "o = T.empty((4,), T.float32)"},
    {"pass", "w: T.Tensor", "is no parameter of 'kernel'", "T.empty", StatusCode::kInvalidArgument,
     "w: T.Tensor((4,), T.float32)"},
};

template <size_t size>
void CheckAll(const Refusal (&table)[size]) {
  for (const Refusal& r : table) {
    Check(r, InKernel(r.body, r.before, r.module));
  }
}

TEST(Refusals, Scoping) { CheckAll(kScoping); }
TEST(Refusals, Loops) { CheckAll(kLoops); }
TEST(Refusals, Outside) { CheckAll(kOutside); }
TEST(Refusals, GridMeetings) { CheckAll(kGridMeetings); }
TEST(Refusals, Tiles) { CheckAll(kTiles); }
TEST(Refusals, Expressions) { CheckAll(kExpressions); }
TEST(Refusals, Statements) { CheckAll(kStatements); }
TEST(Refusals, Interface) { CheckAll(kInterface); }

// Whole files.
struct FileRefusal {
  const char* text;
  int line, column;
  const char* message;
  const char* remedy;
};

TEST(Refusals, Syntax) {
  const FileRefusal kFiles[] = {
      {"def f(:):\n    pass\n", 1, 7, "expected a parameter name, found ':'", "missing"},
      {"x = (1,\n", 1, 5, "'(' is never closed", "closing bracket"},
      {"x = 1)\n", 1, 6, "')' closes nothing", "remove it"},
      {"x = (1]\n", 1, 7, "']' closes nothing", "close the '(' of line 1"},
      {"x = 'abc\n", 1, 5, "this string is not closed", "end it with '"},
      {"x = \"\"\"abc\n", 1, 5, "this string is not closed", "\"\"\""},
      {"if x:\npass\n", 2, 1, "expected an indented block", "indent its body"},
      {"  x = 1\n", 1, 1, "indented for no reason", "align"},
      {"if x:\n    y = 1\n  z = 2\n", 3, 3, "matches no outer block", "indent it"},
      {"x = 1 +\n", 1, 8, "expected an expression, found the end of the line", "operator"},
      {"x = = 1\n", 1, 5, "expected an expression, found '='", "check"},
      {"if a && b:\n    pass\n", 1, 7, "found '&'", "'and' joins conditions"},
      {"if a || b:\n    pass\n", 1, 7, "found '|'", "'or' joins conditions"},
      {"i++\n", 1, 4, "found the end of the line", "write x += 1"},
      {"if a = 1:\n    pass\n", 1, 6, "found '='", "'==' compares"},
      {"with f() as b {\n    pass\n}\n", 1, 15, "found '{'", "begins with ':'"},
      {"x = (a.b := 1)\n", 1, 6, "gives a value to a name alone", "statement of its own"},
      {"def f[T(x):\n    pass\n", 1, 6, "'[' is never closed", "closing bracket"},
      {"f(1) = 2\n", 1, 1, "cannot be assigned to", "assign to a name"},
      {"x = 012\n", 1, 5, "starts with 0", "0o"},
      {"x = 12abc\n", 1, 7, "a malformed number", "separate"},
      {"x = $\n", 1, 5, "unexpected character '$'", "remove"},
      {"x = f'{a'\n", 1, 10, "this string is not closed", "close it before the brace"},
      {"x = f'{a:>3'\n", 1, 7, "this '{' of an f-string is not closed", "{{"},
      {"x = f'}'\n", 1, 7, "a single '}'", "}}"},
      {"def f(a, a):\n    pass\n", 1, 10, "'a' appears twice", "rename"},
      {"for x y:\n    pass\n", 1, 7, "expected 'in'", "check"},
      {"x = '\\xZ1'\n", 1, 6, "needs 2 hexadecimal digits", "r before"},
      {"try:\n    pass\n", 3, 1, "expected 'except' or 'finally'", "check"},
      {"class\n", 1, 6, "expected a class name", "check"},
  };
  for (const FileRefusal& f : kFiles) {
    SCOPED_TRACE(f.text);
    const auto kernel = Kernel::Parse(MakeSource(f.text), "");
    ASSERT_FALSE(kernel.ok());
    EXPECT_EQ(kernel.status().code(), StatusCode::kInvalidArgument);
    const auto d = DiagnosticOf(kernel.status());
    ASSERT_TRUE(d.has_value()) << kernel.status().message();
    EXPECT_EQ(d->loc.line, f.line) << kernel.status().message();
    EXPECT_EQ(d->loc.column, f.column) << kernel.status().message();
    EXPECT_THAT(d->message, HasSubstr(f.message));
    EXPECT_THAT(d->remedy, HasSubstr(f.remedy));
  }
}

TEST(Refusals, EntryAndArguments) {
  const std::string text =
      "import tilelang.language as T\nimport tilelang\n"
      "@tilelang.jit\ndef scale(x, M, block_M=64, dtype='float32'):\n"
      "    N = T.const('N')\n    x: T.Tensor((M, N), dtype)\n"
      "    with T.Kernel(T.ceildiv(M, block_M)) as b:\n        T.clear(x[b * block_M:b * block_M + "
      "1, :])\n"
      "@T.prim_func\ndef other(x: T.Tensor((4,), 'int32')):\n    with T.Kernel(1):\n        "
      "T.clear(x)\n";
  auto message = [&](const Arguments& arguments, const std::string& config,
                     const std::string& entry) {
    const auto program = ElaborateText(text, arguments, config, entry);
    return program.ok() ? ir::ToString(*program) : std::string(program.status().message());
  };
  EXPECT_THAT(message({}, "", ""), HasSubstr("2 kernels and none is named"));
  EXPECT_THAT(message({}, "", ""), HasSubstr("its kernels: scale, other"));
  EXPECT_THAT(message({}, "", "scal"), HasSubstr("did you mean 'scale'?"));
  EXPECT_THAT(message({}, "", "scale"), HasSubstr("parameter 'M' of 'scale' has no value"));
  EXPECT_THAT(message({{"M", "8"}}, "", "scale"), HasSubstr("the size 'N' has no value"));
  const Arguments sizes = {{"M", "8"}, {"N", "8"}};
  EXPECT_THAT(message(sizes, "", "scale"), HasSubstr("def scale(x: global float32[8, 8])"));
  EXPECT_THAT(message(sizes, "block_M=2", "scale"), HasSubstr("launch b in (4)"));
  EXPECT_THAT(message(sizes, "block_m=2", "scale"), HasSubstr("did you mean 'block_M'?"));
  EXPECT_THAT(message({{"M", "8"}, {"N", "8"}, {"threads", "1"}}, "", "scale"),
              HasSubstr("its parameters: N, M, block_M, dtype"));
  EXPECT_THAT(message({{"M", "8"}, {"N", "8"}, {"x", "1"}}, "", "scale"),
              HasSubstr("is a tensor, and the argument is an integer"));
  EXPECT_THAT(message({{"M", "8"}, {"N", "0"}}, "", "scale"), HasSubstr("the size 'N' is 0"));
  EXPECT_THAT(message({{"M", "-8"}, {"N", "8"}}, "", "scale"),
              HasSubstr("dimension 0 of the buffer is -8"));
  EXPECT_THAT(message({{"M", "f(8)"}, {"N", "8"}}, "", "scale"), HasSubstr("argument M=f(8)"));
  EXPECT_THAT(message({{"M", "8; import os"}, {"N", "8"}}, "", "scale"), HasSubstr("no literal"));
  EXPECT_THAT(message({{"M", "8"}, {"N", "8"}, {"dtype", "float99"}}, "", "scale"),
              HasSubstr("unknown name"));
  EXPECT_THAT(message({{"M", "8"}, {"N", "8"}, {"dtype", "'float99'"}}, "", "scale"),
              HasSubstr("is not a dtype"));
  EXPECT_THAT(message({{"M", "8"}, {"N", "8"}, {"dtype", "bfloat16"}}, "", "scale"),
              HasSubstr("bfloat16[8, 8]"));
}

// Inputs that would take for ever, or all memory, end at a limit within seconds.
TEST(Refusals, Limits) {
  const std::pair<const char*, const char*> kCases[] = {
      {"z = [i for i in range(10 ** 9)]", "took more than"},
      {"z = [0] * 10 ** 12", "took more than"},
      {"z = 'ab' * 10 ** 10", "took more than"},
      {"z = list(itertools.product(range(100), repeat=9))", "took more than"},
      {"spin()", "took more than"},
      {"x[0, 0] = double(x[0, 1])", "a run-time expression has more than 65536 operations"},
      {"z = shared() == shared()", "took more than"},
      {"tree(x, 0)", "more than 300000 statements and expressions"},
      {"z = climb(0)", "nested more than 200 deep"},
      {"z = [[[0] * 1000 for i in range(1000)] for j in range(1000)]", "more than"},
  };
  const std::string module =
      "def spin():\n    while True:\n        pass\n"
      "def double(a):\n    for i in range(60):\n        a = a + a\n    return a\n"
      "def shared():\n    l = [1]\n    for i in range(60):\n        l = [l, l]\n    return l\n"
      "def climb(n):\n    return climb(n + 1)\n"
      "@T.macro\ndef tree(t, n):\n    if n < 40:\n        tree(t, n + 1)\n        tree(t, n + 1)\n"
      "    t[0, 0] = n\n";
  Limits limits;
  limits.steps = 2'000'000;
  limits.ir_nodes = 300'000;
  for (const auto& [body, message] : kCases) {
    const auto program = ElaborateText(InKernel(body, "", module), {}, "", "", limits);
    ASSERT_FALSE(program.ok()) << body;
    EXPECT_EQ(program.status().code(), StatusCode::kResourceExhausted)
        << program.status().message();
    EXPECT_THAT(std::string(program.status().message()), HasSubstr(message)) << body;
  }
  Limits small;
  small.source_bytes = 100;
  const auto big = Kernel::Parse(MakeSource(std::string(101, '#')), "", small);
  EXPECT_EQ(big.status().code(), StatusCode::kResourceExhausted);
  for (const char* unit : {"(", "[", "-", "not ", "lambda: ", "1 if x else ", "f(", "x[", "2 ** ",
                           "await ", "1 + (", "{1: "}) {
    std::string text = "x = ";
    for (int i = 0; i < 50000; ++i) text += unit;
    const auto deep = Kernel::Parse(MakeSource(text + "1"), "");
    EXPECT_EQ(deep.status().code(), StatusCode::kResourceExhausted)
        << unit << deep.status().message();
  }
  std::string chain = "x = 1", blocks;
  for (int i = 0; i < 50000; ++i) chain += " + 1";
  EXPECT_EQ(Kernel::Parse(MakeSource(chain), "").status().code(), StatusCode::kResourceExhausted);
  for (int i = 0; i < 500; ++i) blocks += std::string(i, ' ') + "if x:\n";
  EXPECT_EQ(Kernel::Parse(MakeSource(blocks), "").status().code(), StatusCode::kResourceExhausted);
}

// What a condition, a loop that may be empty or a break may keep inside is not refused.
TEST(Refusals, AccessesThatMayStayInside) {
  const std::string tile = "s = T.alloc_shared((8,), 'float32')\n";
  for (const char* body : {
           "for i in T.Parallel(16):\n    if i < 8:\n        s[i] = 0.0\n",
           "for i in T.Parallel(16):\n    x[i, 0] = T.if_then_else(i < 8, s[i], 0.0)\n",
           "for i in T.Parallel(16):\n    if i < 8 and s[i] > 0.0:\n        x[i, 0] = 1.0\n",
           "for i in T.serial(16):\n    if i == 8:\n        break\n    s[i] = 0.0\n",
           "for k in T.serial(n):\n    for i in T.serial(16):\n        s[i] = 0.0\n",
           "for i in T.serial(n):\n    s[i] = 0.0\n",
           "for i in T.Parallel(16):\n    x[i, 0] = s[i % 8]\n",
           "for i in T.Parallel(8):\n    s[7 - i] = 0.0\n",
           "with T.ws(0):\n    for i in T.Parallel(16):\n        if i < 8:\n            s[i] = "
           "0.0\n",
           "for i in T.serial(16):\n    if i >= 8:\n        s[i - 8] = 0.0\n",
           "for i in T.serial(16):\n    if not i >= 8:\n        s[i] = 0.0\n",
           "for i in T.serial(16):\n    if 3 * i < 22:\n        s[i] = 0.0\n",
           "for i in T.serial(9):\n    if i != 8:\n        s[i] = 0.0\n",
           "for i in T.serial(16):\n    if i < 8 and v[i] > 0:\n        s[i] = 0.0\n",
           "for i in T.serial(16):\n    if i < 8 or v[i] > 0:\n        pass\n    else:\n"
           "        s[i - 8] = 0.0\n",
           // Both ways leave the tile for some i, but perhaps for none that gets there.
           "for i in T.serial(9):\n    if v[i] > 0:\n        s[i] = 0.0\n    else:\n"
           "        s[i - 1] = 0.0\n",
           "for i, j in T.grid(8, 8):\n    if i + j < 8:\n        s[i + j] = 0.0\n",
           "for i in T.serial(16):\n    if i > 20:\n        s[i] = 0.0\n",
           "if n > 0:\n    for i in T.serial(9):\n        s[i] = 0.0\n",
           "tx = T.get_thread_binding(0)\nif tx < 8:\n    s[tx] = 0.0\n",
           "tx = T.get_thread_binding(0)\ns[tx % 8] = 0.0\n",
           "with T.ws(0):\n    tx = T.get_thread_binding(0)\n    if tx < 8:\n        s[tx] = 0.0\n",
           "for i in T.serial(16):\n    if i < n:\n        s[i] = 0.0\n",
           "for i in T.serial(16):\n    x[i, 0] = T.if_then_else(i >= 8, s[i - 8], s[i])\n",
       }) {
    const auto program = ElaborateText(InKernel(tile + body));
    EXPECT_TRUE(program.ok()) << body << program.status().message();
  }
}

// The notes of a failed assertion name the values that it depends on, and where they come from.
TEST(Refusals, AssertionsShowTheChainOfValues) {
  const std::string text = InKernel("tile = p * 3\nassert tile % 32 == 0 and p > 1, 'bad tile'\n");
  const auto program = ElaborateText(text, {}, "p=5");
  const auto d = DiagnosticOf(program.status());
  ASSERT_TRUE(d.has_value());
  EXPECT_THAT(d->notes, testing::ElementsAre("tile = 15 from p * 3 (set at k.py:9:9)",
                                             "p = 5 (from the config)"));
}

// So do those of any other error, for the compile-time values of the expression that it is in.
TEST(Refusals, ErrorsShowTheValuesThatLedToThem) {
  struct Case {
    const char* body;
    std::vector<std::string> notes;
  };
  const Case cases[] = {
      {"rows = p - 5\ns = T.alloc_shared((rows, 32), 'float32')\n",
       {"rows = -1 from p - 5 (set at k.py:9:9)", "p = 4 (from the config)"}},
      {"at = p * 16\nx[at, 0] = x[at, 1]\n",
       {"at = 64 from p * 16 (set at k.py:9:9)", "p = 4 (from the config)"}},
      {"for i in T.serial(p / q):\n    x[i, 0] = 1\n",
       {"p = 4 (from the config)", "q = None (from its default)"}},
      {"s = T.alloc_fragment((8, 8), dtype='float' + str(p))\n", {"p = 4 (from the config)"}},
      {"tyle = 1\nT.copy(x, tile)\n", {}},
  };
  for (const Case& c : cases) {
    const auto d = DiagnosticOf(ElaborateText(InKernel(c.body), {}, "p=4").status());
    ASSERT_TRUE(d.has_value()) << c.body;
    EXPECT_EQ(d->notes, c.notes) << d->Render();
  }
}

TEST(Refusals, NotesNameTheCallsThatLedToTheError) {
  const std::string text = InKernel("outer(x)\n", "",
                                    "@T.macro\ndef inner(t):\n    T.copy(t, 1)\n\n"
                                    "@T.macro\ndef outer(t):\n    inner(t)\n");
  const auto d = DiagnosticOf(ElaborateText(text).status());
  ASSERT_TRUE(d.has_value());
  ASSERT_EQ(d->notes.size(), 2u);
  EXPECT_THAT(d->notes[0], HasSubstr("in macro 'inner', called at k.py:11:5"));
  EXPECT_THAT(d->notes[1], HasSubstr("in macro 'outer', called at k.py:"));
  EXPECT_THAT(d->Render(), HasSubstr("T.copy(t, 1)\n                  ^\n  help:"));
}

}  // namespace
}  // namespace kiln::lang
