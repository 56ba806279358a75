/* sim_runtime.c -- one allocation of each kind through the runtime: made, shown, freed.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:      built against each build of the simulated runtime (tests/e2e/test_sim_runtime.py),
 *             which compares what lies in the simulation's books at each "step" line. A line on
 *             stdin goes on.
 */
#include <cuda_runtime_api.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

static void must(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    printf("failed: %s: %s\n", what, cudaGetErrorName(error));
    exit(1);
}
#define MUST(call) must(call, #call)

static void step(const char *name)
{
    char line[8];
    printf("step %s\n", name);
    fflush(stdout);
    if (!fgets(line, sizeof(line), stdin))
        exit(2);
}

static void plain_kinds(void)
{
    static char host[4096];
    void *device, *pitched, *managed, *pinned;
    size_t pitch;
    MUST(cudaMalloc(&device, 1000003));
    MUST(cudaMallocPitch(&pitched, &pitch, 1000, 10));
    MUST(cudaMallocManaged(&managed, 5000, cudaMemAttachGlobal));
    MUST(cudaMallocHost(&pinned, 7000));
    MUST(cudaHostRegister(host, sizeof(host), cudaHostRegisterDefault));
    MUST(cudaMemset(device, 7, 100));
    MUST(cudaMemset2D(pitched, pitch, 8, 1000, 10));
    MUST(cudaMemcpy(host, device, 100, cudaMemcpyDeviceToHost));
    MUST(cudaMemcpy2D(host + 100, 10, pitched, pitch, 10, 10, cudaMemcpyDeviceToHost));
    printf("bytes %d %d, pitch %zu\n", host[99], host[199], pitch);
    step("plain");
    MUST(cudaHostUnregister(host));
    MUST(cudaFreeHost(pinned));
    MUST(cudaFree(managed));
    MUST(cudaFree(pitched));
    MUST(cudaFree(device));
    step("plain-freed");
}

static void pools(void)
{
    cudaStream_t stream;
    cudaMemPool_t pool, current;
    void *from_default, *from_own;
    struct cudaMemPoolProps props = {.allocType = cudaMemAllocationTypePinned,
                                     .location = {cudaMemLocationTypeDevice, 0}};
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaMemPoolCreate(&pool, &props));
    MUST(cudaDeviceGetMemPool(&current, 0));
    MUST(cudaMallocAsync(&from_default, 3000001, stream));
    MUST(cudaMallocFromPoolAsync(&from_own, 2000001, pool, stream));
    MUST(cudaMemsetAsync(from_own, 1, 100, stream));
    step("pool");
    MUST(cudaFreeAsync(from_default, stream));
    MUST(cudaFreeAsync(from_own, stream));
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaMemPoolTrimTo(current, 0));
    MUST(cudaMemPoolDestroy(pool));
    MUST(cudaStreamDestroy(stream));
    step("pool-freed");
}

static void arrays(void)
{
    struct cudaChannelFormatDesc desc =
        cudaCreateChannelDesc(32, 32, 0, 0, cudaChannelFormatKindFloat);
    struct cudaChannelFormatDesc told;
    struct cudaExtent box = {64, 32, 4}, size;
    struct cudaArrayMemoryRequirements needs, mipmap_needs;
    cudaArray_t flat, deep, level, unmapped;
    cudaMipmappedArray_t mipmap, unmapped_mipmap;
    char out[64 * 8] = {0}, back[64 * 8];
    memset(out, 3, sizeof(out));
    MUST(cudaMallocArray(&flat, &desc, 64, 32, 0));
    MUST(cudaMalloc3DArray(&deep, &desc, box, cudaArraySurfaceLoadStore));
    MUST(cudaMallocMipmappedArray(&mipmap, &desc, box, 2, 0));
    MUST(cudaGetMipmappedArrayLevel(&level, mipmap, 1));
    MUST(cudaArrayGetInfo(&told, &size, NULL, deep));
    /* What an array needs is told of those alone that have no memory yet. */
    MUST(cudaMalloc3DArray(&unmapped, &desc, box, cudaArrayDeferredMapping));
    MUST(cudaMallocMipmappedArray(&unmapped_mipmap, &desc, box, 2, cudaArrayDeferredMapping));
    MUST(cudaArrayGetMemoryRequirements(&needs, unmapped, 0));
    MUST(cudaMipmappedArrayGetMemoryRequirements(&mipmap_needs, unmapped_mipmap, 0));
    MUST(cudaFreeArray(unmapped));
    MUST(cudaFreeMipmappedArray(unmapped_mipmap));
    MUST(cudaMemcpy2DToArray(flat, 0, 1, out, sizeof(out), sizeof(out), 1, cudaMemcpyHostToDevice));
    MUST(cudaMemcpy2DFromArray(back, sizeof(back), flat, 0, 1, sizeof(back), 1,
                               cudaMemcpyDeviceToHost));
    printf("array %d %d %d %d, %zu %zu %zu, %d\n", told.x, told.y, told.z, (int)told.f, size.width,
           size.height, size.depth, memcmp(out, back, sizeof(out)));
    printf("needs %zu %zu\n", needs.size, mipmap_needs.size);
    step("array");
    MUST(cudaFreeArray(flat));
    MUST(cudaFreeArray(deep));
    MUST(cudaFreeMipmappedArray(mipmap));
    step("array-freed");
}

static const char kernel;

static void graphs(void)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    void *pointer;
    enum cudaStreamCaptureStatus status, told = cudaStreamCaptureStatusNone;
    unsigned long long id = 0;
    dim3 one = {1, 1, 1};
    size_t nodes = 0;
    unsigned long long reserved;
    MUST(cudaLaunchKernel(&kernel, one, one, NULL, 0, NULL)); /* its image is loaded now */
    MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    MUST(cudaStreamIsCapturing(stream, &status));
#if CUDART_VERSION >= 13000
    MUST(cudaStreamGetCaptureInfo(stream, &told, &id, NULL, NULL, NULL, NULL));
#else
    MUST(cudaStreamGetCaptureInfo(stream, &told, &id, NULL, NULL, NULL));
#endif
    MUST(cudaMallocAsync(&pointer, 4000001, stream));
    MUST(cudaLaunchKernel(&kernel, one, one, NULL, 0, stream));
    MUST(cudaStreamEndCapture(stream, &graph));
    MUST(cudaGraphGetNodes(graph, NULL, &nodes));
    printf("capture %d, nodes %zu\n", status == told && id ? (int)status : -1, nodes);
    MUST(cudaGraphInstantiate(&exec, graph, 0));
    step("graph-made");
    MUST(cudaGraphLaunch(exec, stream));
    MUST(cudaStreamSynchronize(stream));
    step("graph-launched");
    MUST(cudaFreeAsync(pointer, stream));
    MUST(cudaStreamSynchronize(stream));
    MUST(cudaGraphExecDestroy(exec));
    MUST(cudaGraphDestroy(graph));
    step("graph-freed");
    MUST(cudaDeviceGraphMemTrim(0));
    MUST(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrReservedMemCurrent, &reserved));
    printf("reserved after the trim %llu\n", reserved);
    MUST(cudaStreamDestroy(stream));
}

int main(void)
{
    struct cudaDeviceProp prop;
    int version;
    MUST(cudaRuntimeGetVersion(&version));
    MUST(cudaGetDeviceProperties(&prop, 0));
    printf("warp %d, memory %zu, major %d, processors %d, clusters %d\n", prop.warpSize,
           prop.totalGlobalMem / MIB, prop.major, prop.multiProcessorCount, prop.clusterLaunch);
    plain_kinds();
    pools();
    arrays();
    graphs();
    MUST(cudaDeviceReset());
    step("reset");
    printf("runtime %d\n", version / 1000);
    return 0;
}
