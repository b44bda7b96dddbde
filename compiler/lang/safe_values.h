// T.annotate_safe_value: what is read outside of a tensor. Private to compiler/lang.
#ifndef KILN_COMPILER_LANG_SAFE_VALUES_H_
#define KILN_COMPILER_LANG_SAFE_VALUES_H_

#include <vector>

#include "absl/status/status.h"
#include "compiler/ir/views.h"
#include "compiler/lang/launch_state.h"

namespace kiln::lang {

// Makes the statements of a launch read `launch.outside` outside of the tensors it names and of
// views of them, wherever in the launch they stand: a load becomes a choice; a copy and an atomic
// update by a tile become loops over elements. Whatever else names such a tensor, but to write to
// it, is refused, so that an operation that is not known here is never wrong.
//
// Diagnostics. InvalidArgument: two values for one tensor, one that the launch computes, one for a
// view of another type. Unimplemented: an operation that reads such a tensor and is none of those.
absl::Status HeedSafeValues(const LaunchState& launch, const std::vector<ir::View>& views,
                            const SourceFile& source, std::vector<ir::Stmt>* stmts);

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_SAFE_VALUES_H_
