/* launch.c -- what compilers call for device code, and launches: registered, accepted, never run.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:      a CUDA library registers tens of thousands of kernels while it is loaded: nothing is kept of them, and
 *             nothing here touches the driver before the first launch.
 */
#include "runtime.h"

#include <string.h>

struct uint3;
#define EXPORT __attribute__((visibility("default")))

/* The toolkit declares these in other headers, most of them for its compiler only. */
EXPORT cudaError_t cudaProfilerStart(void);
EXPORT cudaError_t cudaProfilerStop(void);
EXPORT void **__cudaRegisterFatBinary(void *fatCubin);
EXPORT void __cudaRegisterFatBinaryEnd(void **handle);
EXPORT void __cudaUnregisterFatBinary(void **handle);
EXPORT char __cudaInitModule(void **handle);
EXPORT void __cudaRegisterFunction(void **handle, const char *hostFun, char *deviceFun,
                                   const char *deviceName, int threadLimit, struct uint3 *tid,
                                   struct uint3 *bid, dim3 *blockDim, dim3 *gridDim, int *wSize);
EXPORT void __cudaRegisterVar(void **handle, char *hostVar, char *deviceAddress,
                              const char *deviceName, int ext, size_t size, int constant,
                              int global);
EXPORT void __cudaRegisterManagedVar(void **handle, void **hostVar, char *deviceAddress,
                                     const char *deviceName, int ext, size_t size, int constant,
                                     int global);
EXPORT unsigned int __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem,
                                                struct CUstream_st *stream);
EXPORT cudaError_t __cudaPopCallConfiguration(dim3 *gridDim, dim3 *blockDim, size_t *sharedMem,
                                              void *stream);
EXPORT cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *func);
EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args,
                                      size_t sharedMem, cudaStream_t stream);
EXPORT cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim,
                                           void **args, size_t sharedMem, cudaStream_t stream);

void **__cudaRegisterFatBinary(void *fatCubin)
{
    static void *handle;
    (void)fatCubin;
    return &handle;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

void __cudaUnregisterFatBinary(void **handle)
{
    (void)handle;
}

char __cudaInitModule(void **handle)
{
    (void)handle;
    return 1;
}

void __cudaRegisterFunction(void **handle, const char *hostFun, char *deviceFun,
                            const char *deviceName, int threadLimit, struct uint3 *tid,
                            struct uint3 *bid, dim3 *blockDim, dim3 *gridDim, int *wSize)
{
    (void)handle, (void)hostFun, (void)deviceFun, (void)deviceName, (void)threadLimit;
    (void)tid, (void)bid, (void)blockDim, (void)gridDim, (void)wSize;
}

void __cudaRegisterVar(void **handle, char *hostVar, char *deviceAddress, const char *deviceName,
                       int ext, size_t size, int constant, int global)
{
    (void)handle, (void)hostVar, (void)deviceAddress, (void)deviceName;
    (void)ext, (void)size, (void)constant, (void)global;
}

void __cudaRegisterManagedVar(void **handle, void **hostVar, char *deviceAddress,
                              const char *deviceName, int ext, size_t size, int constant,
                              int global)
{
    (void)handle, (void)hostVar, (void)deviceAddress, (void)deviceName;
    (void)ext, (void)size, (void)constant, (void)global;
}

/* --- <<<grid, block, shared, stream>>> -------------------------------------------------------- */
/* Arguments of a launch may launch themselves, hence a stack; deeper nesting than this is refused. */
static _Thread_local struct {
    unsigned int depth;
    struct launch {
        dim3 grid, block;
        size_t shared;
        cudaStream_t stream;
    } saved[8];
} pending;

unsigned int __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem,
                                         struct CUstream_st *stream)
{
    if (pending.depth == sizeof(pending.saved) / sizeof(pending.saved[0]))
        return 1;
    pending.saved[pending.depth++] = (struct launch){gridDim, blockDim, sharedMem, stream};
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *gridDim, dim3 *blockDim, size_t *sharedMem,
                                       void *stream)
{
    if (!pending.depth)
        return rt_done(cudaErrorMissingConfiguration);
    const struct launch *launch = &pending.saved[--pending.depth];
    *gridDim = launch->grid;
    *blockDim = launch->block;
    *sharedMem = launch->shared;
    *(cudaStream_t *)stream = launch->stream;
    return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *func)
{
    *kernel = (cudaKernel_t)(size_t)func;
    return cudaSuccess;
}

/* --- launches --------------------------------------------------------------------------------- */
static cudaError_t launch(const void *func, dim3 grid, dim3 block)
{
    if (!func)
        return rt_done(cudaErrorInvalidDeviceFunction);
    size_t threads = (size_t)block.x * block.y * block.z;
    if (!threads || threads > 1024 || !grid.x || !grid.y || !grid.z)
        return rt_done(cudaErrorInvalidConfiguration);
    return rt_done(rt_enter());
}

cudaError_t cudaLaunchKernel(const void *func, dim3 gridDim, dim3 blockDim, void **args,
                             size_t sharedMem, cudaStream_t stream)
{
    (void)args, (void)sharedMem, (void)stream;
    return launch(func, gridDim, blockDim);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args,
                               size_t sharedMem, cudaStream_t stream)
{
    (void)args, (void)sharedMem, (void)stream;
    return launch(kernel, gridDim, blockDim);
}

cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args,
                                    size_t sharedMem, cudaStream_t stream)
{
    (void)args, (void)sharedMem, (void)stream;
    return launch(kernel, gridDim, blockDim);
}

cudaError_t cudaLaunchCooperativeKernel(const void *func, dim3 gridDim, dim3 blockDim, void **args,
                                        size_t sharedMem, cudaStream_t stream)
{
    (void)args, (void)sharedMem, (void)stream;
    return launch(func, gridDim, blockDim);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func, void **args)
{
    (void)args;
    return config ? launch(func, config->gridDim, config->blockDim)
                  : rt_done(cudaErrorInvalidValue);
}

/* --- what a kernel needs: one answer for all of them ------------------------------------------ */
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func)
{
    int device = 0, major = 0, minor = 0;
    if (!attr || !func)
        return rt_done(cudaErrorInvalidValue);
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    if (error != cudaSuccess)
        return error;
    memset(attr, 0, sizeof(*attr));
    attr->maxThreadsPerBlock = 1024;
    attr->numRegs = 32;
    attr->ptxVersion = attr->binaryVersion = 10 * major + minor;
    attr->maxDynamicSharedSizeBytes = 48 << 10;
    attr->preferredShmemCarveout = -1;
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value)
{
    (void)attr, (void)value;
    return rt_done(func ? rt_enter() : cudaErrorInvalidDeviceFunction);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, const void *func,
                                                                   int blockSize,
                                                                   size_t dynamicSMemSize,
                                                                   unsigned int flags)
{
    int device = 0, threads = 0;
    (void)dynamicSMemSize, (void)flags;
    if (!numBlocks || !func || blockSize <= 0)
        return rt_done(cudaErrorInvalidValue);
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, device);
    if (error == cudaSuccess)
        *numBlocks = threads / blockSize;
    return error;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, const void *func,
                                                          int blockSize, size_t dynamicSMemSize)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize,
                                                                  dynamicSMemSize, 0);
}

cudaError_t cudaProfilerStart(void)
{
    return rt_done(rt_enter());
}

cudaError_t cudaProfilerStop(void)
{
    return rt_done(rt_enter());
}
