// The tunectl program against a scripted farm: what it prints, what it writes, how it exits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/base/digest.h"
#include "coordinator/rpc/server.h"
#include "tests/e2e/rpc/fake_farm.h"
#include "tests/e2e/rpc/process.h"

namespace kiln {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::FakeFarm;
using test::Process;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

const std::string kSweep(64, 'a');

struct Outcome {
  int code = 0;
  std::string out, err;
};

class TunectlTest : public testing::Test {
 protected:
  TunectlTest() {
    folder_ = fs::path(testing::TempDir()) / absl::StrCat("kiln_ctl_", getpid());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    address_ = absl::StrCat("unix:", (folder_ / "s.sock").string());
    rpc::ServerOptions options;
    options.listen = {address_};
    server_ = *rpc::Server::Start(&farm_, metrics_.get(), options);
    std::ofstream(folder_ / "gemm.yaml") << "template: matmul\nshapes: {M: 64, N: 64, K: 64}\n";
    std::ofstream(folder_ / "two.yaml")
        << "template: matmul\nmatrix: {M: [1, 2]}\nshapes: {N: 64, K: 64}\n";
  }
  ~TunectlTest() override { fs::remove_all(folder_); }

  Outcome Tunectl(const std::vector<std::string>& arguments) {
    std::vector<std::string> argv = {test::BinaryFolder() + "/tunectl", "--server", address_};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    Process process(argv, (folder_ / "ctl").string(), {{"USER", "ada"}});
    Outcome run;
    run.code = process.Wait(absl::Seconds(60));
    run.out = process.out();
    run.err = process.err();
    return run;
  }
  std::string File(const std::string& name) { return (folder_ / name).string(); }

  void FinishWatches(v1::SweepState state) {
    farm_.OnWatch([state](std::shared_ptr<core::WatchSink> sink) {
      v1::SweepEvent event;
      event.mutable_progress()->set_state(v1::RUNNING);
      event.mutable_progress()->set_total(4);
      event.mutable_progress()->set_round("screen");
      sink->OnEvent(event);
      event.mutable_progress()->set_state(state);
      event.mutable_progress()->set_done(4);
      event.mutable_progress()->set_message(state == v1::FAILED ? "no candidate survived" : "");
      if (state == v1::DONE) {
        v1::Winner* const winner = event.mutable_winner();
        winner->set_config("block_M=16");
        winner->set_sweep_digest(kSweep);
        winner->mutable_measurement()->set_median_ns(1.5e6);
        winner->mutable_hint()->set_flops(1e9);
        winner->mutable_arch()->set_name("x86-64-v4");
      }
      sink->OnEvent(event);
      sink->OnDone(absl::OkStatus());
    });
  }

  void StoreBundle() {
    v1::ArtifactBundle bundle;
    bundle.set_name("matmul");
    bundle.set_target("x86-64-v4");
    bundle.set_object("OBJECT");
    bundle.set_shared_object("SHARED");
    bundle.set_header("/* header */\n");
    bundle.set_manifest_json("{}");
    const std::string text = bundle.SerializeAsString();
    core::ArtifactRef artifact;
    artifact.digest = *farm_.blobs()->PutBytes(text);
    artifact.size_bytes = static_cast<int64_t>(text.size());
    farm_.SetArtifact(artifact);
  }

  fs::path folder_;
  std::string address_;
  FakeFarm farm_;
  std::unique_ptr<rpc::Metrics> metrics_ = rpc::Metrics::New();
  std::unique_ptr<rpc::Server> server_;
};

TEST_F(TunectlTest, SubmitPrintsOneLineASweep) {
  const Outcome run = Tunectl({"submit", File("two.yaml"), "--set", "K=128", "--priority", "7"});
  EXPECT_EQ(run.code, 0) << run.err;
  const std::vector<std::string> lines = absl::StrSplit(run.out, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 2u) << run.out;
  EXPECT_THAT(lines[0], HasSubstr(kSweep));
  EXPECT_THAT(lines[1], HasSubstr("M=2"));
  ASSERT_EQ(farm_.submitted().size(), 2u);
  EXPECT_EQ(farm_.submitted()[0].arguments().at("K"), "128");
  EXPECT_EQ(farm_.submitted()[0].user(), "ada");
  EXPECT_EQ(farm_.submitted()[0].priority(), 7);
}

TEST_F(TunectlTest, AnAnswerOfAnUnknownCompilerIsToldOf) {
  v1::SubmitSweepResponse answer;
  answer.set_answered(true);
  answer.mutable_winner()->set_config("block_M=16");
  for (const char* const field : {"memory", "compiler"}) {
    answer.add_not_compared(field);
    farm_.SetSubmitAnswer(answer);
    const Outcome run = Tunectl({"submit", File("gemm.yaml"), "--watch"});
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("(done, answered from the store"));
    const auto told = HasSubstr("whichever compiler made it: no worker compiles for it now");
    if (field == std::string("compiler")) {
      EXPECT_THAT(run.out, told);
    } else {
      EXPECT_THAT(run.out, Not(told)) << "a CPU has no such memory";
    }
  }
  const Outcome run = Tunectl({"--json", "submit", File("gemm.yaml")});
  EXPECT_EQ(json::parse(run.out)["sweeps"][0]["not_compared"], json({"memory", "compiler"}));
}

TEST_F(TunectlTest, AFarmWithoutAWorkerIsToldOf) {
  EXPECT_THAT(Tunectl({"submit", File("gemm.yaml")}).err, Not(HasSubstr("waits for a worker")));
  farm_.SetSubmitTime(absl::Seconds(4));
  Outcome run = Tunectl({"--json", "submit", File("gemm.yaml")});
  EXPECT_EQ(run.code, 0);
  EXPECT_THAT(run.err, HasSubstr("matmul waits for a worker: nobody has a cpu"));
  EXPECT_EQ(json::parse(run.out)["sweeps"].size(), 1u) << "stdout is still one document";
  EXPECT_EQ(Tunectl({"--quiet", "submit", File("gemm.yaml")}).err, "");
}

TEST_F(TunectlTest, ShowCutsTheTime) {
  v1::GetSweepResponse sweep;
  sweep.mutable_summary()->set_sweep(kSweep);
  sweep.mutable_summary()->set_parent(std::string(64, 'b'));
  EXPECT_FALSE(json::parse(Tunectl({"--json", "show", kSweep}).out).contains("time"));
  v1::TimeAccount* const time = sweep.mutable_time();
  time->set_before_seconds(0.75);
  time->set_elapsed_seconds(4.5);
  (*time->mutable_sweep())["both"] = 3;
  (*time->mutable_sweep())["compile"] = 1.5;
  v1::DeviceTime* const device = time->add_devices();
  device->set_device("box/gpu0");
  (*device->mutable_seconds())["first"] = 1.5;
  (*device->mutable_seconds())["measure"] = 2;
  (*device->mutable_seconds())["check"] = 0.25;
  (*device->mutable_seconds())["others"] = 0.5;
  (*device->mutable_seconds())["handover"] = 0.25;
  device->set_idle_share(0.0833);
  farm_.SetSweep(sweep);
  const std::string text = Tunectl({"show", kSweep}).out;
  for (const char* line : {"clock    both 3.00 s, compile 1.50 s; 0.75 s before it began\n",
                           "device   box/gpu0\n", "  did    measure 2.00 s, check 0.25 s\n",
                           "  gave   others 0.50 s\n", "  waited first 1.50 s, handover 0.25 s\n",
                           "  idle   8 % of the time since the first compiled candidate\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  const json shown = json::parse(Tunectl({"--json", "show", kSweep}).out);
  EXPECT_EQ(shown["time"]["devices"][0]["seconds"]["measure"], 2);
  EXPECT_EQ(shown["time"]["sweep"]["both"], 3);
  EXPECT_EQ(shown["part_of"], std::string(64, 'b'));
}

TEST_F(TunectlTest, OnlyChoosesAndOneInsists) {
  EXPECT_EQ(Tunectl({"submit", "--only", "M=2", File("two.yaml")}).code, 0);
  ASSERT_EQ(farm_.submitted().size(), 1u);
  EXPECT_EQ(farm_.submitted()[0].arguments().at("M"), "2");
  EXPECT_EQ(Tunectl({"submit", "--only", "nothing", File("two.yaml")}).code, 3);
  Outcome run = Tunectl({"submit", "--one", File("two.yaml")});
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err, HasSubstr("--only"));
  run = Tunectl({"submit", "--set", "M=5", File("two.yaml")});
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err, HasSubstr("differ in M: choose one of them with --only"));
  EXPECT_EQ(Tunectl({"submit", "--set", "N=5", File("two.yaml")}).code, 0);
  EXPECT_EQ(Tunectl({"submit", "--set", "M=5", "--only", "M=2", File("two.yaml")}).code, 0);
}

TEST_F(TunectlTest, WatchedSubmitFetchesTheWinner) {
  FinishWatches(v1::DONE);
  StoreBundle();
  const Outcome run = Tunectl({"submit", File("gemm.yaml"), "-o", File("out"), "--name", "gemm"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("block_M=16"));
  EXPECT_THAT(run.out, HasSubstr("666.7 GFLOP/s"));
  EXPECT_THAT(run.err, HasSubstr("screen")) << "progress goes to stderr, in plain lines";
  EXPECT_THAT(run.err, Not(HasSubstr("\x1b")));
  EXPECT_EQ(test::ReadText(File("out/gemm.so")), "SHARED");
  EXPECT_EQ(test::ReadText(File("out/gemm.h")), "/* header */\n");
  EXPECT_EQ(test::ReadText(File("out/gemm.json")), "{}");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "out"), {}), 3);
}

TEST_F(TunectlTest, JsonIsOneDocument) {
  FinishWatches(v1::DONE);
  const Outcome run = Tunectl({"submit", File("two.yaml"), "--watch", "--json"});
  EXPECT_EQ(run.code, 0) << run.err;
  const json document = json::parse(run.out);
  ASSERT_EQ(document["sweeps"].size(), 2u);
  EXPECT_EQ(document["sweeps"][1]["state"], "done");
  EXPECT_EQ(document["sweeps"][1]["winner"]["config"], "block_M=16");
  EXPECT_EQ(document["sweeps"][1]["exit_code"], 0);
  const Outcome watch = Tunectl({"--json", "watch", kSweep});
  int lines = 0;
  for (const absl::string_view line : absl::StrSplit(watch.out, '\n', absl::SkipEmpty())) {
    EXPECT_TRUE(json::parse(std::string(line)).contains("progress"));
    ++lines;
  }
  EXPECT_EQ(lines, 2);
  EXPECT_TRUE(json::parse(Tunectl({"--json", "workers"}).out).contains("workers"));
  EXPECT_TRUE(json::parse(Tunectl({"--json", "show", kSweep}).out).contains("candidates"));
  EXPECT_EQ(json::parse(Tunectl({"--json", "list", "--limit", "3"}).out)["sweeps"].size(), 3u);
  EXPECT_EQ(json::parse(Tunectl({"--json", "gc", "--dry-run"}).out)["bytes_after"], 100);
  EXPECT_EQ(json::parse(Tunectl({"--json", "backup", "/tmp/x"}).out)["bytes"], 7);
  EXPECT_EQ(json::parse(Tunectl({"--json", "cancel", kSweep}).out)["sweeps"][0]["state"],
            "cancelled");
}

TEST_F(TunectlTest, EveryFormatOfFetch) {
  StoreBundle();
  EXPECT_EQ(Tunectl({"fetch", kSweep, "-o", File("a"), "--format", "obj"}).code, 0);
  EXPECT_EQ(test::ReadText(File("a/matmul.o")), "OBJECT");
  EXPECT_EQ(Tunectl({"fetch", kSweep, "-o", File("b"), "--format", "bundle"}).code, 0);
  v1::ArtifactBundle bundle;
  EXPECT_TRUE(bundle.ParseFromString(test::ReadText(File("b/matmul.kilnbundle"))));
  EXPECT_EQ(Tunectl({"fetch", kSweep, "-o", File("c"), "--format", "tar"}).code, 2);
  EXPECT_EQ(Tunectl({"fetch", kSweep, "--name", "../evil"}).code, 2);
  EXPECT_EQ(Tunectl({"fetch", kSweep, "-o", "/proc/nothing/here"}).code, 6);
}

TEST_F(TunectlTest, ARefusedFetchLeavesNoFolder) {
  std::filesystem::create_directories(File("kept"));
  EXPECT_EQ(Tunectl({"fetch", kSweep, "-o", File("new/inner/")}).code, 3);
  EXPECT_EQ(Tunectl({"fetch", kSweep, "-o", File("kept/inner")}).code, 3);
  EXPECT_EQ(Tunectl({"fetch", kSweep, "-o", File("missing/../kept")}).code, 3);
  EXPECT_EQ(Tunectl({"fetch", kSweep, "-o", File("long/" + std::string(300, 'x'))}).code, 6);
  for (const char* made : {"new", "missing", "long"}) {
    EXPECT_FALSE(std::filesystem::exists(File(made))) << made;
  }
  EXPECT_TRUE(std::filesystem::is_empty(File("kept")));
  StoreBundle();
  EXPECT_EQ(Tunectl({"fetch", kSweep, "-o", File("cubin"), "--format", "cubin"}).code, 6);
  EXPECT_FALSE(std::filesystem::exists(File("cubin")));
}

// What could not be fetched in the end is refused before anybody works for it.
TEST_F(TunectlTest, WhereWinnersGoIsLookedAtFirst) {
  std::ofstream(folder_ / "file") << "in the way";
  const std::vector<std::string> wrong[] = {{"-o", File("file/inner")},
                                            {"-o", "/proc/nothing/here"},
                                            {"-o", File("out"), "--format", "cubin"}};
  for (const std::vector<std::string>& flags : wrong) {
    for (const char* command : {"submit", "tune"}) {
      std::vector<std::string> all = {command, File("gemm.yaml")};
      all.insert(all.end(), flags.begin(), flags.end());
      const Outcome run = Tunectl(all);
      EXPECT_EQ(run.code, 6) << run.err;
      EXPECT_THAT(run.err, AnyOf(HasSubstr("folder"), HasSubstr("is for cpu: use so or obj")));
    }
  }
  EXPECT_TRUE(farm_.submitted().empty());
  EXPECT_FALSE(std::filesystem::exists(File("out")));
}

// Builds fetch several kernels at once, into folders that have others around them in common.
TEST_F(TunectlTest, SeveralAtOnceMayMakeTheSameFolders) {
  FinishWatches(v1::DONE);
  StoreBundle();
  for (int round = 0; round < 6; ++round) {
    std::vector<std::unique_ptr<Process>> running;
    for (int i = 0; i < 6; ++i) {
      const std::string out = File(absl::StrCat("round", round, "/deep/er/", i));
      running.push_back(std::make_unique<Process>(
          std::vector<std::string>{test::BinaryFolder() + "/tunectl", "--server", address_, "-q",
                                   "submit", File("gemm.yaml"), "-o", out},
          File(absl::StrCat("ctl", i))));
    }
    for (const auto& process : running) {
      EXPECT_EQ(process->Wait(absl::Seconds(60)), 0) << process->err();
    }
  }
}

TEST_F(TunectlTest, WhatIsTooMuchForASweepFileIsAMistakeInIt) {
  std::ofstream(folder_ / "deep.yaml") << std::string(100, '[') << std::string(100, ']');
  std::ofstream(folder_ / "self.yaml") << "a: &a [*a]\n";
  std::ofstream(folder_ / "long.yaml") << std::string(2 << 20, '#');
  for (const char* file : {"deep.yaml", "self.yaml", "long.yaml"}) {
    const Outcome run = Tunectl({"submit", File(file)});
    EXPECT_EQ(run.code, 2) << file << run.err;
  }
}

TEST_F(TunectlTest, ExitCodesAreStable) {
  FinishWatches(v1::FAILED);
  EXPECT_EQ(Tunectl({"submit", File("gemm.yaml"), "--watch"}).code, 1);
  EXPECT_EQ(Tunectl({"watch", kSweep}).code, 1);
  FinishWatches(v1::CANCELLED);
  EXPECT_EQ(Tunectl({"watch", kSweep}).code, 5);
  EXPECT_EQ(Tunectl({}).code, 2);
  EXPECT_EQ(Tunectl({"frobnicate"}).code, 2);
  EXPECT_EQ(Tunectl({"show", "xyz"}).code, 2);
  EXPECT_EQ(Tunectl({"submit", File("missing.yaml")}).code, 3);
  EXPECT_EQ(Tunectl({"lookup", File("gemm.yaml")}).code, 3);
  EXPECT_EQ(Tunectl({"fetch", kSweep}).code, 3);
  EXPECT_EQ(Tunectl({"--help"}).code, 0);
  EXPECT_EQ(Tunectl({"--version"}).code, 0);
  farm_.FailNext(1, absl::ResourceExhaustedError("full"));
  EXPECT_EQ(Tunectl({"workers"}).code, 6);
  farm_.FailNext(1, absl::DataLossError("bad"));
  EXPECT_EQ(Tunectl({"workers"}).code, 7);
  farm_.FailNext(1, absl::InternalError("bug"));
  EXPECT_EQ(Tunectl({"workers"}).code, 70);
  EXPECT_EQ(Tunectl({"--server", absl::StrCat(address_, "x"), "workers"}).code, 4);
  EXPECT_EQ(Tunectl({"--server", "nonsense", "workers"}).code, 2);
  for (const char* seconds : {"nan", "inf", "0", "-1", "x"}) {
    EXPECT_EQ(Tunectl({"--timeout", seconds, "workers"}).code, 2) << seconds;
  }
}

TEST_F(TunectlTest, LookupSaysWhichLevelMatchedAndWhatDiffers) {
  Outcome run = Tunectl({"lookup", File("gemm.yaml"), "--match", "compatible"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("matched  compatible"));
  EXPECT_THAT(run.out, HasSubstr("differs  driver: tuned with 550, asked 570"));
  const json lookup = json::parse(
      Tunectl({"--json", "lookup", File("gemm.yaml"), "--match", "compatible"}).out)["lookups"][0];
  EXPECT_EQ(lookup["matched"], "compatible");
  EXPECT_EQ(lookup["differences"][0]["stored"], "550");
  EXPECT_EQ(Tunectl({"lookup", File("gemm.yaml"), "--match", "near"}).code, 2);
}

TEST_F(TunectlTest, MissesAreATableOrADocumentOrSweeps) {
  v1::ListMissesResponse misses;
  for (int i = 0; i < 2; ++i) {
    v1::Miss* const miss = misses.add_misses();
    miss->set_id(std::string(64, 'c'));
    miss->set_count(70 - i);
    miss->set_reason(
        absl::StrCat("the nearest stored winner of this kernel: tuned for N=1, asked N=2; ",
                     std::string(1000, 'x')));
    miss->add_users("grace");
    miss->mutable_spec()->set_template_("matmul");
    miss->mutable_spec()->set_user("grace");
    (*miss->mutable_spec()->mutable_arguments())["M"] = std::to_string(i + 1);
  }
  misses.set_total(9);
  farm_.SetMisses(misses);
  Outcome run = Tunectl({"misses"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("70"));
  EXPECT_THAT(run.out, HasSubstr("M=1"));
  EXPECT_THAT(run.out, HasSubstr("7 more"));
  const json document = json::parse(Tunectl({"--json", "misses"}).out);
  EXPECT_EQ(document["misses"][1]["count"], 69);
  EXPECT_THAT(run.out, HasSubstr("tuned for N=1, asked N=2;"));
  EXPECT_THAT(run.out, Not(HasSubstr("the nearest stored winner")));
  EXPECT_THAT(run.out, Not(HasSubstr(std::string(101, 'x')))) << "a table has no room for it";
  EXPECT_GT(document["misses"][0]["reason"].get<std::string>().size(), 1000u);
  EXPECT_EQ(document["total"], 9);
  run = Tunectl({"submit", "--from-misses"});
  EXPECT_EQ(run.code, 0) << run.err;
  ASSERT_EQ(farm_.submitted().size(), 2u);
  EXPECT_EQ(farm_.submitted()[0].arguments().at("M"), "1");
  EXPECT_EQ(farm_.submitted()[0].user(), "ada") << "who tunes, not who looked";
  EXPECT_EQ(Tunectl({"submit"}).code, 2);
  EXPECT_EQ(Tunectl({"submit", "--from-misses", File("gemm.yaml")}).code, 2);
  EXPECT_EQ(Tunectl({"submit", "--from-misses", "--set", "M=3"}).code, 2);
  EXPECT_EQ(Tunectl({"submit", "--most", "3", File("gemm.yaml")}).code, 2);
  misses.mutable_misses(1)->mutable_spec()->set_target("sm_90a");
  FinishWatches(v1::FAILED);
  farm_.SetMisses(misses);
  run = Tunectl({"submit", "--from-misses", "-o", File("out"), "--format", "cubin"});
  EXPECT_THAT(run.err,
              HasSubstr("1 misses are for CPUs, and --format cubin is a GPU's code alone"));
  ASSERT_EQ(farm_.submitted().size(), 3u) << "one bad miss must not hold up the others";
  EXPECT_EQ(farm_.submitted()[2].target(), "sm_90a");
  EXPECT_EQ(json::parse(Tunectl({"--json", "misses", "--clear"}).out)["cleared"], 2);
  run = Tunectl({"submit", "--from-misses"});
  EXPECT_EQ(run.code, 0);
  EXPECT_THAT(run.out, HasSubstr("nothing to tune"));
}

TEST_F(TunectlTest, LookingAtAStoreNeverMakesOne) {
  Outcome run = Tunectl({"--store", File("typo"), "list"});
  EXPECT_EQ(run.code, 3) << run.err;
  EXPECT_THAT(run.err, HasSubstr("there is no store"));
  EXPECT_FALSE(fs::exists(File("typo")));
  fs::create_directories(File("coordinator/meta"));
  for (const std::string command : {"list", "tune"}) {
    run = command == "list" ? Tunectl({"--store", File("coordinator"), command})
                            : Tunectl({command, File("gemm.yaml"), "--store", File("coordinator")});
    EXPECT_EQ(run.code, 2) << run.err;
    EXPECT_THAT(run.err, HasSubstr("the store of a kiln-coordinator"));
    EXPECT_FALSE(fs::exists(File("coordinator/farm")));
  }
}

TEST_F(TunectlTest, UsageErrorsAreJsonToo) {
  const auto error_of = [this](const std::vector<std::string>& arguments) {
    const Outcome run = Tunectl(arguments);
    EXPECT_EQ(run.code, 2);
    const json document = json::parse(run.out, nullptr, false);
    EXPECT_TRUE(document.is_object()) << run.out << run.err;
    if (!document.is_object()) return std::string();
    EXPECT_EQ(document["error"]["exit_code"], 2);
    return document["error"]["message"].get<std::string>();
  };
  EXPECT_THAT(error_of({"--json", "frobnicate"}), HasSubstr("'frobnicate'"));
  EXPECT_THAT(error_of({"lisst", "--json"}), HasSubstr("'lisst', did you mean 'list'?"));
  EXPECT_THAT(error_of({"submit", "--json"}), HasSubstr("FILE"));
  EXPECT_THAT(error_of({"list", "--nonsense", "--json"}), HasSubstr("--nonsense"));
  EXPECT_THAT(error_of({"--json"}), Not(HasSubstr("there is no command")));
  EXPECT_THAT(Tunectl({"frobnicate"}).err, HasSubstr("'frobnicate'"));
  EXPECT_EQ(Tunectl({"frobnicate"}).out, "");
}

TEST_F(TunectlTest, OutputThatIsLostIsNoSuccess) {
  for (const std::string command : {"workers", "--json workers", "--help", "completion bash"}) {
    Process process({"/bin/sh", "-c",
                     absl::StrCat(test::BinaryFolder(), "/tunectl --server ", address_, " ",
                                  command, " > /dev/full")},
                    File("full"));
    EXPECT_EQ(process.Wait(absl::Seconds(60)), 6) << command;
    EXPECT_THAT(process.err(), HasSubstr("cannot write the output")) << command;
  }
}

TEST_F(TunectlTest, AReaderThatHasEnoughIsNotComplainedTo) {
  Process process({"/bin/sh", "-c",
                   absl::StrCat("(sleep 0.2; ", test::BinaryFolder(),
                                "/tunectl completion bash; echo code $? >&2) | true")},
                  File("enough"));
  EXPECT_EQ(process.Wait(absl::Seconds(60)), 0);
  EXPECT_EQ(process.err(), "code 6\n");
}

TEST_F(TunectlTest, TimeoutAndInterruptEndAWatch) {
  farm_.OnWatch([](std::shared_ptr<core::WatchSink> sink) { sink->OnEvent(v1::SweepEvent()); });
  const Outcome silent = Tunectl({"--timeout", "0.3", "watch", kSweep});
  EXPECT_EQ(silent.code, 5);
  EXPECT_THAT(silent.err, HasSubstr("timed out after 300ms: nothing had been heard of the sweep"));
  Process process({test::BinaryFolder() + "/tunectl", "--server", address_, "watch", kSweep},
                  File("watch"));
  for (int i = 0; i < 500 && farm_.watches() < 1; ++i) absl::SleepFor(absl::Milliseconds(10));
  absl::SleepFor(absl::Milliseconds(100));
  process.Signal(SIGINT);
  EXPECT_EQ(process.Wait(absl::Seconds(10)), 5);
}

// What was waited for, how far it was, and what to do.
TEST_F(TunectlTest, ATimeoutSaysHowFarItWas) {
  farm_.OnWatch([](std::shared_ptr<core::WatchSink> sink) {
    v1::SweepEvent event;
    event.mutable_progress()->set_state(v1::RUNNING);
    event.mutable_progress()->set_round("screen");
    event.mutable_progress()->set_total(9);
    event.mutable_progress()->set_done(2);
    event.mutable_progress()->set_best_ns(11797);
    sink->OnEvent(event);
  });
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"watch", kSweep}, {"submit", "--watch", File("gemm.yaml")}}) {
    std::vector<std::string> arguments = {"--timeout", "0.5"};
    arguments.insert(arguments.end(), command.begin(), command.end());
    const Outcome run = Tunectl(arguments);
    EXPECT_EQ(run.code, 5);
    EXPECT_THAT(run.err, HasSubstr("timed out after 500ms: the sweep had not ended: running "
                                   "(screen), 2 of 9 settled, best so far 11.8 us"));
    EXPECT_THAT(run.err, HasSubstr("give it more with --timeout"));
    EXPECT_THAT(run.err, HasSubstr("cancel"));
    EXPECT_THAT(run.err, Not(HasSubstr("Deadline Exceeded")));
  }
  farm_.SetSubmitTime(absl::Seconds(2));
  const Outcome submit = Tunectl({"--timeout", "0.5", "submit", File("gemm.yaml")});
  EXPECT_EQ(submit.code, 5);
  EXPECT_THAT(submit.err, HasSubstr("had not answered SubmitSweep"));
}

TEST_F(TunectlTest, ACancelledSweepIsNotCountedAsDone) {
  v1::ListSweepsResponse sweeps;
  v1::SweepProgress* const p = sweeps.add_sweeps()->mutable_progress();
  p->set_state(v1::CANCELLED);
  p->set_total(16);
  p->set_done(1);
  p->set_failed(1);
  p->set_skipped(14);
  p->set_not_run(13);
  farm_.SetSweeps(sweeps);
  EXPECT_THAT(Tunectl({"list"}).out, HasSubstr("cancelled  3/16"));
  EXPECT_EQ(json::parse(Tunectl({"--json", "list"}).out)["sweeps"][0]["progress"]["not_run"], 13);
}

TEST_F(TunectlTest, ASecondCancelSaysThatItHadEnded) {
  EXPECT_EQ(Tunectl({"cancel", kSweep, "--reason", "wrong shape"}).out, kSweep + "  cancelled\n");
  EXPECT_THAT(Tunectl({"cancel", kSweep}).out,
              ContainsRegex("  had ended already, [0-9.]+ m?s ago"));
  const Outcome again = Tunectl({"cancel", kSweep});
  EXPECT_EQ(again.code, 0);
  EXPECT_THAT(again.out, HasSubstr("ago: cancelled: "));
  const json document = json::parse(Tunectl({"--json", "cancel", kSweep}).out);
  EXPECT_EQ(document["sweeps"][0]["had_ended"], true);
}

TEST_F(TunectlTest, BarsAreListedAndLifted) {
  v1::ListBarsResponse bars;
  for (const char* id : {"5c0f1e9a00000000", "77b0e1aa00000000"}) {
    v1::Bar* const bar = bars.add_bars();
    bar->set_id(id);
    bar->set_config(std::string("block=") + id[0]);
    bar->set_sweep(kSweep);
    bar->set_name("gemm");
    bar->set_children(2);
    bar->mutable_failure()->set_stage(v1::Failure::RUN);
    bar->mutable_failure()->set_message("signal 11");
  }
  farm_.SetBars(bars);
  const Outcome list = Tunectl({"bars"});
  EXPECT_EQ(list.code, 0) << list.err;
  EXPECT_THAT(list.out, HasSubstr("5c0f1e9a00000000  2"));
  EXPECT_THAT(list.out, HasSubstr("block=7"));
  EXPECT_THAT(list.out, HasSubstr("signal 11"));
  EXPECT_EQ(Tunectl({"bars", "--lift", "77b0e1"}).out, "lifted 77b0e1aa00000000  block=7\n");
  EXPECT_EQ(json::parse(Tunectl({"--json", "bars", "--lift", "all"}).out)["lifted"].size(), 2u);
  EXPECT_EQ(json::parse(Tunectl({"--json", "bars"}).out)["bars"][0]["reason"], "signal 11");
  EXPECT_EQ(Tunectl({"bars", "--lift", "000000"}).code, 3);
}

TEST_F(TunectlTest, LookupTakesOnlyWhatHasAnEffect) {
  EXPECT_EQ(Tunectl({"lookup", File("gemm.yaml"), "--fresh"}).code, 2);
  EXPECT_EQ(Tunectl({"lookup", File("gemm.yaml"), "--priority", "3"}).code, 2);
  for (const char* command : {"lookup", "submit", "tune"}) {
    const Outcome run = Tunectl({command, File("gemm.yaml"), "--format", "obj"});
    EXPECT_EQ(run.code, 2) << command;
    EXPECT_THAT(run.err, HasSubstr("--output")) << command;
  }
}

// A reason that does not fit the table ends with what says so, and with a whole character.
TEST_F(TunectlTest, LongReasonsAreCutVisibly) {
  v1::GetSweepResponse sweep;
  sweep.mutable_summary()->set_sweep(kSweep);
  const std::string fits(100, 'x'), long_one = std::string(99, 'y') + "\u00e9\u00e9";
  for (const std::string& message : {fits, long_one}) {
    v1::Candidate* const c = sweep.add_candidates();
    c->set_config("block=16");
    c->mutable_failure()->set_stage(v1::Failure::COMPILE);
    c->mutable_failure()->set_message(message);
  }
  farm_.SetSweep(sweep);
  const std::string shown = Tunectl({"show", kSweep, "--candidates"}).out;
  EXPECT_THAT(shown, HasSubstr("compile: " + fits + "\n"));
  EXPECT_THAT(shown, HasSubstr("compile: " + std::string(99, 'y') + "...\n"));
}

// The time of a winner is another than those of its rounds, and each says which it is.
TEST_F(TunectlTest, ThreeTimesOfOneWinnerAreNamed) {
  v1::GetSweepResponse sweep;
  sweep.mutable_summary()->set_sweep(kSweep);
  v1::Candidate* const c = sweep.add_candidates();
  c->set_config("block=16");
  c->mutable_hint()->set_predicted_ns(1e6);
  for (const auto& [round, ns] : {std::pair{"screen", 1.1e6}, {"finals", 1.2e6}}) {
    v1::Measurement* const m = c->add_measurements();
    m->set_round(round);
    m->set_median_ns(ns);
  }
  v1::Winner* const winner = sweep.mutable_winner();
  winner->set_config("block=16");
  winner->mutable_measurement()->set_round("fresh");
  winner->mutable_measurement()->set_median_ns(1.3e6);
  farm_.SetSweep(sweep);
  const std::string shown = Tunectl({"show", kSweep, "--candidates"}).out;
  EXPECT_THAT(shown,
              HasSubstr("time     1.3 ms\n         measured once more by itself after it had "
                        "won; the times of rounds differ\n"));
  EXPECT_THAT(shown, testing::ContainsRegex("1.2 ms +finals +block=16"));
  EXPECT_THAT(
      Tunectl({"explain", kSweep}).out,
      HasSubstr("measured 1.2 ms in the finals (+20 %); once more by itself after it had won: 1.3 "
                "ms, the winner's time"));
}

TEST_F(TunectlTest, AllFetchesWhatIsLeftOfTheCandidates) {
  StoreBundle();
  v1::GetSweepResponse sweep;
  for (const char* config : {"block=16", "block=32", "block=64"}) {
    sweep.add_candidates()->set_config(config);
  }
  sweep.mutable_candidates(0)->mutable_artifact()->set_digest("a");
  sweep.mutable_candidates(1)->mutable_artifact()->set_digest("b");
  farm_.SetSweep(sweep);
  Outcome run = Tunectl({"fetch", kSweep, "--all", "-o", File("all")});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_TRUE(fs::exists(File("all/block=16/matmul.so")));
  EXPECT_TRUE(fs::exists(File("all/block=32/matmul.so")));
  EXPECT_FALSE(fs::exists(File("all/block=64")));
  farm_.LoseArtifact("block=16");
  run = Tunectl({"fetch", kSweep, "--all", "-o", File("some")});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("left out: the artifact of 'block=16' has been collected"));
  EXPECT_TRUE(fs::exists(File("some/block=32/matmul.so")));
  EXPECT_EQ(Tunectl({"fetch", kSweep, "--all", "--config", "block=16"}).code, 2);
}

TEST_F(TunectlTest, MistakesInTheFileAreShownWithTheirPlace) {
  std::ofstream(folder_ / "bad.yaml") << "template: matmul\nshape: {M: 1}\n";
  const Outcome run = Tunectl({"submit", File("bad.yaml")});
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err, HasSubstr("bad.yaml:2:1: error"));
  EXPECT_THAT(run.err, HasSubstr("did you mean 'shapes'?"));
  std::ofstream(folder_ / "k.py") << "import tilelang\n";
  EXPECT_THAT(Tunectl({"submit", File("k.py")}).err, HasSubstr("as in 'kernel: k.py'"));
  const json error = json::parse(Tunectl({"--json", "submit", File("bad.yaml")}).out)["error"];
  EXPECT_EQ(error["line"], 2);
  EXPECT_EQ(error["exit_code"], 2);
  EXPECT_TRUE(farm_.submitted().empty());
}

TEST_F(TunectlTest, ExplainDraws) {
  v1::GetSweepResponse sweep;
  sweep.mutable_summary()->set_name("gemm");
  for (int i = 0; i < 4; ++i) {
    v1::Candidate* const c = sweep.add_candidates();
    c->set_config(absl::StrCat("block=", 16 << i));
    c->mutable_hint()->set_predicted_ns(1e6 * (i + 1));
    c->mutable_hint()->set_flops(1e9);
    c->mutable_hint()->set_dram_bytes(1e7);
    c->mutable_hint()->set_reason("fits the cache");
    c->add_measurements()->set_median_ns(1.1e6 * (i + 1));
  }
  farm_.SetSweep(sweep);
  const Outcome run = Tunectl({"explain", kSweep, "--svg", File("roof.svg")});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("why: fits the cache"));
  EXPECT_THAT(run.out, HasSubstr("rank correlation 1.00"));
  EXPECT_THAT(test::ReadText(File("roof.svg")), HasSubstr("</svg>"));
}

TEST_F(TunectlTest, CompletionsNameEveryCommand) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const Outcome run = Tunectl({"completion", shell});
    EXPECT_EQ(run.code, 0);
    for (const char* word :
         {"tune", "submit", "watch", "fetch", "lookup", "misses", "bars", "list", "show", "explain",
          "cancel", "workers", "gc", "backup", "completion", "fresh", "format"}) {
      EXPECT_THAT(run.out, HasSubstr(word)) << shell;
    }
  }
  const std::string script = File("tunectl.bash");
  std::ofstream(script) << Tunectl({"completion", "bash"}).out
                        << "COMP_WORDS=(tunectl fetch --fo); COMP_CWORD=2; _tunectl; "
                           "echo \"${COMPREPLY[@]}\"\n";
  Process bash({"bash", script}, File("bash"));
  EXPECT_EQ(bash.Wait(absl::Seconds(20)), 0) << bash.err();
  EXPECT_EQ(bash.out(), "--format\n");
}

TEST_F(TunectlTest, EveryCommandHasHelpWithText) {
  for (const char* command :
       {"tune", "submit", "watch", "fetch", "lookup", "misses", "bars", "list", "show", "explain",
        "cancel", "workers", "gc", "backup", "completion"}) {
    const Outcome run = Tunectl({command, "--help"});
    EXPECT_EQ(run.code, 0) << command;
    EXPECT_THAT(run.out, HasSubstr("EXAMPLES")) << command;
    EXPECT_THAT(run.out, HasSubstr(absl::StrCat("tunectl ", command))) << command;
  }
}

}  // namespace
}  // namespace kiln
