// An entry point whose launches are
//
//   maps = {{rank, type, ..., A, extents(n), strides(n), box}};
//   if (r = kiln_gpu_run(launch, &image, &kernel_0, blocks(n), slots, maps)) return r;
#include "compiler/codegen/gpu_host.h"

#include <cstddef>

#include "compiler/codegen/host_entry.h"
#include "compiler/codegen/runtime/gpu_launch.h"
#include "llvm/IR/Module.h"

namespace kiln::codegen {
namespace {

using llvm::Value;

// The records of runtime/gpu_launch.h, as they are built here.
static_assert(offsetof(kiln_tensor_map, address) == 16 && sizeof(kiln_tensor_map) == 160);
static_assert(offsetof(kiln_kernel, function) == 32 && offsetof(kiln_kernel, devices) == 40);

constexpr int64_t kPointerAlign = 16;  // of tensors: the widest access, and what TMA asks

// CUtensorMapDataType.
int MapType(DType type) {
  if (type.is_float()) {
    if (type.code == TypeCode::kBFloat) return 9;
    if (type.bits == 16) return 6;
    if (type.bits == 32) return 7;
    if (type.bits == 64) return 8;
  }
  return type.bytes() == 1 ? 0 : type.bytes() == 2 ? 1 : type.bytes() == 4 ? 2 : 4;
}

// CUtensorMapSwizzle.
int MapSwizzle(int64_t bytes) { return bytes == 128 ? 3 : bytes == 64 ? 2 : bytes == 32 ? 1 : 0; }

class GpuEntry : public HostEntry {
 public:
  GpuEntry(const ir::Program& program, const std::string& symbol, const std::string& cubin,
           const std::vector<GpuKernel>& kernels, llvm::Module& module)
      : HostEntry(program, symbol, module, kPointerAlign), kernels_(kernels) {
    llvm::Type* ptr = llvm::PointerType::getUnqual(context());
    llvm::Type* i32 = llvm::Type::getInt32Ty(context());
    llvm::Type* i64 = llvm::Type::getInt64Ty(context());
    image_type_ = llvm::StructType::get(context(), {ptr, ptr});
    kernel_type_ = llvm::StructType::get(context(), {ptr, i32, i32, i32, i32, i32, i32, ptr, i64});
    auto* longs = llvm::ArrayType::get(i64, KILN_TENSOR_RANK);
    auto* corner = llvm::ArrayType::get(i32, KILN_TENSOR_RANK - 2);
    map_type_ = llvm::StructType::get(
        context(), {i32, i32, i32, i32, i64, longs, longs,
                    llvm::ArrayType::get(i32, KILN_TENSOR_RANK), i32, i32, corner, corner});
    llvm::Constant* bytes = Data(llvm::ConstantDataArray::getString(context(), cubin, false));
    image_ = new llvm::GlobalVariable(
        module, image_type_, false, llvm::GlobalValue::InternalLinkage,
        llvm::ConstantStruct::get(image_type_, {bytes, llvm::Constant::getNullValue(ptr)}),
        symbol + "_image");
  }
  const ModuleFacts& facts() const { return facts_; }

 protected:
  Value* EmitTake(llvm::IRBuilder<>& b, Value* bytes) override {
    const auto take =
        module().getOrInsertFunction("kiln_gpu_take", b.getPtrTy(), b.getPtrTy(), b.getInt64Ty());
    return b.CreateCall(take, {launch_argument(), bytes});
  }
  void EmitGiveBack(llvm::IRBuilder<>& b, Value* memory) override {
    const auto give = module().getOrInsertFunction("kiln_gpu_give_back", b.getVoidTy(),
                                                   b.getPtrTy(), b.getPtrTy());
    b.CreateCall(give, {launch_argument(), memory});
  }

  void EmitLaunch(llvm::IRBuilder<>& b, ExprEmitter& exprs, const ir::Launch& launch) override {
    const GpuKernel& kernel = kernels_[launches_++];
    facts_.scratch_bytes = std::max(facts_.scratch_bytes, kernel.shared_bytes);
    facts_.grid_blocks = std::max(facts_.grid_blocks, ConstantBlockCount(launch));
    facts_.threads = std::max(facts_.threads, kernel.threads);
    const auto number = [&](int64_t v) { return b.getInt32(static_cast<uint32_t>(v)); };
    llvm::Constant* name = Data(llvm::ConstantDataArray::getString(context(), kernel.name));
    auto* record = new llvm::GlobalVariable(
        module(), kernel_type_, false, llvm::GlobalValue::PrivateLinkage,
        llvm::ConstantStruct::get(
            kernel_type_, {name, number(kernel.threads), number(kernel.shared_bytes),
                           number(static_cast<int64_t>(slots().size())),
                           number(static_cast<int64_t>(kernel.maps.size())), number(kernel.cluster),
                           number(kernel.follows ? 1 : 0),
                           llvm::Constant::getNullValue(b.getPtrTy()), b.getInt64(0)}));
    Value* maps = EmitMaps(b, exprs, kernel.maps);
    llvm::Type* ptr = b.getPtrTy();
    const auto run = module().getOrInsertFunction("kiln_gpu_run", b.getInt32Ty(), ptr, ptr, ptr,
                                                  b.getInt64Ty(), ptr, ptr);
    StopIfFailed(b, b.CreateCall(run, {launch_argument(), image_, record,
                                       EmitBlockCount(b, exprs, launch), slots_array(), maps}));
  }

 private:
  llvm::Constant* Data(llvm::Constant* value) {
    auto* data = new llvm::GlobalVariable(module(), value->getType(), true,
                                          llvm::GlobalValue::PrivateLinkage, value);
    data->setAlignment(llvm::Align(16));
    return data;
  }

  Value* EmitMaps(llvm::IRBuilder<>& b, ExprEmitter& exprs, const std::vector<TensorMap>& maps) {
    if (maps.empty()) return llvm::Constant::getNullValue(b.getPtrTy());
    Value* array = b.CreateAlloca(llvm::ArrayType::get(map_type_, maps.size()));
    b.CreateMemSet(array, b.getInt8(0), sizeof(kiln_tensor_map) * maps.size(), llvm::Align(8));
    for (size_t i = 0; i < maps.size(); ++i) {
      Value* record = b.CreateConstGEP1_64(map_type_, array, i);
      const auto field = [&](unsigned f) { return b.CreateStructGEP(map_type_, record, f); };
      const TensorMap& map = maps[i];
      const ir::Buffer& tensor = map.tensor;
      const std::vector<ViewSide> view = ViewOf(map);
      const size_t rank = map.box.size();
      b.CreateStore(b.getInt32(static_cast<uint32_t>(rank)), field(0));
      b.CreateStore(b.getInt32(static_cast<uint32_t>(MapType(tensor->dtype))), field(1));
      b.CreateStore(b.getInt32(static_cast<uint32_t>(MapSwizzle(map.swizzle))), field(2));
      b.CreateStore(b.getInt32(static_cast<uint32_t>(tensor->dtype.bytes())), field(3));
      b.CreateStore(b.CreateLoad(b.getInt64Ty(), SlotAddress(b, slots().SlotOf(tensor))), field(4));
      Value* stride = b.getInt64(1);
      for (size_t d = rank; d-- > 0;) {
        const uint64_t at = rank - 1 - d;  // innermost first
        Value* extent = exprs.EmitIndex(view[d].extent);
        if (view[d].stride.defined()) stride = exprs.EmitIndex(view[d].stride);
        // Of a tensor without elements nothing is loaded; a map must have some.
        Value* some = b.CreateBinaryIntrinsic(llvm::Intrinsic::smax, extent, b.getInt64(1));
        b.CreateStore(some, b.CreateConstGEP1_64(b.getInt64Ty(), field(5), at));
        b.CreateStore(stride, b.CreateConstGEP1_64(b.getInt64Ty(), field(6), at));
        b.CreateStore(b.getInt32(static_cast<uint32_t>(map.box[d])),
                      b.CreateConstGEP1_64(b.getInt32Ty(), field(7), at));
        // Rows of none are as far apart as a map allows.
        Value* least = b.getInt64(std::max<int64_t>(kPointerAlign / tensor->dtype.bytes(), 1));
        if (d + 1 == rank && !ir::ConstInt(view[d].extent)) {
          extent = b.CreateSelect(b.CreateICmpEQ(extent, b.getInt64(0)), least, extent);
        }
        stride = b.CreateMul(stride, extent);
      }
      EmitWindow(b, map, field);
    }
    return array;
  }

  static void EmitWindow(llvm::IRBuilder<>& b, const TensorMap& map,
                         const std::function<Value*(unsigned)>& field) {
    const auto put = [&](int64_t value, Value* place) {
      b.CreateStore(b.getInt32(static_cast<uint32_t>(value)), place);
    };
    put(map.patches ? map.box[map.box.size() - 2] : 0, field(8));
    put(map.stride, field(9));
    for (unsigned corner = 0; corner < 2; ++corner) {
      const auto& sides = corner == 0 ? map.low : map.high;
      for (size_t d = 0; d < sides.size(); ++d) {
        put(sides[d], b.CreateConstGEP1_64(b.getInt32Ty(), field(10 + corner), d));
      }
    }
  }

  const std::vector<GpuKernel>& kernels_;
  llvm::StructType* image_type_ = nullptr;
  llvm::StructType* kernel_type_ = nullptr;
  llvm::StructType* map_type_ = nullptr;
  llvm::GlobalVariable* image_ = nullptr;
  size_t launches_ = 0;
  ModuleFacts facts_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<llvm::Module>> BuildGpuHost(
    const ir::Program& program, const std::string& symbol, const std::string& cubin,
    const std::vector<GpuKernel>& kernels, llvm::LLVMContext& context, ModuleFacts* facts) {
  auto module = std::make_unique<llvm::Module>(symbol, context);
  GpuEntry entry(program, symbol, cubin, kernels, *module);
  KILN_RETURN_IF_ERROR(entry.Build());
  *facts = entry.facts();
  return module;
}

}  // namespace kiln::codegen
