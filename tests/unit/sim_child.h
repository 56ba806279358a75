/* sim_child.h -- a test of the simulated GPU: a child process with its own knobs.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:      the knobs are read once in a process, so every test forks before it loads the
 *             libraries. They are found by name (LD_LIBRARY_PATH=build/sim).
 */
#ifndef VG_TEST_SIM_CHILD_H
#define VG_TEST_SIM_CHILD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define __CUDA_API_VERSION_INTERNAL
#include "tests/sim/include/cuda.h"
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include "tests/sim/include/nvml.h"

#define KIB (1024ull)
#define MIB (1024ull * 1024)
#define GIB (1024ull * 1024 * 1024)

/* In a child an assertion of cmocka would run the parent's list of tests on: say it and leave
 * instead. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)
#define CHECK_EQUAL(got, wanted)                                                                   \
    do {                                                                                           \
        long long got_ = (long long)(got), wanted_ = (long long)(wanted);                          \
        if (got_ != wanted_) {                                                                     \
            fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #got, got_,       \
                    wanted_);                                                                      \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* CU(export)(arguments) calls an export of the simulated libcuda, NV(export) one of its NVML. */
#define CU(name) ((__typeof__(&name))sim_symbol("libcuda.so.1", #name))
#define NV(name) ((__typeof__(&name))sim_symbol("libnvidia-ml.so.1", #name))

static inline void (*sim_symbol(const char *library, const char *name))(void)
{
    void (*function)(void) = NULL;
    void *handle = dlopen(library, RTLD_NOW);
    CHECK(handle != NULL);
    void *symbol = dlsym(handle, name);
    CHECK(symbol != NULL);
    memcpy(&function, &symbol, sizeof function);
    return function;
}

/* Runs body in a child with these knobs ("NAME=value", NULL-terminated); returns its wait
 * status. */
static inline int sim_child(void (*body)(void), const char *const *knobs)
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        for (; *knobs; knobs++)
            putenv((char *)(uintptr_t)*knobs);
        body();
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

/* Without a knob of its own a test gives NULL. */
#define IN_CHILD(body, ...)                                                                        \
    do {                                                                                           \
        const char *const knobs_[] = {__VA_ARGS__, NULL};                                          \
        assert_int_equal(sim_child(body, knobs_), 0);                                              \
    } while (0)

/* The primary context of a device, current. */
static inline CUcontext sim_start(CUdevice device)
{
    CUcontext context;
    CHECK_EQUAL(CU(cuInit)(0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuDevicePrimaryCtxRetain)(&context, device), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuCtxSetCurrent)(context), CUDA_SUCCESS);
    return context;
}

static inline size_t sim_free(void)
{
    size_t free_bytes, total_bytes;
    CHECK_EQUAL(CU(cuMemGetInfo_v2)(&free_bytes, &total_bytes), CUDA_SUCCESS);
    return free_bytes;
}

static inline CUdeviceptr sim_alloc(size_t bytes)
{
    CUdeviceptr pointer = 0;
    CHECK_EQUAL(CU(cuMemAlloc_v2)(&pointer, bytes), CUDA_SUCCESS);
    return pointer;
}

#endif
