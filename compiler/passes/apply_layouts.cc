#include "compiler/passes/apply_layouts.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <unordered_map>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/printer.h"
#include "compiler/layout/swizzle.h"
#include "compiler/layout/text.h"
#include "compiler/passes/build.h"
#include "compiler/passes/memory_access.h"
#include "compiler/passes/shared_tiles.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Stmt;

constexpr absl::string_view kPanels = "panels:";
constexpr int kSwizzledAlign = 1024;  // bytes: a swizzle is of addresses (PTX 5.5.7)

class Apply : public FactsMutator {
 public:
  explicit Apply(const ir::Program& program) : names_(NamesIn(program.body)) {}

  absl::Status status;

 protected:
  ir::Buffer VisitBuffer(const ir::Buffer& buffer) override {
    const auto known = mapped_.find(buffer.get());
    if (known != mapped_.end()) return known->second;
    ir::Buffer storage = buffer;
    if (!buffer->layout.empty()) storage = StorageOf(buffer);
    mapped_[buffer.get()] = storage;
    return storage;
  }

  Expr VisitExpr(const Expr& e) override {
    const auto* load = e.As<ir::Load>();
    if (load == nullptr || load->buffer->layout.empty()) return RebuildExpr(e);
    return ir::MakeLoad(VisitBuffer(load->buffer), Map(load->buffer, MutateAll(load->indices)),
                        load->predicate.defined() ? Mutate(load->predicate) : Expr());
  }

  Stmt VisitStmt(const Stmt& s) override {
    if (const auto* gemm = s.As<ir::PairGemm>(); gemm && !gemm->b.buffer->layout.empty()) {
      return ir::MakeStmt<ir::PairGemm>(s->loc, MutateRegion(gemm->a), MapRegion(gemm->b),
                                        MutateRegion(gemm->c));
    }
    if (const auto* atomic = s.As<ir::Atomic>(); atomic && !atomic->dst.buffer->layout.empty()) {
      return VisitAtomic(*atomic);
    }
    if (const auto* x = s.As<ir::Instruct>()) return VisitInstruct(*x);
    const auto* store = s.As<ir::Store>();
    if (store == nullptr || store->buffer->layout.empty()) return FactsMutator::VisitStmt(s);
    return ir::MakeStmt<ir::Store>(
        s->loc, VisitBuffer(store->buffer), Map(store->buffer, MutateAll(store->indices)),
        Mutate(store->value), store->predicate.defined() ? Mutate(store->predicate) : Expr(),
        store->way);
  }

 private:
  // An update of one element.
  Stmt VisitAtomic(const ir::Atomic& atomic) {
    std::vector<Expr> indices;
    for (const ir::Range& range : atomic.dst.ranges) indices.push_back(Mutate(range.min));
    ir::Region dst{VisitBuffer(atomic.dst.buffer), {}};
    for (const Expr& index : Map(atomic.dst.buffer, indices)) {
      dst.ranges.push_back({index, ir::MakeInt(1)});
    }
    ir::AtomicWay way = atomic.way;
    if (way.previous) way.previous = VisitBuffer(way.previous);
    return ir::MakeStmt<ir::Atomic>(atomic.loc, atomic.op, dst, ir::Region{}, Mutate(atomic.value),
                                    std::move(way));
  }

  // Operands become runs of their storage; what the instruction must know of how they lie is noted.
  Stmt VisitInstruct(const ir::Instruct& x) {
    std::vector<ir::Region> regions;
    std::map<std::string, std::string> notes = x.annotations;
    for (size_t i = 0; i < x.regions.size(); ++i) {
      const ir::Region& r = x.regions[i];
      if (r.buffer->layout.empty()) {
        regions.push_back(MutateRegion(r));
        continue;
      }
      const layout::SwizzleLayout* swizzle = PlacedOf(r.buffer).layout.swizzle(layout::Axis::kM);
      const auto height = ir::ConstInt(r.buffer->shape[r.buffer->shape.size() - 2]);
      if (swizzle == nullptr || !height) {
        status = absl::InternalError(absl::StrCat(ir::Name(x.op), " of '", r.buffer->name,
                                                  "', whose layout is ", r.buffer->layout));
        continue;
      }
      notes[absl::StrCat("swizzle", i)] = absl::StrCat(16 << swizzle->swizzle_len);
      notes[absl::StrCat("height", i)] = absl::StrCat(*height);
      const int64_t width = (16 << swizzle->swizzle_len) / r.buffer->dtype.bytes();
      const int64_t bands = BandsOf(r.buffer, width, *height);
      if (bands > 0) notes[absl::StrCat("bands", i)] = absl::StrCat(bands);
      if (IsProduct(x.op)) {
        regions.push_back(PartOfTile(r, i, width, *height, bands, &notes));
        continue;
      }
      std::vector<Expr> first;
      Expr elements = ir::MakeInt(1);
      for (const ir::Range& range : r.ranges) {
        first.push_back(Mutate(range.min));
        elements = elements * range.extent;
      }
      regions.push_back(Run(r.buffer, first, elements));
    }
    return ir::MakeStmt<ir::Instruct>(x.loc, x.op, std::move(regions), MutateAll(x.args),
                                      std::move(notes));
  }

  static bool IsProduct(ir::Instruction op) {
    return op == ir::Instruction::kMma || op == ir::Instruction::kSparseMma ||
           op == ir::Instruction::kWgmma || op == ir::Instruction::kTcgen05Mma;
  }

  // The panels of a tile of which all of eight rows lie together; 0 where each panel does.
  int64_t BandsOf(const ir::Buffer& tile, int64_t width, int64_t height) {
    const auto columns = ir::ConstInt(tile->shape.back());
    if (!columns || *columns <= width || height <= layout::kAtomRows) return 0;
    const layout::Layout& lies = PlacedOf(tile).layout;
    const int64_t apart = lies.Base(width)[layout::Axis::kM] - lies.Base(0)[layout::Axis::kM];
    return apart == layout::kAtomRows * width ? *columns / width : 0;
  }

  // Operand `i` of a product: from the atom that it begins in to its last row of the last panel,
  // with rows of `width` elements. What there is of that atom before it is noted.
  ir::Region PartOfTile(const ir::Region& r, size_t i, int64_t width, int64_t height, int64_t bands,
                        std::map<std::string, std::string>* notes) {
    const size_t rank = r.ranges.size();
    std::vector<Expr> first;
    for (const ir::Range& range : r.ranges) first.push_back(Mutate(range.min));
    const auto back = [&](const char* what, size_t d, int64_t divisor) -> int64_t {
      const auto over = ResidueOf(r.ranges[d].min, divisor, names_);
      if (!over) {
        status = absl::InternalError(absl::StrCat("a product reads a part of '", r.buffer->name,
                                                  "' from ", ir::ToString(first[d]), " on"));
        return 0;
      }
      if (*over != 0) (*notes)[absl::StrCat(what, i)] = absl::StrCat(*over);
      first[d] = facts_.Simplify(first[d] - ir::MakeConst(*over, first[d].dtype()));
      return *over;
    };
    const int64_t rows = back("row", rank - 2, layout::kAtomRows);
    const int64_t columns = back("column", rank - 1, width);
    const Expr last_row = r.ranges[rank - 2].extent + ir::MakeInt(rows);
    const Expr panels =
        ir::CeilDiv(r.ranges[rank - 1].extent + ir::MakeInt(columns), ir::MakeInt(width));
    // Rows of panels up to its last one, wherever they are.
    const Expr before_last =
        bands == 0 ? (panels - ir::MakeInt(1)) * ir::MakeInt(height) + last_row
                   : (ir::CeilDiv(last_row, ir::MakeInt(layout::kAtomRows)) - ir::MakeInt(1)) *
                             ir::MakeInt(layout::kAtomRows * bands) +
                         panels * ir::MakeInt(layout::kAtomRows);
    const Expr elements = before_last * ir::MakeInt(width);
    return Run(r.buffer, first, facts_.Simplify(elements));
  }

  // So many elements of a tile's storage, from the place of one on.
  ir::Region Run(const ir::Buffer& buffer, const std::vector<Expr>& first, const Expr& elements) {
    ir::Region run{VisitBuffer(buffer), {}};
    for (const Expr& index : Place(buffer, first)) run.ranges.push_back({index, ir::MakeInt(1)});
    run.ranges.back().extent = elements;
    return run;
  }

  static bool HasPanels(const ir::Buffer& buffer) {
    return absl::StartsWith(buffer->layout, kPanels);
  }

  static int PanelWidth(const ir::Buffer& buffer) {
    int width = 0;
    absl::string_view text = buffer->layout;
    KILN_CHECK(HasPanels(buffer) && absl::SimpleAtoi(text.substr(kPanels.size()), &width) &&
               width > 0);
    return width;
  }

  ir::Buffer StorageOf(const ir::Buffer& buffer) {
    ir::BufferNode storage = *buffer;
    storage.layout.clear();
    if (!HasPanels(buffer)) {
      const Placed& placed = PlacedOf(buffer);
      storage.shape = {ir::MakeInt((placed.last - placed.first + 1) / buffer->blocks)};
      if (buffer->blocks > 1) storage.shape.insert(storage.shape.begin(), buffer->shape[0]);
      if (placed.layout.swizzle(layout::Axis::kM) != nullptr) storage.alignment = kSwizzledAlign;
      return std::make_shared<const ir::BufferNode>(storage);
    }
    const int width = PanelWidth(buffer);
    storage.shape = {ir::FloorDiv(buffer->shape[1], ir::MakeInt(width)), buffer->shape[0],
                     ir::MakeInt(width)};
    return std::make_shared<const ir::BufferNode>(storage);
  }

  // A layout and the places of memory that it uses, from a multiple of the widest access on.
  struct Placed {
    layout::Layout layout;
    int64_t first = INT64_MAX, last = INT64_MIN;
  };

  const Placed& PlacedOf(const ir::Buffer& buffer) {
    const auto [found, fresh] = placed_.try_emplace(buffer.get());
    Placed& placed = found->second;
    if (!fresh) return placed;
    placed.layout = layout::MustParse(buffer->layout);
    std::tie(placed.first, placed.last) = placed.layout.Range(layout::Axis::kM);
    // Whole periods of a swizzle stay where they are.
    const layout::SwizzleLayout* swizzle = placed.layout.swizzle(layout::Axis::kM);
    const int64_t period =
        swizzle == nullptr
            ? 1
            : int64_t{1} << (swizzle->per_element + swizzle->atom_len + swizzle->swizzle_len);
    const bool whole = placed.first % period == 0 && (placed.last + 1) % period == 0;
    for (int64_t x = 0; !whole && x < placed.layout.size(); ++x) {
      const int64_t place = placed.layout.Base(x)[layout::Axis::kM];
      placed.first = std::min(placed.first, place);
      placed.last = std::max(placed.last, place);
    }
    const int64_t widest = std::max<int64_t>(1, kVectorBytes / buffer->dtype.bytes());
    placed.first -= (placed.first % widest + widest) % widest;
    return placed;
  }

  // The place of an element: its row-major number, split into the layout's digits, each times its
  // stride, swizzled.
  std::vector<Expr> Place(const ir::Buffer& buffer, const std::vector<Expr>& indices) {
    Expr flat = ir::MakeInt(0);
    const bool ranks = buffer->blocks > 1;  // which stay: all blocks have the tile in one way
    if (ranks && !LiesAlike(buffer)) return indices;
    for (size_t d = ranks ? 1 : 0; d < indices.size(); ++d) {
      if (indices[d].dtype().lanes > 1) {
        status = absl::InternalError(absl::StrCat("vector access of '", buffer->name,
                                                  "', whose layout is ", buffer->layout));
        return indices;
      }
      flat = flat * buffer->shape[d] + indices[d];
    }
    const auto& [layout, first, last] = PlacedOf(buffer);
    Expr place = ir::MakeInt(layout.offset(layout::Axis::kM));
    int64_t inner = 1;
    for (size_t d = layout.shard().size(); d-- > 0;) {
      const layout::Iter& digit = layout.shard()[d];
      Expr value = ir::FloorDiv(flat, ir::MakeInt(inner));
      if (d > 0) value = ir::FloorMod(value, ir::MakeInt(digit.extent));
      place = place + facts_.Simplify(value) * ir::MakeInt(digit.stride);
      inner *= digit.extent;
    }
    if (const layout::SwizzleLayout* s = layout.swizzle(layout::Axis::kM)) {
      place = Swizzled(place, *s);
    }
    place = place - ir::MakeInt(first);
    return ranks ? std::vector<Expr>{indices[0], place} : std::vector<Expr>{place};
  }

  // Whether what another block has of a tile lies as far into it as what this one has.
  bool LiesAlike(const ir::Buffer& buffer) {
    const auto& [layout, first, last] = PlacedOf(buffer);
    const int64_t own = layout.size() / buffer->blocks, bytes = (last - first + 1) / buffer->blocks;
    const int64_t apart = layout.Base(own)[layout::Axis::kM] - layout.Base(0)[layout::Axis::kM];
    if (apart == bytes) return true;
    status = absl::InternalError(absl::StrCat("'", buffer->name, "' of ", buffer->blocks,
                                              " blocks, whose layout is ", buffer->layout));
    return false;
  }

  // What a swizzle leaves together stays a sum, so that neighbours are seen to be neighbours.
  Expr Swizzled(const Expr& place, const layout::SwizzleLayout& s) {
    const Expr together = ir::MakeInt(int64_t{1} << s.per_element);
    const Expr group = facts_.Simplify(ir::FloorDiv(place, together));
    const Expr bits =
        ir::FloorMod(ir::FloorDiv(group, ir::MakeInt(int64_t{1} << (s.inner ? s.atom_len : 0))),
                     ir::MakeInt(int64_t{1} << s.swizzle_len));
    const Expr moved = bits * ir::MakeInt(int64_t{1} << (s.inner ? 0 : s.atom_len));
    return ir::MakeBinary(ir::BinaryOp::kBitXor, group, moved) * together +
           facts_.Simplify(ir::FloorMod(place, together));
  }

  std::vector<Expr> Map(const ir::Buffer& buffer, const std::vector<Expr>& indices) {
    return HasPanels(buffer) ? InPanel(buffer, indices) : Place(buffer, indices);
  }

  // [k, n] -> [n / w, k, n % w].
  std::vector<Expr> InPanel(const ir::Buffer& buffer, const std::vector<Expr>& indices) {
    const Expr width = ir::MakeInt(PanelWidth(buffer));
    const auto* ramp = indices[1].As<ir::Ramp>();
    if (ramp == nullptr) {
      return {facts_.Simplify(ir::FloorDiv(indices[1], width)), indices[0],
              facts_.Simplify(ir::FloorMod(indices[1], width))};
    }
    const int lanes = ramp->dtype.lanes;
    if (!ir::IsConst(ramp->stride, 1) || *ir::ConstInt(width) % lanes != 0 ||
        !facts_.Divides(lanes, ramp->base)) {
      status = absl::InternalError(absl::StrCat("vector access of '", buffer->name, "' at ",
                                                ir::ToString(indices[1]), " may cross a panel of ",
                                                *ir::ConstInt(width)));
      return indices;
    }
    const Expr inside = facts_.Simplify(ir::FloorMod(ramp->base, width));
    return {facts_.Simplify(ir::FloorDiv(ramp->base, width)), indices[0],
            ir::MakeRamp(inside, ramp->stride, lanes)};
  }

  ir::Region MapRegion(const ir::Region& region) {
    const int64_t width = PanelWidth(region.buffer);
    const Expr& first = region.ranges[1].min;
    const auto columns = ir::ConstInt(region.ranges[1].extent);
    if (!columns.has_value() || *columns > width || !facts_.Divides(width, first)) {
      status = absl::InternalError(
          absl::StrCat("region ", ir::ToString(region), " may cross a panel of ", width));
      return region;
    }
    return {VisitBuffer(region.buffer),
            {{facts_.Simplify(ir::FloorDiv(first, ir::MakeInt(width))), ir::MakeInt(1)},
             {Mutate(region.ranges[0].min), region.ranges[0].extent},
             {ir::MakeInt(0), region.ranges[1].extent}}};
  }

  const ir::Facts names_;
  ir::BufferMap mapped_;
  std::unordered_map<const ir::BufferNode*, Placed> placed_;
};

}  // namespace

absl::StatusOr<ir::Program> ApplyLayouts(const ir::Program& program, const PassContext&) {
  Apply apply(program);
  ir::Program out = program;
  out.body = apply.Mutate(program.body);
  KILN_RETURN_IF_ERROR(apply.status);
  return out;
}

}  // namespace kiln::passes
