/* raw_syscall.h -- system calls without libc, and a clone that starts a function on its own stack.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:    keeper.c, and whoever may not touch errno, thread-local storage or a cancellation
 *           point.
 * Holds:    every call returns what the kernel does: a value, or -errno. Nothing is written but
 *           through the arguments.
 * Not here: anything libc does around a call (cancellation, errno, fork handlers).
 */
#ifndef VG_RAW_SYSCALL_H
#define VG_RAW_SYSCALL_H

#include <sys/syscall.h>

/* Code that runs without a usable libc thread: sanitizers and the stack protector would look for
 * thread-local storage. */
#ifndef __has_attribute
#define __has_attribute(x) 0
#endif
#if __has_attribute(disable_sanitizer_instrumentation)
#define VG_BARE_SANITIZER disable_sanitizer_instrumentation, no_sanitize("address", "undefined")
#else
#define VG_BARE_SANITIZER no_sanitize("address", "thread", "undefined")
#endif
#if __has_attribute(no_stack_protector)
#define VG_BARE __attribute__((VG_BARE_SANITIZER, no_stack_protector))
#else
#define VG_BARE __attribute__((VG_BARE_SANITIZER))
#endif

#if defined(__x86_64__)

static inline VG_BARE long vg_raw_syscall(long number, long a, long b, long c, long d, long e,
                                          long f)
{
    long rc;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(rc)
                     : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return rc;
}

/* Starts body(arg) in a new task on the stack that ends at stack_top (16-byte aligned); body must
 * not return. In the caller: the new task's id or -errno. `tls` and `cleared` matter only with the
 * flags that name them. */
static inline VG_BARE long vg_raw_clone(unsigned long flags, void *stack_top, void (*body)(void *),
                                        void *arg, void *tls, void *cleared)
{
    long rc;
    register long r10 __asm__("r10") = (long)cleared;
    register long r8 __asm__("r8") = (long)tls;
    register void (*r12)(void *) __asm__("r12") = body;
    register void *r13 __asm__("r13") = arg;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t" /* the new task: the outermost frame of its stack */
                     "mov %%r13, %%rdi\n\t"
                     "call *%%r12\n\t"
                     "ud2\n"
                     "1:"
                     : "=a"(rc)
                     : "0"((long)SYS_clone), "D"(flags), "S"(stack_top), "d"(0L), "r"(r10), "r"(r8),
                       "r"(r12), "r"(r13)
                     : "rcx", "r11", "memory", "cc");
    return rc;
}

#elif defined(__aarch64__)

static inline VG_BARE long vg_raw_syscall(long number, long a, long b, long c, long d, long e,
                                          long f)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc #0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory", "cc");
    return x0;
}

/* As above; here the kernel takes tls before the cleared word. */
static inline VG_BARE long vg_raw_clone(unsigned long flags, void *stack_top, void (*body)(void *),
                                        void *arg, void *tls, void *cleared)
{
    register long x8 __asm__("x8") = SYS_clone;
    register long x0 __asm__("x0") = (long)flags;
    register void *x1 __asm__("x1") = stack_top;
    register long x2 __asm__("x2") = 0;
    register void *x3 __asm__("x3") = tls;
    register void *x4 __asm__("x4") = cleared;
    register void (*x20)(void *) __asm__("x20") = body;
    register void *x21 __asm__("x21") = arg;
    __asm__ volatile("svc #0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x29, xzr\n\t" /* the new task: the outermost frame of its stack */
                     "mov x30, xzr\n\t"
                     "mov x0, x21\n\t"
                     "blr x20\n\t"
                     "brk #1\n"
                     "1:"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x20), "r"(x21)
                     : "memory", "cc");
    return x0;
}

#else
#error "raw_syscall.h knows x86-64 and aarch64; add the two functions for this machine"
#endif

/* VG_CALL(openat, AT_FDCWD, path, flags): one to six arguments; a call without any takes a 0. */
#define VG_CALL(name, ...)                                                                         \
    VG_CALL_PICK(__VA_ARGS__, VG_CALL6, VG_CALL5, VG_CALL4, VG_CALL3, VG_CALL2, VG_CALL1, )        \
    (name, __VA_ARGS__)
#define VG_CALL_PICK(a, b, c, d, e, f, pick, ...) pick
#define VG_CALL6(name, a, b, c, d, e, f)                                                           \
    vg_raw_syscall(SYS_##name, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
#define VG_CALL5(name, a, b, c, d, e) VG_CALL6(name, a, b, c, d, e, 0)
#define VG_CALL4(name, a, b, c, d)    VG_CALL6(name, a, b, c, d, 0, 0)
#define VG_CALL3(name, a, b, c)       VG_CALL6(name, a, b, c, 0, 0, 0)
#define VG_CALL2(name, a, b)          VG_CALL6(name, a, b, 0, 0, 0, 0)
#define VG_CALL1(name, a)             VG_CALL6(name, a, 0, 0, 0, 0, 0)

#endif
