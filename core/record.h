/* record.h -- the record file as its one writer sees it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Made, mapped, grown; space is had before it is touched.
 *
 * Threads: the caller holds the ledger lock for everything but create and close. No libc malloc, no
 * stdio, no signals (RLIMIT_FSIZE, full disks and
 *          foreign descriptors are looked at first). Nothing above GLIBC_2.28.
 */
#ifndef VG_RECORD_H
#define VG_RECORD_H

#include <stddef.h>

#include "core/layout.h"

struct vg_record {
    uint8_t *base; /* NULL: closed */
    struct vg_header *header;
    int fd;
    bool memory_only; /* a memfd: does not survive the process */
    /* the file can't grow any more (no room, limit, or the descriptor is not ours now) */
    bool stuck;
    int stuck_error; /* errno, where stuck */
    uint64_t mapped_bytes, limit_bytes;
    uint64_t device, inode; /* of our file, as st_dev and st_ino */
};

/* A new record at path (0600, O_EXCL|O_NOFOLLOW), or in a memfd where path is NULL. limit_bytes:
 * option record_size. VG_OK, or VG_IO with errno (EEXIST: taken). */
enum vg_status vg_record_create(struct vg_record *record, const char *path, uint64_t limit_bytes);
/* Unmaps and closes; the file stays. */
void vg_record_close(struct vg_record *record);

/* Element `index` of a section, or NULL. */
void *vg_record_at(const struct vg_record *record, enum vg_section_id section, uint64_t index);
/* A string by id; "" for 0. */
const char *vg_record_string(const struct vg_record *record, uint32_t id);
uint64_t vg_record_count(const struct vg_record *record, enum vg_section_id section);
/* Room for `n` consecutive elements (within one chunk) behind the last one, zeroed, not yet
 * counted. index_out: of the first. NULL: no room, and the header's `saturated` says so. Elements
 * that would straddle a chunk are skipped and stay zero. */
void *vg_record_reserve(struct vg_record *record, enum vg_section_id section, uint32_t n,
                        uint64_t *index_out);
/* Counts what was reserved last: from here on readers see it. */
void vg_record_publish(struct vg_record *record, enum vg_section_id section, uint64_t end_index);
/* Around every change of sites, slots, devices and contexts: seq is odd and the intent is set in
 * between, so that readers know. */
void vg_record_begin(struct vg_record *record, uint64_t intent);
void vg_record_end(struct vg_record *record);
/* Copies the used part to a new memfd (rewound). VG_IO with errno. The caller holds the ledger
 * lock. */
enum vg_status vg_record_copy(const struct vg_record *record, int *fd_out);

#endif
