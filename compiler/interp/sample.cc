// SampleReference: which blocks can contribute to a few elements, and a run of those.
#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <set>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "compiler/base/status.h"
#include "compiler/interp/execution.h"
#include "compiler/interp/interp.h"
#include "compiler/interp/narrow.h"
#include "compiler/interp/sites.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/shared_use.h"
#include "compiler/ir/visit.h"

namespace kiln::interp {
namespace {

constexpr int64_t kMaxBlocks = int64_t{1} << 28;
// Of stand-ins for what is written, those of all threads.
constexpr int64_t kApartBytes = int64_t{4} << 30;
constexpr int64_t kMaxVisits = int64_t{1} << 22;  // of blocks, by all parts of a narrowed program

// Marks the blocks that must run, from the last launch to the first.
class Planner {
 public:
  explicit Planner(const std::vector<LaunchInfo>& launches) : launches_(launches) {}

  void Need(const ir::Buffer& buffer, const ElementBox& box) {
    const auto rank = static_cast<int>(buffer->shape.size());
    needed_.try_emplace(buffer.get(), rank).first->second.Add(box);
  }

  absl::Status Plan() {
    runs_.resize(launches_.size());
    for (size_t l = launches_.size(); l-- > 0;) KILN_RETURN_IF_ERROR(PlanLaunch(l));
    return absl::OkStatus();
  }

  // Calls visit(buffer, box) for what the planned blocks read; equal boxes of neighbours come once.
  template <typename Visit>
  void ForEachRead(const Visit& visit) const {
    for (size_t l = 0; l < launches_.size(); ++l) {
      const LaunchInfo& info = launches_[l];
      for (const Site& site : info.reads) {
        if (info.every_block) {
          visit(site.buffer, Everything());
          continue;
        }
        std::set<ElementBox> seen;
        for (int64_t i = 0; i < static_cast<int64_t>(runs_[l].size()); ++i) {
          if (!runs_[l][static_cast<size_t>(i)]) continue;
          int64_t block[3] = {0, 0, 0};
          BlockOf(info, i, block);
          seen.insert(BoxOf(site, info, block));
        }
        for (const ElementBox& box : seen) visit(site.buffer, box);
      }
    }
  }

  // Calls visit(block) for the planned blocks of a launch.
  template <typename Visit>
  void ForEachBlock(size_t launch, const Visit& visit) const {
    for (int64_t i = 0; i < static_cast<int64_t>(runs_[launch].size()); ++i) {
      if (!runs_[launch][static_cast<size_t>(i)]) continue;
      int64_t block[3] = {0, 0, 0};
      BlockOf(launches_[launch], i, block);
      visit(block);
    }
  }

  static ElementBox Everything() {
    ElementBox all;
    all.low.fill(kMinusInfinity);
    all.high.fill(kInfinity);
    return all;
  }

  bool Runs(int launch, const int64_t (&block)[3]) const {
    const std::vector<bool>& runs = runs_[static_cast<size_t>(launch)];
    if (runs.empty()) return true;  // all
    return runs[static_cast<size_t>(Number(launches_[static_cast<size_t>(launch)], block))];
  }

  static void BlockOf(const LaunchInfo& info, int64_t number, int64_t (&block)[3]) {
    for (size_t d = 0; d < info.extent.size(); ++d) {
      block[d] = number % info.extent[d];
      number /= info.extent[d];
    }
  }

 private:
  static int64_t Number(const LaunchInfo& info, const int64_t (&block)[3]) {
    int64_t number = 0;
    for (size_t d = info.extent.size(); d-- > 0;) number = number * info.extent[d] + block[d];
    return number;
  }

  bool Writes(const LaunchInfo& info, const int64_t (&block)[3]) const {
    return std::any_of(info.writes.begin(), info.writes.end(), [&](const Site& site) {
      const auto needed = needed_.find(site.buffer.get());
      return needed != needed_.end() && needed->second.Touches(BoxOf(site, info, block));
    });
  }

  // A block that reads what other blocks of its launch update atomically waits for all of them.
  static bool ReadsAtomics(const LaunchInfo& info) {
    for (const Site& write : info.writes) {
      if (!write.atomic) continue;
      for (const Site& read : info.reads) {
        if (read.buffer == write.buffer) return true;
      }
    }
    return false;
  }

  absl::Status PlanLaunch(size_t l) {
    const LaunchInfo& info = launches_[l];
    int64_t total = 1;
    for (const int64_t extent : info.extent) {
      if (__builtin_mul_overflow(total, extent, &total) || total > kMaxBlocks) {
        return absl::ResourceExhaustedError(
            absl::StrCat("a launch of more than ", kMaxBlocks, " blocks: use larger tiles"));
      }
    }
    if (info.every_block) {
      for (const Site& read : info.reads) NeedAll(read.buffer);
      return absl::OkStatus();
    }
    std::vector<bool> runs(static_cast<size_t>(std::max<int64_t>(total, 1)));
    bool any = false;
    for (int64_t i = 0; i < total; ++i) {
      int64_t block[3] = {0, 0, 0};
      BlockOf(info, i, block);
      runs[static_cast<size_t>(i)] = Writes(info, block);
      any |= runs[static_cast<size_t>(i)];
    }
    if (any && ReadsAtomics(info)) runs.assign(runs.size(), true);
    const std::vector<const Site*> reads = ReadsOfEarlierResults(l);
    for (int64_t i = 0; !reads.empty() && i < total; ++i) {
      if (!runs[static_cast<size_t>(i)]) continue;
      int64_t block[3] = {0, 0, 0};
      BlockOf(info, i, block);
      for (const Site* site : reads) Need(site->buffer, BoxOf(*site, info, block));
    }
    runs_[l] = std::move(runs);
    return absl::OkStatus();
  }

  bool WrittenBefore(size_t l, const ir::Buffer& buffer) const {
    return std::any_of(launches_.begin(), launches_.begin() + static_cast<int64_t>(l),
                       [&](const LaunchInfo& earlier) {
                         return std::any_of(earlier.writes.begin(), earlier.writes.end(),
                                            [&](const Site& w) { return w.buffer == buffer; });
                       });
  }

  // An atomic update builds on what was there before, like a read.
  std::vector<const Site*> ReadsOfEarlierResults(size_t l) const {
    std::vector<const Site*> list;
    for (const Site& read : launches_[l].reads) {
      if (WrittenBefore(l, read.buffer)) list.push_back(&read);
    }
    for (const Site& write : launches_[l].writes) {
      if (write.atomic && WrittenBefore(l, write.buffer)) list.push_back(&write);
    }
    return list;
  }

  void NeedAll(const ir::Buffer& buffer) { Need(buffer, Everything()); }

  const std::vector<LaunchInfo>& launches_;
  std::unordered_map<const ir::BufferNode*, Needed> needed_;
  std::vector<std::vector<bool>> runs_;
};

absl::StatusOr<ElementBox> BoxOfElement(const std::vector<int64_t>& shape, int64_t flat) {
  int64_t total = 1;
  for (const int64_t extent : shape) total *= extent;
  if (flat < 0 || flat >= total) {
    return absl::InvalidArgumentError(
        absl::StrCat("element ", flat, " of a tensor of ", total, " elements"));
  }
  ElementBox box;
  for (size_t d = shape.size(); d-- > 0;) {
    box.low[d] = box.high[d] = flat % shape[d];
    flat /= shape[d];
  }
  return box;
}

// Float64 stand-ins for the tensors that the program writes, so that the caller's stay untouched
// and nothing rounds.
absl::StatusOr<std::vector<Tensor>> Substitute(const ir::Program& program,
                                               const std::vector<std::vector<int64_t>>& shapes,
                                               std::vector<TensorView>* views) {
  const std::vector<ir::Buffer> written = ir::BuffersWritten(program.body);
  const std::vector<ir::Buffer> read = ir::BuffersRead(program.body);
  const std::vector<const ir::Param*> params = TensorParams(program);
  std::vector<Tensor> owned;
  if (views->size() != params.size()) {
    return absl::InvalidArgumentError(absl::StrCat("'", program.name, "' has ", params.size(),
                                                   " tensor parameters, got ", views->size()));
  }
  for (size_t t = 0; t < params.size(); ++t) {
    TensorView& view = (*views)[t];
    const bool fits = view.strides.empty() || view.strides.size() == shapes[t].size();
    if (view.shape != shapes[t] || !fits) continue;  // BindTensors tells
    const bool is_written =
        std::find(written.begin(), written.end(), params[t]->buffer) != written.end();
    if (!is_written) continue;
    const DType type = params[t]->buffer->dtype;
    int64_t span = 1;  // from the first element to past the last
    for (size_t d = 0; d < view.strides.size(); ++d) span += (view.shape[d] - 1) * view.strides[d];
    owned.emplace_back(
        type.is_float() ? kFloat64 : type,
        view.strides.empty() ? shapes[t] : std::vector<int64_t>{std::max<int64_t>(span, 0)});
    const TensorView mine{owned.back().data(), owned.back().dtype(), shapes[t], view.strides};
    const bool is_read = std::find(read.begin(), read.end(), params[t]->buffer) != read.end();
    if (!params[t]->is_output && (view.data != nullptr || is_read)) {
      if (view.data == nullptr && mine.elements() > 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("tensor '", params[t]->name, "' is read and has no data"));
      }
      const int64_t n = mine.elements();
      for (int64_t i = 0; i < n; ++i) mine.Set(i, view.Get(i));
    }
    view = mine;
  }
  return owned;
}

// Tells Options::prepare of one part of a tensor, where `buffer` is one.
void Announce(const ir::Program& program, const std::vector<std::vector<int64_t>>& shapes,
              const Options& options, const ir::Buffer& buffer, const ElementBox& box) {
  const std::vector<const ir::Param*> tensors = TensorParams(program);
  for (size_t t = 0; t < tensors.size(); ++t) {
    if (tensors[t]->buffer != buffer) continue;
    std::vector<int64_t> low, high;
    bool empty = false;
    for (size_t d = 0; d < shapes[t].size(); ++d) {
      low.push_back(std::max<int64_t>(box.low[d], 0));
      high.push_back(std::min(box.high[d], shapes[t][d] - 1));
      empty |= low.back() > high.back();
    }
    if (!empty) options.prepare(static_cast<int>(t), low, high);
  }
}

// The same of all that will be read.
void AnnounceAll(const ir::Program& program, const Collector& collector, const Planner& planner,
                 const std::vector<std::vector<int64_t>>& shapes, const Options& options) {
  if (!options.prepare) return;
  const auto tell = [&](const ir::Buffer& buffer, const ElementBox& box) {
    Announce(program, shapes, options, buffer, box);
  };
  planner.ForEachRead(tell);
  for (const ir::Buffer& buffer : collector.host_reads) tell(buffer, Planner::Everything());
}

// A program that is about to be sampled.
struct Sampling {
  std::unique_ptr<Execution> execution;
  std::vector<std::vector<int64_t>> shapes;
  std::vector<TensorView> views;
  std::vector<Tensor> owned;  // what some views look at
  std::unique_ptr<Collector> collector;
};

absl::StatusOr<std::unique_ptr<Sampling>> Begin(const ir::Program& program,
                                                const std::vector<TensorView>& params,
                                                const Options& options) {
  auto s = std::make_unique<Sampling>();
  KILN_ASSIGN_OR_RETURN(s->execution, Execution::Create(program, options));
  KILN_RETURN_IF_ERROR(s->execution->BindScalars(params));
  KILN_ASSIGN_OR_RETURN(s->shapes, s->execution->Shapes());
  s->views = params;
  KILN_ASSIGN_OR_RETURN(s->owned, Substitute(program, s->shapes, &s->views));
  KILN_RETURN_IF_ERROR(s->execution->BindTensors(s->views));
  s->collector = std::make_unique<Collector>(s->execution.get());
  s->collector->Run(program);
  return s;
}

absl::StatusOr<std::vector<double>> ValuesOf(const ir::Program& program, const Sampling& s,
                                             int output, const std::vector<int64_t>& elements) {
  const TensorView& view = s.views[output];
  const BufferState& state = s.execution->tensor(output);
  std::vector<double> values;
  for (const int64_t flat : elements) {
    const auto offset =
        (static_cast<char*>(view.At(flat)) - static_cast<char*>(view.data)) / view.dtype.bytes();
    if (state.written && !state.written[offset]) {
      return absl::FailedPreconditionError(absl::StrCat("element ", flat, " of output '",
                                                        TensorParams(program)[output]->name,
                                                        "' is not written by the program"));
    }
    values.push_back(view.Get(flat));
  }
  return values;
}

// Adds up what the parts of a sampling did.
void Count(const Execution& execution, Stats* stats) {
  if (stats == nullptr) return;
  stats->blocks += execution.stats().blocks;
  stats->steps += execution.stats().steps;
}

using BlockId = std::array<int64_t, 3>;

// The block that writes each element, of a program of one launch; nothing when that is not clear.
std::optional<std::map<BlockId, std::vector<size_t>>> BlocksOf(
    const LaunchInfo& info, const Planner& planner, const ir::Buffer& output,
    const std::vector<ElementBox>& elements) {
  const auto rank = static_cast<int>(output->shape.size());
  std::map<BlockId, std::vector<size_t>> blocks;
  size_t found = 0;
  bool clear = true;
  planner.ForEachBlock(0, [&](const int64_t(&block)[3]) {
    for (size_t e = 0; e < elements.size(); ++e) {
      bool writes = false;
      for (const Site& site : info.writes) {
        clear &= !site.atomic;
        writes |= site.buffer == output && Intersects(BoxOf(site, info, block), elements[e], rank);
      }
      if (!writes) continue;
      blocks[{block[0], block[1], block[2]}].push_back(e);
      ++found;
    }
  });
  if (!clear || found != elements.size()) return std::nullopt;
  return blocks;
}

// Calls body(task) for each task of [0, count), from `threads` threads at once, in any order.
void RunTasks(int threads, size_t count, const std::function<void(size_t)>& body) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t task = next++; task < count; task = next++) body(task);
  };
  std::vector<std::thread> others;
  for (size_t i = 1; i < std::min<size_t>(static_cast<size_t>(threads), count); ++i) {
    others.emplace_back(work);
  }
  work();
  for (std::thread& other : others) other.join();
}

// Threads of which each has stand-ins of its own, most of them untouched pages.
int WidthOf(const Options& options, const Sampling& whole) {
  int64_t bytes = 1;
  for (const Tensor& stand_in : whole.owned) {
    bytes += stand_in.bytes() + stand_in.elements();  // and which elements are written
  }
  return static_cast<int>(
      std::clamp<int64_t>(kApartBytes / bytes, 1, std::max(options.threads, 1)));
}

// One block, narrowed to the elements that it writes.
class NarrowBlock {
 public:
  // `wanted`: numbers of elements, whose boxes are `boxes`.
  NarrowBlock(BlockId id, std::vector<size_t> wanted) : id_(id), wanted_(std::move(wanted)) {}

  // Makes what is to run; false: it cannot be narrowed. What it reads has yet to be announced.
  bool Prepare(const ir::Program& program, const std::vector<TensorView>& params,
               const ir::Buffer& buffer, const std::vector<ElementBox>& boxes,
               const ir::Facts& outer, const Options& options) {
    const auto rank = static_cast<int>(buffer->shape.size());
    ElementBox hull = boxes[wanted_[0]];
    for (const size_t e : wanted_) hull = Hull(hull, boxes[e], rank);
    std::vector<std::pair<int64_t, int64_t>> box;
    for (int d = 0; d < rank; ++d) box.emplace_back(hull.low[d], hull.high[d]);
    const int64_t block[3] = {id_[0], id_[1], id_[2]};
    program_ = Narrow(program, block, buffer, box, outer);
    if (!program_) return false;
    options_ = options;
    options_.detect_uninitialised = true;  // finds what narrowing would have got wrong
    options_.block_filter = [this](int, const int64_t(&other)[3]) {
      return std::equal(id_.begin(), id_.end(), other);
    };
    auto begun = Begin(*program_, params, options_);
    if (!begun.ok()) return false;
    sampling_ = *std::move(begun);
    planner_.emplace(sampling_->collector->launches);
    for (const size_t e : wanted_) planner_->Need(buffer, boxes[e]);
    return planner_->Plan().ok();
  }

  void Announce() const {
    AnnounceAll(*program_, *sampling_->collector, *planner_, sampling_->shapes, options_);
  }

  // False: it does not run so.
  bool Run(int output, const std::vector<int64_t>& elements, std::vector<double>* values) {
    if (!sampling_->execution->Run().ok()) return false;
    std::vector<int64_t> flats;
    for (const size_t e : wanted_) flats.push_back(elements[e]);
    const auto got = ValuesOf(*program_, *sampling_, output, flats);
    if (!got.ok()) return false;
    for (size_t i = 0; i < wanted_.size(); ++i) (*values)[wanted_[i]] = (*got)[i];
    return true;
  }

  const Execution& execution() const { return *sampling_->execution; }

 private:
  const BlockId id_;
  const std::vector<size_t> wanted_;
  std::optional<ir::Program> program_;
  Options options_;
  std::unique_ptr<Sampling> sampling_;
  std::optional<Planner> planner_;
};

// Block by block, each narrowed to the elements that it writes. Nothing when some block cannot be
// narrowed, or does not run so.
std::optional<std::vector<double>> SampleNarrow(const ir::Program& program,
                                                const std::vector<TensorView>& params, int output,
                                                const std::vector<int64_t>& elements,
                                                const Sampling& whole, const Planner& planner,
                                                const Options& options, Stats* stats) {
  const std::vector<LaunchInfo>& launches = whole.collector->launches;
  if (launches.size() != 1 || launches[0].every_block) return std::nullopt;
  const ir::Buffer& buffer = TensorParams(program)[output]->buffer;
  std::vector<ElementBox> boxes;
  for (const int64_t flat : elements) boxes.push_back(*BoxOfElement(whole.shapes[output], flat));
  const auto blocks = BlocksOf(launches[0], planner, buffer, boxes);
  if (!blocks) return std::nullopt;
  std::vector<double> values(elements.size());
  // As many at once as there are threads: each has memory of its own. Announcing writes memory that
  // all of them read.
  const auto width = static_cast<size_t>(WidthOf(options, whole));
  auto next = blocks->begin();
  while (next != blocks->end()) {
    std::vector<std::unique_ptr<NarrowBlock>> wave;
    for (; next != blocks->end() && wave.size() < width; ++next) {
      wave.push_back(std::make_unique<NarrowBlock>(next->first, next->second));
    }
    std::atomic<bool> good{true};
    RunTasks(options.threads, wave.size(), [&](size_t i) {
      if (!good) return;
      if (!wave[i]->Prepare(program, params, buffer, boxes, launches[0].outer, options)) {
        good = false;
      }
    });
    if (!good) return std::nullopt;
    for (const auto& block : wave) block->Announce();
    RunTasks(options.threads, wave.size(), [&](size_t i) {
      if (good && !wave[i]->Run(output, elements, &values)) good = false;
    });
    if (!good) return std::nullopt;
    for (const auto& block : wave) Count(block->execution(), stats);
  }
  return values;
}

// Whether blocks of the launch can run apart from each other and still be seen to race: none reads
// what another one may write, and no two write the same elements.
bool Apart(const LaunchInfo& info, const std::map<BlockId, std::vector<size_t>>& blocks) {
  constexpr size_t kMostBlocks = 1024;
  if (blocks.size() > kMostBlocks) return false;
  for (const Site& write : info.writes) {
    for (const Site& read : info.reads) {
      if (read.buffer == write.buffer) return false;
    }
    const auto rank = static_cast<int>(write.buffer->shape.size());
    for (const Site& other : info.writes) {
      if (other.buffer != write.buffer) continue;
      for (auto a = blocks.begin(); a != blocks.end(); ++a) {
        const ElementBox box = BoxOf(write, info, {a->first[0], a->first[1], a->first[2]});
        for (auto b = std::next(a); b != blocks.end(); ++b) {
          const ElementBox others = BoxOf(other, info, {b->first[0], b->first[1], b->first[2]});
          if (Intersects(box, others, rank)) return false;
        }
      }
    }
  }
  return true;
}

// The planned blocks of a launch by several threads; what they read has been announced. Nothing:
// they have to run together.
std::optional<absl::StatusOr<std::vector<double>>> SampleApart(
    const ir::Program& program, const std::vector<TensorView>& params, int output,
    const std::vector<int64_t>& elements, const Sampling& whole, const Planner& planner,
    const Options& options, Stats* stats) {
  const std::vector<LaunchInfo>& launches = whole.collector->launches;
  const auto width = static_cast<size_t>(WidthOf(options, whole));
  if (width <= 1 || launches.size() != 1 || launches[0].every_block) return std::nullopt;
  if (launches[0].launch->annotations.count(ir::kSharesMemory) > 0) return std::nullopt;
  std::vector<ElementBox> boxes;
  for (const int64_t flat : elements) boxes.push_back(*BoxOfElement(whole.shapes[output], flat));
  const auto blocks = BlocksOf(launches[0], planner, TensorParams(program)[output]->buffer, boxes);
  if (!blocks || blocks->size() < 2 || !Apart(launches[0], *blocks)) return std::nullopt;

  const size_t groups = std::min(width, blocks->size());
  std::vector<std::set<BlockId>> ids(groups);
  std::vector<std::vector<size_t>> wanted(groups);
  size_t at = 0;
  for (const auto& [id, numbers] : *blocks) {
    const size_t group = at++ * groups / blocks->size();
    ids[group].insert(id);
    wanted[group].insert(wanted[group].end(), numbers.begin(), numbers.end());
  }
  std::vector<double> values(elements.size());
  std::vector<absl::Status> statuses(groups);
  std::vector<Stats> all(groups);
  RunTasks(options.threads, groups, [&](size_t group) {
    Options own = options;
    own.block_filter = [&](int, const int64_t(&block)[3]) {
      return ids[group].count({block[0], block[1], block[2]}) > 0;
    };
    std::vector<int64_t> flats;
    for (const size_t e : wanted[group]) flats.push_back(elements[e]);
    statuses[group] = [&]() -> absl::Status {
      KILN_ASSIGN_OR_RETURN(const auto part, Begin(program, params, own));
      KILN_RETURN_IF_ERROR(part->execution->Run());
      Count(*part->execution, &all[group]);
      KILN_ASSIGN_OR_RETURN(const auto got, ValuesOf(program, *part, output, flats));
      for (size_t i = 0; i < flats.size(); ++i) values[wanted[group][i]] = got[i];
      return absl::OkStatus();
    }();
  });
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return status;
  }
  for (const Stats& group : all) {
    if (stats == nullptr) break;
    stats->blocks += group.blocks;
    stats->steps += group.steps;
  }
  return values;
}

// A program of several launches, each narrowed block by block to what the launches after it need of
// it: a block of the program is a launch of its own, of which the filter lets that one block run.
class NarrowLaunches {
 public:
  NarrowLaunches(const ir::Program& program, Sampling* whole) : program_(program), whole_(*whole) {}

  void Need(const ir::Buffer& buffer, const ElementBox& box) {
    const auto rank = static_cast<int>(buffer->shape.size());
    needed_.try_emplace(buffer.get(), rank).first->second.Add(box);
  }

  // False: it has something that this does not follow, or gains nothing.
  bool Plan() {
    const std::vector<LaunchInfo>& launches = whole_.collector->launches;
    parts_.resize(launches.size());
    for (const LaunchInfo& info : launches) {
      if (info.every_block) return false;
      for (const Site& site : info.writes) {
        if (site.atomic) return false;
      }
    }
    for (size_t l = launches.size(); l-- > 0;) {
      if (!PlanLaunch(launches[l], &parts_[l])) return false;
    }
    return narrowed_;
  }

  // With the parts in the place of the launches; `filter` takes their numbers.
  ir::Program Build() {
    ir::Program built = program_;
    built.body = ir::RewriteStmts(program_.body, [&](const ir::Stmt& s) {
      const auto& launches = whole_.collector->launches;
      for (size_t l = 0; l < launches.size(); ++l) {
        if (s.As<ir::Launch>() == launches[l].launch) return Sequence(parts_[l], s->loc);
      }
      return ir::Stmt();
    });
    return built;
  }
  std::function<bool(int, const int64_t (&)[3])> filter() const {
    return [this](int launch, const int64_t(&block)[3]) {
      return std::equal(block, block + 3, order_[static_cast<size_t>(launch)].begin());
    };
  }

  void Announce(const Options& options) const {
    if (!options.prepare) return;
    for (const std::vector<Part>& parts : parts_) {
      for (const Part& part : parts) {
        const int64_t block[3] = {part.block[0], part.block[1], part.block[2]};
        for (const Site& site : part.info.reads) {
          interp::Announce(program_, whole_.shapes, options, site.buffer,
                           BoxOf(site, part.info, block));
        }
      }
    }
    for (const ir::Buffer& buffer : whole_.collector->host_reads) {
      interp::Announce(program_, whole_.shapes, options, buffer, Planner::Everything());
    }
  }

 private:
  struct Part {
    BlockId block;
    ir::Stmt launch;
    LaunchInfo info;  // of it
  };

  bool PlanLaunch(const LaunchInfo& info, std::vector<Part>* parts) {
    int64_t total = 1;
    for (const int64_t extent : info.extent) {
      if (__builtin_mul_overflow(total, extent, &total) || total > kMaxVisits) return false;
    }
    for (int64_t number = 0; number < total; ++number) {
      int64_t block[3] = {0, 0, 0};
      Planner::BlockOf(info, number, block);
      const Wanted wanted = WantedOf(info, block);
      if (wanted.empty()) continue;
      visits_ += total;
      if (visits_ > kMaxVisits) return false;
      Part part = {{block[0], block[1], block[2]}, {}, {}};
      const auto narrowed = NarrowLaunch(*info.launch, block, wanted, info.outer);
      if (!narrowed) return false;
      narrowed_ = true;
      part.launch = *narrowed;
      Collector collector(whole_.execution.get());
      collector.Run(*part.launch.As<ir::Launch>(), info.outer);
      part.info = std::move(collector.launches.front());
      parts->push_back(std::move(part));
    }
    for (const Part& part : *parts) {
      const int64_t block[3] = {part.block[0], part.block[1], part.block[2]};
      for (const Site& site : part.info.reads) Need(site.buffer, BoxOf(site, part.info, block));
    }
    return true;
  }

  // What is needed of what a block writes.
  Wanted WantedOf(const LaunchInfo& info, const int64_t (&block)[3]) const {
    Wanted wanted;
    for (const Site& site : info.writes) {
      const auto needed = needed_.find(site.buffer.get());
      if (needed == needed_.end()) continue;
      const auto within = needed->second.Within(BoxOf(site, info, block));
      if (!within) continue;
      auto& box = wanted[site.buffer.get()];
      box.resize(site.buffer->shape.size(), {INT64_MAX, INT64_MIN});
      for (size_t d = 0; d < box.size(); ++d) {
        box[d] = {std::min(box[d].first, within->low[d]), std::max(box[d].second, within->high[d])};
      }
    }
    return wanted;
  }

  ir::Stmt Sequence(const std::vector<Part>& parts, SourceLoc loc) {
    std::vector<ir::Stmt> stmts;
    for (const Part& part : parts) {
      stmts.push_back(ir::FreshCopy(part.launch));
      order_.push_back(part.block);
    }
    return ir::MakeSeq(std::move(stmts), loc);
  }

  const ir::Program& program_;
  const Sampling& whole_;
  std::unordered_map<const ir::BufferNode*, Needed> needed_;
  std::vector<std::vector<Part>> parts_;  // by launch
  std::vector<BlockId> order_;            // of the built program's launches
  int64_t visits_ = 0;
  bool narrowed_ = false;
};

std::optional<std::vector<double>> SampleNarrowLaunches(
    const ir::Program& program, const std::vector<TensorView>& params, int output,
    const std::vector<int64_t>& elements, Sampling* whole, const Options& options, Stats* stats) {
  NarrowLaunches narrow(program, whole);
  for (const int64_t flat : elements) {
    narrow.Need(TensorParams(program)[output]->buffer, *BoxOfElement(whole->shapes[output], flat));
  }
  if (!narrow.Plan()) return std::nullopt;
  const ir::Program built = narrow.Build();
  Options own = options;
  own.detect_uninitialised = true;  // finds what narrowing would have got wrong
  own.block_filter = narrow.filter();
  const auto run = Begin(built, params, own);
  if (!run.ok()) return std::nullopt;
  narrow.Announce(own);
  if (!(*run)->execution->Run().ok()) return std::nullopt;
  const auto values = ValuesOf(built, **run, output, elements);
  if (!values.ok()) return std::nullopt;
  Count(*(*run)->execution, stats);
  return *values;
}

}  // namespace

absl::StatusOr<std::vector<std::vector<double>>> SampleReferences(
    const ir::Program& program, const std::vector<TensorView>& params,
    const std::vector<int>& outputs, const std::vector<std::vector<int64_t>>& elements,
    const Options& options, Stats* stats) {
  if (outputs.size() != elements.size()) {
    return absl::InvalidArgumentError("one list of elements for each output");
  }
  if (stats) *stats = Stats();
  Options run_options = options;
  run_options.mode = Mode::kDouble;
  run_options.print = [](const std::string&) {};  // blocks may run again, or not at all
  KILN_ASSIGN_OR_RETURN(const std::unique_ptr<Sampling> s, Begin(program, params, run_options));
  Planner planner(s->collector->launches);
  const std::vector<const ir::Param*> tensors = TensorParams(program);
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (outputs[o] < 0 || outputs[o] >= static_cast<int>(tensors.size())) {
      return absl::InvalidArgumentError(absl::StrCat("no tensor parameter ", outputs[o]));
    }
    for (const int64_t flat : elements[o]) {
      KILN_ASSIGN_OR_RETURN(const ElementBox box, BoxOfElement(s->shapes[outputs[o]], flat));
      planner.Need(tensors[outputs[o]]->buffer, box);
    }
  }
  KILN_RETURN_IF_ERROR(planner.Plan());
  if (options.narrow && outputs.size() == 1) {
    auto narrow = s->collector->launches.size() > 1
                      ? SampleNarrowLaunches(program, params, outputs[0], elements[0], s.get(),
                                             run_options, stats)
                      : SampleNarrow(program, params, outputs[0], elements[0], *s, planner,
                                     run_options, stats);
    if (narrow) return std::vector<std::vector<double>>{*std::move(narrow)};
    if (stats) *stats = Stats();
  }
  AnnounceAll(program, *s->collector, planner, s->shapes, options);
  if (outputs.size() == 1) {
    auto apart =
        SampleApart(program, params, outputs[0], elements[0], *s, planner, run_options, stats);
    if (apart && !apart->ok()) return apart->status();
    if (apart) return std::vector<std::vector<double>>{**std::move(apart)};
  }
  run_options.block_filter = [&](int launch, const int64_t(&block)[3]) {
    return planner.Runs(launch, block);
  };
  KILN_RETURN_IF_ERROR(s->execution->Run());
  Count(*s->execution, stats);
  std::vector<std::vector<double>> values;
  for (size_t o = 0; o < outputs.size(); ++o) {
    KILN_ASSIGN_OR_RETURN(values.emplace_back(), ValuesOf(program, *s, outputs[o], elements[o]));
  }
  return values;
}

absl::StatusOr<std::vector<double>> SampleReference(const ir::Program& program,
                                                    const std::vector<TensorView>& params,
                                                    int output,
                                                    const std::vector<int64_t>& elements,
                                                    const Options& options, Stats* stats) {
  KILN_ASSIGN_OR_RETURN(auto values,
                        SampleReferences(program, params, {output}, {elements}, options, stats));
  return std::move(values[0]);
}

}  // namespace kiln::interp
