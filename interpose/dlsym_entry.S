/* dlsym_entry.S -- dlsym, interposed by a jump.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What dlsym answers for RTLD_NEXT and RTLD_DEFAULT depends on its return address (glibc takes the calling module from it), so the caller's frame must
 * still be on top when the real one runs: a wrapper in C that calls it gives wrong answers (measured: recursion, and NULL inside RTLD_LOCAL libraries).
 * Here only vg_dlsym_target(handle, name) is called, with the arguments kept, and then jumped to what it returned. 0: no dlsym at all, NULL is the answer.
 */
        .text
        .globl  dlsym
        .type   dlsym, %function

#if defined(__x86_64__)
        .p2align 4
dlsym:
        .cfi_startproc
        .byte   0xf3, 0x0f, 0x1e, 0xfa          /* endbr64 */
        pushq   %rdi
        .cfi_adjust_cfa_offset 8
        pushq   %rsi
        .cfi_adjust_cfa_offset 8
        subq    $8, %rsp                        /* 16-aligned at the call */
        .cfi_adjust_cfa_offset 8
        call    vg_dlsym_target
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        popq    %rsi
        .cfi_adjust_cfa_offset -8
        popq    %rdi
        .cfi_adjust_cfa_offset -8
        testq   %rax, %rax
        jz      1f
        jmp     *%rax
1:      ret
        .cfi_endproc
        .size   dlsym, .-dlsym

#elif defined(__aarch64__)
        .p2align 4
dlsym:
        .cfi_startproc
        hint    #34                             /* bti c */
        stp     x29, x30, [sp, #-32]!
        .cfi_adjust_cfa_offset 32
        .cfi_rel_offset x29, 0
        .cfi_rel_offset x30, 8
        stp     x0, x1, [sp, #16]
        mov     x29, sp
        bl      vg_dlsym_target
        mov     x16, x0
        ldp     x0, x1, [sp, #16]
        ldp     x29, x30, [sp], #32
        .cfi_adjust_cfa_offset -32
        .cfi_restore x29
        .cfi_restore x30
        cbz     x16, 1f
        br      x16
1:      mov     x0, xzr
        ret
        .cfi_endproc
        .size   dlsym, .-dlsym
#else
#error "dlsym_entry.S knows x86-64 and aarch64"
#endif
        .section .note.GNU-stack, "", %progbits
