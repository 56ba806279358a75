/* vgsim_cuda_names.h -- which export a name of the driver API stands for in CUDA 13.0.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:      included by our cuda.h only.
 */
#ifndef VGSIM_CUDA_NAMES_H
#define VGSIM_CUDA_NAMES_H

#define cuDeviceTotalMem           cuDeviceTotalMem_v2
#define cuDeviceGetUuid            cuDeviceGetUuid_v2
#define cuDevicePrimaryCtxRelease  cuDevicePrimaryCtxRelease_v2
#define cuDevicePrimaryCtxReset    cuDevicePrimaryCtxReset_v2
#define cuDevicePrimaryCtxSetFlags cuDevicePrimaryCtxSetFlags_v2
#define cuCtxCreate                cuCtxCreate_v4
#define cuCtxDestroy               cuCtxDestroy_v2
#define cuCtxPopCurrent            cuCtxPopCurrent_v2
#define cuCtxPushCurrent           cuCtxPushCurrent_v2
#define cuMemGetInfo               cuMemGetInfo_v2
#define cuMemAlloc                 cuMemAlloc_v2
#define cuMemAllocPitch            cuMemAllocPitch_v2
#define cuMemFree                  cuMemFree_v2
#define cuMemGetAddressRange       cuMemGetAddressRange_v2
#define cuMemAllocHost             cuMemAllocHost_v2
#define cuMemHostGetDevicePointer  cuMemHostGetDevicePointer_v2
#define cuMemHostRegister          cuMemHostRegister_v2
#define cuMemAdvise                cuMemAdvise_v2
#define cuMemPrefetchAsync         cuMemPrefetchAsync_v2
#define cuMemcpyHtoD               cuMemcpyHtoD_v2
#define cuMemcpyDtoH               cuMemcpyDtoH_v2
#define cuMemcpyDtoD               cuMemcpyDtoD_v2
#define cuMemcpy2D                 cuMemcpy2D_v2
#define cuMemcpy2DUnaligned        cuMemcpy2DUnaligned_v2
#define cuMemcpy3D                 cuMemcpy3D_v2
#define cuMemcpyHtoDAsync          cuMemcpyHtoDAsync_v2
#define cuMemcpyDtoHAsync          cuMemcpyDtoHAsync_v2
#define cuMemcpyDtoDAsync          cuMemcpyDtoDAsync_v2
#define cuMemcpy2DAsync            cuMemcpy2DAsync_v2
#define cuMemcpy3DAsync            cuMemcpy3DAsync_v2
#define cuMemsetD8                 cuMemsetD8_v2
#define cuMemsetD16                cuMemsetD16_v2
#define cuMemsetD32                cuMemsetD32_v2
#define cuMemsetD2D8               cuMemsetD2D8_v2
#define cuMemsetD2D16              cuMemsetD2D16_v2
#define cuMemsetD2D32              cuMemsetD2D32_v2
#define cuModuleGetGlobal          cuModuleGetGlobal_v2
#define cuStreamDestroy            cuStreamDestroy_v2
#define cuStreamBeginCapture       cuStreamBeginCapture_v2
#define cuStreamGetCaptureInfo     cuStreamGetCaptureInfo_v3
#define cuStreamWriteValue32       cuStreamWriteValue32_v2
#define cuStreamWriteValue64       cuStreamWriteValue64_v2
#define cuStreamWaitValue32        cuStreamWaitValue32_v2
#define cuEventDestroy             cuEventDestroy_v2
#define cuEventElapsedTime         cuEventElapsedTime_v2
#define cuGraphInstantiate         cuGraphInstantiateWithFlags
#define cuGraphExecUpdate          cuGraphExecUpdate_v2
#define cuGraphAddKernelNode       cuGraphAddKernelNode_v2
#define cuGraphAddNode             cuGraphAddNode_v2
#define cuGraphGetEdges            cuGraphGetEdges_v2
#define cuGraphNodeGetDependencies cuGraphNodeGetDependencies_v2
#define cuGraphAddDependencies     cuGraphAddDependencies_v2
#define cuGetProcAddress           cuGetProcAddress_v2

#define cuStreamUpdateCaptureDependencies cuStreamUpdateCaptureDependencies_v2

#endif
