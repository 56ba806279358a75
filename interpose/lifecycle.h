/* lifecycle.h -- COLD -> STARTING -> ON -> STOPPING -> OFF, and what is there while it is ON.
 * SPDX-License-Identifier: Apache-2.0
 *
 * COLD ends at the first allocation attempt or context creation. A forked child of a process that
 * is ON is OFF for good (the state lives in a page that the kernel wipes in the child; its zero
 * means OFF); the child of a COLD one stays COLD.
 */
#ifndef VG_LIFECYCLE_H
#define VG_LIFECYCLE_H

#include "core/ledger.h"
#include "core/options.h"

enum { VG_PATH_MAX = 4096 };

struct vg_guard {
    struct vg_options options;
    struct vg_record record;
    struct vg_ledger ledger;
    int32_t pid;
    int32_t rank; /* -1 none */
    uint64_t start_monotonic_ns;
    char record_path[VG_PATH_MAX]; /* "": a memfd */
    char stem[VG_PATH_MAX]; /* of the incidents' files, in the report directory; without the kind */
    uint64_t stderr_device, stderr_inode; /* descriptor 2 when COLD ended */
    bool has_stderr;
    bool told_stuck; /* one line says that the record cannot grow; under the ledger lock */
};

/* The guard while it is ON, else NULL. `start`: end COLD if it is. Cheap when ON or OFF. */
struct vg_guard *vg_lifecycle_guard(bool start);
/* The guard in any state after STARTING (for the exit path); NULL before. */
struct vg_guard *vg_lifecycle_any(void);

/* Since the record's start. */
uint64_t vg_guard_now(const struct vg_guard *guard);
/* The ledger lock as this thread. False: held by this very thread (counted as dropped), or not had
 * in time. */
bool vg_guard_lock(struct vg_guard *guard);
void vg_guard_unlock(struct vg_guard *guard);
/* The same around a change that is not an event (a look at a device, a count at a site): readers
 * see that it is under way. Not around vg_ledger_apply(), which does that itself. */
bool vg_guard_lock_for_change(struct vg_guard *guard);
void vg_guard_unlock_changed(struct vg_guard *guard);

/* Is descriptor 2 still the file that it was when COLD ended? Where not, nothing is printed. */
bool vg_guard_has_stderr(const struct vg_guard *guard);
/* One line "VRAMGuard: ..." on descriptor 2, if that is still the file it was and level is asked
 * for. */
void vg_guard_log(const struct vg_guard *guard, enum vg_log level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for a block of lines made by the caller; one write. */
void vg_guard_print(const struct vg_guard *guard, const char *text, size_t length);

#endif
