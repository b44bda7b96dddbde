// Expression tapes: arithmetic over the tunables, built once a space and evaluated for many
// configs at once.
//
// A Tape is an append-only list of nodes over doubles; equal nodes are one node and constants fold,
// so that everything the problem fixes costs nothing at evaluation. Num is a handle that reads like
// arithmetic. A TapeProgram is the straight-line code of some nodes: structure-of-arrays, a few
// hundred configs at a time in cache. Booleans are 0 and 1. Integers are exact up to 2^52.
// Bit-identical on every host: no contraction, no reassociation. Thread-compatible; a TapeProgram
// may run from many threads at once.
#ifndef KILN_COMPILER_ROOFLINE_TAPE_H_
#define KILN_COMPILER_ROOFLINE_TAPE_H_

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace kiln::roofline {

enum class TapeOp : uint8_t {
  kConst,
  kInput,
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloor,
  kMin,
  kMax,
  kLt,
  kLe,
  kEq,
  kSelect,
  kSqrt,
};

class Tape;

// A node of a tape. Default-made ones belong to no tape and may only be assigned to.
class Num {
 public:
  Num() = default;
  Num(Tape* tape, int32_t id) : tape_(tape), id_(id) {}
  bool defined() const { return tape_ != nullptr; }
  int32_t id() const { return id_; }
  Tape* tape() const { return tape_; }
  bool same_as(const Num& other) const { return tape_ == other.tape_ && id_ == other.id_; }
  std::optional<double> constant() const;

 private:
  Tape* tape_ = nullptr;
  int32_t id_ = -1;
};

Num operator+(Num a, Num b);
Num operator-(Num a, Num b);
Num operator*(Num a, Num b);
Num operator/(Num a, Num b);  // true division; x/0 is an infinity, never a trap
Num operator+(Num a, double b);
Num operator-(Num a, double b);
Num operator*(Num a, double b);
Num operator/(Num a, double b);
Num operator-(double a, Num b);
Num operator/(double a, Num b);
Num operator*(double a, Num b);
Num operator+(double a, Num b);
Num Floor(Num a);
Num FloorDiv(Num a, Num b);
Num FloorMod(Num a, Num b);
Num Ceil(Num a);
Num CeilDiv(Num a, Num b);
Num Min(Num a, Num b);
Num Max(Num a, Num b);
Num Min(Num a, double b);
Num Max(Num a, double b);
Num Lt(Num a, Num b);
Num Le(Num a, Num b);
Num Le(Num a, double b);
Num Eq(Num a, Num b);
Num And(Num a, Num b);
Num Or(Num a, Num b);
Num Not(Num a);
Num Select(Num condition, Num a, Num b);
Num Sqrt(Num a);

class Tape {
 public:
  struct Node {
    TapeOp op;
    int32_t a, b, c;  // operands, -1 = none; kInput: a is the input's index
    double value;     // kConst
  };

  Tape() = default;
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  Num Const(double value);
  Num Input(int index);
  Num Make(TapeOp op, Num a, Num b = {}, Num c = {});

  const std::vector<Node>& nodes() const { return nodes_; }

 private:
  struct KeyHash {
    size_t operator()(const Node& n) const;
  };
  struct KeyEq {
    bool operator()(const Node& x, const Node& y) const;
  };
  Num Intern(const Node& node);
  std::optional<Num> Fold(TapeOp op, Num a, Num b, Num c);

  std::vector<Node> nodes_;
  std::unordered_map<Node, int32_t, KeyHash, KeyEq> index_;
};

// The value of one scalar operation: what constant folding and evaluation both compute.
double ApplyTapeOp(TapeOp op, double a, double b, double c);

class TapeProgram {
 public:
  // Keeps no reference to `tape`. Nodes that no output needs are left out.
  static TapeProgram Compile(const Tape& tape, const std::vector<Num>& outputs);

  // Evaluates `count` configs: inputs[i][j] is input i of config j; out[k][j] receives output k.
  void Run(const std::vector<const double*>& inputs, int64_t count,
           const std::vector<double*>& out) const;

  int steps() const { return static_cast<int>(steps_.size()); }

 private:
  struct Step {
    TapeOp op;
    int32_t dst, a, b, c;  // registers; kInput: a is the input's index
  };
  struct Constant {
    int32_t reg;
    double value;
  };
  std::vector<Step> steps_;
  std::vector<Constant> constants_;
  std::vector<int32_t> outputs_;  // registers
  int registers_ = 0;
};

}  // namespace kiln::roofline

#endif  // KILN_COMPILER_ROOFLINE_TAPE_H_
