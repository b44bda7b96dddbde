#include "worker/profile/interp_reference.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/base/config.h"
#include "compiler/base/diagnostic.h"
#include "compiler/base/status.h"
#include "compiler/interp/interp.h"
#include "compiler/lang/kernel.h"
#include "worker/profile/parallel.h"
#include "worker/profile/tensors.h"

namespace kiln::worker {
namespace {

// About a minute of interpretation.
constexpr int64_t kMaxSteps = 4'000'000'000;

double RuntimeNumber(const std::string& text) {
  if (text == "True") return 1;
  double value = 0;
  return absl::SimpleAtod(text, &value) ? value : 0;
}

absl::StatusOr<ir::Program> ElaborateInputs(const v1::SweepInputs& inputs,
                                            const std::string& config_text) {
  auto file = std::make_shared<SourceFile>();
  file->path = inputs.kernel_path();
  file->text = inputs.kernel_source();
  KILN_ASSIGN_OR_RETURN(Config config, Config::Parse(config_text));
  KILN_ASSIGN_OR_RETURN(lang::Kernel kernel, lang::Kernel::Parse(file, inputs.entry()));
  lang::Arguments arguments(inputs.arguments().begin(), inputs.arguments().end());
  lang::TargetFacts facts;
  if (!inputs.arch().record().empty()) {
    KILN_ASSIGN_OR_RETURN(const target::Arch arch, target::ParseArch(inputs.arch().record()));
    facts = lang::FactsOf(arch);
  }
  return lang::Elaborate(kernel, arguments, config, facts);
}

class InterpReference : public Reference {
 public:
  InterpReference(ir::Program program, BoundManifest manifest, interp::Options options)
      : program_(std::move(program)),
        manifest_(std::move(manifest)),
        options_(std::move(options)) {}

  absl::StatusOr<std::vector<ReferenceValue>> Evaluate(
      uint64_t seed, int tensor, const std::vector<int64_t>& elements) override {
    Prepare(seed);
    absl::StatusOr<std::vector<double>> values =
        interp::SampleReference(program_, views_, tensor, elements, options_);
    if (values.ok()) {
      std::vector<ReferenceValue> result;
      for (double value : *values) result.push_back({value, true});
      return result;
    }
    if (!absl::IsFailedPrecondition(values.status()) || DiagnosticOf(values.status())) {
      return Blame(values.status());
    }
    // Without a position in the program it means that some element is not written at all.
    if (elements.size() == 1) return std::vector<ReferenceValue>{{0, false}};
    auto middle = elements.begin() + static_cast<int64_t>(elements.size() / 2);
    KILN_ASSIGN_OR_RETURN(std::vector<ReferenceValue> result,
                          Evaluate(seed, tensor, {elements.begin(), middle}));
    KILN_ASSIGN_OR_RETURN(std::vector<ReferenceValue> second,
                          Evaluate(seed, tensor, {middle, elements.end()}));
    result.insert(result.end(), second.begin(), second.end());
    return result;
  }

 private:
  // Errors of the program are the candidate's; limits and gaps of the interpreter are not, but
  // without a reference there is nothing to compare with either.
  static absl::Status Blame(const absl::Status& status) {
    return absl::InvalidArgumentError(std::string(status.message()));
  }

  // Host copies of the inputs for `seed`; kept until another seed is asked for. Pages are taken,
  // and numbers made, when blocks are about to read them; what a kernel adds to is made at once.
  void Prepare(uint64_t seed) {
    if (!views_.empty() && seed == seed_) return;
    seed_ = seed;
    memory_.clear();
    views_.clear();
    for (size_t i = 0; i < manifest_.tensors.size(); ++i) {
      const TensorShape& shape = manifest_.tensors[i];
      interp::TensorView view;
      view.dtype = shape.type;
      view.shape = shape.shape;
      view.strides = shape.strides;
      if (!shape.output || shape.accumulates) {
        memory_.emplace_back(shape.type, std::vector<int64_t>{shape.span});
        view.data = memory_.back().data();
      }
      views_.push_back(std::move(view));
      if (!shape.output || !shape.accumulates) continue;
      ParallelFor(shape.span, [&](int64_t first, int64_t last) {
        FillRun(static_cast<int>(i), first, last - first);
      });
    }
    options_.prepare = [this](int tensor, const std::vector<int64_t>& low,
                              const std::vector<int64_t>& high) { FillBox(tensor, low, high); };
  }

  void FillRun(int tensor, int64_t first, int64_t count) const {
    const interp::TensorView& view = views_[static_cast<size_t>(tensor)];
    FillSeeded(seed_, tensor, view.dtype, first, count,
               static_cast<uint8_t*>(view.data) + first * view.dtype.bytes());
  }

  // Row by row of the last dimension.
  void FillBox(int tensor, const std::vector<int64_t>& low,
               const std::vector<int64_t>& high) const {
    const TensorShape& shape = manifest_.tensors[static_cast<size_t>(tensor)];
    if (shape.output) return;
    int64_t rows = 1;
    for (size_t d = 0; d + 1 < low.size(); ++d) rows *= high[d] - low[d] + 1;
    const int64_t run = low.empty() ? 1 : (high.back() - low.back()) * shape.strides.back() + 1;
    const int64_t rows_of_piece = std::max<int64_t>(1, kPiece / run);
    ParallelTasks((rows + rows_of_piece - 1) / rows_of_piece, [&](int64_t piece) {
      const int64_t last = std::min(rows, (piece + 1) * rows_of_piece);
      for (int64_t row = piece * rows_of_piece; row < last; ++row) {
        int64_t offset = low.empty() ? 0 : low.back() * shape.strides.back();
        int64_t rest = row;
        for (size_t d = low.empty() ? 0 : low.size() - 1; d-- > 0;) {
          const int64_t extent = high[d] - low[d] + 1;
          offset += (low[d] + rest % extent) * shape.strides[d];
          rest /= extent;
        }
        FillRun(tensor, offset, run);
      }
    });
  }

  const ir::Program program_;
  const BoundManifest manifest_;
  interp::Options options_;
  uint64_t seed_ = 0;
  std::vector<interp::Tensor> memory_;
  std::vector<interp::TensorView> views_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Reference>> MakeInterpReference(const v1::SweepInputs& inputs,
                                                               const std::string& config,
                                                               const BoundManifest& manifest) {
  KILN_ASSIGN_OR_RETURN(ir::Program program, ElaborateInputs(inputs, config));
  interp::Options options;
  options.clip_global = true;
  options.narrow = true;
  options.threads = static_cast<int>(ParallelWidth());
  options.max_steps = kMaxSteps;
  for (const auto& [name, text] : inputs.runtime_values()) {
    options.dims[name] = static_cast<int64_t>(RuntimeNumber(text));
    options.scalars[name] = RuntimeNumber(text);
  }
  KILN_ASSIGN_OR_RETURN(std::vector<std::vector<int64_t>> shapes,
                        interp::ParamShapes(program, options));
  if (shapes.size() != manifest.tensors.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the artifact has ", manifest.tensors.size(),
                                                   " tensors, the program ", shapes.size()));
  }
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (shapes[i] == manifest.tensors[i].shape) continue;
    return absl::InvalidArgumentError(absl::StrCat("tensor '", manifest.tensors[i].name,
                                                   "' of the artifact has another shape than in "
                                                   "the program"));
  }
  return std::unique_ptr<Reference>(
      std::make_unique<InterpReference>(std::move(program), manifest, std::move(options)));
}

}  // namespace kiln::worker
