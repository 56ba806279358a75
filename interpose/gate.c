/* gate.c -- enter and leave: lifecycle, depth, and the way of an event into the ledger.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:   wrapper -> gate -> origin (outside the lock) -> ledger (inside it) -> sample, incident.
 * Holds:   a thread is inside at most one watched call; whatever the driver or the guard itself
 *          calls meanwhile passes through. A release leaves the ledger before the real call,
 *          because the address may be handed out again before that returns. errno is the program's.
 */
#include "interpose/gate.h"

#include <errno.h>
#include <string.h>

#include "interpose/arrays.h"
#include "interpose/captures.h"
#include "interpose/cuda_abi.h"
#include "interpose/driver.h"
#include "interpose/graphs.h"
#include "interpose/greens.h"
#include "interpose/hooks.h"
#include "interpose/incident.h"
#include "interpose/lifecycle.h"
#include "interpose/modules.h"
#include "interpose/origin.h"
#include "interpose/quiet.h"
#include "interpose/sample.h"
#include "interpose/thread.h"

static bool is_about_a_context(uint8_t op)
{
    return op == VG_OP_CTX_CREATE || op == VG_OP_CTX_DESTROY || op == VG_OP_CTX_RESET;
}

/* A stream-ordered call inside a capture makes a node of a graph; memory changes when that is
 * launched. */
static uint64_t capture_of(struct vg_guard *guard, const struct vg_event *e)
{
    bool is_ordered = e->kind == VG_KIND_POOL || (e->op == VG_OP_FREE && e->kind == VG_KIND_NONE);
    return is_ordered && vg_captures_any() && e->has_stream ? vg_captures_of(guard, e->stream) : 0;
}

/* The name of what the program called, as a string of the record. With the lock held. */
static uint32_t api_name(struct vg_guard *guard, const struct vg_event *e)
{
    static uint32_t known[VG_HOOK_COUNT];
    uint16_t hook = vg_thread.via ? vg_thread.via : e->hook;
    if (!known[hook])
        known[hook] = vg_strings_intern_z(&guard->ledger.stacks, vg_hooks_name(hook));
    return known[hook];
}

/* Who frees: the innermost frames say it. Objects are no memory, and nobody asks. */
enum { FREE_DEPTH = 8 };
static bool is_memory(const struct vg_event *e)
{
    return e->kind == VG_KIND_NONE || vg_kind_layer((enum vg_kind)e->kind) == VG_LAYER_DRIVER;
}

static void take_release(struct vg_guard *guard, struct vg_event *e)
{
    struct vg_origin origin;
    uint32_t families;
    vg_origin_none(&origin);
    if (!e->addr || capture_of(guard, e))
        return;
    int cancel = vg_thread_hold(); /* libunwind's checks are cancellation points */
    if (is_memory(e))
        vg_origin_capture_some(&guard->options, FREE_DEPTH, &origin);
    if (vg_guard_lock(guard)) {
        e->time_ns = vg_guard_now(guard);
        e->stack = vg_origin_intern(&guard->ledger, &guard->options, &origin, &families);
        e->api = api_name(guard, e);
        vg_ledger_apply(&guard->ledger, e);
        vg_guard_unlock(guard);
    }
    vg_thread_release(cancel);
}

/* A free that the driver refused: back into the ledger where it was taken out, and counted where it
 * was called. Statuses that only say that the driver is not there (any more) are none: at the end
 * of a process they are normal. */
static void put_back(struct vg_guard *guard, struct vg_event *e)
{
    struct vg_origin origin;
    uint32_t families;
    bool is_fault = e->addr && is_memory(e) && !vg_incident_is_no_fault(e->error);
    vg_origin_none(&origin);
    if (!is_fault && e->saved.kind == VG_KIND_NONE)
        return;
    int cancel = vg_thread_hold();
    if (is_fault)
        vg_origin_capture(&guard->options, &origin);
    if (vg_guard_lock(guard)) {
        if (is_fault) {
            vg_record_begin(&guard->record, vg_intent(0, VG_OP_NONE));
            e->stack = vg_origin_intern(&guard->ledger, &guard->options, &origin, &families);
            e->api = api_name(guard, e);
            vg_ledger_fault(&guard->ledger, e);
            vg_record_end(&guard->record);
        }
        e->op = VG_OP_RESTORE;
        if (e->saved.kind != VG_KIND_NONE)
            vg_ledger_apply(&guard->ledger, e);
        vg_guard_unlock(guard);
    }
    vg_thread_release(cancel);
}

/* A call from a signal handler that interrupted the guard itself: let through, and counted as not
 * seen. */
static void drop(void)
{
    struct vg_guard *guard = vg_lifecycle_guard(false);
    if (guard)
        __atomic_fetch_add(&guard->record.header->dropped_count, 1, __ATOMIC_RELAXED);
}

/* Free memory before a context is made, where a context on that device is current: its fall is what
 * the new one costs. */
static uint64_t free_before(int32_t device)
{
    struct vg_driver_context context;
    uint64_t free_bytes, total_bytes;
    if (vg_captures_any())
        return VG_UNKNOWN;
    vg_driver_current(&context);
    return context.device == device && vg_driver_mem_info(&free_bytes, &total_bytes) ? free_bytes
                                                                                     : VG_UNKNOWN;
}

/* What a creation cost: the fall of free memory across it; unknown where either side is. */
static uint64_t free_fall(uint64_t before, int32_t device)
{
    uint64_t after = before == VG_UNKNOWN ? VG_UNKNOWN : free_before(device);
    return after == VG_UNKNOWN || after > before ? VG_UNKNOWN : before - after;
}

_Atomic uint64_t vg_quiet_word = UINT64_C(1) << VG_QUIET_BITS;

/* The ledger knows what became of this thread's call. */
static void landed(void)
{
    if (vg_thread.moving)
        vg_quiet_end();
    vg_thread.moving = false;
}

bool vg_gate_enter(struct vg_event *e)
{
    struct vg_thread *thread = &vg_thread;
    thread->driver_events++;
    if (thread->depth) {
        if (!thread->calling)
            drop();
        return false;
    }
    int saved_errno = errno;
    struct vg_guard *guard = vg_lifecycle_guard(vg_op_starts((enum vg_op)e->op));
    if (guard) {
        thread->depth = 1;
        thread->moving = true;
        vg_quiet_begin();
        e->thread = vg_thread_id();
        if (!is_about_a_context(e->op) && !e->device_given)
            e->device = -1;
        if (e->op == VG_OP_FREE)
            take_release(guard, e);
        else if (e->op == VG_OP_CTX_DESTROY && e->handle)
            e->context_id = vg_driver_context_id(e->handle); /* gone once it is destroyed */
        else if (e->op == VG_OP_CTX_CREATE)
            e->bytes = e->primary ? VG_UNKNOWN : free_before(e->device);
    }
    thread->calling = guard != NULL;
    errno = saved_errno;
    return guard != NULL;
}

/* The context that an allocation is made in, put into the record where it is new. With the lock
 * held. */
static void note_context(struct vg_guard *guard, const struct vg_event *e)
{
    if (e->op != VG_OP_ALLOC || !e->context_id || vg_ledger_context(&guard->ledger, e->context_id))
        return;
    /* Not made through a hook of ours: the runtime's own way to the primary context. */
    struct vg_event found = *e;
    found.op = VG_OP_CTX_CREATE;
    found.bytes = VG_UNKNOWN;
    found.primary = !vg_ledger_primary(&guard->ledger, e->device);
    vg_ledger_apply(&guard->ledger, &found);
}

static bool device_is_new(struct vg_guard *guard, int32_t ordinal)
{
    uint32_t index = ordinal < 0 ? 0 : vg_ledger_device(&guard->ledger, ordinal);
    const struct vg_device *device =
        index ? vg_record_at(&guard->record, VG_SEC_DEVICES, index - 1) : NULL;
    return device && !device->described;
}

/* The interpreter may have come after the record. With the lock held. */
static void note_python(struct vg_guard *guard)
{
    struct vg_header *header = guard->record.header;
    if (!header->python && vg_python_version())
        header->python = vg_strings_intern_z(&guard->ledger.stacks, vg_python_version());
}

static void tell_stuck(const struct vg_guard *guard)
{
    vg_guard_log(guard, VG_LOG_WARN,
                 "the record cannot grow (%s): what does not fit is counted, not listed",
                 strerror(guard->record.stuck_error));
}

/* What only the driver knows. */
static void ask_size(struct vg_event *e)
{
    if (e->kind == VG_KIND_MEMPOOL || e->kind == VG_KIND_POOL || e->kind == VG_KIND_GRAPH)
        vg_sample_pools_in_use();
    if (e->kind == VG_KIND_IPC && !vg_captures_any())
        e->bytes = vg_driver_range_bytes(e->addr);
    vg_arrays_ask(e);
}

/* An acquisition that the driver granted. */
static void publish(struct vg_guard *guard, struct vg_event *e)
{
    struct vg_origin origin;
    struct vg_driver_context context;
    uint32_t families;
    if (is_about_a_context(e->op)) {
        e->context_id = vg_driver_context_id(e->handle);
        if (e->addr)
            vg_greens_converted(guard, e);
        e->bytes = free_fall(e->bytes, e->device);
    } else {
        vg_driver_current(&context);
        e->context_id = context.id;
        if (e->op != VG_OP_MAP)
            e->handle = context.handle;
        if (!e->device_given)
            e->device = context.device;
    }
    ask_size(e);
    uint64_t capture = capture_of(guard, e);
    e->flags |= vg_captures_any() ? VG_SLOT_CAPTURED : 0u;
    vg_origin_capture(&guard->options, &origin);
    if (!vg_guard_lock(guard))
        return;
    e->time_ns = vg_guard_now(guard);
    if (!is_about_a_context(e->op))
        e->context_id = vg_greens_owner(guard, e);
    e->stack = vg_origin_intern(&guard->ledger, &guard->options, &origin, &families);
    e->api = api_name(guard, e);
    note_context(guard, e);
    if (capture)
        vg_graphs_capture_alloc(guard, capture, e);
    else
        vg_ledger_apply(&guard->ledger, e);
    vg_arrays_remember(e);
    note_python(guard);
    guard->record.header->reached |= VG_REACHED_DRIVER | (vg_thread.via ? VG_REACHED_RUNTIME : 0u);
    bool is_new = device_is_new(guard, e->device) && !vg_captures_any();
    bool tells = guard->record.stuck && !guard->told_stuck;
    guard->told_stuck |= tells;
    vg_guard_unlock(guard);
    if (tells)
        tell_stuck(guard);
    if (is_new)
        vg_sample_describe(guard, e->device);
    vg_incident_succeeded(guard, e);
}

/* After a release: while a stream captures only the ids of contexts may be asked for. */
static bool primary_lives(struct vg_guard *guard, int32_t device)
{
    uint64_t id = 0, handle = 0;
    if (!vg_captures_any())
        return vg_driver_primary_is_active(device);
    if (vg_guard_lock(guard)) {
        id = vg_ledger_primary(&guard->ledger, device);
        uint32_t index = vg_ledger_context(&guard->ledger, id);
        const struct vg_context *context =
            index ? vg_record_at(&guard->record, VG_SEC_CONTEXTS, index - 1) : NULL;
        handle = context ? context->handle : 0;
        vg_guard_unlock(guard);
    }
    return !handle || vg_driver_context_id(handle) == id;
}

/* With the lock held. */
static void end_in_ledger(struct vg_guard *guard, const struct vg_event *e, uint64_t context_id)
{
    struct vg_event end = *e;
    end.context_id = context_id;
    end.api = api_name(guard, e);
    end.time_ns = vg_guard_now(guard);
    vg_ledger_apply(&guard->ledger, &end);
}

/* The primary context of a device ended, and its green ones, which have nothing without it. */
static void end_primary(struct vg_guard *guard, const struct vg_event *e)
{
    uint64_t green;
    if (!vg_guard_lock(guard))
        return;
    uint64_t id = vg_ledger_primary(&guard->ledger, e->device);
    end_in_ledger(guard, e, id);
    for (unsigned n = 0; (green = vg_greens_of(e->device, n)) != 0; n++)
        end_in_ledger(guard, e, green);
    vg_guard_unlock(guard);
    vg_captures_context_gone(guard, id);
}

/* What was made in it before the primary context was known stays with it while that lives. */
static void end_green(struct vg_guard *guard, struct vg_event *e)
{
    if (!vg_greens_gone(guard, e))
        return;
    bool ends = !primary_lives(guard, e->device);
    if (!vg_guard_lock(guard))
        return;
    uint32_t index = vg_ledger_context(&guard->ledger, e->context_id);
    const struct vg_context *context =
        index ? vg_record_at(&guard->record, VG_SEC_CONTEXTS, index - 1) : NULL;
    if (context && (ends || !context->live_count))
        end_in_ledger(guard, e, e->context_id);
    vg_guard_unlock(guard);
    if (ends)
        end_primary(guard, e);
}

/* A context ended, with all that was in it. */
static void end_context(struct vg_guard *guard, struct vg_event *e)
{
    if (e->addr) {
        end_green(guard, e);
    } else if (!e->primary) {
        if (!vg_guard_lock(guard))
            return;
        end_in_ledger(guard, e, e->context_id);
        vg_guard_unlock(guard);
        vg_captures_context_gone(guard, e->context_id);
    } else if (e->op == VG_OP_CTX_RESET || !primary_lives(guard, e->device)) {
        end_primary(guard, e); /* else one reference less */
    }
}

/* A change that needs no stack: a handle more, a mapping less. */
static void apply_plain(struct vg_guard *guard, struct vg_event *e)
{
    if (!vg_guard_lock(guard))
        return;
    e->time_ns = vg_guard_now(guard);
    vg_ledger_apply(&guard->ledger, e);
    vg_guard_unlock(guard);
}

/* A release that the driver granted: what else ends with it. */
static void settle_release(struct vg_guard *guard, const struct vg_event *e)
{
    uint64_t capture = capture_of(guard, e);
    if (e->kind == VG_KIND_STREAM)
        vg_captures_stream_gone(guard, e->addr);
    else if (e->kind == VG_KIND_EVENT)
        vg_captures_event_gone(guard, e->addr);
    if (capture && vg_guard_lock(guard)) {
        vg_graphs_capture_free(guard, capture, e->addr);
        vg_guard_unlock(guard);
    }
}

static bool needs_stack(uint8_t op)
{
    return op == VG_OP_ALLOC || op == VG_OP_MAP || op == VG_OP_CTX_CREATE;
}

/* What the driver said, after the call. */
static void take_result(struct vg_guard *guard, struct vg_event *e, int status)
{
    e->error = status;
    if (status == 0) {
        if (needs_stack(e->op))
            publish(guard, e);
        else if (e->op == VG_OP_CTX_DESTROY || e->op == VG_OP_CTX_RESET)
            end_context(guard, e);
        else if (e->op == VG_OP_RETAIN || e->op == VG_OP_UNMAP)
            apply_plain(guard, e);
        else if (e->op == VG_OP_FREE)
            settle_release(guard, e);
        landed();
        if (e->op != VG_OP_CTX_DESTROY && e->op != VG_OP_CTX_RESET)
            vg_sample_due(guard, true);
    } else if (e->op == VG_OP_FREE) {
        put_back(guard, e);
    } else if (e->op == VG_OP_ALLOC || e->op == VG_OP_CTX_CREATE) {
        landed();
        vg_incident_refused(guard, e, status);
    }
}

void vg_gate_leave(struct vg_event *e, int status)
{
    vg_thread.refusals += status != 0;
    int saved_errno = errno;
    vg_thread.calling = false;
    struct vg_guard *guard = vg_lifecycle_guard(false);
    if (guard) {
        bool unwinds = needs_stack(e->op);
        int cancel =
            unwinds ? vg_thread_hold() : 0; /* libunwind's checks are cancellation points */
        take_result(guard, e, status);
        vg_arrays_settle(guard);
        if (unwinds)
            vg_thread_release(cancel);
    }
    landed();
    vg_thread.depth = 0;
    errno = saved_errno;
}

/* --- the runtime above the driver ------------------------------------------------------------- */

void vg_gate_runtime_enter(struct vg_runtime_call *call, const struct vg_event *e)
{
    call->driver_events = vg_thread.driver_events;
    call->refusals = vg_thread.refusals;
    call->outer = vg_thread.via;
    if (!call->outer)
        vg_thread.via = e->hook;
}

static bool was_listed(struct vg_guard *guard, uint64_t addr)
{
    bool listed = false;
    if (vg_guard_lock(guard)) {
        listed = vg_ledger_find(&guard->ledger, VG_SPACE_ADDRESS, addr) != NULL;
        vg_guard_unlock(guard);
    }
    return listed;
}

/* The call worked and no driver call was seen in it: a runtime that reached the driver past us. Its
 * word has to do. */
static void fall_back(struct vg_event *e)
{
    struct vg_own own;
    struct vg_guard *guard = vg_thread.depth ? NULL : vg_lifecycle_guard(e->op == VG_OP_ALLOC);
    if (!guard || !e->addr || !vg_own_enter(&own))
        return;
    e->thread = vg_thread_id();
    e->device = -1;
    if (e->op == VG_OP_ALLOC) {
        publish(guard, e);
        __atomic_fetch_add(&guard->record.header->fallback_count, 1, __ATOMIC_RELAXED);
    } else if (was_listed(guard, e->addr)) {
        take_release(guard, e);
        __atomic_fetch_add(&guard->record.header->fallback_count, 1, __ATOMIC_RELAXED);
    }
    vg_own_leave(&own);
}

/* The runtime makes the primary context by a way of its own that no hook sees. Where it is refused
 * the memory for it, this is the only call that says so: the commonest failure of all on a device
 * that others have filled. */
static void refused_unseen(struct vg_event *e, int status)
{
    struct vg_own own;
    struct vg_guard *guard = vg_thread.depth ? NULL : vg_lifecycle_guard(true);
    if (!guard || !vg_own_enter(&own))
        return;
    struct vg_driver_context context;
    vg_driver_current(&context);
    if (!context.handle) {
        e->op = VG_OP_CTX_CREATE;
        e->kind = VG_KIND_NONE;
        e->bytes = VG_UNKNOWN;
        if (!e->device_given)
            e->device = vg_driver_only_device();
    }
    e->thread = vg_thread_id();
    e->error = status;
    vg_incident_refused(guard, e, status);
    vg_own_leave(&own);
}

void vg_gate_runtime_leave(struct vg_runtime_call *call, struct vg_event *e, int status)
{
    int saved_errno = errno;
    bool seen = vg_thread.driver_events != call->driver_events;
    bool asked_for_something =
        e->op == VG_OP_FREE || e->bytes; /* cudaMalloc(&p, 0) makes no driver call */
    if (status == 0 && !seen && !call->outer && asked_for_something)
        fall_back(e);
    else if (status == CUDA_ERROR_OUT_OF_MEMORY && !call->outer &&
             call->refusals == vg_thread.refusals)
        refused_unseen(e, status);
    vg_thread.via = call->outer;
    errno = saved_errno;
}

/* --- blocks of a framework's allocator -------------------------------------------------------- */

void vg_gate_block(struct vg_guard *guard, struct vg_event *e)
{
    struct vg_origin origin; /* kilobytes: only its counts are set */
    uint32_t families;
    vg_origin_none(&origin);
    e->thread = vg_thread_id();
    if (e->op == VG_OP_ALLOC)
        vg_origin_capture(&guard->options, &origin);
    if (vg_guard_lock(guard)) {
        e->time_ns = vg_guard_now(guard);
        if (e->op == VG_OP_ALLOC)
            e->stack = vg_origin_intern(&guard->ledger, &guard->options, &origin, &families);
        vg_ledger_apply(&guard->ledger, e);
        guard->record.header->reached |= VG_REACHED_TORCH;
        vg_guard_unlock(guard);
    }
    vg_sample_due(guard, false);
}
