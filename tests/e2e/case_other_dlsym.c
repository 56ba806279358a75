/* case_other_dlsym.c -- another preload library that replaces dlsym too, as profilers do.
 * SPDX-License-Identifier: Apache-2.0
 *
 * It ends in a tail jump to whoever comes next, and says at the end that it was asked.
 */
#include <dlfcn.h>

#include "case.h"

#ifdef __aarch64__
#define OLDEST "GLIBC_2.17"
#else
#define OLDEST "GLIBC_2.2.5"
#endif

typedef void *dlsym_fn(void *, const char *);
static unsigned asked;

__attribute__((optimize("O2", "optimize-sibling-calls"))) void *dlsym(void *handle,
                                                                      const char *name)
{
    static dlsym_fn *next;
    if (!next) {
        void *found = dlvsym(RTLD_NEXT, "dlsym", OLDEST);
        NEED(found);
        memcpy(&next, &found, sizeof next);
        void *volatile behind_us = next(RTLD_NEXT, "dlsym");
        found = behind_us;
        memcpy(&next, &found, sizeof next);
    }
    asked++;
    return next(handle, name);
}

__attribute__((destructor)) static void tell(void)
{
    if (asked)
        puts("other: asked");
}
