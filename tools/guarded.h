/* guarded.h -- starts a program with the library in front of it, and waits for it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The simulated GPU too, where it is asked for.
 *
 * Place:   cmd_run.c, cmd_doctor.c -> here -> the program
 */
#ifndef VG_GUARDED_H
#define VG_GUARDED_H

#include <stdbool.h>
#include <sys/types.h>

#include "core/options.h"

struct vg_guarded {
    char **command;                      /* NULL-terminated */
    const char *option[VG_OPTION_COUNT]; /* values for the environment; NULL: as it is there */
    bool simulate;
    const char *sim_memory; /* NULL: as the environment or the simulation says */
    bool stdout_to_stderr;
    char *
        /* path of the file in which the guarded processes leave one line each; vg_guarded_start()
         * makes it */
        summary;
    pid_t pid;
};

/* 0, or an exit status after one line on stderr: 2 where the library is missing, 126 or 127 where
 * the program can't be run or found. */
int vg_guarded_start(struct vg_guarded *guarded);
/* Waits, passing on the signals that somebody sends to this process; calls poll (may be NULL) every
 * 20 ms. Returns the wait status. */
int vg_guarded_wait(struct vg_guarded *guarded, void (*poll)(pid_t pid, void *context),
                    void *context);

#endif
