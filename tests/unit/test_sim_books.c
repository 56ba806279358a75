/* test_sim_books.c -- what NVML and the simulation's own books say, against what the driver says.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/unit/sim_child.h"

#include <libgen.h>
#include <signal.h>
#include <sys/mman.h>

static char books_path[64];

/* --- NVML ------------------------------------------------------------------------------------- */

static nvmlDevice_t device_of(unsigned int index)
{
    nvmlDevice_t device;
    CHECK_EQUAL(NV(nvmlInit_v2)(), NVML_SUCCESS);
    CHECK_EQUAL(NV(nvmlDeviceGetHandleByIndex_v2)(index, &device), NVML_SUCCESS);
    return device;
}

static void body_processes(void)
{
    nvmlProcessInfo_t all[8];
    nvmlProcessInfo_v1_t first[8];
    char name[64];
    unsigned int count = 0;
    nvmlDevice_t device = device_of(0);
    CHECK_EQUAL(NV(nvmlDeviceGetComputeRunningProcesses_v3)(device, &count, NULL),
                NVML_ERROR_INSUFFICIENT_SIZE);
    CHECK_EQUAL(count, 1);
    sim_start(0);
    sim_alloc(3 * MIB);
    count = 8;
    CHECK_EQUAL(NV(nvmlDeviceGetComputeRunningProcesses_v3)(device, &count, all), NVML_SUCCESS);
    CHECK_EQUAL(count, 2);
    CHECK_EQUAL(all[0].pid, 4242);
    CHECK_EQUAL(all[0].usedGpuMemory, 6 * GIB);
    CHECK_EQUAL(all[1].pid, getpid());
    CHECK_EQUAL(all[1].usedGpuMemory, 300 * MIB + 4 * MIB);
    count = 8;
    CHECK_EQUAL(NV(nvmlDeviceGetComputeRunningProcesses)(device, &count, first), NVML_SUCCESS);
    CHECK_EQUAL(first[1].usedGpuMemory, 304 * MIB);
    CHECK_EQUAL(NV(nvmlSystemGetProcessName)(4242, name, sizeof name), NVML_SUCCESS);
    CHECK(!strcmp(name, "/usr/bin/blender"));
    CHECK_EQUAL(NV(nvmlShutdown)(), NVML_SUCCESS);
    CHECK_EQUAL(NV(nvmlShutdown)(), NVML_ERROR_UNINITIALIZED);
}

static void test_nvml_lists_the_others_and_this_process_once_it_has_a_context(void **unused)
{
    (void)unused;
    IN_CHILD(body_processes, "VGSIM_OTHER=4242:/usr/bin/blender:6GiB");
}

static void body_same_memory(void)
{
    nvmlMemory_t memory;
    nvmlMemory_v2_t later = {.version = nvmlMemory_v2};
    nvmlDevice_t device = device_of(1);
    CHECK_EQUAL(NV(nvmlDeviceGetMemoryInfo)(device, &memory), NVML_SUCCESS);
    CHECK_EQUAL(memory.free, 8 * GIB - 100 * MIB);
    sim_start(1);
    sim_alloc(100 * MIB + 1);
    CHECK_EQUAL(NV(nvmlDeviceGetMemoryInfo)(device, &memory), NVML_SUCCESS);
    CHECK_EQUAL(memory.total, 8 * GIB);
    CHECK_EQUAL(memory.free, sim_free());
    CHECK_EQUAL(memory.used, memory.total - memory.free);
    CHECK_EQUAL(NV(nvmlDeviceGetMemoryInfo_v2)(device, &later), NVML_SUCCESS);
    CHECK_EQUAL(later.free, memory.free);
    later.version = 1;
    CHECK_EQUAL(NV(nvmlDeviceGetMemoryInfo_v2)(device, &later),
                NVML_ERROR_ARGUMENT_VERSION_MISMATCH);
}

static void test_nvml_says_the_same_memory_as_the_driver(void **unused)
{
    (void)unused;
    IN_CHILD(body_same_memory, "VGSIM_MEMORY=8GiB", "VGSIM_DEVICES=2", "VGSIM_HIDDEN=100MiB");
}

static void body_same_device(void)
{
    CUuuid uuid;
    char text[96], id[32];
    nvmlDevice_t found;
    const unsigned char *u = (const unsigned char *)uuid.bytes;
    char wanted[96];
    CHECK_EQUAL(CU(cuInit)(0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuDeviceGetUuid_v2)(&uuid, 1), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuDeviceGetPCIBusId)(id, sizeof id, 1), CUDA_SUCCESS);
    nvmlDevice_t device = device_of(1);
    CHECK_EQUAL(NV(nvmlDeviceGetUUID)(device, text, sizeof text), NVML_SUCCESS);
    snprintf(wanted, sizeof wanted,
             "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1],
             u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14],
             u[15]);
    CHECK(!strcmp(text, wanted));
    CHECK_EQUAL(NV(nvmlDeviceGetHandleByUUID)(text, &found), NVML_SUCCESS);
    CHECK(found == device);
    CHECK_EQUAL(NV(nvmlDeviceGetHandleByPciBusId_v2)(id, &found), NVML_SUCCESS);
    CHECK(found == device);
}

static void test_nvml_and_the_driver_name_a_device_alike(void **unused)
{
    (void)unused;
    IN_CHILD(body_same_device, "VGSIM_DEVICES=2");
}

/* --- the books -------------------------------------------------------------------------------- */

static void name_books(char *knob_out, size_t size)
{
    snprintf(books_path, sizeof books_path, "/tmp/vgsim-books-%d", (int)getpid());
    snprintf(knob_out, size, "VGSIM_ACCOUNT=%s", books_path);
    unlink(books_path);
}

/* The tool lies beside the libraries. */
static void read_books(char *out, size_t size)
{
    Dl_info info;
    char library[4096], command[8192];
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    assert_non_null(handle);
    assert_true(dladdr(dlsym(handle, "cuInit"), &info) != 0);
    snprintf(library, sizeof library, "%s", info.dli_fname);
    snprintf(command, sizeof command, "%s/vgsim-account %s", dirname(library), books_path);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    out[fread(out, 1, size - 1, pipe)] = '\0';
    assert_int_equal(pclose(pipe), 0);
}

static long long number(const char *json, const char *key)
{
    char pattern[64];
    snprintf(pattern, sizeof pattern, "\"%s\": ", key);
    const char *found = strstr(json, pattern);
    assert_non_null(found);
    return atoll(found + strlen(pattern));
}

static struct {
    size_t free_bytes;
} * shared;

static void body_killed(void)
{
    CUdeviceptr pointer;
    void *pinned;
    sim_start(0);
    sim_alloc(3 * MIB);
    sim_alloc(1000);
    CHECK_EQUAL(CU(cuMemFree_v2)(sim_alloc(32 * MIB)), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemAllocManaged)(&pointer, 5000, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemHostAlloc)(&pinned, 7000, 0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemAlloc_v2)(&pointer, 100 * GIB), CUDA_ERROR_OUT_OF_MEMORY);
    shared->free_bytes = sim_free();
    kill(getpid(), SIGKILL);
}

static void test_the_books_outlive_kill_9_and_equal_what_the_driver_said(void **unused)
{
    (void)unused;
    char account[96], json[16384];
    name_books(account, sizeof account);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const char *const knobs[] = {account, "VGSIM_OTHER=9:x:1GiB", NULL};
    int status = sim_child(body_killed, knobs);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    read_books(json, sizeof json);
    assert_non_null(strstr(json, "\"running\": false"));
    assert_int_equal(number(json, "free_bytes"), shared->free_bytes);
    assert_int_equal(number(json, "total_bytes"), 24 * GIB);
    assert_int_equal(number(json, "others_bytes"), GIB);
    assert_int_equal(number(json, "contexts"), 1);
    assert_int_equal(number(json, "context_bytes"), 300 * MIB);
    assert_int_equal(number(json, "pages"), 3);
    assert_int_equal(number(json, "peak_bytes"), 300 * MIB + 38 * MIB);
    assert_int_equal(number(json, "failed_allocations"), 1);
    assert_non_null(strstr(json, "\"device\": {\"requested_bytes\": 3146728, \"live_blocks\": 2, "
                                 "\"allocations\": 3}"));
    assert_non_null(strstr(json, "\"managed\": {\"requested_bytes\": 5000, \"live_blocks\": 1"));
    assert_non_null(strstr(json, "\"pinned\": {\"requested_bytes\": 7000, \"live_blocks\": 1"));
    unlink(books_path);
}

static void body_two_processes(void)
{
    sim_start(0);
    sim_alloc(GIB);
}

static void test_processes_that_share_a_file_have_books_of_their_own(void **unused)
{
    (void)unused;
    char account[96], json[16384];
    name_books(account, sizeof account);
    IN_CHILD(body_two_processes, account);
    IN_CHILD(body_two_processes, account);
    read_books(json, sizeof json);
    const char *second = strstr(strstr(json, "\"pid\"") + 1, "\"pid\"");
    assert_non_null(second);
    assert_int_equal(number(second, "pages"), 512);
    unlink(books_path);
}

/* --- pools and mappings ----------------------------------------------------------------------- */

static void body_pool(void)
{
    CUdeviceptr pointer;
    CUmemoryPool pool;
    cuuint64_t reserved, used, threshold = UINT64_MAX;
    sim_start(0);
    size_t before = sim_free();
    CHECK_EQUAL(CU(cuDeviceGetDefaultMemPool)(&pool, 0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemAllocAsync)(&pointer, 1000, NULL), CUDA_SUCCESS);
    CHECK_EQUAL(before - sim_free(), 32 * MIB);
    CHECK_EQUAL(CU(cuMemFreeAsync)(pointer, NULL), CUDA_SUCCESS);
    CHECK_EQUAL(before - sim_free(), 32 * MIB);
    CHECK_EQUAL(CU(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used),
                CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved),
                CUDA_SUCCESS);
    CHECK_EQUAL(used, 0);
    CHECK_EQUAL(reserved, 32 * MIB);
    CHECK_EQUAL(CU(cuStreamSynchronize)(NULL), CUDA_SUCCESS);
    CHECK_EQUAL(sim_free(), before);
    CHECK_EQUAL(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold),
                CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemAllocAsync)(&pointer, 33 * MIB, NULL), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemFree_v2)(pointer), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuStreamSynchronize)(NULL), CUDA_SUCCESS);
    CHECK_EQUAL(before - sim_free(), 64 * MIB);
    CHECK_EQUAL(CU(cuMemPoolTrimTo)(pool, 0), CUDA_SUCCESS);
    CHECK_EQUAL(sim_free(), before);
}

static void
test_a_pool_keeps_freed_memory_until_a_synchronisation_above_its_threshold(void **unused)
{
    (void)unused;
    IN_CHILD(body_pool, NULL);
}

static void body_vmm(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle handle, again;
    CUdeviceptr range;
    char text[8] = "twice";
    sim_start(0);
    size_t before = sim_free();
    CHECK_EQUAL(CU(cuMemCreate)(&handle, 3 * MIB, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuMemCreate)(&handle, 4 * MIB, &prop, 0), CUDA_SUCCESS);
    CHECK_EQUAL(before - sim_free(), 4 * MIB);
    CHECK_EQUAL(CU(cuMemAddressReserve)(&range, 16 * MIB, 0, 0, 0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemMap)(range, 4 * MIB, 0, handle, 0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemMap)(range + 8 * MIB, 4 * MIB, 0, handle, 0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemMap)(range + 2 * MIB, 4 * MIB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuMemsetD8_v2)(range, 1, 8), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuMemSetAccess)(range, 4 * MIB, &access, 1), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemSetAccess)(range + 8 * MIB, 4 * MIB, &access, 1), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemcpyHtoD_v2)(range, text, 8), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemcpyDtoH_v2)(text, range + 8 * MIB, 8), CUDA_SUCCESS);
    CHECK(!strcmp(text, "twice"));
    CHECK_EQUAL(CU(cuMemFree_v2)(range), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuMemAddressFree)(range, 16 * MIB), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuMemRetainAllocationHandle)(&again, (void *)(uintptr_t)range), CUDA_SUCCESS);
    CHECK_EQUAL(again, handle);
    CHECK_EQUAL(CU(cuMemRelease)(handle), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemUnmap)(range, 4 * MIB), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemRelease)(handle), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemRelease)(handle), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(before - sim_free(), 4 * MIB);
    CHECK_EQUAL(CU(cuMemUnmap)(range + 8 * MIB, 4 * MIB), CUDA_SUCCESS);
    CHECK_EQUAL(sim_free(), before);
    CHECK_EQUAL(CU(cuMemAddressFree)(range, 16 * MIB), CUDA_SUCCESS);
}

static void
test_a_handle_lives_until_its_last_reference_and_its_last_mapping_are_gone(void **unused)
{
    (void)unused;
    IN_CHILD(body_vmm, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvml_lists_the_others_and_this_process_once_it_has_a_context),
        cmocka_unit_test(test_nvml_says_the_same_memory_as_the_driver),
        cmocka_unit_test(test_nvml_and_the_driver_name_a_device_alike),
        cmocka_unit_test(test_the_books_outlive_kill_9_and_equal_what_the_driver_said),
        cmocka_unit_test(test_processes_that_share_a_file_have_books_of_their_own),
        cmocka_unit_test(
            test_a_pool_keeps_freed_memory_until_a_synchronisation_above_its_threshold),
        cmocka_unit_test(
            test_a_handle_lives_until_its_last_reference_and_its_last_mapping_are_gone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
