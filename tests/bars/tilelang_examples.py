"""The tier-1 and tier-2 example files of the TileLang repository, and arguments to try them with.

Every entry is `file: [(kernel, arguments), ...]`, where the arguments are those of the sizes and options with
which the file itself calls the kernel, or smaller ones. No line of those files is here: a checkout is given with
KILN_TILELANG. Kernel functions that use the features of a higher tier are listed in HIGHER_TIER with the reason.
"""

GEMM = "block_M=128 block_N=128 block_K=32"
SQUARE = "M=1024 N=1024 K=1024"
TUNED = "num_stages=2 thread_num=128 enable_rasteration=True"
GEMV = "N=1024 K=1024"
ATTENTION = "batch=1 heads=8 seq_len=512 dim=128"
BWD = "batch=1 heads=8 seq_len=512 dim=64"
# One sink a head, kept in a fragment that is read for each of 64 rows: as many heads, as the file has.
SINK = "batch=1 heads=64 seq_len=512 dim=64"
GDN = "B=1 S=4096 H=8 DK=128 input_dtype=bfloat16 output_dtype=bfloat16 accum_dtype=float32 chunk_size=64"
KDA = "B=1 S=4096 H=8 DV=128 input_dtype=bfloat16 do_dtype=float32 chunk_size=64"
FP8 = "block_M=128 block_N=128 block_K=64 dtype=float8_e4m3fn"
CONV = "N=128 C=128 H=64 W=64 F=128 K=3 S=1 D=1 P=1 block_M=64 block_N=128 block_K=32 num_stages=3"
NSA = "batch=2 seq_len=64 heads=32 dim=128 block_size=32 groups=16 selected_blocks=8"
LINEAR = "B=1 S=1024 H=8 DK=128 DV=128"
MAMBA = "batch=8 seqlen=4096 chunk_size=256 ngroups=1 nheads=80 headdim=64 dstate=128"
GROUPED = "block_M=64 block_N=64 block_K=64"

TIER_1 = {
    "analyze/example_gemm_analyze.py": [("kernel", f"{GEMM} num_stages=3 thread_num=128 enable_rasteration=True")],
    "cast/example_group_per_split_token_cast_to_fp8.py": [
        ("group_per_split_token_cast_to_fp8", "M=8192 N=8192 BG=2 M_max=4096 blk_m=8"),
    ],
    "cast/example_per_token_cast_to_fp8.py": [("per_token_cast_to_fp8", "M=8192 N=8192 blk_m=8")],
    "deepseek_mhc/example_mhc_post.py": [("mhc_post_tilelang", "hc=4 hidden=2560")],
    "dsa_hisa/clean_and_maintain_logits.py": [("clean_and_maintain_logits_", "seq_len=512 seq_len_kv=8192")],
    "dynamic_shape/example_dynamic.py": [
        (
            "matmul_dynamic_mnk",
            f"{GEMM} trans_A=False trans_B=False in_dtype=float16 out_dtype=float16 accum_dtype=float32 "
            "num_stages=3 threads=128",
        ),
    ],
    "elementwise/example_elementwise_add.py": [
        ("elementwise_add", "M=1024 N=1024 block_M=32 block_N=32 threads=128 in_dtype=float32 out_dtype=float32"),
    ],
    "flash_attention/example_gqa_fwd_bshd.py": [
        ("flashattn", f"{ATTENTION} is_causal=False groups=4 num_stages=2"),
        ("flashattn", f"{ATTENTION} is_causal=True groups=4 num_stages=2"),
    ],
    "flash_attention/example_mha_fwd_bhsd.py": [
        ("flashattn", "batch=1 heads=1 seq_q=256 seq_kv=256 dim=64 is_causal=False"),
        ("flashattn", "batch=1 heads=1 seq_q=256 seq_kv=512 dim=64 is_causal=True"),
    ],
    "flash_attention/example_mha_fwd_bshd.py": [
        ("flashattn", f"{ATTENTION} is_causal=False block_M=128 block_N=128"),
        ("flashattn", f"{ATTENTION} is_causal=True"),
    ],
    "gdn/example_chunk_scaled_dot_kkt.py": [
        ("tilelang_chunk_scaled_dot_kkt_fwd", f"{GDN} use_g=True block_DK=64 threads=128 num_stages=2"),
    ],
    "gemm/example_gemm.py": [("matmul", f"{SQUARE} {GEMM}")],
    "gemm/example_gemm_autotune.py": [
        ("matmul", f"{SQUARE} {GEMM} {TUNED}"),
        ("get_best_config.kernel", f"{SQUARE} {GEMM} {TUNED}"),
    ],
    "gemm/example_gemm_autotune_early_stop.py": [
        ("matmul_early_stop", SQUARE),
        ("make_kernel.kernel", f"{GEMM} num_stages=2 thread_num=128"),
    ],
    "gemm_splitk/example_tilelang_gemm_splitk.py": [("matmul", f"{SQUARE} {GEMM} split_k=4")],
    "gemm_tcgen05/gemm_mma.py": [("matmul", f"{SQUARE} {GEMM}")],
    "gemv/example_gemv.py": [
        ("naive_gemv", f"{GEMV} BLOCK_N=128 BLOCK_K=128"),
        ("naive_splitk_gemv", f"{GEMV} BLOCK_N=32 BLOCK_K=32"),
        ("splitk_gemv", f"{GEMV} BLOCK_N=32 BLOCK_K=32 reduce_threads=32"),
        ("splitk_gemv_vectorized", f"{GEMV} BLOCK_N=2 reduce_threads=32"),
        ("splitk_gemv_vectorized_tvm", f"{GEMV} BLOCK_N=2 reduce_threads=32"),
        ("gemv_alloc_reducer", "M=1024 N=1024"),
        ("get_autotuned_kernel", f"{GEMV} BLOCK_N=2 reduce_threads=32"),
    ],
    "kda/chunk_bwd_dv.py": [("tilelang_chunk_bwd_kernel_dv_local", f"{KDA} output_dtype=bfloat16")],
    "kda/chunk_bwd_gla_dA.py": [("tilelang_chunk_bwd_kernel_dv_local", f"{KDA} da_dtype=float32 scale=1.0")],
    "norm/layernorm.py": [("_layernorm_fwd", "N=4096 D=1024"), ("_layernorm_bwd", "N=4096 D=1024")],
    "norm/rms_norm.py": [("rms_norm", "M=8192 N=8192 blk_m=1"), ("rms_norm_splitk", "M=8192 N=8192 blk_m=1 blk_k=512")],
    "online_softmax/online_softmax.py": [("softmax_kernel", "")],
    "quickstart.py": [("matmul", f"{SQUARE} {GEMM}")],
    "topk/example_topk.py": [("tl_topk", "M=320 N=128 topk=6 blk_m=64")],
    "visual_layout_inference/visual_layout_inference.py": [
        ("matmul", "M=128 N=128 K=128 block_M=32 block_N=32 block_K=32"),
    ],
}

TIER_2 = {
    "analyze/example_conv_analyze.py": [("kernel", f"{CONV} threads=256")],
    "attention_sink/example_gqa_sink_bwd_bhsd.py": [
        ("flashattn_fwd", f"{SINK} groups=2"),
        ("flashattn_bwd_preprocess", BWD),
        ("flashattn_bwd_postprocess", BWD),
        ("flashattn_bwd", f"{BWD} groups=2 window_size=128"),
        ("flashattn_bwd_dsink", "batch=1 heads=8 seq_len=512"),
    ],
    "attention_sink/example_gqa_sink_fwd_varlen.py": [
        (
            "flashattn_sink",
            "batch_size=2 groups=4 UQ=600 UKV=700 heads=8 dim=128 is_causal=True window_size=128 "
            "block_M=128 block_N=128 num_stages=2 threads=256",
        ),
    ],
    "attention_sink/example_mha_sink_bwd_bhsd.py": [
        ("flashattn_fwd", SINK),
        ("flashattn_bwd_preprocess", BWD),
        ("flashattn_bwd_postprocess", BWD),
        ("flashattn_bwd", BWD),
        ("flashattn_bwd_dsink", "batch=1 heads=8 seq_len=512"),
    ],
    "attention_sink/example_mha_sink_fwd_bhsd.py": [
        ("flashattn", "batch=1 heads=2 seq_q=256 seq_kv=256 dim=128 window_size=128"),
    ],
    "blocksparse_attention/example_tilelang_block_sparse_attn.py": [
        ("blocksparse_flashattn", "batch=1 heads=1 seq_len=256 dim=64 downsample_len=4 is_causal=True"),
    ],
    "blocksparse_gemm/example_blocksparse_gemm.py": [("blocksparse_matmul", f"{SQUARE} {GEMM} {TUNED}")],
    "convolution/example_convolution.py": [("convolution", f"{CONV} threads=256")],
    "convolution/example_convolution_autotune.py": [
        ("convolution", f"{CONV} thread_num=256 enable_rasteration=True"),
    ],
    "deepseek_deepgemm/example_deepgemm_fp8_2xAcc.py": [
        (
            "tl_gemm",
            f"{SQUARE} block_N=128 in_dtype=float8_e4m3fn out_dtype=bfloat16 accum_dtype=float32",
        ),
    ],
    "deepseek_mla/example_mla_decode.py": [
        (
            "flashattn",
            "batch=1 heads=128 kv_head_num=1 seqlen_kv=8192 dim=512 pe_dim=64 block_N=64 block_H=64 "
            "num_split=4 softmax_scale=0.0416",
        ),
        (
            "flashattn",
            "batch=1 heads=128 kv_head_num=1 seqlen_kv=8192 dim=512 pe_dim=64 block_N=64 block_H=64 "
            "num_split=1 softmax_scale=0.0416",
        ),
    ],
    "deepseek_mla/example_mla_decode_paged.py": [
        (
            "mla_decode_tilelang",
            "batch=4 h_q=128 h_kv=1 max_seqlen_pad=8192 dv=512 dpe=64 block_N=64 block_H=64 num_split=1 block_size=64",
        ),
        (
            "mla_decode_tilelang",
            "batch=4 h_q=128 h_kv=1 max_seqlen_pad=8192 dv=512 dpe=64 block_N=64 block_H=64 num_split=4 block_size=64",
        ),
    ],
    "deepseek_nsa/example_tilelang_nsa_decode.py": [("native_sparse_attention", NSA)],
    "deepseek_nsa/example_tilelang_nsa_fwd.py": [("native_sparse_attention", f"{NSA} is_causal=True")],
    "deepseek_v32/sparse_mla_fwd.py": [("sparse_mla_fwd", "heads=128 dim=512 tail_dim=64 topk=2048")],
    "flash_attention/example_gqa_bwd.py": [
        (
            "flashattn_fwd",
            "batch=1 heads=32 seq_len=256 dim_qk=192 dim_v=128 is_causal=False block_M=128 block_N=64 groups=16",
        ),
        ("flashattn_bwd_preprocess", "batch=1 heads=32 seq_len=256 dim_v=128"),
        ("flashattn_bwd_postprocess", "batch=1 heads=32 seq_len=256 dim_qk=192"),
        (
            "flashattn_bwd_atomic_add",
            "batch=1 heads=32 seq_len=256 dim_qk=192 dim_v=128 is_causal=False block_M=128 block_N=32 groups=16",
        ),
        (
            "flashattn_bwd_split",
            "batch=1 heads=32 seq_len=256 dim_qk=192 dim_v=128 is_causal=True block_M=128 block_N=32 groups=16",
        ),
    ],
    "flash_attention/example_gqa_fwd_varlen.py": [
        (
            "flashattn",
            "batch_size=2 groups=4 UQ=600 UKV=700 heads=8 dim=128 is_causal=True block_M=128 block_N=128 "
            "num_stages=2 threads=256",
        ),
    ],
    "flash_attention/example_mha_bwd_bhsd.py": [
        ("flashattn_fwd", f"{BWD} is_causal=False block_M=64 block_N=64"),
        ("flashattn_bwd_preprocess", BWD),
        ("flashattn_bwd_postprocess", BWD),
        ("flashattn_bwd", f"{BWD} is_causal=True block_M=64 block_N=64"),
    ],
    "flash_attention/example_mha_bwd_bshd.py": [
        ("flashattn_fwd", f"{BWD} is_causal=False block_M=64 block_N=64"),
        ("flashattn_bwd_preprocess", BWD),
        ("flashattn_bwd_postprocess", BWD),
        ("flashattn_bwd", f"{BWD} is_causal=True block_M=64 block_N=64"),
    ],
    "flash_attention/example_mha_fwd_varlen.py": [
        ("flashattn", "batch_size=2 UQ=600 UKV=700 heads=8 dim=128 is_causal=False"),
    ],
    "flash_decoding/example_gqa_decode.py": [
        (
            "flashattn",
            "batch=1 heads=32 groups=8 seqlen_kv=8192 dim=128 block_N=128 block_H=64 num_split=8 num_stages=2 "
            "threads=128",
        ),
        (
            "flashattn",
            "batch=1 heads=32 groups=8 seqlen_kv=8192 dim=128 block_N=128 block_H=64 num_split=1 num_stages=2 "
            "threads=128",
        ),
    ],
    "flash_decoding/example_gqa_decode_varlen_logits.py": [
        ("flashattn", "batch=1 heads=32 k_heads=8 max_seqlen_kv=8192 total_seqlen_k=8192 dim=128 has_sink=True"),
    ],
    "flash_decoding/example_mha_inference.py": [
        ("flashattn", "batch=1 heads=32 seqlen_q=128 seqlen_kv=8192 dim=128 is_causal=False block_M=128 block_N=64"),
    ],
    "fusedmoe/example_fusedmoe_tilelang.py": [
        ("moe_forward_tilelang_shared", "dhidden=2048 dexpert=1024 num_tokens=512 dtype=float16"),
        (
            "moe_forward_tilelang_routed",
            "dhidden=2048 dexpert=1024 n_routed_experts=8 dtype=float16 group_sum=2048 group_count=8",
        ),
    ],
    "gdn/example_chunk_delta_h.py": [
        (
            "tilelang_chunk_gated_delta_rule_fwd_h",
            f"{GDN} DV=128 gate_dtype=float32 state_dtype=float32 use_g=True use_initial_state=True "
            "store_final_state=True save_new_value=True",
        ),
    ],
    "gdn/example_chunk_o.py": [
        ("tilelang_chunk_fwd_o", f"{GDN} DV=128 gate_dtype=float32 scale=0.088 use_g=True threads=128 num_stages=1"),
    ],
    "gdn/example_cumsum.py": [
        ("tilelang_chunk_local_cumsum_scalar", "B=1 S=4096 H=8 reverse=True input_dtype=float32 use_fragment=False"),
        ("tilelang_chunk_local_cumsum_scalar", "B=1 S=4096 H=8 input_dtype=float32 use_fragment=True"),
    ],
    "gdn/example_wy_fast.py": [
        ("tilelang_recompute_w_u_fwd", f"{GDN} DV=128 gate_dtype=float32 threads=128 num_stages=3"),
    ],
    "gemm/example_gemm_advanced_autotune.py": [
        ("matmul", f"{SQUARE} {GEMM} {TUNED}"),
        ("_build_autotuner.kernel", f"{SQUARE} {GEMM} {TUNED}"),
    ],
    "gemm/example_gemm_autotune_pass_configs.py": [
        ("matmul_decorator", SQUARE),
        ("get_best_config.kernel", f"{SQUARE} {GEMM} num_stages=2 thread_num=128"),
    ],
    "gemm/example_gemm_persistent.py": [
        ("matmul_non_persistent", f"{SQUARE} block_M=128 block_N=256 block_K=64 threads=256 num_stages=3"),
        ("matmul_persistent", f"{SQUARE} block_M=128 block_N=256 block_K=64 threads=256 num_stages=3"),
        (
            "matmul_persistent",
            f"{SQUARE} block_M=128 block_N=256 block_K=64 threads=256 num_stages=3 use_persistent_primitive=False",
        ),
    ],
    "gemm_fp8/example_tilelang_gemm_fp8.py": [("matmul", f"{SQUARE} {FP8}")],
    "gemm_fp8/example_tilelang_gemm_fp8_2xAcc.py": [("matmul", f"{SQUARE} {FP8}")],
    "gemm_splitk/example_tilelang_gemm_splitk_vectorize_atomicadd.py": [("matmul", f"{SQUARE} {GEMM} split_k=4")],
    "gemm_streamk/example_tilelang_gemm_streamk.py": [
        (
            "tl_matmul_streamk",
            "M=256 N=1024 K=512 streamk_tiles=20 block_M=16 block_N=128 block_K=32 trans_A=False trans_B=True "
            "dtypeAB=float16 dtypeC=float32 accum_dtype=float32 num_stages=2 threads=64",
        ),
    ],
    "grouped_gemm/example_grouped_gemm_bwd.py": [
        ("grouped_gemm_fwd", f"batch_sum=192 batch_count=2 K=1024 N=1024 {GROUPED}"),
        ("grouped_gemm_bwd", f"batch_sum=192 batch_count=2 M=1024 N=1024 {GROUPED}"),
    ],
    "grouped_gemm/example_grouped_gemm_fwd.py": [("grouped_gemm", f"K=1024 N=1024 batch_sizes_list=(64,128) {GROUPED}")],
    "hadamard_transform/example_hadamard.py": [("hadamard", "b=64 n=32768 dtype=float32")],
    "kda/chunk_o.py": [("tilelang_chunk_fwd_o", f"{GDN} DV=128 gate_dtype=float32 scale=0.088")],
    "kda/wy_fast.py": [
        ("tilelang_recompute_w_u_fwd", f"{GDN} DV=128 gate_dtype=float32 use_qg=True use_kg=True"),
    ],
    "linear_attention/example_linear_attn_bwd.py": [("tl_fused_chunk_bwd_kernel", LINEAR)],
    "linear_attention/example_linear_attn_fwd.py": [("tl_fused_chunk_fwd_kernel", LINEAR)],
    "linear_attention/example_mamba_chunk_scan.py": [("chunk_scan_fwd", MAMBA)],
    "linear_attention/example_mamba_chunk_state.py": [("chunk_state_fwd", MAMBA)],
    "linear_attention/example_retention_fwd.py": [("chunk_retention_fwd_kernel", LINEAR)],
    "seer_attention/block_sparse_attn_tilelang.py": [
        ("blocksparse_flashattn", "batch=1 heads=1 seq_q=256 seq_kv=256 dim=64 downsample_len=4 is_causal=True"),
    ],
}

HIGHER_TIER = {
    # The census puts these functions of a tier-1 file into tier 3.
    ("gemv/example_gemv.py", "splitk_gemv_vectorized_tvm"): "T.tvm_thread_allreduce",
    ("gemv/example_gemv.py", "get_autotuned_kernel"): "T.tvm_thread_allreduce",
    ("gemv/example_gemv.py", "gemv_alloc_reducer"): "T.alloc_reducer",
}
