/* copy.c -- copies and fills. Device memory is host memory here, so they are done at once.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Holds:      an address given as the device's lies in known memory from end to end, or nothing is
 *             touched. Into a stream that captures, work is noted and not done.
 */
#include "tests/sim/driver/sim.h"

#include <string.h>

/* --- copies ----------------------------------------------------------------------------------- */

static CUresult copy(void *to, const void *from, size_t bytes, CUstream stream)
{
    CUresult result = vgsim_stream_check(stream);
    if (result == CUDA_SUCCESS && bytes && !vgsim_stream_takes(stream, CU_GRAPH_NODE_TYPE_MEMCPY))
        memmove(to, from, bytes);
    return result;
}

static bool on_device(CUdeviceptr address, size_t bytes)
{
    return bytes == 0 || vgsim_block_covers((uintptr_t)address, bytes);
}

/* An address that no block holds is the program's own memory: one address space. */
static bool anywhere(CUdeviceptr address, size_t bytes)
{
    return bytes == 0 || !vgsim_block_at((uintptr_t)address) || on_device(address, bytes);
}

static CUresult copy_in(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    if (!on_device(to, bytes) || (bytes && !from))
        return CUDA_ERROR_INVALID_VALUE;
    return copy((void *)(uintptr_t)to, from, bytes, stream);
}

static CUresult copy_out(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    if (!on_device(from, bytes) || (bytes && !to))
        return CUDA_ERROR_INVALID_VALUE;
    return copy(to, (const void *)(uintptr_t)from, bytes, stream);
}

static CUresult copy_over(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    if (!on_device(to, bytes) || !on_device(from, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return copy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes, stream);
}

static CUresult copy_any(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    if (!anywhere(to, bytes) || !anywhere(from, bytes) || (bytes && (!to || !from)))
        return CUDA_ERROR_INVALID_VALUE;
    return copy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes, stream);
}

static CUresult copy_peer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                          CUcontext from_context, size_t bytes, CUstream stream)
{
    if (!vgsim_is_context(to_context) || !vgsim_is_context(from_context))
        return CUDA_ERROR_INVALID_CONTEXT;
    return copy_over(to, from, bytes, stream);
}

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)
{
    CALL(CONTEXT | UNSAFE, copy_any(dst, src, ByteCount, NULL));
}

CUresult cuMemcpyPeer(CUdeviceptr dst, CUcontext dstCtx, CUdeviceptr src, CUcontext srcCtx,
                      size_t ByteCount)
{
    CALL(CONTEXT | UNSAFE, copy_peer(dst, dstCtx, src, srcCtx, ByteCount, NULL));
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t ByteCount)
{
    CALL(CONTEXT | UNSAFE, copy_in(dst, src, ByteCount, NULL));
}

CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t ByteCount)
{
    CALL(CONTEXT | UNSAFE, copy_out(dst, src, ByteCount, NULL));
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)
{
    CALL(CONTEXT | UNSAFE, copy_over(dst, src, ByteCount, NULL));
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream)
{
    CALL(CONTEXT, copy_any(dst, src, ByteCount, hStream));
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dstCtx, CUdeviceptr src, CUcontext srcCtx,
                           size_t ByteCount, CUstream hStream)
{
    CALL(CONTEXT, copy_peer(dst, dstCtx, src, srcCtx, ByteCount, hStream));
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t ByteCount, CUstream hStream)
{
    CALL(CONTEXT, copy_in(dst, src, ByteCount, hStream));
}

CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t ByteCount, CUstream hStream)
{
    CALL(CONTEXT, copy_out(dst, src, ByteCount, hStream));
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream)
{
    CALL(CONTEXT, copy_over(dst, src, ByteCount, hStream));
}

/* --- boxes: a 2D copy is a 3D copy one layer deep --------------------------------------------- */

struct side {
    CUmemorytype type;
    uintptr_t base;
    size_t x, y, z, pitch, height;
    struct vgsim_rows array;
};

/* An array has its own pitch and height, whatever the call says. */
static void use_array(struct side *side, CUarray array)
{
    if (side->type != CU_MEMORYTYPE_ARRAY)
        return;
    side->base = vgsim_array_rows(array, &side->array) ? side->array.address : 0;
    side->pitch = side->array.pitch;
    side->height = side->array.rows;
}

static bool side_is_valid(const struct side *side, const CUDA_MEMCPY3D *box)
{
    size_t pitch = side->pitch ? side->pitch : box->WidthInBytes;
    size_t last = ((side->z + box->Depth - 1) * side->height + side->y + box->Height - 1) * pitch +
                  side->x + box->WidthInBytes;
    switch (side->type) {
    case CU_MEMORYTYPE_HOST:
        return side->base != 0;
    case CU_MEMORYTYPE_DEVICE:
        return on_device(side->base, last);
    case CU_MEMORYTYPE_UNIFIED:
        return side->base != 0 && anywhere(side->base, last);
    case CU_MEMORYTYPE_ARRAY:
        return side->base != 0 && side->x + box->WidthInBytes <= side->array.width_bytes &&
               side->y + box->Height <= side->array.height &&
               side->z + box->Depth <= side->array.depth;
    default:
        return false;
    }
}

static unsigned char *row(const struct side *side, size_t width, size_t y, size_t z)
{
    size_t pitch = side->pitch ? side->pitch : width;
    return (unsigned char *)side->base + ((side->z + z) * side->height + side->y + y) * pitch +
           side->x;
}

static uintptr_t base_of(CUmemorytype type, const void *host, CUdeviceptr device)
{
    return type == CU_MEMORYTYPE_HOST ? (uintptr_t)host : (uintptr_t)device;
}

static CUresult copy_box(const CUDA_MEMCPY3D *box, CUstream stream)
{
    if (!box)
        return CUDA_ERROR_INVALID_VALUE;
    struct side from = {box->srcMemoryType,
                        base_of(box->srcMemoryType, box->srcHost, box->srcDevice),
                        box->srcXInBytes,
                        box->srcY,
                        box->srcZ,
                        box->srcPitch,
                        box->srcHeight ? box->srcHeight : box->Height,
                        {0}};
    struct side to = {box->dstMemoryType,
                      base_of(box->dstMemoryType, box->dstHost, box->dstDevice),
                      box->dstXInBytes,
                      box->dstY,
                      box->dstZ,
                      box->dstPitch,
                      box->dstHeight ? box->dstHeight : box->Height,
                      {0}};
    use_array(&from, box->srcArray);
    use_array(&to, box->dstArray);
    CUresult result = vgsim_stream_check(stream);
    if (result != CUDA_SUCCESS || !box->WidthInBytes || !box->Height || !box->Depth)
        return result;
    if ((from.pitch && from.pitch < box->WidthInBytes) ||
        (to.pitch && to.pitch < box->WidthInBytes) || !side_is_valid(&from, box) ||
        !side_is_valid(&to, box))
        return CUDA_ERROR_INVALID_VALUE;
    if (vgsim_stream_takes(stream, CU_GRAPH_NODE_TYPE_MEMCPY))
        return CUDA_SUCCESS;
    for (size_t z = 0; z < box->Depth; z++)
        for (size_t y = 0; y < box->Height; y++)
            memmove(row(&to, box->WidthInBytes, y, z), row(&from, box->WidthInBytes, y, z),
                    box->WidthInBytes);
    return CUDA_SUCCESS;
}

static CUresult copy_plane(const CUDA_MEMCPY2D *plane, CUstream stream)
{
    if (!plane)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_MEMCPY3D box = {.srcXInBytes = plane->srcXInBytes,
                         .srcY = plane->srcY,
                         .srcMemoryType = plane->srcMemoryType,
                         .srcHost = plane->srcHost,
                         .srcDevice = plane->srcDevice,
                         .srcArray = plane->srcArray,
                         .srcPitch = plane->srcPitch,
                         .dstXInBytes = plane->dstXInBytes,
                         .dstY = plane->dstY,
                         .dstMemoryType = plane->dstMemoryType,
                         .dstHost = plane->dstHost,
                         .dstDevice = plane->dstDevice,
                         .dstArray = plane->dstArray,
                         .dstPitch = plane->dstPitch,
                         .WidthInBytes = plane->WidthInBytes,
                         .Height = plane->Height,
                         .Depth = 1};
    return copy_box(&box, stream);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy)
{
    CALL(CONTEXT | UNSAFE, copy_plane(pCopy, NULL));
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy)
{
    CALL(CONTEXT | UNSAFE, copy_plane(pCopy, NULL));
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
    CALL(CONTEXT, copy_plane(pCopy, hStream));
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy)
{
    CALL(CONTEXT | UNSAFE, copy_box(pCopy, NULL));
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
    CALL(CONTEXT, copy_box(pCopy, hStream));
}
