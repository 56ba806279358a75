/* graph_memory.c -- the allocations of graphs.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Their addresses, when they live, and each device's graph pool.
 *
 * Holds:      an address is fixed from the node on, and lives from the launch that makes it until
 *             it is freed (CUDA Driver API, cuGraphAddMemAllocNode). used is what live allocations
 *             take, and what executable graphs that were launched or uploaded map besides: they
 *             share it, as the biggest of them needs it (CUDA Programming Guide, "Graph Memory
 *             Nodes": "Physical Memory Footprint"). reserved is the most that used was since the
 *             last trim.
 * Not here:   reuse of memory within one graph; graphs that run at the same time and so cannot
 *             share.
 */
#include "tests/sim/driver/sim.h"

#include <stdlib.h>

static struct graph_pool {
    struct vgsim_block *blocks;
    uint64_t live, reserved, reserved_high, used_high; /* bytes */
} pools[VGSIM_MAX_DEVICES];

static struct vgsim_graph_memory *all;

/* --- the pool --------------------------------------------------------------------------------- */

static uint64_t used(CUdevice device)
{
    return pools[device].live + vgsim_graph_exec_shared(device);
}

static void note(CUdevice device)
{
    struct graph_pool *pool = &pools[device];
    struct vgsim_device_books *books = &vgsim_device_changed(device)->books;
    books->graph_reserved_bytes = pool->reserved;
    books->graph_used_bytes = used(device);
    if (books->graph_used_bytes > pool->used_high)
        pool->used_high = books->graph_used_bytes;
    if (pool->reserved > pool->reserved_high)
        pool->reserved_high = pool->reserved;
}

/* False: the device has not the pages that are used now. */
bool vgsim_graph_pool_fit(CUdevice device)
{
    struct graph_pool *pool = &pools[device];
    uint64_t wanted = used(device);
    if (wanted > pool->reserved) {
        if (!vgsim_pages_take(device, (size_t)(wanted - pool->reserved) / VGSIM_PAGE))
            return false;
        pool->reserved = wanted;
    }
    note(device);
    return true;
}

static void give_idle_back(CUdevice device)
{
    struct graph_pool *pool = &pools[device];
    uint64_t kept = used(device);
    vgsim_pages_give(device, (size_t)(pool->reserved - kept) / VGSIM_PAGE);
    pool->reserved = kept;
    note(device);
}

/* --- allocations ------------------------------------------------------------------------------ */

struct vgsim_graph_memory *vgsim_graph_memory_new(CUdevice device, size_t bytes, uint64_t owner)
{
    struct vgsim_block block = {.kind = VGSIM_KIND_graph, .bytes = bytes, .device = device};
    struct vgsim_graph_memory *memory = calloc(1, sizeof *memory);
    if (!memory || !vgsim_round_up(bytes, VGSIM_PAGE, &block.span)) {
        free(memory);
        return NULL;
    }
    block.address = (uintptr_t)vgsim_space_map(block.span, VGSIM_PAGE);
    if (block.address)
        memory->block = vgsim_block_add(&block, &pools[device].blocks);
    if (!memory->block) {
        if (block.address)
            vgsim_space_unmap((void *)block.address, block.span);
        free(memory);
        return NULL;
    }
    memory->references = 1;
    memory->owner = owner;
    memory->next = all;
    all = memory;
    return memory;
}

struct vgsim_graph_memory *vgsim_graph_memory_at(CUdeviceptr address)
{
    struct vgsim_graph_memory *memory = all;
    while (memory && memory->block->address != (uintptr_t)address)
        memory = memory->next;
    return memory;
}

void vgsim_graph_memory_drop(struct vgsim_graph_memory *memory)
{
    if (--memory->references)
        return;
    for (struct vgsim_graph_memory **at = &all; *at; at = &(*at)->next)
        if (*at == memory) {
            *at = memory->next;
            break;
        }
    vgsim_space_unmap((void *)memory->block->address, memory->block->span);
    vgsim_block_remove(memory->block, &pools[memory->block->device].blocks);
    free(memory);
}

/* The caller sees to it that the pool fits. */
void vgsim_graph_memory_start(struct vgsim_graph_memory *memory, struct CUctx_st *context)
{
    struct vgsim_block *block = memory->block;
    memory->live = true;
    memory->references++;
    block->context = context;
    block->flags = 1;
    pools[block->device].live += block->span;
    vgsim_books_count(block->device, VGSIM_KIND_graph, (int64_t)block->bytes, 1);
}

void vgsim_graph_memory_stop(struct vgsim_graph_memory *memory)
{
    struct vgsim_block *block = memory->block;
    CUdevice device = block->device;
    memory->live = false;
    block->context = NULL;
    block->flags = 0;
    pools[device].live -= block->span;
    vgsim_books_count(device, VGSIM_KIND_graph, -(int64_t)block->bytes, -1);
    vgsim_graph_memory_drop(memory);
    note(device);
}

/* What no launch has made is not there; nor is, outside, what its own graph frees. */
CUresult vgsim_graph_memory_free(CUdeviceptr address)
{
    struct vgsim_graph_memory *memory = vgsim_graph_memory_at(address);
    if (!memory || !memory->live)
        return CUDA_ERROR_INVALID_VALUE;
    vgsim_graph_memory_stop(memory);
    return CUDA_SUCCESS;
}

void vgsim_graph_memory_end(struct CUctx_st *context)
{
    struct vgsim_graph_memory *next;
    for (struct vgsim_graph_memory *memory = all; memory; memory = next) {
        next = memory->next;
        if (memory->live && memory->block->context == context)
            vgsim_graph_memory_stop(memory);
    }
}

void vgsim_graph_pool_end(CUdevice device)
{
    vgsim_graph_exec_unmap(device, true);
    give_idle_back(device);
}

void vgsim_graph_pool_changed(CUdevice device)
{
    note(device);
}

/* --- what a program may ask and do ------------------------------------------------------------ */

static CUresult trim(CUdevice device)
{
    if (!vgsim_is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    vgsim_graph_exec_unmap(device, false);
    give_idle_back(device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    CALL(INIT, trim(device));
}

static CUresult get_attribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
    if (!vgsim_is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
        *(cuuint64_t *)value = used(device);
        return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
        *(cuuint64_t *)value = pools[device].used_high;
        return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
        *(cuuint64_t *)value = pools[device].reserved;
        return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
        *(cuuint64_t *)value = pools[device].reserved_high;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
    CALL(INIT, get_attribute(device, attr, value));
}

/* Only the two marks of the past, and only to zero: they start again from now (CUDA Driver API). */
static CUresult set_attribute(CUdevice device, CUgraphMem_attribute attribute, const void *value)
{
    if (!vgsim_is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!value || *(const cuuint64_t *)value != 0)
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
        pools[device].used_high = used(device);
        return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
        pools[device].reserved_high = pools[device].reserved;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
    CALL(INIT, set_attribute(device, attr, value));
}
