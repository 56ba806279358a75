/* unsupported.c -- the runtime functions that exist here only so that programs link.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each one says so.
 *
 * Not here:   their prototypes. The callers' arguments are ignored, which the calling conventions
 *             of x86-64 and aarch64 allow; including the toolkit's header here would clash.
 */
#ifdef VGSIM_STATIC_RUNTIME
#define EXPORT __attribute__((visibility("hidden")))
#else
#define EXPORT __attribute__((visibility("default")))
#endif

int vgsim_runtime_unsupported(void);

#define UNSUPPORTED(name)                                                                          \
    EXPORT int name(void);                                                                         \
    int name(void)                                                                                 \
    {                                                                                              \
        return vgsim_runtime_unsupported();                                                        \
    }
#include "unsupported.def"
