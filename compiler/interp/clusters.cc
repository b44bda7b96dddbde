#include "compiler/interp/clusters.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/shared_use.h"
#include "compiler/ir/visit.h"

namespace kiln::interp {
namespace {

using ir::Expr;
using ir::Instruction;
using ir::MakeInt;
using ir::Stmt;

// Of an instruction's annotations.
constexpr char kRank[] = "rank", kElsewhere[] = "elsewhere";

constexpr int64_t kApart = int64_t{1} << 32;  // bytes between the shared memories of two blocks

int64_t ClusterOf(const std::map<std::string, std::string>& notes) {
  int64_t blocks = 1;
  const auto note = notes.find("cluster");
  if (note != notes.end()) (void)absl::SimpleAtoi(note->second, &blocks);
  return blocks;
}

class Cluster {
 public:
  explicit Cluster(const ir::Launch& launch)
      : launch_(launch), count_(ClusterOf(launch.annotations)) {}

  Stmt Join() {
    const Expr cluster = ir::MakeVar("cluster", launch_.grid[0].var.dtype());
    std::vector<std::vector<Stmt>> blocks;
    for (int64_t b = 0; b < count_; ++b) {
      const Expr block = cluster * MakeInt(count_) + MakeInt(b);
      const Stmt own = ir::Substitute(launch_.body, {{launch_.grid[0].var.get(), block}});
      blocks.push_back(StmtsOf(ir::FreshCopy(own, &buffers_.emplace_back())));
    }
    std::vector<Stmt> together;
    for (size_t i = 0; i < blocks[0].size(); ++i) {
      const auto* x = blocks[0][i].As<ir::Instruct>();
      if (x != nullptr && x->op == Instruction::kClusterBarrier) {
        const Stmt meet = ir::MakeInstruct(x->loc, Instruction::kBlockBarrier);
        for (int64_t b = 0; b < count_; ++b) {
          together.push_back(Ranked(*meet.As<ir::Instruct>(), b));
        }
        continue;
      }
      for (int64_t b = 0; b < count_; ++b) {
        together.push_back(ForAll(blocks[static_cast<size_t>(b)][i], b));
      }
    }
    std::vector<ir::Axis> grid = launch_.grid;
    grid[0] = {cluster, grid[0].min, FloorDiv(grid[0].extent, MakeInt(count_))};
    auto notes = launch_.annotations;
    notes.erase("cluster");
    return ir::MakeStmt<ir::Launch>(launch_.loc, std::move(grid), launch_.threads,
                                    ir::MakeStmt<ir::Seq>(launch_.loc, std::move(together)),
                                    std::move(notes));
  }

 private:
  // In one row: what the blocks do together must not hide in an inner one.
  static std::vector<Stmt> StmtsOf(const Stmt& body) {
    const auto* seq = body.As<ir::Seq>();
    if (seq == nullptr) return {body};
    std::vector<Stmt> flat;
    for (const Stmt& s : seq->stmts) {
      const std::vector<Stmt> inner = StmtsOf(s);
      flat.insert(flat.end(), inner.begin(), inner.end());
    }
    return flat;
  }

  // What block `own` does for all blocks of the cluster, done for each of them.
  Stmt ForAll(const Stmt& s, int64_t own) const {
    return ir::RewriteStmts(s, [&](const Stmt& inner) -> Stmt {
      const auto* alloc = inner.As<ir::Alloc>();
      if (alloc != nullptr && alloc->place != ir::Alloc::kOwnPlace) {
        return ir::MakeStmt<ir::Alloc>(alloc->loc, alloc->buffer, alloc->init,
                                       alloc->place + own * kApart);
      }
      const auto* x = inner.As<ir::Instruct>();
      if (x == nullptr) return {};
      if (ClusterOf(x->annotations) <= 1) return Ranked(*x, own);
      std::vector<Stmt> each;
      for (int64_t b = 0; b < count_; ++b) each.push_back(ForOne(*x, own, b));
      return ir::MakeStmt<ir::Seq>(x->loc, std::move(each));
    });
  }

  Stmt ForOne(const ir::Instruct& x, int64_t own, int64_t other) const {
    std::vector<ir::Region> regions = x.regions;
    for (ir::Region& region : regions) region.buffer = Of(region.buffer, own, other);
    auto notes = x.annotations;
    notes.erase("cluster");
    if (x.op == Instruction::kTensorLoad) {
      ir::Range& rows = regions[1].ranges[static_cast<size_t>(ir::RowDimension(regions[1]))];
      const int64_t share = ir::ConstInt(rows.extent).value_or(0) / count_;
      rows = {rows.min + MakeInt(own * share), MakeInt(share)};
      notes["first_row"] = absl::StrCat(own * share);
    }
    notes[kRank] = absl::StrCat(own);
    if (other != own) notes[kElsewhere] = "1";
    return ir::MakeStmt<ir::Instruct>(x.loc, x.op, std::move(regions), x.args, std::move(notes));
  }

  static Stmt Ranked(const ir::Instruct& x, int64_t own) {
    auto notes = x.annotations;
    notes[kRank] = absl::StrCat(own);
    return ir::MakeStmt<ir::Instruct>(x.loc, x.op, x.regions, x.args, std::move(notes));
  }

  // The buffer of `other` that is `own`'s `buffer`.
  ir::Buffer Of(const ir::Buffer& buffer, int64_t own, int64_t other) const {
    for (const auto& [original, copy] : buffers_[static_cast<size_t>(own)]) {
      if (copy == buffer) return buffers_[static_cast<size_t>(other)].at(original);
    }
    return buffer;
  }

  const ir::Launch& launch_;
  const int64_t count_;                 // blocks
  std::vector<ir::BufferMap> buffers_;  // of the launch to those of each block
};

}  // namespace

ir::Program JoinClusters(const ir::Program& program) {
  ir::Program joined = program;
  joined.body = ir::RewriteStmts(program.body, [](const Stmt& s) -> Stmt {
    const auto* launch = s.As<ir::Launch>();
    if (launch == nullptr || ClusterOf(launch->annotations) <= 1) return {};
    if (launch->annotations.count(ir::kSharesMemory) > 0) return s;
    return Cluster(*launch).Join();
  });
  return joined;
}

int64_t ClusterRank(const ir::Instruct& x) { return ir::NoteOf(x, kRank); }

bool IsElsewhere(const ir::Instruct& x) { return ir::NoteOf(x, kElsewhere) != 0; }

RankedLaunch RanksOf(const ir::Launch& launch) {
  RankedLaunch ranked;
  const ir::Expr& x = launch.grid[0].var;
  ranked.cluster = ir::MakeVar("cluster", x.dtype());
  const Stmt body = ir::RewriteStmts(launch.body, [&](const Stmt& s) -> Stmt {
    const auto* alloc = s.As<ir::Alloc>();
    if (alloc == nullptr || alloc->buffer->blocks == 1) return {};
    ranked.shared.push_back(s);
    return ir::MakeSeq({}, s->loc);
  });
  const int64_t blocks = ClusterOf(launch.annotations);
  for (int64_t rank = 0; rank < blocks; ++rank) {
    const Expr block = ranked.cluster * MakeInt(blocks, x.dtype()) + MakeInt(rank, x.dtype());
    ranked.bodies.push_back(ir::FreshCopy(ir::Substitute(body, {{x.get(), block}})));
  }
  return ranked;
}

}  // namespace kiln::interp
