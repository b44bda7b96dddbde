// What Python's library makes of a class: dataclasses, named tuples and enums, and the members that
// they have without saying so. Private to compiler/lang.
//
// An instance of a dataclass is an InstanceObject; a named tuple is a tuple whose SeqObject names
// its class; a member of an enum is an InstanceObject whose attributes are name and value.
#ifndef KILN_COMPILER_LANG_CLASSES_H_
#define KILN_COMPILER_LANG_CLASSES_H_

#include <string>
#include <vector>

#include "compiler/lang/elaborator.h"

namespace kiln::lang {

class Elaborator::Classes {
 public:
  explicit Classes(Elaborator* e) : e_(*e) {}

  // What a type of Python's as a base says of the class; false: it is no such base.
  absl::StatusOr<bool> TakeBase(const Value& base, SourceLoc loc, ClassObject* type);
  // What it has from a class that it is based on.
  absl::Status Inherit(const ClassObject& base, SourceLoc loc, ClassObject* type);
  // @dataclass, with its options.
  absl::Status ReadDataclass(ast::ExprPtr decorator, ClassObject* type);
  // `name: type = default` in a body; false: the class has no fields.
  absl::StatusOr<bool> TakeField(const ast::AnnAssign& field, ClassObject* type);
  // The names that the body of an enum gave numbers or text become its members.
  absl::Status MakeCases(const Value& type, SourceLoc loc);
  // enum.auto() becomes what it stands for, right where a name is bound to it. `before` holds the
  // values of the members so far.
  absl::Status SettleAuto(const ClassObject& type, const std::string& name,
                          std::vector<Value>* before, Value* value, SourceLoc loc);
  // Enum("Mode", "ROW COL"), and the other bases of enums.
  absl::StatusOr<Value> MakeEnum(const Value& base, const CallArgs& args);
  // collections.namedtuple(...).
  absl::StatusOr<Value> NamedTuple(const std::string& name, std::vector<ClassField> fields,
                                   SourceLoc loc);

  // An instance of a class that has no __init__ of its own; `self` is the one of a dataclass.
  absl::StatusOr<Value> Make(const Value& type, const CallArgs& args, const Value& self);
  // The member of an enum with this value, or of this name.
  absl::StatusOr<Value> CaseOf(const Value& type, const Value& value, SourceLoc loc);
  absl::StatusOr<Value> CaseNamed(const Value& type, const Value& name, SourceLoc loc);
  // The members of an enum; an error for any other class.
  absl::StatusOr<std::vector<Value>> Cases(const Value& type, SourceLoc loc);

  // An attribute of a named tuple; None of Type::kNone and not found: `found` is false.
  absl::StatusOr<Value> TupleAttribute(const Value& tuple, const std::string& attr, SourceLoc loc,
                                       bool* found);
  // __slots__ of the class's body.
  absl::Status ReadSlots(ClassObject* type, SourceLoc loc);
  // Whether an object of the class may have an attribute by that name, or has a slot for it.
  static bool HasRoom(const ClassObject& type, absl::string_view attr);
  static bool IsSlot(const ClassObject& type, absl::string_view attr);
  // An error where an object is no key of a dict, or its class says by itself which keys it equals.
  absl::Status CheckKey(const Value& v, SourceLoc loc);
  // Python's hasattr.
  absl::StatusOr<bool> Has(const Value& self, const std::string& attr, SourceLoc loc);
  // Of an entry that is a method, or stands in one (around.cc).
  absl::StatusOr<Value> OfEntry(const ast::Function& method);
  bool LeaveOut(ast::StmtPtr stmt, const absl::Status& why);
  // The names and values of the fields of a dataclass or named tuple; an error for anything else.
  absl::StatusOr<std::vector<std::pair<std::string, Value>>> FieldsOf(const Value& v, SourceLoc loc,
                                                                      absl::string_view what);
  // The same object with other values for some of its fields.
  absl::StatusOr<Value> Replace(const Value& v, const CallArgs& changes, absl::string_view what);
  // The class of an object, a dataclass's or named tuple's too; null: it has none.
  static const ClassObject* Of(const Value& v);
  // a < b of dataclasses with order=True, by their fields; nullopt: they have no order.
  absl::StatusOr<std::optional<Value>> Order(ast::CompareOp op, const Value& a, const Value& b,
                                             SourceLoc loc);
  // str(v), or repr(v), of an object whose class says what it is; nullopt: Repr(v).
  absl::Status CheckItemTexts(const Value& v, SourceLoc loc);
  absl::StatusOr<std::optional<std::string>> Text(const Value& v, bool repr, SourceLoc loc);
  // What the method of that name ("__len__") of the object's class gives; nullopt: it has none.
  absl::StatusOr<std::optional<Value>> Special(const Value& self, absl::string_view name,
                                               std::vector<Value> args, SourceLoc loc);

  // What operators give of objects whose classes say it, and of members of flags; nullopt: they say
  // nothing. An update is BinaryOp then.
  absl::StatusOr<std::optional<Value>> Operate(ast::BinaryOp op, const Value& a, const Value& b,
                                               SourceLoc loc);
  absl::StatusOr<Value> Update(ast::BinaryOp op, const Value& old, const Value& right,
                               SourceLoc loc);
  absl::StatusOr<std::optional<Value>> Compare(ast::CompareOp op, const Value& a, const Value& b,
                                               SourceLoc loc);
  absl::StatusOr<std::optional<Value>> Unary(ast::UnaryOp op, const Value& v, SourceLoc loc);
  absl::StatusOr<std::optional<Value>> Contains(const Value& whole, const Value& part,
                                                SourceLoc loc);
  // The members of one bit that a member of a flag is made of; nullopt: it is no such member.
  static std::optional<std::vector<Value>> FlagsIn(const Value& v);
  // A call of what functools.partial made.
  absl::StatusOr<Value> CallPartial(const PartialObject& partial, const CallArgs& args);

 private:
  absl::StatusOr<Value> Fill(const ClassObject& type, const CallArgs& args,
                             std::vector<Value>* values);
  absl::Status CheckOrder(const ClassObject& type, const ClassField& field, SourceLoc loc);
  Value NewClass(const std::string& name);  // that no text of the file defines
  absl::StatusOr<Value> AutoValue(const ClassObject& type, const std::string& name,
                                  const std::vector<Value>& before, SourceLoc loc);
  absl::StatusOr<std::optional<Value>> Ask(const Value& self, absl::string_view name,
                                           const Value& other, SourceLoc loc);
  absl::StatusOr<std::optional<Value>> AskBoth(const Value& a, const Value& b,
                                               const std::string& own, const std::string& other,
                                               bool same_twice, SourceLoc loc);
  absl::StatusOr<Value> FlagWith(const ClassObject& type, int64_t bits, SourceLoc loc);
  absl::StatusOr<std::optional<Value>> CombineFlags(ast::BinaryOp op, const Value& a,
                                                    const Value& b, SourceLoc loc);
  absl::StatusOr<std::optional<Value>> InvertFlags(const Value& v, SourceLoc loc);
  absl::StatusOr<std::optional<Value>> HoldsFlags(const Value& whole, const Value& part,
                                                  SourceLoc loc);

  Elaborator& e_;
};

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_CLASSES_H_
