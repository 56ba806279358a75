/* external.c -- memory that another interface made: imported, mapped as a buffer.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:      the driver's descriptors end in reserved words, the runtime's only since 13: copied
 *             field by field.
 */
#include "runtime.h"

/* CUDA_EXTERNAL_MEMORY_HANDLE_DESC and CUDA_EXTERNAL_MEMORY_BUFFER_DESC. */
struct handle_descriptor {
    unsigned int type;
    union {
        int fd;
        struct {
            void *handle;
            const void *name;
        } win32;
        const void *nvSciBufObject;
    } handle;
    unsigned long long size;
    unsigned int flags, reserved[16];
};
struct buffer_descriptor {
    unsigned long long offset, size;
    unsigned int flags, reserved[16];
};

cudaError_t cudaImportExternalMemory(cudaExternalMemory_t *extMem_out,
                                     const struct cudaExternalMemoryHandleDesc *memHandleDesc)
{
    if (!extMem_out || !memHandleDesc)
        return rt_done(cudaErrorInvalidValue);
    struct handle_descriptor wanted = {
        .type = memHandleDesc->type, .size = memHandleDesc->size, .flags = memHandleDesc->flags};
    if (memHandleDesc->type == cudaExternalMemoryHandleTypeOpaqueFd)
        wanted.handle.fd = memHandleDesc->handle.fd;
    else
        wanted.handle.win32.handle = memHandleDesc->handle.win32.handle;
    cudaError_t error = rt_enter();
    return rt_done(error == cudaSuccess ? RT_CALL(cuImportExternalMemory, (extMem_out, &wanted))
                                        : error);
}

cudaError_t cudaExternalMemoryGetMappedBuffer(void **devPtr, cudaExternalMemory_t extMem,
                                              const struct cudaExternalMemoryBufferDesc *bufferDesc)
{
    if (!devPtr || !bufferDesc)
        return rt_done(cudaErrorInvalidValue);
    struct buffer_descriptor wanted = {
        .offset = bufferDesc->offset, .size = bufferDesc->size, .flags = bufferDesc->flags};
    cudaError_t error = rt_enter();
    if (error == cudaSuccess)
        error = RT_CALL(cuExternalMemoryGetMappedBuffer, ((CUdeviceptr *)devPtr, extMem, &wanted));
    return rt_done(error);
}
