// What Python asks of the objects of a file, how often and in which order, and where it looks up
// what a class's body names: the value that CPython has, or a refusal.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/lang/lang_test_util.h"

namespace kiln::lang {
namespace {

using testing::HasSubstr;

// repr(value) of what a kernel of the file `module` computes, or the error's message.
std::string ValueOf(const std::string& value, const std::string& module) {
  const auto d = DiagnosticOf(
      ElaborateText(
          InKernel(absl::StrCat("made = ", value, "\nassert False, repr(made)\n"), "", module))
          .status());
  if (!d.has_value()) return "no diagnostic";
  const std::string shown = "assertion failed: ";
  return d->message.starts_with(shown) ? d->message.substr(shown.size()) : d->message;
}

// Of f(), whose class A has this body and stands in a function with x = 1; x is 10 outside.
std::string InBody(const std::string& body, const std::string& value) {
  return ValueOf("f()", absl::StrCat("x = 10\ndef f():\n    x = 1\n    class A:\n", body,
                                     "    return ", value, "\n"));
}

TEST(Effects, ABodyOfAClassReadsGlobalsOfTheNamesThatItBinds) {
  EXPECT_EQ(InBody("        y = x\n        x = 2\n", "A.y, A.x"), "(10, 2)");
  EXPECT_EQ(InBody("        y = x\n", "A.y"), "1");
  EXPECT_EQ(InBody("        if False: x = 2\n        y = x\n", "A.y"), "10");
  EXPECT_EQ(InBody("        x = 2\n        del x\n        y = x\n", "A.y"), "10");
  EXPECT_EQ(InBody("        x: int\n        y = x\n", "A.y"), "10");
  EXPECT_EQ(InBody("        x += 1\n", "A.x"), "11");
  EXPECT_EQ(InBody("        def m(self, v=x): return v, x\n        x = 2\n", "A().m()"), "(10, 1)");
  EXPECT_EQ(InBody("        x = 2\n        class B:\n            y = x\n", "A.B.y"), "1");
  EXPECT_EQ(
      InBody("        x = 2\n        class B:\n            y = x\n            x = 3\n", "A.B.y"),
      "10");
  EXPECT_EQ(InBody("        class P: n = 5\n        class Q(P): pass\n", "A.Q.n"), "5");
}

TEST(Effects, LocalNamesAreThoseThatPythonTakesForLocal) {
  for (const char* local : {"(x := 3)", "x: int", "del x"}) {
    EXPECT_THAT(ValueOf("f()", absl::StrCat("x = 5\ndef f():\n    if False:\n        ", local,
                                            "\n    return x\n")),
                HasSubstr("'x' is read before it has a value"))
        << local;
  }
}

constexpr char kAsked[] = R"(
log = []
class B:
    def __init__(self, v): self.v = v
    def __bool__(self):
        log.append(self.v)
        return self.v > 0
a, b, c = B(1), B(0), B(2)
)";

std::string Asked(const std::string& statement) {
  return ValueOf("f()", absl::StrCat(kAsked, "def f():\n    ", statement, "\n    return log\n"));
}

TEST(Effects, ConditionsAskOnce) {
  EXPECT_EQ(Asked("if b and a: pass"), "[0]");
  EXPECT_EQ(Asked("if not (b and a): pass"), "[0]");
  EXPECT_EQ(Asked("if (a and b) or (b or a): pass"), "[1, 0, 0, 1]");
  EXPECT_EQ(Asked("if (b if a and b else c): pass"), "[1, 0, 2]");
  EXPECT_EQ(Asked("z = 1 if not (b and a) else 2"), "[0]");
  EXPECT_EQ(Asked("z = [i for i in (1,) if not (b and a)]"), "[0]");
  EXPECT_EQ(Asked("assert not (b and a)"), "[0]");
  EXPECT_EQ(Asked("while b or not a: pass"), "[0, 1]");
  EXPECT_EQ(Asked("z = a and b"), "[1]");
  EXPECT_EQ(Asked("z = not (b and a)"), "[0, 0]");  // asked for the value of `and`, and by `not`
  EXPECT_EQ(Asked("z = any([b, a, c]), all([a, b, c])"), "[0, 1, 1, 0]");
  EXPECT_THAT(Asked("z = (b and a) and c"), HasSubstr("versions of Python differ"));
  EXPECT_THAT(Asked("z = (b and a) or c"), HasSubstr("versions of Python differ"));
}

TEST(Effects, AChainOfComparisonsGivesWhatEndsIt) {
  const std::string module =
      "class B:\n    def __init__(self, v): self.v = v\n    def __lt__(self, o): return self.v\n"
      "a, b, c = B(0), B(7), B(5)\n";
  EXPECT_EQ(ValueOf("[a < b < c, c < b < a, c < b < c < b, 1 if c < a < b else 2]", module),
            "[0, 7, 5, 2]");
  EXPECT_EQ(ValueOf("[c < a < b, 1 if c < a < b else 2]", module), "[0, 2]");
}

constexpr char kOrdered[] = R"(
log = []
class B:
    def __init__(self, v): self.v = v
    def __lt__(self, o): return self.v < o.v
    def __gt__(self, o): return 1 // 0
class N(B):
    def __lt__(self, o):
        log.append((self.v, o.v))
        return self.v < o.v
def key(x):
    log.append(x)
    return N(x)
def vs(items): return [x.v for x in items]
def f(g): return [g(), log]
def empty(xs):
    xs.sort(key=lambda x: (len(xs), -x))
    return xs
def growing(xs):
    try: xs.sort(key=lambda x: xs.append(x) or -x)
    except ValueError: return xs
)";

TEST(Effects, SortsCompareAsPythonDoes) {
  EXPECT_EQ(ValueOf("vs(sorted([B(3), B(1), B(2)], reverse=True))", kOrdered), "[3, 2, 1]");
  EXPECT_EQ(ValueOf("sorted(['bb', 'a', 'cc', 'd'], key=len, reverse=True)", kOrdered),
            "['bb', 'cc', 'a', 'd']");
  EXPECT_EQ(ValueOf("empty([1, 3, 2])", kOrdered), "[3, 2, 1]");
  EXPECT_EQ(ValueOf("growing([1, 3, 2])", kOrdered), "[3, 2, 1]");
  EXPECT_EQ(ValueOf("f(lambda: min(3, 1, 2, key=key))", kOrdered),
            "[1, [3, 1, (1, 3), 2, (2, 1)]]");
  EXPECT_THAT(ValueOf("f(lambda: sorted([N(2), N(1)]))", kOrdered),
              HasSubstr("a comparison changes something while items are sorted"));
  EXPECT_THAT(ValueOf("sorted([(float('nan'), 1), (2, 3)])", kOrdered),
              HasSubstr("a NaN is sorted"));
  EXPECT_THAT(ValueOf("f(lambda: max((log.append(0) or x for x in [1, 2]), key=key))", kOrdered),
              HasSubstr("a generator changes something, and so does what is done with its items"));
}

TEST(Effects, ASetHasNoFirstAmongEquals) {
  const std::string none;
  EXPECT_EQ(
      ValueOf("[sorted({3, 1, 2}), max({1, 2, 3}), sum({1, 2, 3}), min({'a', 'bc'}, key=len)]",
              none),
      "[[1, 2, 3], 3, 6, 'a']");
  for (const char* open : {"sorted({'ab', 'cd'}, key=len)", "max({'ab', 'cd'}, key=len)",
                           "min({'a', 'b', 'cd'}, key=len)"}) {
    EXPECT_THAT(ValueOf(open, none), HasSubstr("two items of a set have equal keys")) << open;
  }
  EXPECT_THAT(ValueOf("sum({0.1, 0.2, 0.3})", none),
              HasSubstr("the sum of a set that holds a float"));
}

// What an __eq__ changes is seen by who asks it.
TEST(Effects, ListsMayChangeWhileTheyAreCompared) {
  const std::string module =
      "L = [1, 2, 3]\nclass E:\n    def __eq__(self, o):\n        L.clear()\n        return False\n"
      "class F:\n    def __eq__(self, o):\n        if len(L) < 6: L.append(9)\n        return "
      "False\n"
      "def f(): return L == [E(), E(), 3], L\ndef g(): return L.count(F()), F() in L, L\n";
  EXPECT_EQ(ValueOf("f()", module), "(False, [])");
  EXPECT_EQ(ValueOf("g()", module), "(0, False, [1, 2, 3, 9, 9, 9])");
}

TEST(Effects, KeysAreWhatPythonHashes) {
  const std::string module =
      "from dataclasses import dataclass\nclass E:\n    def __eq__(self, o): return True\n"
      "class H(E):\n    def __hash__(self): return 1\n@dataclass\nclass D:\n    x: int = 0\n"
      "@dataclass(frozen=True)\nclass Z:\n    x: int = 0\nclass P: pass\np = P()\n"
      "def f():\n    try: return {E(): 1}\n    except TypeError: return 'unhashable'\n";
  EXPECT_EQ(ValueOf("[{Z(1): 2}[Z(1)], {p: 3}[p], P() in {p}, f()]", module),
            "[2, 3, False, 'unhashable']");
  EXPECT_THAT(ValueOf("{D(): 1}", module), HasSubstr("has an __eq__ and no __hash__"));
  EXPECT_THAT(ValueOf("{Z([1]): 1}", module), HasSubstr("a list as the key of a dict"));
  EXPECT_THAT(ValueOf("{H(): 1}", module), HasSubstr("which are not asked"));
  EXPECT_THAT(ValueOf("{}.setdefault([1], 2)", module), HasSubstr("a list as the key of a dict"));
}

TEST(Effects, SlotsAreAllThatThereIsRoomFor) {
  const std::string module =
      "from dataclasses import dataclass\nclass A:\n    __slots__ = ('x', '__p')\n"
      "    def put(self):\n        self.__p = 4\n        return self.__p\nclass B(A): pass\n"
      "class C(A): __slots__ = 'z'\n@dataclass(slots=True)\nclass D:\n    x: int = 3\n"
      "def put(o, v):\n    try: o.q = v\n    except AttributeError: return 'no'\n    return o.q\n"
      "def both():\n    c = C()\n    c.x, c.z = 1, 2\n    return c.x + c.z, c.put(), hasattr(c, "
      "'q')\n";
  EXPECT_EQ(ValueOf("[put(A(), 1), put(B(), 1), put(C(), 1), put(D(), 1), D().x, both()]", module),
            "['no', 1, 'no', 'no', 3, (3, 4, False)]");
  EXPECT_THAT(ValueOf("hasattr(A, 'x')", module), HasSubstr("a slot"));
  EXPECT_THAT(ValueOf("A()", "class A:\n    __slots__ = ('x',)\n    x = 1\n"),
              HasSubstr("whose body gives it a value"));
}

TEST(Effects, PrivateNamesAreOfTheirClass) {
  const std::string module =
      "class A:\n    __n = 3\n    def __init__(self): self.__x = 1\n"
      "    def get(self, *, __k=5): return self.__x, self.__n, f'{self.__x}', __k\n"
      "class B(A):\n    __n = 4\n    def __init__(self):\n        super().__init__()\n"
      "        self.__x = 2\n    def own(self): return self.__x, self.__n\n";
  EXPECT_EQ(ValueOf("[B().get(), B().own(), B()._A__x, hasattr(B(), '__x')]", module),
            "[(1, 3, '1', 5), (2, 4), 1, False]");
}

std::string Cached(const std::string& decorator, const std::string& calls) {
  return ValueOf("f()", absl::StrCat("import functools\nlog = []\n@functools.", decorator,
                                     "\ndef g(x, y=0):\n    log.append(x)\n    return [x]\n"
                                     "def f():\n    ",
                                     calls, "\n    return log\n"));
}

TEST(Effects, CachesForgetWhatWasUsedFirst) {
  EXPECT_EQ(Cached("lru_cache(maxsize=2)", "g(1); g(2); g(1); g(3); g(1); g(2)"), "[1, 2, 3, 2]");
  EXPECT_EQ(Cached("lru_cache", "[g(i) for i in range(129)]; g(0); del log[1:129]"), "[0, 0]");
  EXPECT_EQ(Cached("lru_cache()", "[g(i) for i in range(129)]; g(0); del log[1:129]"), "[0, 0]");
  EXPECT_EQ(Cached("cache", "[g(i) for i in range(300)]; g(0); del log[1:300]"), "[0]");
  EXPECT_EQ(Cached("lru_cache(0)", "g(1); g(1)"), "[1, 1]");
  EXPECT_EQ(Cached("lru_cache(None)", "g(1); g(1.0); g(True); g('a'); g(1)"), "[1, 1.0, 'a']");
  EXPECT_EQ(Cached("lru_cache(None, True)", "g(1); g(1.0); g(True); g(1)"), "[1, 1.0, True]");
  EXPECT_EQ(Cached("cache", "g(1); g(x=1); g(1, 0); g(1, y=0); g(1, 0)"), "[1, 1, 1, 1]");
}

TEST(Effects, TextBeyondAsciiIsNotCountedInBytes) {
  EXPECT_EQ(ValueOf("['n\u00e9' * 2 + 'x', '\u00e9' in 'n\u00e9', '\u00e9' < 'z', "
                    "'a\u00e9b'.split('\u00e9'), f'{\"\u00e9\"}']",
                    ""),
            "['n\u00e9n\u00e9x', True, False, ['a', 'b'], '\u00e9']");
  for (const char* counted :
       {"len('\u00e9')", "list('\u00e9')", "'\u00e9'[0]", "'\u00e9a'[1:]", "'\u00e9'.upper()",
        "f'{\"\u00e9\":>3}'", "'%3s' % '\u00e9'", "'\u00e9'.center(5)", "'a\u00e9b'.find('b')",
        "'\u00e9'.count('')", "'\u00a0x'.strip()", "'a\u00a0b'.split()", "int('\u0663')",
        "repr('\u0080')", "str(['\u0080'])", "sorted('\u00e9')"}) {
    EXPECT_THAT(ValueOf(counted, ""), HasSubstr("with characters")) << counted;
  }
}

TEST(Effects, TextIsPythonsOrRefused) {
  const std::string module =
      "import collections\nclass A: pass\ndef g():\n    r = yield from h()\n    yield r\n"
      "def h():\n    yield 1\n    return 7\ndef text(x):\n    made = str(x)\n    return made\n"
      "def caught():\n    try: raise TypeError(f'{A} {text}')\n    except TypeError: return 'ok'\n";
  EXPECT_EQ(
      ValueOf("[list(g()), text(frozenset()), text(...), text(['\\t\\x00']), caught()]", module),
      R"([[1, 7], 'frozenset()', 'Ellipsis', "['\\t\\x00']", 'ok'])");
  for (const char* unknown : {"text(A)", "text(int)", "text(len)", "text(A())", "text([text])",
                              "text(collections.defaultdict(list))"}) {
    EXPECT_THAT(ValueOf(unknown, module), HasSubstr("the text of ")) << unknown;
  }
}

// What a kernel with this body is refused for.
std::string Refusal(const std::string& body) {
  const std::string module =
      "@T.macro\ndef inc(v: T.Ref):\n    v = v + 1\n    return v\n"
      "@T.macro\ndef put(a, b):\n    pass\n@T.macro\ndef by(a: T.Ref, b):\n    a = b\n";
  const auto d = DiagnosticOf(
      ElaborateText(InKernel("v = T.alloc_var(T.int32)\nx = T.alloc_local((4,), T.int32)\n" + body,
                             "", module))
          .status());
  return d.has_value() ? d->message : "none";
}

// What was read before a macro of the same expression changed it would be read behind that.
TEST(Effects, AnExpressionDoesNotChangeWhatItRead) {
  for (const char* stale :
       {"x[0] = v + inc(v)\n", "put(v, inc(v))\n", "y = [v + 1, inc(v)]\n", "v += inc(v)\n",
        "x[0] += inc(x[0])\n", "y = T.max(x[1], inc(x[1]))\n", "if v < inc(v):\n    x[0] = 1\n",
        "x[inc(v)] = v + 1\n", "y = {1: v, 2: inc(v)}\n", "y = x[v:inc(v)]\n"}) {
    EXPECT_THAT(Refusal(stale), HasSubstr("changed by what the same expression calls later"))
        << stale;
  }
  EXPECT_EQ(Refusal("x[0] = inc(v) + v\n"), "none");
  EXPECT_EQ(Refusal("by(v, inc(v))\n"), "none");
  EXPECT_EQ(Refusal("x[0] = v + inc(x[0])\n"), "none");
}

TEST(Effects, SchedulersTakeCountsOnce) {
  const auto made = [](const std::string& arguments) {
    return Refusal(absl::StrCat("s = T.PersistentTileScheduler(", arguments, ")\n"));
  };
  EXPECT_EQ(made("4, 3, num_workers=2"), "none");
  EXPECT_THAT(made("4, 3, num_m_tiles=5, num_workers=2"),
              HasSubstr("'num_m_tiles' of the scheduler"));
  EXPECT_THAT(made("-4, 3, num_workers=2"), HasSubstr("at least 0"));
  EXPECT_THAT(made("4, 2.5, num_workers=2"), HasSubstr("are integers"));
  EXPECT_THAT(made("4, 3, num_workers=1.5"), HasSubstr("num_workers is an integer"));
}

}  // namespace
}  // namespace kiln::lang
