// A config: one assignment of the tunables, in canonical text.
#ifndef KILN_COMPILER_BASE_CONFIG_H_
#define KILN_COMPILER_BASE_CONFIG_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln {

// Whether a name of a config is that of a pass option ("kiln.cluster"), not that of a tunable.
bool IsOptionName(absl::string_view name);

// Name -> value text, sorted by name. A name is a tunable's, an identifier, or a pass option's, two
// of them with a dot between (compiler/lang/pass_options.h says which there are). The value text is
// a Python literal of the kernel language: an integer, a float, True/False, None, a quoted string
// or a dtype name; nothing else. The canonical text "block_K=64,block_M=128" is the config's
// identity everywhere (keys, ids, UI).
class Config {
 public:
  Config() = default;
  explicit Config(std::map<std::string, std::string> values) : values_(std::move(values)) {}

  // Parses "a=1,b=float32" (spaces around names and values are dropped). kInvalidArgument names
  // the offending part: a bad identifier, an empty or unsafe value, a duplicate name.
  static absl::StatusOr<Config> Parse(absl::string_view text);

  std::string ToString() const;
  const std::map<std::string, std::string>& values() const { return values_; }
  void Set(std::string name, std::string value) { values_[std::move(name)] = std::move(value); }
  const std::string* Find(absl::string_view name) const;

  // This config with `other`'s entries added; `other` wins on equal names.
  Config MergedWith(const Config& other) const;

  bool operator==(const Config&) const = default;
  bool operator<(const Config& other) const { return values_ < other.values_; }

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace kiln

#endif  // KILN_COMPILER_BASE_CONFIG_H_
