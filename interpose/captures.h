/* captures.h -- which streams are capturing.
 * SPDX-License-Identifier: Apache-2.0
 *
 * "Capturing" is a set of stream handles. It begins with cuStreamBeginCapture, spreads through
 * events, and is cleaned by the end of the capture, whatever its status, and by the end of the
 * stream or of its context: it may not stick, since while it is not empty the guard asks the driver
 * nothing but what design section 4 allows.
 */
#ifndef VG_CAPTURES_H
#define VG_CAPTURES_H

#include "interpose/lifecycle.h"
#include "interpose/notes.h"

/* Is any stream of this process capturing? Lock-free. */
bool vg_captures_any(void);
/* The number of the capture that a stream is part of; 0 none. Lock-free where none is open; else
 * takes the ledger lock. */
uint64_t vg_captures_of(struct vg_guard *guard, uint64_t stream);

void vg_captures_begin(struct vg_guard *guard, const struct vg_note *n);
void vg_captures_end(struct vg_guard *guard, const struct vg_note *n);
void vg_captures_record(struct vg_guard *guard, const struct vg_note *n);
void vg_captures_wait(struct vg_guard *guard, const struct vg_note *n);
/* A capture that began in a stream, or in a stream of a context, that is gone ends without a graph.
 * Context 0: unknown, so it may have been any. A stream or an event that only took part leaves. */
void vg_captures_stream_gone(struct vg_guard *guard, uint64_t stream);
void vg_captures_event_gone(struct vg_guard *guard, uint64_t event);
void vg_captures_context_gone(struct vg_guard *guard, uint64_t context_id);

#endif
