// Atomic updates beyond additions, what they tell, lines of output and assertions.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/codegen/compile.h"
#include "compiler/codegen/runtime/kiln_launch.h"
#include "compiler/passes/pipeline.h"
#include "tests/util/compiled_program.h"
#include "tests/util/everywhere.h"
#include "tests/util/fragment_kernels.h"
#include "tests/util/gpu_programs.h"

namespace kiln {
namespace {

using testing::KernelText;
using testing::RunEverywhere;
using testing::Views;

TEST(Atomics, UpdateBits) {
  const std::string body = R"(for i in T.Parallel(96):
    T.atomic_or(B[i % 8], 1 << (i % 29))
    T.atomic_and(B[8 + i % 8], ~(1 << (i % 23)), memory_order="acq_rel")
    T.atomic_xor(B[16 + i % 8], A[i], memory_order="seq_cst"))";
  RunEverywhere(
      KernelText("A: T.Tensor((96,), \"int32\"), B: T.Tensor((24,), \"int32\")", body),
      [](const Views& v) {
        for (int i = 0; i < 96; ++i) v[0].Set(i, i * 7919 % 65536);
        for (int i = 0; i < 24; ++i) v[1].Set(i, i < 8 ? 0 : (1 << 24) - 1 - i);
      },
      [](const Views& v, const std::string& where) {
        for (int b = 0; b < 24; ++b) {
          int want = b < 8 ? 0 : (1 << 24) - 1 - b;
          for (int i = b % 8; i < 96; i += 8) {
            if (b < 8) want |= 1 << i % 29;
            if (b >= 8 && b < 16) want &= ~(1 << i % 23);
            if (b >= 16) want ^= i * 7919 % 65536;
          }
          ASSERT_EQ(v[1].Get(b), want) << where << " " << b;
        }
      });
}

// Every iteration draws a ticket of its own, and the block draws one before and one after.
TEST(Atomics, TellWhatWasThereBefore) {
  const std::string body = R"(first = T.atomic_add(N[0], 10, return_prev=True)
B[100] = first
for i in T.Parallel(100):
    ticket = T.atomic_add(N[0], 1, return_prev=True)
    B[i] = ticket
last = T.atomic_max(N[0], 5, return_prev=True)
for i in T.Parallel(4):
    B[101 + i] = last + i)";
  RunEverywhere(
      KernelText("N: T.Tensor((1,), \"int32\"), B: T.Tensor((105,), \"int32\")", body),
      [](const Views& v) { v[0].Set(0, 1000); },
      [](const Views& v, const std::string& where) {
        ASSERT_EQ(v[0].Get(0), 1110) << where;
        ASSERT_EQ(v[1].Get(100), 1000) << where;
        std::set<double> tickets;
        for (int i = 0; i < 100; ++i) tickets.insert(v[1].Get(i));
        ASSERT_EQ(tickets.size(), 100u) << where;
        ASSERT_EQ(*tickets.begin(), 1010) << where;
        ASSERT_EQ(*tickets.rbegin(), 1109) << where;
        for (int i = 0; i < 4; ++i) ASSERT_EQ(v[1].Get(101 + i), 1110 + i) << where;
      });
}

TEST(Atomics, OfTilesByOneValue) {
  RunEverywhere(
      KernelText("B: T.Tensor((6, 8), \"int32\")",
                 "T.atomic_add(B[1:5, 2:8], 3)\nT.atomic_max(B[0:2, :], 10)"),
      [](const Views& v) {
        for (int i = 0; i < 48; ++i) v[0].Set(i, i);
      },
      [](const Views& v, const std::string& where) {
        for (int i = 0; i < 48; ++i) {
          int want = i;
          if (i / 8 >= 1 && i / 8 < 5 && i % 8 >= 2) want += 3;
          if (i / 8 < 2) want = std::max(want, 10);
          ASSERT_EQ(v[0].Get(i), want) << where << " " << i;
        }
      });
}

TEST(Atomics, LoadAndStore) {
  const std::string body = R"(for i in T.Parallel(40):
    T.atomic_store(B[i], T.atomic_load(A[i], memory_order="acquire") * 2, memory_order="release")
T.atomic_store(C[0], 3.5)
x = T.atomic_load(C[0])
for i in T.Parallel(3):
    C[1 + i] = x + i)";
  RunEverywhere(
      KernelText("A: T.Tensor((40,), \"float32\"), B: T.Tensor((40,), \"float32\"), "
                 "C: T.Tensor((4,), \"float32\")",
                 body),
      [](const Views& v) {
        for (int i = 0; i < 40; ++i) v[0].Set(i, i * 0.25), v[1].Set(i, 0);
        for (int i = 0; i < 4; ++i) v[2].Set(i, 0);
      },
      [](const Views& v, const std::string& where) {
        for (int i = 0; i < 40; ++i) ASSERT_EQ(v[1].Get(i), i * 0.5) << where;
        for (int i = 0; i < 4; ++i) {
          ASSERT_EQ(v[2].Get(i), i == 0 ? 3.5 : 2.5 + i) << where;
        }
      });
}

// An element outside of its tensor is not updated, and was 0.
TEST(Atomics, OutsideOfATensorNothingHappens) {
  const std::string body = R"(for i in T.Parallel(16):
    B[i] = T.atomic_add(A[i], 1, return_prev=True))";
  RunEverywhere(
      KernelText("A: T.Tensor((10,), \"int32\"), B: T.Tensor((16,), \"int32\")", body),
      [](const Views& v) {
        for (int i = 0; i < 10; ++i) v[0].Set(i, 50 + i);
      },
      [](const Views& v, const std::string& where) {
        for (int i = 0; i < 10; ++i) ASSERT_EQ(v[0].Get(i), 51 + i) << where;
        for (int i = 0; i < 16; ++i) ASSERT_EQ(v[1].Get(i), i < 10 ? 50 + i : 0) << where;
      });
}

TEST(Atomics, OrdersAreFencesOfTheGpu) {
  const std::string body = R"(for i in T.Parallel(32):
    T.atomic_add(A[i], 1, memory_order="release")
    T.atomic_or(A[i], 1))";
  codegen::CompileInput input;
  input.kernel_source = KernelText("A: T.Tensor((32,), \"int32\")", body, 32);
  input.kernel_path = "k.py";
  input.entry = "kernel";
  input.arch_record = target::ToText(*target::NamedArch("sm_90a"));
  const auto ptx = codegen::EmitStage(input, "asm");
  ASSERT_TRUE(ptx.ok()) << ptx.status();
  const bool fenced = absl::StrContains(*ptx, "membar.gl") || absl::StrContains(*ptx, "fence.");
  EXPECT_TRUE(fenced) << *ptx;
}

constexpr char kPrints[] = R"(x = T.alloc_shared((2, 2), "float32")
T.copy(A, x)
T.print("here")
T.print(bx * 7, msg="100%")
T.print(x, msg="tile")
for i in T.Parallel(2):
    if i == 1:
        T.print(A[i, 0], msg="one")
T.copy(x, B))";

TEST(Print, WritesLines) {
  const std::string tensor = "T.Tensor((2, 2), \"float32\")";
  const std::string text =
      KernelText(absl::StrCat("A: ", tensor, ", B: ", tensor), kPrints, 32, "2");
  std::vector<std::string> want;
  for (const char* block : {"0", "1"}) {
    const std::string at = absl::StrCat("block ", block);
    want.push_back(absl::StrCat("here: ", at, "\n"));
    want.push_back(absl::StrCat("100%: ", at, ": ", *block == '0' ? "0" : "7", "\n"));
    for (int i = 0; i < 4; ++i) {
      want.push_back(absl::StrCat("tile: ", at, ": [", i / 2, ", ", i % 2,
                                  "] = ", i == 3 ? "0.100000001" : absl::StrCat(i + 1), "\n"));
    }
    want.push_back(absl::StrCat("one: ", at, ": 3\n"));
  }
  const auto fill = [](const Views& v) {
    for (int i = 0; i < 4; ++i) v[0].Set(i, i == 3 ? 0.1 : i + 1);
  };
  const auto program = testing::Elaborated("k.py", text);
  ASSERT_TRUE(program.ok()) << program.status();
  const auto lines = [&](const ir::Program& p, bool tiles) {
    std::vector<std::string> got;
    interp::Options options;
    options.clip_global = tiles;
    options.print = [&](const std::string& line) { got.push_back(line); };
    Views views;
    const auto tensors = *interp::RandomArguments(p, {}, 7);
    for (const interp::Tensor& t : tensors) views.push_back(t.View());
    fill(views);
    const auto ran = interp::Run(p, views, options);
    EXPECT_TRUE(ran.ok()) << ran.status();
    return got;
  };
  EXPECT_EQ(lines(*program, true), want);
  // Threads, in any order.
  std::vector<std::string> sorted = want;
  std::sort(sorted.begin(), sorted.end());
  const auto threads = passes::RunPipeline(passes::ThreadPipeline(), *program, {});
  ASSERT_TRUE(threads.ok()) << threads.status();
  std::vector<std::string> got = lines(*threads, false);
  std::sort(got.begin(), got.end());
  EXPECT_EQ(got, sorted);
  const auto instructions = testing::Instructions(*program, "sm_90a", 2);
  ASSERT_TRUE(instructions.ok()) << instructions.status();
  got = lines(*instructions, false);
  std::sort(got.begin(), got.end());
  EXPECT_EQ(got, sorted);
  // Code of this machine, to standard output.
  const auto compiled = testing::CompiledProgram::Compile(*program);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  Views views;
  const auto tensors = *interp::RandomArguments(*program, {}, 7);
  for (const interp::Tensor& t : tensors) views.push_back(t.View());
  fill(views);
  ::testing::internal::CaptureStdout();
  ASSERT_EQ(compiled->Run({tensors[0].data(), tensors[1].data()}), 0);
  std::fflush(stdout);
  const std::string written = ::testing::internal::GetCapturedStdout();
  size_t bytes = 0;
  for (const std::string& line : want) {
    EXPECT_TRUE(absl::StrContains(written, line)) << line << written;
    bytes += line.size();
  }
  EXPECT_EQ(written.size(), bytes) << written;
  // And of GPUs.
  RunEverywhere(text, fill, [](const Views&, const std::string&) {}, {.native = false});
}

TEST(DeviceAssert, StopsWithItsMessage) {
  const std::string text =
      KernelText("A: T.Tensor((8,), \"int32\"), B: T.Tensor((8,), \"int32\")",
                 "for i in T.Parallel(8):\n    T.device_assert(A[i] >= 0, \"negative\")\n    B[i] "
                 "= A[i]\nT.device_assert(A[0] < 9)",
                 32);
  const auto program = testing::Elaborated("k.py", text);
  ASSERT_TRUE(program.ok()) << program.status();
  const auto compiled = testing::CompiledProgram::Compile(*program);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  for (const int bad : {0, -1, 9}) {
    interp::Tensor a(kInt32, {8}), b(kInt32, {8});
    a.as<int32_t>()[bad == 9 ? 0 : 5] = bad;
    interp::Options options;
    options.clip_global = true;
    const auto ran = interp::Run(*program, {a.View(), b.View()}, options);
    EXPECT_EQ(ran.ok(), bad == 0) << ran.status();
    const int result = compiled->Run({a.data(), b.data()});
    EXPECT_EQ(result, bad == 0 ? 0 : KILN_ERROR_ASSERT);
    if (bad == 0) continue;
    const std::string message(ran.status().message());
    EXPECT_TRUE(absl::StrContains(message, bad < 0 ? "negative" : "T.device_assert")) << message;
    EXPECT_TRUE(absl::StrContains(message, bad < 0 ? "k.py:9" : "k.py:11")) << message;
  }
  codegen::CompileInput input;
  input.kernel_source = text;
  input.kernel_path = "k.py";
  input.entry = "kernel";
  input.arch_record = target::ToText(*target::NamedArch("sm_90a"));
  const auto ptx = codegen::EmitStage(input, "asm");
  ASSERT_TRUE(ptx.ok()) << ptx.status();
  EXPECT_TRUE(absl::StrContains(*ptx, "vprintf")) << *ptx;
  EXPECT_TRUE(absl::StrContains(*ptx, "trap")) << *ptx;
}

}  // namespace
}  // namespace kiln
