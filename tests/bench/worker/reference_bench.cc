// What checking the numbers of a candidate costs the processor beside the GPU, at the shapes of
// large sweeps: no kernel runs, the outputs are written here. One line a case:
//
//   sq4096 check 0.21 s (interpreter 0.05, formula 0.10), next candidate 0.05 s, 131072 elements
//   ...
//
// `check` is the first candidate of a sweep, both seeds: the interpreter confirms the formula, the
// formula gives one element of every tile, and all elements are looked at, those of products in
// random projections; where there is no formula the interpreter computes some rows. `next` is a
// candidate whose sums were rounded differently. Seconds are those of one core; `by the clock`:
// until it was over, on the cores that there are.
#include <time.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/interp/gemm_kernel.h"
#include "compiler/templates/templates.h"
#include "tests/util/dense_tensor.h"
#include "worker/elapsed.h"
#include "worker/profile/check.h"
#include "worker/profile/fake_device.h"
#include "worker/profile/formula.h"
#include "worker/profile/interp_reference.h"
#include "worker/profile/parallel.h"

namespace kiln::worker {
namespace {

// Of all threads of this process: what one core would take, whoever else uses the machine.
double CpuSeconds() {
  timespec now;
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

[[noreturn]] void Fail(absl::string_view what) {
  std::fprintf(stderr, "reference_bench: %s\n", std::string(what).c_str());
  std::exit(1);
}

// Host memory in place of a GPU's; what a GPU does by itself is left out of the clock.
class BenchDevice : public FakeDevice {
 public:
  absl::Status Fill(void* to, uint8_t byte, int64_t bytes) override {
    return Outside([&] { return FakeDevice::Fill(to, byte, bytes); });
  }
  absl::StatusOr<uint64_t> Digest(const void* from, int64_t bytes) override {
    uint64_t first = 0;  // enough to tell the two candidates apart
    std::memcpy(&first, from, std::min<size_t>(sizeof(first), static_cast<size_t>(bytes)));
    return first;
  }
  absl::Status Read(void* to, const void* from, int64_t bytes) override {
    return Outside([&] { return FakeDevice::Read(to, from, bytes); });
  }
  absl::Status Launch(LoadedKernel* kernel, const LaunchArguments& arguments) override {
    return Outside([&] { return FakeDevice::Launch(kernel, arguments); });
  }
  double seconds = 0, clock = 0;  // of a core, and until it was over

 private:
  template <typename Body>
  absl::Status Outside(const Body& body) {
    const double begin = CpuSeconds();
    const auto now = std::chrono::steady_clock::now();
    absl::Status status = body();
    seconds += CpuSeconds() - begin;
    clock += SecondsSince(now);
    return status;
  }
};

using Rows = std::function<void(const std::vector<double>& x, std::vector<double>* out)>;
// C[m, n] = A[m, k] B[n, k] of the first two tensors.
struct Product {
  int64_t m, n, k;
};

struct Case {
  std::string name, kernel, config;
  std::map<std::string, std::string> arguments;
  std::vector<TensorShape> tensors;  // the last one is the output
  int64_t reduction = 1;
  Rows rows = {};  // of kernels over rows of the first tensor: one row of the output
  std::optional<Product> product = {};
};

Case ProductCase(const std::string& name, int64_t m, int64_t n, int64_t k) {
  Case c{name,
         "matmul",
         "block_K=64,block_M=128,block_N=256,num_stages=4,panel=0,threads=256",
         {{"M", absl::StrCat(m)},
          {"N", absl::StrCat(n)},
          {"K", absl::StrCat(k)},
          {"dtype", "bfloat16"},
          {"out_dtype", "bfloat16"},
          {"trans_B", "True"}},
         {DenseTensor("A", kBFloat16, {m, k}, false), DenseTensor("B", kBFloat16, {n, k}, false),
          DenseTensor("C", kBFloat16, {m, n}, true)},
         k};
  c.product = Product{m, n, k};
  return c;
}

Case SplitCase(const std::string& name, int64_t m, int64_t n, int64_t k) {
  Case c = ProductCase(name, m, n, k);
  c.kernel = "matmul_splitk";
  c.config = "block=512,block_K=128,block_M=128,block_N=128,num_stages=3,split=4,threads=256";
  c.arguments.erase("trans_B");
  return c;
}

Case RowsCase(const std::string& kernel, int64_t m, int64_t n, Rows rows) {
  Case c{absl::StrCat(kernel, m),
         kernel,
         "block_M=1,threads=256",
         {{"M", absl::StrCat(m)}, {"N", absl::StrCat(n)}, {"dtype", "bfloat16"}},
         {DenseTensor("x", kBFloat16, {m, n}, false)},
         n,
         std::move(rows)};
  if (kernel == "rmsnorm") c.tensors.push_back(DenseTensor("weight", kBFloat16, {n}, false));
  c.tensors.push_back(DenseTensor("out", kBFloat16, {m, n}, true));
  return c;
}

void Softmax(const std::vector<double>& x, std::vector<double>* out) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += (*out)[i] = std::exp(x[i]);
  for (double& value : *out) value /= sum;
}

void Norm(const std::vector<double>& x, std::vector<double>* out) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  const double scale = 1 / std::sqrt(sum / static_cast<double>(x.size()) + 1e-6);
  for (size_t i = 0; i < x.size(); ++i) (*out)[i] = x[i] * scale;
}

Case AttentionCase(const std::string& name, int64_t batch, int64_t heads, int64_t seq, int64_t dim,
                   bool causal) {
  const std::vector<int64_t> shape = {batch, seq, heads, dim};
  Case c{name,
         "attention",
         "block_M=128,block_N=128,num_stages=2,threads=256",
         {{"batch", absl::StrCat(batch)},
          {"heads", absl::StrCat(heads)},
          {"kv_heads", absl::StrCat(heads)},
          {"seq_q", absl::StrCat(seq)},
          {"seq_kv", absl::StrCat(seq)},
          {"dim", absl::StrCat(dim)},
          {"is_causal", causal ? "True" : "False"}},
         {DenseTensor("Q", kFloat16, shape, false), DenseTensor("K", kFloat16, shape, false),
          DenseTensor("V", kFloat16, shape, false), DenseTensor("Out", kFloat16, shape, true)},
         seq};
  return c;
}

class Bench {
 public:
  explicit Bench(const Case& c) : case_(c) {
    const KernelTemplate* kernel = FindKernelTemplate(c.kernel);
    inputs_.set_kernel_source(std::string(kernel->source));
    inputs_.set_kernel_path(c.kernel);
    inputs_.set_entry(std::string(kernel->entry));
    for (const auto& [key, value] : c.arguments) (*inputs_.mutable_arguments())[key] = value;
    manifest_.tensors = c.tensors;
    manifest_.reduction_length = c.reduction;
  }

  void Run() {
    auto tensors = *TensorSet::Create(&device_, manifest_, 2, {1, 2});
    tensors_ = tensors.get();
    Checker checker(&device_, tensors.get(), {}, int64_t{4} << 30, [] {});
    if (case_.rows || case_.product) {
      for (uint64_t seed : {1, 2}) outputs_.push_back(case_.rows ? Whole(seed) : Multiply(seed));
    }
    if (!case_.rows) FindSamples();
    std::string summary;
    const Cost first = Check(&checker, 0, &summary);
    const Cost next = Check(&checker, 1, nullptr);
    std::printf(
        "%s check %.2f s (interpreter %.2f, formula %.2f), by the clock %.2f s; "
        "next candidate %.2f s, by the clock %.2f s; %s\n",
        case_.name.c_str(), first.core, case_.rows ? first.core : interpreted_, sampled_,
        first.clock, next.core, next.clock, summary.c_str());
    std::fflush(stdout);
  }

 private:
  struct Cost {
    double core = 0, clock = 0;  // seconds
  };

  // One element of 64 in its last bit.
  void RoundOtherwise(uint8_t* out, int candidate) const {
    const TensorShape& shape = manifest_.tensors.back();
    for (int64_t i = 0; i < shape.elements; i += 64) {
      out[i * shape.type.bytes()] ^= static_cast<uint8_t>(candidate);
    }
  }

  // The output of a kernel over rows.
  Bytes Whole(uint64_t seed) const {
    const TensorShape& out = manifest_.tensors.back();
    const int64_t rows = out.shape[0], columns = out.shape[1];
    std::vector<double> weight(static_cast<size_t>(columns), 1.0);
    if (manifest_.tensors.size() > 2) {
      SeededValues(seed, 1, manifest_.tensors[1].type, 0, 1, columns, weight.data());
    }
    Bytes bytes(static_cast<size_t>(out.bytes()));
    ParallelTasks(rows, [&](int64_t row) {
      std::vector<double> x(static_cast<size_t>(columns)), y(x.size());
      SeededValues(seed, 0, manifest_.tensors[0].type, row * columns, 1, columns, x.data());
      case_.rows(x, &y);
      for (size_t i = 0; i < y.size(); ++i) {
        const int64_t at = row * columns + static_cast<int64_t>(i);
        StoreElement(&bytes[static_cast<size_t>(at * out.type.bytes())], out.type,
                     y[i] * weight[i]);
      }
    });
    return bytes;
  }

  // The output of a matrix product.
  Bytes Multiply(uint64_t seed) const {
    const auto [m, n, k] = *case_.product;
    std::vector<double> right(static_cast<size_t>(k * n));
    ParallelTasks(k, [&, n = n, k = k](int64_t row) {
      SeededValues(seed, 1, manifest_.tensors[1].type, row, k, n,
                   &right[static_cast<size_t>(row * n)]);
    });
    const TensorShape& out = manifest_.tensors.back();
    Bytes bytes(static_cast<size_t>(out.bytes()));
    constexpr int64_t kRows = 16;
    ParallelTasks(m / kRows, [&, n = n, k = k](int64_t task) {
      std::vector<double> left(static_cast<size_t>(kRows * k)),
          sums(static_cast<size_t>(kRows * n));
      SeededValues(seed, 0, manifest_.tensors[0].type, task * kRows * k, 1, kRows * k, left.data());
      interp::GemmF64(kRows, n, k, left.data(), right.data(), sums.data());
      for (size_t i = 0; i < sums.size(); ++i) {
        const auto at = static_cast<size_t>(task * kRows * n) + i;
        StoreElement(&bytes[at * static_cast<size_t>(out.type.bytes())], out.type, sums[i]);
      }
    });
    return bytes;
  }

  int output() const { return static_cast<int>(manifest_.tensors.size()) - 1; }

  // What the checker will look at, so that the stand-in kernel can be right there.
  void FindSamples() {
    for (std::unique_ptr<Formula>& formula : FormulasFor(manifest_, output())) {
      auto reference = *MakeInterpReference(inputs_, case_.config, manifest_);
      const double begin = CpuSeconds();
      auto own = reference->Evaluate(1, output(), formula->Probes());
      interpreted_ += (CpuSeconds() - begin);
      if (!own.ok()) Fail(own.status().message());
      std::vector<double> values;
      for (const ReferenceValue& value : *own) values.push_back(value.value);
      if (!formula->Confirm(1, formula->Probes(), values)) continue;
      const double confirmed = CpuSeconds();
      for (int copy = 0; copy < 2; ++copy) {
        samples_.push_back(formula->Sample(static_cast<uint64_t>(copy) + 1, copy, 2));
      }
      sampled_ = (CpuSeconds() - confirmed);
      return;
    }
    Fail("no formula fits");
  }

  Cost Check(Checker* checker, int candidate, std::string* summary) {
    const DType type = manifest_.tensors.back().type;
    device_.Define("kernel", {[&](const LaunchArguments& arguments) {
                     uint8_t* out = static_cast<uint8_t*>(arguments.pointers.back());
                     const int copy = out == tensors_->Arguments(0, {}).pointers.back() ? 0 : 1;
                     if (!outputs_.empty()) {
                       const Bytes& whole = outputs_[static_cast<size_t>(copy)];
                       std::memcpy(out, whole.data(), whole.size());
                       RoundOtherwise(out, candidate);
                       return absl::OkStatus();
                     }
                     std::memset(out, 0, static_cast<size_t>(manifest_.tensors.back().bytes()));
                     const FormulaSample& sample = samples_[static_cast<size_t>(copy)];
                     for (size_t i = 0; i < sample.elements.size(); ++i) {
                       StoreElement(out + sample.elements[i] * type.bytes(), type,
                                    sample.values[i]);
                     }
                     RoundOtherwise(out, candidate);
                     return absl::OkStatus();
                   }});
    v1::ArtifactBundle bundle;
    bundle.set_name("kernel");
    const std::unique_ptr<LoadedKernel> kernel = *device_.Load(bundle, 0);
    Checker::Candidate asked;
    asked.config = absl::StrCat("candidate=", candidate);
    asked.kernel = kernel.get();
    asked.manifest = &manifest_;
    asked.make_reference = [&] { return MakeInterpReference(inputs_, case_.config, manifest_); };
    device_.seconds = device_.clock = 0;
    const double begin = CpuSeconds();
    const auto clock = std::chrono::steady_clock::now();
    const absl::StatusOr<CheckReport> report = checker->Check(asked);
    const Cost cost = {CpuSeconds() - begin - device_.seconds, SecondsSince(clock) - device_.clock};
    if (!report.ok()) Fail(report.status().message());
    if (!report->passed) Fail(report->failure.DebugString());
    if (summary != nullptr) *summary = report->summary;
    return cost;
  }

  const Case case_;
  v1::SweepInputs inputs_;
  BoundManifest manifest_;
  BenchDevice device_;
  TensorSet* tensors_ = nullptr;
  std::vector<FormulaSample> samples_;
  std::vector<Bytes> outputs_;            // by seed; of attention none
  double interpreted_ = 0, sampled_ = 0;  // seconds
};

}  // namespace
}  // namespace kiln::worker

int main() {
  using namespace kiln::worker;
  for (const Case& c :
       {RowsCase("softmax", 8192, 8192, Softmax), RowsCase("rmsnorm", 8192, 8192, Norm),
        SplitCase("dec128_down", 128, 4096, 14336), ProductCase("sq1024", 1024, 1024, 1024),
        ProductCase("sq4096", 4096, 4096, 4096),
        ProductCase("gateup_2048x28672x4096", 2048, 28672, 4096),
        AttentionCase("attention_4x16x4096x128_causal", 4, 16, 4096, 128, true),
        AttentionCase("attention_1x16x16384x128", 1, 16, 16384, 128, false)}) {
    Bench(c).Run();
  }
  return 0;
}
