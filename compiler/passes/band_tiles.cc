// tile: <3,3,3> o S[(112,2,64):(64,7168,1)]   two boxes of 112 x 64
// becomes
// tile: <3,3,3> o S[(14,8,2,64):(1024,64,512,1)]   one box of 14 x 2 x 8 x 64
#include "compiler/passes/band_tiles.h"

#include <algorithm>
#include <unordered_map>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/shape.h"
#include "compiler/ir/visit.h"
#include "compiler/layout/memory_layouts.h"
#include "compiler/layout/text.h"
#include "compiler/passes/pipeline.h"
#include "compiler/passes/shared_tiles.h"
#include "compiler/target/warps.h"

namespace kiln::passes {
namespace {

using ir::Stmt;

constexpr size_t kMostRank = 3;  // of a tensor: two dimensions become four, and maps have five

// By which wgmma reads a tile.
layout::SwizzleMode ModeOf(const ir::BufferNode& tile) {
  return layout::WidestMode(tile.dtype.bits, ir::ConstInt(tile.shape.back()).value_or(0));
}

// The layout in bands of a tile that lies as wgmma reads it, panel by panel; empty where its rows
// fill one panel, or it lies otherwise.
std::string InBands(const ir::BufferNode& tile) {
  std::vector<int64_t> shape;
  for (const ir::Expr& side : tile.shape) {
    const auto n = ir::ConstInt(side);
    if (!n) return "";
    shape.push_back(*n);
  }
  const int bits = tile.dtype.bits;
  const layout::SwizzleMode mode = ModeOf(tile);
  if (mode == layout::SwizzleMode::kNone || shape.back() * bits / 8 <= layout::RowBytes(mode)) {
    return "";
  }
  const auto panels = layout::MmaSharedLayout(bits, mode, shape);
  const auto bands = layout::MmaSharedLayout(bits, mode, shape, layout::AtomOrder::kBands);
  if (!panels.ok() || !bands.ok()) return "";
  const layout::Layout lies = layout::Canonical(layout::MustParse(tile.layout));
  return lies.ToString() == layout::Canonical(*panels).ToString() ? bands->ToString() : "";
}

// The tiles that may lie in bands: every mention of one is where it is allocated, a load of the
// whole of it, or an operand of wgmma.
class Find : public ir::Mutator {
 public:
  // A cache of `cache` bytes holds what is smaller.
  Find(const Stmt& body, int64_t cache) : names_(NamesIn(body)), cache_(cache) {
    (void)Mutate(body);
  }

  std::unordered_map<const ir::BufferNode*, std::string> Layouts() const {
    std::unordered_map<const ir::BufferNode*, std::string> found;
    for (const auto& [tile, mentions] : mentions_) {
      if (!mentions.fetched || mentions.all != mentions.fit) continue;
      if (std::string bands = InBands(*tile); !bands.empty()) found[tile] = std::move(bands);
    }
    return found;
  }

 protected:
  ir::Buffer VisitBuffer(const ir::Buffer& buffer) override {
    if (buffer->scope == ir::Scope::kShared && !buffer->layout.empty()) {
      ++mentions_[buffer.get()].all;
    }
    return buffer;
  }

  Stmt VisitStmt(const Stmt& s) override {
    if (const auto* launch = s.As<ir::Launch>()) {
      launch_ = launch;
    } else if (const auto* alloc = s.As<ir::Alloc>()) {
      ++mentions_[alloc->buffer.get()].fit;
    } else if (const auto* x = s.As<ir::Instruct>()) {
      Look(*x);
    }
    return ir::Mutator::VisitStmt(s);
  }

 private:
  struct Mentions {
    int all = 0, fit = 0;
    bool fetched = false;
  };

  void Look(const ir::Instruct& x) {
    if (x.op == ir::Instruction::kWgmma) {
      for (const ir::Region& r : x.regions) ++mentions_[r.buffer.get()].fit;
    } else if (x.op == ir::Instruction::kTensorLoad && IsStreamed(x) && Divides(x)) {
      Mentions& mentions = mentions_[x.regions[0].buffer.get()];
      ++mentions.fit;
      mentions.fetched = true;
    }
  }

  // Whether memory is what the load waits for: of what is read once, and more than the cache holds
  // or as the kernel asks.
  bool IsStreamed(const ir::Instruct& load) const {
    const auto evict = load.annotations.find("evict");
    if (evict == load.annotations.end() || evict->second != "evict_first") return false;
    const ir::Buffer& tensor = load.regions[1].buffer;
    return launch_->annotations.count(absl::StrCat("evict:", tensor->name)) > 0 ||
           ir::BytesOf(tensor).value_or(0) > cache_;
  }

  // Whether bands and panels divide the tensor, and the box begins and ends with whole ones.
  bool Divides(const ir::Instruct& load) const {
    const ir::Region &tile = load.regions[0], &box = load.regions[1];
    const ir::Buffer& tensor = box.buffer;
    const size_t last = tensor->shape.size() - 1;
    const auto row = static_cast<size_t>(ir::RowDimension(box));
    if (tensor->shape.size() > kMostRank || !tensor->strides.empty()) return false;
    for (const ir::Expr& side : tensor->shape) {
      if (ir::ConstInt(side).value_or(0) <= 0) return false;
    }
    const int64_t blocks = std::max<int64_t>(1, ir::NoteOf(load, "cluster"));
    const layout::SwizzleMode mode = ModeOf(*tile.buffer);
    const int64_t width = layout::RowBytes(mode) * 8 / tensor->dtype.bits;
    const auto whole = [&](size_t d, int64_t of) {
      const auto extent = ir::ConstInt(box.ranges[d].extent);
      return extent && *extent % of == 0 && *ir::ConstInt(tensor->shape[d]) % of == 0 &&
             ResidueOf(box.ranges[d].min, of, names_) == 0;
    };
    return mode != layout::SwizzleMode::kNone && whole(last, width) &&
           *ir::ConstInt(box.ranges[last].extent) / width <= target::kMostBox &&
           whole(row, layout::kAtomRows) &&
           *ir::ConstInt(box.ranges[row].extent) % (layout::kAtomRows * blocks) == 0;
  }

  const ir::Facts names_;
  const int64_t cache_;
  const ir::Launch* launch_ = nullptr;  // around
  std::unordered_map<const ir::BufferNode*, Mentions> mentions_;
};

class Band : public ir::Mutator {
 public:
  explicit Band(std::unordered_map<const ir::BufferNode*, std::string> layouts)
      : layouts_(std::move(layouts)) {}

 protected:
  ir::Buffer VisitBuffer(const ir::Buffer& buffer) override {
    const auto found = layouts_.find(buffer.get());
    if (found == layouts_.end()) return buffer;
    ir::Buffer& banded = banded_[buffer.get()];
    if (banded == nullptr) {
      ir::BufferNode node = *buffer;
      node.layout = found->second;
      banded = std::make_shared<const ir::BufferNode>(std::move(node));
    }
    return banded;
  }

 private:
  const std::unordered_map<const ir::BufferNode*, std::string> layouts_;
  ir::BufferMap banded_;
};

}  // namespace

absl::StatusOr<ir::Program> BandTiles(const ir::Program& program, const PassContext& context) {
  if (ir::PassOption(program, "kiln.bands", 1) == 0) return program;
  auto layouts = Find(program.body, GpuOf(context).llc.bytes).Layouts();
  if (layouts.empty()) return program;
  ir::Program out = program;
  out.body = Band(std::move(layouts)).Mutate(program.body);
  return out;
}

}  // namespace kiln::passes
