#include "compiler/ir/turnable.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/visit.h"

namespace kiln::ir {
namespace {

constexpr char kLoopLayout[] = "loop_layout";

using Fragments = std::set<const BufferNode*>;

// The fragments that a statement, or what stands in it, names.
Fragments FragmentsOf(const Stmt& s) {
  class Finder : public Mutator {
   public:
    Fragments found;

   protected:
    Buffer VisitBuffer(const Buffer& b) override {
      if (b != nullptr && b->scope == Scope::kFragment) found.insert(b.get());
      return b;
    }
  };
  Finder finder;
  finder.Mutate(s);
  return std::move(finder.found);
}

bool IsWhole(const Region& r) {
  for (size_t d = 0; d < r.ranges.size(); ++d) {
    if (!IsConst(r.ranges[d].min, 0) || !Same(r.ranges[d].extent, r.buffer->shape[d])) return false;
  }
  return true;
}

// Whether a copy from or to the fragment is one of a matrix.
bool IsMatrixCopy(const Copy& copy, const Buffer& fragment) {
  const bool from = copy.src.buffer == fragment;
  const Region &mine = from ? copy.src : copy.dst, &other = from ? copy.dst : copy.src;
  if (other.buffer == fragment || !copy.annotations.empty()) return false;
  const auto pairs = PairDims(mine, other);
  return pairs && (*pairs)[0] >= 0 && (*pairs)[1] >= 0;
}

// How the fragments of a launch are used.
struct Uses {
  explicit Uses(const Stmt& body) {
    Walk(body, [&](const Stmt& s) {
      const auto* loop = s.As<For>();
      const bool parallel = loop != nullptr && loop->loop == ForKind::kParallel;
      if (parallel && loop->annotations.count(kLoopLayout) > 0) {
        Tie(s);
      } else if (parallel || s.kind() == StmtKind::kCopy || s.kind() == StmtKind::kStore) {
        together.push_back(FragmentsOf(s));
      } else if (s.kind() == StmtKind::kGemm) {
        const auto& x = *s.As<Gemm>();
        for (const Region* r : {&x.b, &x.e}) {
          if (r->buffer != nullptr) tied.insert(r->buffer.get());
        }
        lefts.insert(x.a.buffer.get());
        (IsWhole(x.c) ? results : tied).insert(x.c.buffer.get());
      } else if (s.kind() == StmtKind::kPairGemm || s.kind() == StmtKind::kReduce ||
                 s.kind() == StmtKind::kScan || s.kind() == StmtKind::kAtomic ||
                 s.kind() == StmtKind::kInstruct) {
        Tie(s);
      } else {
        return true;
      }
      return false;
    });
  }
  void Tie(const Stmt& s) { tied.merge(FragmentsOf(s)); }

  std::vector<Fragments> together;  // a loop's, a copy's: who holds one has to hold the others
  Fragments lefts, results;         // of products
  Fragments tied;                   // whoever else says who holds what
};

}  // namespace

bool IsTurnable(const Launch& launch, const Buffer& fragment) {
  if (launch.annotations.count(absl::StrCat("layout:", fragment->name)) > 0) return false;
  if (fragment->scope != Scope::kFragment || fragment->shape.size() != 2) return false;
  const Uses uses(launch.body);
  bool plain = true;  // copies are of matrices, and no part of the block has it
  Walk(launch.body, [&](const Stmt& s) {
    const auto* copy = s.As<Copy>();
    const bool part = s.kind() == StmtKind::kOnThreads;
    if (copy == nullptr && !part) return plain;
    const bool mine = FragmentsOf(s).count(fragment.get()) > 0;
    return plain = plain && (!mine || (!part && IsMatrixCopy(*copy, fragment)));
  });
  if (!plain || uses.results.count(fragment.get()) == 0) return false;
  // All that are held as it is.
  Fragments held = {fragment.get()};
  for (size_t before = 0; before != held.size();) {
    before = held.size();
    for (const Fragments& some : uses.together) {
      const auto is_held = [&](const BufferNode* b) { return held.count(b) > 0; };
      if (std::any_of(some.begin(), some.end(), is_held)) held.insert(some.begin(), some.end());
    }
  }
  return std::none_of(held.begin(), held.end(), [&](const BufferNode* b) {
    const bool another = b != fragment.get() && uses.results.count(b) > 0;
    return another || uses.lefts.count(b) > 0 || uses.tied.count(b) > 0;
  });
}

bool IsLoaded(const Stmt& body, const Buffer& fragment) {
  const Uses uses(body);
  if (uses.results.count(fragment.get()) + uses.tied.count(fragment.get()) > 0) return false;
  bool read = false;
  Walk(
      body, [](const Stmt&) { return true; },
      [&](const Expr& e) {
        const auto* load = e.As<Load>();
        read = read || (load != nullptr && load->buffer == fragment);
        return !read;
      });
  bool written = false;
  for (const Fragments& some : uses.together) {
    if (some.count(fragment.get()) == 0) continue;
    if (some.size() > 1) return false;
    written = true;
  }
  return written && !read;
}

}  // namespace kiln::ir
