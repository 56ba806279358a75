/* state.h -- the states and their legal transitions.
 * SPDX-License-Identifier: Apache-2.0
 *
 * For lifecycle.c, finish.c and the test of the table.
 */
#ifndef VG_STATE_H
#define VG_STATE_H

#include <stdbool.h>

/* OFF is zero: what a wiped page says. COLD has no page and so no number; STARTING has none that
 * others can see. */
enum vg_state { VG_STATE_OFF, VG_STATE_STARTING, VG_STATE_ON, VG_STATE_STOPPING, VG_STATE_COUNT };

bool vg_lifecycle_is_legal(enum vg_state from, enum vg_state to);
/* Compare-exchange; false: not in that state, or not a legal pair. */
bool vg_lifecycle_move(enum vg_state from, enum vg_state to);

#endif
