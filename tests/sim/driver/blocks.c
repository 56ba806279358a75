/* blocks.c -- every range of memory that the driver knows: found by any address in it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Holds:      live spans never overlap; a kind's requested bytes are the sum of its blocks' bytes,
 *             except that mapped memory (vmm) is counted by its handles, in vmm.c, and memory of
 *             graphs by what their launches made, in graph_memory.c.
 */
#include "tests/sim/driver/sim.h"

#include <search.h>
#include <stdlib.h>

static struct {
    void *tree;
    uint64_t last_id;
} state;

/* Overlap counts as equal: that is what makes a look-up by an inner address, or by a range, a
 * search. */
static int compare(const void *a, const void *b)
{
    const struct vgsim_block *left = a, *right = b;
    if (left->address + left->span <= right->address)
        return -1;
    return right->address + right->span <= left->address;
}

struct vgsim_block *vgsim_block_over(uintptr_t address, size_t bytes)
{
    struct vgsim_block wanted = {.address = address, .span = bytes};
    struct vgsim_block **found = tfind(&wanted, &state.tree, compare);
    return found ? *found : NULL;
}

struct vgsim_block *vgsim_block_at(uintptr_t address)
{
    return vgsim_block_over(address, 1);
}

bool vgsim_block_covers(uintptr_t address, size_t bytes)
{
    uintptr_t end = address + bytes;
    if (end < address)
        return false;
    while (address < end) {
        struct vgsim_block *block = vgsim_block_at(address);
        if (!block || (block->kind == VGSIM_KIND_vmm && !block->flags))
            return false;
        /* An allocation of a graph that no launch has made: there for nodes only. */
        if (block->kind == VGSIM_KIND_graph && !block->flags && !vgsim_capture_any())
            return false;
        address = block->address + block->span;
    }
    return true;
}

static bool is_counted(const struct vgsim_block *block)
{
    return block->kind != VGSIM_KIND_vmm && block->kind != VGSIM_KIND_graph && !block->alias;
}

/* A program may unmap memory that it had registered, and the host then gives that range to us: the
 * registration is stale. */
static struct vgsim_block **insert(struct vgsim_block *block)
{
    struct vgsim_block **place;
    while ((place = tsearch(block, &state.tree, compare)) && *place != block) {
        if ((*place)->kind != VGSIM_KIND_registered)
            return NULL;
        vgsim_block_remove(*place, &(*place)->context->blocks);
    }
    return place;
}

struct vgsim_block *vgsim_block_add(const struct vgsim_block *values, struct vgsim_block **list)
{
    struct vgsim_block *block = malloc(sizeof *block);
    if (!block)
        return NULL;
    *block = *values;
    block->id = ++state.last_id;
    struct vgsim_block **place = insert(block);
    if (!place) {
        free(block);
        return NULL;
    }
    block->previous = NULL;
    block->next = *list;
    if (block->next)
        block->next->previous = block;
    *list = block;
    if (is_counted(block))
        vgsim_books_count(block->device, block->kind, (int64_t)block->bytes, 1);
    return block;
}

void vgsim_block_remove(struct vgsim_block *block, struct vgsim_block **list)
{
    tdelete(block, &state.tree, compare);
    if (block->previous)
        block->previous->next = block->next;
    else
        *list = block->next;
    if (block->next)
        block->next->previous = block->previous;
    if (is_counted(block))
        vgsim_books_count(block->device, block->kind, -(int64_t)block->bytes, -1);
    free(block);
}

void vgsim_books_count(CUdevice device, enum vgsim_kind kind, int64_t bytes, int blocks)
{
    struct vgsim_device_books *books = &vgsim_device_changed(device)->books;
    books->kinds[kind].requested_bytes += (uint64_t)bytes;
    books->kinds[kind].live_blocks += (uint64_t)(int64_t)blocks;
    if (blocks > 0)
        books->kinds[kind].allocations += (uint64_t)blocks;
    static const enum vgsim_kind occupying[] = {VGSIM_KIND_device, VGSIM_KIND_pool,
                                                VGSIM_KIND_vmm,    VGSIM_KIND_array,
                                                VGSIM_KIND_mipmap, VGSIM_KIND_graph};
    uint64_t requested = 0;
    for (size_t i = 0; i < sizeof occupying / sizeof occupying[0]; i++)
        requested += books->kinds[occupying[i]].requested_bytes;
    if (requested > books->peak_requested_bytes)
        books->peak_requested_bytes = requested;
}

void vgsim_books_object(CUdevice device, enum vgsim_counted which, int change)
{
    struct vgsim_counted_books *counted = &vgsim_device_changed(device)->books.objects[which];
    counted->live += (uint64_t)(int64_t)change;
    if (change > 0)
        counted->created += (uint64_t)change;
    else
        counted->destroyed += (uint64_t)-change;
}
