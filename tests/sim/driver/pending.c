/* pending.c -- which work the host knows to be done.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:      work is carried out when it is given; what is late here is only what the host may
 *             rely on.
 * Holds:      work is pending until something waits for it: its stream, an event after it, its
 *             context, or a stream that came after it (cuStreamWaitEvent; the legacy stream and the
 *             blocking streams of its context, CUDA Driver API "Stream synchronization behavior").
 *             A query says "not ready" once to the same work, and done the next time: that is our
 *             rule, so that programs see both answers.
 */
#include "tests/sim/driver/sim.h"

#include <stdlib.h>

struct follows {
    uint64_t line, at;     /* work of this line from this ticket on ... */
    uint64_t other, until; /* ... comes after that one's work up to this ticket */
    const struct CUctx_st *context;
};

static struct {
    uint64_t last_id, ticket;
    struct vgsim_line *lines;
    struct follows *follows;
    size_t count, room;
} state;

void vgsim_line_open(struct vgsim_line *line, struct CUctx_st *context, bool legacy, bool blocking)
{
    *line = (struct vgsim_line){.id = ++state.last_id,
                                .context = context,
                                .legacy = legacy,
                                .blocking = blocking,
                                .next = state.lines};
    state.lines = line;
}

/* What was pending stays so until its context is waited for: nothing else can wait for it any
 * more. */
void vgsim_line_close(struct vgsim_line *line)
{
    for (struct vgsim_line **at = &state.lines; *at; at = &(*at)->next)
        if (*at == line) {
            *at = line->next;
            return;
        }
}

static struct follows *room_for_one(void)
{
    if (state.count == state.room) {
        size_t room = state.room ? state.room * 2 : 16;
        struct follows *follows = realloc(state.follows, room * sizeof *follows);
        if (!follows)
            abort(); /* the host's own memory is gone */
        state.follows = follows;
        state.room = room;
    }
    return &state.follows[state.count++];
}

static void add_follows(const struct vgsim_line *line, uint64_t at, uint64_t other, uint64_t until)
{
    for (size_t i = 0; i < state.count; i++)
        if (state.follows[i].line == line->id && state.follows[i].other == other) {
            /* One entry for both: the older work may then look pending for longer, never
             * shorter. */
            if (until > state.follows[i].until) {
                state.follows[i].until = until;
                state.follows[i].at = at;
            }
            return;
        }
    *room_for_one() = (struct follows){line->id, at, other, until, line->context};
}

void vgsim_work_follows(struct vgsim_line *line, uint64_t other, uint64_t until)
{
    if (line->id != other && until)
        add_follows(line, vgsim_work_add(line), other, until);
}

/* The legacy stream and the blocking streams of a context wait for each other. */
static void add_implicit(struct vgsim_line *line)
{
    for (struct vgsim_line *other = state.lines; other; other = other->next)
        if (other->context == line->context && other->last > other->done &&
            ((line->legacy && other->blocking) || (line->blocking && other->legacy)))
            add_follows(line, line->last, other->id, other->last);
}

uint64_t vgsim_work_add(struct vgsim_line *line)
{
    line->last = ++state.ticket;
    if (line->legacy || line->blocking)
        add_implicit(line);
    return line->last;
}

bool vgsim_work_is_pending(uint64_t id, uint64_t ticket)
{
    for (const struct vgsim_line *line = state.lines; line; line = line->next)
        if (line->id == id)
            return line->done < ticket;
    return false;
}

void vgsim_work_done(uint64_t id, uint64_t until)
{
    for (struct vgsim_line *line = state.lines; line; line = line->next)
        if (line->id == id && line->done < until)
            line->done = until;
    vgsim_pools_done(id, until);
    for (size_t i = 0; i < state.count; i++) {
        struct follows *follows = &state.follows[i];
        if (follows->line != id || follows->at > until)
            continue;
        struct follows done = *follows;
        *follows = state.follows[--state.count];
        vgsim_work_done(done.other, done.until);
        i = (size_t)-1; /* the list is another one now */
    }
}

/* Also the work of streams that are gone. */
void vgsim_work_done_context(struct CUctx_st *context)
{
    for (struct vgsim_line *line = state.lines; line; line = line->next)
        if (line->context == context)
            vgsim_work_done(line->id, line->last);
    for (size_t i = 0; i < state.count; i++)
        if (state.follows[i].context == context) {
            vgsim_work_done(state.follows[i].line, UINT64_MAX);
            i = (size_t)-1;
        }
    vgsim_pools_done_context(context);
}
