// The shipped kernels, from text through the interpreter, against loops written by hand: full runs,
// ragged shapes, and sampled references.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "compiler/interp/interp.h"
#include "compiler/lang/kernel.h"
#include "tests/util/fused_products.h"

namespace kiln::interp {
namespace {

// Elements of a result from the inputs, in float64.
using Oracle = std::function<double(const std::vector<Tensor>& args, int64_t flat)>;

absl::StatusOr<ir::Program> Template(const std::string& name, const lang::Arguments& arguments,
                                     const std::string& config) {
  std::ifstream in("compiler/templates/" + name + ".py");
  std::stringstream text;
  text << in.rdbuf();
  auto file = std::make_shared<SourceFile>(SourceFile{name + ".py", text.str()});
  KILN_ASSIGN_OR_RETURN(const lang::Kernel kernel, lang::Kernel::Parse(file, ""));
  KILN_ASSIGN_OR_RETURN(const Config parsed, Config::Parse(config));
  return lang::Elaborate(kernel, arguments, parsed);
}

// Every element of a result, to its type's rounding of so many terms.
void ExpectOracle(const TensorView& out, const std::vector<Tensor>& args, int64_t terms,
                  const Oracle& oracle) {
  const Tolerance tolerance = DefaultTolerance(out.dtype, terms);
  for (int64_t i = 0; i < out.elements(); ++i) {
    const double want = oracle(args, i);
    ASSERT_NEAR(out.Get(i), want, tolerance.absolute + tolerance.relative * std::abs(want)) << i;
  }
}

// The program's results with the roundings that a GPU leaves out are those of the oracle, too.
void CheckFused(const ir::Program& program, const Options& options, std::vector<Tensor> args,
                int64_t terms, const Oracle& oracle) {
  SCOPED_TRACE("products fused with sums");
  std::vector<TensorView> views;
  for (const Tensor& t : args) views.push_back(t.View());
  const auto stats = Run(testing::FuseProducts(program), views, options);
  ASSERT_TRUE(stats.ok()) << stats.status();
  ExpectOracle(views.back(), args, terms, oracle);
}

// `alone`: one element is the work of one block. `prepare` changes inputs.
void Check(const std::string& name, const lang::Arguments& arguments, const std::string& config,
           int64_t terms, const Oracle& oracle, bool alone = true,
           const std::function<void(std::vector<Tensor>&)>& prepare = {},
           double sampled_tolerance = 1e-9) {
  SCOPED_TRACE(name + " " + config);
  const auto program = Template(name, arguments, config);
  ASSERT_TRUE(program.ok()) << program.status();
  Options options;
  options.clip_global = true;  // the language's rule, before the guards are made explicit
  for (const Order order : {Order::kForward, Order::kReverse}) {
    options.order = order;
    auto args = RandomArguments(*program, options, 42);
    ASSERT_TRUE(args.ok()) << args.status();
    if (prepare) prepare(*args);
    std::vector<TensorView> views;
    for (const Tensor& t : *args) views.push_back(t.View());
    const auto stats = Run(*program, views, options);
    ASSERT_TRUE(stats.ok()) << stats.status();
    ExpectOracle(views.back(), *args, terms, oracle);
    if (::testing::Test::HasFatalFailure()) return;
    std::vector<int64_t> sampled;
    const int64_t elements = views.back().elements();
    for (int64_t i = elements > 5 ? 5 : 0; i < elements; i += 97) sampled.push_back(i);
    Stats sample_stats;
    const auto reference = SampleReference(*program, views, static_cast<int>(views.size()) - 1,
                                           {sampled.back()}, options, &sample_stats);
    ASSERT_TRUE(reference.ok()) << reference.status();
    if (alone) EXPECT_EQ(sample_stats.blocks, 1) << "one element is the work of one block";
    const auto all = SampleReference(*program, views, static_cast<int>(views.size()) - 1, sampled,
                                     options, &sample_stats);
    ASSERT_TRUE(all.ok()) << all.status();
    EXPECT_LE(sample_stats.blocks, stats->blocks);
    for (size_t s = 0; s < sampled.size(); ++s) {
      const double want = oracle(*args, sampled[s]);
      ASSERT_NEAR((*all)[s], want, sampled_tolerance * (1 + std::abs(want)));
    }
    CheckFused(*program, options, *std::move(args), terms, oracle);
  }
}

double At(const Tensor& t, int64_t i) { return t.View().Get(i); }

// Samples with narrowed blocks are those with whole ones, bit for bit, though nothing is in the
// inputs but what was announced. `at_least`: times the work that one element saves.
void CheckNarrow(const std::string& name, const lang::Arguments& arguments,
                 const std::string& config, double at_least) {
  SCOPED_TRACE(name + " " + config);
  const auto program = Template(name, arguments, config);
  ASSERT_TRUE(program.ok()) << program.status();
  Options options;
  options.clip_global = true;
  const auto args = RandomArguments(*program, options, 7);
  ASSERT_TRUE(args.ok()) << args.status();
  const int output = static_cast<int>(args->size()) - 1;
  std::vector<TensorView> whole, announced;
  std::vector<Tensor> lazy;
  for (const Tensor& t : *args) {
    whole.push_back(t.View());
    announced.push_back(lazy.emplace_back(t.dtype(), t.shape()).View());
  }
  Options narrow = options;
  narrow.narrow = true;
  narrow.prepare = [&](int tensor, const std::vector<int64_t>& low,
                       const std::vector<int64_t>& high) {
    const TensorView &from = whole[static_cast<size_t>(tensor)],
                     &to = announced[static_cast<size_t>(tensor)];
    for (int64_t i = 0; i < from.elements(); ++i) {
      bool inside = true;
      int64_t rest = i;
      for (size_t d = from.shape.size(); d-- > 0; rest /= from.shape[d]) {
        const int64_t index = rest % from.shape[d];
        inside &= low[d] <= index && index <= high[d];
      }
      if (inside) to.Set(i, from.Get(i));
    }
  };
  const int64_t elements = whole.back().elements();
  double saved = 1e30;
  for (int64_t step : {int64_t{1}, int64_t{3}}) {
    for (int64_t at = 0; at < elements; at += std::max<int64_t>(1, elements / 11)) {
      std::vector<int64_t> sampled;
      for (int64_t i = 0; i < 4; ++i)
        sampled.push_back(std::min(elements - 1, at + i * (step - 1)));
      for (Tensor& t : lazy) FillRandom(t.View(), 99);  // what nobody announces
      Stats all_stats, stats;
      const auto want = SampleReference(*program, whole, output, sampled, options, &all_stats);
      const auto got = SampleReference(*program, announced, output, sampled, narrow, &stats);
      ASSERT_TRUE(want.ok()) << want.status();
      ASSERT_TRUE(got.ok()) << got.status();
      ASSERT_EQ(*got, *want) << at;
      for (Options threaded : {options, narrow}) {
        threaded.threads = 3;
        const auto& inputs = threaded.narrow ? announced : whole;
        const auto same = SampleReference(*program, inputs, output, sampled, threaded);
        ASSERT_TRUE(same.ok()) << same.status();
        ASSERT_EQ(*same, *want) << at;
      }
      if (step == 1) {
        saved = std::min(saved, static_cast<double>(all_stats.steps) /
                                    static_cast<double>(std::max<int64_t>(stats.steps, 1)));
      }
    }
  }
  EXPECT_GE(saved, at_least);
}

TEST(TemplatesTest, NarrowedSamplesAreTheSameNumbers) {
  const std::string tiles = "block_K=32,block_M=32,block_N=32,num_stages=2,threads=128";
  for (const char* trans : {"False", "True"}) {
    CheckNarrow("matmul",
                {{"M", "70"}, {"N", "90"}, {"K", "65"}, {"trans_A", trans}, {"trans_B", trans}},
                "block_K=16,block_M=32,block_N=32,panel=3", 8);
    CheckNarrow("attention",
                {{"batch", "1"},
                 {"heads", "2"},
                 {"kv_heads", "1"},
                 {"seq_q", "70"},
                 {"seq_kv", "100"},
                 {"dim", "16"},
                 {"is_causal", trans}},
                "block_M=32,block_N=32,num_stages=2,threads=128", 2);
  }
  for (const char* tail : {"'none'", "'gelu'"}) {
    CheckNarrow("linear",
                {{"M", "40"}, {"N", "72"}, {"K", "64"}, {"batch", "2"}, {"activation", tail}},
                tiles, 4);
  }
  CheckNarrow("matmul_decode", {{"M", "20"}, {"N", "64"}, {"K", "64"}},
              "block_K=32,block_M=16,block_N=32,num_stages=2,threads=128", 1);
  CheckNarrow("matmul_splitk", {{"M", "70"}, {"N", "90"}, {"K", "200"}},
              "block=64,block_K=32,block_M=32,block_N=32,num_stages=2,split=3,threads=128", 20);
  CheckNarrow("reduction_columns", {{"M", "70"}, {"N", "90"}}, "", 1);
  CheckNarrow("attention_decode",
              {{"batch", "2"}, {"heads", "4"}, {"kv_heads", "2"}, {"length", "150"}, {"dim", "32"}},
              "block_H=16,block_N=32,num_stages=2,split=2,threads=128", 1);
  CheckNarrow("conv2d", {{"N", "1"}, {"H", "9"}, {"W", "9"}, {"C", "32"}, {"F", "40"}}, tiles, 2);
  CheckNarrow("softmax", {{"M", "17"}, {"N", "100"}}, "block_M=4", 2);
  CheckNarrow("layernorm", {{"M", "17"}, {"N", "100"}}, "block_M=4,threads=128", 2);
  CheckNarrow("rmsnorm", {{"M", "17"}, {"N", "100"}}, "block_M=4", 2);
  CheckNarrow("gemv", {{"N", "50"}, {"K", "300"}}, "block_K=128,block_N=8", 2);
  CheckNarrow("reduction", {{"M", "13"}, {"N", "150"}}, "block_M=4,block_N=64", 1);
  CheckNarrow("elementwise", {{"M", "5"}, {"N", "700"}}, "block_M=2,block_N=256", 8);
  CheckNarrow("transpose", {{"M", "70"}, {"N", "90"}}, "", 1);
}

TEST(TemplatesTest, MatMul) {
  for (int bits = 0; bits < 4; ++bits) {
    const bool ta = bits & 1, tb = bits & 2;
    const int64_t m = 45, n = 70, k = 33;
    Check("matmul",
          {{"M", "45"},
           {"N", "70"},
           {"K", "33"},
           {"trans_A", ta ? "True" : "False"},
           {"trans_B", tb ? "True" : "False"}},
          "block_K=16,block_M=32,block_N=16", k, [=](const std::vector<Tensor>& a, int64_t flat) {
            const int64_t i = flat / n, j = flat % n;
            double sum = 0;
            for (int64_t p = 0; p < k; ++p) {
              sum += At(a[0], ta ? p * m + i : i * k + p) * At(a[1], tb ? j * k + p : p * n + j);
            }
            return sum;
          });
  }
}

TEST(TemplatesTest, MatMulInHalfPrecision) {
  Check("matmul",
        {{"M", "32"}, {"N", "32"}, {"K", "64"}, {"dtype", "bfloat16"}, {"out_dtype", "float16"}},
        "block_K=32,block_M=32,block_N=32,panel=4", 64,
        [](const std::vector<Tensor>& a, int64_t flat) {
          double sum = 0;
          for (int p = 0; p < 64; ++p) {
            sum += At(a[0], flat / 32 * 64 + p) * At(a[1], p * 32 + flat % 32);
          }
          return sum;
        });
}

// Shares that begin and end inside of tiles, several to a tile, none inside of one; whole tiles
// before them; more blocks than steps.
TEST(TemplatesTest, MatMulStreamK) {
  const int64_t m = 45, n = 70, k = 100;
  for (const char* config :
       {"blocks=1", "blocks=3", "blocks=7", "blocks=15", "blocks=16", "blocks=44", "blocks=1000",
        "blocks=4,panel=2", "blocks=7,few=True", "blocks=2,few=True,trans_B=False",
        "blocks=7,trans_A=True,trans_B=False", "blocks=7,few=True,trans_A=True"}) {
    const bool ta = std::string(config).find("trans_A=True") != std::string::npos;
    const bool tb = std::string(config).find("trans_B=False") == std::string::npos;
    Check(
        "matmul_streamk",
        {{"M", "45"}, {"N", "70"}, {"K", "100"}, {"dtype", "float32"}, {"out_dtype", "float32"}},
        std::string(config) + ",block_K=16,block_M=32,block_N=16", k,
        [=](const std::vector<Tensor>& a, int64_t flat) {
          const int64_t i = flat / n, j = flat % n;
          double sum = 0;
          for (int64_t p = 0; p < k; ++p) {
            sum += At(a[0], ta ? p * m + i : i * k + p) * At(a[1], tb ? j * k + p : p * n + j);
          }
          return sum;
        },
        /*alone=*/false);
  }
}

double Activated(const std::string& activation, double x) {
  if (activation == "relu") return std::max(x, 0.0);
  if (activation == "silu") return x / (1 + std::exp(-x));
  if (activation == "gelu") {
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  }
  return x;
}

// What follows a product: the same whatever shares the sum over K.
TEST(TemplatesTest, Epilogues) {
  const int64_t m = 45, n = 70, k = 100;
  unsigned turn = 0;  // the ways to store operands, one a kernel
  for (const std::string activation : {"none", "relu", "silu", "gelu"}) {
    ++turn;
    for (const auto& [name, more] : std::vector<std::pair<std::string, std::string>>{
             {"linear", ""},
             {"matmul_splitk", "split=3,block=64,with_bias=True,"},
             {"matmul_streamk", "blocks=7,with_bias=True,"},
             {"matmul_streamk", "blocks=7,with_bias=True,few=True,"}}) {
      const bool ta = turn & 1, tb = turn & 2;
      ++turn;
      Check(
          name,
          {{"M", "45"}, {"N", "70"}, {"K", "100"}, {"dtype", "float32"}, {"out_dtype", "float32"}},
          absl::StrCat(more, "activation='", activation, "',scale=0.5,trans_A=",
                       ta ? "True" : "False", ",trans_B=", tb ? "True" : "False",
                       ",block_K=16,block_M=32,block_N=16,num_stages=2,threads=128"),
          k,
          [=, act = activation](const std::vector<Tensor>& a, int64_t flat) {
            const int64_t i = flat / n, j = flat % n;
            double sum = 0;
            for (int64_t p = 0; p < k; ++p) {
              sum += At(a[0], ta ? p * m + i : i * k + p) * At(a[1], tb ? j * k + p : p * n + j);
            }
            return Activated(act, sum * 0.5 + At(a[2], j));
          },
          /*alone=*/name == "linear", {}, /*sampled_tolerance=*/1e-6);
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

// Filters in groups, channels that are whole steps and some that are not.
TEST(TemplatesTest, Convolution) {
  struct Sides {
    int64_t down, across;
    std::string Text() const {
      return down == across ? std::to_string(down) : absl::StrCat("(", down, ", ", across, ")");
    }
  };
  struct Image {
    int64_t channels, features, groups;
    Sides stride, pad, dilation;
  };
  for (const Image& c :
       {Image{32, 40, 1, {1, 1}, {1, 1}, {1, 1}}, Image{64, 48, 2, {2, 2}, {1, 1}, {1, 1}},
        Image{96, 12, 3, {1, 1}, {2, 2}, {2, 2}}, Image{3, 20, 1, {2, 2}, {1, 1}, {1, 1}},
        Image{40, 24, 2, {1, 1}, {1, 1}, {1, 1}}, Image{8, 24, 8, {1, 1}, {0, 0}, {1, 1}},
        Image{48, 20, 1, {1, 1}, {1, 1}, {1, 1}}, Image{96, 24, 2, {2, 2}, {1, 1}, {1, 1}},
        Image{32, 20, 1, {2, 1}, {1, 0}, {1, 2}}, Image{5, 12, 1, {1, 3}, {0, 2}, {2, 1}}}) {
    constexpr int64_t n = 2, h = 7, w = 6, taps = 3;
    const auto extent = [](int64_t size, int64_t stride, int64_t pad, int64_t dilation) {
      return (size + 2 * pad - dilation * (taps - 1) - 1) / stride + 1;
    };
    const int64_t p = extent(h, c.stride.down, c.pad.down, c.dilation.down);
    const int64_t q = extent(w, c.stride.across, c.pad.across, c.dilation.across);
    const int64_t channels = c.channels / c.groups, features = c.features / c.groups;
    const auto text = [](int64_t x) { return std::to_string(x); };
    Check("conv2d",
          {{"N", text(n)},
           {"H", text(h)},
           {"W", text(w)},
           {"C", text(c.channels)},
           {"F", text(c.features)},
           {"stride", c.stride.Text()},
           {"pad", c.pad.Text()},
           {"dilation", c.dilation.Text()},
           {"groups", text(c.groups)},
           {"dtype", "float32"},
           {"out_dtype", "float32"}},
          "block_M=16,block_N=16,block_K=16", taps * taps * channels,
          [=](const std::vector<Tensor>& a, int64_t flat) {
            const int64_t pixel = flat / c.features, feature = flat % c.features;
            double sum = 0;
            for (int64_t r = 0; r < taps; ++r) {
              for (int64_t s = 0; s < taps; ++s) {
                const int64_t y = pixel / q % p * c.stride.down + r * c.dilation.down - c.pad.down;
                const int64_t x =
                    pixel % q * c.stride.across + s * c.dilation.across - c.pad.across;
                if (y < 0 || y >= h || x < 0 || x >= w) continue;
                for (int64_t k = 0; k < channels; ++k) {
                  const int64_t from = ((pixel / (p * q) * h + y) * w + x) * c.channels +
                                       feature / features * channels + k;
                  sum += At(a[0], from) *
                         At(a[1], (feature * taps * taps + r * taps + s) * channels + k);
                }
              }
            }
            return sum;
          });
  }
}

// What one query of `dim` elements gets from keys and values `seen` of them, `step` apart.
double Attended(const Tensor& q, int64_t query, const Tensor& k, const Tensor& v, int64_t first,
                int64_t step, int64_t seen, int64_t dim, int64_t column) {
  double total = 0, sum = 0;
  for (int64_t j = 0; j < seen; ++j) {
    double score = 0;
    for (int64_t d = 0; d < dim; ++d) score += At(q, query + d) * At(k, first + j * step + d);
    const double weight = std::exp(score / std::sqrt(static_cast<double>(dim)));
    total += weight;
    sum += weight * At(v, first + j * step + column);
  }
  return seen > 0 ? sum / total : 0;
}

void SetLengths(Tensor& tensor, const std::vector<int64_t>& lengths) {
  for (size_t b = 0; b < lengths.size(); ++b) {
    tensor.View().Set(static_cast<int64_t>(b), static_cast<double>(lengths[b]));
  }
}

TEST(TemplatesTest, Attention) {
  constexpr int64_t kHeads = 2, kQueries = 24, kDim = 16;
  for (const int64_t all : {24, 32, 40}) {
    for (const bool causal : {false, true}) {
      Check(
          "attention",
          {{"batch", "2"},
           {"heads", "2"},
           {"kv_heads", "1"},
           {"seq_q", "24"},
           {"seq_kv", std::to_string(all)},
           {"dim", "16"},
           {"is_causal", causal ? "True" : "False"},
           {"dtype", "float32"}},
          "block_M=16,block_N=16,threads=32", all,
          [&](const std::vector<Tensor>& a, int64_t flat) -> double {
            const int64_t column = flat % kDim, row = flat / kDim / kHeads % kQueries;
            const int64_t b = flat / kDim / kHeads / kQueries;
            const int64_t seen = causal ? row + 1 + all - kQueries : all;
            return Attended(a[0], flat - column, a[1], a[2], b * all * kDim, kDim, seen, kDim,
                            column);
          },
          /*alone=*/true, {}, /*sampled_tolerance=*/1e-7);
    }
  }
}

// Lengths that fill all parts of the split, some of them, or one in part.
TEST(TemplatesTest, Decoding) {
  constexpr int64_t kHeads = 6, kShared = 2, kDim = 16;
  for (const int64_t length : {5, 32, 48, 100, 128}) {
    Check(
        "attention_decode",
        {{"batch", "2"},
         {"heads", "6"},
         {"kv_heads", "2"},
         {"length", std::to_string(length)},
         {"dim", "16"},
         {"dtype", "float32"}},
        "split=8,block_H=16,block_N=16,threads=32", length,
        [&](const std::vector<Tensor>& a, int64_t flat) {
          const int64_t column = flat % kDim, head = flat / kDim % kHeads;
          const int64_t b = flat / kDim / kHeads, group = head / (kHeads / kShared);
          return Attended(a[0], flat - column, a[1], a[2], (b * length * kShared + group) * kDim,
                          kShared * kDim, length, kDim, column);
        },
        /*alone=*/false, {}, /*sampled_tolerance=*/1e-7);
  }
}

// Sequences of lengths of their own: whole, short, none; more queries than keys; lengths that the
// tensors do not have.
TEST(TemplatesTest, RaggedAttention) {
  constexpr int64_t kHeads = 2, kQueries = 24, kKeys = 40, kDim = 16;
  const std::vector<int64_t> queries = {24, 9, 17, -1}, keys = {100, 33, 5, 3};
  for (const bool causal : {false, true}) {
    Check(
        "attention_ragged",
        {{"batch", "4"},
         {"heads", "2"},
         {"kv_heads", "1"},
         {"seq_q", "24"},
         {"seq_kv", "40"},
         {"dim", "16"},
         {"is_causal", causal ? "True" : "False"},
         {"dtype", "float32"}},
        "block_M=16,block_N=16,threads=32", kKeys,
        [&](const std::vector<Tensor>& a, int64_t flat) -> double {
          const int64_t column = flat % kDim, head = flat / kDim % kHeads;
          const int64_t row = flat / kDim / kHeads % kQueries;
          const int64_t b = flat / kDim / kHeads / kQueries;
          if (row >= queries[b]) return 0;
          const int64_t all = std::min(keys[b], kKeys);
          const int64_t seen =
              causal ? std::clamp<int64_t>(row + 1 + all - queries[b], 0, all) : all;
          return Attended(a[0], ((b * kQueries + row) * kHeads + head) * kDim, a[1], a[2],
                          b * kKeys * kDim, kDim, seen, kDim, column);
        },
        /*alone=*/true,
        [&](std::vector<Tensor>& args) {
          SetLengths(args[3], queries);
          SetLengths(args[4], keys);
        },
        /*sampled_tolerance=*/1e-7);  // the kernel's scale of scores is a float32
  }
}

TEST(TemplatesTest, RaggedDecoding) {
  constexpr int64_t kHeads = 6, kShared = 2, kKeys = 100, kDim = 16;
  const std::vector<int64_t> keys = {1000, 33, 5, 0};
  Check(
      "attention_decode_ragged",
      {{"batch", "4"},
       {"heads", "6"},
       {"kv_heads", "2"},
       {"length", "100"},
       {"dim", "16"},
       {"dtype", "float32"}},
      "split=3,block_H=16,block_N=16,threads=32", kKeys,
      [&](const std::vector<Tensor>& a, int64_t flat) {
        const int64_t column = flat % kDim, head = flat / kDim % kHeads, b = flat / kDim / kHeads;
        const int64_t group = head / (kHeads / kShared);
        return Attended(a[0], (b * kHeads + head) * kDim, a[1], a[2],
                        (b * kKeys * kShared + group) * kDim, kShared * kDim,
                        std::min(keys[b], kKeys), kDim, column);
      },
      /*alone=*/false, [&](std::vector<Tensor>& args) { SetLengths(args[3], keys); },
      /*sampled_tolerance=*/1e-7);
}

TEST(TemplatesTest, Gemv) {
  Check("gemv", {{"N", "50"}, {"K", "300"}}, "block_K=128,block_N=8", 300,
        [](const std::vector<Tensor>& a, int64_t n) {
          double sum = 0;
          for (int k = 0; k < 300; ++k) sum += At(a[0], k) * At(a[1], n * 300 + k);
          return sum;
        });
}

// What a reduction makes of numbers; nothing but negative ones, so that a 0 from beyond the tensor
// would show.
double Reduced(const std::string& op, const Tensor& x, int64_t first, int64_t step, int64_t count) {
  double sum = 0, most = At(x, first), least = most, size = 0, largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double v = At(x, first + i * step);
    sum += v;
    size += std::abs(v);
    most = std::max(most, v);
    least = std::min(least, v);
    largest = std::max(largest, std::abs(v));
  }
  return std::map<std::string, double>{{"sum", sum},     {"mean", sum / static_cast<double>(count)},
                                       {"max", most},    {"min", least},
                                       {"abssum", size}, {"absmax", largest}}
      .at(op);
}

void AllOfOneSign(Tensor& x, double sign) {
  const TensorView view = x.View();
  for (int64_t i = 0; i < view.elements(); ++i) {
    view.Set(i, sign * (0.25 + std::abs(view.Get(i))));
  }
}

TEST(TemplatesTest, Reductions) {
  for (const std::string op : {"sum", "mean", "max", "min", "abssum", "absmax"}) {
    const auto signs = [&](std::vector<Tensor>& args) {
      AllOfOneSign(args[0], op == "min" ? 1 : -1);
    };
    const std::string config = absl::StrCat("op='", op, "',");
    Check(
        "reduction", {{"M", "13"}, {"N", "150"}}, config + "block_M=4,block_N=64", 150,
        [&](const std::vector<Tensor>& a, int64_t m) { return Reduced(op, a[0], m * 150, 1, 150); },
        /*alone=*/true, signs);
    Check(
        "reduction_columns", {{"M", "70"}, {"N", "90"}}, config + "block_N=64,split=4,threads=64",
        70, [&](const std::vector<Tensor>& a, int64_t n) { return Reduced(op, a[0], n, 90, 70); },
        /*alone=*/false, signs);
    Check(
        "reduction_all", {{"N", "5000"}}, config + "block=256", 5000,
        [&](const std::vector<Tensor>& a, int64_t) { return Reduced(op, a[0], 0, 1, 5000); },
        /*alone=*/false, signs);
  }
}

// An oracle over rows of n elements, of two figures of a row that are found once.
Oracle OverRows(int64_t n,
                const std::function<std::pair<double, double>(const Tensor&, int64_t)>& figures,
                const std::function<double(const std::vector<Tensor>&, int64_t,
                                           const std::pair<double, double>&)>& element) {
  auto known = std::make_shared<std::map<int64_t, std::pair<double, double>>>();
  return [=](const std::vector<Tensor>& a, int64_t flat) {
    const auto [row, first] = known->try_emplace(flat / n);
    if (first) row->second = figures(a[0], flat / n * n);
    return element(a, flat, row->second);
  };
}

Oracle SoftmaxOf(int64_t n) {
  return OverRows(
      n,
      [n](const Tensor& x, int64_t row) {
        double top = -1e30, sum = 0;
        for (int64_t i = 0; i < n; ++i) top = std::max(top, At(x, row + i));
        for (int64_t i = 0; i < n; ++i) sum += std::exp(At(x, row + i) - top);
        return std::pair(top, sum);
      },
      [](const std::vector<Tensor>& a, int64_t flat, const std::pair<double, double>& row) {
        return std::exp(At(a[0], flat) - row.first) / row.second;
      });
}

// Rows of 33,000 do not fit a block's registers: they are read several times.
TEST(TemplatesTest, Softmax) {
  Check("softmax", {{"M", "7"}, {"N", "100"}}, "block_M=2", 100, SoftmaxOf(100));
  Check("softmax", {{"M", "3"}, {"N", "33000"}}, "block_M=2,block_N=2048", 33000, SoftmaxOf(33000),
        /*alone=*/true, [](std::vector<Tensor>& args) {  // apart, so that some results are large
          const TensorView x = args[0].View();
          for (int64_t i = 0; i < x.elements(); ++i) x.Set(i, 2000 * x.Get(i));
        });
}

TEST(TemplatesTest, SoftmaxOfRowsThatBeginWithNothing) {
  Check("softmax", {{"M", "2"}, {"N", "33000"}}, "block_N=1024", 33000, SoftmaxOf(33000),
        /*alone=*/true, [](std::vector<Tensor>& args) {
          const TensorView x = args[0].View();
          for (int64_t i = 0; i < 2048; ++i) x.Set(i, -std::numeric_limits<double>::infinity());
        });
}

TEST(TemplatesTest, RmsNorm) {
  for (const int64_t n : {130, 33000}) {
    Check("rmsnorm", {{"M", "9"}, {"N", std::to_string(n)}}, "block_M=2,block_N=1024", n,
          OverRows(
              n,
              [n](const Tensor& x, int64_t row) {
                double squares = 0;
                for (int64_t i = 0; i < n; ++i) squares += At(x, row + i) * At(x, row + i);
                return std::pair(std::sqrt(squares / static_cast<double>(n) + 1e-6), 0.0);
              },
              [n](const std::vector<Tensor>& a, int64_t flat, const auto& row) {
                return At(a[0], flat) / row.first * At(a[1], flat % n);
              }));
  }
}

TEST(TemplatesTest, LayerNorm) {
  for (const int64_t n : {130, 33000}) {
    Check("layernorm", {{"M", "3"}, {"N", std::to_string(n)}}, "block_M=2,block_N=1024", n,
          OverRows(
              n,
              [n](const Tensor& x, int64_t row) {
                const auto count = static_cast<double>(n);
                double sum = 0, squares = 0;
                for (int64_t i = 0; i < n; ++i) sum += At(x, row + i);
                for (int64_t i = 0; i < n; ++i) {
                  squares += std::pow(At(x, row + i) - sum / count, 2);
                }
                return std::pair(sum / count, std::sqrt(squares / count + 1e-5));
              },
              [n](const std::vector<Tensor>& a, int64_t flat, const auto& row) {
                return (At(a[0], flat) - row.first) / row.second * At(a[1], flat % n) +
                       At(a[2], flat % n);
              }));
  }
}

TEST(TemplatesTest, SwiGlu) {
  Check("elementwise", {{"M", "5"}, {"N", "700"}}, "block_M=2,block_N=256", 4,
        [](const std::vector<Tensor>& a, int64_t flat) {
          const double g = At(a[0], flat);
          return g / (1 + std::exp(-g)) * At(a[1], flat);
        });
}

}  // namespace
}  // namespace kiln::interp
