/* multicast.c -- memory of several devices behind one address.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Follows:    Driver API, Multicast Object Management: the size is whole granules; every device
 *             joins before anything is bound (the real call waits for that, this one says
 *             ILLEGAL_STATE); what is bound lies in memory of cuMemCreate on a device that has
 *             joined, and is unbound with the offset and size it was bound with.
 * Holds:      the object takes nothing of a device; what it binds lives at least as long as the
 *             binding.
 * Not here:   sending what is written there to the devices; sharing the object between processes
 *             (refused).
 */
#include "tests/sim/driver/sim.h"

#include <stdlib.h>

struct binding {
    struct vgsim_vmm_handle *multicast, *memory;
    size_t offset, size;
    struct binding *next;
};

static struct binding *bindings;

static bool is_whole(size_t value)
{
    return value && value % VGSIM_PAGE == 0;
}

static struct vgsim_vmm_handle *find(CUmemGenericAllocationHandle number)
{
    struct vgsim_vmm_handle *handle = vgsim_vmm_find(number);
    return handle && handle->multicast ? handle : NULL;
}

/* --- the object ------------------------------------------------------------------------------- */

static CUresult check(const CUmulticastObjectProp *prop)
{
    if (!prop || prop->flags || !is_whole(prop->size) || prop->numDevices == 0 ||
        prop->numDevices > (unsigned int)vgsim_knobs()->devices)
        return CUDA_ERROR_INVALID_VALUE;
    return prop->handleTypes & ~(unsigned long long)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
               ? CUDA_ERROR_NOT_SUPPORTED
               : CUDA_SUCCESS;
}

static CUresult create(CUmemGenericAllocationHandle *out, const CUmulticastObjectProp *prop)
{
    CUresult result = out ? check(prop) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    struct vgsim_vmm_handle values = {.size = prop->size,
                                      .multicast = true,
                                      .devices_wanted = prop->numDevices,
                                      .device = vgsim_current() ? vgsim_current()->device : 0};
    values.prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    values.prop.requestedHandleTypes = (CUmemAllocationHandleType)prop->handleTypes;
    struct vgsim_vmm_handle *handle = vgsim_vmm_new(&values);
    if (!handle)
        return CUDA_ERROR_OUT_OF_MEMORY;
    vgsim_books_object(handle->device, VGSIM_COUNTED_multicast, 1);
    *out = (uintptr_t)handle;
    return CUDA_SUCCESS;
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle *mcHandle,
                           const CUmulticastObjectProp *prop)
{
    CALL(INIT, create(mcHandle, prop));
}

bool vgsim_multicast_is_complete(const struct vgsim_vmm_handle *multicast)
{
    return (unsigned int)__builtin_popcount(multicast->devices) == multicast->devices_wanted;
}

static CUresult add_device(CUmemGenericAllocationHandle number, CUdevice device)
{
    struct vgsim_vmm_handle *multicast = find(number);
    if (!multicast)
        return CUDA_ERROR_INVALID_VALUE;
    if (!vgsim_is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    uint32_t bit = (uint32_t)1 << device;
    if (multicast->devices & bit || vgsim_multicast_is_complete(multicast))
        return CUDA_ERROR_INVALID_VALUE;
    multicast->devices |= bit;
    return CUDA_SUCCESS;
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle mcHandle, CUdevice dev)
{
    CALL(INIT, add_device(mcHandle, dev));
}

/* --- bindings --------------------------------------------------------------------------------- */

static bool is_free(const struct vgsim_vmm_handle *multicast, CUdevice device, size_t offset,
                    size_t size)
{
    for (const struct binding *at = bindings; at; at = at->next)
        if (at->multicast == multicast && at->memory->device == device &&
            offset < at->offset + at->size && at->offset < offset + size)
            return false;
    return true;
}

static CUresult bind(CUmemGenericAllocationHandle number, size_t offset,
                     struct vgsim_vmm_handle *memory, size_t memory_offset, size_t size,
                     unsigned long long flags)
{
    struct vgsim_vmm_handle *multicast = find(number);
    if (!multicast || !memory || memory->multicast || memory->host || flags || !is_whole(size) ||
        offset % VGSIM_PAGE || memory_offset % VGSIM_PAGE || offset > multicast->size ||
        size > multicast->size - offset || memory_offset > memory->size ||
        size > memory->size - memory_offset)
        return CUDA_ERROR_INVALID_VALUE;
    if (!vgsim_multicast_is_complete(multicast))
        return CUDA_ERROR_ILLEGAL_STATE;
    if (!(multicast->devices & (uint32_t)1 << memory->device))
        return CUDA_ERROR_INVALID_DEVICE;
    if ((multicast->prop.requestedHandleTypes && !memory->prop.requestedHandleTypes) ||
        !is_free(multicast, memory->device, offset, size))
        return CUDA_ERROR_INVALID_VALUE;
    struct binding *binding = malloc(sizeof *binding);
    if (!binding)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *binding = (struct binding){multicast, memory, offset, size, bindings};
    bindings = binding;
    memory->mappings++;
    return CUDA_SUCCESS;
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
                            CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size,
                            unsigned long long flags)
{
    CALL(INIT, bind(mcHandle, mcOffset, vgsim_vmm_find(memHandle), memOffset, size, flags));
}

static CUresult bind_address(CUmemGenericAllocationHandle number, size_t offset,
                             CUdeviceptr pointer, size_t size, unsigned long long flags)
{
    struct vgsim_block *block = vgsim_block_at((uintptr_t)pointer);
    if (!block || !block->handle || size > block->span - ((uintptr_t)pointer - block->address))
        return CUDA_ERROR_INVALID_VALUE;
    return bind(number, offset, block->handle, (uintptr_t)pointer - block->address, size, flags);
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
                             CUdeviceptr memptr, size_t size, unsigned long long flags)
{
    CALL(INIT, bind_address(mcHandle, mcOffset, memptr, size, flags));
}

static void drop(struct binding **at)
{
    struct binding *binding = *at;
    struct vgsim_vmm_handle *memory = binding->memory;
    *at = binding->next;
    free(binding);
    vgsim_vmm_unmapped(memory);
}

static CUresult unbind(CUmemGenericAllocationHandle number, CUdevice device, size_t offset,
                       size_t size)
{
    struct vgsim_vmm_handle *multicast = find(number);
    if (!multicast)
        return CUDA_ERROR_INVALID_VALUE;
    if (!vgsim_is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    for (struct binding **at = &bindings; *at; at = &(*at)->next)
        if ((*at)->multicast == multicast && (*at)->memory->device == device &&
            (*at)->offset == offset && (*at)->size == size) {
            drop(at);
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
                           size_t size)
{
    CALL(INIT, unbind(mcHandle, dev, mcOffset, size));
}

void vgsim_multicast_forget(struct vgsim_vmm_handle *multicast)
{
    vgsim_books_object(multicast->device, VGSIM_COUNTED_multicast, -1);
    for (struct binding **at = &bindings; *at;)
        if ((*at)->multicast == multicast)
            drop(at);
        else
            at = &(*at)->next;
}

static CUresult granularity(size_t *out, const CUmulticastObjectProp *prop)
{
    if (!out || !prop)
        return CUDA_ERROR_INVALID_VALUE;
    *out = VGSIM_PAGE;
    return CUDA_SUCCESS;
}

CUresult cuMulticastGetGranularity(size_t *granularity_out, const CUmulticastObjectProp *prop,
                                   CUmulticastGranularity_flags option)
{
    CALL(INIT,
         (unsigned int)option <= 1 ? granularity(granularity_out, prop) : CUDA_ERROR_INVALID_VALUE);
}
