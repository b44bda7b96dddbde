// A modelled kernel: a space of configs with times, failures and equal binaries that follow from
// the config text alone, so that every process and every test agrees on them.
#ifndef KILN_TESTS_UTIL_FAKE_SPACE_H_
#define KILN_TESTS_UTIL_FAKE_SPACE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/search/expander.h"
#include "kiln/v1/common.pb.h"
#include "kiln/v1/work.pb.h"

namespace kiln::testing {

// What a config does to whoever compiles or runs it.
enum class Behaviour {
  kFine,
  kCompileError,
  kKillsCompiler,
  kWrongNumbers,
  kKillsRunner,
  kKillsWorker,  // the whole host, each time
  kWrongRagged,  // wrong at the ragged shape alone
  kWrongPlain,   // wrong where only its plain code tells
};

struct SpaceModel {
  int configs = 48;          // "m=<0..>,n=<0..3>,u=<0..1>": u does not change the binary
  uint64_t seed = 1;         // of the times
  double spread = 3;         // slowest / fastest true time, about
  double model_error = 0.2;  // of the recommender, relative
  double noise = 0.01;       // of one sample, relative
  int screen_samples = 0;    // that a screen takes at least, as launches are short
  // Shares of configs that misbehave.
  double compile_errors = 0;
  double kills_compiler = 0;
  double wrong_numbers = 0;
  double kills_runner = 0;
  double kills_worker = 0;
  double wrong_ragged = 0;
  bool ragged = false;  // the kernel takes a ragged shape
  double wrong_plain = 0;
  bool plain = false;  // the target has plain code
  // Of runs at a size (the run-time value "M"): each config has a fixed part and one that grows,
  // and those that are small in one tend to be large in the other.
  double wrong_above = 0;                  // share that is wrong at sizes above 100
  std::vector<int64_t> no_config_at = {};  // sizes at which no config is legal
  int64_t multiples_of = 1;                // sizes that the kernel takes, whatever the config
};

class FakeSpace {
 public:
  explicit FakeSpace(const SpaceModel& model) : model_(model) {}
  // At a size, 0 = none, where kDispatchConfig stands for what `dispatch` runs there.
  FakeSpace(const SpaceModel& model, int64_t size, v1::Dispatch dispatch)
      : model_(model), size_(size), dispatch_(std::move(dispatch)) {}

  std::vector<std::string> Configs() const;
  // Of the binary: configs that differ in u alone are equal.
  double TrueNs(const std::string& config) const;
  Behaviour Of(const std::string& config) const;
  // A sample that depends on (binary, round, index) and the seed, not on when or where it is drawn.
  double SampleNs(const std::string& config, const std::string& round, int index) const;
  // The config's compile result; `bytes` is what the digest names.
  v1::Artifact Compile(const v1::SweepInputs& inputs, const std::string& config,
                       const std::string& build, std::string* bytes) const;
  v1::Measurement Measure(const std::string& config, const std::string& round, int samples,
                          const std::string& device) const;
  // The best time among configs that behave.
  double BestNs() const;
  const SpaceModel& model() const { return model_; }

 private:
  std::string BinaryOf(const std::string& config) const;
  SpaceModel model_;
  int64_t size_ = 0;
  v1::Dispatch dispatch_;
};

// Expands every spec to the space of `model`, with the model's seed changed by the spec's argument
// "problem", if there is one. An entry "bad" is a caller's mistake.
class FakeExpander : public search::Expander {
 public:
  explicit FakeExpander(const SpaceModel& model) : model_(model) {}
  absl::StatusOr<search::Expansion> Expand(const v1::SweepSpec& spec,
                                           const v1::ArchRecord& arch) override;

 private:
  const SpaceModel model_;
};

// The space that a FakeExpander made these inputs from.
FakeSpace SpaceOf(const SpaceModel& model,
                  const google::protobuf::Map<std::string, std::string>& arguments);
// The same at the size that the inputs have.
FakeSpace SpaceOf(const SpaceModel& model, const v1::SweepInputs& inputs);

// A spec that a FakeExpander understands.
v1::SweepSpec FakeSpec(const std::string& problem = "1");
v1::ArchRecord FakeArch();

}  // namespace kiln::testing

#endif  // KILN_TESTS_UTIL_FAKE_SPACE_H_
