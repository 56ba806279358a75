/* shared.h -- the devices that several processes share, as they lie in the file of VGSIM_SHARED.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:      compiled into the simulated libcuda, which writes its own process's part, and into
 *             libnvidia-ml, which shows everyone's.
 * Holds:      a process counts while its pid lives with the start time it had when it joined: what
 *             a killed process held is free again at the next look. Memory that another process
 *             still has open (IPC, imported handles) outlives its owner's free as an orphan, until
 *             the last opener closes it or ends.
 * Threads:    between vgsim_shared_lock() and vgsim_shared_unlock() the caller is alone in every
 *             process; the lock is robust: who dies with it leaves whole entries, since each is one
 *             process's plain numbers.
 */
#ifndef VGSIM_SHARED_H
#define VGSIM_SHARED_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include "tests/sim/common/knobs.h"

#define VGSIM_SHARED_MAGIC     0x3144524853534756ull /* "VGSSHRD1" */
#define VGSIM_SHARED_PROCESSES 256
#define VGSIM_SHARED_OPENS     64
#define VGSIM_SHARED_ORPHANS   256

struct vgsim_shared_use {
    uint64_t contexts, context_bytes, page_bytes;
};

struct vgsim_shared_process {
    int32_t pid; /* 0: the entry is free */
    uint64_t start;
    struct vgsim_shared_use device[VGSIM_MAX_DEVICES];
    /* inodes of memory that it has open and that is another's; 0: none */
    uint64_t opens[VGSIM_SHARED_OPENS];
};

struct vgsim_shared_orphan {
    uint64_t inode; /* 0: the entry is free */
    uint64_t bytes;
    int32_t device;
};

struct vgsim_shared {
    uint64_t magic, size;
    pthread_mutex_t lock;
    uint64_t generation; /* raised by every change */
    struct vgsim_shared_process process[VGSIM_SHARED_PROCESSES];
    struct vgsim_shared_orphan orphan[VGSIM_SHARED_ORPHANS];
};

/* Maps the file of VGSIM_SHARED, once; NULL: there is none, or (one line on stderr) it cannot be
 * used. */
struct vgsim_shared *vgsim_shared_open(void);
void vgsim_shared_lock(struct vgsim_shared *shared);
void vgsim_shared_unlock(struct vgsim_shared *shared);

/* The rest runs under the lock. */
struct vgsim_shared_process *vgsim_shared_join(struct vgsim_shared *shared); /* NULL: no room */
void vgsim_shared_reap(struct vgsim_shared *shared);
/* What everyone but `ours` (NULL: everyone) uses of a device, orphans included. */
uint64_t vgsim_shared_bytes(const struct vgsim_shared *shared,
                            const struct vgsim_shared_process *ours, int device);
bool vgsim_shared_is_open(const struct vgsim_shared *shared, uint64_t inode);

#endif
