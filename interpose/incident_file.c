/* incident_file.c -- the file of an incident, the tool that reads it, and the lines without one.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:   incident.c has decided; from here on it is files and processes.
 * Holds:   the copy is made under the ledger lock into memory, and from there to the disk without
 *          it: the program's other threads wait for the memory copy only. No lock is held while the
 *          tool runs. Nothing is written where RLIMIT_FSIZE would turn a write into a signal.
 */
#include "interpose/incident_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "interpose/config.h"
#include "interpose/keeper.h"
#include "interpose/quiet.h"
#include "interpose/raw_syscall.h"
#include "interpose/resolve.h"
#include "interpose/sample.h"

extern char **environ;

/* --- the file --------------------------------------------------------------------------------- */

static bool fits_file_limit(uint64_t bytes)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
           bytes <= limit.rlim_cur;
}

static bool copy_bytes(int from, int to, uint64_t bytes)
{
    int64_t offset = 0;
    while ((uint64_t)offset < bytes) {
        long n = VG_CALL(sendfile, to, from, &offset, bytes - (uint64_t)offset);
        if (n == -EINTR)
            continue;
        if (n <= 0)
            return false;
    }
    return true;
}

/* The memfd's bytes as a file of their own. Its descriptor, or -1 with a reason in *why_out;
 * nothing half-written stays. */
static int save(int memory, const char *path, int *why_out)
{
    struct stat st;
    if (VG_CALL(fstat, memory, &st) != 0 || !fits_file_limit((uint64_t)st.st_size)) {
        *why_out = EFBIG;
        return -1;
    }
    int fd = (int)VG_CALL(openat, AT_FDCWD, path,
                          O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        *why_out = -fd;
        return -1;
    }
    if (copy_bytes(memory, fd, (uint64_t)st.st_size))
        return fd;
    *why_out = ENOSPC;
    VG_CALL(unlinkat, AT_FDCWD, path, 0);
    VG_CALL(close, fd);
    return -1;
}

/* --- the tool --------------------------------------------------------------------------------- */

static bool beside(const char *own, const char *relative, char *out, size_t size)
{
    const char *slash = strrchr(own, '/');
    int length = slash ? (int)(slash - own) : 0;
    int n = snprintf(out, size, "%.*s/%s", length, own, relative);
    return n > 0 && (size_t)n < size && vg_config_is_program(out);
}

static bool in_path(char *out, size_t size)
{
    const char *path = getenv("PATH");
    while (path && *path) {
        size_t length = strcspn(path, ":");
        int n = snprintf(out, size, "%.*s/vramguard", (int)length, path);
        if (path[0] == '/' && n > 0 && (size_t)n < size && vg_config_is_program(out))
            return true;
        path += length + (path[length] == ':');
    }
    return false;
}

static bool find_tool(const struct vg_guard *guard, char *out, size_t size)
{
    struct vg_object self;
    if (guard->options.tool[0]) {
        snprintf(out, size, "%s", guard->options.tool);
        return vg_config_is_program(out);
    }
    if (vg_resolve_object((const void *)(uintptr_t)vg_incident_write, &self) &&
        self.path[0] == '/' &&
        (beside(self.path, "vramguard", out, size) ||
         beside(self.path, "../bin/vramguard", out, size)))
        return true;
    return in_path(out, size);
}

/* One report that is asked of the tool. */
struct order {
    int fd;           /* an incident's file, or the record */
    const char *name; /* "oom-1", "exit-1" */
    unsigned report;
    bool wait;
    _Atomic(int) *ended_out;
};

/* False: the tool is not there or did not do its work. True also where it was started and is not
 * waited for. */
static bool render(struct vg_guard *guard, const struct order *order)
{
    char tool[VG_PATH_MAX], stem[VG_PATH_MAX + 64], limit[32], what[32];
    const uint64_t limit_max = 86400000; /* what the tool takes */
    /* It ends by itself before the keeper ends it, and so in order. */
    uint64_t limit_ms = guard->options.report_timeout / 10 * 8 / 1000000u;
    limit_ms = limit_ms < limit_max ? limit_ms : limit_max;
    const char *both = order->report == (VG_REPORT_TEXT | VG_REPORT_JSON) ? "," : "";
    if (!find_tool(guard, tool, sizeof tool))
        return false;
    snprintf(what, sizeof what, "--report=%s%s%s", order->report & VG_REPORT_TEXT ? "text" : "",
             both, order->report & VG_REPORT_JSON ? "json" : "");
    snprintf(stem, sizeof stem, "--stem=%s.%s", guard->stem, order->name);
    snprintf(limit, sizeof limit, "--limit=%llu", (unsigned long long)(limit_ms ? limit_ms : 1));
    char command[] = "report", from_guard[] = "--from-guard", descriptor[] = "--fd=3";
    char *argv[] = {tool, command, from_guard, descriptor, what, stem, limit, NULL};
    struct vg_keeper_job job = {.tool = tool,
                                .argv = argv,
                                .envp = environ,
                                .incident_fd = order->fd,
                                .timeout_ns = guard->options.report_timeout,
                                .wait = order->wait,
                                .ended_out = order->ended_out};
    enum vg_keeper_result result = vg_keeper_run(&job, NULL);
    return result == VG_KEEPER_DONE || result == VG_KEEPER_STARTED;
}

void vg_incident_render_exit(struct vg_guard *guard, int fd)
{
    render(guard,
           &(struct order){.fd = fd, .name = "exit-1", .report = VG_REPORT_JSON, .wait = true});
}

/* --- the five lines --------------------------------------------------------------------------- */

static int format_bytes(char *out, size_t size, uint64_t bytes)
{
    if (bytes == VG_UNKNOWN)
        return snprintf(out, size, "an unknown size");
    return snprintf(out, size, "%llu bytes (%.1f MiB)", (unsigned long long)bytes,
                    (double)bytes / 1048576.0);
}

static void print_summary(struct vg_guard *guard, const struct vg_incident *incident,
                          const char *file)
{
    char text[2 * VG_PATH_MAX], asked[64], free_bytes[64], tracked[64];
    const struct vg_device *device =
        incident->device ? vg_record_at(&guard->record, VG_SEC_DEVICES, incident->device - 1u)
                         : NULL;
    format_bytes(asked, sizeof asked,
                 incident->requested_bytes != VG_UNKNOWN ? incident->requested_bytes
                                                         : incident->bytes);
    format_bytes(free_bytes, sizeof free_bytes,
                 device && device->free_source != VG_FREE_UNKNOWN ? device->free_bytes
                                                                  : VG_UNKNOWN);
    format_bytes(tracked, sizeof tracked, device ? device->tracked_bytes : VG_UNKNOWN);
    int n = snprintf(text, sizeof text,
                     "VRAMGuard: out of memory on GPU %d (pid %d%s%s)\n"
                     "  request  %s by %s, status %d, failure %llu of this place\n"
                     "  free     %s\n"
                     "  tracked  %s of this process\n"
                     "VRAMGuard: %s%s\n",
                     device ? device->ordinal : -1, guard->pid, incident->family ? ", " : "",
                     vg_record_string(&guard->record, incident->family), asked,
                     incident->via ? vg_record_string(&guard->record, incident->via)
                                   : "the framework's own limit",
                     incident->error, (unsigned long long)incident->count, free_bytes, tracked,
                     file[0] ? "the report: vramguard report " : "no file could be written", file);
    if (n > 0)
        vg_guard_print(guard, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

/* --- reports that nobody waits for ------------------------------------------------------------ */

struct promise {
    _Atomic(int) state; /* 0 free, 1 being filled or settled, 2 outstanding */
    _Atomic(int) ended; /* from the keeper: enum vg_keeper_result + 1 */
    struct vg_incident incident;
    char path[VG_PATH_MAX + 64];
};
static struct promise promises[VG_KEEPER_MAX];

static struct promise *make_promise(const struct vg_incident *incident, const char *path)
{
    for (unsigned i = 0; i < VG_KEEPER_MAX; i++) {
        int is_free = 0;
        if (!atomic_compare_exchange_strong(&promises[i].state, &is_free, 1))
            continue;
        promises[i].incident = *incident;
        snprintf(promises[i].path, sizeof promises[i].path, "%s", path);
        atomic_store(&promises[i].ended, 0);
        return &promises[i];
    }
    return NULL;
}

void vg_incident_settle(struct vg_guard *guard)
{
    vg_keeper_reap();
    for (unsigned i = 0; i < VG_KEEPER_MAX; i++) {
        struct promise *promise = &promises[i];
        int outstanding = 2;
        if (!atomic_load(&promise->ended) ||
            !atomic_compare_exchange_strong(&promise->state, &outstanding, 1))
            continue;
        if (promise->ended != 1 + VG_KEEPER_DONE)
            print_summary(guard, &promise->incident, promise->path);
        atomic_store(&promise->state, 0);
    }
}

/* --- the whole -------------------------------------------------------------------------------- */

static void fill_host(struct vg_incident *incident)
{
    struct vg_host_memory host;
    vg_sample_host(&host);
    incident->mem_available_bytes = host.available_bytes;
    incident->cgroup_limit_bytes = host.cgroup_limit_bytes;
    incident->cgroup_used_bytes = host.cgroup_used_bytes;
}

/* Puts the incident into the record and copies it. The copy's descriptor, or -1. MOVED: memory has
 * changed since `moment`, and nothing was done. */
enum { MOVED = -2 };
static int store(struct vg_guard *guard, struct vg_incident *incident, uint64_t moment,
                 bool is_last_try)
{
    int memory = -1;
    uint64_t index;
    if (!vg_guard_lock(guard))
        return -1;
    if (!is_last_try && !vg_quiet_since(moment)) {
        vg_guard_unlock(guard);
        return MOVED;
    }
    incident->time_ns = vg_guard_now(guard);
    vg_record_begin(&guard->record, vg_intent(0, VG_OP_NONE));
    struct vg_incident *place = vg_record_reserve(&guard->record, VG_SEC_INCIDENTS, 1, &index);
    if (place) {
        *place = *incident;
        vg_record_publish(&guard->record, VG_SEC_INCIDENTS, index + 1);
    }
    vg_record_end(&guard->record);
    if (place && vg_record_copy(&guard->record, &memory) != VG_OK)
        memory = -1;
    vg_guard_unlock(guard);
    return memory;
}

/* Looks at the devices and stores, of one moment where other threads leave one: a few tries. */
static int look_and_store(struct vg_guard *guard, struct vg_incident *incident, int32_t device)
{
    enum { TRIES = 8 };
    /* Not at an end by _exit: it may have come from a signal handler inside the driver. */
    if (!vg_lifecycle_guard(false))
        return store(guard, incident, 0, true);
    for (unsigned i = 1;; i++) {
        uint64_t moment = vg_quiet_now();
        vg_sample_all(guard, device);
        int memory = store(guard, incident, moment, i == TRIES);
        if (memory != MOVED)
            return memory;
        nanosleep(&(struct timespec){0, 200000}, NULL);
    }
}

/* Has the incident rendered as the options say. False: the five lines are wanted. */
static bool present(struct vg_guard *guard, const struct vg_incident *incident, int fd,
                    const char *name, const char *path)
{
    unsigned report = guard->options.report;
    bool text = (report & VG_REPORT_TEXT) && vg_guard_has_stderr(guard);
    if (report == VG_REPORT_NONE)
        return true;
    /* One rank speaks at length, the others in five lines. */
    if (!text || guard->rank > 0)
        report &= ~(unsigned)VG_REPORT_TEXT;
    bool has_promise = !incident->waits && (report & VG_REPORT_TEXT);
    struct promise *promise = has_promise ? make_promise(incident, path) : NULL;
    struct order order = {.fd = fd,
                          .name = name,
                          .report = report,
                          .wait = incident->waits,
                          .ended_out = promise ? &promise->ended : NULL};
    bool done = fd >= 0 && (!report || render(guard, &order));
    if (promise)
        atomic_store(&promise->state, done ? 2 : 0);
    return !text || (done && guard->rank <= 0);
}

void vg_incident_write(struct vg_guard *guard, struct vg_incident *incident, int32_t current_device,
                       bool wait)
{
    char name[32], path[VG_PATH_MAX + 64];
    int why = 0;
    vg_incident_settle(guard);
    fill_host(incident);
    incident->waits = wait;
    int memory = look_and_store(guard, incident, current_device);
    snprintf(name, sizeof name, "oom-%u", incident->number);
    snprintf(path, sizeof path, "%s.%s.vgr", guard->stem, name);
    int fd = memory >= 0 ? save(memory, path, &why) : -1;
    if (memory >= 0 && fd < 0) {
        bool told =
            !guard->record_path[0] || (guard->told_stuck && guard->record.stuck_error == why);
        vg_guard_log(guard, told ? VG_LOG_INFO : VG_LOG_WARN,
                     "%s cannot be written (%s): the report is made from memory", path,
                     strerror(why));
        path[0] = 0;
    }
    if (!present(guard, incident, fd >= 0 ? fd : memory, name, path))
        print_summary(guard, incident, path);
    if (fd >= 0)
        VG_CALL(close, fd);
    if (memory >= 0)
        VG_CALL(close, memory);
}
