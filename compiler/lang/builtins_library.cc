// Modules of Python's library that speak to who runs the file: logging, warnings, the environment,
// which is empty, since a kernel is the same wherever it is compiled. Also collections.
#include "absl/strings/str_cat.h"
#include "compiler/lang/elaborator.h"

namespace kiln::lang {
namespace {

absl::StatusOr<Value> Nothing(Elaborator&, const BoundArgs&) { return Value::None(); }
absl::StatusOr<Value> No(Elaborator&, const BoundArgs&) { return Value::Bool(false); }

constexpr Builtin kLogger[] = {
    {"debug", "* **", Nothing},    {"info", "* **", Nothing},     {"warning", "* **", Nothing},
    {"warn", "* **", Nothing},     {"error", "* **", Nothing},    {"exception", "* **", Nothing},
    {"critical", "* **", Nothing}, {"log", "* **", Nothing},      {"setLevel", "level", Nothing},
    {"addHandler", "h", Nothing},  {"isEnabledFor", "level", No},
};

absl::StatusOr<Value> Logger(Elaborator& e, const BoundArgs&) {
  auto* logger = e.arena().New<InstanceObject>();
  logger->what = "a logger";
  logger->closed = true;
  for (const Builtin& method : kLogger) {
    logger->attributes.emplace_back(method.name, Value::OfBuiltin(&method));
  }
  return Value::Of(Type::kInstance, logger);
}

absl::StatusOr<Value> Unset(Elaborator&, const BoundArgs& args) {
  return args.present[1] ? args[1] : Value::None();
}

absl::StatusOr<Value> Ordered(Elaborator& e, const BoundArgs& args) {
  return PythonTableRow("dict")->function(e, args);
}

absl::StatusOr<Value> WithDefault(Elaborator& e, const BoundArgs& args) {
  BoundArgs rest = args;
  rest.values.erase(rest.values.begin());
  rest.present.erase(rest.present.begin());
  rest.locs.erase(rest.locs.begin());
  KILN_ASSIGN_OR_RETURN(const Value dict, PythonTableRow("dict")->function(e, rest));
  dict.dict().factory = args[0];
  return dict;
}

template <bool number>
absl::StatusOr<Value> Character(Elaborator& e, const BoundArgs& args) {
  if (number) {
    KILN_ASSIGN_OR_RETURN(const std::string text, e.ToStr(args[0], args.LocOf(0), "the character"));
    if (text.size() == 1 && static_cast<unsigned char>(text[0]) < 128) return Value::Int(text[0]);
    return e.Error(args.LocOf(0), absl::StrCat("ord of ", Repr(args[0])),
                   "pass one character of ASCII");
  }
  KILN_ASSIGN_OR_RETURN(const int64_t code, e.ToInt(args[0], args.LocOf(0), "the character"));
  if (code >= 0 && code < 128) return e.NewStr(std::string(1, static_cast<char>(code)));
  return e.Error(args.LocOf(0), absl::StrCat("chr of ", code), "pass a code of ASCII: 0 to 127");
}

constexpr Builtin kRows[] = {
    {"ord", "c", Character<true>},
    {"chr", "i", Character<false>},
    {"logging.getLogger", "name?", Logger},
    {"logging.basicConfig", "**", Nothing},
    {"logging.debug", "* **", Nothing},
    {"logging.info", "* **", Nothing},
    {"logging.warning", "* **", Nothing},
    {"logging.error", "* **", Nothing},
    {"logging.exception", "* **", Nothing},
    {"logging.critical", "* **", Nothing},
    {"warnings.warn", "* **", Nothing},
    {"warnings.filterwarnings", "* **", Nothing},
    {"warnings.simplefilter", "* **", Nothing},
    {"os.getenv", "key default?", Unset},
    {"os.environ.get", "key default?", Unset},
    {"collections.OrderedDict", "items? **", Ordered},
    {"collections.defaultdict", "factory? items? **", WithDefault},
};

}  // namespace

BuiltinTable LibraryTable() { return {kRows, std::size(kRows)}; }
BuiltinTable LoggerMethods() { return {kLogger, std::size(kLogger)}; }

}  // namespace kiln::lang
