/* vmm.c -- virtual memory: handles, their references, and handing them to other processes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Follows:    Driver API, Virtual Memory Management: cuMemCreate (whole granules; memory of the
 *             host by type HOST or HOST_NUMA, which takes nothing of a device), cuMemRelease
 *             (memory goes with the last reference and the last mapping),
 *             cuMemRetainAllocationHandle, cuMemExportToShareableHandle.
 * Holds:      a handle's pages are taken when it is created and given back when its last reference
 *             and its last mapping are gone. Its memory is a part of one sparse file, so that two
 *             mappings of a handle are the same bytes; a handle that may be exported has a file of
 *             its own, whose name tells the device. What is imported, and a multicast object, has
 *             no pages: it is listed as imported.
 * Not here:   mappings (vmm_map.c), what multicast objects bind (multicast.c).
 */
#include "tests/sim/driver/sim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    struct vgsim_vmm_handle *handles;
    int file; /* of all handles that are not exported; +1, so that 0 is none */
    off_t file_end;
} state;

/* --- handles ---------------------------------------------------------------------------------- */

static bool is_whole(size_t value)
{
    return value && value % VGSIM_PAGE == 0;
}

static bool is_host(const CUmemAllocationProp *prop)
{
    return prop->location.type == CU_MEM_LOCATION_TYPE_HOST ||
           prop->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
}

static CUresult check_host(const CUmemAllocationProp *prop)
{
    if (prop->location.type == CU_MEM_LOCATION_TYPE_HOST && prop->requestedHandleTypes)
        return CUDA_ERROR_INVALID_VALUE;
    if (prop->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA && prop->location.id != 0)
        return CUDA_ERROR_INVALID_VALUE; /* this machine has one node */
    return CUDA_SUCCESS;
}

static CUresult check_prop(const CUmemAllocationProp *prop)
{
    if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (prop->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (is_host(prop))
        return check_host(prop);
    if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    return vgsim_is_device(prop->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

/* Where it is counted that belongs to no device: on the current one. */
static CUdevice some_device(void)
{
    return vgsim_current() ? vgsim_current()->device : 0;
}

static enum vgsim_kind kind_of(const struct vgsim_vmm_handle *handle)
{
    if (handle->imported || handle->multicast)
        return VGSIM_KIND_imported;
    return handle->host ? VGSIM_KIND_vmm_host : VGSIM_KIND_vmm;
}

/* --- files ------------------------------------------------------------------------------------ */

static void name_file(const struct vgsim_vmm_handle *handle, char *out, size_t size)
{
    if (handle->multicast)
        snprintf(out, size, "vgsim-multicast:%u", handle->devices_wanted);
    else
        snprintf(out, size, "vgsim-memory:%d", (int)handle->device);
}

/* What an exported file's name says: memory of which device, or a multicast object of how many. */
static bool read_name(int fd, const char *prefix, int *number_out)
{
    char path[32], text[128];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(path, text, sizeof text - 1);
    text[length > 0 ? length : 0] = '\0';
    const char *found = strstr(text, prefix);
    if (!found)
        return false;
    *number_out = atoi(found + strlen(prefix));
    return true;
}

static bool open_memory(struct vgsim_vmm_handle *handle)
{
    bool own = handle->prop.requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE;
    if (own || !state.file) {
        char name[64];
        name_file(handle, name, sizeof name);
        int fd = memfd_create(name, MFD_CLOEXEC);
        if (fd < 0)
            return false;
        handle->fd = fd;
        if (!own)
            state.file = fd + 1;
    }
    struct stat info;
    handle->own_file = own;
    handle->fd = own ? handle->fd : state.file - 1;
    handle->offset = own ? 0 : state.file_end;
    if (!ftruncate(handle->fd, handle->offset + (off_t)handle->size)) {
        state.file_end += own ? 0 : (off_t)handle->size;
        handle->inode = own && !fstat(handle->fd, &info) ? (uint64_t)info.st_ino : 0;
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
    enum vgsim_kind kind = kind_of(handle);
    if (handle->multicast)
        vgsim_multicast_forget(handle);
    if (handle->imported && !handle->origin)
        vgsim_sharing_closed(handle->inode);
    if (kind == VGSIM_KIND_vmm) {
        vgsim_sharing_freed(handle->inode, handle->device, handle->size);
        vgsim_pages_give(handle->device, handle->size / VGSIM_PAGE);
    }
    vgsim_books_count(handle->device, kind, -(int64_t)handle->size, -1);
    close_memory(handle);
    struct vgsim_vmm_handle *origin = handle->origin;
    drop_handle(handle);
    if (origin) {
        origin->mappings--;
        drop_if_unused(origin);
    }
}

struct vgsim_vmm_handle *vgsim_vmm_new(const struct vgsim_vmm_handle *values)
{
    struct vgsim_vmm_handle *handle = new_handle();
    if (!handle)
        return NULL;
    handle->prop = values->prop;
    handle->size = values->size;
    handle->device = values->device;
    handle->host = values->host;
    handle->multicast = values->multicast;
    handle->devices_wanted = values->devices_wanted;
    if (!open_memory(handle)) {
        drop_handle(handle);
        return NULL;
    }
    vgsim_books_count(handle->device, kind_of(handle), (int64_t)handle->size, 1);
    return handle;
}

static CUresult create(CUmemGenericAllocationHandle *out, size_t size,
                       const CUmemAllocationProp *prop, unsigned long long flags)
{
    CUresult result = check_prop(prop);
    if (result != CUDA_SUCCESS)
        return result;
    if (!out || flags || !is_whole(size))
        return CUDA_ERROR_INVALID_VALUE;
    struct vgsim_vmm_handle values = {.prop = *prop, .size = size, .host = is_host(prop)};
    values.device = values.host ? some_device() : prop->location.id;
    size_t pages = values.host ? 0 : size / VGSIM_PAGE;
    if (!vgsim_pages_take(values.device, pages))
        return vgsim_refused(values.device);
    struct vgsim_vmm_handle *handle = vgsim_vmm_new(&values);
    if (!handle) {
        vgsim_pages_give(values.device, pages);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = (uintptr_t)handle;
    return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                     const CUmemAllocationProp *prop, unsigned long long flags)
{
    CALL(INIT | UNSAFE, create(handle, size, prop, flags));
}

struct vgsim_vmm_handle *vgsim_vmm_find(CUmemGenericAllocationHandle number)
{
    struct vgsim_vmm_handle *handle = (struct vgsim_vmm_handle *)(uintptr_t)number;
    return vgsim_object_is(handle, VMM_HANDLE) && handle->references ? handle : NULL;
}

void vgsim_vmm_unmapped(struct vgsim_vmm_handle *handle)
{
    handle->mappings--;
    drop_if_unused(handle);
}

static CUresult release(CUmemGenericAllocationHandle number)
{
    struct vgsim_vmm_handle *handle = vgsim_vmm_find(number);
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
    struct vgsim_vmm_handle *handle = vgsim_vmm_find(number);
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

/* --- handles of other processes --------------------------------------------------------------- */

static CUresult export_handle(void *out, CUmemGenericAllocationHandle number,
                              CUmemAllocationHandleType type, unsigned long long flags)
{
    struct vgsim_vmm_handle *handle = vgsim_vmm_find(number);
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
    int fd = (int)(intptr_t)os_handle, number;
    if (!out || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || fstat(fd, &info) ||
        !S_ISREG(info.st_mode) || !is_whole((size_t)info.st_size) ||
        !read_name(fd, "vgsim-memory:", &number) || !vgsim_is_device(number))
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
    handle->inode = (uint64_t)info.st_ino;
    handle->size = (size_t)info.st_size;
    handle->device = number;
    handle->prop = (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, number},
    };
    handle->origin = handle_of_file(&info);
    if (handle->origin) {
        handle->origin->mappings++;
        handle->prop = handle->origin->prop;
    } else {
        vgsim_sharing_opened(handle->inode);
    }
    vgsim_books_count(handle->device, VGSIM_KIND_imported, (int64_t)handle->size, 1);
    *out = (uintptr_t)handle;
    return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
                                        CUmemAllocationHandleType shHandleType)
{
    CALL(INIT, import_handle(handle, osHandle, shHandleType));
}
