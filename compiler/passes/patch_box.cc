#include "compiler/passes/patch_box.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/ir/gather.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/tensor_box.h"

namespace kiln::passes {
namespace {

using ir::BinaryOp;
using ir::Expr;
using ir::LinearForm;
using ir::MakeInt;

constexpr size_t kRank = 4;                  // n, h, w, c
constexpr ir::Bounds kCorner = {-128, 127};  // of the box of a tensor of rank 4
constexpr int64_t kMostOffset = 255;
constexpr int64_t kMostStride = 8;

bool Agree(const LinearForm& a, const LinearForm& b) {
  if (a.constant != b.constant || a.terms.size() != b.terms.size()) return false;
  return std::all_of(a.terms.begin(), a.terms.end(),
                     [&](const auto& term) { return b.CoefficientOf(term.first) == term.second; });
}

bool Agree(const Expr& a, const Expr& b) { return Agree(ir::Linearize(a), ir::Linearize(b)); }

// x op c.
struct Quotient {
  Expr of;
  int64_t by;
};
std::optional<Quotient> Match(BinaryOp op, const Expr& e) {
  const auto* x = e.As<ir::Binary>();
  if (x == nullptr || x->op != op) return std::nullopt;
  const auto by = ir::ConstInt(x->b);
  if (!by || *by <= 0) return std::nullopt;
  return Quotient{x->a, *by};
}

// scale * atom + rest, where the atom alone uses a variable.
struct Split {
  Expr atom, rest;
  int64_t scale;
};
std::optional<Split> SplitOn(const Expr& var, const Expr& e) {
  LinearForm form = ir::Linearize(e);
  const auto uses = [&](const auto& term) { return ir::Uses(term.first, var); };
  if (std::count_if(form.terms.begin(), form.terms.end(), uses) != 1) return std::nullopt;
  const auto found = std::find_if(form.terms.begin(), form.terms.end(), uses);
  Split split{found->first, {}, found->second};
  form.terms.erase(found);
  split.rest = ir::FromLinear(form);
  return split;
}

void Conjuncts(const Expr& e, std::vector<Expr>* all) {
  const auto* both = e.As<ir::Binary>();
  if (both == nullptr || both->op != BinaryOp::kAnd) return all->push_back(e);
  Conjuncts(both->a, all);
  Conjuncts(both->b, all);
}

class Matcher {
 public:
  Matcher(const ir::Store& store, const ir::Facts& facts)
      : tile_(store.buffer), load_(*store.value.As<ir::Load>()), facts_(facts) {
    i_ = store.indices[0];
    j_ = store.indices[1];
    facts_.AddAxis({i_, MakeInt(0), tile_->shape[0]});
    facts_.AddAxis({j_, MakeInt(0), tile_->shape[1]});
  }

  std::optional<PatchBox> Run() {
    if (!FindPixel() || !FindRow() || !FindImage() || !FindChannel() || !GuardsAreThose()) {
      return std::nullopt;
    }
    const Expr first = ir::Substitute(pixel_, {{i_.get(), MakeInt(0)}});
    const auto down = Side(row_.rest, rows_, load_.buffer->shape[1]);
    const auto across = Side(column_.rest, columns_, load_.buffer->shape[2]);
    if (!down || !across) return std::nullopt;
    const Expr p = FloorMod(FloorDiv(first, MakeInt(columns_)), MakeInt(rows_));
    const Expr q = FloorMod(first, MakeInt(columns_));
    const Expr stride = MakeInt(row_.scale);
    PatchBox box;
    box.source = {load_.buffer,
                  {{FloorDiv(first, MakeInt(rows_ * columns_)), MakeInt(1)},
                   {p * stride + MakeInt(down->low), MakeInt(1)},
                   {q * stride + MakeInt(across->low), tile_->shape[0]},
                   {channel_, tile_->shape[1]}}};
    if (!WhyNoTensorBox(box.source, tile_->shape[0], tile_->shape[1]).empty()) return std::nullopt;
    box.offsets = {down->offset, across->offset};
    box.notes = {{"stride", absl::StrCat(row_.scale)},
                 {"low_h", absl::StrCat(down->low)},
                 {"low_w", absl::StrCat(across->low)},
                 {"high_h", absl::StrCat(down->high)},
                 {"high_w", absl::StrCat(across->high)}};
    return box;
  }

 private:
  // Of the places that the filter's first tap takes along a side: the first, the last counted from
  // the image's last, and how far a tap lies from the first one.
  struct Corners {
    int64_t low, high;
    Expr offset;
  };
  std::optional<Corners> Side(const Expr& tap, int64_t steps, const Expr& extent) const {
    const auto bounds = facts_.BoundsOf(tap);
    const auto size = ir::ConstInt(extent);
    if (!bounds || !size || bounds->max - bounds->min > kMostOffset) return std::nullopt;
    const int64_t low = bounds->min, high = (steps - 1) * row_.scale + low - (*size - 1);
    const auto fits = [](int64_t c) { return c >= kCorner.min && c <= kCorner.max; };
    if (!fits(low) || !fits(high)) return std::nullopt;
    return Corners{low, high, tap - MakeInt(low)};
  }

  // m % Q * stride + dw.
  bool FindPixel() {
    const auto split = SplitOn(i_, load_.indices[2]);
    const auto mod = split ? Match(BinaryOp::kFloorMod, split->atom) : std::nullopt;
    if (!mod || split->scale < 1 || split->scale > kMostStride) return false;
    pixel_ = mod->of;
    columns_ = mod->by;
    column_ = *split;
    const LinearForm form = ir::Linearize(pixel_);
    const bool steps = std::all_of(form.terms.begin(), form.terms.end(), [&](const auto& term) {
      return term.first.same_as(i_) ? term.second == 1 : !ir::Uses(term.first, i_);
    });
    return steps && form.CoefficientOf(i_) == 1 && !ir::Uses(pixel_, j_) && Settle(&column_.rest);
  }

  // m // Q % P * stride + dh.
  bool FindRow() {
    const auto split = SplitOn(i_, load_.indices[1]);
    if (!split || split->scale != column_.scale) return false;
    row_ = *split;
    if (const auto mod = Match(BinaryOp::kFloorMod, split->atom)) {
      const auto div = Match(BinaryOp::kFloorDiv, mod->of);
      if (!div || div->by != columns_ || !Agree(div->of, pixel_)) return false;
      rows_ = mod->by;
    } else {
      const auto div = Match(BinaryOp::kFloorDiv, split->atom);
      const auto inner = div ? Match(BinaryOp::kFloorMod, div->of) : std::nullopt;
      if (!inner || div->by != columns_ || inner->by % columns_ != 0) return false;
      if (!Agree(inner->of, pixel_)) return false;
      rows_ = inner->by / columns_;
    }
    return Settle(&row_.rest);
  }

  // m // (P*Q).
  bool FindImage() const {
    const auto div = Match(BinaryOp::kFloorDiv, load_.indices[0]);
    return div && div->by == rows_ * columns_ && Agree(div->of, pixel_);
  }

  bool FindChannel() {
    const Expr channel = facts_.Simplify(load_.indices[3]);
    const LinearForm form = ir::Linearize(channel);
    if (form.CoefficientOf(j_) != 1) return false;
    channel_ = ir::Substitute(channel, {{j_.get(), MakeInt(0)}});
    return Agree(channel, channel_ + j_) && !ir::Uses(channel_, i_);
  }

  // What is left beside the atom, which must know neither variable of the loop.
  bool Settle(Expr* rest) const {
    *rest = facts_.Simplify(*rest);
    return !ir::Uses(*rest, i_) && !ir::Uses(*rest, j_);
  }

  // Whatever lies inside of the tensor is read: no guard says more than that.
  bool GuardsAreThose() const {
    if (!load_.predicate.defined()) return true;
    std::vector<LinearForm> positive;
    for (size_t d = 0; d < kRank; ++d) {
      positive.push_back(ir::Linearize(load_.indices[d] + MakeInt(1)));
      positive.push_back(ir::Linearize(load_.buffer->shape[d] - load_.indices[d]));
    }
    positive.push_back(ir::Linearize(load_.buffer->shape[0] * MakeInt(rows_ * columns_) - pixel_));
    std::vector<Expr> guards;
    Conjuncts(load_.predicate, &guards);
    return std::all_of(guards.begin(), guards.end(), [&](const Expr& guard) {
      const Expr form = ir::PositiveForm(guard);
      return form.defined() && std::any_of(positive.begin(), positive.end(), [&](const auto& p) {
               return Agree(p, ir::Linearize(form));
             });
    });
  }

  const ir::Buffer tile_;
  const ir::Load& load_;
  ir::Facts facts_;
  Expr i_, j_, pixel_, channel_;
  int64_t rows_ = 0, columns_ = 0;  // P and Q
  Split row_, column_;
};

}  // namespace

std::optional<PatchBox> PatchBoxOf(const ir::Stmt& gather, const ir::Facts& facts) {
  const ir::Stmt stored = ir::GatherOf(gather);
  if (!stored.defined() || ir::LooksUp(stored)) return std::nullopt;
  const auto& store = *stored.As<ir::Store>();
  if (store.indices.size() != 2 || store.value.As<ir::Load>()->indices.size() != kRank) {
    return std::nullopt;
  }
  return Matcher(store, facts).Run();
}

}  // namespace kiln::passes
