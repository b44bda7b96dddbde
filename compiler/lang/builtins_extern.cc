// Functions in CUDA that TileLang's files bring along and call by name: those that take packed
// integers and floats apart. Kiln compiles no CUDA; it knows what these do, and does it itself, on
// every target. Any other function, and any other text, is refused.
#include <algorithm>
#include <cctype>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/base/digest.h"
#include "compiler/lang/elaborator.h"

namespace kiln::lang {
namespace {

using ir::BinaryOp;
using ir::Expr;

constexpr const char* kRemedy =
    "Kiln compiles no CUDA: write the function as a @T.macro, and call that";

enum class Target : uint8_t { kFloat16, kBFloat16, kInt8, kInt4 };
enum class Zeros : uint8_t {
  kNone,
  kOriginal,   // (code - zero) * scale
  kRescale,    // code * scale - |zero|
  kQuantized,  // (code - zero) * scale, zero an integer
};

// decode_i{4,2,1}{s,u}_to_{f16,i8s,i4s}[_scale[_zeros_..]][_offset], decode_fp4_to_bf16[_twiddling]
struct Decoder {
  int bits = 4;
  bool is_signed = false, twiddled = false, scaled = false, offset = false;
  Target to = Target::kFloat16;
  Zeros zeros = Zeros::kNone;
};

bool TakeZeros(absl::string_view* rest, Zeros* zeros) {
  static constexpr std::pair<const char*, Zeros> kModes[] = {
      {"_zeros_original", Zeros::kOriginal},
      {"_zeros_rescale", Zeros::kRescale},
      {"_zeros_quantized", Zeros::kQuantized}};
  for (const auto& [name, mode] : kModes) {
    if (!absl::StartsWith(*rest, name)) continue;
    rest->remove_prefix(absl::string_view(name).size());
    *zeros = mode;
    return true;
  }
  return false;
}

// Whether the reference has the combination.
bool Exists(const Decoder& d) {
  if (d.to == Target::kInt4) return d.bits == 2;
  if (d.zeros != Zeros::kNone && (d.is_signed || !d.scaled)) return false;
  if (d.offset && (d.bits != 4 || !d.scaled)) return false;
  return d.bits != 1 || d.zeros != Zeros::kQuantized;
}

std::optional<Decoder> ParseDecoder(absl::string_view name) {
  Decoder d;
  if (name == "decode_fp4_to_bf16" || name == "decode_fp4_to_bf16_twiddling") {
    d.to = Target::kBFloat16;
    d.twiddled = absl::EndsWith(name, "_twiddling");
    return d;
  }
  constexpr absl::string_view kStart = "decode_i";
  if (!absl::StartsWith(name, kStart) || name.size() < kStart.size() + 2) return std::nullopt;
  const char bits = name[kStart.size()], sign = name[kStart.size() + 1];
  absl::string_view rest = name.substr(kStart.size() + 2);
  if ((bits != '4' && bits != '2' && bits != '1') || (sign != 's' && sign != 'u')) {
    return std::nullopt;
  }
  d.bits = bits - '0';
  d.is_signed = sign == 's';
  if (rest == "_to_i8s" || rest == "_to_i4s") {
    d.to = rest == "_to_i8s" ? Target::kInt8 : Target::kInt4;
    return Exists(d) ? std::optional(d) : std::nullopt;
  }
  const auto take = [&](absl::string_view part) {
    if (!absl::StartsWith(rest, part)) return false;
    rest.remove_prefix(part.size());
    return true;
  };
  if (!take("_to_f16")) return std::nullopt;
  d.scaled = take("_scale");
  if (d.scaled) TakeZeros(&rest, &d.zeros);
  d.offset = take("_offset");
  return rest.empty() && Exists(d) ? std::optional(d) : std::nullopt;
}

// How the texts that define these functions begin to be known: digests of what is left of them
// without comments and spaces.
constexpr absl::string_view kKnownTexts[] = {
    "1d1140ea47d50956", "2d612fc494163e67", "310e6a79f7f3a049", "31c7a8576139378b",
    "3ec87cc228ae51f3", "407abae6fbb80d41", "495ccf05c073cee7", "5c2e1fbc2ed1003c",
    "63581d8c20674db7", "63c3cbc752c3fce0", "731a0bb9301c78bd", "771f2af40b137b9b",
    "7c7b95e4ab7b67cb", "80171dbcedbf2e0f", "830828c984e7b04d", "8d6043cc7b1f4504",
    "b9323b69b0a2301b", "c52ba3cb762d9517", "cfaa15b3ecf14e92", "d515b58573f68e7a",
    "dac83947cdbd0d3e", "dc0603818ef589c7", "dc1cab046360259b", "e564c96df19a02d5",
    "ece83aeebf7f0e63", "eec30daed67d15b2", "f61cba46c7d7ae12"};

std::string WithoutComments(absl::string_view text) {
  std::string left;
  while (!text.empty()) {
    if (absl::StartsWith(text, "/*")) {
      const size_t end = text.find("*/", 2);
      text.remove_prefix(end == absl::string_view::npos ? text.size() : end + 2);
    } else if (absl::StartsWith(text, "//")) {
      text.remove_prefix(std::min(text.find('\n'), text.size()));
    } else {
      if (std::isspace(static_cast<unsigned char>(text[0])) == 0) left += text[0];
      text.remove_prefix(1);
    }
  }
  return left;
}

Expr Bits(int64_t value) { return ir::MakeInt(value, kUInt32); }
Expr And(const Expr& a, const Expr& b) { return ir::MakeBinary(BinaryOp::kBitAnd, a, b); }
Expr Or(const Expr& a, const Expr& b) { return ir::MakeBinary(BinaryOp::kBitOr, a, b); }
Expr Left(const Expr& a, int64_t n) {
  return n == 0 ? a : ir::MakeBinary(BinaryOp::kShl, a, Bits(n));
}
Expr Right(const Expr& a, int64_t n) {
  return n == 0 ? a : ir::MakeBinary(BinaryOp::kShr, a, Bits(n));
}

// One call: reads what it needs into names first, then stores element by element.
class Decoding {
 public:
  Decoding(Elaborator& e, const BoundArgs& args, size_t first, std::string name, Decoder d)
      : e_(e), args_(args), first_(first), name_(std::move(name)), d_(d) {}

  absl::Status Emit();

 private:
  absl::Status Refuse(size_t i, std::string what, std::string remedy) {
    return e_.Error(first_ + i < args_.rest_locs.size() ? args_.rest_locs[first_ + i] : args_.loc,
                    absl::StrCat(std::move(what), " of '", name_, "'"), std::move(remedy));
  }
  bool Has(size_t i) const { return first_ + i < args_.rest.size(); }

  // The place that argument i begins at.
  absl::StatusOr<Tile> Pointer(size_t i, const char* what) {
    if (!Has(i)) return Refuse(i, absl::StrCat("no ", what), "pass T.access_ptr(x, \"r\")");
    return e_.ToTile(args_.rest[first_ + i], args_.rest_locs[first_ + i], what);
  }
  absl::StatusOr<int64_t> Number(size_t i, int64_t otherwise, const char* what) {
    if (!Has(i)) return otherwise;
    return e_.ToInt(args_.rest[first_ + i], args_.rest_locs[first_ + i], what);
  }
  static std::vector<Expr> At(const Tile& tile, const Expr& lane) {
    std::vector<Expr> indices;
    for (const ir::Range& range : tile.region.ranges) indices.push_back(range.min);
    indices.back() = indices.back() + lane;
    return indices;
  }
  // That `count` elements from the place on lie in its last dimension.
  absl::Status CheckRoom(size_t i, const Tile& tile, int64_t count) {
    const auto extent = ir::ConstInt(tile.region.buffer->shape.back());
    const auto first = ir::ConstInt(tile.region.ranges.back().min);
    if (!extent || first.value_or(0) + count <= *extent) return absl::OkStatus();
    return Refuse(i,
                  absl::StrCat("'", tile.region.buffer->name, "', which has no ", count,
                               " elements there, is an argument"),
                  "make its last dimension larger");
  }

  absl::StatusOr<Expr> Named(const Expr& value) {
    ExprInfo info;
    info.flags = ExprInfo::kRuntime | ExprInfo::kLoads;
    KILN_ASSIGN_OR_RETURN(const Value v, e_.NewExpr(value, info, args_.loc));
    KILN_ASSIGN_OR_RETURN(const Value named, e_.Freeze(v, "word", args_.loc));
    KILN_ASSIGN_OR_RETURN(const Operand x, e_.ToOperand(named, args_.loc, "the value"));
    return x.e;
  }
  // Bytes [at, at + count) of the source, the first lowest; count is 1, 2 or 4.
  absl::StatusOr<Expr> Word(const Tile& source, int64_t at, int64_t count) {
    const DType type = source.region.buffer->dtype;
    const int64_t width = type.bytes();
    if (!type.is_int() || type.is_packed() || width > 4) {
      return Refuse(0, absl::StrCat("a source of ", type.ToString(), ", the first argument"),
                    "pass integers of 8, 16 or 32 bits");
    }
    KILN_RETURN_IF_ERROR(CheckRoom(0, source, (at + count + width - 1) / width));
    const DType bits = {TypeCode::kUInt, type.bits};
    Expr word;
    for (int64_t byte = at; byte < at + count; byte += std::min(width, count)) {
      Expr part = ir::MakeLoad(source.region.buffer, At(source, ir::MakeInt(byte / width)));
      part = ir::MakeCast(kUInt32, ir::MakeCall(bits, ir::Intrinsic::kReinterpret, {part}));
      part = Right(part, 8 * (byte % width));
      if (count < width) part = And(part, Bits((int64_t{1} << (8 * count)) - 1));
      part = Left(part, 8 * (byte - at));
      word = word.defined() ? Or(word, part) : part;
    }
    return Named(word);
  }

  absl::Status Store(const Tile& to, int64_t lane, const Expr& value) {
    return e_.EmitNew<ir::Store>(args_.loc, to.region.buffer, At(to, ir::MakeInt(lane)), value);
  }
  absl::Status CheckTarget(const Tile& to, DType type, DType other) {
    const DType is = to.region.buffer->dtype;
    if (is == type || is == other) return absl::OkStatus();
    return Refuse(1, absl::StrCat("a result of ", is.ToString(), ", the second argument"),
                  absl::StrCat("pass elements of ", type.ToString()));
  }

  absl::Status ToFloat16(const Tile& from, const Tile& to);
  absl::StatusOr<Expr> Factor(size_t argument, const Expr& at, const char* what);
  absl::StatusOr<Expr> Zero(size_t argument, const Expr& at, const Expr& group);
  absl::Status ToInt8(const Tile& from, const Tile& to);
  absl::Status ToInt4(const Tile& from, const Tile& to);
  absl::Status ToBFloat16(const Tile& from, const Tile& to);

  Elaborator& e_;
  const BoundArgs& args_;
  const size_t first_;
  const std::string name_;
  const Decoder d_;
};

absl::Status Decoding::Emit() {
  KILN_RETURN_IF_ERROR(e_.RequireLaunch(args_.loc, name_.c_str()));
  KILN_ASSIGN_OR_RETURN(const Tile from, Pointer(0, "source"));
  KILN_ASSIGN_OR_RETURN(const Tile to, Pointer(1, "result"));
  switch (d_.to) {
    case Target::kFloat16:
      return ToFloat16(from, to);
    case Target::kBFloat16:
      return ToBFloat16(from, to);
    case Target::kInt8:
      return ToInt8(from, to);
    case Target::kInt4:
      return ToInt4(from, to);
  }
  return absl::OkStatus();
}

// An element that all or half of the results are multiplied by, float16.
absl::StatusOr<Expr> Decoding::Factor(size_t argument, const Expr& at, const char* what) {
  KILN_ASSIGN_OR_RETURN(const Tile tile, Pointer(argument, what));
  const DType type = tile.region.buffer->dtype;
  if (type != kFloat16 && !type.is_int()) {
    return Refuse(argument, absl::StrCat("a ", what, " of ", type.ToString()), "pass float16");
  }
  return Named(ir::MakeCast(kFloat16, ir::MakeLoad(tile.region.buffer, At(tile, at))));
}

// A zero point that is an integer: of 16 bits, or nibble `group` of an integer.
absl::StatusOr<Expr> Decoding::Zero(size_t argument, const Expr& at, const Expr& group) {
  KILN_ASSIGN_OR_RETURN(const Tile tile, Pointer(argument, "zero point"));
  const DType type = tile.region.buffer->dtype;
  if (!type.is_int() || (!group.defined() && type.bits != 16)) {
    return Refuse(argument, absl::StrCat("a zero point of ", type.ToString()),
                  group.defined() ? "pass integers" : "pass int16");
  }
  Expr zero = ir::MakeCast(kInt32, ir::MakeLoad(tile.region.buffer, At(tile, at)));
  if (group.defined()) {
    zero = And(ir::MakeBinary(BinaryOp::kShr, zero, group * ir::MakeInt(4)), ir::MakeInt(15));
  }
  return Named(zero);
}

// Results 2 i and 2 i + 1 are code i of the low half of the codes, and of the high half.
absl::Status Decoding::ToFloat16(const Tile& from, const Tile& to) {
  KILN_RETURN_IF_ERROR(CheckTarget(to, kFloat16, kFloat16));
  // What stands behind the pointers: offsets, then how many.
  const bool zeros = d_.zeros != Zeros::kNone, own_zeros = d_.zeros == Zeros::kQuantized;
  size_t next = 2 + (d_.scaled ? 1 : 0) + (zeros ? 1 : 0);
  Expr offsets[3];  // of scales, of zero points, of a nibble
  const size_t count = !d_.offset ? 0 : own_zeros ? 3 : 1;
  for (size_t i = 0; i < count; ++i, ++next) {
    offsets[i] = ir::MakeInt(0);
    if (!Has(next)) continue;
    KILN_ASSIGN_OR_RETURN(const Operand at, e_.ToIndex(args_.rest[first_ + next],
                                                       args_.rest_locs[first_ + next], "offset"));
    offsets[i] = ir::MakeCast(kInt32, at.e);
  }
  if (count == 1) offsets[1] = offsets[0];
  KILN_ASSIGN_OR_RETURN(const int64_t n, Number(next, 8, "N"));
  if (n < 2 || n > 8 || n % 2 != 0) {
    return Refuse(next, absl::StrCat("N = ", n, ", an argument"), "decode 8 elements a call");
  }
  KILN_RETURN_IF_ERROR(CheckRoom(1, to, n));
  KILN_ASSIGN_OR_RETURN(const Expr word, Word(from, 0, d_.bits));
  Expr scale[2], zero[2];
  for (int half = 0; half < (d_.offset ? 2 : 1); ++half) {
    const auto at = [&](int i) { return half == 0 ? ir::MakeInt(0) : offsets[i]; };
    if (d_.scaled) {
      KILN_ASSIGN_OR_RETURN(scale[half], Factor(2, at(0), "scale"));
    }
    if (own_zeros) {
      KILN_ASSIGN_OR_RETURN(zero[half], Zero(3, at(1), offsets[2]));
    } else if (zeros) {
      KILN_ASSIGN_OR_RETURN(zero[half], Factor(3, at(1), "zero point"));
    }
  }
  const int64_t middle = d_.is_signed ? int64_t{1} << (d_.bits - 1) : 0;
  for (int64_t k = 0; k < n; ++k) {
    const int half = d_.offset && k >= n / 4 * 2 ? 1 : 0;
    const int64_t place = d_.bits * (k / 2) + 4 * d_.bits * (k % 2);
    Expr code = ir::MakeCast(kInt32, And(Right(word, place), Bits((1 << d_.bits) - 1)));
    if (d_.is_signed) {  // of one bit: -1 and 1
      code = d_.bits == 1 ? code * ir::MakeInt(2) - ir::MakeInt(1) : code - ir::MakeInt(middle);
    }
    if (own_zeros) code = code - zero[half];
    Expr value = ir::MakeCast(kFloat16, code);
    if (d_.zeros == Zeros::kOriginal) value = value - zero[half];
    if (d_.zeros == Zeros::kRescale) {
      const Expr less = ir::MakeCall(kFloat16, ir::Intrinsic::kAbs, {zero[half]});
      if (d_.bits == 2) {  // rounds twice, and takes the zero point as it is
        value = value * scale[half] - zero[half];
      } else {
        const auto wide = [](const Expr& x) { return ir::MakeCast(kFloat64, x); };
        value = ir::MakeCast(kFloat16, wide(value) * wide(scale[half]) - wide(less));
      }
    } else if (d_.scaled) {
      value = value * scale[half];
    }
    KILN_RETURN_IF_ERROR(Store(to, k, value));
  }
  return absl::OkStatus();
}

// Results 4 i .. 4 i + 3 are code i of each byte of a word.
absl::Status Decoding::ToInt8(const Tile& from, const Tile& to) {
  KILN_RETURN_IF_ERROR(CheckTarget(to, kInt8, kUInt8));
  KILN_ASSIGN_OR_RETURN(const int64_t n, Number(2, 16, "N"));
  if (n < 4 || n > 16 || n % 4 != 0 || (d_.bits == 4 && n != 16)) {
    return Refuse(2, absl::StrCat("N = ", n, ", an argument"), "decode 16 elements a call");
  }
  KILN_RETURN_IF_ERROR(CheckRoom(1, to, n));
  Expr words[2];
  const int64_t bytes = d_.bits == 1 ? 2 : 4;
  for (int i = 0; i < (d_.bits == 4 ? 2 : 1); ++i) {
    KILN_ASSIGN_OR_RETURN(words[i], Word(from, 4 * i, bytes));
  }
  static constexpr int64_t kPlaces[] = {0, 8, 4, 12};  // of one bit, of which there are 16
  for (int64_t k = 0; k < n; ++k) {
    const int64_t i = d_.bits == 4 ? k % 8 / 4 : k / 4;
    const int64_t place = d_.bits * i + (d_.bits == 1 ? kPlaces[k % 4] : 8 * (k % 4));
    Expr code = And(Right(words[d_.bits == 4 ? k / 8 : 0], place), Bits((1 << d_.bits) - 1));
    code = ir::MakeCast(kInt32, code);
    if (d_.is_signed) {
      code = d_.bits == 1   ? code * ir::MakeInt(2) - ir::MakeInt(1)
             : d_.bits == 2 ? code - ir::MakeInt(2)
                            : code - ir::MakeInt(7);
    }
    KILN_RETURN_IF_ERROR(Store(to, k, ir::MakeCast(to.region.buffer->dtype, code)));
  }
  return absl::OkStatus();
}

// Two codes of 2 bits to two nibbles of a byte; signs are left to whoever reads them.
absl::Status Decoding::ToInt4(const Tile& from, const Tile& to) {
  KILN_RETURN_IF_ERROR(CheckTarget(to, kInt8, kUInt8));
  KILN_ASSIGN_OR_RETURN(const int64_t n, Number(2, 16, "N"));
  if (n < 8 || n > 256 || n % 8 != 0) {
    return Refuse(2, absl::StrCat("N = ", n, ", an argument"), "decode 16 elements a call");
  }
  KILN_RETURN_IF_ERROR(CheckRoom(1, to, n / 2));
  Expr word;
  for (int64_t i = 0; i < n / 8; ++i) {
    if (i % 2 == 0) {
      KILN_ASSIGN_OR_RETURN(word, Word(from, 2 * i, 4));
    }
    for (int64_t byte = 0; byte < 4; ++byte) {
      const Expr pair = And(Right(word, 2 * (i % 2) + 8 * byte), Bits(0x33));
      KILN_RETURN_IF_ERROR(Store(to, 4 * i + byte, ir::MakeCast(to.region.buffer->dtype, pair)));
    }
  }
  return absl::OkStatus();
}

// The value of a sign, two bits of exponent and one of mantissa, where they lie in a word.
Expr ValueOfE2M1(const Expr& word, int64_t sign, int64_t high, int64_t low, int64_t mantissa) {
  const auto bit = [&](int64_t place) { return And(Right(word, place), Bits(1)); };
  const Expr magnitude = Or(Or(Left(bit(high), 2), Left(bit(low), 1)), bit(mantissa));
  // 0 and 1/2 have no leading one.
  const Expr small = magnitude * Bits(0x3f00);
  const Expr normal = Left(magnitude, 6) + Bits(0x3f00);
  const Expr bits = Or(ir::MakeSelect(magnitude < Bits(2), small, normal), Left(bit(sign), 15));
  return ir::MakeCall(kBFloat16, ir::Intrinsic::kReinterpret,
                      {ir::MakeCast({TypeCode::kUInt, 16}, bits)});
}

// Eight elements a word. Plain: of each byte the low nibble, then of each the high one. Twiddled:
// the bits of four elements lie among each other in the first two bytes, those of the next four in
// the last two; the first byte of two is the higher.
absl::Status Decoding::ToBFloat16(const Tile& from, const Tile& to) {
  KILN_RETURN_IF_ERROR(CheckTarget(to, kBFloat16, kBFloat16));
  KILN_ASSIGN_OR_RETURN(const int64_t n, Number(2, 8, "N"));
  if (n < 1 || n > 64) {
    return Refuse(2, absl::StrCat("N = ", n, ", an argument"), "decode 1 to 64 words a call");
  }
  KILN_RETURN_IF_ERROR(CheckRoom(1, to, 8 * n));
  static constexpr int64_t kPlaces[4][4] = {
      {15, 8, 7, 6}, {12, 5, 4, 3}, {9, 2, 1, 0}, {14, 11, 10, 13}};
  for (int64_t i = 0; i < n; ++i) {
    KILN_ASSIGN_OR_RETURN(const Expr word, Word(from, 4 * i, 4));
    for (int64_t k = 0; k < 8; ++k) {
      const int64_t half = k / 4, j = k % 4;
      Expr value;
      if (d_.twiddled) {
        const auto place = [&](int64_t p) { return 16 * half + (p + 8) % 16; };  // bytes turned
        const int64_t* p = kPlaces[j];
        value = ValueOfE2M1(word, place(p[0]), place(p[1]), place(p[2]), place(p[3]));
      } else {
        const int64_t first = 8 * j + 4 * half;
        value = ValueOfE2M1(word, first + 3, first + 2, first + 1, first);
      }
      KILN_RETURN_IF_ERROR(Store(to, 8 * i + k, value));
    }
  }
  return absl::OkStatus();
}

// T.call_extern(type, name, ...), and T.call_extern(name, ..., dtype=type).
absl::StatusOr<Value> CallExtern(Elaborator& e, const BoundArgs& args) {
  const size_t at = args.Given(0) ? 0 : 1;
  if (args.rest.size() <= at) {
    return e.Error(args.loc, "T.call_extern without a function",
                   "write T.call_extern(\"handle\", name, ...)");
  }
  KILN_ASSIGN_OR_RETURN(const std::string name,
                        e.ToStr(args.rest[at], args.rest_locs[at], "the function's name"));
  const std::optional<Decoder> decoder = ParseDecoder(name);
  if (!decoder) {
    return e.Unimplemented(args.rest_locs[at],
                           absl::StrCat("T.call_extern of '", name, "' is not supported"), kRemedy);
  }
  KILN_RETURN_IF_ERROR(Decoding(e, args, at + 1, name, *decoder).Emit());
  return Value::None();
}

absl::StatusOr<Value> ImportSource(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(CheckImportedSource(e, args[0], args.LocOf(0), "T.import_source"));
  return Value::None();
}

// What the functions of these names return: a function, and its text, which is its name here.
absl::StatusOr<Value> Group(Elaborator& e, SourceLoc loc, const std::string& name) {
  if (!ParseDecoder(name)) {
    return e.Unimplemented(loc, absl::StrCat("there is no '", name, "'"), kRemedy);
  }
  auto* group = e.arena().New<DictObject>();
  const Value text = e.NewStr(name);
  KILN_RETURN_IF_ERROR(e.SetItem(group, e.NewStr("func_name"), text, loc));
  KILN_RETURN_IF_ERROR(e.SetItem(group, e.NewStr("c_source"), text, loc));
  return Value::Of(Type::kDict, group);
}

absl::StatusOr<bool> IsSignedSource(Elaborator& e, const BoundArgs& args, size_t i) {
  if (!args.Given(i)) return false;
  if (args[i].Is(Type::kStr)) return args[i].str() == "int";
  KILN_ASSIGN_OR_RETURN(const DType type, e.ToDType(args[i], args.LocOf(i)));
  return !type.is_uint();
}

absl::StatusOr<Value> IntegerGroup(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const DType out, e.ToDType(args[0], args.LocOf(0)));
  KILN_ASSIGN_OR_RETURN(const bool is_signed, IsSignedSource(e, args, 1));
  int64_t bits = 4;
  if (args.Given(2)) {
    KILN_ASSIGN_OR_RETURN(bits, e.ToInt(args[2], args.LocOf(2), "source_bit"));
  }
  bool scaled = false, zeros = false;
  if (args.Given(4)) {
    KILN_ASSIGN_OR_RETURN(scaled, e.ToBool(args[4], args.LocOf(4), "with_scaling"));
  }
  if (args.Given(5)) {
    KILN_ASSIGN_OR_RETURN(zeros, e.ToBool(args[5], args.LocOf(5), "with_zeros"));
  }
  std::string mode = "original", scope = "local";
  if (args.Given(6)) {
    KILN_ASSIGN_OR_RETURN(mode, e.ToStr(args[6], args.LocOf(6), "zeros_mode"));
  }
  if (args.Given(7)) {
    KILN_ASSIGN_OR_RETURN(scope, e.ToStr(args[7], args.LocOf(7), "storage_scope"));
  }
  const std::string type = out == kFloat16 ? "f16" : out == kInt8 ? "i8s" : "i4s";
  return Group(e, args.loc,
               absl::StrCat("decode_i", bits, is_signed ? "s" : "u", "_to_", type,
                            scaled ? "_scale" : "", zeros ? absl::StrCat("_zeros_", mode) : "",
                            scaled && scope == "warp" ? "_offset" : ""));
}

absl::StatusOr<Value> FloatGroup(Elaborator& e, const BoundArgs& args) {
  DType out = kBFloat16;
  if (args.Given(0)) {
    KILN_ASSIGN_OR_RETURN(out, e.ToDType(args[0], args.LocOf(0)));
  }
  int64_t bits = 4;
  if (args.Given(2)) {
    KILN_ASSIGN_OR_RETURN(bits, e.ToInt(args[2], args.LocOf(2), "source_bit"));
  }
  bool twiddled = false;
  if (args.Given(4)) {
    KILN_ASSIGN_OR_RETURN(twiddled, e.ToBool(args[4], args.LocOf(4), "use_twiddling"));
  }
  return Group(e, args.loc,
               absl::StrCat("decode_fp", bits, "_to_", out == kBFloat16 ? "bf16" : "f16",
                            twiddled ? "_twiddling" : ""));
}

constexpr Builtin kRows[] = {
    {"T.call_extern", "* dtype?", CallExtern},
    {"T.import_source", "source", ImportSource},
    {"quantize.get_lop3_intrin_group",
     "out_dtype source_format? source_bit? storage_dtype? with_scaling? with_zeros? zeros_mode? "
     "storage_scope?",
     IntegerGroup},
    {"quantize.get_mxfp_intrin_group",
     "out_dtype? source_format? source_bit? storage_dtype? use_twiddling? target?", FloatGroup},
};

}  // namespace

absl::Status CheckImportedSource(Elaborator& e, const Value& text, SourceLoc loc,
                                 const char* what) {
  if (text.is_none()) return absl::OkStatus();
  KILN_ASSIGN_OR_RETURN(const std::string source,
                        e.ToStr(text, loc, absl::StrCat("the text of ", what)));
  if (ParseDecoder(source)) return absl::OkStatus();
  const std::string digest = Sha256Hex(WithoutComments(source)).substr(0, 16);
  const bool known =
      std::find(std::begin(kKnownTexts), std::end(kKnownTexts), digest) != std::end(kKnownTexts);
  if (known) return absl::OkStatus();
  return e.Unimplemented(loc, absl::StrCat(what, " of text in CUDA is not supported"), kRemedy);
}

BuiltinTable ExternBuiltins() { return {kRows, std::size(kRows)}; }

}  // namespace kiln::lang
