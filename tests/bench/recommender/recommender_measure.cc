// Measures every config of the judged shapes:
//   recommender_measure [--from TIMES.csv] [--arch ARCH.txt] [SHAPE[:STEP] ...] > TIMES.csv
//
// Compiles the configs of the shape's independent space (every STEP-th one) for this machine, a
// batch at a time on all cores, then runs each alone, and prints "shape,config,ns". Arguments
// rotate over copies of 640 MB in all, so that a run does not find its data in a cache. The time of
// a config is the median of three runs during which no other process took a core, or of one when
// that takes half again the best time so far.
//
// A shared machine is faster in one minute than in the next: a quick config runs between the
// others, and every time is scaled to the reference's median pace. The least of hundreds of noisy
// times is too small, so the best two dozen are measured again, in turns, and get the median of
// seven turns; and so are the eight that the recommender picks, which are judged against them.
//
// Progress goes to stderr in the same form; --from takes times of a run that was cut, and measures
// what is missing. --arch writes the record of this machine that recommender_eval should judge by.
#include <dlfcn.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/codegen/compile.h"
#include "compiler/codegen/runtime/kiln_launch.h"
#include "compiler/target/host_arch.h"
#include "tests/bench/recommender/recommender_shapes.h"

namespace kiln::bench {
namespace {

using Entry = int32_t (*)(const kiln_launch*, void*, void*, void*);

// Copies of the arguments, used in turn, so that a run never finds its own data in a cache.
struct Tensors {
  std::vector<std::vector<std::vector<float>>> copies;  // each in order of parameters
  size_t next = 0;
};

constexpr double kTouchedBytes = 640e6;  // over all copies

int64_t Argument(const JudgedShape& s, const char* name) {
  return std::atoll(s.arguments.at(name).c_str());
}

std::vector<std::vector<float>> MakeArguments(const JudgedShape& s) {
  std::vector<std::vector<float>> out;
  const auto add = [&](int64_t n) {
    std::vector<float> v(n);
    uint32_t state = 1;
    for (float& x : v) {
      state = state * 1664525u + 1013904223u;
      x = static_cast<float>(state >> 8) * 0x1p-24f - 0.5f;
    }
    out.push_back(std::move(v));
  };
  const int64_t m = Argument(s, "M"), n = Argument(s, "N");
  if (s.kernel == "matmul.py") {
    const int64_t k = Argument(s, "K");
    add(m * k);
    add(k * n);
    add(m * n);
  } else {
    add(m * n);
    add(m);
  }
  return out;
}

Tensors MakeTensors(const JudgedShape& s) {
  Tensors t;
  t.copies.push_back(MakeArguments(s));
  double bytes = 0;
  for (const auto& b : t.copies[0]) bytes += 4.0 * static_cast<double>(b.size());
  const int copies = static_cast<int>(std::clamp(kTouchedBytes / bytes, 2.0, 64.0));
  while (static_cast<int>(t.copies.size()) < copies) t.copies.push_back(t.copies[0]);
  return t;
}

class Artifact {
 public:
  Artifact(const codegen::CompileOutput& out, const std::string& dir) {
    // A name of its own: dlopen answers a name that is loaded with the library it knows.
    static int count = 0;
    const std::string path = absl::StrCat(dir, "/artifact_", count++, ".so");
    std::ofstream(path, std::ios::binary) << out.shared_object;
    handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) entry_ = reinterpret_cast<Entry>(dlsym(handle_, out.name.c_str()));
    std::filesystem::remove(path);
  }
  ~Artifact() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  Artifact(const Artifact&) = delete;
  Artifact& operator=(const Artifact&) = delete;
  Entry entry() const { return entry_; }

 private:
  void* handle_ = nullptr;
  Entry entry_ = nullptr;
};

double RunOnce(Entry entry, Tensors& t) {
  kiln_launch launch{};
  launch.size = sizeof launch;
  launch.version = 1;
  void* p[3] = {};
  auto& buffers = t.copies[t.next];
  t.next = (t.next + 1) % t.copies.size();
  for (size_t i = 0; i < buffers.size(); ++i) p[i] = buffers[i].data();
  const auto from = std::chrono::steady_clock::now();
  const int32_t rc = entry(&launch, p[0], p[1], p[2]);
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - from;
  return rc == 0 ? took.count() : NAN;
}

// Times that this process was put off a core so far: a run during which that happened was
// disturbed.
int64_t Preemptions() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_nivcsw;
}

double Median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

// Median of the undisturbed runs; of all where there were too few of them. One run is enough above
// `hopeless` ns.
double Measure(Entry entry, Tensors& t, double hopeless) {
  constexpr size_t kWanted = 3;
  constexpr int kMost = 24;
  const double warm_up = RunOnce(entry, t);  // threads, pages of the scratch arena
  if (std::isnan(warm_up) || warm_up > hopeless) return warm_up;
  constexpr double kPatienceNs = 4e8;  // a long run is disturbed by all that happens on a machine
  std::vector<double> clean, all;
  double spent = 0;
  for (int run = 0; run < kMost && clean.size() < kWanted; ++run) {
    const int64_t before = Preemptions();
    const double ns = RunOnce(entry, t);
    if (std::isnan(ns)) return ns;
    const int64_t allowed = 1 + static_cast<int64_t>(ns / 1e8);
    if (Preemptions() - before <= allowed) clean.push_back(ns);
    all.push_back(ns);
    spent += ns;
    if (all.size() >= kWanted && spent > kPatienceNs) break;
  }
  if (clean.size() >= kWanted) return Median(clean);
  return Median(all);
}

constexpr size_t kContenders = 24;
constexpr int kTurns = 7;

// Compiles and runs configs of one shape.
class Bench {
 public:
  Bench(const JudgedShape& shape, const std::string& arch_record)
      : shape_(shape),
        dir_((std::filesystem::temp_directory_path() / absl::StrCat("kiln-measure-", getpid()))
                 .string()),
        tensors_(MakeTensors(shape)) {
    std::filesystem::create_directories(dir_);
    input_.kernel_source = LoadKernel(shape).file()->text;
    input_.kernel_path = shape.kernel;
    input_.arguments = shape.arguments;
    input_.arch_record = arch_record;
  }
  ~Bench() { std::filesystem::remove_all(dir_); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  // In the order of `configs`; null where one cannot be built, which a comment explains.
  std::vector<std::unique_ptr<Artifact>> Build(const std::vector<std::string>& configs) {
    std::vector<absl::StatusOr<codegen::CompileOutput>> outputs(configs.size());
    std::atomic<size_t> next = 0;
    std::vector<std::thread> crew;
    for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t) {
      crew.emplace_back([&] {
        for (size_t i = next++; i < configs.size(); i = next++) outputs[i] = Compile(configs[i]);
      });
    }
    for (std::thread& thread : crew) thread.join();
    std::vector<std::unique_ptr<Artifact>> artifacts;
    for (size_t i = 0; i < configs.size(); ++i) {
      artifacts.push_back(outputs[i].ok() ? Load(*outputs[i])
                                          : Refuse(configs[i], outputs[i].status()));
    }
    return artifacts;
  }
  double Time(const Artifact& artifact, double hopeless = INFINITY) {
    return Measure(artifact.entry(), tensors_, hopeless);
  }

 private:
  absl::StatusOr<codegen::CompileOutput> Compile(const std::string& config) const {
    const auto parsed = Config::Parse(config);
    if (!parsed.ok()) return parsed.status();
    codegen::CompileInput input = input_;
    input.config = *parsed;
    return codegen::CompileKernel(input);
  }
  std::unique_ptr<Artifact> Load(const codegen::CompileOutput& output) const {
    auto artifact = std::make_unique<Artifact>(output, dir_);
    return artifact->entry() == nullptr ? nullptr : std::move(artifact);
  }
  std::unique_ptr<Artifact> Refuse(const std::string& config, const absl::Status& why) const {
    std::printf("# %s %s: %s\n", shape_.name.c_str(), config.c_str(),
                std::string(why.message()).substr(0, 200).c_str());
    return nullptr;
  }

  const JudgedShape& shape_;
  const std::string dir_;
  Tensors tensors_;
  codegen::CompileInput input_;
};

using Times = std::map<std::string, double>;  // config -> ns

// Runs the quickest of a few configs every now and then and remembers how long it took.
class Reference {
 public:
  Reference(Bench& bench, const std::vector<std::string>& space) : bench_(bench) {
    std::vector<std::string> probes;
    for (size_t i = 1; i <= kProbes; ++i) probes.push_back(space[i * space.size() / (kProbes + 1)]);
    double best = INFINITY;
    for (auto& artifact : bench.Build(probes)) {
      const double ns = artifact == nullptr ? NAN : bench.Time(*artifact);
      if (!(ns < best)) continue;
      best = ns;
      artifact_ = std::move(artifact);
    }
  }
  // Runs once and answers the pace now: the median of the last three runs.
  double Now() {
    if (artifact_ == nullptr) return 1;
    runs_.push_back(bench_.Time(*artifact_, 0));
    const size_t last = std::min<size_t>(runs_.size(), 3);
    return Median({runs_.end() - static_cast<int64_t>(last), runs_.end()});
  }
  double Typical() const { return runs_.empty() ? 1 : Median(runs_); }

 private:
  static constexpr size_t kProbes = 8;
  Bench& bench_;
  std::unique_ptr<Artifact> artifact_;
  std::vector<double> runs_;
};

// The configs of the space, every `step`-th one.
std::vector<std::string> Configs(const JudgedShape& shape, int step) {
  const std::vector<Config> space = IndependentSpace(shape);
  std::vector<std::string> configs;
  for (size_t i = 0; i < space.size(); i += step) configs.push_back(space[i].ToString());
  return configs;
}

void MeasureMissing(const JudgedShape& shape, int step, Bench& bench, Times& times) {
  constexpr size_t kBatch = 32;      // configs compiled before they run
  constexpr double kHopeless = 1.5;  // times the best: one run will do
  double best = INFINITY;
  for (const auto& [config, ns] : times) best = std::min(best, ns);
  std::vector<std::string> missing = Configs(shape, step);
  Reference reference(bench, missing);
  missing.erase(std::remove_if(missing.begin(), missing.end(),
                               [&](const std::string& config) { return times.count(config) > 0; }),
                missing.end());
  std::map<std::string, double> pace;
  for (size_t from = 0; from < missing.size(); from += kBatch) {
    const std::vector<std::string> batch(missing.begin() + from,
                                         missing.begin() + std::min(from + kBatch, missing.size()));
    const auto artifacts = bench.Build(batch);
    for (size_t i = 0; i < batch.size(); ++i) {
      const double ns = artifacts[i] == nullptr ? NAN : bench.Time(*artifacts[i], kHopeless * best);
      if (std::isnan(ns)) continue;
      times[batch[i]] = ns;
      pace[batch[i]] = reference.Now();
      best = std::min(best, ns);
      std::fprintf(stderr, "%s,%s,%.0f\n", shape.name.c_str(), batch[i].c_str(), ns);
    }
  }
  for (const auto& [config, now] : pace) times[config] *= reference.Typical() / now;
}

// The best so far, and the recommender's slate.
std::vector<std::pair<double, std::string>> Contenders(const JudgedShape& shape,
                                                       const target::Arch& arch,
                                                       const Times& times) {
  std::vector<std::pair<double, std::string>> order;
  std::vector<Config> configs;
  for (const auto& [config, ns] : times) {
    order.emplace_back(ns, config);
    configs.push_back(*Config::Parse(config));
  }
  std::sort(order.begin(), order.end());
  order.resize(std::min(order.size(), kContenders));
  const auto slate = Judge(shape, configs, arch);
  for (size_t i = 0; slate.ok() && i < slate->ranked.size() && i < 8; ++i) {
    const std::string config = slate->ranked[i].config.ToString();
    const std::pair<double, std::string> pick = {times.at(config), config};
    if (std::find(order.begin(), order.end(), pick) == order.end()) order.push_back(pick);
  }
  return order;
}

void MeasureAgain(const std::vector<std::pair<double, std::string>>& order, Bench& bench,
                  Times& times) {
  std::vector<std::string> configs;
  for (const auto& [ns, config] : order) configs.push_back(config);
  const auto artifacts = bench.Build(configs);
  std::vector<std::vector<double>> turns(order.size());
  for (int turn = 0; turn < kTurns; ++turn) {
    for (size_t i = 0; i < order.size(); ++i) {
      if (artifacts[i] != nullptr) turns[i].push_back(bench.Time(*artifacts[i]));
    }
  }
  // The others get the pace that these met now.
  double log_pace = 0, counted = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (turns[i].empty()) continue;
    times[order[i].second] = Median(turns[i]);
    log_pace += std::log(times[order[i].second] / order[i].first);
    ++counted;
  }
  const double pace = counted > 0 ? std::exp(log_pace / counted) : 1;
  for (auto& [config, ns] : times) {
    const bool again =
        std::any_of(order.begin(), order.end(), [&](const auto& o) { return o.second == config; });
    if (!again) ns *= pace;
  }
}

void Print(const JudgedShape& shape, const Times& times) {
  for (const auto& [config, ns] : times) {
    std::printf("%s,%s,%.0f\n", shape.name.c_str(), config.c_str(), ns);
  }
  std::fflush(stdout);
}

// The times of `shape` in a table.
Times ReadTimes(const std::string& path, const JudgedShape& shape) {
  Times times;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(','), last = line.rfind(',');
    double ns = 0;
    if (line.substr(0, first) == shape.name && first != last &&
        absl::SimpleAtod(line.substr(last + 1), &ns)) {
      times[line.substr(first + 1, last - first - 1)] = ns;
    }
  }
  return times;
}

// The step that the words ask of a shape: 0 = leave it out.
int StepOf(const JudgedShape& shape, const std::vector<std::string>& words) {
  int step = words.empty() ? 1 : 0;
  for (const std::string& word : words) {
    const size_t colon = word.find(':');
    if (word.substr(0, colon) != shape.name) continue;
    step = colon == std::string::npos ? 1 : std::max(1, std::atoi(word.c_str() + colon + 1));
  }
  return step;
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) {
  const auto arch = kiln::target::HostArch("");
  if (!arch.ok()) {
    std::fprintf(stderr, "%s\n", arch.status().ToString().c_str());
    return 2;
  }
  const std::string record = kiln::target::ToText(*arch);
  std::printf("# %s\n", arch->model.c_str());
  std::vector<std::string> words(argv + 1, argv + argc);
  std::string known;
  while (words.size() >= 2 && (words[0] == "--from" || words[0] == "--arch")) {
    if (words[0] == "--from") known = words[1];
    if (words[0] == "--arch") std::ofstream(words[1]) << record;
    words.erase(words.begin(), words.begin() + 2);
  }
  for (const auto& shape : kiln::bench::JudgedShapes()) {
    const int step = kiln::bench::StepOf(shape, words);
    if (step == 0) continue;
    kiln::bench::Bench bench(shape, record);
    kiln::bench::Times times = kiln::bench::ReadTimes(known, shape);
    kiln::bench::MeasureMissing(shape, step, bench, times);
    kiln::bench::MeasureAgain(kiln::bench::Contenders(shape, *arch, times), bench, times);
    kiln::bench::Print(shape, times);
  }
}
