// The shipped kernels, from text through the interpreter, against loops written by hand: full runs,
// ragged shapes, and sampled references.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "compiler/interp/interp.h"
#include "compiler/lang/kernel.h"

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

// `alone`: one element is the work of one block.
void Check(const std::string& name, const lang::Arguments& arguments, const std::string& config,
           int64_t terms, const Oracle& oracle, bool alone = true) {
  SCOPED_TRACE(name + " " + config);
  const auto program = Template(name, arguments, config);
  ASSERT_TRUE(program.ok()) << program.status();
  Options options;
  options.clip_global = true;  // the language's rule, before the guards are made explicit
  for (const Order order : {Order::kForward, Order::kReverse}) {
    options.order = order;
    const auto args = RandomArguments(*program, options, 42);
    ASSERT_TRUE(args.ok()) << args.status();
    std::vector<TensorView> views;
    for (const Tensor& t : *args) views.push_back(t.View());
    const auto stats = Run(*program, views, options);
    ASSERT_TRUE(stats.ok()) << stats.status();
    const TensorView out = views.back();
    const Tolerance tolerance = DefaultTolerance(out.dtype, terms);
    std::vector<int64_t> sampled;
    for (int64_t i = 0; i < out.elements(); ++i) {
      const double want = oracle(*args, i);
      ASSERT_NEAR(out.Get(i), want, tolerance.absolute + tolerance.relative * std::abs(want)) << i;
      if (i % 97 == 5) sampled.push_back(i);
    }
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
      ASSERT_NEAR((*all)[s], want, 1e-9 * (1 + std::abs(want)));
    }
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

TEST(TemplatesTest, Gemv) {
  Check("gemv", {{"N", "50"}, {"K", "300"}}, "block_K=128,block_N=8", 300,
        [](const std::vector<Tensor>& a, int64_t n) {
          double sum = 0;
          for (int k = 0; k < 300; ++k) sum += At(a[0], k) * At(a[1], n * 300 + k);
          return sum;
        });
}

TEST(TemplatesTest, RowSum) {
  Check("reduction", {{"M", "13"}, {"N", "150"}}, "block_M=4,block_N=64", 150,
        [](const std::vector<Tensor>& a, int64_t m) {
          double sum = 0;
          for (int n = 0; n < 150; ++n) sum += At(a[0], m * 150 + n);
          return sum;
        });
}

TEST(TemplatesTest, Softmax) {
  Check("softmax", {{"M", "7"}, {"N", "100"}}, "block_M=2", 100,
        [](const std::vector<Tensor>& a, int64_t flat) {
          const int64_t row = flat / 100 * 100;
          double top = -1e30, sum = 0;
          for (int n = 0; n < 100; ++n) top = std::max(top, At(a[0], row + n));
          for (int n = 0; n < 100; ++n) sum += std::exp(At(a[0], row + n) - top);
          return std::exp(At(a[0], flat) - top) / sum;
        });
}

TEST(TemplatesTest, RmsNorm) {
  Check("rmsnorm", {{"M", "9"}, {"N", "130"}}, "block_M=2", 130,
        [](const std::vector<Tensor>& a, int64_t flat) {
          const int64_t row = flat / 130 * 130;
          double squares = 0;
          for (int n = 0; n < 130; ++n) squares += At(a[0], row + n) * At(a[0], row + n);
          return At(a[0], flat) / std::sqrt(squares / 130 + 1e-6) * At(a[1], flat % 130);
        });
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
