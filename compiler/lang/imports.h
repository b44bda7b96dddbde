// What an import finds. Private to compiler/lang.
#ifndef KILN_COMPILER_LANG_IMPORTS_H_
#define KILN_COMPILER_LANG_IMPORTS_H_

#include <string>

#include "compiler/lang/elaborator.h"

namespace kiln::lang {

// Whether Python would find all that the statement names: modules that kernels know, its own, and
// files, Python or not, which find what they import themselves.
bool IsPresent(const ParsedModule& parsed, const ast::Import& node);
// What is wrong with a module that is neither known nor a file of the source.
std::string WhyAbsent(const ParsedModule& parsed, const std::string& module);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_IMPORTS_H_
