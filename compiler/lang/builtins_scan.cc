// Tile ops that move elements to other places of a tile, or gather them: scans, a transpose, the
// patches of a convolution.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "compiler/ir/printer.h"
#include "compiler/lang/elaborator.h"

namespace kiln::lang {
namespace {

absl::StatusOr<Tile> WholeTile(Elaborator& e, const Value& v, SourceLoc loc,
                               const std::string& what) {
  KILN_ASSIGN_OR_RETURN(Tile tile, e.ToTile(v, loc, what));
  if (!tile.is_base) return tile;
  return e.Error(loc, absl::StrCat(what, " is a start without extents"),
                 "pass a whole tile or a region x[a:b, c:d]");
}

absl::Status RequireOnChip(Elaborator& e, const Tile& tile, SourceLoc loc,
                           const std::string& what) {
  if (tile.region.buffer->scope != ir::Scope::kGlobal) return absl::OkStatus();
  return e.Error(loc, absl::StrCat(what, " is the global tensor '", tile.region.buffer->name, "'"),
                 "copy it to a T.alloc_shared or T.alloc_fragment tile first");
}

// Dimension by dimension: unit extents count.
absl::Status RequireAlike(Elaborator& e, const Tile& src, const Tile& dst, const BoundArgs& args,
                          const std::string& name) {
  const std::vector<ir::Range>&a = src.region.ranges, &b = dst.region.ranges;
  const std::string message =
      absl::StrCat(name, " between shapes that differ: ", ir::ToString(src.region), " and ",
                   ir::ToString(dst.region));
  const std::string remedy = "give both the same extents";
  if (a.size() != b.size()) return e.Error(args.loc, message, remedy);
  for (size_t d = 0; d < a.size(); ++d) {
    KILN_RETURN_IF_ERROR(e.RequireSameExtent(a[d].extent, b[d].extent, args.loc, message, remedy));
  }
  return absl::OkStatus();
}

// Of one buffer: the same elements, or surely none of them.
bool IsApartOrSame(const ir::Region& a, const ir::Region& b) {
  if (a.buffer != b.buffer) return true;
  bool same = true;
  for (size_t d = 0; d < a.ranges.size(); ++d) {
    const ir::Range &x = a.ranges[d], &y = b.ranges[d];
    same &= ir::Same(x.min, y.min);
    const auto step = ir::ConstInt(y.min - x.min);
    const auto m = ir::ConstInt(x.extent), n = ir::ConstInt(y.extent);
    if (step && m && n && (*step >= *m || -*step >= *n)) return true;
  }
  return same;
}

// T.cumsum(src, dst, dim, reverse), T.cummax.
template <ir::ReduceOp op>
absl::StatusOr<Value> Scan(Elaborator& e, const BoundArgs& args) {
  const std::string name = op == ir::ReduceOp::kSum ? "T.cumsum" : "T.cummax";
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, name));
  KILN_ASSIGN_OR_RETURN(const Tile src,
                        WholeTile(e, args[0], args.LocOf(0), absl::StrCat("the source of ", name)));
  const size_t to = args.Given(1) ? 1 : 0;
  const std::string result = absl::StrCat("the result of ", name);
  KILN_ASSIGN_OR_RETURN(const Tile dst, WholeTile(e, args[to], args.LocOf(to), result));
  KILN_RETURN_IF_ERROR(RequireOnChip(e, src, args.LocOf(0), absl::StrCat("the source of ", name)));
  KILN_RETURN_IF_ERROR(RequireOnChip(e, dst, args.LocOf(to), result));
  KILN_RETURN_IF_ERROR(RequireAlike(e, src, dst, args, name));
  if (!IsApartOrSame(src.region, dst.region)) {
    return e.Error(args.loc,
                   absl::StrCat(name, " between parts of '", src.region.buffer->name,
                                "' that may share elements: ", ir::ToString(src.region), " and ",
                                ir::ToString(dst.region)),
                   "give the result a tile of its own");
  }
  for (const Tile* tile : {&src, &dst}) {
    const DType type = tile->region.buffer->dtype;
    if (!type.is_bool() && type.code != TypeCode::kHandle) continue;
    return e.Error(args.loc, absl::StrCat(name, " of ", type.ToString()),
                   "scan numbers: cast to int32 first");
  }
  std::vector<int> dims;  // those that the source still has
  for (int d = 0; d < static_cast<int>(src.region.ranges.size()); ++d) {
    if (std::find(src.dropped.begin(), src.dropped.end(), d) == src.dropped.end()) {
      dims.push_back(d);
    }
  }
  const auto rank = static_cast<int64_t>(dims.size());
  int64_t dim = 0;
  if (args.Given(2)) {
    KILN_ASSIGN_OR_RETURN(dim, e.ToInt(args[2], args.LocOf(2), "dim"));
  }
  if (dim < -rank || dim >= rank) {
    return e.Error(args.LocOf(2),
                   absl::StrCat("dim ", dim, " is out of range: '", src.region.buffer->name,
                                "' has ", rank, " dimensions"),
                   absl::StrCat("use 0 to ", rank - 1));
  }
  bool reverse = false;
  if (args.Given(3)) {
    KILN_ASSIGN_OR_RETURN(reverse, e.ToBool(args[3], args.LocOf(3), "reverse"));
  }
  KILN_RETURN_IF_ERROR(e.EmitNew<ir::Scan>(args.loc, op, src.region, dst.region,
                                           dims[dim < 0 ? dim + rank : dim], reverse));
  return Value::None();
}

std::vector<ir::Expr> Moved(const ir::Region& region, const std::vector<ir::Expr>& offsets) {
  std::vector<ir::Expr> indices;
  for (size_t d = 0; d < offsets.size(); ++d) {
    indices.push_back(region.ranges[d].min + offsets[d]);
  }
  return indices;
}

// dst[..., j, i] = src[..., i, j].
absl::StatusOr<Value> Transpose(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, "T.transpose"));
  KILN_ASSIGN_OR_RETURN(const Tile src,
                        WholeTile(e, args[0], args.LocOf(0), "the source of T.transpose"));
  KILN_ASSIGN_OR_RETURN(const Tile dst,
                        WholeTile(e, args[1], args.LocOf(1), "the destination of T.transpose"));
  const size_t rank = src.region.ranges.size();
  if (rank < 2) {
    return e.Error(args.LocOf(0),
                   absl::StrCat("the source of T.transpose, '", src.region.buffer->name,
                                "', has one dimension"),
                   "pass a tile of two dimensions at least");
  }
  if (src.region.buffer == dst.region.buffer) {
    return e.Error(args.loc,
                   absl::StrCat("T.transpose of '", src.region.buffer->name, "' into itself"),
                   "give the result a tile of its own");
  }
  Tile turned = src;
  std::swap(turned.region.ranges[rank - 1], turned.region.ranges[rank - 2]);
  KILN_RETURN_IF_ERROR(RequireAlike(e, turned, dst, args, "T.transpose, turned,"));
  std::vector<ir::Axis> axes;
  std::vector<ir::Expr> vars;
  for (const ir::Range& range : dst.region.ranges) {
    vars.push_back(ir::MakeVar("i"));
    axes.push_back({vars.back(), ir::MakeInt(0), range.extent});
  }
  std::vector<ir::Expr> from = vars;
  std::swap(from[rank - 1], from[rank - 2]);
  const ir::Expr value = ir::MakeLoad(src.region.buffer, Moved(src.region, from));
  ir::Stmt store = ir::MakeStmt<ir::Store>(args.loc, dst.region.buffer, Moved(dst.region, vars),
                                           ir::MakeCast(dst.region.buffer->dtype, value));
  KILN_RETURN_IF_ERROR(
      e.EmitNew<ir::For>(args.loc, ir::ForKind::kParallel, std::move(axes), std::move(store)));
  return Value::None();
}

// What T.im2col is told: an image [n, h, w, c], a tile of pixels by channels of taps.
struct Patches {
  ir::Buffer image;
  ir::Region tile;
  ir::Expr first_pixel, first_channel;
  int64_t kernel, stride, dilation, pad;
};

absl::StatusOr<Patches> PatchesOf(Elaborator& e, const BoundArgs& args) {
  Patches p;
  KILN_ASSIGN_OR_RETURN(const Tile image,
                        WholeTile(e, args[0], args.LocOf(0), "the image of T.im2col"));
  KILN_ASSIGN_OR_RETURN(const Tile tile,
                        WholeTile(e, args[1], args.LocOf(1), "the patches of T.im2col"));
  p.image = image.region.buffer;
  p.tile = tile.region;
  if (!args[0].Is(Type::kBuffer) || p.image->shape.size() != 4) {
    return e.Error(args.LocOf(0), "the image of T.im2col is no whole tensor [n, h, w, c]",
                   "pass a tensor of four dimensions, channels last");
  }
  if (p.tile.ranges.size() != 2 || !ir::ConstInt(p.tile.ranges[1].extent)) {
    return e.Error(args.LocOf(1), "the patches of T.im2col are no tile of two dimensions",
                   "pass a tile of pixels by channels");
  }
  if (p.tile.buffer->dtype != p.image->dtype) {
    return e.Error(args.LocOf(1),
                   absl::StrCat("T.im2col from ", p.image->dtype.ToString(), " to ",
                                p.tile.buffer->dtype.ToString()),
                   "give the tile the image's type");
  }
  ir::Expr* const steps[] = {&p.first_pixel, &p.first_channel};
  static constexpr const char* kSteps[] = {"nhw_step of T.im2col", "c_step of T.im2col"};
  for (size_t i = 0; i < 2; ++i) {
    KILN_ASSIGN_OR_RETURN(const Operand step, e.ToIndex(args[2 + i], args.LocOf(2 + i), kSteps[i]));
    *steps[i] = step.e;
  }
  int64_t* const numbers[] = {&p.kernel, &p.stride, &p.dilation, &p.pad};
  static constexpr const char* kNumbers[] = {"kernel", "stride", "dilation", "pad"};
  for (size_t i = 0; i < 4; ++i) {
    KILN_ASSIGN_OR_RETURN(*numbers[i], e.ToInt(args[4 + i], args.LocOf(4 + i),
                                               absl::StrCat(kNumbers[i], " of T.im2col")));
    const int64_t least = i < 3 ? 1 : 0;
    if (*numbers[i] >= least) continue;
    return e.Error(args.LocOf(4 + i), absl::StrCat(kNumbers[i], " of T.im2col is ", *numbers[i]),
                   absl::StrCat("use at least ", least));
  }
  return p;
}

// Row i, column j of the tile: channel k % c of tap k / c at pixel m, for m and k counted from the
// steps' tiles on; zero outside of the image and after the last tap.
absl::StatusOr<Value> Im2Col(Elaborator& e, const BoundArgs& args) {
  KILN_RETURN_IF_ERROR(e.RequireLaunch(args.loc, "T.im2col"));
  KILN_ASSIGN_OR_RETURN(const Patches p, PatchesOf(e, args));
  e.launch().padded.emplace_back(p.image, args.LocOf(0));
  const std::vector<ir::Expr>& shape = p.image->shape;
  const auto number = [](int64_t n) { return ir::MakeInt(n); };
  const auto places = [&](const ir::Expr& size) {
    return FloorDiv(size + number(2 * p.pad - p.dilation * (p.kernel - 1) - 1), number(p.stride)) +
           number(1);
  };
  const ir::Expr rows = places(shape[1]), columns = places(shape[2]), &channels = shape[3];
  const ir::Expr i = ir::MakeVar("i"), j = ir::MakeVar("j");
  const int64_t width = *ir::ConstInt(p.tile.ranges[1].extent);
  const auto count = ir::ConstInt(channels);
  const bool whole = count && *count % width == 0;  // a tile lies in one tap
  const ir::Expr at = whole ? p.first_channel : p.first_channel * number(width) + j;
  const ir::Expr per_tap = whole ? number(*count / width) : channels;
  const ir::Expr channel =
      whole ? FloorMod(at, per_tap) * number(width) + j : FloorMod(at, per_tap);
  const ir::Expr tap = FloorDiv(at, per_tap);
  std::vector<ir::Stmt> stmts;
  const auto name = [&](const char* text, const ir::Expr& value) {
    const ir::Expr var = ir::MakeVar(text, value.dtype());
    stmts.push_back(ir::MakeStmt<ir::Bind>(args.loc, var, value));
    return var;
  };
  const ir::Expr pixel = name("pixel", p.first_pixel * p.tile.ranges[0].extent + i);
  const ir::Expr row =
      name("row", FloorMod(FloorDiv(pixel, columns), rows) * number(p.stride) +
                      FloorDiv(tap, number(p.kernel)) * number(p.dilation) - number(p.pad));
  const ir::Expr column =
      name("column", FloorMod(pixel, columns) * number(p.stride) +
                         FloorMod(tap, number(p.kernel)) * number(p.dilation) - number(p.pad));
  ir::Expr inside = row >= number(0) && row < shape[1] && column >= number(0) &&
                    column < shape[2] && pixel < shape[0] * rows * columns;
  if (!whole) inside = inside && tap < number(p.kernel * p.kernel);
  const ir::Expr held = name("inside", inside);
  const ir::Expr value =
      ir::MakeLoad(p.image, {FloorDiv(pixel, rows * columns), row, column, channel});
  stmts.push_back(
      ir::MakeStmt<ir::Store>(args.loc, p.tile.buffer, Moved(p.tile, {i, j}),
                              ir::MakeSelect(held, value, ir::MakeConst(0, p.image->dtype))));
  std::vector<ir::Axis> axes = {{i, number(0), p.tile.ranges[0].extent},
                                {j, number(0), p.tile.ranges[1].extent}};
  KILN_RETURN_IF_ERROR(e.EmitNew<ir::For>(args.loc, ir::ForKind::kParallel, std::move(axes),
                                          ir::MakeStmt<ir::Seq>(args.loc, std::move(stmts))));
  return Value::None();
}

constexpr char kIm2ColParams[] =
    "img col nhw_step c_step kernel stride dilation pad eviction_policy? annotations?";

constexpr Builtin kRows[] = {
    {"T.cumsum", "src dst? dim? reverse? annotations?", Scan<ir::ReduceOp::kSum>},
    {"T.cummax", "src dst? dim? reverse? annotations?", Scan<ir::ReduceOp::kMax>},
    {"T.transpose", "src dst annotations?", Transpose},
    {"T.im2col", kIm2ColParams, Im2Col},
    {"T.c2d_im2col", kIm2ColParams, Im2Col},
};

}  // namespace

BuiltinTable ScanBuiltins() { return {kRows, std::size(kRows)}; }

}  // namespace kiln::lang
