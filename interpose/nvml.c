/* nvml.c -- NVML, opened when it is first needed.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:   sample.c, at incidents, at the end, and once a program has run for a while.
 * Holds:   types and function names are those of NVML's public header (12 and 13). A process list
 *          entry is read in the layout of the version that answered: 16 bytes without a suffix, 24
 *          bytes for _v2 and _v3. 2^64-1 means "not told".
 */
#include "interpose/nvml.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "interpose/raw_syscall.h"
#include "interpose/resolve.h"
#include "interpose/text_file.h"

typedef void *device_t;
struct memory {
    unsigned long long total, free, used;
};
struct process_v1 {
    unsigned pid;
    unsigned long long bytes;
};
struct process_v2 {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance, compute_instance;
};
typedef int init_fn(void);
typedef int by_text_fn(const char *, device_t *);
typedef int memory_fn(device_t, struct memory *);
typedef int processes_fn(device_t, unsigned *, void *);
typedef int name_fn(unsigned, char *, unsigned);

enum { PROCESSES_MAX = 256, PIDS_MAX = 16, OPENING_MS = 1000 };
static struct {
    _Atomic uint32_t phase; /* 0 not tried, 1 under way, 2 there, 3 not there */
    by_text_fn *by_uuid, *by_pci;
    memory_fn *memory;
    processes_fn *compute, *graphics;
    bool v1;
    name_fn *name;
} state;

static bool open_nvml(void)
{
    init_fn *init;
    void *handle = vg_resolve_open("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!handle)
        return false;
    vg_resolve_into(&init, handle, "nvmlInit_v2");
    vg_resolve_into(&state.by_uuid, handle, "nvmlDeviceGetHandleByUUID");
    vg_resolve_into(&state.by_pci, handle, "nvmlDeviceGetHandleByPciBusId_v2");
    vg_resolve_into(&state.memory, handle, "nvmlDeviceGetMemoryInfo");
    vg_resolve_into(&state.name, handle, "nvmlSystemGetProcessName");
    vg_resolve_into(&state.compute, handle, "nvmlDeviceGetComputeRunningProcesses_v3");
    vg_resolve_into(&state.graphics, handle, "nvmlDeviceGetGraphicsRunningProcesses_v3");
    if (!state.compute) {
        vg_resolve_into(&state.compute, handle, "nvmlDeviceGetComputeRunningProcesses_v2");
        vg_resolve_into(&state.graphics, handle, "nvmlDeviceGetGraphicsRunningProcesses_v2");
    }
    if (!state.compute) {
        vg_resolve_into(&state.compute, handle, "nvmlDeviceGetComputeRunningProcesses");
        vg_resolve_into(&state.graphics, handle, "nvmlDeviceGetGraphicsRunningProcesses");
        state.v1 = true;
    }
    return init && init() == 0;
}

bool vg_nvml_is_open(void)
{
    return state.phase == 2;
}

static bool open_once(void)
{
    uint32_t untried = 0;
    if (atomic_compare_exchange_strong(&state.phase, &untried, 1))
        state.phase = open_nvml() ? 2 : 3;
    /* Another thread is at it: without what it finds the report would know no other process. */
    for (int i = 0; i < OPENING_MS && state.phase == 1; i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return state.phase == 2;
}

static void format_uuid(char *out, size_t size, const char *prefix, const uint8_t *u)
{
    snprintf(out, size, "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             prefix, u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11],
             u[12], u[13], u[14], u[15]);
}

static bool find_device(const uint8_t *uuid, const char *pci, device_t *out, bool *is_mig_out)
{
    static const char *const prefixes[] = {"GPU", "MIG"};
    char text[64];
    for (unsigned i = 0; uuid && state.by_uuid && i < 2; i++) {
        format_uuid(text, sizeof text, prefixes[i], uuid);
        if (state.by_uuid(text, out) == 0) {
            *is_mig_out = i == 1;
            return true;
        }
    }
    return pci && pci[0] && state.by_pci && state.by_pci(pci, out) == 0;
}

/* This process's number in every pid namespace it is in (a container's NVML may name the
 * host's). */
static unsigned own_pids(uint32_t *out)
{
    char text[4096];
    unsigned count = 1;
    out[0] = (uint32_t)VG_CALL(getpid, 0);
    vg_text_read("/proc/self/status", text, sizeof text);
    char *p = strstr(text, "\nNSpid:");
    for (p = p ? p + 7 : NULL; p && count < PIDS_MAX;) {
        char *end;
        unsigned long pid = strtoul(p, &end, 10);
        if (end == p || *p == '\n')
            break;
        out[count++] = (uint32_t)pid;
        p = *end == '\n' ? NULL : end;
    }
    return count;
}

static bool is_own(const uint32_t *pids, unsigned count, uint32_t pid)
{
    for (unsigned i = 0; i < count; i++)
        if (pids[i] == pid)
            return true;
    return false;
}

static void process_name(uint32_t pid, char *out, size_t size)
{
    char path[64], full[256];
    snprintf(path, sizeof path, "/proc/%u/comm", pid);
    vg_text_read(path, full, sizeof full);
    full[strcspn(full, "\n")] = 0;
    if (state.name && !full[0] && state.name(pid, full, sizeof full) != 0)
        full[0] = 0;
    const char *slash = strrchr(full, '/');
    snprintf(out, size, "%s", slash ? slash + 1 : full);
}

struct list {
    struct process_v2 item[PROCESSES_MAX];
    unsigned count;
};

/* Adds one list; a process that is in both counts once. */
static bool add_list(processes_fn *ask, device_t device, struct list *list)
{
    union {
        struct process_v1 v1[PROCESSES_MAX];
        struct process_v2 v2[PROCESSES_MAX];
    } raw;
    unsigned n = PROCESSES_MAX;
    if (!ask || ask(device, &n, &raw) != 0)
        return false;
    for (unsigned i = 0; i < n && i < PROCESSES_MAX; i++) {
        unsigned pid = state.v1 ? raw.v1[i].pid : raw.v2[i].pid, j = 0;
        while (j < list->count && list->item[j].pid != pid)
            j++;
        if (j < list->count || list->count == PROCESSES_MAX)
            continue;
        list->item[list->count].pid = pid;
        list->item[list->count++].bytes = state.v1 ? raw.v1[i].bytes : raw.v2[i].bytes;
    }
    return true;
}

/* Not found by number: an entry whose pid means nothing here and whose bytes are what we hold plus
 * a context or so may be us. */
static void mark_likely_self(struct vg_nvml_report *out, uint64_t tracked_bytes)
{
    const uint64_t overhead_max = UINT64_C(3)
                                  << 29; /* 1.5 GiB: contexts and code of a large process */
    if (out->self_bytes != VG_UNKNOWN)
        return;
    for (uint32_t i = 0; i < out->count; i++) {
        struct vg_nvml_process *p = &out->other[i];
        char path[64];
        snprintf(path, sizeof path, "/proc/%u", p->pid);
        bool foreign = VG_CALL(faccessat, AT_FDCWD, path, F_OK) < 0;
        p->may_be_this_process = foreign && p->bytes != VG_UNKNOWN && p->bytes >= tracked_bytes &&
                                 p->bytes - tracked_bytes <= overhead_max;
    }
}

static void sort_out(const struct list *list, uint64_t tracked_bytes, struct vg_nvml_report *out)
{
    uint32_t pids[PIDS_MAX];
    unsigned pid_count = own_pids(pids);
    for (unsigned i = 0; i < list->count; i++) {
        const struct process_v2 *p = &list->item[i];
        if (is_own(pids, pid_count, p->pid)) {
            out->self_bytes = p->bytes;
            continue;
        }
        out->seen++;
        if (out->count == VG_OTHERS_MAX)
            continue;
        struct vg_nvml_process *other = &out->other[out->count++];
        *other = (struct vg_nvml_process){.pid = p->pid, .bytes = p->bytes};
        process_name(p->pid, other->name, sizeof other->name);
    }
    mark_likely_self(out, tracked_bytes);
}

bool vg_nvml_query(const uint8_t *uuid, const char *pci, uint64_t tracked_bytes,
                   struct vg_nvml_report *out)
{
    device_t device;
    struct memory memory;
    struct list list;
    memset(out, 0, sizeof *out);
    out->self_bytes = VG_UNKNOWN;
    list.count = 0;
    if (!open_once() || !find_device(uuid, pci, &device, &out->is_mig))
        return false;
    if (state.memory && state.memory(device, &memory) == 0) {
        out->has_memory = true;
        out->free_bytes = memory.free;
        out->total_bytes = memory.total;
    }
    out->has_processes = add_list(state.compute, device, &list);
    out->has_processes |= add_list(state.graphics, device, &list);
    if (out->has_processes)
        sort_out(&list, tracked_bytes, out);
    return true;
}
