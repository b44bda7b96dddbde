// Sweep files, specs and bundles made of rubbish: mutations of the seeds and of a dictionary of the
// grammar's words. Nothing may crash, hang or throw, every refusal is a Status with a message, and
// what is accepted respects the limits that the coordinator checks again.
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "client/convert.h"
#include "client/kiln_client.h"
#include "proto/limits.h"

namespace kiln::client {
namespace {

namespace fs = std::filesystem;

const char* const kWords[] = {"name: ",
                              "kernel: ",
                              "template: ",
                              "arguments: ",
                              "shapes: ",
                              "dtypes: ",
                              "tunables: ",
                              "configs: ",
                              "matrix: ",
                              "sweeps: ",
                              "measurement: ",
                              "check: ",
                              "budget: ",
                              "runtime: ",
                              "auto",
                              "{",
                              "}",
                              "[",
                              "]",
                              ", ",
                              "\n",
                              "\n  - ",
                              "\n  ",
                              ": ",
                              "&a ",
                              "*a",
                              "<<: ",
                              "!!binary ",
                              "!",
                              "? ",
                              "|\n  ",
                              ">\n ",
                              "'",
                              "\"",
                              "#",
                              "---\n",
                              "...\n",
                              "%YAML 1.2\n",
                              "~",
                              "0x7f",
                              "1e999",
                              "-0",
                              "99999999999999999999",
                              ".inf",
                              "true",
                              "float32",
                              "a=1,b=2",
                              "\t",
                              "\r\n",
                              "\xff\xfe",
                              "\xc3\x28",
                              "\\u0000",
                              "10m"};

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  std::string Mutate(std::string text, const std::string& other) {
    const int edits = 1 + Below(8);
    for (int i = 0; i < edits; ++i) Edit(&text, other);
    if (text.size() > 1 << 16) text.resize(1 << 16);
    return text;
  }

  int Below(size_t n) { return static_cast<int>(random_() % std::max<size_t>(1, n)); }

 private:
  void Edit(std::string* text, const std::string& other) {
    const size_t at = static_cast<size_t>(Below(text->size() + 1));
    switch (Below(7)) {
      case 0:
        text->insert(at, kWords[Below(std::size(kWords))]);
        return;
      case 1:
        text->erase(at, static_cast<size_t>(Below(20)));
        return;
      case 2:
        text->insert(at, 1, static_cast<char>(Below(256)));
        return;
      case 3:
        text->insert(at, other.substr(static_cast<size_t>(Below(other.size() + 1)), 40));
        return;
      case 4:
        text->insert(at, text->substr(at, static_cast<size_t>(Below(64))));
        return;
      case 5:
        if (at < text->size()) (*text)[at] ^= static_cast<char>(1 << Below(8));
        return;
      default:
        text->resize(at);
        return;
    }
  }

  std::mt19937_64 random_;
};

// Seeds are good files (.yaml) and texts that once did harm (.bad).
std::vector<std::string> ReadSeeds(const std::string& extension = ".yaml") {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator("tests/fuzz/client/seeds")) {
    if (entry.path().extension() != extension) continue;
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> seeds;
  for (const fs::path& path : paths) {
    std::ifstream stream(path, std::ios::binary);
    std::ostringstream text;
    text << stream.rdbuf();
    seeds.push_back(text.str());
  }
  return seeds;
}

// Seconds of each fuzz test; KILN_FUZZ_SECONDS makes it longer.
double Budget() {
  const char* const given = std::getenv("KILN_FUZZ_SECONDS");
  return given == nullptr ? 5 : std::atof(given);
}

template <typename Body>
int64_t RunFor(double seconds, const Body& body) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  int64_t runs = 0;
  while (std::chrono::steady_clock::now() < end) {
    for (int i = 0; i < 16; ++i) body(runs++);
  }
  return runs;
}

void CheckResult(const std::string& text) {
  const auto begin = std::chrono::steady_clock::now();
  const auto specs = ParseSweepFile(text, "fuzz.yaml", "tests/fuzz/client/seeds");
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  ASSERT_LT(took.count(), 5.0) << "slow: " << text;
  if (!specs.ok()) {
    ASSERT_FALSE(specs.status().message().empty());
    return;
  }
  ASSERT_FALSE(specs->empty());
  for (const SweepSpec& spec : *specs) {
    const absl::Status checked = CheckSweepSpec(ToProto(spec));
    // What the file alone cannot know: a name that is an argument and a tunable, and sizes of sums.
    ASSERT_TRUE(checked.ok() || !checked.message().empty()) << text;
    const SweepSpec again = FromProto(ToProto(spec));
    ASSERT_EQ(ToProto(again).SerializeAsString().size(), ToProto(spec).SerializeAsString().size());
  }
}

TEST(SweepFileFuzz, SeedsAreAccepted) {
  const std::vector<std::string> seeds = ReadSeeds();
  ASSERT_GE(seeds.size(), 4u);
  for (const std::string& seed : seeds) {
    const auto specs = ParseSweepFile(seed, "seed.yaml", "tests/fuzz/client/seeds");
    EXPECT_TRUE(specs.ok()) << specs.status();
  }
}

TEST(SweepFileFuzz, WhatOnceDidHarmDoesNone) {
  const std::vector<std::string> seeds = ReadSeeds(".bad");
  ASSERT_FALSE(seeds.empty());
  for (const std::string& seed : seeds) CheckResult(seed);
}

TEST(SweepFileFuzz, MutatedFilesAreReadOrRefused) {
  const std::vector<std::string> seeds = ReadSeeds();
  Mutator mutator(20240607);
  const int64_t runs = RunFor(Budget(), [&](int64_t) {
    const std::string& seed = seeds[static_cast<size_t>(mutator.Below(seeds.size()))];
    const std::string& other = seeds[static_cast<size_t>(mutator.Below(seeds.size()))];
    CheckResult(mutator.Mutate(seed, other));
  });
  RecordProperty("runs", static_cast<int>(runs));
  EXPECT_GT(runs, 1000);
}

TEST(SpecFuzz, DecodedRubbishIsCheckedWithoutHarm) {
  google::protobuf::SetLogHandler(nullptr);  // it would tell of every string that is no UTF-8
  Mutator mutator(7);
  v1::SweepSpec good;
  good.set_template_("matmul");
  (*good.mutable_arguments())["M"] = "512";
  (*good.mutable_tunables())["block"].add_values("64");
  good.mutable_check()->add_seeds(5);
  const std::string seed = good.SerializeAsString();
  int accepted = 0, refused = 0;
  RunFor(Budget() / 2, [&](int64_t) {
    v1::SweepSpec spec;
    if (!spec.ParseFromString(mutator.Mutate(seed, seed))) return;
    const absl::Status status = CheckSweepSpec(spec);
    ASSERT_TRUE(status.ok() || absl::IsInvalidArgument(status) ||
                absl::IsResourceExhausted(status));
    ++(status.ok() ? accepted : refused);
    (void)FromProto(spec);
  });
  EXPECT_GT(accepted, 0);
  EXPECT_GT(refused, 0);
}

TEST(BundleFuzz, DecodedRubbishIsDataLoss) {
  google::protobuf::SetLogHandler(nullptr);
  Mutator mutator(11);
  v1::ArtifactBundle good;
  good.set_name("gemm");
  good.set_object(
      "\x7f"
      "ELF...");
  const std::string seed = good.SerializeAsString();
  int refused = 0;
  RunFor(Budget() / 2, [&](int64_t) {
    const auto bundle = ParseBundle(mutator.Mutate(seed, seed));
    if (bundle.ok()) return;
    ASSERT_TRUE(absl::IsDataLoss(bundle.status()));
    ++refused;
  });
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace kiln::client
