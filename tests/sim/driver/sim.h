/* sim.h -- what the files of the simulated driver share, grouped by the file that defines it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:      exports (memory.c, stream.c, ...) -> blocks.c, slab.c, object.c -> state.c ->
 *             account.c.
 * Holds:      an export is one CALL(): it takes the driver's lock, runs one static function,
 *             publishes the books of the devices that changed, and gives the lock back.
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

/* --- state.c ---------------------------------------------------------------------------------- */
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
bool vgsim_has_room(CUdevice device, uint64_t bytes);
bool vgsim_pages_take(CUdevice device, size_t pages); /* false: the device has not that many */
void vgsim_pages_give(CUdevice device, size_t pages);
CUresult vgsim_refused(CUdevice device); /* out of memory, and in the books */
bool vgsim_round_up(size_t value, size_t multiple, size_t *out);

/* --- account.c -------------------------------------------------------------------------------- */
void vgsim_account_open(const char *path, int devices);
void vgsim_account_publish(int device, const struct vgsim_device_books *books);

/* --- sharing.c: the other processes of VGSIM_SHARED; without it nothing happens --------------- */
void vgsim_sharing_join(void);
void vgsim_sharing_enter(void);
void vgsim_sharing_leave(void);
void vgsim_sharing_refresh(void); /* the dead are gone, the others' use is known */
void vgsim_sharing_publish(int device, const struct vgsim_device_books *books);
/* Another process's memory, named by the inode of its file: opened, closed by us (false: too many);
 * and ours that is freed: what is still open elsewhere stays in use. Called before its pages are
 * given back. */
bool vgsim_sharing_opened(uint64_t inode);
void vgsim_sharing_closed(uint64_t inode);
void vgsim_sharing_freed(uint64_t inode, CUdevice device, uint64_t bytes);

/* --- slab.c: a range that is handed out in units ---------------------------------------------- */
struct vgsim_range {
    size_t offset, length;
};
struct vgsim_slab {
    uintptr_t base;
    size_t size, used;
    size_t biggest; /* no free range is longer */
    struct vgsim_range *ranges;
    size_t range_count, range_room;
    struct vgsim_pending *pending; /* frees that their streams have not reached: pool.c */
    struct vgsim_ipc_file *file;   /* when a part of it was exported */
    struct vgsim_slab *previous, *next;
};
void *vgsim_space_map(size_t bytes,
                      size_t alignment); /* NULL: the host has no address range left */
void vgsim_space_unmap(void *address, size_t bytes);
struct vgsim_slab *vgsim_slab_open(size_t bytes);
void vgsim_slab_close(struct vgsim_slab *slab);
bool vgsim_slab_take(struct vgsim_slab *slab, size_t bytes, uintptr_t *address_out);
void vgsim_slab_give(struct vgsim_slab *slab, uintptr_t address, size_t bytes);

/* --- blocks.c: every range that the driver knows, by address ---------------------------------- */
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
    uint32_t readers, writers;   /* of a mapping: a bit for each device that has access */
    struct vgsim_ipc_file *file; /* of an exported one: the file that its memory has become */
    bool alias;                  /* the bytes are counted elsewhere, or not at all */
    struct vgsim_block *previous, *next; /* in its context or pool */
};
struct vgsim_block *vgsim_block_add(const struct vgsim_block *values, struct vgsim_block **list);
void vgsim_block_remove(struct vgsim_block *block, struct vgsim_block **list);
struct vgsim_block *vgsim_block_at(uintptr_t address); /* that holds this byte, or NULL */
struct vgsim_block *vgsim_block_over(uintptr_t address, size_t bytes); /* that any byte lies in */
bool vgsim_block_covers(uintptr_t address, size_t bytes); /* known memory from end to end */
void vgsim_books_count(CUdevice device, enum vgsim_kind kind, int64_t bytes, int blocks);
void vgsim_books_object(CUdevice device, enum vgsim_counted which, int change);

/* --- object.c: handles ------------------------------------------------------------------------ */
enum vgsim_type {
    STREAM,
    EVENT,
    MODULE,
    LIBRARY,
    KERNEL,
    POOL,
    GRAPH,
    GRAPH_NODE,
    GRAPH_EXEC,
    VMM_HANDLE,
    ARRAY,
    MIPMAP,
    TEXTURE,
    SURFACE,
    EXTERNAL,
    GREEN,
    RESOURCES,
};
struct vgsim_object {
    enum vgsim_type type;
    struct CUctx_st *context;             /* NULL: belongs to the process */
    struct vgsim_object *owner;           /* a function's module, a kernel's library */
    struct vgsim_object *previous, *next; /* in its context */
};
void *vgsim_object_add(enum vgsim_type type, size_t size, struct CUctx_st *context);
bool vgsim_object_is(const void *handle, enum vgsim_type type);
void vgsim_object_remove(void *handle);

/* --- pending.c: the work of a stream is pending until the host waits for it ------------------- */
struct vgsim_line {
    uint64_t id; /* never used again, also when the stream is gone */
    struct CUctx_st *context;
    bool legacy, blocking;
    uint64_t last,
        done;       /* tickets: what was given to it last, and what the host knows to be done */
    uint64_t asked; /* a query said "not ready" to this ticket */
    struct vgsim_line *next;
};
void vgsim_line_open(struct vgsim_line *line, struct CUctx_st *context, bool legacy, bool blocking);
void vgsim_line_close(struct vgsim_line *line);
uint64_t vgsim_work_add(struct vgsim_line *line);
/* All later work of the line comes after that of another line, up to the ticket. */
void vgsim_work_follows(struct vgsim_line *line, uint64_t other, uint64_t until);
bool vgsim_work_is_pending(uint64_t line, uint64_t ticket);
void vgsim_work_done(uint64_t line, uint64_t until);
void vgsim_work_done_context(struct CUctx_st *context);

/* --- context.c -------------------------------------------------------------------------------- */
#define VGSIM_MAX_PEERS 32
struct CUctx_st {
    bool live, is_primary;
    uint64_t id;
    CUdevice device;
    unsigned int flags, api_version;
    uint64_t cost;      /* of the device's memory */
    unsigned int usage; /* cuCtxAttach and cuCtxDetach */
    size_t limits[CU_LIMIT_MAX];
    struct vgsim_peer {
        struct CUctx_st *context;
        uint64_t id;
    } peers[VGSIM_MAX_PEERS]; /* whose memory it may use */
    struct CUgreenCtx_st *green;
    struct CUctx_st *primary; /* of a green one: who has its memory and its objects */
    struct vgsim_block *blocks;
    struct vgsim_object *objects;
    struct vgsim_line line;   /* its legacy stream */
    struct vgsim_slab *slabs; /* pages that small allocations share; the last one opened first */
    struct CUctx_st *next;
};
/* NULL: none, or it does not live any more. While a green context is current: the primary one. */
struct CUctx_st *vgsim_current(void);
struct CUctx_st *vgsim_current_itself(void); /* the green one then */
CUresult vgsim_green_open(struct CUgreenCtx_st *green, CUdevice device, CUcontext *out);
void vgsim_green_close(struct CUctx_st *context);
CUresult vgsim_current_state(void);
bool vgsim_is_context(const struct CUctx_st *context);

/* --- memory.c --------------------------------------------------------------------------------- */
void vgsim_memory_release(struct vgsim_block *block);
/* As cuMemAlloc takes it, for the current context; NULL: refused, and in the books. */
struct vgsim_block *vgsim_memory_take(enum vgsim_kind kind, size_t bytes);

/* --- array.c ---------------------------------------------------------------------------------- */
struct vgsim_rows {
    uintptr_t address;
    size_t pitch, rows; /* bytes from a row to the next, rows from a slice to the next */
    size_t width_bytes, height, depth;
};
/* false: no array, or nothing mapped */
bool vgsim_array_rows(CUarray array, struct vgsim_rows *out);
CUresult vgsim_mipmap_new(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *desc,
                          unsigned int levels, bool external);

/* --- stream.c, capture.c ---------------------------------------------------------------------- */
struct vgsim_nodes { /* a set, in order */
    CUgraphNode *at;
    size_t count, room;
};
struct CUstream_st {
    struct vgsim_object object;
    unsigned int flags;
    int priority;
    uint64_t id;
    struct vgsim_line line;
    struct vgsim_capture *capture; /* NULL: it does not capture */
    struct vgsim_nodes last;       /* what its next node comes after */
    struct CUstream_st *next;      /* in its capture */
};
CUresult vgsim_stream_known(CUstream stream); /* a stream, or one of the three numbers */
CUresult vgsim_stream_new(CUstream *out, unsigned int flags, int priority,
                          struct CUctx_st *context);
CUresult vgsim_stream_check(CUstream stream); /* ... that takes work now */
/* Work was given to the stream: true when it captures, so that the work is a node now, and not to
 * be done. */
bool vgsim_stream_takes(CUstream stream, CUgraphNodeType type);
struct vgsim_line *vgsim_stream_line(CUstream stream);
struct CUctx_st *vgsim_stream_context(CUstream stream);
void vgsim_stream_forget(struct CUstream_st *stream);

CUresult vgsim_capture_forbids(void);
CUresult vgsim_capture_implicit(void);                       /* is the legacy stream usable? */
CUresult vgsim_capture_over(const struct CUctx_st *context); /* may the context be waited for? */
bool vgsim_capture_is_active(const struct CUstream_st *stream);
void vgsim_capture_invalidate(struct CUstream_st *stream);
CUgraphNode vgsim_capture_node(CUstream stream, CUgraphNodeType type);
CUresult vgsim_capture_alloc(CUstream stream, const CUmemPoolProps *props, size_t bytes,
                             CUdeviceptr *out);
CUresult vgsim_capture_free(CUstream stream, CUdeviceptr address);
void vgsim_capture_forget(struct CUstream_st *stream);
uint64_t vgsim_capture_id(const struct CUstream_st *stream);
CUresult vgsim_capture_join(CUstream stream, uint64_t id, const struct vgsim_nodes *after);
bool vgsim_capture_any(void);
void vgsim_capture_audit(const char *api); /* VGSIM_STRICT_CAPTURE; takes no lock */

/* --- event.c ---------------------------------------------------------------------------------- */
void vgsim_event_forget(CUevent event);

/* --- graph.c, graph_add.c: graphs and their nodes --------------------------------------------- */
struct CUgraphNode_st {
    struct vgsim_object object;
    struct CUgraph_st *graph;
    CUgraphNodeType type;
    size_t index; /* in its graph; a node comes after the nodes it depends on */
    struct vgsim_nodes after;
    struct vgsim_graph_memory *memory; /* of an allocation or a free */
    CUmemPoolProps props;              /* of an allocation */
    bool marked;
};
struct CUgraph_st {
    struct vgsim_object object;
    CUdevice device; /* in whose books it is */
    uint64_t id;
    struct vgsim_nodes nodes;
    unsigned int execs, captures;
    bool has_memory;
};
void vgsim_nodes_add(struct vgsim_nodes *set, CUgraphNode node);
void vgsim_nodes_clear(struct vgsim_nodes *set);
bool vgsim_nodes_have(const struct vgsim_nodes *set, CUgraphNode node);
void vgsim_graph_mark(CUgraph graph,
                      const struct vgsim_nodes *from); /* these, and all before them */
CUgraph vgsim_graph_new(void);
void vgsim_graph_end(CUgraph graph);
CUgraphNode vgsim_graph_node(CUgraph graph, CUgraphNodeType type, const CUgraphNode *after,
                             size_t count);
CUresult vgsim_graph_after(CUgraph graph, const CUgraphNode *after, size_t count);
CUresult vgsim_graph_alloc_node(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                                size_t count, const CUmemPoolProps *props, size_t bytes,
                                CUdeviceptr *address_out);
CUresult vgsim_graph_free_node(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                               size_t count, CUdeviceptr address);

/* --- graph_memory.c: what the allocations of graphs take -------------------------------------- */
struct vgsim_graph_memory {
    struct vgsim_block
        *block; /* its addresses: there while a graph or an executable graph has it, or it lives */
    unsigned int references;
    uint64_t owner;      /* id of the graph whose node makes it */
    uint64_t freed_by;   /* id of another graph that has a node to free it, or 0 */
    bool freed_by_owner; /* then nobody else may */
    bool live;
    struct vgsim_graph_memory *next;
};
struct vgsim_graph_memory *vgsim_graph_memory_new(CUdevice device, size_t bytes, uint64_t owner);
struct vgsim_graph_memory *vgsim_graph_memory_at(CUdeviceptr address);
void vgsim_graph_memory_drop(struct vgsim_graph_memory *memory);
void vgsim_graph_memory_start(struct vgsim_graph_memory *memory, struct CUctx_st *context);
void vgsim_graph_memory_stop(struct vgsim_graph_memory *memory);
CUresult vgsim_graph_memory_free(CUdeviceptr address); /* cuMemFree and cuMemFreeAsync of one */
void vgsim_graph_memory_end(struct CUctx_st *context);
bool vgsim_graph_pool_fit(CUdevice device); /* false: the device has not that much */
void vgsim_graph_pool_changed(CUdevice device);
void vgsim_graph_pool_end(CUdevice device);

/* --- graph_exec.c ----------------------------------------------------------------------------- */
uint64_t
vgsim_graph_exec_shared(CUdevice device); /* what the biggest needs besides live allocations */
void vgsim_graph_exec_unmap(CUdevice device, bool also_pending);

/* --- module.c --------------------------------------------------------------------------------- */
void vgsim_module_forget(struct CUmod_st *module); /* its functions go with it */

/* --- pool.c ----------------------------------------------------------------------------------- */
void vgsim_pool_free(struct vgsim_block *block);      /* back to its pool, idle */
void vgsim_pools_done(uint64_t line, uint64_t until); /* frees of a stream, up to the ticket */
void vgsim_pools_done_context(const struct CUctx_st *context);
void vgsim_pools_sync(CUdevice device); /* idle pages above the threshold go back */
void vgsim_pools_reset(CUdevice device);

/* --- vmm.c ------------------------------------------------------------------------------------ */
struct vgsim_vmm_handle {
    struct vgsim_object object;
    CUmemAllocationProp prop;
    size_t size;
    int fd;
    bool own_file;
    off_t offset;
    uint64_t inode;  /* of a file of its own */
    CUdevice device; /* where its pages are, or it is counted */
    bool host;       /* memory of the host */
    bool imported;   /* the bytes are another handle's */
    bool multicast;
    unsigned int devices_wanted; /* of a multicast object */
    uint32_t devices;            /* that have joined it */
    struct vgsim_vmm_handle
        *origin; /* that one, when it is this process's; counts us as a mapping */
    unsigned int references, mappings;
    struct vgsim_vmm_handle *previous, *next;
};
struct vgsim_vmm_handle *vgsim_vmm_find(CUmemGenericAllocationHandle number);
struct vgsim_vmm_handle *vgsim_vmm_new(const struct vgsim_vmm_handle *values); /* and its file */
/* a mapping, or a multicast's hold, less */
void vgsim_vmm_unmapped(struct vgsim_vmm_handle *handle);

/* --- multicast.c ------------------------------------------------------------------------------ */
bool vgsim_multicast_is_complete(const struct vgsim_vmm_handle *multicast);
void vgsim_multicast_forget(struct vgsim_vmm_handle *multicast); /* and what it binds */

/* --- peer.c ----------------------------------------------------------------------------------- */
bool vgsim_is_peer(CUdevice device, CUdevice other); /* each can use the other's memory */

/* --- event.c ---------------------------------------------------------------------------------- */
unsigned int vgsim_event_flags(CUevent event);
CUresult vgsim_event_new(CUevent *out, unsigned int flags);

/* --- ipc.c ------------------------------------------------------------------------------------ */
void vgsim_ipc_forget(struct vgsim_ipc_file *file, CUdevice device, size_t bytes); /* it is freed */
void vgsim_ipc_unmap(struct vgsim_block *block); /* an opened one, whatever its count */

/* --- external.c ------------------------------------------------------------------------------- */
void vgsim_external_forget(struct CUextMemory_st *memory);

/* --- streams.def: exports with a second form for the per-thread default stream ---------------- */
#define PER_THREAD(symbol, suffix, parameters, arguments)                                          \
    VGSIM_API CUresult symbol##suffix parameters;
#include "tests/sim/driver/streams.def"
#undef PER_THREAD

/* The primary context, made at the first call; later calls (until it is reset) add no reference.
 * NVIDIA's runtime gets it through a private table, ours through this export. */
VGSIM_API CUresult vgsim_primary_context(CUcontext *context_out, CUdevice device);
/* What NVML shows of this process: a copy of a device's books; false: no such device, or not
 * initialised. */
VGSIM_API bool vgsim_device_books(int device, struct vgsim_device_books *books_out);

#endif
