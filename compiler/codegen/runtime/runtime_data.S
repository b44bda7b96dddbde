/* The run-time support as data: cpu_runtime.c as bitcode, gpu_runtime.c as assembly, with the text of
 * kiln_launch.h, which generated headers repeat. The paths are set by CMake. */
    .section .rodata
    .global kiln_cpu_runtime_bitcode
    .global kiln_cpu_runtime_bitcode_end
    .balign 16
kiln_cpu_runtime_bitcode:
    .incbin KILN_CPU_RUNTIME
kiln_cpu_runtime_bitcode_end:
    .global kiln_gpu_runtime_assembly
    .global kiln_gpu_runtime_assembly_end
kiln_gpu_runtime_assembly:
    .incbin KILN_GPU_RUNTIME
kiln_gpu_runtime_assembly_end:
    .global kiln_launch_header
    .global kiln_launch_header_end
kiln_launch_header:
    .incbin KILN_LAUNCH_HEADER
kiln_launch_header_end:
    .section .note.GNU-stack,"",@progbits
