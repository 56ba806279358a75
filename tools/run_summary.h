/* run_summary.h -- the one line at the end of `vramguard run`.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The guarded processes leave a line each in a file (VRAMGUARD_SUMMARY), appended with one write(2)
 * at a clean end:
 *   pid=4242 peak=0:1073741824,1:0 incidents=1 reports=1 kept=1
 *   record=/dir/vramguard.host.4242-1764533961.vgr
 * A process that was killed leaves none: its record is looked for.
 */
#ifndef VG_RUN_SUMMARY_H
#define VG_RUN_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct vg_run_end {
    const char *summary;   /* path or NULL */
    const char *directory; /* where records go; NULL: the working directory */
    pid_t pid;             /* of the program */
    int status;            /* as waitpid() gave it */
    uint64_t started_ns;   /* real time */
    bool no_report;        /* option report=none */
    uint64_t max_reports;  /* option max_reports */
};

uint64_t vg_run_now(void);
/* Writes the line to stderr. */
void vg_run_closing_line(const struct vg_run_end *end);

#endif
