/* stacks.c -- interned modules, frames and stacks of a record.
 * SPDX-License-Identifier: Apache-2.0
 *
 * An element is in its index before it is published: what could not be indexed is not in the record either, and is not written again and
 * again.
 */
#include "core/stacks.h"

#include "core/index.h"

struct vg_frame_node {
    uint32_t id;
    UT_hash_handle hh; /* the key is the struct vg_frame in the record */
};

struct vg_stack_node {
    uint32_t id;
    UT_hash_handle hh; /* the key is head and frames in the record */
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

static uint32_t intern_words(struct vg_stacks *stacks, const uint32_t *words, uint32_t count)
{
    struct vg_arena *index_arena = stacks->arena;
    struct vg_stack_node *node = NULL;
    size_t bytes = count * sizeof *words;
    HASH_FIND(hh, stacks->stacks, words, bytes, node);
    if (node) {
        return node->id;
    }
    uint64_t index;
    uint32_t *at = vg_record_reserve(stacks->record, VG_SEC_STACKS, count, &index);
    node = at ? vg_arena_alloc(index_arena, sizeof *node) : NULL;
    if (!node) {
        return 0;
    }
    memcpy(at, words, bytes);
    node->id = (uint32_t)index + 1;
    HASH_ADD_KEYPTR(hh, stacks->stacks, at, bytes, node);
    if (!node->hh.tbl) {
        vg_arena_free(index_arena, node, sizeof *node);
        return 0;
    }
    vg_record_publish(stacks->record, VG_SEC_STACKS, index + count);
    return node->id;
}

uint32_t vg_stacks_intern(struct vg_stacks *stacks, const uint32_t *frames, uint32_t native,
                          uint32_t python, bool cut)
{
    const uint32_t *python_frames = frames + native;
    if (native > VG_STACK_FRAMES_MAX) {
        native = VG_STACK_FRAMES_MAX;
        cut = true;
    }
    if (python > VG_STACK_FRAMES_MAX - native) {
        python = VG_STACK_FRAMES_MAX - native;
        cut = true;
    }
    if (native + python == 0) {
        return 0;
    }
    uint32_t words[1 + VG_STACK_FRAMES_MAX];
    words[0] = vg_stack_head(native, python, cut);
    memcpy(words + 1, frames, native * sizeof *words);
    memcpy(words + 1 + native, python_frames, python * sizeof *words);
    return intern_words(stacks, words, 1 + native + python);
}
