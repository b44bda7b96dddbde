#include "compiler/ir/print_format.h"

#include "absl/strings/str_replace.h"

namespace kiln::ir {

const char* ConversionOf(DType type) {
  if (type.is_float()) return type.bits == 64 ? "%.17g" : "%.9g";
  return type.is_uint() || type.is_bool() ? "%llu" : "%lld";
}

std::string FormatOf(const Print& print) {
  std::string format;
  for (size_t i = 0; i < print.text.size(); ++i) {
    format += absl::StrReplaceAll(print.text[i], {{"%", "%%"}});
    if (i < print.values.size()) format += ConversionOf(print.values[i].dtype());
  }
  return format + "\n";
}

}  // namespace kiln::ir
