/* alloc.h -- memory for the tool.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A command line program that is out of host memory says so and ends.
 */
#ifndef VG_ALLOC_H
#define VG_ALLOC_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void *vg_need(void *memory)
{
    if (!memory) {
        fputs("vramguard: out of host memory\n", stderr);
        abort();
    }
    return memory;
}
static inline void *vg_alloc(size_t count, size_t bytes) /* zeroed */
{
    return vg_need(calloc(count ? count : 1, bytes));
}
static inline void *vg_realloc(void *memory, size_t count, size_t bytes)
{
    return vg_need(reallocarray(memory, count ? count : 1, bytes));
}
static inline char *vg_copy(const char *text)
{
    return vg_need(strdup(text));
}

#endif
