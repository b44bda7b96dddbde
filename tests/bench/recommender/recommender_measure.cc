// Measures every config of the judged shapes: recommender_measure [SHAPE[:STEP] ...] > TIMES.csv
//
// Compiles each config of the shape's independent space (every STEP-th one) for this machine, runs
// it, and prints "shape,config,ns". Arguments rotate over copies of 640 MB in all, so that a run
// does not find its data in a cache. The time of a config is the median of three runs during which
// no other process took a core.
#include <dlfcn.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

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
    const std::string path = dir + "/artifact.so";
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

// Median of the undisturbed runs; of the best quarter where there were too few of them.
double Measure(Entry entry, Tensors& t) {
  constexpr size_t kWanted = 3;
  constexpr int kMost = 24;
  if (std::isnan(RunOnce(entry, t))) return NAN;  // warm-up: threads, pages of the scratch arena
  std::vector<double> clean, all;
  for (int run = 0; run < kMost && clean.size() < kWanted; ++run) {
    const int64_t before = Preemptions();
    const double ns = RunOnce(entry, t);
    if (std::isnan(ns)) return ns;
    const int64_t allowed = 1 + static_cast<int64_t>(ns / 1e8);
    if (Preemptions() - before <= allowed) clean.push_back(ns);
    all.push_back(ns);
    if (clean.empty() && run >= 8 && Median(all) > 2e8) break;
  }
  if (clean.size() >= kWanted) return Median(clean);
  std::sort(all.begin(), all.end());
  all.resize(std::max<size_t>(1, all.size() / 4));
  return Median(all);
}

void MeasureShape(const JudgedShape& shape, int step, const std::string& arch_record) {
  const std::string dir =
      (std::filesystem::temp_directory_path() / ("kiln-measure-" + std::to_string(getpid())))
          .string();
  std::filesystem::create_directories(dir);
  Tensors tensors = MakeTensors(shape);
  codegen::CompileInput input;
  input.kernel_source = LoadKernel(shape).file()->text;
  input.kernel_path = shape.kernel;
  input.arguments = shape.arguments;
  input.arch_record = arch_record;
  const std::vector<Config> space = IndependentSpace(shape);
  for (size_t i = 0; i < space.size(); i += step) {
    input.config = space[i];
    const auto out = codegen::CompileKernel(input);
    if (!out.ok()) {
      std::printf("# %s %s: %s\n", shape.name.c_str(), space[i].ToString().c_str(),
                  std::string(out.status().message()).substr(0, 200).c_str());
      continue;
    }
    const Artifact artifact(*out, dir);
    if (artifact.entry() == nullptr) continue;
    const double ns = Measure(artifact.entry(), tensors);
    if (std::isnan(ns)) continue;
    std::printf("%s,%s,%.0f\n", shape.name.c_str(), space[i].ToString().c_str(), ns);
    std::fflush(stdout);
  }
  std::filesystem::remove_all(dir);
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
  for (const auto& shape : kiln::bench::JudgedShapes()) {
    int step = argc > 1 ? 0 : 1;
    for (int i = 1; i < argc; ++i) {
      const std::string word = argv[i];
      const size_t colon = word.find(':');
      if (word.substr(0, colon) != shape.name) continue;
      step = colon == std::string::npos ? 1 : std::max(1, std::atoi(word.c_str() + colon + 1));
    }
    if (step > 0) kiln::bench::MeasureShape(shape, step, record);
  }
}
