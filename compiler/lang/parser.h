// Source text to syntax tree. All of Python 3's grammar is accepted so that the host code around a
// kernel does not matter; the first error ends the parse.
#ifndef KILN_COMPILER_LANG_PARSER_H_
#define KILN_COMPILER_LANG_PARSER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/base/diagnostic.h"
#include "compiler/lang/ast.h"
#include "compiler/lang/kernel.h"

namespace kiln::lang {

// The syntax tree of `file`. kInvalidArgument with position and remedy for a syntax error,
// kResourceExhausted when the source, its nesting or an expression is larger than `limits`.
// Without `positions` every node's position is unknown: text that is not the user's.
absl::StatusOr<std::unique_ptr<const ast::Ast>> ParseSource(const SourceFile& file,
                                                            const Limits& limits,
                                                            bool positions = true);

// Parses `text` as one expression into `ast` (positions refer to `file`, whose text is `text`).
absl::StatusOr<ast::ExprPtr> ParseExpression(const SourceFile& file, const Limits& limits,
                                             ast::Ast* ast);

// The name that `name` stands for in the body of the class `type`: "__x" is "_Type__x" there.
std::string PrivateName(absl::string_view type, absl::string_view name);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_PARSER_H_
