/* case_objects.c -- contexts, streams, events, modules, pools: made, leaked, destroyed.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "case.h"
#include "steps.h"

static const char image[] = "an image";

__attribute__((noinline)) static void leak_streams(int count)
{
    CUstream stream;
    for (int i = 0; i < count; i++)
        NEED(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS);
}

__attribute__((noinline)) static void leak_events(int count)
{
    CUevent event;
    for (int i = 0; i < count; i++)
        NEED(cuEventCreate(&event, 0) == CUDA_SUCCESS);
}

static void make_and_destroy(void)
{
    CUstream stream[4];
    CUevent event[3];
    CUmodule module[2];
    CUlibrary library;
    CUmemoryPool pool;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    for (int i = 0; i < 4; i++)
        NEED(cuStreamCreate(&stream[i], 0) == CUDA_SUCCESS);
    for (int i = 0; i < 3; i++)
        NEED(cuEventCreate(&event[i], 0) == CUDA_SUCCESS);
    NEED(cuModuleLoadData(&module[0], image) == CUDA_SUCCESS);
    NEED(cuModuleLoadDataEx(&module[1], image, 0, NULL, NULL) == CUDA_SUCCESS);
    NEED(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0) == CUDA_SUCCESS);
    NEED(cuMemPoolCreate(&pool, &props) == CUDA_SUCCESS);
    step("made");
    for (int i = 0; i < 4; i++)
        NEED(cuStreamDestroy(stream[i]) == CUDA_SUCCESS);
    for (int i = 0; i < 3; i++)
        NEED(cuEventDestroy(event[i]) == CUDA_SUCCESS);
    NEED(cuModuleUnload(module[0]) == CUDA_SUCCESS);
    NEED(cuModuleUnload(module[1]) == CUDA_SUCCESS);
    NEED(cuLibraryUnload(library) == CUDA_SUCCESS);
    NEED(cuMemPoolDestroy(pool) == CUDA_SUCCESS);
    step("destroyed");
}

static void go_with_a_context(void)
{
    CUcontext context;
    CUmodule module;
    NEED(cuCtxCreate_v4(&context, NULL, 0, 0) == CUDA_SUCCESS);
    leak_streams(3);
    leak_events(2);
    NEED(cuModuleLoadData(&module, image) == CUDA_SUCCESS);
    NEED(cuMemAlloc(&(CUdeviceptr){0}, MIB) == CUDA_SUCCESS);
    step("second-context");
    NEED(cuCtxDestroy(context) == CUDA_SUCCESS);
    step("second-context-gone");
}

/* Memory that is made in a green context is the primary one's. */
static int green(int argc, char **argv)
{
    CUdevResource all, group;
    CUdevResourceDesc desc;
    CUgreenCtx green_context;
    CUcontext context;
    CUstream stream;
    unsigned int groups = 1;
    (void)argc, (void)argv;
    if (strcmp(argv[1], "green-first") != 0) {
        use_device();
        take(MIB);
    }
    NEED(cuInit(0) == CUDA_SUCCESS);
    NEED(cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM) == CUDA_SUCCESS);
    NEED(cuDevSmResourceSplitByCount(&group, &groups, &all, NULL, 0, 16) == CUDA_SUCCESS);
    NEED(cuDevResourceGenerateDesc(&desc, &group, 1) == CUDA_SUCCESS);
    NEED(cuGreenCtxCreate(&green_context, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM) == CUDA_SUCCESS);
    NEED(cuCtxFromGreenCtx(&context, green_context) == CUDA_SUCCESS);
    NEED(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    NEED(cuGreenCtxStreamCreate(&stream, green_context, CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS);
    take(3 * MIB);
    step("made");
    NEED(cuGreenCtxDestroy(green_context) == CUDA_SUCCESS);
    step("green-gone");
    use_device();
    take(5 * MIB);
    step("primary");
    NEED(cuDevicePrimaryCtxReset(0) == CUDA_SUCCESS);
    step("reset");
    return 0;
}

static int everything(int argc, char **argv)
{
    CUcontext again;
    (void)argc, (void)argv;
    use_device();
    take(MIB);
    NEED(cuDevicePrimaryCtxRetain(&again, 0) == CUDA_SUCCESS); /* the same one */
    make_and_destroy();
    NEED(cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
    go_with_a_context();
    use_device();
    leak_streams(5);
    leak_events(1200);
    step("leaked");
    NEED(cuDevicePrimaryCtxReset(0) == CUDA_SUCCESS);
    step("reset");
    return 0;
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"everything", everything}, {"green", green}, {"green-first", green}};
    return run_scenario(all, sizeof all / sizeof *all, argc, argv);
}
