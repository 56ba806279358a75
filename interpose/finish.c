/* finish.c -- the end of a guarded process: exit status, the last look, whether the record stays.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:   exit() -> on_exit note -> the library's destructor; _exit, _Exit and quick_exit come
 *          through here directly.
 * Holds:   only the process that made the record ends it: a vfork child shares our memory and calls
 *          _exit when its exec fails, a forked one is OFF. What lives at the end is "live at exit",
 *          never "leaked": destructors that run after us may still free it.
 */
#include "interpose/finish.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interpose/driver.h"
#include "interpose/export.h"
#include "interpose/hooks.h"
#include "interpose/incident.h"
#include "interpose/incident_file.h"
#include "interpose/keeper.h"
#include "interpose/python_frames.h"
#include "interpose/raw_syscall.h"
#include "interpose/resolve.h"
#include "interpose/sample.h"
#include "interpose/state.h"
#include "interpose/thread.h"

static struct {
    bool has_status;
    int status;
} state;

static struct vg_guard *mine(void)
{
    struct vg_guard *guard = vg_lifecycle_any();
    return guard && guard->pid == (int32_t)VG_CALL(getpid, 0) ? guard : NULL;
}

static bool found_something(const struct vg_guard *guard)
{
    return guard->record.header->final_count > 0 ||
           vg_record_count(&guard->record, VG_SEC_FAULTS) > 0;
}

static bool keeps(const struct vg_guard *guard)
{
    switch (guard->options.keep) {
    case VG_KEEP_ALWAYS:
        return true;
    case VG_KEEP_NEVER:
        return false;
    default:
        return found_something(guard);
    }
}

/* " 0:123" per device. */
static void format_peaks(struct vg_guard *guard, char *out, size_t size)
{
    size_t used = 0;
    out[0] = 0;
    for (uint64_t i = 0; i < vg_record_count(&guard->record, VG_SEC_DEVICES) && used < size; i++) {
        const struct vg_device *device = vg_record_at(&guard->record, VG_SEC_DEVICES, i);
        int n = snprintf(out + used, size - used, "%s%d:%llu", used ? "," : "", device->ordinal,
                         (unsigned long long)device->peak_bytes[VG_LAYER_DRIVER]);
        used += n > 0 ? (size_t)n : 0;
    }
}

/* One line for `vramguard run`, in the file that it named. */
static void append_summary(struct vg_guard *guard, bool kept)
{
    const char *path = getenv("VRAMGUARD_SUMMARY");
    char peaks[512], line[VG_PATH_MAX + 1024];
    if (!path || !path[0])
        return;
    const struct vg_header *header = guard->record.header;
    format_peaks(guard, peaks, sizeof peaks);
    int n = snprintf(line, sizeof line,
                     "pid=%d peak=%s incidents=%llu reports=%llu kept=%d record=%s\n", guard->pid,
                     peaks, (unsigned long long)header->final_count,
                     (unsigned long long)header->rendered_count, kept && guard->record_path[0],
                     guard->record_path);
    int fd = (int)VG_CALL(openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || n <= 0 || (size_t)n >= sizeof line)
        return;
    VG_CALL(write, fd, line, n);
    VG_CALL(close, fd);
}

static void log_end(struct vg_guard *guard, bool kept)
{
    char peaks[512];
    const struct vg_header *header = guard->record.header;
    format_peaks(guard, peaks, sizeof peaks);
    vg_guard_log(guard, VG_LOG_INFO,
                 "pid %d ended: peak bytes per GPU %s, %llu out-of-memory failures, record %s%s",
                 guard->pid, peaks[0] ? peaks : "none", (unsigned long long)header->final_count,
                 kept ? "kept: " : "removed", kept ? guard->record_path : "");
}

static void mark_ended(struct vg_guard *guard)
{
    struct vg_header *header = guard->record.header;
    header->ended = state.has_status ? VG_ENDED_CODE : VG_ENDED_UNKNOWN;
    header->exit_status = (uint32_t)state.status;
    header->ended_ns = vg_guard_now(guard);
    header->unmapped_providers = (uint32_t)vg_hooks_unmapped_providers();
}

static void write_exit_report(struct vg_guard *guard)
{
    if (!(guard->options.report & VG_REPORT_JSON) || !guard->record_path[0])
        return;
    int fd = (int)VG_CALL(openat, AT_FDCWD, guard->record_path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    vg_incident_render_exit(guard, fd);
    VG_CALL(close, fd);
}

/* Only our own file: somebody may have moved it away and put another in its place. */
static void remove_record(const struct vg_guard *guard)
{
    struct stat st;
    if (guard->record_path[0] &&
        VG_CALL(newfstatat, AT_FDCWD, guard->record_path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        st.st_dev == guard->record.device && st.st_ino == guard->record.inode)
        VG_CALL(unlinkat, AT_FDCWD, guard->record_path, 0);
}

static void finish(struct vg_guard *guard)
{
    if (!vg_lifecycle_move(VG_STATE_ON, VG_STATE_STOPPING))
        return;
    vg_thread.depth++;
    /* The driver is not asked any more: this may be a signal handler inside it. */
    vg_incident_unsettled(guard);
    bool locked = vg_guard_lock(guard);
    mark_ended(guard);
    if (locked)
        vg_guard_unlock(guard);
    vg_keeper_wait_all(guard->options.report_timeout);
    vg_incident_settle(guard);
    bool kept = keeps(guard);
    if (kept)
        write_exit_report(guard);
    else
        remove_record(guard);
    append_summary(guard, kept);
    log_end(guard, kept);
    vg_lifecycle_move(VG_STATE_STOPPING, VG_STATE_OFF);
    vg_thread.depth--;
}

/* --- the ways to end -------------------------------------------------------------------------- */

/* exit() or a return from main: the driver is still up, so this is the last moment to look at the
 * device. */
static void note_exit(int status, void *unused)
{
    (void)unused;
    struct vg_guard *guard = mine();
    if (!guard)
        return;
    state.has_status = true;
    state.status = status & 0xff;
    struct vg_own own;
    struct vg_driver_context context;
    if (!vg_own_enter(&own))
        return;
    vg_incident_unsettled(guard);
    if (keeps(guard)) {
        vg_driver_current(&context);
        vg_sample_all(guard, context.device);
    }
    vg_own_leave(&own);
}

void vg_finish_register(void)
{
    on_exit(note_exit, NULL);
}

__attribute__((destructor)) static void at_unload(void)
{
    struct vg_guard *guard = mine();
    if (guard)
        finish(guard);
}

static void end_at_once(int status)
{
    struct vg_guard *guard = mine();
    if (!guard)
        return;
    state.has_status = true;
    state.status = status & 0xff;
    finish(guard);
}

typedef void end_fn(int);
enum end { END_EXIT, END_EXIT_C99, END_QUICK, END_COUNT };
static const char *const end_names[END_COUNT] = {"_exit", "_Exit", "quick_exit"};
static end_fn *end_reals[END_COUNT];

/* Before the program runs: _exit may come from a signal handler or a vfork child, where nothing may
 * be looked up. */
__attribute__((constructor)) static void find_ends(void)
{
    for (unsigned i = 0; i < END_COUNT; i++) {
        void *found = vg_resolve_next(end_names[i]);
        memcpy(&end_reals[i], &found, sizeof found);
    }
}

static void end_for_real(enum end how, int status)
{
    if (end_reals[how])
        end_reals[how](status);
    for (;;)
        VG_CALL(exit_group, status);
}

VG_EXPORT void _exit(int status)
{
    end_at_once(status);
    end_for_real(END_EXIT, status);
    __builtin_unreachable();
}

VG_EXPORT void _Exit(int status)
{
    end_at_once(status);
    end_for_real(END_EXIT_C99, status);
    __builtin_unreachable();
}

VG_EXPORT void quick_exit(int status)
{
    end_at_once(status);
    end_for_real(END_QUICK, status);
    __builtin_unreachable();
}
