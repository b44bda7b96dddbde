#include "compiler/passes/shared_tiles.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/visit.h"
#include "compiler/layout/swizzle.h"
#include "compiler/layout/text.h"

namespace kiln::passes {
namespace {

using ir::Stmt;

constexpr int64_t kWarp = 32;
constexpr int64_t kLeastSwizzle = 32, kMostSwizzle = 128;  // bytes
constexpr char kAnnotated[] = "as it is annotated";

std::optional<std::vector<int64_t>> ShapeOf(const ir::Buffer& buffer) {
  std::vector<int64_t> shape;
  for (const ir::Expr& extent : buffer->shape) {
    const auto n = ir::ConstInt(extent);
    if (!n) return std::nullopt;
    shape.push_back(*n);
  }
  return shape;
}

target::OperandSpace SpaceOf(const ir::Region& region) {
  return region.buffer->scope == ir::Scope::kFragment ? target::OperandSpace::kRegisters
                                                      : target::OperandSpace::kShared;
}

// Where an operand begins in its tile of shared memory, which is the last two dimensions of its
// buffer; nullopt where it is all of it. `facts` know what variables are bound to.
std::optional<target::TilePart> PartOf(const ir::Region& region, const ir::Facts& facts) {
  const size_t rank = region.ranges.size();
  if (region.buffer->scope != ir::Scope::kShared || rank < 2) return std::nullopt;
  const ir::Range &rows = region.ranges[rank - 2], &columns = region.ranges[rank - 1];
  const std::vector<ir::Expr>& shape = region.buffer->shape;
  const auto whole = [](const ir::Range& range, const ir::Expr& extent) {
    return ir::IsConst(range.min, 0) && ir::Same(range.extent, extent);
  };
  if (whole(rows, shape[rank - 2]) && whole(columns, shape[rank - 1])) return std::nullopt;
  target::TilePart part;
  part.rows = ir::ConstInt(shape[rank - 2]).value_or(1);
  part.columns = ir::ConstInt(shape[rank - 1]).value_or(1);
  part.row = ResidueOf(rows.min, layout::kAtomRows, facts);
  for (part.known = kMostSwizzle; part.known >= kLeastSwizzle; part.known /= 2) {
    const auto column = ResidueOf(columns.min, part.known / region.buffer->dtype.bytes(), facts);
    part.column = column.value_or(0);
    if (column) return part;
  }
  part.known = 0;
  return part;
}

// Whether where an operand begins in its tile is not plainly a number.
bool IsNamed(const ir::Region& region) {
  const size_t rank = region.ranges.size();
  bool named = false;
  for (size_t d = std::max<size_t>(rank, 2) - 2; d < rank; ++d) {
    named |= !ir::ConstInt(region.ranges[d].min);
  }
  return named;
}

// Rows and columns of a matrix operand.
std::optional<std::pair<int64_t, int64_t>> MatrixOf(const ir::Region& region) {
  const auto dims = ir::MatrixDims(region);
  if (!dims) return std::nullopt;
  const auto rows = ir::ConstInt(region.ranges[dims->first].extent);
  const auto columns = ir::ConstInt(region.ranges[dims->second].extent);
  if (!rows || !columns) return std::nullopt;
  return std::make_pair(*rows, *columns);
}

class Planner {
 public:
  Planner(const ir::Program& program, layout::ThreadRange threads, const target::Arch& arch)
      : program_(program), threads_(threads), arch_(arch) {}

  absl::StatusOr<ProductsOfLaunch> Plan(const ir::Launch& launch) {
    absl::Status status;
    ir::Walk(launch.body, [&](const Stmt& s) {
      if (const auto* part = s.As<ir::OnThreads>()) {
        ir::Walk(part->body, [&](const Stmt& inner) {
          if (inner.As<ir::Gemm>() != nullptr) parts_[inner.get()] = {part->first, part->count};
          return true;
        });
      }
      if (const auto* alloc = s.As<ir::Alloc>(); alloc != nullptr && status.ok()) {
        status = Annotated(*alloc, launch);
        if (status.ok()) status = Loaded(*alloc, launch);
      }
      if (s.As<ir::Gemm>() != nullptr && status.ok()) status = PlanProduct(s);
      return status.ok();
    });
    KILN_RETURN_IF_ERROR(status);
    return std::move(out_);
  }

 private:
  absl::Status Error(SourceLoc loc, std::string message, std::string remedy,
                     absl::StatusCode code = absl::StatusCode::kInvalidArgument) const {
    return ir::ErrorAt(program_, loc, std::move(message), std::move(remedy), code);
  }

  absl::Status Annotated(const ir::Alloc& alloc, const ir::Launch& launch) {
    const ir::Buffer& buffer = alloc.buffer;
    const auto note = launch.annotations.find(absl::StrCat("layout:", buffer->name));
    if (buffer->scope != ir::Scope::kShared || note == launch.annotations.end()) {
      return absl::OkStatus();
    }
    const absl::StatusOr<layout::Layout> given = layout::Parse(note->second);
    int64_t elements = 1;
    for (const int64_t extent : ShapeOf(buffer).value_or(std::vector<int64_t>{0})) {
      elements *= extent;
    }
    if (given.ok() && given->size() == elements) {
      out_.tiles.push_back({buffer, *given, kAnnotated});
      return absl::OkStatus();
    }
    return Error(alloc.loc,
                 given.ok() ? absl::StrCat("the layout of '", buffer->name, "', ", note->second,
                                           ", has ", given->size(), " elements, not ", elements)
                            : std::string(given.status().message()),
                 "make the layout for the buffer's shape");
  }

  absl::Status Loaded(const ir::Alloc& alloc, const ir::Launch& launch) {
    const std::string note = absl::StrCat(kLoadedTile, alloc.buffer->name);
    if (launch.annotations.count(note) == 0) return absl::OkStatus();
    const auto shape = ShapeOf(alloc.buffer);
    if (!shape || shape->size() < 2) return absl::OkStatus();
    const auto wanted = SharedOperandLayout(MatrixUnit::kWgmma, alloc.buffer->dtype.bits, *shape);
    if (wanted.ok() && *wanted) out_.tiles.push_back({alloc.buffer, **wanted, "as it is loaded"});
    return absl::OkStatus();
  }

  static std::string RemedyOf(const target::GemmQuery& query, const layout::ThreadRange& threads) {
    if (threads.count % kWarp != 0) return "give the block a multiple of 32 threads";
    const bool bytes = query.a.bits == 8 && query.b.bits == 8;
    if (query.a.element() != query.b.element() && !bytes) {
      return "T.copy the wider one into a tile of the other's type before the product";
    }
    return "use types that the target multiplies, B from shared memory, and tiles of whole 16 x 8 "
           "atoms for every warp";
  }

  absl::Status PlanProduct(const Stmt& s) {
    const ir::Gemm& gemm = *s.As<ir::Gemm>();
    const auto part = parts_.find(s.get());
    const layout::ThreadRange threads = part == parts_.end() ? threads_ : part->second;
    const std::optional<target::GemmQuery> query = QueryOf(program_, gemm, threads);
    if (!query) {
      return Error(gemm.loc, "the shapes of this matrix product's operands are not known",
                   "multiply tiles of constant shape");
    }
    absl::StatusOr<ProductPlan> plan =
        threads.count % kWarp != 0
            ? absl::InvalidArgumentError(absl::StrCat(threads.count, " threads are no whole warps"))
            : passes::PlanProduct(arch_, *query);
    if (!plan.ok()) {
      return Error(gemm.loc,
                   absl::StrCat(arch_.name, " has no instruction for this matrix product: ",
                                plan.status().message()),
                   RemedyOf(*query, threads), absl::StatusCode::kUnimplemented);
    }
    KILN_RETURN_IF_ERROR(Place(gemm.a.buffer, plan->unit, plan->a_swizzle, gemm.loc));
    KILN_RETURN_IF_ERROR(Place(gemm.b.buffer, plan->unit, plan->b_swizzle, gemm.loc));
    KILN_ASSIGN_OR_RETURN(plan->c, From(threads.first, plan->c));
    if (plan->a) {
      KILN_ASSIGN_OR_RETURN(plan->a, From(threads.first, *plan->a));
    }
    if (gemm.c.buffer->scope == ir::Scope::kTensor) out_.sums[gemm.c.buffer.get()] = *plan;
    out_.plans.emplace(s.get(), *plan);
    return absl::OkStatus();
  }

  // The same layout, on threads that begin at `first`.
  static absl::StatusOr<layout::Layout> From(int64_t first, const layout::Layout& held) {
    return layout::Shift(held, {{layout::Axis::kTx, first}});
  }

  // A tile that products read, this one in no wider a swizzle than `most` bytes.
  absl::Status Place(const ir::Buffer& buffer, MatrixUnit unit, int64_t most, SourceLoc loc) {
    if (buffer->scope != ir::Scope::kShared) return absl::OkStatus();
    const auto shape = ShapeOf(buffer);
    const auto known = std::find_if(out_.tiles.begin(), out_.tiles.end(),
                                    [&](const SharedTile& t) { return t.buffer == buffer; });
    const bool sets = unit == MatrixUnit::kWgmma || unit == MatrixUnit::kTcgen05;
    const bool stays =
        unit == MatrixUnit::kFma || (known != out_.tiles.end() && known->why == kAnnotated);
    if (!shape || shape->size() < 2 || (known != out_.tiles.end() && stays && !sets)) {
      return absl::OkStatus();
    }
    int64_t& widest = widest_.try_emplace(buffer.get(), kMostSwizzle).first->second;
    widest = std::min(widest, most);
    const auto wanted = SharedOperandLayout(unit, buffer->dtype.bits, *shape, widest);
    if (!wanted.ok()) {
      return Error(loc,
                   absl::StrCat(NameOf(unit), " cannot read '", buffer->name,
                                "': ", wanted.status().message()),
                   "use tiles of whole 8-row atoms");
    }
    if (!*wanted) return absl::OkStatus();
    std::string why = absl::StrCat("as ", NameOf(unit), " at line ", loc.line, " reads it");
    if (known == out_.tiles.end()) {
      out_.tiles.push_back({buffer, **wanted, std::move(why)});
    } else if (!Same(known->layout, **wanted)) {
      *known = {buffer, **wanted, absl::StrCat(why, ", not ", known->why)};
    }
    return absl::OkStatus();
  }

  static bool Same(const layout::Layout& a, const layout::Layout& b) {
    return layout::Canonical(a).ToString() == layout::Canonical(b).ToString();
  }

  const ir::Program& program_;
  const layout::ThreadRange threads_;
  const target::Arch& arch_;
  std::unordered_map<const ir::StmtNode*, layout::ThreadRange> parts_;  // of products in a part
  std::unordered_map<const ir::BufferNode*, int64_t> widest_;           // swizzle, in bytes
  ProductsOfLaunch out_;
};

}  // namespace

ir::Facts NamesIn(const Stmt& body) {
  std::vector<ir::Expr> order;
  std::unordered_map<const ir::ExprNode*, ir::Expr> values;  // undefined: it has several
  ir::Walk(body, [&](const Stmt& s) {
    const auto* bind = s.As<ir::Bind>();
    if (bind == nullptr) return true;
    const auto [known, fresh] = values.try_emplace(bind->var.get(), bind->value);
    if (fresh) order.push_back(bind->var);
    const bool same = known->second.defined() && ir::Same(known->second, bind->value);
    if (!same) known->second = ir::Expr();
    return true;
  });
  ir::Facts names;
  for (const ir::Expr& name : order) {
    const ir::Expr& value = values.at(name.get());
    if (value.defined()) names.SetValue(name, value);
  }
  return names;
}

std::optional<int64_t> ResidueOf(const ir::Expr& e, int64_t divisor, const ir::Facts& facts) {
  const int64_t constant = facts.Expand(e).constant;
  const int64_t residue = (constant % divisor + divisor) % divisor;
  if (!facts.Divides(divisor, e - ir::MakeConst(residue, e.dtype()))) return std::nullopt;
  return residue;
}

std::optional<target::GemmQuery> QueryOf(const ir::Program& program, const ir::Gemm& gemm,
                                         layout::ThreadRange threads) {
  const auto a = MatrixOf(gemm.a), c = MatrixOf(gemm.c);
  if (!a || !c) return std::nullopt;
  target::GemmQuery query;
  query.m = c->first;
  query.n = c->second;
  query.k = gemm.trans_a ? a->first : a->second;
  query.sparse = gemm.sparse();
  if (query.sparse) query.k *= 2;
  query.a = gemm.a.buffer->dtype;
  query.b = gemm.b.buffer->dtype;
  query.c = gemm.c.buffer->dtype;
  query.trans_a = gemm.trans_a;
  query.trans_b = gemm.trans_b;
  query.warps = static_cast<int>(threads.count / kWarp);
  query.policy = static_cast<target::WarpPolicy>(gemm.policy);
  query.a_space = SpaceOf(gemm.a);
  query.b_space = SpaceOf(gemm.b);
  query.a_loaded = absl::EndsWith(gemm.a.buffer->name, kLoadedName);
  const bool named = IsNamed(gemm.a) || IsNamed(gemm.b);
  const ir::Facts facts = named ? NamesIn(program.body) : ir::Facts();
  query.a_part = PartOf(gemm.a, facts);
  query.b_part = PartOf(gemm.b, facts);
  query.tf32 = ir::PassOption(program, "kiln.tf32", 0) != 0;
  if (gemm.c.buffer->scope == ir::Scope::kTensor) query.c_space = target::OperandSpace::kTensor;
  return query;
}

absl::StatusOr<ProductsOfLaunch> PlanProducts(const ir::Program& program, const ir::Launch& launch,
                                              layout::ThreadRange threads,
                                              const target::Arch& arch) {
  return Planner(program, threads, arch).Plan(launch);
}

bool LiesInPanels(const ir::Program& program, const ir::Launch& launch, const ir::Buffer& tile,
                  const target::Arch& arch) {
  if (!ir::MultipliesPanels(launch.body, tile)) return false;
  const auto shape = ShapeOf(tile);
  const auto products = PlanProducts(program, launch, {0, ir::ThreadsOf(launch).value_or(0)}, arch);
  if (!shape || !products.ok()) return false;
  return std::any_of(products->tiles.begin(), products->tiles.end(), [&](const SharedTile& t) {
    return t.buffer == tile &&
           IsSharedOperandLayout(MatrixUnit::kWgmma, tile->dtype.bits, *shape, t.layout);
  });
}

}  // namespace kiln::passes
