// What a user asks a Kiln farm for, and what it answers: the plain data of kiln_client.h, which
// includes this file. Units are in the names; where a number says "0 = default", the farm chooses.
#ifndef KILN_CLIENT_KILN_TYPES_H_
#define KILN_CLIENT_KILN_TYPES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/kiln_admin.h"
#include "client/kiln_range.h"

namespace kiln::client {

// ---- What a user asks for -------------------------------------------------------------------

enum class Objective { kTune, kCompile };
enum class CachePolicy { kDefault, kCold, kWarm };
enum class CheckReference { kDefault, kInterpreter, kNone };

struct MeasurementPolicy {
  CachePolicy cache = CachePolicy::kDefault;  // default cold
  double min_seconds = 0;                     // kernel seconds a finalist collects; 0 = default
  int min_samples = 0;                        // 0 = default
  int max_samples = 0;                        // 0 = default
  double target_relative_error = 0;           // 0 = default
  int threads = 0;                            // CPU targets; 0 = all of the profile slot
};

struct CheckPolicy {
  CheckReference reference = CheckReference::kDefault;  // default interpreter
  double rtol = 0;                                      // 0 = by dtype
  double atol = 0;
  std::vector<uint64_t> seeds;  // empty = default
  int samples = 0;              // 0 = default
};

// One sweep. Values are literals of the kernel language: 1024, 0.5, True, "NT", T.dynamic("M").
struct SweepSpec {
  std::string name;           // display only
  std::string kernel_source;  // the kernel's text, or
  std::string template_name;  // a shipped template: "matmul"
  // For diagnostics; and where files lie that the kernel imports, which are read when the spec is
  // used, unless the text has them already (`closed`).
  std::string kernel_path;
  bool closed = false;
  std::string entry;                                         // empty when the file has one kernel
  std::map<std::string, std::string> arguments;              // compile-time arguments
  std::vector<std::string> auto_tunables;                    // derived by the recommender
  std::map<std::string, std::vector<std::string>> tunables;  // their values
  std::vector<std::string> configs;  // canonical texts "block_M=64,block_N=64"
  std::string target = "cpu";
  Objective objective = Objective::kTune;
  MeasurementPolicy measurement;
  CheckPolicy check;
  std::string strategy;  // empty = "recommended"
  uint64_t seed = 0;
  int top_k = 0;                                      // 0 = default
  int max_candidates = 0;                             // 0 = no limit
  double max_seconds = 0;                             // from the first task; 0 = no limit
  std::string user;                                   // fairness key
  int priority = 0;                                   // -100 .. 100
  double deadline_seconds = 0;                        // 0 = never
  bool fresh = false;                                 // ignore stored winners and measurements
  std::map<std::string, std::string> runtime_values;  // run-time dimensions and scalars
  std::optional<ShapeRange> range;
};

// Parses a sweep file (grammar: client/README.md) into its sweeps, in order; kernel files are read,
// relative to the sweep file. kInvalidArgument is a diagnostic with file:line:column and a remedy;
// kNotFound names the file that is missing.
absl::StatusOr<std::vector<SweepSpec>> LoadSweepFile(const std::string& path);

// The same for text that was read already; `path` names it in diagnostics and `directory` is where
// relative kernel paths start.
absl::StatusOr<std::vector<SweepSpec>> ParseSweepFile(absl::string_view text,
                                                      const std::string& path,
                                                      const std::string& directory);

// Checks what can be checked without a farm: sizes, literals and names of the spec, and that the
// kernel parses and has the entry. Submit, Lookup and Compile call it before anything travels.
absl::Status CheckSpec(const SweepSpec& spec);

// ---- What a farm answers --------------------------------------------------------------------

enum class SweepState { kUnknown, kExpanding, kRunning, kDone, kFailed, kCancelled };
enum class CandidateState {
  kUnknown,
  kQueued,
  kCompiling,
  kCompiled,
  kProfiling,
  kDone,
  kFailed,
  kSkipped
};

// "done", "running", ...; stable words.
absl::string_view ToString(SweepState state);
absl::string_view ToString(CandidateState state);
inline bool IsTerminal(SweepState state) {
  return state == SweepState::kDone || state == SweepState::kFailed ||
         state == SweepState::kCancelled;
}

struct Failure {
  std::string stage;  // "elaborate", "compile", "load", "check", "run", "resources", "cancelled"
  std::string message;
  std::string witness;
  std::string worker;
  bool killed_child = false;
};

struct Artifact {
  std::string digest;  // SHA-256 of the bundle; empty = none
  std::string binary_digest;
  int64_t size_bytes = 0;
  int64_t scratch_bytes = 0;
  int registers = 0;
  int64_t spill_bytes = 0;
  int64_t code_bytes = 0;
  std::string compiler_build;
  double compile_seconds = 0;
};

struct Measurement {
  std::string config;
  std::string device;
  std::string round;
  std::vector<double> samples_ns;  // only where they were asked for
  int64_t sample_count = 0;
  double median_ns = 0;
  double p25_ns = 0;
  double p75_ns = 0;
  double mad_ns = 0;
  double events_ns = 0;  // of finalists on a GPU: the median by events
  int dropped = 0;
  bool numbers_checked = false;
  std::string check_summary;
  // Of finalists on a GPU: dram_read_bytes, tensor_percent, stall_barrier, ...; empty where there
  // are none, for the reason beside them.
  std::map<std::string, double> counters;
  std::string counters_missing;
  std::string conditions;  // what was done: cache policy, clock, what the device did meanwhile
};

// What the recommender says of a config before anything is measured.
struct Hint {
  std::string config;
  double predicted_ns = 0;
  double predicted_low_ns = 0;  // the range that it takes to be likely
  double predicted_high_ns = 0;
  std::string bound_by;  // the resource that is busy longest: "fma", "tensor", "dram", ...
  std::string reason;    // a sentence for people
  std::vector<std::string> risks;  // why it may be slower: "ragged", "uneven-tail", "spills", ...
  std::map<std::string, std::string> fields;  // details by name: "blocks", "registers", ...
  double flops = 0;                           // useful operations of one launch
  double dram_bytes = 0;                      // predicted traffic of main memory
  double compulsory_bytes = 0;                // inputs and outputs, each once
  double roofline_ns = 0;  // the time that operations or compulsory bytes take at peak
};

struct Candidate {
  std::string config;
  CandidateState state = CandidateState::kUnknown;
  Hint hint;
  Artifact artifact;
  std::vector<Measurement> measurements;
  bool failed = false;
  Failure failure;  // when `failed`
  int attempts = 0;
  std::string same_binary_as;
};

// What a winner is an answer to: its problem, and all that its time was taken with. Empty text =
// unknown, "none" = there is no such thing on the device.
struct WinnerKey {
  std::string kernel;                          // digest of the canonical program
  std::map<std::string, std::string> shapes;   // compile-time arguments that are whole numbers
  std::map<std::string, std::string> dtypes;   // those that are element types
  std::map<std::string, std::string> flags;    // the others
  std::map<std::string, std::string> runtime;  // run-time dimensions and scalars
  std::string arch;
  std::string device_model;
  std::string features;  // of a CPU
  std::string cores;     // or SMs
  std::string power;     // class of a GPU's power limit: "700 W"
  std::string memory;    // class of its memory: "140 GiB"
  std::string compiler;  // build
  std::string assembler;
  std::string driver;               // major version
  std::string measurement;          // policy
  std::string check;                // policy
  std::string space;                // digest of the tunables; "auto" if none are given
  std::optional<ShapeRange> range;  // of winners for a range
};

struct Winner {
  std::string winner_key;  // digest of `key`, the winner's name; empty in records of older programs
  WinnerKey key;
  std::string problem_key;
  std::string sweep;
  std::string config;
  std::string target;  // Arch name
  std::string device_model;
  std::string name;  // the sweep's display name
  Artifact artifact;
  Measurement measurement;
  Hint hint;
  std::vector<std::string> ties;
  double ratio_low = 0;  // 95 % interval of runner-up time / winner time
  double ratio_high = 0;
  int candidates_tried = 0;
  int candidates_failed = 0;
  double sweep_seconds = 0;
  absl::Time finished;
  std::shared_ptr<const RangeTable> range;  // of a winner for a range; `config` is then a name
};

struct Progress {
  SweepState state = SweepState::kUnknown;
  int total = 0, queued = 0, compiling = 0, compiled = 0;
  int profiling = 0, done = 0, failed = 0, skipped = 0;
  int not_run = 0;  // terminal states: of `skipped`, those that were never measured
  std::string best_config;
  double best_ns = 0;
  double elapsed_seconds = 0;
  double estimated_seconds_left = -1;  // < 0: unknown
  std::string round;
  std::string message;  // terminal states: why
};

struct SweepEvent {
  Progress progress;
  std::shared_ptr<const Candidate> changed;  // null: none
  std::shared_ptr<const Winner> winner;      // set with state kDone of a tuning sweep
};

struct Submitted {
  std::string sweep;                      // the sweep's digest, its name everywhere
  bool joined = false;                    // the same sweep was already running
  std::shared_ptr<const Winner> winner;   // a stored winner answers it; nothing runs
  std::vector<std::string> not_compared;  // as in LookupResult
};

// How near a stored winner has to be. Each level takes what the one before it takes.
enum class Match {
  kExact,       // every field of the key
  kCompatible,  // the same kernel, shapes, types, architecture and device model
  kArch,        // any device of the architecture
};
absl::string_view ToString(Match match);  // "exact", "compatible", "arch"; stable

struct KeyDifference {
  std::string field;   // of WinnerKey
  std::string stored;  // empty = unknown
  std::string asked;
};

struct LookupResult {
  std::shared_ptr<const Winner> winner;  // null: none that is near enough is stored
  Match matched = Match::kExact;         // of a winner: the nearest level that takes it
  // Of the winner, or on a miss of the nearest stored one: what differs, most serious first.
  std::vector<KeyDifference> differences;
  std::string miss_reason;  // the same in words, or that the kernel has no winner
  std::string nearest;      // on a miss: winner_key of the nearest; may be empty
  WinnerKey asked;
  // Fields that nobody knows of the device asked for (no worker is attached): not compared.
  std::vector<std::string> not_compared;
};

// A request that was looked up and not found.
struct Miss {
  std::string id;
  SweepSpec spec;  // as it was asked first
  int64_t count = 0;
  absl::Time first;
  absl::Time last;
  std::vector<std::string> users;  // the first few who asked
  bool more_users = false;
  std::string reason;  // of the last miss
};
struct MissList {
  std::vector<Miss> misses;  // most frequent first
  int64_t total = 0;         // also those over the limit
};

struct SweepSummary {
  std::string sweep;
  std::string name;
  std::string target;
  std::string user;
  Progress progress;
  absl::Time submitted;
  absl::Time finished;              // InfinitePast while it runs
  std::string parent;               // the range that it is a part of; empty = asked for itself
  std::optional<ShapeRange> range;  // what it is tuned for is a range
};

struct ListRequest {
  int limit = 0;  // 0 = all
  bool active_only = false;
  bool without_parts = false;  // not the sweeps that ranges are made of
  std::string parts_of;        // only those of this range; its whole digest
};

// What a device did while a sweep lasted that it measured for. The parts are disjoint and add up to
// the elapsed time; proto/kiln/v1/tuning.proto, DeviceTime, says what each is.
struct DeviceTime {
  std::string device;  // "<worker>/<device>"
  std::map<std::string, double> seconds;
  double idle_share = 0;  // of the time since the first candidate was compiled
};

// Where the time of a sweep went, by the clock.
struct TimeAccount {
  double before_seconds = 0;  // from the request to the sweep
  double elapsed_seconds = 0;
  // "compile", "profile", "both", "queue", "decide": what the farm did for it; adds up likewise.
  std::map<std::string, double> sweep;
  std::vector<DeviceTime> devices;
};

struct SweepDetails {
  SweepSummary summary;
  SweepSpec spec;
  std::vector<Candidate> candidates;
  std::shared_ptr<const Winner> winner;
  std::string arch_name;
  std::string arch_record;  // text form
  std::string device_model;
  std::map<std::string, double> seconds;    // stage -> seconds, summed over tasks
  std::shared_ptr<const RangeTable> range;  // of a range: what is known so far
  std::optional<TimeAccount> time;          // none in records of older programs
};

// What became of a sweep that was to be cancelled.
struct Cancelled {
  SweepState state = SweepState::kUnknown;
  bool had_ended = false;  // before; it kept its state
  std::string message;     // why it ended
  absl::Time finished;     // InfinitePast = not known
};

// The compiled output of one config.
struct Bundle {
  std::string name;  // C identifier of the entry point
  std::string target;
  std::string object;         // relocatable ELF object; of a GPU, the host's part with the cubin
  std::string shared_object;  // ready to dlopen
  std::string header;
  std::string manifest_json;
  std::string assembly;          // PTX; empty on CPU targets
  std::string cubin;             // empty on CPU targets
  std::vector<Bundle> variants;  // of a range on a GPU: the code of each config, no host's part
};

// Decodes the bytes that Fetch hands out. kDataLoss when they are no bundle.
absl::StatusOr<Bundle> ParseBundle(absl::string_view bytes);

struct FetchRequest {
  std::string sweep;   // digest or unique prefix of at least 6 digits
  std::string config;  // compile-only sweeps: which candidate; empty = the winner
  // A winner by its own name instead; `sweep` is not looked at. A sweep that runs again, with
  // another compiler, has another winner; this one stays.
  std::string winner_key = {};
};
struct Fetched {
  Winner info;
  std::string digest;  // SHA-256, checked against the bytes
  int64_t bytes = 0;
  int64_t resumed_at = 0;  // bytes that were already there
};

// One config of a compile-only sweep: a bundle, or why there is none.
struct Compiled {
  std::string config;
  absl::StatusOr<Bundle> bundle;
  Failure failure;  // when the candidate failed
};

}  // namespace kiln::client

#endif  // KILN_CLIENT_KILN_TYPES_H_
