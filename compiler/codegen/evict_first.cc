#include "compiler/codegen/evict_first.h"

#include <bit>
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

constexpr unsigned kGlobalSpace = 1;  // of NVPTX
constexpr unsigned kMark = llvm::LLVMContext::MD_nontemporal;
constexpr uint64_t kWord = 32;  // bits of a register

// PTX that gives values and depends on nothing but its operands, and on memory if it reads it.
llvm::CallInst* Asm(llvm::IRBuilder<>& b, llvm::Type* result, const std::string& text,
                    const std::string& constraints, llvm::ArrayRef<Value*> args, bool reads) {
  std::vector<llvm::Type*> types;
  for (const Value* a : args) types.push_back(a->getType());
  auto* type = llvm::FunctionType::get(result, types, false);
  llvm::CallInst* call =
      b.CreateCall(llvm::InlineAsm::get(type, text, constraints, /*hasSideEffects=*/false), args);
  call->setMemoryEffects(reads ? llvm::MemoryEffects::readOnly() : llvm::MemoryEffects::none());
  call->setDoesNotThrow();
  return call;
}

// The words of a load with a policy.
std::vector<Value*> LoadWords(llvm::IRBuilder<>& b, Value* address, Value* policy, size_t count) {
  std::vector<std::string> places;
  std::string constraints;
  for (size_t i = 0; i < count; ++i) {
    places.push_back(absl::StrCat("$", i));
    constraints += "=r,";
  }
  std::vector<llvm::Type*> types(count, b.getInt32Ty());
  llvm::Type* result = count == 1
                           ? types[0]
                           : static_cast<llvm::Type*>(llvm::StructType::get(b.getContext(), types));
  llvm::CallInst* all =
      Asm(b, result,
          absl::StrCat("ld.global.L2::cache_hint", count > 1 ? absl::StrCat(".v", count) : "",
                       ".b32 ", count > 1 ? "{" : "", absl::StrJoin(places, ", "),
                       count > 1 ? "}" : "", ", [$", count, "], $", count + 1, ";"),
          constraints + "l,l", {address, policy}, /*reads=*/true);
  std::vector<Value*> words;
  for (unsigned i = 0; i < count; ++i) {
    words.push_back(count == 1 ? all : b.CreateExtractValue(all, i));
  }
  return words;
}

// Element `index` of what lies in words one after the other.
Value* ElementOf(llvm::IRBuilder<>& b, const std::vector<Value*>& words, llvm::Type* type,
                 uint64_t index) {
  const uint64_t bits = type->getScalarSizeInBits(), per_word = kWord / bits;
  Value* word = words[index / per_word];
  if (per_word == 1) return b.CreateBitCast(word, type);
  auto* packed = llvm::FixedVectorType::get(type, static_cast<unsigned>(per_word));
  return b.CreateExtractElement(b.CreateBitCast(word, packed), index % per_word);
}

// Whether a load is of whole words, and each use takes one element.
bool CanLower(const llvm::LoadInst& load) {
  if (load.getMetadata(kMark) == nullptr || load.isVolatile() ||
      load.getPointerAddressSpace() != kGlobalSpace) {
    return false;
  }
  const uint64_t bits = load.getType()->getPrimitiveSizeInBits();
  const uint64_t element = load.getType()->getScalarSizeInBits();
  if (bits % kWord != 0 || kWord % element != 0) return false;
  const uint64_t words = bits / kWord;
  if ((words != 1 && words != 2 && words != 4) || load.getAlign().value() * 8 < bits) return false;
  if (!load.getType()->isVectorTy()) return true;
  return llvm::all_of(load.users(), [](const llvm::User* user) {
    const auto* extract = llvm::dyn_cast<llvm::ExtractElementInst>(user);
    return extract != nullptr && llvm::isa<llvm::ConstantInt>(extract->getIndexOperand());
  });
}

void Lower(llvm::LoadInst* load, Value* policy) {
  llvm::IRBuilder<> b(load);
  const uint64_t bits = load->getType()->getPrimitiveSizeInBits();
  const std::vector<Value*> words = LoadWords(b, load->getPointerOperand(), policy, bits / kWord);
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

}  // namespace

void MarkEvictFirst(llvm::LoadInst& load) {
  llvm::LLVMContext& context = load.getContext();
  auto* one =
      llvm::ConstantAsMetadata::get(llvm::ConstantInt::get(llvm::Type::getInt32Ty(context), 1));
  load.setMetadata(kMark, llvm::MDNode::get(context, one));
}

Value* CachePolicy(llvm::IRBuilder<>& b, const std::string& priority, float part) {
  return Asm(b, b.getInt64Ty(),
             absl::StrFormat("createpolicy.fractional.L2::%s.b64 $0, 0f%08X;", priority,
                             std::bit_cast<uint32_t>(part)),
             "=l", {}, /*reads=*/false);
}

bool HasEvictFirst(const llvm::Function& function) {
  return llvm::any_of(llvm::instructions(function), [](const llvm::Instruction& i) {
    return llvm::isa<llvm::LoadInst>(i) && i.getMetadata(kMark) != nullptr;
  });
}

void LowerEvictFirst(llvm::Function& function) {
  std::vector<llvm::LoadInst*> loads;
  for (llvm::Instruction& i : llvm::instructions(function)) {
    auto* load = llvm::dyn_cast<llvm::LoadInst>(&i);
    if (load != nullptr && CanLower(*load)) loads.push_back(load);
  }
  if (loads.empty()) return;
  llvm::IRBuilder<> b(&*function.getEntryBlock().getFirstInsertionPt());
  Value* policy = CachePolicy(b, "evict_first", 1);
  for (llvm::LoadInst* load : loads) Lower(load, policy);
}

}  // namespace kiln::codegen
