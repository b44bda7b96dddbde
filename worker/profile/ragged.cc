#include "worker/profile/ragged.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/base/status.h"
#include "worker/profile/tensors.h"

namespace kiln::worker {
namespace {

// More than one tile of most kernels, and then a part of one.
constexpr int64_t kOdd[] = {211, 197, 223, 193};
constexpr int64_t kAligned[] = {216, 200, 232, 184};
constexpr int64_t kMostBytes = int64_t{64} << 20;  // of all tensors: the sizes left are large
constexpr int kSamples = 64;
constexpr int kCompiledSamples = 1024;  // of one object or few, at the end of a sweep
constexpr int64_t kPeerBytes = int64_t{64} << 20;

v1::CheckPolicy ShortPolicy(const v1::SweepInputs& inputs, int samples) {
  v1::CheckPolicy policy = inputs.check();
  const uint64_t seed = Checker::Seeds(policy).front();
  policy.clear_seeds();
  policy.add_seeds(seed);
  policy.set_samples(samples);
  return policy;
}

}  // namespace

int64_t RaggedSize(int64_t value, int index, bool aligned) {
  const int64_t wanted = (aligned ? kAligned : kOdd)[index % 4];
  if (value > wanted) return wanted;
  if (aligned) return std::max<int64_t>(8, (value - 1) / 16 * 16 - 8);
  return value % 2 == 0 ? value - 1 : value + 2;
}

struct RaggedCheck::Problem {
  v1::SweepInputs inputs;
  std::string text;  // "M=211, N=197"
  BoundManifest bound;
  std::unique_ptr<TensorSet> tensors;
  std::unique_ptr<Checker> checker;
  std::string refused;  // why it is none
};

RaggedCheck::RaggedCheck(Device* device, const ReferenceFactory& make_reference,
                         const v1::SweepInputs& inputs, std::function<void()> alive)
    : device_(device), make_reference_(make_reference), inputs_(inputs), alive_(std::move(alive)) {}

RaggedCheck::~RaggedCheck() = default;

std::unique_ptr<RaggedCheck::Problem> RaggedCheck::Make(const std::string& config,
                                                        const Manifest& manifest,
                                                        bool aligned) const {
  auto problem = std::make_unique<Problem>();
  problem->inputs = inputs_;
  auto& values = *problem->inputs.mutable_runtime_values();
  int index = 0;
  for (const std::string& name : manifest.dimensions) {
    int64_t value = 0;
    (void)absl::SimpleAtoi(values[name], &value);
    const int64_t size = RaggedSize(value, index++, aligned);
    values[name] = absl::StrCat(size);
    absl::StrAppend(&problem->text, problem->text.empty() ? "" : ", ", name, "=", size);
  }
  Prepare(config, manifest, kSamples, problem.get());
  return problem;
}

// What `problem` holds besides its inputs, or why it is none.
void RaggedCheck::Prepare(const std::string& config, const Manifest& manifest, int samples,
                          Problem* problem) const {
  const auto prepare = [&]() -> absl::Status {
    const auto& values = problem->inputs.runtime_values();
    KILN_ASSIGN_OR_RETURN(problem->bound, BindManifest(manifest, {values.begin(), values.end()}));
    int64_t bytes = 0;
    for (const TensorShape& tensor : problem->bound.tensors) bytes += tensor.bytes();
    if (bytes > kMostBytes) return absl::ResourceExhaustedError("the sizes left are large");
    const v1::CheckPolicy policy = ShortPolicy(inputs_, samples);
    KILN_ASSIGN_OR_RETURN(problem->tensors,
                          TensorSet::Create(device_, problem->bound, 1, Checker::Seeds(policy)));
    problem->checker =
        std::make_unique<Checker>(device_, problem->tensors.get(), policy, kPeerBytes, alive_);
    return absl::OkStatus();
  };
  const absl::Status prepared = prepare();
  problem->refused = prepared.ok() ? Refusal(config, *problem) : std::string(prepared.message());
}

// Why the kernel itself, as its defaults or the config say it, means nothing at this shape; empty:
// it does.
std::string RaggedCheck::Refusal(const std::string& config, const Problem& problem) const {
  if (inputs_.check().reference() == v1::CheckPolicy::NONE) return "";
  std::string why = "it has no output";
  const std::vector<TensorShape>& tensors = problem.bound.tensors;
  for (const std::string& meant : {std::string(), config}) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!tensors[i].output || tensors[i].elements == 0) continue;
      auto reference = make_reference_(problem.inputs, meant, problem.bound);
      alive_();
      if (!reference.ok()) {
        why = std::string(reference.status().message());
        break;
      }
      const auto last = (*reference)
                            ->Evaluate(problem.tensors->seed_of(0), static_cast<int>(i),
                                       {tensors[i].elements - 1});
      if (last.ok()) return "";
      why = std::string(last.status().message());
      break;
    }
  }
  return why.substr(0, why.find('\n'));
}

absl::StatusOr<RaggedCheck::Result> RaggedCheck::CheckAt(Problem* problem,
                                                         const std::string& config,
                                                         const Manifest& manifest,
                                                         LoadedKernel* kernel,
                                                         std::string* refused) const {
  const auto& values = problem->inputs.runtime_values();
  Result result;
  absl::StatusOr<BoundManifest> bound = BindManifest(manifest, {values.begin(), values.end()});
  if (!bound.ok()) {
    *refused = std::string(bound.status().message());
    return result;
  }
  // An object says by its error code that it does not take the sizes.
  KILN_RETURN_IF_ERROR(problem->tensors->ResetOutputs(0, kPoison[0]));
  const absl::Status taken = device_->Launch(kernel, problem->tensors->Arguments(0, bound->values));
  alive_();
  if (absl::IsInternal(taken)) {
    *refused = std::string(taken.message());
    return result;
  }
  KILN_RETURN_IF_ERROR(taken);
  Checker::Candidate candidate;
  candidate.config = config;
  candidate.kernel = kernel;
  candidate.manifest = &*bound;
  candidate.make_reference = [&] { return make_reference_(problem->inputs, config, *bound); };
  candidate.make_default_reference = [&] { return make_reference_(problem->inputs, "", *bound); };
  KILN_ASSIGN_OR_RETURN(CheckReport report, problem->checker->Check(candidate));
  result.convicted = std::move(report.convicted);
  result.wrong = !report.passed;
  result.text = absl::StrCat("at ", problem->text, ": ", report.summary);
  if (!result.wrong) return result;
  result.failure = std::move(report.failure);
  result.failure.set_message(
      absl::StrCat("wrong at ", problem->text, ": ", result.failure.message()));
  return result;
}

absl::StatusOr<RaggedCheck::Result> RaggedCheck::Check(const std::string& config,
                                                       const Manifest& manifest,
                                                       LoadedKernel* kernel) {
  Result result;
  if (manifest.dimensions.empty()) return result;
  for (const bool aligned : {false, true}) {
    std::unique_ptr<Problem>& problem = problems_[aligned];
    if (problem == nullptr) problem = Make(config, manifest, aligned);
    std::string refused = problem->refused;
    if (refused.empty()) {
      KILN_ASSIGN_OR_RETURN(result, CheckAt(problem.get(), config, manifest, kernel, &refused));
      if (!result.text.empty()) return result;
    }
    result.text = absl::StrCat("at no ragged shape: ", problem->text,
                               " is not taken: ", refused.substr(0, refused.find('\n')));
    if (aligned) return result;
  }
  return result;
}

absl::StatusOr<RaggedCheck::Result> RaggedCheck::CheckCompiled(const std::string& config,
                                                               const Manifest& manifest,
                                                               LoadedKernel* kernel) {
  if (compiled_ == nullptr) {
    compiled_ = std::make_unique<Problem>();
    compiled_->inputs = inputs_;
    const std::map<std::string, std::string> sizes(inputs_.ragged().begin(),
                                                   inputs_.ragged().end());
    compiled_->text = absl::StrJoin(sizes, ", ", absl::PairFormatter("="));
    Prepare(config, manifest, kCompiledSamples, compiled_.get());
  }
  Result result;
  std::string refused = compiled_->refused;
  if (refused.empty()) {
    KILN_ASSIGN_OR_RETURN(result, CheckAt(compiled_.get(), config, manifest, kernel, &refused));
  }
  if (result.text.empty()) {
    result.text = absl::StrCat("at no ragged shape: ", compiled_->text,
                               " is not taken: ", refused.substr(0, refused.find('\n')));
  }
  return result;
}

}  // namespace kiln::worker
