#include "compiler/passes/cache_hints.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/visit.h"

namespace kiln::passes {
namespace {

using ir::Stmt;

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
    const auto say = [&](const ir::Buffer& tensor) {
      const std::string note = absl::StrCat("evict:", tensor->name);
      const auto asked = policies.find(tensor->name);
      const auto kept = launch->annotations.find(absl::StrCat("l2_hit_ratio:", tensor->name));
      if (asked != policies.end()) {
        if (asked->second.size() == 1) notes[note] = *asked->second.begin();
      } else if (kept != launch->annotations.end()) {
        notes[note] = absl::StrCat("evict_last ", kept->second);
      }
    };
    for (const ir::Buffer& b : read) {
      if (b->scope == ir::Scope::kGlobal && !absl::c_linear_search(written, b)) say(b);
    }
    for (const ir::Buffer& b : written) {
      if (b->scope == ir::Scope::kGlobal && !absl::c_linear_search(read, b)) say(b);
    }
    if (notes == launch->annotations) return {};
    return ir::MakeStmt<ir::Launch>(s->loc, launch->grid, launch->threads, launch->body,
                                    std::move(notes));
  });
  return out;
}

}  // namespace kiln::passes
