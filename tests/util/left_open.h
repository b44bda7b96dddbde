// Every shipped template with each of its arguments that a run may choose, small enough to be
// interpreted.
#ifndef KILN_TESTS_UTIL_LEFT_OPEN_H_
#define KILN_TESTS_UTIL_LEFT_OPEN_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "compiler/lang/arguments.h"
#include "compiler/lang/kernel.h"

namespace kiln::testing {

struct LeftOpen {
  std::string kernel;     // the template
  std::string dimension;  // what is left to run time
  lang::Arguments fixed;  // all other arguments
  std::string config;
  std::vector<int64_t> sizes;          // ascending
  std::vector<std::string> arguments;  // that are the dimension; empty: the one of its name

  std::vector<std::string> Names() const {
    return arguments.empty() ? std::vector<std::string>{dimension} : arguments;
  }
  lang::Arguments AtRunTime() const {
    lang::Arguments all = fixed;
    for (const std::string& name : Names()) all[name] = lang::DynamicArgument(dimension);
    return all;
  }
  lang::Arguments At(int64_t size) const {
    lang::Arguments all = fixed;
    for (const std::string& name : Names()) all[name] = absl::StrCat(size);
    return all;
  }
  std::string Name() const {
    std::string name = absl::StrCat(kernel, "_", dimension);
    if (fixed.contains("is_causal")) name += "_causal";
    for (const char* option : {"activation", "op"}) {
      const auto given = fixed.find(option);
      if (given != fixed.end())
        absl::StrAppend(&name, "_", absl::StrReplaceAll(given->second, {{"'", ""}}));
    }
    return name;
  }
  friend void PrintTo(const LeftOpen& c, std::ostream* out) { *out << c.Name(); }
};

// The template with each of `all` left open in turn; `sizes` for each of them.
inline void AddEach(const std::string& kernel, const lang::Arguments& all,
                    const std::string& config,
                    const std::vector<std::pair<std::string, std::vector<int64_t>>>& open,
                    std::vector<LeftOpen>* out) {
  for (const auto& [name, sizes] : open) {
    LeftOpen& one = out->emplace_back(LeftOpen{kernel, name, all, config, sizes, {}});
    one.fixed.erase(name);
  }
}

inline void AddProducts(std::vector<LeftOpen>* out) {
  const std::string tile = "block_M=32,block_N=32,block_K=32,threads=64";
  const std::string decode = "block_M=16,block_N=64,block_K=32";
  const std::string split = "split=2,block_M=32,block_N=32,block_K=32,threads=64,block=128";
  const std::vector<int64_t> few = {1, 31, 70};
  const lang::Arguments half = {
      {"M", "40"}, {"N", "64"}, {"K", "64"}, {"dtype", "float16"}, {"out_dtype", "float16"}};
  AddEach("matmul", half, tile, {{"M", {1, 31, 32, 70}}, {"N", few}, {"K", few}}, out);
  AddEach("matmul_decode", half, decode, {{"M", {1, 16, 40}}, {"N", few}, {"K", few}}, out);
  AddEach("matmul_promoted", half, "block_M=64,block_N=32,block_K=32,threads=128",
          {{"M", few}, {"N", few}, {"K", few}}, out);
  AddEach("matmul_splitk", half, split, {{"M", few}, {"N", few}, {"K", {1, 64, 200}}}, out);
  AddEach("matmul_streamk", half, absl::StrCat("blocks=5,", tile),
          {{"M", few}, {"N", few}, {"K", {1, 64, 200}}}, out);
  lang::Arguments followed = half;
  followed["with_bias"] = "True";
  followed["activation"] = "'relu'";
  AddEach("matmul_splitk", followed, split, {{"M", few}, {"N", few}}, out);
  AddEach("matmul_streamk", followed, absl::StrCat("blocks=5,", tile), {{"M", few}, {"N", few}},
          out);
  AddEach("matmul_dequant", {{"M", "32"}, {"N", "64"}, {"K", "128"}, {"group", "64"}},
          "block_M=32,block_N=64,block_K=32", {{"M", few}, {"N", few}, {"K", {64, 128, 320}}}, out);
  AddEach("linear", {{"M", "40"}, {"N", "64"}, {"K", "64"}, {"batch", "2"}}, tile,
          {{"M", few}, {"N", few}, {"K", few}, {"batch", {1, 3}}}, out);
  AddEach("conv2d", {{"N", "2"}, {"H", "5"}, {"W", "4"}, {"C", "32"}, {"F", "32"}},
          "block_M=32,block_N=32,block_K=16,threads=64",
          {{"N", {1, 2, 5}}, {"H", {1, 4, 9}}, {"W", {1, 4, 9}}, {"C", {16, 64}}, {"F", {1, 40}}},
          out);
}

inline void AddRows(std::vector<LeftOpen>* out) {
  const lang::Arguments rows = {{"M", "10"}, {"N", "100"}};
  const std::vector<int64_t> few = {1, 2, 7}, wide = {1, 64, 100};
  AddEach("gemv", {{"N", "30"}, {"K", "100"}}, "block_N=8,block_K=64",
          {{"N", {1, 7, 50}}, {"K", {1, 64, 200}}}, out);
  AddEach("softmax", rows, "block_M=2", {{"M", few}}, out);
  AddEach("rmsnorm", rows, "block_M=2", {{"M", few}}, out);
  AddEach("layernorm", rows, "block_M=2", {{"M", few}}, out);
  AddEach("elementwise", rows, "block_M=2,block_N=64", {{"M", few}, {"N", wide}}, out);
  AddEach("broadcast", rows, "block_M=2,block_N=64", {{"M", few}, {"N", wide}}, out);
  AddEach("transpose", rows, "block_M=16,block_N=32", {{"M", {1, 16, 50}}, {"N", wide}}, out);
  AddEach("reduction", rows, "block_M=2,block_N=64", {{"M", few}, {"N", wide}}, out);
  AddEach("reduction_columns", rows, "block_M=8,block_N=64,split=4",
          {{"M", {1, 8, 100}}, {"N", wide}}, out);
  AddEach("reduction_all", {{"N", "100"}}, "block=256", {{"N", {1, 256, 1000}}}, out);
  AddEach("reduction", {{"M", "10"}, {"N", "100"}, {"op", "'max'"}}, "block_M=2,block_N=64",
          {{"N", wide}}, out);
  AddEach("reduction_columns", {{"M", "10"}, {"N", "100"}, {"op", "'mean'"}},
          "block_M=8,block_N=64,split=4", {{"M", {1, 8, 100}}}, out);
}

inline void AddAttention(std::vector<LeftOpen>* out) {
  const std::string tile = "block_M=32,block_N=32,threads=64";
  lang::Arguments all = {{"batch", "2"},  {"heads", "2"},   {"kv_heads", "1"},
                         {"seq_q", "40"}, {"seq_kv", "50"}, {"dim", "32"}};
  AddEach("attention", all, tile,
          {{"batch", {1, 3}}, {"heads", {1, 4}}, {"seq_q", {1, 33, 64}}, {"seq_kv", {1, 32, 70}}},
          out);
  all["is_causal"] = "True";
  AddEach("attention", all, tile, {{"seq_q", {1, 32, 50}}, {"seq_kv", {40, 64, 70}}}, out);
  all.erase("seq_q");
  all.erase("seq_kv");
  out->push_back({"attention", "S", all, tile, {1, 32, 70}, {"seq_q", "seq_kv"}});
  AddEach("attention_decode",
          {{"batch", "2"}, {"heads", "4"}, {"kv_heads", "2"}, {"length", "150"}, {"dim", "32"}},
          "split=2,block_H=16,block_N=32,threads=32",
          {{"batch", {1, 3}}, {"heads", {2, 8}}, {"kv_heads", {1, 4}}, {"length", {1, 64, 150}}},
          out);
}

inline const std::vector<LeftOpen>& TemplatesLeftOpen() {
  static const auto& all = *[] {
    auto* cases = new std::vector<LeftOpen>;
    AddProducts(cases);
    AddRows(cases);
    AddAttention(cases);
    return cases;
  }();
  return all;
}

}  // namespace kiln::testing

#endif  // KILN_TESTS_UTIL_LEFT_OPEN_H_
