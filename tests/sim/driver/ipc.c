/* ipc.c -- memory and events of one process used by another, by handles of 64 bytes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Follows:    Driver API, Memory Management: cuIpcGetMemHandle (the start of an allocation of
 *             cuMemAlloc), cuIpcOpenMemHandle (in another process; only with
 *             LAZY_ENABLE_PEER_ACCESS; a handle that the context has open already gives the same
 *             address, once more; one context a device for the handles of a device of a process),
 *             cuIpcCloseMemHandle; cuIpcGetEventHandle (INTERPROCESS and DISABLE_TIMING).
 * Holds:      exported memory becomes a file of its own, and the bytes are the same in both
 *             processes; an opened one is an alias that takes nothing. What its owner frees while
 *             it is open elsewhere stays in use (VGSIM_SHARED).
 */
#include "tests/sim/driver/sim.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MEMORY_MAGIC 0x6d656d6d69736776ull
#define EVENT_MAGIC  0x746e65766d736776ull

struct vgsim_ipc_file {
    int fd;
    uint64_t inode;
};

struct memory_handle {
    uint64_t magic, inode;
    int32_t pid, fd, device, unused;
    uint64_t span, offset, bytes;
};
_Static_assert(sizeof(struct memory_handle) <= sizeof(CUipcMemHandle), "64 bytes is all there is");

struct event_handle {
    uint64_t magic;
    int32_t pid;
    uint32_t unused;
    uint64_t event;
};

struct opened {
    struct memory_handle handle;
    struct vgsim_block *block;
    uintptr_t base;
    unsigned int count;
    struct opened *next;
};

static struct opened *all_opened;

/* --- export ----------------------------------------------------------------------------------- */

/* Only what was ever touched: a device of any size costs the host nothing. */
static bool copy_touched(int fd, uintptr_t address, size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *resident = malloc(bytes / page);
    bool good = resident && !mincore((void *)address, bytes, resident);
    for (size_t i = 0; good && i < bytes / page; i++)
        if (resident[i] & 1)
            good = pwrite(fd, (const void *)(address + i * page), page, (off_t)(i * page)) ==
                   (ssize_t)page;
    free(resident);
    return good;
}

/* The range becomes a file, at the same address and with the same bytes. */
static struct vgsim_ipc_file *make_file(uintptr_t address, size_t bytes)
{
    struct stat info;
    struct vgsim_ipc_file *file = malloc(sizeof *file);
    int fd = file ? memfd_create("vgsim-ipc", MFD_CLOEXEC) : -1;
    if (fd < 0 || ftruncate(fd, (off_t)bytes) || fstat(fd, &info) ||
        !copy_touched(fd, address, bytes) ||
        mmap((void *)address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
            MAP_FAILED) {
        if (fd >= 0)
            close(fd);
        free(file);
        return NULL;
    }
    *file = (struct vgsim_ipc_file){fd, (uint64_t)info.st_ino};
    return file;
}

void vgsim_ipc_forget(struct vgsim_ipc_file *file, CUdevice device, size_t bytes)
{
    if (!file)
        return;
    vgsim_sharing_freed(file->inode, device, bytes);
    close(file->fd);
    free(file);
}

static CUresult get_memory(CUipcMemHandle *out, CUdeviceptr pointer)
{
    struct vgsim_block *block = vgsim_block_at((uintptr_t)pointer);
    if (!out || !block || block->address != (uintptr_t)pointer || block->kind != VGSIM_KIND_device)
        return CUDA_ERROR_INVALID_VALUE;
    struct vgsim_slab *slab = block->slab;
    struct vgsim_ipc_file **file = slab ? &slab->file : &block->file;
    uintptr_t base = slab ? slab->base : block->address;
    size_t span = slab ? slab->size : block->span;
    if (!*file)
        *file = make_file(base, span);
    if (!*file)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct memory_handle handle = {.magic = MEMORY_MAGIC,
                                   .inode = (*file)->inode,
                                   .pid = getpid(),
                                   .fd = (*file)->fd,
                                   .device = block->device,
                                   .span = span,
                                   .offset = block->address - base,
                                   .bytes = block->bytes};
    memset(out, 0, sizeof *out);
    memcpy(out, &handle, sizeof handle);
    return CUDA_SUCCESS;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
    CALL(CONTEXT | UNSAFE, get_memory(pHandle, dptr));
}

/* --- open and close --------------------------------------------------------------------------- */

/* The exporter's own descriptor, if it still is the file that the handle means. */
static int open_file(const struct memory_handle *handle)
{
    char path[48];
    struct stat info;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)handle->pid, (int)handle->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd >= 0 && (fstat(fd, &info) || (uint64_t)info.st_ino != handle->inode ||
                    info.st_size != (off_t)handle->span)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static CUresult map_file(struct opened *opened)
{
    const struct memory_handle *handle = &opened->handle;
    int fd = open_file(handle);
    if (fd < 0)
        return CUDA_ERROR_MAP_FAILED;
    void *base = vgsim_space_map(handle->span, VGSIM_PAGE);
    bool good = base && mmap(base, handle->span, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                             0) != MAP_FAILED;
    close(fd);
    if (!good)
        return CUDA_ERROR_MAP_FAILED;
    opened->base = (uintptr_t)base;
    struct CUctx_st *context = vgsim_current();
    struct vgsim_block block = {.address = opened->base + handle->offset,
                                .bytes = handle->bytes,
                                .span = handle->bytes,
                                .kind = VGSIM_KIND_ipc,
                                .device = handle->device,
                                .context = context};
    opened->block = vgsim_block_add(&block, &context->blocks);
    if (!opened->block || !vgsim_sharing_opened(handle->inode)) {
        if (opened->block)
            vgsim_block_remove(opened->block, &context->blocks);
        vgsim_space_unmap(base, handle->span);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    vgsim_books_object(handle->device, VGSIM_COUNTED_ipc_open, 1);
    return CUDA_SUCCESS;
}

/* Another context of this device that holds handles of the same device of the same process. */
static bool is_taken(const struct memory_handle *handle, const struct CUctx_st *context)
{
    for (const struct opened *at = all_opened; at; at = at->next)
        if (at->handle.pid == handle->pid && at->handle.device == handle->device &&
            at->block->context != context && at->block->context->device == context->device)
            return true;
    return false;
}

static struct opened *find_opened(const struct memory_handle *handle,
                                  const struct CUctx_st *context)
{
    for (struct opened *at = all_opened; at; at = at->next)
        if (!memcmp(&at->handle, handle, sizeof *handle) && at->block->context == context)
            return at;
    return NULL;
}

static CUresult open_new(CUdeviceptr *out, const struct memory_handle *handle)
{
    struct opened *opened = calloc(1, sizeof *opened);
    if (!opened)
        return CUDA_ERROR_OUT_OF_MEMORY;
    opened->handle = *handle;
    opened->count = 1;
    CUresult result = map_file(opened);
    if (result != CUDA_SUCCESS) {
        free(opened);
        return result;
    }
    opened->next = all_opened;
    all_opened = opened;
    *out = opened->block->address;
    return CUDA_SUCCESS;
}

static CUresult open_memory(CUdeviceptr *out, const CUipcMemHandle *wanted, unsigned int flags)
{
    struct memory_handle handle;
    memcpy(&handle, wanted, sizeof handle);
    if (!out || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
        return CUDA_ERROR_INVALID_VALUE;
    if (handle.magic != MEMORY_MAGIC || !vgsim_is_device(handle.device) ||
        handle.offset > handle.span || handle.bytes > handle.span - handle.offset)
        return CUDA_ERROR_INVALID_HANDLE;
    struct CUctx_st *context = vgsim_current();
    if (handle.pid == getpid() || is_taken(&handle, context))
        return CUDA_ERROR_INVALID_CONTEXT;
    struct opened *opened = find_opened(&handle, context);
    if (!opened)
        return open_new(out, &handle);
    opened->count++;
    *out = opened->block->address;
    return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
    CALL(CONTEXT | UNSAFE, open_memory(pdptr, &handle, Flags));
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
    CALL(CONTEXT | UNSAFE, open_memory(pdptr, &handle, Flags));
}

void vgsim_ipc_unmap(struct vgsim_block *block)
{
    for (struct opened **at = &all_opened; *at; at = &(*at)->next) {
        struct opened *opened = *at;
        if (opened->block != block)
            continue;
        vgsim_space_unmap((void *)opened->base, opened->handle.span);
        vgsim_sharing_closed(opened->handle.inode);
        vgsim_books_object(opened->handle.device, VGSIM_COUNTED_ipc_open, -1);
        *at = opened->next;
        free(opened);
        return;
    }
}

static CUresult close_memory(CUdeviceptr pointer)
{
    for (struct opened *at = all_opened; at; at = at->next)
        if (at->block->address == (uintptr_t)pointer) {
            if (--at->count == 0)
                vgsim_memory_release(at->block);
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
    CALL(CONTEXT | UNSAFE, close_memory(dptr));
}

/* --- events ----------------------------------------------------------------------------------- */

static CUresult get_event(CUipcEventHandle *out, CUevent event)
{
    const unsigned int wanted = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;
    if (!vgsim_object_is(event, EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!out || (vgsim_event_flags(event) & wanted) != wanted)
        return CUDA_ERROR_INVALID_VALUE;
    struct event_handle handle = {EVENT_MAGIC, getpid(), 0, (uintptr_t)event};
    memset(out, 0, sizeof *out);
    memcpy(out, &handle, sizeof handle);
    return CUDA_SUCCESS;
}

CUresult cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event)
{
    CALL(CONTEXT, get_event(pHandle, event));
}

/* Work is done when it is given, in the other process too: the event needs no more than to be
 * one. */
static CUresult open_event(CUevent *out, const CUipcEventHandle *wanted)
{
    struct event_handle handle;
    memcpy(&handle, wanted, sizeof handle);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (handle.magic != EVENT_MAGIC)
        return CUDA_ERROR_INVALID_HANDLE;
    if (handle.pid == getpid())
        return CUDA_ERROR_INVALID_CONTEXT;
    return vgsim_event_new(out, CU_EVENT_DISABLE_TIMING);
}

CUresult cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle)
{
    CALL(CONTEXT, open_event(phEvent, &handle));
}
