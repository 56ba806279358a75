/* steps.h -- a program that stops at named steps, so that a test can look at it while it lives.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef STEPS_H
#define STEPS_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Goes on when a line comes on stdin. */
static inline void step(const char *name)
{
    char line[8];
    printf("step %s\n", name);
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin))
        exit(2);
}

/* Longer than VRAMGUARD_SAMPLE=1ms and than a tick of the guard's coarse clock: it looks again at
 * the next event. */
static inline void let_a_sample_come_due(void)
{
    usleep(12000);
}

#endif
