/* incident_file.h -- an incident becomes a file, and the tool is started on it.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VG_INCIDENT_FILE_H
#define VG_INCIDENT_FILE_H

#include "interpose/lifecycle.h"

/* Looks at the devices and the host, puts the incident into the record, copies the record to
 * <stem>.oom-<n>.vgr, and has it rendered as option `report` says. wait: the calling thread waits
 * for the report (not under a framework's lock). No lock held. */
void vg_incident_write(struct vg_guard *guard, struct vg_incident *incident, int32_t current_device,
                       bool wait);
/* Prints the five lines for reports that nobody waited for and that did not come about. Now and
 * then, and at the end (after vg_keeper_wait_all). */
void vg_incident_settle(struct vg_guard *guard);
/* Has the tool make <stem>.exit-1.json of the record. */
void vg_incident_render_exit(struct vg_guard *guard, int fd);

#endif
