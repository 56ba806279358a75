/* index.h -- how the private indexes use uthash.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Memory from an arena, no exit() where there is none, one hash for all keys.
 *
 * Whoever adds or deletes has a local `struct vg_arena *index_arena`. An add that found no memory
 * leaves item->hh.tbl NULL.
 */
#ifndef VG_INDEX_H
#define VG_INDEX_H

#include <string.h>

#include "core/arena.h"

static inline uint64_t vg_index_mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
    return hash << 29 | hash >> 35;
}

/* Two chains beside each other: a multiplication takes longer than the next word. */
static inline unsigned vg_index_hash(const void *key, size_t bytes)
{
    const uint8_t *at = key;
    uint64_t first = bytes, second = ~(uint64_t)bytes, words[2];
    for (; bytes >= sizeof words; bytes -= sizeof words, at += sizeof words) {
        memcpy(words, at, sizeof words);
        first = vg_index_mix(first, words[0]);
        second = vg_index_mix(second, words[1]);
    }
    if (bytes) {
        words[0] = words[1] = 0;
        memcpy(words, at, bytes);
        first = vg_index_mix(first, words[0]);
        second = vg_index_mix(second, words[1]);
    }
    first = vg_index_mix(first, second) * 0x9e3779b97f4a7c15u;
    return (unsigned)(first >> 32);
}

#define HASH_NONFATAL_OOM                 1
#define HASH_FUNCTION(key, length, hashv) ((hashv) = vg_index_hash((key), (length)))
#define uthash_malloc(bytes)              vg_arena_alloc(index_arena, (bytes))
#define uthash_free(piece, bytes)         vg_arena_free(index_arena, (piece), (bytes))
#include <uthash.h>

#endif
