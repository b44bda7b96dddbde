// Sparse forms: matrices of which only some of each group of neighbours along k are not zero, as
// those alone (A, of half the depth) and where they stand (E, the metadata).
//
// E has four bits for each group of a row, the group with the smaller k in the lower bits of its
// element: two indices of two bits, the lower ones the first kept element's. Of elements of 8 and
// 16 bits a group is four and keeps two, whose indices ascend. Of 32 bits a group is two and keeps
// one, and the indices count halves of an element: 0 and 1 the first, 2 and 3 the second. Four
// zero bits, which tiles have outside of their tensors, stand for nothing but zeros, where the kept
// elements are zeros too. Other indices are no metadata: what comes of them is not defined. This is
// the meaning of E everywhere, whatever order an instruction wants it in.
#ifndef KILN_COMPILER_IR_SPARSE_H_
#define KILN_COMPILER_IR_SPARSE_H_

#include <cstdint>
#include <optional>

#include "compiler/ir/stmt.h"

namespace kiln::ir {

struct SparseForm {
  int64_t group;  // neighbours along k
  int64_t kept;   // of them
};
inline constexpr int kMetadataBits = 4;  // of a group

bool HasSparseForm(DType element);  // integers and floats of 8 bits, floats of 16 and float32
bool IsMetadata(DType type);        // integers of 8, 16 and 32 bits
SparseForm SparseFormOf(DType element);
// Elements of the whole matrix that one element of metadata is about.
int64_t DensePerMetadata(DType element, DType metadata);

// Where group `bits` of metadata has its `i`th element; nullopt where that is no metadata.
std::optional<int64_t> PlaceInGroup(DType element, int64_t bits, int64_t i);

struct SparseMatrix {
  Region a, e;
  bool trans_a = false, trans_e = false;
};

// Element `place` of group `group` in row `row` of what `x` stands for. int32.
Expr DenseElement(const SparseMatrix& x, const Expr& row, const Expr& group, const Expr& place);

// The parallel loop that writes all of a matrix to the whole of `dense`, [rows, depth] of A's type;
// and what such a loop expands, nullopt for any other.
Stmt Expand(const SparseMatrix& x, const Buffer& dense, SourceLoc loc);
std::optional<SparseMatrix> ExpandedBy(const Stmt& s, const Buffer& dense);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_SPARSE_H_
