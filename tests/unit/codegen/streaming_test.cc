// Stores past the caches: the same numbers as ordinary stores to the bit, whether the output starts
// a line or not, and nothing written around it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <random>

#include "compiler/ir/printer.h"
#include "compiler/passes/pipeline.h"
#include "compiler/target/host_arch.h"
#include "tests/util/compiled_program.h"
#include "tests/util/tile_programs.h"

namespace kiln {
namespace {

using testing::CompiledProgram;

constexpr size_t kRoom = 256;  // bytes around the output
constexpr char kPoison = 0x5a;

struct Shape {
  int64_t m, n, rows;
  DType dtype;
  bool streams;  // whether rows are whole vectors
};

passes::PassContext Context(int bits, int64_t stream_bytes) {
  passes::PassContext context = testing::HostPassContext(bits);
  context.vector.stream_bytes = stream_bytes;
  return context;
}

// The bytes around and of the output, which starts `offset` bytes after a line.
std::vector<char> RunAt(const CompiledProgram& program, const std::vector<char>& input,
                        size_t bytes, size_t offset) {
  std::vector<char> room(bytes + 2 * kRoom + 64, kPoison);
  char* start = room.data() + kRoom;
  start += (64 - reinterpret_cast<uintptr_t>(start) % 64) % 64 + offset;
  std::vector<char> copy = input;
  EXPECT_EQ(program.Run({copy.data(), start}), 0);
  return {start - kRoom, start + bytes + kRoom - 64};
}

std::vector<char> RandomInput(const Shape& s) {
  std::mt19937 rng(3);
  std::uniform_real_distribution<double> uniform(-4, 4);
  std::vector<char> bytes(s.m * s.n * s.dtype.bytes());
  for (int64_t i = 0; i < s.m * s.n; ++i) {
    StoreElement(reinterpret_cast<uint8_t*>(&bytes[i * s.dtype.bytes()]), s.dtype, uniform(rng));
  }
  return bytes;
}

class StreamingTest : public ::testing::TestWithParam<int> {};

TEST_P(StreamingTest, SameBytesAsOrdinaryStores) {
  if (GetParam() > target::DescribeHost()->vector_bits) {
    GTEST_SKIP() << "this processor has no vectors of " << GetParam() << " bits";
  }
  for (const Shape& s : {Shape{64, 256, 1, kFloat32, true}, Shape{33, 128, 4, kFloat32, true},
                         Shape{64, 64, 2, kFloat16, true}, Shape{17, 48, 3, kBFloat16, true},
                         Shape{40, 100, 1, kFloat32, false}, Shape{5, 7, 2, kFloat32, false}}) {
    SCOPED_TRACE(::testing::Message()
                 << s.m << "x" << s.n << " rows " << s.rows << " " << s.dtype.ToString());
    const ir::Program program = testing::SoftmaxProgram(s.m, s.n, s.rows, s.dtype);
    const auto lowered =
        passes::RunPipeline(passes::CpuPipeline(), program, Context(GetParam(), 1));
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    EXPECT_EQ(ir::ToString(*lowered).find("=stream") != std::string::npos, s.streams);
    const auto plain = CompiledProgram::Compile(program, Context(GetParam(), int64_t{1} << 40));
    const auto streaming = CompiledProgram::Compile(program, Context(GetParam(), 1));
    ASSERT_TRUE(plain.ok() && streaming.ok()) << plain.status() << streaming.status();
    const std::vector<char> input = RandomInput(s);
    for (const size_t offset : {0, 4, 32}) {
      EXPECT_EQ(RunAt(*streaming, input, input.size(), offset),
                RunAt(*plain, input, input.size(), offset))
          << "offset " << offset;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Widths, StreamingTest, ::testing::Values(512, 256));

}  // namespace
}  // namespace kiln
