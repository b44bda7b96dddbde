#include "coordinator/core/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "compiler/base/clock.h"
#include "compiler/base/rng.h"
#include "tests/util/fake_space.h"

namespace kiln::core {
namespace {

using ::testing::HasSubstr;

struct Case {
  const char* what;
  std::function<void(v1::SweepSpec*)> edit;
  bool same_sweep;
  bool same_problem;
};

search::Expansion Expand(const v1::SweepSpec& spec) {
  return *testing::FakeExpander({}).Expand(spec, testing::FakeArch());
}

v1::SweepSpec* OfM(v1::SweepSpec* spec) {
  spec->mutable_range()->set_name("M");
  spec->mutable_range()->set_low(1);
  spec->mutable_range()->set_high(64);
  return spec;
}

TEST(Identity, WhatCountsAndWhatDoesNot) {
  v1::SweepSpec base = testing::FakeSpec();
  ASSERT_TRUE(NormaliseSpec(&base).ok());
  const Case cases[] = {
      {"nothing", [](auto*) {}, true, true},
      {"name", [](auto* s) { s->set_name("x"); }, true, true},
      {"user", [](auto* s) { s->set_user("x"); }, true, true},
      {"priority", [](auto* s) { s->set_priority(3); }, true, true},
      {"deadline", [](auto* s) { s->set_deadline_seconds(3); }, true, true},
      {"fresh", [](auto* s) { s->set_fresh(true); }, true, true},
      {"default strategy", [](auto* s) { s->clear_strategy(); }, true, true},
      {"default cache policy", [](auto* s) { s->mutable_measurement()->clear_cache(); }, true,
       true},
      {"strategy", [](auto* s) { s->set_strategy("random"); }, false, true},
      {"seed", [](auto* s) { s->set_seed(3); }, false, true},
      {"top_k", [](auto* s) { s->set_top_k(3); }, false, true},
      {"budget", [](auto* s) { s->set_max_seconds(3); }, false, true},
      {"objective", [](auto* s) { s->set_objective(v1::SweepSpec::COMPILE); }, false, false},
      {"policy", [](auto* s) { s->mutable_measurement()->set_cache(v1::MeasurementPolicy::WARM); },
       false, false},
      {"check", [](auto* s) { s->mutable_check()->set_rtol(0.5); }, false, false},
      {"argument", [](auto* s) { (*s->mutable_arguments())["K"] = "64"; }, false, false},
      {"runtime value", [](auto* s) { (*s->mutable_runtime_values())["m"] = "64"; }, false, false},
      {"tunable", [](auto* s) { (*s->mutable_tunables())["t"].add_values("1"); }, false, false},
      {"kernel", [](auto* s) { s->set_kernel_source("def other(): pass"); }, false, false},
  };
  for (const Case& c : cases) {
    v1::SweepSpec spec = base;
    c.edit(&spec);
    ASSERT_TRUE(NormaliseSpec(&spec).ok()) << c.what;
    EXPECT_EQ(SweepDigest(spec, Expand(spec)) == SweepDigest(base, Expand(base)), c.same_sweep)
        << c.what;
    EXPECT_EQ(ProblemKey(spec, Expand(spec)) == ProblemKey(base, Expand(base)), c.same_problem)
        << c.what;
    EXPECT_EQ(RequestDigest(spec, testing::FakeArch()) == RequestDigest(base, testing::FakeArch()),
              c.same_problem)
        << c.what;
  }
}

TEST(Identity, ASizeLeftToRunTimeHasOneSpelling) {
  const auto problem = [](const std::function<void(v1::SweepSpec*)>& edit) {
    v1::SweepSpec spec = testing::FakeSpec();
    edit(&spec);
    EXPECT_TRUE(NormaliseSpec(&spec).ok());
    return ProblemKey(spec, Expand(spec));
  };
  const auto argument = [&](const char* text) {
    return problem([&](auto* s) { (*s->mutable_arguments())["M"] = text; });
  };
  EXPECT_EQ(argument("T.dynamic"), argument("T.dynamic(\"M\")"));
  EXPECT_EQ(argument(" T.dynamic ( 'M' ) "), argument("T.dynamic(\"M\")"));
  EXPECT_NE(argument("T.dynamic(\"S\")"), argument("T.dynamic(\"M\")"));
  EXPECT_NE(argument("None"), argument("T.dynamic"));
  const auto range = [&](const char* text) {
    return problem([&](auto* s) {
      OfM(s);
      if (text != nullptr) (*s->mutable_arguments())["M"] = text;
    });
  };
  EXPECT_EQ(range(nullptr), range("T.dynamic"));
  EXPECT_EQ(range(nullptr), range("T.dynamic('M')"));
}

TEST(Identity, TheDeviceIsPartOfTheProblem) {
  v1::SweepSpec spec = testing::FakeSpec();
  ASSERT_TRUE(NormaliseSpec(&spec).ok());
  v1::ArchRecord other = testing::FakeArch();
  other.set_device_model("Another CPU");
  testing::FakeExpander expander({});
  EXPECT_NE(ProblemKey(spec, *expander.Expand(spec, other)), ProblemKey(spec, Expand(spec)));
  EXPECT_NE(RequestDigest(spec, other), RequestDigest(spec, testing::FakeArch()));
}

TEST(Identity, ACompileResultDependsOnWhatTheCompilerSeesOnly) {
  v1::SweepSpec a = testing::FakeSpec();
  v1::SweepSpec b = testing::FakeSpec();
  b.mutable_measurement()->set_min_seconds(2);
  b.set_strategy("random");
  EXPECT_EQ(CompileKey(Expand(a), "m=1"), CompileKey(Expand(b), "m=1"));
  EXPECT_NE(CompileKey(Expand(a), "m=1"), CompileKey(Expand(a), "m=2"));
  (*b.mutable_arguments())["N"] = "3";
  EXPECT_NE(CompileKey(Expand(a), "m=1"), CompileKey(Expand(b), "m=1"));
}

TEST(Identity, BadSpecsSayWhichFieldAndWhy) {
  const std::pair<std::function<void(v1::SweepSpec*)>, const char*> cases[] = {
      {[](auto* s) { s->set_template_("matmul"); }, "not both"},
      {[](auto* s) { s->set_kernel_source(std::string(2 << 20, 'x')); }, "1 MiB"},
      {[](auto* s) { s->set_top_k(-1); }, "top_k"},
      {[](auto* s) { s->set_priority(101); }, "priority"},
      {[](auto* s) { s->set_max_seconds(0.0 / 0.0); }, "max_seconds"},
      {[](auto* s) { s->add_configs("a=;drop"); }, "configs"},
      {[](auto* s) { s->mutable_check()->set_samples(-4); }, "check.samples"},
      {[](auto* s) { s->mutable_measurement()->set_max_samples(3); }, "max_samples"},
      {[](auto* s) { s->set_name(std::string(5000, 'n')); }, "name"},
      {[](auto* s) { (*OfM(s)->mutable_arguments())["M"] = "64"; }, "M is also given as 64"},
      {[](auto* s) { (*OfM(s)->mutable_arguments())["M"] = "T.dynamic(\"S\")"; },
       "T.dynamic(\"S\")"},
      {[](auto* s) { (*OfM(s)->mutable_runtime_values())["M"] = "8"; }, "its range or its value"},
  };
  for (const auto& [edit, part] : cases) {
    v1::SweepSpec spec = testing::FakeSpec();
    edit(&spec);
    const absl::Status status = NormaliseSpec(&spec);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << part;
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
}

TEST(Seams, TheSimulatedClockMovesBothClocksTogether) {
  SimulatedClock clock;
  const Time start = clock.Now();
  clock.AdvanceSeconds(1.5);
  EXPECT_EQ(clock.Now().mono_ns - start.mono_ns, 1'500'000'000);
  EXPECT_EQ(clock.Now().wall_ms - start.wall_ms, 1500);
  const Time real = RealClock::Get()->Now();
  EXPECT_GE(RealClock::Get()->Now().mono_ns, real.mono_ns);
  EXPECT_GT(real.wall_ms, 1'600'000'000'000);
}

TEST(Seams, TheRngIsFixedForEver) {
  Rng rng(42);
  EXPECT_EQ(rng.Next(), 13679457532755275413ULL);
  EXPECT_EQ(rng.Next(), 2949826092126892291ULL);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_LT(rng.Below(7), 7u);
    const double u = rng.Uniform();
    EXPECT_GE(u, 0);
    EXPECT_LT(u, 1);
  }
}

}  // namespace
}  // namespace kiln::core
