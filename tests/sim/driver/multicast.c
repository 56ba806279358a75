/* multicast.c -- memory of several devices at one address: this machine has none, and says so.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The names are there because programs look them up before they know whether they need them.
 */
#include "tests/sim/driver/sim.h"

CUresult cuMulticastCreate(CUmemGenericAllocationHandle *mcHandle,
                           const CUmulticastObjectProp *prop)
{
    (void)mcHandle;
    (void)prop;
    CALL(INIT, CUDA_ERROR_NOT_SUPPORTED);
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle mcHandle, CUdevice dev)
{
    (void)mcHandle;
    (void)dev;
    CALL(INIT, CUDA_ERROR_NOT_SUPPORTED);
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
                            CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size,
                            unsigned long long flags)
{
    (void)mcHandle;
    (void)mcOffset;
    (void)memHandle;
    (void)memOffset;
    (void)size;
    (void)flags;
    CALL(INIT, CUDA_ERROR_NOT_SUPPORTED);
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
                             CUdeviceptr memptr, size_t size, unsigned long long flags)
{
    (void)mcHandle;
    (void)mcOffset;
    (void)memptr;
    (void)size;
    (void)flags;
    CALL(INIT, CUDA_ERROR_NOT_SUPPORTED);
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
                           size_t size)
{
    (void)mcHandle;
    (void)dev;
    (void)mcOffset;
    (void)size;
    CALL(INIT, CUDA_ERROR_NOT_SUPPORTED);
}

CUresult cuMulticastGetGranularity(size_t *granularity, const CUmulticastObjectProp *prop,
                                   CUmulticastGranularity_flags option)
{
    (void)granularity;
    (void)prop;
    (void)option;
    CALL(INIT, CUDA_ERROR_NOT_SUPPORTED);
}
