// Vectors: values of a few lanes, as T.Ramp, T.Broadcast, x[T.Ramp(i, 1, 4)] and
// T.Cast("float16x4", x[i:i + 4]) make them.
//
// A vector is a tuple of its lanes while a kernel is elaborated, and what is done to it is done to
// one lane after the other: programs know scalars alone, and making accesses wide is the compiler's
// work. Private to compiler/lang.
#ifndef KILN_COMPILER_LANG_VECTOR_H_
#define KILN_COMPILER_LANG_VECTOR_H_

#include <functional>
#include <optional>
#include <vector>

#include "compiler/lang/elaborator.h"

namespace kiln::lang {

inline constexpr size_t kMaxLanes = 64;

struct VectorObject : SeqObject {};  // of type Type::kTuple; each item is a scalar

bool IsVector(const Value& v);
Value NewVector(Elaborator& e, std::vector<Value> lanes);

// "float16x4": an element type and a number of lanes. nullopt for any other text.
std::optional<DType> ParseVectorType(absl::string_view name);

// The lanes of a vector, or the elements of a region of `count` of them; anything else is in every
// lane. InvalidArgument where there are other numbers of lanes.
absl::StatusOr<std::vector<Value>> LanesOf(Elaborator& e, const Value& v, size_t count,
                                           SourceLoc loc);

// `f` of the operands' lanes, as a vector. One of the operands is a vector, or `count` says how
// many lanes there are.
using LaneFunction = std::function<absl::StatusOr<Value>(const std::vector<Value>& lanes)>;
absl::StatusOr<Value> ByLane(Elaborator& e, SourceLoc loc, const std::vector<Value>& operands,
                             const LaneFunction& f, size_t count = 0);

// buffer[at[k]] = lane k of `value`: all lanes are read before the first store.
absl::Status StoreLanes(Elaborator& e, const std::vector<Value>& at, const Value& value,
                        SourceLoc loc);

// The same bits as elements of another type: a scalar where one holds them all.
absl::StatusOr<Value> RepackLanes(Elaborator& e, const Value& v, DType type, SourceLoc loc);

// A call of a function of scalars with vectors among its arguments, lane by lane; nullopt where
// there is none, or the function takes vectors as they are.
absl::StatusOr<std::optional<Value>> CallByLane(Elaborator& e, const Builtin& builtin,
                                                const BoundArgs& args);

BuiltinTable VectorBuiltins();

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_VECTOR_H_
