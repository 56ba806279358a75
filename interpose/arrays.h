/* arrays.h -- how many bytes an array or a mipmapped array takes.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VG_ARRAYS_H
#define VG_ARRAYS_H

#include "core/event.h"

/* An array's description, of any of the calls that make one. `detail` of an event of kind ARRAY
 * or MIPMAP. */
struct vg_array_shape {
    uint64_t width, height, depth;
    uint32_t format, channels, flags;
    uint32_t levels; /* 0: no mipmap */
};

/* What an array would take without padding: where it is refused, nobody says its size. 0 for one
 * that has no memory of its own. */
uint64_t vg_arrays_guess(const struct vg_array_shape *shape);

struct vg_guard;
/* e->bytes becomes what the driver says. While a stream captures it is not asked: the guess
 * stays, and the slot is marked as guessed. */
void vg_arrays_ask(struct vg_event *e);
/* After e was put into the ledger, with the ledger lock held: a guessed one is remembered. */
void vg_arrays_remember(const struct vg_event *e);
/* No capture is open any more: the driver is asked for what was guessed on the current device. */
void vg_arrays_settle(struct vg_guard *guard);

#endif
