/* live.c -- live COUNT.
 * SPDX-License-Identifier: Apache-2.0
 *
 * COUNT live allocations; prints how much anonymous memory the process gained by them, in bytes.
 *
 * The driver keeps nothing per allocation and the program no list: what is gained is the guard's
 * indexes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"

static long anonymous_bytes(void)
{
    char line[256];
    long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status != NULL && fgets(line, sizeof line, status) != NULL)
        if (strncmp(line, "RssAnon:", 8) == 0)
            kib = atol(line + 8);
    if (status != NULL)
        fclose(status);
    return kib * 1024;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: live COUNT\n");
        return 2;
    }
    long before = 0;
    for (long i = 0; i < atol(argv[1]); i++) {
        CUdeviceptr address = 0;
        if (cuMemAlloc(&address, 512) != CUDA_SUCCESS)
            return 1;
        if (i == 0)
            before = anonymous_bytes(); /* the guard is up */
    }
    printf("%ld\n", anonymous_bytes() - before);
    return 0;
}
