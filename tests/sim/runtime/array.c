/* array.c -- arrays and mipmaps.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Formats both ways, creation, and copies that one of them takes part in.
 *
 * Place:      widths and positions count elements in the runtime where an array takes part, and
 *             bytes in the driver.
 */
#include "runtime.h"

#include <stdbool.h>

/* The driver's CUarray_format of a channel: 0 where there is none. */
static unsigned int format_of(enum cudaChannelFormatKind kind, int bits)
{
    enum { UNSIGNED_INT8 = 0x01, SIGNED_INT8 = 0x08, HALF = 0x10, FLOAT = 0x20 };
    unsigned int wider = bits == 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : 3;
    if (wider == 3)
        return 0;
    switch (kind) {
    case cudaChannelFormatKindUnsigned:
        return UNSIGNED_INT8 + wider;
    case cudaChannelFormatKindSigned:
        return SIGNED_INT8 + wider;
    case cudaChannelFormatKindFloat:
        return wider == 1 ? HALF : wider == 2 ? FLOAT : 0;
    default:
        return 0;
    }
}

static struct cudaChannelFormatDesc channels_of(const CUDA_ARRAY3D_DESCRIPTOR *array)
{
    static const unsigned char bits_of[] = {[0x01] = 8,  [0x02] = 16, [0x03] = 32, [0x08] = 8,
                                            [0x09] = 16, [0x0a] = 32, [0x10] = 16, [0x20] = 32};
    int bits = array->Format < sizeof(bits_of) ? bits_of[array->Format] : 0;
    unsigned int count = array->NumChannels;
    return (struct cudaChannelFormatDesc){bits, count > 1 ? bits : 0, count > 2 ? bits : 0,
                                          count > 3 ? bits : 0,
                                          array->Format < 0x08   ? cudaChannelFormatKindUnsigned
                                          : array->Format < 0x10 ? cudaChannelFormatKindSigned
                                                                 : cudaChannelFormatKindFloat};
}

/* One, two or four channels of the same width. */
static cudaError_t describe(const struct cudaChannelFormatDesc *desc, struct cudaExtent extent,
                            unsigned int flags, CUDA_ARRAY3D_DESCRIPTOR *out)
{
    if (!desc)
        return cudaErrorInvalidValue;
    unsigned int count = desc->w ? 4 : desc->z ? 3 : desc->y ? 2 : 1;
    bool equal = (count < 2 || desc->y == desc->x) && (count < 3 || desc->z == desc->x) &&
                 (count < 4 || desc->w == desc->x);
    unsigned int format = format_of(desc->f, desc->x);
    if (!format || count == 3 || !equal || !extent.width)
        return cudaErrorInvalidValue;
    *out = (CUDA_ARRAY3D_DESCRIPTOR){extent.width,           extent.height, extent.depth,
                                     (CUarray_format)format, count,         flags};
    return cudaSuccess;
}

struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                   enum cudaChannelFormatKind f)
{
    return (struct cudaChannelFormatDesc){x, y, z, w, f};
}

cudaError_t cudaMalloc3DArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc,
                              struct cudaExtent extent, unsigned int flags)
{
    CUDA_ARRAY3D_DESCRIPTOR wanted;
    cudaError_t error = describe(desc, extent, flags, &wanted);
    if (error == cudaSuccess)
        error = rt_enter();
    return rt_done(error == cudaSuccess ? RT_CALL(cuArray3DCreate, ((CUarray *)array, &wanted))
                                        : error);
}

cudaError_t cudaMallocArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc,
                            size_t width, size_t height, unsigned int flags)
{
    struct cudaExtent extent = {width, height, 0};
    CUDA_ARRAY3D_DESCRIPTOR wanted = {0};
    if (flags)
        return cudaMalloc3DArray(array, desc, extent, flags);
    cudaError_t error = describe(desc, extent, 0, &wanted);
    CUDA_ARRAY_DESCRIPTOR plain = {width, height, wanted.Format, wanted.NumChannels};
    if (error == cudaSuccess)
        error = rt_enter();
    return rt_done(error == cudaSuccess ? RT_CALL(cuArrayCreate, ((CUarray *)array, &plain))
                                        : error);
}

cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t *mipmappedArray,
                                     const struct cudaChannelFormatDesc *desc,
                                     struct cudaExtent extent, unsigned int numLevels,
                                     unsigned int flags)
{
    CUDA_ARRAY3D_DESCRIPTOR wanted;
    cudaError_t error = describe(desc, extent, flags, &wanted);
    if (error == cudaSuccess)
        error = rt_enter();
    if (error == cudaSuccess)
        error = RT_CALL(cuMipmappedArrayCreate,
                        ((struct CUmipmappedArray_st **)mipmappedArray, &wanted, numLevels));
    return rt_done(error);
}

cudaError_t cudaFreeArray(cudaArray_t array)
{
    cudaError_t error = rt_enter();
    if (error == cudaSuccess && array)
        error = RT_CALL(cuArrayDestroy, ((CUarray)array));
    return rt_done(error);
}

cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t mipmappedArray)
{
    cudaError_t error = rt_enter();
    if (error == cudaSuccess && mipmappedArray)
        error = RT_CALL(cuMipmappedArrayDestroy, ((struct CUmipmappedArray_st *)mipmappedArray));
    return rt_done(error);
}

cudaError_t cudaGetMipmappedArrayLevel(cudaArray_t *levelArray,
                                       cudaMipmappedArray_const_t mipmappedArray,
                                       unsigned int level)
{
    cudaError_t error = rt_enter();
    if (error == cudaSuccess)
        error = RT_CALL(
            cuMipmappedArrayGetLevel,
            ((CUarray *)levelArray, (struct CUmipmappedArray_st *)(size_t)mipmappedArray, level));
    return rt_done(error);
}

cudaError_t cudaArrayGetMemoryRequirements(struct cudaArrayMemoryRequirements *memoryRequirements,
                                           cudaArray_t array, int device)
{
    cudaError_t error = rt_enter();
    if (error == cudaSuccess)
        error = RT_CALL(cuArrayGetMemoryRequirements, (memoryRequirements, (CUarray)array, device));
    return rt_done(error);
}

cudaError_t
cudaMipmappedArrayGetMemoryRequirements(struct cudaArrayMemoryRequirements *memoryRequirements,
                                        cudaMipmappedArray_t mipmap, int device)
{
    cudaError_t error = rt_enter();
    if (error == cudaSuccess)
        error = RT_CALL(cuMipmappedArrayGetMemoryRequirements,
                        (memoryRequirements, (struct CUmipmappedArray_st *)mipmap, device));
    return rt_done(error);
}

cudaError_t cudaArrayGetInfo(struct cudaChannelFormatDesc *desc, struct cudaExtent *extent,
                             unsigned int *flags, cudaArray_t array)
{
    CUDA_ARRAY3D_DESCRIPTOR have;
    cudaError_t error = rt_enter();
    if (error == cudaSuccess)
        error = RT_CALL(cuArray3DGetDescriptor, (&have, (CUarray)array));
    if (error != cudaSuccess)
        return rt_done(error);
    if (desc)
        *desc = channels_of(&have);
    if (extent)
        *extent = (struct cudaExtent){have.Width, have.Height, have.Depth};
    if (flags)
        *flags = have.Flags;
    return cudaSuccess;
}

cudaError_t cudaGetChannelDesc(struct cudaChannelFormatDesc *desc, cudaArray_const_t array)
{
    return cudaArrayGetInfo(desc, NULL, NULL, (cudaArray_t)(size_t)array);
}

cudaError_t cudaExternalMemoryGetMappedMipmappedArray(
    cudaMipmappedArray_t *mipmap, cudaExternalMemory_t extMem,
    const struct cudaExternalMemoryMipmappedArrayDesc *mipmapDesc)
{
    /* CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC */
    struct {
        unsigned long long offset;
        CUDA_ARRAY3D_DESCRIPTOR array;
        unsigned int levels, reserved[16];
    } wanted = {0};
    if (!mipmapDesc)
        return rt_done(cudaErrorInvalidValue);
    cudaError_t error =
        describe(&mipmapDesc->formatDesc, mipmapDesc->extent, mipmapDesc->flags, &wanted.array);
    wanted.offset = mipmapDesc->offset;
    wanted.levels = mipmapDesc->numLevels;
    if (error == cudaSuccess)
        error = rt_enter();
    if (error == cudaSuccess)
        error = RT_CALL(cuExternalMemoryGetMappedMipmappedArray,
                        ((struct CUmipmappedArray_st **)mipmap, extMem, &wanted));
    return rt_done(error);
}
