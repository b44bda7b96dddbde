#include "worker/compile/compile_service.h"

#include <gtest/gtest.h>

#include "compiler/base/digest.h"
#include "proto/dispatch.h"

namespace kiln::worker {
namespace {

v1::CompileRequest Request(const std::string& config) {
  v1::CompileRequest request;
  request.set_config(config);
  request.mutable_inputs()->set_kernel_source("source");
  request.mutable_inputs()->set_entry("entry");
  (*request.mutable_inputs()->mutable_arguments())["M"] = "8";
  request.mutable_inputs()->mutable_arch()->set_record("record");
  return request;
}

codegen::CompileOutput Output() {
  codegen::CompileOutput output;
  output.name = "kiln_k";
  output.target = "x86-64-v4";
  output.object = "object";
  output.shared_object = "shared";
  output.header = "header";
  output.manifest_json = "{}";
  output.program_digest = "p1";
  output.scratch_bytes = 1;
  output.spill_bytes = 2;
  output.code_bytes = 3;
  output.grid_blocks = 4;
  output.registers = 5;
  output.threads = 6;
  return output;
}

TEST(CompileServiceTest, EverythingArrivesAndIsSealed) {
  codegen::CompileInput seen;
  v1::CompileResponse response =
      ServeCompile(Request("a=1,b=2,kiln.cluster=1"), "build-1", "ptxas",
                   [&](const codegen::CompileInput& input) {
                     seen = input;
                     return absl::StatusOr<codegen::CompileOutput>(Output());
                   });
  EXPECT_EQ(seen.kernel_source, "source");
  EXPECT_EQ(seen.entry, "entry");
  EXPECT_EQ(seen.arguments.at("M"), "8");
  EXPECT_EQ(seen.config.ToString(), "a=1,b=2,kiln.cluster=1");
  EXPECT_EQ(seen.arch_record, "record");
  ASSERT_FALSE(response.has_failure());
  EXPECT_EQ(response.bundle().shared_object(), "shared");
  const v1::Artifact& artifact = response.artifact();
  EXPECT_EQ(artifact.digest(), Sha256Hex(response.bundle().SerializeAsString()));
  EXPECT_EQ(artifact.binary_digest(), Sha256Hex("object"));
  EXPECT_EQ(artifact.compiler_build(), "build-1");
  EXPECT_EQ(artifact.resources().scratch_bytes(), 1);
  EXPECT_EQ(artifact.resources().spill_bytes(), 2);
  EXPECT_EQ(artifact.resources().code_bytes(), 3);
  EXPECT_EQ(artifact.resources().grid_blocks(), 4);
  EXPECT_EQ(artifact.resources().registers(), 5);
  EXPECT_EQ(artifact.resources().threads(), 6);
  EXPECT_GT(artifact.compile_ns(), 0);
}

TEST(CompileServiceTest, StatusesBecomeStages) {
  struct Case {
    absl::Status status;
    v1::Failure::Stage stage;
  };
  for (const Case& c :
       {Case{absl::InvalidArgumentError("k.py:1:2: error: bad\n  line\n  ^"),
             v1::Failure::ELABORATE},
        Case{absl::UnimplementedError("k.py:1:2: error: later"), v1::Failure::ELABORATE},
        Case{absl::ResourceExhaustedError("too big"), v1::Failure::RESOURCES},
        Case{absl::InternalError("oops"), v1::Failure::COMPILE}}) {
    v1::CompileResponse response = ServeCompile(Request("a=1"), "b", "ptxas", [&](const auto&) {
      return absl::StatusOr<codegen::CompileOutput>(c.status);
    });
    EXPECT_EQ(response.failure().stage(), c.stage) << c.status;
    EXPECT_EQ(response.failure().message().find('\n'), std::string::npos) << "one line";
    EXPECT_FALSE(response.has_artifact());
  }
}

TEST(CompileServiceTest, ABadConfigNeverReachesTheCompiler) {
  for (const char* config : {"a", "a=1,a=2", "=3", "a=__import__('os')"}) {
    v1::CompileResponse response = ServeCompile(Request(config), "b", "ptxas", [&](const auto&) {
      ADD_FAILURE() << config;
      return absl::StatusOr<codegen::CompileOutput>(Output());
    });
    EXPECT_EQ(response.failure().stage(), v1::Failure::ELABORATE) << config;
  }
}

TEST(CompileServiceTest, EveryFieldOfTheIndexKeyCounts) {
  std::string key = ArtifactIndexKey("p", "t", "r", "b", "a");
  EXPECT_TRUE(IsSha256Hex(key));
  EXPECT_EQ(key, ArtifactIndexKey("p", "t", "r", "b", "a"));
  EXPECT_NE(key, ArtifactIndexKey("x", "t", "r", "b", "a"));
  EXPECT_NE(key, ArtifactIndexKey("p", "x", "r", "b", "a"));
  EXPECT_NE(key, ArtifactIndexKey("p", "t", "x", "b", "a"));
  EXPECT_NE(key, ArtifactIndexKey("p", "t", "r", "x", "a"));
  EXPECT_NE(key, ArtifactIndexKey("p", "t", "r", "b", "x"));
  EXPECT_NE(ArtifactIndexKey("pt", "", "r", "b", "a"), ArtifactIndexKey("p", "t", "r", "b", "a"));
}

TEST(CompileServiceTest, ADispatchIsMadeOfItsVariants) {
  v1::CompileRequest request = Request(std::string(kDispatchConfig));
  v1::Dispatch* dispatch = request.mutable_inputs()->mutable_dispatch();
  dispatch->set_dimension("M");
  dispatch->set_low(1);
  dispatch->set_high(9);
  for (const char* config : {"a=1", "a=2"}) dispatch->add_variants(config);
  for (const int64_t first : {1, 4, 7}) {
    v1::DispatchStep* step = dispatch->add_steps();
    step->set_first(first);
    step->set_variant(first == 4 ? 1 : 0);
  }
  const auto never = [](const codegen::CompileInput&) -> absl::StatusOr<codegen::CompileOutput> {
    return absl::InternalError("this is no config");
  };
  codegen::DispatchInput seen;
  const v1::CompileResponse response =
      ServeCompile(request, "b", "ptxas", never, [&](const codegen::DispatchInput& input) {
        seen = input;
        codegen::DispatchOutput output;
        output.artifact = Output();
        output.variants = {{"{\"v\": 0}", "ptx 0", "cubin 0"}, {"{\"v\": 1}", "ptx 1", "cubin 1"}};
        return absl::StatusOr<codegen::DispatchOutput>(output);
      });
  ASSERT_FALSE(response.has_failure()) << response.failure().message();
  EXPECT_EQ(seen.kernel.arch_record, "record");
  EXPECT_EQ(seen.dimension, "M");
  EXPECT_EQ(seen.high, 9);
  ASSERT_EQ(seen.variants.size(), 2u);
  EXPECT_EQ(seen.variants[1].ToString(), "a=2");
  ASSERT_EQ(seen.steps.size(), 3u);
  EXPECT_EQ(seen.steps[1].first, 4);
  EXPECT_EQ(seen.steps[1].variant, 1);
  ASSERT_EQ(response.bundle().variants_size(), 2);
  EXPECT_EQ(response.bundle().variants(1).cubin(), "cubin 1");
  EXPECT_EQ(response.bundle().variants(1).assembly(), "ptx 1");
  EXPECT_EQ(response.bundle().variants(1).name(), "kiln_k");
  EXPECT_EQ(response.artifact().digest(), Sha256Hex(response.bundle().SerializeAsString()));
  // An older compiler child, which does not know of it, says what it does not understand.
  EXPECT_TRUE(ServeCompile(request, "b", "ptxas", never).has_failure());
}

}  // namespace
}  // namespace kiln::worker
