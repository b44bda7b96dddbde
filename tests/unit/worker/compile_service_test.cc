#include "worker/compile/compile_service.h"

#include <gtest/gtest.h>

#include "compiler/base/digest.h"

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

}  // namespace
}  // namespace kiln::worker
