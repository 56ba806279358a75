/* sim.h -- what the files of the simulated driver share, grouped by the file that defines it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:      exports (memory.c, stream.c, ...) -> blocks.c, slab.c, object.c -> state.c -> account.c.
 * Holds:      an export is one CALL(): it takes the driver's lock, runs one static function, publishes the
 *             books of the devices that changed, and gives the lock back.
 * Threads:    everything below runs under that lock, unless it says otherwise.
 */
#ifndef VGSIM_SIM_H
#define VGSIM_SIM_H

#define __CUDA_API_VERSION_INTERNAL
#include "cuda.h"
#include "tests/sim/common/books.h"

#include <stdbool.h>
#include <sys/types.h>

#define VGSIM_PAGE  ((size_t)2 << 20) /* what the device hands out */
#define VGSIM_UNIT  ((size_t)512)     /* what a small allocation is rounded to */
#define VGSIM_SMALL ((size_t)1 << 20) /* below: allocations share pages */
#define VGSIM_API   __attribute__((visibility("default")))

struct vgsim_slab;

/* --- state.c ------------------------------------------------------------------------------------ */
enum vgsim_need {
    NOTHING = 0,
    INIT = 1,    /* cuInit was called in this very process */
    CONTEXT = 2, /* ... and a context that lives is current */
    UNSAFE = 4,  /* what a capture forbids: see capture.c */
};

#define CALL(need, expression)                                                                     \
    do {                                                                                           \
        CUresult rc_ = vgsim_enter(__func__, (need));                                              \
        return rc_ == CUDA_SUCCESS ? vgsim_leave(expression) : rc_;                                \
    } while (0)

struct vgsim_device {
    struct vgsim_device_books books;
    bool dirty;
    struct CUctx_st *primary;
    unsigned int primary_references, primary_flags;
    bool runtime_holds; /* vgsim_primary_context() has its one reference */
    struct CUmemPoolHandle_st *default_pool, *pool;
};

CUresult vgsim_enter(const char *api, unsigned int need);
CUresult vgsim_leave(CUresult result);
CUresult vgsim_state_init(void);
bool vgsim_is_device(CUdevice device);
struct vgsim_device *
vgsim_device_changed(CUdevice device); /* for writing: its books get published */
uint64_t vgsim_free_bytes(const struct vgsim_device_books *books);
bool vgsim_pages_take(CUdevice device, size_t pages); /* false: the device has not that many */
void vgsim_pages_give(CUdevice device, size_t pages);
CUresult vgsim_refused(CUdevice device); /* out of memory, and in the books */
bool vgsim_round_up(size_t value, size_t multiple, size_t *out);

/* --- account.c ---------------------------------------------------------------------------------- */
void vgsim_account_open(const char *path, int devices);
void vgsim_account_publish(int device, const struct vgsim_device_books *books);

/* --- slab.c: a range that is handed out in units ------------------------------------------------- */
struct vgsim_range {
    size_t offset, length;
};
struct vgsim_slab {
    uintptr_t base;
    size_t size, used;
    size_t biggest; /* no free range is longer */
    struct vgsim_range *ranges;
    size_t range_count, range_room;
    struct vgsim_slab *previous, *next;
};
void *vgsim_space_map(size_t bytes,
                      size_t alignment); /* NULL: the host has no address range left */
void vgsim_space_unmap(void *address, size_t bytes);
struct vgsim_slab *vgsim_slab_open(size_t bytes);
void vgsim_slab_close(struct vgsim_slab *slab);
bool vgsim_slab_take(struct vgsim_slab *slab, size_t bytes, uintptr_t *address_out);
void vgsim_slab_give(struct vgsim_slab *slab, uintptr_t address, size_t bytes);

/* --- blocks.c: every range that the driver knows, by address ------------------------------------- */
struct vgsim_block {
    uintptr_t address;
    size_t bytes; /* what was asked for */
    size_t span;  /* what it occupies; live spans never overlap */
    enum vgsim_kind kind;
    unsigned int flags;
    uint64_t id;
    CUdevice device;
    size_t pages;            /* whole pages of its own */
    struct vgsim_slab *slab; /* else the page it shares */
    struct CUctx_st *context;
    struct CUmemPoolHandle_st *pool;
    struct vgsim_vmm_handle *handle;
    struct vgsim_block *previous, *next; /* in its context or pool */
};
struct vgsim_block *vgsim_block_add(const struct vgsim_block *values, struct vgsim_block **list);
void vgsim_block_remove(struct vgsim_block *block, struct vgsim_block **list);
struct vgsim_block *vgsim_block_at(uintptr_t address); /* that holds this byte, or NULL */
struct vgsim_block *vgsim_block_over(uintptr_t address, size_t bytes); /* that any byte lies in */
bool vgsim_block_covers(uintptr_t address, size_t bytes); /* known memory from end to end */
void vgsim_books_count(CUdevice device, enum vgsim_kind kind, int64_t bytes, int blocks);
void vgsim_books_object(CUdevice device, enum vgsim_counted which, int change);

/* --- object.c: handles ----------------------------------------------------------------------------- */
enum vgsim_type { STREAM, EVENT, MODULE, LIBRARY, KERNEL, POOL, GRAPH, GRAPH_EXEC, VMM_HANDLE };
struct vgsim_object {
    enum vgsim_type type;
    struct CUctx_st *context;             /* NULL: belongs to the process */
    struct vgsim_object *owner;           /* a function's module, a kernel's library */
    struct vgsim_object *previous, *next; /* in its context */
};
void *vgsim_object_add(enum vgsim_type type, size_t size, struct CUctx_st *context);
bool vgsim_object_is(const void *handle, enum vgsim_type type);
void vgsim_object_remove(void *handle);

/* --- context.c ------------------------------------------------------------------------------------- */
struct CUctx_st {
    bool live, is_primary;
    uint64_t id;
    CUdevice device;
    unsigned int flags, api_version;
    size_t limits[CU_LIMIT_MAX];
    struct vgsim_block *blocks;
    struct vgsim_object *objects;
    struct vgsim_slab *slabs; /* pages that small allocations share; the last one opened first */
    struct CUctx_st *next;
};
struct CUctx_st *vgsim_current(void); /* NULL: none, or it does not live any more */
CUresult vgsim_current_state(void);
bool vgsim_is_context(const struct CUctx_st *context);

/* --- memory.c -------------------------------------------------------------------------------------- */
void vgsim_memory_release(struct vgsim_block *block);

/* --- stream.c, capture.c ------------------------------------------------------------------------- */
struct CUstream_st {
    struct vgsim_object object;
    unsigned int flags;
    int priority;
    uint64_t id;
    CUstreamCaptureStatus capture;
    CUstreamCaptureMode capture_mode;
    uint64_t capture_id, capture_thread, capture_nodes;
};
CUresult vgsim_stream_check(CUstream stream); /* a stream, or one of the three numbers */
bool vgsim_stream_capturing(CUstream stream); /* the work is noted, not done */
CUresult vgsim_capture_forbids(void);
void vgsim_capture_forget(struct CUstream_st *stream);

/* --- module.c -------------------------------------------------------------------------------------- */
void vgsim_module_forget(struct CUmod_st *module); /* its functions go with it */

/* --- pool.c ------------------------------------------------------------------------------------------ */
void vgsim_pool_free(struct vgsim_block *block); /* back to its pool, idle */
void vgsim_pools_sync(CUdevice device);          /* idle pages above the threshold go back */
void vgsim_pools_reset(CUdevice device);

/* --- vmm.c ------------------------------------------------------------------------------------------- */
struct vgsim_vmm_handle {
    struct vgsim_object object;
    CUmemAllocationProp prop;
    size_t size;
    int fd;
    bool own_file;
    off_t offset;
    bool imported; /* the bytes are another handle's */
    struct vgsim_vmm_handle
        *origin; /* that one, when it is this process's; counts us as a mapping */
    unsigned int references, mappings;
    struct vgsim_vmm_handle *previous, *next;
};

/* --- streams.def: exports with a second form for the per-thread default stream ---------------------- */
#define PER_THREAD(symbol, suffix, parameters, arguments)                                          \
    VGSIM_API CUresult symbol##suffix parameters;
#include "tests/sim/driver/streams.def"
#undef PER_THREAD

/* The primary context, made at the first call; later calls (until it is reset) add no reference. NVIDIA's
 * runtime gets it through a private table, ours through this export. */
VGSIM_API CUresult vgsim_primary_context(CUcontext *context_out, CUdevice device);
/* What NVML shows of this process: a copy of a device's books; false: no such device, or not initialised. */
VGSIM_API bool vgsim_device_books(int device, struct vgsim_device_books *books_out);

#endif
