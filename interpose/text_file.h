/* text_file.h -- small text files, mostly of /proc, read without libc's streams.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VG_TEXT_FILE_H
#define VG_TEXT_FILE_H

#include <stddef.h>

/* Its first size - 1 bytes and a NUL. How many were read; 0, and out is "", where it is empty or
 * cannot be read. */
size_t vg_text_read(const char *path, char *out, size_t size);

#endif
