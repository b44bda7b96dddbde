// Strict reading of YAML: every complaint has file:line:column, a caret and a remedy; unknown and
// repeated keys, wrong types and numbers out of range are errors.
#ifndef KILN_CLIENT_YAML_READER_H_
#define KILN_CLIENT_YAML_READER_H_

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "compiler/base/diagnostic.h"

namespace kiln::client {

class YamlReader {
 public:
  using Handler = std::function<absl::Status(const YAML::Node&)>;
  using Handlers = std::map<std::string, Handler>;

  explicit YamlReader(std::shared_ptr<const SourceFile> file) : file_(std::move(file)) {}

  // The file's one document. Bounded: at most 1 MiB of text, 100000 nodes after aliases are
  // followed, 64 levels.
  absl::StatusOr<YAML::Node> Load() const;

  absl::Status Error(const YAML::Node& node, std::string message, std::string remedy,
                     absl::StatusCode code = absl::StatusCode::kInvalidArgument) const;

  // Calls the handler of every key of the mapping `node`, in the file's order.
  absl::Status Mapping(const YAML::Node& node, absl::string_view what,
                       const Handlers& handlers) const;
  // The same for a mapping whose keys the user chooses: identifiers.
  using NameHandler = std::function<absl::Status(const std::string&, const YAML::Node&)>;
  absl::Status Names(const YAML::Node& node, absl::string_view what,
                     const NameHandler& handler) const;
  // Names of a config: identifiers and pass options ("kiln.cluster").
  absl::Status ConfigNames(const YAML::Node& node, absl::string_view what,
                           const NameHandler& handler) const;
  absl::Status Sequence(const YAML::Node& node, absl::string_view what,
                        const Handler& handler) const;

  absl::StatusOr<std::string> Text(const YAML::Node& node, absl::string_view what) const;
  absl::StatusOr<int64_t> Integer(const YAML::Node& node, absl::string_view what, int64_t low,
                                  int64_t high) const;
  absl::StatusOr<double> Number(const YAML::Node& node, absl::string_view what, double low,
                                double high) const;
  absl::StatusOr<bool> Boolean(const YAML::Node& node, absl::string_view what) const;
  // Seconds as a number, or a duration such as 90s, 10m, 1h30m.
  absl::StatusOr<double> Seconds(const YAML::Node& node, absl::string_view what, double high) const;
  // One of `choices`; returns its position.
  absl::StatusOr<int> Choice(const YAML::Node& node, absl::string_view what,
                             const std::vector<std::string>& choices) const;

  // A literal of the kernel language: 64, 0.5, True, None, float16, "NT". A plain word that is no
  // dtype becomes a string.
  absl::StatusOr<std::string> Literal(const YAML::Node& node, absl::string_view what) const;

 private:
  absl::Status CheckSize(const YAML::Node& node, int depth, int64_t* budget) const;
  absl::Status Entries(const YAML::Node& node, absl::string_view what,
                       const std::function<absl::Status(const YAML::Node&, const std::string&,
                                                        const YAML::Node&)>& handler) const;

  const std::shared_ptr<const SourceFile> file_;
};

}  // namespace kiln::client

#endif  // KILN_CLIENT_YAML_READER_H_
