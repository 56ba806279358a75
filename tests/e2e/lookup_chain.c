/* lookup_chain.c -- another preload library that stands in the same calls, by RTLD_NEXT.
 * SPDX-License-Identifier: Apache-2.0
 *
 * At the end it prints how many calls of each function came through it.
 */
#include <dlfcn.h>

#include "case.h"

static unsigned allocations, frees, contexts;

static void *next(const char *name)
{
    void *volatile found = dlsym(RTLD_NEXT, name);
    NEED(found);
    return found;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes)
{
    void *found = next("cuMemAlloc_v2");
    CUresult (*real)(CUdeviceptr *, size_t);
    memcpy(&real, &found, sizeof real);
    NEED(real != cuMemAlloc_v2);
    allocations++;
    return real(address, bytes);
}

CUresult cuMemFree_v2(CUdeviceptr address)
{
    void *found = next("cuMemFree_v2");
    CUresult (*real)(CUdeviceptr);
    memcpy(&real, &found, sizeof real);
    NEED(real != cuMemFree_v2);
    frees++;
    return real(address);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    void *found = next("cuDevicePrimaryCtxRetain");
    CUresult (*real)(CUcontext *, CUdevice);
    memcpy(&real, &found, sizeof real);
    contexts++;
    return real(context, device);
}

__attribute__((destructor)) static void tell(void)
{
    printf("chain: %u %u %u\n", allocations, frees, contexts);
}
