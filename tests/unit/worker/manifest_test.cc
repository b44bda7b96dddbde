#include "worker/profile/manifest.h"

#include <gtest/gtest.h>

namespace kiln::worker {
namespace {

constexpr char kGemm[] = R"({
  "name": "kiln_gemm", "entry": "gemm", "target": "x86-64-v4",
  "params": [
    {"name": "A", "kind": "tensor", "dtype": "float32", "shape": ["m", 64], "output": false},
    {"name": "B", "kind": "tensor", "dtype": "bfloat16", "shape": [64, 32], "strides": [40, 1]},
    {"name": "n", "kind": "scalar", "dtype": "int32"},
    {"name": "C", "kind": "tensor", "dtype": "float32", "shape": ["m", 32], "output": true}
  ],
  "dims": ["m"], "flops": 65536.0
})";

TEST(ManifestTest, ParsesAndBinds) {
  absl::StatusOr<Manifest> manifest = ParseManifest(kGemm);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  absl::StatusOr<BoundManifest> bound = BindManifest(*manifest, {{"m", "16"}, {"n", "7"}});
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_EQ(bound->name, "kiln_gemm");
  ASSERT_EQ(bound->tensors.size(), 3u);
  EXPECT_EQ(bound->tensors[0].shape, (std::vector<int64_t>{16, 64}));
  EXPECT_TRUE(bound->tensors[0].dense);
  EXPECT_EQ(bound->tensors[1].span, 63 * 40 + 31 + 1);
  EXPECT_FALSE(bound->tensors[1].dense);
  EXPECT_EQ(bound->tensors[1].OffsetOf(33), 41) << "row 1, column 1";
  EXPECT_TRUE(bound->tensors[2].output);
  EXPECT_EQ(bound->values, (std::vector<int64_t>{7, 16})) << "scalars before dimensions";
  EXPECT_EQ(bound->reduction_length, 64) << "65536 flops / (16 * 32) outputs / 2";
}

TEST(ManifestTest, SumsInACoarseTypeAreToldAndCheckedForSense) {
  const auto with = [](const std::string& sums) {
    return ParseManifest(
        R"({"name":"k","params":[{"name":"C","kind":"tensor","dtype":"float16","shape":[8])" +
        sums + "}]}");
  };
  const auto told = with(R"(,"sums":{"dtype":"float16","roundings":4096})");
  ASSERT_TRUE(told.ok()) << told.status();
  const auto bound = BindManifest(*told, {});
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_EQ(bound->tensors[0].sums.type, kFloat16);
  EXPECT_EQ(bound->tensors[0].sums.roundings, 4096);
  EXPECT_FALSE(BindManifest(*with(""), {})->tensors[0].sums.type.has_value());
  for (const char* bad : {R"(,"sums":{"dtype":"float17","roundings":1})",
                          R"(,"sums":{"dtype":"float16","roundings":-1})",
                          R"(,"sums":{"dtype":"float16"})", R"(,"sums":4)"}) {
    EXPECT_EQ(with(bad).status().code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(ManifestTest, MissingAndBadRuntimeValuesAreNamed) {
  Manifest manifest = *ParseManifest(kGemm);
  absl::Status status = BindManifest(manifest, {{"n", "1"}}).status();
  EXPECT_NE(status.message().find("'m'"), absl::string_view::npos) << status;
  EXPECT_NE(status.message().find("under `runtime`"), absl::string_view::npos);
  EXPECT_FALSE(BindManifest(manifest, {{"m", "-1"}, {"n", "1"}}).ok());
  EXPECT_FALSE(BindManifest(manifest, {{"m", "4.5"}, {"n", "1"}}).ok());
  EXPECT_FALSE(BindManifest(manifest, {{"m", "99999999999999"}, {"n", "1"}}).ok());
}

absl::StatusOr<int64_t> Extent(const std::string& text) {
  const absl::StatusOr<Manifest> manifest = ParseManifest(
      R"({"name":"k","params":[{"name":"A","kind":"tensor","dtype":"float32","shape":[")" + text +
      R"("]}],"dims":["N","H"]})");
  if (!manifest.ok()) return manifest.status();
  const absl::StatusOr<BoundManifest> bound = BindManifest(*manifest, {{"N", "5"}, {"H", "12"}});
  if (!bound.ok()) return bound.status();
  return bound->tensors[0].shape[0];
}

TEST(ManifestTest, ExtentsAreComputedFromDimensions) {
  for (const auto& [text, want] :
       std::vector<std::pair<const char*, int64_t>>{{"N", 5},
                                                    {"N * 36", 180},
                                                    {"((H - 3) // 2 + 1) * N", 25},
                                                    {"H - N - 1", 6},
                                                    {"H // N % 2 * 7", 0},
                                                    {"(N - H) // 4", -1},
                                                    {"H + (N - H) // 4", 10},
                                                    {"(N - H) % 4 + 1", 2},
                                                    {"-N + H", 7},
                                                    {"max(N, H) + min(N, H * 2)", 17},
                                                    {"int64(N) * int64(H)", 60}}) {
    const absl::StatusOr<int64_t> value = Extent(text);
    if (want < 0) {
      EXPECT_FALSE(value.ok()) << text << ": no extent is negative";
    } else {
      ASSERT_TRUE(value.ok()) << text << ": " << value.status();
      EXPECT_EQ(*value, want) << text;
    }
  }
  for (const char* text :
       {"N // 0", "N % (H - 12)", "N +", "N H", "(N", "N)", "select(N, 1, 2)", "max(N)", "2 ** N",
        "4611686018427387904 * N", "1.5", "N.x", "99999999999999999999"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Extent(text).status())) << text;
  }
  EXPECT_NE(Extent("M * 2").status().message().find("'M'"), absl::string_view::npos);
  EXPECT_FALSE(Extent(std::string(100000, '(')).ok());
  EXPECT_FALSE(Extent(std::string(100000, '-')).ok());
}

TEST(ManifestTest, HostileManifestsAreErrors) {
  for (const char* text :
       {"", "[]", "{", "{\"name\": 3}", "{\"name\": \"k\"}",
        R"({"name":"k","params":[{"name":"A","kind":"tensor","dtype":"float99","shape":[1]}]})",
        R"({"name":"k","params":[{"name":"A","kind":"blob","dtype":"float32","shape":[1]}]})",
        R"({"name":"k","params":[{"name":"A","kind":"tensor","dtype":"float32","shape":[-1]}]})",
        R"({"name":"k","params":[{"name":"A","kind":"tensor","dtype":"float32","shape":[1],
            "strides":[1,1]}]})",
        R"({"name":"k","params":[{"name":"A","kind":"tensor","dtype":"float32","shape":{}}],
            "dims":[1]})"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseManifest(text).status())) << text;
  }
  absl::StatusOr<Manifest> huge = ParseManifest(
      R"({"name":"k","params":[{"name":"A","kind":"tensor","dtype":"float32",
          "shape":[1000000000,1000000000]}]})");
  ASSERT_TRUE(huge.ok());
  EXPECT_TRUE(absl::IsInvalidArgument(BindManifest(*huge, {}).status()));
}

TEST(ManifestTest, FloatScalarsTravelAsBits) {
  absl::StatusOr<Manifest> manifest = ParseManifest(
      R"({"name":"k","params":[{"name":"scale","kind":"scalar","dtype":"float32"},
          {"name":"exact","kind":"scalar","dtype":"float64"}]})");
  ASSERT_TRUE(manifest.ok());
  absl::StatusOr<BoundManifest> bound =
      BindManifest(*manifest, {{"scale", "0.5"}, {"exact", "-2"}});
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_EQ(bound->values[0], 0x3f000000);
  EXPECT_EQ(static_cast<uint64_t>(bound->values[1]), 0xc000000000000000u);
  EXPECT_FALSE(BindManifest(*manifest, {{"scale", "wide"}, {"exact", "1"}}).ok());
  EXPECT_FALSE(BindManifest(*manifest, {{"scale", "1"}}).ok());
}

TEST(ManifestTest, TheLongestInputStandsInForTheReduction) {
  absl::StatusOr<Manifest> manifest = ParseManifest(
      R"({"name":"k","params":[{"name":"A","kind":"tensor","dtype":"float32","shape":[30,700]},
          {"name":"C","kind":"tensor","dtype":"float32","shape":[9000],"output":true}]})");
  ASSERT_TRUE(manifest.ok());
  EXPECT_EQ(BindManifest(*manifest, {})->reduction_length, 700);
}

TEST(ManifestTest, EmptyTensorsAreFine) {
  absl::StatusOr<Manifest> manifest = ParseManifest(
      R"({"name":"k","params":[{"name":"A","kind":"tensor","dtype":"float32","shape":[0,5]}]})");
  ASSERT_TRUE(manifest.ok());
  absl::StatusOr<BoundManifest> bound = BindManifest(*manifest, {});
  ASSERT_TRUE(bound.ok());
  EXPECT_EQ(bound->tensors[0].bytes(), 0);
}

}  // namespace
}  // namespace kiln::worker
