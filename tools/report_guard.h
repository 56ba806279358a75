/* report_guard.h -- the report as the library asks for it at an incident.
 * SPDX-License-Identifier: Apache-2.0
 *
 * `vramguard report --from-guard`.
 *
 * vramguard report --from-guard --fd=3 --report=text,json --stem=/dir/vramguard.host.1-2.oom-1
 * [--limit=MILLISECONDS] reads the record from the descriptor, writes the text to descriptor 2 with
 * one write(2), and `<stem>.json` (0600, never over a file or through a link). Exit status 0 where
 * all that was asked for was done. It says nothing else: the library names the file where this
 * fails.
 */
#ifndef VG_REPORT_GUARD_H
#define VG_REPORT_GUARD_H

#include <stdbool.h>

struct vg_report_guard {
    int fd;
    unsigned forms;    /* VG_REPORT_* */
    const char *stem;  /* absolute, without ending; NULL: no JSON is written */
    unsigned limit_ms; /* 0: none */
};

int vg_report_from_guard(const struct vg_report_guard *call);
/* May this descriptor have colour: a terminal that can, and NO_COLOR is not set. */
bool vg_report_color(int fd);

#endif
