/* case_runtime_kinds.c -- one allocation of every kind that the runtime API has; then all freed.
 * SPDX-License-Identifier: Apache-2.0
 *
 * case_runtime_kinds plain | capture      capture: while a stream captures in RELAXED mode, in
 * which every call is allowed Lines "bytes DEVICE KIND N": what was asked for, where the call
 * says it.
 */
#include <cuda_runtime_api.h>

#include <string.h>

#include "steps.h"

enum { DEVICES_MAX = 2 };

static struct made {
    cudaStream_t stream, capturing;
    cudaMemPool_t pool;
    void *plain, *pitched, *managed, *pinned, *pinned_too, *from_default, *from_own, *in_graph,
        *in_capture;
    struct cudaPitchedPtr box;
    char *registered;
    cudaArray_t flat, deep;
    cudaMipmappedArray_t mipmap;
    cudaGraph_t graph, captured;
    cudaGraphExec_t exec, captured_exec;
} all[DEVICES_MAX];

static void must(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "failed: %s: %s\n", what, cudaGetErrorName(error));
    abort();
}
#define MUST(call) must(call, #call)

static void tell(int device, const char *kind, size_t bytes)
{
    printf("bytes %d %s %zu\n", device, kind, bytes);
}

static void make_plain(struct made *m, int device)
{
    size_t pitch;
    struct cudaExtent extent = {100, 6, 3};
    MUST(cudaMalloc(&m->plain, 1000003 + (size_t)device));
    MUST(cudaMallocPitch(&m->pitched, &pitch, 1000, 10));
    MUST(cudaMalloc3D(&m->box, extent));
    tell(device, "device", 1000003 + (size_t)device + 10 * pitch + m->box.pitch * 18);
    MUST(cudaMallocManaged(&m->managed, 5000, cudaMemAttachGlobal));
    tell(device, "managed", 5000);
    MUST(cudaMallocHost(&m->pinned, 7000));
    MUST(cudaHostAlloc(&m->pinned_too, 9000, cudaHostAllocDefault));
    tell(device, "pinned", 16000);
    m->registered = aligned_alloc(4096, 8192);
    MUST(cudaHostRegister(m->registered, 8192, cudaHostRegisterDefault));
    tell(device, "registered", 8192);
}

static void free_plain(struct made *m)
{
    MUST(cudaHostUnregister(m->registered));
    free(m->registered);
    MUST(cudaFreeHost(m->pinned_too));
    MUST(cudaFreeHost(m->pinned));
    MUST(cudaFree(m->managed));
    MUST(cudaFree(m->box.ptr));
    MUST(cudaFree(m->pitched));
    MUST(cudaFree(m->plain));
}

static void make_pools(struct made *m, int device)
{
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                     .location = {cudaMemLocationTypeDevice, device}};
    MUST(cudaMemPoolCreate(&m->pool, &props));
    MUST(cudaMallocAsync(&m->from_default, 3000001, m->stream));
    MUST(cudaMallocFromPoolAsync(&m->from_own, 2000001, m->pool, m->stream));
    tell(device, "pool", 5000002);
}

static void free_pools(struct made *m)
{
    MUST(cudaFreeAsync(m->from_own, m->stream));
    MUST(cudaFree(m->from_default)); /* by address: legal too */
    MUST(cudaStreamSynchronize(m->stream));
    MUST(cudaMemPoolDestroy(m->pool));
}

static void make_arrays(struct made *m)
{
    struct cudaChannelFormatDesc two =
        cudaCreateChannelDesc(32, 32, 0, 0, cudaChannelFormatKindFloat);
    struct cudaExtent box = {64, 32, 4};
    MUST(cudaMallocArray(&m->flat, &two, 300, 200, 0));
    MUST(cudaMalloc3DArray(&m->deep, &two, box, cudaArraySurfaceLoadStore));
    MUST(cudaMallocMipmappedArray(&m->mipmap, &two, box, 2, 0));
}

static void free_arrays(struct made *m)
{
    MUST(cudaFreeArray(m->flat));
    MUST(cudaFreeArray(m->deep));
    MUST(cudaFreeMipmappedArray(m->mipmap));
}

static void make_graph_by_node(struct made *m, int device)
{
    cudaGraphNode_t node;
    struct cudaMemAllocNodeParams params = {
        .poolProps = {.allocType = cudaMemAllocationTypePinned,
                      .location = {cudaMemLocationTypeDevice, device}},
        .bytesize = 600001};
    MUST(cudaGraphCreate(&m->graph, 0));
    MUST(cudaGraphAddMemAllocNode(&node, m->graph, NULL, 0, &params));
    m->in_graph = params.dptr;
    MUST(cudaGraphInstantiateWithFlags(&m->exec, m->graph, 0));
    MUST(cudaGraphLaunch(m->exec, m->stream));
}

static void make_graph_by_capture(struct made *m)
{
    void *passing;
    MUST(cudaStreamBeginCapture(m->stream, cudaStreamCaptureModeThreadLocal));
    MUST(cudaMallocAsync(&m->in_capture, 700001, m->stream));
    MUST(cudaMallocAsync(&passing, 800001, m->stream));
    MUST(cudaFreeAsync(passing, m->stream));
    MUST(cudaStreamEndCapture(m->stream, &m->captured));
    MUST(cudaGraphInstantiateWithFlags(&m->captured_exec, m->captured, 0));
    MUST(cudaGraphLaunch(m->captured_exec, m->stream));
}

static void capture_something(struct made *m, int captures)
{
    if (captures)
        MUST(cudaStreamBeginCapture(m->capturing, cudaStreamCaptureModeRelaxed));
}

static void end_capture(struct made *m, int captures)
{
    cudaGraph_t graph;
    if (!captures)
        return;
    MUST(cudaStreamEndCapture(m->capturing, &graph));
    MUST(cudaGraphDestroy(graph));
}

static void make(struct made *m, int device, int captures)
{
    MUST(cudaStreamCreateWithFlags(&m->stream, cudaStreamNonBlocking));
    MUST(cudaStreamCreateWithFlags(&m->capturing, cudaStreamNonBlocking));
    capture_something(m, captures);
    make_plain(m, device);
    make_pools(m, device);
    make_arrays(m);
    make_graph_by_node(m, device);
    end_capture(m, captures);
    make_graph_by_capture(m);
    tell(device, "graph", 600001 + 700001);
}

static void unmake(struct made *m, int captures)
{
    capture_something(m, captures);
    MUST(cudaFreeAsync(m->in_graph, m->stream));
    free_arrays(m);
    free_pools(m);
    free_plain(m);
    end_capture(m, captures);
    MUST(cudaFree(m->in_capture));
    MUST(cudaGraphExecDestroy(m->exec));
    MUST(cudaGraphExecDestroy(m->captured_exec));
    MUST(cudaGraphDestroy(m->graph));
    MUST(cudaGraphDestroy(m->captured));
    MUST(cudaStreamDestroy(m->stream));
    MUST(cudaStreamDestroy(m->capturing));
}

/* An event, so that the guard looks at every device. */
static void look(int devices)
{
    cudaEvent_t event;
    for (int i = 0; i < devices; i++) {
        let_a_sample_come_due();
        MUST(cudaSetDevice(i));
        MUST(cudaEventCreate(&event));
        MUST(cudaEventDestroy(event));
    }
}

int main(int argc, char **argv)
{
    int devices, captures = argc > 1 && strcmp(argv[1], "capture") == 0;
    MUST(cudaGetDeviceCount(&devices));
    for (int i = 0; i < devices && i < DEVICES_MAX; i++) {
        MUST(cudaSetDevice(i));
        make(&all[i], i, captures);
    }
    look(devices);
    step("made");
    for (int i = 0; i < devices && i < DEVICES_MAX; i++) {
        MUST(cudaSetDevice(i));
        unmake(&all[i], captures);
    }
    look(devices);
    step("freed");
    printf("done\n");
    return 0;
}
