// A parsed file with what is known of it before elaboration. Private to compiler/lang.
#ifndef KILN_COMPILER_LANG_MODULE_H_
#define KILN_COMPILER_LANG_MODULE_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "compiler/base/diagnostic.h"
#include "compiler/lang/ast.h"

namespace kiln::lang {

class FileTouches;
class Touches;

// How the entry function makes a program.
enum class EntryStyle : uint8_t {
  kEager,     // its body is the kernel; tensors come from annotations
  kFactory,   // it returns a T.prim_func
  kPrimFunc,  // it is one
};

// A top-level statement that gives a name a value (binds) or changes it (x.append(...)).
struct Touch {
  size_t statement = 0;
  bool binds = true;
  bool rebinds = false;  // a function that it calls gives the name another value (global)
};

// The top level of one of the files whose text the source holds (source_bundle.h).
struct SourceSection {
  std::string module;    // "a.b" of a/b.py; empty: the kernel file itself
  bool package = false;  // a/b/__init__.py
  int first_line = 0;
  size_t first = 0, last = 0;  // of the tree's statements, half-open
  absl::flat_hash_map<absl::string_view, std::vector<Touch>> globals;  // in source order
  struct Star {
    size_t statement = 0;
    std::string module;  // absolute
  };
  std::vector<Star> stars;  // `from m import *`, in source order
  // Of a statement that changes something in place: those before it that may read that, and bind
  // or change something themselves; in order.
  absl::flat_hash_map<size_t, std::vector<size_t>> earlier;
  // By section that an import loads, itself or through another file: the first such statement.
  absl::flat_hash_map<size_t, size_t> loads;
  // Statements of other files that may give a name of this one another value, or change that, when
  // this file may have been loaded; in order of the tree.
  absl::flat_hash_map<std::string, std::vector<Touch>> changed_elsewhere;
  bool Holds(size_t statement) const { return first <= statement && statement < last; }
};

// A file beside the kernel's that it imports, and that is not among its sections.
struct LeftOutFile {
  std::string module, path;
  bool broken = false;  // it is not Python, as its text shows; else it is too large
  std::string text;
};

struct ParsedModule {
  std::shared_ptr<const SourceFile> file;
  std::unique_ptr<const ast::Ast> tree;
  std::vector<SourceSection> sections;   // the kernel file's first
  std::shared_ptr<FileTouches> touches;  // of the sections
  // The one that a position is in.
  const SourceSection& SectionAt(SourceLoc loc) const;
  Touches& TouchesAt(SourceLoc loc) const;
  // Null: no file of the source.
  const SourceSection* FindSection(absl::string_view module) const;
  std::vector<LeftOutFile> left_out;
  const LeftOutFile* FindLeftOut(absl::string_view module) const;  // null: it is none
  const ast::Function* entry = nullptr;
  std::vector<const ast::Function*> around;  // functions that the entry stands in, outermost first
  const ast::Class* owner = nullptr;         // the class that the outermost one, or it, is in
  // The parameter is the object or class that a method of `owner` belongs to.
  bool IsSelf(const ast::Function& function, size_t param) const;
  EntryStyle style = EntryStyle::kFactory;
  // The top-level statement that defines the entry, whose defaults mean what was bound before it;
  // SIZE_MAX where the entry stands in a function, and all is bound when that is called.
  size_t EntryStatement() const;
};

// Fills `sections` and `left_out`.
void IndexGlobals(ParsedModule* module);
// What `name` of `from name import ...` means in the module `importer`: "a.b" for "." + "b" in
// "a.c".
std::string AbsoluteName(absl::string_view name, absl::string_view importer, bool package);
// The imports of a file, those in functions too, in order.
std::vector<const ast::Import*> ImportsOf(const ast::Ast& tree);
// The names that a statement binds, nested blocks included, functions' bodies excluded.
void CollectBindings(ast::StmtPtr stmt, std::vector<absl::string_view>* names);

// The last part of `a.b.name`, `name` or a call of either.
absl::string_view LastName(ast::ExprPtr expr);
// The call that a statement is, or assigns; null: neither.
const ast::Call* CallOf(ast::StmtPtr stmt);
// True for `@name`, `@module.name` and calls of them.
bool HasDecorator(const ast::Function& function, absl::string_view name);
// A function that elaborates to a program, with those that it stands in, outermost first.
struct FoundKernel {
  const ast::Function* function = nullptr;
  std::vector<const ast::Function*> around;
  const ast::Class* owner = nullptr;  // `around` begins with the __init__ that makes its objects
  std::string Name() const;           // "outer.kernel", "Class.kernel"
};
// Those of the file, in order: functions of its top level and of its classes, and in place of one
// that makes no kernel itself those that stand in it.
std::vector<FoundKernel> FindKernels(const ParsedModule& module);
// The function at a dotted path, kernel or not; no function where there is none.
FoundKernel FindFunction(const ParsedModule& module, const SourceSection& section,
                         absl::string_view path);
// Of the kernel file, or of the one that it imports the path's first name from.
FoundKernel FindEntry(const ParsedModule& module, absl::string_view path);
EntryStyle StyleOf(const ast::Function& function);

// What a parameter's annotation (in the signature, or a bare one in the body) says it is.
enum class AnnotationKind : uint8_t { kNone, kTensor, kScalar, kOther };
AnnotationKind KindOfAnnotation(ast::ExprPtr annotation);

// Names of the sizes that an eager kernel reads from its tensors: T.const("M, N"), and the `int`
// dimensions of T.Tensor[[int, ...], dtype] in its signature ("A_shape_0").
std::vector<std::string> FindConsts(const ast::Function& function);

// Where a compile-time size or element type comes from: dimension `index` of a tensor parameter.
struct SizeSource {
  enum Part { kShape, kStride, kDType };
  std::string name;  // of the size: "M" of T.const, "A_shape_0", "A_dtype"
  std::string tensor;
  Part part = kShape;
  size_t index = 0;
};
// Of every dimension of an eager kernel's annotations that is a name or a placeholder.
std::vector<SizeSource> FindSizeSources(const ast::Function& function);

// The expression that a tensor parameter's annotation gives as its element type; null: none.
ast::ExprPtr FindElementType(const ast::Function& function, absl::string_view tensor);

// The expression as source text ("T.ceildiv(M, 128)"), for literals and names; nullopt otherwise.
std::optional<std::string> LiteralText(ast::ExprPtr expr);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_MODULE_H_
