/* keeper.h -- starts the report tool without the guarded program noticing a child.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Any thread may call any of these at any time, several at once. No function raises a signal in the
 * program, changes errno, is a cancellation point, or leaves a child that waitpid(-1) can see.
 */
#ifndef VG_KEEPER_H
#define VG_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

/* Keepers alive at the same time; one more is refused (VG_KEEPER_UNAVAILABLE). */
#define VG_KEEPER_MAX 4

struct vg_keeper_job {
    const char *tool;    /* absolute path of `vramguard` */
    char *const *argv;   /* NULL-terminated, argv[0] first; copied */
    char *const *envp;   /* the program's environment; copied without LD_*, DEBUGINFOD_URLS and
                            VRAMGUARD_*; may be NULL */
    int incident_fd;     /* the tool's descriptor 3; -1: none. The caller may close it as soon as
                            vg_keeper_run returns */
    uint64_t timeout_ns; /* the tool is killed after this long */
    bool wait;           /* false: return at once; reaped later */
    _Atomic(int)
        *ended_out; /* where not waited for: enum vg_keeper_result plus 1, stored when it is
                                reaped; may be NULL, must stay valid */
};

enum vg_keeper_result {
    VG_KEEPER_DONE,    /* the tool ended with status 0 */
    VG_KEEPER_STARTED, /* not waited for */
    VG_KEEPER_FAILED,  /* no such tool, exec failed, status other than 0, killed by someone else */
    VG_KEEPER_TIMEOUT, /* killed at the limit */
    VG_KEEPER_UNAVAILABLE, /* no process to be had (clone refused, no memory), or VG_KEEPER_MAX are
                              alive already */
};

/* Runs the tool. *tool_status_out (may be NULL) is its wait status where DONE or FAILED; exec
 * failed: exit status 127. No lock of ours may be held. Returns at the latest a second after the
 * limit. The tool has the program's descriptor 2, the incident's file as 3, /dev/null as 0 and 1,
 * and nothing else open. */
enum vg_keeper_result vg_keeper_run(const struct vg_keeper_job *job, int *tool_status_out);

/* Reaps the keepers that have ended and were not waited for. Never blocks. */
void vg_keeper_reap(void);

/* At exit: gives the tools that still run up to timeout_ns, then reaps. A keeper that is left ends
 * by itself within 100 ms of the program's end and takes its tool with it. */
void vg_keeper_wait_all(uint64_t timeout_ns);

#endif
