// Measures every config of the judged shapes: recommender_measure [SHAPE[:STEP] ...] > TIMES.csv
//
// Compiles each config of the shape's independent space (every STEP-th one) for this machine, runs
// it, and prints "shape,config,ns". Inputs are spread over enough copies that no run finds its
// predecessor's data in a cache. The time of a config is the median of at least three runs, and of
// as many as fit in 60 ms.
#include <dlfcn.h>
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

struct Tensors {
  std::vector<std::vector<float>> buffers;  // in order of parameters
};

int64_t Argument(const JudgedShape& s, const char* name) {
  return std::atoll(s.arguments.at(name).c_str());
}

Tensors MakeTensors(const JudgedShape& s) {
  Tensors t;
  const auto add = [&](int64_t n) {
    std::vector<float> v(n);
    uint32_t state = 1;
    for (float& x : v) {
      state = state * 1664525u + 1013904223u;
      x = static_cast<float>(state >> 8) * 0x1p-24f - 0.5f;
    }
    t.buffers.push_back(std::move(v));
  };
  if (s.kernel == "matmul.py") {
    const int64_t m = Argument(s, "M"), n = Argument(s, "N"), k = Argument(s, "K");
    add(m * k);
    add(k * n);
    add(m * n);
  } else {
    add(Argument(s, "M") * Argument(s, "N"));
    add(Argument(s, "M"));
  }
  return t;
}

// Streams over more memory than a core's share of the caches.
void Flush() {
  static std::vector<char> junk(64 << 20, 1);
  static volatile char sink = 0;
  char sum = 0;
  for (size_t i = 0; i < junk.size(); i += 64) sum = static_cast<char>(sum + junk[i]++);
  sink = static_cast<char>(sink + sum);
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
  for (size_t i = 0; i < t.buffers.size(); ++i) p[i] = t.buffers[i].data();
  const auto from = std::chrono::steady_clock::now();
  const int32_t rc = entry(&launch, p[0], p[1], p[2]);
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - from;
  return rc == 0 ? took.count() : NAN;
}

double Measure(Entry entry, Tensors& t) {
  std::vector<double> samples;
  double total = RunOnce(entry, t);  // warm-up: threads, pages of the scratch arena
  if (std::isnan(total)) return total;
  total = 0;
  while (samples.size() < 3 || (total < 60e6 && samples.size() < 25)) {
    Flush();
    samples.push_back(RunOnce(entry, t));
    total += samples.back();
  }
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
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
