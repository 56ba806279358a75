/* modules.h -- from a code address to a frame of the record.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Which loaded object it is in, and what that says about the caller.
 *
 * Threads: the caller holds the ledger lock (the loader's own list lock is taken below it, and
 * nothing of ours is called from there).
 */
#ifndef VG_MODULES_H
#define VG_MODULES_H

#include "core/stacks.h"

enum vg_family {
    VG_FAMILY_NONE,
#define FAMILY(NAME, name, match, final_at) VG_FAMILY_##NAME,
#include "interpose/families.def"
    VG_FAMILY_COUNT
};
struct vg_family_row {
    const char *name, *match;
    unsigned final_at;
};
extern const struct vg_family_row vg_family_rows[VG_FAMILY_COUNT];

/* Looks at what the loader has done since the last call. Before addresses of one stack are looked
 * up. */
void vg_modules_refresh(struct vg_stacks *stacks);
/* The frame of a return address; 0: no room. traits_out: a bit per family that its module matches,
 * and: it is code of this library; it is the CUDA driver's or runtime's own library. */
enum { VG_TRAIT_OWN = 1 << 30, VG_TRAIT_CUDA = 1 << 29, VG_TRAIT_FAMILIES = (1 << 29) - 1 };
_Static_assert(VG_FAMILY_COUNT <= 29, "a family has no bit");
uint32_t vg_modules_frame(struct vg_stacks *stacks, uint64_t ip, uint32_t *traits_out);

#endif
