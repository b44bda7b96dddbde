// The fields of a winner's key, how near a stored one is, and records of older programs.
#include "coordinator/core/winner_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/base/clock.h"
#include "compiler/base/status.h"
#include "compiler/target/arch.h"
#include "coordinator/core/expansion.h"
#include "coordinator/core/identity.h"
#include "coordinator/store/kv.h"
#include "coordinator/store/kv_meta_store.h"
#include "tests/util/fake_space.h"

namespace kiln::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::SweepSpec Gemm(const std::string& n) {
  v1::SweepSpec spec = kiln::testing::FakeSpec();
  spec.mutable_arguments()->clear();
  (*spec.mutable_arguments())["N"] = n;
  (*spec.mutable_arguments())["dtype"] = "\"float16\"";
  (*spec.mutable_arguments())["out"] = "T.float32";
  (*spec.mutable_arguments())["causal"] = "True";
  spec.set_target("sm_90a");
  KILN_CHECK(NormaliseSpec(&spec).ok());
  return spec;
}

v1::ArchRecord Gpu() {
  v1::ArchRecord arch;
  arch.set_name("sm_90a");
  arch.set_record(target::ToText(*target::NamedArch("sm_90a")));
  arch.set_device_model("NVIDIA H200");
  arch.set_memory_bytes(150'754'820'096);
  arch.set_power_watts(699.9);
  arch.set_driver("570.86.15");
  return arch;
}

v1::WinnerKey Key(const std::string& n = "4096") {
  return MakeKey(Gemm(n), Gpu(), {"build-1", "ptxas 12.8"}, "digest");
}

TEST(WinnerKey, EveryFieldIsThereAndInItsClass) {
  const v1::WinnerKey key = Key();
  EXPECT_EQ(key.shapes().at("N"), "4096");
  EXPECT_EQ(key.shapes().size(), 1u);
  EXPECT_EQ(key.dtypes().size(), 2u);
  EXPECT_EQ(key.flags().at("causal"), "True");
  EXPECT_EQ(key.arch(), "sm_90a");
  EXPECT_EQ(key.device_model(), "NVIDIA H200");
  EXPECT_EQ(key.power(), "700 W");
  EXPECT_EQ(key.memory(), "140 GiB");
  EXPECT_EQ(key.driver(), "570");
  EXPECT_EQ(key.compiler(), "build-1");
  EXPECT_EQ(key.assembler(), "ptxas 12.8");
  EXPECT_EQ(key.features(), "none");
  EXPECT_EQ(key.cores(), absl::StrCat(target::NamedArch("sm_90a")->cores));
  EXPECT_EQ(key.space(), "auto");
  EXPECT_THAT(key.measurement(), HasSubstr("cold"));
  EXPECT_THAT(key.check(), HasSubstr("interpreter"));
  EXPECT_THAT(NotCompared(key), IsEmpty());
}

// ---- ranges ----

v1::WinnerKey RangeKey(int64_t low, int64_t high, const std::string& name = "M") {
  v1::SweepSpec spec = Gemm("4096");
  spec.mutable_range()->set_name(name);
  spec.mutable_range()->set_low(low);
  spec.mutable_range()->set_high(high);
  KILN_CHECK(NormaliseSpec(&spec).ok());
  return MakeKey(spec, Gpu(), {"build-1", "ptxas 12.8"}, "digest");
}

v1::WinnerKey SizeKey(const std::string& m, bool runtime) {
  v1::SweepSpec spec = Gemm("4096");
  (runtime ? *spec.mutable_runtime_values() : *spec.mutable_arguments())["M"] = m;
  return MakeKey(spec, Gpu(), {"build-1", "ptxas 12.8"}, "digest");
}

TEST(WinnerKey, ARangeAnswersForItsSizesAndItsParts) {
  const v1::WinnerKey stored = RangeKey(1, 16384);
  EXPECT_EQ(Compare(stored, stored).mask, 0u);
  for (const bool runtime : {false, true}) {
    for (const std::string m : {"1", "333", "16384"}) {
      const v1::WinnerKey asked = SizeKey(m, runtime);
      EXPECT_EQ(LevelOf(Compare(asked, stored).mask), v1::COMPATIBLE) << m;
      EXPECT_EQ(DifferenceText(Differences(asked, stored)),
                absl::StrCat("tuned for M=1..16384, asked M=", m));
    }
    for (const std::string m : {"0", "16385", "20000"}) {
      const v1::WinnerKey asked = SizeKey(m, runtime);
      EXPECT_EQ(LevelOf(Compare(asked, stored).mask), v1::MATCH_UNSPECIFIED) << m;
      EXPECT_EQ(DifferenceText(Differences(asked, stored)),
                absl::StrCat("M=", m, " is outside of M=1..16384"));
    }
  }
  EXPECT_EQ(LevelOf(Compare(RangeKey(2, 100), stored).mask), v1::COMPATIBLE);
  EXPECT_EQ(LevelOf(Compare(RangeKey(2, 16385), stored).mask), v1::MATCH_UNSPECIFIED);
  EXPECT_EQ(LevelOf(Compare(RangeKey(1, 16384, "B"), stored).mask), v1::MATCH_UNSPECIFIED);
  // One size answers for no range, and another shape is another shape.
  EXPECT_EQ(LevelOf(Compare(stored, SizeKey("64", true)).mask), v1::MATCH_UNSPECIFIED);
  v1::WinnerKey other = SizeKey("64", false);
  (*other.mutable_shapes())["N"] = "512";
  EXPECT_EQ(LevelOf(Compare(other, stored).mask), v1::MATCH_UNSPECIFIED);
  EXPECT_THAT(DifferenceText(Differences(other, stored)),
              HasSubstr("tuned for N=4096, asked N=512"));
}

TEST(WinnerKey, TheVerySizeComesBeforeTheRange) {
  const v1::WinnerKey asked = SizeKey("64", true);
  v1::WinnerKey older_driver = asked;
  older_driver.set_driver("550");
  EXPECT_LT(Compare(asked, asked).mask, Compare(asked, RangeKey(1, 128)).mask);
  EXPECT_LT(Compare(asked, older_driver).mask, Compare(asked, RangeKey(1, 128)).mask);
  // Of two ranges that do not reach so far, the nearer one.
  EXPECT_LT(Compare(asked, RangeKey(1, 60)).distance, Compare(asked, RangeKey(1, 8)).distance);
}

// A size that the range does not have is no miss of the single size that its tuning went through.
TEST(WinnerKey, OutsideOfARangeIsSaidOfTheRange) {
  v1::WinnerKey asked = Key(), single = Key(), far = Key();
  (*asked.mutable_runtime())["M"] = "2";
  (*single.mutable_runtime())["M"] = "3";
  (*far.mutable_runtime())["M"] = "300";
  const auto nearest = [&](std::vector<v1::WinnerKey> keys) {
    std::vector<v1::WinnerIndexRow> rows;
    for (v1::WinnerKey& key : keys) {
      rows.emplace_back().set_finished_unix_ms(rows.size());
      *rows.back().mutable_key() = std::move(key);
    }
    return DifferenceText(Differences(asked, NearestFirst(asked, rows)[0].key()));
  };
  EXPECT_EQ(nearest({RangeKey(3, 9), far, single}), "M=2 is outside of M=3..9");
  (*asked.mutable_runtime())["M"] = "10";
  (*single.mutable_runtime())["M"] = "9";
  EXPECT_EQ(nearest({RangeKey(3, 9), far, single}), "M=10 is outside of M=3..9");
  (*asked.mutable_runtime())["M"] = "301";
  EXPECT_EQ(nearest({RangeKey(3, 9), far, single}), "tuned for M=300, asked M=301")
      << "the nearer one";
  (*asked.mutable_runtime())["M"] = "2";
  for (const v1::Match level : {v1::EXACT, v1::COMPATIBLE, v1::ARCH}) {
    EXPECT_FALSE(Accepts(level, Compare(asked, RangeKey(3, 9)).mask));
    EXPECT_FALSE(Accepts(level, Compare(asked, single).mask));
  }
}

TEST(WinnerKey, ARangeIsInTheDigestAndItsDimensionInNoMap) {
  EXPECT_NE(KeyDigest(RangeKey(1, 64)), KeyDigest(RangeKey(1, 65)));
  EXPECT_NE(KeyDigest(RangeKey(1, 64)), KeyDigest(Key()));
  EXPECT_EQ(RangeKey(1, 64).shapes().size(), 1u);
  EXPECT_EQ(RangeKey(1, 64).range().points_size(), 7) << "the default is written out";
}

TEST(WinnerKey, ACpuHasNoDriverAndItsFeaturesAndCores) {
  v1::ArchRecord cpu;
  cpu.set_name("x86-64-v4");
  cpu.set_record(target::ToText(*target::NamedArch("x86-64-v4")));
  cpu.set_device_model("A CPU");
  const v1::WinnerKey key = MakeKey(Gemm("1"), cpu, {"build-1", "ptxas 12.8"}, "digest");
  EXPECT_EQ(key.driver(), "none");
  EXPECT_EQ(key.memory(), "none");
  EXPECT_EQ(key.power(), "none");
  EXPECT_EQ(key.assembler(), "none") << "no code of a CPU goes through it";
  EXPECT_THAT(key.features(), HasSubstr("avx512f"));
  EXPECT_EQ(key.cores(), "2");
}

TEST(WinnerKey, WhatNobodySaysIsUnknown) {
  v1::ArchRecord bare;
  bare.set_name("sm_90a");
  bare.set_device_model("NVIDIA H200");
  const v1::WinnerKey key = MakeKey(Gemm("1"), bare, {}, "");
  EXPECT_EQ(key.power(), "");
  EXPECT_EQ(key.compiler(), "");
  EXPECT_THAT(NotCompared(key),
              ElementsAre("driver", "assembler", "compiler", "memory", "power", "cores"));
}

// Every field by itself: its level, its name, and that each is nearer than all that are more
// serious.
TEST(WinnerKey, OneFieldAtATimeInTheOrderOfSeriousness) {
  struct Case {
    const char* field;
    v1::Match level;
    std::function<void(v1::WinnerKey*)> edit;
  };
  const Case cases[] = {
      {"driver", v1::COMPATIBLE, [](auto* k) { k->set_driver("550"); }},
      {"assembler", v1::COMPATIBLE, [](auto* k) { k->set_assembler("ptxas 12.4"); }},
      {"compiler", v1::COMPATIBLE, [](auto* k) { k->set_compiler("build-0"); }},
      {"memory", v1::COMPATIBLE, [](auto* k) { k->set_memory("94 GiB"); }},
      {"power", v1::COMPATIBLE, [](auto* k) { k->set_power("500 W"); }},
      {"cores", v1::COMPATIBLE, [](auto* k) { k->set_cores("114"); }},
      {"check", v1::COMPATIBLE, [](auto* k) { k->set_check("none"); }},
      {"measurement", v1::COMPATIBLE, [](auto* k) { k->set_measurement("warm"); }},
      {"space", v1::COMPATIBLE, [](auto* k) { k->set_space("abc"); }},
      {"features", v1::ARCH, [](auto* k) { k->set_features("avx2"); }},
      {"device_model", v1::ARCH, [](auto* k) { k->set_device_model("NVIDIA H100"); }},
      {"runtime", v1::MATCH_UNSPECIFIED, [](auto* k) { (*k->mutable_runtime())["m"] = "7"; }},
      {"shapes", v1::MATCH_UNSPECIFIED, [](auto* k) { (*k->mutable_shapes())["N"] = "4100"; }},
      {"arch", v1::MATCH_UNSPECIFIED, [](auto* k) { k->set_arch("sm_80"); }},
      {"flags", v1::MATCH_UNSPECIFIED, [](auto* k) { (*k->mutable_flags())["causal"] = "0"; }},
      {"dtypes", v1::MATCH_UNSPECIFIED, [](auto* k) { (*k->mutable_dtypes())["out"] = "int8"; }},
      {"kernel", v1::MATCH_UNSPECIFIED,
       [](auto* k) {
         k->set_kernel("other");
         k->set_text("other");
       }},
  };
  EXPECT_EQ(Compare(Key(), Key()).mask, 0u);
  EXPECT_EQ(LevelOf(0), v1::EXACT);
  uint32_t lesser = 0;
  std::set<std::string> digests = {KeyDigest(Key())};
  for (const Case& c : cases) {
    v1::WinnerKey stored = Key();
    c.edit(&stored);
    const uint32_t mask = Compare(Key(), stored).mask;
    EXPECT_GT(mask, lesser) << c.field << " alone is nearer than all lesser ones together";
    lesser |= mask;
    EXPECT_EQ(LevelOf(mask), c.level) << c.field;
    EXPECT_FALSE(Accepts(v1::EXACT, mask));
    const auto differences = Differences(Key(), stored);
    ASSERT_EQ(differences.size(), 1u) << c.field;
    EXPECT_EQ(differences[0].field(), c.field);
    EXPECT_TRUE(digests.insert(KeyDigest(stored)).second) << c.field << " is not in the digest";
  }
}

TEST(WinnerKey, RequestsFromBeforeThereWereLevelsMatchAsTheyDid) {
  v1::WinnerKey stored = Key();
  stored.set_driver("550");
  stored.set_cores("1");
  EXPECT_TRUE(Accepts(v1::MATCH_UNSPECIFIED, Compare(Key(), stored).mask));
  stored.set_check("none");
  EXPECT_FALSE(Accepts(v1::MATCH_UNSPECIFIED, Compare(Key(), stored).mask));
}

TEST(WinnerKey, TheSameProgramInOtherWordsIsTheSameKernel) {
  v1::WinnerKey stored = Key();
  stored.set_text("with other comments");
  EXPECT_EQ(Compare(Key(), stored).mask, 0u);
  EXPECT_EQ(KeyDigest(stored), KeyDigest(Key()));
  v1::WinnerKey asked = Key();
  asked.clear_kernel();
  EXPECT_NE(Compare(asked, stored).mask, 0u) << "nobody has expanded it";
}

TEST(WinnerKey, TypesAreComparedByTheirNames) {
  v1::WinnerKey stored = Key();
  (*stored.mutable_dtypes())["dtype"] = "T.float16";
  (*stored.mutable_dtypes())["out"] = "float32";
  EXPECT_EQ(Compare(Key(), stored).mask, 0u);
  (*stored.mutable_dtypes())["out"] = "bfloat16";
  EXPECT_EQ(DifferenceText(Differences(Key(), stored)),
            "tuned for out=bfloat16, asked out=float32");
  // One that is not given is the kernel's default: the programs say whether that is the same.
  stored.mutable_dtypes()->erase("out");
  EXPECT_EQ(Compare(Key(), stored).mask, 0u);
  EXPECT_EQ(Compare(stored, Key()).mask, 0u);
  stored.set_kernel("another program of the same text");
  EXPECT_EQ(DifferenceText(Differences(Key(), stored)),
            "tuned for out=(not given), asked out=float32");
}

TEST(WinnerKey, UnknownOfWhatIsAskedMatchesUnknownOfWhatIsStoredDoesNot) {
  v1::WinnerKey asked = Key();
  asked.clear_driver();
  EXPECT_EQ(Compare(asked, Key()).mask, 0u);
  const auto differences = Differences(Key(), asked);
  ASSERT_EQ(differences.size(), 1u);
  EXPECT_EQ(DifferenceText(differences), "tuned with driver unknown, asked 570");
  asked = Key();
  asked.clear_device_model();
  EXPECT_EQ(LevelOf(Compare(asked, Key()).mask), v1::ARCH) << "a model is never taken for granted";
}

TEST(WinnerKey, NearestFirst) {
  const auto row = [](const std::string& name, int64_t finished, v1::WinnerKey key) {
    v1::WinnerIndexRow r;
    r.set_winner(name);
    r.set_finished_unix_ms(finished);
    *r.mutable_key() = std::move(key);
    return r;
  };
  v1::WinnerKey driver = Key();
  driver.set_driver("550");
  v1::WinnerKey power = Key();
  power.set_power("350 W");
  std::vector<v1::WinnerIndexRow> rows = {
      row("far shape", 9, Key("16")), row("near shape", 1, Key("4100")), row("power", 9, power),
      row("older driver", 1, driver), row("newer driver", 2, driver)};
  std::vector<std::string> names;
  for (const v1::WinnerIndexRow& r : NearestFirst(Key(), rows)) names.push_back(r.winner());
  EXPECT_THAT(names,
              ElementsAre("newer driver", "older driver", "power", "near shape", "far shape"));
}

TEST(WinnerKey, DifferencesInWords) {
  v1::WinnerKey asked = Key("4100");
  EXPECT_EQ(DifferenceText(Differences(asked, Key("4096"))), "tuned for N=4096, asked N=4100");
  asked = Key();
  asked.set_device_model("");
  asked.set_arch("sm_100a");
  EXPECT_EQ(DifferenceText(Differences(asked, Key())),
            "tuned on sm_90a, asked sm_100a; tuned on NVIDIA H200, asked unknown");
  // Another architecture has other features, cores and an assembler of its own.
  asked.set_features("avx");
  asked.set_cores("2");
  asked.set_assembler("none");
  asked.set_driver("none");
  EXPECT_EQ(DifferenceText(Differences(asked, Key())),
            "tuned on sm_90a, asked sm_100a; tuned on NVIDIA H200, asked unknown");
  EXPECT_EQ(Differences(asked, Key()).size(), 6u) << "all of them are in the answer";
}

// ---- stores ----

class StoredTest : public ::testing::Test {
 protected:
  StoredTest() : blobs_(store::NewMemoryBlobStore({}, RealClock::Get())) {
    spec_ = kiln::testing::FakeSpec();
    KILN_CHECK(NormaliseSpec(&spec_).ok());
    auto kv = store::NewMemoryKv();
    kv_ = kv.get();
    meta_ = *store::NewKvMetaStore(std::move(kv));
  }
  v1::Winner Old() {
    v1::Winner winner;
    winner.set_problem_key(ProblemKey(spec_, *expander_.Expand(spec_, kiln::testing::FakeArch())));
    winner.set_config("m=1");
    winner.set_kernel_digest(expander_.Expand(spec_, kiln::testing::FakeArch())->kernel_digest);
    winner.mutable_artifact()->set_digest(*blobs_->PutBytes("artifact"));
    winner.mutable_artifact()->set_compiler_build("build-1");
    *winner.mutable_arch() = kiln::testing::FakeArch();
    *winner.mutable_spec() = spec_;
    return winner;
  }
  // As a program before there were keys left it: the index row is empty.
  void StoreOld(const v1::Winner& winner) {
    store::Batch batch;
    batch.winners.push_back(winner);
    ASSERT_TRUE(meta_->Commit(*meta_->BeginTerm(), batch).ok());
    std::vector<store::KvOp> ops;
    ASSERT_TRUE(kv_->Scan("kernel/", "",
                          [&](absl::string_view key, absl::string_view) {
                            ops.push_back(store::KvOp::Put(std::string(key), ""));
                            return true;
                          })
                    .ok());
    ops.push_back(store::KvOp::DeletePrefix("program/"));
    ASSERT_EQ(ops.size(), 2u);
    ASSERT_TRUE(kv_->Write(ops, true).ok());
  }
  Expanded Ask(v1::Match match, const Tools& tools, bool lookup = true) {
    ExpandJob job{1, spec_, kiln::testing::FakeArch(), tools, lookup, match};
    auto answer = AnswerFromStore(job, meta_.get(), blobs_.get(), nullptr);
    return answer.has_value() ? *answer : RunExpandJob(job, &expander_, meta_.get(), blobs_.get());
  }

  v1::SweepSpec spec_;
  kiln::testing::FakeExpander expander_{kiln::testing::SpaceModel()};
  std::unique_ptr<store::BlobStore> blobs_;
  store::Kv* kv_ = nullptr;
  std::unique_ptr<store::MetaStore> meta_;
};

TEST_F(StoredTest, AWinnerOfAnOlderProgramAnswersForWhatItSaysOfItself) {
  StoreOld(Old());
  Expanded same = Ask(v1::EXACT, {"build-1", ""});
  ASSERT_TRUE(same.status.ok()) << same.status;
  ASSERT_TRUE(same.winner.has_value()) << same.lookup.miss_reason();
  EXPECT_EQ(same.lookup.matched(), v1::EXACT);
  EXPECT_EQ(same.winner->key().compiler(), "build-1");
  EXPECT_TRUE(Ask(v1::EXACT, {}).winner.has_value()) << "no toolchain is there to compare";
  EXPECT_TRUE(Ask(v1::EXACT, {"build-1", ""}, false).winner.has_value()) << "a submit";

  Expanded newer = Ask(v1::EXACT, {"build-2", ""});
  EXPECT_FALSE(newer.winner.has_value());
  EXPECT_THAT(newer.lookup.miss_reason(), HasSubstr("tuned with compiler build-1, asked build-2"));
  Expanded near = Ask(v1::COMPATIBLE, {"build-2", ""});
  ASSERT_TRUE(near.winner.has_value());
  EXPECT_EQ(near.lookup.matched(), v1::COMPATIBLE);
  ASSERT_EQ(near.lookup.differences_size(), 1);
  EXPECT_EQ(near.lookup.differences(0).field(), "compiler");
}

TEST_F(StoredTest, OldAndNewStandSideBySide) {
  StoreOld(Old());
  v1::Winner newer = Old();
  newer.set_config("m=2");
  newer.mutable_artifact()->set_compiler_build("build-2");
  *newer.mutable_key() = KeyOf(newer);
  newer.set_winner_key(KeyDigest(newer.key()));
  store::Batch batch;
  batch.winners.push_back(newer);
  ASSERT_TRUE(meta_->Commit(*meta_->BeginTerm(), batch).ok());
  EXPECT_EQ(Ask(v1::EXACT, {"build-1", ""}).winner->config(), "m=1");
  EXPECT_EQ(Ask(v1::EXACT, {"build-2", ""}).winner->config(), "m=2");
}

TEST_F(StoredTest, AWinnerWithoutItsBytesIsNone) {
  v1::Winner lost = Old();
  lost.mutable_artifact()->set_digest(std::string(64, 'e'));
  StoreOld(lost);
  const Expanded answer = Ask(v1::ARCH, {});
  EXPECT_FALSE(answer.winner.has_value());
  EXPECT_THAT(answer.lookup.miss_reason(), HasSubstr("lost its artifact"));
}

TEST_F(StoredTest, ASweepThatOnlyCompilesIsNotAnsweredByAWinner) {
  StoreOld(Old());
  spec_.set_objective(v1::SweepSpec::COMPILE);
  EXPECT_FALSE(Ask(v1::EXACT, {}, false).winner.has_value());
}

// Counts expansions.
class Counting : public search::Expander {
 public:
  explicit Counting(search::Expander* inner) : inner_(inner) {}
  absl::StatusOr<search::Expansion> Expand(const v1::SweepSpec& spec,
                                           const v1::ArchRecord& arch) override {
    ++count;
    return inner_->Expand(spec, arch);
  }
  int count = 0;

 private:
  search::Expander* const inner_;
};

TEST_F(StoredTest, ALookupThatMissesAgainAndAgainIsExpandedOnce) {
  Counting counting(&expander_);
  ProgramCache programs(2);
  const auto ask = [&](const std::string& n) {
    (*spec_.mutable_arguments())["N"] = n;
    ExpandJob job{1, spec_, kiln::testing::FakeArch(), {}, true, v1::EXACT};
    auto answer = AnswerFromStore(job, meta_.get(), blobs_.get(), &programs);
    if (!answer.has_value()) {
      answer = RunExpandJob(job, &counting, meta_.get(), blobs_.get(), &programs);
    }
    return answer->problem_key;
  };
  const std::string problem = ask("1");
  EXPECT_EQ(ask("1"), problem);
  EXPECT_EQ(counting.count, 1);
  ask("2");
  ask("3");
  EXPECT_EQ(ask("1"), problem);
  EXPECT_EQ(counting.count, 4) << "the cache is bounded";
}

}  // namespace
}  // namespace kiln::core
