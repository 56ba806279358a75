/* lock.h -- the lock of the ledger: a futex that knows which thread holds it.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VG_LOCK_H
#define VG_LOCK_H

#include <stdatomic.h>
#include <stdint.h>

#include "core/event.h"

/* A futex lock that knows which thread holds it. `self` is the thread's id: not 0, below 2^31.
 * Holder and lock are one word, so that there is no moment at which a signal handler finds it taken
 * by nobody. errno is left alone. */
struct vg_lock {
    _Atomic uint32_t word; /* 0: free; else the holder, with the top bit where others wait */
};
/* VG_OK; VG_BUSY: this thread holds it already (a signal handler came in), or timeout_ns passed (0:
 * no limit). */
enum vg_status vg_lock_enter(struct vg_lock *lock, uint32_t self, uint64_t timeout_ns);
void vg_lock_leave(struct vg_lock *lock);

#endif
