/* test_sim_runtime.c -- the simulated CUDA runtime.
 * SPDX-License-Identifier: Apache-2.0
 *
 * How it reaches the driver, and what its calls promise.
 *
 * This program defines dlsym, as an interposer does, and hands the runtime a cuGetProcAddress_v2
 * that writes down what it is asked; not under a sanitizer, whose own start needs the real dlsym.
 * Runtime and driver are opened by path from $BUILD/sim.
 */
#include "tests/sim/include/cuda.h"
#include "tests/sim/include/cuda_runtime_api.h"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define MIB ((size_t)1 << 20)

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
/* --- what the runtime asked for --------------------------------------------------------------- */
static struct {
    char dlsym_names[8][64];
    int dlsym_count;
    struct lookup {
        char name[64];
        int version;
        cuuint64_t flags;
        bool status_wanted;
    } lookups[512];
    int lookup_count;
    int allocations;
    CUresult (*real_get_proc)(const char *, void **, int, cuuint64_t,
                              CUdriverProcAddressQueryResult *);
    CUresult (*real_alloc)(CUdeviceptr *, size_t);
    int async_allocations[2]; /* legacy, per thread */
    CUresult (*real_async_alloc[2])(CUdeviceptr *, size_t, CUstream);
} seen;

static CUresult counting_alloc(CUdeviceptr *pointer, size_t bytes)
{
    seen.allocations++;
    return seen.real_alloc(pointer, bytes);
}

static CUresult counting_async_alloc(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
    seen.async_allocations[0]++;
    return seen.real_async_alloc[0](pointer, bytes, stream);
}

static CUresult counting_async_alloc_ptsz(CUdeviceptr *pointer, size_t bytes, CUstream stream)
{
    seen.async_allocations[1]++;
    return seen.real_async_alloc[1](pointer, bytes, stream);
}

static void count_async(void **pfn, bool per_thread)
{
    CUresult (*counted)(CUdeviceptr *, size_t, CUstream) =
        per_thread ? counting_async_alloc_ptsz : counting_async_alloc;
    memcpy(&seen.real_async_alloc[per_thread], pfn, sizeof(counted));
    memcpy(pfn, &counted, sizeof(counted));
}

static CUresult logging_get_proc(const char *name, void **pfn, int version, cuuint64_t flags,
                                 CUdriverProcAddressQueryResult *status)
{
    struct lookup *lookup = &seen.lookups[seen.lookup_count++];
    snprintf(lookup->name, sizeof(lookup->name), "%s", name);
    lookup->version = version;
    lookup->flags = flags;
    lookup->status_wanted = status != NULL;
    CUresult result = seen.real_get_proc(name, pfn, version, flags, status);
    if (result == CUDA_SUCCESS && strcmp(name, "cuMemAlloc") == 0) {
        CUresult (*counted)(CUdeviceptr *, size_t) = counting_alloc;
        memcpy(&seen.real_alloc, pfn, sizeof(seen.real_alloc));
        memcpy(pfn, &counted, sizeof(counted));
    }
    if (result == CUDA_SUCCESS && strcmp(name, "cuMemAllocAsync") == 0)
        count_async(pfn, flags == 2);
    return result;
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
    if (strncmp(name, "cu", 2) != 0 || strncmp(name, "cuda", 4) == 0)
        return symbol;
    snprintf(seen.dlsym_names[seen.dlsym_count++ % 8], sizeof(seen.dlsym_names[0]), "%s", name);
    if (strcmp(name, "cuGetProcAddress_v2") == 0) {
        __typeof__(&logging_get_proc) logging = logging_get_proc;
        memcpy(&seen.real_get_proc, &symbol, sizeof(symbol));
        memcpy(&symbol, &logging, sizeof(symbol));
    }
    return symbol;
}

#endif /* INTERPOSED */

/* --- the runtime under test ------------------------------------------------------------------- */
#define FUNCTIONS                                                                                  \
    F(cudaDeviceReset)                                                                             \
    F(cudaDeviceSynchronize)                                                                       \
    F(cudaFree)                                                                                    \
    F(cudaFreeAsync)                                                                               \
    F(cudaGetDevice)                                                                               \
    F(cudaGetDeviceCount)                                                                          \
    F(cudaGetDeviceProperties)                                                                     \
    F(cudaGetDriverEntryPointByVersion)                                                            \
    F(cudaGetErrorName)                                                                            \
    F(cudaGetErrorString)                                                                          \
    F(cudaGetLastError)                                                                            \
    F(cudaHostAlloc)                                                                               \
    F(cudaFreeHost)                                                                                \
    F(cudaLaunchKernel)                                                                            \
    F(cudaMalloc)                                                                                  \
    F(cudaMallocAsync)                                                                             \
    F(cudaMallocPitch)                                                                             \
    F(cudaMemGetInfo)                                                                              \
    F(cudaMemcpy)                                                                                  \
    F(cudaMemcpy2D)                                                                                \
    F(cudaMemset)                                                                                  \
    F(cudaPeekAtLastError)                                                                         \
    F(cudaPointerGetAttributes)                                                                    \
    F(cudaSetDevice)
#define F(name) __typeof__(&name) name;
static struct {
    FUNCTIONS
    cudaError_t (*cudaCreateTextureObject)(void);
    __typeof__(&cudaMallocAsync) cudaMallocAsync_ptsz;
    __typeof__(&cudaGetDriverEntryPointByVersion) cudaGetDriverEntryPointByVersion_ptsz;
} rt;
#undef F

static void *runtime;

static void find(void *field, const char *name)
{
    void *symbol = dlsym(runtime, name);
    if (!symbol)
        fail_msg("the runtime has no %s", name);
    memcpy(field, &symbol, sizeof(symbol));
}

static int open_simulation(void **state)
{
    (void)state;
    char path[512];
    const char *build = getenv("BUILD") ? getenv("BUILD") : "build";
    setenv("VGSIM_MEMORY", "1GiB", 1);
    setenv("VGSIM_CONTEXT", "100MiB", 1);
    snprintf(path, sizeof(path), "%s/sim/libcuda.so.1", build);
    assert_non_null(dlopen(path, RTLD_NOW | RTLD_GLOBAL)); /* found by its SONAME from here on */
    snprintf(path, sizeof(path), "%s/sim/libcudart.so.13", build);
    runtime = dlopen(path, RTLD_NOW);
    assert_non_null(runtime);
#define F(name) find(&rt.name, #name);
    FUNCTIONS
    find(&rt.cudaCreateTextureObject, "cudaCreateTextureObject");
    find(&rt.cudaMallocAsync_ptsz, "cudaMallocAsync_ptsz");
    find(&rt.cudaGetDriverEntryPointByVersion_ptsz, "cudaGetDriverEntryPointByVersion_ptsz");
    return 0;
}

#if INTERPOSED
static const struct lookup *lookup_of(const char *name, int nth)
{
    for (int i = 0; i < seen.lookup_count; i++)
        if (strcmp(seen.lookups[i].name, name) == 0 && nth-- == 0)
            return &seen.lookups[i];
    fail_msg("%s was not looked up", name);
    return NULL;
}

/* --- tests: the lookups first ----------------------------------------------------------- */
static void test_loading_the_runtime_asks_for_nothing(void **state)
{
    (void)state;
    assert_int_equal(seen.dlsym_count, 0);
}

static void test_the_first_call_makes_one_dlsym_and_looks_the_rest_up(void **state)
{
    (void)state;
    int count = 0;
    assert_int_equal(rt.cudaGetDeviceCount(&count), cudaSuccess);
    assert_int_equal(count, 1);
    assert_int_equal(seen.dlsym_count, 1);
    assert_string_equal(seen.dlsym_names[0], "cuGetProcAddress_v2");
    assert_string_equal(seen.lookups[0].name, "");
    assert_int_equal(seen.lookups[0].version, 0);
    for (int i = 0; i < seen.lookup_count; i++)
        assert_false(seen.lookups[i].status_wanted);
    assert_int_equal(lookup_of("cuMemAlloc", 0)->version, 3020);
    assert_int_equal(lookup_of("cuDevicePrimaryCtxReset", 0)->version, 7000);
    assert_int_equal(lookup_of("cuGetProcAddress", 0)->version, 11030);
    assert_int_equal(lookup_of("cuGetProcAddress", 1)->version, 12000);
    assert_int_equal(lookup_of("cuMemAllocAsync", 0)->flags, 0);
    assert_int_equal(lookup_of("cuMemAllocAsync", 1)->flags, 2);
}

static void test_lookups_are_made_once(void **state)
{
    (void)state;
    int lookups = seen.lookup_count;
    void *pointer;
    assert_int_equal(rt.cudaMalloc(&pointer, 4096), cudaSuccess);
    assert_int_equal(rt.cudaFree(pointer), cudaSuccess);
    assert_int_equal(seen.lookup_count, lookups);
    assert_int_equal(seen.dlsym_count, 1);
}

static void test_an_allocation_of_nothing_does_not_reach_the_driver(void **state)
{
    (void)state;
    void *pointer = &pointer;
    int before = seen.allocations;
    assert_int_equal(rt.cudaMalloc(&pointer, 0), cudaSuccess);
    assert_null(pointer);
    assert_int_equal(seen.allocations, before);
    assert_int_equal(rt.cudaMalloc(&pointer, 1), cudaSuccess);
    assert_int_equal(seen.allocations, before + 1);
    assert_int_equal(rt.cudaFree(pointer), cudaSuccess);
}

static void test_each_form_of_a_call_reaches_its_form_in_the_driver(void **state)
{
    (void)state;
    void *legacy, *per_thread;
    assert_int_equal(rt.cudaMallocAsync(&legacy, 4096, NULL), cudaSuccess);
    assert_int_equal(seen.async_allocations[0], 1);
    assert_int_equal(seen.async_allocations[1], 0);
    assert_int_equal(rt.cudaMallocAsync_ptsz(&per_thread, 4096, NULL), cudaSuccess);
    assert_int_equal(seen.async_allocations[0], 1);
    assert_int_equal(seen.async_allocations[1], 1);
    assert_int_equal(rt.cudaFreeAsync(legacy, NULL), cudaSuccess);
    assert_int_equal(rt.cudaFreeAsync(per_thread, NULL), cudaSuccess);
    assert_int_equal(rt.cudaDeviceSynchronize(), cudaSuccess); /* the pool gives its memory back */
}
#endif /* INTERPOSED */

static void test_entry_points_without_flags_are_of_the_callers_stream(void **state)
{
    (void)state;
    void *legacy, *per_thread, *asked;
    enum cudaDriverEntryPointQueryResult status;
    assert_int_equal(
        rt.cudaGetDriverEntryPointByVersion("cuMemFreeAsync", &legacy, 12000, 0, &status),
        cudaSuccess);
    assert_int_equal(
        rt.cudaGetDriverEntryPointByVersion_ptsz("cuMemFreeAsync", &per_thread, 12000, 0, &status),
        cudaSuccess);
    assert_int_equal(rt.cudaGetDriverEntryPointByVersion_ptsz("cuMemFreeAsync", &asked, 12000,
                                                              cudaEnableLegacyStream, &status),
                     cudaSuccess);
    assert_ptr_not_equal(legacy, per_thread);
    assert_ptr_equal(legacy, asked);
}

static bool context_is_active(void)
{
    CUresult (*get_state)(CUdevice, unsigned int *, int *);
    enum cudaDriverEntryPointQueryResult status;
    void *symbol;
    unsigned int flags;
    int active = -1;
    assert_int_equal(rt.cudaGetDriverEntryPointByVersion("cuDevicePrimaryCtxGetState", &symbol,
                                                         7000, 0, &status),
                     cudaSuccess);
    memcpy(&get_state, &symbol, sizeof(symbol));
    assert_int_equal(get_state(0, &flags, &active), CUDA_SUCCESS);
    return active;
}

static void test_only_asking_makes_no_context(void **state)
{
    (void)state;
    int device = -1;
    static struct cudaDeviceProp prop;
    assert_int_equal(rt.cudaGetDevice(&device), cudaSuccess);
    assert_int_equal(device, 0);
    assert_int_equal(rt.cudaGetDeviceProperties(&prop, 0), cudaSuccess);
    assert_int_equal(prop.totalGlobalMem, 1024 * MIB);
    assert_int_equal(prop.warpSize, 32);
    assert_true(prop.major >= 7 && prop.maxThreadsPerMultiProcessor > 0 && prop.name[0]);
    assert_false(context_is_active());
    assert_int_equal(rt.cudaFree(NULL), cudaSuccess);
    assert_true(context_is_active());
}

static void *read_last_error(void *error_out)
{
    *(cudaError_t *)error_out = rt.cudaGetLastError();
    return NULL;
}

static void test_a_failure_stays_until_its_thread_reads_it(void **state)
{
    (void)state;
    void *pointer = NULL;
    cudaError_t elsewhere = cudaErrorUnknown;
    pthread_t thread;
    assert_int_equal(rt.cudaMalloc(&pointer, 4096 * MIB), cudaErrorMemoryAllocation);
    assert_null(pointer);
    assert_int_equal(rt.cudaMalloc(&pointer, 4096), cudaSuccess);
    pthread_create(&thread, NULL, read_last_error, &elsewhere);
    pthread_join(thread, NULL);
    assert_int_equal(elsewhere, cudaSuccess);
    assert_int_equal(rt.cudaPeekAtLastError(), cudaErrorMemoryAllocation);
    assert_int_equal(rt.cudaGetLastError(), cudaErrorMemoryAllocation);
    assert_int_equal(rt.cudaGetLastError(), cudaSuccess);
    assert_string_equal(rt.cudaGetErrorName(cudaErrorMemoryAllocation),
                        "cudaErrorMemoryAllocation");
    assert_string_equal(rt.cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
    assert_int_equal(rt.cudaFree(pointer), cudaSuccess);
}

static void test_copies_arrive(void **state)
{
    (void)state;
    char from[64], to[64] = {0};
    void *device, *pitched;
    size_t pitch;
    for (size_t i = 0; i < sizeof(from); i++)
        from[i] = (char)i;
    assert_int_equal(rt.cudaMalloc(&device, 64), cudaSuccess);
    assert_int_equal(rt.cudaMemcpy(device, from, 64, cudaMemcpyHostToDevice), cudaSuccess);
    assert_int_equal(rt.cudaMallocPitch(&pitched, &pitch, 8, 8), cudaSuccess);
    assert_true(pitch >= 8);
    assert_int_equal(rt.cudaMemcpy2D(pitched, pitch, device, 8, 8, 8, cudaMemcpyDeviceToDevice),
                     cudaSuccess);
    assert_int_equal(rt.cudaMemcpy2D(to, 8, pitched, pitch, 8, 8, cudaMemcpyDefault), cudaSuccess);
    assert_memory_equal(from, to, 64);
    assert_int_equal(rt.cudaMemset(device, 7, 64), cudaSuccess);
    assert_int_equal(rt.cudaMemcpy(to, device, 64, cudaMemcpyDeviceToHost), cudaSuccess);
    assert_int_equal(to[63], 7);
    assert_int_equal(rt.cudaFree(pitched), cudaSuccess);
    assert_int_equal(rt.cudaFree(device), cudaSuccess);
}

static void test_pointers_are_told_apart(void **state)
{
    (void)state;
    struct cudaPointerAttributes attributes;
    void *device, *pinned;
    assert_int_equal(rt.cudaMalloc(&device, 4096), cudaSuccess);
    assert_int_equal(rt.cudaHostAlloc(&pinned, 4096, cudaHostAllocDefault), cudaSuccess);
    assert_int_equal(rt.cudaPointerGetAttributes(&attributes, (char *)device + 100), cudaSuccess);
    assert_int_equal(attributes.type, cudaMemoryTypeDevice);
    assert_int_equal(attributes.device, 0);
    assert_int_equal(rt.cudaPointerGetAttributes(&attributes, pinned), cudaSuccess);
    assert_int_equal(attributes.type, cudaMemoryTypeHost);
    assert_int_equal(rt.cudaPointerGetAttributes(&attributes, &attributes), cudaSuccess);
    assert_int_equal(attributes.type, cudaMemoryTypeUnregistered);
    assert_int_equal(rt.cudaFreeHost(pinned), cudaSuccess);
    assert_int_equal(rt.cudaFree(device), cudaSuccess);
    assert_int_equal(rt.cudaGetLastError(), cudaSuccess);
}

static void test_driver_entry_points_come_with_a_status(void **state)
{
    (void)state;
    enum cudaDriverEntryPointQueryResult status;
    void *symbol = NULL;
    assert_int_equal(rt.cudaGetDriverEntryPointByVersion("cuMemCreate", &symbol, 12000, 0, &status),
                     cudaSuccess);
    assert_int_equal(status, cudaDriverEntryPointSuccess);
    assert_non_null(symbol);
    assert_int_equal(
        rt.cudaGetDriverEntryPointByVersion("cuNoSuchThing", &symbol, 12000, 0, &status),
        cudaSuccess);
    assert_int_equal(status, cudaDriverEntryPointSymbolNotFound);
    assert_null(symbol);
}

static void test_what_is_not_simulated_says_so(void **state)
{
    (void)state;
    assert_int_equal(rt.cudaCreateTextureObject(), cudaErrorNotSupported);
    assert_int_equal(rt.cudaGetLastError(), cudaErrorNotSupported);
}

static void test_a_launch_wants_a_configuration_that_exists(void **state)
{
    (void)state;
    static const char kernel;
    dim3 one = {1, 1, 1}, many = {2048, 1, 1};
    assert_int_equal(rt.cudaLaunchKernel(&kernel, many, one, NULL, 0, NULL), cudaSuccess);
    assert_int_equal(rt.cudaLaunchKernel(&kernel, one, many, NULL, 0, NULL),
                     cudaErrorInvalidConfiguration);
    assert_int_equal(rt.cudaGetLastError(), cudaErrorInvalidConfiguration);
}

static void test_a_reset_gives_everything_back(void **state)
{
    (void)state;
    void *pointer;
    size_t before, after, total;
    assert_int_equal(rt.cudaMemGetInfo(&before, &total), cudaSuccess);
    assert_int_equal(rt.cudaMalloc(&pointer, 64 * MIB), cudaSuccess);
    assert_int_equal(rt.cudaDeviceReset(), cudaSuccess);
    assert_false(context_is_active());
    assert_int_equal(rt.cudaMemGetInfo(&after, &total), cudaSuccess); /* makes a context again */
    assert_true(context_is_active());
    assert_int_equal(after, before);
    assert_int_equal(total, 1024 * MIB);
}

/* In a thread of its own: without a current context, the thread's device is all there is. */
static void *choose_a_missing_device(void *device_out)
{
    cudaError_t error = rt.cudaSetDevice(1);
    rt.cudaGetDevice(device_out);
    return error == cudaErrorInvalidDevice && rt.cudaGetLastError() == error ? device_out : NULL;
}

static void test_a_device_that_does_not_exist_is_refused(void **state)
{
    (void)state;
    int device = -1;
    void *refused;
    pthread_t thread;
    pthread_create(&thread, NULL, choose_a_missing_device, &device);
    pthread_join(thread, &refused);
    assert_non_null(refused);
    assert_int_equal(device, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#if INTERPOSED
        cmocka_unit_test(test_loading_the_runtime_asks_for_nothing),
        cmocka_unit_test(test_the_first_call_makes_one_dlsym_and_looks_the_rest_up),
#endif
        cmocka_unit_test(test_only_asking_makes_no_context),
#if INTERPOSED
        cmocka_unit_test(test_lookups_are_made_once),
        cmocka_unit_test(test_an_allocation_of_nothing_does_not_reach_the_driver),
        cmocka_unit_test(test_each_form_of_a_call_reaches_its_form_in_the_driver),
#endif
        cmocka_unit_test(test_entry_points_without_flags_are_of_the_callers_stream),
        cmocka_unit_test(test_a_failure_stays_until_its_thread_reads_it),
        cmocka_unit_test(test_copies_arrive),
        cmocka_unit_test(test_pointers_are_told_apart),
        cmocka_unit_test(test_driver_entry_points_come_with_a_status),
        cmocka_unit_test(test_what_is_not_simulated_says_so),
        cmocka_unit_test(test_a_launch_wants_a_configuration_that_exists),
        cmocka_unit_test(test_a_reset_gives_everything_back),
        cmocka_unit_test(test_a_device_that_does_not_exist_is_refused),
    };
    return cmocka_run_group_tests(tests, open_simulation, NULL);
}
