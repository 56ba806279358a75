/* copy.c -- copies, by direction. A pitched copy or fill is its rows, one after the other.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "runtime.h"

#include <stdbool.h>
#include <string.h>

static cudaError_t copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    CUdeviceptr dto = (CUdeviceptr)to, dfrom = (CUdeviceptr)from;
    if (!bytes)
        return cudaSuccess;
    switch (kind) {
    case cudaMemcpyHostToHost:
        memcpy(to, from, bytes);
        return cudaSuccess;
    case cudaMemcpyHostToDevice:
        return RT_CALL(cuMemcpyHtoD, (dto, from, bytes));
    case cudaMemcpyDeviceToHost:
        return RT_CALL(cuMemcpyDtoH, (to, dfrom, bytes));
    case cudaMemcpyDeviceToDevice:
        return RT_CALL(cuMemcpyDtoD, (dto, dfrom, bytes));
    case cudaMemcpyDefault:
        return RT_CALL(cuMemcpy, (dto, dfrom, bytes));
    default:
        return cudaErrorInvalidMemcpyDirection;
    }
}

static cudaError_t copy_async(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                              cudaStream_t stream)
{
    CUdeviceptr dto = (CUdeviceptr)to, dfrom = (CUdeviceptr)from;
    if (!bytes)
        return cudaSuccess;
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return RT_CALL(cuMemcpyHtoDAsync, (dto, from, bytes, stream));
    case cudaMemcpyDeviceToHost:
        return RT_CALL(cuMemcpyDtoHAsync, (to, dfrom, bytes, stream));
    case cudaMemcpyDeviceToDevice:
        return RT_CALL(cuMemcpyDtoDAsync, (dto, dfrom, bytes, stream));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return RT_CALL(cuMemcpyAsync, (dto, dfrom, bytes, stream));
    default:
        return cudaErrorInvalidMemcpyDirection;
    }
}

cudaError_t cudaMemcpy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind)
{
    cudaError_t error = rt_enter();
    return rt_done(error == cudaSuccess ? copy(dst, src, count, kind) : error);
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    cudaError_t error = rt_enter();
    return rt_done(error == cudaSuccess ? copy_async(dst, src, count, kind, stream) : error);
}

cudaError_t cudaMemcpy2D(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                         size_t height, enum cudaMemcpyKind kind)
{
    cudaError_t error = width > dpitch || width > spitch ? cudaErrorInvalidPitchValue : rt_enter();
    for (size_t row = 0; row < height && error == cudaSuccess; row++)
        error = copy((char *)dst + row * dpitch, (const char *)src + row * spitch, width, kind);
    return rt_done(error);
}

cudaError_t cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream)
{
    cudaError_t error = width > dpitch || width > spitch ? cudaErrorInvalidPitchValue : rt_enter();
    for (size_t row = 0; row < height && error == cudaSuccess; row++)
        error = copy_async((char *)dst + row * dpitch, (const char *)src + row * spitch, width,
                           kind, stream);
    return rt_done(error);
}

/* All devices share one address space: the pointers say which devices are meant. */
cudaError_t cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice,
                                size_t count, cudaStream_t stream)
{
    (void)dstDevice, (void)srcDevice;
    return cudaMemcpyAsync(dst, src, count, cudaMemcpyDefault, stream);
}

cudaError_t cudaMemset2D(void *devPtr, size_t pitch, int value, size_t width, size_t height)
{
    cudaError_t error = width > pitch ? cudaErrorInvalidPitchValue : rt_enter();
    for (size_t row = 0; row < height && error == cudaSuccess; row++)
        error =
            RT_CALL(cuMemsetD8, ((CUdeviceptr)devPtr + row * pitch, (unsigned char)value, width));
    return rt_done(error);
}
