// Instructions of a GPU in programs at thread level: what is there beside loads, stores and
// arithmetic.
#ifndef KILN_COMPILER_IR_INSTRUCT_H_
#define KILN_COMPILER_IR_INSTRUCT_H_

#include <map>
#include <string>
#include <vector>

#include "compiler/ir/stmt.h"

namespace kiln::ir {

// Outside of loops over threads, all threads of the block, or of the part of it, come by: what one
// of them does for all, the first does.
enum class Instruction : uint8_t {
  kBlockBarrier,    // (): all threads of the block, or of the part, meet (PTX 9.7.13.1). In a
                    //     kernel that is being elaborated "some": a part of them do
  kClusterBarrier,  // (): all threads of the cluster meet (PTX 9.7.13.4)
  kProxyFence,      // (): what this thread stored in shared memory is seen by what copies and
                    //     multiplies asynchronously (fence.proxy.async, PTX 9.7.13.4)
  kBarrierInit,     // [barrier] (arrivals): phase 0 of each element begins; by one thread
                    //     (PTX 9.7.13.15)
  kBarrierArrive,   // [barrier] (): one arrival of every warp; "cluster" of a number of blocks: at
                    //     the barriers of all of them
  kClusterArrive,   // [barrier] (arrivals): all threads of the block meet; then as many arrivals at
                    //     the barrier of a block of the cluster, after all that they did
  kBarrierExpect,   // [barrier] (bytes): one arrival; the phase also waits for that many bytes
  kBarrierWait,     // [barrier] (parity): until the phase of that parity is over. "cluster": other
                    //     blocks of it arrive there
  kTensorLoad,  // [shared, global, barrier] (): a box of a tensor, by one thread; the bytes count
                //     on the barrier; outside of the tensor zeros (PTX 9.7.9.27). "cluster": all
                //     blocks of it load the same box, each its share of the rows, for all.
                //     "multicast": those of the bits get it, each in its own tile and barrier.
                //     "evict": how long the second-level cache is asked to keep it (cache_hint.h;
                //     createpolicy, PTX 9.7.9.18)
  kPatchLoad,   // [shared, global, barrier] (rows, columns): as kTensorLoad the pixels of a tensor
                //     [n, h, w, c] that lie so far from those of a window (im2col, PTX 5.5.5): the
                //     box's first and those that follow it, "stride" apart, as many as it is wide;
                //     w from "low_w" to its last plus "high_w", then h from "low_h" to its last
                //     plus "high_h", then the next image
  kAsyncCopy,  // [shared, global] (valid): in a loop over threads: starts to copy 4, 8 or 16 bytes,
               //     zeros where they are not valid (cp.async, PTX 9.7.9.25)
  kAsyncCommit,  // (): what each thread has started since the last is a group
  kAsyncWait,    // [shared...] (n): until all but the last n groups of each thread are there, and
                 // with
                 //     them its part of these tiles
  kTensorStore,  // [shared, global] (): starts to write a tile to a box of a tensor, by one thread;
                 //     what lies outside of the tensor is left out (PTX 9.7.9.27.1.3)
  kStoreWait,    // [shared] (n): until all but the last n stores that this thread started have read
                 //     their tiles, this one among them (cp.async.bulk.wait_group.read)
  kMma,          // [c, a, b] (clear): c (+)= a * b, every warp its part (PTX 9.7.14.5). Operands of
                 //     float32 are rounded to tf32 on their way: to nearest, ties away from zero
                 //     (cvt.rna.tf32.f32). "lag": the last step along k is read, but multiplied
                 //     only by the next such product on these sums, or by
  kMmaRest,      // [c] (): what the last product with "lag" left; it is there before c is read
  kSparseMma,    // [c, a, b, e] (clear): the same where `a` is a sparse form (ir/sparse.h) of half
                 //     the depth and `e` its metadata, whose indices ascend
                 //     (mma.sp::ordered_metadata, PTX 9.7.14.6)
  kWgmma,        //[c, a, b] (clear): starts c (+)= a * b on whole warpgroups (PTX 9.7.15). Of
                 //     float32, which lies in shared memory, the last 13 bits are not looked at
  kWgmmaWait,    // [registers...] (n): until all but the last n products are over, among them those
                 //     whose sums are in these registers
  kTcgen05Alloc,   // [slot] (columns): one warp takes columns of tensor memory, a power of two from
                   //     32 on, and writes the address of the first to a word of shared memory
                   //     (PTX ISA 9.0, 9.7.16.7)
  kTcgen05Free,    // (address, columns): one warp gives them back
  kTcgen05Fence,   // (after): what this thread's tcgen05 instructions do comes before a barrier
                   //     that follows, or after one that came before (9.7.16.11.2)
  kTcgen05Mma,     // [a, b] (clear, address): starts c (+)= a * b, c in tensor memory; by one
                   //     thread (9.7.16.10)
  kTcgen05Commit,  // [barrier] (): an arrival when all products that this thread has started are
                   //     over (9.7.16.12); "cluster" as of kBarrierArrive
  kTcgen05Load,    // [registers] (address): starts to load c; a thread has one row of it, and those
                   //     of several warpgroups share its columns (9.7.16.8)
  kTcgen05Store,   // [registers] (address): starts to store c, the same way
  kTcgen05Wait,    // [registers...] (store): until this thread's loads, which are to these
                   //     registers, or its stores are over
  kShuffleXor,     // [to, from] (mask): registers of the thread whose number differs in the bits of
                   //     the mask, below 32; by whole warps (PTX 9.7.9.6)
  kShuffle,  // [to, from, lane] (): of one element each: that of the thread which is lane % 32 of
             //     the warp; where the block has no such thread, anything (PTX 9.7.9.6)
  kBallot,   // [to, from] (): a bit for each thread of the warp, set where its element is not zero;
             //     uint32 from int32 (PTX 9.7.13.10, vote.sync.ballot)
  kMatch,    // [to, from] (): a bit for each thread of the warp, set where its element has the same
             //     bits; uint32 from uint32 or uint64 (PTX 9.7.13.11, match.any.sync)
  kGlobalAdd,  // [global] (values...): in a loop over threads: adds 1, 2, 4 or 8 values to as many
               //     neighbours, which lie at a multiple of them, each atomically
               //     (red.global.add, PTX 9.7.13.6)
  kStoreMatrices,  // [shared] (values...): in a loop over threads, by whole warps together: stores
                   //     1, 2 or 4 matrices of 8 by 8 elements of 16 bits. Of each, a lane holds
                   //     two neighbours: elements 2 (lane % 4) and the next of row lane / 4
                   //     ("trans": of column lane / 4). The region is row lane % 8 of matrix
                   //     lane / 8: 8 elements, at a multiple of them (stmatrix, PTX 9.7.14.5.16)
  kMaxRegisters,   //(n, more): of every thread of the warpgroup from here on, more or less than
                   //     before (setmaxnreg, PTX 9.7.19.5)
};
// The dimension of a box that counts the rows of the tile it goes to: of those before the last, the
// last that is no single index.
int RowDimension(const Region& box);

const char* Name(Instruction op);  // "block_barrier", ...

// What an instruction takes: in which kinds of memory each region may lie, and how many arguments.
struct Operands {
  std::vector<std::vector<Scope>> scopes;
  int args = 0;
  bool more = false;       // any number of regions like the last
  bool more_args = false;  // any number of arguments from there on
};
Operands OperandsOf(Instruction op);

struct Instruct : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kInstruct;
  Instruction op;
  std::vector<Region> regions;
  std::vector<Expr> args;
  // Products: "m", "n", "k", "rows" (of the grid of warps or warpgroups), "trans_a", "trans_b",
  // "trans_e";
  // "lag": each step multiplies what the step before it has read, of the product before too;
  // "pairs": along each eight of k, what the instruction calls i and i + 4 are 2 i and 2 i + 1. Of
  // operand i in shared memory, once apply-layouts has placed it: "swizzle<i>" in bytes,
  // "height<i>" rows of its tile; "bands<i>" panels of it, where all of eight rows lie together
  // (passes/band_tiles.h); where it begins inside of an atom, with which its region begins,
  // "row<i>" and "column<i>" of its first element there. Waits for products: "late", what comes
  // before one is to be done before it.
  std::map<std::string, std::string> annotations;
  Instruct(SourceLoc l, Instruction i, std::vector<Region> r = {}, std::vector<Expr> a = {},
           std::map<std::string, std::string> notes = {})
      : StmtNode(kKind, l),
        op(i),
        regions(std::move(r)),
        args(std::move(a)),
        annotations(std::move(notes)) {}
};

Stmt MakeInstruct(SourceLoc loc, Instruction op, std::vector<Region> regions = {},
                  std::vector<Expr> args = {}, std::map<std::string, std::string> notes = {});

// Whether such an instruction stands in `s`.
bool Holds(const Stmt& s, Instruction op);

// What an annotation says; 0 without one. KILN_CHECKs that it is a number.
int64_t NoteOf(const Instruct& x, const std::string& name);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_INSTRUCT_H_
