// What Python's library and numpy make at compile time, in kernels; names of TileLang that mean
// what others do; and what is said of characters and arguments that do not fit. That values are
// CPython's is tests/property/lang/python_agreement.py.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/lang/lang_test_util.h"

namespace kiln::lang {
namespace {

using testing::HasSubstr;

constexpr char kLibrary[] = R"(
import collections
import dataclasses
import enum
import functools
import operator
import numpy as np
from enum import Enum, IntEnum
from typing import NamedTuple

class Mode(Enum):
    LOW = "float16"
    HIGH = 2

class Axis(IntEnum):
    ROW = 3
    COLUMN = enum.auto()

class Kind(str, Enum):
    HALF = "float16"

class Strict(enum.Flag):
    A = 1
    B = enum.auto()
    BOTH = A | B
    C = enum.auto()

class Bits(enum.IntFlag):
    R = 4
    W = 2

Made = Enum("Made", "ONE TWO")

class Ordered(Enum):
    _ignore_ = []
    A = 1

class Vector:
    def __init__(self, x, y=1):
        self.x, self.y = x, y

    def __add__(self, other):
        return Vector(self.x + other.x) if isinstance(other, Vector) else NotImplemented

    def __rmul__(self, other):
        return Vector(other * self.x, self.y)

    def __neg__(self):
        return Vector(-self.x)

    def __iadd__(self, other):
        self.y += 7
        return self

    def __eq__(self, other):
        return self.x == (other.x if isinstance(other, Vector) else other)

    def __lt__(self, other):
        return self.x < other.x

    def __contains__(self, x):
        return self.x == x

class Far(Vector):
    def __radd__(self, other):
        return "first"

class Sum(NamedTuple):
    left: int

    def __add__(self, other):
        return Sum(self.left + other.left)

@dataclasses.dataclass
class Scaled:
    m: int
    by: dataclasses.InitVar[int] = 3

    def __post_init__(self, by):
        self.area = self.m * by

def updated(v):
    v += 1
    return v.y

class Pair(NamedTuple):
    left: int
    right: int = 5

Point = collections.namedtuple("Point", "x y")

@dataclasses.dataclass
class Tile:
    m: int
    n: int = 16
    tags: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        self.area = self.m * self.n

@dataclasses.dataclass(frozen=True)
class Fixed:
    m: int = 2

class Shared:
    pass

@dataclasses.dataclass
class Wrong:
    tags: list = []

def spread(a, b, c=3):
    return a - 2 * b + 5 * c
)";

std::string Remedy(const std::string& body, std::string* message) {
  const auto d = DiagnosticOf(ElaborateText(InKernel(body, "", kLibrary)).status());
  *message = d ? d->message : "no diagnostic";
  return d ? d->remedy : "";
}

std::string ValueOf(const std::string& expr) {
  std::string message;
  Remedy(absl::StrCat("assert False, repr(", expr, ")\n"), &message);
  const size_t at = message.find("assertion failed: ");
  return at == std::string::npos ? message : message.substr(at + 18);
}

TEST(Library, ObjectsOfTheLibrarysClasses) {
  const std::pair<const char*, const char*> kCases[] = {
      {"Mode.LOW", "<Mode.LOW: 'float16'>"},
      {"[str(m) for m in Mode]", "['Mode.LOW', 'Mode.HIGH']"},
      {"Axis.COLUMN + 1", "5"},
      {"[Axis.ROW == 3, Mode.HIGH == 2, Mode(2) is Mode.HIGH, Axis['ROW'] < 4]",
       "[True, False, True, True]"},
      {"T.dtype(Kind.HALF).bits", "16"},
      {"[10, 20, 30, 40][Axis.ROW]", "40"},
      {"math.sqrt(Axis.COLUMN)", "2.0"},
      {"Pair(1)._replace(right=2)", "Pair(left=1, right=2)"},
      {"sum(Point(3, 4)) + Point(1, 2).y", "9"},
      {"Tile(4).area + dataclasses.replace(Tile(4), n=2).area", "72"},
      {"Tile(1).tags is Tile(1).tags", "False"},
      {"dataclasses.asdict(Tile(2))", "{'m': 2, 'n': 16, 'tags': []}"},
      {"functools.partial(spread, 10, c=0)(3)", "4"},
      {"functools.reduce(operator.mul, [1, 2, 3])", "6"},
      {"[hasattr(Tile(1), 'area'), hasattr(T, 'float16'), hasattr(T, 'flot16'), "
       "hasattr(x, 'shape'), hasattr(x, 'size_of')]",
       "[True, True, False, True, False]"},
      {"getattr(T, 'float16')", "float16"},
      {"getattr(Tile(1), 'k', 7)", "7"},
      {"[isinstance(n, T.PrimExpr), isinstance(3, T.PrimExpr), isinstance(x, T.Buffer)]",
       "[True, False, True]"},
      {"'%05.1f|%-4d|%s' % (2.25, 7, Axis.ROW)", "'002.2|7   |3'"},
      {"'%d' % 2.75", "'2'"},
      {"'{0.m}x{n:>{w}}'.format(Tile(3), n=4, w=3)", "'3x  4'"},
      {"[np.ceil(2.5), np.prod([2, 3]), np.log2(8), int(np.sqrt(16))]", "[3.0, 6, 3.0, 4]"},
      {"[np.sqrt(-1.0), math.comb(5, 2), math.isclose(0.1 + 0.2, 0.3)]", "[nan, 10, True]"},
      {"math.fsum([1e16, 1.0, -1e16])", "1.0"},
      {"[math.hypot(10.94375, 2.0), math.hypot(3.0, 4.0)]", "[11.125001755617838, 5.0]"},
  };
  for (const auto& [expr, expected] : kCases) EXPECT_EQ(ValueOf(expr), expected) << expr;
}

TEST(Library, FlagsAreSetsOfBits) {
  const std::pair<const char*, const char*> kCases[] = {
      {"[Strict.B.value, Strict.C.value, len(Strict)]", "[2, 4, 3]"},
      {"(Strict.A | Strict.B) is Strict.BOTH", "True"},
      {"Strict.A | Strict.C", "<Strict.A|C: 5>"},
      {"[Strict.A in Strict.BOTH, Strict.C in Strict.BOTH, bool(Strict.A & Strict.C)]",
       "[True, False, False]"},
      {"[str(~Strict.B), [m.name for m in ~Strict.B], len(Strict(7))]",
       "['Strict.A|C', ['A', 'C'], 3]"},
      {"[str(Strict(0)), Strict(0)]", "['Strict(0)', <Strict: 0>]"},
      {"[Bits.R + 1, Bits.R | 1, int(~Bits.R), Bits.R & 6 == 4]", "[5, <Bits.R|1: 5>, 3, True]"},
      {"[int(~(Bits.R | 8)), Strict(-2)]", "[3, <Strict.B|C: 6>]"},
      {"[Made.TWO.value, str(Made(1)), len(Made)]", "[2, 'Made.ONE', 2]"},
  };
  for (const auto& [expr, expected] : kCases) EXPECT_EQ(ValueOf(expr), expected) << expr;
}

TEST(Library, OperatorsAreWhatTheClassSays) {
  const std::pair<const char*, const char*> kCases[] = {
      {"(2 * (Vector(1) + Vector(3))).x", "8"},
      {"[(-Vector(4)).x, Vector(1) < Vector(2), Vector(1) > Vector(2)]", "[-4, True, False]"},
      {"[Vector(3) == 3, 3 == Vector(3), Vector(3) != 3, [1, 3].index(Vector(3))]",
       "[True, True, False, 1]"},
      {"[4 in Vector(4), 5 not in Vector(4), max(Vector(1), Vector(6)).x]", "[True, True, 6]"},
      // A class that is based on the other's is asked first.
      {"Vector(1) + Far(2)", "'first'"},
      {"[updated(Vector(1)), (Sum(1) + Sum(2)).left]", "[8, 3]"},
      // The same object, not an equal one.
      {"[Tile(4) is Tile(4), Tile(4) == Tile(4)]", "[False, True]"},
      {"[Scaled(2).area, Scaled(2, 5).area, Scaled(m=1, by=4), Scaled(3).by]",
       "[6, 10, Scaled(m=1), 3]"},
      {"dataclasses.replace(Scaled(2), by=10).area", "20"},
  };
  for (const auto& [expr, expected] : kCases) EXPECT_EQ(ValueOf(expr), expected) << expr;
  EXPECT_THAT(Elaborated(InKernel("z = 2 * (Vector(bx) + Vector(1))\nv[0] = z.x", "", kLibrary)),
              HasSubstr("v[0] = (bx + 1) * 2"));
}

TEST(Library, ObjectsAreStoredAsTheirNumbers) {
  EXPECT_THAT(Elaborated(InKernel("v[0] = Axis.ROW\nv[Axis.COLUMN] = bx + Axis.ROW", "", kLibrary)),
              testing::AllOf(HasSubstr("v[0] = 3"), HasSubstr("v[4] = bx + 3")));
  // The first of two that are equal, as Python's max chooses.
  EXPECT_EQ(ValueOf("max((1, 2), (1.0, 2.0))"), "(1, 2)");
}

TEST(Library, WhatTheObjectsRefuse) {
  const struct {
    const char *body, *message, *remedy;
  } kCases[] = {
      {"a = Mode(7)", "7 is not the value of a member of the enum 'Mode'", "check the value"},
      {"a = Axis['ROWS']", "has no member 'ROWS'", "did you mean 'ROW'?"},
      {"a = Mode.LOW + 1", "no operator '+' for a Mode and an integer", "__add__"},
      {"a = Mode.LOW < Mode.HIGH", "no order between", ""},
      {"a = Strict(9)", "9 has bits that no member of the flag 'Strict' has", "with |"},
      {"a = Strict.A | 2", "no operator '|' for a Strict and an integer", "enum.IntFlag"},
      {"a = enum.IntFlag('F', {'A': -1}).A", "is -1, which is no set of bits", "not negative"},
      {"a = enum.IntFlag('F', {'A': 1 << 62}).A | 1", "more than 62 bits", "two flags"},
      {"a = 1 in Strict.A", "looked for in a member of the flag", "Strict.A in flags"},
      {"a = Ordered.A", "'_ignore_' of the enum 'Ordered'", "every member its value"},
      {"a = Enum('E', 'A A')", "two members 'A'", "a name of its own"},
      {"a = Vector(1) + 1", "no operator '+' for a Vector and an integer", "__add__"},
      {"Mode.LOW.value = 3", "cannot be assigned to", "members of an enum do not change"},
      {"a = Fixed()\na.m = 3", "cannot be assigned to", "dataclasses.replace"},
      {"a = Wrong()", "which all objects would share", "default_factory"},
      {"a = Tile(m=1, k=2)", "'Tile' has no field 'k'", "drop it"},
      {"a = Pair()", "needs its argument 'left'", "pass it"},
      {"a = '%d' % (1, 2)", "fewer fields than values", "add a field"},
      {"a = '%d' % 'x'", "%d of a string", "use %s"},
      {"a = '{} {1}'.format(1, 2)", "fields with and without numbers", "all of them or none"},
      {"a = '{k}'.format(1)", "the field 'k', which no argument has", "pass k=..."},
      {"a = '{'.format(1)", "a '{' that nothing closes", "'{{'"},
      {"a = hasattr(np, 'no_such')", "whether 'numpy' has 'no_such' is not known", "outside"},
      {"a = math.acos(2)", "not defined for that value", "check"},
      {"a = math.factorial(40)", "does not fit 64 bits", ""},
      {"a = np.log2(bx)", "takes a number", "in T for run-time values"},
  };
  for (const auto& test : kCases) {
    std::string message;
    const std::string remedy = Remedy(test.body, &message);
    EXPECT_THAT(message, HasSubstr(test.message)) << test.body;
    EXPECT_THAT(remedy, HasSubstr(test.remedy)) << test.body;
  }
}

TEST(Library, CastsThatRoundOrSaturate) {
  EXPECT_THAT(Elaborated(InKernel("v[0] = T.cast(x[0, 0], \"int8\", sat=True)")),
              HasSubstr("int8(x[0, 0])"));
  EXPECT_THAT(Elaborated(InKernel("y[0, 0] = T.cast(T.cast(x[0, 0], \"bfloat16\", \"rn\"), "
                                  "\"float32\")")),
              HasSubstr("bfloat16(x[0, 0])"));
  EXPECT_THAT(Elaborated(InKernel("v[0] = T.cast(x[0, 0], \"int32\", round=\"rz\")")),
              HasSubstr("int32(x[0, 0])"));
  const std::pair<const char*, const char*> kRefused[] = {
      {"T.cast(x[0, 0], \"bfloat16\", round=\"rz\")", "round='rz'"},
      {"T.cast(x[0, 0], \"int32\", round=\"rn\")", "round='rn'"},
      {"T.cast(x[0, 0], \"float16\", round=\"rs\")", "needs rbits"},
      {"T.cast(x[0, 0], \"float16\", round=\"rs\", rbits=n)", "round='rs'"},
      {"T.cast(x[0, 0], \"float16\", rbits=n)", "rbits are for round='rs' alone"},
      {"T.cast(x[0, 0], \"float16\", round=\"up\")", "no rounding 'up'"},
      {"T.cast(x[0, 0], \"float8_e4m3fn\", sat=False)", "with sat=False"},
  };
  for (const auto& [cast, message] : kRefused) {
    EXPECT_THAT(Elaborated(InKernel(absl::StrCat("a = ", cast))), HasSubstr(message)) << cast;
  }
}

TEST(Library, OtherSpellings) {
  EXPECT_EQ(ValueOf("[T.is_float4('float4_e2m1fn'), T.is_float4(T.float16), "
                    "T.is_float4_e2m1_unpacked('float4_e2m1fn'), "
                    "T.is_f8f6f4_family(T.float8_e5m2), T.dtypes.float16, T.cdiv(7, 2)]"),
            "[True, False, False, True, float16, 4]");
  EXPECT_EQ(ValueOf("[(T.truncdiv(a, b), T.truncmod(a, b)) for a in (-7, 7) for b in (2, -2)]"),
            "[(-3, -1), (3, -1), (3, 1), (-3, 1)]");
  EXPECT_THAT(Elaborated(InKernel("s = T.alloc_shared((8, 16), T.float32)\n"
                                  "T.copy(T.region(x[8, bx], \"r\", 8, 16), s)")),
              HasSubstr("copy x[8 : +8, bx : +16] -> s"));
  EXPECT_THAT(Elaborated(InKernel("s = T.alloc_fragment((8, 16), T.float32)\n"
                                  "r = T.alloc_fragment((8,), T.float32)\n"
                                  "T.reduce(s, r, \"max\", 1, True)")),
              HasSubstr("max"));
  const std::pair<const char*, const char*> kRefused[] = {

      {"T.env_thread", "T.launch_thread"},
      {"T.to", "use T.cast"},
      {"T.target", "--arch"},
      {"T.mutate", "T.Ref"},
      {"T.float6_e3m2fnx4", "float8_e4m3fn"},
      {"T.ptx_mma", "use T.gemm"},
      {"T.loop_break", "Python's own break"},
      {"T.tfloat32x4", "T.float32x4"},
      {"T.vectorlow", "T.Shuffle"},
      {"T.region(x, \"r\", 1)", "x[i:i + rows"},
      {"T.reduce(x, y, \"som\", 0, True)", "'sum'"},
  };
  for (const auto& [name, remedy] : kRefused) {
    std::string message;
    EXPECT_THAT(Remedy(absl::StrCat("a = ", name), &message), HasSubstr(remedy)) << name;
    EXPECT_THAT(message, testing::Not(HasSubstr("has no member"))) << name;
  }
}

TEST(Library, CharactersThatOnlyLookLikeAsciis) {
  const struct {
    const char *body, *message, *remedy;
    int column;
  } kCases[] = {
      {"a = \xe2\x80\x9c"
       "float16\xe2\x80\x9d",
       "LEFT DOUBLE QUOTATION MARK (U+201C)", "a plain quote, \"", 13},
      {"a = n \xe2\x80\x93 1", "EN DASH (U+2013)", "a plain minus, -", 15},
      {"a = n\xc2\xa0+ 1", "NO-BREAK SPACE (U+00A0)", "a plain space", 14},
      {"a = n\xe2\x80\x8b", "ZERO WIDTH SPACE (U+200B)", "nothing: it is invisible", 14},
      {"a = (n \xc3\x97 2)", "MULTIPLICATION SIGN (U+00D7)", "an asterisk, *", 16},
  };
  for (const auto& test : kCases) {
    const auto d = DiagnosticOf(ElaborateText(InKernel(test.body)).status());
    ASSERT_TRUE(d.has_value()) << test.body;
    EXPECT_THAT(d->message, HasSubstr(test.message));
    EXPECT_THAT(d->remedy, HasSubstr(test.remedy));
    EXPECT_EQ(d->loc.column, test.column) << test.body;
  }
  // Letters are names, and text and comments hold what they like.
  EXPECT_THAT(
      Elaborated(InKernel("\xc3\xa9t\xc3\xa9 = \"\xe2\x80\x9c\"  # \xe2\x80\x93\nv[0] = 1")),
      HasSubstr("v[0] = 1"));
}

TEST(Library, ArgumentsAndBarriersThatAreMissing) {
  const auto d = DiagnosticOf(
      ElaborateText("import tilelang\nimport tilelang.language as T\n"
                    "def build(M):\n    @T.prim_func\n    def k(A: T.Tensor((M,), T.float32)):\n"
                    "        with T.Kernel(1):\n            A[0] = 1.0\n    return k\n")
          .status());
  ASSERT_TRUE(d.has_value());
  EXPECT_THAT(d->remedy, HasSubstr("-a M=1024"));
  const std::pair<const char*, const char*> kCases[] = {
      {"T.set_max_nreg(40, 5)", "1 or 0 for is_inc, not 5"},
      {"T.set_max_nreg(41, 1)", "41 registers a thread"},
      {"s = T.alloc_shared((64, 64), T.float32)\nT.tma_copy(x, s)", "names no barrier"},
  };
  for (const auto& [body, message] : kCases) {
    EXPECT_THAT(Elaborated(InKernel(body)), HasSubstr(message)) << body;
  }
  EXPECT_THAT(Elaborated(InKernel("s = T.alloc_shared((64, 64), T.float32)\nT.clear(s)\n"
                                  "T.set_max_nreg(40, 0)\nT.tma_copy(s, y)")),
              HasSubstr("copy"));
}

}  // namespace
}  // namespace kiln::lang
