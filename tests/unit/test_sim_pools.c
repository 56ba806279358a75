/* test_sim_pools.c -- stream-ordered memory on the simulated driver.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What is in use, idle, pending, and given back.
 */
#include "tests/unit/sim_books.h"

static cuuint64_t attribute(CUmemoryPool pool, CUmemPool_attribute which)
{
    cuuint64_t value = 0;
    SUCCEEDS(CU(cuMemPoolGetAttribute)(pool, which, &value));
    return value;
}

static cuuint64_t reserved(CUmemoryPool pool)
{
    return attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
}

static CUmemoryPool new_pool(void)
{
    CUmemoryPool pool;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    cuuint64_t keep_all = UINT64_MAX;
    SUCCEEDS(CU(cuMemPoolCreate)(&pool, &props));
    SUCCEEDS(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep_all));
    return pool;
}

static CUdeviceptr from_pool(CUmemoryPool pool, size_t bytes, CUstream stream)
{
    CUdeviceptr pointer;
    SUCCEEDS(CU(cuMemAllocFromPoolAsync)(&pointer, bytes, pool, stream));
    return pointer;
}

/* CUDA Driver API, cuMemPoolTrimTo: what the host has not seen completed may count as in use. */
static void body_pending(void)
{
    sim_start(0);
    CUmemoryPool pool = new_pool();
    CUstream stream = sim_stream(CU_STREAM_NON_BLOCKING),
             other = sim_stream(CU_STREAM_NON_BLOCKING);
    SUCCEEDS(CU(cuMemFreeAsync)(from_pool(pool, 10 * MIB, stream), stream));
    CHECK_EQUAL(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
    SUCCEEDS(CU(cuMemPoolTrimTo)(pool, 0));
    CHECK_EQUAL(reserved(pool), 32 * MIB);
    SUCCEEDS(CU(cuStreamSynchronize)(other));
    SUCCEEDS(CU(cuMemPoolTrimTo)(pool, 0));
    CHECK_EQUAL(reserved(pool), 32 * MIB);
    SUCCEEDS(CU(cuStreamSynchronize)(stream));
    CHECK_EQUAL(reserved(pool), 32 * MIB); /* below the threshold */
    SUCCEEDS(CU(cuMemPoolTrimTo)(pool, 0));
    CHECK_EQUAL(reserved(pool), 0);
    /* What cuMemFree frees is known to be done. */
    SUCCEEDS(CU(cuMemFree_v2)(from_pool(pool, 10 * MIB, stream)));
    SUCCEEDS(CU(cuMemPoolTrimTo)(pool, 0));
    CHECK_EQUAL(reserved(pool), 0);
}

static void test_a_pending_free_keeps_its_pages_until_its_stream_is_waited_for(void **unused)
{
    (void)unused;
    IN_CHILD(body_pending, NULL);
}

static void trimmed_to_nothing(CUmemoryPool pool)
{
    SUCCEEDS(CU(cuMemPoolTrimTo)(pool, 0));
    CHECK_EQUAL(reserved(pool), 0);
}

static void body_ways(void)
{
    CUevent event;
    sim_start(0);
    CUmemoryPool pool = new_pool();
    CUstream stream = sim_stream(CU_STREAM_NON_BLOCKING),
             other = sim_stream(CU_STREAM_NON_BLOCKING);
    CUstream blocking = sim_stream(0);
    SUCCEEDS(CU(cuEventCreate)(&event, 0));
    /* the context */
    SUCCEEDS(CU(cuMemFreeAsync)(from_pool(pool, MIB, stream), stream));
    SUCCEEDS(CU(cuCtxSynchronize)());
    trimmed_to_nothing(pool);
    /* an event after it, but none before it */
    SUCCEEDS(CU(cuEventRecord)(event, stream));
    SUCCEEDS(CU(cuMemFreeAsync)(from_pool(pool, MIB, stream), stream));
    SUCCEEDS(CU(cuEventSynchronize)(event));
    SUCCEEDS(CU(cuMemPoolTrimTo)(pool, 0));
    CHECK_EQUAL(reserved(pool), 32 * MIB);
    SUCCEEDS(CU(cuEventRecord)(event, stream));
    SUCCEEDS(CU(cuEventSynchronize)(event));
    trimmed_to_nothing(pool);
    /* a stream that waited for it */
    SUCCEEDS(CU(cuMemFreeAsync)(from_pool(pool, MIB, stream), stream));
    SUCCEEDS(CU(cuEventRecord)(event, stream));
    SUCCEEDS(CU(cuStreamWaitEvent)(other, event, 0));
    SUCCEEDS(CU(cuStreamSynchronize)(other));
    trimmed_to_nothing(pool);
    /* a blocking stream, through the legacy one */
    SUCCEEDS(CU(cuMemFreeAsync)(from_pool(pool, MIB, blocking), blocking));
    SUCCEEDS(CU(cuStreamSynchronize)(NULL));
    trimmed_to_nothing(pool);
    /* a second query */
    SUCCEEDS(CU(cuMemFreeAsync)(from_pool(pool, MIB, stream), stream));
    CHECK_EQUAL(CU(cuStreamQuery)(stream), CUDA_ERROR_NOT_READY);
    SUCCEEDS(CU(cuStreamQuery)(stream));
    trimmed_to_nothing(pool);
    SUCCEEDS(CU(cuMemFreeAsync)(from_pool(pool, MIB, stream), stream));
    SUCCEEDS(CU(cuEventRecord)(event, stream));
    CHECK_EQUAL(CU(cuEventQuery)(event), CUDA_ERROR_NOT_READY);
    SUCCEEDS(CU(cuEventQuery)(event));
    trimmed_to_nothing(pool);
    /* a stream that is gone: only its context */
    SUCCEEDS(CU(cuMemFreeAsync)(from_pool(pool, MIB, stream), stream));
    SUCCEEDS(CU(cuStreamDestroy_v2)(stream));
    SUCCEEDS(CU(cuMemPoolTrimTo)(pool, 0));
    CHECK_EQUAL(reserved(pool), 32 * MIB);
    SUCCEEDS(CU(cuCtxSynchronize)());
    trimmed_to_nothing(pool);
}

static void test_every_way_to_wait_for_a_stream_ends_its_pending_frees(void **unused)
{
    (void)unused;
    IN_CHILD(body_ways, NULL);
}

/* Programming Guide, "Physical Page Caching Behavior": at the next synchronisation, above the
 * threshold. */
static void body_threshold(void)
{
    CUmemoryPool pool;
    cuuint64_t threshold = 40 * MIB;
    sim_start(0);
    SUCCEEDS(CU(cuDeviceGetDefaultMemPool)(&pool, 0));
    SUCCEEDS(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    CUdeviceptr a = sim_alloc_async(32 * MIB, NULL), b = sim_alloc_async(32 * MIB, NULL);
    CUdeviceptr c = sim_alloc_async(32 * MIB, NULL);
    CHECK_EQUAL(sim_books(0).pool_reserved_bytes, 96 * MIB);
    CHECK_EQUAL(sim_books(0).kinds[VGSIM_KIND_pool].requested_bytes, 96 * MIB);
    SUCCEEDS(CU(cuMemFreeAsync)(a, NULL));
    SUCCEEDS(CU(cuMemFreeAsync)(b, NULL));
    CHECK_EQUAL(sim_books(0).pool_reserved_bytes, 96 * MIB);
    CHECK_EQUAL(sim_books(0).kinds[VGSIM_KIND_pool].requested_bytes, 32 * MIB);
    SUCCEEDS(CU(cuStreamSynchronize)(NULL));
    CHECK_EQUAL(reserved(pool), 64 * MIB);
    CHECK_EQUAL(sim_books(0).pool_reserved_bytes, 64 * MIB);
    /* never below what is to be kept */
    SUCCEEDS(CU(cuMemPoolTrimTo)(pool, 33 * MIB));
    CHECK_EQUAL(reserved(pool), 64 * MIB);
    SUCCEEDS(CU(cuMemPoolTrimTo)(pool, 32 * MIB));
    CHECK_EQUAL(reserved(pool), 32 * MIB);
    SUCCEEDS(CU(cuMemFreeAsync)(c, NULL));
    CHECK_EQUAL(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 96 * MIB);
    CHECK_EQUAL(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 96 * MIB);
    cuuint64_t value = 1;
    CHECK_EQUAL(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value),
                CUDA_ERROR_INVALID_VALUE);
    value = 0;
    SUCCEEDS(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &value));
    SUCCEEDS(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &value));
    CHECK_EQUAL(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 0);
    CHECK_EQUAL(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 32 * MIB);
    int reuse = 0, got = 1;
    SUCCEEDS(CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &reuse));
    SUCCEEDS(CU(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &got));
    CHECK_EQUAL(got, 0);
}

static void test_thresholds_trims_and_marks_are_as_documented(void **unused)
{
    (void)unused;
    IN_CHILD(body_threshold, NULL);
}

/* CUDA Driver API, cuMemPoolDestroy. */
static void body_destroy(void)
{
    CUmemoryPool pool, current, standard;
    sim_start(0);
    SUCCEEDS(CU(cuDeviceGetDefaultMemPool)(&standard, 0));
    pool = new_pool();
    CHECK_EQUAL(sim_books(0).objects[VGSIM_COUNTED_pools].live, 1);
    SUCCEEDS(CU(cuDeviceSetMemPool)(0, pool));
    CUdeviceptr a = sim_alloc_async(MIB, NULL), b = sim_alloc_async(MIB, NULL);
    SUCCEEDS(CU(cuMemFreeAsync)(a, NULL));
    SUCCEEDS(CU(cuMemPoolDestroy)(pool));
    CHECK_EQUAL(sim_books(0).objects[VGSIM_COUNTED_pools].live, 0);
    CHECK_EQUAL(sim_books(0).objects[VGSIM_COUNTED_pools].destroyed, 1);
    SUCCEEDS(CU(cuDeviceGetMemPool)(&current, 0));
    CHECK(current == standard);
    CHECK_EQUAL(CU(cuMemPoolTrimTo)(pool, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuMemPoolDestroy)(standard), CUDA_ERROR_INVALID_VALUE);
    SUCCEEDS(CU(cuMemFreeAsync)(b, NULL));
    CHECK_EQUAL(sim_books(0).pool_reserved_bytes, 32 * MIB); /* the frees are pending */
    SUCCEEDS(CU(cuStreamSynchronize)(NULL));
    CHECK_EQUAL(sim_books(0).pool_reserved_bytes, 0);
    CHECK_EQUAL(CU(cuMemFreeAsync)(b, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void test_a_destroyed_pool_ends_with_its_last_allocation(void **unused)
{
    (void)unused;
    IN_CHILD(body_destroy, NULL);
}

static void body_places(void)
{
    CUmemoryPool pool, got, standard;
    CUmemLocation first = {CU_MEM_LOCATION_TYPE_DEVICE, 0}, host = {CU_MEM_LOCATION_TYPE_HOST, 0};
    CUmemLocation second = {CU_MEM_LOCATION_TYPE_DEVICE, 1};
    sim_start(0);
    SUCCEEDS(CU(cuDeviceGetDefaultMemPool)(&standard, 0));
    SUCCEEDS(CU(cuMemGetDefaultMemPool)(&got, &first, CU_MEM_ALLOCATION_TYPE_PINNED));
    CHECK(got == standard);
    pool = new_pool();
    SUCCEEDS(CU(cuMemSetMemPool)(&first, CU_MEM_ALLOCATION_TYPE_PINNED, pool));
    SUCCEEDS(CU(cuMemGetMemPool)(&got, &first, CU_MEM_ALLOCATION_TYPE_PINNED));
    CHECK(got == pool);
    CHECK_EQUAL(CU(cuMemSetMemPool)(&second, CU_MEM_ALLOCATION_TYPE_PINNED, pool),
                CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuMemGetMemPool)(&got, &host, CU_MEM_ALLOCATION_TYPE_PINNED),
                CUDA_ERROR_NOT_SUPPORTED);
    CHECK_EQUAL(CU(cuMemGetMemPool)(&got, &first, CU_MEM_ALLOCATION_TYPE_INVALID),
                CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuMemPoolExportPointer)(NULL, 0), CUDA_ERROR_NOT_SUPPORTED);
}

static void test_pools_are_found_by_place_and_kind_too(void **unused)
{
    (void)unused;
    IN_CHILD(body_places, "VGSIM_DEVICES=2");
}

static void body_reset(void)
{
    sim_start(0);
    CUmemoryPool pool = new_pool();
    CUstream stream = sim_stream(0);
    from_pool(pool, MIB, stream);
    SUCCEEDS(CU(cuMemFreeAsync)(sim_alloc_async(MIB, stream), stream));
    SUCCEEDS(CU(cuDevicePrimaryCtxReset_v2)(0));
    struct vgsim_device_books books = sim_books(0);
    CHECK_EQUAL(books.pool_reserved_bytes, 0);
    CHECK_EQUAL(books.page_bytes, 0);
    CHECK_EQUAL(books.kinds[VGSIM_KIND_pool].live_blocks, 0);
    CHECK_EQUAL(books.objects[VGSIM_COUNTED_pools].live, 0);
}

static void test_a_reset_ends_pools_and_what_is_pending(void **unused)
{
    (void)unused;
    IN_CHILD(body_reset, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_pending_free_keeps_its_pages_until_its_stream_is_waited_for),
        cmocka_unit_test(test_every_way_to_wait_for_a_stream_ends_its_pending_frees),
        cmocka_unit_test(test_thresholds_trims_and_marks_are_as_documented),
        cmocka_unit_test(test_a_destroyed_pool_ends_with_its_last_allocation),
        cmocka_unit_test(test_pools_are_found_by_place_and_kind_too),
        cmocka_unit_test(test_a_reset_ends_pools_and_what_is_pending),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
