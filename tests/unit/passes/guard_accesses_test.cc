// The predicates that keep accesses inside of tensors, and the option that leaves them out.
#include "compiler/passes/guard_accesses.h"

#include <gtest/gtest.h>

#include "compiler/ir/visit.h"
#include "tests/util/fragment_kernels.h"

namespace kiln {
namespace {

struct Accesses {
  int guarded = 0, plain = 0;

  void Count(const ir::Expr& predicate) { ++(predicate.defined() ? guarded : plain); }
};

// Of global tensors in the guarded golden kernel, which reads and writes beyond 50 elements.
Accesses Guarded(const std::string& option) {
  auto tiles = testing::ElaboratedFile("tests/golden/passes/guard-accesses.py", {});
  EXPECT_TRUE(tiles.ok()) << tiles.status();
  if (!option.empty()) tiles->attrs[option] = "true";
  const auto guarded = passes::GuardAccesses(*tiles, {});
  EXPECT_TRUE(guarded.ok()) << guarded.status();
  Accesses found;
  ir::Walk(
      guarded->body,
      [&](const ir::Stmt& s) {
        if (const auto* store = s.As<ir::Store>()) found.Count(store->predicate);
        return true;
      },
      [&](const ir::Expr& e) {
        if (const auto* load = e.As<ir::Load>()) found.Count(load->predicate);
        return true;
      });
  return found;
}

TEST(GuardAccesses, AddsThePredicatesThatAreMissing) {
  const Accesses found = Guarded("");
  EXPECT_EQ(found.guarded, 2);
  EXPECT_EQ(found.plain, 1);  // x[-1], which is x[49]
}

TEST(GuardAccesses, TrustsAKernelThatAsksForIt) {
  const Accesses found = Guarded("tl.disable_safe_memory_legalize");
  EXPECT_EQ(found.guarded, 0);
  EXPECT_EQ(found.plain, 3);
}

}  // namespace
}  // namespace kiln
