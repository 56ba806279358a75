/* greens.h -- green contexts: shares of a device's processors, which own no memory.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Memory that is made while one is current is the primary context's, and lives as long as that does
 * (CUDA driver API, Green Contexts).
 */
#ifndef VG_GREENS_H
#define VG_GREENS_H

#include "interpose/lifecycle.h"
#include "interpose/notes.h"

void vg_greens_made(struct vg_guard *guard, const struct vg_note *n);
/* A context was made of the green one e->addr: e->device becomes what it is a share of. */
void vg_greens_converted(struct vg_guard *guard, struct vg_event *e);
/* The green context e->addr is gone: e->context_id and e->device become its. False: not known. */
bool vg_greens_gone(struct vg_guard *guard, struct vg_event *e);
/* With the ledger lock held: who owns what is made in the context e->context_id; and, of the n-th
 * green context of a device, the id (0: there are no more). */
uint64_t vg_greens_owner(struct vg_guard *guard, const struct vg_event *e);
uint64_t vg_greens_of(int32_t device, unsigned n);

#endif
