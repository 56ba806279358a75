/* test_sim_ipc.c -- memory and events of two processes of the simulation, and of other interfaces.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/unit/sim_pair.h"

#include <fcntl.h>

#define LAZY CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS

/* --- memory, big and small -------------------------------------------------------------------- */

static void body_owner(void)
{
    CUdeviceptr big, small, unused;
    void *pinned;
    char text[16];
    sim_start(0);
    big = sim_alloc(10 * MIB + 5);
    sim_alloc(1000);
    small = sim_alloc(1000);
    CHECK_EQUAL(CU(cuMemcpyHtoD_v2)(big + 5 * MIB, "from the owner", 15), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemcpyHtoD_v2)(small, "small", 6), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuIpcGetMemHandle)(&pair->memory[0], big), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuIpcGetMemHandle)(&pair->memory[1], small), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuIpcGetMemHandle)(&pair->memory[2], big + 1), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuMemHostAlloc)(&pinned, MIB, 0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuIpcGetMemHandle)(&pair->memory[2], (uintptr_t)pinned),
                CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuIpcOpenMemHandle_v2)(&unused, pair->memory[0], LAZY),
                CUDA_ERROR_INVALID_CONTEXT);
    pair_go(1);
    pair_wait(2);
    CHECK_EQUAL(CU(cuMemcpyDtoH_v2)(text, big, 16), CUDA_SUCCESS);
    CHECK(!strcmp(text, "from the opener"));
    CHECK_EQUAL(sim_free(), 24 * GIB - 600 * MIB - 14 * MIB);
    CHECK_EQUAL(CU(cuMemFree_v2)(big), CUDA_SUCCESS);
    CHECK_EQUAL(sim_free(), 24 * GIB - 600 * MIB - 14 * MIB);
    pair_go(3);
    pair_wait(4);
    CHECK_EQUAL(sim_free(), 24 * GIB - 600 * MIB - 2 * MIB);
    pair_go(5);
    pair_wait(6);
}

static void body_opener(void)
{
    CUdeviceptr big, again, small, base;
    size_t size;
    char text[16];
    pair_wait(1);
    sim_start(0);
    CHECK_EQUAL(CU(cuIpcOpenMemHandle_v2)(&big, pair->memory[0], 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuIpcOpenMemHandle_v2)(&big, pair->memory[3], LAZY), CUDA_ERROR_INVALID_HANDLE);
    size_t before = sim_free();
    CHECK_EQUAL(CU(cuIpcOpenMemHandle_v2)(&big, pair->memory[0], LAZY), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuIpcOpenMemHandle)(&again, pair->memory[0], LAZY), CUDA_SUCCESS);
    CHECK_EQUAL(again, big);
    CHECK_EQUAL(CU(cuIpcOpenMemHandle_v2)(&small, pair->memory[1], LAZY), CUDA_SUCCESS);
    CHECK_EQUAL(sim_free(), before);
    CHECK_EQUAL(CU(cuMemGetAddressRange_v2)(&base, &size, big + 100), CUDA_SUCCESS);
    CHECK_EQUAL(base, big);
    CHECK_EQUAL(size, 10 * MIB + 5);
    CHECK_EQUAL(CU(cuMemGetAddressRange_v2)(&base, &size, small), CUDA_SUCCESS);
    CHECK_EQUAL(size, 1000);
    CHECK_EQUAL(CU(cuMemcpyDtoH_v2)(text, big + 5 * MIB, 15), CUDA_SUCCESS);
    CHECK(!strcmp(text, "from the owner"));
    CHECK_EQUAL(CU(cuMemcpyDtoH_v2)(text, small, 6), CUDA_SUCCESS);
    CHECK(!strcmp(text, "small"));
    CHECK_EQUAL(CU(cuMemcpyHtoD_v2)(big, "from the opener", 16), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemFree_v2)(big), CUDA_ERROR_INVALID_VALUE);
    pair_go(2);
    pair_wait(3);
    CHECK_EQUAL(CU(cuIpcCloseMemHandle)(big + 1), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuIpcCloseMemHandle)(big), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemcpyDtoH_v2)(text, big, 16), CUDA_SUCCESS);
    CHECK_EQUAL(sim_free(), before);
    CHECK_EQUAL(CU(cuIpcCloseMemHandle)(big), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuIpcCloseMemHandle)(big), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuIpcOpenMemHandle_v2)(&big, pair->memory[0], LAZY), CUDA_ERROR_MAP_FAILED);
    CHECK_EQUAL(CU(cuIpcCloseMemHandle)(small), CUDA_SUCCESS);
    pair_go(4);
    pair_wait(5);
    pair_go(6);
}

static void test_opened_memory_is_the_owner_s_and_stays_in_use_until_it_is_closed(void **unused)
{
    (void)unused;
    IN_PAIR(body_owner, body_opener, NULL);
}

/* --- what ends with a process, and with a context --------------------------------------------- */

static void body_short_owner(void)
{
    sim_start(0);
    CHECK_EQUAL(CU(cuIpcGetMemHandle)(&pair->memory[0], sim_alloc(GIB)), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuIpcGetMemHandle)(&pair->memory[1], sim_alloc(GIB)), CUDA_SUCCESS);
    pair_go(1);
    pair_wait(2);
}

static void body_contexts(void)
{
    CUcontext other;
    CUdeviceptr pointer, second;
    pair_wait(1);
    CUcontext primary = sim_start(0);
    size_t before = sim_free();
    CHECK_EQUAL(CU(cuIpcOpenMemHandle_v2)(&pointer, pair->memory[0], LAZY), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuCtxCreate_v2)(&other, 0, 0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuIpcOpenMemHandle_v2)(&second, pair->memory[1], LAZY),
                CUDA_ERROR_INVALID_CONTEXT);
    CHECK_EQUAL(CU(cuCtxDestroy_v2)(other), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuCtxSetCurrent)(primary), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuDevicePrimaryCtxReset_v2)(0), CUDA_SUCCESS);
    sim_start(0);
    CHECK_EQUAL(CU(cuIpcCloseMemHandle)(pointer), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuIpcOpenMemHandle_v2)(&pointer, pair->memory[1], LAZY), CUDA_SUCCESS);
    CHECK_EQUAL(sim_free(), before);
    pair_go(2);
    for (int i = 0; i < 2000 && sim_free() != 24 * GIB - 300 * MIB; i++)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    CHECK_EQUAL(sim_free(), 24 * GIB - 300 * MIB);
}

static void test_one_context_opens_a_process_s_handles_and_they_end_with_it(void **unused)
{
    (void)unused;
    IN_PAIR(body_short_owner, body_contexts, NULL);
}

/* --- events ----------------------------------------------------------------------------------- */

static void body_event_owner(void)
{
    CUevent plain, event, opened;
    sim_start(0);
    CHECK_EQUAL(CU(cuEventCreate)(&plain, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuIpcGetEventHandle)(&pair->event, plain), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuEventCreate)(&event, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuEventCreate)(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING),
                CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuIpcGetEventHandle)(&pair->event, event), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuIpcOpenEventHandle)(&opened, pair->event), CUDA_ERROR_INVALID_CONTEXT);
    pair_go(1);
    pair_wait(2);
}

static void body_event_opener(void)
{
    CUevent event;
    CUipcEventHandle none = {{0}};
    pair_wait(1);
    sim_start(0);
    CHECK_EQUAL(CU(cuIpcOpenEventHandle)(&event, none), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQUAL(CU(cuIpcOpenEventHandle)(&event, pair->event), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuEventRecord)(event, NULL), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuEventSynchronize)(event), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuEventDestroy_v2)(event), CUDA_SUCCESS);
    pair_go(2);
}

static void test_events_cross_processes_when_they_were_made_for_it(void **unused)
{
    (void)unused;
    IN_PAIR(body_event_owner, body_event_opener, NULL);
}

/* --- memory of another interface -------------------------------------------------------------- */

static void body_external(void)
{
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
                                             .size = 8 * MIB};
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {.offset = 4096, .size = MIB};
    CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC levels = {.numLevels = 2};
    CUexternalMemory memory;
    CUmipmappedArray mipmap;
    CUdeviceptr pointer;
    char text[8];
    int fd = memfd_create("theirs", 0);
    CHECK_EQUAL(ftruncate(fd, 8 * MIB), 0);
    CHECK_EQUAL(pwrite(fd, "file", 5, 4096), 5);
    sim_start(0);
    size_t before = sim_free();
    desc.handle.fd = 999;
    CHECK_EQUAL(CU(cuImportExternalMemory)(&memory, &desc), CUDA_ERROR_INVALID_VALUE);
    desc.handle.fd = fd;
    CHECK_EQUAL(CU(cuImportExternalMemory)(&memory, &desc), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuExternalMemoryGetMappedBuffer)(&pointer, memory, &buffer), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemcpyDtoH_v2)(text, pointer, 5), CUDA_SUCCESS);
    CHECK(!strcmp(text, "file"));
    levels.arrayDesc = (CUDA_ARRAY3D_DESCRIPTOR){
        .Width = 64, .Height = 64, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CHECK_EQUAL(CU(cuExternalMemoryGetMappedMipmappedArray)(&mipmap, memory, &levels),
                CUDA_SUCCESS);
    CHECK_EQUAL(sim_free(), before);
    buffer.offset = 8 * MIB - 4096;
    CHECK_EQUAL(CU(cuExternalMemoryGetMappedBuffer)(&pointer, memory, &buffer),
                CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuDestroyExternalMemory)(memory), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuDestroyExternalMemory)(memory), CUDA_ERROR_INVALID_HANDLE);
    CHECK(fcntl(fd, F_GETFD) < 0);
    CHECK_EQUAL(CU(cuMemcpyDtoH_v2)(text, pointer, 5), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemFree_v2)(pointer), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMemFree_v2)(pointer), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuMipmappedArrayDestroy)(mipmap), CUDA_SUCCESS);
    CHECK_EQUAL(sim_free(), before);
}

static void
test_external_memory_is_mapped_for_nothing_and_its_buffers_are_freed_by_cuMemFree(void **unused)
{
    (void)unused;
    IN_CHILD(body_external, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opened_memory_is_the_owner_s_and_stays_in_use_until_it_is_closed),
        cmocka_unit_test(test_one_context_opens_a_process_s_handles_and_they_end_with_it),
        cmocka_unit_test(test_events_cross_processes_when_they_were_made_for_it),
        cmocka_unit_test(
            test_external_memory_is_mapped_for_nothing_and_its_buffers_are_freed_by_cuMemFree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
