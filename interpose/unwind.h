/* unwind.h -- native stacks of the calling thread.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VG_UNWIND_H
#define VG_UNWIND_H

#include <stdbool.h>
#include <stdint.h>

/* Opens the unwinder: libunwind.so.8 privately (in the global scope it would take over every C++
 * throw of the program), else libgcc_s. Once. */
void vg_unwind_init(void);
/* "libunwind", "libgcc_s" or "none". */
const char *vg_unwind_name(void);
bool vg_unwind_is_there(void);
/* Return addresses, innermost first, our own frames included; at most max. */
unsigned vg_unwind(uint64_t *out, unsigned max);
/* A library was unloaded: what is cached about its code is void. */
void vg_unwind_flush(void);

#endif
