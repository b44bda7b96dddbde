// Python's plain code around kernels: decorators of the file, functions that return compiled
// kernels, what config functions and factories use of the language and its library.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/lang/lang_test_util.h"

namespace kiln::lang {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr char kImports[] =
    "import collections\nimport functools\nimport itertools\nimport logging\nimport os\nimport "
    "warnings\n"
    "import pytest\nimport tilelang\nimport tilelang.language as T\nimport tilelang.testing\n";

// A factory's body that copies N floats, and what stands before it.
std::string Factory(const std::string& before, const std::string& returned = "main",
                    const std::string& body = "") {
  return absl::StrCat(kImports, before, "def k(N=64):\n", body,
                      "    @T.prim_func\n    def main(A: T.Tensor((N,), 'float32'), "
                      "B: T.Tensor((N,), 'float32')):\n        with T.Kernel(1, threads=32):\n"
                      "            T.copy(A, B)\n    return ",
                      returned, "\n");
}

// Which parameters are outputs: "A:0 B:1", or the error.
std::string Outputs(const std::string& text, const std::string& entry = "") {
  const absl::StatusOr<ir::Program> program = ElaborateText(text, {}, "", entry);
  if (!program.ok()) return std::string(program.status().message());
  std::string said;
  for (const ir::Param& param : program->params) {
    absl::StrAppend(&said, said.empty() ? "" : " ", param.name, ":", param.is_output ? 1 : 0);
  }
  for (const auto& [key, value] : program->attrs) absl::StrAppend(&said, " ", key, "=", value);
  return said;
}

TEST(PythonAround, AFunctionMayReturnWhatItCompiled) {
  EXPECT_EQ(Outputs(Factory("", "tilelang.compile(main, out_idx=[-1])")), "A:0 B:1");
  EXPECT_EQ(Outputs(Factory("",
                            "tilelang.compile(main, [0], target='cuda', "
                            "pass_configs={'tl.enable_fast_math': True})")),
            "A:1 B:0 tl.enable_fast_math=true");
  EXPECT_EQ(Outputs(Factory("", "tilelang.jit(main, out_idx=1, verbose=True)")), "A:0 B:1");
  const std::string later =
      absl::StrCat(Factory(""),
                   "def compiled():\n    kernel = tilelang.compile(func=k(32), out_idx=-1)\n"
                   "    return kernel\n");
  EXPECT_EQ(Outputs(later, "compiled"), "A:0 B:1");
  EXPECT_THAT(Outputs(Factory("", "tilelang.compile(k, out_idx=1)")),
              testing::AllOf(HasSubstr("tilelang.compile takes a function under @T.prim_func"),
                             HasSubstr("help: call the function")));
  EXPECT_THAT(Outputs(Factory("", "tilelang.compile(main, outidx=1)")),
              HasSubstr("did you mean 'out_idx'?"));
  EXPECT_THAT(Outputs(Factory("", "tilelang.jit(3)")), HasSubstr("takes a function, not"));
}

TEST(PythonAround, ANameOrWrapperMayStandForJit) {
  for (const char* before :
       {"my_jit = functools.partial(tilelang.jit, out_idx=[-1])\n@my_jit\n",
        "JIT = tilelang.jit(out_idx=[-1])\n@JIT\n",
        "def my_jit(f=None, **more):\n    options = dict(out_idx=[-1])\n    options.update(more)\n"
        "    if f is None:\n        return lambda g: tilelang.jit(g, **options)\n"
        "    return tilelang.jit(f, **options)\n@my_jit\n",
        "OPTIONS = {'out_idx': [-1]}\n@tilelang.jit(**OPTIONS)\n"}) {
    EXPECT_EQ(Outputs(Factory(before)), "A:0 B:1") << before;
  }
  EXPECT_THAT(Outputs(Factory("JIT = tilelang.jit(outidx=[-1])\n@JIT\n"), "k"),
              HasSubstr("did you mean 'out_idx'?"));
}

TEST(PythonAround, DecoratorsOfTheEntryThatAreForItsCallers) {
  const std::string logged =
      "def logged(f):\n    @functools.wraps(f)\n    def w(*a, **k):\n        print('call')\n"
      "        return f(*a, **k)\n    return w\n@logged\n@tilelang.jit(out_idx=[-1])\n";
  EXPECT_EQ(Outputs(Factory(logged)), "A:0 B:1");
  EXPECT_EQ(Outputs(Factory("@pytest.mark.slow\n@tilelang.testing.requires_cuda\n"
                            "@tilelang.jit(out_idx=[-1])\n")),
            "A:0 B:1");
  EXPECT_THAT(Outputs(Factory("@tilelang.jitt\n"), "k"), HasSubstr("did you mean 'jit'?"));
}

// In a helper it means what it means in Python.
TEST(PythonAround, DecoratorsOfHelpersAreCalled) {
  const std::string module =
      "def twice(f):\n    return lambda *a: f(*a) * 2\n"
      "def plus(n):\n    def made(f):\n        def inner(x):\n            return f(x) + n\n"
      "        return inner\n    return made\n"
      "@plus(5)\n@twice\ndef helper(x):\n    return x + 1\n";
  EXPECT_THAT(Elaborated(InKernel("v[0] = helper(3)", "", module)), HasSubstr("v[0] = 13"));
}

TEST(PythonAround, KernelsOfTestsAreEntries) {
  const std::string text = absl::StrCat(
      kImports,
      "@tilelang.testing.requires_cuda\n@pytest.mark.parametrize('M', [64, 32])\n"
      "def test_copy(M=16):\n    @T.prim_func\n    def main(A: T.Tensor((M,), 'float32')):\n"
      "        with T.Kernel(1, threads=32):\n            T.clear(A)\n"
      "    kernel = tilelang.compile(main)\n    assert kernel is not None\n");
  const auto names = Kernel::List(MakeSource(text));
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_THAT(*names, ElementsAre("test_copy.main"));
  EXPECT_EQ(Outputs(text), "A:0");
}

// The value of an expression where functions run as Python, or the error.
std::string ValueOf(const std::string& expr, const std::string& module = "") {
  const std::string text = Factory(absl::StrCat(module, "@tilelang.jit\n"), "main",
                                   absl::StrCat("    z = ", expr, "\n    assert False, repr(z)\n"));
  const auto d = DiagnosticOf(ElaborateText(text).status());
  if (!d) return "no diagnostic";
  const size_t at = d->message.find("assertion failed: ");
  return at == std::string::npos ? absl::StrCat(d->message, " | ", d->remedy)
                                 : d->message.substr(at + 18);
}

TEST(PythonAround, SetsTellWhatIsInThem) {
  const std::pair<const char*, const char*> kCases[] = {
      {"[2 in {1, 2}, 3 not in {1, 2}, 'a' in set('abc'), T.float16 in {'float16'}]",
       "[True, True, True, True]"},
      {"[len({1, 1, 2}), len(set([3, 3])), bool(set()), sum({1, 2}), max({3, 1})]",
       "[2, 1, False, 3, 3]"},
      {"sorted({3, 1} | {2} - {3})", "[1, 2, 3]"},
      {"[{1, 2} == {2, 1}, {1} < {1, 2}, {1} <= {1}, {1} < {1}, {1, 2} == (1, 2)]",
       "[True, True, True, False, False]"},
      {"sorted({x % 3 for x in range(9)} ^ frozenset([0, 7]))", "[1, 2, 7]"},
      {"[isinstance({1}, set), isinstance((1,), set), {1}, set()]", "[True, False, {1}, set()]"},
      {"[x for x in {1, 2}]",
       "a set has no order in which its items come | use sorted(...) of it, or a tuple or list in "
       "its place"},
  };
  for (const auto& [expr, expected] : kCases) EXPECT_EQ(ValueOf(expr), expected) << expr;
  // In place: who else names it sees it.
  EXPECT_EQ(
      ValueOf("f()",
              "def f():\n    a = {1}\n    b = a\n    c = d = frozenset([1])\n    a |= {2}\n"
              "    c |= {2}\n    a.add(3)\n    a.discard(9)\n    return [sorted(b), sorted(d)]\n"),
      "[[1, 2, 3], [1]]");
  EXPECT_THAT(Elaborated(InKernel("if n in {3, 5}:\n    v[0] = 1")),
              HasSubstr("if n == 3 or n == 5"));
}

TEST(PythonAround, DictsOfEveryKind) {
  const std::pair<const char*, const char*> kCases[] = {
      {"{'a': 1, 'b': 2} | {'b': 3}", "{'a': 1, 'b': 3}"},
      {"collections.OrderedDict([('a', 1)], b=2)", "{'a': 1, 'b': 2}"},
      {"(lambda d: (d['x'].append(3), d['x'], 'y' in d, len(d)))(collections.defaultdict(list))",
       "(None, [3], False, 1)"},
      {"(lambda d: (d.update({'a': 1}, b=2), d.update(c=3), d))({})[-1]",
       "{'a': 1, 'b': 2, 'c': 3}"},
      {"collections.defaultdict(int, {'a': 1})['a'] + collections.defaultdict(int)['z']", "1"},
      {"[ord('A'), chr(98)]", "[65, 'b']"},
      {"list(itertools.combinations([1, 2, 3], 2))", "[(1, 2), (1, 3), (2, 3)]"},
      {"list(itertools.permutations((1, 2)))", "[(1, 2), (2, 1)]"},
      {"[*itertools.combinations([1], 2), *itertools.permutations('ab', 0)]", "[()]"},
      {"collections.defaultdict()['a']", "the dict has no key 'a' | check the key"},
  };
  for (const auto& [expr, expected] : kCases) EXPECT_EQ(ValueOf(expr), expected) << expr;
}

TEST(PythonAround, GeneratorsAndNamesInExpressions) {
  const std::string module =
      "def steps(n):\n    for i in range(n):\n        if i == 3:\n            return\n"
      "        yield {'block': i}\n    yield from ()\n"
      "def both(n):\n    yield from steps(n)\n    yield\n"
      "def half(x):\n    if (h := x // 2) > 3:\n        return h\n"
      "    ys = [y for z in range(3) if (y := z * 2) > 0]\n    return [h, ys, y]\n"
      "def same[T: int](x: list[T]) -> T:\n    return x[0]\nclass Box[T]:\n    v = 3\n";
  EXPECT_EQ(ValueOf("list(steps(2))", module), "[{'block': 0}, {'block': 1}]");
  EXPECT_EQ(ValueOf("[len(list(both(9))), sum(c['block'] for c in steps(9))]", module), "[4, 3]");
  EXPECT_EQ(ValueOf("[half(20), half(4)]", module), "[10, [2, [2, 4], 4]]");
  EXPECT_EQ(ValueOf("same([4]) + Box.v", module), "7");
}

// An iterator gives its items once, and Python computes them when they are taken.
TEST(PythonAround, IteratorsGiveTheirItemsOnce) {
  const std::string before =
      "L = [3, 1, 2]\nD = {'a': 1}\ndef gen():\n    for x in L:\n        yield x\n";
  const char* kOnce[] = {"zip(L, L)",
                         "map(str, L)",
                         "filter(None, L)",
                         "enumerate(L)",
                         "reversed(L)",
                         "(x + 1 for x in L)",
                         "gen()",
                         "itertools.chain(L, L)",
                         "itertools.product(L, L)",
                         "itertools.combinations(L, 2)"};
  for (const std::string made : kOnce) {
    const std::string head = absl::StrCat(before, "def f():\n    g = ", made, "\n    n = 0\n");
    EXPECT_EQ(ValueOf("f()", absl::StrCat(head, "    return len(list(g)) > 2\n")), "True") << made;
    for (const char* twice :
         {"    return [list(g), list(g)]\n", "    return [7 in g, sum(1 for x in g)]\n",
          "    for x in g:\n        pass\n    a, *b = g\n    return b\n"}) {
      EXPECT_THAT(ValueOf("f()", head + twice), HasSubstr("an iterator is used again")) << made;
    }
    EXPECT_THAT(ValueOf("f()", absl::StrCat(head, "    return len(g)\n")),
                HasSubstr("an iterator has no length"))
        << made;
    const bool keeps = absl::StrContains(made, "product") || absl::StrContains(made, "combin");
    for (const char* change : {"    L.append(9)\n", "    n = 3\n", "    D['b'] = 2\n"}) {
      const std::string text = absl::StrCat(head, change, "    return len(list(g)) > 2\n");
      EXPECT_THAT(ValueOf("f()", text), keeps ? HasSubstr("True") : HasSubstr("was changed"))
          << text;
    }
  }
  for (const char* view : {"D.keys()", "D.values()", "D.items()"}) {
    const std::string head = absl::StrCat(before, "def f():\n    g = ", view, "\n");
    EXPECT_EQ(ValueOf("f()", absl::StrCat(head, "    return [len(g), len(list(g)), len(g)]\n")),
              "[1, 1, 1]");
    for (const char* use : {"len(g)", "len(list(g))", "1 + bool(g)"}) {  // what it holds by now
      EXPECT_EQ(ValueOf("f()", absl::StrCat(head, "    D['b'] = 2\n    return ", use, "\n")), "2");
    }
  }
  EXPECT_EQ(ValueOf("list(itertools.product(map(int, '12'), repeat=2))"),
            "[(1, 1), (1, 2), (2, 1), (2, 2)]");
}

// Neither is a list, whatever it holds.
TEST(PythonAround, ViewsAndIteratorsAreNoLists) {
  const auto of = [](const std::string& value) {
    return ValueOf("f()", absl::StrCat("D = {'a': 1}\ndef f():\n    return ", value, "\n"));
  };
  EXPECT_EQ(of("[bool(zip([], [])), bool(x for x in []), bool({}.keys()), bool(D.items())]"),
            "[True, True, False, True]");
  EXPECT_EQ(of("[D.keys() == D.keys(), D.values() == D.values(), D.items() == {('a', 1)}]"),
            "[True, False, True]");
  EXPECT_EQ(of("[D.keys() == ['a'], zip([1]) == zip([1]), isinstance(zip([1]), list)]"),
            "[False, False, False]");
  EXPECT_EQ(of("[sorted(D.keys() | {'b'}), sorted(D.keys() - {'a'}), D.keys() < {'a', 'b'}]"),
            "[['a', 'b'], [], True]");
  EXPECT_EQ(of("[D.keys(), D.values(), D.items()]"),
            "[dict_keys(['a']), dict_values([1]), dict_items([('a', 1)])]");
  const std::pair<const char*, const char*> kNoList[] = {
      {"D.keys()[0]", "cannot be indexed"},
      {"zip([1])[0]", "cannot be indexed"},
      {"D.items() + [1]", "no operator '+'"},
      {"[1] + zip([1])", "no operator '+'"},
      {"D.keys().append('b')", "no attribute 'append'"},
      {"map(str, [1]).index('1')", "no attribute 'index'"},
      {"{zip([1]): 2}", "as the key of a dict"},
      {"str(zip([1]))", "the text of an iterator"},
      {"[repr([map(str, [1])])]", "the text of an iterator"},
      {"len(map(max, [1], [2]))", "an iterator has no length"}};
  for (const auto& [wrong, why] : kNoList) EXPECT_THAT(of(wrong), HasSubstr(why)) << wrong;
  EXPECT_THAT(of("list(zip([1, 2], [3], strict=True))"), HasSubstr("2 items beside 1"));
}

// What an item holds is what it held when it was taken.
TEST(PythonAround, ItemsDoNotShareWhatTheirGeneratorChanges) {
  const std::string module =
      "def grow():\n    xs = []\n    for i in range(3):\n        xs.append(i)\n        yield xs\n"
      "def late():\n    for i in range(3):\n        yield lambda: i\n"
      "def whole():\n    xs = [1, 2]\n    for x in xs:\n        yield xs, x\n"
      "def fresh():\n    for i in range(2):\n        xs = [i]\n        xs.append(i)\n        yield "
      "xs\n";
  EXPECT_EQ(ValueOf("[x for x in list(grow())][0]", module), "[0, 1, 2]");
  EXPECT_EQ(ValueOf("[len(xs) + x for xs, x in whole()]", module), "[3, 4]");
  EXPECT_EQ(ValueOf("[xs for xs in fresh()]", module), "[[0, 0], [1, 1]]");
  EXPECT_EQ(ValueOf("[g() for g in list(lambda: i for i in range(2))]", module), "[1, 1]");
  for (const char* shared : {"[len(xs) for xs in grow()]", "[g() for g in late()]",
                             "[g() for g in (lambda: i for i in range(2))]"}) {
    EXPECT_THAT(ValueOf(shared, module), HasSubstr("gives items that share")) << shared;
  }
}

// += and *= of a list change it, whoever else names it.
TEST(PythonAround, ListsAreUpdatedInPlace) {
  const auto after = [](const std::string& update) {
    return ValueOf("f()", absl::StrCat("class C:\n    pass\ndef f():\n    L, c = [1], C()\n"
                                       "    d, c.a, M = {'k': L}, L, L\n    ",
                                       update, "\n    return L\n"));
  };
  EXPECT_EQ(after("M += (2,)"), "[1, 2]");
  EXPECT_EQ(after("M *= 2"), "[1, 1]");
  EXPECT_EQ(after("d['k'] += [2]"), "[1, 2]");
  EXPECT_EQ(after("d['k'] *= 3"), "[1, 1, 1]");
  EXPECT_EQ(after("c.a += [2]"), "[1, 2]");
  EXPECT_EQ(after("M = M + [2]"), "[1]");
  EXPECT_EQ(after("L.extend([x + 1 for x in L])"), "[1, 2]");
  EXPECT_EQ(after("L[:] = (x + 1 for x in L)"), "[2]");
  for (const char* endless : {"L += (x for x in L)", "L.extend(map(str, L))", "M += zip(L)"}) {
    EXPECT_THAT(after(endless), HasSubstr("goes over what is changed by that")) << endless;
  }
}

// What an iterator's items are computed from may not change before they are taken, nor may they
// change anything themselves, unless all are taken at once.
TEST(PythonAround, IteratorsKnowWhatTheyRead) {
  const auto run = [](const std::string& iterable, const std::string& body) {
    return ValueOf(
        "f()",
        absl::StrCat("class C:\n    k = 1\n    def each(self):\n        for x in self.items:\n"
                     "            yield x * self.k\ndef gen(d):\n    for k in d:\n        yield k\n"
                     "def more(L):\n    yield from gen(L)\n    yield len(L)\n"
                     "def f():\n    L, D, out, n, c = [1, 2], {1: 3, 2: 4}, [], 5, C()\n"
                     "    c.items, c.last = L, 0\n    def plus(x):\n        return x + n\n"
                     "    for x in ",
                     iterable, ":\n        ", body, "\n        out.append(x)\n    return out\n"));
  };
  EXPECT_EQ(run("(y for y in L)", "D[1] = 8"), "[1, 2]");
  EXPECT_EQ(run("gen(L)", "n += 1"), "[1, 2]");
  EXPECT_EQ(run("c.each()", "c.last = x"), "[1, 2]");
  EXPECT_EQ(run("map(plus, L)", "c.last = x"), "[6, 7]");
  const std::pair<const char*, const char*> kOthers[] = {
      {"(y for y in L)", "L[1] = 9"},
      {"(y for y in L)", "L.append(4) if x < 2 else 0"},
      {"gen(D)", "D[2] = 8"},
      {"more(L)", "L[1] = 9"},
      {"(y + n for y in L)", "n += 1"},
      {"map(plus, L)", "n += 1"},
      {"(plus(y) for y in L)", "n = 7"},
      {"c.each()", "c.k = 4"},
      {"c.each()", "C.k = 4"},
      {"(str(c.items) for y in L)", "L[0] = 3"},
      {"(y for y in gen(L))", "L[1] = 9"},
      {"filter(lambda y: y in L, [1, 2])", "L.append(3)"},
      {"enumerate(y for y in L)", "L[1] = 9"}};
  for (const auto& [iterable, body] : kOthers) {
    EXPECT_THAT(run(iterable, body), HasSubstr("others in Python")) << iterable << " " << body;
  }
  const auto value = [](const std::string& body) {
    return ValueOf("f()", absl::StrCat("def f():\n    L = [4, 5, 6]\n    ", body, "\n"));
  };
  EXPECT_EQ(value("return [sum(L.pop() for _ in L[:2]), L]"), "[11, [4]]");
  EXPECT_EQ(value("return [max((y := x) for x in L), y]"), "[6, 6]");
  for (const char* lost :
       {"map(L.append, [1])\n    return L", "g = (L.pop() for _ in [1])\n    return L",
        "return [any((y := x) > 4 for x in L), y]"}) {
    EXPECT_THAT(value(lost), HasSubstr("changes what was made outside of it")) << lost;
  }
}

// What was done before the error stays done, and `finally` comes last.
TEST(PythonAround, AnExceptIsFollowedAsInPython) {
  const auto run = [](const std::string& body) {
    return ValueOf("f()", absl::StrCat("def f():\n    out, e = [], 1\n", body, "    return out\n"));
  };
  EXPECT_EQ(
      run("    try:\n        out.append(1)\n        out.append([][0])\n    except IndexError:\n"
          "        out.append(2)\n    else:\n        out.append(3)\n    finally:\n"
          "        out.append(4)\n"),
      "[1, 2, 4]");
  EXPECT_EQ(run("    for x in [0, 2, 1]:\n        try:\n            out.append(4 // x)\n"
                "        except ZeroDivisionError:\n            continue\n        finally:\n"
                "            out.append(x)\n        if x == 2:\n            break\n"),
            "[0, 2, 2]");
  EXPECT_EQ(
      run("    try:\n        try:\n            raise KeyError('k')\n        except ValueError:\n"
          "            out.append(1)\n        finally:\n            out.append(2)\n"
          "    except KeyError:\n        out.append(3)\n"),
      "[2, 3]");
  EXPECT_EQ(
      run("    try:\n        try:\n            raise KeyError('k')\n        except KeyError:\n"
          "            out.append(1)\n            raise\n    except LookupError:\n"
          "        out.append(3)\n"),
      "[1, 3]");
  EXPECT_THAT(run("    try:\n        [][1]\n    except IndexError as e:\n        pass\n"
                  "    out.append(e)\n"),
              HasSubstr("'e' is read before it has a value"));
  EXPECT_THAT(
      run("    try:\n        [][1]\n    except IndexError as e:\n        out.append(str(e))\n"),
      HasSubstr("an exception has no value in kernels"));
  EXPECT_EQ(
      run("    try:\n        [][1]\n    except IndexError as e:\n        print(f'no: {e}')\n"),
      "[]");
}

// What has effects has them in Python's order.
TEST(PythonAround, WhatIsEvaluatedFirst) {
  const std::string note =
      "LOG = []\ndef note(x):\n    LOG.append(x)\n    return x\n"
      "def deco(n):\n    note(n)\n    def apply(f):\n        note(-n)\n        return f\n    "
      "return apply\n";
  const auto after = [&](const std::string& body) {
    return ValueOf("f()", absl::StrCat(note, "def f():\n", body, "    return LOG\n"));
  };
  EXPECT_EQ(after("    {note(1): note(2), **{note(3): note(4)}, note(5): note(6)}\n"),
            "[1, 2, 3, 4, 5, 6]");
  EXPECT_EQ(after("    {note(i): note(i + 5) for i in range(2)}\n"), "[0, 5, 1, 6]");
  EXPECT_EQ(after("    @deco(1)\n    @deco(2)\n    def g(a=note(3)):\n        pass\n"),
            "[1, 2, 3, -2, -1]");
  EXPECT_EQ(after("    x = 1\n    class K:\n        y = note(x)\n    x = 2\n    note(K.y)\n"),
            "[1, 1]");
  EXPECT_EQ(after("    try:\n        class K:\n            y = {}['k']\n    except KeyError:\n"
                  "        note(4)\n"),
            "[4]");
  EXPECT_EQ(after("    d = {(0, 1): 2}\n    d[note(1), 2] = note(3)\n    d[1, 2] += 4\n"
                  "    del d[0, 1]\n    note(d[1, 2] + len(d))\n"),
            "[3, 1, 8]");
}

// functools: what is kept is the object that was made first.
TEST(PythonAround, CachesKeepWhatTheyMade) {
  const std::string module =
      "import functools\n@functools.lru_cache(maxsize=None)\ndef sizes(n, k=1):\n    return [n]\n"
      "@functools.cache\ndef fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\n"
      "class A:\n    n = 1\n    @functools.cached_property\n    def kept(self): return [self.n]\n"
      "def f():\n    sizes(1).append(2)\n    a = A()\n    a.kept.append(5)\n    a.n = 7\n"
      "    return [sizes(1), sizes(2), sizes(1, k=1), sizes(1) is sizes(1), a.kept, A().kept]\n"
      "def deco(g):\n    @functools.wraps(g)\n    def inner(): return g()\n    return inner\n"
      "@deco\ndef named(): pass\n";
  EXPECT_EQ(ValueOf("f()", module), "[[1, 2], [2], [1], True, [1, 5], [1]]");
  EXPECT_EQ(ValueOf("[fib(60), named.__name__]", module), "[1548008755920, 'named']");
}

TEST(PythonAround, LengthsAndTruthsAreWhatPythonTakes) {
  const auto of = [](const std::string& method, const std::string& value) {
    return ValueOf(value, absl::StrCat("class B:\n    def ", method, "\n"));
  };
  EXPECT_THAT(of("__len__(self): return -1", "len(B())"), HasSubstr("__len__ gives -1, which is"));
  EXPECT_THAT(of("__len__(self): return -1", "bool(B())"), HasSubstr("__len__ gives -1, which is"));
  EXPECT_THAT(of("__len__(self): return 1.0", "len(B())"), HasSubstr("__len__ gives a float"));
  EXPECT_EQ(of("__len__(self): return True", "[len(B()), bool(B())]"), "[1, True]");
  EXPECT_THAT(of("__bool__(self): return 3", "1 if B() else 2"),
              HasSubstr("__bool__ gives an integer, not True or False"));
  EXPECT_THAT(of("__bool__(self): return None", "not B()"), HasSubstr("__bool__ gives None"));
  EXPECT_EQ(of("__bool__(self): return False", "not B()"), "True");
}

// Python's containers take the same object for equal, whatever == says; of a NaN no one knows which
// object it is.
TEST(PythonAround, ContainersCompareObjectsFirst) {
  const std::string never =
      "class N:\n    def __eq__(self, o): return False\nn, x = N(), float('nan')\n";
  EXPECT_EQ(ValueOf("[n in [n], [n] == [n], n == n, (1, n) == (1, n), [n].count(n), [n].index(n)]",
                    never),
            "[True, True, False, True, 1, 0]");
  EXPECT_EQ(ValueOf("[x == x, x != x, x in [1.0], [x, 1].index(1), x in {1, 2}]", never),
            "[False, True, False, 1, False]");
  for (const char* unknown : {"x in [x]", "[x] == [x]", "(1, x) == (1, x)", "{x: 1}[x]",
                              "len({x, x})", "[x].count(x)", "x is x"}) {
    EXPECT_THAT(ValueOf(unknown, never), HasSubstr("a NaN is compared with a NaN")) << unknown;
  }
  EXPECT_THAT(ValueOf("sorted([2.0, x, 1.0])", never), HasSubstr("a NaN is sorted"));
}

// Of data an attribute may be there in Python that the language does not have.
TEST(PythonAround, WhatDataHasIsKnownOrNot) {
  EXPECT_EQ(ValueOf("[hasattr('a', 'upper'), hasattr([], 'shape'), getattr(3, 'x', 4)]"),
            "[True, False, 4]");
  EXPECT_EQ(ValueOf("[hasattr('a', 'index'), hasattr((1,), 'append'), hasattr({}, 'add'), "
                    "hasattr(1.5, 'hex'), hasattr(True, 'hex'), getattr((1,), 'isdisjoint', 3)]"),
            "[True, False, False, True, False, 3]");
  for (const char* unknown : {"hasattr({}, '__reversed__')", "hasattr([], '__len__')"}) {
    EXPECT_THAT(ValueOf(unknown), HasSubstr("is not known to kernels")) << unknown;
  }
}

TEST(PythonAround, AnAssertsMessageMayFailToo) {
  EXPECT_THAT(ValueOf("f(0)", "def f(n):\n    assert n, f'{1 // n}'\n"),
              HasSubstr("assertion failed, and its message fails too: division by zero"));
}

// A loop whose body changes what it goes over sees what Python's sees, or is refused.
TEST(PythonAround, LoopsSeeWhatTheirBodiesChange) {
  const auto run = [](const std::string& iterable, const std::string& body) {
    return ValueOf("f()", absl::StrCat("def f():\n    L, M, D, out = [1, 2, 3], [4, 5, 6], "
                                       "{'a': 1, 'b': 2}, []\n    for x in ",
                                       iterable, ":\n        ", body,
                                       "\n        out.append(x)\n    return out\n"));
  };
  EXPECT_EQ(run("L", "L[2] = 10"), "[1, 2, 10]");
  EXPECT_EQ(run("L", "L[0] = 10"), "[1, 2, 3]");
  EXPECT_EQ(run("D", "D['b'] = 9"), "['a', 'b']");
  EXPECT_EQ(run("D.keys()", "D['b'] = 9"), "['a', 'b']");
  EXPECT_EQ(run("enumerate(D)", "D['b'] = 9"), "[(0, 'a'), (1, 'b')]");
  EXPECT_THAT(run("D.keys()", "D['c'] = 9"), HasSubstr("while a loop goes over"));
  EXPECT_EQ(run("enumerate(L)", "L[x[0]] = 9"), "[(0, 1), (1, 2), (2, 3)]");
  EXPECT_EQ(run("zip(L, M)", "D['b'] = 9"), "[(1, 4), (2, 5), (3, 6)]");
  EXPECT_EQ(run("D.items()", "D[x[0]] = 9"), "[('a', 1), ('b', 2)]");
  EXPECT_EQ(run("zip(L, M)", "M[1] = 5"), "[(1, 4), (2, 5), (3, 6)]");
  EXPECT_EQ(run("list(zip(L, M))", "M[2] = 9"), "[(1, 4), (2, 5), (3, 6)]");
  for (const char* iterable : {"zip(L, M)", "enumerate(M)", "map(str, M)", "filter(None, M)",
                               "reversed(M)", "itertools.chain(L, M)"}) {
    for (const char* body : {"M[1] = 9 + len(out)", "M.append(1)"}) {
      EXPECT_THAT(run(iterable, body), HasSubstr("while a loop goes over")) << iterable << body;
    }
  }
  for (const char* view : {"D.items()", "D.values()"}) {
    EXPECT_THAT(run(view, "D['b'] = 9"), HasSubstr("while a loop goes over")) << view;
  }
  EXPECT_EQ(
      ValueOf("f()",
              "def f():\n    L = [1, 2]\n    return [(L.pop(), L.append(7), x)[2] for x in L]\n"),
      "[1, 7]");
}

TEST(PythonAround, GeneratorsThatChangeWhatOthersSeeAreRefused) {
  const std::string wanted = "the generator 'gen' changes what was made outside of it";
  const std::string before = "class C:\n    n = 0\nL, D, O = [], {}, C()\n";
  for (const char* change : {"L.append(1)", "D['a'] = 1", "O.n = 2", "put(L)"}) {
    EXPECT_THAT(ValueOf("[x for x in gen()]",
                        absl::StrCat(before,
                                     "def put(x):\n    x.append(1)\ndef gen():\n    yield 1\n"
                                     "    ",
                                     change, "\n")),
                HasSubstr(wanted))
        << change;
  }
  EXPECT_EQ(ValueOf("[list(gen()), L]",
                    before + "def gen():\n    L.append(1)\n    yield 2\n    L.append(3)\n"),
            "[[2], [1, 3]]");
  // What it makes itself it may change.
  EXPECT_EQ(
      ValueOf("[list(gen()), L]",
              before + "def inner(o):\n    o.n += 1\n    yield o.n\ndef gen():\n    own, o = [], "
                       "C()\n    for i in range(2):\n        own.append(i)\n        o.n = i\n"
                       "        yield list(own)\n"),
      "[[[0], [0, 1]], []]");
}

TEST(PythonAround, BodiesOfClassesAreNotSeenFromWithin) {
  const std::string module =
      "x = 10\nclass A:\n    x = 5\n    items = [1, 2]\n    L = [x for i in items]\n"
      "    M = [i + x for i in items if i < x]\n    f = lambda: x\n    N = x + 1\n";
  EXPECT_EQ(ValueOf("[A.L, A.M, A.f(), A.N]", module), "[[10, 10], [11, 12], 10, 6]");
}

TEST(PythonAround, MethodsThatChangeHowObjectsWorkAreRefused) {
  for (const std::string name : {"__new__", "__setattr__", "__getattr__", "__init_subclass__"}) {
    EXPECT_THAT(
        ValueOf("A()", absl::StrCat("class A:\n    def ", name, "(self, *a):\n        pass\n")),
        HasSubstr(absl::StrCat("the method '", name, "' of the class 'A'")));
  }
  EXPECT_THAT(ValueOf("str([A()])", "class A:\n    def __repr__(self):\n        return 'A'\n"),
              HasSubstr("the text of a container whose items have a __repr__"));
}

TEST(PythonAround, RangesAreShownByTheirBounds) {
  EXPECT_EQ(ValueOf("f'{range(3)} {range(1, 9, 2)!r}' + str([range(4, 0, -1)])"),
            "'range(0, 3) range(1, 9, 2)[range(4, 0, -1)]'");
}

TEST(PythonAround, IntegersAndFloatsCompareExactly) {
  const std::pair<const char*, const char*> kCases[] = {
      {"[9007199254740993 == 9007199254740992.0, 9007199254740993 > 9007199254740992.0]",
       "[False, True]"},
      {"[9007199254740992.0 < 9007199254740993, 9007199254740993 in [9007199254740992.0]]",
       "[True, False]"},
      {"[2 == 2.0, 2 < 2.5, -2 > -2.5, 3 <= 2.5, 2.5 >= 3, True == 1.0]",
       "[True, True, True, False, False, True]"},
      {"[1 < float('inf'), 1 > float('-inf'), 1 == float('nan'), 1 < float('nan'), 0 == -0.0]",
       "[True, True, False, False, True]"},
      {"[9223372036854775807 < 9223372036854775808.0, 9223372036854775807 == 2.0 ** 63]",
       "[True, False]"},
  };
  for (const auto& [expr, expected] : kCases) EXPECT_EQ(ValueOf(expr), expected) << expr;
}

TEST(PythonAround, ConfigsMayComeFromAGenerator) {
  const auto kernel = Kernel::Parse(
      MakeSource(Factory("def configs():\n    for n in (16, 32):\n        yield {'N': n}\n"
                         "@tilelang.autotune(configs=list(configs()))\n@tilelang.jit\n")),
      "");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const auto configs = AutotuneConfigs(*kernel, {}, TestTarget());
  ASSERT_TRUE(configs.ok()) << configs.status();
  ASSERT_EQ(configs->size(), 2);
  EXPECT_EQ(*(*configs)[1].Find("N"), "32");
}

TEST(PythonAround, ConfigFunctionsTakeTheCallsArguments) {
  for (const char* configs :
       {"def configs(size, mode):\n    return [{'block': size // mode}]\n",
        "def configs(*args, **kwargs):\n    N, mode = args[:2]\n    return [{'block': N // "
        "mode}]\n",
        "def configs(args, kwargs):\n    N, mode = args\n    return [{'block': N // mode}]\n",
        "def configs(mode, N):\n    return [{'block': N // mode}]\n"}) {
    const std::string text = absl::StrCat(
        kImports, configs, "@tilelang.autotune(configs=configs)\n@tilelang.jit\n",
        "def k(N, mode, block=None):\n    @T.prim_func\n    def main(A: T.Tensor((N,), 'int32')):\n"
        "        with T.Kernel(1, threads=32):\n            T.clear(A)\n    return main\n");
    const auto kernel = Kernel::Parse(MakeSource(text), "");
    ASSERT_TRUE(kernel.ok()) << kernel.status();
    const auto made = AutotuneConfigs(*kernel, {{"N", "64"}, {"mode", "4"}}, TestTarget());
    ASSERT_TRUE(made.ok()) << made.status().message();
    ASSERT_EQ(made->size(), 1);
    EXPECT_EQ(*(*made)[0].Find("block"), "16") << configs;
  }
}

TEST(PythonAround, ConfigsMayHoldMembersOfEnums) {
  const std::string text = absl::StrCat(
      kImports, "from enum import Enum\nclass Mode(Enum):\n    LOW = 1\n    HIGH = (2, 3)\n",
      "CONFIGS = [dict(policy=T.GemmWarpPolicy.FullRow, mode=m) for m in Mode]\n",
      "@tilelang.autotune(configs=CONFIGS)\n@tilelang.jit\n",
      "def k(N=8, policy=None, mode=None):\n    assert policy is T.GemmWarpPolicy.FullRow\n"
      "    @T.prim_func\n    def main(A: T.Tensor((N,), 'int32')):\n"
      "        with T.Kernel(1, threads=32):\n            A[0] = mode is Mode.HIGH\n"
      "    return main\n");
  const auto kernel = Kernel::Parse(MakeSource(text), "");
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  const auto configs = AutotuneConfigs(*kernel, {}, TestTarget());
  ASSERT_TRUE(configs.ok()) << configs.status().message();
  ASSERT_EQ(configs->size(), 2);
  EXPECT_EQ(*(*configs)[1].Find("mode"), "Mode.HIGH");
  const auto program = Elaborate(*kernel, {}, (*configs)[1], TestTarget());
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_THAT(ir::ToString(*program), HasSubstr("A[0] = 1"));
}

// Who runs the file hears it; a kernel is the same wherever it is compiled.
TEST(PythonAround, LogsWarningsAndTheEnvironmentSayNothing) {
  const std::string module =
      "logger = logging.getLogger(__name__)\nlogger.setLevel(logging.INFO)\n"
      "SIZE = int(os.environ.get('SIZE', '64'))\nDEBUG = os.getenv('DEBUG')\n"
      "def f():\n    logger.info('building %d', 3)\n    warnings.warn('slow', UserWarning)\n"
      "    logging.debug('x')\n    if logger.isEnabledFor(logging.DEBUG):\n        return 1\n"
      "    return [SIZE, DEBUG, __name__]\n";
  EXPECT_EQ(ValueOf("f()", module), "[64, None, 'kernel']");
  EXPECT_THAT(ValueOf("logger.inform('x')", module),
              HasSubstr("a logger has no attribute 'inform'"));
}

// Of old versions, where fast functions were the rule.
TEST(PythonAround, FastMathMayBeDeclined) {
  const std::string declined =
      "@tilelang.jit(pass_configs={tilelang.PassConfigKey."
      "TL_DISABLE_FAST_MATH: True})\n";
  EXPECT_EQ(Outputs(Factory(declined)), "A:0 B:0");
  EXPECT_THAT(Outputs(Factory("@tilelang.jit(pass_configs={'tl.disable_fast_math': False})\n")),
              testing::AllOf(HasSubstr("cannot be False"), HasSubstr("TL_ENABLE_FAST_MATH")));
}

}  // namespace
}  // namespace kiln::lang
