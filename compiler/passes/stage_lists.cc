#include "compiler/passes/stage_lists.h"

#include <algorithm>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/base/status.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/pipelined.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/tile_versions.h"
#include "compiler/passes/touched.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Stmt;

constexpr int64_t kApart = -1;
constexpr int64_t kMostStages = 64;  // as of num_stages

std::vector<int64_t> Numbers(absl::string_view text) {
  std::vector<int64_t> numbers;
  for (const absl::string_view word : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    int64_t number = 0;
    if (absl::SimpleAtoi(word, &number)) numbers.push_back(number);
  }
  return numbers;
}

class Lists {
 public:
  Lists(const ir::Program& program, const ir::For& loop) : program_(program), loop_(loop) {}

  absl::StatusOr<std::vector<StagedStmt>> Read() {
    KILN_RETURN_IF_ERROR(ReadBody());
    KILN_RETURN_IF_ERROR(ReadGroups());
    for (const char* list : {kOrderList, kStageList}) KILN_RETURN_IF_ERROR(CheckLength(list));
    const std::vector<int64_t> order = Entries(kOrderList), stage = Entries(kStageList);
    std::set<int64_t> orders;
    int64_t place = 0;
    for (size_t g : ByOrder(order)) {
      const int64_t s = stage.empty() ? 0 : stage[g];
      const int64_t o = order.empty() ? s : order[g];
      const bool apart = s == kApart;
      if (!order.empty() && apart != (o == kApart)) {
        return Error("an entry is -1 in one of order and stage alone",
                     "write -1 in both lists for copies that warps of their own fetch");
      }
      if (s < kApart || s > kMostStages) {
        return Error(absl::StrCat("stage ", s), absl::StrCat("use stages from 0 to ", kMostStages));
      }
      if (!apart && !order.empty() && !orders.insert(o).second) {
        return Error(absl::StrCat("two entries of order are ", o),
                     "give each a place of its own in the step");
      }
      for (const size_t i : groups_[g]) {
        stmts_[i].apart = apart;
        stmts_[i].stage = apart ? 0 : s;
        stmts_[i].order = place++;
      }
    }
    return std::move(stmts_);
  }

 private:
  absl::Status Error(std::string message, std::string remedy) const {
    return ir::ErrorAt(program_, loop_.loc, absl::StrCat("T.Pipelined: ", message),
                       std::move(remedy));
  }

  std::vector<int64_t> Entries(const char* list) const {
    const auto found = loop_.annotations.find(list);
    return found == loop_.annotations.end() ? std::vector<int64_t>() : Numbers(found->second);
  }

  // Groups as they follow each other in a step.
  std::vector<size_t> ByOrder(const std::vector<int64_t>& order) const {
    std::vector<size_t> groups(groups_.size());
    for (size_t g = 0; g < groups.size(); ++g) groups[g] = g;
    if (!order.empty()) {
      std::stable_sort(groups.begin(), groups.end(),
                       [&](size_t a, size_t b) { return order[a] < order[b]; });
    }
    return groups;
  }

  absl::Status ReadBody() {
    for (const Stmt& s : ir::RowOf(loop_.body)) {
      if (const auto* alloc = s.As<ir::Alloc>()) {
        if (!alloc->init.defined()) continue;
        return ir::ErrorAt(program_, s->loc, "a variable that a loop with stages gives a value",
                           "declare it before the loop and assign to it");
      }
      if (const auto* bind = s.As<ir::Bind>()) {
        const Stmt name = ir::Substitute(s, written_out_);
        const Expr value = name.As<ir::Bind>()->value;
        if (ReadsMemory(value)) {
          looked_up_.push_back({name, TouchedBy(name).reads, stmts_.size()});
        } else {
          written_out_[bind->var.get()] = value;
        }
        continue;
      }
      KILN_RETURN_IF_ERROR(AddStmt(ir::Substitute(s, written_out_)));
    }
    return absl::OkStatus();
  }

  absl::Status AddStmt(const Stmt& s) {
    changes_.push_back(TouchedBy(s).writes);
    std::vector<Stmt> with = {s};  // from the last on
    for (auto name = looked_up_.rbegin(); name != looked_up_.rend(); ++name) {
      const auto uses = [&](const Stmt& x) { return Uses(x, name->bind.As<ir::Bind>()->var); };
      if (std::none_of(with.begin(), with.end(), uses)) continue;
      for (size_t i = name->first; i < changes_.size(); ++i) {
        if (!Meet(changes_[i], name->reads)) continue;
        return ir::ErrorAt(program_, name->bind->loc,
                           "in a loop with stages, what this name is read from changes before the "
                           "name is used",
                           "copy it to a T.alloc_var first");
      }
      with.push_back(name->bind);
    }
    std::reverse(with.begin(), with.end());
    StagedStmt staged;
    staged.stmt = with.size() == 1 ? s : ir::MakeStmt<ir::Seq>(s->loc, std::move(with));
    staged.loc = s->loc;
    stmts_.push_back(std::move(staged));
    return absl::OkStatus();
  }

  static bool Uses(const Stmt& s, const Expr& var) {
    bool uses = false;
    ir::Walk(
        s, [&](const Stmt&) { return !uses; },
        [&](const Expr& e) {
          uses |= e.same_as(var);
          return !uses;
        });
    return uses;
  }

  absl::Status ReadGroups() {
    const auto text = loop_.annotations.find(kGroupList);
    if (text == loop_.annotations.end()) {
      for (size_t i = 0; i < stmts_.size(); ++i) groups_.push_back({i});
      return absl::OkStatus();
    }
    size_t next = 0;
    for (const absl::string_view part : absl::StrSplit(text->second, ';')) {
      groups_.emplace_back();
      for (const int64_t i : Numbers(part)) {
        if (i != static_cast<int64_t>(next)) {
          return Error(absl::StrCat("group names statement ", i, " where ", next, " comes next"),
                       "name the statements of the body in order, each once");
        }
        groups_.back().push_back(next++);
      }
    }
    if (next == stmts_.size()) return absl::OkStatus();
    return Error(absl::StrCat("group names ", next, " statements, but the body has ", Body()),
                 "name each of them");
  }

  absl::Status CheckLength(const char* list) const {
    const size_t entries = Entries(list).size();
    if (loop_.annotations.count(list) == 0 || entries == groups_.size()) return absl::OkStatus();
    const bool grouped = loop_.annotations.count(kGroupList) > 0;
    return Error(absl::StrCat(list, " has ", entries, " entries, but ",
                              grouped ? absl::StrCat("there are ", groups_.size(), " groups")
                                      : absl::StrCat("the body has ", Body())),
                 absl::StrCat("give one entry for each ", grouped ? "group" : "of them"));
  }

  // The statements, for people.
  std::string Body() const {
    return absl::StrCat(stmts_.size(), " statements: ",
                        absl::StrJoin(stmts_, ", ", [](std::string* out, const StagedStmt& s) {
                          absl::StrAppend(out, NameOf(s));
                        }));
  }

  // A name that is read from memory, before statement `first`.
  struct LookedUp {
    Stmt bind;
    Buffers reads;
    size_t first;
  };

  const ir::Program& program_;
  const ir::For& loop_;
  ir::VarMap written_out_;
  std::vector<LookedUp> looked_up_;
  std::vector<StagedStmt> stmts_;
  std::vector<Buffers> changes_;  // that each of them makes
  std::vector<std::vector<size_t>> groups_;
};

const char* KindOf(const Stmt& s) {
  switch (s.kind()) {
    case ir::StmtKind::kSeq: {
      const std::vector<Stmt>& stmts = s.As<ir::Seq>()->stmts;
      return stmts.empty() ? "statement" : KindOf(stmts.back());
    }
    case ir::StmtKind::kFor:
    case ir::StmtKind::kWhile:
      return "loop";
    case ir::StmtKind::kIf:
      return "branch";
    case ir::StmtKind::kStore:
      return "assignment";
    case ir::StmtKind::kCopy:
      return "copy";
    case ir::StmtKind::kGemm:
      return "product";
    case ir::StmtKind::kFill:
      return "fill";
    case ir::StmtKind::kReduce:
      return "reduction";
    case ir::StmtKind::kScan:
      return "scan";
    case ir::StmtKind::kAtomic:
      return "atomic";
    default:
      return "statement";
  }
}

}  // namespace

bool HasStageLists(const ir::For& loop) {
  return loop.annotations.count(kOrderList) > 0 || loop.annotations.count(kStageList) > 0;
}

absl::StatusOr<std::vector<StagedStmt>> ReadStageLists(const ir::Program& program,
                                                       const ir::For& loop) {
  return Lists(program, loop).Read();
}

std::string NameOf(const StagedStmt& s) {
  return absl::StrCat("the ", KindOf(s.stmt), " of line ", s.loc.line);
}

}  // namespace kiln::passes
