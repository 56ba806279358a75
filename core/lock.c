/* lock.c -- the ledger lock: a futex whose word is its holder.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/ledger.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WAITED_FOR 0x80000000u

/* The program may run under ThreadSanitizer, which sees our memset, memcpy and write but not this
 * lock. */
void __tsan_acquire(void *) __attribute__((weak));
void __tsan_release(void *) __attribute__((weak));

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Sleeps while the word is `seen`. false: the deadline (0: none) is over. */
static bool sleep_while(struct vg_lock *lock, uint32_t seen, uint64_t deadline_ns)
{
    struct timespec left, *limit = NULL;
    if (deadline_ns) {
        uint64_t now = now_ns();
        if (now >= deadline_ns) {
            return false;
        }
        left.tv_sec = (time_t)((deadline_ns - now) / 1000000000u);
        left.tv_nsec = (long)((deadline_ns - now) % 1000000000u);
        limit = &left;
    }
    syscall(SYS_futex, &lock->word, FUTEX_WAIT_PRIVATE, seen, limit, NULL, 0);
    return true;
}

static enum vg_status enter_slowly(struct vg_lock *lock, uint32_t self, uint64_t timeout_ns)
{
    uint64_t deadline_ns = timeout_ns ? now_ns() + timeout_ns : 0;
    for (;;) {
        uint32_t seen = atomic_load_explicit(&lock->word, memory_order_relaxed);
        if ((seen & ~WAITED_FOR) == self) {
            return VG_BUSY;
        }
        /* Whoever has slept can't know whether others sleep too: it takes the lock as waited
         * for. */
        uint32_t wanted = seen ? seen | WAITED_FOR : self | WAITED_FOR;
        if (wanted != seen &&
            !atomic_compare_exchange_weak_explicit(&lock->word, &seen, wanted, memory_order_acquire,
                                                   memory_order_relaxed)) {
            continue;
        }
        if (!seen) {
            return VG_OK;
        }
        if (!sleep_while(lock, wanted, deadline_ns)) {
            return VG_BUSY;
        }
    }
}

static enum vg_status enter(struct vg_lock *lock, uint32_t self, uint64_t timeout_ns)
{
    /* A holder keeps it for a few hundred nanoseconds: look again before going to the kernel. */
    for (int tries = 0; tries < 64; tries++) {
        uint32_t seen = 0;
        if (atomic_compare_exchange_weak_explicit(&lock->word, &seen, self, memory_order_acquire,
                                                  memory_order_relaxed)) {
            return VG_OK;
        }
        if ((seen & ~WAITED_FOR) == self) {
            return VG_BUSY;
        }
        while (++tries < 64 && atomic_load_explicit(&lock->word, memory_order_relaxed)) {
            atomic_signal_fence(memory_order_seq_cst);
        }
    }
    int kept = errno;
    enum vg_status status = enter_slowly(lock, self, timeout_ns);
    errno = kept;
    return status;
}

enum vg_status vg_lock_enter(struct vg_lock *lock, uint32_t self, uint64_t timeout_ns)
{
    enum vg_status status = enter(lock, self, timeout_ns);
    if (status == VG_OK && __tsan_acquire) {
        __tsan_acquire(lock);
    }
    return status;
}

void vg_lock_leave(struct vg_lock *lock)
{
    if (__tsan_release) {
        __tsan_release(lock);
    }
    uint32_t was = atomic_exchange_explicit(&lock->word, 0, memory_order_release);
    if (was & WAITED_FOR) {
        int kept = errno;
        syscall(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
        errno = kept;
    }
}
