#include "compiler/target/legality.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "compiler/layout/swizzle.h"

namespace kiln::target {
namespace {

constexpr int64_t kAtomColumns = 8, kGroupRows = 64;
constexpr int kGroupWarps = 4;
constexpr int64_t kWidest = 256;                           // columns of a wgmma
constexpr int64_t kLeastSwizzle = 32, kMostSwizzle = 128;  // bytes of a row of a tile
constexpr int64_t kStepBytes = 32;     // along k, of an instruction that descriptors tell its tiles
constexpr int64_t kChunkBytes = 16;    // of a row that ldmatrix reads
constexpr int64_t kLeastColumns = 32;  // of tensor memory
constexpr int64_t kWarpLanes = 32;
constexpr int64_t kMostRegisters = 255;        // of a thread
constexpr int64_t kFetchRegisters = 40 * 128;  // of the warpgroup that fetches
constexpr int64_t kOtherRegisters = 36;        // beside sums and what is loaded for a product
constexpr int64_t kBarrierBytes = 2048;
constexpr int64_t kExchangeBytes = 4 * 2 * sizeof(float);  // of a row: four times, of two groups

bool Lists(const char* list, absl::string_view word) {
  for (absl::string_view w : absl::StrSplit(list, ' ', absl::SkipEmpty())) {
    if (w == word) return true;
  }
  return false;
}

std::string Multiple(const char* what, int64_t value, int multiple) {
  return absl::StrCat(what, " = ", value, " is not a multiple of ", multiple);
}

bool IsSparse(const GemmRule& r) { return absl::string_view(r.unit) == "mma.sp"; }

// Products of a tile whose result is awaited alone: 64 x 64 x 128 take mma.sync some 400 clocks at
// half the rate of wgmma; some 300 pass from a start of tcgen05 to the loads of its result.
constexpr int64_t kLeastWork = 64 * 64 * 128;

bool SumsInTensorMemory(const GemmRule& r) { return absl::string_view(r.unit) == "tcgen05"; }

// An operand of `q` in shared memory, as far as it may be a part of its tile.
struct SharedOperand {
  const char* name;
  const std::optional<TilePart>& part;
  int64_t bytes;   // of an element
  bool along_k;    // its rows are
  int64_t extent;  // of a row, where they are not
};

SharedOperand LeftOf(const GemmQuery& q) { return {"A", q.a_part, q.a.bytes(), !q.trans_a, q.m}; }

SharedOperand RightOf(const GemmQuery& q) { return {"B", q.b_part, q.b.bytes(), q.trans_b, q.n}; }

// Whether ldmatrix brings a unit its operands.
bool ReadsMatrices(absl::string_view unit) { return unit == "mma" || unit == "mma.sp"; }

// GemmChoice::a_swizzle of `unit`; 0 where it cannot read the part.
int64_t SwizzleOf(absl::string_view unit, const SharedOperand& x) {
  if (!x.part || unit == "fma") return kMostSwizzle;
  const TilePart& part = *x.part;
  const int64_t begin = part.column * x.bytes, row = part.columns * x.bytes;
  if (!part.row || part.known < kLeastSwizzle) return 0;
  if (ReadsMatrices(unit))
    return begin % kChunkBytes == 0 && row % kChunkBytes == 0 ? part.known : 0;
  if (*part.row != 0 || part.rows % layout::kAtomRows != 0) return 0;
  if (x.along_k && begin % kStepBytes != 0) return 0;
  for (int64_t swizzle = part.known; swizzle >= kLeastSwizzle; swizzle /= 2) {
    const bool whole = begin % swizzle == 0 && x.extent * x.bytes % swizzle == 0;
    if (row % swizzle == 0 && (x.along_k || whole)) return swizzle;
  }
  return 0;
}

// What keeps `unit` from reading a part of a tile. Descriptors begin with an atom, and along k with
// a step; ldmatrix reads rows of 16 bytes, wherever they are.
std::string WhyNotPart(absl::string_view unit, const SharedOperand& x) {
  if (SwizzleOf(unit, x) != 0) return "";
  const TilePart& part = *x.part;
  const std::string what = absl::StrCat("the part of ", x.name, "'s tile ");
  if (!part.row || part.known < kLeastSwizzle) {
    return absl::StrCat(what, "begins where only the run knows");
  }
  const std::string size = absl::StrCat("of ", part.rows, "x", part.columns);
  if (ReadsMatrices(unit)) {
    return absl::StrCat(what, size, " has rows that are not of ", kChunkBytes,
                        " bytes each, or begins inside of one");
  }
  if (*part.row != 0) return absl::StrCat(what, "begins in row ", *part.row, " of an atom");
  return absl::StrCat(what, size,
                      " is no whole number of rows of a swizzle, or begins inside of one");
}

// What tcgen05 asks beside the columns of the table.
std::string WhyNotInTensorMemory(const GemmRule& r, const GemmQuery& q) {
  if (!SumsInTensorMemory(r)) return "";
  if (q.m > kTensorLanes && q.m % kTensorLanes != 0) return Multiple("M tile", q.m, kTensorLanes);
  if (q.a_space != OperandSpace::kShared) {
    return absl::StrCat(r.unit, " takes A from shared memory here");
  }
  const int64_t bytes = q.a.bytes();
  if ((q.trans_a ? q.m : q.k) * bytes % kLeastSwizzle != 0 ||
      (q.trans_b ? q.k : q.n) * bytes % kLeastSwizzle != 0) {
    return absl::StrCat("rows of tiles are no multiples of ", kLeastSwizzle, " bytes");
  }
  if (TensorColumns(q.m, q.n) <= kTensorColumns) return "";
  return absl::StrCat("tensor memory has no room for sums of ", q.m, "x", q.n);
}

// Empty when the row accepts the query; else the first condition that fails.
std::string WhyNot(const Arch& arch, const GemmRule& r, const GemmQuery& q) {
  if (r.feature[0] != '\0' && !arch.Has(r.feature)) {
    return absl::StrCat("the processor has no ", r.feature);
  }
  // Of the floats of 8 bits each operand may have its own, of the integers its own sign (PTX ISA
  // 9.7.14.5.14, 9.7.15.5.2).
  const bool bytes = q.a.is_float() == q.b.is_float() && q.a.bits == 8 && q.b.bits == 8;
  if (q.a.element() != q.b.element() && !bytes) {
    return absl::StrCat("operand types differ: ", q.a.ToString(), " and ", q.b.ToString());
  }
  for (const DType type : {q.a, q.b}) {
    if (!Lists(r.inputs, type.ToString())) {
      return absl::StrCat(r.unit, " takes no ", type.ToString(), " operands");
    }
  }
  if (!Lists(r.accums, q.c.ToString())) {
    return absl::StrCat(r.unit, " does not accumulate in ", q.c.ToString());
  }
  if (r.tf32 && !q.tf32) {
    return "products of float32 are exact; the pass option \"kiln.tf32\" would let tensor cores "
           "round"
           " their operands";
  }
  if (r.m_min > 0 && q.m < r.m_min) return absl::StrCat("M tile ", q.m, " is below ", r.m_min);
  if (r.m_multiple > 1 && q.m % r.m_multiple != 0) return Multiple("M tile", q.m, r.m_multiple);
  if (r.n_multiple > 1 && q.n % r.n_multiple != 0) return Multiple("N tile", q.n, r.n_multiple);
  if (r.k_multiple > 1 && q.k % r.k_multiple != 0) return Multiple("K tile", q.k, r.k_multiple);
  if (r.warps_multiple > 1 && q.warps % r.warps_multiple != 0) {
    return Multiple("warps", q.warps, r.warps_multiple);
  }
  for (const SharedOperand& x : {LeftOf(q), RightOf(q)}) {
    if (std::string why = WhyNotPart(r.unit, x); !why.empty()) return why;
  }
  if (std::string why = WhyNotInTensorMemory(r, q); !why.empty()) return why;
  const bool held = q.a_space != OperandSpace::kShared;
  if (IsSparse(r) && held && (q.trans_a || q.a.bits == 32)) {
    return absl::StrCat(r.unit, " takes no ", q.trans_a ? "turned A" : q.a.ToString(),
                        " from registers here");
  }
  if (r.b_shared && q.b_space != OperandSpace::kShared) {
    return absl::StrCat(r.unit, " reads B from shared memory");
  }
  if (r.k_major && (q.trans_a || !q.trans_b)) {
    return absl::StrCat(r.unit, " on ", q.a.ToString(), " needs both operands K-major");
  }
  return "";
}

bool Divides(int64_t m, int64_t n, WarpGrid grid, int64_t atom_rows) {
  return m % (grid.rows * atom_rows) == 0 && n % (grid.columns * kAtomColumns) == 0;
}

// Columns of B that lie together where its rows run along n: one swizzle's, 0 where they fill none.
int64_t PanelColumns(const GemmQuery& q) {
  if (q.b_part) return SwizzleOf("wgmma", RightOf(q)) / q.b.bytes();
  for (const int64_t bytes : {4 * kLeastSwizzle, 2 * kLeastSwizzle, kLeastSwizzle}) {
    if (q.n * q.b.bytes() % bytes == 0) return bytes / q.b.bytes();
  }
  return 0;
}

// Why wgmma has no instruction of a warpgroup's `columns`: of integers it takes 8, 16, 24, 32, then
// multiples of 16 (PTX ISA 9.7.15.2), and its descriptor of B begins a panel (9.7.15.5.1).
std::string WhyNotColumns(const GemmQuery& q, int64_t columns) {
  if (columns > kWidest && columns % kWidest != 0) return Multiple("columns", columns, kWidest);
  if (q.c.is_int() && columns > kLeastColumns && columns % (2 * kAtomColumns) != 0) {
    return Multiple("columns", columns, 2 * kAtomColumns);
  }
  if (q.trans_b) return "";
  const int64_t panel = PanelColumns(q);
  if (panel == 0) {
    return absl::StrCat("rows of B are no multiple of ", kLeastSwizzle, " bytes");
  }
  return columns % panel == 0 ? "" : Multiple("columns", columns, static_cast<int>(panel));
}

// The grid of the row's instruction, by the policy of the query, or why there is none.
std::optional<WarpGrid> GridOf(const GemmRule& r, const GemmQuery& q, std::string* why) {
  const int groups = q.warps / kGroupWarps;
  std::optional<WarpGrid> grid;
  if (SumsInTensorMemory(r)) {
    grid = WarpGrid{1, groups};
    if (!Divides(q.m, q.n, *grid, 1)) grid.reset();
  } else if (r.warps_multiple == kGroupWarps) {
    grid = ShareWarps(q.m, q.n, groups, q.policy, kGroupRows, [&](int64_t columns) {
      const std::string wrong = WhyNotColumns(q, columns);
      if (!wrong.empty()) *why = absl::StrCat(wrong, " for each warpgroup");
      return wrong.empty();
    });
  } else {
    grid = ShareWarps(q.m, q.n, q.warps, q.policy);
  }
  if (!grid && why->empty()) *why = absl::StrCat(q.warps, " warps cannot tile ", q.m, "x", q.n);
  return grid;
}

}  // namespace

const std::vector<GemmRule>& GemmRules() {
  static const std::vector<GemmRule>* const rules = new std::vector<GemmRule>{
      // wgmma: four warps share one instruction of 64 rows; B always from shared memory. Only
      // 16-bit operands may be other than K-major (PTX ISA 9.7.15.5.1).
      {"wgmma", "sm_90a", "float16", "float32 float16", 64, 64, 8, 16, 4, true, false, false, ""},
      {"wgmma", "sm_90a", "bfloat16", "float32", 64, 64, 8, 16, 4, true, false, false, ""},
      {"wgmma", "sm_90a", "float8_e4m3fn float8_e5m2", "float32", 64, 64, 8, 32, 4, true, true,
       false, ""},
      {"wgmma", "sm_90a", "int8 uint8", "int32", 64, 64, 8, 32, 4, true, true, false, ""},
      {"wgmma", "sm_90a", "float32", "float32", 64, 64, 8, 8, 4, true, true, true, ""},
      // tcgen05: one thread starts an instruction of 128 rows, or of 64; four warps read its sums.
      {"tcgen05", "sm_100a", "float16 bfloat16", "float32", 64, 64, 16, 16, 4, true, false, false,
       ""},
      {"tcgen05", "sm_100a", "float8_e4m3fn float8_e5m2", "float32", 64, 64, 16, 32, 4, true, false,
       false, ""},
      {"tcgen05", "sm_100a", "int8 uint8", "int32", 64, 64, 16, 32, 4, true, false, false, ""},
      {"tcgen05", "sm_100a", "float32", "float32", 64, 64, 16, 8, 4, true, true, true, ""},
      // mma.sync: a warp's own 16x8 tiles. ldmatrix turns elements of 16 bits alone.
      {"mma", "sm", "float16", "float32 float16", 16, 16, 8, 16, 1, false, false, false, ""},
      {"mma", "sm", "bfloat16", "float32", 16, 16, 8, 16, 1, false, false, false, ""},
      {"mma", "sm", "int8 uint8", "int32", 16, 16, 8, 32, 1, false, true, false, ""},
      {"mma", "sm_89 sm_90a sm_100a", "float8_e4m3fn float8_e5m2", "float32", 16, 16, 8, 32, 1,
       false, true, false, ""},
      {"mma", "sm", "float32", "float32", 16, 16, 8, 8, 1, false, false, true, ""},
      // mma.sp::ordered_metadata (PTX ISA 9.7.14.6): the same tiles at twice the depth, A a sparse
      // form. Neighbours along k that belong together may not be dealt out otherwise, so float32
      // is K-major.
      {"mma.sp", "sm", "float16 bfloat16", "float32", 16, 16, 8, 32, 1, true, false, false, ""},
      {"mma.sp", "sm", "int8 uint8", "int32", 16, 16, 8, 64, 1, true, true, false, ""},
      {"mma.sp", "sm_89 sm_90a sm_100a", "float8_e4m3fn float8_e5m2", "float32", 16, 16, 8, 64, 1,
       true, true, false, ""},
      {"mma.sp", "sm", "float32", "float32", 16, 16, 8, 16, 1, true, true, true, ""},
      // Vector units of a GPU: the same divisibility, because warps tile the block alike.
      {"fma", "sm", "float32 float64", "float32 float64", 16, 16, 8, 1, 1, false, false, false, ""},
      {"fma", "sm", "float16 bfloat16", "float32 float16", 16, 16, 8, 16, 1, false, false, false,
       ""},
      {"fma", "sm", "int8 uint8", "int32", 16, 16, 8, 32, 1, false, false, false, ""},
      {"fma", "sm", "float8_e4m3fn float8_e5m2", "float32", 16, 16, 8, 32, 1, false, false, false,
       ""},
      // x86: any extents; edges are computed on padded tiles.
      {"fma", "x86-64", "float32 float16 bfloat16 float8_e4m3fn float8_e5m2", "float32", 1, 1, 1, 1,
       1, false, false, false, ""},
      {"fma", "x86-64", "float64 float32", "float64", 1, 1, 1, 1, 1, false, false, false, ""},
      {"fma", "x86-64", "int8 uint8 int32", "int32", 1, 1, 1, 1, 1, false, false, false, ""},
  };
  return *rules;
}

std::optional<WarpGrid> ShareWarps(int64_t m, int64_t n, int64_t parts, WarpPolicy policy,
                                   int64_t atom_rows,
                                   const std::function<bool(int64_t columns)>& takes) {
  std::optional<WarpGrid> best;
  double best_score = 0;
  for (int64_t rows = parts; rows >= 1; --rows) {
    const WarpGrid grid{rows, parts / rows};
    if (parts % rows != 0 || !Divides(m, n, grid, atom_rows)) continue;
    if (takes && !takes(n / grid.columns)) continue;
    const double height = static_cast<double>(m) / static_cast<double>(grid.rows);
    const double width = static_cast<double>(n) / static_cast<double>(grid.columns);
    double score = -std::abs(std::log(height / width));
    // An instruction of 64 rows reads all its columns of B: the wider, the less shared memory it
    // reads for each product.
    if (atom_rows == kGroupRows) score = std::min(width, static_cast<double>(kWidest));
    if (policy == WarpPolicy::kFullRow) score = static_cast<double>(grid.rows);
    if (policy == WarpPolicy::kFullCol) score = static_cast<double>(grid.columns);
    if (best && score <= best_score) continue;
    best = grid;
    best_score = score;
  }
  return best;
}

GemmChoice ChooseGemm(const Arch& arch, const GemmQuery& query) {
  GemmChoice choice;
  std::string slower;  // what keeps the first instruction for these types from being used
  const std::string family = ArchFamily(arch.name);
  for (const GemmRule& r : GemmRules()) {
    if (!Lists(r.archs, arch.name) && !Lists(r.archs, family)) continue;
    if (IsSparse(r) != query.sparse) continue;
    if (SumsInTensorMemory(r) != (query.c_space == OperandSpace::kTensor)) continue;
    std::string why = WhyNot(arch, r, query);
    if (why.empty() && arch.kind == ArchKind::kCpu) {
      choice.unit = r.unit;
      return choice;
    }
    if (why.empty()) {
      if (const auto grid = GridOf(r, query, &why)) {
        choice.unit = r.unit;
        choice.grid = *grid;
        choice.why_not = std::move(slower);
        choice.a_swizzle = SwizzleOf(r.unit, LeftOf(query));
        choice.b_swizzle = SwizzleOf(r.unit, RightOf(query));
        return choice;
      }
    }
    const bool takes = Lists(r.inputs, query.a.ToString());
    if (takes && slower.empty()) slower = absl::StrCat("not ", r.unit, ": ", why);
    // What keeps an instruction for these types from being used says more than one for others.
    if (choice.why_not.empty() || takes) choice.why_not = std::move(why);
  }
  if (choice.why_not.empty()) {
    choice.why_not = absl::StrCat("no gemm instruction is known for ", arch.name);
  }
  return choice;
}

std::optional<GemmQuery> TurnedBytes(const Arch& arch, const GemmQuery& query) {
  const bool bytes = query.a.bits == 8 && query.b.bits == 8;
  if (!bytes || query.sparse || query.c_space == OperandSpace::kTensor) return std::nullopt;
  if (!query.trans_a && query.trans_b) return std::nullopt;
  GemmQuery turned = query;
  if (query.trans_a) {
    turned.trans_a = false;
    turned.a_space = OperandSpace::kShared;
    turned.a_part.reset();
  }
  if (!query.trans_b) {
    turned.trans_b = true;
    turned.b_space = OperandSpace::kShared;
    turned.b_part.reset();
  }
  const auto on_tensor_cores = [&](const GemmQuery& q) {
    const std::string unit = ChooseGemm(arch, q).unit;
    return unit == "mma" || unit == "wgmma";
  };
  if (on_tensor_cores(query) || !on_tensor_cores(turned)) return std::nullopt;
  return turned;
}

std::optional<LoadedTf32> LoadTf32(const Arch& arch, const GemmQuery& query) {
  const bool tf32 = query.tf32 && query.a == kFloat32 && query.b == kFloat32 && !query.sparse;
  const bool tiles =
      query.a_space == OperandSpace::kShared && query.b_space == OperandSpace::kShared;
  if (!tf32 || !tiles || query.c_space != OperandSpace::kRegisters) return std::nullopt;
  if (query.policy != WarpPolicy::kSquare) return std::nullopt;  // the kernel says who has what
  if (query.trans_a != query.trans_b || ChooseGemm(arch, query).unit == "wgmma") {
    return std::nullopt;
  }
  LoadedTf32 out = {query, /*turned=*/!query.trans_b};
  if (out.turned) {
    std::swap(out.query.m, out.query.n);
    out.query.b_part = query.a_part;
  }
  out.query.trans_a = false, out.query.trans_b = true;
  out.query.a_space = OperandSpace::kRegisters, out.query.a_loaded = true;
  out.query.a_part.reset();
  out.query.policy = WarpPolicy::kFullRow;  // one column of warpgroups, each with rows of its own
  const GemmChoice choice = ChooseGemm(arch, out.query);
  if (choice.unit != "wgmma" || !LeftFromRegisters(out.query, choice)) return std::nullopt;
  const int64_t threads = query.warps * kWarpLanes;
  const int64_t held = out.query.m * (out.query.n + out.query.k) / threads;
  const int64_t most = std::min(kMostRegisters, (arch.registers_sm - kFetchRegisters) / threads);
  if (held + kOtherRegisters > most) return std::nullopt;
  return out;
}

int64_t TensorColumns(int64_t m, int64_t n) { return std::max<int64_t>(1, m / kTensorLanes) * n; }

bool IsWorthTensorMemory(int64_t m, int64_t n, int64_t k) { return m * n * k >= kLeastWork; }

int64_t ExchangedBytes(int64_t m) { return kBarrierBytes + kExchangeBytes * m; }

void AwaitedRegisters::Add(const GemmQuery& q) {
  const int64_t lanes = std::max(q.m, kTensorLanes), threads = q.warps * kWarpLanes;
  const int64_t operand = q.a_space == OperandSpace::kShared ? 0 : q.k * q.a.bits;
  const int64_t bits = lanes * (q.n * q.c.bits + operand);
  held_ += static_cast<double>(bits) / 32 / static_cast<double>(std::max<int64_t>(threads, 1));
  idle_ |= q.m < kTensorLanes;
}

int64_t TakenColumns(int64_t columns) {
  int64_t taken = kLeastColumns;
  while (taken < columns) taken *= 2;
  return taken;
}

bool LeftFromRegisters(const GemmQuery& query, const GemmChoice& choice) {
  const bool in_order = query.a.bits <= 16 || query.a_loaded;
  const bool takes = ReadsMatrices(choice.unit) || (choice.unit == "wgmma" && in_order);
  return takes && !query.trans_a && choice.grid.columns == 1;
}

bool StoresMatrices(const Arch& arch) { return Lists("sm_90a sm_100a", arch.name); }

int64_t WidestAtomicAdd(const Arch& arch, DType type) {
  struct Row {
    const char *archs, *types;
    int64_t widest;
  };
  static constexpr Row kRows[] = {
      {"sm_90a sm_100a", "float32", 4},
      {"sm_90a sm_100a", "float16 bfloat16", 8},
      {"sm", "float16", 2},
      {"sm", "bfloat16 float32 float64 int32 uint32 int64 uint64", 1},
  };
  for (const Row& r : kRows) {
    const bool named = Lists(r.archs, arch.name) || Lists(r.archs, ArchFamily(arch.name));
    if (named && Lists(r.types, type.ToString())) return r.widest;
  }
  return 0;
}

}  // namespace kiln::target
