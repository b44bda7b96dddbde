#include "compiler/ir/access.h"

#include <limits>

namespace kiln::ir {

Expr AndPredicate(const Expr& a, const Expr& b) {
  if (!a.defined()) return b;
  if (!b.defined()) return a;
  return a && b;
}

Expr Extreme(DType type, bool greatest) {
  const double infinity = std::numeric_limits<double>::infinity();
  if (type.is_float()) return MakeFloat(greatest ? infinity : -infinity, type);
  if (type.is_uint()) return MakeInt(greatest ? -1 : 0, type);
  const int64_t least = std::numeric_limits<int64_t>::min() >> (64 - type.bits);
  return MakeInt(greatest ? -1 - least : least, type);
}

}  // namespace kiln::ir
