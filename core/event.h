/* event.h -- the one thing that crosses from interpose/ to core/, and the words used everywhere.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Words, each with one meaning:
 *   allocation   bytes asked from the driver in one call and given back in one call
 *   block        bytes that a caching allocator hands out inside an allocation of its own (layer
 *                torch)
 *   slot         the place in the record that holds one live allocation or block
 *   site         everything allocated with the same stack, API, kind and device
 *   tracked      requested bytes of the live allocations that occupy a device
 *   context      a driver context, named by cuCtxGetId's number (pointers are used again)
 *   stack        an interned list of frames, named by its id; 0 is "no stack"
 */
#ifndef VG_EVENT_H
#define VG_EVENT_H

#include <stdbool.h>
#include <stdint.h>

enum vg_layer { VG_LAYER_DRIVER, VG_LAYER_TORCH, VG_LAYER_OBJECT, VG_LAYER_COUNT };

/* What names a live thing; see kinds.def. */
enum vg_space {
    VG_SPACE_ADDRESS,
    VG_SPACE_BLOCK,
    VG_SPACE_VMM,
    VG_SPACE_ARRAY,
    VG_SPACE_EXTERNAL,
    VG_SPACE_STREAM,
    VG_SPACE_EVENT,
    VG_SPACE_MODULE,
    VG_SPACE_MEMPOOL,
    VG_SPACE_COUNT
};

enum vg_kind {
    VG_KIND_NONE,
#define KIND(NAME, key, layer, space, occupies) VG_KIND_##NAME,
#include "core/kinds.def"
    VG_KIND_COUNT
};

enum vg_op {
#define OP(NAME, when, starts) VG_OP_##NAME,
#include "core/ops.def"
    VG_OP_COUNT
};

/* Every function of core/ that can fail returns one of these. */
enum vg_status {
    VG_OK,
    VG_FULL,      /* no room in the record: it is counted, and not listed */
    VG_NOT_FOUND, /* free of an address that is not in the ledger */
    /* an allocation at an address that is live: the old one was freed where nobody saw it */
    VG_DUPLICATE,
    VG_IO,      /* a system call failed; errno says why */
    VG_DAMAGED, /* a record file that breaks its own format */
    VG_BUSY,    /* the lock is held by this very thread, or was not had in time */
    VG_INVALID
};

/* A slot of the record: one live allocation or block. 40 bytes. kind is stored last when it goes
 * live and first when it ends. */
struct vg_slot {
    uint64_t addr;
    uint64_t bytes; /* as requested; torch: the rounded block */
    union {
        uint64_t stream;
        uint64_t references; /* space VMM, IPC: vg_references() */
        uint64_t target;     /* MAPPING: number of the slot whose memory it shows; 0 none */
    };
    uint32_t site;
    uint32_t time_ms; /* since the start of the record */
    uint32_t thread;
    uint16_t context; /* index in section CONTEXTS plus 1; 0 unknown */
    uint8_t kind;     /* enum vg_kind; 0: the slot is free and addr is the next free slot plus 1 */
    uint8_t flags;    /* VG_SLOT_* */
};
enum {
    VG_SLOT_CAPTURED = 1, /* made while its stream was capturing */
    VG_SLOT_GUESSED = 2   /* `bytes` is what was asked for, until a RESIZE tells what it takes */
};

/* References to memory of cuMemCreate: by handle, and by mapping. Without one by handle, its number
 * may be given to another. */
static inline uint64_t vg_references(uint32_t handles, uint32_t mappings)
{
    return (uint64_t)mappings << 32 | handles;
}
static inline uint32_t vg_references_handles(uint64_t references)
{
    return (uint32_t)references;
}
static inline uint32_t vg_references_mappings(uint64_t references)
{
    return (uint32_t)(references >> 32);
}

struct vg_event {
    /* What happened. */
    uint16_t hook; /* number of the row in hooks.def; for counters only */
    uint8_t op;    /* enum vg_op */
    uint8_t kind;  /* enum vg_kind; at a free: NONE where the call does not tell */
    uint8_t layer; /* enum vg_layer, follows from kind where kind is known */
    uint8_t flags; /* VG_SLOT_* */
    int32_t error; /* the driver's status of the call */
    uint64_t addr;
    uint64_t bytes;
    uint64_t stream;
    uint64_t context_id; /* 0 unknown */
    uint64_t handle;     /* context pointer, where the op is about a context */
    int32_t device;      /* the program's ordinal; -1 unknown */
    bool primary;        /* CTX_CREATE */
    bool has_stream;     /* `stream` is the call's own: stream-ordered */
    bool device_given;   /* `device` is what the call itself names, not the current context's */
    const void *detail;  /* interpose's own: a description of the thing, valid during the call */
    /* Where. Ids of the record, valid only there. */
    uint32_t stack;
    uint32_t api; /* string: the API that the program called */
    uint32_t thread;
    uint64_t time_ns; /* since the start of the record */
    /* Left by vg_ledger_apply(). */
    uint32_t site;        /* index plus 1; 0 none */
    struct vg_slot saved; /* FREE: what RESTORE puts back */
    uint64_t slot;        /* number: FREE: where `saved` was; ALLOC: where it is; 0 nowhere */
};

const char *vg_kind_key(enum vg_kind kind); /* "device"...; "none" out of range */
enum vg_layer vg_kind_layer(enum vg_kind kind);
enum vg_space vg_kind_space(enum vg_kind kind);
bool vg_kind_occupies(enum vg_kind kind);
bool vg_op_starts(enum vg_op op);
bool vg_op_is_before(enum vg_op op);
const char *vg_layer_key(enum vg_layer layer); /* "driver", "torch", "object" */

#endif
