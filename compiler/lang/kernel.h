// The front door of the kernel language: parse a file, pick a kernel, elaborate it.
//
// A kernel is data. Parsing and elaboration read nothing but their arguments, are deterministic,
// bounded in steps, memory and depth, and safe on hostile input: every failure is a Diagnostic
// (kInvalidArgument: the text is wrong; kUnimplemented: outside the supported language;
// kResourceExhausted: a limit). Thread-compatible; a Kernel may be elaborated from many threads.
#ifndef KILN_COMPILER_LANG_KERNEL_H_
#define KILN_COMPILER_LANG_KERNEL_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/base/config.h"
#include "compiler/base/diagnostic.h"
#include "compiler/ir/stmt.h"
#include "compiler/lang/target_facts.h"

namespace kiln::lang {

struct Limits {
  int64_t source_bytes = 1 << 20;
  int64_t steps = 20'000'000;  // evaluated nodes; about 2 s
  int64_t ir_nodes = 2'000'000;
  int depth = 200;  // calls, macro expansions and expression nesting
};

// One parameter of the entry function, as the user sees it.
struct ParamInfo {
  enum Kind { kTensor, kRuntimeScalar, kCompileTime };
  std::string name;
  Kind kind = kCompileTime;
  std::optional<std::string> default_text;  // of the default, where constants say it
  bool has_default = false;
  SourceLoc loc;
};

// Compile-time arguments: parameter (or T.const) name -> literal text ("512", "float32", "True").
using Arguments = std::map<std::string, std::string>;

struct ParsedModule;  // private to compiler/lang

class Kernel {
 public:
  // Parses `file` and selects `entry` (may be empty when the file defines exactly one kernel). A
  // function inside another one is "outer.kernel"; the parameters of both are its arguments, and of
  // the outer one's statements those are run that its names come from. A name that the file imports
  // from another file beside it is that file's function.
  static absl::StatusOr<Kernel> Parse(std::shared_ptr<const SourceFile> file,
                                      absl::string_view entry, const Limits& limits = {});

  const std::string& name() const { return name_; }
  const std::vector<ParamInfo>& params() const { return params_; }
  // Names of T.const sizes that the eager style reads from tensors: they are arguments too.
  const std::vector<std::string>& consts() const { return consts_; }
  const std::shared_ptr<const SourceFile>& file() const { return file_; }
  const ParsedModule& module() const { return *module_; }
  // Every kernel that the file defines, in order.
  static absl::StatusOr<std::vector<std::string>> List(std::shared_ptr<const SourceFile> file);

 private:
  friend class KernelBuilder;
  std::string name_;
  std::vector<ParamInfo> params_;
  std::vector<std::string> consts_;
  std::shared_ptr<const SourceFile> file_;
  std::shared_ptr<const ParsedModule> module_;
};

// Elaborates to a closed program: every compile-time parameter has a value from `config`,
// `arguments` or its default, in that order. An unknown name in either is an error that lists the
// parameters. Pass options in `config` go over those of the kernel (pass_options.h). The result
// passes ir::Verify.
// Where the kernel asks for facts of the machine, it gets those of `target`.
absl::StatusOr<ir::Program> Elaborate(const Kernel& kernel, const Arguments& arguments,
                                      const Config& config, const TargetFacts& target = {},
                                      const Limits& limits = {});

// Elaboration with tunables left open: each name of `open` becomes an int32 Var of the program.
struct OpenProgram {
  ir::Program program;
  std::map<std::string, ir::Expr> tunables;  // name -> Var
  std::vector<ir::Expr> constraints;         // bools over the Vars that must hold (asserts)
};
// Where a decision (an `if`, a Python list index, ...) needs the value of an open tunable.
struct NeedsConcrete {
  std::vector<std::string> tunables;
  SourceLoc loc;
  std::string why;
};
struct OpenResult {
  std::optional<OpenProgram> program;  // exactly one of the two is set
  std::optional<NeedsConcrete> needs;
};
absl::StatusOr<OpenResult> ElaborateOpen(const Kernel& kernel, const Arguments& arguments,
                                         const Config& fixed, const std::vector<std::string>& open,
                                         const TargetFacts& target = {}, const Limits& limits = {});

// The configs of the kernel's own @autotune(configs=...), evaluated with `arguments`; empty when
// it has none.
absl::StatusOr<std::vector<Config>> AutotuneConfigs(const Kernel& kernel,
                                                    const Arguments& arguments,
                                                    const TargetFacts& target = {},
                                                    const Limits& limits = {});

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_KERNEL_H_
