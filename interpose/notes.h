/* notes.h -- calls that make no memory but change what the guard knows of captures and graphs.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VG_NOTES_H
#define VG_NOTES_H

#include <stdbool.h>
#include <stdint.h>

enum vg_note_kind {
#define NOTE_KIND(NAME, function, when) VG_NOTE_##NAME,
#include "interpose/notes.def"
    VG_NOTE_COUNT
};

struct vg_note {
    uint16_t hook;
    uint8_t note; /* enum vg_note_kind */
    int status;
    int32_t device;
    uint64_t stream, object /* event, executable graph */, graph, addr, bytes;
};

/* False: nothing to note (cold, off, nested, or no capture that an event could join); the wrapper
 * passes through. */
bool vg_note_enter(const struct vg_note *n);
void vg_note_leave(struct vg_note *n, int status);

#endif
