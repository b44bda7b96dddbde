/* The run-time support as data: see cpu_runtime.c and gpu_runtime.c, with the text of
 * kiln_launch.h, which generated headers repeat. Both paths are set by CMake. */
    .section .rodata
    .global kiln_runtime_bitcode
    .global kiln_runtime_bitcode_end
    .balign 16
kiln_runtime_bitcode:
    .incbin KILN_RUNTIME_BITCODE
kiln_runtime_bitcode_end:
    .global kiln_gpu_runtime_bitcode
    .global kiln_gpu_runtime_bitcode_end
    .balign 16
kiln_gpu_runtime_bitcode:
    .incbin KILN_GPU_RUNTIME_BITCODE
kiln_gpu_runtime_bitcode_end:
    .global kiln_launch_header
    .global kiln_launch_header_end
kiln_launch_header:
    .incbin KILN_LAUNCH_HEADER
kiln_launch_header_end:
    .section .note.GNU-stack,"",@progbits
