/* memory.c -- a device's memory and who uses it, as the simulated NVML shows it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Holds:      the figures are the driver's own: the libcuda of this process is asked, when there is
 *             one; without it the file of VGSIM_SHARED says what its processes use at this moment.
 */
#include "tests/sim/common/shared.h"
#include "tests/sim/nvml/nvml_sim.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#define MAX_PROCESSES (VGSIM_MAX_OTHERS + VGSIM_SHARED_PROCESSES + 1)
#define MIG_SLICES    7 /* a whole device is as big as so many slices */

typedef bool books_fn(int device, struct vgsim_device_books *books_out);

/* libcuda may be loaded after us: a miss is asked again. The handle is given back; the program's
 * own keeps the library loaded. */
static bool ask_driver(int device, struct vgsim_device_books *books_out)
{
    void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (!library)
        return false;
    void *symbol = dlsym(library, "vgsim_device_books");
    books_fn *books = NULL;
    memcpy(&books, &symbol, sizeof books);
    bool known = books && books(device, books_out);
    dlclose(library);
    return known;
}

void vgsim_nvml_books(int device, struct vgsim_device_books *books_out)
{
    const struct vgsim_knobs *knobs = vgsim_knobs();
    if (ask_driver(device, books_out))
        return;
    memset(books_out, 0, sizeof *books_out);
    books_out->total_bytes = knobs->memory[device];
    books_out->others_bytes = vgsim_others_bytes(knobs, device);
    books_out->hidden_bytes = knobs->hidden;
    struct vgsim_shared *shared = vgsim_shared_open();
    if (shared) {
        vgsim_shared_lock(shared);
        vgsim_shared_reap(shared);
        books_out->shared_bytes = vgsim_shared_bytes(shared, NULL, device);
        vgsim_shared_unlock(shared);
    }
    uint64_t used = books_out->others_bytes + books_out->hidden_bytes + books_out->shared_bytes;
    uint64_t total = books_out->total_bytes;
    books_out->free_bytes = used < total ? total - used : 0;
}

static nvmlReturn_t look(nvmlDevice_t device, const void *out, struct vgsim_device_books *books_out)
{
    if (!vgsim_nvml_ready())
        return NVML_ERROR_UNINITIALIZED;
    int index = vgsim_nvml_index(device);
    if (index < 0 || !out)
        return NVML_ERROR_INVALID_ARGUMENT;
    vgsim_nvml_books(index, books_out);
    if (vgsim_knobs()->mig && !vgsim_nvml_is_slice(device)) {
        books_out->free_bytes += (MIG_SLICES - 1) * books_out->total_bytes;
        books_out->total_bytes *= MIG_SLICES;
    }
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    struct vgsim_device_books books;
    nvmlReturn_t result = look(device, memory, &books);
    if (result != NVML_SUCCESS)
        return result;
    memory->total = books.total_bytes;
    memory->free = books.free_bytes;
    memory->used = books.total_bytes - books.free_bytes;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
    struct vgsim_device_books books;
    nvmlReturn_t result = look(device, memory, &books);
    if (result != NVML_SUCCESS)
        return result;
    if (memory->version != nvmlMemory_v2)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    memory->total = books.total_bytes;
    memory->reserved = 0;
    memory->free = books.free_bytes;
    memory->used = books.total_bytes - books.free_bytes;
    return NVML_SUCCESS;
}

/* --- processes -------------------------------------------------------------------------------- */

static unsigned int list_shared(struct vgsim_shared *shared, int device, unsigned int instance,
                                nvmlProcessInfo_t out[MAX_PROCESSES], unsigned int count)
{
    vgsim_shared_lock(shared);
    vgsim_shared_reap(shared);
    for (int i = 0; i < VGSIM_SHARED_PROCESSES; i++) {
        const struct vgsim_shared_process *process = &shared->process[i];
        const struct vgsim_shared_use *use = &process->device[device];
        if (process->pid && use->contexts)
            out[count++] =
                (nvmlProcessInfo_t){(unsigned int)process->pid,
                                    use->context_bytes + use->page_bytes, instance, instance};
    }
    vgsim_shared_unlock(shared);
    return count;
}

static unsigned int list(nvmlDevice_t device, const struct vgsim_device_books *books,
                         nvmlProcessInfo_t out[MAX_PROCESSES])
{
    const struct vgsim_knobs *knobs = vgsim_knobs();
    int index = vgsim_nvml_index(device);
    unsigned int count = 0, instance = knobs->mig ? 1 : 0xffffffff;
    for (int i = 0; i < knobs->other_count; i++)
        if (knobs->others[i].device < 0 || knobs->others[i].device == index)
            out[count++] = (nvmlProcessInfo_t){(unsigned int)knobs->others[i].pid,
                                               knobs->others[i].bytes, instance, instance};
    struct vgsim_shared *shared = vgsim_shared_open();
    if (shared)
        return list_shared(shared, index, instance, out, count);
    if (books->objects[VGSIM_COUNTED_contexts].live)
        out[count++] = (nvmlProcessInfo_t){
            (unsigned int)getpid(), books->context_bytes + books->page_bytes, instance, instance};
    return count;
}

/* Too small a buffer, or none: how large it must be. */
static nvmlReturn_t compute_processes(nvmlDevice_t device, unsigned int *count,
                                      nvmlProcessInfo_v1_t *first, nvmlProcessInfo_t *later)
{
    struct vgsim_device_books books;
    nvmlProcessInfo_t all[MAX_PROCESSES];
    nvmlReturn_t result = look(device, count, &books);
    if (result != NVML_SUCCESS)
        return result;
    unsigned int room = first || later ? *count : 0;
    *count = list(device, &books, all);
    if (room < *count)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    for (unsigned int i = 0; i < *count; i++)
        if (first)
            first[i] = (nvmlProcessInfo_v1_t){all[i].pid, all[i].usedGpuMemory};
        else
            later[i] = all[i];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int *infoCount,
                                                  nvmlProcessInfo_v1_t *infos)
{
    return compute_processes(device, infoCount, infos, NULL);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *infoCount,
                                                     nvmlProcessInfo_v2_t *infos)
{
    return compute_processes(device, infoCount, NULL, infos);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *infoCount,
                                                     nvmlProcessInfo_t *infos)
{
    return compute_processes(device, infoCount, NULL, infos);
}

static nvmlReturn_t no_processes(nvmlDevice_t device, unsigned int *count)
{
    if (!vgsim_nvml_ready())
        return NVML_ERROR_UNINITIALIZED;
    if (!count || vgsim_nvml_index(device) < 0)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned int *infoCount,
                                                   nvmlProcessInfo_v1_t *infos)
{
    (void)infos;
    return no_processes(device, infoCount);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned int *infoCount,
                                                      nvmlProcessInfo_v2_t *infos)
{
    (void)infos;
    return no_processes(device, infoCount);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *infoCount,
                                                      nvmlProcessInfo_t *infos)
{
    (void)infos;
    return no_processes(device, infoCount);
}
