/* context.c -- contexts: what they cost, which one a thread has, and what goes with them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Holds:      the structures of dead contexts are kept and used again: a stale pointer can be told
 *             from a live one by its id, and a new context may have an old one's address.
 */
#include "tests/sim/driver/sim.h"

#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 64

struct current {
    struct CUctx_st *context;
    uint64_t id;
};

static _Thread_local struct {
    struct current stack[MAX_DEPTH];
    int depth;
} thread;

static struct {
    struct CUctx_st *all; /* the dead ones too */
    uint64_t last_id;
} state;

static struct current *top(void)
{
    return thread.depth ? &thread.stack[thread.depth - 1] : NULL;
}

struct CUctx_st *vgsim_current(void)
{
    struct current *current = top();
    if (!current || !current->context || !current->context->live ||
        current->context->id != current->id)
        return NULL;
    struct CUctx_st *primary = current->context->primary;
    return !primary ? current->context : primary->live ? primary : NULL;
}

struct CUctx_st *vgsim_current_itself(void)
{
    return vgsim_current() ? top()->context : NULL;
}

CUresult vgsim_current_state(void)
{
    struct current *current = top();
    if (!current || !current->context)
        return CUDA_ERROR_INVALID_CONTEXT;
    return vgsim_current() ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

bool vgsim_is_context(const struct CUctx_st *context)
{
    for (const struct CUctx_st *at = state.all; at; at = at->next)
        if (at == context)
            return at->live;
    return false;
}

/* --- life ------------------------------------------------------------------------------------- */

static CUresult pay(CUdevice device, uint64_t cost)
{
    struct vgsim_device_books *books = &vgsim_device_changed(device)->books;
    if (!vgsim_has_room(device, cost))
        return vgsim_refused(device);
    vgsim_books_object(device, VGSIM_COUNTED_contexts, 1);
    books->context_bytes += cost;
    if (books->context_bytes + books->page_bytes > books->peak_bytes)
        books->peak_bytes = books->context_bytes + books->page_bytes;
    return CUDA_SUCCESS;
}

static void set_up(struct CUctx_st *context, CUdevice device, unsigned int flags)
{
    struct CUctx_st *next = context->next;
    memset(context, 0, sizeof *context);
    context->next = next;
    context->live = true;
    context->id = ++state.last_id;
    context->device = device;
    context->cost = vgsim_knobs()->context;
    context->usage = 1;
    context->flags = flags;
    vgsim_line_open(&context->line, context, true, false);
    context->limits[CU_LIMIT_STACK_SIZE] = 1024;
    context->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = (size_t)7 << 20;
    context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = (size_t)8 << 20;
    context->limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
    context->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
    context->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
}

static struct CUctx_st *find_dead(void)
{
    for (struct CUctx_st *at = state.all; at; at = at->next)
        if (!at->live && !at->is_primary)
            return at;
    struct CUctx_st *context = calloc(1, sizeof *context);
    if (context) {
        context->next = state.all;
        state.all = context;
    }
    return context;
}

static void tear_down(struct CUctx_st *context)
{
    vgsim_work_done_context(context);
    vgsim_graph_memory_end(context);
    vgsim_line_close(&context->line);
    while (context->objects) {
        struct vgsim_object *object = context->objects;
        if (object->type == STREAM)
            vgsim_stream_forget((struct CUstream_st *)object);
        if (object->type == EVENT)
            vgsim_event_forget((CUevent)object);
        if (object->type == EXTERNAL)
            vgsim_external_forget((CUexternalMemory)object);
        if (object->type == MODULE)
            vgsim_module_forget((struct CUmod_st *)object);
        vgsim_object_remove(object);
    }
    while (context->blocks)
        vgsim_memory_release(context->blocks);
    vgsim_books_object(context->device, VGSIM_COUNTED_contexts, -1);
    vgsim_device_changed(context->device)->books.context_bytes -= context->cost;
    context->live = false;
}

static void push(struct CUctx_st *context)
{
    thread.stack[thread.depth++] = (struct current){context, context ? context->id : 0};
}

static CUresult create(CUcontext *out, unsigned int flags, CUdevice device, unsigned int version)
{
    if (!out || flags & ~(unsigned int)CU_CTX_FLAGS_MASK)
        return CUDA_ERROR_INVALID_VALUE;
    if (!vgsim_is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (thread.depth == MAX_DEPTH)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult paid = pay(device, vgsim_knobs()->context);
    if (paid != CUDA_SUCCESS)
        return paid;
    struct CUctx_st *context = find_dead();
    if (!context)
        return CUDA_ERROR_OUT_OF_MEMORY;
    set_up(context, device, flags);
    context->api_version = version;
    push(context);
    *out = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    CALL(INIT, create(pctx, flags, dev, 3020));
}

static CUresult create_affine(CUcontext *out, const CUexecAffinityParam *params, int count,
                              unsigned int flags, CUdevice device)
{
    if (count != 0 || params)
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return create(out, flags, device, 3020);
}

CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *params, int numParams,
                        unsigned int flags, CUdevice dev)
{
    CALL(INIT, create_affine(pctx, params, numParams, flags, dev));
}

static CUresult create_with(CUcontext *out, const CUctxCreateParams *params, unsigned int flags,
                            CUdevice device)
{
    if (params && params->cigParams)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (params)
        return create_affine(out, params->execAffinityParams, params->numExecAffinityParams, flags,
                             device);
    return create(out, flags, device, 3020);
}

CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *params, unsigned int flags,
                        CUdevice dev)
{
    CALL(INIT, create_with(pctx, params, flags, dev));
}

static CUresult destroy(struct CUctx_st *context)
{
    if (!context)
        return CUDA_ERROR_INVALID_VALUE;
    if (!vgsim_is_context(context) || context->is_primary || context->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (top() && top()->context == context)
        thread.depth--;
    tear_down(context);
    return CUDA_SUCCESS;
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
    CALL(INIT, destroy(ctx));
}

CUresult cuCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    CALL(INIT, create(pctx, flags, dev, 2000));
}

CUresult cuCtxDestroy(CUcontext ctx)
{
    CALL(INIT, destroy(ctx));
}

/* Driver API, Context Management [DEPRECATED]: one more user of the current context, and one less;
 * the last one that detaches ends it. */
static CUresult attach(CUcontext *out, unsigned int flags)
{
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    vgsim_current()->usage++;
    *out = vgsim_current();
    return CUDA_SUCCESS;
}

CUresult cuCtxAttach(CUcontext *pctx, unsigned int flags)
{
    CALL(CONTEXT, attach(pctx, flags));
}

static CUresult detach(CUcontext context)
{
    if (!context || context != vgsim_current() || context->is_primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    return --context->usage ? CUDA_SUCCESS : destroy(context);
}

CUresult cuCtxDetach(CUcontext ctx)
{
    CALL(CONTEXT, detach(ctx));
}

/* --- the primary context ---------------------------------------------------------------------- */

static CUresult retain_primary(CUcontext *out, CUdevice number)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!vgsim_is_device(number))
        return CUDA_ERROR_INVALID_DEVICE;
    struct vgsim_device *device = vgsim_device_changed(number);
    if (!device->primary) {
        device->primary = calloc(1, sizeof *device->primary);
        if (!device->primary)
            return CUDA_ERROR_OUT_OF_MEMORY;
        device->primary->next = state.all;
        state.all = device->primary;
        device->primary->is_primary = true;
    }
    if (!device->primary->live) {
        CUresult paid = pay(number, vgsim_knobs()->context);
        if (paid != CUDA_SUCCESS)
            return paid;
        set_up(device->primary, number, device->primary_flags);
        device->primary->is_primary = true;
        device->primary->api_version = 3020;
    }
    device->primary_references++;
    *out = device->primary;
    return CUDA_SUCCESS;
}

static void end_primary(CUdevice number)
{
    struct vgsim_device *device = vgsim_device_changed(number);
    vgsim_work_done_context(device->primary);
    vgsim_pools_reset(number);
    tear_down(device->primary);
    vgsim_graph_pool_end(number);
    device->primary_references = 0;
    device->runtime_holds = false;
}

static CUresult release_primary(CUdevice number)
{
    if (!vgsim_is_device(number))
        return CUDA_ERROR_INVALID_DEVICE;
    struct vgsim_device *device = vgsim_device_changed(number);
    if (device->primary_references == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--device->primary_references == 0)
        end_primary(number);
    return CUDA_SUCCESS;
}

/* The green context's own part; memory and objects are the primary context's. */
CUresult vgsim_green_open(struct CUgreenCtx_st *green, CUdevice device, CUcontext *out)
{
    CUcontext primary;
    CUresult result = retain_primary(&primary, device);
    if (result != CUDA_SUCCESS)
        return result;
    uint64_t cost = vgsim_knobs()->context / 10;
    struct CUctx_st *context = find_dead();
    result = context ? pay(device, cost) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS) {
        release_primary(device);
        return result;
    }
    set_up(context, device, primary->flags);
    context->api_version = primary->api_version;
    context->cost = cost;
    context->green = green;
    context->primary = primary;
    *out = context;
    return CUDA_SUCCESS;
}

void vgsim_green_close(struct CUctx_st *context)
{
    tear_down(context);
    release_primary(context->device);
}

static CUresult reset_primary(CUdevice number)
{
    if (!vgsim_is_device(number))
        return CUDA_ERROR_INVALID_DEVICE;
    struct vgsim_device *device = vgsim_device_changed(number);
    if (device->primary && device->primary->live)
        end_primary(number);
    return CUDA_SUCCESS;
}

static CUresult primary_flags(CUdevice number, unsigned int flags)
{
    if (!vgsim_is_device(number))
        return CUDA_ERROR_INVALID_DEVICE;
    if (flags & ~(unsigned int)CU_CTX_FLAGS_MASK)
        return CUDA_ERROR_INVALID_VALUE;
    struct vgsim_device *device = vgsim_device_changed(number);
    device->primary_flags = flags;
    if (device->primary && device->primary->live)
        device->primary->flags = flags;
    return CUDA_SUCCESS;
}

static CUresult primary_state(CUdevice number, unsigned int *flags_out, int *active_out)
{
    if (!vgsim_is_device(number))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!flags_out || !active_out)
        return CUDA_ERROR_INVALID_VALUE;
    struct vgsim_device *device = vgsim_device_changed(number);
    *flags_out = device->primary_flags;
    *active_out = device->primary && device->primary->live;
    return CUDA_SUCCESS;
}

static CUresult runtime_primary(CUcontext *out, CUdevice number)
{
    if (!vgsim_is_device(number))
        return CUDA_ERROR_INVALID_DEVICE;
    struct vgsim_device *device = vgsim_device_changed(number);
    if (out && device->runtime_holds && device->primary->live) {
        *out = device->primary;
        return CUDA_SUCCESS;
    }
    CUresult result = retain_primary(out, number);
    device->runtime_holds = result == CUDA_SUCCESS;
    return result;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
    CALL(INIT, retain_primary(pctx, dev));
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev)
{
    CALL(INIT, release_primary(dev));
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    CALL(INIT, release_primary(dev));
}

CUresult cuDevicePrimaryCtxReset(CUdevice dev)
{
    CALL(INIT, reset_primary(dev));
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    CALL(INIT, reset_primary(dev));
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags)
{
    CALL(INIT, primary_flags(dev, flags));
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
    CALL(INIT, primary_flags(dev, flags));
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
    CALL(INIT, primary_state(dev, flags, active));
}

CUresult vgsim_primary_context(CUcontext *context_out, CUdevice device)
{
    CALL(INIT, runtime_primary(context_out, device));
}

/* --- which one a thread has ------------------------------------------------------------------- */

static CUresult push_current(struct CUctx_st *context)
{
    if (!vgsim_is_context(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (thread.depth == MAX_DEPTH)
        return CUDA_ERROR_OUT_OF_MEMORY;
    push(context);
    return CUDA_SUCCESS;
}

static CUresult pop_current(CUcontext *out)
{
    if (!top() || !top()->context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (out)
        *out = top()->context;
    thread.depth--;
    return CUDA_SUCCESS;
}

static CUresult set_current(struct CUctx_st *context)
{
    if (context && !vgsim_is_context(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (thread.depth)
        thread.depth--;
    if (context)
        push(context);
    return CUDA_SUCCESS;
}

static CUresult get_current(CUcontext *out)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = top() ? top()->context : NULL;
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
    CALL(INIT, push_current(ctx));
}

CUresult cuCtxPopCurrent_v2(CUcontext *pctx)
{
    CALL(INIT, pop_current(pctx));
}

CUresult cuCtxPushCurrent(CUcontext ctx)
{
    CALL(INIT, push_current(ctx));
}

CUresult cuCtxPopCurrent(CUcontext *pctx)
{
    CALL(INIT, pop_current(pctx));
}

CUresult cuCtxSetCurrent(CUcontext ctx)
{
    CALL(INIT, set_current(ctx));
}

CUresult cuCtxGetCurrent(CUcontext *pctx)
{
    CALL(INIT, get_current(pctx));
}
