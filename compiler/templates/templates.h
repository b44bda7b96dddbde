// The kernels that ship with Kiln, embedded in the binary.
#ifndef KILN_COMPILER_TEMPLATES_TEMPLATES_H_
#define KILN_COMPILER_TEMPLATES_TEMPLATES_H_

#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/base/diagnostic.h"

namespace kiln {

struct KernelTemplate {
  absl::string_view name;    // what a sweep file says: "matmul"
  absl::string_view entry;   // the function in the source: "matmul"
  absl::string_view source;  // the text of compiler/templates/<name>.py
  absl::string_view about;   // the first line of its docstring
};

// All templates, sorted by name. Lives forever.
const std::vector<KernelTemplate>& KernelTemplates();

// The template of that name, or null.
const KernelTemplate* FindKernelTemplate(absl::string_view name);

// Its text as a source file called "<name>.py", for kiln::lang::Kernel::Parse.
std::shared_ptr<const SourceFile> TemplateSource(const KernelTemplate& kernel);

}  // namespace kiln

#endif  // KILN_COMPILER_TEMPLATES_TEMPLATES_H_
