/* case_ways_to_free.c -- frees by another thread, call or graph than one would think.
 * SPDX-License-Identifier: Apache-2.0
 *
 * One line per call that may be refused, with its status.
 */
#include <pthread.h>

#include "case.h"
#include "steps.h"

static CUstream stream;

static void say(const char *what, CUresult status)
{
    printf("%s %d\n", what, (int)status);
}
#define SAY(call) say(#call, call)

static void set_up(void)
{
    use_device();
    NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
}

static void *free_it(void *address)
{
    CUcontext context;
    CUdeviceptr given = *(CUdeviceptr *)address;
    SAY(cuMemFree(given)); /* a thread without a context */
    NEED(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    NEED(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    SAY(cuMemFree(given));
    NEED(cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
    return NULL;
}

static int by_another_thread(int argc, char **argv)
{
    pthread_t thread;
    (void)argc, (void)argv;
    set_up();
    CUdeviceptr address = take(3 * MIB);
    step("taken");
    NEED(pthread_create(&thread, NULL, free_it, &address) == 0);
    NEED(pthread_join(thread, NULL) == 0);
    step("freed");
    return 0;
}

static int after_a_reset(int argc, char **argv)
{
    void *pinned;
    CUarray array;
    CUDA_ARRAY_DESCRIPTOR plane = {
        .Width = 300, .Height = 200, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    (void)argc, (void)argv;
    set_up();
    CUdeviceptr address = take(3 * MIB), ordered;
    NEED(cuMemAllocAsync(&ordered, MIB, stream) == CUDA_SUCCESS);
    NEED(cuMemHostAlloc(&pinned, 4096, 0) == CUDA_SUCCESS);
    NEED(cuArrayCreate(&array, &plane) == CUDA_SUCCESS);
    step("taken");
    SAY(cuDevicePrimaryCtxReset(0));
    step("reset");
    use_device();
    SAY(cuMemFree(address));
    SAY(cuMemFreeHost(pinned));
    step("freed-too-late");
    CUdeviceptr again = take(3 * MIB);
    step("taken-again");
    SAY(cuMemFree(again));
    step("freed");
    return 0;
}

static int pool_by_address(int argc, char **argv)
{
    CUdeviceptr one, two;
    (void)argc, (void)argv;
    set_up();
    NEED(cuMemAllocAsync(&one, 3 * MIB, stream) == CUDA_SUCCESS);
    NEED(cuMemAllocAsync(&two, 5 * MIB, stream) == CUDA_SUCCESS);
    step("taken");
    SAY(cuMemFree(one));
    step("freed-one");
    SAY(cuMemFree(one));
    SAY(cuMemFreeAsync(two, stream));
    SAY(cuMemFreeAsync(two, stream));
    step("freed");
    return 0;
}

static CUgraphExec ready(CUgraph graph)
{
    CUgraphExec exec;
    NEED(cuGraphInstantiate(&exec, graph, 0) == CUDA_SUCCESS);
    return exec;
}

static int graph_memory(int argc, char **argv)
{
    CUgraph allocates, frees;
    CUgraphNode node;
    CUdeviceptr address;
    (void)argc, (void)argv;
    set_up();
    NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
    NEED(cuMemAllocAsync(&address, 700001, stream) == CUDA_SUCCESS);
    NEED(cuStreamEndCapture(stream, &allocates) == CUDA_SUCCESS);
    CUgraphExec make = ready(allocates);
    SAY(cuMemFreeAsync(address, stream)); /* nothing has made it yet */
    step("not-launched");
    SAY(cuGraphLaunch(make, stream));
    step("launched");
    SAY(cuMemFreeAsync(address, stream));
    step("freed-in-order");
    SAY(cuGraphLaunch(make, stream));
    SAY(cuMemFree(address));
    step("freed-by-address");
    SAY(cuGraphLaunch(make, stream));
    NEED(cuGraphCreate(&frees, 0) == CUDA_SUCCESS);
    SAY(cuGraphAddMemFreeNode(&node, frees, NULL, 0, address));
    CUgraphExec undo = ready(frees);
    step("launched-again");
    SAY(cuGraphLaunch(undo, stream));
    step("freed-by-a-graph");
    SAY(cuGraphLaunch(make, stream));
    SAY(cuStreamSynchronize(stream));
    SAY(cuGraphExecDestroy(make)); /* what is live stays */
    SAY(cuGraphDestroy(allocates));
    step("graph-gone");
    SAY(cuMemFree(address));
    step("freed");
    return 0;
}

static int external(int argc, char **argv)
{
    int fd = -1;
    CUmemGenericAllocationHandle handle;
    CUexternalMemory memory;
    CUdeviceptr one, two;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUDA_EXTERNAL_MEMORY_BUFFER_DESC part = {.offset = 0, .size = MIB};
    (void)argc, (void)argv;
    set_up();
    NEED(cuMemCreate(&handle, 4 * MIB, &prop, 0) == CUDA_SUCCESS);
    NEED(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0) ==
         CUDA_SUCCESS);
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC desc = {
        .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .handle.fd = fd, .size = 4 * MIB};
    SAY(cuImportExternalMemory(&memory, &desc));
    SAY(cuExternalMemoryGetMappedBuffer(&one, memory, &part));
    part.offset = 2 * MIB;
    SAY(cuExternalMemoryGetMappedBuffer(&two, memory, &part));
    step("mapped");
    SAY(cuMemFree(one));
    step("freed-one");
    SAY(cuDestroyExternalMemory(memory));
    step("destroyed");
    SAY(cuMemFree(two));
    SAY(cuMemRelease(handle));
    step("freed");
    return 0;
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"by-another-thread", by_another_thread},
                                          {"after-a-reset", after_a_reset},
                                          {"pool-by-address", pool_by_address},
                                          {"graph-memory", graph_memory},
                                          {"external", external}};
    return run_scenario(all, sizeof all / sizeof *all, argc, argv);
}
