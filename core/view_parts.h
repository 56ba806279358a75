/* view_parts.h -- what view.c and view_sound.c share. Nobody else includes it.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VG_VIEW_PARTS_H
#define VG_VIEW_PARTS_H

#include "core/view.h"

enum { VG_HEADER_PAGES_BYTES = (sizeof(struct vg_header) + VG_PAGE - 1) / VG_PAGE * VG_PAGE };

/* Where element `index` is; only for sections whose tables were checked, and indexes below their
 * count. */
void *vg_view_place(const struct vg_view *view, enum vg_section_id section, uint64_t index);

/* Header and tables of a file of `bytes`. VG_OK, VG_DAMAGED or VG_IO (no memory), with why_out. */
enum vg_status vg_view_check_structure(const struct vg_header *header, uint64_t bytes,
                                       char *why_out, size_t why_size);
/* Every index in every element. In a copy of more than one moment (torn) a slot may name a site
 * that is not in it: such a slot is left out. */
enum vg_status vg_view_check_elements(struct vg_view *view, bool torn, char *why_out,
                                      size_t why_size);

#endif
