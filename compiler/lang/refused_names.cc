#include "compiler/lang/refused_names.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace kiln::lang {
namespace {

struct Refusal {
  const char* names;
  const char* remedy;
};

constexpr Refusal kRefused[] = {
    {"tma_load create_tma_descriptor tma_gather4 tma_gather4_bytes tma_scatter4 ds_read_tr16_b64 "
     "ds_read_tr8_b64",
     "use T.copy"},
    {"ptx_init_barrier_thread_count ptx_arrive_barrier ptx_fence_barrier_init "
     "named_barrier_arrive",
     "use T.alloc_barrier, T.barrier_arrive and T.barrier_wait"},
    {"WSSyncKind", "use T.WSSync.producer_acquire and its like"},
    {"atomic_cas",
     "use an atomic update that tells what was there before, as in "
     "T.atomic_or(flag[0], 1, return_prev=True): who gets 0 came first"},
    {"relu", "write T.max(x, 0)"},
    {"silu swish", "write x * T.sigmoid(x)"},
    {"gelu", "write 0.5 * x * (1.0 + T.erf(x * 0.70710678))"},
    {"softmax", "write it with T.reduce_max, T.exp and T.reduce_sum, as template:softmax does"},
    {"thread_return", "put what follows under an if"},
    {"If Then While Assert let bind buffer_store",
     "write Python's own if, while, assert, names and x[i] = v"},
    {"ptx_wgmma_ss ptx_wgmma_rs ptx_tcgen05_mma_ss ptx_tcgen05_mma_ts wgmma_mma tcgen05_mma "
     "initialize_wgmma_descriptor initialize_tcgen05_descriptor alloc_wgmma_desc "
     "alloc_tcgen05_smem_desc alloc_tcgen05_instruction_desc alloc_tcgen05_instr_desc mfma "
     "mfma_store tvm_mfma tvm_mfma_store tvm_rdna_wmma",
     "use T.gemm: the compiler picks the instruction"},
    {"tcgen05_gemm_blockscaled mma_gemm_blockscaled ptx_mma_block_scale "
     "ptx_tcgen05_mma_blockscaled_ss "
     "tcgen05_mma_blockscaled tcgen05_cp_warpx4 tcgen05_sf_warp_transpose",
     "multiply the factors by their scales into a T.alloc_shared tile, and use T.gemm on it"},
    {"clc_try_cancel clc_try_cancel_multicast clc_is_canceled clc_get_first_ctaid_x "
     "clc_get_first_ctaid_y clc_get_first_ctaid_z",
     "launch as many blocks as the machine has and share tiles with T.PersistentTileScheduler"},
    {"tcgen05_gemm_sp ptx_wgmma_sp_ss ptx_wgmma_sp_rs gemm_sp_v2",
     "use T.gemm_sp: the compiler picks the instruction"},
    {"call_intrin tvm_access_ptr call_packed tvm_call_cpacked CUDASourceCodeKernel",
     "write the computation with T's own functions"},
    {"sblock sblock_attr",
     "leave it out: write its statements into T.Parallel or T.serial, whose body needs no block"},
    {"reads writes", "leave it out: what a statement reads and writes is seen in it"},
    {"sblock_alloc_buffer", "use T.alloc_shared, T.alloc_fragment or T.alloc_local"},
    {"annotate_restrict_buffers",
     "pass tensors that lie apart: Kiln takes those of one call to share no element"},
    {"allocate", "use T.alloc_shared, T.alloc_fragment, T.alloc_local or T.alloc_var"},
    {"alloc_descriptor increase_descriptor_offset WGMMADescriptorParams TCGEN05DescriptorParams "
     "compute_gmma_descriptor compute_umma_descriptor ptx_ldmatrix ptx_mma ptx_mma_sm70 ptx_mma_sp "
     "mma_fill mma_store mma_store_index_map tvm_mma_sync tvm_bmma_sync tvm_fill_fragment "
     "tvm_load_matrix_sync tvm_store_matrix_sync get_ldmatrix_offset get_mma_micro_size "
     "make_blockscaled_gemm_layout SparseTensorCoreIntrinEmitter TCGEN05TensorCoreIntrinEmitter "
     "TensorCoreIntrinEmitterSM120 TensorCoreIntrinEmitterWithLadderTransform "
     "WGMMATensorCoreIntrinEmitter WGSparseTensorCoreIntrinEmitter",
     "use T.gemm, for which the compiler picks the instruction"},
    {"tma_load_2sm ptx_cp_async_bulk", "use T.copy: the compiler picks the instruction"},
    {"create_barriers ptx_arrive_barrier_expect_tx ptx_arrive_cluster_barrier ptx_wait_barrier "
     "ptx_cp_async_barrier",
     "use T.alloc_barrier, T.barrier_arrive and T.barrier_wait"},
    {"anylist_getitem anylist_resetitem anylist_setitem_call_cpacked anylist_setitem_call_packed "
     "call_cpacked call_cpacked_lowered call_packed_lowered call_pure_extern call_llvm_intrin "
     "call_llvm_pure_intrin lookup_param tvm_struct_get tvm_struct_set tvm_throw_last_error "
     "tvm_tuple tvm_stack_alloca tvm_stack_make_array tvm_stack_make_shape "
     "tvm_thread_invariant TVMBackendAllocWorkspace TVMBackendFreeWorkspace isnullptr",
     "leave it out: it speaks to TVM's runtime, which Kiln does not use"},
    {"start_profile_intrinsic end_profile_intrinsic",
     "leave it out, and profile with the tools of the target"},
    {"q_multiply_shift q_multiply_shift_per_axis",
     "multiply as int64 and shift: T.cast(x, \"int64\") * y >> s"},
    {"undef", "give the value that it shall have, as in T.fill(x, 0)"},
    {"vectorlow vectorhigh vectorcombine", "use T.Shuffle([vector], [lanes])"},
    {"vscale", "name the number of lanes: Kiln's targets have no vectors of unknown length"},
    {"ret", "write return in a factory; a kernel stores what it makes"},
    {"loop_break", "write Python's own break"},
    {"get_let_value has_let_value", "use the name itself: it is bound to its value"},
    {"make_tensor_from_addr",
     "use T.make_tensor(p[i], shape, dtype) with a parameter p: T.Tensor([n], T.ptr)"},
    {"WarpSpecializeFrame KernelLaunchFrame",
     "use T.ws(...) or T.Kernel(...): the class of its result is not needed"},
    {"WSInstr WSOpRef", "use T.ws_op(\"name\") and T.WSSchedule"},
    {"JITFunc PrimFunc", "use @tilelang.jit or @T.prim_func over a function"},
    {"validate_gemm_ab_dtypes resolve_torch_storage_dtype",
     "leave it out: T.gemm checks the types of its operands, tensors those of their arguments"},
    {"BACKEND_ONLY_TIR_EXPORTS CUDA_ONLY_TIR_EXPORTS SHARED_LEGACY_TIR_EXPORTS logger tb_ffi "
     "tvm_ffi annotations inline BaseBuilder Builder",
     "leave it out: it belongs to TileLang's own machinery, of which a kernel needs nothing"},
    {"env_thread",
     "write tx = T.launch_thread(\"threadIdx.x\", 128), or tx = T.get_thread_binding(0) in a "
     "T.Kernel block"},
    {"type_annotation", "name the type itself, as in T.float16 or \"float16\""},
    {"handle_add_byte_offset", "index the buffer, or name a part of it with T.view"},
    {"target", "leave it out: the target is what the kernel is compiled for (kilnc --arch)"},
    {"contiguous",
     "leave it out: T.Tensor is row-major, and T.StridedTensor says the strides of what is not"},
    {"to", "use T.cast(x, dtype)"},
    {"mutate", "store to an element, as in x[i] = v, or pass the place to a macro as a T.Ref"},
};

// Types of floats that no target computes with, alone and as vectors.
constexpr absl::string_view kFloats[] = {"float6_e2m3fn", "float6_e3m2fn", "float8_e3m4",
                                         "float8_e4m3b11fnuz"};

}  // namespace

void AddRefusedNames(absl::flat_hash_map<std::string, std::string>* refused) {
  for (const Refusal& refusal : kRefused) {
    for (absl::string_view name : absl::StrSplit(refusal.names, ' ', absl::SkipEmpty())) {
      (*refused)[std::string(name)] = refusal.remedy;
    }
  }
  for (absl::string_view lanes : {"", "x2", "x4", "x8", "x16", "x32", "x64"}) {
    for (absl::string_view type : kFloats) {
      (*refused)[absl::StrCat(type, lanes)] =
          "use float8_e4m3fn or float8_e5m2, or keep its bits in uint8";
    }
    if (!lanes.empty()) {
      (*refused)[absl::StrCat("tfloat32", lanes)] =
          absl::StrCat("use T.float32", lanes, "; T.tfloat32 is a type of tensors");
    }
  }
}

}  // namespace kiln::lang
