#include "compiler/passes/live_fragments.h"

#include "compiler/ir/visit.h"
#include "compiler/passes/touched.h"

namespace kiln::passes {

using ir::Stmt;

namespace {

int64_t BytesOf(const ir::BufferNode& buffer) {
  int64_t elements = 1;
  for (const ir::Expr& extent : buffer.shape) elements *= ir::ConstInt(extent).value_or(1);
  return (elements * buffer.dtype.bits + 7) / 8;
}

}  // namespace

LiveFragments::LiveFragments(const Stmt& body) {
  ir::Walk(body, [&](const Stmt& s) {
    places_[s.get()] = ++last_;
    Use(s);
    if (const auto* loop = s.As<ir::For>(); loop && loop->loop == ir::ForKind::kSerial) {
      ir::Walk(loop->body, [&](const Stmt& inner) { return inner_.insert(inner.get()).second; });
    }
    return true;
  });
}

int64_t LiveFragments::BytesDuring(const Stmt& loop) const {
  const int64_t begin = places_.at(loop.get());
  int64_t end = begin - 1;
  ir::Walk(loop, [&](const Stmt&) { return ++end > 0; });
  int64_t bytes = 0;
  for (const auto& [buffer, use] : uses_) {
    if (use.first <= end && use.last >= begin) bytes += BytesOf(*buffer);
  }
  return bytes;
}

void LiveFragments::Use(const Stmt& s) {
  const bool holds_others = s.As<ir::Seq>() || s.As<ir::For>() || s.As<ir::If>() ||
                            s.As<ir::While>() || s.As<ir::OnThreads>();
  if (holds_others) return;
  const Touched touched = TouchedBy(s);
  for (const Buffers* buffers : {&touched.reads, &touched.writes}) {
    for (const ir::BufferNode* buffer : *buffers) {
      if (buffer->scope != ir::Scope::kRegister) continue;
      uses_.try_emplace(buffer, Span{last_, last_}).first->second.last = last_;
    }
  }
}

}  // namespace kiln::passes
