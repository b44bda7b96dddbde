#include "compiler/passes/pipeline.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "compiler/ir/printer.h"
#include "compiler/ir/verify.h"
#include "compiler/passes/alternate_products.h"
#include "compiler/passes/apply_layouts.h"
#include "compiler/passes/arrange_stages.h"
#include "compiler/passes/band_tiles.h"
#include "compiler/passes/cache_hints.h"
#include "compiler/passes/chain_products.h"
#include "compiler/passes/check_resources.h"
#include "compiler/passes/clear_sums.h"
#include "compiler/passes/compare_quotients.h"
#include "compiler/passes/count_remainders.h"
#include "compiler/passes/cut_loops.h"
#include "compiler/passes/divide_sizes.h"
#include "compiler/passes/even_registers.h"
#include "compiler/passes/forward_copies.h"
#include "compiler/passes/forward_stores.h"
#include "compiler/passes/fuse_sparse.h"
#include "compiler/passes/guard_accesses.h"
#include "compiler/passes/hold_sums.h"
#include "compiler/passes/issue_apart.h"
#include "compiler/passes/join_atomics.h"
#include "compiler/passes/lag_products.h"
#include "compiler/passes/load_operands.h"
#include "compiler/passes/loop_regions.h"
#include "compiler/passes/lower_copies.h"
#include "compiler/passes/lower_gemm_cpu.h"
#include "compiler/passes/lower_reductions_cpu.h"
#include "compiler/passes/lower_scans.h"
#include "compiler/passes/merge_threads.h"
#include "compiler/passes/multicast_copies.h"
#include "compiler/passes/overlap_products.h"
#include "compiler/passes/partition_loops.h"
#include "compiler/passes/pipeline_copies.h"
#include "compiler/passes/place_gemm_operands.h"
#include "compiler/passes/plant_barriers.h"
#include "compiler/passes/prefetch_tiles.h"
#include "compiler/passes/serialize_loops.h"
#include "compiler/passes/settle_registers.h"
#include "compiler/passes/share_memory.h"
#include "compiler/passes/simplify.h"
#include "compiler/passes/specialise_warps.h"
#include "compiler/passes/stage_operands.h"
#include "compiler/passes/store_matrices.h"
#include "compiler/passes/stream_loads.h"
#include "compiler/passes/stream_stores.h"
#include "compiler/passes/unroll_lanes.h"
#include "compiler/passes/vectorize_parallel.h"
#include "compiler/passes/version_loops.h"

namespace kiln::passes {
namespace {

struct DebugOptions {
  const char* print = std::getenv("KILN_PRINT_PASSES");
  bool verify = std::getenv("KILN_VERIFY_PASSES") != nullptr;
  bool time = std::getenv("KILN_TIME_PASSES") != nullptr;

  bool Prints(const char* pass) const {
    return print != nullptr && (std::strcmp(print, "1") == 0 || std::strcmp(print, pass) == 0);
  }
};

const DebugOptions& Debug() {
  static const DebugOptions options;
  return options;
}

}  // namespace

const std::vector<Pass>& CpuPipeline() {
  static const std::vector<Pass> pipeline = {
      {"merge-threads", MergeThreads},
      {"check-stages", CheckStages},
      {"lower-scans-cpu", LowerScansCpu},
      {"simplify", Simplify},
      {"guard-accesses", GuardAccesses},  // before tiles become loops: Copy clips by itself
      {"forward-copies", ForwardCopies},  // before placement: a forwarded tile needs no storage
      {"forward-stores", ForwardStores},
      {"prefetch-tiles", PrefetchTiles},  // while copies and parallel loops are still whole
      {"place-gemm-operands", PlaceGemmOperands},
      {"lower-gemm-cpu", LowerGemmCpu},
      {"lower-reductions-cpu", LowerReductionsCpu},
      {"lower-copies", LowerCopies},  // milestone: no tile operation is left
      {"vectorize-parallel", VectorizeParallel},
      {"apply-layouts", ApplyLayouts},  // after vectors exist: it checks that none crosses a panel
      {"serialize-loops", SerializeLoops},
      {"simplify-lowered", Simplify},
      {"stream-stores", StreamStores},
      {"check-resources", CheckResources},
  };
  return pipeline;
}

const std::vector<Pass>& ThreadPipeline() {
  static const std::vector<Pass> pipeline = {
      {"arrange-stages", ArrangeStages},  // first: lists name statements as the kernel has them
      {"divide-sizes", DivideSizes},
      {"loop-regions", LoopRegions},  // before cut-loops, which gets loops of unknown extents
      {"cut-loops", CutLoops},
      {"lower-scans", LowerScansGpu},
      {"simplify", Simplify},
      {"guard-accesses", GuardAccesses},
      {"stage-operands", StageOperands},
      {"lower-copies", LowerCopiesGpu},
      {"partition-loops", PartitionLoops},  // milestone: no tile is left
      {"apply-layouts", ApplyLayouts},
      {"simplify-lowered", Simplify},
  };
  return pipeline;
}

const std::vector<Pass>& GpuPipeline() {
  static const std::vector<Pass> pipeline = {
      {"arrange-stages", ArrangeStages},  // first: lists name statements as the kernel has them
      {"divide-sizes", DivideSizes},
      {"loop-regions", LoopRegions},  // before cut-loops, which gets loops of unknown extents
      {"cut-loops", CutLoops},
      {"lower-scans", LowerScansGpu},
      {"simplify", Simplify},
      {"load-operands", LoadOperands},  // what it makes of copies has guards yet to get
      {"guard-accesses", GuardAccesses},
      {"fuse-sparse", FuseSparse},  // before loads and sums are placed for a product
      {"cache-hints", CacheHints},
      {"stream-loads", StreamLoads},
      {"multicast-copies", MulticastCopies},  // while copies are whole
      {"hold-sums", HoldSums},                // before loops are taken apart
      {"clear-sums", ClearSums},
      {"specialise-warps", SpecialiseWarps},  // while copies are whole: TMA takes boxes
      {"pipeline-copies", PipelineCopies},    // what is left
      {"stage-operands", StageOperands},
      {"lower-copies", LowerCopiesGpu},
      {"partition-loops", PartitionLoops},  // milestone: no tile is left
      {"band-tiles", BandTiles},            // while tiles have layouts, and products are wgmma
      {"apply-layouts", ApplyLayouts},
      {"serialize-loops", SerializeLoops},
      {"overlap-products", OverlapProducts},
      {"issue-apart", IssueApart},
      {"chain-products", ChainProducts},
      {"alternate-products", AlternateProducts},
      {"lag-products", LagProducts},
      {"version-loops", VersionLoops},
      {"store-matrices", StoreMatrices},  // while stores are still a loop
      {"unroll-lanes", UnrollLanes},      // after versions exist: most have no guards
      {"join-atomics", JoinAtomics},
      {"simplify-lowered", Simplify},
      {"settle-registers", SettleRegisters},
      {"share-memory", ShareMemory},          // while loops over threads still end with all of them
      {"even-registers", EvenRegisters},      // of what all passes have made of them
      {"plant-barriers", PlantBarriers},      // from here on threads go at their own pace
      {"count-remainders", CountRemainders},  // a counter tells no pass which version it is
      {"compare-quotients", CompareQuotients},  // nor a comparison how often a loop runs
      {"check-resources", CheckResources},
  };
  return pipeline;
}

const std::vector<Pass>& PlainGpuPipeline() {
  static const std::vector<Pass> pipeline = {
      {"arrange-stages", ArrangeStages},
      {"divide-sizes", DivideSizes},
      {"loop-regions", LoopRegions},
      {"cut-loops", CutLoops},
      {"lower-scans", LowerScansGpu},
      {"simplify", Simplify},
      {"guard-accesses", GuardAccesses},
      {"stage-operands", StageOperands},
      {"lower-copies", LowerCopiesGpu},
      {"partition-loops", PartitionLoops},  // milestone: no tile is left
      {"apply-layouts", ApplyLayouts},
      {"serialize-loops", SerializeLoops},
      {"simplify-lowered", Simplify},
      {"settle-registers", SettleRegisters},
      {"share-memory", ShareMemory},
      {"plant-barriers", PlantBarriers},
      {"check-resources", CheckResources},
  };
  return pipeline;
}

const target::Arch& GpuOf(const PassContext& context) {
  static const target::Arch* const least = new target::Arch(*target::NamedArch("sm_80"));
  return context.gpu != nullptr ? *context.gpu : *least;
}

absl::StatusOr<ir::Program> RunPipeline(const std::vector<Pass>& pipeline,
                                        const ir::Program& program, const PassContext& context,
                                        absl::string_view stop_after) {
  ir::Program current = program;
  for (const Pass& pass : pipeline) {
    const auto start = std::chrono::steady_clock::now();
    absl::StatusOr<ir::Program> next = pass.run(current, context);
    if (!next.ok()) return WithContext(next.status(), absl::StrCat("pass ", pass.name));
    if (Debug().time) {
      const std::chrono::duration<double, std::milli> spent =
          std::chrono::steady_clock::now() - start;
      std::fprintf(stderr, "%-24s %8.3f ms\n", pass.name, spent.count());
    }
    const bool changed = !next->body.same_as(current.body);
    current = *std::move(next);
    if (changed && Debug().Prints(pass.name)) {
      std::fprintf(stderr, "// after %s\n%s\n", pass.name, ir::ToString(current).c_str());
    }
    if (Debug().verify) {
      KILN_RETURN_IF_ERROR(
          WithContext(ir::Verify(current), absl::StrCat("pass ", pass.name, " broke the program")));
    }
    if (stop_after == pass.name) return current;
  }
  if (!stop_after.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "no pass is called '", stop_after,
        "'; the passes are: ", absl::StrJoin(pipeline, ", ", [](std::string* out, const Pass& p) {
          absl::StrAppend(out, p.name);
        })));
  }
  return current;
}

}  // namespace kiln::passes
