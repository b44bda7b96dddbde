#include "compiler/passes/even_registers.h"

#include <map>
#include <string>

#include "compiler/ir/instruct.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/visit.h"

namespace kiln::passes {
namespace {

using ir::Instruction;
using ir::Stmt;

constexpr int64_t kBeside = 40;  // addresses, loop counters, what is done with sums

// What a thread holds in buffers, whatever their lifetimes.
int64_t HeldIn(const ir::Launch& launch) {
  int64_t held = 0;
  ir::Walk(launch.body, [&](const Stmt& s) {
    if (const auto* alloc = s.As<ir::Alloc>()) held += ir::RegistersOf(alloc->buffer);
    return true;
  });
  return held;
}

// Functions take registers of their own for every sum that is on its way through them, and so do
// elements of tensors that meet a sum, which are loaded ahead.
bool DoesMuchWithSums(const ir::Launch& launch) {
  bool much = false;
  ir::Walk(
      launch.body, [&](const Stmt&) { return !much; },
      [&](const ir::Expr& e) {
        const auto* load = e.As<ir::Load>();
        much |= e.kind() == ir::ExprKind::kCall ||
                (load != nullptr && load->buffer->scope == ir::Scope::kGlobal);
        return !much;
      });
  return much;
}

bool IsShare(const Stmt& s) {
  const auto* x = s.As<ir::Instruct>();
  return x != nullptr && x->op == Instruction::kMaxRegisters;
}

Stmt WithoutShares(const Stmt& s, const target::Arch& arch) {
  const auto* launch = s.As<ir::Launch>();
  if (launch == nullptr || !ir::Holds(launch->body, Instruction::kMaxRegisters)) return {};
  // A thread that multiplies by itself holds operands, too.
  if (!ir::Holds(launch->body, Instruction::kWgmma)) return {};
  const auto threads = ir::ThreadsOf(*launch);
  if (!threads || HeldIn(*launch) + kBeside > arch.RegistersEach(*threads)) return {};
  if (DoesMuchWithSums(*launch)) return {};
  std::map<std::string, std::string> notes = launch->annotations;
  notes[kEvenRegisters] = "1";
  return ir::MakeStmt<ir::Launch>(s->loc, launch->grid, launch->threads,
                                  ir::WithoutStmts(launch->body, IsShare), std::move(notes));
}

}  // namespace

absl::StatusOr<ir::Program> EvenRegisters(const ir::Program& program, const PassContext& context) {
  if (ir::PassOption(program, kEvenRegisters, 1) == 0) return program;
  ir::Program out = program;
  out.body = ir::RewriteStmts(program.body,
                              [&](const Stmt& s) { return WithoutShares(s, GpuOf(context)); });
  return out;
}

}  // namespace kiln::passes
