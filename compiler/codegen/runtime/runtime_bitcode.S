/* The run-time support as data: see cpu_runtime.c. KILN_RUNTIME_BITCODE is set by CMake. */
    .section .rodata
    .global kiln_runtime_bitcode
    .global kiln_runtime_bitcode_end
    .balign 16
kiln_runtime_bitcode:
    .incbin KILN_RUNTIME_BITCODE
kiln_runtime_bitcode_end:
    .section .note.GNU-stack,"",@progbits
