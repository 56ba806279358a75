/* symbolize.h -- the frames of a record as names, files and lines.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:   view -> symbolize -> renderers. The only part of the tool that opens other programs'
 *          files.
 * Holds:   a name is given only where the file on disk is the one that was mapped (same build id;
 *          without one: not changed since the process started). Anything else is module and offset
 *          only. Nothing here goes to the network.
 * Threads: used by one thread.
 */
#ifndef VG_SYMBOLIZE_H
#define VG_SYMBOLIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/view.h"

struct vg_text_frame {
    const char *lang;     /* "native" | "python" */
    const char *function; /* the plain name: no parameter list, no return type; NULL unknown */
    const char *file;     /* NULL unknown */
    int line;             /* 0 unknown */
    const char *module;   /* path or NULL */
    bool has_offset;
    uint64_t offset;  /* in the module; without a module: the address */
    bool guard;       /* a frame of libvramguard itself: cut */
    bool interpreter; /* CPython's own frames: left out of the text */
    /* of the call's return address in `function`, where function is known and line is not:
     * function+0x.. */
    uint64_t function_offset;
};

struct vg_symbols; /* indexes symbols once per module, lazily */

/* The view must stay open as long as the symbols are. Aborts only where malloc fails. */
struct vg_symbols *vg_symbols_open(const struct vg_view *view);
void vg_symbols_close(struct vg_symbols *symbols);
/* The frames of a stack: native ones innermost first, inlined functions as frames of their own,
 * then Python's. Valid until vg_symbols_close(). Returns how many; 0 for stack 0 and damaged
 * ones. */
unsigned vg_symbols_stack(struct vg_symbols *symbols, uint32_t stack,
                          const struct vg_text_frame **frames_out);

/* A linker symbol as its plain name, to be freed: C++ demangled, without return type, parameters
 * and compiler suffixes; long template arguments become <...>. */
char *vg_symbols_plain_name(const char *symbol);

#endif
