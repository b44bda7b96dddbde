// Barriers that a kernel writes itself, and what hand-written parts of a block say of copies,
// products and registers. What they order is ordered anyway (barrier_order.h): copies and products
// are over when the program goes on.
#include "absl/strings/str_cat.h"
#include "compiler/lang/barrier_operand.h"
#include "compiler/lang/elaborator.h"
#include "compiler/lang/follow_barriers.h"

namespace kiln::lang {
namespace {

constexpr int64_t kMaxArrivals = (1 << 20) - 1;  // PTX 9.7.13.15.3

}  // namespace

absl::StatusOr<Barrier> ToBarrier(Elaborator& e, const BoundArgs& args, size_t i) {
  const Value& v = args[i];
  if (v.Is(Type::kBuffer) && v.buffer().buffer->scope == ir::Scope::kBarrier) {
    const ir::Buffer& buffer = v.buffer().buffer;
    if (buffer->values->size() == 1) return Barrier{buffer, ir::MakeInt(0)};
    return e.Error(args.LocOf(i),
                   absl::StrCat("'", buffer->name, "' is ", buffer->values->size(), " barriers"),
                   absl::StrCat("name one: ", buffer->name, "[0]"));
  }
  const AccessObject* access = v.Is(Type::kAccess) ? &v.access() : nullptr;
  if (v.Is(Type::kExpr)) access = v.expr().origin;  // a name for an element
  if (access != nullptr && access->is_point && access->buffer->scope == ir::Scope::kBarrier) {
    return Barrier{access->buffer, access->indices[0].min};
  }
  return e.Error(args.LocOf(i), absl::StrCat("a barrier is wanted here, not ", Describe(v)),
                 "pass what T.alloc_barrier returned, or one of its elements");
}

absl::StatusOr<Value> AllocBarrier(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, "T.alloc_barrier"));
  std::vector<Value> counts = {args[0]};
  if (args[0].is_sequence()) counts = args[0].seq().items;
  auto values = std::make_shared<std::vector<int64_t>>();
  for (const Value& v : counts) {
    KILN_ASSIGN_OR_RETURN(const int64_t count, e.ToInt(v, args.LocOf(0), "arrive_count"));
    if (count < 1 || count > kMaxArrivals) {
      return e.Error(args.LocOf(0), absl::StrCat("arrive_count is ", count),
                     absl::StrCat("use 1 to ", kMaxArrivals, " arrivals a phase"));
    }
    values->push_back(count);
  }
  if (values->empty()) {
    return e.Error(args.LocOf(0), "T.alloc_barrier of no barriers", "give one count a barrier");
  }
  KILN_ASSIGN_OR_RETURN(
      const ir::Buffer named,
      e.NewNamedBuffer(kInt32, {ir::MakeInt(static_cast<int64_t>(values->size()))},
                       ir::Scope::kBarrier, args.loc, {}, "barrier"));
  auto node = std::make_shared<ir::BufferNode>(*named);
  node->values = std::move(values);
  const ir::Buffer buffer = std::move(node);
  KILN_RETURN_IF_ERROR(e.EmitNew<ir::Alloc>(args.loc, buffer));
  return e.NewBuffer(buffer);
}

namespace {

// By every thread that comes by, or by one for all of them (follow_barriers.h).
absl::Status EmitArrival(Elaborator& e, const BoundArgs& args, size_t i, bool by_each) {
  KILN_ASSIGN_OR_RETURN(const Barrier barrier, ToBarrier(e, args, i));
  return e.EmitNew<ir::Store>(args.loc, barrier.buffer, std::vector<ir::Expr>{barrier.index},
                              ir::MakeInt(by_each ? kOfEach : kOfOne));
}

absl::StatusOr<Value> Arrive(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(EmitArrival(e, args, 0, true));
  return Value::None();
}

absl::StatusOr<Value> ArriveHere(Elaborator& e, const BoundArgs& args) {
  if (!args.Given(1)) return Arrive(e, args);
  KILN_ASSIGN_OR_RETURN(const Barrier barrier, ToBarrier(e, args, 0));
  KILN_ASSIGN_OR_RETURN(const ir::Expr block, ToBlock(e, args, 1, "cta_id"));
  KILN_RETURN_IF_ERROR(ArriveInBlock(e, args.loc, block, {}, &barrier));
  return Value::None();
}

absl::StatusOr<Value> Wait(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const Barrier barrier, ToBarrier(e, args, 0));
  KILN_ASSIGN_OR_RETURN(const Operand parity, e.ToIndex(args[1], args.LocOf(1), "the parity"));
  const ir::Expr phases = ir::MakeLoad(barrier.buffer, {barrier.index});
  KILN_RETURN_IF_ERROR(
      e.EmitNew<ir::Assert>(args.loc,
                            ir::Expr(std::make_shared<const ir::Binary>(
                                kBool, ir::BinaryOp::kEq, phases, ir::MakeCast(kInt32, parity.e))),
                            "a wait"));
  return Value::None();
}

// Bytes are counted by who moves them.
absl::StatusOr<Value> Expect(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(ToBarrier(e, args, 0).status());
  return Value::None();
}

absl::StatusOr<Value> Nothing(Elaborator&, const BoundArgs&) { return Value::None(); }

// The second is 1 to take registers, 0 to give them back; there are 24 to 256 a thread, by eights.
absl::StatusOr<Value> SetRegisters(Elaborator& e, const BoundArgs& args) {
  KILN_ASSIGN_OR_RETURN(const int64_t count, e.ToInt(args[0], args.LocOf(0), "the registers"));
  if (count != 0 && (count < 24 || count > 256 || count % 8 != 0)) {
    return e.Error(args.LocOf(0), absl::StrCat(count, " registers a thread"),
                   "use a multiple of 8 from 24 to 256");
  }
  if (!args.Has(1)) return Value::None();
  KILN_ASSIGN_OR_RETURN(const int64_t more, e.ToInt(args[1], args.LocOf(1), "is_inc"));
  if (more == 0 || more == 1) return Value::None();
  return e.Error(args.LocOf(1), absl::StrCat("T.set_max_nreg takes 1 or 0 for is_inc, not ", more),
                 "use 1 where the threads take registers, 0 where they give them back");
}

absl::StatusOr<Value> TmaCopy(Elaborator& e, const BoundArgs& args) {
  const bool load = args[1].Is(Type::kBuffer) || args[1].Is(Type::kAccess);
  const ir::Buffer to = args[1].Is(Type::kBuffer)   ? args[1].buffer().buffer
                        : args[1].Is(Type::kAccess) ? args[1].access().buffer
                                                    : ir::Buffer();
  if (!args.Given(2) && load && to->scope == ir::Scope::kShared) {
    return e.Error(args.loc,
                   absl::StrCat("T.tma_copy into the shared tile '", to->name,
                                "' names no barrier, and nothing could wait for it"),
                   "pass barrier=bar[0] of a T.alloc_barrier and wait for it, or use T.copy");
  }
  if (args.Given(2)) KILN_RETURN_IF_ERROR(ToBarrier(e, args, 2).status());
  if (args.Given(3)) {
    KILN_ASSIGN_OR_RETURN(const int64_t mask, ToMask(e, args, 3));
    return CopyToMask(e, args, mask, 5);
  }
  return CallAs(e, "copy", args, {0, 1, std::nullopt, std::nullopt, 5});
}

absl::StatusOr<Value> AsyncCopy(Elaborator& e, const BoundArgs& args) {
  return CallAs(e, "copy", args,
                {0, 1, 2, std::nullopt, std::nullopt, std::nullopt, std::nullopt, 4});
}

absl::StatusOr<Value> WgmmaGemm(Elaborator& e, const BoundArgs& args) {
  return CallAs(e, "gemm", args, {0, 1, 2, 3, 4, 5, 6});
}

constexpr Builtin kRows[] = {
    {"T.alloc_barrier", "arrive_count", AllocBarrier},
    {"T.barrier_arrive", "mbarrier", Arrive},
    {"T.barrier_wait", "mbarrier parity", Wait},
    {"T.mbarrier_arrive", "mbarrier cta_id?", ArriveHere},
    {"T.mbarrier_wait_parity", "mbarrier parity", Wait},
    {"T.mbarrier_expect_tx", "mbarrier tx", Expect},
    {"T.mbarrier_arrive_expect_tx", "mbarrier tx", Arrive},
    {"T.cp_async_barrier_noinc", "barrier", Arrive},
    {"T.tma_copy",
     "src dst * barrier? cluster_mask? leader_scope_threads? eviction_policy? annotations?",
     TmaCopy},
    {"T.async_copy", "src dst * coalesced_width? annotations? loop_layout?", AsyncCopy},
    {"T.wgmma_gemm", "A B C transpose_A? transpose_B? policy? clear_accum? annotations?",
     WgmmaGemm},
    {"T.wait_wgmma", "id", Nothing},
    {"T.warpgroup_arrive", "", Nothing},
    {"T.warpgroup_commit_batch", "", Nothing},
    {"T.warpgroup_wait", "num_mma", Nothing},
    {"T.warpgroup_fence_operand", "buffer_or_ptr offset? num_regs? dtype?", Nothing},
    {"T.fence_proxy_async", "", Nothing},
    {"T.tma_store_arrive", "", Nothing},
    {"T.tma_store_wait", "count? read?", Nothing},
    {"T.ptx_commit_group", "", Nothing},
    {"T.ptx_wait_group", "num", Nothing},
    {"T.set_max_nreg", "reg_count is_inc", SetRegisters},
    {"T.inc_max_nreg", "reg_count", SetRegisters},
    {"T.dec_max_nreg", "reg_count", SetRegisters},
    {"T.annotate_producer_reg_dealloc", "reg_count?", Nothing},
    {"T.annotate_consumer_reg_alloc", "reg_count?", Nothing},
};

}  // namespace

absl::Status ArriveOnce(Elaborator& e, const BoundArgs& args, size_t i) {
  return EmitArrival(e, args, i, false);
}

absl::StatusOr<Value> CallAs(Elaborator& e, const char* name, const BoundArgs& args,
                             const std::vector<std::optional<size_t>>& from) {
  BoundArgs bound;
  bound.loc = args.loc;
  for (const std::optional<size_t>& i : from) {
    const bool has = i.has_value() && args.Has(*i);
    bound.values.push_back(has ? args[*i] : Value::None());
    bound.present.push_back(has);
    bound.locs.push_back(has ? args.LocOf(*i) : args.loc);
  }
  return FindModule("tilelang.language")->members.at(name).builtin()->function(e, bound);
}

BuiltinTable BarrierBuiltins() { return {kRows, std::size(kRows)}; }

}  // namespace kiln::lang
