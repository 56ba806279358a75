/* case.h -- what the small programs of the end-to-end tests share.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each is one file of short scenarios, chosen by its first argument, on the driver API; it prints
 * what the report has to agree with.
 */
#ifndef CASE_H
#define CASE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda.h"

#define MIB ((size_t)1 << 20)

#define NEED(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static inline void use_device(void)
{
    CUcontext context;
    NEED(cuInit(0) == CUDA_SUCCESS);
    NEED(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    NEED(cuCtxSetCurrent(context) == CUDA_SUCCESS);
}

static inline CUdeviceptr take(size_t bytes)
{
    CUdeviceptr address;
    NEED(cuMemAlloc(&address, bytes) == CUDA_SUCCESS);
    return address;
}

static inline void give(CUdeviceptr address)
{
    NEED(cuMemFree(address) == CUDA_SUCCESS);
}

struct scenario {
    const char *name;
    int (*run)(int argc, char **argv);
};

/* What main() of every such program returns. */
static inline int run_scenario(const struct scenario *all, size_t count, int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < count; i++)
        if (strcmp(all[i].name, argv[1]) == 0)
            return all[i].run(argc, argv);
    fprintf(stderr, "no such scenario\n");
    return 99;
}

#endif
