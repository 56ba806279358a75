/* find_record.h -- from what a user names (a file, a process, a directory) to an open record.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VG_FIND_RECORD_H
#define VG_FIND_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/layout.h"

struct vg_target {
    int fd;
    char *
        /* by which files beside it can be found, and that is shown; NULL: the record has no name (a
         * memfd, or removed) */
        path;
};

/* FILE, PID (digits only) or DIR. A JSON report means the record of the same stem; a process
 * without a record means the one process below it that has one; in a directory damaged records are
 * passed over, with a line on stderr each. false, with one line in why_out. */
bool vg_find_record(const char *name, struct vg_target *out, char *why_out, size_t why_size);
void vg_target_close(struct vg_target *target);

/* The record that process `pid` left in directory (NULL: here) or in the places where the library
 * goes instead; to be freed. NULL: none. */
char *vg_find_left_record(const char *directory, uint32_t pid, uint64_t started_ns);

/* "vramguard.h.1-2.oom-3.vgr" -> "oom", 3. false: the name of a whole record. */
bool vg_incident_name(const char *path, char kind_out[16], uint32_t *number_out);
/* The file of an incident beside its record; to be freed. NULL: not there, or path is no *.vgr. */
char *vg_incident_path(const char *path, const char *kind, uint32_t number);

/* Does the process that wrote the record still live, on this machine? */
bool vg_record_is_alive(const struct vg_header *header, const char *host);

#endif
