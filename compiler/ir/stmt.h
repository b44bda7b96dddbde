// Statements and programs of the tile IR: from tile level (Copy, Gemm, Reduce, parallel and
// pipelined loops) down to the loops and vector accesses that code generation maps one to one.
//
// Everything is immutable and shared. A Seq is a scope: Bind and Alloc are visible from their place
// to the end of the Seq that holds them. Statements carry the source position they came from.
#ifndef KILN_COMPILER_IR_STMT_H_
#define KILN_COMPILER_IR_STMT_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/base/diagnostic.h"
#include "compiler/ir/buffer.h"
#include "compiler/ir/expr.h"

namespace kiln::ir {

enum class StmtKind : uint8_t {
  kSeq,
  kFor,
  kWhile,
  kIf,
  kBind,
  kAlloc,
  kStore,
  kCopy,
  kGemm,
  kPairGemm,
  kFill,
  kReduce,
  kScan,
  kAtomic,
  kEvaluate,
  kAssert,
  kPrint,
  kLaunch,
  kOnThreads,
  kInstruct,
  kBreak,
  kContinue,
};

struct StmtNode {
  StmtKind kind;
  SourceLoc loc;
  StmtNode(StmtKind k, SourceLoc l) : kind(k), loc(l) {}
  virtual ~StmtNode() = default;
};

class Stmt {
 public:
  Stmt() = default;
  explicit Stmt(std::shared_ptr<const StmtNode> node) : node_(std::move(node)) {}
  const StmtNode* get() const { return node_.get(); }
  const StmtNode* operator->() const { return node_.get(); }
  bool defined() const { return node_ != nullptr; }
  bool same_as(const Stmt& other) const { return node_ == other.node_; }
  StmtKind kind() const { return node_->kind; }
  template <typename T>
  const T* As() const {
    return node_ && node_->kind == T::kKind ? static_cast<const T*>(node_.get()) : nullptr;
  }

 private:
  std::shared_ptr<const StmtNode> node_;
};

// MakeStmt<For>(loc, fields...) builds a node; nodes are aggregates after (kind, loc).
template <typename T, typename... Args>
Stmt MakeStmt(SourceLoc loc, Args&&... args) {
  return Stmt(std::make_shared<const T>(loc, std::forward<Args>(args)...));
}

struct Seq : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kSeq;
  std::vector<Stmt> stmts;
  Seq(SourceLoc l, std::vector<Stmt> s) : StmtNode(kKind, l), stmts(std::move(s)) {}
};
// Flattens nested Seqs that bind nothing; an empty list gives an empty Seq.
Stmt MakeSeq(std::vector<Stmt> stmts, SourceLoc loc = {});

enum class ForKind : uint8_t {
  kSerial,
  kUnroll,      // expanded by the compiler
  kVectorized,  // lanes of one vector (T.vectorized)
  kParallel,    // T.Parallel: iterations are independent; one or more axes
  kPipelined,   // T.Pipelined: serial semantics, num_stages is a permission to overlap
  kThreads,     // the threads of the block, each at its own pace; all meet at the end
};

// On a loop over threads: the kernel says what each of them does. They may write the same value to
// one place.
inline constexpr char kOfKernel[] = "of_kernel";

struct Axis {
  Expr var;  // a Var
  Expr min;
  Expr extent;
};

struct For : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kFor;
  ForKind loop;
  std::vector<Axis> axes;  // exactly one, but for kParallel
  Stmt body;
  Expr num_stages;                                 // kPipelined; undefined = no pipelining
  std::map<std::string, std::string> annotations;  // "order", "stage", "coalesced_width", ...
  For(SourceLoc l, ForKind k, std::vector<Axis> a, Stmt b, Expr stages = {},
      std::map<std::string, std::string> notes = {})
      : StmtNode(kKind, l),
        loop(k),
        axes(std::move(a)),
        body(std::move(b)),
        num_stages(std::move(stages)),
        annotations(std::move(notes)) {}
};

struct While : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kWhile;
  Expr condition;
  Stmt body;
  While(SourceLoc l, Expr c, Stmt b)
      : StmtNode(kKind, l), condition(std::move(c)), body(std::move(b)) {}
};

struct Break : StmtNode {  // out of the innermost serial For or While
  static constexpr StmtKind kKind = StmtKind::kBreak;
  explicit Break(SourceLoc l) : StmtNode(kKind, l) {}
};
struct Continue : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kContinue;
  explicit Continue(SourceLoc l) : StmtNode(kKind, l) {}
};

struct If : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kIf;
  Expr condition;
  Stmt then_case;
  Stmt else_case;  // may be undefined
  If(SourceLoc l, Expr c, Stmt t, Stmt e = {})
      : StmtNode(kKind, l),
        condition(std::move(c)),
        then_case(std::move(t)),
        else_case(std::move(e)) {}
};

struct Bind : StmtNode {  // var := value, immutable, to the end of the enclosing Seq
  static constexpr StmtKind kKind = StmtKind::kBind;
  Expr var;
  Expr value;
  Bind(SourceLoc l, Expr v, Expr x) : StmtNode(kKind, l), var(std::move(v)), value(std::move(x)) {}
};

struct Alloc : StmtNode {  // contents start undefined, but for `init` (kVar)
  static constexpr StmtKind kKind = StmtKind::kAlloc;
  Buffer buffer;
  Expr init;
  // Shared memory and barriers: the byte of the block's shared memory where it begins, which others
  // may have too (passes/share_memory). kOwnPlace: bytes of its own.
  int64_t place;
  static constexpr int64_t kOwnPlace = -1;
  Alloc(SourceLoc l, Buffer b, Expr i = {}, int64_t p = kOwnPlace)
      : StmtNode(kKind, l), buffer(std::move(b)), init(std::move(i)), place(p) {}
};

enum class StoreWay : uint8_t {
  kPlain,
  kStream,  // may go past the caches: nobody reads it soon (compiler/passes/stream_stores)
  kAsync,   // a copy of memory that may go on while the thread does, until it is waited for
            // (compiler/passes/pipeline_copies); what does not know how makes it plain
};

struct Store : StmtNode {  // buffer[indices] = value; a vector store where the last index is one
  static constexpr StmtKind kKind = StmtKind::kStore;
  Buffer buffer;
  std::vector<Expr> indices;
  Expr value;
  Expr predicate;  // undefined = always
  StoreWay way;
  Store(SourceLoc l, Buffer b, std::vector<Expr> i, Expr v, Expr p = {},
        StoreWay w = StoreWay::kPlain)
      : StmtNode(kKind, l),
        buffer(std::move(b)),
        indices(std::move(i)),
        value(std::move(v)),
        predicate(std::move(p)),
        way(w) {}
};

// dst = src element by element over matching shapes (unit extents dropped), converting dtype.
// Elements of src outside its buffer read as zero; elements of dst outside are not written.
struct Copy : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kCopy;
  Region src, dst;
  std::map<std::string, std::string> annotations;
  Copy(SourceLoc l, Region s, Region d, std::map<std::string, std::string> notes = {})
      : StmtNode(kKind, l), src(std::move(s)), dst(std::move(d)), annotations(std::move(notes)) {}
};

enum class GemmPolicy : uint8_t { kSquare, kFullRow, kFullCol };

// c (+)= op(a) * op(b) in c's dtype; a is [M,K] ([K,M] when trans_a), b [K,N] ([N,K] when trans_b).
struct Gemm : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kGemm;
  Region a, b, c;
  bool trans_a, trans_b;
  GemmPolicy policy;
  Expr clear_accum;  // bool: start from zero instead of c
  // Where it names a buffer, `a` is the sparse form (ir/sparse.h) of a matrix of twice its depth,
  // and this its metadata, turned when trans_e. Made by fuse-sparse, gone with partition-loops.
  Region e;
  bool trans_e;
  Gemm(SourceLoc l, Region x, Region y, Region z, bool ta, bool tb, GemmPolicy p, Expr clear,
       Region metadata = {}, bool te = false)
      : StmtNode(kKind, l),
        a(std::move(x)),
        b(std::move(y)),
        c(std::move(z)),
        trans_a(ta),
        trans_b(tb),
        policy(p),
        clear_accum(std::move(clear)),
        e(std::move(metadata)),
        trans_e(te) {}
  bool sparse() const { return e.buffer != nullptr; }
};

// c += a * b as a matrix unit for bfloat16 does it. a is bfloat16 [M, 2P]; b is uint32 [P, N], each
// element a pair: row 2p of the right factor in its low half, row 2p + 1 in its high half; c is
// float32 [M, N]. Sums are float32 in any order; the unit may take subnormal numbers as zero.
struct PairGemm : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kPairGemm;
  Region a, b, c;
  PairGemm(SourceLoc l, Region x, Region y, Region z)
      : StmtNode(kKind, l), a(std::move(x)), b(std::move(y)), c(std::move(z)) {}
};

struct Fill : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kFill;
  Region dst;
  Expr value;
  Fill(SourceLoc l, Region d, Expr v)
      : StmtNode(kKind, l), dst(std::move(d)), value(std::move(v)) {}
};

enum class ReduceOp : uint8_t { kSum, kMax, kMin, kAbsSum, kAbsMax, kBitAnd, kBitOr, kBitXor };

// dst = reduce of src over dimension `dim`, combined with dst's old value unless `clear`.
struct Reduce : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kReduce;
  ReduceOp op;
  Region src, dst;
  int dim;
  bool clear;
  Reduce(SourceLoc l, ReduceOp o, Region s, Region d, int k, bool c)
      : StmtNode(kKind, l), op(o), src(std::move(s)), dst(std::move(d)), dim(k), clear(c) {}
};

// dst[.., k, ..] = src[.., 0, ..] op ... op src[.., k, ..] along dimension `dim`, with `reverse`
// from the other end: a sum, maximum or minimum. Of one shape, dimension by dimension; dst may be
// src. Sums of floats below float32 are float32's, rounded when they are stored.
struct Scan : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kScan;
  ReduceOp op;
  Region src, dst;
  int dim;
  bool reverse;
  Scan(SourceLoc l, ReduceOp o, Region s, Region d, int k, bool r)
      : StmtNode(kKind, l), op(o), src(std::move(s)), dst(std::move(d)), dim(k), reverse(r) {}
};

enum class AtomicOp : uint8_t {
  kAdd,
  kMax,
  kMin,
  kAnd,
  kOr,
  kXor,    // of integers
  kStore,  // dst = value
  kLoad,   // dst stays as it is: for what `previous` tells
};

enum class MemoryOrder : uint8_t { kRelaxed, kAcquire, kRelease, kBoth, kSequential };  // as C++'s

// What an atomic update is beside its arithmetic.
struct AtomicWay {
  MemoryOrder order = MemoryOrder::kRelaxed;
  Buffer previous;  // of one element, which gets what dst was before (element form); null: nobody
                    // asks
};

// dst op= value, atomically against other blocks. The value is a region of matching shape (tile
// form) or an expression (element form: dst has extents 1).
struct Atomic : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kAtomic;
  AtomicOp op;
  Region dst;
  Region src;  // buffer null in the element form
  Expr value;  // undefined in the tile form
  AtomicWay way;
  Atomic(SourceLoc l, AtomicOp o, Region d, Region s, Expr v, AtomicWay w = {})
      : StmtNode(kKind, l),
        op(o),
        dst(std::move(d)),
        src(std::move(s)),
        value(std::move(v)),
        way(std::move(w)) {}
};

struct Evaluate : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kEvaluate;
  Expr value;
  Evaluate(SourceLoc l, Expr v) : StmtNode(kKind, l), value(std::move(v)) {}
};

struct Assert : StmtNode {  // run-time check; the kernel stops with `message`
  static constexpr StmtKind kKind = StmtKind::kAssert;
  Expr condition;
  std::string message;
  Assert(SourceLoc l, Expr c, std::string m)
      : StmtNode(kKind, l), condition(std::move(c)), message(std::move(m)) {}
};

// Writes a line to the standard output: text[0], values[0], text[1], ..., and a line's end. By the
// block once, or by an iteration once. Lines of different blocks and iterations come in any order.
struct Print : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kPrint;
  std::vector<std::string> text;  // one more than values
  std::vector<Expr> values;       // scalars: numbers and bools
  Print(SourceLoc l, std::vector<std::string> t, std::vector<Expr> v)
      : StmtNode(kKind, l), text(std::move(t)), values(std::move(v)) {}
};

// with T.Kernel(grid..., threads=...) as blocks. Blocks are independent and unordered.
struct Launch : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kLaunch;
  std::vector<Axis> grid;     // 1 to 3 block axes, x first (fastest), min 0
  std::vector<Expr> threads;  // 1 to 3 extents
  Stmt body;
  std::map<std::string, std::string> annotations;  // "swizzle_panel", "swizzle_order",
                                                   // "layout:<b>", "replicated:<b>", "stream:<b>",
                                                   // "evict:<b>", "stream_bytes"
  Launch(SourceLoc l, std::vector<Axis> g, std::vector<Expr> t, Stmt b,
         std::map<std::string, std::string> notes = {})
      : StmtNode(kKind, l),
        grid(std::move(g)),
        threads(std::move(t)),
        body(std::move(b)),
        annotations(std::move(notes)) {}
};

// What threads [first, first + count) of the block do and the others pass by (warp specialisation).
// At tile level it is done once, like everything else.
struct OnThreads : StmtNode {
  static constexpr StmtKind kKind = StmtKind::kOnThreads;
  int64_t first, count;
  Stmt body;
  OnThreads(SourceLoc l, int64_t f, int64_t n, Stmt b)
      : StmtNode(kKind, l), first(f), count(n), body(std::move(b)) {}
};

struct Param {
  enum Kind : uint8_t { kTensor, kScalar };
  Kind kind = kTensor;
  std::string name;
  Buffer buffer;           // kTensor
  Expr scalar;             // kScalar: a Var, passed by value
  bool is_output = false;  // declared by T.empty / out_idx: written, never read before
};

// One kernel function. Order of `params` is the order of pointers in the C ABI (run-time scalars
// and dims follow as int64); `dims` are the run-time dimensions (T.dynamic) in order of appearance.
struct Program {
  std::string name;  // the user's function; a C identifier
  std::vector<Param> params;
  std::vector<Expr> dims;                    // Vars
  Stmt body;                                 // Allocs of workspaces, Launches and host-level Binds
  std::map<std::string, std::string> attrs;  // "target", pass options
  std::shared_ptr<const SourceFile> source;
};

// What a program says of a pass option (a number, or true and false as 1 and 0); `otherwise` where
// it says nothing.
int64_t PassOption(const Program& program, const std::string& name, int64_t otherwise);

// A diagnostic at `loc` in the program's source; InvalidArgument unless `code` says otherwise.
absl::Status ErrorAt(const Program& program, SourceLoc loc, std::string message, std::string remedy,
                     absl::StatusCode code = absl::StatusCode::kInvalidArgument);

}  // namespace kiln::ir

#endif  // KILN_COMPILER_IR_STMT_H_
