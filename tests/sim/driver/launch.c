/* launch.c -- kernel launches, which do nothing, and occupancy, which knows no kernel's needs.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/sim/driver/sim.h"

#define MAX_THREADS          1024
#define THREADS_PER_SM       2048
#define SHARED_PER_SM        233472
#define SHARED_PER_BLOCK_MAX 232448
#define SM_COUNT             132

/* The shape must be one that the device has, and the stream one of this context. */
static CUresult launch(const CUlaunchConfig *config, CUfunction function)
{
    if (!config)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = vgsim_stream_check(config->hStream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!vgsim_object_is(function, KERNEL))
        return CUDA_ERROR_INVALID_HANDLE;
    if ((uintptr_t)config->hStream > 2 && config->hStream->object.context != vgsim_current())
        return CUDA_ERROR_INVALID_HANDLE;
    uint64_t threads = (uint64_t)config->blockDimX * config->blockDimY * config->blockDimZ;
    if (!config->gridDimX || !config->gridDimY || !config->gridDimZ || !threads ||
        config->gridDimX > 2147483647u || config->gridDimY > 65535 || config->gridDimZ > 65535 ||
        config->blockDimX > 1024 || config->blockDimY > 1024 || config->blockDimZ > 64 ||
        threads > MAX_THREADS || config->sharedMemBytes > SHARED_PER_BLOCK_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    vgsim_stream_takes(config->hStream, CU_GRAPH_NODE_TYPE_KERNEL);
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                        unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                        unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                        void **kernelParams, void **extra)
{
    CUlaunchConfig config = {gridDimX,  gridDimY,       gridDimZ, blockDimX, blockDimY,
                             blockDimZ, sharedMemBytes, hStream,  NULL,      0};
    (void)kernelParams;
    (void)extra;
    CALL(CONTEXT, launch(&config, f));
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
                          void **extra)
{
    (void)kernelParams;
    (void)extra;
    CALL(CONTEXT, launch(config, f));
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                   unsigned int gridDimZ, unsigned int blockDimX,
                                   unsigned int blockDimY, unsigned int blockDimZ,
                                   unsigned int sharedMemBytes, CUstream hStream,
                                   void **kernelParams)
{
    CUlaunchConfig config = {gridDimX,  gridDimY,       gridDimZ, blockDimX, blockDimY,
                             blockDimZ, sharedMemBytes, hStream,  NULL,      0};
    (void)kernelParams;
    CALL(CONTEXT, launch(&config, f));
}

/* --- occupancy -------------------------------------------------------------------------------- */

static int blocks_per_sm(int block_size, size_t shared)
{
    int blocks = THREADS_PER_SM / ((block_size + 31) / 32 * 32);
    if (blocks > 32)
        blocks = 32;
    if (shared && (size_t)blocks > SHARED_PER_SM / (shared + 1024))
        blocks = (int)(SHARED_PER_SM / (shared + 1024));
    return blocks;
}

static CUresult active_blocks(int *out, CUfunction function, int block_size, size_t shared)
{
    if (!out || block_size <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!vgsim_object_is(function, KERNEL))
        return CUDA_ERROR_INVALID_HANDLE;
    *out = block_size > MAX_THREADS ? 0 : blocks_per_sm(block_size, shared);
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize,
                                                     size_t dynamicSMemSize)
{
    CALL(CONTEXT, active_blocks(numBlocks, func, blockSize, dynamicSMemSize));
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func,
                                                              int blockSize, size_t dynamicSMemSize,
                                                              unsigned int flags)
{
    (void)flags;
    CALL(CONTEXT, active_blocks(numBlocks, func, blockSize, dynamicSMemSize));
}

static CUresult potential_block(int *grid_out, int *block_out, CUfunction function, int limit)
{
    if (!grid_out || !block_out || limit < 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!vgsim_object_is(function, KERNEL))
        return CUDA_ERROR_INVALID_HANDLE;
    *block_out = limit && limit < MAX_THREADS ? limit : MAX_THREADS;
    *grid_out = SM_COUNT * blocks_per_sm(*block_out, 0);
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func,
                                          CUoccupancyB2DSize b2d, size_t dynamicSMemSize,
                                          int blockSizeLimit)
{
    (void)b2d;
    (void)dynamicSMemSize;
    CALL(CONTEXT, potential_block(minGridSize, blockSize, func, blockSizeLimit));
}

static CUresult available_shared(size_t *out, CUfunction function, int blocks, int block_size)
{
    if (!out || blocks <= 0 || block_size <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!vgsim_object_is(function, KERNEL))
        return CUDA_ERROR_INVALID_HANDLE;
    size_t share = SHARED_PER_SM / (size_t)blocks;
    *out = share > SHARED_PER_BLOCK_MAX ? SHARED_PER_BLOCK_MAX : share > 1024 ? share - 1024 : 0;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction func, int numBlocks,
                                                 int blockSize)
{
    CALL(CONTEXT, available_shared(bytes, func, numBlocks, blockSize));
}

CUresult cuOccupancyMaxActiveClusters(int *numClusters, CUfunction func,
                                      const CUlaunchConfig *config)
{
    (void)numClusters;
    (void)func;
    (void)config;
    CALL(CONTEXT, CUDA_ERROR_NOT_SUPPORTED);
}

CUresult cuOccupancyMaxPotentialClusterSize(int *clusterSize, CUfunction func,
                                            const CUlaunchConfig *config)
{
    (void)clusterSize;
    (void)func;
    (void)config;
    CALL(CONTEXT, CUDA_ERROR_NOT_SUPPORTED);
}
