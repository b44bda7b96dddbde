#include "compiler/ir/stmt.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "compiler/base/status.h"

namespace kiln::ir {
namespace {

bool Binds(const Seq& seq) {
  return std::any_of(seq.stmts.begin(), seq.stmts.end(), [](const Stmt& s) {
    return s.kind() == StmtKind::kBind || s.kind() == StmtKind::kAlloc;
  });
}

void Flatten(std::vector<Stmt> stmts, std::vector<Stmt>* out) {
  for (Stmt& s : stmts) {
    if (!s.defined()) continue;
    const auto* nested = s.As<Seq>();
    if (nested && !Binds(*nested)) {
      Flatten(nested->stmts, out);
    } else {
      out->push_back(std::move(s));
    }
  }
}

}  // namespace

Buffer MakeBuffer(std::string name, DType dtype, std::vector<Expr> shape, Scope scope,
                  std::vector<Expr> strides, std::string layout) {
  KILN_CHECK(dtype.is_scalar());
  KILN_CHECK(strides.empty() || strides.size() == shape.size());
  for (const Expr& extent : shape) KILN_CHECK(extent.defined() && extent.dtype().is_int());
  auto node = std::make_shared<BufferNode>();
  node->name = std::move(name);
  node->dtype = dtype;
  node->shape = std::move(shape);
  node->strides = std::move(strides);
  node->scope = scope;
  node->layout = std::move(layout);
  return node;
}

Region WholeBuffer(const Buffer& buffer) {
  Region region{buffer, {}};
  for (const Expr& extent : buffer->shape) {
    region.ranges.push_back({MakeInt(0, extent.dtype()), extent});
  }
  return region;
}

Stmt MakeSeq(std::vector<Stmt> stmts, SourceLoc loc) {
  std::vector<Stmt> flat;
  Flatten(std::move(stmts), &flat);
  if (flat.size() == 1) return flat[0];
  if (!loc.known() && !flat.empty()) loc = flat.front()->loc;
  return MakeStmt<Seq>(loc, std::move(flat));
}

int64_t PassOption(const Program& program, const std::string& name, int64_t otherwise) {
  const auto found = program.attrs.find(name);
  if (found == program.attrs.end()) return otherwise;
  int64_t value = 0;
  return absl::SimpleAtoi(found->second, &value) ? value : found->second == "true" ? 1 : 0;
}

absl::Status ErrorAt(const Program& program, SourceLoc loc, std::string message, std::string remedy,
                     absl::StatusCode code) {
  static const SourceFile nowhere;
  return kiln::ErrorAt(program.source ? *program.source : nowhere, loc, std::move(message),
                       std::move(remedy), code);
}

}  // namespace kiln::ir
