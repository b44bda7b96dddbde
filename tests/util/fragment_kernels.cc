#include "tests/util/fragment_kernels.h"

#include <algorithm>
#include <fstream>
#include <random>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/base/status.h"

namespace kiln::testing {
namespace {

// A kernel over fragments f* (m x n), rows r* (m), columns q* (n) and a shared tile, in which every
// element is written before it is read.
class RandomKernel {
 public:
  explicit RandomKernel(uint64_t seed) : rng_(seed) {
    m_ = 1 + Below(20);
    n_ = Chance(4) ? m_ : 1 + Below(20);
    const int threads[] = {1, 7, 32, 64, 100, 128};
    threads_ = threads[Below(6)];
    if (Chance(4)) Annotate();
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

  // A layout of f0: a row or a column a thread, perhaps with a copy.
  void Annotate() {
    const bool columns = Chance(2);
    const int of_threads = columns ? n_ : m_;
    const char *thread = columns ? "j" : "i", *slot = columns ? "i" : "j";
    if (of_threads > threads_) return;
    const std::string shape = absl::StrCat("(", m_, ", ", n_, ")");
    if (2 * of_threads <= threads_ && Chance(2)) {
      return Say(absl::StrCat("T.annotate_layout({f0: T.Fragment(", shape,
                              ", forward_fn=lambda i, j, rep: (", thread, " + ", of_threads,
                              " * rep, ", slot, "), replicate=2)})"));
    }
    Say(absl::StrCat("T.annotate_layout({f0: T.Fragment(", shape, ", forward_fn=lambda i, j: (",
                     thread, ", ", slot, "))})"));
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

}  // namespace

std::string RandomFragmentKernel(uint64_t seed) { return RandomKernel(seed).text(); }

std::string RandomProductKernel(uint64_t seed) {
  std::mt19937_64 rng(seed);
  const auto pick = [&](std::initializer_list<int> values) {
    return absl::StrCat(*(values.begin() + rng() % values.size()));
  };
  const auto flag = [&] { return rng() % 2 == 0; };
  const auto policy = [&] {
    return std::string(
        *(std::initializer_list<const char*>{"Square", "FullRow", "FullCol"}.begin() + rng() % 3));
  };
  const bool transposed = flag();
  return absl::StrReplaceAll(absl::StrReplaceAll(R"(import tilelang
import tilelang.language as T

@tilelang.jit
def f():
    @T.prim_func
    def main(A: T.Tensor((<M>, <K>), T.float16), B: T.Tensor(<B>, T.float16),
             C: T.Tensor((<M>, <N>), T.float32)):
        with T.Kernel(1, threads=32 * <WARPS>) as bx:
            left = T.alloc_<LEFT>((<M>, <K>), T.float16)
            right = T.alloc_shared(<B>, T.float16)
            c = T.alloc_fragment((<M>, <N>), T.float32)
            T.copy(A, left)
            T.copy(B, right)
            T.fill(c, 3.0)
            for k in T.serial(2):
                T.gemm(left, right, c, transpose_B=<T>, policy=T.GemmWarpPolicy.<P1><CLEAR>)
            T.gemm(left, right, c, transpose_B=<T>, policy=T.GemmWarpPolicy.<P2>)
            T.copy(c, C)
    return main
)",
                                                 {{"<B>", transposed ? "(<N>, <K>)" : "(<K>, <N>)"},
                                                  {"<T>", transposed ? "True" : "False"},
                                                  {"<LEFT>", flag() ? "fragment" : "shared"},
                                                  {"<CLEAR>", flag() ? ", clear_accum=k == 0" : ""},
                                                  {"<P1>", policy()},
                                                  {"<P2>", policy()},
                                                  {"<WARPS>", pick({1, 2, 4, 8})}}),
                             {{"<M>", absl::StrCat("16 * ", pick({1, 2, 4, 8}))},
                              {"<N>", absl::StrCat("8 * ", pick({1, 2, 4, 8}))},
                              {"<K>", absl::StrCat("16 * ", pick({1, 2, 3}))}});
}

std::string KernelAround(int threads, int elements, const std::string& shape,
                         const std::string& body) {
  const std::string indented =
      absl::StrCat("            ", absl::StrReplaceAll(body, {{"\n", "\n            "}}));
  return absl::StrCat(
      "import tilelang\nimport tilelang.language as T\n\n@tilelang.jit\ndef f():\n"
      "    @T.prim_func\n    def main(A: T.Tensor(",
      shape, ", T.float32), B: T.Tensor((", elements, ",), T.float32), C: T.Tensor((", elements,
      ",), T.float32)):\n        with T.Kernel(1, threads=", threads, ") as bx:\n", indented,
      "\n    return main\n");
}

absl::StatusOr<ir::Program> ElaboratedFile(const std::string& path,
                                           const lang::Arguments& arguments) {
  std::ifstream in(path);
  if (!in) return absl::NotFoundError(path);
  std::stringstream text;
  text << in.rdbuf();
  return Elaborated(path, text.str(), arguments);
}

absl::StatusOr<ir::Program> Elaborated(const std::string& path, const std::string& text,
                                       const lang::Arguments& arguments) {
  auto file = std::make_shared<SourceFile>();
  file->path = path;
  file->text = text;
  KILN_ASSIGN_OR_RETURN(const lang::Kernel kernel, lang::Kernel::Parse(file, ""));
  return lang::Elaborate(kernel, arguments, {});
}

}  // namespace kiln::testing
