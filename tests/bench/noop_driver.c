/* noop_driver.c -- a libcuda.so.1 that does nothing: what is left of a pair's time is the guard's.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:   linked by the bench programs. Addresses are handed out and never used; there is one
 *          device and one context.
 * Threads: any.
 */
#include <stdatomic.h>
#include <string.h>

#include "cuda.h"

#define API __attribute__((visibility("default")))

enum { UNIT = 512 };
static const size_t total_bytes = (size_t)80 << 30;
static _Atomic unsigned long long next_address = 0x700000000000ull;
static char context_object;

static CUcontext the_context(void)
{
    return (CUcontext)(void *)&context_object;
}

API CUresult cuInit(unsigned int flags)
{
    (void)flags;
    return CUDA_SUCCESS;
}
API CUresult cuDriverGetVersion(int *version)
{
    *version = 13000;
    return CUDA_SUCCESS;
}
API CUresult cuDeviceGetCount(int *count)
{
    *count = 1;
    return CUDA_SUCCESS;
}
API CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    *device = ordinal;
    return CUDA_SUCCESS;
}
API CUresult cuDeviceGetName(char *name, int length, CUdevice device)
{
    (void)device;
    strncpy(name, "no-op", (size_t)length);
    return CUDA_SUCCESS;
}
API CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    (void)device;
    *bytes = total_bytes;
    return CUDA_SUCCESS;
}
API CUresult cuCtxGetCurrent(CUcontext *context)
{
    *context = the_context();
    return CUDA_SUCCESS;
}
API CUresult cuCtxGetDevice(CUdevice *device)
{
    *device = 0;
    return CUDA_SUCCESS;
}
API CUresult cuCtxGetId(CUcontext context, unsigned long long *id)
{
    (void)context;
    *id = 1;
    return CUDA_SUCCESS;
}
API CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    (void)mode;
    return CUDA_SUCCESS;
}
API CUresult cuMemGetInfo_v2(size_t *free_out, size_t *total_out)
{
    *free_out = total_bytes;
    *total_out = total_bytes;
    return CUDA_SUCCESS;
}
API CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
    unsigned long long span = (bytes + UNIT - 1) / UNIT * UNIT;
    *address = atomic_fetch_add_explicit(&next_address, span, memory_order_relaxed);
    return CUDA_SUCCESS;
}
API CUresult cuMemFree_v2(CUdeviceptr address)
{
    (void)address;
    return CUDA_SUCCESS;
}
