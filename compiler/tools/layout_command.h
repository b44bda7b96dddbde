// `kilnc layout`: a layout, given as text or by a preset's name, in words, as a drawing, as JSON,
// as SVG, or as a page to play with.
#ifndef KILN_COMPILER_TOOLS_LAYOUT_COMMAND_H_
#define KILN_COMPILER_TOOLS_LAYOUT_COMMAND_H_

#include <cstdint>
#include <ostream>
#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace kiln::tools {

struct LayoutOptions {
  std::string layout;   // a text, or the name of a preset
  std::string shape;    // "8,64"; empty = the preset's or the obvious one
  std::string dtype;    // width of an element, by name ...
  int bytes = 0;        // ... or in bytes; neither = the preset's, or 32 bits
  std::string swizzle;  // "M,B,S", or none, 32B, 64B, 128B of the dtype: in place of the one on m
  std::string element;  // "i,j" or a flat index: describe this one only
  int64_t rows = 0, columns = 0;  // cells drawn; 0 = 32 x 16 as text, 64 x 64 as SVG
  int64_t limit = 65536;          // points in the JSON
  bool json = false;
  bool list = false;
  std::string svg, html;  // files to write; "-" = standard output
};

// Adds the subcommand and its options; `options` must outlive the parsing.
CLI::App* AddLayoutCommand(CLI::App* app, LayoutOptions* options);

// Runs it. 0: done; 1: a file cannot be written; 2: the layout or an option is wrong, said on
// `err`.
int RunLayoutCommand(const LayoutOptions& options, std::ostream& out, std::ostream& err);

}  // namespace kiln::tools

#endif  // KILN_COMPILER_TOOLS_LAYOUT_COMMAND_H_
