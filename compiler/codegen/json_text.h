// JSON as text, whatever bytes its strings hold.
#ifndef KILN_COMPILER_CODEGEN_JSON_TEXT_H_
#define KILN_COMPILER_CODEGEN_JSON_TEXT_H_

#include <nlohmann/json.hpp>
#include <string>

namespace kiln {

// `json`: nlohmann::json or ordered_json. `indent`: columns a level, -1 for one line. Bytes that
// are no UTF-8 become U+FFFD.
template <typename Json>
std::string JsonText(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace kiln

#endif  // KILN_COMPILER_CODEGEN_JSON_TEXT_H_
