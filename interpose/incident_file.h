/* incident_file.h -- an incident becomes a file, and the tool is started on it.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VG_INCIDENT_FILE_H
#define VG_INCIDENT_FILE_H

#include "interpose/lifecycle.h"

/* Looks at the devices and the host, puts the incident into the record, copies the record to <stem>.oom-<n>.vgr, and has it rendered as option `report`
 * says. wait: the calling thread waits for the report (not under a framework's lock). No lock held. */
void vg_incident_write(struct vg_guard *guard, struct vg_incident *incident, int32_t current_device,
                       bool wait);
/* Starts the tool on fd (an incident's file or the record): name is "oom-1", "exit-1". report: VG_REPORT_TEXT | VG_REPORT_JSON. False: the tool is not
 * there or did not do its work; true also where it was started and is not waited for. */
bool vg_incident_render(struct vg_guard *guard, int fd, const char *name, unsigned report,
                        bool wait);

#endif
