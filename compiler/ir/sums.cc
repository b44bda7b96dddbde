#include "compiler/ir/sums.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/visit.h"

namespace kiln::ir {
namespace {

constexpr char kNotByAll[] = "a condition, or a part of the block, computes it";
constexpr char kNoProduct[] = "no product computes it";

bool IsLoop(const Stmt& s) {
  const auto* loop = s.As<For>();
  return s.kind() == StmtKind::kWhile || (loop != nullptr && loop->loop != ForKind::kParallel);
}

// Whether a statement touches the fragment other than as the result of a product.
bool LooksAt(const Stmt& s, const Buffer& sums) {
  bool looks = false;
  const auto region = [&](const Region& r) { looks |= r.buffer == sums; };
  Walk(
      s,
      [&](const Stmt& x) {
        if (const auto* store = x.As<Store>()) looks |= store->buffer == sums;
        if (const auto* copy = x.As<Copy>()) region(copy->src), region(copy->dst);
        if (const auto* fill = x.As<Fill>()) region(fill->dst);
        if (const auto* reduce = x.As<Reduce>()) region(reduce->src), region(reduce->dst);
        if (const auto* scan = x.As<Scan>()) region(scan->src), region(scan->dst);
        if (const auto* atomic = x.As<Atomic>()) region(atomic->dst), region(atomic->src);
        if (const auto* gemm = x.As<Gemm>()) region(gemm->a), region(gemm->b), region(gemm->e);
        return !looks;
      },
      [&](const Expr& e) {
        if (const auto* load = e.As<Load>()) looks |= load->buffer == sums;
        return !looks;
      });
  return looks;
}

// What keeps the fragment where it is, wherever its products are.
std::string WhyNotAnywhere(const Launch& launch, const Buffer& sums) {
  for (const char* note : {"layout:", "replicated:"}) {
    if (launch.annotations.count(absl::StrCat(note, sums->name)) > 0) {
      return "the kernel says who holds it";
    }
  }
  std::string why;
  Walk(launch.body, [&](const Stmt& s) {
    const auto* gemm = s.As<Gemm>();
    if (gemm == nullptr) return why.empty();
    if (gemm->a.buffer == sums || gemm->b.buffer == sums) why = "a product reads it";
    if (gemm->c.buffer == sums && !CoversWhole(gemm->c)) why = "a product computes a part of it";
    return why.empty();
  });
  return why;
}

// Whether a part of the block computes products on the fragment.
bool InPart(const Stmt& s, const Buffer& sums) {
  bool in_part = false;
  Walk(s, [&](const Stmt& x) {
    in_part |= x.kind() == StmtKind::kOnThreads && HasProductOn(x, sums);
    return !in_part;
  });
  return in_part;
}

SumsRange Find(const Stmt& s, const Buffer& sums, bool in_loop) {
  if (const auto* loop = s.As<For>(); loop != nullptr && IsLoop(s)) {
    return Find(loop->body, sums, /*in_loop=*/true);
  }
  const auto* seq = s.As<Seq>();
  if (seq == nullptr) {
    return {nullptr, 0, 0,
            s.kind() == StmtKind::kGemm ? "it is looked at between products" : kNotByAll};
  }
  size_t first = 0, last = seq->stmts.size();
  while (!HasProductOn(seq->stmts[first], sums)) ++first;
  while (!HasProductOn(seq->stmts[last - 1], sums)) --last;
  const auto begin = seq->stmts.begin() + static_cast<int64_t>(first);
  const auto end = seq->stmts.begin() + static_cast<int64_t>(last);
  const bool alone =
      std::none_of(begin, end, [&](const Stmt& child) { return LooksAt(child, sums); });
  // What comes before and after the range is done by all threads.
  if (std::any_of(begin, end, [&](const Stmt& child) { return InPart(child, sums); })) {
    return {nullptr, 0, 0, kNotByAll};
  }
  if (std::any_of(begin, end, Leaves)) {
    return {nullptr, 0, 0, "a break or continue leaves its products"};
  }
  // In a loop around, a single product may as well leave its result where it is looked at.
  if (alone && (!in_loop || std::any_of(begin, end, IsLoop))) return {seq, first, last, ""};
  if (last - first > 1) return {nullptr, 0, 0, "it is looked at between products"};
  return Find(*begin, sums, in_loop);
}

}  // namespace

const Gemm* ProductOn(const Stmt& s, const Buffer& sums) {
  const auto* gemm = s.As<Gemm>();
  return gemm != nullptr && gemm->c.buffer == sums ? gemm : nullptr;
}

bool HasProductOn(const Stmt& s, const Buffer& sums) {
  bool found = false;
  Walk(s, [&](const Stmt& x) {
    found |= ProductOn(x, sums) != nullptr;
    return !found;
  });
  return found;
}

std::string WhyNotApart(const Launch& launch, const Buffer& sums) {
  const std::string why = WhyNotAnywhere(launch, sums);
  if (!why.empty()) return why;
  if (!HasProductOn(launch.body, sums)) return kNoProduct;
  return InPart(launch.body, sums) ? kNotByAll : "";
}

SumsRange FindSums(const Launch& launch, const Buffer& sums) {
  const std::string why = WhyNotAnywhere(launch, sums);
  if (!why.empty()) return {nullptr, 0, 0, why};
  if (!HasProductOn(launch.body, sums)) return {nullptr, 0, 0, kNoProduct};
  return Find(launch.body, sums, /*in_loop=*/false);
}

}  // namespace kiln::ir
