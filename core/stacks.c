/* stacks.c -- interned modules, frames and stacks of a record.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An element is in its index before it is published: what could not be indexed is not in the record
 * either, and is not written again and again.
 */
#include "core/stacks.h"

#include "core/index.h"

struct vg_frame_node {
    uint32_t id;
    UT_hash_handle hh; /* the key is the struct vg_frame in the record */
};

struct vg_stack_node {
    uint32_t id;
    UT_hash_handle hh; /* the key is the frames in the record */
};

uint32_t vg_stacks_module(struct vg_stacks *stacks, const struct vg_module *module)
{
    uint64_t index;
    struct vg_module *at = vg_record_reserve(stacks->record, VG_SEC_MODULES, 1, &index);
    if (!at) {
        return 0;
    }
    *at = *module;
    vg_record_publish(stacks->record, VG_SEC_MODULES, index + 1);
    return (uint32_t)index + 1;
}

static uint32_t intern_frame(struct vg_stacks *stacks, const struct vg_frame *frame)
{
    struct vg_arena *index_arena = stacks->arena;
    struct vg_frame_node *node = NULL;
    HASH_FIND(hh, stacks->frames, frame, sizeof *frame, node);
    if (node) {
        return node->id;
    }
    uint64_t index;
    struct vg_frame *at = vg_record_reserve(stacks->record, VG_SEC_FRAMES, 1, &index);
    node = at ? vg_arena_alloc(index_arena, sizeof *node) : NULL;
    if (!node) {
        return 0;
    }
    *at = *frame;
    node->id = (uint32_t)index + 1;
    HASH_ADD_KEYPTR(hh, stacks->frames, at, sizeof *at, node);
    if (!node->hh.tbl) {
        vg_arena_free(index_arena, node, sizeof *node);
        return 0;
    }
    vg_record_publish(stacks->record, VG_SEC_FRAMES, index + 1);
    return node->id;
}

uint32_t vg_stacks_frame_native(struct vg_stacks *stacks, uint32_t module, uint64_t offset)
{
    struct vg_frame frame = {.lang = VG_LANG_NATIVE, .module = module, .offset = offset};
    return intern_frame(stacks, &frame);
}

uint32_t vg_stacks_frame_python(struct vg_stacks *stacks, uint32_t file, uint32_t function,
                                int32_t line)
{
    struct vg_frame frame = {
        .lang = VG_LANG_PYTHON, .file = file, .function = function, .line = line};
    return intern_frame(stacks, &frame);
}

/* The head is part of the hash and not of the key: multiplied by an odd number, different heads of
 * equal frames give different hashes. So nothing is copied to look a stack up. */
static uint32_t intern(struct vg_stacks *stacks, uint32_t head, const uint32_t *frames,
                       uint32_t count)
{
    struct vg_arena *index_arena = stacks->arena;
    struct vg_stack_node *node = NULL;
    size_t bytes = count * sizeof *frames;
    unsigned hash = vg_index_hash(frames, bytes) ^ head * 0x9e3779b1u;
    HASH_FIND_BYHASHVALUE(hh, stacks->stacks, frames, bytes, hash, node);
    if (node) {
        return node->id;
    }
    uint64_t index;
    uint32_t *at = vg_record_reserve(stacks->record, VG_SEC_STACKS, 1 + count, &index);
    node = at ? vg_arena_alloc(index_arena, sizeof *node) : NULL;
    if (!node) {
        return 0;
    }
    at[0] = head;
    memcpy(at + 1, frames, bytes);
    node->id = (uint32_t)index + 1;
    HASH_ADD_KEYPTR_BYHASHVALUE(hh, stacks->stacks, at + 1, bytes, hash, node);
    if (!node->hh.tbl) {
        vg_arena_free(index_arena, node, sizeof *node);
        return 0;
    }
    vg_record_publish(stacks->record, VG_SEC_STACKS, index + 1 + count);
    return node->id;
}

uint32_t vg_stacks_intern(struct vg_stacks *stacks, const uint32_t *frames, uint32_t native,
                          uint32_t python, bool cut)
{
    if (native > VG_STACK_FRAMES_MAX) {
        native = VG_STACK_FRAMES_MAX;
        cut = true;
    }
    if (python > VG_STACK_FRAMES_MAX - native) {
        python = VG_STACK_FRAMES_MAX -
                 native; /* none where native frames were cut: the rest stays in one piece */
        cut = true;
    }
    if (native + python == 0) {
        return 0;
    }
    return intern(stacks, vg_stack_head(native, python, cut), frames, native + python);
}
