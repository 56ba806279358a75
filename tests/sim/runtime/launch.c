/* launch.c -- what compilers call for device code, and launches.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Registered, handed to the driver, never run.
 *
 * Place:      a CUDA library registers tens of thousands of kernels while it is loaded: nothing is
 *             kept of them, and nothing here touches the driver before the first launch.
 */
#include "runtime.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

struct uint3;

/* The toolkit declares these in other headers, most of them for its compiler only. */
RT_EXPORT cudaError_t cudaProfilerStart(void);
RT_EXPORT cudaError_t cudaProfilerStop(void);
RT_EXPORT void **__cudaRegisterFatBinary(void *fatCubin);
RT_EXPORT void __cudaRegisterFatBinaryEnd(void **handle);
RT_EXPORT void __cudaUnregisterFatBinary(void **handle);
RT_EXPORT char __cudaInitModule(void **handle);
RT_EXPORT void __cudaRegisterFunction(void **handle, const char *hostFun, char *deviceFun,
                                      const char *deviceName, int threadLimit, struct uint3 *tid,
                                      struct uint3 *bid, dim3 *blockDim, dim3 *gridDim, int *wSize);
RT_EXPORT void __cudaRegisterVar(void **handle, char *hostVar, char *deviceAddress,
                                 const char *deviceName, int ext, size_t size, int constant,
                                 int global);
RT_EXPORT void __cudaRegisterManagedVar(void **handle, void **hostVar, char *deviceAddress,
                                        const char *deviceName, int ext, size_t size, int constant,
                                        int global);
RT_EXPORT void __cudaRegisterHostVar(void **handle, const char *deviceName, char *hostVar,
                                     size_t size);
RT_EXPORT unsigned int __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem,
                                                   struct CUstream_st *stream);
RT_EXPORT cudaError_t __cudaPopCallConfiguration(dim3 *gridDim, dim3 *blockDim, size_t *sharedMem,
                                                 void *stream);
RT_EXPORT cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *func);

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

void __cudaRegisterHostVar(void **handle, const char *deviceName, char *hostVar, size_t size)
{
    (void)handle, (void)deviceName, (void)hostVar, (void)size;
}

/* --- <<<grid, block, shared, stream>>> -------------------------------------------------------- */
/* Arguments of a launch may launch themselves, hence a stack; deeper nesting than this is
 * refused. */
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
/* A kernel's image is loaded when it is first launched, without a context; all kernels here share
 * one. */
static struct {
    pthread_mutex_t lock;
    CUkernel kernel;
} image = {.lock = PTHREAD_MUTEX_INITIALIZER};

static cudaError_t load_image(CUkernel *kernel_out)
{
    static const char code[] = ".version 9.0 .target sm_90 .entry vgsim() { ret; }";
    CUlibrary library;
    cudaError_t error = cudaSuccess;
    pthread_mutex_lock(&image.lock);
    if (!image.kernel) {
        error = RT_CALL(cuLibraryLoadData, (&library, code, NULL, NULL, 0, NULL, NULL, 0));
        if (error == cudaSuccess)
            error = RT_CALL(cuLibraryGetKernel, (&image.kernel, library, "vgsim"));
    }
    *kernel_out = image.kernel;
    pthread_mutex_unlock(&image.lock);
    return error;
}

static cudaError_t prepare(const void *func, dim3 grid, dim3 block, CUfunction *function_out)
{
    if (!func)
        return cudaErrorInvalidDeviceFunction;
    size_t threads = (size_t)block.x * block.y * block.z;
    if (!threads || threads > 1024 || !grid.x || !grid.y || !grid.z)
        return cudaErrorInvalidConfiguration;
    CUkernel kernel;
    cudaError_t error = rt_enter();
    if (error == cudaSuccess)
        error = load_image(&kernel);
    if (error == cudaSuccess)
        *function_out = (CUfunction)kernel; /* the driver takes either */
    return error;
}

static cudaError_t launch(bool ps, const void *func, dim3 grid, dim3 block, size_t shared,
                          cudaStream_t stream)
{
    CUfunction function;
    cudaError_t error = prepare(func, grid, block, &function);
    if (error == cudaSuccess)
        error = RT_CALL_PS(ps, cuLaunchKernel,
                           (function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                            (unsigned int)shared, stream, NULL, NULL));
    return rt_done(error);
}

static cudaError_t launch_cooperative(bool ps, const void *func, dim3 grid, dim3 block,
                                      size_t shared, cudaStream_t stream)
{
    CUfunction function;
    cudaError_t error = prepare(func, grid, block, &function);
    if (error == cudaSuccess)
        error = RT_CALL_PS(ps, cuLaunchCooperativeKernel,
                           (function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                            (unsigned int)shared, stream, NULL));
    return rt_done(error);
}

/* Attributes change nothing that is simulated, so they are not passed on. */
static cudaError_t launch_with(bool ps, const cudaLaunchConfig_t *config, const void *func)
{
    CUfunction function;
    if (!config)
        return rt_done(cudaErrorInvalidValue);
    cudaError_t error = prepare(func, config->gridDim, config->blockDim, &function);
    dim3 grid = config->gridDim, block = config->blockDim;
    CUlaunchConfig driver = {grid.x,
                             grid.y,
                             grid.z,
                             block.x,
                             block.y,
                             block.z,
                             (unsigned int)config->dynamicSmemBytes,
                             config->stream,
                             NULL,
                             0};
    if (error == cudaSuccess)
        error = RT_CALL_PS(ps, cuLaunchKernelEx, (&driver, function, NULL, NULL));
    return rt_done(error);
}

/* The arguments that programs pass go nowhere: no kernel ever runs. */
#define LAUNCH(name, is_per_thread, type, how)                                                     \
    RT_EXPORT cudaError_t name(type func, dim3 gridDim, dim3 blockDim, void **args,                \
                               size_t sharedMem, cudaStream_t stream);                             \
    cudaError_t name(type func, dim3 gridDim, dim3 blockDim, void **args, size_t sharedMem,        \
                     cudaStream_t stream)                                                          \
    {                                                                                              \
        (void)args;                                                                                \
        return how(is_per_thread, func, gridDim, blockDim, sharedMem, stream);                     \
    }
LAUNCH(cudaLaunchKernel, false, const void *, launch)
LAUNCH(cudaLaunchKernel_ptsz, true, const void *, launch)
LAUNCH(__cudaLaunchKernel, false, cudaKernel_t, launch)
LAUNCH(__cudaLaunchKernel_ptsz, true, cudaKernel_t, launch)
LAUNCH(cudaLaunchCooperativeKernel, false, const void *, launch_cooperative)
LAUNCH(cudaLaunchCooperativeKernel_ptsz, true, const void *, launch_cooperative)

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func, void **args)
{
    (void)args;
    return launch_with(false, config, func);
}

RT_EXPORT cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t *config, const void *func,
                                               void **args);
cudaError_t cudaLaunchKernelExC_ptsz(const cudaLaunchConfig_t *config, const void *func,
                                     void **args)
{
    (void)args;
    return launch_with(true, config, func);
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
