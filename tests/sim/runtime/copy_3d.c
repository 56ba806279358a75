/* copy_3d.c -- copies that an array takes part in, and copies of boxes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:      the runtime counts widths and positions in elements where an array takes part, the
 *             driver in bytes.
 */
#include "runtime.h"

#include <stdbool.h>

enum side { SOURCE, DESTINATION };

static bool on_host(enum cudaMemcpyKind kind, enum side side)
{
    return kind == cudaMemcpyHostToHost || (kind == cudaMemcpyHostToDevice && side == SOURCE) ||
           (kind == cudaMemcpyDeviceToHost && side == DESTINATION);
}

static cudaError_t element_bytes(cudaArray_t array, size_t *bytes_out)
{
    struct cudaChannelFormatDesc desc;
    cudaError_t error = cudaGetChannelDesc(&desc, array);
    if (error == cudaSuccess)
        *bytes_out = (size_t)(desc.x + desc.y + desc.z + desc.w) / 8;
    return error;
}

static void set_source(CUDA_MEMCPY3D *copy, const struct cudaMemcpy3DParms *p, size_t element)
{
    copy->srcXInBytes = p->srcPos.x * (p->srcArray ? element : 1);
    copy->srcY = p->srcPos.y;
    copy->srcZ = p->srcPos.z;
    copy->srcArray = (CUarray)p->srcArray;
    copy->srcHost = p->srcPtr.ptr;
    copy->srcDevice = (CUdeviceptr)p->srcPtr.ptr;
    copy->srcPitch = p->srcPtr.pitch;
    copy->srcHeight = p->srcPtr.ysize;
    copy->srcMemoryType = p->srcArray                ? CU_MEMORYTYPE_ARRAY
                          : on_host(p->kind, SOURCE) ? CU_MEMORYTYPE_HOST
                                                     : CU_MEMORYTYPE_UNIFIED;
}

static void set_destination(CUDA_MEMCPY3D *copy, const struct cudaMemcpy3DParms *p, size_t element)
{
    copy->dstXInBytes = p->dstPos.x * (p->dstArray ? element : 1);
    copy->dstY = p->dstPos.y;
    copy->dstZ = p->dstPos.z;
    copy->dstArray = (CUarray)p->dstArray;
    copy->dstHost = p->dstPtr.ptr;
    copy->dstDevice = (CUdeviceptr)p->dstPtr.ptr;
    copy->dstPitch = p->dstPtr.pitch;
    copy->dstHeight = p->dstPtr.ysize;
    copy->dstMemoryType = p->dstArray                     ? CU_MEMORYTYPE_ARRAY
                          : on_host(p->kind, DESTINATION) ? CU_MEMORYTYPE_HOST
                                                          : CU_MEMORYTYPE_UNIFIED;
}

static cudaError_t convert(const struct cudaMemcpy3DParms *p, CUDA_MEMCPY3D *copy_out)
{
    size_t element = 1;
    if (!p || !p->srcArray == !p->srcPtr.ptr || !p->dstArray == !p->dstPtr.ptr)
        return cudaErrorInvalidValue;
    cudaError_t error = cudaSuccess;
    if (p->srcArray || p->dstArray)
        error = element_bytes(p->srcArray ? p->srcArray : p->dstArray, &element);
    if (error != cudaSuccess)
        return error;
    *copy_out = (CUDA_MEMCPY3D){.WidthInBytes = p->extent.width * element,
                                .Height = p->extent.height,
                                .Depth = p->extent.depth};
    set_source(copy_out, p, element);
    set_destination(copy_out, p, element);
    return cudaSuccess;
}

static cudaError_t copy_box(bool ps, const struct cudaMemcpy3DParms *p)
{
    CUDA_MEMCPY3D copy;
    cudaError_t error = rt_enter();
    if (error == cudaSuccess)
        error = convert(p, &copy);
    return rt_done(error == cudaSuccess ? RT_CALL_PS(ps, cuMemcpy3D, (&copy)) : error);
}

static cudaError_t copy_box_async(bool ps, const struct cudaMemcpy3DParms *p, cudaStream_t stream)
{
    CUDA_MEMCPY3D copy;
    cudaError_t error = rt_enter();
    if (error == cudaSuccess)
        error = convert(p, &copy);
    return rt_done(error == cudaSuccess ? RT_CALL_PS(ps, cuMemcpy3DAsync, (&copy, stream)) : error);
}

/* Here even an array's offset and width count bytes. */
static cudaError_t to_array(bool ps, cudaArray_t dst, size_t x, size_t y, const void *src,
                            size_t pitch, size_t width, size_t height, enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY3D copy = {.dstXInBytes = x,
                          .dstY = y,
                          .dstArray = (CUarray)dst,
                          .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                          .srcHost = src,
                          .srcDevice = (CUdeviceptr)src,
                          .srcPitch = pitch,
                          .WidthInBytes = width,
                          .Height = height,
                          .Depth = 1};
    copy.srcMemoryType = on_host(kind, SOURCE) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_UNIFIED;
    cudaError_t error = rt_enter();
    return rt_done(error == cudaSuccess ? RT_CALL_PS(ps, cuMemcpy3D, (&copy)) : error);
}

static cudaError_t from_array(bool ps, void *dst, size_t pitch, cudaArray_const_t src, size_t x,
                              size_t y, size_t width, size_t height, enum cudaMemcpyKind kind)
{
    CUDA_MEMCPY3D copy = {.srcXInBytes = x,
                          .srcY = y,
                          .srcArray = (CUarray)(size_t)src,
                          .srcMemoryType = CU_MEMORYTYPE_ARRAY,
                          .dstHost = dst,
                          .dstDevice = (CUdeviceptr)dst,
                          .dstPitch = pitch,
                          .WidthInBytes = width,
                          .Height = height,
                          .Depth = 1};
    copy.dstMemoryType = on_host(kind, DESTINATION) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_UNIFIED;
    cudaError_t error = rt_enter();
    return rt_done(error == cudaSuccess ? RT_CALL_PS(ps, cuMemcpy3D, (&copy)) : error);
}

#define BOTH(suffix, name, params, legacy, per_thread)                                             \
    cudaError_t name params                                                                        \
    {                                                                                              \
        return legacy;                                                                             \
    }                                                                                              \
    RT_EXPORT cudaError_t name##suffix params;                                                     \
    cudaError_t name##suffix params                                                                \
    {                                                                                              \
        return per_thread;                                                                         \
    }
BOTH(_ptds, cudaMemcpy3D, (const struct cudaMemcpy3DParms *p), copy_box(false, p),
     copy_box(true, p))
BOTH(_ptsz, cudaMemcpy3DAsync, (const struct cudaMemcpy3DParms *p, cudaStream_t stream),
     copy_box_async(false, p, stream), copy_box_async(true, p, stream))
BOTH(_ptds, cudaMemcpy2DToArray,
     (cudaArray_t dst, size_t wOffset, size_t hOffset, const void *src, size_t spitch, size_t width,
      size_t height, enum cudaMemcpyKind kind),
     to_array(false, dst, wOffset, hOffset, src, spitch, width, height, kind),
     to_array(true, dst, wOffset, hOffset, src, spitch, width, height, kind))
BOTH(_ptds, cudaMemcpy2DFromArray,
     (void *dst, size_t dpitch, cudaArray_const_t src, size_t wOffset, size_t hOffset, size_t width,
      size_t height, enum cudaMemcpyKind kind),
     from_array(false, dst, dpitch, src, wOffset, hOffset, width, height, kind),
     from_array(true, dst, dpitch, src, wOffset, hOffset, width, height, kind))
