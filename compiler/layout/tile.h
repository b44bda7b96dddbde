// Building big layouts from small ones, and taking them apart again.
//
// Shapes of one rank: dimension d of the result is (outer_d, inner_d), so its logical coordinate is
// outer coordinate * inner extent + inner coordinate.
#ifndef KILN_COMPILER_LAYOUT_TILE_H_
#define KILN_COMPILER_LAYOUT_TILE_H_

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/layout/layout.h"

namespace kiln::layout {

// Values that the layout takes on `axis`, largest minus smallest plus one, without offset and
// swizzle: how far apart two copies of it must be to lie side by side.
int64_t Footprint(const Layout& layout, Axis axis);

// Copies of `inner`, arranged by `outer`: T(p, q) = footprint(inner) * outer(p) + inner(q), axis by
// axis. The outer's replica and offset are scaled like its strides. A swizzle of the inner is one
// of the address space: it stays last, and the arrangement is refused (with the two values) unless
// it commutes with every shift that the outer makes. A swizzle of the outer is kept where the
// footprint is a power of two and the inner fills it from zero.
absl::StatusOr<Layout> Tile(const Layout& outer, absl::Span<const int64_t> outer_shape,
                            const Layout& inner, absl::Span<const int64_t> inner_shape);

// `tile` repeated row-major to fill `to`; every extent of `to` is a multiple of `shape`'s.
absl::StatusOr<Layout> TileTo(const Layout& tile, absl::Span<const int64_t> shape,
                              absl::Span<const int64_t> to);

// Without scaling: (A (+) B)(p, q) = A(p) + B(q). Swizzles as in Tile.
absl::StatusOr<Layout> DirectSum(const Layout& a, absl::Span<const int64_t> a_shape,
                                 const Layout& b, absl::Span<const int64_t> b_shape);

// Recognisers: the other factor, such that Tile or DirectSum of both is the given layout as a
// function; refused when there is none. Thread axes of the given layout are split where the known
// factor names narrower ones (tx into warpid and laneid).
absl::StatusOr<Layout> OuterFactor(const Layout& tiled, absl::Span<const int64_t> shape,
                                   const Layout& inner, absl::Span<const int64_t> inner_shape);
absl::StatusOr<Layout> InnerFactor(const Layout& tiled, absl::Span<const int64_t> shape,
                                   const Layout& outer, absl::Span<const int64_t> outer_shape);
absl::StatusOr<Layout> LeftSummand(const Layout& sum, absl::Span<const int64_t> shape,
                                   const Layout& b, absl::Span<const int64_t> b_shape);
absl::StatusOr<Layout> RightSummand(const Layout& sum, absl::Span<const int64_t> shape,
                                    const Layout& a, absl::Span<const int64_t> a_shape);

}  // namespace kiln::layout

#endif  // KILN_COMPILER_LAYOUT_TILE_H_
