/* external.c -- memory that another interface allocated, brought in by its descriptor.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Follows:    Driver API, External Resource Interoperability: cuImportExternalMemory (the
 *             descriptor is the driver's from then on), cuExternalMemoryGetMappedBuffer (freed with
 *             cuMemFree), cuExternalMemoryGetMappedMipmappedArray (ended with
 *             cuMipmappedArrayDestroy), cuDestroyExternalMemory (mapped buffers stay, and are freed
 *             on their own).
 * Holds:      an import is listed with the size in its description and takes nothing; what is
 *             mapped adds nothing.
 * Not here:   handles of Windows and of NvSci, dma_buf (refused), semaphores, graphics (no
 *             exports).
 */
#include "tests/sim/driver/sim.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct CUextMemory_st {
    struct vgsim_object object;
    int fd;
    unsigned long long size;
};

static CUresult import(CUexternalMemory *out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
    if (!out || !desc || desc->size == 0 ||
        desc->flags & ~(unsigned int)CUDA_EXTERNAL_MEMORY_DEDICATED)
        return CUDA_ERROR_INVALID_VALUE;
    if (desc->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (fcntl(desc->handle.fd, F_GETFD) < 0)
        return CUDA_ERROR_INVALID_VALUE;
    struct CUextMemory_st *memory = vgsim_object_add(EXTERNAL, sizeof *memory, vgsim_current());
    if (!memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memory->fd = desc->handle.fd;
    memory->size = desc->size;
    vgsim_books_count(memory->object.context->device, VGSIM_KIND_external, (int64_t)memory->size,
                      1);
    *out = memory;
    return CUDA_SUCCESS;
}

CUresult cuImportExternalMemory(CUexternalMemory *extMem_out,
                                const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memHandleDesc)
{
    CALL(CONTEXT | UNSAFE, import(extMem_out, memHandleDesc));
}

void vgsim_external_forget(struct CUextMemory_st *memory)
{
    close(memory->fd);
    vgsim_books_count(memory->object.context->device, VGSIM_KIND_external, -(int64_t)memory->size,
                      -1);
}

static CUresult destroy(CUexternalMemory memory)
{
    if (!vgsim_object_is(memory, EXTERNAL))
        return CUDA_ERROR_INVALID_HANDLE;
    vgsim_external_forget(memory);
    vgsim_object_remove(memory);
    return CUDA_SUCCESS;
}

CUresult cuDestroyExternalMemory(CUexternalMemory extMem)
{
    CALL(CONTEXT | UNSAFE, destroy(extMem));
}

/* The bytes are the file's where it is one that can be mapped so far. */
static void *map(const struct CUextMemory_st *memory, size_t offset, size_t span)
{
    struct stat info;
    void *address = vgsim_space_map(span, VGSIM_PAGE);
    bool file = address && !fstat(memory->fd, &info) && S_ISREG(info.st_mode) &&
                (off_t)(offset + span) <= info.st_size;
    if (file)
        mmap(address, span, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory->fd,
             (off_t)offset);
    return address;
}

static CUresult map_buffer(CUdeviceptr *out, CUexternalMemory memory,
                           const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), span;
    if (!vgsim_object_is(memory, EXTERNAL))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!out || !desc || desc->flags || desc->size == 0 || desc->offset > memory->size ||
        desc->size > memory->size - desc->offset || desc->offset % page ||
        !vgsim_round_up(desc->size, page, &span))
        return CUDA_ERROR_INVALID_VALUE;
    struct CUctx_st *context = memory->object.context;
    struct vgsim_block block = {.address = (uintptr_t)map(memory, desc->offset, span),
                                .bytes = desc->size,
                                .span = span,
                                .kind = VGSIM_KIND_external,
                                .alias = true,
                                .device = context->device,
                                .context = context};
    if (!block.address || !vgsim_block_add(&block, &context->blocks))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = block.address;
    return CUDA_SUCCESS;
}

CUresult cuExternalMemoryGetMappedBuffer(CUdeviceptr *devPtr, CUexternalMemory extMem,
                                         const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *bufferDesc)
{
    CALL(CONTEXT | UNSAFE, map_buffer(devPtr, extMem, bufferDesc));
}

static CUresult map_mipmap(CUmipmappedArray *out, CUexternalMemory memory,
                           const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *desc)
{
    if (!vgsim_object_is(memory, EXTERNAL))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!desc || desc->offset >= memory->size)
        return CUDA_ERROR_INVALID_VALUE;
    return vgsim_mipmap_new(out, &desc->arrayDesc, desc->numLevels, true);
}

CUresult
cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray *mipmap, CUexternalMemory extMem,
                                        const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *mipmapDesc)
{
    CALL(CONTEXT | UNSAFE, map_mipmap(mipmap, extMem, mipmapDesc));
}
