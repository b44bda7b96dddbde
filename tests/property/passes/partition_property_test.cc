// The law of the thread level: interpreter(tiles) == interpreter(threads), the latter with every
// thread on its own registers, races between threads and reads of unwritten registers detected.
// Inputs are small integers, so that every order of summation is exact.
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/interp/interp.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/verify.h"
#include "compiler/lang/kernel.h"
#include "compiler/passes/pipeline.h"

namespace kiln {
namespace {

constexpr int kKernels = 3000, kProducts = 120;
constexpr double kLeastAccepted = 0.6;

absl::StatusOr<ir::Program> Elaborated(const std::string& path, const std::string& text,
                                       const lang::Arguments& arguments = {}) {
  auto file = std::make_shared<SourceFile>();
  file->path = path;
  file->text = text;
  KILN_ASSIGN_OR_RETURN(const lang::Kernel kernel, lang::Kernel::Parse(file, ""));
  return lang::Elaborate(kernel, arguments, {});
}

// All tensors after a run.
absl::StatusOr<std::vector<interp::Tensor>> Interpret(const ir::Program& program, uint64_t seed,
                                                      bool lowered, interp::Order order) {
  std::mt19937_64 rng(seed);
  std::vector<interp::Tensor> tensors;
  std::vector<interp::TensorView> views;
  for (const ir::Param& p : program.params) {
    std::vector<int64_t> shape;
    for (const ir::Expr& e : p.buffer->shape) shape.push_back(*ir::ConstInt(e));
    tensors.emplace_back(p.buffer->dtype, shape);
    views.push_back(tensors.back().View());
    for (int64_t i = 0; i < views.back().elements(); ++i) {
      views.back().Set(i, static_cast<double>(rng() % 7) - 3);
    }
  }
  interp::Options options;
  options.clip_global = !lowered;
  options.order = order;
  KILN_RETURN_IF_ERROR(interp::Run(program, views, options).status());
  return tensors;
}

enum class Verdict { kSame, kRefused, kWrong };

// Whether the threads of `program` compute what its tiles do.
Verdict Check(const ir::Program& program, uint64_t seed, double tolerance, std::string* why) {
  const auto threads = passes::RunPipeline(passes::ThreadPipeline(), program, {});
  if (!threads.ok()) {
    *why = std::string(threads.status().message());
    return threads.status().code() == absl::StatusCode::kFailedPrecondition ? Verdict::kRefused
                                                                            : Verdict::kWrong;
  }
  const absl::Status verified = ir::Verify(*threads);
  const auto before = Interpret(program, seed, false, interp::Order::kForward);
  if (!verified.ok() || !before.ok()) {
    *why = absl::StrCat(verified.message(), before.status().message());
    return Verdict::kWrong;
  }
  for (const interp::Order order : {interp::Order::kForward, interp::Order::kReverse}) {
    const auto after = Interpret(*threads, seed, true, order);
    if (!after.ok()) {
      *why = absl::StrCat(after.status().message(), "\n", ir::ToString(*threads));
      return Verdict::kWrong;
    }
    for (size_t p = 0; p < after->size(); ++p) {
      const interp::Comparison c =
          interp::Compare((*after)[p].View(), (*before)[p].View(), {tolerance, tolerance});
      if (c.ok()) continue;
      *why = absl::StrCat("parameter ", p, ": ", c.ToString((*before)[p].shape()), "\n",
                          ir::ToString(*threads));
      return Verdict::kWrong;
    }
  }
  return Verdict::kSame;
}

// A kernel over fragments f* (m x n), rows r* (m), columns q* (n) and a shared tile, in which every
// element is written before it is read.
class RandomKernel {
 public:
  explicit RandomKernel(uint64_t seed) : rng_(seed) {
    m_ = 1 + Below(20);
    n_ = Chance(4) ? m_ : 1 + Below(20);
    const int threads[] = {1, 7, 32, 64, 100, 128};
    threads_ = threads[Below(6)];
    Say("T.copy(A, f0)");
    known_ = {"f0"};
    const int statements = 2 + Below(6);
    for (int i = 0; i < statements; ++i) Statement();
    Finish();
  }

  std::string text() const {
    return absl::StrCat(
        "import tilelang\nimport tilelang.language as T\n\n@tilelang.jit\ndef f():\n"
        "    @T.prim_func\n    def main(A: T.Tensor((",
        m_, ", ", n_, "), T.float32), X: T.Tensor((", m_, ", ", n_, "), T.float32), Y: T.Tensor((",
        m_, ",), T.float32), Z: T.Tensor((", n_,
        ",), T.float32)):\n        with T.Kernel(1, threads=", threads_, ") as bx:\n",
        Allocations(), body_, "    return main\n");
  }

 private:
  int Below(int n) { return static_cast<int>(rng_() % n); }
  bool Chance(int one_in) { return Below(one_in) == 0; }
  void Say(const std::string& line) { absl::StrAppend(&body_, "            ", line, "\n"); }
  bool Known(const std::string& name) const {
    return std::find(known_.begin(), known_.end(), name) != known_.end();
  }
  void Learn(const std::string& name) {
    if (!Known(name)) known_.push_back(name);
  }

  std::string Allocations() const {
    std::string text;
    const auto add = [&](const std::string& name, const std::string& how,
                         const std::string& shape) {
      absl::StrAppend(&text, "            ", name, " = T.alloc_", how, "(", shape,
                      ", T.float32)\n");
    };
    const std::string tile = absl::StrCat("(", m_, ", ", n_, ")");
    for (int i = 0; i < 3; ++i) add(absl::StrCat("f", i), "fragment", tile);
    for (int i = 0; i < 2; ++i) {
      add(absl::StrCat("r", i), "fragment", absl::StrCat("(", m_, ",)"));
      add(absl::StrCat("q", i), "fragment", absl::StrCat("(", n_, ",)"));
    }
    add("s", "shared", tile);
    return text;
  }

  // Something known of kind 'f', 'r' or 'q', or "".
  std::string Pick(char kind) {
    std::vector<std::string> of_kind;
    for (const std::string& name : known_) {
      if (name[0] == kind) of_kind.push_back(name);
    }
    return of_kind.empty() ? "" : of_kind[Below(static_cast<int>(of_kind.size()))];
  }
  std::string Tile() { return absl::StrCat("f", Below(3)); }

  // A value at (i, j) from what is known.
  std::string Value() {
    const std::string f = Pick('f'), r = Pick('r'), q = Pick('q');
    switch (Below(8)) {
      case 0:
        return absl::StrCat(f, "[i, (j + ", Below(n_), ") % ", n_, "]");
      case 1:
        return absl::StrCat(f, "[(i + ", Below(m_), ") % ", m_, ", j]");
      case 2:
        if (m_ == n_) return f + "[j, i]";
        break;
      case 3:
        if (!r.empty()) return absl::StrCat(f, "[i, j] + ", r, "[i]");
        break;
      case 4:
        if (!q.empty()) return absl::StrCat(f, "[i, j] - ", q, "[j]");
        break;
      case 5:
        if (Known("s")) return absl::StrCat("s[(i + ", Below(m_), ") % ", m_, ", j]");
        break;
      case 6:
        return absl::StrCat(f, "[i, ", Below(n_), "]");
      default:
        break;
    }
    return f + "[i, j]";
  }

  void Statement() {
    switch (Below(10)) {
      case 0: {
        const std::string to = Tile();
        Say(absl::StrCat("T.copy(A, ", to, ")"));
        return Learn(to);
      }
      case 1:
        Say(absl::StrCat("T.copy(", Pick('f'), ", s)"));
        return Learn("s");
      case 2:
      case 3:
        return Reduction();
      case 4: {
        const std::string r = absl::StrCat("r", Below(2));
        Say(absl::StrCat("for i in T.Parallel(", m_, "):"));
        Say(absl::StrCat("    ", r, "[i] = ", Pick('f'), "[i, ", Below(n_), "] + 1.0"));
        return Learn(r);
      }
      case 5: {
        const std::string to = Pick('f');
        Say(absl::StrCat("for i, j in T.Parallel(", m_, ", ", n_, "):"));
        Say(absl::StrCat("    if ", Chance(2) ? "i" : "j", " < ", 1 + Below(6), ":"));
        Say(absl::StrCat("        ", to, "[i, j] = ", to, "[i, j] + 1.0"));
        return;
      }
      case 6: {
        const std::string to = Pick('f');
        Say(absl::StrCat("for k in T.serial(", 1 + Below(3), "):"));
        Say(absl::StrCat("    for i, j in T.Parallel(", m_, ", ", n_, "):"));
        Say(absl::StrCat("        ", to, "[i, j] = ", to, "[i, j] + k"));
        return;
      }
      case 7: {
        const std::string r = Pick('r');
        if (r.empty()) return;
        Say(absl::StrCat("if ", r, "[", Below(m_), "] > 0.0:"));
        Say(absl::StrCat("    ", r, "[", Below(m_), "] = ", Below(5), ".0"));
        return;
      }
      default: {
        const std::string to = Tile();
        Say(absl::StrCat("for i, j in T.Parallel(", m_, ", ", n_, "):"));
        std::string value = Value();
        // Its own tile only in place: anything else is a race of the kernel.
        while (value.find(to) != std::string::npos && value != to + "[i, j]") value = Value();
        Say(absl::StrCat("    ", to, "[i, j] = ", value, " + 1.0"));
        return Learn(to);
      }
    }
  }

  void Reduction() {
    const char* ops[] = {"sum", "max", "min", "abssum", "absmax"};
    const bool rows = Chance(2);
    const std::string to = absl::StrCat(rows ? "r" : "q", Below(2));
    const bool clear = !Known(to) || Chance(2);
    Say(absl::StrCat("T.reduce_", ops[Below(5)], "(", Pick('f'), ", ", to, ", dim=", rows ? 1 : 0,
                     clear ? "" : ", clear=False", ")"));
    Learn(to);
  }

  void Finish() {
    Say(absl::StrCat("T.copy(", Pick('f'), ", X)"));
    const std::string r = Pick('r'), q = Pick('q');
    if (!r.empty()) Say(absl::StrCat("T.copy(", r, ", Y)"));
    if (!q.empty()) {
      Say(absl::StrCat("for j in T.Parallel(", n_, "):"));
      Say(absl::StrCat("    Z[", n_ - 1, " - j] = ", q, "[j]"));
    }
  }

  std::mt19937_64 rng_;
  int m_ = 1, n_ = 1, threads_ = 1;
  std::string body_;
  std::vector<std::string> known_;
};

TEST(PartitionLoops, ThreadsComputeWhatTilesDo) {
  int accepted = 0;
  for (int seed = 0; seed < kKernels; ++seed) {
    const std::string text = RandomKernel(seed).text();
    const auto program = Elaborated("k.py", text);
    ASSERT_TRUE(program.ok()) << program.status() << "\n" << text;
    std::string why;
    const Verdict verdict = Check(*program, seed, 0, &why);
    ASSERT_NE(verdict, Verdict::kWrong) << "seed " << seed << ": " << why << "\n" << text;
    accepted += verdict == Verdict::kSame;
  }
  RecordProperty("accepted", accepted);
  EXPECT_GE(accepted, kLeastAccepted * kKernels);
}

// C = A B by warps, A from shared memory or from registers.
std::string RandomProduct(uint64_t seed, int* warps) {
  std::mt19937_64 rng(seed);
  const auto pick = [&](std::initializer_list<int> values) {
    return *(values.begin() + rng() % values.size());
  };
  *warps = pick({1, 2, 4});
  const int m = 16 * pick({1, 2, 4}), n = 8 * pick({1, 2, 4, 8}), k = 16 * pick({1, 2, 3});
  const bool trans_b = rng() % 2 == 0, from_registers = rng() % 2 == 0, clear = rng() % 2 == 0;
  const char* policies[] = {"Square", "FullRow", "FullCol"};
  const std::string b =
      trans_b ? absl::StrCat("(", n, ", ", k, ")") : absl::StrCat("(", k, ", ", n, ")");
  return absl::StrCat(
      "import tilelang\nimport tilelang.language as T\n\n@tilelang.jit\ndef f():\n"
      "    @T.prim_func\n    def main(A: T.Tensor((",
      m, ", ", k, "), T.float16), B: T.Tensor(", b, ", T.float16), C: T.Tensor((", m, ", ", n,
      "), T.float32)):\n"
      "        with T.Kernel(1, threads=",
      32 * *warps,
      ") as bx:\n"
      "            left = T.alloc_",
      from_registers ? "fragment" : "shared", "((", m, ", ", k,
      "), T.float16)\n            right = T.alloc_shared(", b,
      ", T.float16)\n"
      "            c = T.alloc_fragment((",
      m, ", ", n,
      "), T.float32)\n"
      "            T.copy(A, left)\n            T.copy(B, right)\n            T.fill(c, 3.0)\n"
      "            for k in T.serial(2):\n"
      "                T.gemm(left, right, c, transpose_B=",
      trans_b ? "True" : "False", ", policy=T.GemmWarpPolicy.", policies[rng() % 3],
      clear ? ", clear_accum=k == 0" : "", ")\n            T.copy(c, C)\n    return main\n");
}

TEST(PartitionLoops, Products) {
  int accepted = 0;
  for (int seed = 0; seed < kProducts; ++seed) {
    int warps = 0;
    const std::string text = RandomProduct(seed, &warps);
    const auto program = Elaborated("k.py", text);
    ASSERT_TRUE(program.ok()) << program.status() << "\n" << text;
    const auto threads = passes::RunPipeline(passes::ThreadPipeline(), *program, {});
    // Tiles that the warps cannot share have no form yet.
    if (absl::IsUnimplemented(threads.status())) continue;
    std::string why;
    ASSERT_EQ(Check(*program, seed, 0, &why), Verdict::kSame) << why << "\n" << text;
    ++accepted;
  }
  EXPECT_GE(accepted, kLeastAccepted * kProducts);
}

TEST(PartitionLoops, FlashAttention) {
  std::ifstream in("tests/golden/lang/flash_attention.py");
  std::stringstream text;
  text << in.rdbuf();
  const auto program = Elaborated("flash_attention.py", text.str(),
                                  {{"batch", "1"},
                                   {"heads", "1"},
                                   {"seq_q", "128"},
                                   {"seq_kv", "128"},
                                   {"dim", "64"},
                                   {"is_causal", "True"}});
  ASSERT_TRUE(program.ok()) << program.status();
  std::string why;
  // Probabilities are rounded to 16 bits; sums of floats are taken in another order.
  EXPECT_EQ(Check(*program, 1, 2e-2, &why), Verdict::kSame) << why;
}

}  // namespace
}  // namespace kiln
