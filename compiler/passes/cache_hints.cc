#include "compiler/passes/cache_hints.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/visit.h"

namespace kiln::passes {
namespace {

using ir::Stmt;

bool Holds(const std::vector<ir::Buffer>& buffers, const ir::Buffer& b) {
  return std::find(buffers.begin(), buffers.end(), b) != buffers.end();
}

// What the copies of a launch say, by tensor.
std::map<std::string, std::set<std::string>> Policies(const ir::Launch& launch) {
  std::map<std::string, std::set<std::string>> policies;
  ir::Walk(launch.body, [&](const Stmt& s) {
    const auto* copy = s.As<ir::Copy>();
    if (copy == nullptr) return true;
    const auto policy = copy->annotations.find("eviction_policy");
    if (policy == copy->annotations.end()) return true;
    for (const ir::Buffer& b : {copy->src.buffer, copy->dst.buffer}) {
      if (b->scope == ir::Scope::kGlobal) policies[b->name].insert(policy->second);
    }
    return true;
  });
  return policies;
}

}  // namespace

absl::StatusOr<ir::Program> CacheHints(const ir::Program& program, const PassContext&) {
  ir::Program out = program;
  out.body = ir::RewriteStmts(program.body, [&](const Stmt& s) -> Stmt {
    const auto* launch = s.As<ir::Launch>();
    if (launch == nullptr) return {};
    const auto policies = Policies(*launch);
    const std::vector<ir::Buffer> read = ir::BuffersRead(launch->body);
    const std::vector<ir::Buffer> written = ir::BuffersWritten(launch->body);
    auto notes = launch->annotations;
    for (const ir::Param& p : program.params) {
      if (p.kind != ir::Param::kTensor) continue;
      if (Holds(read, p.buffer) && Holds(written, p.buffer)) continue;
      const std::string note = absl::StrCat("evict:", p.buffer->name);
      const auto asked = policies.find(p.buffer->name);
      const auto kept = notes.find(absl::StrCat("l2_hit_ratio:", p.buffer->name));
      if (asked != policies.end() && asked->second.size() == 1) {
        notes[note] = *asked->second.begin();
      } else if (kept != notes.end()) {
        notes[note] = absl::StrCat("evict_last ", kept->second);
      }
    }
    if (notes == launch->annotations) return {};
    return ir::MakeStmt<ir::Launch>(s->loc, launch->grid, launch->threads, launch->body,
                                    std::move(notes));
  });
  return out;
}

}  // namespace kiln::passes
