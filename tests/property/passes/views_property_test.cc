// Views against bytes: random kernels write a tile through one of its names and read it through
// another; what comes out is what a plain array of bytes holds. The same on the block's threads.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/interp/interp.h"
#include "tests/util/fragment_kernels.h"
#include "tests/util/thread_level.h"

namespace kiln {
namespace {

constexpr int kKernels = 1500;

using Bytes = std::vector<uint8_t>;
using Arguments = std::vector<interp::Tensor>;

struct Name {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;

  int64_t elements() const {
    int64_t n = 1;
    for (const int64_t extent : shape) n *= extent;
    return n;
  }
  std::string ShapeText() const { return absl::StrCat("(", absl::StrJoin(shape, ", "), ",)"); }
};

class RandomViews {
 public:
  explicit RandomViews(uint64_t seed) : random_(seed) {
    static constexpr DType kTypes[] = {kFloat32,
                                       kInt32,
                                       kUInt32,
                                       kFloat16,
                                       kBFloat16,
                                       kUInt8,
                                       kInt8,
                                       {TypeCode::kInt, 16},
                                       {TypeCode::kUInt, 16}};
    static constexpr int64_t kBytes[] = {48, 96, 240, 256, 512};
    const int64_t bytes = kBytes[Below(5)];
    memory_.resize(bytes);
    const bool one_type = Below(3) == 0;
    const DType first = kTypes[Below(9)];
    const int64_t names = 2 + Below(3);
    for (int64_t i = 0; i < names; ++i) {
      const DType dtype = one_type || i == 0 ? first : kTypes[Below(9)];
      names_.push_back({absl::StrCat("m", i), dtype, Shape(bytes / dtype.bytes())});
    }
    static constexpr const char* kScopes[] = {"shared", "fragment", "shared"};
    scope_ = kScopes[Below(3)];
    Line("m0 = T.alloc_", scope_, "(", names_[0].ShapeText(), ", \"", first.ToString(), "\")");
    for (int64_t i = 1; i < names; ++i) {
      const Name& base = names_[Below(i)];
      const Name& view = names_[i];
      if (view.dtype == base.dtype && Below(2) == 0) {
        Line(view.name, " = T.reshape(", base.name, ", ", view.ShapeText(), ")");
      } else {
        Line(view.name, " = T.view(", base.name, ", ", view.ShapeText(), ", \"",
             view.dtype.ToString(), "\")");
      }
    }
    CopyIn();  // so that all has a value
    for (int64_t i = Below(5); i > 0; --i) {
      const std::function<void()> kinds[] = {[&] { CopyIn(); }, [&] { RowIn(); }, [&] { LoopIn(); },
                                             [&] { Fill(); }, [&] { Maximum(); }};
      kinds[Below(5)]();
    }
    for (const Name& name : names_) CopyOut(name);
  }

  std::string Text() const {
    std::vector<std::string> params;
    for (const Name& p : params_) {
      params.push_back(
          absl::StrCat(p.name, ": T.Tensor(", p.ShapeText(), ", \"", p.dtype.ToString(), "\")"));
    }
    return absl::StrCat("import tilelang.language as T\n@T.prim_func\ndef views(",
                        absl::StrJoin(params, ", "),
                        "):\n    with T.Kernel(1, threads=32) as bx:\n", text_);
  }

  // What the outputs hold after the kernel ran on `args`.
  void Simulate(Arguments* args) {
    for (const auto& step : steps_) step(&memory_, args);
  }

  const std::vector<Name>& params() const { return params_; }

 private:
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }

  template <typename... Parts>
  void Line(const Parts&... parts) {
    absl::StrAppend(&text_, "        ", parts..., "\n");
  }

  // A random factorisation of n into one to three extents.
  std::vector<int64_t> Shape(int64_t n) {
    std::vector<int64_t> shape = {n};
    while (shape.size() < 3 && Below(3) > 0) {
      std::vector<int64_t> divisors;
      for (int64_t d = 1; d <= shape.back(); ++d) {
        if (shape.back() % d == 0) divisors.push_back(d);
      }
      const int64_t d = divisors[Below(static_cast<int64_t>(divisors.size()))];
      const int64_t rest = shape.back() / d;
      shape.back() = d;
      shape.push_back(rest);
    }
    return shape;
  }

  const Name& Any() { return names_[Below(static_cast<int64_t>(names_.size()))]; }

  size_t NewParam(const char* prefix, DType dtype, std::vector<int64_t> shape) {
    params_.push_back({absl::StrCat(prefix, params_.size()), dtype, std::move(shape)});
    return params_.size() - 1;
  }

  void CopyIn() {
    const Name& to = Any();
    const size_t p = NewParam("X", to.dtype, to.shape);
    Line("T.copy(", params_[p].name, ", ", to.name, ")");
    steps_.push_back([p](Bytes* memory, Arguments* args) {
      std::memcpy(memory->data(), (*args)[p].data(), memory->size());
    });
  }

  void RowIn() {
    const Name& to = Any();
    const size_t p = NewParam("X", to.dtype, to.shape);
    const int64_t row = Below(to.shape[0]), length = to.elements() / to.shape[0] * to.dtype.bytes();
    std::string region = absl::StrCat("[", row, ":", row + 1);
    for (size_t d = 1; d < to.shape.size(); ++d) absl::StrAppend(&region, ", 0:", to.shape[d]);
    Line("T.copy(", params_[p].name, region, "], ", to.name, region, "])");
    steps_.push_back([p, row, length](Bytes* memory, Arguments* args) {
      std::memcpy(memory->data() + row * length,
                  static_cast<const char*>((*args)[p].data()) + row * length, length);
    });
  }

  // Every element from the other end of an input.
  void LoopIn() {
    const Name& to = Any();
    const size_t p = NewParam("X", to.dtype, to.shape);
    std::vector<std::string> axes, there;
    for (size_t d = 0; d < to.shape.size(); ++d) {
      axes.push_back(absl::StrCat("a", d));
      there.push_back(absl::StrCat(to.shape[d] - 1, " - a", d));
    }
    Line("for ", absl::StrJoin(axes, ", "), " in T.Parallel(", absl::StrJoin(to.shape, ", "), "):");
    Line("    ", to.name, "[", absl::StrJoin(axes, ", "), "] = ", params_[p].name, "[",
         absl::StrJoin(there, ", "), "]");
    const int64_t n = to.elements(), bytes = to.dtype.bytes();
    steps_.push_back([p, n, bytes](Bytes* memory, Arguments* args) {
      for (int64_t i = 0; i < n; ++i) {
        std::memcpy(memory->data() + i * bytes,
                    static_cast<const char*>((*args)[p].data()) + (n - 1 - i) * bytes, bytes);
      }
    });
  }

  void Fill() {
    const Name& to = Any();
    const int64_t value = Below(100);
    Line("T.fill(", to.name, ", ", value, ")");
    const DType dtype = to.dtype;
    steps_.push_back([dtype, value](Bytes* memory, Arguments*) {
      const auto bytes = static_cast<size_t>(dtype.bytes());
      for (size_t at = 0; at < memory->size(); at += bytes) {
        interp::TensorView{memory->data() + at, dtype, {1}, {}}.Set(0, static_cast<double>(value));
      }
    });
  }

  // The largest element of each row, through an integer name.
  void Maximum() {
    const Name& of = Any();
    if (!of.dtype.is_int() || of.shape.size() < 2) return;
    std::vector<int64_t> rows(of.shape.begin(), of.shape.end() - 1);
    const size_t p = NewParam("Y", of.dtype, rows);
    const std::string result = absl::StrCat("r", p);
    Line(result, " = T.alloc_", scope_, "(", params_[p].ShapeText(), ", \"", of.dtype.ToString(),
         "\")");
    Line("T.reduce_max(", of.name, ", ", result, ", dim=", of.shape.size() - 1, ")");
    Line("T.copy(", result, ", ", params_[p].name, ")");
    const DType dtype = of.dtype;
    const int64_t row = of.shape.back();
    steps_.push_back([p, dtype, row](Bytes* memory, Arguments* args) {
      const auto n = static_cast<int64_t>(memory->size()) / dtype.bytes();
      const interp::TensorView all{memory->data(), dtype, {n}, {}};
      for (int64_t r = 0; r < n / row; ++r) {
        double most = all.Get(r * row);
        for (int64_t i = 1; i < row; ++i) most = std::max(most, all.Get(r * row + i));
        (*args)[p].View().Set(r, most);
      }
    });
  }

  void CopyOut(const Name& from) {
    const size_t p = NewParam("Y", from.dtype, from.shape);
    Line("T.copy(", from.name, ", ", params_[p].name, ")");
    steps_.push_back([p](Bytes* memory, Arguments* args) {
      std::memcpy((*args)[p].data(), memory->data(), memory->size());
    });
  }

  std::mt19937_64 random_;
  Bytes memory_;
  std::string scope_, text_;
  std::vector<Name> names_, params_;
  std::vector<std::function<void(Bytes*, Arguments*)>> steps_;
};

std::vector<interp::TensorView> ViewsOf(const Arguments& args) {
  std::vector<interp::TensorView> views;
  for (const interp::Tensor& tensor : args) views.push_back(tensor.View());
  return views;
}

// Bit for bit, but for which NaN a NaN is: the interpreter's floats are doubles.
bool SameBits(const interp::TensorView& a, const interp::TensorView& b) {
  for (int64_t i = 0; i < a.elements(); ++i) {
    if (std::memcmp(a.At(i), b.At(i), static_cast<size_t>(a.dtype.bytes())) == 0) continue;
    if (!(a.dtype.is_float() && std::isnan(a.Get(i)) && std::isnan(b.Get(i)))) return false;
  }
  return true;
}

TEST(Views, HoldWhatAnArrayOfBytesHolds) {
  for (uint64_t seed = 0; seed < kKernels; ++seed) {
    RandomViews views(seed);
    const auto program = testing::Elaborated("views.py", views.Text());
    ASSERT_TRUE(program.ok()) << program.status().message() << "\n" << views.Text();
    interp::Options options;
    options.clip_global = true;
    Arguments got = *interp::RandomArguments(*program, options, seed);
    Arguments want = *interp::RandomArguments(*program, options, seed);
    const auto ran = interp::Run(*program, ViewsOf(got), options);
    ASSERT_TRUE(ran.ok()) << ran.status().message() << "\n" << views.Text();
    views.Simulate(&want);
    for (size_t p = 0; p < want.size(); ++p) {
      ASSERT_TRUE(SameBits(got[p].View(), want[p].View()))
          << "seed " << seed << ", " << views.params()[p].name << "\n"
          << views.Text();
    }
  }
}

// B after `body`, which sees A: float32[16] = 0, 1, ..., 15.
std::vector<double> Computed(const std::string& body) {
  const auto program = testing::Elaborated("k.py", testing::KernelAround(32, 16, "(16,)", body));
  EXPECT_TRUE(program.ok()) << program.status();
  interp::Options options;
  options.clip_global = true;
  const Arguments args = *interp::RandomArguments(*program, options, 1);
  for (int64_t i = 0; i < 16; ++i) args[0].View().Set(i, static_cast<double>(i));
  const auto ran = interp::Run(*program, ViewsOf(args), options);
  EXPECT_TRUE(ran.ok()) << ran.status() << "\n" << body;
  std::vector<double> values;
  for (int64_t i = 0; i < 16; ++i) values.push_back(args[1].View().Get(i));
  return values;
}

TEST(Views, ReadBeforeTheyWrite) {
  // A fill by what it overwrites: A[3] + A[5].
  EXPECT_EQ(Computed("s = T.alloc_shared((16,), T.float32)\nv = T.view(s, (4, 4))\nT.copy(A, s)\n"
                     "T.fill(v, s[3] + v[1, 1])\nT.copy(s, B)"),
            std::vector<double>(16, 8));
  // A store in halves whose place the first half changes.
  std::vector<double> expected(16, 0);
  expected[0] = 65539;
  EXPECT_EQ(Computed("s = T.alloc_shared((16,), T.int32)\nv = T.view(s, (32,), T.int16)\n"
                     "T.clear(v)\ns[s[0]] = 65539\nfor i in T.Parallel(16):\n"
                     "    B[i] = T.cast(s[i], T.float32)"),
            expected);
}

TEST(Views, AreTheSameOnTheBlocksThreads) {
  int refused = 0;
  for (uint64_t seed = 0; seed < kKernels; ++seed) {
    RandomViews views(seed);
    const auto program = testing::Elaborated("views.py", views.Text());
    ASSERT_TRUE(program.ok()) << program.status().message();
    std::string why;
    const auto verdict = testing::CheckThreads(*program, seed, 0, &why);
    ASSERT_NE(verdict, testing::Verdict::kWrong) << why << "\n" << views.Text();
    refused += verdict == testing::Verdict::kRefused;
  }
  EXPECT_LT(refused, kKernels / 10);
}

}  // namespace
}  // namespace kiln
