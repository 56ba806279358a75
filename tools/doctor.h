/* doctor.h -- the two halves of `vramguard doctor`.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VG_DOCTOR_H
#define VG_DOCTOR_H

#include <json-c/json.h>
#include <stdbool.h>

/* What is found on this machine; null: not there. */
struct json_object *vg_doctor_machine(void);

struct vg_doctor_run {
    char **command;
    bool simulate, stdout_to_stderr;
    const char *sim_memory;
};
/* Runs a program under the guard and adds "program" to the object. 0; 1: the driver was loaded and
 * no call of it was seen; else an exit status after one line on stderr. */
int vg_doctor_program(const struct vg_doctor_run *run, struct json_object *object);

#endif
