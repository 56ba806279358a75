/* incident.h -- is a failed allocation final, and what is written when it is.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VG_INCIDENT_H
#define VG_INCIDENT_H

#include "interpose/lifecycle.h"

/* A driver allocation or context creation was refused. */
void vg_incident_refused(struct vg_guard *guard, struct vg_event *e, int status);
/* A status that only says that the driver or the context is not there (any more), or that a stream
 * captures: normal at the end of a process. */
bool vg_incident_is_no_fault(int status);
/* One succeeded on this thread: what failed before it was not final. */
void vg_incident_succeeded(struct vg_guard *guard, const struct vg_event *e);
/* A framework's own word that it gives up: final. requested_bytes: what it was asked for. It holds
 * its lock: nothing waits. */
void vg_incident_framework_gave_up(struct vg_guard *guard, uint8_t family, int32_t device,
                                   uint64_t requested_bytes);
/* The process ends: failures that nobody retried were final. No lock held, vg_thread.depth set. */
void vg_incident_unsettled(struct vg_guard *guard);
/* A usage callback of a framework came: its allocator is the caching one. */
void vg_incident_framework_is_caching(uint8_t family);

#endif
