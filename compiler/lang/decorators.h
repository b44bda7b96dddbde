// What the decorators of a function say, and the options of tilelang.jit and tilelang.compile.
// Private to compiler/lang.
#ifndef KILN_COMPILER_LANG_DECORATORS_H_
#define KILN_COMPILER_LANG_DECORATORS_H_

#include "compiler/lang/elaborator.h"

namespace kiln::lang {

class Elaborator::Decorators {
 public:
  explicit Decorators(Elaborator* e) : e_(*e) {}

  // What the decorators of `def` make of the function: those of the language say what it is, those
  // of the file are called, any other is an error.
  absl::StatusOr<Value> Apply(const ast::Function& def, const std::vector<Value>& wrappers,
                              Value function);
  // The functions that those are which Apply calls, one a decorator, in the order of the text.
  absl::StatusOr<std::vector<Value>> Wrappers(const ast::Function& def);
  // What those of the entry say. Others, and wrappers that would be called in its place, are for
  // who calls the kernel.
  absl::StatusOr<JitOptions> OfEntry();

  absl::Status ReadOption(absl::string_view name, const Value& value, SourceLoc loc,
                          JitOptions* options);
  absl::Status ReadPassConfigs(const Value& v, SourceLoc loc, JitOptions* options);
  absl::Status ReadCompileFlags(const Value& v, SourceLoc loc, JitOptions* options);
  // What a function that makes the configs of @autotune is called with (autotune.cc).
  absl::StatusOr<CallArgs> ConfigArgs(const Value& function, const Arguments& arguments,
                                      SourceLoc loc);

 private:
  // False: the language gives the decorator no meaning by its name.
  absl::StatusOr<bool> Read(ast::ExprPtr decorator, FunctionObject* function);
  // Whether it comes from a module, so that kernels do not see what it makes.
  absl::StatusOr<bool> IsOfHost(ast::ExprPtr decorator);
  absl::Status Unknown(ast::ExprPtr decorator);
  absl::Status ReadCache(ast::ExprPtr decorator, FunctionObject* function);
  absl::Status ReadOptions(const ast::Call& call, JitOptions* options);

  Elaborator& e_;
};

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_DECORATORS_H_
