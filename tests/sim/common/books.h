/* books.h -- the simulation's own books, as they lie in the file of VGSIM_ACCOUNT.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:      written by driver/account.c after every change, read by account/main.c.
 * Holds:      copy[seq & 1] is complete at every instant: the writer fills the other one, then
 *             raises seq. So a process that is killed between two instructions leaves its last
 *             complete state.
 */
#ifndef VGSIM_BOOKS_H
#define VGSIM_BOOKS_H

#include <stdatomic.h>
#include <stdint.h>
#include "tests/sim/common/knobs.h"

#define VGSIM_BOOKS_MAGIC     0x314b4f4f42534756ull /* "VGSBOOK1" */
#define VGSIM_BOOKS_PROCESSES 256

/* The kinds of memory. graph: live allocations of graph nodes. ipc, external, imported: another's
 * bytes, in no sum. vmm_host: handles of cuMemCreate whose memory is the host's. */
#define VGSIM_KINDS(KIND)                                                                          \
    KIND(device)                                                                                   \
    KIND(managed)                                                                                  \
    KIND(pinned)                                                                                   \
    KIND(registered)                                                                               \
    KIND(pool)                                                                                     \
    KIND(vmm)                                                                                      \
    KIND(array)                                                                                    \
    KIND(mipmap)                                                                                   \
    KIND(graph)                                                                                    \
    KIND(ipc)                                                                                      \
    KIND(external)                                                                                 \
    KIND(imported)                                                                                 \
    KIND(vmm_host)

/* Things of the driver that are counted, with no bytes of their own here. modules: libraries too.
 * ipc_open: memory opened by cuIpcOpenMemHandle. */
#define VGSIM_COUNTED(COUNTED)                                                                     \
    COUNTED(contexts)                                                                              \
    COUNTED(streams)                                                                               \
    COUNTED(events)                                                                                \
    COUNTED(modules)                                                                               \
    COUNTED(pools)                                                                                 \
    COUNTED(ipc_open)                                                                              \
    COUNTED(multicast)                                                                             \
    COUNTED(graphs)                                                                                \
    COUNTED(graph_execs)

enum vgsim_kind {
#define KIND(name) VGSIM_KIND_##name,
    VGSIM_KINDS(KIND)
#undef KIND
        VGSIM_KIND_COUNT
};

enum vgsim_counted {
#define COUNTED(name) VGSIM_COUNTED_##name,
    VGSIM_COUNTED(COUNTED)
#undef COUNTED
        VGSIM_COUNTED_COUNT
};

struct vgsim_counted_books {
    uint64_t live, created, destroyed;
};

struct vgsim_kind_books {
    uint64_t requested_bytes;
    uint64_t live_blocks;
    uint64_t allocations; /* ever */
};

struct vgsim_device_books {
    uint64_t total_bytes;
    uint64_t free_bytes;
    uint64_t others_bytes;
    uint64_t hidden_bytes;
    uint64_t shared_bytes; /* what other processes of VGSIM_SHARED use */
    uint64_t context_bytes;
    uint64_t pages;
    uint64_t page_bytes;
    uint64_t peak_bytes; /* most that context_bytes + page_bytes ever were */
    /* most that the requested bytes of all that takes pages ever were */
    uint64_t peak_requested_bytes;
    uint64_t pool_reserved_bytes;  /* pages of pools, in use or idle */
    uint64_t graph_reserved_bytes; /* pages of the graph pool, in use or idle */
    uint64_t graph_used_bytes; /* of these, what live allocations and ready executable graphs map */
    uint64_t failed_allocations;
    struct vgsim_counted_books objects[VGSIM_COUNTED_COUNT];
    struct vgsim_kind_books kinds[VGSIM_KIND_COUNT];
};

struct vgsim_device_slot {
    _Atomic uint64_t seq;
    struct vgsim_device_books copy[2];
};

struct vgsim_process_slot {
    _Atomic int32_t pid; /* 0: the slot is free */
    int32_t devices;
    struct vgsim_device_slot device[VGSIM_MAX_DEVICES];
};

struct vgsim_books {
    _Atomic uint64_t magic;
    uint64_t size;
    struct vgsim_process_slot process[VGSIM_BOOKS_PROCESSES];
};

#endif
