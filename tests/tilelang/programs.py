"""Programs of the TileLang repository's tier-1 and tier-2 example files, at sizes for a processor.

`file: statement`, executed in the file's own module; an empty one runs the file as a program instead, with the
words of ARGUMENTS. Every statement ends in the file's own comparison with its own reference. NOT_HERE says of the
others why they cannot be compared so.
"""

# A backward pass whose program compares nothing: its kernels, and what PyTorch makes of its reference.
GRADIENTS = """
groups, own = GROUPS
Q, K, V, dO = (torch.randn(1, 256, h, 64, device="cuda").bfloat16() for h in (4, 4 // groups, 4 // groups, 4))
O, lse = flashattn_fwd(1, 4, 256, 64, True, 64, 64, **own)(Q, K, V)
Delta = flashattn_bwd_preprocess(1, 4, 256, 64)(O, dO)
dQ = torch.zeros(Q.shape, device="cuda")
dK, dV = (torch.zeros(K.shape, dtype=torch.float32 if own else torch.bfloat16, device="cuda") for _ in "KV")
flashattn_bwd_pipeline(1, 4, 256, 64, True, 64, 64, **own)(Q, K, V, dO, lse, Delta, dQ, dK, dV)
leaves = [x.cpu().float().requires_grad_() for x in (Q, K, V)]
wanted = ref_program(*leaves, True, **own)
wanted.backward(dO.cpu().float())
torch.testing.assert_close(O.cpu().float(), wanted, rtol=1e-2, atol=1e-2)
for got, leaf in zip((flashattn_bwd_postprocess(1, 4, 256, 64)(dQ), dK, dV), leaves):
    torch.testing.assert_close(got.cpu().float(), leaf.grad, rtol=2e-2, atol=2e-2)
"""

PROGRAMS = {
    # tier 1
    "deepseek_mhc/example_mhc_post.py": "test(n=64, h=2560)",
    "dsa_hisa/clean_and_maintain_logits.py": "test_clean_and_maintain_logits(256, 512, 2)",
    "dynamic_shape/example_dynamic.py": "main(256, 384, 512)",
    "elementwise/example_elementwise_add.py": "main(256, 512)",
    "flash_attention/example_gqa_fwd_bshd.py":
        "main(1, 8, 256, 64, False, 4); main(1, 8, 256, 64, True, 4)",
    "flash_attention/example_mha_fwd_bhsd.py":
        "main(1, 2, 256, 256, 64, False); main(1, 2, 256, 384, 64, True)",
    "flash_attention/example_mha_fwd_bshd.py": "main(1, 4, 256, 64, False); main(1, 4, 256, 64, True)",
    "gemm/example_gemm.py": "main()",
    "gemm/example_gemm_autotune.py": "main(256, 512, 384)",
    "gemm_splitk/example_tilelang_gemm_splitk.py": "main()",
    "gemv/example_gemv.py": "main(False)",
    "norm/layernorm.py": "",
    "norm/rms_norm.py": "test_rms_norm(256, 512, 1)",
    "online_softmax/online_softmax.py": "",
    "quickstart.py": "",
    "topk/example_topk.py": "main([])",
    "visual_layout_inference/visual_layout_inference.py": "main()",
    # tier 2
    "attention_sink/example_gqa_sink_bwd_bhsd.py":
        "main(1, 64, 128, 64, 2, None); main(1, 64, 256, 64, 2, 128)",
    "attention_sink/example_gqa_sink_fwd_varlen.py":
        "main(2, 8, 300, 300, 64, 4, True); main(1, 8, 200, 300, 64, 4, True, 128); main(1, 8, 200, 300, 64, 4, False)",
    "attention_sink/example_mha_sink_bwd_bhsd.py":
        "main(1, 64, 128, 64, None); main(1, 64, 256, 64, 128)",
    "attention_sink/example_mha_sink_fwd_bhsd.py":
        "main(1, 2, 256, 256, 64); main(1, 2, 256, 256, 64, 128); main(1, 2, 128, 256, 64, 128, T.bfloat16)",
    "blocksparse_attention/example_tilelang_block_sparse_attn.py": "test_topk_sparse_attention()",
    "blocksparse_gemm/example_blocksparse_gemm.py": "main()",
    "convolution/example_convolution.py": "main(['--n', '2', '--c', '64', '--h', '16', '--w', '16', '--f', '64'])",
    "convolution/example_convolution_autotune.py": "main(2, 64, 16, 16, 64, 3, 1, 1, 1)",
    "deepseek_mla/example_mla_decode.py": "main(1, 64, 1, 8192, 128, 64)",
    "deepseek_mla/example_mla_decode_paged.py": "",
    "deepseek_nsa/example_tilelang_nsa_decode.py": "main()",
    "deepseek_nsa/example_tilelang_nsa_fwd.py": "main()",
    "deepseek_v32/sparse_mla_fwd.py":
        "test_sparse_mla_fwd(1, 64, 512, 128, 1, 576, 512, 128)",
    "flash_attention/example_gqa_bwd.py":
        "main(1, 4, 256, 64, 64, 2, False, True); main(1, 4, 256, 64, 64, 2, True, False)",
    "flash_attention/example_mha_bwd_bhsd.py": "main(1, 2, 256, 64, False); main(1, 2, 256, 64, True)",
    "flash_attention/example_mha_bwd_bshd.py": "main(1, 2, 256, 64, False); main(1, 2, 256, 64, True)",
    "flash_decoding/example_gqa_decode.py": "similar = assert_similar\n"
        "assert_similar = lambda *a, **k: similar(*a, **{**k, 'assert_': True})\n"
        "main(1, 32, 8, 1024, 128)",
    "flash_decoding/example_gqa_decode_varlen_logits.py": "main()",
    "flash_decoding/example_mha_inference.py": "main(1, 2, 128, 512, 64, False)",
    "fusedmoe/example_fusedmoe_tilelang.py": "main(512, 256, 8, 1, 4, 1, 128)",
    "gemm/example_gemm_advanced_autotune.py": "main(256, 384, 512)",
    "gemm/example_gemm_persistent.py": "main(512, 512, 256)",
    "gemm_splitk/example_tilelang_gemm_splitk_vectorize_atomicadd.py": "main()",
    "gemm_streamk/example_tilelang_gemm_streamk.py": "main()",
    "grouped_gemm/example_grouped_gemm_bwd.py": "",
    "grouped_gemm/example_grouped_gemm_fwd.py": "run_tilelang_grouped_gemm([64, 100], 256, 256, 64, 64, 64, False)",
    "hadamard_transform/example_hadamard.py": "",
    "linear_attention/example_mamba_chunk_scan.py": "",
    "linear_attention/example_mamba_chunk_state.py": "",
    "seer_attention/block_sparse_attn_tilelang.py":
        "test_topk_sparse_attention(); test_topk_sparse_attention_qlen_lt_klen()",
    # tensor memory and tcgen05
    "aws/flash_attention.py": "main('flash_attention_ws', 1, 2, 512)",
    "aws/gemm.py": "main('gemm', 256, 2048, 256, block_N=128); main('gemm_ws', 256, 2048, 512, block_N=128)",
    "flash_attention_sm100/gqa_bwd_bshd.py": GRADIENTS.replace("GROUPS", "2, {'groups': 2}"),
    "flash_attention_sm100/gqa_fwd_bshd.py":
        "main(1, 4, 256, 128, False, 2, 'ss'); main(1, 4, 256, 128, True, 2, 'ts'); "
        "main(1, 4, 512, 128, False, 2, 'wasp'); main(1, 2, 384, 128, True, 1, 'wasp')",
    "flash_attention_sm100/mha_bwd_bshd.py": GRADIENTS.replace("GROUPS", "1, {}"),
    "flash_attention_sm100/mha_fwd_bshd.py":
        "main(1, 2, 256, 128, False, 'ss'); main(1, 2, 256, 128, True, 'ts'); "
        "main(1, 2, 512, 128, False, 'wasp'); main(1, 2, 384, 128, True, 'wasp')",
    "gemm_tcgen05/gemm_tcgen5mma.py": "",
    "gemm_tcgen05/gemm_tcgen5mma_ws.py": "",
    "gemm_tcgen05/gemm_tcgen5mma_ws_clc.py": "",
    "gemm_tcgen05/gemm_tcgen5mma_ws_persistent.py": "",
    # tier 3
    "attention_sink/example_gqa_sink_bwd_varlen.py": "main(1, 64, 128, 128, 64, 16, True)",
    "bitnet-1.58b/kernel_benchmark/tilelang_bitnet_158_int8xint2_decode.py": "",
    "bitnet-1.58b/kernel_benchmark/tilelang_bitnet_158_int8xint2_prefill.py": "",
    "block_causal_attention/block_causal_attention.py": "test_block_causal_attention_all_block_sizes()",
    "block_causal_attention/block_causal_attention_varlen.py": "test_block_causal_attention_varlen()",
    "deepseek_mhc/example_mhc_pre.py": "test(64, 1280, 4)",
    "deepseek_mla/example_mla_decode_persistent.py": "main()",
    "deepseek_mla/example_mla_decode_ws.py": "main(1, 128, 1, 1024, 512, 64)",
    "deepseek_v32/sparse_mla_bwd.py": "test_sparse_mla_bwd(1, 64, 256, 64, 1, 576, 512, 64)",
    "deepseek_v32/sparse_mla_fwd_pipelined.py": "test_sparse_mla_fwd_pipelined(1, 64, 1200, 128, 1, 576, 512, 128)",
    "deepseek_v32/sparse_mla_fwd_seesaw.py": "test_sparse_mla_fwd_pipelined(1, 64, 2300, 128, 1, 576, 512, 128)",
    "deepseek_v32/topk_selector.py":
        "x = torch.randn(4, 4096, device='cuda')\n"
        "starts = torch.zeros(4, dtype=torch.int32, device='cuda')\n"
        "got = tl_topk(x, starts, starts + 4096, 512)\n"
        "assert all(set(a.tolist()) == set(b.tolist()) for a, b in zip(got, torch.topk(x, 512)[1]))",
    "deepseek_v4/sparse_attn_fwd_sm90.py": "test_correctness(1, 8, 64, 512, 128, 128)",
    "dequantize_gemm/example_dequant_gemm_bf16_fp4_hopper.py": "main()",
    "dequantize_gemm/example_dequant_gemm_bf16_mxfp4_hopper.py": "main(); main(with_bias=True)",
    "dequantize_gemm/example_dequant_gemm_fine_grained.py": "main()",
    "dequantize_gemm/example_dequant_gemm_fp4_hopper.py": "main()",
    "dequantize_gemm/example_dequant_gemm_w4a8.py": "main()",
    "dequantize_gemm/example_dequant_gemv_fp16xint4.py": "main()",
    "dsa_sparse_finetune/indexer_bwd.py": "test_kernel(1, 2048, 16, 128, 64)",
    "dsa_sparse_finetune/indexer_topk_reducesum.py": "test_kernel(1, 2048, 16, 128, 64)",
    "dsa_sparse_finetune/sparse_mla_bwd.py": "test_sparse_mla_bwd(1, 128, 64, 1, 576, 512, 64)",
    "dsa_sparse_finetune/sparse_mla_fwd.py": "test_sparse_mla_fwd(1, 2048, 64, 1, 576, 512, 64)",
    "dsa_sparse_finetune/sparse_mla_topk_reducesum.py": "test_kernel(1, 2048, 16, 512, 64, 64)",
    "flash_attention/example_gqa_bwd_tma_reduce.py":
        "main(1, 4, 256, 64, 64, 2, False, True); main(1, 4, 256, 64, 64, 2, True, False)",
    "flash_attention/example_gqa_bwd_tma_reduce_varlen.py":
        "main(1, 4, 256, 64, 64, 2, False, True); main(1, 4, 256, 64, 64, 2, True, False)",
    "gemm/example_gemm_intrinsics.py": "main(256, 256, 256)",
    "gemm_int4/example_tilelang_gemm_int4.py": "main()",
    "gemm_sp/example_gemm_sp.py":
        "main(); main(256, 384, 512, T.float, T.int32, 128, 64, 128, 3); main(256, 256, 256, T.float, T.int8)",
    "grouped_gemm/example_grouped_gemm_fwd_ptr.py": "test_grouped_gemm_ptr()",
    "warp_specialize/example_warp_specialize_flashmla.py": "main()",
    "warp_specialize/example_warp_specialize_gemm_barrierpipe_stage2.py": "main(256, 256, 256)",
    "warp_specialize/example_warp_specialize_gemm_copy_0_gemm_1.py": "main(256, 256, 256)",
    "warp_specialize/example_warp_specialize_gemm_copy_1_gemm_0.py": "main(256, 256, 256)",
    "warp_specialize/example_warp_specialize_gemm_copy_gemm_0_1.py": "main()",
    "warp_specialize/example_warp_specialize_gemm_softpipe_stage2.py": "main(256, 256, 256)",
}

FLA = "its reference is the package fla, whose kernels are Triton's"
FLOAT8 = "Debian's PyTorch has no float8"
CLUSTER = "blocks of a cluster multiply together"
SPEED = "it measures, and compares nothing"

NOT_HERE = {
    "analyze/example_gemm_analyze.py": SPEED,
    "analyze/example_conv_analyze.py": SPEED,
    "gemm/example_gemm_autotune_early_stop.py": SPEED,
    "gemm/example_gemm_autotune_pass_configs.py": SPEED,
    "linear_attention/example_retention_fwd.py": SPEED,
    "cast/example_group_per_split_token_cast_to_fp8.py": FLOAT8,
    "cast/example_per_token_cast_to_fp8.py": FLOAT8,
    "deepseek_deepgemm/example_deepgemm_fp8_2xAcc.py": FLOAT8,
    "gemm_fp8/example_tilelang_gemm_fp8.py": FLOAT8,
    "gemm_fp8/example_tilelang_gemm_fp8_2xAcc.py": FLOAT8,
    "flash_attention/example_gqa_fwd_varlen.py": "it compares with the package flash_attn",
    "flash_attention/example_mha_fwd_varlen.py": "it compares with the package flash_attn",
    "deepseek_mhc/example_mhc_bwd.py": "it wants the package tqdm",
    "deepseek_nsa/example_tilelang_nsa_bwd.py": FLA,
    "deepseek_nsa/example_tilelang_nsa_fwd_varlen.py": FLA,
    "minference/example_vertical_slash_sparse_attn.py": "it builds an extension of PyTorch",
    "rand/rand_uint.py": "it compares with Triton",
    "gdn/example_chunk_delta_h.py": FLA,
    "gdn/example_chunk_o.py": FLA,
    "gdn/example_chunk_scaled_dot_kkt.py": FLA,
    "gdn/example_cumsum.py": FLA,
    "gdn/example_wy_fast.py": FLA,
    "kda/chunk_bwd_dv.py": FLA,
    "kda/chunk_bwd_gla_dA.py": FLA,
    "kda/chunk_o.py": FLA,
    "kda/wy_fast.py": FLA,
    "linear_attention/example_linear_attn_bwd.py": FLA,
    "linear_attention/example_linear_attn_fwd.py": FLA,
    "gemm_fp8/example_tilelang_gemm_fp8_sm100.py": FLOAT8,
    "gemm_tcgen05/gemm_mma.py": "a kernel without a program",
    "gemm_tcgen05/gemm_tcgen5mma_ws_persistent_streamk.py": CLUSTER,
    "blockscaled_gemm_sm100/gemm_mxfp8_blockscaled_1d1d.py": FLOAT8,
    "blockscaled_gemm_sm100/grouped_gemm_mxfp8_blockscaled_1d1d.py": FLOAT8,
    "deepseek_v4/fp8_fp4_gemm_1d1d_sm100.py": FLOAT8,
}

# Of those, what runs where the reference can: on a GPU, with its PyTorch and Triton.
ON_DEVICE = {
    "cast/example_group_per_split_token_cast_to_fp8.py": "main(1024, 1024, 2, 8, [384, 640])",
    "cast/example_per_token_cast_to_fp8.py": "main(1024, 1024, 8)",
    "deepseek_deepgemm/example_deepgemm_fp8_2xAcc.py": "main()",
    "gemm_fp8/example_tilelang_gemm_fp8.py": "main()",
    "gemm_fp8/example_tilelang_gemm_fp8_2xAcc.py": "main()",
    "rand/rand_uint.py": "test_rand_1d(1024, 42); test_rand_1d(512, 123); test_rand_1d(128, 0)",
}

REFUSED = {  # by the compiler, in these words
    "aws/flash_attention.py": "under a condition that differs between threads",
    "bitnet-1.58b/kernel_benchmark/tilelang_bitnet_158_int8xint2_prefill.py": "INT4TensorCoreIntrinEmitter",
    "gemm_tcgen05/gemm_tcgen5mma_ws_clc.py": "'break' in a loop that is not serial",
}

ARGUMENTS = {
    "gemm_tcgen05/gemm_tcgen5mma_ws.py": "--m 384 --n 512 --k 512 --no-enable_2cta_tcgen5mma --block_N 128",
    "gemm_tcgen05/gemm_tcgen5mma_ws_clc.py": "--m 512 --n 4096 --k 512",
    "gemm_tcgen05/gemm_tcgen5mma_ws_persistent.py":
        "--m 256 --n 2048 --k 512 --no-enable_2cta_tcgen5mma --block_N 128 --no-use_tma_store",
    "hadamard_transform/example_hadamard.py": "--batch 8 --dim 4096",
    "deepseek_mla/example_mla_decode_paged.py": "--batch 2 --h_q 64 --cache_seqlen 300 --d 192 --dv 128",
    "grouped_gemm/example_grouped_gemm_bwd.py": "--K 256 --M 256 --batch_sizes 64,100",
    "linear_attention/example_mamba_chunk_scan.py":
        "--batch 1 --heads 4 --seq_len 512 --chunk_size 128 --dim 64 --dstate 64",
    "linear_attention/example_mamba_chunk_state.py":
        "--batch 1 --heads 8 --seq_len 1024 --chunk_size 256 --dim 64 --dstate 128",
}

# Programs that compare by functions of their own, which raise what they find.
OWN_WORDS = {
    "deepseek_deepgemm/example_deepgemm_fp8_2xAcc.py",
    "deepseek_v32/sparse_mla_bwd.py",
    "deepseek_v32/sparse_mla_fwd.py",
    "deepseek_v32/topk_selector.py",
    "dsa_sparse_finetune/indexer_bwd.py",
    "dsa_sparse_finetune/indexer_topk_reducesum.py",
    "dsa_sparse_finetune/sparse_mla_bwd.py",
    "dsa_sparse_finetune/sparse_mla_fwd.py",
    "dsa_sparse_finetune/sparse_mla_topk_reducesum.py",
    "flash_decoding/example_gqa_decode.py",
    "gemm_fp8/example_tilelang_gemm_fp8.py",
    "gemm_fp8/example_tilelang_gemm_fp8_2xAcc.py",
}
