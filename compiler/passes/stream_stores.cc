#include "compiler/passes/stream_stores.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "compiler/ir/shape.h"
#include "compiler/passes/build.h"

namespace kiln::passes {
namespace {

using ir::Expr;
using ir::Stmt;

// Row-major strides in elements; empty where a dimension but the first is not constant.
std::vector<int64_t> ConstantStrides(const ir::Buffer& buffer) {
  std::vector<int64_t> strides(buffer->shape.size(), 1);
  for (size_t d = strides.size(); d-- > 0;) {
    if (!buffer->strides.empty()) {
      const auto n = ir::ConstInt(buffer->strides[d]);
      if (!n.has_value()) return {};
      strides[d] = *n;
    } else if (d + 1 < strides.size()) {
      const auto n = ir::ConstInt(buffer->shape[d + 1]);
      if (!n.has_value()) return {};
      strides[d] = strides[d + 1] * *n;
    }
  }
  return strides;
}

class Marker : public FactsMutator {
 public:
  Marker(const ir::Program& program, int64_t least_bytes) : least_bytes_(least_bytes) {
    for (const ir::Buffer& b : ir::BuffersRead(program.body)) read_.insert(b.get());
  }

 protected:
  Stmt VisitStmt(const Stmt& s) override {
    if (s.kind() == ir::StmtKind::kLaunch) return VisitLaunch(s);
    const auto* store = s.As<ir::Store>();
    if (store == nullptr) return FactsMutator::VisitStmt(s);
    if (store->way == ir::StoreWay::kStream || !Streams(*store)) return s;
    return ir::MakeStmt<ir::Store>(s->loc, store->buffer, store->indices, store->value,
                                   store->predicate, ir::StoreWay::kStream);
  }

 private:
  Stmt VisitLaunch(const Stmt& s) {
    const Stmt marked = FactsMutator::VisitStmt(s);
    if (marked.same_as(s)) return s;
    const auto* launch = marked.As<ir::Launch>();
    auto annotations = launch->annotations;
    annotations["stream_bytes"] = absl::StrCat(least_bytes_);
    return ir::MakeStmt<ir::Launch>(s->loc, launch->grid, launch->threads, launch->body,
                                    std::move(annotations));
  }

  bool Streams(const ir::Store& store) const {
    const ir::Buffer& buffer = store.buffer;
    if (buffer->scope != ir::Scope::kGlobal || buffer->table || read_.count(buffer.get()) > 0) {
      return false;
    }
    if (store.predicate.defined() && !store.predicate.dtype().is_scalar()) return false;
    if (store.indices.empty()) return false;
    const auto* ramp = store.indices.back().As<ir::Ramp>();
    if (ramp == nullptr || !ir::IsConst(ramp->stride, 1)) return false;
    if (ir::BytesOf(buffer).value_or(least_bytes_) < least_bytes_) return false;
    const std::vector<int64_t> strides = ConstantStrides(buffer);
    if (strides.empty() || strides.back() != 1) return false;
    const int64_t lanes = ramp->dtype.lanes;
    for (size_t d = 0; d + 1 < store.indices.size(); ++d) {
      if (!store.indices[d].dtype().is_scalar()) return false;
      if (strides[d] % lanes != 0 && !facts_.Divides(lanes, store.indices[d])) return false;
    }
    return facts_.Divides(lanes, ramp->base);
  }

  const int64_t least_bytes_;
  std::set<const ir::BufferNode*> read_;
};

}  // namespace

absl::StatusOr<ir::Program> StreamStores(const ir::Program& program, const PassContext& context) {
  Marker mark(program, context.vector.stream_bytes);
  ir::Program out = program;
  out.body = mark.Mutate(program.body);
  return out;
}

}  // namespace kiln::passes
