#include "compiler/passes/multicast_copies.h"

#include <bit>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/shared_use.h"
#include "compiler/ir/visit.h"
#include "compiler/passes/tensor_box.h"
#include "compiler/target/warps.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Instruction;
using ir::MakeInt;
using ir::Stmt;

class Multicast : public ir::Mutator {
 public:
  explicit Multicast(const ir::Launch& launch) : launch_(launch) {}

  Stmt Run() {
    const Stmt body = Mutate(launch_.body);
    std::vector<Stmt> stmts = std::move(starts_);
    const SourceLoc loc = launch_.loc;
    if (!stmts.empty()) stmts.push_back(ir::MakeInstruct(loc, Instruction::kClusterBarrier));
    stmts.push_back(body);
    auto notes = launch_.annotations;
    for (const std::string& copy : apart_) {
      std::string& all = notes[ir::kFetchedApart];
      absl::StrAppend(&all, all.empty() ? "" : "; ", copy);
    }
    return ir::MakeStmt<ir::Launch>(loc, launch_.grid, launch_.threads,
                                    ir::MakeSeq(std::move(stmts), loc), std::move(notes));
  }

 protected:
  Expr VisitExpr(const Expr& e) override { return e; }

  Stmt VisitStmt(const Stmt& s) override {
    const auto* loop = s.As<ir::For>();
    const bool ordered =
        loop == nullptr || loop->loop == ir::ForKind::kSerial || loop->loop == ir::ForKind::kUnroll;
    if (s.kind() == ir::StmtKind::kOnThreads || !ordered) return Apart(s);
    const auto* copy = s.As<ir::Copy>();
    if (copy == nullptr || copy->annotations.count(ir::kMulticast) == 0) return RebuildStmt(s);
    const std::string why = WhyNotFetched(*copy);
    if (why.empty()) return Shared(*copy);
    Note(s, why);
    return s;
  }

 private:
  void Note(const Stmt& copy, absl::string_view why) {
    apart_.push_back(absl::StrCat("line ", copy->loc.line, ": ", why));
  }

  // What the threads of a part do, or a pipelined loop, is each block's own.
  const Stmt& Apart(const Stmt& s) {
    const char* why = s.kind() == ir::StmtKind::kOnThreads ? "only some threads of a block make it"
                      : s.As<ir::For>()->loop == ir::ForKind::kPipelined
                          ? "a pipelined loop fetches it ahead"
                          : "it stands in a loop over elements";
    ir::Walk(s, [&](const Stmt& x) {
      const auto* copy = x.As<ir::Copy>();
      if (copy != nullptr && copy->annotations.count(ir::kMulticast) > 0) Note(x, why);
      return true;
    });
    return s;
  }

  // Empty where TMA can fetch the source into a whole tile, or the whole of one of several.
  std::string WhyNotFetched(const ir::Copy& copy) const {
    const ir::Buffer& tile = copy.dst.buffer;
    const auto& ranges = copy.dst.ranges;
    const size_t rank = ranges.size();
    if (tile->blocks == 1 || rank < 3) return "the tile has no two dimensions";
    if (tile->dtype != copy.src.buffer->dtype) return "it converts";
    for (size_t d = 1; d < rank; ++d) {
      const bool whole = d + 2 >= rank;
      if (!ir::Same(ranges[d].extent, whole ? tile->shape[d] : MakeInt(1)) ||
          (whole && !ir::IsConst(ranges[d].min, 0))) {
        return "it fills a part of the tile";
      }
    }
    if (!target::IsFetched(AsFetch(tile, ir::Multiplies(launch_.body, tile)))) return kNoShape;
    return WhyNoTensorBox(copy.src, tile->shape[rank - 2], tile->shape[rank - 1]);
  }

  // A barrier of every block, for so many arrivals in each phase.
  ir::Buffer Barrier(const char* name, const Expr& rank, int64_t blocks, int64_t arrivals) {
    auto barrier = std::make_shared<ir::BufferNode>(
        *ir::MakeBuffer(name, kInt64, {MakeInt(blocks), MakeInt(1)}, ir::Scope::kBarrier));
    barrier->blocks = blocks;
    starts_.push_back(ir::MakeStmt<ir::Alloc>(launch_.loc, barrier));
    starts_.push_back(ir::MakeInstruct(launch_.loc, Instruction::kBarrierInit, {Of(barrier, rank)},
                                       {MakeInt(arrivals)}));
    return barrier;
  }

  static ir::Region Of(const ir::Buffer& barrier, const Expr& rank) {
    return {barrier, {{rank, MakeInt(1)}, {MakeInt(0), MakeInt(1)}}};
  }

  Stmt Shared(const ir::Copy& copy) {
    const SourceLoc loc = copy.loc;
    const std::string& text = copy.annotations.at(ir::kMulticast);
    uint32_t mask = 0;
    (void)absl::SimpleAtoi(text, &mask);
    const ir::Buffer& tile = copy.dst.buffer;
    const Expr own = copy.dst.ranges[0].min;
    const Expr first = MakeInt(std::countr_zero(mask), own.dtype());
    const ir::Buffer full = Barrier("full", own, tile->blocks, 1);
    const ir::Buffer ready = Barrier("ready", own, tile->blocks, std::popcount(mask));
    const ir::Buffer phase = ir::MakeBuffer("phase", kInt32, {MakeInt(1)}, ir::Scope::kVar);
    starts_.push_back(ir::MakeStmt<ir::Alloc>(launch_.loc, phase, MakeInt(0, kInt32)));
    const std::vector<Expr> at = {MakeInt(0)};
    const Expr parity = ir::MakeLoad(phase, at);
    int64_t bytes = tile->dtype.bytes();
    for (const ir::Range& range : copy.dst.ranges) bytes *= *ir::ConstInt(range.extent);
    const auto wait = [&](const ir::Buffer& barrier) {
      return ir::MakeInstruct(loc, Instruction::kBarrierWait, {Of(barrier, own)}, {parity},
                              {{ir::kClusterBlocks, "1"}});
    };
    const Stmt load =
        ir::MakeInstruct(loc, Instruction::kTensorLoad, {copy.dst, copy.src, Of(full, own)}, {},
                         {{ir::kMulticast, text}});
    return ir::MakeSeq(
        {ir::MakeInstruct(loc, Instruction::kProxyFence),  // what threads did to the last tile
         ir::MakeInstruct(loc, Instruction::kBarrierExpect, {Of(full, own)}, {MakeInt(bytes)}),
         ir::MakeInstruct(loc, Instruction::kClusterArrive, {Of(ready, first)}, {MakeInt(1)}),
         ir::MakeStmt<ir::If>(loc, ir::Equal(own, first), ir::MakeSeq({wait(ready), load}, loc)),
         wait(full), ir::MakeStmt<ir::Store>(loc, phase, at, MakeInt(1, kInt32) - parity)},
        loc);
  }

  const ir::Launch& launch_;
  std::vector<Stmt> starts_;        // what a block does first
  std::vector<std::string> apart_;  // copies that each block makes for itself, and why
};

}  // namespace

absl::StatusOr<ir::Program> MulticastCopies(const ir::Program& program, const PassContext&) {
  ir::Program out = program;
  out.body = ir::RewriteStmts(program.body, [](const Stmt& s) -> Stmt {
    const auto* launch = s.As<ir::Launch>();
    if (launch == nullptr || launch->annotations.count(ir::kSharesMemory) == 0) return {};
    return Multicast(*launch).Run();
  });
  return out;
}

}  // namespace kiln::passes
