// The recommender: from a kernel with open tunables to ranked configs, each with a prediction and
// the reason it is there.
//
// Needs no device and measures nothing. Deterministic: the same request gives the same answer on
// every machine. Thread-safe (pure functions of their arguments).
#ifndef KILN_COMPILER_ROOFLINE_RECOMMEND_H_
#define KILN_COMPILER_ROOFLINE_RECOMMEND_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/base/config.h"
#include "compiler/lang/kernel.h"
#include "compiler/target/arch.h"

namespace kiln::roofline {

enum class Strategy : uint8_t {
  kRecommended,  // the price model and a diverse slate
  kCarver,       // Carver's DefaultPolicy and TensorCorePolicy, in their own order
  kAll,          // every legal config, best predicted first (exhaustive and random search)
};

struct SpaceLimits {
  int values = 28;            // of one derived tunable
  int pieces = 64;            // elaborations, when decisions need concrete tunables
  int64_t configs = 400'000;  // priced; a larger space is thinned and the answer says 'sampled'
  int64_t listed = 100'000;   // candidates handed out by kAll
};

struct Request {
  const lang::Kernel* kernel = nullptr;  // outlives the call
  lang::Arguments arguments;             // compile-time arguments
  // The space. All three empty: the kernel's @autotune configs, else every keyword parameter with
  // an integer default that `arguments` does not fix is derived.
  std::vector<std::string> auto_tunables;
  std::map<std::string, std::vector<std::string>> tunables;  // explicit values, as literal text
  std::vector<Config> configs;                               // given outright
  std::map<std::string, double> runtime;  // values of run-time dimensions and scalars
  bool runs = false;                      // it is an error when one of them is missing
  target::Arch arch;
  Strategy strategy = Strategy::kRecommended;
  int top_k = 16;
  uint64_t seed = 0;  // kAll: which sample of a space that is larger than limits.listed
  SpaceLimits limits;
};

// A candidate and what is said of it. Times in nanoseconds.
struct Hint {
  Config config;
  double predicted_ns = 0, low_ns = 0, high_ns = 0;
  std::string bound_by;            // the resource that is busy longest
  std::string reason;              // one to three sentences
  std::vector<std::string> risks;  // "ragged", "beyond-l2", "few-blocks", "short-runs", ...
  // block, rstep, warp, thread, pipeline_stage, use_async, rasterization_plan, split_k, blocks,
  // onchip_bytes, busy (share of time by resource), as text; those that apply. On GPUs that have
  // clusters also what the passes will make of the block's warps (target::PlanWarps):
  // warp_specialised, persistent and ping_pong, 0 or 1, and cluster, its blocks along the grid's
  // first and second axis ("1,2").
  std::map<std::string, std::string> fields;
  double flops = 0, dram_bytes = 0, compulsory_bytes = 0, roofline_ns = 0;
};

// One tunable of the space, as it was bound.
struct Tunable {
  std::string name;
  std::string role;  // RoleName
  std::vector<std::string> values;
  bool derived = false;  // by the recommender
  std::string field;     // of Hint::fields that it decides; empty = none
};

// Every legal config of the space, priced; configs and hints are made when asked for.
class Space {
 public:
  virtual ~Space() = default;
  virtual int64_t legal() const = 0;
  virtual int64_t total() const = 0;
  // Legal configs by predicted time, best first; index < legal().
  virtual Config ConfigAt(int64_t rank) const = 0;
  virtual double PredictedAt(int64_t rank) const = 0;
  virtual Hint HintAt(int64_t rank) const = 0;
  // Rank of `config`, or -1 when it is not a legal config of the space.
  virtual int64_t RankOf(const Config& config) const = 0;
  // The first limit that `config` breaks; "" when it is legal, "not in the space" when it is none.
  virtual std::string BrokenLimit(const Config& config) const = 0;
  virtual const std::vector<Tunable>& tunables() const = 0;
};

struct Recommendation {
  std::string kernel_digest;  // of the canonical open program, pieces included
  int64_t legal_count = 0;
  int64_t total_count = 0;
  std::shared_ptr<const Space> space;
  // kRecommended: the slate of top_k, then 3 * top_k in reserve, by predicted time. kCarver: its
  // own list, at most top_k. kAll: every legal config up to limits.listed.
  std::vector<Hint> ranked;
  std::vector<std::string> notes;  // sentences: what was sampled, assumed, dropped
};

// kInvalidArgument: an unknown tunable, a value outside the language, an empty space, no legal
// config (the message names the limit that most configs fail), or the kernel's own diagnostic.
// kUnimplemented: the kernel has no launch, or kCarver has no template for it.
absl::StatusOr<Recommendation> Recommend(const Request& request);

}  // namespace kiln::roofline

#endif  // KILN_COMPILER_ROOFLINE_RECOMMEND_H_
