// Helpers of the kernel language's tests: kernel text in, program text or diagnostic out.
#ifndef KILN_TESTS_UNIT_LANG_LANG_TEST_UTIL_H_
#define KILN_TESTS_UNIT_LANG_LANG_TEST_UTIL_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/base/diagnostic.h"
#include "compiler/ir/printer.h"
#include "compiler/lang/kernel.h"

namespace kiln::lang {

inline std::shared_ptr<const SourceFile> MakeSource(std::string text, std::string path = "k.py") {
  auto file = std::make_shared<SourceFile>();
  file->path = std::move(path);
  file->text = std::move(text);
  return file;
}

// A GPU of 100 SMs.
inline TargetFacts TestTarget() {
  TargetFacts facts;
  facts.cores = 100;
  facts.gpu = true;
  facts.major = 9;
  facts.name = "test GPU";
  facts.shared_bytes = 200 << 10;
  return facts;
}

// Parses and elaborates; `entry` may be empty.
inline absl::StatusOr<ir::Program> ElaborateText(const std::string& text,
                                                 const Arguments& arguments = {},
                                                 const std::string& config = "",
                                                 const std::string& entry = "",
                                                 const Limits& limits = {}) {
  KILN_ASSIGN_OR_RETURN(const Kernel kernel, Kernel::Parse(MakeSource(text), entry, limits));
  KILN_ASSIGN_OR_RETURN(const Config parsed, Config::Parse(config));
  return Elaborate(kernel, arguments, parsed, TestTarget(), limits);
}

// A whole eager kernel around the statements of a T.Kernel block. `x` and `y` are float32 tensors
// of shape (64, 64), `v` is int32 of shape (64,), `n` is a run-time int32.
inline std::string InKernel(const std::string& body, const std::string& before = "",
                            const std::string& module = "") {
  std::string text =
      "import math\nimport itertools\nimport tilelang\nimport tilelang.language as T\n" + module +
      "\n@tilelang.jit\ndef kernel(x: T.Tensor((64, 64), T.float32), y: T.Tensor((64, 64), "
      "T.float32), v: T.Tensor((64,), T.int32), n: T.int32, p=4, q=None):\n";
  auto indent = [&](const std::string& block, const std::string& by) {
    size_t start = 0;
    while (start < block.size()) {
      size_t end = block.find('\n', start);
      if (end == std::string::npos) end = block.size();
      if (end > start) text += by + block.substr(start, end - start);
      text += "\n";
      start = end + 1;
    }
  };
  indent(before, "    ");
  text += "    with T.Kernel(4, threads=128) as bx:\n";
  indent(body, "        ");
  return text;
}

// The body of the only launch as text, or the error.
inline std::string Elaborated(const std::string& text, const Arguments& arguments = {},
                              const std::string& config = "") {
  const absl::StatusOr<ir::Program> program = ElaborateText(text, arguments, config);
  if (!program.ok()) return std::string(program.status().message());
  return ir::ToString(*program);
}

}  // namespace kiln::lang

#endif  // KILN_TESTS_UNIT_LANG_LANG_TEST_UTIL_H_
