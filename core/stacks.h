/* stacks.h -- interned strings, modules, frames and stacks of a record.
 * SPDX-License-Identifier: Apache-2.0
 *
 * With the private indexes that find them again.
 *
 * Threads: the caller holds the ledger lock. Ids are those of the record (index + 1; 0: none, or
 * the record is full).
 */
#ifndef VG_STACKS_H
#define VG_STACKS_H

#include "core/arena.h"
#include "core/record.h"

struct vg_stacks {
    struct vg_record *record;
    struct vg_arena *arena;
    struct vg_string_node *strings; /* uthash heads, defined in stacks.c and strings.c */
    struct vg_frame_node *frames;
    struct vg_stack_node *stacks;
};

/* Ends at a NUL; what is longer than VG_STRING_MAX is cut between two characters of UTF-8. */
enum { VG_STRING_MAX = 32 * 1024 };
uint32_t vg_strings_intern(struct vg_stacks *stacks, const char *text, size_t length);
uint32_t vg_strings_intern_z(struct vg_stacks *stacks, const char *text); /* NULL and "" give 0 */

uint32_t
vg_stacks_module(struct vg_stacks *stacks,
                 const struct vg_module *module); /* always a new one; the caller knows when */
uint32_t vg_stacks_frame_native(struct vg_stacks *stacks, uint32_t module, uint64_t offset);
uint32_t vg_stacks_frame_python(struct vg_stacks *stacks, uint32_t file, uint32_t function,
                                int32_t line);
/* frames: native then Python, at most VG_STACK_FRAMES_MAX in all. Equal lists give equal ids. */
uint32_t vg_stacks_intern(struct vg_stacks *stacks, const uint32_t *frames, uint32_t native,
                          uint32_t python, bool cut);

#endif
