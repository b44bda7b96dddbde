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

using Fragments = std::set<const BufferNode*>;

bool IsFragment(const Buffer& b) { return b != nullptr && b->scope == Scope::kFragment; }

// The fragments that a statement, or what stands in it, names.
Fragments FragmentsOf(const Stmt& s) {
  class Finder : public Mutator {
   public:
    Fragments found;

   protected:
    Buffer VisitBuffer(const Buffer& b) override {
      if (IsFragment(b)) found.insert(b.get());
      return b;
    }
  };
  Finder finder;
  finder.Mutate(s);
  return std::move(finder.found);
}

// Whether a copy is of matrices, and of the whole of those that are fragments.
bool IsPlain(const Copy& copy) {
  if (!copy.annotations.empty() || copy.src.buffer == copy.dst.buffer) return false;
  for (const Region* r : {&copy.src, &copy.dst}) {
    if (IsFragment(r->buffer) && (r->ranges.size() != 2 || !CoversWhole(*r))) return false;
  }
  const bool from = IsFragment(copy.src.buffer);
  const auto pairs = PairDims(from ? copy.src : copy.dst, from ? copy.dst : copy.src);
  return pairs && (*pairs)[0] >= 0 && (*pairs)[1] >= 0;
}

// Whether a parallel loop looks at no element of a fragment but that of its iteration.
bool IsPlain(const For& loop) {
  if (!loop.annotations.empty()) return false;
  bool plain = true;
  std::vector<Expr> place;
  const auto look = [&](const Buffer& b, const std::vector<Expr>& indices) {
    if (!IsFragment(b)) return;
    if (place.empty()) place = indices;
    plain = plain && indices.size() == 2 && place.size() == 2 && !indices[0].same_as(indices[1]);
    for (size_t d = 0; plain && d < 2; ++d) {
      const auto is = [&](const Axis& axis) { return axis.var.same_as(indices[d]); };
      plain = place[d].same_as(indices[d]) && std::any_of(loop.axes.begin(), loop.axes.end(), is);
    }
  };
  Walk(
      loop.body,
      [&](const Stmt& s) {
        const auto* store = s.As<Store>();
        const bool around = s.kind() == StmtKind::kSeq || s.kind() == StmtKind::kIf;
        plain = plain && (store != nullptr || around || s.kind() == StmtKind::kBind);
        if (store != nullptr) look(store->buffer, store->indices);
        return plain;
      },
      [&](const Expr& e) {
        if (const auto* load = e.As<Load>()) look(load->buffer, load->indices);
        return plain;
      });
  return plain;
}

// How the fragments of a launch are used.
struct Uses {
  explicit Uses(const Stmt& body) {
    Walk(body, [&](const Stmt& s) {
      const auto* loop = s.As<For>();
      const auto* copy = s.As<Copy>();
      const auto* fill = s.As<Fill>();
      const auto* gemm = s.As<Gemm>();
      if (loop != nullptr && loop->loop == ForKind::kParallel) {
        Together(s, IsPlain(*loop));
      } else if (copy != nullptr) {
        Together(s, IsPlain(*copy));
      } else if (fill != nullptr) {
        Together(s, CoversWhole(fill->dst));
      } else if (gemm != nullptr && CoversWhole(gemm->c) && gemm->policy == GemmPolicy::kSquare) {
        for (const Region* r : {&gemm->a, &gemm->b, &gemm->e}) {
          if (r->buffer != nullptr) tied.insert(r->buffer.get());
        }
        results.insert(gemm->c.buffer.get());
      } else {
        const StmtKind around[] = {StmtKind::kSeq,   StmtKind::kFor,  StmtKind::kWhile,
                                   StmtKind::kIf,    StmtKind::kBind, StmtKind::kAlloc,
                                   StmtKind::kLaunch};
        if (std::find(std::begin(around), std::end(around), s.kind()) != std::end(around)) {
          return true;
        }
        tied.merge(FragmentsOf(s));
      }
      return false;
    });
  }

  void Together(const Stmt& s, bool plain) {
    Fragments named = FragmentsOf(s);
    if (!plain) tied.insert(named.begin(), named.end());
    together.push_back(std::move(named));
  }

  std::vector<Fragments> together;  // a loop's, a copy's: who holds one has to hold the others
  Fragments results;                // of products
  Fragments tied;                   // where somebody says who holds them
};

}  // namespace

bool IsTurnable(const Launch& launch, const Buffer& fragment) {
  if (launch.annotations.count(absl::StrCat("layout:", fragment->name)) > 0) return false;
  if (!IsFragment(fragment) || fragment->shape.size() != 2) return false;
  const Uses uses(launch.body);
  if (uses.results.count(fragment.get()) == 0) return false;
  Fragments held = {fragment.get()};  // as it is
  for (size_t before = 0; before != held.size();) {
    before = held.size();
    for (const Fragments& some : uses.together) {
      const auto is_held = [&](const BufferNode* b) { return held.count(b) > 0; };
      if (std::any_of(some.begin(), some.end(), is_held)) held.insert(some.begin(), some.end());
    }
  }
  return std::none_of(held.begin(), held.end(), [&](const BufferNode* b) {
    const bool another = b != fragment.get() && uses.results.count(b) > 0;
    return another || uses.tied.count(b) > 0;
  });
}

}  // namespace kiln::ir
