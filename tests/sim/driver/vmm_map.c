/* vmm_map.c -- virtual memory: reserved addresses, and the handles that are mapped there.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Follows:    Driver API, Virtual Memory Management: cuMemMap (offset 0, whole granules, into a
 *             reservation, nothing mapped there yet), cuMemUnmap (whole mappings only),
 *             cuMemSetAccess (no access until it is given), cuMemAddressFree (what was reserved,
 *             with nothing mapped); Multicast Object Management: every device of a multicast object
 *             joins before it is mapped.
 * Holds:      a mapping lies in one reservation; it can be used when some device, or for memory of
 *             the host the host, has access.
 */
#include "tests/sim/driver/sim.h"

#include <stdlib.h>
#include <sys/mman.h>

#define HOST_BIT 31 /* in the masks of who may read and write; below it, the devices */

struct reservation {
    uintptr_t address;
    size_t size;
    struct reservation *next;
};

static struct {
    struct reservation *reservations;
    struct vgsim_block *mappings;
} state;

static bool is_whole(size_t value)
{
    return value && value % VGSIM_PAGE == 0;
}

/* --- reservations ----------------------------------------------------------------------------- */

static CUresult reserve(CUdeviceptr *out, size_t size, size_t alignment, unsigned long long flags)
{
    if (!out || flags || !is_whole(size) || alignment & (alignment - 1))
        return CUDA_ERROR_INVALID_VALUE;
    struct reservation *reservation = malloc(sizeof *reservation);
    void *address =
        reservation ? vgsim_space_map(size, alignment > VGSIM_PAGE ? alignment : VGSIM_PAGE) : NULL;
    if (!address || mprotect(address, size, PROT_NONE)) {
        free(reservation);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *reservation = (struct reservation){(uintptr_t)address, size, state.reservations};
    state.reservations = reservation;
    *out = (uintptr_t)address;
    return CUDA_SUCCESS;
}

/* The wanted address is a hint, and not followed. */
CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                             unsigned long long flags)
{
    (void)addr;
    CALL(INIT, reserve(ptr, size, alignment, flags));
}

static CUresult free_reservation(CUdeviceptr address, size_t size)
{
    for (struct reservation **at = &state.reservations; *at; at = &(*at)->next) {
        struct reservation *reservation = *at;
        if (reservation->address != (uintptr_t)address || reservation->size != size)
            continue;
        if (vgsim_block_over(reservation->address, size))
            return CUDA_ERROR_INVALID_VALUE;
        vgsim_space_unmap((void *)reservation->address, size);
        *at = reservation->next;
        free(reservation);
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
    CALL(INIT, free_reservation(ptr, size));
}

static bool is_reserved(uintptr_t address, size_t size)
{
    for (const struct reservation *at = state.reservations; at; at = at->next)
        if (address >= at->address && address - at->address <= at->size &&
            size <= at->size - (address - at->address))
            return true;
    return false;
}

/* --- mappings --------------------------------------------------------------------------------- */

static CUresult map(CUdeviceptr pointer, size_t size, size_t offset,
                    CUmemGenericAllocationHandle number, unsigned long long flags)
{
    struct vgsim_vmm_handle *handle = vgsim_vmm_find(number);
    uintptr_t address = (uintptr_t)pointer;
    if (!handle || flags || offset || !is_whole(size) || size > handle->size ||
        address % VGSIM_PAGE || !is_reserved(address, size) || vgsim_block_over(address, size))
        return CUDA_ERROR_INVALID_VALUE;
    if (handle->multicast && !vgsim_multicast_is_complete(handle))
        return CUDA_ERROR_ILLEGAL_STATE; /* the real call waits, for ever if need be */
    if (mmap((void *)address, size, PROT_NONE, MAP_SHARED | MAP_FIXED, handle->fd,
             handle->offset) == MAP_FAILED)
        return CUDA_ERROR_OPERATING_SYSTEM;
    struct vgsim_block block = {.address = address,
                                .bytes = size,
                                .span = size,
                                .kind = VGSIM_KIND_vmm,
                                .device = handle->device,
                                .handle = handle};
    if (!vgsim_block_add(&block, &state.mappings))
        return CUDA_ERROR_OUT_OF_MEMORY;
    handle->mappings++;
    return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
    CALL(INIT, map(ptr, size, offset, handle, flags));
}

/* The range is whole mappings, side by side. */
static bool is_mapped(uintptr_t address, size_t size)
{
    uintptr_t end = address + size;
    while (address < end) {
        const struct vgsim_block *block = vgsim_block_at(address);
        if (!block || block->kind != VGSIM_KIND_vmm || block->address != address ||
            block->span > end - address)
            return false;
        address += block->span;
    }
    return size != 0;
}

static CUresult unmap(CUdeviceptr pointer, size_t size)
{
    uintptr_t address = (uintptr_t)pointer, end = address + size;
    if (end < address || !is_mapped(address, size))
        return CUDA_ERROR_INVALID_VALUE;
    mmap((void *)address, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
         -1, 0);
    while (address < end) {
        struct vgsim_block *block = vgsim_block_at(address);
        struct vgsim_vmm_handle *handle = block->handle;
        address += block->span;
        vgsim_block_remove(block, &state.mappings);
        vgsim_vmm_unmapped(handle);
    }
    return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    CALL(INIT, unmap(ptr, size));
}

/* Which bit of a mask a location is; -1: this memory cannot be given to it. */
static int bit_of(const struct vgsim_block *block, const CUmemLocation *where)
{
    bool host =
        where->type == CU_MEM_LOCATION_TYPE_HOST || where->type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
    if (host)
        return block->handle->host ? HOST_BIT : -1;
    if (where->type != CU_MEM_LOCATION_TYPE_DEVICE || !vgsim_is_device(where->id))
        return -1;
    if (block->handle->host || block->handle->multicast || where->id == block->device)
        return where->id;
    return vgsim_is_peer(where->id, block->device) ? where->id : -1;
}

static void give_access(struct vgsim_block *block, int bit, CUmemAccess_flags flags)
{
    uint32_t mask = (uint32_t)1 << bit;
    block->readers &= ~mask;
    block->writers &= ~mask;
    if (flags & CU_MEM_ACCESS_FLAGS_PROT_READ)
        block->readers |= mask;
    if (flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
        block->writers |= mask;
    block->flags = block->writers   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                   : block->readers ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                    : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    int protection = (block->readers ? PROT_READ : 0) | (block->writers ? PROT_WRITE : 0);
    mprotect((void *)block->address, block->span, protection);
}

static CUresult set_access(CUdeviceptr pointer, size_t size, const CUmemAccessDesc *desc,
                           size_t count)
{
    uintptr_t address = (uintptr_t)pointer, end = address + size;
    if (!desc || count == 0 || end < address || !is_mapped(address, size))
        return CUDA_ERROR_INVALID_VALUE;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < count; i++)
            for (uintptr_t at = address; at < end;) {
                struct vgsim_block *block = vgsim_block_at(at);
                int bit = bit_of(block, &desc[i].location);
                at += block->span;
                if (bit < 0)
                    return CUDA_ERROR_INVALID_DEVICE; /* in the first pass: nothing has changed */
                if (pass == 1)
                    give_access(block, bit, desc[i].flags);
            }
    return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    CALL(INIT, set_access(ptr, size, desc, count));
}

static CUresult get_access(unsigned long long *out, const CUmemLocation *where, CUdeviceptr pointer)
{
    const struct vgsim_block *block = vgsim_block_at((uintptr_t)pointer);
    if (!out || !where || !block || block->kind != VGSIM_KIND_vmm)
        return CUDA_ERROR_INVALID_VALUE;
    int bit = bit_of(block, where);
    uint32_t mask = bit < 0 ? 0 : (uint32_t)1 << bit;
    *out = block->writers & mask   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
           : block->readers & mask ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                   : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
    CALL(INIT, get_access(flags, location, ptr));
}
