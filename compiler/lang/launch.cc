// The launch that a T.Kernel block becomes: several, one after the other, where all its blocks
// meet.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/base/status.h"
#include "compiler/ir/shared_use.h"
#include "compiler/ir/visit.h"
#include "compiler/lang/cluster_marks.h"
#include "compiler/lang/elaborator.h"
#include "compiler/lang/safe_values.h"

namespace kiln::lang {
// What statements name.
class Elaborator::Uses : public ir::Mutator {
 public:
  explicit Uses(const std::vector<ir::View>& views) : views_(views) {}

  std::set<const ir::BufferNode*> buffers;
  std::set<const ir::ExprNode*> vars;
  bool loads = false;

 protected:
  ir::Buffer VisitBuffer(const ir::Buffer& b) override {
    buffers.insert(b.get());
    for (const ir::View& view : views_) {
      if (view.view == b) buffers.insert(view.base.get());
    }
    return b;
  }
  ir::Expr VisitExpr(const ir::Expr& e) override {
    if (e.As<ir::Var>() != nullptr) vars.insert(e.get());
    loads |= e.As<ir::Load>() != nullptr;
    return ir::Mutator::VisitExpr(e);
  }

 private:
  const std::vector<ir::View>& views_;
};

namespace {

// The notes of a launch that speak of no buffer, or of one that it names.
std::map<std::string, std::string> NotesOf(const std::map<std::string, std::string>& notes,
                                           const std::set<const ir::BufferNode*>& buffers) {
  std::map<std::string, std::string> own;
  for (const auto& [key, text] : notes) {
    const size_t colon = key.find(':');
    const auto named = [&](const ir::BufferNode* b) {
      return key.compare(colon + 1, std::string::npos, b->name) == 0;
    };
    if (colon == std::string::npos || std::any_of(buffers.begin(), buffers.end(), named)) {
      own.emplace(key, text);
    }
  }
  return own;
}

}  // namespace

absl::Status Elaborator::EmitLaunch(const LaunchObject& launch, std::vector<ir::Stmt> stmts,
                                    SourceLoc loc) {
  KILN_RETURN_IF_ERROR(HeedSafeValues(launch_, views_, *module_.file, &stmts));
  for (ir::Stmt& s : stmts) {
    KILN_ASSIGN_OR_RETURN(s, ir::ResolveTables(s, entries_, file()));
  }
  if (launch_.grid_meetings.empty()) {
    ir::Stmt body = ir::MakeSeq(std::move(stmts), loc);
    std::map<std::string, std::string> notes = launch_.notes;
    KILN_RETURN_IF_ERROR(SettleCluster(&body, &notes));
    return EmitNew<ir::Launch>(loc, launch_.grid, launch.threads, body, std::move(notes));
  }
  KILN_ASSIGN_OR_RETURN(std::vector<std::vector<ir::Stmt>> parts,
                        SplitAtGridMeetings(std::move(stmts)));
  for (size_t i = 0; i < parts.size(); ++i) {
    ir::Stmt body = ir::MakeSeq(std::move(parts[i]), loc);
    Uses uses(views_);
    uses.Mutate(body);
    std::map<std::string, std::string> notes = NotesOf(launch_.notes, uses.buffers);
    KILN_RETURN_IF_ERROR(SettleCluster(&body, &notes));
    ir::VarMap fresh;
    std::vector<ir::Axis> grid = launch_.grid;
    for (ir::Axis& axis : grid) {
      if (i == 0) continue;
      const ir::Expr var = ir::MakeVar(axis.var.As<ir::Var>()->name, axis.var.dtype());
      fresh[axis.var.get()] = var;
      axis.var = var;
    }
    KILN_RETURN_IF_ERROR(EmitNew<ir::Launch>(loc, std::move(grid), launch.threads,
                                             ir::Substitute(body, fresh), std::move(notes)));
  }
  return absl::OkStatus();
}

// Blocks of a cluster that never read what another one has written are blocks like any others.
absl::Status Elaborator::SettleCluster(ir::Stmt* body, std::map<std::string, std::string>* notes) {
  if (launch_.ClusterBlocks() == 1) return absl::OkStatus();
  const bool keep = tunables_.empty() && target().cluster > 1;
  std::vector<std::string> apart;
  KILN_RETURN_IF_ERROR(ResolveMulticasts(launch_, bound_, *module_.file, keep, body, &apart));
  if (!apart.empty()) (*notes)[ir::kFetchedApart] = absl::StrJoin(apart, "; ");
  if (Communicates(*body, views_)) {
    if (!tunables_.empty()) {
      ir::Expr all = ir::MakeInt(0);
      for (const auto& [name, tunable] : tunables_) all = all + tunable;
      return NeedConcrete((*body)->loc, all, "blocks of a cluster share memory, as one");
    }
    (*notes)[kClusterDims] = absl::StrJoin(launch_.cluster, "x");
  } else {
    *body = WithoutMeetings(*body);
    if (HoldsMulticast(*body)) (*notes)[kMulticastDims] = absl::StrJoin(launch_.cluster, "x");
  }
  return absl::OkStatus();
}

// The statements between the meetings of all blocks. What a block keeps to itself ends with its
// launch: a buffer belongs to the one part that touches it, and a value that later parts read is
// computed there again.
absl::StatusOr<std::vector<std::vector<ir::Stmt>>> Elaborator::SplitAtGridMeetings(
    std::vector<ir::Stmt> stmts) {
  const std::vector<ir::Stmt>& meetings = launch_.grid_meetings;
  std::vector<std::vector<ir::Stmt>> parts(1);
  std::vector<std::pair<ir::Stmt, size_t>> declared;  // Allocs and Binds, with their part
  for (ir::Stmt& s : stmts) {
    const auto meets = [&](const ir::Stmt& m) { return m.same_as(s); };
    if (std::any_of(meetings.begin(), meetings.end(), meets)) {
      parts.emplace_back();
      continue;
    }
    if (s.As<ir::Alloc>() != nullptr || s.As<ir::Bind>() != nullptr) {
      declared.emplace_back(s, parts.size() - 1);
    }
    parts.back().push_back(std::move(s));
  }
  std::vector<Uses> uses(parts.size(), Uses(views_));
  for (size_t i = 0; i < parts.size(); ++i) {
    for (const ir::Stmt& s : parts[i]) {
      const auto* alloc = s.As<ir::Alloc>();
      if (alloc == nullptr) uses[i].Mutate(s);
      if (alloc != nullptr && alloc->init.defined()) uses[i].Mutate(alloc->init);
    }
  }
  // From the last: what it names is declared before.
  for (auto it = declared.rbegin(); it != declared.rend(); ++it) {
    const auto& [s, own] = *it;
    if (s.As<ir::Alloc>() != nullptr) {
      KILN_RETURN_IF_ERROR(MoveAlloc(s, own, uses, &parts));
      continue;
    }
    const auto* bind = s.As<ir::Bind>();
    for (size_t i = own + 1; i < parts.size(); ++i) {
      if (!uses[i].vars.contains(bind->var.get())) continue;
      KILN_RETURN_IF_ERROR(CheckComputedAgain(bind->value, bind->var.As<ir::Var>()->name, s->loc));
      const ir::Expr var = ir::MakeVar(bind->var.As<ir::Var>()->name, bind->var.dtype());
      const ir::VarMap fresh = {{bind->var.get(), var}};
      for (ir::Stmt& later : parts[i]) later = ir::Substitute(later, fresh);
      parts[i].insert(parts[i].begin(), ir::MakeStmt<ir::Bind>(s->loc, var, bind->value));
      uses[i].Mutate(bind->value);
    }
  }
  return parts;
}

absl::Status Elaborator::CheckComputedAgain(const ir::Expr& value, absl::string_view name,
                                            SourceLoc loc) {
  Uses own(views_);
  own.Mutate(value);
  if (!own.loads) return absl::OkStatus();
  return Unimplemented(
      loc, absl::StrCat("'", name, "' is read from memory before T.sync_grid() and used after it"),
      "read it again after the sync");
}

// An allocation stands where it is, or at the beginning of the one later part that touches it.
absl::Status Elaborator::MoveAlloc(const ir::Stmt& s, size_t own, std::vector<Uses>& uses,
                                   std::vector<std::vector<ir::Stmt>>* parts) {
  const auto& alloc = *s.As<ir::Alloc>();
  std::vector<size_t> users;
  for (size_t i = 0; i < parts->size(); ++i) {
    if (uses[i].buffers.contains(alloc.buffer.get())) users.push_back(i);
  }
  if (users.size() > 1) {
    return Unimplemented(
        launch_.grid_meetings[users[1] - 1]->loc,
        absl::StrCat("'", alloc.buffer->name, "' is used before and after T.sync_grid()"),
        "allocate another one for what follows, and pass what blocks keep through a tensor");
  }
  if (users.empty() || users[0] == own) return absl::OkStatus();
  std::vector<ir::Stmt>& later = (*parts)[users[0]];
  if (alloc.init.defined()) {
    KILN_RETURN_IF_ERROR(CheckComputedAgain(alloc.init, alloc.buffer->name, s->loc));
    uses[users[0]].Mutate(alloc.init);
  }
  std::erase_if((*parts)[own], [&](const ir::Stmt& other) { return other.same_as(s); });
  later.insert(later.begin(), s);
  return absl::OkStatus();
}

}  // namespace kiln::lang
