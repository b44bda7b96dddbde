// Which fragments of a launch hold values at once, by the order of its statements. Shared by the
// passes that take registers for what they overlap.
#ifndef KILN_COMPILER_PASSES_LIVE_FRAGMENTS_H_
#define KILN_COMPILER_PASSES_LIVE_FRAGMENTS_H_

#include <map>
#include <set>

#include "compiler/ir/stmt.h"

namespace kiln::passes {

class LiveFragments {
 public:
  explicit LiveFragments(const ir::Stmt& body);

  // Whether a serial loop of the body holds the statement.
  bool InLoop(const ir::Stmt& s) const { return inner_.count(s.get()) > 0; }

  // Bytes of a block that hold values while the loop runs: those of fragments that it touches, and
  // of those that are touched before it and after it.
  int64_t BytesDuring(const ir::Stmt& loop) const;

 private:
  struct Span {
    int64_t first, last;
  };

  void Use(const ir::Stmt& s);

  std::map<const ir::StmtNode*, int64_t> places_;
  std::set<const ir::StmtNode*> inner_;  // of serial loops
  std::map<const ir::BufferNode*, Span> uses_;
  int64_t last_ = 0;
};

}  // namespace kiln::passes

#endif  // KILN_COMPILER_PASSES_LIVE_FRAGMENTS_H_
