// Time of a demand on a machine.
//
// A Price is a set of tape nodes over the same inputs as the demand: predicted time, its parts by
// resource, legality, and the figures that the explanation quotes. Nothing here measures or knows a
// kernel's name.
#ifndef KILN_COMPILER_ROOFLINE_PRICE_H_
#define KILN_COMPILER_ROOFLINE_PRICE_H_

#include <string>
#include <vector>

#include "compiler/roofline/demand.h"
#include "compiler/target/arch.h"

namespace kiln::roofline {

// Time that one resource is busy, summed over the cores that share the work.
struct ResourceTime {
  std::string name;  // "fma", "tensor", "vector", "dram", "llc", "l2", "l1", "launch", "block"; GPU
                     // also "smem", "sfu", "latency"
  Num ns;
};

// A limit that a config must respect; `holds` is 0 or 1.
struct Limit {
  std::string name;  // "on-chip storage", "threads", "gemm", or the text of the kernel's own assert
  Num holds;
};

struct Price {
  Num ns;  // the kernel, launch to end
  std::vector<ResourceTime> resources;
  std::vector<Limit> limits;
  Num legal;  // all limits hold
  Num blocks;
  Num waves;         // rounds of blocks over the cores
  Num tail;          // time of the rounds / with perfectly even work, >= 1
  Num waste;         // executed but useless part of the arithmetic, 0..1
  Num onchip_bytes;  // of a block
  Num dram_bytes;    // predicted traffic of the whole kernel
  Num compulsory_bytes;
  Num flops;        // useful
  Num roofline_ns;  // max(flops / peak, compulsory / bandwidth)
  Num registers;    // GPU: of a thread; CPU: 0
  // GPU: those that the tightest launch leaves of what its threads may have; below 0 some are
  // likely to be kept in memory (spilled). CPU: 0.
  Num spare_registers;
  Num occupancy;  // GPU: resident blocks an SM; CPU: 1
  // GPU, target::WarpPlan of the launches: 0 or 1, blocks, 0 or 1, teams; the most of any.
  Num specialised, cluster, persistent, teams;
};

// Most bytes of on-chip storage one block may ask for.
int64_t ScratchLimit(const target::Arch& arch);

// Prices on a CPU record: a block is one task on one core, operations of a block follow each other.
Price PriceOnCpu(const Demand& demand, const target::Arch& arch);

// What the instruction chooser said of the gemms of each config: extra tape inputs, because it
// decides by table and not by formula. `efficiency` is the part of the tensor (or FMA) peak that
// the chosen instruction can reach, 0 where no instruction is legal.
struct GemmInputs {
  std::vector<Num> efficiency;  // one a gemm operation, in order of Demand::ops
  // Shared memory that it asks for beside the tiles, as parts of its left operand: 1 where that
  // one, a fragment, goes through it.
  std::vector<Num> stages_a;
  std::vector<Num> operands;  // registers of a thread for operands that the instruction takes there
  std::vector<Num> columns;   // of tensor memory that a block takes for the result; 0: none
  std::vector<Num> held_columns;  // of the result, of which a thread holds elements
};

// What target::DealRows said of a tile or loop: more such inputs; `even` is 0 or 1.
struct DealInputs {
  Num elements, rows, sharers, even;
};

// What target::PlanWarps said of a launch in each config: more such inputs.
struct WarpInputs {
  Num specialised, cluster, persistent, teams;
};

// Prices on a GPU record: occupancy, waves, the slowest of the shared pipes, exposed latency.
// `warps`: one a launch; `deals`: one each of DealsOf(demand) (registers.h).
Price PriceOnGpu(const Demand& demand, const target::Arch& arch, const GemmInputs& gemms,
                 const std::vector<WarpInputs>& warps, const std::vector<DealInputs>& deals);

}  // namespace kiln::roofline

#endif  // KILN_COMPILER_ROOFLINE_PRICE_H_
