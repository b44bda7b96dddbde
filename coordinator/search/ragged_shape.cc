#include "coordinator/search/ragged_shape.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/stmt.h"

namespace kiln::search {
namespace {

constexpr int64_t kSmall = 256;  // sizes up to it stay, where there are larger ones
constexpr size_t kMostSizes = 8;

// What a size of `value` may become, the most ragged first. Those of other dimensions, `index` from
// 0, are others, so that exchanged ones are seen.
std::vector<int64_t> SmallerSizes(int64_t value, size_t index, bool all_small) {
  constexpr int64_t kOdd[] = {211, 197, 223, 193};
  constexpr int64_t kEights[] = {216, 200, 232, 184};
  constexpr int64_t kSixteens[] = {208, 176, 240, 144};
  const size_t i = index % 4;
  if (all_small) {
    const int64_t step = value % 16 == 0 ? 16 : value % 8 == 0 ? 8 : 2;
    return value > 2 * step ? std::vector<int64_t>{value - step} : std::vector<int64_t>();
  }
  if (value <= kSmall) return {};
  if (value % 8 != 0) return {kOdd[i]};
  if (value % 16 != 0) return {kEights[i]};
  // Odd multiples of what the kernel may want a multiple of.
  const auto n = static_cast<int64_t>(index);
  std::vector<int64_t> sizes = {kSixteens[i]};
  for (const int64_t unit : {32, 64, 128, 256}) {
    const int64_t odd = unit * (n % 2 == 0 ? 3 : 5);
    if (odd < value) sizes.push_back(odd);
  }
  return sizes;
}

std::string TensorShapes(const ir::Program& program) {
  std::string text;
  for (const ir::Param& param : program.params) {
    if (param.kind != ir::Param::kTensor) continue;
    for (const ir::Expr& extent : param.buffer->shape) {
      absl::StrAppend(&text, ir::ToString(extent), ",");
    }
    text += ";";
  }
  return text;
}

struct Size {
  std::string name;
  int64_t value = 0;
};

}  // namespace

std::map<std::string, std::string> RaggedShape(const lang::Kernel& kernel,
                                               const lang::Arguments& arguments,
                                               const std::map<std::string, double>& runtime,
                                               const Config& config,
                                               const lang::TargetFacts& facts) {
  std::map<std::string, std::string> changed;
  std::vector<Size> numbers;
  bool all_small = true;
  for (const auto& [name, text] : arguments) {
    int64_t value = 0;
    if (!absl::SimpleAtoi(text, &value) || value < 2 || numbers.size() == kMostSizes) continue;
    numbers.push_back({name, value});
    all_small &= value <= kSmall;
  }
  if (numbers.empty()) return changed;
  lang::Arguments now = arguments;
  auto program = lang::Elaborate(kernel, now, config, facts);
  if (!program.ok()) return changed;
  std::string shapes = TensorShapes(*program);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto& [name, value] = numbers[i];
    for (const int64_t smaller : SmallerSizes(value, i, all_small)) {
      lang::Arguments next = now;
      next[name] = absl::StrCat(smaller);
      const auto with = lang::Elaborate(kernel, next, config, facts);
      if (!with.ok()) continue;  // perhaps a multiple of more
      std::string then = TensorShapes(*with);
      if (then == shapes) break;  // no size of a tensor
      shapes = std::move(then);
      changed[name] = next[name];
      now = std::move(next);
      break;
    }
  }
  if (changed.empty()) return changed;
  for (const ir::Expr& dim : program->dims) {
    const std::string& name = dim.As<ir::Var>()->name;
    const auto found = runtime.find(name);
    if (found == runtime.end()) continue;
    const auto sizes = SmallerSizes(static_cast<int64_t>(found->second), numbers.size(), false);
    if (!sizes.empty()) changed[name] = absl::StrCat(sizes.front());
  }
  return changed;
}

}  // namespace kiln::search
