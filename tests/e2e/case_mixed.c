/* case_mixed.c -- pools, graphs, virtual memory and arrays by turns, with a look at each moment.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What pools hand out is a multiple of their unit, so that what is in use is what was asked for.
 */
#include "case.h"
#include "steps.h"

static CUstream stream;
static CUmemoryPool own, standard;

static void moment(const char *name)
{
    CUevent event;
    let_a_sample_come_due();
    NEED(cuEventCreate(&event, 0) == CUDA_SUCCESS); /* the guard looks at the device */
    NEED(cuEventDestroy(event) == CUDA_SUCCESS);
    step(name);
}

static CUdeviceptr take_ordered(size_t bytes)
{
    CUdeviceptr address;
    NEED(cuMemAllocAsync(&address, bytes, stream) == CUDA_SUCCESS);
    return address;
}

static CUdeviceptr take_own(size_t bytes)
{
    CUdeviceptr address;
    NEED(cuMemAllocFromPoolAsync(&address, bytes, own, stream) == CUDA_SUCCESS);
    return address;
}

static void give_ordered(CUdeviceptr address)
{
    NEED(cuMemFreeAsync(address, stream) == CUDA_SUCCESS);
}

static void pools(void)
{
    cuuint64_t threshold = 1 << 30;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    NEED(cuMemPoolCreate(&own, &props) == CUDA_SUCCESS);
    NEED(cuDeviceGetDefaultMemPool(&standard, 0) == CUDA_SUCCESS);
    CUdeviceptr a = take_ordered(4 * MIB), b = take_ordered(37 * MIB), c = take_own(512 * 9);
    moment("pools");
    give_ordered(b);
    moment("free-pending");
    NEED(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    moment("synchronized");
    NEED(cuMemPoolSetAttribute(own, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold) == CUDA_SUCCESS);
    CUdeviceptr d = take_own(70 * MIB);
    give_ordered(d);
    NEED(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    moment("kept-by-threshold");
    NEED(cuMemPoolTrimTo(own, 4 * MIB) == CUDA_SUCCESS);
    moment("trimmed");
    give(a); /* by address */
    give_ordered(c);
    NEED(cuDeviceSetMemPool(0, own) == CUDA_SUCCESS);
    a = take_ordered(3 * MIB);
    NEED(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    moment("own-pool-is-the-device's");
    give_ordered(a);
    NEED(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    NEED(cuDeviceSetMemPool(0, standard) == CUDA_SUCCESS);
    NEED(cuMemPoolDestroy(own) == CUDA_SUCCESS);
    moment("pool-destroyed");
}

static void graphs(void)
{
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr stays, passes;
    NEED(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
    stays = take_ordered(5 * MIB);
    passes = take_ordered(9 * MIB);
    give_ordered(passes);
    NEED(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
    NEED(cuGraphInstantiate(&exec, graph, 0) == CUDA_SUCCESS);
    moment("graph-instantiated");
    NEED(cuGraphUpload(exec, stream) == CUDA_SUCCESS);
    moment("graph-uploaded");
    NEED(cuGraphLaunch(exec, stream) == CUDA_SUCCESS);
    moment("graph-launched");
    give_ordered(stays);
    NEED(cuGraphLaunch(exec, stream) == CUDA_SUCCESS);
    moment("graph-launched-again");
    give(stays);
    NEED(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    moment("graph-freed");
    NEED(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
    NEED(cuGraphDestroy(graph) == CUDA_SUCCESS);
    moment("graph-destroyed");
    NEED(cuDeviceGraphMemTrim(0) == CUDA_SUCCESS);
    moment("graph-trimmed");
}

static void virtual_memory(void)
{
    const size_t bytes = 4 * MIB;
    CUmemGenericAllocationHandle handle[3], again;
    CUdeviceptr range;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    for (int i = 0; i < 3; i++)
        NEED(cuMemCreate(&handle[i], bytes, &prop, 0) == CUDA_SUCCESS);
    NEED(cuMemAddressReserve(&range, 4 * bytes, 0, 0, 0) == CUDA_SUCCESS);
    NEED(cuMemMap(range, bytes, 0, handle[0], 0) == CUDA_SUCCESS);
    NEED(cuMemMap(range + bytes, bytes, 0, handle[0], 0) == CUDA_SUCCESS);
    NEED(cuMemMap(range + 2 * bytes, bytes, 0, handle[1], 0) == CUDA_SUCCESS);
    moment("mapped");
    NEED(cuMemRelease(handle[0]) == CUDA_SUCCESS); /* two mappings hold it */
    NEED(cuMemRelease(handle[2]) == CUDA_SUCCESS); /* nothing does */
    moment("released-but-mapped");
    NEED(cuMemUnmap(range, bytes) == CUDA_SUCCESS);
    NEED(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(range + bytes)) == CUDA_SUCCESS);
    NEED(cuMemUnmap(range + bytes, bytes) == CUDA_SUCCESS);
    moment("unmapped-but-retained");
    NEED(cuMemMap(range + bytes, bytes, 0, again, 0) == CUDA_SUCCESS);
    NEED(cuMemRelease(again) == CUDA_SUCCESS);
    NEED(cuMemUnmap(range + bytes, 2 * bytes) == CUDA_SUCCESS); /* two mappings at once */
    moment("unmapped-together");
    NEED(cuMemRelease(handle[1]) == CUDA_SUCCESS);
    NEED(cuMemAddressFree(range, 4 * bytes) == CUDA_SUCCESS);
}

static void arrays_and_small_ones(void)
{
    enum { SMALL = 100 };
    CUarray array;
    CUmipmappedArray mipmap;
    CUdeviceptr small[SMALL];
    CUDA_ARRAY3D_DESCRIPTOR box = {.Width = 640,
                                   .Height = 480,
                                   .Depth = 6,
                                   .Format = CU_AD_FORMAT_HALF,
                                   .NumChannels = 4,
                                   .Flags = CUDA_ARRAY3D_LAYERED};
    NEED(cuArray3DCreate(&array, &box) == CUDA_SUCCESS);
    NEED(cuMipmappedArrayCreate(&mipmap, &box, 99) == CUDA_SUCCESS);
    for (int i = 0; i < SMALL; i++)
        small[i] = take(1 + (size_t)i * 777);
    moment("arrays");
    NEED(cuArrayDestroy(array) == CUDA_SUCCESS);
    NEED(cuMipmappedArrayDestroy(mipmap) == CUDA_SUCCESS);
    for (int i = 0; i < SMALL; i++)
        give(small[(i * 37) % SMALL]);
}

int main(void)
{
    use_device();
    CUdeviceptr first = take(10 * MIB);
    NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    usleep(1100000); /* from its second second on, the guard asks NVML too */
    moment("begin");
    pools();
    graphs();
    virtual_memory();
    arrays_and_small_ones();
    give(first);
    moment("end");
    return 0;
}
