// Moving a layout between thread axes: fusing narrow ones into the one that spans them, and
// splitting.
#ifndef KILN_COMPILER_LAYOUT_SCOPES_H_
#define KILN_COMPILER_LAYOUT_SCOPES_H_

#include "absl/status/statusor.h"
#include "compiler/layout/layout.h"

namespace kiln::layout {

// The outermost and innermost scope of the layout's thread axes; refused unless they form one
// chain.
absl::StatusOr<ScopeSpan> ScopeOf(const Layout& layout);

// All thread axes replaced by the one that spans them: {warpid, laneid} -> tx (warps of 32),
// {wid_in_wg, laneid} -> tid_in_wg, {wgid, wid_in_wg} -> warpid, {wgid, tid_in_wg} -> tx
// (warpgroups of 128). A layout without thread axes stays. Canonical form.
absl::StatusOr<Layout> FuseThreadAxes(const Layout& layout);

// The layout on the threads of a block of `threads`: fused, and what is on the threads of a
// warpgroup (tid_in_wg) or of a warp (laneid) on tx, for a block that is one. Refused for a larger
// block, where every warpgroup would hold a tile of its own. threads = 0 stands for a block of the
// right size.
absl::StatusOr<Layout> OnBlock(const Layout& layout, int64_t threads);

// Axis `axis` replaced by value / n on `high` and value mod n on `low`. Symbolic where no digit sum
// carries across n, by table otherwise; refused exactly when the result is not mixed radix.
absl::StatusOr<Layout> SplitAxis(const Layout& layout, Axis axis, int64_t n, Axis high, Axis low);

// `layout` with wide thread axes split where `like` names narrower ones (tx -> warpid, laneid or
// wgid, tid_in_wg; tid_in_wg -> wid_in_wg, laneid; warpid -> wgid, wid_in_wg). What cannot be split
// stays as it is.
Layout SplitLike(const Layout& layout, const Layout& like);

}  // namespace kiln::layout

#endif  // KILN_COMPILER_LAYOUT_SCOPES_H_
