/* arena.h -- memory for the private indexes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Our own mmap, never libc's malloc, so that a hook inside malloc cannot meet itself.
 */
#ifndef VG_ARENA_H
#define VG_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct vg_arena {
    uint8_t *next, *end;
    struct vg_arena_piece *given_back; /* small pieces, found again by their exact size */
    uint64_t mapped_bytes;
};
/* 16-aligned, zeroed; NULL where the kernel gives none. Pieces of 64 KiB and more are mappings of
 * their own. */
void *vg_arena_alloc(struct vg_arena *arena, size_t bytes);
/* Large pieces go back to the kernel, small ones are used again for requests of the same size
 * (uthash frees its tables whenever an index runs empty, so a program with one allocation at a time
 * would grow without that). */
void vg_arena_free(struct vg_arena *arena, void *piece, size_t bytes);

#endif
