#include "worker/profile/check.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/base/status.h"
#include "worker/elapsed.h"
#include "worker/profile/formula.h"
#include "worker/profile/peer.h"
#include "worker/profile/projection.h"
#include "worker/profile/sample_places.h"
#include "worker/profile/tolerance.h"

namespace kiln::worker {
namespace {

constexpr int kDefaultSamples = 256;
constexpr char kByInterpreter[] = "by the interpreter";
constexpr size_t kLeastClusters = 2;      // that are looked at however long they take
constexpr double kClustersSeconds = 0.1;  // for those of a seed, about
constexpr double kSpreadBatch = 8;        // elements all over the output, at first
constexpr double kSpreadSeconds = 0.1;    // for those of a seed, about
constexpr double kStricter = 1 - 1e-5;    // than in float64, what is compared in float32
constexpr double kPeerSlack = 2;          // two candidates may err in opposite directions
// Disagreements with the peer, unwritten elements and NaNs that the reference is asked about. One
// wrong element is enough to fail; more are asked only while the reference clears them.
constexpr int kArbitrations = 4;
constexpr size_t kSuspectSums = 8;  // of a projection, whose elements are looked at one by one

// The candidate is at fault: travels as a status inside this file, becomes a Failure at its edge.
absl::Status Wrong(std::string message, std::string witness = "") {
  return absl::FailedPreconditionError(witness.empty() ? message
                                                       : absl::StrCat(message, "\n", witness));
}

bool PoisonIsNaN(DType type) {
  const std::vector<uint8_t> poison(static_cast<size_t>(type.bytes()), kPoison[0]);
  return std::isnan(LoadElement(poison.data(), type));
}

std::string IndexText(const std::vector<int64_t>& shape, int64_t flat) {
  std::vector<int64_t> index(shape.size());
  for (size_t i = shape.size(); i > 0; --i) {
    index[i - 1] = flat % shape[i - 1];
    flat /= shape[i - 1];
  }
  return absl::StrCat("[", absl::StrJoin(index, ", "), "]");
}

double RootMeanSquare(const std::vector<ReferenceValue>& values) {
  double sum = 0;
  int count = 0;
  for (const ReferenceValue& value : values) {
    if (!value.written || !std::isfinite(value.value)) continue;
    sum += value.value * value.value;
    ++count;
  }
  return count == 0 ? 0 : std::sqrt(sum / count);
}

// Of an accepted number: its error, of what is allowed.
double ErrorShare(const Tolerance& tolerance, double got, double expected) {
  const double allowed = tolerance.atol + tolerance.rtol * std::abs(expected);
  return allowed > 0 && std::isfinite(got) ? std::abs(got - expected) / allowed : 0;
}

}  // namespace

// What is known of one seed.
struct Checker::Truth {
  struct Output {
    std::vector<int64_t> elements;         // sampled
    std::vector<ReferenceValue> expected;  // in the same order; empty = not computed yet
    std::string reference_config;          // whose reference computed or confirmed them
    std::string how;                       // what computed them
    bool by_formula = false;
    double scale = 0;                // root mean square of `expected`
    std::string peer_config;         // the candidate that the others are compared with
    std::set<std::string> same;      // those whose output has the very bytes of its
    std::optional<uint64_t> digest;  // of its output; unset = no peer
    std::unique_ptr<Peer> peer;      // its output; null = there is none yet
    bool peer_has_numbers = false;   // in every element: no NaN, and thus no poison
  };
  std::map<int, Output> outputs;  // by tensor

  // Nothing is compared with this candidate's outputs any more.
  void Forget(const std::string& config) {
    for (auto& [tensor, output] : outputs) {
      if (output.peer_config != config) continue;
      output.peer.reset();
      output.digest.reset();
    }
  }
};

struct Checker::Run {
  const Candidate* candidate = nullptr;
  std::unique_ptr<Reference> reference;
  std::map<int, uint64_t> digests;  // of the outputs, by tensor
  std::map<int, Bytes> outputs;     // read when they are looked at
  std::map<int, std::vector<int64_t>> unwritten;
  std::map<std::string, std::string> left;      // output -> what of it the reference leaves too
  std::map<int, Peer::Comparison> comparisons;  // of all elements with the peer's
  std::set<int> has_numbers;                    // outputs without NaN
  std::vector<std::string> convicted;
  int64_t sampled = 0;
  int64_t expected_nan = 0;  // of them
  int64_t projected = 0;     // elements of outputs whose projections are right
  std::string projection;
  int64_t proved = 0;  // elements held against something other than a candidate, or as one that was
  std::set<std::string> how;  // what the samples were held against
  int same = 0;               // outputs with the very bytes of the peer's
  int64_t compared = 0;       // elements of the other outputs, held against the peer's, ...
  int64_t comparable = 0;     // ... of so many
  std::string peer_config;
  bool slow = false;   // its launch, so that no other seed is looked at
  bool first = false;  // of some output: there was no peer yet
  double worst = 0;    // error / tolerance
};

Checker::Checker(Device* device, TensorSet* tensors, const v1::CheckPolicy& policy,
                 int64_t peer_bytes, std::function<void()> alive)
    : device_(device),
      tensors_(tensors),
      policy_(policy),
      peer_bytes_(peer_bytes),
      alive_(std::move(alive)),
      seeds_(Seeds(policy)) {
  KILN_CHECK(tensors_->copies() >= static_cast<int>(seeds_.size()));
  for (size_t i = 0; i < seeds_.size(); ++i) truths_.push_back(std::make_unique<Truth>());
}

Checker::~Checker() = default;

std::vector<uint64_t> Checker::Seeds(const v1::CheckPolicy& policy) {
  if (policy.seeds_size() == 0) return {1, 2};
  return {policy.seeds().begin(), policy.seeds().end()};
}

absl::StatusOr<CheckReport> Checker::Check(const Candidate& candidate) {
  NoteSums(*candidate.manifest);
  Run run;
  run.candidate = &candidate;
  CheckReport report;
  int seeds = 0;
  while (seeds < static_cast<int>(seeds_.size()) && !run.slow) {
    const int copy = seeds++;
    run.digests.clear();
    Recycle(&run);
    run.unwritten.clear();
    run.comparisons.clear();
    run.has_numbers.clear();
    absl::Status status = CheckSeed(copy, &run);
    alive_();
    if (status.ok()) continue;
    if (!absl::IsFailedPrecondition(status)) return status;
    std::string text(status.message());
    size_t line = text.find('\n');
    report.failure.set_stage(v1::Failure::CHECK);
    report.failure.set_message(text.substr(0, line));
    report.failure.set_witness(
        absl::StrCat("seed ", seeds_[static_cast<size_t>(copy)],
                     line == std::string::npos ? "" : absl::StrCat(": ", text.substr(line + 1))));
    report.convicted = std::move(run.convicted);
    // The next candidate must not find what this one broke.
    KILN_RETURN_IF_ERROR(tensors_->Restore(copy));
    Recycle(&run);
    return report;
  }
  Recycle(&run);
  report.passed = true;
  report.convicted = std::move(run.convicted);
  if (run.sampled > 0 || !run.left.empty()) proofs_[candidate.config] = Sampled(run);
  report.summary = Summary(run, seeds);
  report.whole_output = report.convicted.empty() && run.proved == ElementsOfOutputs() * seeds;
  if (report.whole_output) whole_.insert(candidate.config);
  return report;
}

// Memory that the system has given once is not asked for again.
void Checker::Recycle(Run* run) {
  for (auto& [tensor, output] : run->outputs) {
    if (!output.empty()) spare_.push_back(std::move(output));
  }
  run->outputs.clear();
}

std::string Checker::Sampled(const Run& run) {
  std::string text =
      absl::StrCat(run.sampled, " elements sampled ", absl::StrJoin(run.how, " and "),
                   ", worst error ", run.worst, " of the tolerance");
  if (run.expected_nan > 0) {
    absl::StrAppend(&text, ", ", run.expected_nan,
                    " of them NaN: the kernel's own program makes it of finite inputs");
  }
  if (run.projected > 0) {
    absl::StrAppend(&text, ", all ", run.projected, " elements in ", run.projection);
  }
  for (const auto& [output, left] : run.left) absl::StrAppend(&text, ", ", left);
  return text;
}

std::string Checker::Summary(const Run& run, int seeds) const {
  std::string text = absl::StrCat(seeds, seeds == 1 ? " seed" : " seeds");
  if (policy_.reference() == v1::CheckPolicy::NONE) {
    return absl::StrCat(text, ", memory only: no reference asked for");
  }
  if (run.sampled > 0 || run.same == 0) absl::StrAppend(&text, ", ", Sampled(run));
  if (run.same > 0) {
    absl::StrAppend(&text, ", ", run.same, " outputs with the same bytes as ", run.peer_config);
    const auto proof = proofs_.find(run.peer_config);
    if (proof != proofs_.end()) absl::StrAppend(&text, ", of which ", proof->second);
  }
  if (run.compared > 0 && run.compared == run.comparable) {
    absl::StrAppend(&text, ", all ", run.compared, " elements compared with ", run.peer_config);
  } else if (run.comparable > 0) {
    absl::StrAppend(&text, ", ", run.compared, " of ", run.comparable,
                    " elements in blocks with the same bytes as ", run.peer_config,
                    ", of the others only samples: there is no room to keep the outputs");
  }
  if (run.first && run.projected < ElementsOfOutputs() * seeds)
    absl::StrAppend(&text, ", the first: no other to compare all elements with");
  return text;
}

absl::Status Checker::CheckSeed(int copy, Run* run) {
  KILN_RETURN_IF_ERROR(Launch(copy, kPoison[0], run));
  if (policy_.reference() == v1::CheckPolicy::NONE) return absl::OkStatus();
  for (const auto& [tensor, digest] : run->digests) {
    if (tensors_->tensors()[static_cast<size_t>(tensor)].elements == 0) continue;
    if (SameAsPeer(copy, tensor, run)) continue;
    KILN_ASSIGN_OR_RETURN(const bool near, NearPeer(copy, tensor, run));
    if (near) continue;
    if (!spare_.empty()) {
      run->outputs[tensor] = std::move(spare_.back());
      spare_.pop_back();
    }
    KILN_RETURN_IF_ERROR(tensors_->ReadTensor(copy, tensor, &run->outputs[tensor]));
  }
  for (const auto& [tensor, output] : run->outputs) {
    KILN_ASSIGN_OR_RETURN(const bool close, CloseToPeer(copy, tensor, run));
    if (!close) KILN_RETURN_IF_ERROR(FindUnwritten(copy, tensor, run));
    KILN_RETURN_IF_ERROR(CompareSampled(copy, tensor, run));
    KILN_RETURN_IF_ERROR(ComparePeer(copy, tensor, run));
    if (!close) KILN_RETURN_IF_ERROR(CheckNaN(copy, tensor, run));
    KILN_RETURN_IF_ERROR(ProjectAll(copy, tensor, run));
  }
  KeepAsPeer(copy, run);
  return absl::OkStatus();
}

// Then everything that was found of the peer holds for this one, or will be.
bool Checker::SameAsPeer(int copy, int tensor, Run* run) const {
  Truth& truth = *truths_[static_cast<size_t>(copy)];
  const auto known = truth.outputs.find(tensor);
  if (known == truth.outputs.end() || known->second.digest != run->digests[tensor]) return false;
  ++run->same;
  known->second.same.insert(run->candidate->config);
  run->peer_config = known->second.peer_config;
  if (whole_.count(run->peer_config) > 0) {
    run->proved += tensors_->tensors()[static_cast<size_t>(tensor)].elements;
  }
  return true;
}

// CloseToPeer as the device counts it, and right in all samples, which alone are read. False: the
// output is looked at as a whole.
absl::StatusOr<bool> Checker::NearPeer(int copy, int tensor, Run* run) {
  const Truth& truth = *truths_[static_cast<size_t>(copy)];
  const auto known = truth.outputs.find(tensor);
  if (known == truth.outputs.end()) return false;
  const Truth::Output& output = known->second;
  if (output.peer == nullptr || !output.peer_has_numbers || output.expected.empty()) return false;
  const Tolerance tolerance = ToleranceOf(copy, tensor, *run);
  const double loose = kPeerSlack * kStricter;
  KILN_ASSIGN_OR_RETURN(const std::optional<int64_t> apart,
                        output.peer->CountApart(tensors_->Address(copy, tensor),
                                                {tolerance.rtol * loose, tolerance.atol * loose}));
  if (!apart.has_value() || *apart > 0) return false;
  const absl::StatusOr<std::vector<double>> got =
      tensors_->ReadElements(copy, tensor, output.elements);
  if (absl::IsResourceExhausted(got.status())) return false;
  KILN_RETURN_IF_ERROR(got.status());
  double worst = 0;
  for (size_t i = 0; i < got->size(); ++i) {
    const double expected = output.expected[i].value;
    if (!tolerance.Accepts((*got)[i], expected)) return false;
    worst = std::max(worst, ErrorShare(tolerance, (*got)[i], expected));
  }
  const int64_t elements = tensors_->tensors()[static_cast<size_t>(tensor)].elements;
  run->how.insert(output.how);
  run->sampled += static_cast<int64_t>(got->size());
  run->worst = std::max(run->worst, worst);
  run->compared += elements;
  run->comparable += elements;
  run->peer_config = output.peer_config;
  if (whole_.count(output.peer_config) > 0) run->proved += elements;
  return true;
}

// Whether every element is a number close to one of the peer's: then there is neither a NaN nor an
// element with the poison, which is one.
absl::StatusOr<bool> Checker::CloseToPeer(int copy, int tensor, Run* run) {
  const Truth::Output& truth = truths_[static_cast<size_t>(copy)]->outputs[tensor];
  if (truth.peer == nullptr || !truth.peer_has_numbers || truth.expected.empty()) return false;
  KILN_ASSIGN_OR_RETURN(const Peer::Comparison found, HeldAgainstPeer(copy, tensor, run));
  return found.differing.empty() &&
         found.compared == tensors_->tensors()[static_cast<size_t>(tensor)].elements;
}

absl::StatusOr<Peer::Comparison> Checker::HeldAgainstPeer(int copy, int tensor, Run* run) {
  const auto known = run->comparisons.find(tensor);
  if (known != run->comparisons.end()) return known->second;
  const Tolerance tolerance = ToleranceOf(copy, tensor, *run);
  const Tolerance loose{tolerance.rtol * kPeerSlack, tolerance.atol * kPeerSlack};
  KILN_ASSIGN_OR_RETURN(Peer::Comparison found,
                        truths_[static_cast<size_t>(copy)]->outputs[tensor].peer->Compare(
                            run->outputs[tensor], loose, kArbitrations));
  return run->comparisons[tensor] = std::move(found);
}

absl::Status Checker::Launch(int copy, uint8_t poison, Run* run) {
  KILN_RETURN_IF_ERROR(tensors_->ResetOutputs(copy, poison));
  const auto begin = std::chrono::steady_clock::now();
  absl::Status launched = device_->Launch(
      run->candidate->kernel, tensors_->Arguments(copy, run->candidate->manifest->values));
  const double limit = run->candidate->slow_seconds;
  run->slow |= limit > 0 && SecondsSince(begin) > limit;
  if (absl::IsInternal(launched)) return Wrong(std::string(launched.message()));
  KILN_RETURN_IF_ERROR(launched);
  absl::Status untouched = tensors_->VerifyUntouched(copy);
  if (absl::IsDataLoss(untouched)) return Wrong(std::string(untouched.message()));
  KILN_RETURN_IF_ERROR(untouched);
  for (size_t i = 0; i < tensors_->tensors().size(); ++i) {
    if (!tensors_->tensors()[i].output) continue;
    int tensor = static_cast<int>(i);
    KILN_ASSIGN_OR_RETURN(run->digests[tensor], tensors_->DigestTensor(copy, tensor));
  }
  return absl::OkStatus();
}

// An element that holds the poison after both runs was not written by either.
absl::Status Checker::FindUnwritten(int copy, int tensor, Run* run) {
  const TensorShape& shape = tensors_->tensors()[static_cast<size_t>(tensor)];
  if (shape.accumulates) return absl::OkStatus();
  std::vector<int64_t> suspects = PoisonedElements(shape, run->outputs[tensor], kPoison[0]);
  if (suspects.empty()) return absl::OkStatus();
  const std::map<int, uint64_t> first = run->digests;
  KILN_RETURN_IF_ERROR(Launch(copy, kPoison[1], run));
  run->digests = first;
  Bytes second;
  KILN_RETURN_IF_ERROR(tensors_->ReadTensor(copy, tensor, &second));
  std::vector<int64_t> again = PoisonedElements(shape, second, kPoison[1]);
  std::vector<int64_t>& unwritten = run->unwritten[tensor];
  std::set_intersection(suspects.begin(), suspects.end(), again.begin(), again.end(),
                        std::back_inserter(unwritten));
  const std::vector<int64_t> asked = FewOfRuns(unwritten, kArbitrations);
  for (const int64_t element : asked) {
    KILN_ASSIGN_OR_RETURN(ReferenceValue expected, Ask(copy, tensor, element, run));
    if (!expected.written) continue;
    return Wrong(absl::StrCat("the kernel leaves ", unwritten.size(), " of ", shape.elements,
                              " elements of '", shape.name, "' unwritten"),
                 absl::StrCat(shape.name, IndexText(shape.shape, element), " expected ",
                              expected.value, ", never written"));
  }
  if (!unwritten.empty()) {
    run->left[shape.name] =
        absl::StrCat(unwritten.size(), " of ", shape.elements, " elements of '", shape.name,
                     "' never written: nor does the kernel's own program write the ", asked.size(),
                     " of them that were looked at");
  }
  return absl::OkStatus();
}

// The formula of an output that the candidate's own program confirms, or null.
absl::StatusOr<const Formula*> Checker::FormulaOf(int copy, int tensor, Run* run) {
  const auto known = formulas_.find(tensor);
  if (known != formulas_.end()) return known->second.get();
  std::vector<int64_t> probes;
  std::vector<double> values;
  for (std::unique_ptr<Formula>& formula : FormulasFor(*run->candidate->manifest, tensor)) {
    if (formula->Probes() != probes) {
      probes = formula->Probes();
      values.clear();
      KILN_ASSIGN_OR_RETURN(const std::vector<ReferenceValue> own,
                            Interpret(copy, tensor, probes, run));
      for (const ReferenceValue& value : own) {
        values.push_back(value.written ? value.value : std::nan(""));
      }
    }
    if (!formula->Confirm(seeds_[static_cast<size_t>(copy)], probes, values)) continue;
    return (formulas_[tensor] = std::move(formula)).get();
  }
  formulas_[tensor] = nullptr;
  return nullptr;
}

// By a formula where there is one, which reaches every tile; else by the interpreter at a few
// places.
absl::Status Checker::EnsureSampled(int copy, int tensor, Run* run) {
  Truth::Output& truth = truths_[static_cast<size_t>(copy)]->outputs[tensor];
  if (!truth.expected.empty()) return absl::OkStatus();
  const uint64_t seed = seeds_[static_cast<size_t>(copy)];
  KILN_ASSIGN_OR_RETURN(const Formula* formula, FormulaOf(copy, tensor, run));
  truth.by_formula = formula != nullptr;
  if (truth.by_formula) {
    FormulaSample sample = formula->Sample(seed, copy, static_cast<int>(seeds_.size()));
    truth.how = absl::StrCat("by ", formula->name(), ", ", sample.ToString());
    truth.elements = std::move(sample.elements);
    for (const double value : sample.values) truth.expected.push_back({value, true});
  } else {
    const absl::Status sampled = SampleByInterpreter(copy, tensor, run);
    if (!sampled.ok()) {  // another candidate may fare better, and begins anew
      truth.expected.clear();
      return sampled;
    }
  }
  alive_();
  KILN_CHECK(truth.expected.size() == truth.elements.size());
  truth.scale = RootMeanSquare(truth.expected);
  truth.reference_config = run->candidate->config;
  return absl::OkStatus();
}

int64_t Checker::ElementsOfOutputs() const {
  int64_t elements = 0;
  for (const TensorShape& tensor : tensors_->tensors()) {
    if (tensor.output) elements += tensor.elements;
  }
  return elements;
}

// How many outputs share the time for a seed.
double Checker::ShareOfTime() const {
  const auto& tensors = tensors_->tensors();
  const auto outputs = std::count_if(tensors.begin(), tensors.end(), [](const TensorShape& tensor) {
    return tensor.output && tensor.elements > 0;
  });
  return 1 / static_cast<double>(std::max<int64_t>(outputs, 1));
}

absl::Status Checker::AddSamples(int copy, int tensor, const std::vector<int64_t>& elements,
                                 Run* run) {
  Truth::Output& truth = truths_[static_cast<size_t>(copy)]->outputs[tensor];
  KILN_ASSIGN_OR_RETURN(const std::vector<ReferenceValue> values,
                        Interpret(copy, tensor, elements, run));
  truth.elements.insert(truth.elements.end(), elements.begin(), elements.end());
  truth.expected.insert(truth.expected.end(), values.begin(), values.end());
  return absl::OkStatus();
}

// Clusters, of which each seed begins with others; then elements all over the output.
absl::Status Checker::SampleByInterpreter(int copy, int tensor, Run* run) {
  Truth::Output& truth = truths_[static_cast<size_t>(copy)]->outputs[tensor];
  const TensorShape& shape = tensors_->tensors()[static_cast<size_t>(tensor)];
  const int samples = policy_.samples() > 0 ? policy_.samples() : kDefaultSamples;
  const auto clusters = SampleClusters(shape.shape, samples, seeds_[static_cast<size_t>(copy)]);
  truth.how = kByInterpreter;
  truth.elements.clear();
  const auto begin = std::chrono::steady_clock::now();
  size_t done = 0;
  double each = 0;
  for (; done < clusters.size(); ++done) {
    const double after = each * static_cast<double>(done + 1);
    if (done >= kLeastClusters && after > kClustersSeconds * ShareOfTime()) break;
    const size_t first = static_cast<size_t>(copy) * kLeastClusters;
    KILN_RETURN_IF_ERROR(AddSamples(copy, tensor, clusters[(first + done) % clusters.size()], run));
    each = SecondsSince(begin) / static_cast<double>(done + 1);
  }
  if (done < clusters.size()) {
    absl::StrAppend(&truth.how, " in ", done, " of ", clusters.size(), " places");
  }
  return SampleSpread(copy, tensor, samples, each, run);
}

// Clusters leave most tiles unseen: more elements, all over the output, as long as the interpreter
// has time for their blocks, of which one takes about `each` seconds.
absl::Status Checker::SampleSpread(int copy, int tensor, int samples, double each, Run* run) {
  Truth::Output& truth = truths_[static_cast<size_t>(copy)]->outputs[tensor];
  const TensorShape& shape = tensors_->tensors()[static_cast<size_t>(tensor)];
  if (shape.elements <= samples) return absl::OkStatus();  // all of them are sampled
  const uint64_t seed = seeds_[static_cast<size_t>(copy)];
  const std::vector<int64_t> all = SpreadElements(shape.shape, samples, seed);
  const double seconds = kSpreadSeconds * ShareOfTime();
  const auto begin = std::chrono::steady_clock::now();
  size_t done = 0;
  auto batch = static_cast<size_t>(std::min(kSpreadBatch, seconds / (each + 1e-9)));
  for (; batch > 0 && done < all.size(); batch *= 2) {
    const size_t last = std::min(all.size(), done + batch);
    KILN_RETURN_IF_ERROR(AddSamples(
        copy, tensor,
        {all.begin() + static_cast<int64_t>(done), all.begin() + static_cast<int64_t>(last)}, run));
    done = last;
    if (SecondsSince(begin) * 3 > seconds) break;  // the next costs twice as much
  }
  absl::StrAppend(&truth.how, " (", done, " of seed ", seed, " all over the output)");
  return absl::OkStatus();
}

// A formula does not mean what the kernel means: from now on the interpreter is asked.
absl::Status Checker::DropFormula(int copy, int tensor, Run* run) {
  formulas_[tensor] = nullptr;
  run->comparisons.erase(tensor);  // the tolerance goes with the expected values
  for (const std::unique_ptr<Truth>& truth : truths_) truth->outputs[tensor].expected.clear();
  return CompareSampled(copy, tensor, run);
}

absl::Status Checker::CompareSampled(int copy, int tensor, Run* run) {
  KILN_RETURN_IF_ERROR(EnsureSampled(copy, tensor, run));
  const Truth::Output& truth = truths_[static_cast<size_t>(copy)]->outputs[tensor];
  run->how.insert(truth.how);
  for (size_t i = 0; i < truth.elements.size(); ++i) {
    const ReferenceValue& expected = truth.expected[i];
    if (!expected.written) continue;
    ++run->sampled;
    run->expected_nan += std::isnan(expected.value);
    KILN_ASSIGN_OR_RETURN(const bool held,
                          HoldElement(copy, tensor, truth.elements[i], expected.value, run));
    if (!held) return DropFormula(copy, tensor, run);
  }
  return absl::OkStatus();
}

// Of one element. False: what was expected came of a formula that is not what the kernel means.
absl::StatusOr<bool> Checker::HoldElement(int copy, int tensor, int64_t element, double expected,
                                          Run* run) {
  const TensorShape& shape = tensors_->tensors()[static_cast<size_t>(tensor)];
  const Truth::Output& truth = truths_[static_cast<size_t>(copy)]->outputs[tensor];
  const Tolerance tolerance = ToleranceOf(copy, tensor, *run);
  const double got = ElementAt(shape, run->outputs[tensor], element);
  const double allowed = tolerance.atol + tolerance.rtol * std::abs(expected);
  if (tolerance.Accepts(got, expected)) {
    run->worst = std::max(run->worst, ErrorShare(tolerance, got, expected));
    return true;
  }
  const std::string witness = absl::StrCat(shape.name, IndexText(shape.shape, element), " got ",
                                           got, ", expected ", expected, ", tolerance ", allowed);
  if (truth.by_formula) {
    KILN_ASSIGN_OR_RETURN(ReferenceValue right, Ask(copy, tensor, element, run));
    if (std::isnan(right.value) && std::isfinite(expected)) {
      default_ = nullptr;  // no judge of the others
      return Wrong("the kernel itself makes NaN of finite inputs with this config", witness);
    }
    // With a formula that no candidate has met yet, it is the formula.
    const bool untried = default_ != nullptr || !truth.digest.has_value();
    if (tolerance.Accepts(got, right.value) && untried) return false;
  }
  KILN_RETURN_IF_ERROR(BlameConfig(copy, tensor, element, got, witness, run));
  return true;
}

// All elements of an output that is compared with no other as a whole.
absl::Status Checker::ProjectAll(int copy, int tensor, Run* run) {
  const Truth::Output& truth = truths_[static_cast<size_t>(copy)]->outputs[tensor];
  const TensorShape& shape = tensors_->tensors()[static_cast<size_t>(tensor)];
  const auto compared = run->comparisons.find(tensor);
  const bool all = truth.peer != nullptr && compared != run->comparisons.end() &&
                   compared->second.compared == shape.elements;
  if (all || !truth.by_formula) return absl::OkStatus();
  const std::unique_ptr<Formula>& formula = formulas_[tensor];
  if (!formula->projects()) return absl::OkStatus();
  const uint64_t seed = seeds_[static_cast<size_t>(copy)];
  const Projection projection =
      ProjectOutput(*formula, seed, shape, run->outputs[tensor], ToleranceOf(copy, tensor, *run),
                    truth.scale, kSuspectSums);
  alive_();
  for (const std::vector<int64_t>& elements : projection.suspects) {
    const std::vector<double> expected = formula->At(seed, elements);
    for (size_t i = 0; i < elements.size(); ++i) {
      KILN_ASSIGN_OR_RETURN(const bool held,
                            HoldElement(copy, tensor, elements[i], expected[i], run));
      if (!held) return DropFormula(copy, tensor, run);
    }
    alive_();
  }
  if (!projection.whole) return absl::OkStatus();
  run->projected += shape.elements;
  run->proved += shape.elements;
  run->projection = projection.ToString();
  return absl::OkStatus();
}

// The config, if its own program means these numbers; else the code that was made of it.
absl::Status Checker::BlameConfig(int copy, int tensor, int64_t element, double got,
                                  const std::string& witness, Run* run) {
  const Truth::Output& truth = truths_[static_cast<size_t>(copy)]->outputs[tensor];
  if (default_ == nullptr && truth.reference_config == run->candidate->config) {
    return Wrong("wrong numbers", witness);
  }
  KILN_ASSIGN_OR_RETURN(ReferenceValue own, AskOwn(copy, tensor, element, run));
  if (!own.written || !ToleranceOf(copy, tensor, *run).Accepts(got, own.value)) {
    return Wrong("wrong numbers", witness);
  }
  return Wrong(absl::StrCat("the kernel computes other numbers with this config than with ",
                            default_ != nullptr ? "its defaults" : truth.reference_config),
               witness);
}

absl::Status Checker::ComparePeer(int copy, int tensor, Run* run) {
  Truth& truth = *truths_[static_cast<size_t>(copy)];
  Truth::Output& output = truth.outputs[tensor];
  if (output.peer == nullptr) {
    run->first = true;
    return absl::OkStatus();
  }
  const TensorShape& shape = tensors_->tensors()[static_cast<size_t>(tensor)];
  const Tolerance tolerance = ToleranceOf(copy, tensor, *run);
  KILN_ASSIGN_OR_RETURN(const Peer::Comparison found, HeldAgainstPeer(copy, tensor, run));
  run->compared += found.compared;
  run->comparable += shape.elements;
  run->peer_config = output.peer_config;
  for (int64_t flat : found.differing) {
    double got = ElementAt(shape, run->outputs[tensor], flat);
    KILN_ASSIGN_OR_RETURN(ReferenceValue expected, Ask(copy, tensor, flat, run));
    if (!expected.written) continue;
    if (!tolerance.Accepts(got, expected.value)) {
      return BlameConfig(copy, tensor, flat, got,
                         absl::StrCat(shape.name, IndexText(shape.shape, flat), " got ", got,
                                      ", expected ", expected.value, ", tolerance ",
                                      tolerance.atol + tolerance.rtol * std::abs(expected.value)),
                         run);
    }
    KILN_ASSIGN_OR_RETURN(const std::optional<double> other, output.peer->At(flat));
    if (!other.has_value() || tolerance.Accepts(*other, expected.value)) continue;
    // It was the peer that was wrong, and all with the same bytes. This candidate takes its place.
    const std::string convicted = output.peer_config;
    std::set<std::string> wrong = std::exchange(output.same, {});
    wrong.insert(convicted);
    run->convicted.insert(run->convicted.end(), wrong.begin(), wrong.end());
    for (const std::string& config : wrong) {
      whole_.erase(config);
      proofs_.erase(config);
    }
    for (const std::unique_ptr<Truth>& each : truths_) each->Forget(convicted);
    return absl::OkStatus();
  }
  const bool all = found.compared == shape.elements && found.differing.size() < kArbitrations;
  if (all && whole_.count(output.peer_config) > 0) run->proved += shape.elements;
  return absl::OkStatus();
}

absl::Status Checker::CheckNaN(int copy, int tensor, Run* run) {
  const TensorShape& shape = tensors_->tensors()[static_cast<size_t>(tensor)];
  const std::vector<int64_t>& unwritten = run->unwritten[tensor];
  if (!shape.type.is_float()) return absl::OkStatus();
  const std::vector<int64_t> found =
      FindNaNs(shape, run->outputs[tensor], unwritten, kArbitrations);
  if (found.empty() && unwritten.empty() && PoisonIsNaN(shape.type)) {
    run->has_numbers.insert(tensor);
  }
  for (int64_t flat : found) {
    KILN_ASSIGN_OR_RETURN(ReferenceValue expected, Ask(copy, tensor, flat, run));
    if (std::isnan(expected.value)) continue;
    return Wrong("NaN in the output", absl::StrCat(shape.name, IndexText(shape.shape, flat),
                                                   " got NaN, expected ", expected.value));
  }
  return absl::OkStatus();
}

absl::StatusOr<Reference*> Checker::OwnReference(Run* run) {
  if (run->reference != nullptr) return run->reference.get();
  absl::StatusOr<std::unique_ptr<Reference>> made = run->candidate->make_reference();
  if (!made.ok()) {
    return Wrong("there is no reference for this candidate", std::string(made.status().message()));
  }
  run->reference = *std::move(made);
  return run->reference.get();
}

Reference* Checker::DefaultReference(Run* run) {
  if (!std::exchange(asked_for_default_, true) && run->candidate->make_default_reference) {
    absl::StatusOr<std::unique_ptr<Reference>> made = run->candidate->make_default_reference();
    if (made.ok()) default_ = *std::move(made);
  }
  return default_.get();
}

absl::StatusOr<std::vector<ReferenceValue>> Checker::Interpret(int copy, int tensor,
                                                               const std::vector<int64_t>& elements,
                                                               Run* run) {
  if (Reference* reference = DefaultReference(run)) {
    absl::StatusOr<std::vector<ReferenceValue>> values =
        reference->Evaluate(seeds_[static_cast<size_t>(copy)], tensor, elements);
    alive_();
    if (values.ok()) return values;
    default_ = nullptr;  // the defaults are not meant for this shape
  }
  KILN_ASSIGN_OR_RETURN(Reference * reference, OwnReference(run));
  absl::StatusOr<std::vector<ReferenceValue>> values =
      reference->Evaluate(seeds_[static_cast<size_t>(copy)], tensor, elements);
  alive_();
  if (absl::IsInvalidArgument(values.status())) {
    return Wrong("the kernel itself is wrong with this config",
                 std::string(values.status().message()));
  }
  return values;
}

absl::StatusOr<ReferenceValue> Checker::Ask(int copy, int tensor, int64_t element, Run* run) {
  KILN_ASSIGN_OR_RETURN(const std::vector<ReferenceValue> values,
                        Interpret(copy, tensor, {element}, run));
  return values.front();
}

absl::StatusOr<ReferenceValue> Checker::AskOwn(int copy, int tensor, int64_t element, Run* run) {
  KILN_ASSIGN_OR_RETURN(Reference * reference, OwnReference(run));
  const auto values = reference->Evaluate(seeds_[static_cast<size_t>(copy)], tensor, {element});
  alive_();
  // A config whose own program is wrong cannot be excused by it.
  return values.ok() ? values->front() : ReferenceValue{std::nan(""), false};
}

Tolerance Checker::ToleranceOf(int copy, int tensor, const Run& run) const {
  TensorShape shape = tensors_->tensors()[static_cast<size_t>(tensor)];
  const auto sums = sums_.find(tensor);
  shape.sums = sums == sums_.end() ? ManifestSums() : sums->second;
  return ToleranceFor(shape, *run.candidate->manifest, policy_,
                      truths_[static_cast<size_t>(copy)]->outputs[tensor].scale);
}

// Whoever is compared with another may be the one that sums coarsely.
void Checker::NoteSums(const BoundManifest& manifest) {
  for (size_t i = 0; i < manifest.tensors.size(); ++i) {
    ManifestSums& noted = sums_[static_cast<int>(i)];
    const ManifestSums& own = manifest.tensors[i].sums;
    const int64_t length = manifest.reduction_length;
    if (ErrorOf(own, length) > ErrorOf(noted, length)) noted = own;
  }
}

void Checker::KeepAsPeer(int copy, Run* run) {
  int64_t bytes = 0;
  for (const auto& [tensor, output] : run->outputs) bytes += static_cast<int64_t>(output.size());
  const bool keep_bytes = bytes * static_cast<int64_t>(seeds_.size()) <= peer_bytes_;
  for (auto& [tensor, output] : run->outputs) {
    Truth::Output& kept = truths_[static_cast<size_t>(copy)]->outputs[tensor];
    if (kept.digest.has_value()) continue;
    kept.digest = run->digests[tensor];
    kept.peer_config = run->candidate->config;
    kept.same.clear();
    kept.peer_has_numbers = run->has_numbers.count(tensor) > 0;
    kept.peer =
        Peer::Keep(device_, *tensors_, copy, tensor, run->digests[tensor], keep_bytes, &output);
  }
}

absl::StatusOr<CheckReport> Checker::Recheck(const Candidate& candidate) {
  Run run;
  run.candidate = &candidate;
  CheckReport report;
  absl::Status status = Launch(0, kPoison[0], &run);
  for (const auto& [tensor, digest] : run.digests) {
    if (!status.ok()) break;
    if (SameAsPeer(0, tensor, &run)) continue;
    const absl::StatusOr<bool> near = NearPeer(0, tensor, &run);
    status = near.status();
    if (!status.ok() || *near) continue;
    status = tensors_->ReadTensor(0, tensor, &run.outputs[tensor]);
    if (status.ok()) status = ComparePeer(0, tensor, &run);
  }
  if (!status.ok() && !absl::IsFailedPrecondition(status)) return status;
  report.convicted = std::move(run.convicted);
  report.passed = status.ok();
  if (report.passed) return report;
  std::string text(status.message());
  report.failure.set_stage(v1::Failure::CHECK);
  report.failure.set_message(
      absl::StrCat("its numbers changed while it was timed: ", text.substr(0, text.find('\n'))));
  report.failure.set_witness(text);
  KILN_RETURN_IF_ERROR(tensors_->Restore(0));
  return report;
}

}  // namespace kiln::worker
