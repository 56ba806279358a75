/* case_kinds.c -- one allocation of every kind on every device, by the driver API; then freed.
 * SPDX-License-Identifier: Apache-2.0
 *
 * case_kinds plain | capture      capture: while a stream captures in RELAXED mode, in which
 * every call is allowed Lines "bytes DEVICE KIND N": what was asked for, where the call says it.
 */
#include "case.h"
#include "steps.h"

enum { DEVICES_MAX = 2, ARRAYS = 4 };
static const size_t handle_bytes = 4 * MIB;

struct graph_memory {
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr address;
};

static struct made {
    CUcontext context;
    CUstream stream, capturing;
    CUmemoryPool pool;
    CUdeviceptr plain, pitched, managed, from_default, from_own, mapped, shown;
    void *pinned, *pinned_too;
    char *registered;
    CUmemGenericAllocationHandle handle, host_handle, imported;
    CUarray array[ARRAYS];
    CUmipmappedArray mipmap;
    struct graph_memory by_node, by_capture;
} all[DEVICES_MAX];

static void tell(int device, const char *kind, size_t bytes)
{
    printf("bytes %d %s %zu\n", device, kind, bytes);
}

static void make_plain(struct made *m, int device)
{
    size_t pitch;
    NEED(cuMemAlloc(&m->plain, 1000003 + (size_t)device) == CUDA_SUCCESS);
    NEED(cuMemAllocPitch(&m->pitched, &pitch, 1000, 10, 4) == CUDA_SUCCESS);
    tell(device, "device", 1000003 + (size_t)device + 10 * pitch);
    NEED(cuMemAllocManaged(&m->managed, 5000, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS);
    tell(device, "managed", 5000);
    NEED(cuMemHostAlloc(&m->pinned, 7000, 0) == CUDA_SUCCESS);
    NEED(cuMemAllocHost(&m->pinned_too, 9000) == CUDA_SUCCESS);
    tell(device, "pinned", 16000);
    m->registered = aligned_alloc(4096, 8192);
    NEED(cuMemHostRegister(m->registered, 8192, 0) == CUDA_SUCCESS);
    tell(device, "registered", 8192);
}

static void free_plain(struct made *m)
{
    NEED(cuMemHostUnregister(m->registered) == CUDA_SUCCESS);
    free(m->registered);
    NEED(cuMemFreeHost(m->pinned_too) == CUDA_SUCCESS);
    NEED(cuMemFreeHost(m->pinned) == CUDA_SUCCESS);
    give(m->managed);
    give(m->pitched);
    give(m->plain);
}

static void make_pools(struct made *m, int device)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
    NEED(cuMemPoolCreate(&m->pool, &props) == CUDA_SUCCESS);
    NEED(cuMemAllocAsync(&m->from_default, 3000001, m->stream) == CUDA_SUCCESS);
    NEED(cuMemAllocFromPoolAsync(&m->from_own, 2000001, m->pool, m->stream) == CUDA_SUCCESS);
    tell(device, "pool", 5000002);
}

static void free_pools(struct made *m)
{
    NEED(cuMemFreeAsync(m->from_own, m->stream) == CUDA_SUCCESS);
    NEED(cuMemFreeAsync(m->from_default, m->stream) == CUDA_SUCCESS);
    NEED(cuStreamSynchronize(m->stream) == CUDA_SUCCESS);
    NEED(cuMemPoolDestroy(m->pool) == CUDA_SUCCESS);
}

static void make_virtual(struct made *m, int device)
{
    int fd = -1;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
    NEED(cuMemCreate(&m->handle, handle_bytes, &prop, 0) == CUDA_SUCCESS);
    NEED(cuMemAddressReserve(&m->mapped, handle_bytes, 0, 0, 0) == CUDA_SUCCESS);
    NEED(cuMemMap(m->mapped, handle_bytes, 0, m->handle, 0) == CUDA_SUCCESS);
    tell(device, "vmm", handle_bytes);
    NEED(cuMemExportToShareableHandle(&fd, m->handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      0) == CUDA_SUCCESS);
    NEED(cuMemImportFromShareableHandle(&m->imported, (void *)(uintptr_t)fd,
                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == CUDA_SUCCESS);
    close(fd);
    /* Nobody says how large it is until it is mapped. */
    NEED(cuMemAddressReserve(&m->shown, handle_bytes, 0, 0, 0) == CUDA_SUCCESS);
    NEED(cuMemMap(m->shown, handle_bytes, 0, m->imported, 0) == CUDA_SUCCESS);
    prop.requestedHandleTypes = 0;
    prop.location.type = CU_MEM_LOCATION_TYPE_HOST;
    prop.location.id = 0;
    NEED(cuMemCreate(&m->host_handle, 2 * MIB, &prop, 0) == CUDA_SUCCESS);
}

static void free_virtual(struct made *m)
{
    NEED(cuMemRelease(m->host_handle) == CUDA_SUCCESS);
    NEED(cuMemUnmap(m->shown, handle_bytes) == CUDA_SUCCESS);
    NEED(cuMemAddressFree(m->shown, handle_bytes) == CUDA_SUCCESS);
    NEED(cuMemRelease(m->imported) == CUDA_SUCCESS);
    NEED(cuMemRelease(m->handle) == CUDA_SUCCESS);
    NEED(cuMemUnmap(m->mapped, handle_bytes) == CUDA_SUCCESS);
    NEED(cuMemAddressFree(m->mapped, handle_bytes) == CUDA_SUCCESS);
}

static void make_arrays(struct made *m)
{
    CUDA_ARRAY_DESCRIPTOR line = {.Width = 1000, .Format = CU_AD_FORMAT_HALF, .NumChannels = 1};
    CUDA_ARRAY_DESCRIPTOR plane = {
        .Width = 300, .Height = 200, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 4};
    CUDA_ARRAY3D_DESCRIPTOR box = {
        .Width = 64, .Height = 32, .Depth = 5, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 2};
    NEED(cuArrayCreate(&m->array[0], &line) == CUDA_SUCCESS);
    NEED(cuArrayCreate(&m->array[1], &plane) == CUDA_SUCCESS);
    NEED(cuArray3DCreate(&m->array[2], &box) == CUDA_SUCCESS);
    NEED(cuMipmappedArrayCreate(&m->mipmap, &box, 3) == CUDA_SUCCESS);
    box.Flags = CUDA_ARRAY3D_DEFERRED_MAPPING; /* has no memory until some is mapped */
    NEED(cuArray3DCreate(&m->array[3], &box) == CUDA_SUCCESS);
}

static void free_arrays(struct made *m)
{
    NEED(cuMipmappedArrayDestroy(m->mipmap) == CUDA_SUCCESS);
    for (int i = 0; i < ARRAYS; i++)
        NEED(cuArrayDestroy(m->array[i]) == CUDA_SUCCESS);
}

static void make_graph_by_node(struct graph_memory *g, int device, CUstream stream)
{
    CUgraphNode node;
    CUDA_MEM_ALLOC_NODE_PARAMS params = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}},
        .bytesize = 600001};
    NEED(cuGraphCreate(&g->graph, 0) == CUDA_SUCCESS);
    NEED(cuGraphAddMemAllocNode(&node, g->graph, NULL, 0, &params) == CUDA_SUCCESS);
    g->address = params.dptr;
    NEED(cuGraphInstantiate(&g->exec, g->graph, 0) == CUDA_SUCCESS);
    NEED(cuGraphLaunch(g->exec, stream) == CUDA_SUCCESS);
}

static void make_graph_by_capture(struct graph_memory *g, CUstream stream)
{
    CUdeviceptr passing;
    NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
    NEED(cuMemAllocAsync(&g->address, 700001, stream) == CUDA_SUCCESS);
    NEED(cuMemAllocAsync(&passing, 800001, stream) == CUDA_SUCCESS);
    NEED(cuMemFreeAsync(passing, stream) == CUDA_SUCCESS);
    NEED(cuStreamEndCapture(stream, &g->graph) == CUDA_SUCCESS);
    NEED(cuGraphInstantiate(&g->exec, g->graph, 0) == CUDA_SUCCESS);
    NEED(cuGraphLaunch(g->exec, stream) == CUDA_SUCCESS);
}

static void free_graph(struct graph_memory *g)
{
    NEED(cuGraphExecDestroy(g->exec) == CUDA_SUCCESS);
    NEED(cuGraphDestroy(g->graph) == CUDA_SUCCESS);
}

static void make(struct made *m, int device, int captures)
{
    CUgraph graph;
    NEED(cuStreamCreate(&m->stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    NEED(cuStreamCreate(&m->capturing, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    if (captures)
        NEED(cuStreamBeginCapture(m->capturing, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
    make_plain(m, device);
    make_pools(m, device);
    make_virtual(m, device);
    make_arrays(m);
    make_graph_by_node(&m->by_node, device, m->stream);
    if (captures) {
        NEED(cuStreamEndCapture(m->capturing, &graph) == CUDA_SUCCESS);
        NEED(cuGraphDestroy(graph) == CUDA_SUCCESS);
    }
    make_graph_by_capture(&m->by_capture, m->stream);
    tell(device, "graph", 600001 + 700001);
}

static void unmake(struct made *m, int captures)
{
    CUgraph graph;
    if (captures)
        NEED(cuStreamBeginCapture(m->capturing, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
    NEED(cuMemFreeAsync(m->by_node.address, m->stream) == CUDA_SUCCESS);
    free_arrays(m);
    free_virtual(m);
    free_pools(m);
    free_plain(m);
    if (captures) {
        NEED(cuStreamEndCapture(m->capturing, &graph) == CUDA_SUCCESS);
        NEED(cuGraphDestroy(graph) == CUDA_SUCCESS);
    }
    give(m->by_capture.address);
    free_graph(&m->by_node);
    free_graph(&m->by_capture);
    NEED(cuStreamDestroy(m->stream) == CUDA_SUCCESS);
    NEED(cuStreamDestroy(m->capturing) == CUDA_SUCCESS);
}

/* An event, so that the guard looks at every device. */
static void look(int devices)
{
    CUevent event;
    for (int i = 0; i < devices; i++) {
        let_a_sample_come_due();
        NEED(cuCtxSetCurrent(all[i].context) == CUDA_SUCCESS);
        NEED(cuEventCreate(&event, 0) == CUDA_SUCCESS);
        NEED(cuEventDestroy(event) == CUDA_SUCCESS);
    }
}

int main(int argc, char **argv)
{
    int devices, captures = argc > 1 && strcmp(argv[1], "capture") == 0;
    NEED(cuInit(0) == CUDA_SUCCESS);
    NEED(cuDeviceGetCount(&devices) == CUDA_SUCCESS && devices <= DEVICES_MAX);
    for (int i = 0; i < devices; i++) {
        NEED(cuDevicePrimaryCtxRetain(&all[i].context, i) == CUDA_SUCCESS);
        NEED(cuCtxSetCurrent(all[i].context) == CUDA_SUCCESS);
        make(&all[i], i, captures);
    }
    look(devices);
    step("made");
    for (int i = 0; i < devices; i++) {
        NEED(cuCtxSetCurrent(all[i].context) == CUDA_SUCCESS);
        unmake(&all[i], captures);
    }
    look(devices);
    step("freed");
    printf("done\n");
    return 0;
}
