// Which shipped kernels have a formula, by what the interpreter makes of their programs.
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "compiler/templates/templates.h"
#include "tests/util/dense_tensor.h"
#include "worker/profile/formula.h"
#include "worker/profile/interp_reference.h"
#include "worker/profile/tensors.h"

namespace kiln::worker {
namespace {

struct Kernel {
  std::string name, config;
  std::map<std::string, std::string> arguments;
  std::vector<std::pair<std::string, std::vector<int64_t>>> tensors;  // dtype and shape
  std::string formula;                                                // "": none
};

TensorShape Shape(const std::string& name, const std::string& type, std::vector<int64_t> shape) {
  return DenseTensor(name, *ParseDType(type), std::move(shape));
}

class Recognised {
 public:
  explicit Recognised(const Kernel& kernel) {
    const KernelTemplate* found = FindKernelTemplate(kernel.name);
    inputs_.set_kernel_source(std::string(found->source));
    inputs_.set_kernel_path(kernel.name);
    inputs_.set_entry(std::string(found->entry));
    for (const auto& [key, value] : kernel.arguments) (*inputs_.mutable_arguments())[key] = value;
    for (const auto& [type, shape] : kernel.tensors) {
      const std::string name(1, static_cast<char>('A' + manifest_.tensors.size()));
      manifest_.tensors.push_back(Shape(name, type, shape));
    }
    manifest_.tensors.back().output = true;
    reference_ = MakeInterpReference(inputs_, kernel.config, manifest_);
    EXPECT_TRUE(reference_.ok()) << reference_.status();
    if (!reference_.ok()) return;
    for (std::unique_ptr<Formula>& formula : FormulasFor(manifest_, output())) {
      std::vector<double> values;
      for (const ReferenceValue& value : Interpret(1, formula->Probes())) {
        values.push_back(value.value);
      }
      if (!formula->Confirm(1, formula->Probes(), values)) continue;
      formula_ = std::move(formula);
      return;
    }
  }

  int output() const { return static_cast<int>(manifest_.tensors.size()) - 1; }
  std::vector<ReferenceValue> Interpret(uint64_t seed, const std::vector<int64_t>& elements) {
    auto values = (*reference_)->Evaluate(seed, output(), elements);
    EXPECT_TRUE(values.ok()) << values.status();
    return values.ok() ? *values : std::vector<ReferenceValue>(elements.size());
  }
  const Formula* formula() const { return formula_.get(); }

 private:
  v1::SweepInputs inputs_;
  BoundManifest manifest_;
  absl::StatusOr<std::unique_ptr<Reference>> reference_;
  std::unique_ptr<Formula> formula_;
};

const std::string kTiles = "block_K=32,block_M=32,block_N=32,num_stages=2,threads=128";

std::vector<Kernel> Kernels() {
  std::vector<Kernel> kernels;
  const std::map<std::string, std::string> square = {
      {"M", "96"}, {"N", "96"}, {"K", "96"}, {"dtype", "float16"}, {"out_dtype", "float16"}};
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) {
      Kernel k{"matmul",
               kTiles + ",panel=0",
               square,
               {{"float16", {96, 96}}, {"float16", {96, 96}}, {"float16", {96, 96}}},
               std::string(a ? "A[k,m] " : "A[m,k] ") + (b ? "B[n,k]" : "B[k,n]")};
      k.arguments["trans_A"] = a ? "True" : "False";
      k.arguments["trans_B"] = b ? "True" : "False";
      kernels.push_back(k);
    }
  }
  for (const std::string tail : {"none", "relu", "silu", "gelu"}) {
    const std::string prefix = tail == "none" ? "" : tail + " of ";
    Kernel k{"linear",
             kTiles,
             {{"M", "40"},
              {"N", "72"},
              {"K", "64"},
              {"batch", "3"},
              {"activation", absl::StrCat("'", tail, "'")}},
             {{"bfloat16", {3, 40, 64}},
              {"bfloat16", {3, 72, 64}},
              {"float32", {72}},
              {"bfloat16", {3, 40, 72}}},
             prefix + "A[m,k] B[n,k] + C[n]"};
    kernels.push_back(k);
  }
  kernels.push_back({"matmul_decode",
                     "block_K=32,block_M=16,block_N=32,num_stages=2,threads=128",
                     {{"M", "5"}, {"N", "64"}, {"K", "64"}},
                     {{"bfloat16", {5, 64}}, {"bfloat16", {64, 64}}, {"bfloat16", {5, 64}}},
                     "A[m,k] B[n,k]"});
  const auto attention = [](int64_t q, int64_t kv, int64_t kv_heads, bool causal) {
    const auto text = [](int64_t x) { return std::to_string(x); };
    return Kernel{"attention",
                  "block_M=32,block_N=32,num_stages=2,threads=128",
                  {{"batch", "2"},
                   {"heads", "4"},
                   {"kv_heads", text(kv_heads)},
                   {"seq_q", text(q)},
                   {"seq_kv", text(kv)},
                   {"dim", "32"},
                   {"is_causal", causal ? "True" : "False"}},
                  {{"float16", {2, q, 4, 32}},
                   {"float16", {2, kv, kv_heads, 32}},
                   {"float16", {2, kv, kv_heads, 32}},
                   {"float16", {2, q, 4, 32}}},
                  std::string(causal ? "causal " : "") + "attention of A, B, C"};
  };
  kernels.push_back(attention(96, 96, 4, false));
  kernels.push_back(attention(96, 96, 4, true));
  kernels.push_back(attention(50, 77, 2, false));
  kernels.push_back(attention(50, 77, 1, true));
  kernels.push_back({"softmax",
                     "",
                     {{"M", "32"}, {"N", "64"}},
                     {{"float32", {32, 64}}, {"float32", {32, 64}}},
                     ""});
  kernels.push_back(
      {"layernorm",
       "block_M=1,threads=128",
       {{"M", "32"}, {"N", "64"}},
       {{"float32", {32, 64}}, {"float32", {64}}, {"float32", {64}}, {"float32", {32, 64}}},
       ""});
  return kernels;
}

TEST(RecognitionTest, TheFormulaIsTheKernels) {
  for (const Kernel& kernel : Kernels()) {
    SCOPED_TRACE(kernel.name + " " + kernel.formula);
    Recognised recognised(kernel);
    ASSERT_EQ(recognised.formula() == nullptr, kernel.formula.empty());
    if (recognised.formula() == nullptr) continue;
    EXPECT_EQ(recognised.formula()->name(), kernel.formula);
    // Held against the interpreter far from where it was confirmed, with another seed.
    const FormulaSample sample = recognised.formula()->Sample(3, 0, 1);
    const std::vector<ReferenceValue> own = recognised.Interpret(3, sample.elements);
    double sum = 0;
    for (const ReferenceValue& value : own) sum += value.value * value.value;
    const double scale = std::sqrt(sum / static_cast<double>(own.size()));
    for (size_t i = 0; i < own.size(); ++i) {
      ASSERT_NEAR(own[i].value, sample.values[i], 1e-6 * scale) << sample.elements[i];
    }
  }
}

}  // namespace
}  // namespace kiln::worker
