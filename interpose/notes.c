/* notes.c -- the way of a note to what takes it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:   wrappers of NOTE rows -> captures.c, graphs.c. Like the gate: one call deep per thread,
 *          errno is the program's.
 */
#include "interpose/notes.h"

#include "interpose/arrays.h"
#include "interpose/captures.h"
#include "interpose/graphs.h"
#include "interpose/greens.h"
#include "interpose/lifecycle.h"
#include "interpose/thread.h"

typedef void take_fn(struct vg_guard *, const struct vg_note *);
enum when { ALWAYS, SUCCESS };
static const struct {
    take_fn *take;
    enum when when;
} kinds[VG_NOTE_COUNT] = {
#define NOTE_KIND(NAME, function, when) [VG_NOTE_##NAME] = {function, when},
#include "interpose/notes.def"
};

static bool is_about_events(uint8_t note)
{
    return note == VG_NOTE_EVENT_RECORD || note == VG_NOTE_EVENT_WAIT;
}

bool vg_note_enter(const struct vg_note *n)
{
    vg_thread.driver_events++;
    if (vg_thread.depth || (is_about_events(n->note) && !vg_captures_any()))
        return false;
    /* A capture may begin before the first allocation is made, and it matters then. */
    if (!vg_lifecycle_guard(n->note == VG_NOTE_CAPTURE_BEGIN || n->note == VG_NOTE_GREEN_MADE))
        return false;
    vg_thread.depth = 1;
    vg_thread.calling = true;
    return true;
}

void vg_note_leave(struct vg_note *n, int status)
{
    struct vg_guard *guard = vg_lifecycle_guard(false);
    struct vg_own own;
    vg_thread.calling = false;
    vg_thread.depth = 0;
    if (!guard || (status != 0 && kinds[n->note].when == SUCCESS) || !vg_own_enter(&own))
        return;
    n->status = status;
    kinds[n->note].take(guard, n);
    vg_arrays_settle(guard);
    vg_own_leave(&own);
}
