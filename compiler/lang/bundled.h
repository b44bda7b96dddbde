// Classes of T that are written in the kernel language itself.
#ifndef KILN_COMPILER_LANG_BUNDLED_H_
#define KILN_COMPILER_LANG_BUNDLED_H_

#include "absl/strings/string_view.h"
#include "compiler/lang/ast.h"

namespace kiln::lang {

// Their syntax: one class a statement, without positions. They see each other, T and
// tilelang.carver.arch.driver, and nothing of the user's file. Lives forever.
const ast::Ast& BundledTree();

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_BUNDLED_H_
