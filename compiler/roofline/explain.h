// Figures to sentences. Private to this folder.
#ifndef KILN_COMPILER_ROOFLINE_EXPLAIN_H_
#define KILN_COMPILER_ROOFLINE_EXPLAIN_H_

#include <map>
#include <string>

#include "compiler/roofline/piece.h"
#include "compiler/roofline/recommend.h"
#include "compiler/roofline/roles.h"

namespace kiln::roofline {

// The resource that is busy longest: "fma", "dram", ...
std::string BindingResource(const Price& price, const Figures& figures);

// Prediction, interval, bound, reason and risks; `config` is left to the caller.
Hint Explain(const Piece& piece, const Figures& figures, const target::Arch& arch);

// Whether a thread of the GPU may lack registers, as what is counted of them may be too few.
bool MayLackRegisters(const Figures& figures);

// Hint fields from the tunables' roles: block, rstep, thread, pipeline_stage, rasterization_plan,
// split_k.
void AddFields(Hint& hint, const std::map<std::string, Role>& roles);

}  // namespace kiln::roofline

#endif  // KILN_COMPILER_ROOFLINE_EXPLAIN_H_
