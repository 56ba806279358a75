/* copy.c -- copies, by direction. A pitched copy or fill is its rows, one after the other.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:      each function has two exports, for the legacy and for the per-thread default stream;
 *             `ps` says which form of the driver's function is called.
 */
#include "runtime.h"

#include <stdbool.h>
#include <string.h>

static cudaError_t copy(bool ps, void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    CUdeviceptr dto = (CUdeviceptr)to, dfrom = (CUdeviceptr)from;
    if (!bytes)
        return cudaSuccess;
    switch (kind) {
    case cudaMemcpyHostToHost:
        memcpy(to, from, bytes);
        return cudaSuccess;
    case cudaMemcpyHostToDevice:
        return RT_CALL_PS(ps, cuMemcpyHtoD, (dto, from, bytes));
    case cudaMemcpyDeviceToHost:
        return RT_CALL_PS(ps, cuMemcpyDtoH, (to, dfrom, bytes));
    case cudaMemcpyDeviceToDevice:
        return RT_CALL_PS(ps, cuMemcpyDtoD, (dto, dfrom, bytes));
    case cudaMemcpyDefault:
        return RT_CALL_PS(ps, cuMemcpy, (dto, dfrom, bytes));
    default:
        return cudaErrorInvalidMemcpyDirection;
    }
}

static cudaError_t copy_async(bool ps, void *to, const void *from, size_t bytes,
                              enum cudaMemcpyKind kind, cudaStream_t stream)
{
    CUdeviceptr dto = (CUdeviceptr)to, dfrom = (CUdeviceptr)from;
    if (!bytes)
        return cudaSuccess;
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return RT_CALL_PS(ps, cuMemcpyHtoDAsync, (dto, from, bytes, stream));
    case cudaMemcpyDeviceToHost:
        return RT_CALL_PS(ps, cuMemcpyDtoHAsync, (to, dfrom, bytes, stream));
    case cudaMemcpyDeviceToDevice:
        return RT_CALL_PS(ps, cuMemcpyDtoDAsync, (dto, dfrom, bytes, stream));
    case cudaMemcpyHostToHost:
    case cudaMemcpyDefault:
        return RT_CALL_PS(ps, cuMemcpyAsync, (dto, dfrom, bytes, stream));
    default:
        return cudaErrorInvalidMemcpyDirection;
    }
}

static cudaError_t copy_rows(bool ps, void *dst, size_t dpitch, const void *src, size_t spitch,
                             size_t width, size_t height, enum cudaMemcpyKind kind)
{
    cudaError_t error = width > dpitch || width > spitch ? cudaErrorInvalidPitchValue : cudaSuccess;
    for (size_t row = 0; row < height && error == cudaSuccess; row++)
        error = copy(ps, (char *)dst + row * dpitch, (const char *)src + row * spitch, width, kind);
    return error;
}

static cudaError_t copy_rows_async(bool ps, void *dst, size_t dpitch, const void *src,
                                   size_t spitch, size_t width, size_t height,
                                   enum cudaMemcpyKind kind, cudaStream_t stream)
{
    cudaError_t error = width > dpitch || width > spitch ? cudaErrorInvalidPitchValue : cudaSuccess;
    for (size_t row = 0; row < height && error == cudaSuccess; row++)
        error = copy_async(ps, (char *)dst + row * dpitch, (const char *)src + row * spitch, width,
                           kind, stream);
    return error;
}

static cudaError_t fill_rows(bool ps, void *to, size_t pitch, int value, size_t width,
                             size_t height)
{
    cudaError_t error = width > pitch ? cudaErrorInvalidPitchValue : cudaSuccess;
    for (size_t row = 0; row < height && error == cudaSuccess; row++)
        error = RT_CALL_PS(ps, cuMemsetD8,
                           ((CUdeviceptr)to + row * pitch, (unsigned char)value, width));
    return error;
}

static cudaError_t fill_rows_async(bool ps, void *to, size_t pitch, int value, size_t width,
                                   size_t height, cudaStream_t stream)
{
    cudaError_t error = width > pitch ? cudaErrorInvalidPitchValue : cudaSuccess;
    for (size_t row = 0; row < height && error == cudaSuccess; row++)
        error = RT_CALL_PS(ps, cuMemsetD8Async,
                           ((CUdeviceptr)to + row * pitch, (unsigned char)value, width, stream));
    return error;
}

/* --- the exports: BOTH(suffix, name, parameters, what to do where `ps` says which form this is) */
#define ONE(name, is_per_thread, params, action)                                                   \
    RT_EXPORT cudaError_t name params;                                                             \
    cudaError_t name params                                                                        \
    {                                                                                              \
        const bool ps = is_per_thread;                                                             \
        cudaError_t error = rt_enter();                                                            \
        return rt_done(error == cudaSuccess ? action : error);                                     \
    }
#define BOTH(suffix, name, params, action)                                                         \
    ONE(name, false, params, action)                                                               \
    ONE(name##suffix, true, params, action)

BOTH(_ptds, cudaMemcpy, (void *dst, const void *src, size_t count, enum cudaMemcpyKind kind),
     copy(ps, dst, src, count, kind))
BOTH(_ptsz, cudaMemcpyAsync,
     (void *dst, const void *src, size_t count, enum cudaMemcpyKind kind, cudaStream_t stream),
     copy_async(ps, dst, src, count, kind, stream))
BOTH(_ptds, cudaMemcpy2D,
     (void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
      enum cudaMemcpyKind kind),
     copy_rows(ps, dst, dpitch, src, spitch, width, height, kind))
BOTH(_ptsz, cudaMemcpy2DAsync,
     (void *dst, size_t dpitch, const void *src, size_t spitch, size_t width, size_t height,
      enum cudaMemcpyKind kind, cudaStream_t stream),
     copy_rows_async(ps, dst, dpitch, src, spitch, width, height, kind, stream))
BOTH(_ptds, cudaMemset2D, (void *devPtr, size_t pitch, int value, size_t width, size_t height),
     fill_rows(ps, devPtr, pitch, value, width, height))
BOTH(_ptsz, cudaMemset2DAsync,
     (void *devPtr, size_t pitch, int value, size_t width, size_t height, cudaStream_t stream),
     fill_rows_async(ps, devPtr, pitch, value, width, height, stream))

/* All devices share one address space: the pointers say which devices are meant. */
cudaError_t cudaMemcpyPeer(void *dst, int dstDevice, const void *src, int srcDevice, size_t count)
{
    (void)dstDevice, (void)srcDevice;
    return cudaMemcpy(dst, src, count, cudaMemcpyDefault);
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int dstDevice, const void *src, int srcDevice,
                                size_t count, cudaStream_t stream)
{
    (void)dstDevice, (void)srcDevice;
    return cudaMemcpyAsync(dst, src, count, cudaMemcpyDefault, stream);
}
