#include "compiler/codegen/named_sums.h"

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "compiler/codegen/unrolled.h"
#include "compiler/ir/analysis.h"
#include "compiler/ir/instruct.h"
#include "compiler/ir/visit.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Module.h"

namespace kiln::codegen {
namespace {

using ir::Expr;
using ir::Stmt;
using llvm::Value;
using Loops = std::set<const ir::For*>;

constexpr char kReads[] = "kiln.sum.";       // a function: (number, how many there are)
constexpr char kKeptAsLoop[] = "kiln.kept";  // of a loop's metadata
constexpr char kNotUnrolled[] = "llvm.loop.unroll.disable";

// Of a thread: fewer are no burden, and LLVM may do better with them.
constexpr int64_t kFewestNamed = 64;

// What wgmma adds to in many registers of 32 bits.
std::set<const ir::BufferNode*> SumsOfProducts(const Stmt& body) {
  std::set<const ir::BufferNode*> sums;
  ir::Walk(body, [&](const Stmt& s) {
    const auto* x = s.As<ir::Instruct>();
    if (x == nullptr || x->op != ir::Instruction::kWgmma) return true;
    const ir::Buffer& c = x->regions[0].buffer;
    const bool many = *ir::ConstInt(c->shape[1]) >= kFewestNamed;
    if (many && (c->dtype == kFloat32 || c->dtype == kInt32)) sums.insert(c.get());
    return true;
  });
  return sums;
}

// Strikes out the sums that are used in any other way.
class Finder : public ir::Mutator {
 public:
  explicit Finder(std::set<const ir::BufferNode*> sums) : sums_(std::move(sums)) {}

  std::set<const ir::BufferNode*> Take() { return std::move(sums_); }

 protected:
  ir::Buffer VisitBuffer(const ir::Buffer& b) override {
    sums_.erase(b.get());
    return b;
  }

  Expr VisitExpr(const Expr& e) override {
    if (!ir::EvaluatesAll(e)) {
      const bool around = std::exchange(guarded_, true);
      ir::Mutator::VisitExpr(e);
      guarded_ = around;
      return e;
    }
    const auto* load = e.As<ir::Load>();
    const bool reads = load != nullptr && sums_.count(load->buffer.get()) > 0;
    const bool always = !guarded_ && reads && !load->predicate.defined();
    if (!always || !IsNumber(load->indices[1])) return ir::Mutator::VisitExpr(e);
    Mutate(load->indices[0]);
    return e;
  }

  // What is computed for a guarded store LLVM may compute before the guard; what it must read in
  // its place it cannot.
  Stmt VisitStmt(const Stmt& s) override {
    const auto* store = s.As<ir::Store>();
    const bool guards = s.kind() == ir::StmtKind::kIf || (store && store->predicate.defined());
    const bool around = std::exchange(guarded_, guarded_ || guards);
    Visit(s);
    guarded_ = around;
    return s;
  }

 private:
  void Visit(const Stmt& s) {
    if (const auto* loop = s.As<ir::For>()) {
      numbers_[loop->axes[0].var.get()] = {loop};
    } else if (const auto* bind = s.As<ir::Bind>()) {
      if (const auto loops = LoopsOf(bind->value)) numbers_[bind->var.get()] = *loops;
    }
    const auto* alloc = s.As<ir::Alloc>();
    const auto* x = s.As<ir::Instruct>();
    const bool product = x != nullptr && x->op == ir::Instruction::kWgmma;
    if (product || (x != nullptr && x->op == ir::Instruction::kWgmmaWait)) {
      for (size_t i = 1; product && i < x->regions.size(); ++i) VisitBuffer(x->regions[i].buffer);
      for (const Expr& argument : x->args) Mutate(argument);
    } else if (alloc == nullptr || alloc->init.defined()) {
      ir::Mutator::VisitStmt(s);
    }
  }

  // The loops from whose variables alone `e` is computed; nullopt where anything else is needed.
  std::optional<Loops> LoopsOf(const Expr& e) const {
    Loops loops;
    bool number = true;
    ir::Walk(e, [&](const Expr& x) {
      const auto known = numbers_.find(x.get());
      const bool arithmetic = x.kind() == ir::ExprKind::kIntImm ||
                              x.kind() == ir::ExprKind::kBinary || x.kind() == ir::ExprKind::kCast;
      if (known != numbers_.end()) loops.insert(known->second.begin(), known->second.end());
      number &= arithmetic || known != numbers_.end();
      return number;
    });
    return number ? std::make_optional(std::move(loops)) : std::nullopt;
  }

  bool IsNumber(const Expr& e) {
    const std::optional<Loops> loops = LoopsOf(e);
    return loops && llvm::all_of(*loops, [&](const ir::For* loop) {
             const auto [known, fresh] = unrolls_.try_emplace(loop, false);
             if (fresh) known->second = UnrollsForRegisters(*loop);
             return known->second;
           });
  }

  std::set<const ir::BufferNode*> sums_;
  bool guarded_ = false;                          // a condition stands around
  std::map<const ir::ExprNode*, Loops> numbers_;  // variables
  std::map<const ir::For*, bool> unrolls_;
};

// As if it read memory that nothing but inline PTX touches: it stays between a product, or a wait,
// and the next; twice the same is read once, and accesses to memory move across it.
Value* BetweenProducts(llvm::CallInst* call) {
  call->setOnlyReadsMemory();
  call->setOnlyAccessesInaccessibleMemory();
  call->setDoesNotThrow();
  call->addFnAttr(llvm::Attribute::WillReturn);
  return call;
}

// PTX's own letter for registers of the type.
const char* LetterOf(const llvm::Type& type) { return type.isFloatTy() ? "f" : "b"; }

Value* Register(llvm::IRBuilder<>& b, llvm::Type* type, llvm::StringRef name, uint64_t number) {
  auto* form = llvm::FunctionType::get(type, false);
  auto* move = llvm::InlineAsm::get(
      form, absl::StrCat("mov.", LetterOf(*type), "32 $0, ", name.str(), number, ";"),
      type->isFloatTy() ? "=f" : "=r", /*hasSideEffects=*/true);
  return BetweenProducts(b.CreateCall(form, move));
}

// A number that is not known after all is looked for.
Value* Lowered(llvm::CallInst& read) {
  llvm::IRBuilder<> b(&read);
  const llvm::StringRef name = read.getCalledFunction()->getName().drop_front(sizeof(kReads) - 1);
  Value* number = read.getArgOperand(0);
  if (const auto* known = llvm::dyn_cast<llvm::ConstantInt>(number)) {
    return Register(b, read.getType(), name, known->getZExtValue());
  }
  const uint64_t count = llvm::cast<llvm::ConstantInt>(read.getArgOperand(1))->getZExtValue();
  Value* value = Register(b, read.getType(), name, 0);
  for (uint64_t i = 1; i < count; ++i) {
    Value* is = b.CreateICmpEQ(number, b.getInt32(static_cast<uint32_t>(i)));
    value = b.CreateSelect(is, Register(b, read.getType(), name, i), value);
  }
  return value;
}

bool IsKeptAsLoop(const llvm::MDNode& loop) {
  return llvm::any_of(loop.operands(), [](const llvm::MDOperand& operand) {
    const auto* node = llvm::dyn_cast_or_null<llvm::MDNode>(operand.get());
    const auto* text = node == nullptr || node->getNumOperands() == 0
                           ? nullptr
                           : llvm::dyn_cast<llvm::MDString>(node->getOperand(0));
    return text != nullptr && text->getString() == kKeptAsLoop;
  });
}

}  // namespace

std::set<const ir::BufferNode*> SumsToName(const Stmt& body) {
  std::set<const ir::BufferNode*> sums = SumsOfProducts(body);
  if (sums.empty()) return sums;
  Finder finder(std::move(sums));
  finder.Mutate(body);
  return finder.Take();
}

void DeclareSums(llvm::Function& function, const std::string& name, int64_t count,
                 const llvm::Type& type) {
  llvm::BasicBlock& entry = function.getEntryBlock();
  llvm::IRBuilder<> top(&entry, entry.begin());
  auto* form = llvm::FunctionType::get(top.getVoidTy(), false);
  const std::string text = absl::StrCat(".reg .", LetterOf(type), "32 ", name, "<", count, ">;");
  top.CreateCall(form, llvm::InlineAsm::get(form, text, "", /*hasSideEffects=*/true));
}

Value* ReadSum(llvm::IRBuilder<>& b, const std::string& name, int64_t count, llvm::Type* type,
               Value* number) {
  llvm::Type* i32 = b.getInt32Ty();
  llvm::Module* module = b.GetInsertBlock()->getModule();
  const auto read = module->getOrInsertFunction(absl::StrCat(kReads, name),
                                                llvm::FunctionType::get(type, {i32, i32}, false));
  return BetweenProducts(b.CreateCall(
      read, {b.CreateIntCast(number, i32, true), b.getInt32(static_cast<uint32_t>(count))}));
}

void KeepAsLoop(llvm::BranchInst& latch) {
  llvm::LLVMContext& context = latch.getContext();
  const auto note = [&](const char* text) -> llvm::Metadata* {
    return llvm::MDNode::get(context, llvm::MDString::get(context, text));
  };
  llvm::MDNode* id =
      llvm::MDNode::getDistinct(context, {nullptr, note(kNotUnrolled), note(kKeptAsLoop)});
  id->replaceOperandWith(0, id);
  latch.setMetadata(llvm::LLVMContext::MD_loop, id);
}

// The note on loops goes, as the back end would tell the assembler too.
void LowerNamedSums(llvm::Function& function) {
  std::vector<llvm::CallInst*> reads;
  for (llvm::Instruction& i : llvm::instructions(function)) {
    auto* call = llvm::dyn_cast<llvm::CallInst>(&i);
    const llvm::Function* callee = call == nullptr ? nullptr : call->getCalledFunction();
    if (callee != nullptr && callee->getName().starts_with(kReads)) reads.push_back(call);
    const llvm::MDNode* loop = i.getMetadata(llvm::LLVMContext::MD_loop);
    if (loop != nullptr && IsKeptAsLoop(*loop)) i.setMetadata(llvm::LLVMContext::MD_loop, nullptr);
  }
  for (llvm::CallInst* read : reads) {
    read->replaceAllUsesWith(Lowered(*read));
    read->eraseFromParent();
  }
}

}  // namespace kiln::codegen
