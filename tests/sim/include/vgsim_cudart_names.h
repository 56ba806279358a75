/* vgsim_cudart_names.h -- which export a name of the CUDA runtime stands for.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:      included by our cuda_runtime_api.h only. A program built with
 *             CUDA_API_PER_THREAD_DEFAULT_STREAM calls the second form of whatever takes a stream
 *             or may block; 12 has newer forms under the old names.
 */
#ifndef VGSIM_CUDART_NAMES_H
#define VGSIM_CUDART_NAMES_H

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define cudaMemcpy                          cudaMemcpy_ptds
#define cudaMemcpy2D                        cudaMemcpy2D_ptds
#define cudaMemcpy2DToArray                 cudaMemcpy2DToArray_ptds
#define cudaMemcpy2DFromArray               cudaMemcpy2DFromArray_ptds
#define cudaMemcpy3D                        cudaMemcpy3D_ptds
#define cudaMemset                          cudaMemset_ptds
#define cudaMemset2D                        cudaMemset2D_ptds
#define cudaGraphInstantiateWithParams      cudaGraphInstantiateWithParams_ptsz
#define cudaGraphUpload                     cudaGraphUpload_ptsz
#define cudaGraphLaunch                     cudaGraphLaunch_ptsz
#define cudaStreamBeginCapture              cudaStreamBeginCapture_ptsz
#define cudaStreamBeginCaptureToGraph       cudaStreamBeginCaptureToGraph_ptsz
#define cudaStreamEndCapture                cudaStreamEndCapture_ptsz
#define cudaStreamUpdateCaptureDependencies cudaStreamUpdateCaptureDependencies_ptsz
#define cudaStreamIsCapturing               cudaStreamIsCapturing_ptsz
#define cudaMemcpyAsync                     cudaMemcpyAsync_ptsz
#define cudaMemcpy2DAsync                   cudaMemcpy2DAsync_ptsz
#define cudaMemcpy3DAsync                   cudaMemcpy3DAsync_ptsz
#define cudaMemsetAsync                     cudaMemsetAsync_ptsz
#define cudaMemset2DAsync                   cudaMemset2DAsync_ptsz
#define cudaStreamQuery                     cudaStreamQuery_ptsz
#define cudaStreamGetDevice                 cudaStreamGetDevice_ptsz
#define cudaStreamGetFlags                  cudaStreamGetFlags_ptsz
#define cudaStreamGetId                     cudaStreamGetId_ptsz
#define cudaStreamGetPriority               cudaStreamGetPriority_ptsz
#define cudaEventRecord                     cudaEventRecord_ptsz
#define cudaEventRecordWithFlags            cudaEventRecordWithFlags_ptsz
#define cudaStreamWaitEvent                 cudaStreamWaitEvent_ptsz
#define cudaStreamAddCallback               cudaStreamAddCallback_ptsz
#define cudaStreamAttachMemAsync            cudaStreamAttachMemAsync_ptsz
#define cudaStreamSynchronize               cudaStreamSynchronize_ptsz
#define cudaLaunchKernel                    cudaLaunchKernel_ptsz
#define cudaLaunchKernelExC                 cudaLaunchKernelExC_ptsz
#define cudaLaunchHostFunc                  cudaLaunchHostFunc_ptsz
#define cudaMemPrefetchAsync                cudaMemPrefetchAsync_ptsz
#define cudaLaunchCooperativeKernel         cudaLaunchCooperativeKernel_ptsz
#define cudaMallocAsync                     cudaMallocAsync_ptsz
#define cudaFreeAsync                       cudaFreeAsync_ptsz
#define cudaMallocFromPoolAsync             cudaMallocFromPoolAsync_ptsz
#define cudaGetDriverEntryPoint             cudaGetDriverEntryPoint_ptsz
#define cudaGetDriverEntryPointByVersion    cudaGetDriverEntryPointByVersion_ptsz
#endif

#if CUDART_VERSION < 13000
#define cudaGetDeviceProperties  cudaGetDeviceProperties_v2
#define cudaStreamGetCaptureInfo cudaStreamGetCaptureInfo_v2
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define cudaStreamGetCaptureInfo_v2            cudaStreamGetCaptureInfo_v2_ptsz
#define cudaStreamGetCaptureInfo_v3            cudaStreamGetCaptureInfo_v3_ptsz
#define cudaStreamUpdateCaptureDependencies_v2 cudaStreamUpdateCaptureDependencies_v2_ptsz
#define cudaMemPrefetchAsync_v2                cudaMemPrefetchAsync_v2_ptsz
#endif
#elif defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define cudaStreamGetCaptureInfo cudaStreamGetCaptureInfo_ptsz
#endif

#endif
