#include "compiler/ir/tables.h"

#include <unordered_map>

#include "compiler/ir/visit.h"

namespace kiln::ir {
namespace {

class Resolver : public Mutator {
 public:
  explicit Resolver(const std::vector<TableEntry>& entries) {
    for (const TableEntry& entry : entries) entries_[entry.tensor.get()] = &entry;
  }

  const Stmt& refused() const { return refused_; }

 protected:
  Expr VisitExpr(const Expr& e) override {
    const auto* load = e.As<Load>();
    const TableEntry* entry = load == nullptr ? nullptr : EntryOf(load->buffer);
    if (entry == nullptr) return RebuildExpr(e);
    return MakeLoad(entry->table, Behind(*entry, load->indices),
                    load->predicate.defined() ? Mutate(load->predicate) : Expr());
  }

  Stmt VisitStmt(const Stmt& s) override {
    const auto* reduce = s.As<Reduce>();
    const auto* scan = s.As<Scan>();
    if ((reduce != nullptr && (EntryOf(reduce->src.buffer) || EntryOf(reduce->dst.buffer))) ||
        (scan != nullptr && (EntryOf(scan->src.buffer) || EntryOf(scan->dst.buffer)))) {
      refused_ = s;  // whose dimension is counted in the tensor
      return s;
    }
    const auto* store = s.As<Store>();
    const TableEntry* entry = store == nullptr ? nullptr : EntryOf(store->buffer);
    if (entry == nullptr) return RebuildStmt(s);
    return MakeStmt<Store>(
        s->loc, entry->table, Behind(*entry, store->indices), Mutate(store->value),
        store->predicate.defined() ? Mutate(store->predicate) : Expr(), store->way);
  }

  Region MutateRegion(const Region& r) override {
    Region region = Mutator::MutateRegion(r);
    if (const TableEntry* entry = EntryOf(r.buffer)) {
      region.buffer = entry->table;
      region.ranges.insert(region.ranges.begin(), {entry->index, MakeInt(1)});
    }
    return region;
  }

 private:
  const TableEntry* EntryOf(const Buffer& b) const {
    const auto found = entries_.find(b.get());
    return found == entries_.end() ? nullptr : found->second;
  }

  std::vector<Expr> Behind(const TableEntry& entry, const std::vector<Expr>& indices) {
    std::vector<Expr> all = MutateAll(indices);
    all.insert(all.begin(), entry.index);
    return all;
  }

  std::unordered_map<const BufferNode*, const TableEntry*> entries_;
  Stmt refused_;
};

}  // namespace

absl::StatusOr<Stmt> ResolveTables(const Stmt& body, const std::vector<TableEntry>& entries,
                                   const SourceFile& source) {
  if (entries.empty()) return body;
  Resolver resolver(entries);
  Stmt resolved = resolver.Mutate(body);
  if (!resolver.refused().defined()) return resolved;
  return ErrorAt(source, resolver.refused()->loc,
                 "a reduction or scan of a tensor out of a table of tensors",
                 "copy it into a tile, and reduce that", absl::StatusCode::kUnimplemented);
}

}  // namespace kiln::ir
