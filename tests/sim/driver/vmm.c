/* vmm.c -- virtual memory: reservations, handles, mappings.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Holds:      a handle's pages are taken when it is created and given back when its last reference and its
 *             last mapping are gone. A mapping lies in one reservation; it can be used when it has access.
 *             Its memory is a part of one sparse file, so that two mappings of a handle are the same bytes;
 *             a handle that may be exported has a file of its own.
 * Not here:   other devices, memory of the host, multicast (refused).
 */
#include "tests/sim/driver/sim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct reservation {
    uintptr_t address;
    size_t size;
    struct reservation *next;
};

static struct {
    struct reservation *reservations;
    struct vgsim_block *mappings;
    struct vgsim_vmm_handle *handles;
    int file; /* of all handles that are not exported; +1, so that 0 is none */
    off_t file_end;
} state;

/* --- handles ---------------------------------------------------------------------------------------------- */

static bool is_whole(size_t value)
{
    return value && value % VGSIM_PAGE == 0;
}

static CUresult check_prop(const CUmemAllocationProp *prop)
{
    if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        prop->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    return vgsim_is_device(prop->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static bool open_memory(struct vgsim_vmm_handle *handle)
{
    bool own = handle->prop.requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE;
    if (own || !state.file) {
        int fd = memfd_create("vgsim", MFD_CLOEXEC);
        if (fd < 0)
            return false;
        handle->fd = fd;
        if (!own)
            state.file = fd + 1;
    }
    handle->own_file = own;
    handle->fd = own ? handle->fd : state.file - 1;
    handle->offset = own ? 0 : state.file_end;
    if (!ftruncate(handle->fd, handle->offset + (off_t)handle->size)) {
        state.file_end += own ? 0 : (off_t)handle->size;
        return true;
    }
    if (own)
        close(handle->fd);
    return false;
}

static void close_memory(const struct vgsim_vmm_handle *handle)
{
    if (handle->own_file)
        close(handle->fd);
    else
        fallocate(handle->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, handle->offset,
                  (off_t)handle->size);
}

static struct vgsim_vmm_handle *new_handle(void)
{
    struct vgsim_vmm_handle *handle = vgsim_object_add(VMM_HANDLE, sizeof *handle, NULL);
    if (!handle)
        return NULL;
    handle->references = 1;
    handle->next = state.handles;
    if (handle->next)
        handle->next->previous = handle;
    state.handles = handle;
    return handle;
}

static void drop_handle(struct vgsim_vmm_handle *handle)
{
    if (handle->previous)
        handle->previous->next = handle->next;
    else
        state.handles = handle->next;
    if (handle->next)
        handle->next->previous = handle->previous;
    vgsim_object_remove(handle);
}

static void drop_if_unused(struct vgsim_vmm_handle *handle)
{
    if (handle->references || handle->mappings)
        return;
    close_memory(handle);
    if (!handle->imported) {
        vgsim_pages_give(handle->prop.location.id, handle->size / VGSIM_PAGE);
        vgsim_books_count(handle->prop.location.id, VGSIM_KIND_vmm, -(int64_t)handle->size, -1);
    }
    struct vgsim_vmm_handle *origin = handle->origin;
    drop_handle(handle);
    if (origin) {
        origin->mappings--;
        drop_if_unused(origin);
    }
}

static CUresult create(CUmemGenericAllocationHandle *out, size_t size,
                       const CUmemAllocationProp *prop, unsigned long long flags)
{
    CUresult result = check_prop(prop);
    if (result != CUDA_SUCCESS)
        return result;
    if (!out || flags || !is_whole(size))
        return CUDA_ERROR_INVALID_VALUE;
    if (!vgsim_pages_take(prop->location.id, size / VGSIM_PAGE))
        return vgsim_refused(prop->location.id);
    struct vgsim_vmm_handle *handle = new_handle();
    if (handle) {
        handle->prop = *prop;
        handle->size = size;
    }
    if (!handle || !open_memory(handle)) {
        if (handle)
            drop_handle(handle);
        vgsim_pages_give(prop->location.id, size / VGSIM_PAGE);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    vgsim_books_count(prop->location.id, VGSIM_KIND_vmm, (int64_t)size, 1);
    *out = (uintptr_t)handle;
    return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                     const CUmemAllocationProp *prop, unsigned long long flags)
{
    CALL(INIT | UNSAFE, create(handle, size, prop, flags));
}

static struct vgsim_vmm_handle *find(CUmemGenericAllocationHandle number)
{
    struct vgsim_vmm_handle *handle = (struct vgsim_vmm_handle *)(uintptr_t)number;
    return vgsim_object_is(handle, VMM_HANDLE) && handle->references ? handle : NULL;
}

static CUresult release(CUmemGenericAllocationHandle number)
{
    struct vgsim_vmm_handle *handle = find(number);
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    handle->references--;
    drop_if_unused(handle);
    return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    CALL(INIT, release(handle));
}

static CUresult retain(CUmemGenericAllocationHandle *out, void *address)
{
    struct vgsim_block *block = vgsim_block_at((uintptr_t)address);
    if (!out || !block || !block->handle)
        return CUDA_ERROR_INVALID_VALUE;
    block->handle->references++;
    *out = (uintptr_t)block->handle;
    return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
    CALL(INIT, retain(handle, addr));
}

static CUresult properties(CUmemAllocationProp *out, CUmemGenericAllocationHandle number)
{
    struct vgsim_vmm_handle *handle = find(number);
    if (!out || !handle)
        return CUDA_ERROR_INVALID_VALUE;
    *out = handle->prop;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                CUmemGenericAllocationHandle handle)
{
    CALL(INIT, properties(prop, handle));
}

static CUresult granularity(size_t *out, const CUmemAllocationProp *prop)
{
    CUresult result = check_prop(prop);
    if (result == CUDA_SUCCESS && !out)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *out = VGSIM_PAGE;
    return result;
}

CUresult cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option)
{
    CALL(INIT, (unsigned int)option <= 1 ? granularity(out, prop) : CUDA_ERROR_INVALID_VALUE);
}

/* --- handles of other processes ------------------------------------------------------------------------------- */

static CUresult export_handle(void *out, CUmemGenericAllocationHandle number,
                              CUmemAllocationHandleType type, unsigned long long flags)
{
    struct vgsim_vmm_handle *handle = find(number);
    if (!out || !handle || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        !handle->own_file)
        return CUDA_ERROR_INVALID_VALUE;
    int fd = fcntl(handle->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
        return CUDA_ERROR_OPERATING_SYSTEM;
    *(int *)out = fd;
    return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType handleType,
                                      unsigned long long flags)
{
    CALL(INIT, export_handle(shareableHandle, handle, handleType, flags));
}

static struct vgsim_vmm_handle *handle_of_file(const struct stat *wanted)
{
    struct stat info;
    for (struct vgsim_vmm_handle *at = state.handles; at; at = at->next)
        if (at->own_file && !at->imported && !fstat(at->fd, &info) &&
            info.st_dev == wanted->st_dev && info.st_ino == wanted->st_ino)
            return at;
    return NULL;
}

/* An alias: the bytes are the exporter's, and stay while the alias lives. */
static CUresult import_handle(CUmemGenericAllocationHandle *out, void *os_handle,
                              CUmemAllocationHandleType type)
{
    struct stat info;
    int fd = (int)(intptr_t)os_handle;
    if (!out || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || fstat(fd, &info) ||
        !S_ISREG(info.st_mode) || !is_whole((size_t)info.st_size))
        return CUDA_ERROR_INVALID_VALUE;
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    struct vgsim_vmm_handle *handle = own < 0 ? NULL : new_handle();
    if (!handle) {
        if (own >= 0)
            close(own);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    handle->imported = handle->own_file = true;
    handle->fd = own;
    handle->size = (size_t)info.st_size;
    handle->prop = (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
    };
    handle->origin = handle_of_file(&info);
    if (handle->origin) {
        handle->origin->mappings++;
        handle->prop = handle->origin->prop;
    }
    *out = (uintptr_t)handle;
    return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
                                        CUmemAllocationHandleType shHandleType)
{
    CALL(INIT, import_handle(handle, osHandle, shHandleType));
}

/* --- reservations ------------------------------------------------------------------------------------------------ */

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

/* --- mappings ------------------------------------------------------------------------------------------------------ */

static CUresult map(CUdeviceptr pointer, size_t size, size_t offset,
                    CUmemGenericAllocationHandle number, unsigned long long flags)
{
    struct vgsim_vmm_handle *handle = find(number);
    uintptr_t address = (uintptr_t)pointer;
    if (!handle || flags || offset || !is_whole(size) || size > handle->size ||
        address % VGSIM_PAGE || !is_reserved(address, size) || vgsim_block_over(address, size))
        return CUDA_ERROR_INVALID_VALUE;
    if (mmap((void *)address, size, PROT_NONE, MAP_SHARED | MAP_FIXED, handle->fd,
             handle->offset) == MAP_FAILED)
        return CUDA_ERROR_OPERATING_SYSTEM;
    struct vgsim_block block = {.address = address,
                                .bytes = size,
                                .span = size,
                                .kind = VGSIM_KIND_vmm,
                                .device = handle->prop.location.id,
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
        handle->mappings--;
        drop_if_unused(handle);
    }
    return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    CALL(INIT, unmap(ptr, size));
}

static CUresult set_access(CUdeviceptr pointer, size_t size, const CUmemAccessDesc *desc,
                           size_t count)
{
    uintptr_t address = (uintptr_t)pointer, end = address + size;
    if (!desc || count == 0 || end < address || !is_mapped(address, size))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
            !vgsim_is_device(desc[i].location.id))
            return CUDA_ERROR_INVALID_DEVICE;
        for (uintptr_t at = address; at < end;) {
            struct vgsim_block *block = vgsim_block_at(at);
            at += block->span;
            if (block->device != desc[i].location.id)
                return CUDA_ERROR_NOT_SUPPORTED;
            block->flags = desc[i].flags;
        }
        int protection = desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                             ? PROT_READ | PROT_WRITE
                             : (int)desc[i].flags;
        if (mprotect((void *)address, size, protection))
            return CUDA_ERROR_OPERATING_SYSTEM;
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
    bool own = where->type == CU_MEM_LOCATION_TYPE_DEVICE && where->id == block->device;
    *out = own ? block->flags : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
    CALL(INIT, get_access(flags, location, ptr));
}
