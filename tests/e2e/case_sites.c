/* case_sites.c -- as many call sites as its argument says, each of about 24 frames.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <signal.h>

#include "case.h"

enum { LEVELS = 20 };

static void descend(unsigned path, unsigned level);

/* Two ways down at every level: the path's bits choose. */
static __attribute__((noinline)) void descend(unsigned path, unsigned level)
{
    if (!level)
        take(512);
    else if (path & 1)
        descend(path >> 1, level - 1);
    else
        descend(path >> 1, level - 1);
    __asm__ volatile(""); /* no jump instead of the call */
}

int main(int argc, char **argv)
{
    unsigned count = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
    use_device();
    for (unsigned i = 0; i < count; i++)
        descend(i, LEVELS);
    printf("%u\n", count);
    fflush(stdout);
    kill(getpid(), 9);
    return 0;
}
