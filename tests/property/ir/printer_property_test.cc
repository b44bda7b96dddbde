// Laws of the printer: equal structure prints equally, different structure prints differently, and
// the digest does not see names.
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/visit.h"
#include "tests/property/ir/random_expr.h"

namespace kiln::ir::testing {
namespace {

struct Sample {
  Program program;
  std::vector<Expr> vars;
  std::vector<Buffer> buffers;
};

Sample RandomProgram(uint64_t seed) {
  Sample sample;
  std::vector<Expr> vars = {MakeVar("i"), MakeVar("i"), MakeVar("k")};
  Generator g(seed, vars);
  Program& p = sample.program;
  p.name = "k";
  const Buffer out = MakeBuffer("out", kInt32, {Expr(64)}, Scope::kGlobal);
  const Buffer tile = MakeBuffer("tile", kInt32, {Expr(64)}, Scope::kShared);
  p.params = {{Param::kTensor, "out", out, {}, true}};
  std::vector<Stmt> body = {MakeStmt<Alloc>(SourceLoc{}, tile)};
  for (int s = 0; s < 3; ++s) {
    body.push_back(
        MakeStmt<If>(SourceLoc{s + 1}, g.Condition(3).expr,
                     MakeStmt<Store>(SourceLoc{}, s % 2 ? out : tile,
                                     std::vector<Expr>{g.Integer(3).expr}, g.Integer(4).expr)));
  }
  Stmt loop = MakeSeq(body);
  for (int v = 2; v >= 1; --v) {
    loop = MakeStmt<For>(SourceLoc{}, ForKind::kSerial,
                         std::vector<Axis>{{vars[v], Expr(0), Expr(8)}}, loop);
  }
  p.body = MakeStmt<Launch>(SourceLoc{}, std::vector<Axis>{{vars[0], Expr(0), Expr(4)}},
                            std::vector<Expr>{Expr(32)}, loop);
  sample.vars = vars;
  sample.buffers = {tile};
  return sample;
}

TEST(PrinterProperty, DigestIsInvariantUnderRenaming) {
  std::mt19937_64 rng(3);
  std::set<std::string> digests, texts;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const Sample s = RandomProgram(seed);
    ASSERT_EQ(ToString(s.program), ToString(RandomProgram(seed).program));
    VarMap vars;
    for (const Expr& v : s.vars) {
      vars[v.get()] = MakeVar(absl::StrCat("v", rng() % 3));
    }
    BufferMap buffers;
    for (const Buffer& b : s.buffers) {
      buffers[b.get()] =
          MakeBuffer(absl::StrCat("b", rng() % 100), b->dtype, b->shape, b->scope, b->strides);
    }
    Program renamed = s.program;
    renamed.body = Substitute(s.program.body, vars, buffers);
    ASSERT_EQ(ProgramDigest(s.program), ProgramDigest(renamed)) << ToString(s.program);
    digests.insert(ProgramDigest(s.program));
    texts.insert(ToString(s.program));
  }
  EXPECT_EQ(digests.size(), texts.size()) << "different programs share a digest";
  EXPECT_GT(texts.size(), 490u);
}

TEST(PrinterProperty, TextTellsStructure) {
  const std::vector<Expr> vars = {MakeVar("x"), MakeVar("y")};
  Generator g(5, vars);
  std::map<std::string, Expr> seen;
  for (int t = 0; t < 20000; ++t) {
    const Expr e = g.Integer(3).expr;
    const auto [it, fresh] = seen.emplace(ToString(e), e);
    // Names stand for one variable each when both occur, so compare within equal variable sets.
    if (fresh) continue;
    bool same_vars = true;
    for (const Expr& v : vars) {
      bool a = false, b = false;
      Walk(e, [&](const Expr& x) { return a |= x.same_as(v), true; });
      Walk(it->second, [&](const Expr& x) { return b |= x.same_as(v), true; });
      same_vars &= a == b;
    }
    ASSERT_TRUE(!same_vars || Same(it->second, e)) << it->first;
  }
}

}  // namespace
}  // namespace kiln::ir::testing
