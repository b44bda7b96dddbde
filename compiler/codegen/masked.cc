#include "compiler/codegen/masked.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/DerivedTypes.h"

namespace kiln::codegen {
namespace {

using llvm::Value;

constexpr unsigned kPieceBytes = 32;

// Of a mask, without a wider one in between where the program says it lane by lane.
Value* Lanes(llvm::IRBuilder<>& b, Value* vector, unsigned first, unsigned count) {
  const auto* type = llvm::cast<llvm::FixedVectorType>(vector->getType());
  if (count == type->getNumElements()) return vector;
  if (auto* constant = llvm::dyn_cast<llvm::Constant>(vector)) {
    std::vector<llvm::Constant*> picked;
    for (unsigned i = 0; i < count; ++i) picked.push_back(constant->getAggregateElement(first + i));
    return llvm::ConstantVector::get(picked);
  }
  if (auto* both = llvm::dyn_cast<llvm::BinaryOperator>(vector)) {
    return b.CreateBinOp(both->getOpcode(), Lanes(b, both->getOperand(0), first, count),
                         Lanes(b, both->getOperand(1), first, count));
  }
  if (Value* scalar = llvm::getSplatValue(vector)) return b.CreateVectorSplat(count, scalar);
  std::vector<int> picked(count);
  std::iota(picked.begin(), picked.end(), static_cast<int>(first));
  return b.CreateShuffleVector(vector, picked);
}

// piece(first lane, lanes, address, alignment)
void ForPieces(llvm::IRBuilder<>& b, llvm::Type* storage, Value* address, llvm::Align align,
               const std::function<void(unsigned first, unsigned lanes, Value* at,
                                        llvm::Align align)>& piece) {
  const auto* type = llvm::cast<llvm::FixedVectorType>(storage);
  const unsigned lanes = type->getNumElements();
  const unsigned bytes = (type->getScalarSizeInBits() + 7) / 8;
  const unsigned width = std::max(1U, kPieceBytes / bytes);
  for (unsigned first = 0; first < lanes; first += width) {
    Value* at = first == 0 ? address : b.CreateConstGEP1_64(type->getElementType(), address, first);
    piece(first, std::min(width, lanes - first), at,
          llvm::commonAlignment(align, uint64_t{first} * bytes));
  }
}

}  // namespace

Value* EmitMaskedLoad(llvm::IRBuilder<>& b, llvm::Type* storage, Value* address, llvm::Align align,
                      Value* mask) {
  std::vector<Value*> parts;
  ForPieces(b, storage, address, align,
            [&](unsigned first, unsigned lanes, Value* at, llvm::Align aligned) {
              auto* type = llvm::FixedVectorType::get(storage->getScalarType(), lanes);
              parts.push_back(b.CreateMaskedLoad(type, at, aligned, Lanes(b, mask, first, lanes),
                                                 llvm::Constant::getNullValue(type)));
            });
  return parts.size() == 1 ? parts[0] : llvm::concatenateVectors(b, parts);
}

void EmitMaskedStore(llvm::IRBuilder<>& b, Value* value, Value* address, llvm::Align align,
                     Value* mask) {
  ForPieces(b, value->getType(), address, align,
            [&](unsigned first, unsigned lanes, Value* at, llvm::Align aligned) {
              b.CreateMaskedStore(Lanes(b, value, first, lanes), at, aligned,
                                  Lanes(b, mask, first, lanes));
            });
}

}  // namespace kiln::codegen
