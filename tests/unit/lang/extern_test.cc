// Functions in CUDA that kernels call by name, tables of tensors, and other words of TileLang's
// that mean something else here, or nothing.
#include <cstring>

#include "compiler/interp/interp.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/lang/lang_test_util.h"

namespace kiln::lang {
namespace {

using testing::HasSubstr;
using testing::Not;

double Rounded(double value) {
  uint16_t bits = 0;
  const interp::TensorView half{&bits, kFloat16, {1}, {}};
  half.Set(0, value);
  return half.Get(0);
}

// What kernels pass to a function: eight bytes, two scales, two zero points.
constexpr uint8_t kBytes[8] = {0xb4, 0x1e, 0x93, 0x7f, 0x08, 0xd2, 0x65, 0xca};
constexpr double kScales[2] = {0.6001, -1.7};
constexpr double kZeros[2] = {3.3, 1.1};
constexpr int kWholeZeros[2] = {2, 5};

struct Function {
  std::string name, out, zeros, more;  // `more`: arguments behind the pointers
  bool scaled = false;
  int results = 8;
};

std::vector<double> Call(const Function& f) {
  const bool zeros = !f.zeros.empty();
  const std::string text = absl::StrCat(
      "import tilelang.language as T\n\n@T.prim_func\ndef kernel(w: T.Tensor((8,), T.uint8), "
      "s: T.Tensor((2,), T.float16), z: T.Tensor((2,), '",
      zeros ? f.zeros : "float16", "'), out: T.Tensor((16,), '", f.out,
      "')):\n    with T.Kernel(1, threads=32) as b:\n",
      "        lw = T.alloc_local((8,), T.uint8)\n        ls = T.alloc_local((2,), T.float16)\n"
      "        lz = T.alloc_local((2,), '",
      zeros ? f.zeros : "float16",
      "')\n        lo = "
      "T.alloc_local((16,), '",
      f.out,
      "')\n        for i in T.serial(8):\n            lw[i] = "
      "w[i]\n        for i in T.serial(2):\n            ls[i] = s[i]\n            lz[i] = z[i]\n"
      "        T.call_extern('handle', '",
      f.name,
      "', T.access_ptr(lw, 'r'), T.access_ptr(lo, "
      "'w')",
      f.scaled ? ", T.access_ptr(ls, 'r')" : "", zeros ? ", T.access_ptr(lz, 'r')" : "", f.more,
      ")\n        for i in T.serial(", f.results, "):\n            out[i] = lo[i]\n");
  SCOPED_TRACE(text);
  const auto program = ElaborateText(text);
  EXPECT_TRUE(program.ok()) << f.name << ": " << program.status();
  if (!program.ok()) return {};
  const DType zero_type = program->params[2].buffer->dtype;
  std::vector<interp::Tensor> tensors;
  tensors.emplace_back(kUInt8, std::vector<int64_t>{8});
  tensors.emplace_back(kFloat16, std::vector<int64_t>{2});
  tensors.emplace_back(zero_type, std::vector<int64_t>{2});
  tensors.emplace_back(program->params[3].buffer->dtype, std::vector<int64_t>{16});
  std::memcpy(tensors[0].data(), kBytes, 8);
  std::vector<interp::TensorView> views;
  for (const interp::Tensor& t : tensors) views.push_back(t.View());
  for (int i = 0; i < 2; ++i) {
    views[1].Set(i, kScales[i]);
    views[2].Set(i, zero_type.is_float() ? kZeros[i] : kWholeZeros[i]);
  }
  const auto ran = interp::Run(*program, views, {});
  EXPECT_TRUE(ran.ok()) << f.name << ": " << ran.status();
  std::vector<double> out;
  for (int i = 0; i < f.results; ++i) out.push_back(views[3].Get(i));
  return out;
}

// The codes as the functions find them: in both halves of a word, shifted down one at a time.
std::vector<int> Pairs(int bits) {
  uint32_t word = 0;
  std::memcpy(&word, kBytes, 4);
  if (bits == 2) word = (word & 0xffu) | (word & 0xff00u) << 8;
  if (bits == 1) word = (word & 0x0fu) | (word & 0xf0u) << 12;
  std::vector<int> codes;
  for (int i = 0; i < 4; ++i) {
    const uint32_t pair = word >> (bits * i) & (0x10001u * ((1u << bits) - 1));
    codes.push_back(static_cast<int>(pair & 0xffff));
    codes.push_back(static_cast<int>(pair >> 16));
  }
  return codes;
}

TEST(Extern, EveryDecoderToFloat16) {
  const double scale[2] = {Rounded(kScales[0]), Rounded(kScales[1])};
  const double zero[2] = {Rounded(kZeros[0]), Rounded(kZeros[1])};
  int seen = 0;
  for (const int bits : {4, 2, 1}) {
    for (const bool is_signed : {false, true}) {
      for (const char* tail :
           {"", "_scale", "_scale_offset", "_scale_zeros_original", "_scale_zeros_original_offset",
            "_scale_zeros_rescale", "_scale_zeros_rescale_offset", "_scale_zeros_quantized",
            "_scale_zeros_quantized_offset"}) {
        const std::string rest = tail;
        const auto has = [&](const char* part) { return rest.find(part) != std::string::npos; };
        const bool zeros = has("_zeros_"), whole = has("_quantized"), offset = has("_offset");
        if ((is_signed && zeros) || (offset && bits != 4) || (bits == 1 && whole)) continue;
        Function f;
        f.name = absl::StrCat("decode_i", bits, is_signed ? "s" : "u", "_to_f16", tail);
        f.out = "float16";
        f.scaled = has("_scale");
        if (zeros) f.zeros = whole ? "int16" : "float16";
        if (offset) f.more = whole ? ", 1, 1, 0, 8" : ", 1, 8";
        const std::vector<double> got = Call(f);
        ASSERT_EQ(got.size(), 8u) << f.name;
        const std::vector<int> codes = Pairs(bits);
        for (int k = 0; k < 8; ++k) {
          const int half = offset && k >= 4 ? 1 : 0;
          double want = codes[k];
          if (is_signed) want = bits == 1 ? 2 * want - 1 : want - (1 << (bits - 1));
          if (whole) want -= kWholeZeros[half];
          if (has("_original")) want = Rounded(want - zero[half]);
          if (has("_rescale") && bits == 2) {
            want = Rounded(Rounded(want * scale[half]) - zero[half]);
          } else if (has("_rescale")) {
            want = Rounded(want * scale[half] - zero[half]);
          } else if (f.scaled) {
            want = Rounded(want * scale[half]);
          }
          EXPECT_EQ(got[k], want) << f.name << ": " << k;
        }
        ++seen;
      }
    }
  }
  EXPECT_EQ(seen, 25);
}

TEST(Extern, EveryDecoderToIntegersAndBFloat16) {
  uint32_t words[2];
  std::memcpy(words, kBytes, 8);
  const auto call = [](const std::string& name, const std::string& out, int results) {
    Function f;
    f.name = name;
    f.out = out;
    f.results = results;
    return Call(f);
  };
  const int middle[5] = {0, 0, 2, 0, 7};
  for (const int bits : {4, 2, 1}) {
    for (const bool is_signed : {false, true}) {
      const std::string name = absl::StrCat("decode_i", bits, is_signed ? "s" : "u", "_to_i8s");
      const std::vector<double> got = call(name, "int8", 16);
      ASSERT_EQ(got.size(), 16u);
      uint32_t spread = words[0];
      if (bits == 1) spread = (words[0] & 0x0f0fu) | (words[0] & 0xf0f0u) << 12;
      for (int i = 0; i < 4; ++i) {
        // Four results at a time, one of each byte.
        const uint32_t four = bits == 4 ? words[i / 2] >> (4 * (i % 2)) : spread >> (bits * i);
        for (int byte = 0; byte < 4; ++byte) {
          int want = static_cast<int>(four >> (8 * byte) & ((1u << bits) - 1));
          if (is_signed) want = bits == 1 ? 2 * want - 1 : want - middle[bits];
          EXPECT_EQ(got[4 * i + byte], want) << name << ": " << 4 * i + byte;
        }
      }
    }
  }
  for (const char* name : {"decode_i2u_to_i4s", "decode_i2s_to_i4s"}) {
    const std::vector<double> got = call(name, "uint8", 8);
    ASSERT_EQ(got.size(), 8u);
    for (int k = 0; k < 8; ++k) {
      const uint32_t word = words[0] >> (2 * (k / 4)) & 0x33333333u;
      EXPECT_EQ(got[k], word >> (8 * (k % 4)) & 0xff) << name << ": " << k;
    }
  }
  const double values[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  Function plain;
  plain.name = "decode_fp4_to_bf16";
  plain.out = "bfloat16";
  plain.more = ", 1";
  const std::vector<double> got = Call(plain);
  ASSERT_EQ(got.size(), 8u);
  for (int k = 0; k < 8; ++k) {
    const int code = kBytes[k % 4] >> (4 * (k / 4)) & 15;
    EXPECT_EQ(got[k], code & 8 ? -values[code & 7] : values[code & 7]) << k;
  }
  // Exponents of two bits by a product with 2^126, as the text does it.
  plain.name += "_twiddling";
  const std::vector<double> twiddled = Call(plain);
  ASSERT_EQ(twiddled.size(), 8u);
  for (int k = 0; k < 8; ++k) {
    const uint32_t half = kBytes[k / 4 * 2] * 256u + kBytes[k / 4 * 2 + 1];
    const uint32_t last = (half << 1 & 0x8000) | (half >> 3 & 0x0180) | (half >> 7 & 0x0040);
    const uint32_t bits = k % 4 == 3 ? last : half << (3 * (k % 4)) & 0x81c0;
    uint32_t wide = bits << 16;
    float value = 0;
    std::memcpy(&value, &wide, 4);
    EXPECT_EQ(twiddled[k], value * 0x1p126) << k;
  }
}

TEST(Extern, GroupsNameTheFunctions) {
  const auto name = [](const std::string& call) {
    return Elaborated(InKernel(
        "T.print(n, msg=name)", "",
        absl::StrCat(
            "from tilelang.quantize import get_lop3_intrin_group, get_mxfp_intrin_group\nname = ",
            call, "['func_name']\n")));
  };
  EXPECT_THAT(name("get_lop3_intrin_group(T.float16)"), HasSubstr("decode_i4u_to_f16"));
  EXPECT_THAT(name("get_lop3_intrin_group(T.int8, 'int', 2)"), HasSubstr("decode_i2s_to_i8s"));
  EXPECT_THAT(name("get_lop3_intrin_group(T.float16, source_bit=1, with_scaling=True, "
                   "with_zeros=True, zeros_mode='rescale')"),
              HasSubstr("decode_i1u_to_f16_scale_zeros_rescale"));
  EXPECT_THAT(name("get_mxfp_intrin_group(use_twiddling=True)"),
              HasSubstr("decode_fp4_to_bf16_twiddling"));
  EXPECT_THAT(name("get_mxfp_intrin_group(T.float16)"), HasSubstr("no 'decode_fp4_to_f16'"));
}

TEST(Extern, WordsThatMeanNothingHere) {
  const std::string plain = Elaborated(InKernel("x[bx, 0] = 1\nx[bx, 1] = 2\n"));
  for (const char* word : {"T.pdl_sync()", "T.pdl_trigger()",
                           "T.import_source('decode_i4u_to_f16')", "T.import_source(None)"}) {
    EXPECT_EQ(Elaborated(InKernel(absl::StrCat("x[bx, 0] = 1\n", word, "\nx[bx, 1] = 2\n"))), plain)
        << word;
  }
  for (const auto& [word, same] : {std::pair("T.tvm_storage_sync('shared')", "T.sync_threads()"),
                                   {"T.tvm_storage_sync('warp')", "T.sync_warp()"}}) {
    const auto text = [](const char* barrier) {
      return Elaborated(
          InKernel(absl::StrCat("t = T.get_thread_binding(0)\ns = "
                                "T.alloc_shared((128,), T.float32)\ns[t] = x[bx, 0]\n",
                                barrier, "\nx[bx, t % 64] = s[127 - t]\n")));
    };
    EXPECT_EQ(text(word), text(same));
    EXPECT_THAT(text(word), HasSubstr("shared float32"));
  }
}

TEST(Extern, CoordinatesOfAnIndex) {
  EXPECT_THAT(Elaborated(InKernel("a, b, c = T.index_to_coordinates(123, (3, 5, 7))\n"
                                  "x[a, b] = c\n")),
              HasSubstr("x[0, 2] = 4"));  // 123 = 17 * 7 + 4, 17 = 3 * 5 + 2, 3 % 3 = 0
  EXPECT_THAT(Elaborated(InKernel("a, b = T.index_to_coordinates(bx, (64, 8))\nx[a, b] = 1\n")),
              HasSubstr("let a = bx // 8 % 64\n    let b = bx % 8\n"));
}

TEST(Extern, TilesAsAnnotations) {
  const std::string macro =
      "@T.macro\ndef twice(t: T.SharedBuffer([8, 8], T.float32), f: T.FragmentBuffer((8,), "
      "T.float32)):\n    for i in T.Parallel(8):\n        f[i] = t[i, 0]\n";
  EXPECT_THAT(Elaborated(InKernel("t = T.alloc_shared((8, 8), T.float32)\nf = "
                                  "T.alloc_fragment((8,), T.float32)\ntwice(t, f)\n",
                                  "", macro)),
              HasSubstr("fragment float32[8]"));
  EXPECT_THAT(Elaborated("import tilelang.language as T\n@T.prim_func\ndef kernel(x: "
                         "T.SharedBuffer((8,), T.float32)):\n    with T.Kernel(1) as b:\n"
                         "        x[0] = 1\n"),
              HasSubstr("a tile belongs to a block"));
}

// What a thread keeps of the operands and of the product (PTX's mma.m16n8k16 and m16n8k32).
TEST(Emitter, SaysWhatThreadsKeep) {
  const auto emit = [](const std::string& arguments, const std::string& shown) {
    return Elaborated(InKernel(
        "x[0, 0] = value", "",
        absl::StrCat(
            "from tilelang.intrinsics import TensorCoreIntrinEmitter\ne = TensorCoreIntrinEmitter(",
            arguments, ")\nvalue = ", shown, "\n")));
  };
  const char* halves =
      "T.float16, T.float16, T.float32, warp_row_tiles=64, warp_col_tiles=32, chunk=32";
  EXPECT_THAT(emit(halves, "e.k_dim * 100 + e.n_dim"), HasSubstr("1616.0"));
  EXPECT_THAT(emit(halves, "e.warp_rows * 10 + e.warp_cols"), HasSubstr("42.0"));
  EXPECT_THAT(emit(halves, "e.local_size_a * 100 + e.local_size_b * 10 + e.local_size_out"),
              HasSubstr("888.0"));
  EXPECT_THAT(emit("T.int8, T.int8, T.int32, warp_row_tiles=16, warp_col_tiles=24, chunk=64",
                   "e.local_size_a * 100 + e.local_size_b * 10 + e.n_dim"),
              HasSubstr("1688.0"));
  EXPECT_THAT(emit("T.float16, T.int8", "e.k_dim"), HasSubstr("as many bits"));
  EXPECT_THAT(emit("warp_row_tiles=8", "e.k_dim"), HasSubstr("a multiple of 16"));
  EXPECT_THAT(emit("warp_row_tiles=16, num_elems_per_byte=2", "e.k_dim"),
              HasSubstr("packed operands"));
  EXPECT_THAT(Elaborated(InKernel("e = T.TensorCoreIntrinEmitter(warp_row_tiles=16)\n"
                                  "e.stmatrix(v, v)\n")),
              HasSubstr("2 or 4 dimensions"));
  EXPECT_THAT(Elaborated(InKernel("e = WGMMATensorCoreIntrinEmitter()\n", "",
                                  "from tilelang.cuda.intrinsics import "
                                  "WGMMATensorCoreIntrinEmitter\n")),
              HasSubstr("it is not supported: use T.gemm"));
}

TEST(Emitter, PlacesOfTurnedRows) {
  const auto place = [](const std::string& arguments) {
    return Elaborated(InKernel(
        "x[place[0], place[1]] = place[2]", "",
        absl::StrCat(
            "from tilelang.cuda.intrinsics import get_swizzle_layout\nplace = get_swizzle_layout(",
            arguments, ")\n")));
  };
  // Units of 8 halves: unit 3 of row 5 goes to 3 ^ 5, of rows of 64 bytes to 3 ^ (5 / 2).
  EXPECT_THAT(place("5, 26, 64, T.float16"), HasSubstr("x[0, 5] = 50.0"));
  EXPECT_THAT(place("5, 26, 32, T.float16"), HasSubstr("x[0, 5] = 10.0"));
  EXPECT_THAT(place("13, 90, 128, T.float16"), HasSubstr("x[1, 13] = 50.0"));
  EXPECT_THAT(place("3, 9, 16, T.float16"), HasSubstr("x[0, 3] = 9.0"));
  EXPECT_THAT(place("4, 9, 16, T.float16"), HasSubstr("x[0, 4] = 1.0"));
  EXPECT_THAT(place("0, 0, 10, T.float16"), HasSubstr("rows of 20 bytes"));
}

TEST(Extern, WhatIsRefused) {
  const std::string local =
      "w = T.alloc_local((8,), T.uint8)\nh = T.alloc_local((8,), T.float16)\n";
  const auto error = [&](const std::string& line) { return Elaborated(InKernel(local + line)); };
  for (const auto& [line, message] : std::initializer_list<std::pair<const char*, const char*>>{
           {"T.call_extern('handle', 'my_decode', w, h)", "'my_decode' is not supported"},
           {"T.call_extern('handle', 'my_decode', w, h)", "write the function as a @T.macro"},
           {"T.call_extern('handle', 'decode_i3u_to_f16', w, h)", "'decode_i3u_to_f16'"},
           {"T.call_extern('handle', 'decode_i1u_to_i4s', w, h)", "'decode_i1u_to_i4s'"},
           {"T.call_extern('handle', 'decode_i4s_to_f16_scale_zeros_original', w, h, h, h)",
            "is not supported"},
           {"T.call_extern('handle')", "without a function"},
           {"T.call_extern('handle', 'decode_i4u_to_f16', w)", "no result of"},
           {"T.call_extern('handle', 'decode_i4u_to_f16', w, w)", "a result of uint8"},
           {"T.call_extern('handle', 'decode_i4u_to_f16', h, h)", "a source of float16"},
           {"T.call_extern('handle', 'decode_i4u_to_f16', w, h, 16)", "N = 16"},
           {"T.call_extern('handle', 'decode_i4u_to_f16', w, h[4])", "has no 8 elements there"},
           {"T.call_extern('handle', 'decode_i4u_to_f16', w[6], h)", "has no 4 elements there"},
           {"T.call_extern('handle', 'decode_i4u_to_f16_scale', w, h)", "no scale of"},
           {"T.call_extern('handle', 'decode_i2u_to_f16_scale_zeros_quantized', w, h, h, h)",
            "a zero point of float16"},
           {"T.import_source('__device__ void decode_i4u_to_f16() {}')",
            "T.import_source of text in CUDA is not supported"},
           {"T.tvm_storage_sync('global')", "T.sync_grid()"},
           {"T.index_to_coordinates(3, ())", "a shape without dimensions"},
           {"T.annotate_restrict_buffers(x)", "take"},
           {"T.reads(x[0, 0])", "is seen in it"}}) {
    EXPECT_THAT(error(line), HasSubstr(message)) << line;
  }
}

// ---- tables of tensors ----

std::string WithTables(const std::string& body, const std::string& params = "n: T.int32") {
  std::string text = absl::StrCat(
      "import tilelang.language as T\n\n@T.prim_func\ndef kernel(v: T.Tensor((4,), "
      "T.int32), p: T.Tensor([3], T.ptr), q: T.Tensor([3], T.ptr), ",
      params, "):\n    with T.Kernel(2, threads=32) as bx:\n");
  for (size_t at = 0; at < body.size();) {
    const size_t end = std::min(body.find('\n', at), body.size());
    absl::StrAppend(&text, "        ", body.substr(at, end - at), "\n");
    at = end + 1;
  }
  return text;
}

constexpr char kTake[] =
    "A = T.make_tensor(p[bx], (8, 16), T.float16)\n"
    "B = T.make_tensor(q[v[0]], (8, 16), T.float16)\n";

TEST(TablesOfTensors, AreBuffersWithADimensionMore) {
  const std::string text =
      Elaborated(WithTables(absl::StrCat(kTake, "T.copy(A, B)\nB[0, 1] = A[2, 3]")));
  EXPECT_THAT(text, HasSubstr("global float16[3, 8, 16] table"));
  EXPECT_THAT(text, HasSubstr("q_index = v[0]"));
  EXPECT_THAT(text, HasSubstr("q[q_index, 0, 1] = p[bx, 2, 3]"));
  // Two tensors of one table, of one shape.
  const std::string both = Elaborated(WithTables(
      "A = T.make_tensor(p[0], (8, 16), T.float16)\nB = T.make_tensor(p[1], (8, 16), T.float16)\n"
      "C = T.make_tensor(q[0], (8,), T.float16)\nC[0] = A[0, 0] + B[0, 0]"));
  EXPECT_THAT(both, HasSubstr("p[0, 0, 0] + p[1, 0, 0]"));
}

TEST(TablesOfTensors, WhatIsRefused) {
  for (const auto& [body, message] : std::initializer_list<std::pair<std::string, const char*>>{
           {absl::StrCat(kTake, "T.copy(p, B)"), "where they lie, and no number"},
           {absl::StrCat(kTake, "a = p[0]"), "T.make_tensor(p[i], shape, dtype)"},
           {absl::StrCat(kTake, "B[0, 0] = p[0] + 1"), "where they lie, and no number"},
           {absl::StrCat(kTake, "p[0] = 1"), "handle"},
           {absl::StrCat(kTake, "C = T.make_tensor(p[0], (4,), T.float16)"),
            "a second shape or element type"},
           {absl::StrCat(kTake, "C = T.make_tensor(p[0], (8, 16), T.float32)"),
            "a second shape or element type"},
           {absl::StrCat(kTake, "C = T.reshape(A, (128,))"), "a tensor out of a table"},
           {absl::StrCat(kTake, "C = T.make_tensor(v[0], (8,), T.float32)"),
            "T.match_buffer takes a T.ptr parameter"},
           {absl::StrCat(kTake, "C = T.make_tensor(p[7], (8, 16), T.float16)"),
            "index 7 is outside dimension 0 of 'p'"},
           {absl::StrCat(kTake, "f = T.alloc_fragment((8,), T.float16)\nT.reduce_sum(A, f, dim=1)"),
            "a reduction or scan of a tensor out of a table"},
           {"A = T.make_tensor(p[0], (v[0], 4), T.float16)", "a shape that is read from memory"},
           {"A = T.make_tensor(p[0], (8, 4), T.int4)", "a table of tensors of int4"},
           {"A = T.make_tensor(p[0], (8, 4), T.float16)\nA[0, 0] = 1", "'q' never gets a shape"}}) {
    EXPECT_THAT(Elaborated(WithTables(body)), HasSubstr(message)) << body;
  }
  EXPECT_THAT(Elaborated(WithTables(kTake, "r: T.Tensor([2, 2], T.ptr)")),
              HasSubstr("a table of tensors 'r' of several dimensions"));
}

}  // namespace
}  // namespace kiln::lang
