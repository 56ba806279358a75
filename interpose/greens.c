/* greens.c -- which contexts are green, and of which device.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:   notes.c and gate.c tell, gate.c asks.
 * Threads: the table is under the ledger lock; `count` is read without it.
 */
#include "interpose/greens.h"

enum { GREENS_MAX = 64 };

static struct {
    struct green {
        uint64_t handle, context_id; /* 0: no context was made of it */
        int32_t device;
    } green[GREENS_MAX];
    _Atomic unsigned count;
} state;

static struct green *find(uint64_t handle)
{
    for (unsigned i = 0; i < state.count; i++)
        if (state.green[i].handle == handle)
            return &state.green[i];
    return NULL;
}

void vg_greens_made(struct vg_guard *guard, const struct vg_note *n)
{
    if (!vg_guard_lock(guard))
        return;
    struct green *place = find(n->object);
    if (!place && state.count < GREENS_MAX)
        place = &state.green[state.count++];
    if (place)
        *place = (struct green){.handle = n->object, .device = n->device};
    vg_guard_unlock(guard);
}

void vg_greens_converted(struct vg_guard *guard, struct vg_event *e)
{
    if (!vg_guard_lock(guard))
        return;
    struct green *green = find(e->addr);
    if (green) {
        green->context_id = e->context_id;
        e->device = green->device;
    }
    vg_guard_unlock(guard);
}

bool vg_greens_gone(struct vg_guard *guard, struct vg_event *e)
{
    if (!vg_guard_lock(guard))
        return false;
    struct green *green = find(e->addr);
    bool known = green && green->context_id;
    if (green) {
        e->context_id = green->context_id;
        e->device = green->device;
        *green = state.green[--state.count];
    }
    vg_guard_unlock(guard);
    return known;
}

uint64_t vg_greens_owner(struct vg_guard *guard, const struct vg_event *e)
{
    uint64_t owner = 0;
    for (unsigned i = 0; i < state.count; i++)
        if (state.green[i].context_id == e->context_id)
            owner = vg_ledger_primary(&guard->ledger, state.green[i].device);
    return owner ? owner : e->context_id;
}

uint64_t vg_greens_of(int32_t device, unsigned n)
{
    for (unsigned i = 0; i < state.count; i++)
        if (state.green[i].device == device && state.green[i].context_id && n-- == 0)
            return state.green[i].context_id;
    return 0;
}
