/* sample.c -- free memory, other processes and the host, looked at and put into the record.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:   gate.c after events, incident.c and finish.c at their moments.
 * Holds:   the driver and NVML are asked without the ledger lock; what they said is stored under
 *          it.
 * Threads: any; vg_thread.depth is set.
 */
#include "interpose/sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/captures.h"
#include "interpose/driver.h"
#include "interpose/nvml.h"
#include "interpose/quiet.h"
#include "interpose/text_file.h"
#include "interpose/thread.h"

/* NVML takes milliseconds to open: a program that runs for less than this never pays for it, unless
 * something happens. Once it is open, every look asks it: a bounded call of a fraction of a
 * millisecond, at most once per interval. */
static const uint64_t nvml_after_ns = 1000000000u;

struct target {
    int32_t ordinal;
    bool has_uuid, described;
    uint8_t uuid[16];
    char pci[32];
    uint64_t tracked_bytes;
};

struct look {
    uint64_t moment;          /* of quiet.h; 0: other threads' calls were under way */
    uint64_t pool_idle_bytes; /* VG_UNKNOWN: not asked */
    bool known;
    uint8_t source;
    uint64_t free_bytes, total_bytes;
    bool has_nvml;
    struct vg_nvml_report nvml;
};

static struct vg_device *device_at(struct vg_guard *guard, uint64_t index)
{
    return vg_record_at(&guard->record, VG_SEC_DEVICES, index);
}

/* A copy of what names the device at index; false: there is none. */
static bool copy_target(struct vg_guard *guard, uint64_t index, struct target *out)
{
    bool found = false;
    if (!vg_guard_lock(guard))
        return false;
    const struct vg_device *device =
        index < vg_record_count(&guard->record, VG_SEC_DEVICES) ? device_at(guard, index) : NULL;
    if (device) {
        *out = (struct target){.ordinal = device->ordinal,
                               .has_uuid = device->has_uuid,
                               .described = device->described,
                               .tracked_bytes = device->tracked_bytes};
        memcpy(out->uuid, device->uuid, sizeof out->uuid);
        snprintf(out->pci, sizeof out->pci, "%s", vg_record_string(&guard->record, device->pci));
        found = true;
    }
    vg_guard_unlock(guard);
    return found;
}

static void store_others(struct vg_guard *guard, struct vg_device *device,
                         const struct vg_nvml_report *nvml)
{
    device->nvml_known = nvml->has_processes;
    device->is_mig = nvml->is_mig;
    device->nvml_self_bytes = nvml->self_bytes;
    device->other_count = nvml->count;
    device->other_seen = nvml->seen;
    for (uint32_t i = 0; i < nvml->count; i++) {
        const struct vg_nvml_process *p = &nvml->other[i];
        device->other[i] =
            (struct vg_other){.pid = p->pid,
                              .name = vg_strings_intern_z(&guard->ledger.stacks, p->name),
                              .bytes = p->bytes,
                              .may_be_this_process = p->may_be_this_process};
    }
}

static void forget_others(struct vg_device *device)
{
    device->nvml_known = 0;
    device->nvml_self_bytes = VG_UNKNOWN;
    device->other_count = device->other_seen = 0;
}

/* What this process has beyond what is tracked, where all figures are of one moment. */
static void settle_overhead(struct vg_device *device)
{
    uint64_t idle = device->pool_idle_bytes == VG_UNKNOWN ? 0 : device->pool_idle_bytes;
    uint64_t inside = device->tracked_bytes + idle;
    if (device->nvml_self_bytes != VG_UNKNOWN && device->nvml_self_bytes >= inside)
        device->settled_overhead_bytes = device->nvml_self_bytes - inside;
}

static void store(struct vg_guard *guard, uint64_t index, const struct look *look)
{
    if (!look->known && !look->has_nvml)
        return;
    if (!vg_guard_lock_for_change(guard))
        return;
    struct vg_device *device = device_at(guard, index);
    if (device && look->known) {
        device->sample_ns = vg_guard_now(guard);
        device->free_bytes = look->free_bytes;
        device->total_bytes = look->total_bytes;
        device->free_source = look->source;
        device->sampled_tracked_bytes = device->tracked_bytes;
        device->pool_idle_bytes = look->pool_idle_bytes;
    }
    if (device && look->has_nvml)
        store_others(guard, device, &look->nvml);
    else if (device)
        forget_others(device); /* they belong to an earlier moment */
    if (device)
        device->in_motion = !vg_quiet_since(look->moment);
    if (device && look->has_nvml && !device->in_motion)
        settle_overhead(device);
    vg_guard_unlock_changed(guard);
}

/* --- pools ------------------------------------------------------------------------------------ */

static _Atomic bool pools_in_use;

void vg_sample_pools_in_use(void)
{
    atomic_store_explicit(&pools_in_use, true, memory_order_relaxed);
}

/* The pools that the program made on a device, by handle. */
static unsigned copy_pools(struct vg_guard *guard, int32_t ordinal, uint64_t *out, unsigned max)
{
    unsigned count = 0;
    if (!vg_guard_lock(guard))
        return 0;
    uint64_t slots = vg_record_count(&guard->record, VG_SEC_SLOTS);
    const struct vg_device *device;
    uint32_t index = vg_ledger_device(&guard->ledger, ordinal);
    device = index ? device_at(guard, index - 1) : NULL;
    for (uint64_t i = 0; device && device->kind_count[VG_KIND_MEMPOOL] && i < slots && count < max;
         i++) {
        const struct vg_slot *slot = vg_record_at(&guard->record, VG_SEC_SLOTS, i);
        const struct vg_site *site =
            slot->kind == VG_KIND_MEMPOOL && slot->site
                ? vg_record_at(&guard->record, VG_SEC_SITES, slot->site - 1)
                : NULL;
        if (site && site->device == index)
            out[count++] = slot->addr;
    }
    vg_guard_unlock(guard);
    return count;
}

/* Reserved and not in use: the default pool, the program's own, and the graphs'. Never while a
 * stream captures. */
static uint64_t read_pool_idle(struct vg_guard *guard, int32_t ordinal)
{
    enum { POOLS_MAX = 64 };
    uint64_t pool[POOLS_MAX + 1] = {0}, reserved, used, idle = 0;
    bool told = false;
    if (!atomic_load_explicit(&pools_in_use, memory_order_relaxed) || vg_captures_any())
        return VG_UNKNOWN;
    unsigned count = 1 + copy_pools(guard, ordinal, pool + 1, POOLS_MAX);
    for (unsigned i = 0; i < count; i++)
        if (vg_driver_pool_levels(ordinal, pool[i], &reserved, &used) && reserved >= used) {
            idle += reserved - used;
            told = true;
        }
    if (vg_driver_graph_levels(ordinal, &reserved, &used) && reserved >= used) {
        idle += reserved - used;
        told = true;
    }
    return told ? idle : VG_UNKNOWN;
}

static void look_once(struct vg_guard *guard, const struct target *target, bool is_current,
                      bool with_nvml, struct look *out)
{
    out->moment = vg_quiet_now();
    out->known = out->has_nvml = false;
    out->pool_idle_bytes = read_pool_idle(guard, target->ordinal);
    if (is_current && vg_driver_mem_info(&out->free_bytes, &out->total_bytes)) {
        out->known = true;
        out->source = VG_FREE_DRIVER;
    }
    if (!with_nvml)
        return;
    out->has_nvml = vg_nvml_query(target->has_uuid ? target->uuid : NULL, target->pci,
                                  target->tracked_bytes, &out->nvml);
    if (!out->known && out->has_nvml && out->nvml.has_memory) {
        out->known = true;
        out->source = VG_FREE_NVML;
        out->free_bytes = out->nvml.free_bytes;
        out->total_bytes = out->nvml.total_bytes;
    }
}

/* Again where another thread's call came in between, a few times. */
static void look_at(struct vg_guard *guard, const struct target *target, bool is_current,
                    bool with_nvml, struct look *out)
{
    enum { TRIES = 3 };
    for (unsigned i = 0; i < TRIES; i++) {
        look_once(guard, target, is_current, with_nvml, out);
        if (vg_quiet_since(out->moment))
            return;
    }
}

void vg_sample_all(struct vg_guard *guard, int32_t current)
{
    struct target target;
    struct look look;
    for (uint64_t i = 0; copy_target(guard, i, &target); i++) {
        if (!target.described && !vg_captures_any()) { /* nothing was ever allocated there */
            vg_sample_describe(guard, target.ordinal);
            copy_target(guard, i, &target);
        }
        look_at(guard, &target, target.ordinal == current, true, &look);
        store(guard, i, &look);
    }
}

/* The first looks of a process are not held back: a program that allocates all it needs in its
 * first second and then computes for hours would otherwise be known by its first allocation only.
 * After that, one per interval. */
static bool is_due(const struct vg_guard *guard, uint64_t now, bool is_driver_event)
{
    enum { FIRST_LOOKS = 32 };
    static _Atomic uint64_t next;
    static _Atomic uint32_t looks;
    uint64_t due = atomic_load_explicit(&next, memory_order_relaxed);
    if (now < due && is_driver_event &&
        atomic_load_explicit(&looks, memory_order_relaxed) < FIRST_LOOKS) {
        atomic_fetch_add_explicit(&looks, 1, memory_order_relaxed);
        return true;
    }
    return now >= due && atomic_compare_exchange_strong(&next, &due, now + guard->options.sample);
}

void vg_sample_due(struct vg_guard *guard, bool is_driver_event)
{
    struct vg_driver_context context;
    struct target target;
    struct look look;
    uint64_t now = vg_guard_now(guard);
    if (!guard->options.sample || vg_captures_any() || !is_due(guard, now, is_driver_event))
        return;
    int cancel = vg_thread_hold();
    vg_driver_current(&context);
    for (uint64_t i = 0; context.device >= 0 && copy_target(guard, i, &target); i++) {
        if (target.ordinal != context.device)
            continue;
        look_at(guard, &target, true, now >= nvml_after_ns || vg_nvml_is_open(), &look);
        store(guard, i, &look);
        break;
    }
    vg_thread_release(cancel);
}

void vg_sample_describe(struct vg_guard *guard, int32_t ordinal)
{
    struct vg_driver_description description;
    vg_driver_describe(ordinal, &description);
    if (!vg_guard_lock_for_change(guard))
        return;
    uint32_t index = vg_ledger_device(&guard->ledger, ordinal);
    struct vg_device *device = index ? device_at(guard, index - 1) : NULL;
    if (device) {
        device->name = vg_strings_intern_z(&guard->ledger.stacks, description.name);
        device->pci = vg_strings_intern_z(&guard->ledger.stacks, description.pci);
        device->has_uuid = description.has_uuid;
        memcpy(device->uuid, description.uuid, sizeof device->uuid);
        if (description.total_bytes)
            device->total_bytes = description.total_bytes;
        device->described = 1;
    }
    vg_guard_unlock_changed(guard);
}

/* --- the host --------------------------------------------------------------------------------- */

static uint64_t read_number(const char *directory, const char *name)
{
    char path[512], text[64];
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/%s", directory, name);
    if (!vg_text_read(path, text, sizeof text) || text[0] < '0' || text[0] > '9')
        return VG_UNKNOWN; /* not there, or "max" */
    return strtoull(text, NULL, 10);
}

/* cgroup v2: the tightest memory.max from our group up to the root. */
static void read_cgroup(struct vg_host_memory *out)
{
    char text[1024];
    char *path = vg_text_read("/proc/self/cgroup", text, sizeof text) ? strstr(text, "0::/") : NULL;
    if (!path)
        return;
    path += 3;
    path[strcspn(path, "\n")] = 0;
    for (char *slash = path + strlen(path); slash; slash = strrchr(path, '/')) {
        *slash = 0;
        uint64_t limit = read_number(path, "memory.max");
        if (limit < out->cgroup_limit_bytes) {
            out->cgroup_limit_bytes = limit;
            out->cgroup_used_bytes = read_number(path, "memory.current");
        }
    }
}

void vg_sample_host(struct vg_host_memory *out)
{
    char text[4096];
    *out = (struct vg_host_memory){VG_UNKNOWN, VG_UNKNOWN, VG_UNKNOWN};
    const char *line =
        vg_text_read("/proc/meminfo", text, sizeof text) ? strstr(text, "MemAvailable:") : NULL;
    if (line)
        out->available_bytes = strtoull(line + strlen("MemAvailable:"), NULL, 10) * 1024;
    read_cgroup(out);
}
