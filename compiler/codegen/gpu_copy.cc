// Copies between tensors and tiles of shared memory that the machine makes while threads go on: TMA
// (PTX 9.7.9.27).
#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/codegen/cache_policy.h"
#include "compiler/codegen/gpu_instruct.h"
#include "compiler/ir/shared_use.h"
#include "compiler/layout/swizzle.h"
#include "llvm/IR/IntrinsicsNVPTX.h"

namespace kiln::codegen {

using llvm::Value;

GpuInstructEmitter::TensorBox GpuInstructEmitter::BoxOf(const ir::Instruct& x) {
  const ir::Region& global = x.regions[1];
  TensorBox box;
  box.map = MapOf(x);
  const auto found = absl::c_find(maps_.maps, box.map);
  KILN_CHECK(found != maps_.maps.end());
  Value* parameter = maps_.parameters[static_cast<size_t>(found - maps_.maps.begin())];
  box.descriptor = b_.CreatePtrToInt(parameter, b_.getInt64Ty());
  box.tile = SharedAddress(x.regions[0]);
  box.columns = *ir::ConstInt(global.ranges.back().extent);
  box.panel_bytes = NoteOf(x, "height0") * box.map.swizzle;
  box.row_bytes =
      box.map.swizzle > 0 ? box.map.swizzle : box.columns * global.buffer->dtype.bytes();
  if (box.map.banded_rows >= 0) {  // one box has all panels
    box.row_bytes *= layout::kAtomRows * box.columns / box.map.box.back();
    box.columns = box.map.box.back();
  }
  const int rows = ir::RowDimension(global);
  for (const ViewSide& side : ViewOf(box.map)) {
    if (side.along == rows && !side.within) box.row = box.start.size();
    const ir::Expr at = side.within ? ir::MakeInt(0) : global.ranges[side.along].min;
    Value* start = b_.CreateIntCast(exprs_.Emit(at), b_.getInt32Ty(), true);
    if (side.unit > 1 && !side.within) {
      start = b_.CreateExactSDiv(start, b_.getInt32(static_cast<uint32_t>(side.unit)));
    }
    box.start.push_back(start);
  }
  return box;
}

void GpuInstructEmitter::ForPanels(const TensorBox& box, const std::string& text,
                                   const std::vector<Value*>& more) {
  const auto n = [&](int64_t v) { return b_.getInt32(static_cast<uint32_t>(v)); };
  std::string constraints = "r,l";
  for (size_t d = 0; d < box.start.size(); ++d) constraints += ",r";
  for (const Value* v : more) {
    const unsigned bits = v->getType()->getIntegerBitWidth();
    constraints += bits == 16 ? ",h" : bits == 64 ? ",l" : ",r";
  }
  for (int64_t p = 0; p * box.map.box.back() < box.columns; ++p) {
    std::vector<Value*> args = {b_.CreateAdd(box.tile, n(p * box.panel_bytes)), box.descriptor};
    args.push_back(b_.CreateAdd(box.start.back(), n(p * box.map.box.back())));
    args.insert(args.end(), box.start.rbegin() + 1, box.start.rend());
    args.insert(args.end(), more.begin(), more.end());
    Asm(text, constraints, args);
  }
}

// Coordinates are innermost first, after the tile and the descriptor.
std::string GpuInstructEmitter::CoordinatesOf(const TensorBox& box) {
  std::vector<std::string> names;
  for (size_t d = 0; d < box.start.size(); ++d) names.push_back(absl::StrCat("$", 2 + d));
  return absl::StrCat("[$1, {", absl::StrJoin(names, ", "), "}]");
}

Value* GpuInstructEmitter::PolicyOf(const ir::Instruct& x) {
  const auto evict = x.annotations.find("evict");
  if (evict == x.annotations.end()) return nullptr;
  return CachePolicy(b_, *ir::ParseCacheHint(evict->second));
}

// In a cluster each block loads its share of the rows into the same place of all blocks.
void GpuInstructEmitter::EmitTensorLoad(const ir::Instruct& x) {
  TensorBox box = BoxOf(x);
  const int64_t blocks = std::max<int64_t>(1, NoteOf(x, "cluster"));
  if (blocks > 1) {
    Value* block = b_.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_cluster_ctarank, {}, {});
    const int64_t rows = box.map.box[box.row];
    const auto times = [&](int64_t n) {
      return b_.CreateMul(block, b_.getInt32(static_cast<uint32_t>(n)));
    };
    box.tile = b_.CreateAdd(box.tile, times(rows * box.row_bytes));
    box.start[box.row] = b_.CreateAdd(box.start[box.row], times(rows));
  }
  const size_t rank = box.start.size();
  std::vector<Value*> last = {SharedAddress(x.regions[2])};
  std::string text = absl::StrCat("cp.async.bulk.tensor.", rank,
                                  "d.shared::cluster.global.mbarrier::complete_tx::bytes");
  const int64_t mask = blocks > 1 ? (1 << blocks) - 1 : NoteOf(x, ir::kMulticast);
  if (mask != 0) absl::StrAppend(&text, ".multicast::cluster");
  Value* policy = PolicyOf(x);
  if (policy != nullptr) absl::StrAppend(&text, ".L2::cache_hint");
  absl::StrAppend(&text, " [$0], ", CoordinatesOf(box), ", [$", 2 + rank, "]");
  if (mask != 0) absl::StrAppend(&text, ", ", mask);
  if (policy != nullptr) absl::StrAppend(&text, ", $", 3 + rank), last.push_back(policy);
  ForPanels(box, absl::StrCat(text, ";"), last);
}

// Offsets are innermost first, as coordinates are, and have 16 bits.
void GpuInstructEmitter::EmitPatchLoad(const ir::Instruct& x) {
  const TensorBox box = BoxOf(x);
  const auto offset = [&](size_t i) {
    return b_.CreateIntCast(exprs_.Emit(x.args[i]), b_.getInt16Ty(), true);
  };
  const size_t next = 2 + box.start.size();
  ForPanels(
      box,
      absl::StrCat("cp.async.bulk.tensor.", box.start.size(),
                   "d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [$0], ",
                   CoordinatesOf(box), ", [$", next, "], {$", next + 1, ", $", next + 2, "};"),
      {SharedAddress(x.regions[2]), offset(1), offset(0)});
}

// 16 bytes go past the first cache (PTX 9.7.9.25.3); what is not valid is not read. Without a cache
// policy: where a shared address has a part that all threads share, ptxas 13.0 makes an instruction
// of it that no machine has (LDGSTS [R15+UR0], desc[UR1]: error 715 on an H200).
void GpuInstructEmitter::EmitAsyncCopy(const ir::Instruct& x) {
  const ir::Region& from = x.regions[1];
  const int64_t bytes = *ir::ConstInt(from.ranges.back().extent) * from.buffer->dtype.bytes();
  std::vector<ir::Expr> first;
  for (const ir::Range& range : from.ranges) first.push_back(range.min);
  const std::string text =
      absl::StrCat("cp.async.", bytes == 16 ? "cg" : "ca", ".shared.global [$0], [$1], ", bytes);
  Value* source = b_.CreatePtrToInt(exprs_.EmitAddress(from.buffer, first), b_.getInt64Ty());
  Value* target = SharedAddress(x.regions[0]);
  if (ir::IsConst(x.args[0], 1)) {
    return Asm(absl::StrCat(text, ";"), "r,l", {target, source});
  }
  Value* valid = b_.CreateSelect(exprs_.Emit(x.args[0]), b_.getInt32(static_cast<uint32_t>(bytes)),
                                 b_.getInt32(0));
  Asm(absl::StrCat(text, ", $2;"), "r,l,r", {target, source, valid});
}

// red.global.add (9.7.13.6): numbers of 16 bits in pairs, but for one alone.
void GpuInstructEmitter::EmitGlobalAdd(const ir::Instruct& x) {
  const ir::Region& to = x.regions[0];
  const DType type = to.buffer->dtype;
  std::vector<ir::Expr> first;
  for (const ir::Range& range : to.ranges) first.push_back(range.min);
  std::vector<Value*> args = {
      b_.CreatePtrToInt(exprs_.EmitAddress(to.buffer, first), b_.getInt64Ty())};
  std::vector<Value*> values;
  for (const ir::Expr& e : x.args) {
    values.push_back(exprs_.EmitStored(e, 1));
  }
  const bool paired = type.bits == 16 && values.size() > 1;
  const size_t words = paired ? values.size() / 2 : values.size();
  std::string constraints = "l";
  std::vector<std::string> names;
  for (size_t i = 0; i < words; ++i) {
    names.push_back(absl::StrCat("$", i + 1));
    absl::StrAppend(&constraints, type == kFloat32 ? ",f" : paired ? ",r" : ",h");
    if (!paired) {
      args.push_back(type == kFloat32 ? values[i] : b_.CreateBitCast(values[i], b_.getInt16Ty()));
      continue;
    }
    args.push_back(PairOf(values[2 * i], values[2 * i + 1]));
  }
  const std::string vector = words > 1 ? absl::StrCat(".v", words) : "";
  const std::string list = absl::StrJoin(names, ", ");
  Asm(absl::StrCat("red.global.add", type.bits == 16 ? ".noftz" : "", vector, ".",
                   type == kFloat32 ? "f32" : PtxType(type), paired ? "x2" : "", " [$0], ",
                   words > 1 ? absl::StrCat("{", list, "}") : list, ";"),
      constraints, args);
}

// A group of its own: those who wait count stores.
void GpuInstructEmitter::EmitTensorStore(const ir::Instruct& x) {
  const TensorBox box = BoxOf(x);
  Value* policy = exprs_.CachePolicyOf(x.regions[1].buffer);
  std::string text =
      absl::StrCat("cp.async.bulk.tensor.", box.start.size(), "d.global.shared::cta.bulk_group");
  std::vector<Value*> last;
  if (policy != nullptr) absl::StrAppend(&text, ".L2::cache_hint");
  absl::StrAppend(&text, " ", CoordinatesOf(box), ", [$0]");
  if (policy != nullptr)
    absl::StrAppend(&text, ", $", 2 + box.start.size()), last.push_back(policy);
  ForPanels(box, absl::StrCat(text, ";"), last);
  Asm("cp.async.bulk.commit_group;");
}

}  // namespace kiln::codegen
