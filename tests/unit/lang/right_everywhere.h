// Kernels that are right in numbers wherever they run: on tiles against loops written in the test,
// natively against the same loops, and on the threads of two GPUs against the tiles.
#ifndef KILN_TESTS_UNIT_LANG_RIGHT_EVERYWHERE_H_
#define KILN_TESTS_UNIT_LANG_RIGHT_EVERYWHERE_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "compiler/interp/interp.h"
#include "compiler/passes/pass.h"
#include "compiler/target/arch.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/lang/lang_test_util.h"
#include "tests/util/compiled_program.h"
#include "tests/util/thread_level.h"

namespace kiln::lang {

using Fill = std::function<double(int64_t)>;

struct Data {
  DType type;
  std::vector<int64_t> shape;
  Fill fill;
};

inline double Zero(int64_t) { return 0; }
// Small integers: sums of their products are exact.
inline double Left(int64_t i) { return static_cast<double>(i % 7 - 3); }
inline double Right(int64_t i) { return static_cast<double>(i * 5 % 11 - 5); }

inline std::string Kernel(const std::string& params, int threads, const std::string& body) {
  std::string text =
      absl::StrCat("import tilelang.language as T\nmode = 3\n@T.prim_func\ndef kernel(", params,
                   "):\n    with T.Kernel(1, threads=", threads, ") as block:\n        ");
  return text + absl::StrReplaceAll(body, {{"\n", "\n        "}}) + "\n";
}

inline std::vector<interp::Tensor> Tensors(const std::vector<Data>& data) {
  std::vector<interp::Tensor> tensors;
  for (const Data& d : data) {
    tensors.emplace_back(d.type, d.shape);
    for (int64_t i = 0; i < tensors.back().elements(); ++i) {
      tensors.back().View().Set(i, d.fill(i));
    }
  }
  return tensors;
}

// `data` are the kernel's tensors; the one at `output` holds `want` after it. A GPU may refuse the
// kernel where `refusal` says why it would.
inline void ExpectRight(const std::string& text, const std::vector<Data>& data, size_t output,
                        const Fill& want, const std::string& refusal = "") {
  SCOPED_TRACE(text);
  const auto program = ElaborateText(text);
  ASSERT_TRUE(program.ok()) << program.status();
  const auto check = [&](const interp::Tensor& got, const char* how) {
    for (int64_t i = 0; i < got.elements(); ++i) {
      ASSERT_EQ(got.View().Get(i), want(i)) << how << ", element " << i;
    }
  };
  interp::Options options;
  options.clip_global = true;
  const std::vector<interp::Tensor> tiles = Tensors(data);
  std::vector<interp::TensorView> views;
  for (const interp::Tensor& t : tiles) views.push_back(t.View());
  const auto ran = interp::Run(*program, views, options);
  ASSERT_TRUE(ran.ok()) << ran.status();
  check(tiles[output], "on tiles");

  const auto compiled = kiln::testing::CompiledProgram::Compile(*program);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const std::vector<interp::Tensor> native = Tensors(data);
  std::vector<void*> pointers;
  for (const interp::Tensor& t : native) pointers.push_back(t.data());
  ASSERT_EQ(compiled->Run(pointers), 0);
  check(native[output], "natively");

  for (const char* gpu : {"sm_80", "sm_90a"}) {
    const target::Arch arch = *target::NamedArch(gpu);
    passes::PassContext context;
    context.gpu = &arch;
    std::string why;
    const auto verdict = kiln::testing::CheckThreads(*program, 5, 0, &why, context);
    if (verdict != kiln::testing::Verdict::kSame && !refusal.empty()) {
      EXPECT_THAT(why, ::testing::HasSubstr(refusal)) << gpu;
    } else {
      EXPECT_EQ(verdict, kiln::testing::Verdict::kSame) << gpu << ": " << why;
    }
  }
}

inline void ExpectRefused(const std::string& text, const std::string& message,
                          const std::string& remedy) {
  SCOPED_TRACE(text);
  const auto d = DiagnosticOf(ElaborateText(text).status());
  ASSERT_TRUE(d.has_value());
  EXPECT_THAT(d->message, ::testing::HasSubstr(message));
  EXPECT_THAT(d->remedy, ::testing::HasSubstr(remedy));
  EXPECT_GT(d->loc.line, 0);
}

}  // namespace kiln::lang

#endif  // KILN_TESTS_UNIT_LANG_RIGHT_EVERYWHERE_H_
