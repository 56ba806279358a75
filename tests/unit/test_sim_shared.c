/* test_sim_shared.c -- several processes on one simulated machine.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Several devices; slices; calls that take long.
 */
#include "tests/unit/sim_pair.h"

static unsigned int processes_of(unsigned int index, nvmlProcessInfo_t out[8])
{
    nvmlDevice_t device;
    unsigned int count = 8;
    CHECK_EQUAL(NV(nvmlInit_v2)(), NVML_SUCCESS);
    CHECK_EQUAL(NV(nvmlDeviceGetHandleByIndex_v2)(index, &device), NVML_SUCCESS);
    CHECK_EQUAL(NV(nvmlDeviceGetComputeRunningProcesses_v3)(device, &count, out), NVML_SUCCESS);
    CHECK_EQUAL(NV(nvmlShutdown)(), NVML_SUCCESS);
    return count;
}

static size_t nvml_free(unsigned int index)
{
    nvmlDevice_t device;
    nvmlMemory_t memory;
    CHECK_EQUAL(NV(nvmlInit_v2)(), NVML_SUCCESS);
    CHECK_EQUAL(NV(nvmlDeviceGetHandleByIndex_v2)(index, &device), NVML_SUCCESS);
    CHECK_EQUAL(NV(nvmlDeviceGetMemoryInfo)(device, &memory), NVML_SUCCESS);
    CHECK_EQUAL(NV(nvmlShutdown)(), NVML_SUCCESS);
    CHECK_EQUAL(memory.used + memory.free, memory.total);
    return memory.free;
}

/* --- two processes ---------------------------------------------------------------------------- */

static void body_taker(void)
{
    sim_start(0);
    CUdeviceptr pointer = sim_alloc(4 * GIB);
    pair_go(1);
    pair_wait(2);
    CHECK_EQUAL(CU(cuMemFree_v2)(pointer), CUDA_SUCCESS);
    pair_go(3);
    pair_wait(4);
}

static void body_watcher(void)
{
    nvmlProcessInfo_t all[8];
    CUdeviceptr pointer;
    pair_wait(1);
    sim_start(0);
    CHECK_EQUAL(sim_free(), 8 * GIB - 600 * MIB - 4 * GIB);
    CHECK_EQUAL(nvml_free(0), sim_free());
    CHECK_EQUAL(CU(cuMemAlloc_v2)(&pointer, 4 * GIB), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(processes_of(0, all), 2);
    bool first = all[0].pid != (unsigned int)getpid();
    CHECK_EQUAL(all[first ? 0 : 1].usedGpuMemory, 4 * GIB + 300 * MIB);
    CHECK_EQUAL(all[first ? 1 : 0].usedGpuMemory, 300 * MIB);
    pair_go(2);
    pair_wait(3);
    CHECK_EQUAL(sim_free(), 8 * GIB - 600 * MIB);
    sim_alloc(4 * GIB);
    pair_go(4);
}

static void test_what_one_process_takes_the_other_cannot_have(void **unused)
{
    (void)unused;
    IN_PAIR(body_taker, body_watcher, "VGSIM_MEMORY=8GiB");
}

static void body_victim(void)
{
    sim_start(0);
    sim_alloc(4 * GIB);
    pair_go(1);
    pair_wait(9);
}

/* The parent of both waits for the victim last: what is only not waited for yet
 * is dead. */
static void body_killer(void)
{
    nvmlProcessInfo_t all[8];
    pair_wait(1);
    sim_start(0);
    CHECK_EQUAL(processes_of(0, all), 2);
    CHECK_EQUAL(kill(pair->pid[0], SIGKILL), 0);
    size_t wanted = 8 * GIB - 300 * MIB;
    for (int i = 0; i < 2000 && sim_free() != wanted; i++)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    CHECK_EQUAL(sim_free(), wanted);
    CHECK_EQUAL(processes_of(0, all), 1);
    sim_alloc(7 * GIB);
}

static void test_a_killed_process_gives_its_memory_back(void **unused)
{
    (void)unused;
    const char *const knobs[] = {"VGSIM_MEMORY=8GiB", NULL};
    int status[2];
    pair_run(body_victim, body_killer, knobs, status);
    assert_true(WIFSIGNALED(status[0]) && WTERMSIG(status[0]) == SIGKILL);
    assert_int_equal(status[1], 0);
}

static void body_user(void)
{
    sim_start(1);
    sim_alloc(GIB);
    pair_go(1);
    pair_wait(2);
}

static void body_only_nvml(void)
{
    nvmlProcessInfo_t all[8];
    pair_wait(1);
    CHECK_EQUAL(nvml_free(1), 4 * GIB - 300 * MIB - GIB);
    CHECK_EQUAL(nvml_free(0), 16 * GIB);
    CHECK_EQUAL(processes_of(0, all), 0);
    CHECK_EQUAL(processes_of(1, all), 1);
    CHECK_EQUAL(all[0].pid, pair->pid[0]);
    CHECK(!dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD));
    pair_go(2);
}

static void test_nvml_without_libcuda_shows_the_live_state(void **unused)
{
    (void)unused;
    IN_PAIR(body_user, body_only_nvml, "VGSIM_DEVICES=2", "VGSIM_MEMORY=16GiB,4GiB");
}

/* Ten times a second would do; ten thousand is a race. */
static void body_racer(void)
{
    sim_start(0);
    for (int i = 0; i < 2000; i++) {
        CUdeviceptr pointer;
        CUresult result = CU(cuMemAlloc_v2)(&pointer, GIB);
        CHECK(result == CUDA_SUCCESS || result == CUDA_ERROR_OUT_OF_MEMORY);
        size_t there = sim_free();
        CHECK(there <= 3 * GIB / 2);
        if (result == CUDA_SUCCESS) {
            CHECK(there < GIB && there >= 500 * MIB); /* the other has none */
            CHECK_EQUAL(CU(cuMemFree_v2)(pointer), CUDA_SUCCESS);
        }
    }
}

static void test_two_racing_processes_never_have_more_than_there_is(void **unused)
{
    (void)unused;
    IN_PAIR(body_racer, body_racer, "VGSIM_MEMORY=1536MiB", "VGSIM_CONTEXT=1MiB");
}

/* --- several devices -------------------------------------------------------------------------- */

static void body_sizes(void)
{
    size_t total;
    CHECK_EQUAL(CU(cuInit)(0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuDeviceTotalMem_v2)(&total, 0), CUDA_SUCCESS);
    CHECK_EQUAL(total, 24 * GIB);
    for (int i = 1; i < 3; i++) {
        CHECK_EQUAL(CU(cuDeviceTotalMem_v2)(&total, i), CUDA_SUCCESS);
        CHECK_EQUAL(total, 8 * GIB);
    }
    sim_start(0);
    sim_alloc(20 * GIB);
    sim_start(1);
    CHECK_EQUAL(sim_free(), 8 * GIB - 300 * MIB);
}

static void test_every_device_has_its_own_memory_and_the_last_size_goes_on(void **unused)
{
    (void)unused;
    IN_CHILD(body_sizes, "VGSIM_DEVICES=3", "VGSIM_MEMORY=24GiB,8GiB");
}

/* --- slices ----------------------------------------------------------------------------------- */

static void uuid_text(const char *prefix, const CUuuid *uuid, char *out, size_t size)
{
    const unsigned char *u = (const unsigned char *)uuid->bytes;
    snprintf(out, size, "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             prefix, u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11],
             u[12], u[13], u[14], u[15]);
}

static void body_slice(void)
{
    CUuuid own, whole;
    char mig[96], wrong[96], gpu[96], text[96];
    nvmlDevice_t slice, parent, found;
    nvmlMemory_t memory;
    unsigned int flag, pending;
    sim_start(0);
    sim_alloc(GIB);
    CHECK_EQUAL(CU(cuDeviceGetUuid_v2)(&own, 0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuDeviceGetUuid)(&whole, 0), CUDA_SUCCESS);
    CHECK(memcmp(&own, &whole, sizeof own));
    uuid_text("MIG", &own, mig, sizeof mig);
    uuid_text("GPU", &own, wrong, sizeof wrong);
    uuid_text("GPU", &whole, gpu, sizeof gpu);
    CHECK_EQUAL(NV(nvmlInit_v2)(), NVML_SUCCESS);
    CHECK_EQUAL(NV(nvmlDeviceGetHandleByUUID)(wrong, &found), NVML_ERROR_NOT_FOUND);
    CHECK_EQUAL(NV(nvmlDeviceGetHandleByUUID)(mig, &slice), NVML_SUCCESS);
    CHECK_EQUAL(NV(nvmlDeviceGetHandleByUUID)(gpu, &parent), NVML_SUCCESS);
    CHECK(slice != parent);
    CHECK_EQUAL(NV(nvmlDeviceGetUUID)(slice, text, sizeof text), NVML_SUCCESS);
    CHECK(!strcmp(text, mig));
    CHECK_EQUAL(NV(nvmlDeviceGetHandleByIndex_v2)(0, &found), NVML_SUCCESS);
    CHECK(found == parent);
    CHECK_EQUAL(NV(nvmlDeviceGetMigDeviceHandleByIndex)(parent, 0, &found), NVML_SUCCESS);
    CHECK(found == slice);
    CHECK_EQUAL(NV(nvmlDeviceGetDeviceHandleFromMigDeviceHandle)(slice, &found), NVML_SUCCESS);
    CHECK(found == parent);
    CHECK_EQUAL(NV(nvmlDeviceIsMigDeviceHandle)(slice, &flag), NVML_SUCCESS);
    CHECK_EQUAL(flag, 1);
    CHECK_EQUAL(NV(nvmlDeviceGetMigMode)(parent, &flag, &pending), NVML_SUCCESS);
    CHECK_EQUAL(flag, NVML_DEVICE_MIG_ENABLE);
    CHECK_EQUAL(NV(nvmlDeviceGetMemoryInfo)(slice, &memory), NVML_SUCCESS);
    CHECK_EQUAL(memory.total, 5 * GIB);
    CHECK_EQUAL(memory.free, sim_free());
    CHECK_EQUAL(NV(nvmlDeviceGetMemoryInfo)(parent, &memory), NVML_SUCCESS);
    CHECK_EQUAL(memory.total, 35 * GIB);
    CHECK_EQUAL(memory.used, GIB + 300 * MIB);
}

static void test_a_slice_has_a_uuid_and_a_size_of_its_own(void **unused)
{
    (void)unused;
    IN_CHILD(body_slice, "VGSIM_MIG=1", "VGSIM_MEMORY=5GiB");
}

/* --- calls that take long --------------------------------------------------------------------- */

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void body_latency(void)
{
    sim_start(0);
    double before = seconds();
    CUdeviceptr pointer = sim_alloc(MIB);
    CHECK(seconds() - before >= 0.05);
    before = seconds();
    for (int i = 0; i < 4; i++)
        sim_free();
    CHECK(seconds() - before < 0.05);
    before = seconds();
    CHECK_EQUAL(CU(cuMemFree_v2)(pointer), CUDA_SUCCESS);
    CHECK(seconds() - before >= 0.02);
}

static void test_a_call_takes_as_long_as_it_is_told(void **unused)
{
    (void)unused;
    IN_CHILD(body_latency, "VGSIM_LATENCY=cuMemAlloc:50000,cuMemFree_v2:20000");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_one_process_takes_the_other_cannot_have),
        cmocka_unit_test(test_a_killed_process_gives_its_memory_back),
        cmocka_unit_test(test_nvml_without_libcuda_shows_the_live_state),
        cmocka_unit_test(test_two_racing_processes_never_have_more_than_there_is),
        cmocka_unit_test(test_every_device_has_its_own_memory_and_the_last_size_goes_on),
        cmocka_unit_test(test_a_slice_has_a_uuid_and_a_size_of_its_own),
        cmocka_unit_test(test_a_call_takes_as_long_as_it_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
