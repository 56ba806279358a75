/* case_capture.c -- streams that capture, whole and broken: a line per call, with its status.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each scenario ends with an allocation outside of any capture and a step, where the guard has to
 * know the device as it is.
 */
#include <pthread.h>

#include "case.h"
#include "steps.h"

static CUstream stream, other;
static CUgraph graph;

static void say(const char *what, CUresult status)
{
    printf("%s %d\n", what, (int)status);
}
#define SAY(call) say(#call, call)

static void set_up(void)
{
    use_device();
    NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    NEED(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    take(3 * MIB);
}

static int finish(void)
{
    CUevent event;
    CUdeviceptr address = take(5 * MIB);
    let_a_sample_come_due();
    SAY(cuEventCreate(&event, 0)); /* the guard looks */
    SAY(cuEventDestroy(event));
    step("after");
    SAY(cuMemFree(address));
    return 0;
}

static void begin(CUstreamCaptureMode mode)
{
    SAY(cuStreamBeginCapture(stream, mode));
    let_a_sample_come_due();
}

/* What is allowed in every capture. */
static void work(void)
{
    CUevent event;
    CUdeviceptr stays, passes;
    SAY(cuMemAllocAsync(&stays, 700001, stream));
    SAY(cuMemAllocAsync(&passes, 2 * MIB, stream));
    SAY(cuMemsetD8Async(passes, 1, 100, stream));
    SAY(cuEventCreate(&event, 0));
    SAY(cuEventRecord(event, stream));
    SAY(cuStreamWaitEvent(other, event, 0)); /* the other one joins */
    SAY(cuMemFreeAsync(passes, other));
    SAY(cuEventRecord(event, other));
    SAY(cuStreamWaitEvent(stream, event, 0));
    let_a_sample_come_due();
    SAY(cuEventDestroy(event));
}

static void launch_and_drop(void)
{
    CUgraphExec exec;
    SAY(cuGraphInstantiate(&exec, graph, 0));
    SAY(cuGraphLaunch(exec, stream));
    SAY(cuStreamSynchronize(stream));
    SAY(cuGraphExecDestroy(exec));
    SAY(cuGraphDestroy(graph));
}

static int whole(int argc, char **argv)
{
    set_up();
    begin((CUstreamCaptureMode)(argc > 2 ? atoi(argv[2]) : 0));
    work();
    SAY(cuStreamEndCapture(stream, &graph));
    launch_and_drop();
    return finish();
}

static int into_a_graph(int argc, char **argv)
{
    (void)argc, (void)argv;
    set_up();
    SAY(cuGraphCreate(&graph, 0));
    SAY(cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0, CU_STREAM_CAPTURE_MODE_GLOBAL));
    work();
    SAY(cuStreamEndCapture(stream, &graph));
    launch_and_drop();
    return finish();
}

/* An allocation that no stream orders: forbidden by all modes but RELAXED. */
static int unsafe(int argc, char **argv)
{
    CUdeviceptr address = 0;
    CUstreamCaptureStatus status;
    set_up();
    begin((CUstreamCaptureMode)(argc > 2 ? atoi(argv[2]) : 0));
    SAY(cuMemAlloc(&address, MIB));
    SAY(cuStreamIsCapturing(stream, &status));
    printf("capture %d\n", (int)status);
    SAY(cuMemFree(address));
    SAY(cuStreamEndCapture(stream, &graph));
    return finish();
}

static void *allocate_elsewhere(void *mode)
{
    CUcontext context;
    CUdeviceptr address = 0;
    CUstreamCaptureMode exchanged = *(const CUstreamCaptureMode *)mode;
    NEED(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    NEED(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    SAY(cuThreadExchangeStreamCaptureMode(&exchanged));
    SAY(cuMemAlloc(&address, MIB));
    SAY(cuMemFree(address));
    SAY(cuStreamEndCapture(stream, &graph)); /* not this thread's */
    NEED(cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS);
    return NULL;
}

static int elsewhere(int argc, char **argv)
{
    pthread_t thread;
    CUstreamCaptureMode mode = (CUstreamCaptureMode)(argc > 3 ? atoi(argv[3]) : 0);
    set_up();
    begin((CUstreamCaptureMode)(argc > 2 ? atoi(argv[2]) : 0));
    NEED(pthread_create(&thread, NULL, allocate_elsewhere, &mode) == 0);
    NEED(pthread_join(thread, NULL) == 0);
    let_a_sample_come_due();
    SAY(cuMemAllocAsync(&(CUdeviceptr){0}, MIB, stream));
    SAY(cuStreamEndCapture(stream, &graph));
    return finish();
}

static int stream_destroyed(int argc, char **argv)
{
    (void)argc, (void)argv;
    set_up();
    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    SAY(cuMemAllocAsync(&(CUdeviceptr){0}, MIB, stream));
    SAY(cuStreamDestroy(stream));
    return finish();
}

static int joined_stream_destroyed(int argc, char **argv)
{
    CUevent event;
    (void)argc, (void)argv;
    set_up();
    SAY(cuEventCreate(&event, 0));
    begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
    SAY(cuEventRecord(event, stream));
    SAY(cuStreamWaitEvent(other, event, 0));
    SAY(cuStreamDestroy(other));
    let_a_sample_come_due();
    SAY(cuMemAllocAsync(&(CUdeviceptr){0}, MIB, stream));
    SAY(cuStreamEndCapture(stream, &graph));
    return finish();
}

/* A second context, with a capture in it, ends. */
static int context_destroyed(int argc, char **argv)
{
    CUcontext context;
    (void)argc, (void)argv;
    set_up();
    NEED(cuCtxCreate_v4(&context, NULL, 0, 0) == CUDA_SUCCESS);
    NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    SAY(cuMemAllocAsync(&(CUdeviceptr){0}, MIB, stream));
    SAY(cuCtxDestroy(context));
    return finish();
}

/* A second context ends, and a stream and an event that took part, while the first one's stream
 * goes on capturing. */
static int others_destroyed(int argc, char **argv)
{
    CUcontext context;
    CUevent event, again;
    CUstream third;
    CUdeviceptr address;
    (void)argc, (void)argv;
    set_up();
    begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    NEED(cuCtxCreate_v4(&context, NULL, 0, 0) == CUDA_SUCCESS);
    let_a_sample_come_due();
    SAY(cuCtxDestroy(context));
    use_device();
    SAY(cuEventCreate(&event, 0));
    SAY(cuEventRecord(event, stream));
    SAY(cuEventDestroy(event));
    SAY(cuEventCreate(&again, 0)); /* perhaps the same handle */
    SAY(cuStreamWaitEvent(other, again, 0));
    SAY(cuMemAllocAsync(&address, MIB, other));
    SAY(cuMemFreeAsync(address, other));
    SAY(cuStreamCreate(&third, CU_STREAM_NON_BLOCKING));
    let_a_sample_come_due();
    SAY(cuMemAllocAsync(&address, 2 * MIB, third));
    SAY(cuStreamEndCapture(stream, &graph));
    return finish();
}

/* The last reference to the primary context goes while a stream of it captures. */
static int primary_released(int argc, char **argv)
{
    (void)argc, (void)argv;
    set_up();
    begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    SAY(cuMemAllocAsync(&(CUdeviceptr){0}, MIB, stream));
    SAY(cuDevicePrimaryCtxRelease(0));
    use_device();
    return finish();
}

static int two_at_once(int argc, char **argv)
{
    CUgraph second;
    (void)argc, (void)argv;
    set_up();
    begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    SAY(cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_RELAXED));
    SAY(cuStreamEndCapture(stream, &graph));
    let_a_sample_come_due();
    SAY(cuMemAllocAsync(&(CUdeviceptr){0}, MIB, other));
    take(MIB);
    SAY(cuStreamEndCapture(stream, &second)); /* again: it is not capturing */
    SAY(cuStreamEndCapture(other, &second));
    return finish();
}

static int out_of_memory(int argc, char **argv)
{
    CUdeviceptr address;
    CUstreamCaptureStatus status;
    (void)argc, (void)argv;
    set_up();
    begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    SAY(cuMemAlloc(&address, (size_t)64 << 30));
    SAY(cuStreamIsCapturing(stream, &status));
    printf("capture %d\n", (int)status);
    work();
    SAY(cuStreamEndCapture(stream, &graph));
    launch_and_drop();
    return finish();
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"whole", whole},
        {"into-a-graph", into_a_graph},
        {"unsafe", unsafe},
        {"elsewhere", elsewhere},
        {"stream-destroyed", stream_destroyed},
        {"joined-stream-destroyed", joined_stream_destroyed},
        {"context-destroyed", context_destroyed},
        {"others-destroyed", others_destroyed},
        {"primary-released", primary_released},
        {"two-at-once", two_at_once},
        {"out-of-memory", out_of_memory},
    };
    return run_scenario(all, sizeof all / sizeof *all, argc, argv);
}
