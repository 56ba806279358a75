/* memory.c -- allocations and frees that are more than one driver call, and what a pointer is.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "runtime.h"

#include <string.h>

/* Nothing is asked of the driver for 0 bytes, and NULL is a success. */
cudaError_t cudaMalloc(void **devPtr, size_t size)
{
    if (!devPtr)
        return rt_done(cudaErrorInvalidValue);
    cudaError_t error = rt_enter();
    CUdeviceptr pointer = 0;
    if (error == cudaSuccess && size)
        error = RT_CALL(cuMemAlloc, (&pointer, size));
    if (error == cudaSuccess)
        *devPtr = (void *)pointer;
    return rt_done(error);
}

cudaError_t cudaFree(void *devPtr)
{
    cudaError_t error = rt_enter();
    if (error == cudaSuccess && devPtr)
        error = RT_CALL(cuMemFree, ((CUdeviceptr)devPtr));
    return rt_done(error);
}

cudaError_t cudaFreeHost(void *ptr)
{
    cudaError_t error = rt_enter();
    if (error == cudaSuccess && ptr)
        error = RT_CALL(cuMemFreeHost, (ptr));
    return rt_done(error);
}

cudaError_t cudaMallocPitch(void **devPtr, size_t *pitch, size_t width, size_t height)
{
    enum { WIDEST_ELEMENT = 16 };
    if (!devPtr || !pitch)
        return rt_done(cudaErrorInvalidValue);
    cudaError_t error = rt_enter();
    CUdeviceptr pointer = 0;
    if (error == cudaSuccess && width && height)
        error = RT_CALL(cuMemAllocPitch, (&pointer, pitch, width, height, WIDEST_ELEMENT));
    if (error == cudaSuccess)
        *devPtr = (void *)pointer;
    return rt_done(error);
}

cudaError_t cudaMalloc3D(struct cudaPitchedPtr *pitchedDevPtr, struct cudaExtent extent)
{
    if (!pitchedDevPtr)
        return rt_done(cudaErrorInvalidValue);
    struct cudaPitchedPtr made = {.xsize = extent.width, .ysize = extent.height};
    cudaError_t error =
        cudaMallocPitch(&made.ptr, &made.pitch, extent.width, extent.height * extent.depth);
    if (error == cudaSuccess)
        *pitchedDevPtr = made;
    return error;
}

static enum cudaMemoryType memory_type(unsigned int driver_type, unsigned int managed)
{
    if (managed)
        return cudaMemoryTypeManaged;
    if (driver_type == CU_MEMORYTYPE_DEVICE)
        return cudaMemoryTypeDevice;
    return driver_type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
}

/* A pointer that the driver never saw is no error: it is unregistered host memory. */
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr)
{
    unsigned int type = 0, managed = 0;
    enum { NO_DEVICE = -2 };
    int device = NO_DEVICE;
    CUdeviceptr on_device = 0;
    void *on_host = NULL;
    CUpointer_attribute wanted[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        CU_POINTER_ATTRIBUTE_HOST_POINTER};
    void *values[] = {&type, &managed, &device, &on_device, &on_host};
    if (!attributes)
        return rt_done(cudaErrorInvalidValue);
    cudaError_t error = rt_enter();
    if (error == cudaSuccess)
        error = RT_CALL(cuPointerGetAttributes,
                        (sizeof(wanted) / sizeof(wanted[0]), wanted, values, (CUdeviceptr)ptr));
    if (error != cudaSuccess)
        return rt_done(error);
    memset(attributes, 0, sizeof(*attributes));
    attributes->type = memory_type(type, managed);
    attributes->device = attributes->type == cudaMemoryTypeUnregistered ? NO_DEVICE : device;
    attributes->devicePointer = (void *)on_device;
    attributes->hostPointer =
        attributes->type == cudaMemoryTypeUnregistered ? (void *)(size_t)ptr : on_host;
    return cudaSuccess;
}
