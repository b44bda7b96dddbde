// The expressions of the syntax tree. See ast.h for who owns nodes.
#ifndef KILN_COMPILER_LANG_AST_EXPR_H_
#define KILN_COMPILER_LANG_AST_EXPR_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/base/diagnostic.h"

namespace kiln::lang::ast {

enum class ExprKind : uint8_t {
  kConstant,
  kName,
  kAttribute,
  kSubscript,
  kSlice,
  kCall,
  kBinary,
  kUnary,
  kBool,
  kCompare,
  kConditional,
  kLambda,
  kTuple,
  kList,
  kSet,
  kDict,
  kComprehension,
  kFString,
  kStarred,
  kNamed,
  kYield,
  kUnsupported,
};

struct Expr {
  ExprKind kind;
  SourceLoc loc;
  int depth = 1;  // height of the tree below and with this node
  Expr(ExprKind k, SourceLoc l) : kind(k), loc(l) {}
  virtual ~Expr() = default;
  template <typename T>
  const T* As() const {
    return kind == T::kKind ? static_cast<const T*>(this) : nullptr;
  }
};
using ExprPtr = const Expr*;

enum class ConstantType : uint8_t { kNone, kBool, kInt, kFloat, kStr, kEllipsis };

struct Constant : Expr {
  static constexpr ExprKind kKind = ExprKind::kConstant;
  ConstantType type = ConstantType::kNone;
  int64_t int_value = 0;  // kInt, kBool
  double float_value = 0;
  std::string text;  // kStr
  explicit Constant(SourceLoc l) : Expr(kKind, l) {}
};

struct Name : Expr {
  static constexpr ExprKind kKind = ExprKind::kName;
  std::string id;
  Name(SourceLoc l, std::string i) : Expr(kKind, l), id(std::move(i)) {}
};

struct Attribute : Expr {
  static constexpr ExprKind kKind = ExprKind::kAttribute;
  ExprPtr value = nullptr;
  std::string attr;
  SourceLoc attr_loc;
  explicit Attribute(SourceLoc l) : Expr(kKind, l) {}
};

struct Subscript : Expr {
  static constexpr ExprKind kKind = ExprKind::kSubscript;
  ExprPtr value = nullptr;
  std::vector<ExprPtr> indices;  // elements may be Slice or Starred
  bool is_tuple = false;         // x[i,] and x[i, j] against x[i]
  explicit Subscript(SourceLoc l) : Expr(kKind, l) {}
};

struct Slice : Expr {  // any part may be null
  static constexpr ExprKind kKind = ExprKind::kSlice;
  ExprPtr start = nullptr, stop = nullptr, step = nullptr;
  explicit Slice(SourceLoc l) : Expr(kKind, l) {}
};

struct Keyword {
  std::string name;  // empty for **value
  SourceLoc loc;
  ExprPtr value = nullptr;
};

struct Call : Expr {
  static constexpr ExprKind kKind = ExprKind::kCall;
  ExprPtr callee = nullptr;
  std::vector<ExprPtr> args;  // may hold Starred
  std::vector<Keyword> keywords;
  explicit Call(SourceLoc l) : Expr(kKind, l) {}
};

enum class BinaryOp : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kMod,
  kPow,
  kShl,
  kShr,
  kBitAnd,
  kBitOr,
  kBitXor,
  kMatMul,
};
const char* Spelling(BinaryOp op);

struct Binary : Expr {
  static constexpr ExprKind kKind = ExprKind::kBinary;
  BinaryOp op = BinaryOp::kAdd;
  ExprPtr left = nullptr, right = nullptr;
  explicit Binary(SourceLoc l) : Expr(kKind, l) {}
};

enum class UnaryOp : uint8_t { kNeg, kPos, kInvert, kNot };

struct Unary : Expr {
  static constexpr ExprKind kKind = ExprKind::kUnary;
  UnaryOp op = UnaryOp::kNeg;
  ExprPtr operand = nullptr;
  explicit Unary(SourceLoc l) : Expr(kKind, l) {}
};

struct Bool : Expr {  // a and b and c / a or b or c
  static constexpr ExprKind kKind = ExprKind::kBool;
  bool is_and = true;
  std::vector<ExprPtr> operands;
  explicit Bool(SourceLoc l) : Expr(kKind, l) {}
};

enum class CompareOp : uint8_t { kEq, kNe, kLt, kLe, kGt, kGe, kIs, kIsNot, kIn, kNotIn };
const char* Spelling(CompareOp op);

struct Compare : Expr {  // first op[0] rest[0] op[1] rest[1] ...
  static constexpr ExprKind kKind = ExprKind::kCompare;
  ExprPtr first = nullptr;
  std::vector<CompareOp> ops;
  std::vector<ExprPtr> rest;
  explicit Compare(SourceLoc l) : Expr(kKind, l) {}
};

struct Conditional : Expr {  // then if condition else otherwise
  static constexpr ExprKind kKind = ExprKind::kConditional;
  ExprPtr condition = nullptr, then = nullptr, otherwise = nullptr;
  explicit Conditional(SourceLoc l) : Expr(kKind, l) {}
};

enum class ParamKind : uint8_t { kPositionalOnly, kPlain, kVarArgs, kKeywordOnly, kVarKeywords };

struct Param {
  ParamKind kind = ParamKind::kPlain;
  std::string name;
  SourceLoc loc;
  ExprPtr annotation = nullptr;     // may be null
  ExprPtr default_value = nullptr;  // may be null
};

struct Lambda : Expr {
  static constexpr ExprKind kKind = ExprKind::kLambda;
  std::vector<Param> params;
  ExprPtr body = nullptr;
  explicit Lambda(SourceLoc l) : Expr(kKind, l) {}
};

struct Tuple : Expr {
  static constexpr ExprKind kKind = ExprKind::kTuple;
  std::vector<ExprPtr> items;
  explicit Tuple(SourceLoc l) : Expr(kKind, l) {}
};

struct List : Expr {
  static constexpr ExprKind kKind = ExprKind::kList;
  std::vector<ExprPtr> items;
  explicit List(SourceLoc l) : Expr(kKind, l) {}
};

struct Set : Expr {
  static constexpr ExprKind kKind = ExprKind::kSet;
  std::vector<ExprPtr> items;
  explicit Set(SourceLoc l) : Expr(kKind, l) {}
};

struct Dict : Expr {
  static constexpr ExprKind kKind = ExprKind::kDict;
  std::vector<ExprPtr> keys;  // null for **value
  std::vector<ExprPtr> values;
  explicit Dict(SourceLoc l) : Expr(kKind, l) {}
};

struct ForClause {
  ExprPtr target = nullptr, iterable = nullptr;
  std::vector<ExprPtr> conditions;
  bool is_async = false;
};

struct Comprehension : Expr {
  static constexpr ExprKind kKind = ExprKind::kComprehension;
  enum Result : uint8_t { kListResult, kSetResult, kDictResult, kGenerator };
  Result result = kListResult;
  ExprPtr key = nullptr;  // dict only
  ExprPtr element = nullptr;
  std::vector<ForClause> clauses;
  explicit Comprehension(SourceLoc l) : Expr(kKind, l) {}
};

struct FStringPart {
  std::string literal;              // text before the value
  ExprPtr value = nullptr;          // null in a last, literal-only part
  std::string echo;                 // the source up to the value, when written {value=}
  char conversion = 0;              // 'r', 's', 'a' or 0
  std::vector<FStringPart> format;  // the format spec, itself an f-string
};

struct FString : Expr {
  static constexpr ExprKind kKind = ExprKind::kFString;
  std::vector<FStringPart> parts;
  explicit FString(SourceLoc l) : Expr(kKind, l) {}
};

struct Starred : Expr {
  static constexpr ExprKind kKind = ExprKind::kStarred;
  ExprPtr value = nullptr;
  explicit Starred(SourceLoc l) : Expr(kKind, l) {}
};

struct Named : Expr {  // name := value
  static constexpr ExprKind kKind = ExprKind::kNamed;
  ExprPtr target = nullptr;  // a Name
  ExprPtr value = nullptr;
  explicit Named(SourceLoc l) : Expr(kKind, l) {}
};

struct Yield : Expr {
  static constexpr ExprKind kKind = ExprKind::kYield;
  ExprPtr value = nullptr;  // null: None
  bool from = false;        // each item of the value
  explicit Yield(SourceLoc l) : Expr(kKind, l) {}
};

struct Unsupported : Expr {
  static constexpr ExprKind kKind = ExprKind::kUnsupported;
  std::string what;  // "an assignment expression (:=)"
  std::string remedy;
  std::optional<uint64_t> bits;  // of an integer literal that T.uint64 takes
  explicit Unsupported(SourceLoc l) : Expr(kKind, l) {}
};

}  // namespace kiln::lang::ast

#endif  // KILN_COMPILER_LANG_AST_EXPR_H_
