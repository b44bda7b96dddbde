#include "worker/profile/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "worker/profile/extent.h"

namespace kiln::worker {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxElements = int64_t{1} << 40;

absl::StatusOr<std::vector<ManifestExtent>> ParseExtents(const Json& list) {
  std::vector<ManifestExtent> extents;
  for (const Json& item : list) {
    ManifestExtent& extent = extents.emplace_back();
    if (item.is_string()) {
      extent.name = item.get<std::string>();
    } else {
      extent.value = item.get<int64_t>();
      if (extent.value < 0 || extent.value > kMaxElements) {
        return absl::InvalidArgumentError(absl::StrCat("extent ", extent.value, " out of range"));
      }
    }
  }
  return extents;
}

absl::StatusOr<DType> ParseType(const Json& json, absl::string_view parameter) {
  const auto text = json.at("dtype").get<std::string>();
  const std::optional<DType> type = ParseDType(text);
  if (type.has_value()) return *type;
  return absl::InvalidArgumentError(
      absl::StrCat("parameter '", parameter, "' is of unknown dtype '", text, "'"));
}

absl::StatusOr<ManifestSums> ParseSums(const Json& json, absl::string_view parameter) {
  ManifestSums sums;
  KILN_ASSIGN_OR_RETURN(sums.type, ParseType(json, parameter));
  sums.roundings = json.at("roundings").get<int64_t>();
  if (sums.roundings >= 0) return sums;
  return absl::InvalidArgumentError(
      absl::StrCat("parameter '", parameter, "' has sums of ", sums.roundings, " roundings"));
}

absl::StatusOr<ManifestParameter> ParseParameter(const Json& json) {
  ManifestParameter parameter;
  parameter.name = json.at("name").get<std::string>();
  std::string kind = json.at("kind").get<std::string>();
  if (kind != "tensor" && kind != "scalar") {
    return absl::InvalidArgumentError(
        absl::StrCat("parameter '", parameter.name, "' is of unknown kind '", kind, "'"));
  }
  parameter.is_tensor = kind == "tensor";
  KILN_ASSIGN_OR_RETURN(parameter.type, ParseType(json, parameter.name));
  if (!parameter.is_tensor) return parameter;
  KILN_ASSIGN_OR_RETURN(parameter.shape, ParseExtents(json.at("shape")));
  if (json.contains("strides")) {
    KILN_ASSIGN_OR_RETURN(parameter.strides, ParseExtents(json.at("strides")));
    if (!parameter.strides.empty() && parameter.strides.size() != parameter.shape.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("parameter '", parameter.name, "' has a stride count unlike its rank"));
    }
  }
  parameter.output = json.value("output", false);
  parameter.accumulates = json.value("accumulates", false);
  parameter.table = json.value("table", false);
  if (json.contains("sums")) {
    KILN_ASSIGN_OR_RETURN(parameter.sums, ParseSums(json.at("sums"), parameter.name));
  }
  return parameter;
}

absl::StatusOr<int64_t> RuntimeValue(const std::string& name,
                                     const std::map<std::string, std::string>& values) {
  auto found = values.find(name);
  if (found == values.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the kernel needs a value for '", name,
                     "' at run time; give it under `runtime` in the sweep file"));
  }
  if (found->second == "True") return 1;
  if (found->second == "False") return 0;
  int64_t value = 0;
  if (!absl::SimpleAtoi(found->second, &value)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the run-time value '", name, "=", found->second, "' is not an integer"));
  }
  return value;
}

class Binder {
 public:
  explicit Binder(const std::map<std::string, std::string>& values) : values_(values) {}

  absl::StatusOr<int64_t> Value(const ManifestExtent& extent) {
    if (extent.name.empty()) return extent.value;
    const auto value_of = [&](const std::string& name) { return RuntimeValue(name, values_); };
    KILN_ASSIGN_OR_RETURN(int64_t value, EvaluateExtent(extent.name, value_of));
    if (value < 0 || value > kMaxElements) {
      return absl::InvalidArgumentError(
          absl::StrCat("the run-time value ", extent.name, "=", value, " is out of range"));
    }
    return value;
  }

  absl::StatusOr<TensorShape> Tensor(const ManifestParameter& parameter) {
    TensorShape tensor;
    tensor.name = parameter.name;
    tensor.type = parameter.type;
    tensor.output = parameter.output || parameter.accumulates;
    tensor.accumulates = parameter.accumulates;
    tensor.table = parameter.table;
    tensor.sums = parameter.sums;
    tensor.elements = 1;
    for (const ManifestExtent& extent : parameter.shape) {
      KILN_ASSIGN_OR_RETURN(int64_t value, Value(extent));
      tensor.shape.push_back(value);
      if (value != 0 && tensor.elements > kMaxElements / value) return TooLarge(parameter.name);
      tensor.elements *= value;
    }
    std::vector<int64_t> dense(tensor.shape.size(), 1);
    for (size_t i = tensor.shape.size(); i > 1; --i) {
      dense[i - 2] = dense[i - 1] * std::max<int64_t>(tensor.shape[i - 1], 1);
    }
    tensor.strides = dense;
    for (size_t i = 0; i < parameter.strides.size(); ++i) {
      KILN_ASSIGN_OR_RETURN(tensor.strides[i], Value(parameter.strides[i]));
    }
    tensor.span = tensor.elements == 0 ? 0 : 1;
    for (size_t i = 0; i < tensor.shape.size() && tensor.elements > 0; ++i) {
      if (tensor.shape[i] == 1) continue;
      tensor.span += (tensor.shape[i] - 1) * tensor.strides[i];
      if (tensor.strides[i] != dense[i]) tensor.dense = false;
      if (tensor.span > kMaxElements) return TooLarge(parameter.name);
    }
    return tensor;
  }

 private:
  static absl::Status TooLarge(const std::string& name) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor '", name, "' has more than 2^40 elements"));
  }

  const std::map<std::string, std::string>& values_;
};

// For a product of matrices flops / output elements / 2 is its K. Without an operation count the
// longest extent of an input is hardly below it, and tolerances grow with its square root only.
int64_t GuessReduction(const Manifest& manifest, const std::vector<TensorShape>& tensors) {
  if (manifest.reduction_length > 0) return manifest.reduction_length;
  int64_t outputs = 0;
  int64_t longest = 1;
  for (const TensorShape& tensor : tensors) {
    if (tensor.output) outputs += tensor.elements;
    for (int64_t extent : tensor.shape) {
      if (!tensor.output || tensor.accumulates) longest = std::max(longest, extent);
    }
  }
  if (outputs == 0 || manifest.flops <= 0) return longest;
  double length = manifest.flops / static_cast<double>(outputs) / 2;
  return std::clamp<int64_t>(static_cast<int64_t>(length), 1, kMaxElements);
}

absl::StatusOr<int64_t> ScalarBits(const ManifestParameter& parameter,
                                   const std::map<std::string, std::string>& values) {
  auto found = values.find(parameter.name);
  if (!parameter.type.is_float() || found == values.end()) {
    return RuntimeValue(parameter.name, values);
  }
  double value = 0;
  if (!absl::SimpleAtod(found->second, &value)) {
    return absl::InvalidArgumentError(absl::StrCat("the run-time value '", parameter.name, "=",
                                                   found->second, "' is not a number"));
  }
  int64_t bits = 0;
  StoreElement(&bits, parameter.type, value);  // little-endian: the low part
  return bits;
}

}  // namespace

absl::StatusOr<Manifest> ParseManifest(const std::string& json) {
  try {
    Json root = Json::parse(json);
    Manifest manifest;
    manifest.name = root.at("name").get<std::string>();
    manifest.target = root.value("target", "");
    manifest.flops = root.value("flops", 0.0);
    manifest.reduction_length = root.value("reduction_length", int64_t{0});
    for (const Json& item : root.at("params")) {
      KILN_ASSIGN_OR_RETURN(ManifestParameter parameter, ParseParameter(item));
      manifest.parameters.push_back(std::move(parameter));
    }
    if (root.contains("dims")) {
      manifest.dimensions = root.at("dims").get<std::vector<std::string>>();
    }
    return manifest;
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat("the artifact's manifest: ", error.what()));
  }
}

absl::StatusOr<BoundManifest> BindManifest(const Manifest& manifest,
                                           const std::map<std::string, std::string>& values) {
  BoundManifest bound;
  bound.name = manifest.name;
  bound.target = manifest.target;
  Binder binder(values);
  for (const ManifestParameter& parameter : manifest.parameters) {
    if (parameter.is_tensor) {
      KILN_ASSIGN_OR_RETURN(TensorShape tensor, binder.Tensor(parameter));
      bound.tensors.push_back(std::move(tensor));
    } else {
      KILN_ASSIGN_OR_RETURN(int64_t value, ScalarBits(parameter, values));
      bound.values.push_back(value);
    }
  }
  for (const std::string& name : manifest.dimensions) {
    KILN_ASSIGN_OR_RETURN(int64_t value, RuntimeValue(name, values));
    bound.values.push_back(value);
  }
  bound.reduction_length = GuessReduction(manifest, bound.tensors);
  return bound;
}

int64_t TensorShape::OffsetOf(int64_t flat) const {
  if (dense) return flat;
  int64_t offset = 0;
  for (size_t i = shape.size(); i > 0; --i) {
    offset += flat % shape[i - 1] * strides[i - 1];
    flat /= shape[i - 1];
  }
  return offset;
}

}  // namespace kiln::worker
