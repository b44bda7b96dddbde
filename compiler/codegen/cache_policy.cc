#include "compiler/codegen/cache_policy.h"

#include <bit>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/Module.h"

namespace kiln::codegen {
namespace {

using llvm::Value;

constexpr unsigned kGlobalSpace = 1;                           // of NVPTX
constexpr unsigned kMark = llvm::LLVMContext::MD_nontemporal;  // kept where neighbours are merged
constexpr uint64_t kWord = 32;                                 // bits of a register
constexpr char kOnce[] = "once";                               // CacheHint::once

// PTX with these effects. `pinned`: it stays where it is; the back end takes what has no side
// effects for what depends on nothing but its operands, and moves it out of loops and guards.
llvm::CallInst* Asm(llvm::IRBuilder<>& b, llvm::Type* result, const std::string& text,
                    const std::string& constraints, llvm::ArrayRef<Value*> args,
                    llvm::MemoryEffects effects, bool pinned) {
  std::vector<llvm::Type*> types;
  for (const Value* a : args) types.push_back(a->getType());
  auto* type = llvm::FunctionType::get(result, types, false);
  llvm::CallInst* call =
      b.CreateCall(llvm::InlineAsm::get(type, text, constraints, /*hasSideEffects=*/pinned), args);
  call->setMemoryEffects(effects);
  call->setDoesNotThrow();
  return call;
}

// "{$2, $3}": the registers of so many words from operand `first` on.
std::string Words(size_t first, size_t count) {
  std::vector<std::string> places;
  for (size_t i = 0; i < count; ++i) places.push_back(absl::StrCat("$", first + i));
  return count == 1 ? places[0] : absl::StrCat("{", absl::StrJoin(places, ", "), "}");
}

// ".v4.b32"
std::string WordsType(size_t count) {
  return count == 1 ? ".b32" : absl::StrCat(".v", count, ".b32");
}

std::vector<Value*> LoadWords(llvm::IRBuilder<>& b, Value* address, Value* policy, size_t count,
                              bool pinned) {
  std::string constraints;
  for (size_t i = 0; i < count; ++i) constraints += "=r,";
  std::vector<llvm::Type*> types(count, b.getInt32Ty());
  llvm::Type* result = count == 1
                           ? types[0]
                           : static_cast<llvm::Type*>(llvm::StructType::get(b.getContext(), types));
  llvm::CallInst* all =
      Asm(b, result,
          absl::StrCat("ld.global.L2::cache_hint", WordsType(count), " ", Words(0, count), ", [$",
                       count, "], $", count + 1, ";"),
          constraints + "l,l", {address, policy}, llvm::MemoryEffects::readOnly(), pinned);
  std::vector<Value*> words;
  for (unsigned i = 0; i < count; ++i) {
    words.push_back(count == 1 ? all : b.CreateExtractValue(all, i));
  }
  return words;
}

void StoreWords(llvm::IRBuilder<>& b, Value* address, Value* policy,
                const std::vector<Value*>& words) {
  std::string constraints = "l,l";
  for (size_t i = 0; i < words.size(); ++i) constraints += ",r";
  std::vector<Value*> args = {address, policy};
  args.insert(args.end(), words.begin(), words.end());
  Asm(b, b.getVoidTy(),
      absl::StrCat("st.global.L2::cache_hint", WordsType(words.size()), " [$0], ",
                   Words(2, words.size()), ", $1;"),
      constraints, args, llvm::MemoryEffects::writeOnly(), /*pinned=*/true);
}

// A vector of the elements of `type` that a word holds.
llvm::Type* PackedIn(llvm::Type* type) {
  return llvm::FixedVectorType::get(type,
                                    static_cast<unsigned>(kWord / type->getScalarSizeInBits()));
}

// Element `index` of what lies in words one after the other.
Value* ElementOf(llvm::IRBuilder<>& b, const std::vector<Value*>& words, llvm::Type* type,
                 uint64_t index) {
  const uint64_t per_word = kWord / type->getScalarSizeInBits();
  Value* word = words[index / per_word];
  if (per_word == 1) return b.CreateBitCast(word, type);
  return b.CreateExtractElement(b.CreateBitCast(word, PackedIn(type)), index % per_word);
}

// The words of a value of several elements, or of one.
std::vector<Value*> WordsOf(llvm::IRBuilder<>& b, Value* value) {
  llvm::Type* element = value->getType()->getScalarType();
  const uint64_t per_word = kWord / element->getScalarSizeInBits();
  const uint64_t count = value->getType()->getPrimitiveSizeInBits() / kWord;
  const auto at = [&](uint64_t i) {
    return value->getType()->isVectorTy() ? b.CreateExtractElement(value, i) : value;
  };
  std::vector<Value*> words;
  for (uint64_t w = 0; w < count; ++w) {
    Value* word = per_word == 1 ? at(w) : llvm::PoisonValue::get(PackedIn(element));
    for (uint64_t i = 0; per_word > 1 && i < per_word; ++i) {
      word = b.CreateInsertElement(word, at(w * per_word + i), i);
    }
    words.push_back(b.CreateBitCast(word, b.getInt32Ty()));
  }
  return words;
}

// What an access is marked with.
std::optional<ir::CacheHint> HintOn(const llvm::Instruction& access) {
  const llvm::MDNode* mark = access.getMetadata(kMark);
  if (mark == nullptr || mark->getNumOperands() != 2) return std::nullopt;
  const auto text = [&](unsigned i) {
    return llvm::cast<llvm::MDString>(mark->getOperand(i))->getString().str();
  };
  std::optional<ir::CacheHint> hint = ir::ParseCacheHint(text(0));
  hint->once = text(1) == kOnce;
  return hint;
}

// Whether a load or a store is one of 1, 2 or 4 whole words.
bool IsOfWords(llvm::Instruction& access) {
  const llvm::Value* pointer = llvm::getLoadStorePointerOperand(&access);
  if (pointer == nullptr || access.isVolatile() || !HintOn(access) ||
      llvm::getLoadStoreAddressSpace(&access) != kGlobalSpace) {
    return false;
  }
  const llvm::Type* type = llvm::getLoadStoreType(&access);
  const uint64_t bits = type->getPrimitiveSizeInBits(), element = type->getScalarSizeInBits();
  if (element == 0 || bits % kWord != 0 || kWord % element != 0) return false;
  const uint64_t words = bits / kWord;
  return (words == 1 || words == 2 || words == 4) &&
         llvm::getLoadStoreAlignment(&access).value() * 8 >= bits;
}

// Whether each use of a load takes one element.
bool IsTakenApart(const llvm::LoadInst& load) {
  if (!load.getType()->isVectorTy()) return true;
  return llvm::all_of(load.users(), [](const llvm::User* user) {
    const auto* extract = llvm::dyn_cast<llvm::ExtractElementInst>(user);
    return extract != nullptr && llvm::isa<llvm::ConstantInt>(extract->getIndexOperand());
  });
}

void LowerLoad(llvm::LoadInst* load, Value* policy, bool pinned) {
  llvm::IRBuilder<> b(load);
  const uint64_t bits = load->getType()->getPrimitiveSizeInBits();
  const std::vector<Value*> words =
      LoadWords(b, load->getPointerOperand(), policy, bits / kWord, pinned);
  llvm::Type* element = load->getType()->getScalarType();
  if (!load->getType()->isVectorTy()) {
    load->replaceAllUsesWith(ElementOf(b, words, element, 0));
  } else {
    const std::vector<llvm::User*> users(load->user_begin(), load->user_end());
    for (llvm::User* user : users) {
      auto* extract = llvm::cast<llvm::ExtractElementInst>(user);
      const uint64_t index =
          llvm::cast<llvm::ConstantInt>(extract->getIndexOperand())->getZExtValue();
      extract->replaceAllUsesWith(ElementOf(b, words, element, index));
      extract->eraseFromParent();
    }
  }
  load->eraseFromParent();
}

void LowerStore(llvm::StoreInst* store, Value* policy) {
  llvm::IRBuilder<> b(store);
  StoreWords(b, store->getPointerOperand(), policy, WordsOf(b, store->getValueOperand()));
  store->eraseFromParent();
}

}  // namespace

Value* CachePolicy(llvm::IRBuilder<>& b, const ir::CacheHint& hint) {
  return Asm(b, b.getInt64Ty(),
             absl::StrFormat("createpolicy.fractional.L2::%s.b64 $0, 0f%08X;", hint.policy,
                             std::bit_cast<uint32_t>(hint.part)),
             "=l", {}, llvm::MemoryEffects::none(), /*pinned=*/false);
}

void MarkPolicy(llvm::Instruction& access, const ir::CacheHint& hint) {
  llvm::LLVMContext& context = access.getContext();
  const auto text = [&](const std::string& t) { return llvm::MDString::get(context, t); };
  access.setMetadata(
      kMark, llvm::MDNode::get(context, {text(ir::ToText(hint)), text(hint.once ? kOnce : "")}));
}

bool HasPolicies(const llvm::Function& function) {
  return llvm::any_of(llvm::instructions(function),
                      [](const llvm::Instruction& i) { return i.getMetadata(kMark) != nullptr; });
}

void LowerPolicies(llvm::Function& function) {
  std::vector<llvm::Instruction*> accesses;
  for (llvm::Instruction& i : llvm::instructions(function)) {
    const auto* load = llvm::dyn_cast<llvm::LoadInst>(&i);
    if (IsOfWords(i) && (load == nullptr || IsTakenApart(*load))) accesses.push_back(&i);
  }
  llvm::IRBuilder<> b(&*function.getEntryBlock().getFirstInsertionPt());
  std::map<std::string, Value*> policies;
  for (llvm::Instruction* access : accesses) {
    const ir::CacheHint hint = *HintOn(*access);
    Value*& policy = policies[ir::ToText(hint)];
    if (policy == nullptr) policy = CachePolicy(b, hint);
    if (auto* load = llvm::dyn_cast<llvm::LoadInst>(access)) {
      LowerLoad(load, policy, /*pinned=*/!hint.once);
    } else {
      LowerStore(llvm::cast<llvm::StoreInst>(access), policy);
    }
  }
}

}  // namespace kiln::codegen
