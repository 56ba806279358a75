/* view.h -- reading a record.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Live, dead or damaged. Every offset, count and string is checked; nothing here trusts the file.
 *
 * The bytes belong to the view (a private copy), so what was checked stays so. Functions that take
 * an index return NULL where it is out of range.
 */
#ifndef VG_VIEW_H
#define VG_VIEW_H

#include <stddef.h>

#include "core/layout.h"

struct vg_view {
    uint8_t *base;
    size_t bytes;
    const struct vg_header *header;
    /* an event was half applied (intent set, or a torn copy): every derived counter was made again
     * from the slots */
    bool recomputed;
    bool owned;
};

/* Reads all of fd (any position) into a private copy and checks it. Live records are copied again a
 * bounded number of times until the copy is of one moment. VG_OK, VG_IO, or VG_DAMAGED with one
 * line in why_out. */
enum vg_status vg_view_open_fd(struct vg_view *view, int fd, char *why_out, size_t why_size);
enum vg_status vg_view_open(struct vg_view *view, const char *path, char *why_out, size_t why_size);
/* Checks bytes already in memory; base must be 8-aligned, writable and stay valid (the
 * recomputation writes to it). For fuzzers and tests. */
enum vg_status vg_view_adopt(struct vg_view *view, void *base, size_t bytes, char *why_out,
                             size_t why_size);
void vg_view_close(struct vg_view *view);

uint64_t vg_view_count(const struct vg_view *view, enum vg_section_id section);
const void *vg_view_at(const struct vg_view *view, enum vg_section_id section, uint64_t index);
const char *vg_view_string(const struct vg_view *view, uint32_t id); /* "" for 0 or a bad id */

/* Typed, by index. */
const struct vg_module *vg_view_module(const struct vg_view *view, uint64_t index);
const struct vg_frame *vg_view_frame(const struct vg_view *view, uint64_t index);
const struct vg_site *vg_view_site(const struct vg_view *view, uint64_t index);
const struct vg_slot *vg_view_slot(const struct vg_view *view, uint64_t index);
const struct vg_device *vg_view_device(const struct vg_view *view, uint64_t index);
const struct vg_context *vg_view_context(const struct vg_view *view, uint64_t index);
const struct vg_incident *vg_view_incident(const struct vg_view *view, uint64_t index);
const struct vg_fault *vg_view_fault(const struct vg_view *view, uint64_t index);

/* A stack by id. frames_out gets a pointer to native + python frame ids (index + 1 in FRAMES).
 * false: id 0 or damaged. */
bool vg_view_stack(const struct vg_view *view, uint32_t id, uint32_t *head_out,
                   const uint32_t **frames_out);
/* Bytes live at this site when its device was at its peak (of the site's layer). VG_UNKNOWN: it
 * belongs to no device. */
uint64_t vg_view_site_at_peak(const struct vg_view *view, const struct vg_site *site);
/* Invariants of design section 6 over the whole record: the sums of slots are what sites, contexts
 * and devices say, frees are allocations less live ones, no peak is below what is live. One line in
 * why_out where it is not so. */
bool vg_view_check(const struct vg_view *view, char *why_out, size_t why_size);

#endif
