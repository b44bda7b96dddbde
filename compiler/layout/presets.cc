#include "compiler/layout/presets.h"

#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "compiler/base/status.h"
#include "compiler/layout/fragments.h"
#include "compiler/layout/memory_layouts.h"
#include "compiler/layout/text.h"

namespace kiln::layout {
namespace {

constexpr int64_t kMaxParameter = int64_t{1} << 40;

// Parameters by name, defaults filled in. The first that is no number where one is due is kept.
class Parameters {
 public:
  explicit Parameters(std::map<std::string, std::string> values) : values_(std::move(values)) {}

  const std::string& text(const std::string& name) const { return values_.at(name); }

  int64_t number(const std::string& name) {
    int64_t value = 0;
    if (absl::SimpleAtoi(text(name), &value) && value >= 0 && value <= kMaxParameter) return value;
    if (status_.ok()) {
      status_ = BadArgument(
          absl::StrCat("parameter ", name, "=", text(name), " is no number from 0 to 2^40"));
    }
    return 0;
  }
  int small(const std::string& name) {
    return static_cast<int>(std::min<int64_t>(number(name), 1 << 20));
  }
  char letter(const std::string& name) const {
    return text(name).size() == 1 ? text(name)[0] : '?';
  }
  SwizzleMode mode(const std::string& name) {
    const auto mode = ParseSwizzleMode(text(name));
    if (!mode.ok() && status_.ok()) status_ = mode.status();
    return mode.ok() ? *mode : SwizzleMode::kNone;
  }
  const absl::Status& status() const { return status_; }

 private:
  std::map<std::string, std::string> values_;
  absl::Status status_;
};

// A layout on its way to a preset.
struct Draft {
  absl::StatusOr<Layout> layout;
  std::vector<int64_t> shape;
  int bits = 32;
};

Draft Mma(Parameters& p) {
  const std::string& shape = p.text("shape");
  const int bits = p.small("bits");
  Draft draft{MmaFragment(shape, p.letter("operand"), bits), {}, bits};
  for (const FragmentRow& row : FragmentRows()) {
    const bool width = row.operand == 'C' || row.element_bits == bits;
    if (row.shape == shape && row.operand == p.letter("operand") && width) {
      draft.shape = {row.rows, row.cols};
      if (row.operand == 'C') draft.bits = row.element_bits == 64 ? 64 : 32;
      break;
    }
  }
  return draft;
}

Draft Matrix(Parameters& p) {
  const int count = p.small("count");
  if (p.text("order") != "plain" && p.text("order") != "trans") {
    return {BadArgument("order is plain or trans"), {}, 16};
  }
  return {MatrixFragment(count, p.text("order") == "trans"), {8 * count, 8}, 16};
}

Draft MatrixRows(Parameters& p) {
  const int count = p.small("count");
  return {MatrixRowAddresses(count), {8 * count, 1}, 16};
}

Draft MatrixTile(Parameters& p) { return {MatrixTileAddresses(), {16, 2}, 16}; }

Draft WgmmaC(Parameters& p) {
  const int n = p.small("n");
  return {WgmmaAccumulator(n), {64, n}, 32};
}

Draft WgmmaA(Parameters& p) {
  const int bits = p.small("bits");
  return {WgmmaOperandA(bits), {64, bits > 0 ? 256 / bits : 0}, bits};
}

Draft WgLocal(Parameters& p) {
  const int64_t rows = p.number("rows"), columns = p.number("columns");
  return {WgLocalLayout(columns, rows), {rows, columns}, 32};
}

Draft Planned(Parameters& p) {
  return {PlannedLoop(p.number("n"), p.number("threads"), p.number("vector")), {}, 32};
}

Draft TmemDatapath(Parameters& p) {
  const int64_t rows = p.number("rows"), columns = p.number("columns");
  return {TmemDatapathLayout(p.letter("datapath"), rows, columns, p.small("sub_slab")),
          {rows, columns},
          32};
}

Draft TmemGrouped(Parameters& p) {
  const int64_t rows = p.number("rows"), stages = p.number("stages"), n = p.number("n");
  return {GroupedAccumulator(rows, stages, n), {rows, stages, 2, n}, 32};
}

Draft TmemA(Parameters& p) {
  const int64_t k = p.number("k");
  absl::StatusOr<Layout> layout = TmemOperandA(p.letter("datapath"), k);
  const int64_t rows = layout.ok() && k > 0 ? layout->size() / k : 0;
  return {std::move(layout), {rows, k}, 32};
}

Draft Tcgen05(Parameters& p) {
  const int64_t rows = p.number("rows"), columns = p.number("columns");
  const int bits = p.small("bits");
  return {Tcgen05AtomLayout(p.text("instruction"), rows, columns, bits), {rows, columns}, bits};
}

Draft MmaAtom(Parameters& p) {
  const int bits = p.small("bits");
  const SwizzleMode mode = p.mode("mode");
  return {MmaAtomLayout(bits, mode), {8, bits > 0 ? RowBytes(mode) * 8 / bits : 0}, bits};
}

Draft MmaShared(Parameters& p) {
  const int bits = p.small("bits");
  const std::vector<int64_t> shape = {p.number("rows"), p.number("columns")};
  return {MmaSharedLayout(bits, p.mode("mode"), shape), shape, bits};
}

Draft ScaleTmem(Parameters& p) {
  const ScaleFactorShape s = {p.number("rows"), p.number("factors"), p.number("per_mma"),
                              p.number("reuse"), p.number("depth")};
  std::vector<int64_t> shape = {s.rows, s.factors};
  if (s.depth > 1) shape.insert(shape.begin(), s.depth);
  if (s.reuse > 1) shape.push_back(s.reuse);
  return {ScaleFactorTmemLayout(s), shape, 8};
}

Draft ScaleShared(Parameters& p) {
  const int64_t rows = p.number("rows"), factors = p.number("factors");
  return {ScaleFactorSharedLayout(rows, factors), {rows, factors}, 8};
}

Draft Scratchpad(Parameters& p) {
  std::vector<int64_t> shape;
  for (const absl::string_view part : absl::StrSplit(p.text("shape"), 'x')) {
    int64_t extent = 0;
    if (!absl::SimpleAtoi(part, &extent)) {
      return {BadArgument(absl::StrCat("a shape is like 32x512, not ", p.text("shape"))), {}, 32};
    }
    shape.push_back(extent);
  }
  return {ScratchpadLayout(p.text("letters"), shape), shape, 32};
}

Draft ScratchpadBanks(Parameters& p) {
  Draft draft = Scratchpad(p);
  if (draft.layout.ok()) draft.layout = ToBanks(*draft.layout);
  return draft;
}

Draft RowMajor(Parameters& p) {
  const int64_t rows = p.number("rows"), columns = p.number("columns");
  return {Layout::FromIters({{rows, columns, Axis::kM}, {columns, 1, Axis::kM}}),
          {rows, columns},
          p.small("bits")};
}

Draft RegisterTile(Parameters& p) {
  return {
      Parse("S[(8,2,4,2):(4@laneid,1@warpid,1@laneid,1)] + R[2:4@warpid] + 5@warpid"), {8, 16}, 32};
}

constexpr PresetFamily kFamilies[] = {
    {"row_major", "rows=8,columns=64,bits=16", "rows one after the other in memory", "- 32,32,32"},
    {"register_tile", "", "a tile over two warps of eight, copied to two more", "-"},
    {"mma", "shape=m16n8k16,operand=C,bits=32", "mma.sync fragments: operand A, B or C", "rows"},
    {"ldmatrix", "count=4,order=plain", "8 x 8 matrices of ldmatrix and stmatrix; order trans too",
     "1 2 4 1,trans 2,trans 4,trans"},
    {"ldmatrix_rows", "count=4", "lanes that supply the row addresses of ldmatrix", "1 2 4"},
    {"ldmatrix_tile", "", "lanes that supply the addresses of a 16 x 16 tile", "-"},
    {"wgmma_accumulator", "n=64", "the (64, n) accumulator of wgmma", "8 16 32 64 128 256"},
    {"wgmma_operand_a", "bits=16", "A of wgmma from registers", "8 16 32"},
    {"wg_local", "columns=16,rows=128", "one row a thread of a warpgroup", "-"},
    {"planned_loop", "n=1024,threads=128,vector=4", "a loop dealt out in turns of vectors", "-"},
    {"tmem_datapath", "datapath=D,rows=128,columns=256,sub_slab=0",
     "where tcgen05.mma writes its accumulator, datapaths A to G",
     "A B,64,256 C,64,256 D E,64,256 F,64,256 F,64,256,1 G,32,256"},
    {"tmem_grouped", "rows=64,stages=2,n=128", "accumulator columns in groups over lane halves",
     "-"},
    {"tmem_operand_a", "datapath=D,k=64", "A read from tensor memory", "A B D E F"},
    {"tcgen05_atom", "instruction=32x32b,rows=128,columns=64,bits=32",
     "registers that tcgen05.ld and .st move",
     "32x32b 32x32b,64 16x64b,64 16x128b,64 16x256b,64 16x256b,128 16x256b,64,64,16"},
    {"mma_atom", "bits=16,mode=128B", "one swizzle atom of a shared-memory descriptor",
     "16,none 16,32B 16,64B 16,128B 8,128B 32,128B"},
    {"mma_shared", "bits=16,mode=128B,rows=64,columns=256",
     "swizzled atoms tiled over a stage of shared memory", "- 16,64B 16,32B 8,128B 32,128B"},
    {"scale_factor_tmem", "rows=128,factors=4,per_mma=4,reuse=1,depth=1",
     "block scales in tensor memory, seen by four lane windows", "- 128,16,4 128,4,1 128,8,4,1,2"},
    {"scale_factor_shared", "rows=128,factors=4", "the same in shared memory", "- 256,16"},
    {"scratchpad", "letters=PF,shape=32x512", "partitions and free coordinate of a scratchpad",
     "- FPF,4x32x64"},
    {"scratchpad_banks", "letters=FP,shape=1024x8", "F split over eight banks of 512", "-"},
};

using Maker = Draft (*)(Parameters&);
constexpr Maker kMakers[] = {
    RowMajor, RegisterTile, Mma,       Matrix,       MatrixRows,  MatrixTile,      WgmmaC,
    WgmmaA,   WgLocal,      Planned,   TmemDatapath, TmemGrouped, TmemA,           Tcgen05,
    MmaAtom,  MmaShared,    ScaleTmem, ScaleShared,  Scratchpad,  ScratchpadBanks,
};
static_assert(std::size(kMakers) == std::size(kFamilies));

absl::StatusOr<Parameters> ParametersOf(const PresetFamily& family, absl::string_view given) {
  std::vector<absl::string_view> values;
  if (!given.empty()) values = absl::StrSplit(given, ',');
  std::map<std::string, std::string> named;
  size_t k = 0;
  for (const absl::string_view part : absl::StrSplit(family.parameters, ',', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> both =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    named[std::string(both.first)] = std::string(k < values.size() ? values[k] : both.second);
    ++k;
  }
  if (values.size() > k) {
    return BadArgument(absl::StrCat("preset ", family.name, " has ", k, " parameters (",
                                    family.parameters, "), not ", values.size()));
  }
  return Parameters(std::move(named));
}

}  // namespace

absl::Span<const PresetFamily> PresetFamilies() { return kFamilies; }

std::vector<std::string> PresetNames() {
  std::vector<std::string> names;
  for (const PresetFamily& family : kFamilies) {
    if (absl::string_view(family.examples) == "rows") {
      for (const FragmentRow& row : FragmentRows()) {
        names.push_back(absl::StrCat(family.name, ":", row.shape, ",", std::string(1, row.operand),
                                     ",", row.element_bits));
      }
      continue;
    }
    for (const absl::string_view example : absl::StrSplit(family.examples, ' ')) {
      names.push_back(example == "-" ? family.name : absl::StrCat(family.name, ":", example));
    }
  }
  return names;
}

absl::StatusOr<Preset> FindPreset(absl::string_view name) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(name, absl::MaxSplits(':', 1));
  for (size_t f = 0; f < std::size(kFamilies); ++f) {
    if (parts.first != kFamilies[f].name) continue;
    KILN_ASSIGN_OR_RETURN(Parameters parameters, ParametersOf(kFamilies[f], parts.second));
    Draft draft = kMakers[f](parameters);
    const std::string context = absl::StrCat("preset ", kFamilies[f].name);
    if (!parameters.status().ok()) return WithContext(parameters.status(), context);
    if (!draft.layout.ok()) return WithContext(draft.layout.status(), context);
    return Preset{std::string(name), std::move(draft.shape), draft.bits, *std::move(draft.layout)};
  }
  return absl::NotFoundError(
      absl::StrCat("no preset is called '", parts.first.substr(0, 40), "'; there are ",
                   absl::StrJoin(kFamilies, ", ", [](std::string* out, const PresetFamily& family) {
                     absl::StrAppend(out, family.name);
                   })));
}

bool LooksLikePreset(absl::string_view text) {
  return !text.empty() && absl::ascii_islower(static_cast<unsigned char>(text[0]));
}

}  // namespace kiln::layout
