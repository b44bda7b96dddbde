// Plain data at compile time: methods of text, lists and dicts, slices, numbers and their literals,
// and what is said of calls that do not fit. What is expected is what CPython gives.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/lang/lang_test_util.h"

namespace kiln::lang {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// The value of an expression of a helper, or the error and its remedy.
std::string ValueOf(const std::string& expr, const std::string& statements = "") {
  std::string helper = "def helper():\n";
  if (!statements.empty()) absl::StrAppend(&helper, "    ", statements, "\n");
  absl::StrAppend(&helper, "    return repr(", expr, ")\n");
  const absl::StatusOr<ir::Program> program =
      ElaborateText(InKernel("v[0] = 1", "z = helper()\nassert False, z", helper));
  const auto d = DiagnosticOf(program.status());
  if (!d) return "no diagnostic";
  const size_t at = d->message.find("assertion failed: ");
  return at == std::string::npos ? absl::StrCat(d->message, " | ", d->remedy)
                                 : d->message.substr(at + 18);
}

TEST(PlainData, TooManyArgumentsAreCountedAsTheyAreWritten) {
  const std::pair<const char*, const char*> kCases[] = {
      {"'a'.replace('a', 'b', 1, 2)", "replace takes at most 3 positional arguments, found 4"},
      {"'a-b'.upper(1)", "upper takes at most 0 positional arguments, found 1"},
      {"[1].append(1, 2)", "append takes at most 1 positional argument, found 2"},
      {"int('1', 10, 3)", "int takes at most 2 positional arguments, found 3"},
      {"filter(abs, [1], [2])", "filter takes at most 2 positional arguments, found 3"},
  };
  for (const auto& [expr, expected] : kCases) EXPECT_THAT(ValueOf(expr), HasSubstr(expected));
  EXPECT_THAT(ValueOf("[1].append()"),
              AllOf(HasSubstr("append needs its argument 'item'"), Not(HasSubstr("self"))));
}

TEST(PlainData, TextIsSplitAndReplacedAsOftenAsSaid) {
  const std::pair<const char*, const char*> kCases[] = {
      {"['a-b-c'.split('-', 1), 'a-b-c'.rsplit('-', 1), 'a-b-c'.split('-', 0)]",
       "[['a', 'b-c'], ['a-b', 'c'], ['a-b-c']]"},
      {"['a-b'.split('-', -1), 'a-b'.split(sep='-', maxsplit=5), 'aaa'.rsplit('aa')]",
       "[['a', 'b'], ['a', 'b'], ['a', '']]"},
      {"[' a b  c '.split(None, 1), ' a b  c '.rsplit(None, 1), ' a b  c '.rsplit()]",
       "[['a', 'b  c '], [' a b', 'c'], ['a', 'b', 'c']]"},
      {"['a\\x0bb\\rc'.split(), ''.split(), ''.split('-'), '  '.split(maxsplit=1)]",
       "[['a', 'b', 'c'], [], [''], []]"},
      {"[' a b '.split(maxsplit=0), ' a b '.rsplit(maxsplit=0)]", "[['a b '], [' a b']]"},
      {"['aaa'.replace('a', 'b', 2), 'aaa'.replace('a', 'b', 0), 'aaa'.replace('aa', 'b', -1)]",
       "['bba', 'aaa', 'ba']"},
      {"'aaa'.replace('a', 'b', count=1)", "'baa'"},
  };
  for (const auto& [expr, expected] : kCases) EXPECT_EQ(ValueOf(expr), expected) << expr;
}

TEST(PlainData, IntegersAreReadInEveryBase) {
  const std::pair<const char*, const char*> kCases[] = {
      {"[int('0x1f', 16), int('1F', 16), int('0b101', 0), int('z', 36), int(' -0o17 ', 8)]",
       "[31, 31, 5, 35, -15]"},
      {"[int('1_000'), int('0x_ff', 16), int('007'), int('+5'), int('00', 0)]",
       "[1000, 255, 7, 5, 0]"},
      {"[int('9223372036854775807'), int('-9223372036854775808')]",
       "[9223372036854775807, -9223372036854775808]"},
      {"int('1011', base=2)", "11"},
  };
  for (const auto& [expr, expected] : kCases) EXPECT_EQ(ValueOf(expr), expected) << expr;
  for (const char* text : {"'1__0'", "'_1'", "'1_'", "'0x1f'", "''", "'- 1'", "'012', 0", "'2', 2",
                           "'0x', 16", "'1.0'", "'0b1', 16 if False else 8"}) {
    EXPECT_THAT(ValueOf(absl::StrCat("int(", text, ")")), HasSubstr("is not an integer")) << text;
  }
  EXPECT_THAT(ValueOf("int('9223372036854775808')"), HasSubstr("does not fit a 64-bit integer"));
  EXPECT_THAT(ValueOf("int('1', 1)"), HasSubstr("the base 1 is neither 0 nor from 2 to 36"));
  EXPECT_THAT(ValueOf("int(3, 10)"), HasSubstr("int with a base takes text, not an integer"));
}

TEST(PlainData, NumbersAndFunctions) {
  const std::pair<const char*, const char*> kCases[] = {
      {"[(2.0).is_integer(), (2.5).is_integer(), float('inf').is_integer(), (3).is_integer()]",
       "[True, False, False, True]"},
      {"[list(map(lambda a, b: a * b, [1, 2, 3], (4, 5))), list(map(max, [1, 9], [5, 2], [3, 3]))]",
       "[[4, 10], [5, 9]]"},
      {"[sorted(['b', 'A', 'c'], key=str.lower), list(map(str.strip, [' a', 'b ']))]",
       "[['A', 'b', 'c'], ['a', 'b']]"},
      {"[str.join('-', ['a', 'b']), list(map(int.bit_length, [8, 1])), list.count([1, 1], 1)]",
       "['a-b', [4, 1], 2]"},
      {"[int(9.22e18), round(1e20, 0), round(-2.5), int(-9223372036854775808.0)]",
       "[9220000000000000000, 1e+20, -2, -9223372036854775808]"},
  };
  for (const auto& [expr, expected] : kCases) EXPECT_EQ(ValueOf(expr), expected) << expr;
  EXPECT_EQ(ValueOf("round(1e20)"),
            "1e+20 does not fit a 64-bit integer | keep it a float: round(x, 0)");
  EXPECT_THAT(ValueOf("round(float('nan'))"), HasSubstr("nan is no integer"));
  EXPECT_THAT(ValueOf("int(float('inf'))"), HasSubstr("inf is no integer"));
  EXPECT_THAT(ValueOf("sorted([1], key=str.lower)"),
              HasSubstr("the method 'lower' of another type is called on an integer"));
  EXPECT_THAT(ValueOf("str.lower()"), HasSubstr("lower needs its argument 'self'"));
  EXPECT_THAT(ValueOf("str.lowr('a')"), HasSubstr("did you mean 'lower'?"));
}

TEST(PlainData, ListsAndDictsChangeInPlace) {
  const std::tuple<const char*, const char*, const char*> kCases[] = {
      {"a = [1, 2]; b = a; a.clear()", "[a, b]", "[[], []]"},
      {"d = {'a': 1, 'b': 2}; p = d.popitem()", "[p, d]", "[('b', 2), {'a': 1}]"},
      {"d = {'a': 1}; e = d; d.clear()", "e", "{}"},
      {"a = [0, 1, 2, 3]; b = a; a[1:3] = [7, 8, 9]", "b", "[0, 7, 8, 9, 3]"},
      {"a = [0, 1, 2]; a[:] = a; a[3:] = (5,); a[0:0] = 'xy'", "a", "['x', 'y', 0, 1, 2, 5]"},
      {"a = [0, 1, 2, 3]; a[3:1] = [9]; a[-1:] = []", "a", "[0, 1, 2, 9]"},
      {"a = [0, 1, 2, 3]; a[::2] = [8, 9]; a[::-3] = range(2)", "a", "[1, 1, 9, 0]"},
      {"a = [0, 1, 2, 3, 4]; b = a; del a[1:3]", "b", "[0, 3, 4]"},
      {"a = list(range(8)); del a[::3]; del a[::-2]; del a[9:]; del a[2:1]", "a", "[2, 5]"},
      {"a = [1, 2]; a[1:] += [3]", "a", "[1, 2, 3]"},
      {"a = [1]; a[:1] = {'k': 2}", "a", "['k']"},
  };
  for (const auto& [statements, expr, expected] : kCases) {
    EXPECT_EQ(ValueOf(expr, statements), expected) << statements;
  }
  EXPECT_EQ(ValueOf("a", "a = [0, 1, 2]; a[::2] = [1]"),
            "1 item is assigned to a slice of 2 items with a step of 2 | give it as many");
  EXPECT_THAT(ValueOf("a", "a = [0]; a[:] = 3"), HasSubstr("an integer"));
  EXPECT_THAT(ValueOf("{}.popitem()"), HasSubstr("no item to take from an empty dict"));
  EXPECT_THAT(ValueOf("a", "a = (1, 2); del a[:1]"), HasSubstr("del of a part of a tuple"));
  EXPECT_THAT(Elaborated(InKernel("a = [1, 2]\nif n > 0:\n    a[:1] = []\nv[0] = a[0]")),
              HasSubstr("inside a run-time branch or loop"));
  EXPECT_THAT(Elaborated(InKernel("a = [1, 2]\nif n > 0:\n    a.clear()\nv[0] = a[0]")),
              HasSubstr("inside a run-time branch or loop"));
  EXPECT_THAT(Elaborated(InKernel("a = [1, 2]\na[:1] = [n, v[1]]\nv[1] = 5\nv[0] = a[1]")),
              Not(HasSubstr("v[0] = v[1]")));  // as it was when the list took it
}

TEST(PlainData, ASliceOfARangeIsARange) {
  const std::pair<const char*, const char*> kCases[] = {
      {"range(10)[2:5]", "[2, 5, 1]"},
      {"range(10)[::-1]", "[9, -1, -1]"},
      {"range(10)[5:2]", "[5, 2, 1]"},
      {"range(1, 20, 3)[1::2]", "[4, 22, 6]"},
      {"range(0)[1:]", "[0, 0, 1]"},
      {"range(10)[-3:]", "[7, 10, 1]"},
      {"range(10, 0, -2)[-100:100:2]", "[10, 0, -4]"}};
  for (const auto& [expr, expected] : kCases) {
    EXPECT_EQ(ValueOf("[r.start, r.stop, r.step]", absl::StrCat("r = ", expr)), expected) << expr;
  }
  EXPECT_EQ(ValueOf("[list(range(9)[::-4]), len(range(9)[2:]), 3 in range(9)[:3]]"),
            "[[8, 4, 0], 7, False]");
  EXPECT_THAT(ValueOf("range(9)[::0]"), HasSubstr("step is zero"));
  EXPECT_THAT(ValueOf("range(0, 9, 4611686018427387904)[::4]"), HasSubstr("64 bits"));
}

TEST(PlainData, LiteralsOfAllBits) {
  EXPECT_EQ(ValueOf("[-9223372036854775808, -0x8000000000000000, 1-9223372036854775807]"),
            "[-9223372036854775808, -9223372036854775808, -9223372036854775806]");
  for (const char* expr : {"9223372036854775808", "1-9223372036854775808",
                           "-9223372036854775808**1", "T.int64(0xFFFFFFFFFFFFFFFF)"}) {
    EXPECT_THAT(ValueOf(expr), HasSubstr("an integer literal above 2^63 - 1")) << expr;
  }
  EXPECT_THAT(ValueOf("-9223372036854775809"), HasSubstr("T.uint64"));
  EXPECT_THAT(ValueOf("- -9223372036854775808"), HasSubstr("does not fit 64 bits"));
  EXPECT_THAT(ValueOf("0xFFFFFFFFFFFFFFFF"), HasSubstr("write T.uint64(0xFFFFFFFFFFFFFFFF)"));
  EXPECT_THAT(ValueOf("0x1FFFFFFFFFFFFFFFF"), Not(HasSubstr("T.uint64")));
  EXPECT_THAT(Elaborated(InKernel("u = T.alloc_local((1,), 'uint64')\n"
                                  "u[0] = T.uint64(0xFFFFFFFFFFFFFFFF) ^ T.uint64(v[0])\n"
                                  "u[0] = u[0] & T.uint64(9223372036854775808)")),
              AllOf(HasSubstr("uint64(-1)"), HasSubstr("uint64(-9223372036854775808)")));
}

TEST(PlainData, AFormatMayBeTooWide) {
  for (const char* expr :
       {"f'{3:99999999999}'", "f'{3:<201}'", "'{:0201d}'.format(3)", "format(3, '*^+#999')"}) {
    EXPECT_THAT(ValueOf(expr), HasSubstr("is wider than 200 characters | use a smaller width"))
        << expr;
  }
  EXPECT_THAT(ValueOf("f'{3:.99f}'"), HasSubstr("does not fit"));
}

TEST(PlainData, SourcesInOtherEncodingsAreNamed) {
  const std::string text = "import tilelang\n";
  std::string little, big;
  for (const char c : text) {
    little += std::string(1, c) + std::string(1, '\0');
    big += std::string(1, '\0') + std::string(1, c);
  }
  for (const auto& [source, name] :
       {std::pair(absl::StrCat("\xFF\xFE", little), "UTF-16"),
        {absl::StrCat("\xFE\xFF", big), "UTF-16"},
        {little, "UTF-16"},
        {big, "UTF-16"},
        {absl::StrCat("\xFF\xFE", std::string(2, '\0'), little), "UTF-32"}}) {
    EXPECT_THAT(Elaborated(source),
                testing::StartsWith(absl::StrCat("k.py:1:1: error: the file is in ", name,
                                                 "\n  help: save it in UTF-8")));
  }
  EXPECT_THAT(Elaborated(std::string("import x\n\0", 10)), HasSubstr("a NUL byte"));
}

TEST(PlainData, AnExceptThatIsNotFollowedIsNamed) {
  const auto tried = [](const std::string& body, const std::string& handler) {
    return Elaborated(
        InKernel("v[0] = helper()", "",
                 absl::StrCat("class Own(ValueError):\n    pass\ndef helper():\n    try:\n        ",
                              body, "\n    ", handler, "\n        return 7\n    return 8\n")));
  };
  const std::tuple<const char*, const char*, const char*> kCases[] = {
      {"raise Own('no')", "except (TypeError, ValueError):",
       "the kernel raised: no; the 'except (TypeError, ValueError)' around it is not followed"},
      {"raise ValueError('no')", "except Own as e:", "the 'except Own' around it is not followed"},
      {"return [].nothing", "except AttributeError:", "the 'except AttributeError' around it is"},
      {"return 2 ** 64", "except:", "the 'except' around it is not followed"},
      {"return [1 // x for x in (y // 0 for y in [1])]",
       "except ZeroDivisionError:", "the 'except ZeroDivisionError' around it is not followed"},
      {"return other.Error", "except other.Error:", "unknown name 'other'"},
  };
  for (const auto& [body, handler, expected] : kCases) {
    EXPECT_THAT(tried(body, handler), HasSubstr(expected)) << body;
  }
  EXPECT_THAT(tried("raise ValueError('no')", "except (KeyError, TypeError):"),
              Not(HasSubstr("not followed")));
  EXPECT_THAT(tried("return str.lower(3)", "except KeyError:"), Not(HasSubstr("not followed")));
  EXPECT_THAT(tried("raise ValueError('no')", "except ImportError:"),
              Not(HasSubstr("not followed")));
  EXPECT_THAT(tried("return 6", "except ValueError:"), HasSubstr("v[0] = 6"));
  const std::pair<const char*, const char*> kFollowed[] = {
      {"return {}['k']", "except KeyError as e:"},
      {"return 1 // 0", "except (KeyError, ZeroDivisionError):"},
      {"raise ValueError('no')", "except:"},
      {"raise ValueError('no')", "except Exception:"},
      {"raise KeyError('no')", "except LookupError:"},
      {"return int('x')", "except KeyError:\n        return 3\n    except ValueError:"},
      {"return sum(1 // x for x in [0])", "except ArithmeticError:"},
      {"raise Own('no')", "except Own:"},
      {"assert 1 > 2, 1 // 0",
       "except AssertionError:\n        return 3\n    except ZeroDivisionError:"},
      {"raise ValueError(1 // 0)", "except ZeroDivisionError:"}};
  for (const auto& [body, handler] : kFollowed) {
    EXPECT_THAT(tried(body, handler), HasSubstr("v[0] = 7")) << body;
  }
}

TEST(PlainData, ALayoutsFunctionHasAPlaceForEveryElement) {
  const auto refused = [](const std::string& layout) {
    const auto d =
        DiagnosticOf(ElaborateText(InKernel(absl::StrCat("s = T.alloc_shared((8, 8), 'float32')\n"
                                                         "T.annotate_layout({s: ",
                                                         layout, "})\ns[0, 0] = 1")))
                         .status());
    if (!d) return std::string("no diagnostic");
    return absl::StrCat(d->source_line.substr(d->loc.column - 1, 6), "|", d->message, "|",
                        d->remedy);
  };
  EXPECT_EQ(refused("T.Layout((8, 8), lambda i, j: i // j)"),
            "lambda|the layout's function divides by zero at element (0, 0)|"
            "give every element a place");
  EXPECT_THAT(refused("T.Layout((8, 8), lambda i, j: (i, j % (i - 3)))"),
              HasSubstr("lambda|the layout's function divides by zero at element (3, 0)|"));
  EXPECT_THAT(refused("T.Layout((8, 8), lambda i, j: i * 8 + (j >> (i - 1)))"),
              HasSubstr("lambda|the layout's function shifts by less than 0 or more than the bits "
                        "at element (0, 0)|"));
  EXPECT_THAT(refused("T.Fragment((8, 8), lambda i, j: (i // j, 0))"),
              HasSubstr("lambda|the layout's function divides by zero at element (0, 0)|"));
  EXPECT_THAT(refused("T.Fragment((8, 8), forward_thread_fn=lambda i, j: i, "
                      "forward_index_fn=lambda i, j: j // i)"),
              HasSubstr("forwar|the layout's function divides by zero at element (0, 0)|"));
  EXPECT_THAT(refused("T.Layout((8, 8), lambda i, j: (i, (j + i) % 8))"),
              AllOf(HasSubstr("lambda|"), HasSubstr("sum"), HasSubstr("XOR"),
                    HasSubstr("(i, j ^ (i % 8))"), Not(HasSubstr("mixed radix"))));
  EXPECT_EQ(refused("T.Layout((8, 8), lambda i, j: (i, j ^ (i % 8)))"), "no diagnostic");
  EXPECT_THAT(refused("T.Fragment((8, 8), lambda i, j: ((j + i) % 8, i))"),
              AllOf(HasSubstr("lambda|"), HasSubstr("digits of the index")));
}

}  // namespace
}  // namespace kiln::lang
