/* device.c -- what devices there are and what they can do. Nothing here makes a context.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "runtime.h"

#include <string.h>

cudaError_t cudaDriverGetVersion(int *driverVersion)
{
    if (!driverVersion)
        return rt_done(cudaErrorInvalidValue);
    *driverVersion = 0; /* no driver is no error here */
    rt_enter_driver();
    if (rt_driver.cuDriverGetVersion)
        return rt_done(RT_CALL(cuDriverGetVersion, (driverVersion)));
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *runtimeVersion)
{
    if (!runtimeVersion)
        return rt_done(cudaErrorInvalidValue);
    *runtimeVersion = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    cudaError_t error = rt_enter_driver();
    if (error == cudaSuccess)
        error = RT_CALL(cuDeviceGetCount, (count));
    else
        *count = 0;
    if (error == cudaSuccess && *count == 0)
        error = cudaErrorNoDevice;
    return rt_done(error);
}

/* The driver's handle, which refuses an ordinal that does not exist. */
static cudaError_t device_of(int ordinal, CUdevice *device_out)
{
    cudaError_t error = rt_enter_driver();
    return error == cudaSuccess ? RT_CALL(cuDeviceGet, (device_out, ordinal)) : error;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
    CUdevice handle;
    cudaError_t error = device_of(device, &handle);
    if (error == cudaSuccess)
        error = RT_CALL(cuDeviceGetAttribute, (value, (CUdevice_attribute)attr, handle));
    return rt_done(error);
}

cudaError_t cudaDeviceGetPCIBusId(char *pciBusId, int len, int device)
{
    CUdevice handle;
    cudaError_t error = device_of(device, &handle);
    if (error == cudaSuccess)
        error = RT_CALL(cuDeviceGetPCIBusId, (pciBusId, len, handle));
    return rt_done(error);
}

cudaError_t cudaDeviceCanAccessPeer(int *canAccessPeer, int device, int peerDevice)
{
    CUdevice handle, peer;
    cudaError_t error = device_of(device, &handle);
    if (error == cudaSuccess)
        error = device_of(peerDevice, &peer);
    if (error == cudaSuccess)
        error = RT_CALL(cuDeviceCanAccessPeer, (canAccessPeer, handle, peer));
    return rt_done(error);
}

cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attr, int srcDevice,
                                      int dstDevice)
{
    CUdevice from, to;
    cudaError_t error = device_of(srcDevice, &from);
    if (error == cudaSuccess)
        error = device_of(dstDevice, &to);
    if (error == cudaSuccess)
        error = RT_CALL(cuDeviceGetP2PAttribute, (value, (CUdevice_P2PAttribute)attr, from, to));
    return rt_done(error);
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *pciBusId)
{
    cudaError_t error = rt_enter_driver();
    return rt_done(error == cudaSuccess ? RT_CALL(cuDeviceGetByPCIBusId, (device, pciBusId))
                                        : error);
}

#define INT_FIELD(field, attribute)                                                                \
    {                                                                                              \
        offsetof(struct cudaDeviceProp, field), sizeof(int), attribute                             \
    }
#define SIZE_FIELD(field, attribute)                                                               \
    {                                                                                              \
        offsetof(struct cudaDeviceProp, field), sizeof(size_t), attribute                          \
    }
static const struct property {
    size_t offset, size;
    enum cudaDeviceAttr attribute;
} properties[] = {
    SIZE_FIELD(sharedMemPerBlock, cudaDevAttrMaxSharedMemoryPerBlock),
    INT_FIELD(regsPerBlock, cudaDevAttrMaxRegistersPerBlock),
    INT_FIELD(warpSize, cudaDevAttrWarpSize),
    SIZE_FIELD(memPitch, cudaDevAttrMaxPitch),
    INT_FIELD(maxThreadsPerBlock, cudaDevAttrMaxThreadsPerBlock),
    INT_FIELD(maxThreadsDim[0], cudaDevAttrMaxBlockDimX),
    INT_FIELD(maxThreadsDim[1], cudaDevAttrMaxBlockDimY),
    INT_FIELD(maxThreadsDim[2], cudaDevAttrMaxBlockDimZ),
    INT_FIELD(maxGridSize[0], cudaDevAttrMaxGridDimX),
    INT_FIELD(maxGridSize[1], cudaDevAttrMaxGridDimY),
    INT_FIELD(maxGridSize[2], cudaDevAttrMaxGridDimZ),
    SIZE_FIELD(totalConstMem, cudaDevAttrTotalConstantMemory),
    INT_FIELD(major, cudaDevAttrComputeCapabilityMajor),
    INT_FIELD(minor, cudaDevAttrComputeCapabilityMinor),
    SIZE_FIELD(textureAlignment, cudaDevAttrTextureAlignment),
    SIZE_FIELD(texturePitchAlignment, cudaDevAttrTexturePitchAlignment),
    INT_FIELD(multiProcessorCount, cudaDevAttrMultiProcessorCount),
    INT_FIELD(integrated, cudaDevAttrIntegrated),
    INT_FIELD(canMapHostMemory, cudaDevAttrCanMapHostMemory),
    SIZE_FIELD(surfaceAlignment, cudaDevAttrSurfaceAlignment),
    INT_FIELD(concurrentKernels, cudaDevAttrConcurrentKernels),
    INT_FIELD(ECCEnabled, cudaDevAttrEccEnabled),
    INT_FIELD(pciBusID, cudaDevAttrPciBusId),
    INT_FIELD(pciDeviceID, cudaDevAttrPciDeviceId),
    INT_FIELD(pciDomainID, cudaDevAttrPciDomainId),
    INT_FIELD(tccDriver, cudaDevAttrTccDriver),
    INT_FIELD(asyncEngineCount, cudaDevAttrAsyncEngineCount),
    INT_FIELD(unifiedAddressing, cudaDevAttrUnifiedAddressing),
    INT_FIELD(memoryBusWidth, cudaDevAttrGlobalMemoryBusWidth),
    INT_FIELD(l2CacheSize, cudaDevAttrL2CacheSize),
    INT_FIELD(persistingL2CacheMaxSize, cudaDevAttrMaxPersistingL2CacheSize),
    INT_FIELD(maxThreadsPerMultiProcessor, cudaDevAttrMaxThreadsPerMultiProcessor),
    INT_FIELD(streamPrioritiesSupported, cudaDevAttrStreamPrioritiesSupported),
    INT_FIELD(globalL1CacheSupported, cudaDevAttrGlobalL1CacheSupported),
    INT_FIELD(localL1CacheSupported, cudaDevAttrLocalL1CacheSupported),
    SIZE_FIELD(sharedMemPerMultiprocessor, cudaDevAttrMaxSharedMemoryPerMultiprocessor),
    INT_FIELD(regsPerMultiprocessor, cudaDevAttrMaxRegistersPerMultiprocessor),
    INT_FIELD(managedMemory, cudaDevAttrManagedMemory),
    INT_FIELD(isMultiGpuBoard, cudaDevAttrIsMultiGpuBoard),
    INT_FIELD(multiGpuBoardGroupID, cudaDevAttrMultiGpuBoardGroupID),
    INT_FIELD(pageableMemoryAccess, cudaDevAttrPageableMemoryAccess),
    INT_FIELD(concurrentManagedAccess, cudaDevAttrConcurrentManagedAccess),
    INT_FIELD(computePreemptionSupported, cudaDevAttrComputePreemptionSupported),
    INT_FIELD(canUseHostPointerForRegisteredMem, cudaDevAttrCanUseHostPointerForRegisteredMem),
    INT_FIELD(cooperativeLaunch, cudaDevAttrCooperativeLaunch),
    SIZE_FIELD(sharedMemPerBlockOptin, cudaDevAttrMaxSharedMemoryPerBlockOptin),
    INT_FIELD(hostRegisterSupported, cudaDevAttrHostRegisterSupported),
    INT_FIELD(maxBlocksPerMultiProcessor, cudaDevAttrMaxBlocksPerMultiprocessor),
    INT_FIELD(accessPolicyMaxWindowSize, cudaDevAttrMaxAccessPolicyWindowSize),
    SIZE_FIELD(reservedSharedMemPerBlock, cudaDevAttrReservedSharedMemoryPerBlock),
    INT_FIELD(memoryPoolsSupported, cudaDevAttrMemoryPoolsSupported),
    INT_FIELD(memoryPoolSupportedHandleTypes, cudaDevAttrMemoryPoolSupportedHandleTypes),
    INT_FIELD(ipcEventSupported, cudaDevAttrIpcEventSupport),
    INT_FIELD(clusterLaunch, cudaDevAttrClusterLaunch),
#if CUDART_VERSION < 13000
    INT_FIELD(clockRate, cudaDevAttrClockRate),
    INT_FIELD(memoryClockRate, cudaDevAttrMemoryClockRate),
    INT_FIELD(computeMode, cudaDevAttrComputeMode),
#endif
};

/* An attribute that the driver does not know leaves its field 0. */
static void fill_property(struct cudaDeviceProp *prop, const struct property *row, CUdevice device)
{
    int value = 0;
    if (RT_CALL(cuDeviceGetAttribute, (&value, (CUdevice_attribute)row->attribute, device)) !=
        cudaSuccess)
        return;
    size_t wide = (size_t)value;
    memcpy((char *)prop + row->offset,
           row->size == sizeof(wide) ? (const void *)&wide : (const void *)&value, row->size);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    CUdevice handle;
    if (!prop)
        return rt_done(cudaErrorInvalidValue);
    cudaError_t error = device_of(device, &handle);
    if (error != cudaSuccess)
        return rt_done(error);
    memset(prop, 0, sizeof(*prop));
    error = RT_CALL(cuDeviceGetName, (prop->name, sizeof(prop->name), handle));
    if (error == cudaSuccess)
        error = RT_CALL(cuDeviceTotalMem, (&prop->totalGlobalMem, handle));
    if (error == cudaSuccess)
        error = RT_CALL(cuDeviceGetUuid, (&prop->uuid, handle));
    for (size_t i = 0; i < sizeof(properties) / sizeof(properties[0]); i++)
        fill_property(prop, &properties[i], handle);
    return rt_done(error);
}
