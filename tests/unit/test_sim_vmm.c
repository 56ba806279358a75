/* test_sim_vmm.c -- virtual memory of the simulated driver.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Hosts and devices, misuse, handing it over, multicast.
 */
#include "tests/unit/sim_pair.h"

#define PAGE (2 * MIB)

static CUmemAllocationProp prop_of(CUmemLocationType type, int id)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {type, id}};
}

static CUmemGenericAllocationHandle made(size_t bytes, CUmemAllocationProp prop)
{
    CUmemGenericAllocationHandle handle = 0;
    CHECK_EQUAL(CU(cuMemCreate)(&handle, bytes, &prop, 0), CUDA_SUCCESS);
    return handle;
}

static CUdeviceptr reserved(size_t bytes)
{
    CUdeviceptr pointer = 0;
    CHECK_EQUAL(CU(cuMemAddressReserve)(&pointer, bytes, 0, 0, 0), CUDA_SUCCESS);
    return pointer;
}

static CUresult allow(CUdeviceptr pointer, size_t bytes, CUmemLocationType type, int id)
{
    CUmemAccessDesc desc = {{type, id}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    return CU(cuMemSetAccess)(pointer, bytes, &desc, 1);
}

/* --- host memory ------------------------------------------------------------------------------ */

static void body_host(void)
{
    CUmemAllocationProp host = prop_of(CU_MEM_LOCATION_TYPE_HOST, 77);
    CUmemAllocationProp node = prop_of(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0);
    CUmemAllocationProp now = prop_of(CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0);
    CUmemGenericAllocationHandle handle;
    sim_start(0);
    size_t before = sim_free();
    handle = made(4 * PAGE, host);
    CHECK_EQUAL(CU(cuMemRelease)(made(PAGE, node)), CUDA_SUCCESS);
    CHECK_EQUAL(sim_free(), before);
    CUdeviceptr range = reserved(4 * PAGE);
    CHECK_EQUAL(CU(cuMemMap)(range, 4 * PAGE, 0, handle, 0), CUDA_SUCCESS);
    CHECK_EQUAL(allow(range, 4 * PAGE, CU_MEM_LOCATION_TYPE_HOST, 0), CUDA_SUCCESS);
    CHECK_EQUAL(allow(range, 4 * PAGE, CU_MEM_LOCATION_TYPE_DEVICE, 0), CUDA_SUCCESS);
    memset((void *)(uintptr_t)range, 7, 4 * PAGE);
    CHECK_EQUAL(CU(cuMemCreate)(&handle, PAGE, &now, 0), CUDA_ERROR_INVALID_VALUE);
    host.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CHECK_EQUAL(CU(cuMemCreate)(&handle, PAGE, &host, 0), CUDA_ERROR_INVALID_VALUE);
    node.location.id = 5;
    CHECK_EQUAL(CU(cuMemCreate)(&handle, PAGE, &node, 0), CUDA_ERROR_INVALID_VALUE);
}

static void test_memory_of_the_host_takes_nothing_of_a_device(void **unused)
{
    (void)unused;
    IN_CHILD(body_host, NULL);
}

/* --- misuse ----------------------------------------------------------------------------------- */

static void body_misuse(void)
{
    CUmemAllocationProp prop = prop_of(CU_MEM_LOCATION_TYPE_DEVICE, 0);
    CUmemGenericAllocationHandle handle;
    size_t granule;
    sim_start(0);
    size_t before = sim_free();
    CHECK_EQUAL(CU(cuMemGetAllocationGranularity)(&granule, &prop, 0), CUDA_SUCCESS);
    CHECK_EQUAL(granule, PAGE);
    CHECK_EQUAL(CU(cuMemCreate)(&handle, PAGE / 2, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuMemCreate)(&handle, 0, &prop, 0), CUDA_ERROR_INVALID_VALUE);
    handle = made(4 * PAGE, prop);
    CUdeviceptr range = reserved(8 * PAGE);
    CHECK_EQUAL(CU(cuMemMap)(range, 4 * PAGE, 0, handle, 0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemMap)(range, 4 * PAGE, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuMemMap)(range + 4 * PAGE, 4 * PAGE, PAGE, handle, 0),
                CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuMemMap)(range + 6 * PAGE, 4 * PAGE, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuMemUnmap)(range, 2 * PAGE), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuMemUnmap)(range + PAGE, 3 * PAGE), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuMemAddressFree)(range, 8 * PAGE), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuMemAddressFree)(range, 4 * PAGE), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(allow(range, 8 * PAGE, CU_MEM_LOCATION_TYPE_DEVICE, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuMemFree_v2)(range), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuMemRelease)(handle), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemRelease)(handle), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuMemMap)(range + 4 * PAGE, 4 * PAGE, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(before - sim_free(), 4 * PAGE);
    CHECK_EQUAL(CU(cuMemRetainAllocationHandle)(&handle, (void *)(uintptr_t)(range + PAGE)),
                CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemUnmap)(range, 4 * PAGE), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemUnmap)(range, 4 * PAGE), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(before - sim_free(), 4 * PAGE);
    CHECK_EQUAL(CU(cuMemRelease)(handle), CUDA_SUCCESS);
    CHECK_EQUAL(sim_free(), before);
    CHECK_EQUAL(CU(cuMemAddressFree)(range, 8 * PAGE), CUDA_SUCCESS);
}

static void test_misuse_is_refused_and_changes_nothing(void **unused)
{
    (void)unused;
    IN_CHILD(body_misuse, NULL);
}

static void body_access(void)
{
    CUmemGenericAllocationHandle handle;
    CUmemLocation zero = {CU_MEM_LOCATION_TYPE_DEVICE, 0}, one = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
    unsigned long long flags;
    sim_start(0);
    handle = made(PAGE, prop_of(CU_MEM_LOCATION_TYPE_DEVICE, 1));
    CHECK_EQUAL(sim_free(), 24 * GIB - 300 * MIB);
    CUdeviceptr range = reserved(PAGE);
    CHECK_EQUAL(CU(cuMemMap)(range, PAGE, 0, handle, 0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemGetAccess)(&flags, &one, range), CUDA_SUCCESS);
    CHECK_EQUAL(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    CHECK_EQUAL(allow(range, PAGE, CU_MEM_LOCATION_TYPE_DEVICE, 0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemGetAccess)(&flags, &zero, range), CUDA_SUCCESS);
    CHECK_EQUAL(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CHECK_EQUAL(CU(cuMemGetAccess)(&flags, &one, range), CUDA_SUCCESS);
    CHECK_EQUAL(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    CHECK_EQUAL(allow(range, PAGE, CU_MEM_LOCATION_TYPE_HOST, 0), CUDA_ERROR_INVALID_DEVICE);
    CHECK_EQUAL(allow(range, PAGE, CU_MEM_LOCATION_TYPE_DEVICE, 2), CUDA_ERROR_INVALID_DEVICE);
    CHECK_EQUAL(CU(cuMemsetD8_v2)(range, 1, PAGE), CUDA_SUCCESS);
}

static void test_access_is_a_device_s_own(void **unused)
{
    (void)unused;
    IN_CHILD(body_access, "VGSIM_DEVICES=2");
}

/* --- from one process to another -------------------------------------------------------------- */

static void body_exporter(void)
{
    CUmemAllocationProp prop = prop_of(CU_MEM_LOCATION_TYPE_DEVICE, 1);
    char text[8] = "theirs";
    int fd;
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    sim_start(1);
    CUmemGenericAllocationHandle handle = made(4 * PAGE, prop);
    CUdeviceptr range = reserved(4 * PAGE);
    CHECK_EQUAL(CU(cuMemMap)(range, 4 * PAGE, 0, handle, 0), CUDA_SUCCESS);
    CHECK_EQUAL(allow(range, 4 * PAGE, CU_MEM_LOCATION_TYPE_DEVICE, 1), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemcpyHtoD_v2)(range, text, sizeof text), CUDA_SUCCESS);
    CHECK_EQUAL(
        CU(cuMemExportToShareableHandle)(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
        CUDA_SUCCESS);
    pair->value[0] = (size_t)fd;
    pair_go(1);
    pair_wait(2);
    CHECK_EQUAL(CU(cuMemUnmap)(range, 4 * PAGE), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemRelease)(handle), CUDA_SUCCESS);
    CHECK_EQUAL(sim_free(), 24 * GIB - 600 * MIB - 4 * PAGE);
    pair_go(3);
    pair_wait(4);
    CHECK_EQUAL(sim_free(), 24 * GIB - 600 * MIB);
    pair_go(5);
}

/* Programs pass the descriptor over a socket; the exporter's own is as good here. */
static void body_importer(void)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop;
    char path[64], text[8];
    pair_wait(1);
    sim_start(1);
    snprintf(path, sizeof path, "/proc/%d/fd/%zu", (int)pair->pid[0], pair->value[0]);
    FILE *file = fopen(path, "r+");
    CHECK(file != NULL);
    CHECK_EQUAL(CU(cuMemImportFromShareableHandle)(&handle, (void *)(intptr_t)fileno(file),
                                                   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                CUDA_SUCCESS);
    fclose(file);
    CHECK_EQUAL(CU(cuMemGetAllocationPropertiesFromHandle)(&prop, handle), CUDA_SUCCESS);
    CHECK_EQUAL(prop.location.id, 1);
    CHECK_EQUAL(sim_free(), 24 * GIB - 600 * MIB - 4 * PAGE);
    CUdeviceptr range = reserved(4 * PAGE);
    CHECK_EQUAL(CU(cuMemMap)(range, 4 * PAGE, 0, handle, 0), CUDA_SUCCESS);
    CHECK_EQUAL(allow(range, 4 * PAGE, CU_MEM_LOCATION_TYPE_DEVICE, 1), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemcpyDtoH_v2)(text, range, sizeof text), CUDA_SUCCESS);
    CHECK(!strcmp(text, "theirs"));
    pair_go(2);
    pair_wait(3);
    CHECK_EQUAL(CU(cuMemUnmap)(range, 4 * PAGE), CUDA_SUCCESS);
    CHECK_EQUAL(sim_free(), 24 * GIB - 600 * MIB - 4 * PAGE);
    CHECK_EQUAL(CU(cuMemRelease)(handle), CUDA_SUCCESS);
    pair_go(4);
    pair_wait(5);
}

static void test_imported_memory_is_the_exporter_s_and_outlives_its_release(void **unused)
{
    (void)unused;
    IN_PAIR(body_exporter, body_importer, "VGSIM_DEVICES=2");
}

static void body_no_export(void)
{
    CUmemGenericAllocationHandle handle;
    int fd = fileno(tmpfile());
    sim_start(0);
    handle = made(PAGE, prop_of(CU_MEM_LOCATION_TYPE_DEVICE, 0));
    CHECK_EQUAL(
        CU(cuMemExportToShareableHandle)(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
        CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(ftruncate(fd, PAGE), 0);
    CHECK_EQUAL(CU(cuMemImportFromShareableHandle)(&handle, (void *)(intptr_t)fd,
                                                   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
                CUDA_ERROR_INVALID_VALUE);
}

static void test_only_what_was_made_to_be_shared_is_shared(void **unused)
{
    (void)unused;
    IN_CHILD(body_no_export, NULL);
}

/* --- multicast -------------------------------------------------------------------------------- */

static void body_multicast(void)
{
    CUmulticastObjectProp prop = {.numDevices = 2, .size = 4 * PAGE};
    CUmemGenericAllocationHandle cast, memory[2];
    size_t granule;
    sim_start(0);
    size_t before = sim_free();
    CHECK_EQUAL(CU(cuMulticastGetGranularity)(&granule, &prop, 0), CUDA_SUCCESS);
    CHECK_EQUAL(granule, PAGE);
    CHECK_EQUAL(CU(cuMulticastCreate)(&cast, &prop), CUDA_SUCCESS);
    CHECK_EQUAL(sim_free(), before);
    for (int i = 0; i < 2; i++)
        memory[i] = made(4 * PAGE, prop_of(CU_MEM_LOCATION_TYPE_DEVICE, i));
    CHECK_EQUAL(CU(cuMulticastAddDevice)(cast, 0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMulticastAddDevice)(cast, 0), CUDA_ERROR_INVALID_VALUE);
    CUdeviceptr range = reserved(4 * PAGE);
    CHECK_EQUAL(CU(cuMulticastBindMem)(cast, 0, memory[0], 0, 4 * PAGE, 0),
                CUDA_ERROR_ILLEGAL_STATE);
    CHECK_EQUAL(CU(cuMemMap)(range, 4 * PAGE, 0, cast, 0), CUDA_ERROR_ILLEGAL_STATE);
    CHECK_EQUAL(CU(cuMulticastAddDevice)(cast, 1), CUDA_SUCCESS);
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(CU(cuMulticastBindMem)(cast, 0, memory[i], 0, 4 * PAGE, 0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMulticastBindMem)(cast, PAGE, memory[0], 0, PAGE, 0),
                CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuMemMap)(range, 4 * PAGE, 0, cast, 0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemRelease)(memory[0]), CUDA_SUCCESS);
    CHECK_EQUAL(before - sim_free(), 4 * PAGE);
    CHECK_EQUAL(CU(cuMulticastUnbind)(cast, 0, 0, PAGE), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuMulticastUnbind)(cast, 0, 0, 4 * PAGE), CUDA_SUCCESS);
    CHECK_EQUAL(sim_free(), before);
    CHECK_EQUAL(CU(cuMemRelease)(memory[1]), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemRelease)(cast), CUDA_SUCCESS);
    sim_start(1);
    CHECK_EQUAL(sim_free(), 24 * GIB - 300 * MIB - 4 * PAGE);
    CHECK_EQUAL(CU(cuMemUnmap)(range, 4 * PAGE), CUDA_SUCCESS);
    CHECK_EQUAL(sim_free(), 24 * GIB - 300 * MIB);
}

static void test_a_multicast_object_takes_nothing_and_holds_what_it_binds(void **unused)
{
    (void)unused;
    IN_CHILD(body_multicast, "VGSIM_DEVICES=2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_of_the_host_takes_nothing_of_a_device),
        cmocka_unit_test(test_misuse_is_refused_and_changes_nothing),
        cmocka_unit_test(test_access_is_a_device_s_own),
        cmocka_unit_test(test_imported_memory_is_the_exporter_s_and_outlives_its_release),
        cmocka_unit_test(test_only_what_was_made_to_be_shared_is_shared),
        cmocka_unit_test(test_a_multicast_object_takes_nothing_and_holds_what_it_binds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
