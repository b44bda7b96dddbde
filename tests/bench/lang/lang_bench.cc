// What the front end costs on one core: parsing and elaborating (with verification) one attention
// kernel, and 1,000 configs of a product.
//
//   lang_bench                 prints "name value" lines; run it in the repository's root
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <sstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/lang/kernel.h"
#include "compiler/templates/templates.h"

namespace kiln {
namespace {

double SecondsOf(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double MedianMs(const std::function<void()>& work) {
  std::vector<double> seconds;
  for (int i = 0; i < 201; ++i) seconds.push_back(SecondsOf(work));
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2] * 1e3;
}

void Attention() {
  std::ifstream in("tests/golden/lang/flash_attention.py");
  std::stringstream text;
  text << in.rdbuf();
  const auto file =
      std::make_shared<const SourceFile>(SourceFile{"flash_attention.py", text.str()});
  const lang::Arguments arguments = {{"batch", "1"},     {"heads", "8"}, {"seq_q", "4096"},
                                     {"seq_kv", "4096"}, {"dim", "128"}, {"is_causal", "True"}};
  const auto kernel = lang::Kernel::Parse(file, "attention");
  KILN_CHECK(kernel.ok());
  KILN_CHECK(lang::Elaborate(*kernel, arguments, {}).ok());
  std::printf("attention_parse_ms %.3f\n",
              MedianMs([&] { KILN_CHECK(lang::Kernel::Parse(file, "attention").ok()); }));
  std::printf("attention_elaborate_ms %.3f\n",
              MedianMs([&] { KILN_CHECK(lang::Elaborate(*kernel, arguments, {}).ok()); }));
}

void Products() {
  const KernelTemplate* shipped = FindKernelTemplate("matmul");
  KILN_CHECK(shipped != nullptr);
  const auto kernel = lang::Kernel::Parse(TemplateSource(*shipped), shipped->entry);
  KILN_CHECK(kernel.ok());
  std::vector<Config> configs;
  for (const int m : {16, 32, 48, 64, 96, 112, 128, 192, 224, 256}) {
    for (const int n : {16, 32, 48, 64, 96, 112, 128, 192, 224, 256}) {
      for (const int k : {16, 32, 64, 128, 256}) {
        for (const int stages : {2, 3}) {
          configs.push_back(*Config::Parse(
              absl::StrCat("block_M=", m, ",block_N=", n, ",block_K=", k, ",num_stages=", stages)));
        }
      }
    }
  }
  KILN_CHECK(configs.size() == 1000);
  const lang::Arguments arguments = {{"M", "4096"}, {"N", "4096"}, {"K", "4096"}};
  const double seconds = SecondsOf([&] {
    for (const Config& config : configs) {
      KILN_CHECK(lang::Elaborate(*kernel, arguments, config).ok());
    }
  });
  std::printf("product_1000_configs_s %.4f\n", seconds);
}

}  // namespace
}  // namespace kiln

int main() {
  kiln::Attention();
  kiln::Products();
  return 0;
}
