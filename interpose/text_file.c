/* text_file.c -- small text files, mostly of /proc, read without libc's streams.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "interpose/text_file.h"

#include <fcntl.h>

#include "interpose/raw_syscall.h"

size_t vg_text_read(const char *path, char *out, size_t size)
{
    int fd = (int)VG_CALL(openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    long n = fd >= 0 ? VG_CALL(read, fd, out, size - 1) : 0;
    if (fd >= 0)
        VG_CALL(close, fd);
    n = n > 0 ? n : 0;
    out[n] = 0;
    return (size_t)n;
}
