/* ptxas_preload.c, compiled and linked, as data. Its path is set by CMake. */
    .section .rodata
    .global kiln_ptxas_preload
    .global kiln_ptxas_preload_end
    .balign 16
kiln_ptxas_preload:
    .incbin KILN_PTXAS_PRELOAD
kiln_ptxas_preload_end:
    .section .note.GNU-stack,"",@progbits
