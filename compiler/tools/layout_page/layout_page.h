// The page that `kilnc layout --html` writes: one file, no network, which evaluates layouts itself.
//
// layout.js is the algebra that it needs (parser, evaluation, swizzles, banks, wavefronts), view.js
// what a cell and an element say, page.js the document. The first two compute what compiler/layout
// does and say it in the same words; a test holds them to it.
#ifndef KILN_COMPILER_TOOLS_LAYOUT_PAGE_LAYOUT_PAGE_H_
#define KILN_COMPILER_TOOLS_LAYOUT_PAGE_LAYOUT_PAGE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace kiln::tools {

// What the page shows first.
struct PageStart {
  std::string layout;
  std::vector<int64_t> shape;
  int element_bits = 32;
};

std::string LayoutPage(const PageStart& start);

}  // namespace kiln::tools

#endif  // KILN_COMPILER_TOOLS_LAYOUT_PAGE_LAYOUT_PAGE_H_
