/* strings.c -- interned strings of a record.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/index.h"
#include "core/stacks.h"

struct vg_string_node {
    uint32_t id;
    UT_hash_handle hh; /* the key is the text in the record */
};

/* Where to cut at VG_STRING_MAX so that no character of UTF-8 is cut in two. */
static size_t cut(const char *text)
{
    size_t length = VG_STRING_MAX;
    while (length > VG_STRING_MAX - 4 && ((unsigned char)text[length] & 0xc0) == 0x80) {
        length--;
    }
    return length;
}

uint32_t vg_strings_intern(struct vg_stacks *stacks, const char *text, size_t length)
{
    struct vg_arena *index_arena = stacks->arena;
    length = text ? strnlen(text, length) : 0;
    if (length > VG_STRING_MAX) {
        length = cut(text);
    }
    if (!length) {
        return 0;
    }
    struct vg_string_node *node = NULL;
    HASH_FIND(hh, stacks->strings, text, length, node);
    if (node) {
        return node->id;
    }
    uint32_t words = 1 + (uint32_t)(length / sizeof(uint32_t) + 1);
    uint64_t index;
    uint32_t *at = vg_record_reserve(stacks->record, VG_SEC_STRINGS, words, &index);
    node = at ? vg_arena_alloc(index_arena, sizeof *node) : NULL;
    if (!node) {
        return 0;
    }
    at[0] = (uint32_t)length;
    memcpy(at + 1, text, length);
    node->id = (uint32_t)index + 1;
    HASH_ADD_KEYPTR(hh, stacks->strings, (char *)(at + 1), length, node);
    if (!node->hh.tbl) {
        vg_arena_free(index_arena, node, sizeof *node);
        return 0;
    }
    vg_record_publish(stacks->record, VG_SEC_STRINGS, index + words);
    return node->id;
}

uint32_t vg_strings_intern_z(struct vg_stacks *stacks, const char *text)
{
    return text ? vg_strings_intern(stacks, text, strnlen(text, VG_STRING_MAX + 1)) : 0;
}
