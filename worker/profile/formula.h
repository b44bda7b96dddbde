// Closed forms of what kernels compute, matrix products and attention, in float64 and only where
// they are wanted: one row of every tile of a large output costs less than one block of the kernel
// does in the interpreter.
//
// A formula is guessed from the shapes of a kernel's tensors. It counts only after Confirm() has
// held it against numbers of the kernel itself, and no candidate is found wrong by a formula alone
// (check.h).
#ifndef KILN_WORKER_PROFILE_FORMULA_H_
#define KILN_WORKER_PROFILE_FORMULA_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "worker/profile/manifest.h"

namespace kiln::worker {

// Some elements of an output, by logical flat index, and what is right there.
struct FormulaSample {
  std::vector<int64_t> elements;
  std::vector<double> values;
  int64_t row_pitch = 1, column_pitch = 1;  // of every box of this size one element at least
  std::string ToString() const;             // "one of every 32 x 32"
};

// An output as planes of rows and columns: columns are its last dimension, rows another one.
class Formula {
 public:
  virtual ~Formula() = default;

  // "A[m, k] B[n, k]", "causal attention of Q, K, V".
  virtual std::string name() const = 0;

  // Settles what the shapes leave open (a factor, what follows a product) by numbers that the
  // kernel itself gave for `elements`; false when no choice explains all of them to six digits.
  virtual bool Confirm(uint64_t seed, const std::vector<int64_t>& elements,
                       const std::vector<double>& values) = 0;

  // One random row of every `row_pitch` and, of those, one column of every `column_pitch`; the
  // corners of each plane included. Pitches are powers of two from 16 or 64, as small as a
  // fixed amount of arithmetic allows. With several turns (seeds) and as many planes, a turn takes
  // those of its number; deterministic in its arguments.
  FormulaSample Sample(uint64_t seed, int turn, int turns) const;

  // Elements of one tile in the middle of the output, to confirm with.
  std::vector<int64_t> Probes() const;

  // Whether sums of a row's elements can be had without these (projection.h).
  virtual bool projects() const { return false; }
  // sums[(plane * rows + row) * stretches + s] = the sum over columns j of stretch s, `width` of
  // them but in the last one, of factors[j] times what is right at (row, j), in float64.
  virtual std::vector<double> Project(uint64_t seed, const std::vector<double>& factors,
                                      int64_t width) const;

  int64_t rows() const { return rows_; }
  int64_t columns() const { return columns_; }
  int64_t planes() const { return planes_; }
  int64_t FlatIndex(int64_t plane, int64_t row, int64_t column) const;
  // What is right at some elements, by logical flat index.
  std::vector<double> At(uint64_t seed, const std::vector<int64_t>& elements) const;

 protected:
  Formula(TensorShape output, int row_axis);

  // out[i * columns.size() + j]: row rows[i] and column columns[j] of a plane, in float64.
  virtual void Compute(uint64_t seed, int64_t plane, const std::vector<int64_t>& rows,
                       const std::vector<int64_t>& columns, double* out) const = 0;
  // Multiplications that a sample may take, and that one takes of so many rows and columns.
  virtual double budget() const = 0;
  virtual double Cost(int64_t rows, int64_t columns) const = 0;
  virtual int64_t finest_pitch() const = 0;
  virtual int64_t ColumnPitch(int64_t row_pitch) const = 0;

  // The index in each dimension of a plane's first element.
  std::vector<int64_t> PlaneIndex(int64_t plane) const;

  const TensorShape output_;
  const int row_axis_;
  int64_t rows_ = 1, columns_ = 1, planes_ = 1;
};

// The formulas that the shapes of a kernel's tensors allow for tensor `output`, the likeliest
// first; mostly none.
std::vector<std::unique_ptr<Formula>> FormulasFor(const BoundManifest& manifest, int output);

}  // namespace kiln::worker

#endif  // KILN_WORKER_PROFILE_FORMULA_H_
