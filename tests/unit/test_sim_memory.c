/* test_sim_memory.c -- the simulated device's memory.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What every allocation costs, and what is refused.
 */
#include "tests/unit/sim_child.h"

static size_t cost(size_t bytes, CUdeviceptr *pointer_out)
{
    size_t before = sim_free();
    *pointer_out = sim_alloc(bytes);
    return before - sim_free();
}

static void body_exact(void)
{
    static const struct {
        size_t bytes, pages;
    } rows[] = {{1, 1},       {512, 1},         {MIB - 1, 1},  {MIB, 1},
                {2 * MIB, 1}, {2 * MIB + 1, 2}, {10 * MIB, 5}, {GIB, 512}};
    sim_start(0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        CUdeviceptr pointer;
        size_t before = sim_free();
        CHECK_EQUAL(cost(rows[i].bytes, &pointer), rows[i].pages * 2 * MIB);
        CHECK_EQUAL(CU(cuMemFree_v2)(pointer), CUDA_SUCCESS);
        CHECK_EQUAL(sim_free(), before);
    }
}

static void test_an_allocation_costs_whole_pages_and_its_free_gives_them_back(void **unused)
{
    (void)unused;
    IN_CHILD(body_exact, NULL);
}

static void body_share(void)
{
    CUdeviceptr first, second, third, fourth, fifth;
    sim_start(0);
    CHECK_EQUAL(cost(1, &first), 2 * MIB);
    CHECK_EQUAL(cost(MIB - 1, &second), 0);
    CHECK_EQUAL(cost(MIB - 512, &third), 0); /* 1 unit + 2048 + 2047 = one page, full */
    CHECK_EQUAL(cost(512, &fourth), 2 * MIB);
    CHECK_EQUAL(second - first, 512);
    CHECK_EQUAL(cost(MIB, &fifth),
                2 * MIB); /* not small: no part of the last page, which has room */
    size_t before = sim_free();
    CHECK_EQUAL(CU(cuMemFree_v2)(first), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemFree_v2)(third), CUDA_SUCCESS);
    CHECK_EQUAL(sim_free(), before);
    CHECK_EQUAL(CU(cuMemFree_v2)(second), CUDA_SUCCESS);
    CHECK_EQUAL(sim_free(), before + 2 * MIB);
}

static void test_small_allocations_share_a_page_until_the_last_is_freed(void **unused)
{
    (void)unused;
    IN_CHILD(body_share, NULL);
}

static void body_total(void)
{
    size_t free_bytes, total_bytes, device_bytes;
    CUdeviceptr pointer = 1;
    sim_start(0);
    CHECK_EQUAL(CU(cuMemGetInfo_v2)(&free_bytes, &total_bytes), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuDeviceTotalMem_v2)(&device_bytes, 0), CUDA_SUCCESS);
    CHECK_EQUAL(total_bytes, GIB);
    CHECK_EQUAL(device_bytes, GIB);
    CHECK_EQUAL(free_bytes, GIB - 100 * MIB - 50 * MIB - 24 * MIB);
    CHECK_EQUAL(CU(cuMemAlloc_v2)(&pointer, free_bytes + 1), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(CU(cuMemAlloc_v2)(&pointer, SIZE_MAX), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(pointer, 1);
    sim_alloc(free_bytes);
    CHECK_EQUAL(sim_free(), 0);
    CHECK_EQUAL(CU(cuMemAlloc_v2)(&pointer, 1), CUDA_ERROR_OUT_OF_MEMORY);
}

static void test_free_is_the_total_less_others_hidden_and_contexts_and_can_be_used_up(void **unused)
{
    (void)unused;
    IN_CHILD(body_total, "VGSIM_MEMORY=1GiB", "VGSIM_CONTEXT=100MiB", "VGSIM_HIDDEN=24MiB",
             "VGSIM_OTHER=77:other:50MiB");
}

static void body_pitch(void)
{
    CUdeviceptr pointer;
    size_t pitch = 0, before;
    sim_start(0);
    before = sim_free();
    CHECK_EQUAL(CU(cuMemAllocPitch_v2)(&pointer, &pitch, 513, 4096, 4), CUDA_SUCCESS);
    CHECK_EQUAL(pitch, 1024);
    CHECK_EQUAL(before - sim_free(), 4 * MIB);
    CHECK_EQUAL(CU(cuMemAllocPitch_v2)(&pointer, &pitch, 513, 4096, 3), CUDA_ERROR_INVALID_VALUE);
}

static void test_a_pitched_allocation_costs_pitch_times_height(void **unused)
{
    (void)unused;
    IN_CHILD(body_pitch, NULL);
}

static void body_managed(void)
{
    CUdeviceptr managed;
    void *pinned;
    size_t before;
    sim_start(0);
    before = sim_free();
    CHECK_EQUAL(CU(cuMemAllocManaged)(&managed, 64 * MIB, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemHostAlloc)(&pinned, 64 * MIB, 0), CUDA_SUCCESS);
    CHECK_EQUAL(sim_free(), before);
    CHECK_EQUAL(CU(cuMemFree_v2)((uintptr_t)pinned), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuMemFreeHost)((void *)(uintptr_t)managed), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuMemFree_v2)(managed), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemFreeHost)(pinned), CUDA_SUCCESS);
}

static void test_managed_and_pinned_memory_takes_nothing_of_the_device(void **unused)
{
    (void)unused;
    IN_CHILD(body_managed, NULL);
}

static void body_strict(void)
{
    CUdeviceptr pointer, invalid = 0x1234;
    char own[64];
    sim_start(0);
    CHECK_EQUAL(CU(cuMemAlloc_v2)(&pointer, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuMemAlloc_v2)(NULL, 1), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuMemFree_v2)(0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemFree_v2)(invalid), CUDA_ERROR_INVALID_VALUE);
    pointer = sim_alloc(4096);
    CHECK_EQUAL(CU(cuMemFree_v2)(pointer + 512), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuMemcpyHtoD_v2)(pointer, own, 64), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemcpyHtoD_v2)(pointer + 4096 + 512, own, 64), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuMemFree_v2)(pointer), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemFree_v2)(pointer), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuMemHostUnregister)(own), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    CHECK_EQUAL(CU(cuMemHostRegister_v2)(own, 64, 0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemHostRegister_v2)(own + 1, 8, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    CHECK_EQUAL(CU(cuMemHostUnregister)(own), CUDA_SUCCESS);
}

static void test_what_the_driver_refuses_is_refused(void **unused)
{
    (void)unused;
    IN_CHILD(body_strict, NULL);
}

static void body_copies(void)
{
    char text[16] = "to and fro", back[16] = "";
    uint32_t words[4];
    sim_start(0);
    CUdeviceptr a = sim_alloc(16), b = sim_alloc(16);
    CHECK_EQUAL(CU(cuMemcpyHtoD_v2)(a, text, 16), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemcpyDtoDAsync_v2)(b, a, 16, NULL), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemcpyDtoH_v2)(back, b, 16), CUDA_SUCCESS);
    CHECK(!strcmp(text, back));
    CHECK_EQUAL(CU(cuMemsetD32_v2)(b, 0x01020304, 3), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemcpy)((uintptr_t)words, b, 16), CUDA_SUCCESS);
    CHECK_EQUAL(words[2], 0x01020304);
    CHECK(words[3] == *(uint32_t *)(text + 12));
    CHECK_EQUAL(CU(cuMemsetD32_v2)(b, 0, 5), CUDA_SUCCESS); /* 16 bytes occupy a unit of 512 */
}

static void test_copies_and_fills_move_the_bytes(void **unused)
{
    (void)unused;
    IN_CHILD(body_copies, NULL);
}

static long resident_pages(void)
{
    long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%ld %ld", &size, &resident) == 2);
    fclose(file);
    return resident;
}

static void body_lazy(void)
{
    sim_start(0);
    long before = resident_pages();
    CUdeviceptr pointer = sim_alloc(16 * GIB);
    CHECK_EQUAL(CU(cuMemsetD8_v2)(pointer, 0, 16 * GIB), CUDA_SUCCESS);
    CHECK(resident_pages() - before < 1024);
}

static void test_untouched_memory_and_zeroing_cost_the_host_nothing(void **unused)
{
    (void)unused;
    IN_CHILD(body_lazy, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_allocation_costs_whole_pages_and_its_free_gives_them_back),
        cmocka_unit_test(test_small_allocations_share_a_page_until_the_last_is_freed),
        cmocka_unit_test(test_free_is_the_total_less_others_hidden_and_contexts_and_can_be_used_up),
        cmocka_unit_test(test_a_pitched_allocation_costs_pitch_times_height),
        cmocka_unit_test(test_managed_and_pinned_memory_takes_nothing_of_the_device),
        cmocka_unit_test(test_what_the_driver_refuses_is_refused),
        cmocka_unit_test(test_copies_and_fills_move_the_bytes),
        cmocka_unit_test(test_untouched_memory_and_zeroing_cost_the_host_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
