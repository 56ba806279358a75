/* captures.c -- which streams are capturing, and which have joined them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:   notes.c tells; gate.c, sample.c and graphs.c ask.
 * Holds:   a member is a stream or an event of an open capture, with the capture's number; the
 *          origin stream ends it. Numbers are never used again.
 * Threads: the table is under the ledger lock; `open` is read without it.
 * Source:  CUDA driver API, Stream Management: a stream joins a capture by waiting for an event
 *          that was recorded in it; cuStreamEndCapture ends it also where it reports that the
 *          capture was invalidated, but not from the wrong thread (908).
 */
#include "interpose/captures.h"

#include "interpose/driver.h"
#include "interpose/graphs.h"
#include "interpose/thread.h"

enum { MEMBERS_MAX = 1024, WRONG_THREAD = 908, NOT_CAPTURING = 401 /* ILLEGAL_STATE */ };
enum member_kind { FREE, ORIGIN, STREAM, EVENT };

static struct {
    struct member {
        uint64_t handle, capture;
        uint64_t context_id; /* of an origin; 0 unknown */
        enum member_kind kind;
    } member[MEMBERS_MAX];
    unsigned count; /* members in use lie below */
    uint64_t last_capture;
    _Atomic unsigned open;
} state;

/* Every thread has a default stream of its own: 2, and 0 in the calls for it. (As the legacy stream
 * 0 can't capture.) Handles are pointers, so the last bits say that this is none. */
static uint64_t name_of(uint64_t stream)
{
    return stream == 0 || stream == 2 ? (uint64_t)vg_thread_id() << 8 | 2 : stream;
}

bool vg_captures_any(void)
{
    return atomic_load_explicit(&state.open, memory_order_relaxed) != 0;
}

static struct member *find(uint64_t handle, bool is_event)
{
    for (unsigned i = 0; i < state.count; i++) {
        struct member *m = &state.member[i];
        if (m->kind != FREE && m->handle == handle && (m->kind == EVENT) == is_event)
            return m;
    }
    return NULL;
}

static struct member *find_kind(enum member_kind kind)
{
    for (unsigned i = 0; i < state.count; i++)
        if (state.member[i].kind == kind)
            return &state.member[i];
    return NULL;
}

/* A member's place; where all are taken an event gives way to a stream. NULL: there is none. */
static struct member *add(uint64_t handle, enum member_kind kind, uint64_t capture)
{
    struct member *place = find(handle, kind == EVENT);
    if (!place)
        place = find_kind(FREE);
    if (!place && state.count < MEMBERS_MAX)
        place = &state.member[state.count++];
    if (!place && kind != EVENT)
        place = find_kind(EVENT);
    if (place)
        *place = (struct member){.handle = handle, .capture = capture, .kind = kind};
    return place;
}

static void close_capture(uint64_t capture)
{
    for (unsigned i = 0; i < state.count; i++)
        if (state.member[i].capture == capture)
            state.member[i].kind = FREE;
    while (state.count && state.member[state.count - 1].kind == FREE)
        state.count--;
    atomic_fetch_sub(&state.open, 1);
}

uint64_t vg_captures_of(struct vg_guard *guard, uint64_t stream)
{
    uint64_t capture = 0;
    if (!vg_captures_any() || !vg_guard_lock(guard))
        return 0;
    const struct member *m = find(name_of(stream), false);
    capture = m ? m->capture : 0;
    vg_guard_unlock(guard);
    return capture;
}

/* Where a stream is: what its creation said, else (a default stream) what is current. */
static uint64_t context_of(struct vg_guard *guard, uint64_t stream, uint64_t current)
{
    const struct vg_slot *slot = vg_ledger_find(&guard->ledger, VG_SPACE_STREAM, stream);
    const struct vg_context *context =
        slot && slot->context ? vg_record_at(&guard->record, VG_SEC_CONTEXTS, slot->context - 1u)
                              : NULL;
    return context ? context->id : current;
}

void vg_captures_begin(struct vg_guard *guard, const struct vg_note *n)
{
    struct vg_driver_context current;
    vg_driver_current(&current);
    if (!vg_guard_lock(guard))
        return;
    struct member *origin = add(name_of(n->stream), ORIGIN, ++state.last_capture);
    if (origin) {
        origin->context_id = context_of(guard, n->stream, current.id);
        atomic_fetch_add(&state.open, 1);
    }
    vg_guard_unlock(guard);
}

void vg_captures_end(struct vg_guard *guard, const struct vg_note *n)
{
    if (n->status == WRONG_THREAD || n->status == NOT_CAPTURING || !vg_guard_lock(guard))
        return;
    const struct member *m = find(name_of(n->stream), false);
    if (m && m->kind == ORIGIN) {
        uint64_t capture = m->capture;
        close_capture(capture);
        vg_graphs_captured(guard, capture, n->status == 0 ? n->graph : 0);
    }
    vg_guard_unlock(guard);
}

void vg_captures_record(struct vg_guard *guard, const struct vg_note *n)
{
    if (!vg_guard_lock(guard))
        return;
    const struct member *m = find(name_of(n->stream), false);
    struct member *event = find(n->object, true);
    if (m)
        add(n->object, EVENT, m->capture);
    else if (event)
        event->kind = FREE; /* recorded again, outside */
    vg_guard_unlock(guard);
}

void vg_captures_wait(struct vg_guard *guard, const struct vg_note *n)
{
    if (!vg_guard_lock(guard))
        return;
    const struct member *event = find(n->object, true);
    if (event && !find(name_of(n->stream), false))
        add(name_of(n->stream), STREAM, event->capture);
    vg_guard_unlock(guard);
}

static void abandon(struct vg_guard *guard, uint64_t capture)
{
    close_capture(capture);
    vg_graphs_captured(guard, capture, 0);
}

void vg_captures_stream_gone(struct vg_guard *guard, uint64_t stream)
{
    if (!vg_captures_any() || !vg_guard_lock(guard))
        return;
    struct member *m = find(stream, false);
    if (m && m->kind == ORIGIN)
        abandon(guard, m->capture);
    else if (m)
        m->kind = FREE;
    vg_guard_unlock(guard);
}

void vg_captures_event_gone(struct vg_guard *guard, uint64_t event)
{
    if (!vg_captures_any() || !vg_guard_lock(guard))
        return;
    struct member *m = find(event, true);
    if (m)
        m->kind = FREE;
    vg_guard_unlock(guard);
}

void vg_captures_context_gone(struct vg_guard *guard, uint64_t context_id)
{
    if (!vg_captures_any() || !vg_guard_lock(guard))
        return;
    for (unsigned i = 0; i < state.count; i++) {
        const struct member m = state.member[i];
        if (m.kind == ORIGIN && (!context_id || !m.context_id || m.context_id == context_id))
            abandon(guard, m.capture);
    }
    vg_guard_unlock(guard);
}
