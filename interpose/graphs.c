/* graphs.c -- memory nodes of graphs, from the node to the launch that makes its memory live.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:   notes.c and gate.c tell; the ledger learns of an allocation of kind GRAPH when a launch
 *          makes it, and of its end when a launch, or a free of its address, ends it.
 * Holds:   a plan is the list of memory nodes of a capture under way, of a graph, or of an
 *          executable graph, in the order in which they were made. An allocation that the same plan
 *          frees is live for no moment outside a launch and is not counted.
 * Threads: everything here is under the ledger lock.
 * Source:  CUDA programming guide, Graph Memory Nodes: addresses are fixed when the node is made,
 *          memory is there from the launch on, and an allocation that its graph does not free lives
 *          on until cuMemFree(Async) or another graph frees it. Graphs with memory nodes are never
 *          cloned or nested.
 */
#include "interpose/graphs.h"

#include "core/index.h"
#include "interpose/driver.h"
#include "interpose/greens.h"
#include "interpose/hooks.h"
#include "interpose/modules.h"
#include "interpose/origin.h"
#include "interpose/sample.h"
#include "interpose/thread.h"

struct node {
    struct node *next;
    uint64_t addr, bytes; /* bytes 0: a free */
    uint32_t stack, api;
    int32_t device;
};
enum plan_kind { CAPTURE, GRAPH, EXECUTABLE };
struct plan {
    struct {
        uint64_t kind, handle;
    } key;
    struct node *first, *last;
    struct plan *next_spare;
    UT_hash_handle hh;
};

static struct {
    struct plan *plans, *spare_plans;
    struct node *spare_nodes;
} state;

static struct plan *find(enum plan_kind kind, uint64_t handle)
{
    struct plan *plan = NULL;
    struct {
        uint64_t kind, handle;
    } key = {kind, handle};
    HASH_FIND(hh, state.plans, &key, sizeof key, plan);
    return plan;
}

static struct plan *find_or_make(struct vg_guard *guard, enum plan_kind kind, uint64_t handle)
{
    struct vg_arena *index_arena = &guard->ledger.arena;
    struct plan *plan = find(kind, handle);
    if (plan)
        return plan;
    plan = state.spare_plans;
    if (plan)
        state.spare_plans = plan->next_spare;
    else
        plan = vg_arena_alloc(index_arena, sizeof *plan);
    if (!plan)
        return NULL;
    *plan = (struct plan){.key = {kind, handle}};
    HASH_ADD(hh, state.plans, key, sizeof plan->key, plan);
    return plan->hh.tbl ? plan : NULL;
}

static void append(struct vg_guard *guard, struct plan *plan, const struct node *from)
{
    struct node *node = state.spare_nodes;
    if (node)
        state.spare_nodes = node->next;
    else
        node = vg_arena_alloc(&guard->ledger.arena, sizeof *node);
    if (!node || !plan)
        return;
    *node = *from;
    node->next = NULL;
    if (plan->last)
        plan->last->next = node;
    else
        plan->first = node;
    plan->last = node;
}

static void drop(struct vg_guard *guard, struct plan *plan)
{
    struct vg_arena *index_arena = &guard->ledger.arena;
    if (!plan)
        return;
    if (plan->last) {
        plan->last->next = state.spare_nodes;
        state.spare_nodes = plan->first;
    }
    HASH_DELETE(hh, state.plans, plan);
    plan->next_spare = state.spare_plans;
    state.spare_plans = plan;
}

static void copy(struct vg_guard *guard, const struct plan *from, struct plan *to)
{
    for (const struct node *node = from->first; node && to; node = node->next)
        append(guard, to, node);
}

/* --- captures --------------------------------------------------------------------------------- */

void vg_graphs_capture_alloc(struct vg_guard *guard, uint64_t capture, const struct vg_event *e)
{
    append(guard, find_or_make(guard, CAPTURE, capture),
           &(struct node){.addr = e->addr,
                          .bytes = e->bytes,
                          .stack = e->stack,
                          .api = e->api,
                          .device = e->device});
}

void vg_graphs_capture_free(struct vg_guard *guard, uint64_t capture, uint64_t addr)
{
    append(guard, find_or_make(guard, CAPTURE, capture), &(struct node){.addr = addr});
}

void vg_graphs_captured(struct vg_guard *guard, uint64_t capture, uint64_t graph)
{
    struct plan *plan = find(CAPTURE, capture);
    if (plan && graph)
        copy(guard, plan, find_or_make(guard, GRAPH, graph));
    drop(guard, plan);
}

/* --- nodes ------------------------------------------------------------------------------------ */

void vg_graphs_alloc_node(struct vg_guard *guard, const struct vg_note *n)
{
    struct vg_origin origin;
    struct vg_driver_context context;
    uint32_t families;
    vg_driver_current(&context);
    vg_origin_capture(&guard->options, &origin);
    if (!vg_guard_lock(guard))
        return;
    struct node node = {.addr = n->addr, .bytes = n->bytes, .device = context.device};
    node.stack = vg_origin_intern(&guard->ledger, &guard->options, &origin, &families);
    node.api = vg_strings_intern_z(&guard->ledger.stacks,
                                   vg_hooks_name(vg_thread.via ? vg_thread.via : n->hook));
    append(guard, find_or_make(guard, GRAPH, n->graph), &node);
    vg_guard_unlock(guard);
    vg_sample_pools_in_use();
}

void vg_graphs_free_node(struct vg_guard *guard, const struct vg_note *n)
{
    if (!vg_guard_lock(guard))
        return;
    append(guard, find_or_make(guard, GRAPH, n->graph), &(struct node){.addr = n->addr});
    vg_guard_unlock(guard);
}

/* A node that is neither: nothing to know. */
void vg_graphs_other_node(struct vg_guard *guard, const struct vg_note *n)
{
    (void)guard;
    (void)n;
}

void vg_graphs_instantiate(struct vg_guard *guard, const struct vg_note *n)
{
    if (!vg_guard_lock(guard))
        return;
    const struct plan *plan = find(GRAPH, n->graph);
    drop(guard, find(EXECUTABLE, n->object));
    if (plan && plan->first)
        copy(guard, plan, find_or_make(guard, EXECUTABLE, n->object));
    vg_guard_unlock(guard);
}

/* --- launches --------------------------------------------------------------------------------- */

static bool is_freed_by(const struct plan *plan, const struct node *alloc)
{
    for (const struct node *node = alloc->next; node; node = node->next)
        if (!node->bytes && node->addr == alloc->addr)
            return true;
    (void)plan;
    return false;
}

static bool is_made_by(const struct plan *plan, const struct node *freed)
{
    for (const struct node *node = plan->first; node && node != freed; node = node->next)
        if (node->bytes && node->addr == freed->addr)
            return true;
    return false;
}

static void launch(struct vg_guard *guard, const struct plan *plan, const struct vg_note *n,
                   const struct vg_driver_context *context)
{
    for (const struct node *node = plan->first; node; node = node->next) {
        struct vg_event e = {.hook = n->hook,
                             .op = node->bytes ? VG_OP_ALLOC : VG_OP_FREE,
                             .kind = node->bytes ? VG_KIND_GRAPH : VG_KIND_NONE,
                             .addr = node->addr,
                             .bytes = node->bytes,
                             .stream = n->stream,
                             .stack = node->stack,
                             .api = node->api,
                             .device = node->device >= 0 ? node->device : context->device,
                             .context_id = context->id,
                             .handle = context->handle,
                             .thread = vg_thread_id(),
                             .time_ns = vg_guard_now(guard)};
        e.context_id = vg_greens_owner(guard, &e);
        bool is_live = vg_ledger_find(&guard->ledger, VG_SPACE_ADDRESS, node->addr) != NULL;
        bool stays =
            node->bytes ? !is_live && !is_freed_by(plan, node) : is_live && !is_made_by(plan, node);
        if (stays)
            vg_ledger_apply(&guard->ledger, &e);
    }
}

void vg_graphs_launch(struct vg_guard *guard, const struct vg_note *n)
{
    struct vg_driver_context context;
    vg_driver_current(&context);
    if (!vg_guard_lock(guard))
        return;
    const struct plan *plan = find(EXECUTABLE, n->object);
    if (plan)
        launch(guard, plan, n, &context);
    vg_guard_unlock(guard);
    if (plan)
        vg_sample_due(guard, true);
}

void vg_graphs_exec_destroy(struct vg_guard *guard, const struct vg_note *n)
{
    if (!vg_guard_lock(guard))
        return;
    drop(guard, find(EXECUTABLE, n->object));
    vg_guard_unlock(guard);
}

void vg_graphs_destroy(struct vg_guard *guard, const struct vg_note *n)
{
    if (!vg_guard_lock(guard))
        return;
    drop(guard, find(GRAPH, n->graph));
    vg_guard_unlock(guard);
}
