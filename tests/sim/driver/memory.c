/* memory.c -- device, managed and host memory: allocation and free.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Holds:      1 MiB and more takes whole pages of 2 MiB; less shares pages in units of 512 bytes,
 *             and a page goes back when its last part does. Managed and host memory takes none.
 */
#include "tests/sim/driver/sim.h"

#include <unistd.h>

#define PITCH       ((size_t)512)
#define SLABS_TRIED 64 /* of the pages shared so far, the ones opened last */

/* --- pages that small allocations share ------------------------------------------------------- */

static struct vgsim_slab *open_shared_page(struct CUctx_st *context)
{
    if (!vgsim_pages_take(context->device, 1))
        return NULL;
    struct vgsim_slab *slab = vgsim_slab_open(VGSIM_PAGE);
    if (!slab) {
        vgsim_pages_give(context->device, 1);
        return NULL;
    }
    slab->next = context->slabs;
    if (slab->next)
        slab->next->previous = slab;
    context->slabs = slab;
    return slab;
}

static void close_shared_page(struct CUctx_st *context, struct vgsim_slab *slab)
{
    if (slab->previous)
        slab->previous->next = slab->next;
    else
        context->slabs = slab->next;
    if (slab->next)
        slab->next->previous = slab->previous;
    vgsim_ipc_forget(slab->file, context->device, slab->size);
    vgsim_slab_close(slab);
    vgsim_pages_give(context->device, 1);
}

static bool take_small(struct vgsim_block *block)
{
    int tried = 0;
    for (struct vgsim_slab *slab = block->context->slabs; slab && tried < SLABS_TRIED;
         slab = slab->next, tried++)
        if (vgsim_slab_take(slab, block->span, &block->address)) {
            block->slab = slab;
            return true;
        }
    block->slab = open_shared_page(block->context);
    return block->slab && vgsim_slab_take(block->slab, block->span, &block->address);
}

static bool take_pages(struct vgsim_block *block)
{
    block->pages = block->span / VGSIM_PAGE;
    if (!vgsim_pages_take(block->device, block->pages))
        return false;
    block->address = (uintptr_t)vgsim_space_map(block->span, VGSIM_PAGE);
    if (!block->address)
        vgsim_pages_give(block->device, block->pages);
    return block->address != 0;
}

/* --- allocation ------------------------------------------------------------------------------- */

static void give_back(struct vgsim_block *block)
{
    if (block->slab) {
        vgsim_slab_give(block->slab, block->address, block->span);
        if (block->slab->used == 0)
            close_shared_page(block->context, block->slab);
    } else if (block->kind == VGSIM_KIND_ipc) {
        vgsim_ipc_unmap(block);
    } else if (block->kind != VGSIM_KIND_registered) {
        vgsim_ipc_forget(block->file, block->device, block->span);
        vgsim_space_unmap((void *)block->address, block->span);
        vgsim_pages_give(block->device, block->pages);
    }
}

void vgsim_memory_release(struct vgsim_block *block)
{
    give_back(block);
    vgsim_block_remove(block, &block->context->blocks);
}

static struct vgsim_block *add(struct vgsim_block *values)
{
    struct vgsim_block *block = vgsim_block_add(values, &values->context->blocks);
    if (!block)
        give_back(values);
    return block;
}

static CUresult keep(struct vgsim_block *block, uintptr_t *address_out)
{
    *address_out = block->address;
    return add(block) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static struct vgsim_block new_block(enum vgsim_kind kind, size_t bytes)
{
    struct CUctx_st *context = vgsim_current();
    return (struct vgsim_block){
        .kind = kind, .bytes = bytes, .context = context, .device = context->device};
}

struct vgsim_block *vgsim_memory_take(enum vgsim_kind kind, size_t bytes)
{
    struct vgsim_block block = new_block(kind, bytes);
    bool small = bytes < VGSIM_SMALL;
    if (!vgsim_round_up(bytes, small ? VGSIM_UNIT : VGSIM_PAGE, &block.span) ||
        !(small ? take_small(&block) : take_pages(&block))) {
        vgsim_refused(block.device);
        return NULL;
    }
    return add(&block);
}

static CUresult take_device(size_t bytes, uintptr_t *address_out)
{
    struct vgsim_block *block = vgsim_memory_take(VGSIM_KIND_device, bytes);
    if (block)
        *address_out = block->address;
    return block ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult take_host(enum vgsim_kind kind, size_t bytes, unsigned int flags,
                          uintptr_t *address_out)
{
    struct vgsim_block block = new_block(kind, bytes);
    size_t alignment = kind == VGSIM_KIND_managed ? VGSIM_PAGE : (size_t)sysconf(_SC_PAGESIZE);
    block.flags = flags;
    if (!vgsim_round_up(bytes, (size_t)sysconf(_SC_PAGESIZE), &block.span))
        return CUDA_ERROR_OUT_OF_MEMORY;
    block.address = (uintptr_t)vgsim_space_map(block.span, alignment);
    return block.address ? keep(&block, address_out) : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult alloc(CUdeviceptr *out, size_t bytes)
{
    uintptr_t address;
    if (!out || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = take_device(bytes, &address);
    if (result == CUDA_SUCCESS)
        *out = address;
    return result;
}

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
    CALL(CONTEXT | UNSAFE, alloc(dptr, bytesize));
}

static CUresult alloc_pitch(CUdeviceptr *out, size_t *pitch_out, size_t width, size_t height,
                            unsigned int element)
{
    size_t pitch, bytes;
    uintptr_t address;
    if (!out || !pitch_out || width == 0 || height == 0 ||
        (element != 4 && element != 8 && element != 16))
        return CUDA_ERROR_INVALID_VALUE;
    if (!vgsim_round_up(width, PITCH, &pitch) || __builtin_mul_overflow(pitch, height, &bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = take_device(bytes, &address);
    if (result == CUDA_SUCCESS) {
        *out = address;
        *pitch_out = pitch;
    }
    return result;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
                            unsigned int ElementSizeBytes)
{
    CALL(CONTEXT | UNSAFE, alloc_pitch(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes));
}

static CUresult alloc_managed(CUdeviceptr *out, size_t bytes, unsigned int flags)
{
    uintptr_t address;
    if (!out || bytes == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = take_host(VGSIM_KIND_managed, bytes, flags, &address);
    if (result == CUDA_SUCCESS)
        *out = address;
    return result;
}

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
    CALL(CONTEXT | UNSAFE, alloc_managed(dptr, bytesize, flags));
}

static CUresult alloc_host(void **out, size_t bytes, unsigned int flags)
{
    uintptr_t address;
    if (!out || bytes == 0 || flags > 7)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = take_host(VGSIM_KIND_pinned, bytes, flags, &address);
    if (result == CUDA_SUCCESS)
        *out = (void *)address;
    return result;
}

CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
    CALL(CONTEXT | UNSAFE, alloc_host(pp, bytesize, Flags));
}

CUresult cuMemAllocHost_v2(void **pp, size_t bytesize)
{
    CALL(CONTEXT | UNSAFE, alloc_host(pp, bytesize, 0));
}

/* --- free ------------------------------------------------------------------------------------- */

static CUresult free_device(CUdeviceptr pointer)
{
    if (pointer == 0)
        return CUDA_SUCCESS;
    struct vgsim_block *block = vgsim_block_at((uintptr_t)pointer);
    if (!block || block->address != (uintptr_t)pointer)
        return CUDA_ERROR_INVALID_VALUE;
    switch (block->kind) {
    case VGSIM_KIND_device:
    case VGSIM_KIND_managed:
    case VGSIM_KIND_external: /* cuExternalMemoryGetMappedBuffer: "must be freed using cuMemFree" */
        vgsim_memory_release(block);
        return CUDA_SUCCESS;
    case VGSIM_KIND_pool:
        vgsim_pool_free(block); /* by the interface the program has waited */
        return CUDA_SUCCESS;
    case VGSIM_KIND_graph:
        return vgsim_graph_memory_free(pointer);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuMemFree_v2(CUdeviceptr dptr)
{
    CALL(CONTEXT | UNSAFE, free_device(dptr));
}

static CUresult free_host(void *pointer, enum vgsim_kind kind, CUresult otherwise)
{
    struct vgsim_block *block = vgsim_block_at((uintptr_t)pointer);
    if (!pointer || !block || block->address != (uintptr_t)pointer || block->kind != kind)
        return otherwise;
    vgsim_memory_release(block);
    return CUDA_SUCCESS;
}

CUresult cuMemFreeHost(void *p)
{
    CALL(CONTEXT | UNSAFE, free_host(p, VGSIM_KIND_pinned, CUDA_ERROR_INVALID_VALUE));
}

/* --- the program's own memory, made known ----------------------------------------------------- */

static CUresult host_register(void *pointer, size_t bytes, unsigned int flags)
{
    uintptr_t address = (uintptr_t)pointer, unused;
    if (!pointer || bytes == 0 || flags > 15 || address + bytes < address)
        return CUDA_ERROR_INVALID_VALUE;
    if (vgsim_block_over(address, bytes))
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    struct vgsim_block block = new_block(VGSIM_KIND_registered, bytes);
    block.address = address;
    block.span = bytes;
    block.flags = flags;
    return keep(&block, &unused);
}

CUresult cuMemHostRegister(void *p, size_t bytesize, unsigned int Flags)
{
    CALL(CONTEXT | UNSAFE, host_register(p, bytesize, Flags));
}

CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
    CALL(CONTEXT | UNSAFE, host_register(p, bytesize, Flags));
}

CUresult cuMemHostUnregister(void *p)
{
    CALL(CONTEXT | UNSAFE,
         free_host(p, VGSIM_KIND_registered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED));
}

/* --- what is there ---------------------------------------------------------------------------- */

static CUresult get_info(size_t *free_out, size_t *total_out)
{
    if (!free_out || !total_out)
        return CUDA_ERROR_INVALID_VALUE;
    vgsim_sharing_refresh();
    struct vgsim_device_books *books = &vgsim_device_changed(vgsim_current()->device)->books;
    *free_out = vgsim_free_bytes(books);
    *total_out = books->total_bytes;
    return CUDA_SUCCESS;
}

/* Legal while a stream is capturing. */
CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
    CALL(CONTEXT, get_info(free, total));
}
