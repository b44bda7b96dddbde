// The fitted and stated constants of the price model that are not a property of one machine (those
// are in target::Arch). Every row says what it means and where it comes from; README.md tells how
// they were fitted.
#ifndef KILN_COMPILER_ROOFLINE_CONSTANTS_H_
#define KILN_COMPILER_ROOFLINE_CONSTANTS_H_

#include "compiler/ir/expr.h"

namespace kiln::roofline {

// How many exponentials' worth of polynomial work a special function is.
double SpecialWeight(ir::Intrinsic op);

struct CpuConstants {
  // Register tile of the gemm micro-kernel: rows with 32 and with 16 vector registers; columns are
  // two vectors. The lowering's own choice.
  int tile_rows_32 = 14;
  int tile_rows_16 = 6;
  int tile_vectors = 2;
  // B is streamed, not packed, up to this many rows. The lowering's own choice.
  int stream_rows = 4;
  // Cycles from a fused multiply-add's input to its output: fewer independent accumulators than
  // latency * ports leave the unit idle.
  double fma_latency = 4;
  // Part of the calibrated FMA peak that the micro-kernel reaches with all operands in L1.
  double gemm_efficiency = 0.85;
  // Cycles to enter and leave one micro-kernel call: loop set-up, pointers, pipeline fill.
  double gemm_call_cycles = 25;
  // Cycles to load, and to store, one accumulator vector at the ends of a call.
  double accumulator_cycles = 1.0;
  // The bfloat16 matrix unit (AMX). A block of C is two by two tile registers of 16 rows by 64
  // bytes, and one pass over C takes this much of K: the lowering's own choices.
  int pair_rows = 32;
  int pair_columns = 32;
  int pair_depth = 256;
  // Cycles of a tile product where the record has no measured rate, of a tile load that hits L1
  // (two lines a cycle), of a tile store, and to enter and leave one block of C.
  double tile_product_cycles = 16;
  double tile_load_cycles = 8;
  double tile_store_cycles = 16;
  double pair_call_cycles = 90;
  // Part of the calibrated peak that the loop over K reaches with all operands in L1.
  double pair_efficiency = 0.9;
  // Cycles to join two vectors of rows of B into a vector of pairs.
  double join_cycles = 4;
  // Cycles a vector operation: arithmetic, conversion, division, exponential, gathered element.
  double alu_cycles = 0.5;
  double convert_cycles = 1.0;
  double divide_cycles = 12;
  double special_cycles = 11;
  double gather_cycles = 16;
  // Cycles of a vector load and a vector store that hit L1, and of a row's start.
  double load_cycles = 0.5;
  double store_cycles = 1.0;
  double row_cycles = 7;
  // Cycles an element of a loop that is not vectorised.
  double scalar_cycles = 4;
  // A row of r contiguous bytes streams at r / (r + run_bytes) of the bandwidth: the prefetcher has
  // to find each row anew.
  double run_bytes_dram = 256;
  double run_bytes_llc = 64;
  // Part of a private cache, and of the shared cache, that a working set may fill and still be
  // found there the next time.
  double private_share = 0.8;
  double shared_share = 0.15;
  // Cost of the smaller of (memory, arithmetic) that the larger one does not hide inside one
  // operation: 0 = perfect overlap, 1 = none.
  double no_overlap = 0.25;
  // The same between a gemm's arithmetic and operands that come from beyond L1.
  double gemm_no_overlap = 1.0;
  // Interval of a prediction around its middle, as factors.
  double interval_low = 0.75, interval_high = 1.4;
};

struct GpuConstants {
  // Part of the tensor peak that a well shaped kernel sustains.
  double tensor_efficiency = 1.0;
  // mma.sync on a machine with wgmma reaches this part of it.
  double mma_on_hopper = 0.62;
  // Of products whose operands of 8 bits are turned before (not measured: by shared memory's
  // share).
  double turned = 0.4;
  // Registers of a thread beside what fragments hold: addressing, loop state, and, where there are
  // products, descriptors; in a launch that computes nothing, addresses are made as they are
  // needed.
  double overhead_registers = 40, gemm_registers = 40, move_registers = 4;
  // More beside products, for each exponential's worth of special functions in an element loop.
  double special_registers = 22;
  // Of those beside products, so many are kept for the worst case: a block of one warpgroup that
  // computes does without them. From 60 kernels of the matmul template for sm_90a.
  double unused_registers = 12;
  // Of those that a launch without products takes beside its tiles, so many it does without where
  // they are few.
  double freed_registers = 16;
  // Of a tile that is folded as it comes, the part that is there at once: of what is loaded, and of
  // what is computed.
  double folded_loads = 0.5, folded_values = 0.375;
  // Where a guard stands between an element's load and its use, registers of one that is widened:
  // float16 comes in pairs, which bfloat16 is split into.
  double guarded_float16 = 0.8, guarded_bfloat16 = 1.5;
  // Loops over no more warps than that are unrolled, so that what each of them found is loaded at
  // the same time.
  double unrolled_warps = 16;
  // Of an instruction that takes its operands from registers, for those: so many steps' of them.
  // mma.sync of tf32 rounds them there, of float8 widens them, and with many steps in depth the
  // assembler fetches some ahead.
  double operand_registers = 32, operand_addresses = 8;
  double steps_rounded = 2, steps_fetched = 3, steps_fetched_rounded = 4, widened = 2;
  int deep = 8;  // steps that are many
  // Of 16 bytes that a thread gathers for a step beside products, without TMA: where they come
  // from. From 20 convolutions for sm_80 with 4 to 16 such pieces: beside its sums a thread takes
  // about 75 registers and so many for each piece, but fewer where it has 128 sums.
  double gather_registers = 8.5;
  // Where a block does tiles in turn, without TMA, and computes special functions of its results:
  // for each of these, of the addresses that it keeps from turn to turn. Chosen so that of stream-K
  // products for sm_80 those of 96 results a thread, some of which spill, are doubtful, and those
  // of 32 to 72, which do not, are not. Those of 128 do not spill either, and are doubtful all the
  // same.
  double turn_registers = 0.5;
  // Of a multiply-add's thread: the rows and columns of its tile in so many steps, those that
  // follow fetched ahead.
  double fma_steps = 2;
  // A config that is predicted to need up to so many registers more than there are is legal all the
  // same, for the assembler finds room in some of such cases and spills in the others; its time is
  // taken to be so many times longer. 49: six grains beyond the 255 that a thread addresses.
  double doubtful_registers = 49, spill_factor = 2;
  // Of a thread in one, two and three warpgroups that compute beside one that fetches.
  double registers_of_one = 240, registers_of_two = 232, registers_of_three = 160;
  // What a block of a cluster waits for the other, at its start and its end.
  double cluster_ns = 1000;
  // What a step's tiles take longer to come where a stage is free only when both blocks are done
  // with it. From nine products on H100 and H200.
  double cluster_step_ns = 150;
  // Part of an SM's share of the L2's rate at which the tiles of one step arrive: of few loads at a
  // time. From nine products on H100 and H200; any from 0.7 to 1 ranks them as well.
  double fill_share = 0.8;
  // Cycles of barriers and issue in one iteration of a pipelined loop. From the same; any from 60
  // to 100 ranks them as well.
  double iteration_cycles = 100;
  // Part of the L2 that a working set may fill.
  double llc_share = 0.7;
  // Main memory's time where nothing is multiplied grows with the 2^-roots power of how many
  // 16-byte pieces a thread fetches in turn. From copies of a gigabyte on the H200: 1.005 of the
  // driver's with one, 0.94 with 32.
  int turn_roots = 6;
  // Element loops: vector instruction issue, thread operations a clock an SM.
  double lanes_per_clock = 128;
  double interval_low = 0.6, interval_high = 1.8;
};

inline constexpr CpuConstants kCpu;
inline constexpr GpuConstants kGpu;

}  // namespace kiln::roofline

#endif  // KILN_COMPILER_ROOFLINE_CONSTANTS_H_
