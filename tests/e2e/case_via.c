/* case_via.c -- one call of the runtime, by name; its status on stdout.
 * SPDX-License-Identifier: Apache-2.0
 *
 * case_via API: everything that the call needs is made before it, so that it can be planned to
 * fail.
 */
#include <cuda_runtime_api.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *pointer;
static size_t pitch;
static struct cudaPitchedPtr box;
static const struct cudaExtent extent = {64, 32, 4};
static struct cudaChannelFormatDesc channel;
static cudaMemPool_t pool;
static cudaStream_t stream;
static cudaEvent_t event;
static cudaArray_t array;
static cudaMipmappedArray_t mipmap;
static cudaGraph_t graph;
static cudaIpcMemHandle_t ipc;
static cudaExternalMemory_t external;
static char host[8192] __attribute__((aligned(4096)));
static const struct cudaExternalMemoryHandleDesc memory = {
    .type = cudaExternalMemoryHandleTypeOpaqueFd, .size = 4096};

static cudaError_t add_node(void)
{
    cudaGraphNode_t node;
    struct cudaMemAllocNodeParams params = {
        .poolProps = {.allocType = cudaMemAllocationTypePinned,
                      .location = {cudaMemLocationTypeDevice, 0}},
        .bytesize = 1000};
    cudaError_t error = cudaGraphCreate(&graph, 0);
    return error ? error : cudaGraphAddMemAllocNode(&node, graph, NULL, 0, &params);
}

#define CALLS(CALL)                                                                                \
    CALL(cudaMalloc, (&pointer, 1000))                                                             \
    CALL(cudaMallocPitch, (&pointer, &pitch, 100, 10))                                             \
    CALL(cudaMalloc3D, (&box, extent))                                                             \
    CALL(cudaMallocManaged, (&pointer, 1000, cudaMemAttachGlobal))                                 \
    CALL(cudaMallocHost, (&pointer, 1000))                                                         \
    CALL(cudaHostAlloc, (&pointer, 1000, 0))                                                       \
    CALL(cudaHostRegister, (host, sizeof host, 0))                                                 \
    CALL(cudaMallocAsync, (&pointer, 1000, stream))                                                \
    CALL(cudaMallocFromPoolAsync, (&pointer, 1000, pool, stream))                                  \
    CALL(cudaMallocArray, (&array, &channel, 64, 32, 0))                                           \
    CALL(cudaMalloc3DArray, (&array, &channel, extent, 0))                                         \
    CALL(cudaMallocMipmappedArray, (&mipmap, &channel, extent, 2, 0))                              \
    CALL(cudaIpcOpenMemHandle, (&pointer, ipc, cudaIpcMemLazyEnablePeerAccess))                    \
    CALL(cudaImportExternalMemory, (&external, &memory))                                           \
    CALL(cudaMemPoolCreate,                                                                        \
         (&pool, &(struct cudaMemPoolProps){.allocType = cudaMemAllocationTypePinned,              \
                                            .location = {cudaMemLocationTypeDevice, 0}}))          \
    CALL(cudaStreamCreate, (&stream))                                                              \
    CALL(cudaStreamCreateWithFlags, (&stream, cudaStreamNonBlocking))                              \
    CALL(cudaStreamCreateWithPriority, (&stream, cudaStreamNonBlocking, 0))                        \
    CALL(cudaEventCreate, (&event))                                                                \
    CALL(cudaEventCreateWithFlags, (&event, cudaEventDisableTiming))

int main(int argc, char **argv)
{
    const char *api = argc > 1 ? argv[1] : "";
    cudaError_t error = cudaFree(NULL); /* the context */
    channel = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
    if (error || cudaDeviceGetDefaultMemPool(&pool, 0))
        return 1;
#define CALL(name, arguments)                                                                      \
    if (strcmp(api, #name) == 0)                                                                   \
        error = name arguments;
    CALLS(CALL)
    if (strcmp(api, "cudaGraphAddMemAllocNode") == 0)
        error = add_node();
    printf("%s %d\n", api, (int)error);
    return 0;
}
