// Addresses, limits of requests, and "did you mean".
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "client/convert.h"
#include "client/did_you_mean.h"
#include "proto/address.h"
#include "proto/limits.h"

namespace kiln {
namespace {

using testing::HasSubstr;

TEST(Address, AcceptsTheTwoForms) {
  for (const char* good : {"unix:/run/kiln.sock", "unix:/a b", "127.0.0.1:7465", "localhost:1",
                           "farm-1:65535", "farm_2.local.:80", "[::1]:80", "[fe80::1%eth0]:80"}) {
    EXPECT_TRUE(CheckAddress(good).ok()) << good << CheckAddress(good);
  }
  EXPECT_TRUE(CheckAddress("127.0.0.1:0", true).ok());
}

TEST(Address, RefusesTheRest) {
  const std::string long_path = "unix:/" + std::string(107, 'x');
  for (const std::string& bad : {std::string(""),
                                 std::string("farm"),
                                 std::string("farm:"),
                                 std::string(":80"),
                                 std::string("farm:0"),
                                 std::string("farm:65536"),
                                 std::string("farm:x"),
                                 std::string("unix:relative"),
                                 std::string("unix:"),
                                 std::string("::1:80"),
                                 std::string("http://farm:80"),
                                 std::string("farm: 80"),
                                 std::string("farm:80 "),
                                 std::string("farm:+80"),
                                 std::string(" farm:80"),
                                 std::string("a b:80"),
                                 std::string("h\n:80"),
                                 std::string("@:1"),
                                 std::string("-h:1"),
                                 std::string("[:80"),
                                 std::string("[]:80"),
                                 std::string("dns:///farm:80"),
                                 long_path}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CheckAddress(bad))) << bad;
  }
  EXPECT_THAT(CheckAddress("::1:80").message(), HasSubstr("an IPv6 host needs brackets"));
  EXPECT_THAT(CheckAddress("http://farm:80").message(), HasSubstr("the host is no host name"));
}

TEST(Address, KnowsWhatStaysOnThisMachine) {
  for (const char* local : {"unix:/a", "localhost:1", "127.0.0.1:1", "127.9.9.9:1", "[::1]:1"}) {
    EXPECT_TRUE(IsLocalAddress(local)) << local;
  }
  for (const char* remote :
       {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "farm:1", "128.0.0.1:1", "127.0.0.1.example.org:1"}) {
    EXPECT_FALSE(IsLocalAddress(remote)) << remote;
  }
}

TEST(DidYouMean, FindsNearNamesOnly) {
  const std::vector<std::string> known = {"shapes", "arguments", "seed"};
  EXPECT_THAT(client::DidYouMean("shape", known), HasSubstr("shapes"));
  EXPECT_THAT(client::DidYouMean("SEED", known), HasSubstr("seed"));
  EXPECT_THAT(client::DidYouMean("argments", known), HasSubstr("arguments"));
  EXPECT_EQ(client::DidYouMean("kernel", known), "");
  EXPECT_EQ(client::DidYouMean("", known), "");
}

// A program need not gather what its kernel imports; what the farm sends back is as it was.
TEST(Convert, ImportedFilesTravelWithTheKernel) {
  const std::string folder = ::testing::TempDir() + "/imports";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/near.py") << "BLOCK = 64\n";
  client::SweepSpec spec;
  spec.kernel_source = "from near import BLOCK\n";
  spec.kernel_path = folder + "/k.py";
  const v1::SweepSpec sent = client::ToProto(spec);
  EXPECT_THAT(sent.kernel_source(), HasSubstr("BLOCK = 64"));
  EXPECT_EQ(client::ToProto(client::FromProto(sent)).kernel_source(), sent.kernel_source());
  client::SweepSpec elsewhere = spec;
  elsewhere.closed = true;
  EXPECT_EQ(client::ToProto(elsewhere).kernel_source(), spec.kernel_source);
  elsewhere.closed = false;
  elsewhere.kernel_path.clear();
  EXPECT_EQ(client::ToProto(elsewhere).kernel_source(), spec.kernel_source);
}

v1::SweepSpec GoodSpec() {
  v1::SweepSpec spec;
  spec.set_template_("matmul");
  spec.set_target("cpu");
  (*spec.mutable_arguments())["M"] = "512";
  return spec;
}

TEST(Limits, AGoodSpecPasses) { EXPECT_TRUE(CheckSweepSpec(GoodSpec()).ok()); }

using Edit = void (*)(v1::SweepSpec*);
struct BadSpec {
  const char* field;
  absl::StatusCode code;
  Edit edit;
};

class LimitsOfSpecs : public testing::TestWithParam<BadSpec> {};

TEST_P(LimitsOfSpecs, NameTheField) {
  v1::SweepSpec spec = GoodSpec();
  GetParam().edit(&spec);
  const absl::Status status = CheckSweepSpec(spec);
  EXPECT_EQ(status.code(), GetParam().code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(std::string("spec.") + GetParam().field));
}

constexpr auto kBad = absl::StatusCode::kInvalidArgument;
constexpr auto kBig = absl::StatusCode::kResourceExhausted;

INSTANTIATE_TEST_SUITE_P(
    All, LimitsOfSpecs,
    testing::Values(
        BadSpec{"kernel_source", kBad, [](v1::SweepSpec* s) { s->set_kernel_source("x"); }},
        BadSpec{"kernel_source", kBad, [](v1::SweepSpec* s) { s->clear_template_(); }},
        BadSpec{"kernel_source", kBig,
                [](v1::SweepSpec* s) {
                  s->clear_template_();
                  s->set_kernel_source(std::string((1 << 20) + 1, 'x'));
                }},
        BadSpec{"template", kBad, [](v1::SweepSpec* s) { s->set_template_("../etc/passwd"); }},
        BadSpec{"name", kBig, [](v1::SweepSpec* s) { s->set_name(std::string(300, 'n')); }},
        BadSpec{"name", kBad, [](v1::SweepSpec* s) { s->set_name("a\x1b[31m"); }},
        BadSpec{"name", kBad, [](v1::SweepSpec* s) { s->set_name("\xc0\xaf"); }},
        BadSpec{"user", kBad, [](v1::SweepSpec* s) { s->set_user("\xed\xa0\x80"); }},
        BadSpec{"kernel_source: line 2 is not UTF-8", kBad,
                [](v1::SweepSpec* s) {
                  s->clear_template_();
                  s->set_kernel_source("def f():\n  \xff");
                }},
        BadSpec{"entry", kBad, [](v1::SweepSpec* s) { s->set_entry("1x"); }},
        BadSpec{"arguments", kBad,
                [](v1::SweepSpec* s) { (*s->mutable_arguments())["a b"] = "1"; }},
        BadSpec{"arguments", kBad, [](v1::SweepSpec* s) { (*s->mutable_arguments())["a"] = ""; }},
        BadSpec{"arguments", kBig,
                [](v1::SweepSpec* s) { (*s->mutable_arguments())["a"] = std::string(257, '1'); }},
        BadSpec{"arguments", kBig,
                [](v1::SweepSpec* s) {
                  for (int i = 0; i < 300; ++i) {
                    (*s->mutable_arguments())["a" + std::to_string(i)] = "1";
                  }
                }},
        BadSpec{"tunables", kBad, [](v1::SweepSpec* s) { (*s->mutable_tunables())["t"]; }},
        BadSpec{"tunables", kBad,
                [](v1::SweepSpec* s) { (*s->mutable_tunables())["M"].add_values("1"); }},
        BadSpec{"tunables", kBad,
                [](v1::SweepSpec* s) {
                  s->add_auto_tunables("t");
                  (*s->mutable_tunables())["t"].add_values("1");
                }},
        BadSpec{"tunables", kBig,
                [](v1::SweepSpec* s) {
                  for (int i = 0; i < 1025; ++i) (*s->mutable_tunables())["t"].add_values("1");
                }},
        BadSpec{"configs", kBad, [](v1::SweepSpec* s) { s->add_configs("a=;rm -rf"); }},
        BadSpec{"configs", kBad,
                [](v1::SweepSpec* s) {
                  s->add_configs("a=1");
                  s->add_auto_tunables("b");
                }},
        BadSpec{"configs", kBig,
                [](v1::SweepSpec* s) {
                  for (int i = 0; i < 10001; ++i) s->add_configs("a=1");
                }},
        BadSpec{"measurement.min_seconds", kBad,
                [](v1::SweepSpec* s) { s->mutable_measurement()->set_min_seconds(-1); }},
        BadSpec{"measurement.max_samples", kBad,
                [](v1::SweepSpec* s) {
                  s->mutable_measurement()->set_min_samples(5);
                  s->mutable_measurement()->set_max_samples(4);
                }},
        BadSpec{"check.rtol", kBad,
                [](v1::SweepSpec* s) {
                  s->mutable_check()->set_rtol(std::numeric_limits<double>::quiet_NaN());
                }},
        BadSpec{"check.seeds", kBig,
                [](v1::SweepSpec* s) {
                  for (int i = 0; i < 17; ++i) s->mutable_check()->add_seeds(1);
                }},
        BadSpec{
            "objective", kBad,
            [](v1::SweepSpec* s) { s->set_objective(static_cast<v1::SweepSpec::Objective>(9)); }},
        BadSpec{"top_k", kBad, [](v1::SweepSpec* s) { s->set_top_k(-1); }},
        BadSpec{
            "max_seconds", kBad,
            [](v1::SweepSpec* s) { s->set_max_seconds(std::numeric_limits<double>::infinity()); }},
        BadSpec{"priority", kBad, [](v1::SweepSpec* s) { s->set_priority(101); }}));

TEST(Limits, Utf8NamesAreFine) {
  v1::SweepSpec spec = GoodSpec();
  spec.set_name("\xc3\xa9t\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
  EXPECT_TRUE(CheckSweepSpec(spec).ok()) << CheckSweepSpec(spec);
}

TEST(Limits, SweepNames) {
  EXPECT_TRUE(CheckSweepName("abc123").ok());
  EXPECT_TRUE(CheckSweepName(std::string(64, 'f')).ok());
  for (const std::string& bad : {std::string("abc12"), std::string("ABC123"), std::string(65, 'a'),
                                 std::string(""), std::string("../../x")}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CheckSweepName(bad))) << bad;
  }
}

}  // namespace
}  // namespace kiln
