/* arena.c -- memory for the private indexes.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/arena.h"

#include <string.h>
#include <sys/mman.h>

enum { ALIGN = 16, BLOCK = 256 * 1024, OWN_MAPPING = 64 * 1024, PAGE = 4096 };

struct vg_arena_piece {
    struct vg_arena_piece *next;
    size_t bytes;
};

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static void *map(struct vg_arena *arena, size_t bytes)
{
    void *piece = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (piece == MAP_FAILED) {
        return NULL;
    }
    arena->mapped_bytes += bytes;
    return piece;
}

static void *take_given_back(struct vg_arena *arena, size_t bytes)
{
    for (struct vg_arena_piece **at = &arena->given_back; *at; at = &(*at)->next) {
        struct vg_arena_piece *piece = *at;
        if (piece->bytes == bytes) {
            *at = piece->next;
            return memset(piece, 0, bytes);
        }
    }
    return NULL;
}

void *vg_arena_alloc(struct vg_arena *arena, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) {
        return NULL;
    }
    bytes = round_up(bytes ? bytes : 1, ALIGN);
    if (bytes >= OWN_MAPPING) {
        return map(arena, round_up(bytes, PAGE));
    }
    void *piece = take_given_back(arena, bytes);
    if (piece) {
        return piece;
    }
    if (!arena->next || (size_t)(arena->end - arena->next) < bytes) {
        uint8_t *block = map(arena, BLOCK);
        if (!block) {
            return NULL;
        }
        arena->next = block;
        arena->end = block + BLOCK;
    }
    piece = arena->next;
    arena->next += bytes;
    return piece;
}

void vg_arena_free(struct vg_arena *arena, void *piece, size_t bytes)
{
    if (!piece) {
        return;
    }
    bytes = round_up(bytes ? bytes : 1, ALIGN);
    if (bytes >= OWN_MAPPING) {
        munmap(piece, round_up(bytes, PAGE));
        arena->mapped_bytes -= round_up(bytes, PAGE);
        return;
    }
    struct vg_arena_piece *back = piece;
    back->bytes = bytes;
    back->next = arena->given_back;
    arena->given_back = back;
}
