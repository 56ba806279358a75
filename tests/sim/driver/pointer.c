/* pointer.c -- what an address is.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Its range, its attributes; advice and prefetch of managed memory.
 */
#include "tests/sim/driver/sim.h"

#include <string.h>

static CUresult range(CUdeviceptr *base_out, size_t *size_out, CUdeviceptr pointer)
{
    struct vgsim_block *block = vgsim_block_at((uintptr_t)pointer);
    if (!block)
        return CUDA_ERROR_NOT_FOUND;
    if (base_out)
        *base_out = block->address;
    if (size_out)
        *size_out = block->bytes;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
    CALL(CONTEXT, range(pbase, psize, dptr));
}

/* --- attributes ------------------------------------------------------------------------------- */

static bool is_host(const struct vgsim_block *block)
{
    return block->kind == VGSIM_KIND_pinned || block->kind == VGSIM_KIND_registered ||
           (block->handle && block->handle->host);
}

static CUresult attribute(void *out, CUpointer_attribute which, const struct vgsim_block *block,
                          CUdeviceptr pointer)
{
    bool host = is_host(block), managed = block->kind == VGSIM_KIND_managed;
    switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)out = block->context;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned int *)out = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)out = pointer;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        *(void **)out = host || managed ? (void *)(uintptr_t)pointer : NULL;
        return host || managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        *(unsigned long long *)out = block->id;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        *(unsigned int *)out = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned int *)out = managed;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)out = block->device;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        *(void **)out = (void *)block->address;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        *(size_t *)out = block->bytes;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(unsigned int *)out = 1;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(unsigned long long *)out =
            block->handle ? block->handle->prop.requestedHandleTypes : CU_MEM_HANDLE_TYPE_NONE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(int *)out = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)out = block->pool;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult get_attribute(void *out, CUpointer_attribute which, CUdeviceptr pointer)
{
    const struct vgsim_block *block = vgsim_block_at((uintptr_t)pointer);
    return out && block ? attribute(out, which, block, pointer) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attr, CUdeviceptr ptr)
{
    CALL(INIT, get_attribute(data, attr, ptr));
}

/* How many bytes an attribute has, for an address that has none of them. */
static size_t size_of(CUpointer_attribute which)
{
    switch (which) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        return 4;
    default:
        return 8;
    }
}

/* Unlike the single question this one succeeds for the program's own memory, and answers zero. */
static CUresult get_attributes(unsigned int count, const CUpointer_attribute *which, void **out,
                               CUdeviceptr pointer)
{
    if (!count || !which || !out)
        return CUDA_ERROR_INVALID_VALUE;
    const struct vgsim_block *block = vgsim_block_at((uintptr_t)pointer);
    for (unsigned int i = 0; i < count; i++) {
        if (which[i] < CU_POINTER_ATTRIBUTE_CONTEXT ||
            which[i] > CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE ||
            which[i] == CU_POINTER_ATTRIBUTE_P2P_TOKENS || !out[i])
            return CUDA_ERROR_INVALID_VALUE;
        memset(out[i], which[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ? 0xfe : 0,
               size_of(which[i]));
        if (which[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
            *(int *)out[i] = CU_DEVICE_INVALID;
        if (block)
            attribute(out[i], which[i], block, pointer);
    }
    return CUDA_SUCCESS;
}

CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes,
                                void **data, CUdeviceptr ptr)
{
    CALL(INIT, get_attributes(numAttributes, attributes, data, ptr));
}

/* Every operation here is synchronous already. */
static CUresult set_attribute(const void *value, CUpointer_attribute which, CUdeviceptr pointer)
{
    if (!value || which != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !vgsim_block_at((uintptr_t)pointer))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attr, CUdeviceptr ptr)
{
    CALL(INIT, set_attribute(value, attr, ptr));
}

/* --- host memory that the device sees --------------------------------------------------------- */

static CUresult device_pointer(CUdeviceptr *out, void *pointer, unsigned int flags)
{
    const struct vgsim_block *block = vgsim_block_at((uintptr_t)pointer);
    if (!out || !pointer || flags || !block || !is_host(block))
        return CUDA_ERROR_INVALID_VALUE;
    *out = (uintptr_t)pointer;
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
    CALL(CONTEXT, device_pointer(pdptr, p, Flags));
}

static CUresult host_flags(unsigned int *out, void *pointer)
{
    const struct vgsim_block *block = vgsim_block_at((uintptr_t)pointer);
    if (!out || !block || block->kind != VGSIM_KIND_pinned)
        return CUDA_ERROR_INVALID_VALUE;
    *out = block->flags;
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
    CALL(CONTEXT, host_flags(pFlags, p));
}

/* --- managed memory --------------------------------------------------------------------------- */

static CUresult managed(CUdeviceptr pointer, size_t bytes)
{
    const struct vgsim_block *block = vgsim_block_at((uintptr_t)pointer);
    if (!block || block->kind != VGSIM_KIND_managed || bytes == 0 ||
        !vgsim_block_covers((uintptr_t)pointer, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device)
{
    (void)advice;
    (void)device;
    CALL(CONTEXT, managed(devPtr, count));
}

CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                        CUmemLocation location)
{
    (void)advice;
    (void)location;
    CALL(CONTEXT, managed(devPtr, count));
}

static CUresult prefetch(CUdeviceptr pointer, size_t bytes, CUstream stream)
{
    CUresult result = vgsim_stream_check(stream);
    return result == CUDA_SUCCESS ? managed(pointer, bytes) : result;
}

CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream)
{
    (void)dstDevice;
    CALL(CONTEXT, prefetch(devPtr, count, hStream));
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
                               unsigned int flags, CUstream hStream)
{
    (void)location;
    (void)flags;
    CALL(CONTEXT, prefetch(devPtr, count, hStream));
}
