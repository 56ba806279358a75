/* config.h -- what the environment says: options, rank, and where files go.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Threads: called once, by the thread that ends COLD.
 */
#ifndef VG_CONFIG_H
#define VG_CONFIG_H

#include "interpose/lifecycle.h"

/* Options from VRAMGUARD_*; a bad value or an unknown name gives one line on stderr each. */
void vg_config_options(struct vg_guard *guard);
/* A file that could be started. */
bool vg_config_is_program(const char *path);
/* From RANK and its like; -1 none. */
int32_t vg_config_rank(void);
/* Makes the record file and sets record_path and stem. Falls back to $TMPDIR, /tmp, a memfd, each
 * with one line. VG_IO: not even a memfd. */
enum vg_status vg_config_create_record(struct vg_guard *guard);

#endif
