// What one candidate costs: compiling it (with one and with several children at once), checking its
// numbers, timing it. Drives the real children without a coordinator.
//
//   worker_bench compile [--children=2] [--candidates=64]
//     compile_ms_median, candidates_per_second for one child and for several, and their ratio
//   worker_bench profile FILE --arg M=512 --arg N=512 ... --config block_M=32,... --config ...
//     per candidate: median time, samples, seconds of set-up, check and measurement
#include <sys/prctl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "worker/compile_executor.h"
#include "worker/profile_executor.h"

namespace kiln::worker {
namespace {

using Clock = std::chrono::steady_clock;

std::string BinaryFolder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().string() + "/../bin/";
}

ChildOptions Child(const std::string& name) {
  ChildOptions options;
  options.binary = BinaryFolder() + name;
  return options;
}

std::unique_ptr<ChildProfileExecutor> MakeRunner() {
  ChildOptions options = Child("kiln-runner");
  options.arguments = {"--cache-dir=/tmp"};
  return std::make_unique<ChildProfileExecutor>(options, ProfileLimits{600});
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

[[noreturn]] void Fail(const absl::Status& status) {
  std::fprintf(stderr, "worker_bench: %s\n", std::string(status.message()).c_str());
  std::exit(1);
}

v1::SweepInputs MakeInputs(const std::string& file, const std::vector<std::string>& arguments,
                           const v1::ArchRecord& arch) {
  v1::SweepInputs inputs;
  inputs.set_kernel_source(ReadFile(file));
  inputs.set_kernel_path(file);
  for (const std::string& argument : arguments) {
    std::vector<std::string> parts = absl::StrSplit(argument, absl::MaxSplits('=', 1));
    if (parts.size() == 2) (*inputs.mutable_arguments())[parts[0]] = parts[1];
  }
  *inputs.mutable_arch() = arch;
  return inputs;
}

// Compiles all configs with `children` children; seconds of the whole. `each_ms` gets the wall time
// of every candidate.
double CompileAll(const v1::SweepInputs& inputs, const std::vector<std::string>& configs,
                  int children, std::vector<double>* each_ms) {
  std::atomic<size_t> next{0};
  std::atomic<int> ready{0};
  std::vector<double> ms(configs.size());
  std::vector<std::thread> threads;
  Clock::time_point begin;
  for (int t = 0; t < children; ++t) {
    threads.emplace_back([&] {
      ChildCompileExecutor executor(Child("kiln-compile"), CompileLimits());
      // One candidate outside the clock: start-up is not what is measured.
      absl::StatusOr<CompileOutcome> warm = executor.Compile(inputs, configs[0], 0);
      if (!warm.ok()) Fail(warm.status());
      if (++ready == children) begin = Clock::now();
      while (ready < children) std::this_thread::yield();
      for (size_t i = next++; i < configs.size(); i = next++) {
        Clock::time_point start = Clock::now();
        absl::StatusOr<CompileOutcome> outcome = executor.Compile(inputs, configs[i], 0);
        if (!outcome.ok()) Fail(outcome.status());
        if (outcome->result.has_failure()) {
          Fail(absl::InternalError(outcome->result.failure().message()));
        }
        ms[i] = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (each_ms != nullptr) *each_ms = ms;
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::vector<std::string> GemmConfigs(int count) {
  std::vector<std::string> configs;
  for (int m : {16, 32, 64, 128}) {
    for (int n : {32, 48, 64, 96, 128}) {
      for (int k : {16, 32, 64, 128}) {
        configs.push_back(absl::StrCat("block_K=", k, ",block_M=", m, ",block_N=", n));
      }
    }
  }
  configs.resize(std::min(configs.size(), static_cast<size_t>(count)));
  return configs;
}

int BenchCompile(int children, int candidates) {
  absl::StatusOr<v1::ChildHello> hello = MakeRunner()->Start();
  if (!hello.ok()) Fail(hello.status());
  v1::SweepInputs inputs =
      MakeInputs("compiler/templates/matmul.py", {"M=512", "N=512", "K=512"}, hello->archs(0));
  std::vector<std::string> configs = GemmConfigs(candidates);
  std::vector<double> ms;
  double alone = CompileAll(inputs, configs, 1, &ms);
  double together = CompileAll(inputs, configs, children, nullptr);
  std::sort(ms.begin(), ms.end());
  double count = static_cast<double>(configs.size());
  std::printf("compile_ms_median %.2f\n", ms[ms.size() / 2]);
  std::printf("candidates_per_second_per_core %.2f\n", count / alone);
  std::printf("candidates_per_second_%d_children %.2f\n", children, count / together);
  std::printf("compile_scaling_%d_children %.3f\n", children, alone / together);
  return 0;
}

int BenchProfile(const std::string& file, const std::vector<std::string>& arguments,
                 const std::vector<std::string>& configs, const std::string& kind, bool unchecked) {
  std::unique_ptr<ChildProfileExecutor> runner = MakeRunner();
  absl::StatusOr<v1::ChildHello> hello = runner->Start();
  if (!hello.ok()) Fail(hello.status());
  v1::SweepInputs inputs = MakeInputs(file, arguments, hello->archs(0));
  if (unchecked) inputs.mutable_check()->set_reference(v1::CheckPolicy::NONE);
  ChildCompileExecutor compiler(Child("kiln-compile"), CompileLimits());
  v1::ProfileRequest request;
  *request.mutable_inputs() = inputs;
  request.set_kind(kind == "finals" ? v1::TASK_FINALS : v1::TASK_SCREEN);
  for (size_t i = 0; i < configs.size(); ++i) {
    absl::StatusOr<CompileOutcome> outcome = compiler.Compile(inputs, configs[i], 0);
    if (!outcome.ok()) Fail(outcome.status());
    if (outcome->result.has_failure()) {
      std::printf("%s: %s\n", configs[i].c_str(), outcome->result.failure().DebugString().c_str());
      continue;
    }
    std::string path = absl::StrCat("/tmp/worker_bench_", i, ".bundle");
    std::ofstream(path, std::ios::binary) << outcome->bundle;
    request.add_candidates()->set_config(configs[i]);
    request.mutable_candidates()->rbegin()->set_bundle_path(path);
  }
  absl::StatusOr<ProfileOutcome> outcome = runner->Profile(request, 0);
  if (!outcome.ok()) Fail(outcome.status());
  for (const v1::CandidateResult& result : outcome->results) {
    const v1::Measurement& m = result.measurement();
    if (result.has_failure()) {
      std::printf("%s FAILED %s\n", result.config().c_str(),
                  result.failure().DebugString().c_str());
      continue;
    }
    std::printf(
        "%s median_ns=%.0f p25=%.0f p75=%.0f n=%d dropped=%d setup=%.2fs check=%.2fs "
        "measure=%.2fs [%s] [%s]\n",
        result.config().c_str(), m.median_ns(), m.p25_ns(), m.p75_ns(), m.samples_ns_size(),
        m.dropped(), m.setup_seconds(), m.check_seconds(), m.measure_seconds(),
        m.check_summary().c_str(), m.conditions().c_str());
  }
  return 0;
}

}  // namespace
}  // namespace kiln::worker

int main(int argc, char** argv) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  CLI::App app("worker_bench: what a candidate costs on this machine");
  app.require_subcommand(1);
  int children = 2;
  int candidates = 64;
  CLI::App* compile = app.add_subcommand("compile", "compile throughput and scaling");
  compile->add_option("--children", children, "children of the second run");
  compile->add_option("--candidates", candidates, "how many configs, at most 80");
  std::string file;
  std::string kind = "screen";
  bool unchecked = false;
  std::vector<std::string> arguments;
  std::vector<std::string> configs;
  CLI::App* profile = app.add_subcommand("profile", "check and time given configs");
  profile->add_option("file", file, "kernel file")->required();
  profile->add_option("--arg", arguments, "compile-time argument name=value");
  profile->add_option("--config", configs, "config text");
  profile->add_option("--kind", kind, "screen or finals");
  profile->add_flag("--unchecked", unchecked, "without reference");
  CLI11_PARSE(app, argc, argv);
  if (compile->parsed()) return kiln::worker::BenchCompile(children, candidates);
  return kiln::worker::BenchProfile(file, arguments, configs, kind, unchecked);
}
