#include "worker/profile/formula.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "compiler/base/int_math.h"
#include "compiler/base/rng.h"
#include "compiler/interp/gemm_kernel.h"
#include "worker/profile/parallel.h"
#include "worker/profile/tensors.h"

namespace kiln::worker {
namespace {

constexpr int64_t kFinestPitch = 16;
constexpr int64_t kFinestRows = 64;  // of attention, whose tiles of many queries are as high
constexpr int64_t kManyRows = 1024;
constexpr int64_t kAttentionColumns =
    8;  // as narrow as a part of a tile that one instruction makes
constexpr int64_t kProbeSide = 4;
constexpr int64_t kProductDepth = 1024;      // of a product that is gathered at once
constexpr int64_t kProjectedRows = 64;       // that are gathered at once
constexpr int64_t kMostProjected = 1 << 21;  // numbers of B x that are made at once
constexpr int64_t kKeys = 256;               // of attention, likewise
constexpr double kProductBudget = 0.6e9;     // multiplications of a sample
constexpr double kAttentionBudget = 4e9;
// A kernel's constants may be float32 numbers, which the interpreter takes as they are.
constexpr double kAgreement = 1e-6;

// One index of every `pitch`, with the first and the last one.
std::vector<int64_t> OneOfEvery(int64_t pitch, int64_t extent, Rng* random) {
  std::vector<int64_t> picked;
  for (int64_t first = 0; first < extent; first += pitch) {
    const auto width = static_cast<uint64_t>(std::min(pitch, extent - first));
    picked.push_back(first + static_cast<int64_t>(random->Below(width)));
  }
  if (extent > 0) picked.front() = 0;
  if (picked.size() > 1) picked.back() = extent - 1;
  return picked;
}

std::vector<int64_t> Counted(int64_t count) {
  std::vector<int64_t> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), int64_t{0});
  return all;
}

double RootMeanSquare(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return std::sqrt(sum / static_cast<double>(std::max<size_t>(values.size(), 1)));
}

bool Agree(const std::vector<double>& got, const std::vector<double>& want) {
  const double allowed = kAgreement * RootMeanSquare(want);
  for (size_t i = 0; i < want.size(); ++i) {
    if (!(std::abs(got[i] - want[i]) <= allowed)) return false;
  }
  return allowed > 0;  // numbers that are all zero confirm nothing
}

// Memory offset of an index, in elements.
int64_t OffsetAt(const TensorShape& tensor, const std::vector<int64_t>& index) {
  int64_t offset = 0;
  for (size_t d = 0; d < index.size(); ++d) offset += index[d] * tensor.strides[d];
  return offset;
}

int64_t StrideOf(const TensorShape& tensor, size_t from_last) {
  return tensor.strides[tensor.strides.size() - 1 - from_last];
}

// ---------------------------------------------------------------------------------------------
// C[.., m, n] = f(alpha * sum over k of A[.., m, k] B[.., k, n] + bias[n])

struct Operand {
  int tensor = 0;
  bool transposed = false;  // [k, m], or [n, k]
  bool batched = false;
};

enum class Tail { kNone, kRelu, kSilu, kGelu };
constexpr const char* kTailNames[] = {"", "relu of ", "silu of ", "gelu of "};

double ApplyTail(Tail tail, double x) {
  switch (tail) {
    case Tail::kNone:
      return x;
    case Tail::kRelu:
      return std::max(x, 0.0);
    case Tail::kSilu:
      return x / (1 + std::exp(-x));
    case Tail::kGelu:  // by tanh
      return x / (1 + std::exp(-1.5957691216 * (x + 0.044715 * x * x * x)));
  }
  return x;
}

class Product : public Formula {
 public:
  Product(const BoundManifest& manifest, int output, int row_axis, Operand a, Operand b, int bias,
          int64_t depth)
      : Formula(manifest.tensors[static_cast<size_t>(output)], row_axis),
        tensors_(manifest.tensors),
        a_(a),
        b_(b),
        bias_(bias),
        depth_(depth) {}

  std::string name() const override {
    const auto side = [&](const Operand& operand, const char* plain, const char* transposed) {
      return absl::StrCat(tensors_[static_cast<size_t>(operand.tensor)].name,
                          operand.transposed ? transposed : plain);
    };
    std::string text = absl::StrCat(kTailNames[static_cast<int>(tail_)], side(a_, "[m,k]", "[k,m]"),
                                    " ", side(b_, "[k,n]", "[n,k]"));
    if (alpha_ != 1) absl::StrAppend(&text, " * ", alpha_);
    if (bias_ >= 0) absl::StrAppend(&text, " + ", tensors_[static_cast<size_t>(bias_)].name, "[n]");
    return text;
  }

  bool Confirm(uint64_t seed, const std::vector<int64_t>& elements,
               const std::vector<double>& values) override {
    alpha_ = 1;
    tail_ = Tail::kNone;
    const std::vector<double> plain = At(seed, elements);
    if (Agree(plain, values)) return true;
    for (const Tail tail : {Tail::kRelu, Tail::kSilu, Tail::kGelu}) {
      std::vector<double> after;
      for (const double x : plain) after.push_back(ApplyTail(tail, x));
      tail_ = tail;
      if (Agree(after, values)) return true;
    }
    tail_ = Tail::kNone;
    return ConfirmScaled(seed, elements, values);
  }

 protected:
  void Compute(uint64_t seed, int64_t plane, const std::vector<int64_t>& rows,
               const std::vector<int64_t>& columns, double* out) const override {
    const auto m = static_cast<int64_t>(rows.size()), n = static_cast<int64_t>(columns.size());
    std::vector<double> left(static_cast<size_t>(m * kProductDepth));
    std::vector<double> right(static_cast<size_t>(n * kProductDepth));
    std::vector<double> line(static_cast<size_t>(kProductDepth));
    std::fill_n(out, m * n, 0.0);
    for (int64_t first = 0; first < depth_; first += kProductDepth) {
      const int64_t depth = std::min(kProductDepth, depth_ - first);
      for (int64_t i = 0; i < m; ++i) {
        Line(seed, a_, plane, rows[static_cast<size_t>(i)], first, depth, a_.transposed,
             &left[static_cast<size_t>(i * depth)]);
      }
      for (int64_t j = 0; j < n; ++j) {
        Line(seed, b_, plane, columns[static_cast<size_t>(j)], first, depth, !b_.transposed,
             line.data());
        for (int64_t k = 0; k < depth; ++k) {
          right[static_cast<size_t>(k * n + j)] = line[static_cast<size_t>(k)];
        }
      }
      interp::GemmF64(m, n, depth, left.data(), right.data(), out);
    }
    Finish(seed, columns, m, out);
  }

  bool projects() const override { return tail_ == Tail::kNone; }
  // Freivalds: A (B x) in place of (A B) x.
  std::vector<double> Project(uint64_t seed, const std::vector<double>& factors,
                              int64_t width) const override {
    const int64_t stretches = CeilDiv(columns_, width);
    std::vector<double> sums(static_cast<size_t>(planes_ * rows_ * stretches), 0.0);
    // Of narrow matrices B x takes more room than B.
    const int64_t most = kMostProjected / stretches;
    const int64_t depth = std::max(most / kProductDepth, int64_t{1}) * kProductDepth;
    const int64_t planes =
        b_.batched ? std::max(most / std::min(depth, depth_), int64_t{1}) : planes_;
    for (int64_t plane = 0; plane < planes_; plane += planes) {
      for (int64_t first = 0; first < depth_; first += depth) {
        AddProjected(
            seed, factors, width,
            {plane, std::min(planes_, plane + planes), first, std::min(depth_, first + depth)},
            &sums);
      }
    }
    ProjectBias(seed, factors, width, &sums);
    return sums;
  }

  double budget() const override { return kProductBudget; }
  double Cost(int64_t rows, int64_t columns) const override {
    return static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(depth_);
  }
  int64_t finest_pitch() const override { return kFinestPitch; }
  int64_t ColumnPitch(int64_t row_pitch) const override { return row_pitch; }

 private:
  // Some planes, and a part of k.
  struct Part {
    int64_t first_plane, end_plane, first, end;
    int64_t planes() const { return end_plane - first_plane; }
    int64_t depth() const { return end - first; }
  };

  // sums += A (B x), of a part.
  void AddProjected(uint64_t seed, const std::vector<double>& factors, int64_t width,
                    const Part& part, std::vector<double>* sums) const {
    const std::vector<double> right = ProjectRight(seed, factors, width, part);
    const int64_t stretches = CeilDiv(columns_, width), blocks = CeilDiv(rows_, kProjectedRows);
    ParallelTasks(part.planes() * blocks, [&](int64_t task) {
      const int64_t at = task / blocks, row = task % blocks * kProjectedRows;
      const int64_t plane = part.first_plane + at;
      const int64_t count = std::min(kProjectedRows, rows_ - row);
      double* out = &(*sums)[static_cast<size_t>((plane * rows_ + row) * stretches)];
      std::vector<double> left(static_cast<size_t>(count * kProductDepth));
      for (int64_t first = part.first; first < part.end; first += kProductDepth) {
        const int64_t depth = std::min(kProductDepth, part.end - first);
        for (int64_t i = 0; i < count; ++i) {
          Line(seed, a_, plane, row + i, first, depth, a_.transposed,
               &left[static_cast<size_t>(i * depth)]);
        }
        const int64_t of = b_.batched ? at : 0;
        const auto begin =
            static_cast<size_t>((of * part.depth() + first - part.first) * stretches);
        interp::GemmF64(count, stretches, depth, left.data(), &right[begin], out);
      }
    });
  }

  // B x of each stretch: [plane, k, stretch] of a part; one plane where all share B.
  std::vector<double> ProjectRight(uint64_t seed, const std::vector<double>& factors, int64_t width,
                                   const Part& part) const {
    const int64_t stretches = CeilDiv(columns_, width);
    const int64_t depth =
        std::clamp(CeilDiv(part.depth(), ParallelWidth()), int64_t{64}, kProductDepth);
    const int64_t pieces = CeilDiv(part.depth(), depth);
    const int64_t planes = b_.batched ? part.planes() : 1;
    std::vector<double> right(static_cast<size_t>(planes * part.depth() * stretches));
    ParallelTasks(planes * pieces, [&](int64_t task) {
      const int64_t plane = task / pieces, from = task % pieces * depth;
      const int64_t first = part.first + from;
      const int64_t count = std::min(depth, part.end - first);
      std::vector<double> line(static_cast<size_t>(count)), sums(static_cast<size_t>(count));
      for (int64_t s = 0; s < stretches; ++s) {
        std::fill(sums.begin(), sums.end(), 0.0);
        for (int64_t j = s * width; j < std::min(columns_, (s + 1) * width); ++j) {
          Line(seed, b_, part.first_plane + plane, j, first, count, !b_.transposed, line.data());
          const double factor = factors[static_cast<size_t>(j)];
          for (size_t k = 0; k < sums.size(); ++k) sums[k] += factor * line[k];
        }
        double* out = &right[static_cast<size_t>((plane * part.depth() + from) * stretches + s)];
        for (size_t k = 0; k < sums.size(); ++k) out[static_cast<int64_t>(k) * stretches] = sums[k];
      }
    });
    return right;
  }

  void ProjectBias(uint64_t seed, const std::vector<double>& factors, int64_t width,
                   std::vector<double>* sums) const {
    const std::vector<double> bias = Bias(seed, Counted(columns_));
    const int64_t stretches = CeilDiv(columns_, width);
    std::vector<double> added(static_cast<size_t>(stretches), 0.0);
    for (int64_t j = 0; j < columns_; ++j) {
      const auto at = static_cast<size_t>(j);
      added[static_cast<size_t>(j / width)] += factors[at] * bias[at];
    }
    for (size_t i = 0; i < sums->size(); ++i) {
      (*sums)[i] = alpha_ * (*sums)[i] + added[i % added.size()];
    }
  }

  std::vector<double> Bias(uint64_t seed, const std::vector<int64_t>& columns) const {
    std::vector<double> bias(columns.size(), 0.0);
    for (size_t j = 0; bias_ >= 0 && j < bias.size(); ++j) {
      const TensorShape& shape = tensors_[static_cast<size_t>(bias_)];
      bias[j] = SeededValue(seed, bias_, shape.type, columns[j] * shape.strides[0]);
    }
    return bias;
  }

  // What lies between the sums and the output.
  void Finish(uint64_t seed, const std::vector<int64_t>& columns, int64_t rows, double* out) const {
    const auto n = static_cast<int64_t>(columns.size());
    const std::vector<double> bias = Bias(seed, columns);
    for (int64_t i = 0; i < rows * n; ++i) {
      out[i] = ApplyTail(tail_, alpha_ * out[i] + bias[static_cast<size_t>(i % n)]);
    }
  }

  // Elements first, first + 1, .. along k of row (or column) `index` of an operand, k being its
  // last dimension but one where `k_outside`.
  void Line(uint64_t seed, const Operand& operand, int64_t plane, int64_t index, int64_t first,
            int64_t count, bool k_outside, double* out) const {
    const TensorShape& tensor = tensors_[static_cast<size_t>(operand.tensor)];
    int64_t offset = 0;
    if (operand.batched) {
      std::vector<int64_t> at = PlaneIndex(plane);
      at[at.size() - 1] = at[at.size() - 2] = 0;
      offset = OffsetAt(tensor, at);
    }
    const int64_t step = StrideOf(tensor, k_outside ? 1 : 0);
    offset += index * StrideOf(tensor, k_outside ? 0 : 1) + first * step;
    SeededValues(seed, operand.tensor, tensor.type, offset, step, count, out);
  }

  // alpha by least squares.
  bool ConfirmScaled(uint64_t seed, const std::vector<int64_t>& elements,
                     const std::vector<double>& values) {
    alpha_ = 0;
    const std::vector<double> bias = At(seed, elements);
    alpha_ = 1;
    const std::vector<double> plain = At(seed, elements);
    double up = 0, down = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double sum = plain[i] - bias[i];
      up += sum * (values[i] - bias[i]);
      down += sum * sum;
    }
    if (!(down > 0)) return false;
    alpha_ = up / down;
    return Agree(At(seed, elements), values);
  }

  const std::vector<TensorShape> tensors_;
  const Operand a_, b_;
  const int bias_;  // -1: none
  const int64_t depth_;
  double alpha_ = 1;
  Tail tail_ = Tail::kNone;
};

// How a tensor can be a [.., x, y] operand of an output with `batch` leading dimensions.
std::vector<std::pair<Operand, int64_t>> OperandsOf(const TensorShape& tensor, int index,
                                                    const TensorShape& output, int64_t extent,
                                                    bool left) {
  std::vector<std::pair<Operand, int64_t>> found;
  const size_t rank = tensor.shape.size(), out_rank = output.shape.size();
  if (rank < 2) return found;
  const bool batched = rank == out_rank && rank > 2;
  if (!batched && rank != 2) return found;
  for (size_t d = 0; batched && d + 2 < rank; ++d) {
    if (tensor.shape[d] != output.shape[d]) return found;
  }
  const int64_t before = tensor.shape[rank - 2], last = tensor.shape[rank - 1];
  if (left ? before == extent : last == extent) {
    found.push_back({{index, false, batched}, left ? last : before});
  }
  if (left ? last == extent : before == extent) {
    found.push_back({{index, true, batched}, left ? before : last});
  }
  return found;
}

void AddProducts(const BoundManifest& manifest, int output, const std::vector<int>& inputs,
                 std::vector<std::unique_ptr<Formula>>* found) {
  const TensorShape& out = manifest.tensors[static_cast<size_t>(output)];
  if (out.shape.size() < 2 || inputs.size() < 2 || inputs.size() > 3) return;
  const int64_t n = out.shape.back(), m = out.shape[out.shape.size() - 2];
  const auto row_axis = static_cast<int>(out.shape.size()) - 2;
  for (const int a : inputs) {
    for (const int b : inputs) {
      if (a == b) continue;
      int bias = -1;
      bool fits = true;
      for (const int other : inputs) {
        if (other == a || other == b) continue;
        bias = other;
        fits = manifest.tensors[static_cast<size_t>(other)].shape == std::vector<int64_t>{n};
      }
      if (!fits) continue;
      const TensorShape& left = manifest.tensors[static_cast<size_t>(a)];
      const TensorShape& right = manifest.tensors[static_cast<size_t>(b)];
      for (const auto& [x, depth] : OperandsOf(left, a, out, m, true)) {
        for (const auto& [y, same] : OperandsOf(right, b, out, n, false)) {
          if (depth != same) continue;
          found->push_back(
              std::make_unique<Product>(manifest, output, row_axis, x, y, bias, depth));
        }
      }
    }
  }
}

// ---------------------------------------------------------------------------------------------
// O[.., s, :] = sum over l of softmax over l of (alpha Q[.., s, :] K[.., l, :]) V[.., l, :]

// e^x for |x| <= 700, to a few units of the last place: 2^k times a Taylor sum of |r| <= ln 2 / 2.
__attribute__((always_inline)) inline double Exponential(double x) {
  constexpr double kShift = 0x1.8p52;
  const double shifted = x * 1.4426950408889634 + kShift;
  const double k = shifted - kShift;
  const double r = (x - k * 0x1.62e42fee00000p-1) - k * 0x1.a39ef35793c76p-33;
  double sum = 1.0 / 6227020800.0;
  constexpr double kTerms[] = {1.0 / 479001600,
                               1.0 / 39916800,
                               1.0 / 3628800,
                               1.0 / 362880,
                               1.0 / 40320,
                               1.0 / 5040,
                               1.0 / 720,
                               1.0 / 120,
                               1.0 / 24,
                               1.0 / 6,
                               0.5,
                               1.0,
                               1.0};
  for (const double term : kTerms) sum = sum * r + term;
  uint64_t power;
  std::memcpy(&power, &shifted, sizeof(power));
  power = (power + 1023) << 52;
  double scale;
  std::memcpy(&scale, &power, sizeof(scale));
  return sum * scale;
}

__attribute__((always_inline)) inline void WeighBody(double alpha, int64_t count, double* scores,
                                                     double* sums) {
  for (int64_t i = 0; i < count; ++i) {
    scores[i] = Exponential(alpha * scores[i]);
    sums[i] += scores[i];
  }
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void WeighAvx2(double alpha, int64_t count, double* scores,
                                               double* sums) {
  WeighBody(alpha, count, scores, sums);
}
#endif

// scores = e^(alpha scores); sums += that.
void Weigh(double alpha, int64_t count, double* scores, double* sums) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2")) return WeighAvx2(alpha, count, scores, sums);
#endif
  WeighBody(alpha, count, scores, sums);
}

class Attention : public Formula {
 public:
  Attention(const BoundManifest& manifest, int output, int row_axis, const std::vector<int>& inputs,
            bool causal)
      : Formula(manifest.tensors[static_cast<size_t>(output)], row_axis),
        tensors_(manifest.tensors),
        q_(inputs[0]),
        k_(inputs[1]),
        v_(inputs[2]),
        causal_(causal),
        keys_(Shape(k_).shape[static_cast<size_t>(row_axis)]),
        dim_(Shape(q_).shape.back()),
        alpha_(1 / std::sqrt(static_cast<double>(dim_))) {}

  std::string name() const override {
    return absl::StrCat(causal_ ? "causal " : "", "attention of ", Shape(q_).name, ", ",
                        Shape(k_).name, ", ", Shape(v_).name);
  }

  bool Confirm(uint64_t seed, const std::vector<int64_t>& elements,
               const std::vector<double>& values) override {
    return Agree(At(seed, elements), values);
  }

 protected:
  // Inputs are within [-1, 1], so that |scores| <= sqrt(dim) and nothing overflows.
  void Compute(uint64_t seed, int64_t plane, const std::vector<int64_t>& rows,
               const std::vector<int64_t>& columns, double* out) const override {
    const auto m = static_cast<int64_t>(rows.size()), n = static_cast<int64_t>(columns.size());
    const auto at = [](int64_t count) { return static_cast<size_t>(count); };
    std::vector<double> queries(at(dim_ * m)), line(at(std::max(dim_, kKeys)));
    for (int64_t i = 0; i < m; ++i) {
      Line(seed, q_, plane, rows[at(i)], line.data());
      for (int64_t d = 0; d < dim_; ++d) queries[at(d * m + i)] = line[at(d)];
    }
    std::vector<double> keys(at(kKeys * dim_)), values(at(n * kKeys)),
        value(Shape(v_).shape.back());
    std::vector<double> scores(at(kKeys * m)), weighted(at(n * m), 0.0), sums(at(m), 0.0);
    const int64_t past = keys_ - rows_;
    const int64_t seen = causal_ ? std::min(keys_, rows.back() + past + 1) : keys_;
    for (int64_t first = 0; first < seen; first += kKeys) {
      const int64_t count = std::min(kKeys, seen - first);
      for (int64_t l = 0; l < count; ++l) {
        Line(seed, k_, plane, first + l, &keys[at(l * dim_)]);
        const int64_t row = OffsetOfRow(v_, plane, first + l);
        for (int64_t j = 0; j < n; ++j) {
          SeededValues(seed, v_, Shape(v_).type, row + columns[at(j)] * StrideOf(Shape(v_), 0), 1,
                       1, &values[at(j * count + l)]);
        }
      }
      std::fill_n(scores.data(), count * m, 0.0);
      interp::GemmF64(count, m, dim_, keys.data(), queries.data(), scores.data());
      for (int64_t l = 0; l < count; ++l) {
        // Rows ascend: the first ones may not see this key.
        const auto blind =
            causal_ ? std::lower_bound(rows.begin(), rows.end(), first + l - past) - rows.begin()
                    : 0;
        std::fill_n(&scores[at(l * m)], blind, 0.0);
        Weigh(alpha_, m - blind, &scores[at(l * m + blind)], &sums[at(blind)]);
      }
      interp::GemmF64(n, m, count, values.data(), scores.data(), weighted.data());
    }
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) out[i * n + j] = weighted[at(j * m + i)] / sums[at(i)];
    }
  }

  double budget() const override { return kAttentionBudget; }
  double Cost(int64_t rows, int64_t columns) const override {
    return static_cast<double>(rows) * static_cast<double>(keys_) *
           static_cast<double>(dim_ + columns) * (causal_ ? 0.5 : 1);
  }
  int64_t finest_pitch() const override { return rows_ < kManyRows ? kFinestPitch : kFinestRows; }
  // A row's scores are what it costs, and serve all its columns.
  int64_t ColumnPitch(int64_t) const override { return kAttentionColumns; }

 private:
  const TensorShape& Shape(int tensor) const { return tensors_[static_cast<size_t>(tensor)]; }

  // Where row `row` of a tensor begins, in the plane that serves this plane of the output: fewer
  // heads of keys than of queries are shared by neighbours.
  int64_t OffsetOfRow(int tensor, int64_t plane, int64_t row) const {
    const TensorShape& shape = Shape(tensor);
    std::vector<int64_t> index = PlaneIndex(plane);
    for (size_t d = 0; d < index.size(); ++d) {
      index[d] = index[d] * shape.shape[d] / output_.shape[d];
    }
    index[static_cast<size_t>(row_axis_)] = row;
    index.back() = 0;
    return OffsetAt(shape, index);
  }
  void Line(uint64_t seed, int tensor, int64_t plane, int64_t row, double* out) const {
    const TensorShape& shape = Shape(tensor);
    SeededValues(seed, tensor, shape.type, OffsetOfRow(tensor, plane, row), StrideOf(shape, 0),
                 shape.shape.back(), out);
  }

  const std::vector<TensorShape> tensors_;
  const int q_, k_, v_;
  const bool causal_;
  const int64_t keys_, dim_;
  const double alpha_;
};

bool FitAttention(const BoundManifest& manifest, const TensorShape& out,
                  const std::vector<int>& inputs, size_t row_axis) {
  const auto& q = manifest.tensors[static_cast<size_t>(inputs[0])];
  const auto& k = manifest.tensors[static_cast<size_t>(inputs[1])];
  const auto& v = manifest.tensors[static_cast<size_t>(inputs[2])];
  const size_t rank = out.shape.size();
  for (const TensorShape* tensor : {&q, &k, &v}) {
    if (tensor->shape.size() != rank || !tensor->type.is_float()) return false;
  }
  for (size_t d = 0; d + 1 < rank; ++d) {
    if (q.shape[d] != out.shape[d] || k.shape[d] != v.shape[d] || k.shape[d] == 0) return false;
    if (d != row_axis && q.shape[d] % k.shape[d] != 0) return false;
  }
  return q.shape.back() == k.shape.back() && v.shape.back() == out.shape.back();
}

void AddAttention(const BoundManifest& manifest, int output, const std::vector<int>& inputs,
                  std::vector<std::unique_ptr<Formula>>* found) {
  const TensorShape& out = manifest.tensors[static_cast<size_t>(output)];
  if (inputs.size() != 3 || out.shape.size() < 2) return;
  std::vector<size_t> axes(out.shape.size() - 1);
  std::iota(axes.begin(), axes.end(), size_t{0});
  std::stable_sort(axes.begin(), axes.end(),
                   [&](size_t a, size_t b) { return out.shape[a] > out.shape[b]; });
  for (const size_t axis : axes) {
    if (!FitAttention(manifest, out, inputs, axis)) continue;
    const int64_t keys = manifest.tensors[static_cast<size_t>(inputs[1])].shape[axis];
    for (const bool causal : {false, true}) {
      if (causal && keys < out.shape[axis]) continue;
      found->push_back(
          std::make_unique<Attention>(manifest, output, static_cast<int>(axis), inputs, causal));
    }
  }
}

}  // namespace

std::string FormulaSample::ToString() const {
  return absl::StrCat("one of every ", row_pitch, " x ", column_pitch);
}

Formula::Formula(TensorShape output, int row_axis)
    : output_(std::move(output)), row_axis_(row_axis) {
  rows_ = output_.shape[static_cast<size_t>(row_axis_)];
  columns_ = output_.shape.back();
  planes_ = output_.elements / std::max<int64_t>(rows_ * columns_, 1);
}

std::vector<int64_t> Formula::PlaneIndex(int64_t plane) const {
  std::vector<int64_t> index(output_.shape.size(), 0);
  for (size_t d = index.size() - 1; d-- > 0;) {
    if (static_cast<int>(d) == row_axis_) continue;
    index[d] = plane % output_.shape[d];
    plane /= output_.shape[d];
  }
  return index;
}

int64_t Formula::FlatIndex(int64_t plane, int64_t row, int64_t column) const {
  std::vector<int64_t> index = PlaneIndex(plane);
  index[static_cast<size_t>(row_axis_)] = row;
  index.back() = column;
  int64_t flat = 0;
  for (size_t d = 0; d < index.size(); ++d) flat = flat * output_.shape[d] + index[d];
  return flat;
}

std::vector<double> Formula::At(uint64_t seed, const std::vector<int64_t>& elements) const {
  struct Place {
    int64_t row, column;
    size_t element;
  };
  std::map<int64_t, std::vector<Place>> planes;
  for (size_t e = 0; e < elements.size(); ++e) {
    int64_t flat = elements[e], plane = 0, step = 1;
    Place place{0, 0, e};
    for (size_t d = output_.shape.size(); d-- > 0; flat /= output_.shape[d]) {
      const int64_t index = flat % output_.shape[d];
      if (d + 1 == output_.shape.size()) {
        place.column = index;
      } else if (static_cast<int>(d) == row_axis_) {
        place.row = index;
      } else {
        plane += index * step;
        step *= output_.shape[d];
      }
    }
    planes[plane].push_back(place);
  }
  std::vector<double> values(elements.size());
  for (const auto& [plane, places] : planes) {
    std::set<int64_t> rows, columns;
    for (const Place& place : places) rows.insert(place.row), columns.insert(place.column);
    std::vector<double> box(rows.size() * columns.size());
    Compute(seed, plane, {rows.begin(), rows.end()}, {columns.begin(), columns.end()}, box.data());
    for (const Place& place : places) {
      const auto i = std::distance(rows.begin(), rows.find(place.row));
      const auto j = std::distance(columns.begin(), columns.find(place.column));
      values[place.element] = box[static_cast<size_t>(i) * columns.size() + static_cast<size_t>(j)];
    }
  }
  return values;
}

std::vector<double> Formula::Project(uint64_t, const std::vector<double>&, int64_t) const {
  return {};
}

std::vector<int64_t> Formula::Probes() const {
  const auto middle = [](int64_t extent) { return extent * 3 / 8 / kProbeSide * kProbeSide; };
  std::vector<int64_t> probes;
  for (int64_t i = 0; i < std::min(rows_, kProbeSide); ++i) {
    for (int64_t j = 0; j < std::min(columns_, kProbeSide); ++j) {
      probes.push_back(FlatIndex(planes_ / 2, middle(rows_) + i, middle(columns_) + j));
    }
  }
  return probes;
}

FormulaSample Formula::Sample(uint64_t seed, int turn, int turns) const {
  std::vector<int64_t> planes;
  for (int64_t plane = 0; plane < planes_; ++plane) {
    if (planes_ < turns || plane % turns == turn) planes.push_back(plane);
  }
  FormulaSample sample;
  int64_t pitch = finest_pitch();
  while (pitch < std::max(rows_, columns_) &&
         static_cast<double>(planes.size()) *
                 Cost(CeilDiv(rows_, pitch), CeilDiv(columns_, ColumnPitch(pitch))) >
             budget()) {
    pitch *= 2;
  }
  sample.row_pitch = pitch;
  sample.column_pitch = ColumnPitch(pitch);

  const int64_t per_plane = CeilDiv(rows_, pitch) * CeilDiv(columns_, sample.column_pitch);
  sample.elements.resize(planes.size() * static_cast<size_t>(per_plane));
  sample.values.resize(sample.elements.size());
  // Few planes are cut, so that all threads have work; the numbers do not depend on that.
  const int64_t wanted = CeilDiv(ParallelWidth(), static_cast<int64_t>(planes.size()));
  const int64_t height = CeilDiv(CeilDiv(rows_, pitch), wanted);
  const int64_t pieces = CeilDiv(CeilDiv(rows_, pitch), height);
  ParallelTasks(static_cast<int64_t>(planes.size()) * pieces, [&](int64_t task) {
    const int64_t plane = planes[static_cast<size_t>(task / pieces)];
    Rng random(seed * 0x9e3779b97f4a7c15ULL + static_cast<uint64_t>(plane));
    std::vector<int64_t> rows = OneOfEvery(pitch, rows_, &random);
    const std::vector<int64_t> columns = OneOfEvery(sample.column_pitch, columns_, &random);
    const int64_t first = task % pieces * height;
    const int64_t last = std::min<int64_t>(first + height, static_cast<int64_t>(rows.size()));
    rows = {rows.begin() + first, rows.begin() + last};
    const auto width = static_cast<int64_t>(columns.size());
    int64_t at = task / pieces * per_plane + first * width;
    Compute(seed, plane, rows, columns, &sample.values[static_cast<size_t>(at)]);
    for (const int64_t row : rows) {
      for (const int64_t column : columns) {
        sample.elements[static_cast<size_t>(at++)] = FlatIndex(plane, row, column);
      }
    }
  });
  return sample;
}

std::vector<std::unique_ptr<Formula>> FormulasFor(const BoundManifest& manifest, int output) {
  std::vector<std::unique_ptr<Formula>> found;
  const TensorShape& out = manifest.tensors[static_cast<size_t>(output)];
  std::vector<int> inputs;
  for (size_t i = 0; i < manifest.tensors.size(); ++i) {
    const TensorShape& tensor = manifest.tensors[i];
    if (static_cast<int>(i) == output) continue;
    if (tensor.output) continue;  // another output, or a workspace
    inputs.push_back(static_cast<int>(i));
  }
  if (out.accumulates || out.elements == 0) return found;
  AddProducts(manifest, output, inputs, &found);
  AddAttention(manifest, output, inputs, &found);
  return found;
}

}  // namespace kiln::worker
