#include "compiler/ir/fixed.h"

#include <algorithm>

#include "compiler/ir/analysis.h"
#include "compiler/ir/visit.h"

namespace kiln::ir {

bool ReadsWhatChanges(const Expr& e, const Program& program) {
  if (!ReadsMemory(e)) return false;
  const std::vector<Buffer> written = BuffersWritten(program.body);
  const auto fixed = [&](const Buffer& b) {
    return std::count(written.begin(), written.end(), b) == 0 &&
           std::any_of(program.params.begin(), program.params.end(), [&](const Param& p) {
             return p.kind == Param::kTensor && !p.is_output && p.buffer == b;
           });
  };
  bool changes = false;
  Walk(e, [&](const Expr& x) {
    const auto* load = x.As<Load>();
    changes |= load != nullptr && !fixed(load->buffer);
    return !changes;
  });
  return changes;
}

}  // namespace kiln::ir
