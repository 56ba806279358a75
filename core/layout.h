/* layout.h -- the bytes of a record file (*.vgr).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Header, section tables, and the element of every section.
 *
 *   page 0..        struct vg_header: process, counters, one struct vg_section per section
 *   then            chunks, in the order in which sections asked for room
 *
 * A section is a list of chunks; chunk k holds base_count << min(k, 4) elements, so that an index
 * finds its chunk by arithmetic, nothing ever moves, and at most about half of a small section is
 * unused. A chunk's place is a page number. The file has no holes. An element is written first and
 * then counted (`count`, release), so a reader never sees half of one. All numbers are those of the
 * machine that wrote it (little-endian on both architectures that are built); ids and indexes are
 * "plus 1" where 0 means none.
 */
#ifndef VG_LAYOUT_H
#define VG_LAYOUT_H

#include <stdatomic.h>

#include "core/event.h"

#define VG_MAGIC   "VRAMGRD"
#define VG_VERSION 1u

enum {
    VG_PAGE = 4096,
    VG_CHUNKS_MAX = 1024,
    VG_CHUNK_DOUBLINGS = 4,
    VG_OTHERS_MAX = 64,
    VG_DEVICES_MAX = 64,
    VG_REMEDIES_MAX = 8,
    VG_STACK_FRAMES_MAX = 256,
    VG_KINDS_MAX = 32,
    VG_FREED_MAX = 1024, /* a multiple of the section's base count */
    VG_FAULTS_MAX = 256
};

_Static_assert((int)VG_KIND_COUNT <= (int)VG_KINDS_MAX, "kinds.def has more rows than a record");

enum vg_section_id {
#define SECTION(NAME, name, element, base_count, saturated) VG_SEC_##NAME,
#include "core/sections.def"
    VG_SEC_COUNT
};

struct vg_section {
    uint32_t elem_bytes;
    uint32_t base_count; /* elements in chunk 0; a power of two */
    _Atomic uint64_t count;
    uint32_t chunk_count;
    uint32_t reserved;
    uint32_t page[VG_CHUNKS_MAX];
};

/* Elements in chunk k, and in all chunks before it. */
static inline uint64_t vg_chunk_elements(uint32_t base_count, uint32_t k)
{
    return (uint64_t)base_count << (k < VG_CHUNK_DOUBLINGS ? k : VG_CHUNK_DOUBLINGS);
}
static inline uint64_t vg_chunk_first(uint32_t base_count, uint32_t k)
{
    if (k <= VG_CHUNK_DOUBLINGS) {
        return (uint64_t)base_count * ((1u << k) - 1);
    }
    uint64_t doubling = (1u << VG_CHUNK_DOUBLINGS) - 1;
    return base_count * (doubling + ((uint64_t)(k - VG_CHUNK_DOUBLINGS) << VG_CHUNK_DOUBLINGS));
}
/* The chunk that holds element `index`. */
static inline uint32_t vg_chunk_of(uint32_t base_count, uint64_t index)
{
    uint64_t blocks = index >> __builtin_ctz(base_count);
    uint64_t doubling = (1u << VG_CHUNK_DOUBLINGS) - 1;
    if (blocks >= doubling) {
        return VG_CHUNK_DOUBLINGS + (uint32_t)((blocks - doubling) >> VG_CHUNK_DOUBLINGS);
    }
    return 31u - (uint32_t)__builtin_clz((uint32_t)blocks + 1);
}
static inline uint64_t vg_chunk_bytes(uint32_t elem_bytes, uint32_t base_count, uint32_t k)
{
    uint64_t bytes = elem_bytes * vg_chunk_elements(base_count, k);
    return (bytes + VG_PAGE - 1) / VG_PAGE * VG_PAGE;
}

/* A loaded object. Offsets of frames are relative to `bias`, so they equal the addresses in the
 * file on disk. */
struct vg_module {
    uint32_t path; /* string; absolute, "" for the vdso */
    uint32_t generation;
    uint64_t low, high; /* where it was mapped */
    uint64_t bias;
    uint8_t build_id[20];
    uint8_t build_id_bytes; /* 0: has none */
    uint8_t reserved[3];
};

enum { VG_LANG_NATIVE = 1, VG_LANG_PYTHON = 2 };
struct vg_frame {
    uint8_t lang;
    uint8_t reserved[3];
    uint32_t module; /* native: index + 1; 0: code outside any module (JIT) */
    /* native: return address less bias (less nothing: the call is at offset - 1); no module: the
     * address */
    uint64_t offset;
    uint32_t function; /* python: string */
    uint32_t file;     /* python: string */
    int32_t line;      /* python; <= 0 unknown */
    uint32_t reserved2;
};

/* Head word of a stack: native frames (innermost first), then Python frames (innermost first). */
static inline uint32_t vg_stack_head(uint32_t native, uint32_t python, bool cut)
{
    return (native & 0x3ffu) | (python & 0x3ffu) << 10 | (uint32_t)cut << 20;
}
static inline uint32_t vg_stack_native(uint32_t head)
{
    return head & 0x3ffu;
}
static inline uint32_t vg_stack_python(uint32_t head)
{
    return head >> 10 & 0x3ffu;
}
static inline bool vg_stack_is_cut(uint32_t head)
{
    return head >> 20 & 1u;
}

struct vg_site {
    uint32_t stack, api;
    uint16_t device; /* index in DEVICES + 1; 0 none (host memory without a context) */
    uint8_t kind, layer;
    uint32_t fail_count; /* final failures at this site */
    uint64_t live_bytes, live_count, peak_live_bytes;
    /* valid where peak_epoch equals the device's; else live_bytes is the value at the peak */
    uint64_t at_peak_bytes;
    uint64_t peak_epoch;
    uint64_t alloc_count, free_count;
    uint64_t first_ns, last_ns;
    /* 1: a failure here was followed by a success of its size: this caller retries by itself */
    uint32_t retries;
    uint32_t failed_in_row;                  /* failures since its last success */
    uint64_t unlisted_bytes, unlisted_count; /* the part of the live ones that has no slot here */
};

/* What other processes hold, as NVML told it at the last incident or sample. */
struct vg_other {
    uint32_t pid, name; /* string or 0 */
    uint64_t bytes;     /* VG_UNKNOWN where NVML does not tell */
    uint8_t may_be_this_process;
    uint8_t reserved[7];
};
#define VG_UNKNOWN UINT64_MAX

enum vg_free_source { VG_FREE_UNKNOWN, VG_FREE_DRIVER, VG_FREE_NVML };

struct vg_device {
    int32_t ordinal;
    uint32_t name, pci; /* strings or 0 */
    uint8_t uuid[16];
    uint8_t has_uuid, free_source, nvml_known;
    uint8_t described; /* the driver was asked for name, uuid, pci and size */
    uint8_t is_mig;    /* NVML knows it as a MIG instance */
    uint8_t in_motion; /* other threads changed memory while the device was looked at */
    uint8_t reserved[6];
    /* Changed by vg_ledger_apply() only. Index of the two-element arrays: enum vg_layer. */
    uint64_t tracked_bytes; /* of the kinds that occupy */
    uint64_t peak_bytes[VG_LAYER_COUNT];
    uint64_t peak_epoch[VG_LAYER_COUNT];
    uint64_t block_bytes;                                        /* live blocks, layer torch */
    uint64_t kind_bytes[VG_KINDS_MAX], kind_count[VG_KINDS_MAX]; /* by enum vg_kind, blocks too */
    uint64_t alloc_count, free_count;                            /* layer driver */
    /* The part of kind_bytes and kind_count that has no slot here (saturated). */
    uint64_t unlisted_bytes[VG_KINDS_MAX], unlisted_count[VG_KINDS_MAX];
    /* The last look at the device: all of one moment, taken after the event of sample_ns. */
    uint64_t sample_ns, total_bytes, free_bytes; /* VG_UNKNOWN until then */
    uint64_t nvml_self_bytes;                    /* this process as NVML counts it; VG_UNKNOWN */
    uint64_t pool_idle_bytes;                    /* VG_UNKNOWN: not asked */
    uint64_t sampled_tracked_bytes;              /* tracked_bytes at sample_ns */
    uint64_t settled_overhead_bytes; /* NVML's figure less tracked and idle, at the last look that
                                        was of one moment; VG_UNKNOWN */
    uint32_t other_count;            /* valid elements of other[] */
    uint32_t other_seen;             /* may be more than fit */
    struct vg_other other[VG_OTHERS_MAX];
};

struct vg_context {
    uint64_t id, handle;
    uint16_t device; /* index in DEVICES + 1 */
    uint8_t primary, live;
    uint32_t stack;                  /* of its creation, or of the first allocation in it */
    uint64_t live_bytes, live_count; /* layer driver, all kinds */
    uint64_t unlisted_bytes, unlisted_count;
    uint64_t created_ns, ended_ns;
    uint64_t free_fall_bytes; /* fall of free memory across a creation that was seen; VG_UNKNOWN */
};

/* One of the last frees of the driver's memory: who ended it, so that a second free can be told
 * who was first. */
struct vg_freed {
    uint64_t addr, bytes, time_ns;
    uint32_t site;       /* index + 1 of where it had been allocated; 0 unknown */
    uint32_t stack, api; /* of the free: the innermost frames, and what the program called */
    uint32_t thread;
};

enum vg_fault_kind {
    VG_FAULT_UNKNOWN = 1, /* refused, and the guard knows nothing of the address */
    VG_FAULT_DOUBLE,      /* refused, and the address was freed before */
    VG_FAULT_REFUSED,     /* refused although it is live */
    VG_FAULT_COUNT
};
/* Frees that the driver refused: one element per stack and kind, with the last of them. */
struct vg_fault {
    uint64_t addr, bytes; /* bytes: VG_UNKNOWN */
    uint64_t time_ns, count;
    int32_t status;
    uint32_t kind; /* enum vg_fault_kind */
    uint32_t stack, api, thread;
    uint32_t reserved;
    struct vg_freed first; /* DOUBLE: the free before; REFUSED: only `site` */
};

enum vg_incident_kind {
    VG_INCIDENT_OOM = 1,
    VG_INCIDENT_WARNING,
    VG_INCIDENT_EXIT,
    VG_INCIDENT_SNAPSHOT
};
enum vg_outcome { VG_OUTCOME_FAILED = 1, VG_OUTCOME_RECOVERED };

struct vg_incident {
    uint8_t kind, outcome, attempts;
    uint8_t waits;   /* 1: the failing thread waits for the report */
    uint32_t number; /* n of its file name, from 1 per kind */
    uint64_t time_ns;
    uint32_t site; /* index + 1 of the site that failed; 0 none */
    /* string: driver or runtime function that returned the error; 0: no driver call was made */
    uint32_t api;
    uint32_t via;    /* string: what the program called */
    uint32_t family; /* string: "torch", ... or 0 */
    int32_t error;
    uint16_t device;  /* index + 1 */
    uint16_t context; /* index + 1 */
    uint32_t thread;
    uint32_t stack;
    uint64_t bytes;           /* of the failing driver call; VG_UNKNOWN: none was made */
    uint64_t requested_bytes; /* what the framework was asked for; VG_UNKNOWN */
    uint64_t count;           /* final failures of this site so far, this one included */
    uint64_t mem_available_bytes, cgroup_limit_bytes, cgroup_used_bytes; /* host; VG_UNKNOWN */
    uint64_t reserved[4];
};

enum { VG_ENDED_NO = 0, VG_ENDED_CODE, VG_ENDED_UNKNOWN };
enum {
    VG_SAT_STRINGS = 1,
    VG_SAT_STACKS = 2,
    VG_SAT_SITES = 4,
    VG_SAT_SLOTS = 8,
    VG_SAT_OTHER = 16
};
enum { VG_REACHED_DRIVER = 1, VG_REACHED_RUNTIME = 2, VG_REACHED_TORCH = 4 };
enum { VG_PLATFORM_LINUX, VG_PLATFORM_WSL, VG_PLATFORM_TEGRA };

struct vg_header {
    char magic[8];
    uint32_t version, header_bytes;
    _Atomic uint64_t
        file_bytes;       /* header and chunks: everything below it is mapped and has its blocks */
    _Atomic uint64_t seq; /* odd while an event is being applied */
    _Atomic uint64_t intent; /* vg_intent(): what is being applied; 0 nothing */
    /* Process. */
    uint32_t pid, host, exe, cwd; /* strings */
    uint32_t cmdline;             /* string; arguments separated by 0x1f */
    uint32_t python, torch;       /* version strings or 0 */
    uint32_t unwinder;            /* string: "libunwind", "libgcc_s", "none" */
    /* libraries with functions of hooks.def beyond the slots there are */
    uint32_t unmapped_providers;
    int32_t rank;           /* -1 none */
    int32_t driver_version; /* as cuDriverGetVersion; 0 unknown */
    uint32_t platform;
    uint64_t start_realtime_ns, start_monotonic_ns;
    uint32_t ended, exit_status;
    uint64_t ended_ns;
    /* Counters. */
    uint64_t freed_count; /* frees remembered so far; the last VG_FREED_MAX are there */
    uint64_t event_count, dropped_count, fallback_count, unknown_free_count, failed_free_count;
    uint64_t duplicate_count;                /* an allocation at a live address */
    uint64_t unlisted_count, unlisted_bytes; /* live ones without a slot here (saturated) */
    uint64_t final_count, recovered_count;   /* OOMs */
    uint64_t rendered_count;
    uint32_t saturated, reached;
    uint64_t last_event_ns;
    uint64_t limit_bytes;
    uint64_t other_error_count; /* failures that are not about memory */
    uint64_t reserved[16];
    struct vg_section section[VG_SEC_COUNT];
};

static inline uint64_t vg_intent(uint32_t slot, enum vg_op op)
{
    return (uint64_t)slot << 8 | 0x80u | (uint8_t)op;
}

#endif
