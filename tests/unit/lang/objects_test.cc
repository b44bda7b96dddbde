// Classes: compile-time objects whose attributes and methods may stand for run-time things.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/lang/lang_test_util.h"

namespace kiln::lang {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kClasses[] = R"(
import torch
from dataclasses import dataclass

class Shape:
    """Rows and columns."""
    count = 2

    def __init__(self, rows, columns=8, *rest, **named):
        self.rows, self.columns = rows, columns
        self.rest = rest
        self.scale = named.get("scale", 1)

    @property
    def area(self):
        return self.rows * self.columns * self.scale

    @staticmethod
    def square(n):
        return Shape(n, n)

    @classmethod
    def named(cls, n):
        return (cls.__name__, n)

    def larger(self, other):
        return self if self.area > other.area else other

    def table(self):
        squares = []
        for i in range(self.rows):
            squares.append(i * i)
        return squares

class Tall(Shape):
    def __init__(self, rows):
        super().__init__(rows, 1, scale=3)
        self.kind = "tall"

    @property
    def area(self):
        return super().area + 1

@dataclass
class Tile:
    m: int
    n: int = 16
    dtype: str = "float16"

    def elements(self):
        return self.m * self.n

@T.meta_class
class Counter:
    def __init__(self, start):
        self.at = T.alloc_var(T.int32)
        self.steps = T.alloc_local((1,), T.int32)
        self.at[0] = start
        self.limit = start + 4

    def advance(self, by):
        self.at = self.at + by
        if self.at > self.limit:
            self.at = 0

    def twice(self):
        self.advance(1)
        self.advance(2)

    def left(self):
        return self.limit - self.at

class Loop(Loop):
    pass

class Hosted(torch.nn.Module):
    def forward(self, x):
        return super().forward(x)
)";

std::string ValueOf(const std::string& expr) {
  const auto d = DiagnosticOf(
      ElaborateText(InKernel(absl::StrCat("assert False, repr(", expr, ")\n"), "", kClasses))
          .status());
  return d ? d->message.substr(d->message.find(": ") + 2) : "no diagnostic";
}

TEST(Objects, ClassesOfCompileTimeArePythons) {
  const std::pair<const char*, const char*> kCases[] = {
      {"Shape(2).area", "16"},
      {"Shape(2, 3, 4, 5, scale=2).area", "12"},
      {"Shape(2, 3, 4, 5).rest", "(4, 5)"},
      {"Shape.square(3).area", "9"},
      {"Shape(1).square(3).area", "9"},
      {"Shape.named(3)", "('Shape', 3)"},
      {"Tall(3).named(3)", "('Tall', 3)"},
      {"Tall(3).area", "10"},
      {"Tall(3).kind", "'tall'"},
      {"Tall(3).count + Shape.count", "4"},
      {"Shape(2).larger(Tall(9)).rows", "9"},
      {"isinstance(Tall(1), Shape)", "True"},
      {"isinstance(Shape(1), Tall)", "False"},
      {"isinstance(3, Shape)", "False"},
      {"Shape(4).table()", "[0, 1, 4, 9]"},
      {"Tile(4).elements()", "64"},
      {"Tile(4, dtype='int8').dtype", "'int8'"},
      {"Tile(n=2, m=3).elements()", "6"},
      {"(lambda t: t is t)(Tile(1))", "True"},
      {"[Shape(i).area for i in range(3)]", "[0, 8, 16]"},
  };
  for (const auto& [expr, expected] : kCases) EXPECT_EQ(ValueOf(expr), expected) << expr;
}

// Members are looked for, and super() goes on, in Python's order of a class's bases.
TEST(Objects, BasesHaveOneOrder) {
  const auto of = [](const std::string& value) {
    const std::string text = InKernel(
        absl::StrCat("assert False, repr(", value, ")\n"), "",
        "from dataclasses import dataclass\nclass A:\n    x = 'A'\n    def f(self): return 'A'\n"
        "    @classmethod\n    def c(cls): return cls.x\n"
        "class B(A):\n    def f(self): return 'B' + super().f()\n"
        "class C(A):\n    x = 'C'\n    def f(self): return 'C' + super().f()\n"
        "    @classmethod\n    def c(cls): return super().c() + '!'\n"
        "class D(B, C):\n    def f(self): return 'D' + super().f()\nclass Wrong(A, B):\n    pass\n"
        "@dataclass\nclass P:\n    p: int = 1\n@dataclass(order=True)\nclass Q:\n    q: int = 2\n"
        "@dataclass\nclass R(P, Q):\n    r: int = 3\nclass S(Q, P):\n    pass\n"
        "class Meta(type):\n    pass\nclass Odd(metaclass=Meta):\n    n = 1\n");
    const auto d = DiagnosticOf(ElaborateText(text).status());
    return d ? d->message : "no diagnostic";
  };
  EXPECT_THAT(of("D().f()"), HasSubstr("'DBCA'"));
  EXPECT_THAT(of("[D.x, D().x, D.c(), B().f()]"), HasSubstr("['C', 'C', 'C!', 'BA']"));
  EXPECT_THAT(of("Wrong().x"), HasSubstr("the bases of the class 'Wrong' have no common order"));
  EXPECT_THAT(of("R(7)"), HasSubstr("R(q=7, p=1, r=3)"));
  EXPECT_THAT(of("S(7) < S(8)"), HasSubstr("True"));
  EXPECT_THAT(of("Odd.n"), HasSubstr("the metaclass 'Meta' of the class 'Odd'"));
}

TEST(Objects, MethodsWithEffectsBecomeStatements) {
  const std::string text = Elaborated(
      InKernel("c = Counter(bx)\nfor i in range(3):\n    c.twice()\n    v[i] = c.left() + c.at", "",
               kClasses));
  EXPECT_THAT(text, HasSubstr("alloc c_at: var int32[1]"));
  EXPECT_THAT(text, HasSubstr("c_at[0] = bx"));
  EXPECT_THAT(text, HasSubstr("c_at[0] = c_at[0] + 1"));
  EXPECT_THAT(text, HasSubstr("c_at[0] = c_at[0] + 2"));
  EXPECT_THAT(text, HasSubstr("if c_at[0] >"));
  EXPECT_THAT(text, HasSubstr("- c_at[0] + c_at[0]"));
}

// A value that an attribute read from memory is that of the moment.
TEST(Objects, AttributesKeepTheValueOfTheirMoment) {
  const std::string text =
      Elaborated(InKernel("s = Shape(v[0], 2)\nv[0] = 7\nv[1] = s.rows", "", kClasses));
  EXPECT_THAT(text, HasSubstr("rows = v[0]"));
  EXPECT_THAT(text, HasSubstr("v[1] = "));
  EXPECT_THAT(text, Not(HasSubstr("v[1] = v[0]")));
}

TEST(Objects, ObjectsOfFactoriesReachKernels) {
  const auto program = ElaborateText(
      absl::StrCat(
          "import tilelang\nimport tilelang.language as T\n", kClasses,
          "\ndef build(n=4):\n    tile = Tile(n)\n    tile.n = 32\n    @T.prim_func\n"
          "    def main(a: T.Tensor((tile.m, tile.n), tile.dtype)):\n        with T.Kernel(1):\n"
          "            T.clear(a)\n    return main\n"),
      {}, "", "build");
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_THAT(ir::ToString(*program), HasSubstr("float16[4, 32]"));
}

TEST(Objects, WhatCannotBeIsSaid) {
  const std::pair<const char*, const char*> kCases[] = {
      {"Shape(1).wide", "a Shape has no attribute 'wide'"},
      {"Shape()", "'Shape' needs its argument 'rows'"},
      {"Tile()", "'Tile' needs its argument 'm'"},
      {"Tile(1, 2, 'int8', 4)", "'Tile' has 3 fields"},
      {"Tile(1, k=3)", "'Tile' has no field 'k'"},
      {"Hosted()", "'torch' has no member 'nn'"},
      {"super().x", "super() outside of a method"},
      {"T.BaseTileScheduler().update_current_idx(3)", "a scheduler needs a method"},
      {"T.PersistentTileScheduler(3)", "a scheduler needs num_m_tiles and num_n_tiles"},
      {"T.PersistentTileScheduler(3, 4, num_workers=0)", "num_workers is at least 1"},
      {"T.PersistentTileScheduler(3, 4, swizzle_size=0)", "swizzle_size is a compile-time"},
      {"T.PersistentTileScheduler(3, 4, swizzle_size=v[0])", "swizzle_size is a compile-time"},
      {"T.PersistentTileScheduler(3, 4, stateful=False).valid()", "holds no place in the tiles"},
  };
  for (const auto& [expr, message] : kCases) {
    const auto program = ElaborateText(InKernel(absl::StrCat("q = ", expr), "", kClasses));
    EXPECT_THAT(std::string(program.status().message()), HasSubstr(message)) << expr;
    const auto d = DiagnosticOf(program.status());
    ASSERT_TRUE(d.has_value()) << expr;
    EXPECT_TRUE(d->loc.known()) << expr;  // in the user's text, also where a class of T says it
  }
  const std::pair<const char*, const char*> kBodies[] = {
      {"s = Shape(1)\nif n > 0:\n    s.rows = 2", "is changed inside a run-time branch"},
      {"s = Shape(1)\ns.area = 3", "'area' is a property"},
      {"x.rows = 3", "has no attributes to assign to"},
      {"q = Loop()", "unknown name 'Loop'"},
      {"class Local(unknown):\n    pass\nq = Local()", "unknown name 'unknown'"},
  };
  for (const auto& [body, message] : kBodies) {
    EXPECT_THAT(Elaborated(InKernel(body, "", kClasses)), HasSubstr(message)) << body;
  }
}

TEST(Objects, ClustersNumberTheirBlocks) {
  const auto text = [](const std::string& launch) {
    return absl::StrCat(
        "import tilelang.language as T\n@T.prim_func\ndef main(v: T.Tensor((64,), T.int32), "
        "n: T.int32):\n    with ",
        launch, ":\n        v[0] = T.block_rank_in_cluster()\n");
  };
  const std::pair<const char*, const char*> kCases[] = {
      {"T.ClusterKernel(4, cluster_dims=2, threads=32) as bx", "v[0] = bx % 2"},
      {"T.ClusterKernel(4, 6, cluster_dims=(2, 3, 1)) as (bx, by)", "v[0] = by % 3 * 2 + bx % 2"},
      {"T.ClusterKernel(4, 6, cluster_dims=(1, 3)) as (bx, by)", "v[0] = by % 3"},
      {"T.Kernel(4) as bx", "v[0] = 0"},
      {"T.ClusterKernel(4, cluster_dims=2) as bx:\n        T.cluster_sync()\n        w = bx\n"
       "    with T.Kernel(1)",
       "launch bx in (4)"},
      // Blocks that read what others wrote are one.
      {"T.ClusterKernel(4, cluster_dims=2) as bx:\n        v[bx] = bx\n        T.cluster_sync()\n"
       "        w = v[bx ^ 1]\n        T.cluster_sync()\n        v[bx] = w\n    with T.Kernel(1)",
       "launch bx in (2) threads(128) {joined=\"2\"}:\n    v[bx * 2] = bx * 2\n    v[bx * 2 + 1] = "
       "bx * 2 + 1\n    let w = v[bx * 2 ^ 1]\n    let w_1 = v[bx * 2 + 1 ^ 1]\n    v[bx * 2] = w\n"
       "    v[bx * 2 + 1] = w_1\n"},
      // Where all blocks meet in between, each launch is looked at by itself.
      {"T.ClusterKernel(4, cluster_dims=2) as bx:\n        v[bx] = bx\n        T.cluster_sync()\n"
       "        T.sync_grid()\n        w = v[bx ^ 1]\n        T.cluster_sync()\n"
       "        u = w + v[bx]\n    with T.Kernel(1)",
       "let w = v[bx_1 ^ 1]"},
      {"T.ClusterKernel(4, cluster_dims=2) as bx:\n        v[bx] = bx\n        T.sync_grid()\n"
       "        v[bx] = 2\n        T.cluster_sync()\n        w = v[bx ^ 1]\n    with T.Kernel(1)",
       "    v[bx] = bx\n  launch bx_1 in (2) threads(128) {joined=\"2\"}:\n    v[bx_1 * 2] = 2\n"},
      {"T.ClusterKernel(4, cluster_dims=2) as bx:\n        v[bx] = bx\n        T.cluster_sync()\n"
       "        w = v[bx ^ 1]\n        T.sync_grid()\n        u = bx\n    with T.Kernel(1)",
       "    let w_1 = v[bx * 2 + 1 ^ 1]\n  launch bx_1 in (4) threads(128):\n    pass\n"},
      {"T.ClusterKernel(4, cluster_dims=2) as bx:\n        v[bx] = bx\n        T.cluster_sync()\n"
       "        T.sync_grid()\n        v[bx] = v[bx] + 1\n    with T.Kernel(1)",
       "v[bx_1] = v[bx_1] + 1"},
      {"T.ClusterKernel(n, cluster_dims=2) as bx", "assert n % 2 == 0"},
      {"T.ClusterKernel(5, cluster_dims=2) as bx", "is no multiple of the cluster's 2 blocks"},
      {"T.ClusterKernel(64, cluster_dims=32) as bx", "a cluster has 1 to 16 blocks"},
      {"T.ClusterKernel(4, cluster_dims=(1, 2)) as bx", "cluster_dims names axis 1 of a grid of 1"},
  };
  for (const auto& [launch, expected] : kCases) {
    EXPECT_THAT(Elaborated(text(launch)), HasSubstr(expected)) << launch;
  }
}

}  // namespace
}  // namespace kiln::lang
