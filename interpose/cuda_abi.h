/* cuda_abi.h -- the driver's and the runtime's types and prototypes as far as we touch them: building needs no CUDA toolkit.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Written from the public interface (CUDA 13.0). Where NVIDIA's headers are at hand the conformance test compares every hook row and every type
 * here with them.
 */
#ifndef VG_CUDA_ABI_H
#define VG_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __CUDA_API_VERSION_INTERNAL
#error "cuda_abi.h and NVIDIA's cuda.h in one translation unit"
#endif

typedef enum cudaError_enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_DEINITIALIZED = 4,
    CUDA_ERROR_INVALID_CONTEXT = 201,
    CUDA_ERROR_NOT_SUPPORTED = 801
} CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUuuid_st {
    char bytes[16];
} CUuuid;
typedef enum CUstreamCaptureMode_enum {
    CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
    CU_STREAM_CAPTURE_MODE_RELAXED = 2
} CUstreamCaptureMode;
typedef enum CUdriverProcAddressQueryResult_enum {
    CU_GET_PROC_ADDRESS_SUCCESS = 0,
    CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
    CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2
} CUdriverProcAddressQueryResult;
typedef struct CUctxCreateParams_st CUctxCreateParams;
typedef struct CUexecAffinityParam_st CUexecAffinityParam;
typedef uint64_t cuuint64_t;

/* Runtime. */
typedef enum cudaError {
    cudaSuccess = 0,
    cudaErrorMemoryAllocation = 2,
    cudaErrorNotSupported = 801
} cudaError_t;
struct cudaPitchedPtr {
    void *ptr;
    size_t pitch, xsize, ysize;
};
struct cudaExtent {
    size_t width, height, depth;
};
enum cudaDriverEntryPointQueryResult {
    cudaDriverEntryPointSuccess = 0,
    cudaDriverEntryPointSymbolNotFound = 1,
    cudaDriverEntryPointVersionNotSufficent = 2
};

/* Asked by the guard itself through saved real pointers (driver.c). */
typedef CUresult vg_cuCtxGetCurrent(CUcontext *);
typedef CUresult vg_cuCtxGetDevice(CUdevice *);
typedef CUresult vg_cuCtxGetId(CUcontext, unsigned long long *);
typedef CUresult vg_cuMemGetInfo(size_t *, size_t *);
typedef CUresult vg_cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *);
typedef CUresult vg_cuDeviceGetUuid(CUuuid *, CUdevice);
typedef CUresult vg_cuDeviceGetName(char *, int, CUdevice);
typedef CUresult vg_cuDeviceGetPCIBusId(char *, int, CUdevice);
typedef CUresult vg_cuDeviceTotalMem(size_t *, CUdevice);
typedef CUresult vg_cuDriverGetVersion(int *);
typedef CUresult vg_cuDevicePrimaryCtxGetState(CUdevice, unsigned *, int *);

#endif
