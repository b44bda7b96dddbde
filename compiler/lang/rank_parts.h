// Blocks of a cluster as parts of one block that wait for each other's barriers: threads of their
// own while barriers are put into order, no threads in particular after it. Private to
// compiler/lang.
#ifndef KILN_COMPILER_LANG_RANK_PARTS_H_
#define KILN_COMPILER_LANG_RANK_PARTS_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "compiler/ir/visit.h"

namespace kiln::lang {

inline constexpr int64_t kRankThreads = int64_t{1} << 20;  // more than a block has

inline bool IsRank(const ir::OnThreads& part) { return part.first >= kRankThreads; }

// What block `rank`, of `threads` threads, does.
inline ir::Stmt RankPart(int64_t rank, int64_t threads, std::vector<ir::Stmt> stmts,
                         SourceLoc loc) {
  return ir::MakeStmt<ir::OnThreads>(loc, (rank + 1) * kRankThreads, threads,
                                     ir::MakeSeq(std::move(stmts), loc));
}

inline std::string NameOfPart(const ir::OnThreads& part) {
  if (IsRank(part)) return absl::StrCat("block ", part.first / kRankThreads - 1, " of the cluster");
  return absl::StrCat("threads ", part.first, " to ", part.first + part.count - 1);
}

inline ir::Stmt WithoutRanks(const ir::Stmt& s) {
  return ir::RewriteStmts(s, [](const ir::Stmt& x) -> ir::Stmt {
    const auto* part = x.As<ir::OnThreads>();
    return part != nullptr && IsRank(*part) ? WithoutRanks(part->body) : ir::Stmt();
  });
}

}  // namespace kiln::lang

#endif  // KILN_COMPILER_LANG_RANK_PARTS_H_
