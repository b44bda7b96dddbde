#include "compiler/passes/explain_layouts.h"

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/band_tiles.h"
#include "compiler/passes/build.h"
#include "compiler/passes/fuse_sparse.h"
#include "compiler/passes/guard_accesses.h"
#include "compiler/passes/hold_sums.h"
#include "compiler/passes/instruct_gemm.h"
#include "compiler/passes/load_operands.h"
#include "compiler/passes/pipeline.h"
#include "compiler/passes/place_launch.h"
#include "compiler/passes/shared_tiles.h"
#include "compiler/passes/store_matrices.h"
#include "compiler/passes/tensor_box.h"
#include "compiler/target/legality.h"

namespace kiln::passes {
namespace {

using layout::Ownership;

constexpr int64_t kRows = 16, kColumns = 16;  // of a picture

// "3:1": slot 1 of thread 3; "0..63:0" of many; "-" of nobody.
std::string Cell(const Ownership& o, int64_t x) {
  if (!o.decided(x)) return "-";
  return absl::StrCat(layout::ToString(o.Owners(x)), ":", o.Slot(x));
}

std::string Picture(const Ownership& o, const std::vector<int64_t>& shape) {
  const int64_t columns = shape.empty() ? 1 : shape.back();
  if (columns == 0) return "";
  const int64_t rows = o.size() / columns;
  const int64_t shown_rows = std::min(rows, kRows), shown_columns = std::min(columns, kColumns);
  size_t width = 1;
  for (int64_t r = 0; r < shown_rows; ++r) {
    for (int64_t c = 0; c < shown_columns; ++c) {
      width = std::max(width, Cell(o, r * columns + c).size());
    }
  }
  std::string text;
  for (int64_t r = 0; r < shown_rows; ++r) {
    absl::StrAppend(&text, "   ");
    for (int64_t c = 0; c < shown_columns; ++c) {
      const std::string cell = Cell(o, r * columns + c);
      absl::StrAppend(&text, " ", std::string(width - cell.size(), ' '), cell);
    }
    absl::StrAppend(&text, "\n");
  }
  if (shown_rows < rows || shown_columns < columns) {
    absl::StrAppend(&text, "    (", shown_rows, " of ", rows, " rows, ", shown_columns, " of ",
                    columns, " columns)\n");
  }
  return text;
}

std::string Digits(const Ownership& o) {
  const auto layout = o.ToLayout();
  return layout.ok() ? layout->ToString() : "no digits: a ragged or uneven assignment";
}

// A loop that runs where one of its fragments is held, element by element, needs no second picture.
std::string PictureOfLoop(const LayoutProblem& problem, const LayoutSolution& solution, size_t i) {
  const Operation& op = problem.operations[i];
  for (const FragmentUse& use : op.uses) {
    if (solution.loops[i] != solution.fragments[use.fragment]) continue;
    return absl::StrCat("  as ", problem.fragments[use.fragment].buffer->name, "\n");
  }
  return Picture(solution.loops[i], op.extents);
}

// Runs of lines of one step under its name.
std::string Steps(const LayoutProblem& problem, const LayoutSolution& solution) {
  std::string text = "Initial:\n  nothing is decided\n";
  const char* heading = nullptr;
  for (const LayoutDecision& d : solution.story) {
    if (heading == nullptr || std::string(heading) != NameOf(d.step)) {
      heading = NameOf(d.step);
      absl::StrAppend(&text, heading, ":\n");
    }
    absl::StrAppend(&text, "  ", d.text);
    if (d.operation >= 0 && problem.operations[d.operation].loc.known()) {
      absl::StrAppend(&text, "  [line ", problem.operations[d.operation].loc.line, "]");
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

// Why threads copy tiles of pipelined loops that TMA could fetch from another tensor, on GPUs with
// TMA (those that store matrices have it).
std::string StoryOfFetches(const ir::Program& program, PassContext context) {
  if (!target::StoresMatrices(GpuOf(context))) return "";
  context.instruct = true;
  const auto lowered = RunPipeline(GpuPipeline(), program, context, "stream-loads");
  if (!lowered.ok()) return "";  // the compiler says what is wrong
  std::string text;
  const ir::Launch* launch = nullptr;
  ir::Walk(lowered->body, [&](const ir::Stmt& s) {
    if (s.kind() == ir::StmtKind::kLaunch) launch = s.As<ir::Launch>();
    const auto* loop = s.As<ir::For>();
    if (loop == nullptr || loop->loop != ir::ForKind::kPipelined) return true;
    ir::Walk(loop->body, [&](const ir::Stmt& x) {
      const auto* copy = x.As<ir::Copy>();
      if (copy == nullptr || copy->src.buffer->scope != ir::Scope::kGlobal ||
          copy->dst.buffer->scope != ir::Scope::kShared || copy->dst.buffer->shape.size() != 2 ||
          !CoversWhole(copy->dst)) {
        return true;
      }
      const ir::Buffer& tile = copy->dst.buffer;
      const bool panels = LiesInPanels(program, *launch, tile, GpuOf(context));
      std::string why = WhyNoTensorBox(copy->src, tile->shape[0], tile->shape[1], panels);
      const bool multiplied = ir::Multiplies(launch->body, tile);
      if (why.empty() && !target::IsFetched(AsFetch(tile, multiplied, panels))) why = kNoShape;
      if (why.empty()) return true;
      absl::StrAppend(&text, "\ncopy of ", copy->src.buffer->name, " to ", tile->name,
                      ": threads copy, ", why, "\n");
      return true;
    });
    return false;
  });
  return text;
}

// Which tiles lie otherwise in the end, versions and all, than the products asked for.
std::string StoryOfBands(const ir::Program& program, PassContext context) {
  context.instruct = true;
  const auto layouts = [](const ir::Program& p) {
    std::map<std::string, std::string> found;
    ir::Walk(p.body, [&](const ir::Stmt& s) {
      const auto* alloc = s.As<ir::Alloc>();
      if (alloc != nullptr) found[alloc->buffer->name] = alloc->buffer->layout;
      return true;
    });
    return found;
  };
  const auto lowered = RunPipeline(GpuPipeline(), program, context, "partition-loops");
  if (!lowered.ok()) return "";  // the compiler says what is wrong
  const auto banded = BandTiles(*lowered, context);
  if (!banded.ok()) return "";
  auto before = layouts(*lowered);
  std::string text;
  for (const auto& [name, layout] : layouts(*banded)) {
    if (before[name] == layout) continue;
    absl::StrAppend(&text, "\nshared ", name,
                    " lies in bands of eight rows, as one box brings them: ", layout, "\n");
  }
  return text;
}

// How results of 16 bits go to shared memory, on GPUs where warps can store matrices.
std::string StoryOfStores(const ir::Program& program, PassContext context) {
  if (!target::StoresMatrices(GpuOf(context))) return "";
  context.instruct = true;
  const auto lowered = RunPipeline(GpuPipeline(), program, context, "version-loops");
  if (!lowered.ok()) return "";  // the compiler says what is wrong
  std::string text;
  ir::Walk(lowered->body, [&](const ir::Stmt& s) {
    const std::string verdict = MatricesVerdict(s);
    if (verdict.empty()) return true;
    const ir::Buffer tile = ir::BuffersWritten(s)[0];
    const std::string line = absl::StrCat("\nstores to ", tile->name, ": ", verdict, "\n");
    if (!absl::StrContains(text, line)) absl::StrAppend(&text, line);
    return false;
  });
  return text;
}

}  // namespace

std::string TellStory(const LayoutProblem& problem, const LayoutSolution& solution) {
  std::string text = Steps(problem, solution);
  for (size_t f = 0; f < problem.fragments.size(); ++f) {
    const Fragment& fragment = problem.fragments[f];
    const Ownership& o = solution.fragments[f];
    absl::StrAppend(&text, "\nfragment ", fragment.buffer->name, " (",
                    absl::StrJoin(fragment.shape, ", "), "): ", o.slots(),
                    o.slots() == 1 ? " register a thread, " : " registers a thread, ", o.Copies(),
                    o.Copies() == 1 ? " owner an element\n" : " owners an element\n");
    absl::StrAppend(&text, "  ", Digits(o), "\n", Picture(o, fragment.shape));
  }
  for (const SharedTile& tile : problem.shared) {
    absl::StrAppend(&text, "\nshared ", tile.buffer->name, ": ", tile.layout.ToString(), " (",
                    tile.why, ")\n");
  }
  for (size_t i = 0; i < problem.operations.size(); ++i) {
    const Operation& op = problem.operations[i];
    const layout::ThreadSet threads = solution.loops[i].Threads();
    absl::StrAppend(&text, "\n", op.name, ": ", threads.count(), " of ", problem.threads.count,
                    " threads take part (", layout::ToString(threads), ")\n",
                    PictureOfLoop(problem, solution, i));
    const std::string why = WhyNotInstructed(problem, solution, static_cast<int>(i));
    if (!why.empty()) absl::StrAppend(&text, "  vector units multiply: ", why, "\n");
  }
  return text;
}

absl::StatusOr<std::string> ExplainLayouts(const ir::Program& program, LayoutCost cost,
                                           const PassContext& context) {
  KILN_ASSIGN_OR_RETURN(const ir::Program cut,
                        RunPipeline(ThreadPipeline(), program, context, "simplify"));
  KILN_ASSIGN_OR_RETURN(const ir::Program loaded, LoadOperands(cut, context));
  KILN_ASSIGN_OR_RETURN(const ir::Program guarded, GuardAccesses(loaded, context));
  KILN_ASSIGN_OR_RETURN(const ir::Program fused, FuseSparse(guarded, context));
  KILN_ASSIGN_OR_RETURN(const ir::Program held, HoldSums(fused, context));
  KILN_ASSIGN_OR_RETURN(const ir::Program tiles,
                        RunPipeline(ThreadPipeline(), held, context, "lower-copies"));
  std::vector<ir::Stmt> launches;
  ir::Walk(tiles.body, [&](const ir::Stmt& s) {
    if (s.kind() == ir::StmtKind::kLaunch) launches.push_back(s);
    return s.kind() != ir::StmtKind::kLaunch;
  });
  std::string text;
  for (const ir::Stmt& launch : launches) {
    KILN_ASSIGN_OR_RETURN(const PlacedLaunch placed,
                          PlaceLaunch(tiles, launch, GpuOf(context), cost));
    if (!text.empty()) absl::StrAppend(&text, "\n");
    absl::StrAppend(&text, TellStory(placed.problem, placed.solution));
    for (const std::string& copy : placed.copies) absl::StrAppend(&text, "\n", copy, "\n");
    for (const auto& [note, why] : launch.As<ir::Launch>()->annotations) {
      if (absl::StartsWith(note, kExpanded)) {
        absl::StrAppend(&text, "\nsparse form expanded to ", absl::StripPrefix(note, kExpanded),
                        ": not mma.sp: ", why, "\n");
      }
      if (absl::StartsWith(note, kLoadedTile)) {
        absl::StrAppend(&text, "\noperand ", absl::StripPrefix(note, kLoadedTile),
                        " is loaded to registers: ", why, "\n");
      }
      if (!absl::StartsWith(note, kInRegisters)) continue;
      absl::StrAppend(&text, "\nsums ", absl::StripPrefix(note, kInRegisters),
                      " stay in registers: ", why, "\n");
    }
  }
  absl::StrAppend(&text, StoryOfFetches(program, context), StoryOfBands(program, context),
                  StoryOfStores(program, context));
  return text;
}

}  // namespace kiln::passes
