#include "tests/bench/recommender/recommender_shapes.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>

namespace kiln::bench {
namespace {

std::map<std::string, std::string> Matmul(int m, int n, int k) {
  return {{"M", std::to_string(m)}, {"N", std::to_string(n)}, {"K", std::to_string(k)}};
}

const std::vector<int> kRows = {8, 14, 16, 28, 32, 48, 64, 96, 112, 128, 192, 256};
const std::vector<int> kColumns = {32, 64, 96, 128, 192, 256, 384, 512};
const std::vector<int> kDepths = {32, 64, 128, 256, 512, 1024};

int Value(const Config& c, const char* name) {
  const std::string* v = c.Find(name);
  return v == nullptr ? 1 : std::atoi(v->c_str());
}

int Extent(const JudgedShape& s, const char* name) {
  const auto it = s.arguments.find(name);
  return it == s.arguments.end() ? 1 << 30 : std::atoi(it->second.c_str());
}

bool Sane(const JudgedShape& s, const Config& c) {
  const double m = Value(c, "block_M"), n = Value(c, "block_N"), k = Value(c, "block_K");
  if (m >= 2.0 * Extent(s, "M") || n >= 2.0 * Extent(s, "N")) return false;
  if (c.Find("block_K") != nullptr && k >= 2.0 * Extent(s, "K")) return false;
  return 4 * (m * k + k * n + m * n) <= 64.0 * 1024 * 1024;
}

}  // namespace

const std::vector<JudgedShape>& JudgedShapes() {
  static const auto* const shapes = new std::vector<JudgedShape>{
      {"m16_qkv",
       "matmul.py",
       Matmul(16, 6144, 4096),
       {{"block_M", {1, 2, 4, 8, 16}},
        {"block_N", {32, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 3072}},
        {"block_K", {16, 32, 64, 128, 192, 256, 512, 1024, 2048, 4096}}}},
      {"m128_qkv",
       "matmul.py",
       Matmul(128, 6144, 4096),
       {{"block_M", kRows}, {"block_N", kColumns}, {"block_K", kDepths}}},
      {"m512_qkv",
       "matmul.py",
       Matmul(512, 6144, 4096),
       {{"block_M", kRows}, {"block_N", kColumns}, {"block_K", kDepths}}},
      {"resnet_im2col",
       "matmul.py",
       Matmul(6272, 256, 2304),
       {{"block_M", kRows},
        {"block_N", {32, 64, 96, 128, 192, 256, 384}},
        {"block_K", {32, 64, 96, 128, 256, 512, 768}}}},
      {"ragged_1000",
       "matmul.py",
       Matmul(1000, 1000, 1000),
       {{"block_M", kRows}, {"block_N", kColumns}, {"block_K", kDepths}}},
      {"rowsum_8192",
       "reduction.py",
       {{"M", "8192"}, {"N", "8192"}},
       {{"block_M",
         {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024}},
        {"block_N",
         {16,   32,   64,   96,   128,  192,  256,  384,          512, 768, 1024, 1280, 1536,
          2048, 2560, 3072, 4096, 5120, 6144, 8192, 512 * 3 + 16, 48,  640, 896,  1792, 3584}}}},
  };
  return *shapes;
}

std::vector<Config> IndependentSpace(const JudgedShape& shape) {
  std::vector<Config> out;
  std::vector<std::pair<std::string, std::vector<int>>> axes(shape.grid.begin(), shape.grid.end());
  const std::function<void(size_t, const Config&)> walk = [&](size_t at, const Config& c) {
    if (at == axes.size()) {
      if (Sane(shape, c)) out.push_back(c);
      return;
    }
    for (int v : axes[at].second) {
      Config next = c;
      next.Set(axes[at].first, std::to_string(v));
      walk(at + 1, next);
    }
  };
  walk(0, Config());
  return out;
}

lang::Kernel LoadKernel(const JudgedShape& shape) {
  const std::string path = "compiler/templates/" + shape.kernel;
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  auto kernel = lang::Kernel::Parse(std::make_shared<SourceFile>(SourceFile{path, text.str()}), "");
  if (!kernel.ok()) {
    std::fprintf(stderr, "%s (run from the root of the source tree)\n",
                 kernel.status().ToString().c_str());
    std::exit(2);
  }
  return *std::move(kernel);
}

absl::StatusOr<roofline::Recommendation> Judge(const JudgedShape& shape,
                                               const std::vector<Config>& configs,
                                               const target::Arch& arch) {
  const lang::Kernel kernel = LoadKernel(shape);
  roofline::Request request;
  request.kernel = &kernel;
  request.arguments = shape.arguments;
  request.arch = arch;
  request.top_k = 8;
  request.configs = configs;
  return roofline::Recommend(request);
}

}  // namespace kiln::bench
