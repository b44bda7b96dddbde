// Print: a line of text and values.
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "compiler/interp/compiler.h"
#include "compiler/ir/print_format.h"

namespace kiln::interp {
namespace {

template <typename T>
std::string Formatted(const char* conversion, T value) {
  char text[64];
  std::snprintf(text, sizeof(text), conversion, value);
  return text;
}

class PrintOf : public Action {
 public:
  PrintOf(const ir::Print& print, std::vector<NodePtr> values,
          const std::function<void(const std::string&)>& to)
      : Action(print.loc), print_(print), values_(std::move(values)), to_(to) {}

  Flow Run(Machine& m) const override {
    std::string line = print_.text[0];
    for (size_t i = 0; i < values_.size(); ++i) {
      const DType type = print_.values[i].dtype();
      const char* conversion = ir::ConversionOf(type);
      absl::StrAppend(&line,
                      IsReal(type)
                          ? Formatted(conversion, values_[i]->Real(m))
                          : Formatted(conversion, static_cast<long long>(values_[i]->Int(m))),
                      print_.text[i + 1]);
    }
    if (m.failed()) return Flow::kStop;
    line += '\n';
    if (to_) {
      to_(line);
    } else {
      std::fwrite(line.data(), 1, line.size(), stdout);
    }
    return NextUnlessFailed(m);
  }

 private:
  const ir::Print& print_;  // of the program, which outlives its run
  std::vector<NodePtr> values_;
  const std::function<void(const std::string&)>& to_;
};

}  // namespace

ActionPtr Compiler::PrintAction(const ir::Stmt& s) {
  const auto* x = s.As<ir::Print>();
  return std::make_unique<PrintOf>(*x, Exprs(x->values, s->loc), options_.print);
}

}  // namespace kiln::interp
