#include "compiler/lang/python_attributes.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"

namespace kiln::lang {
namespace {

// Of Python 3.10; int.is_integer, which the language has, came later.
constexpr char kInt[] =
    "as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag numerator real "
    "to_bytes";
constexpr char kFloat[] = "as_integer_ratio conjugate fromhex hex imag is_integer real";
constexpr char kStr[] =
    "capitalize casefold center count encode endswith expandtabs find format format_map index "
    "isalnum isalpha isascii isdecimal isdigit isidentifier islower isnumeric isprintable isspace "
    "istitle isupper join ljust lower lstrip maketrans partition removeprefix removesuffix replace "
    "rfind rindex rjust "
    "rpartition rsplit rstrip split splitlines startswith strip swapcase title translate upper "
    "zfill";
constexpr char kTuple[] = "count index";
constexpr char kList[] = "append clear copy count extend index insert pop remove reverse sort";
constexpr char kRange[] = "count index start step stop";
constexpr char kDict[] = "clear copy fromkeys get items keys pop popitem setdefault update values";
constexpr char kFrozenSet[] =
    "copy difference intersection isdisjoint issubset issuperset symmetric_difference union";
constexpr char kSet[] =
    "add clear copy difference difference_update discard intersection intersection_update "
    "isdisjoint issubset issuperset pop remove symmetric_difference symmetric_difference_update "
    "union update";
const char* NamesOf(const Value& data) {
  switch (data.type()) {
    case Type::kBool:
    case Type::kInt:
      return kInt;
    case Type::kFloat:
      return kFloat;
    case Type::kStr:
      return kStr;
    case Type::kTuple:
      return kTuple;
    case Type::kList:
      return kList;
    case Type::kRange:
      return kRange;
    case Type::kDict:
      return kDict;
    case Type::kSet:
      return data.dict().frozen ? kFrozenSet : kSet;
    default:
      return nullptr;
  }
}

}  // namespace

bool IsPythonData(const Value& v) { return NamesOf(v) != nullptr; }

std::optional<bool> PythonHas(const Value& data, absl::string_view attr) {
  const char* names = NamesOf(data);
  if (names == nullptr || absl::StartsWith(attr, "__")) return std::nullopt;
  if (data.Is(Type::kTuple) && data.seq().named != nullptr && absl::StartsWith(attr, "_")) {
    return std::nullopt;
  }
  const std::vector<absl::string_view> known = absl::StrSplit(names, ' ');
  return std::find(known.begin(), known.end(), attr) != known.end();
}

}  // namespace kiln::lang
