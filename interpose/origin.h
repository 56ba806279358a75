/* origin.h -- where a call comes from: native and Python frames of the calling thread.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VG_ORIGIN_H
#define VG_ORIGIN_H

#include "core/ledger.h"
#include "core/options.h"
#include "interpose/python_frames.h"

enum { VG_ORIGIN_DEPTH_MAX = 128, VG_ORIGIN_OWN_MAX = 12 };

struct vg_origin {
    unsigned native_count, python_count;
    bool cut;
    uint64_t native[VG_ORIGIN_DEPTH_MAX + VG_ORIGIN_OWN_MAX];
    struct vg_python_frame python[VG_ORIGIN_DEPTH_MAX];
};

/* No stack: all that has to be set of it. */
static inline void vg_origin_none(struct vg_origin *out)
{
    out->native_count = out->python_count = 0;
    out->cut = false;
}
/* Takes the stack, raw. No lock of ours held. */
void vg_origin_capture(const struct vg_options *options, struct vg_origin *out);
/* The same with at most `depth` frames of each kind: enough to say where a free was called, for a
 * fraction of the cost. */
void vg_origin_capture_some(const struct vg_options *options, unsigned depth,
                            struct vg_origin *out);
/* Makes it a stack of the record; on the thread that captured, before it returns to its caller,
 * with the ledger lock held. families_out: of the native frames (bits by enum vg_family). */
uint32_t vg_origin_intern(struct vg_ledger *ledger, const struct vg_options *options,
                          const struct vg_origin *origin, uint32_t *families_out);

#endif
