/* test_sim_runtime_calls.c -- what the simulated runtimes, 13 and 12, hand to the driver.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Where forms differ.
 *
 * This program defines dlsym and gives both runtimes a look-up of its own: a few functions write
 * down what they are called with, the rest is the simulated driver's; not under a sanitizer, whose
 * own start needs the real dlsym. The driver's structures are laid out here by the public
 * interface, as a program sees them.
 */
#include "tests/sim/include/cuda.h"
#include "tests/sim/include/cuda_runtime_api.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define INTERPOSED 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define INTERPOSED 0
#endif
#endif
#ifndef INTERPOSED
#define INTERPOSED 1
#endif

#if INTERPOSED
/* --- the driver's functions that write down --------------------------------------------------- */
struct external_handle {
    unsigned int type;
    union {
        int fd;
        void *win32[2];
    } handle;
    unsigned long long size;
    unsigned int flags, reserved[16];
};
struct external_buffer {
    unsigned long long offset, size;
    unsigned int flags, reserved[16];
};
struct external_mipmap {
    unsigned long long offset;
    CUDA_ARRAY3D_DESCRIPTOR array;
    unsigned int levels, reserved[16];
};
static struct {
    struct external_handle handle;
    struct external_buffer buffer;
    struct external_mipmap mipmap;
    cudaIpcMemHandle_t ipc;
    CUDA_ARRAY_DESCRIPTOR flat;
    CUDA_ARRAY3D_DESCRIPTOR deep;
    struct cudaMemLocation location;
    size_t edges;
    int launches;
} seen;

static CUresult import_external(void **out, const struct external_handle *desc)
{
    seen.handle = *desc;
    *out = &seen;
    return CUDA_SUCCESS;
}

static CUresult mapped_buffer(CUdeviceptr *out, void *memory, const struct external_buffer *desc)
{
    seen.buffer = *desc;
    *out = memory == &seen ? 0x1000 : 0;
    return CUDA_SUCCESS;
}

static CUresult mapped_mipmap(void **out, void *memory, const struct external_mipmap *desc)
{
    seen.mipmap = *desc;
    *out = memory;
    return CUDA_SUCCESS;
}

static CUresult open_ipc(CUdeviceptr *out, cudaIpcMemHandle_t handle, unsigned int flags)
{
    seen.ipc = handle;
    *out = 0x2000 + flags;
    return CUDA_SUCCESS;
}

static CUresult flat_array(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *desc)
{
    seen.flat = *desc;
    *out = (CUarray)&seen;
    return CUDA_SUCCESS;
}

static CUresult deep_array(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    seen.deep = *desc;
    *out = (CUarray)&seen;
    return CUDA_SUCCESS;
}

static CUresult advise(CUdeviceptr pointer, size_t bytes, unsigned int advice,
                       struct cudaMemLocation location)
{
    seen.location = location;
    return pointer && bytes && advice ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult dependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                             const void *edges, size_t count)
{
    (void)graph, (void)from, (void)to;
    seen.edges = edges ? count : 0;
    return CUDA_SUCCESS;
}

static CUresult launch(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
                       unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
                       CUstream stream, void **arguments, void **extra)
{
    (void)gy, (void)gz, (void)by, (void)bz, (void)shared, (void)stream, (void)arguments;
    (void)extra;
    seen.launches++;
    return f && gx == 2 && bx == 64 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* --- the look-up, and the dlsym that hands it out --------------------------------------------- */
static CUresult (*real_get_proc)(const char *, void **, int, cuuint64_t,
                                 CUdriverProcAddressQueryResult *);

static const struct {
    const char *name;
    int since;
    void (*function)(void);
} fakes[] = {
    {"cuImportExternalMemory", 10000, (void (*)(void))import_external},
    {"cuExternalMemoryGetMappedBuffer", 10000, (void (*)(void))mapped_buffer},
    {"cuExternalMemoryGetMappedMipmappedArray", 10000, (void (*)(void))mapped_mipmap},
    {"cuIpcOpenMemHandle", 11000, (void (*)(void))open_ipc},
    {"cuArrayCreate", 3020, (void (*)(void))flat_array},
    {"cuArray3DCreate", 3020, (void (*)(void))deep_array},
    {"cuMemAdvise", 12020, (void (*)(void))advise},
    {"cuGraphAddDependencies", 12030, (void (*)(void))dependencies},
    {"cuLaunchKernel", 4000, (void (*)(void))launch},
};

static CUresult get_proc(const char *name, void **pfn, int version, cuuint64_t flags,
                         CUdriverProcAddressQueryResult *status)
{
    for (size_t i = 0; i < sizeof(fakes) / sizeof(fakes[0]); i++)
        if (strcmp(name, fakes[i].name) == 0 && version == fakes[i].since && !flags) {
            memcpy(pfn, &fakes[i].function, sizeof(*pfn));
            return CUDA_SUCCESS;
        }
    if (strcmp(name, "cuGraphDestroy") == 0) /* as on a driver that is older than this function */
        return CUDA_ERROR_NOT_FOUND;
    return real_get_proc(name, pfn, version, flags, status);
}

__attribute__((visibility("default"))) void *dlsym(void *handle, const char *name)
{
    static void *(*real)(void *, const char *);
    if (!real) {
        void *found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
        if (!found)
            found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
        memcpy(&real, &found, sizeof(real));
    }
    void *symbol = real(handle, name);
    if (strcmp(name, "cuGetProcAddress_v2") == 0) {
        __typeof__(&get_proc) ours = get_proc;
        memcpy(&real_get_proc, &symbol, sizeof(symbol));
        memcpy(&symbol, &ours, sizeof(symbol));
    }
    return symbol;
}

static void *runtimes[2]; /* 13, 12 */

static void *find(int which, const char *name)
{
    void *symbol = dlsym(runtimes[which], name);
    if (!symbol)
        fail_msg("runtime %d has no %s", 13 - which, name);
    return symbol;
}

/* A call of a function of one of the runtimes. */
#define RT(which, name, args) (((__typeof__(&name))(uintptr_t)find(which, #name))args)

static int open_runtimes(void **state)
{
    (void)state;
    const char *build = getenv("BUILD") ? getenv("BUILD") : "build";
    char path[512];
    snprintf(path, sizeof(path), "%s/sim/libcuda.so.1", build);
    assert_non_null(dlopen(path, RTLD_NOW | RTLD_GLOBAL)); /* found by its SONAME from here on */
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/sim/libcudart.so.%d", build, 13 - i);
        runtimes[i] = dlopen(path, RTLD_NOW);
        assert_non_null(runtimes[i]);
    }
    return 0;
}

/* --- tests ------------------------------------------------------------------------------------ */

/* 12's structures end before the reserved words: what lies behind them must not reach the
 * driver. */
static void test_external_memory_is_described_in_the_drivers_layout(void **state)
{
    (void)state;
    static const unsigned int zero[16];
    for (int i = 0; i < 2; i++) {
        struct cudaExternalMemoryHandleDesc desc;
        struct cudaExternalMemoryBufferDesc range;
        cudaExternalMemory_t memory;
        void *pointer;
        memset(&seen, 0, sizeof(seen));
        memset(&desc, 0xa5, sizeof(desc));
        memset(&range, 0xa5, sizeof(range));
        desc.type = cudaExternalMemoryHandleTypeOpaqueFd;
        desc.handle.fd = 77;
        desc.size = 1 << 20;
        desc.flags = cudaExternalMemoryDedicated;
        range.offset = 4096;
        range.size = 8192;
        range.flags = 0;
        assert_int_equal(RT(i, cudaImportExternalMemory, (&memory, &desc)), cudaSuccess);
        assert_int_equal(seen.handle.type, 1);
        assert_int_equal(seen.handle.handle.fd, 77);
        assert_int_equal(seen.handle.size, 1 << 20);
        assert_int_equal(seen.handle.flags, 1);
        assert_memory_equal(seen.handle.reserved, zero, sizeof(zero));
        assert_int_equal(RT(i, cudaExternalMemoryGetMappedBuffer, (&pointer, memory, &range)),
                         cudaSuccess);
        assert_ptr_equal(pointer, (void *)0x1000);
        assert_true(seen.buffer.offset == 4096 && seen.buffer.size == 8192 && !seen.buffer.flags);
        assert_memory_equal(seen.buffer.reserved, zero, sizeof(zero));
    }
}

static void test_an_external_mipmap_has_a_format_and_levels(void **state)
{
    (void)state;
    struct cudaExternalMemoryMipmappedArrayDesc desc = {
        .offset = 512,
        .formatDesc = {16, 16, 16, 16, cudaChannelFormatKindFloat},
        .extent = {64, 32, 0},
        .flags = cudaArrayColorAttachment,
        .numLevels = 3};
    cudaMipmappedArray_t mipmap;
    for (int i = 0; i < 2; i++) {
        memset(&seen, 0, sizeof(seen));
        assert_int_equal(
            RT(i, cudaExternalMemoryGetMappedMipmappedArray, (&mipmap, (void *)&seen, &desc)),
            cudaSuccess);
        assert_int_equal(seen.mipmap.offset, 512);
        assert_int_equal(seen.mipmap.array.Format, 0x10);
        assert_int_equal(seen.mipmap.array.NumChannels, 4);
        assert_int_equal(seen.mipmap.array.Width, 64);
        assert_int_equal(seen.mipmap.array.Flags, 0x20);
        assert_int_equal(seen.mipmap.levels, 3);
    }
}

static void test_arrays_are_described_by_format_and_channels(void **state)
{
    (void)state;
    struct cudaChannelFormatDesc two = {8, 8, 0, 0, cudaChannelFormatKindUnsigned},
                                 three = {8, 8, 8, 0, cudaChannelFormatKindUnsigned},
                                 mixed = {8, 16, 0, 0, cudaChannelFormatKindUnsigned},
                                 odd = {12, 0, 0, 0, cudaChannelFormatKindSigned},
                                 one = {32, 0, 0, 0, cudaChannelFormatKindSigned};
    struct cudaExtent box = {5, 6, 7};
    cudaArray_t array;
    for (int i = 0; i < 2; i++) {
        memset(&seen, 0, sizeof(seen));
        assert_int_equal(RT(i, cudaMallocArray, (&array, &two, 10, 20, 0)), cudaSuccess);
        assert_true(seen.flat.Width == 10 && seen.flat.Height == 20);
        assert_true(seen.flat.Format == 0x01 && seen.flat.NumChannels == 2);
        assert_int_equal(RT(i, cudaMalloc3DArray, (&array, &one, box, cudaArrayLayered)),
                         cudaSuccess);
        assert_true(seen.deep.Width == 5 && seen.deep.Height == 6 && seen.deep.Depth == 7);
        assert_true(seen.deep.Format == 0x0a && seen.deep.NumChannels == 1 && seen.deep.Flags == 1);
        const struct cudaChannelFormatDesc *bad[] = {&three, &mixed, &odd};
        for (size_t j = 0; j < 3; j++)
            assert_int_equal(RT(i, cudaMallocArray, (&array, bad[j], 10, 20, 0)),
                             cudaErrorInvalidValue);
        assert_int_equal(RT(i, cudaGetLastError, ()), cudaErrorInvalidValue);
    }
}

static void test_handles_of_other_processes_are_passed_by_value(void **state)
{
    (void)state;
    cudaIpcMemHandle_t handle;
    void *pointer;
    for (int i = 0; i < 2; i++) {
        memset(&handle, 0x40 + i, sizeof(handle));
        assert_int_equal(RT(i, cudaIpcOpenMemHandle, (&pointer, handle, 1)), cudaSuccess);
        assert_memory_equal(&seen.ipc, &handle, sizeof(handle));
        assert_ptr_equal(pointer, (void *)0x2001);
    }
}

static void test_12_has_the_new_forms_under_names_of_their_own(void **state)
{
    (void)state;
    struct cudaMemLocation where = {cudaMemLocationTypeDevice, 3};
    cudaGraphEdgeData edges[2] = {{0}};
    void *pointer = &where;
    __typeof__(&cudaMemAdvise) advise_12;
    __typeof__(&cudaGraphAddDependencies) add_12;
    void *symbol = find(1, "cudaMemAdvise_v2");
    memcpy(&advise_12, &symbol, sizeof(symbol));
    symbol = find(1, "cudaGraphAddDependencies_v2");
    memcpy(&add_12, &symbol, sizeof(symbol));
    memset(&seen, 0, sizeof(seen));
    assert_int_equal(advise_12(pointer, 4096, cudaMemAdviseSetReadMostly, where), cudaSuccess);
    assert_int_equal(seen.location.id, 3);
    assert_int_equal(add_12(NULL, NULL, NULL, edges, 2), cudaSuccess);
    assert_int_equal(seen.edges, 2);
    memset(&seen, 0, sizeof(seen));
    assert_int_equal(RT(0, cudaMemAdvise, (pointer, 4096, cudaMemAdviseSetReadMostly, where)),
                     cudaSuccess);
    assert_int_equal(seen.location.id, 3);
    assert_int_equal(RT(0, cudaGraphAddDependencies, (NULL, NULL, NULL, edges, 2)), cudaSuccess);
    assert_int_equal(seen.edges, 2);
}

static void test_a_launch_reaches_the_driver(void **state)
{
    (void)state;
    static const char kernel;
    dim3 grid = {2, 1, 1}, block = {64, 1, 1};
    seen.launches = 0;
    for (int i = 0; i < 2; i++)
        assert_int_equal(RT(i, cudaLaunchKernel, (&kernel, grid, block, NULL, 0, NULL)),
                         cudaSuccess);
    assert_int_equal(seen.launches, 2);
}

static void test_what_the_driver_lacks_is_not_supported(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(RT(i, cudaGraphDestroy, (NULL)), cudaErrorNotSupported);
        assert_int_equal(RT(i, cudaGetLastError, ()), cudaErrorNotSupported);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_external_memory_is_described_in_the_drivers_layout),
        cmocka_unit_test(test_an_external_mipmap_has_a_format_and_levels),
        cmocka_unit_test(test_arrays_are_described_by_format_and_channels),
        cmocka_unit_test(test_handles_of_other_processes_are_passed_by_value),
        cmocka_unit_test(test_12_has_the_new_forms_under_names_of_their_own),
        cmocka_unit_test(test_a_launch_reaches_the_driver),
        cmocka_unit_test(test_what_the_driver_lacks_is_not_supported),
    };
    return cmocka_run_group_tests(tests, open_runtimes, NULL);
}
#else
int main(void)
{
    return 0;
}
#endif /* INTERPOSED */
