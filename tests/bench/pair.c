/* pair.c -- pair cuda|malloc PAIRS DEPTH: what an allocation and its free take.
 * SPDX-License-Identifier: Apache-2.0
 *
 * CPU nanoseconds, in calls made DEPTH calls below main.
 *
 * One program for the guard and for heaptrack, so that both see the same stack. It prints one
 * number.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda.h"

static void *volatile sink;

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void cuda_pairs(long count)
{
    for (long i = 0; i < count; i++) {
        CUdeviceptr address = 0;
        if (cuMemAlloc(&address, 4096) != CUDA_SUCCESS || cuMemFree(address) != CUDA_SUCCESS)
            abort();
    }
}

static void malloc_pairs(long count)
{
    for (long i = 0; i < count; i++) {
        sink = malloc(4096);
        free(sink);
    }
}

__attribute__((noinline)) static double descend(int depth, void (*pairs)(long), long count)
{
    if (depth > 0) {
        double taken = descend(depth - 1, pairs, count);
        __asm__ volatile("" ::: "memory"); /* no tail call: every level keeps its frame */
        return taken;
    }
    pairs(count / 10 + 1); /* what is done once is done before the clock starts */
    double begin = now_ns();
    pairs(count);
    return now_ns() - begin;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: pair cuda|malloc PAIRS DEPTH\n");
        return 2;
    }
    long count = atol(argv[2]);
    void (*pairs)(long) = strcmp(argv[1], "cuda") == 0 ? cuda_pairs : malloc_pairs;
    printf("%.2f\n", descend(atoi(argv[3]), pairs, count) / (double)count);
    return 0;
}
