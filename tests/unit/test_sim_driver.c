/* test_sim_driver.c -- the simulated driver's life.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Start, contexts, threads, fork, look-ups, planned failures.
 */
#include "tests/unit/sim_child.h"

#include <pthread.h>

static void body_before_init(void)
{
    CUdeviceptr pointer;
    int version = 0, count;
    CHECK_EQUAL(CU(cuDriverGetVersion)(&version), CUDA_SUCCESS);
    CHECK_EQUAL(version, 13000);
    CHECK_EQUAL(CU(cuDeviceGetCount)(&count), CUDA_ERROR_NOT_INITIALIZED);
    CHECK_EQUAL(CU(cuMemAlloc_v2)(&pointer, 1), CUDA_ERROR_NOT_INITIALIZED);
    CHECK_EQUAL(CU(cuInit)(0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuDeviceGetCount)(&count), CUDA_SUCCESS);
    CHECK_EQUAL(count, 2);
    CHECK_EQUAL(CU(cuMemAlloc_v2)(&pointer, 1), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_EQUAL(CU(cuMemFree_v2)(0x1000), CUDA_ERROR_INVALID_CONTEXT);
}

static void test_calls_before_init_or_without_a_context_are_refused(void **unused)
{
    (void)unused;
    IN_CHILD(body_before_init, "VGSIM_DEVICES=2");
}

static void body_context(void)
{
    CUcontext first, second, current;
    unsigned long long id, other;
    CUdeviceptr pointer;
    sim_start(0);
    size_t before = sim_free();
    CHECK_EQUAL(CU(cuCtxCreate_v4)(&first, NULL, 0, 0), CUDA_SUCCESS);
    CHECK_EQUAL(before - sim_free(), 300 * MIB);
    CHECK_EQUAL(CU(cuCtxGetId)(first, &id), CUDA_SUCCESS);
    pointer = sim_alloc(10 * MIB);
    sim_alloc(100);
    CHECK_EQUAL(CU(cuCtxDestroy_v2)(first), CUDA_SUCCESS);
    CHECK_EQUAL(sim_free(), before);
    CHECK_EQUAL(CU(cuMemFree_v2)(pointer), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuCtxSetCurrent)(first), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_EQUAL(CU(cuCtxCreate_v2)(&second, 0, 0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuCtxGetId)(second, &other), CUDA_SUCCESS);
    CHECK(second == first && other != id);
    CHECK_EQUAL(CU(cuCtxPopCurrent_v2)(&current), CUDA_SUCCESS);
    CHECK(current == second);
    CHECK_EQUAL(CU(cuCtxPushCurrent_v2)(second), CUDA_SUCCESS);
}

static void test_a_context_costs_memory_and_takes_its_allocations_with_it(void **unused)
{
    (void)unused;
    IN_CHILD(body_context, NULL);
}

static void body_primary(void)
{
    CUcontext context = sim_start(0), again, lazy;
    unsigned long long id, later;
    unsigned int flags;
    int active;
    size_t before = sim_free();
    sim_alloc(4 * MIB);
    CHECK_EQUAL(CU(cuCtxGetId)(NULL, &id), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuDevicePrimaryCtxReset_v2)(0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuDevicePrimaryCtxGetState)(0, &flags, &active), CUDA_SUCCESS);
    CHECK_EQUAL(active, 0);
    CHECK_EQUAL(CU(cuCtxSynchronize)(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK_EQUAL(CU(cuDevicePrimaryCtxRetain)(&again, 0), CUDA_SUCCESS);
    CHECK(again == context);
    CHECK_EQUAL(CU(cuCtxSynchronize)(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK_EQUAL(CU(cuCtxSetCurrent)(again), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuCtxGetId)(NULL, &later), CUDA_SUCCESS);
    CHECK(later != id);
    CHECK_EQUAL(sim_free(), before);
    CUresult (*primary)(CUcontext *, CUdevice) =
        (CUresult(*)(CUcontext *, CUdevice))sim_symbol("libcuda.so.1", "vgsim_primary_context");
    CHECK_EQUAL(primary(&lazy, 0), CUDA_SUCCESS);
    CHECK_EQUAL(primary(&lazy, 0), CUDA_SUCCESS);
    CHECK(lazy == again);
    CHECK_EQUAL(CU(cuDevicePrimaryCtxRelease_v2)(0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuCtxSynchronize)(), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuDevicePrimaryCtxRelease)(0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuCtxSynchronize)(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    CHECK_EQUAL(CU(cuDevicePrimaryCtxRelease)(0), CUDA_ERROR_INVALID_CONTEXT);
}

static void test_a_reset_primary_context_is_dead_until_it_is_retained_again(void **unused)
{
    (void)unused;
    IN_CHILD(body_primary, NULL);
}

static void body_no_room(void)
{
    CUcontext context;
    CHECK_EQUAL(CU(cuInit)(0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuDevicePrimaryCtxRetain)(&context, 0), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(CU(cuCtxCreate_v4)(&context, NULL, 0, 0), CUDA_ERROR_OUT_OF_MEMORY);
}

static void test_a_context_that_does_not_fit_is_out_of_memory(void **unused)
{
    (void)unused;
    IN_CHILD(body_no_room, "VGSIM_MEMORY=200MiB");
}

/* --- look-ups --------------------------------------------------------------------------------- */

static const char *look_up(const char *name, int version, cuuint64_t flags, CUresult wanted,
                           int wanted_status)
{
    void *function = (void *)1;
    CUdriverProcAddressQueryResult status = 99;
    Dl_info info = {0};
    CHECK_EQUAL(CU(cuGetProcAddress_v2)(name, &function, version, flags, &status), wanted);
    CHECK_EQUAL(status, wanted_status);
    CHECK_EQUAL(CU(cuGetProcAddress_v2)(name, &function, version, flags, NULL), wanted);
    CHECK_EQUAL(CU(cuGetProcAddress)(name, &function, version, flags), wanted);
    if (wanted != CUDA_SUCCESS)
        return function ? "a pointer" : "";
    CHECK(dladdr(function, &info) && info.dli_saddr == function);
    return info.dli_sname;
}

static void body_look_ups(void)
{
    static const struct {
        const char *name;
        int version, flags;
        const char *symbol;
    } rows[] = {
        {"cuGetProcAddress", 11030, 0, "cuGetProcAddress"},
        {"cuGetProcAddress", 12000, 0, "cuGetProcAddress_v2"},
        {"cuMemAlloc", 3020, 0, "cuMemAlloc_v2"},
        {"cuMemAlloc", 13000, 2, "cuMemAlloc_v2"},
        {"cuCtxCreate", 3020, 0, "cuCtxCreate_v2"},
        {"cuCtxCreate", 11040, 0, "cuCtxCreate_v3"},
        {"cuCtxCreate", 13000, 0, "cuCtxCreate_v4"},
        {"cuDevicePrimaryCtxRelease", 7000, 0, "cuDevicePrimaryCtxRelease"},
        {"cuDevicePrimaryCtxRelease", 11000, 0, "cuDevicePrimaryCtxRelease_v2"},
        {"cuMemAllocAsync", 11020, 0, "cuMemAllocAsync"},
        {"cuMemAllocAsync", 11020, 2, "cuMemAllocAsync_ptsz"},
        {"cuMemcpyHtoD", 7000, 2, "cuMemcpyHtoD_v2_ptds"},
        {"cuMemcpyHtoD", 3020, 1, "cuMemcpyHtoD_v2"},
        {"cuStreamGetCaptureInfo", 12030, 0, "cuStreamGetCaptureInfo_v3"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *symbol = look_up(rows[i].name, rows[i].version, (cuuint64_t)rows[i].flags,
                                     CUDA_SUCCESS, CU_GET_PROC_ADDRESS_SUCCESS);
        if (strcmp(symbol, rows[i].symbol))
            fprintf(stderr, "%s@%d is %s\n", rows[i].name, rows[i].version, symbol);
        CHECK(!strcmp(symbol, rows[i].symbol));
    }
    CHECK(!*look_up("", 0, 0, CUDA_ERROR_NOT_FOUND, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND));
    CHECK(!*look_up("cuNoSuchCall", 13000, 0, CUDA_ERROR_NOT_FOUND,
                    CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND));
    CHECK(!*look_up("cuMemAlloc", 3019, 0, CUDA_ERROR_NOT_FOUND,
                    CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT));
    CHECK(!*look_up("cuMemAlloc_v2", 13000, 0, CUDA_ERROR_NOT_FOUND,
                    CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND));
}

static void test_a_look_up_gives_the_export_that_the_version_and_the_stream_mean(void **unused)
{
    (void)unused;
    IN_CHILD(body_look_ups, NULL);
}

/* --- planned failures ------------------------------------------------------------------------- */

static void body_fail(void)
{
    CUdeviceptr pointer;
    void *host;
    CUcontext context = sim_start(0);
    CHECK_EQUAL(CU(cuMemAlloc_v2)(&pointer, 1), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemAlloc_v2)(&pointer, 1), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(CU(cuMemAlloc_v2)(&pointer, 1), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemHostAlloc)(&host, 1, 0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemHostAlloc)(&host, 1, 0), CUDA_ERROR_UNKNOWN);
    CHECK_EQUAL(CU(cuMemHostAlloc)(&host, 1, 0), CUDA_ERROR_UNKNOWN);
    CHECK_EQUAL(CU(cuCtxCreate_v4)(&context, NULL, 0, 0), CUDA_ERROR_NOT_SUPPORTED);
    CHECK_EQUAL(CU(cuCtxCreate_v2)(&context, 0, 0), CUDA_SUCCESS);
}

static void test_the_nth_call_fails_as_planned_by_its_name_with_or_without_version(void **unused)
{
    (void)unused;
    IN_CHILD(body_fail, "VGSIM_FAIL=cuMemAlloc:2,cuMemHostAlloc:2+:999,cuCtxCreate_v4:1:801");
}

static void body_bad_knobs(void)
{
    CUcontext context;
    size_t bytes;
    CHECK_EQUAL(CU(cuInit)(0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuDevicePrimaryCtxRetain)(&context, 0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuDeviceTotalMem_v2)(&bytes, 0), CUDA_SUCCESS);
    CHECK_EQUAL(bytes, 24 * GIB);
}

static void test_a_knob_that_cannot_be_read_is_one_line_and_the_default(void **unused)
{
    (void)unused;
    char text[4096] = "";
    int saved = dup(2), ends[2];
    assert_int_equal(pipe(ends), 0);
    dup2(ends[1], 2);
    const char *const knobs[] = {"VGSIM_MEMORY=lots", "VGSIM_FAIL=cuMemAlloc", NULL};
    int status = sim_child(body_bad_knobs, knobs);
    dup2(saved, 2);
    close(ends[1]);
    ssize_t count = read(ends[0], text, sizeof text - 1);
    assert_true(count > 0);
    assert_int_equal(status, 0);
    assert_string_equal(
        text, "vgsim: VGSIM_MEMORY=lots is not a size like 24GiB; the default is used\n"
              "vgsim: VGSIM_FAIL=cuMemAlloc is not a list of api:nth[+][:code]; the default is "
              "used\n");
}

/* --- fork and threads ------------------------------------------------------------------------- */

static void body_fork(void)
{
    CUdeviceptr pointer;
    int version, status = -1;
    sim_start(0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        CHECK_EQUAL(CU(cuMemAlloc_v2)(&pointer, 1), CUDA_ERROR_NOT_INITIALIZED);
        CHECK_EQUAL(CU(cuInit)(0), CUDA_ERROR_NOT_INITIALIZED);
        CHECK_EQUAL(CU(cuDriverGetVersion)(&version), CUDA_SUCCESS);
        _exit(7);
    }
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    CHECK_EQUAL(WEXITSTATUS(status), 7);
    sim_alloc(1);
}

static void test_a_forked_child_of_a_started_driver_is_not_initialised(void **unused)
{
    (void)unused;
    IN_CHILD(body_fork, NULL);
}

static void *allocate_and_free(void *context)
{
    CHECK_EQUAL(CU(cuCtxSetCurrent)(context), CUDA_SUCCESS);
    CUresult (*alloc)(CUdeviceptr *, size_t) = CU(cuMemAlloc_v2);
    CUresult (*release)(CUdeviceptr) = CU(cuMemFree_v2);
    unsigned int seed = (unsigned int)(uintptr_t)&context;
    for (int i = 0; i < 200; i++) {
        CUdeviceptr kept[16];
        for (int k = 0; k < 16; k++)
            CHECK_EQUAL(alloc(&kept[k], 1 + (size_t)rand_r(&seed) % (3 * MIB)), CUDA_SUCCESS);
        for (int k = 0; k < 16; k++)
            CHECK_EQUAL(release(kept[k]), CUDA_SUCCESS);
    }
    return NULL;
}

static void body_threads(void)
{
    pthread_t threads[4];
    CUcontext context = sim_start(0);
    size_t before = sim_free();
    for (int i = 0; i < 4; i++)
        CHECK_EQUAL(pthread_create(&threads[i], NULL, allocate_and_free, context), 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQUAL(pthread_join(threads[i], NULL), 0);
    CHECK_EQUAL(sim_free(), before);
}

static void test_four_threads_that_allocate_and_free_leave_nothing(void **unused)
{
    (void)unused;
    IN_CHILD(body_threads, NULL);
}

static void body_devices(void)
{
    CUuuid first, second;
    CUdevice found;
    char id[32], name[32];
    int major, count;
    CHECK_EQUAL(CU(cuInit)(0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuDeviceGetUuid)(&first, 0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuDeviceGetUuid_v2)(&second, 1), CUDA_SUCCESS);
    CHECK(memcmp(&first, &second, sizeof first));
    CHECK_EQUAL(CU(cuDeviceGetPCIBusId)(id, sizeof id, 1), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuDeviceGetByPCIBusId)(&found, id), CUDA_SUCCESS);
    CHECK_EQUAL(found, 1);
    CHECK_EQUAL(CU(cuDeviceGetName)(name, sizeof name, 0), CUDA_SUCCESS);
    CHECK(!strcmp(name, "VGSIM GPU"));
    CHECK_EQUAL(CU(cuDeviceGetAttribute)(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0),
                CUDA_SUCCESS);
    CHECK_EQUAL(major, 9);
    CHECK_EQUAL(CU(cuDeviceGet)(&found, 2), CUDA_ERROR_INVALID_DEVICE);
    CHECK_EQUAL(CU(cuDeviceGetCount)(&count), CUDA_SUCCESS);
}

static void test_devices_have_names_and_identities_of_their_own(void **unused)
{
    (void)unused;
    IN_CHILD(body_devices, "VGSIM_DEVICES=2");
}

static void body_work(void)
{
    CUstream stream;
    CUevent start, end;
    CUmodule module;
    CUfunction function;
    float ms = -1;
    sim_start(0);
    CHECK_EQUAL(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuEventCreate)(&start, 0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuEventCreate)(&end, 0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuModuleLoadData)(&module, "image"), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuModuleGetFunction)(&function, module, "kernel"), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuEventRecord)(start, stream), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuLaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL),
                CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuLaunchKernel)(function, 1, 1, 1, 2048, 1, 1, 0, stream, NULL, NULL),
                CUDA_ERROR_INVALID_VALUE);
    usleep(2000);
    CHECK_EQUAL(CU(cuEventRecord)(end, stream), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuEventSynchronize)(end), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuEventElapsedTime)(&ms, start, end), CUDA_SUCCESS);
    CHECK(ms >= 2 && ms < 10000);
    CHECK_EQUAL(CU(cuStreamDestroy_v2)(stream), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuStreamSynchronize)(stream), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQUAL(CU(cuModuleUnload)(module), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuLaunchKernel)(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
                CUDA_ERROR_INVALID_HANDLE);
}

static void test_streams_events_and_launches_keep_time_and_do_nothing_else(void **unused)
{
    (void)unused;
    IN_CHILD(body_work, NULL);
}

static void body_capture(void)
{
    CUstream stream;
    CUgraph graph;
    CUstreamCaptureStatus status;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUdeviceptr pointer;
    sim_start(0);
    CHECK_EQUAL(CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    CHECK(sim_free() > 0);
    CHECK_EQUAL(CU(cuStreamIsCapturing)(stream, &status), CUDA_SUCCESS);
    CHECK_EQUAL(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CHECK_EQUAL(CU(cuMemAlloc_v2)(&pointer, 1), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK_EQUAL(CU(cuStreamEndCapture)(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    CHECK_EQUAL(CU(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuThreadExchangeStreamCaptureMode)(&mode), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemAlloc_v2)(&pointer, 1), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuStreamEndCapture)(stream, &graph), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuGraphDestroy)(graph), CUDA_SUCCESS);
}

static void test_an_unsafe_call_invalidates_a_capture_unless_the_thread_is_relaxed(void **unused)
{
    (void)unused;
    IN_CHILD(body_capture, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_before_init_or_without_a_context_are_refused),
        cmocka_unit_test(test_a_context_costs_memory_and_takes_its_allocations_with_it),
        cmocka_unit_test(test_a_reset_primary_context_is_dead_until_it_is_retained_again),
        cmocka_unit_test(test_a_context_that_does_not_fit_is_out_of_memory),
        cmocka_unit_test(test_a_look_up_gives_the_export_that_the_version_and_the_stream_mean),
        cmocka_unit_test(test_the_nth_call_fails_as_planned_by_its_name_with_or_without_version),
        cmocka_unit_test(test_a_knob_that_cannot_be_read_is_one_line_and_the_default),
        cmocka_unit_test(test_a_forked_child_of_a_started_driver_is_not_initialised),
        cmocka_unit_test(test_four_threads_that_allocate_and_free_leave_nothing),
        cmocka_unit_test(test_devices_have_names_and_identities_of_their_own),
        cmocka_unit_test(test_streams_events_and_launches_keep_time_and_do_nothing_else),
        cmocka_unit_test(test_an_unsafe_call_invalidates_a_capture_unless_the_thread_is_relaxed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
