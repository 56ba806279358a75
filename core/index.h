/* index.h -- how the private indexes use uthash: memory from an arena, no exit() where there is none, one hash for all keys.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Whoever adds or deletes has a local `struct vg_arena *index_arena`. An add that found no memory leaves item->hh.tbl NULL.
 */
#ifndef VG_INDEX_H
#define VG_INDEX_H

#include <string.h>

#include "core/arena.h"

static inline unsigned vg_index_hash(const void *key, size_t bytes)
{
    const uint64_t factor = 0x9e3779b97f4a7c15u;
    const uint8_t *at = key;
    uint64_t hash = bytes * factor, word;
    for (; bytes >= sizeof word; bytes -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        hash = (hash ^ word) * factor;
        hash ^= hash >> 32;
    }
    if (bytes) {
        word = 0;
        memcpy(&word, at, bytes);
        hash = (hash ^ word) * factor;
    }
    return (unsigned)(hash >> 32);
}

#define HASH_NONFATAL_OOM                 1
#define HASH_FUNCTION(key, length, hashv) ((hashv) = vg_index_hash((key), (length)))
#define uthash_malloc(bytes)              vg_arena_alloc(index_arena, (bytes))
#define uthash_free(piece, bytes)         vg_arena_free(index_arena, (piece), (bytes))
#include <uthash.h>

#endif
