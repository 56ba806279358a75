/* driver_oom.c -- runs out of memory through the driver API alone.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Plain, pitched, managed and pinned memory, then a refusal.
 *
 * What a report of it must show: failure.api cuMemAlloc_v2 by `main` in this file; by_kind has
 * device (the plain and the pitched bytes), managed 64 MiB and pinned 32 MiB; one context, not
 * primary, with the stack of its creation.
 *
 *   vramguard run --sim=4GiB -- build/examples/driver_oom
 */
#include <stdio.h>

#include "cuda.h"

#define CHECK(call)                                                                                \
    do {                                                                                           \
        CUresult rc_ = (call);                                                                     \
        if (rc_ != CUDA_SUCCESS) {                                                                 \
            printf("%s: status %d\n", #call, (int)rc_);                                            \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

static CUresult create_context(CUcontext *context, CUdevice device)
{
#if CUDA_VERSION >= 13000
    return cuCtxCreate(context, NULL, 0, device);
#else
    return cuCtxCreate(context, 0, device);
#endif
}

int main(void)
{
    CUdevice device;
    CUcontext context;
    CUdeviceptr plain, pitched, managed, last;
    void *pinned;
    size_t pitch, free_bytes, total_bytes;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(create_context(&context, device));
    CHECK(cuMemAlloc(&plain, (size_t)100 << 20));
    CHECK(cuMemAllocPitch(&pitched, &pitch, 1000, 1000, 4));
    CHECK(cuMemAllocManaged(&managed, (size_t)64 << 20, CU_MEM_ATTACH_GLOBAL));
    CHECK(cuMemHostAlloc(&pinned, (size_t)32 << 20, 0));
    CHECK(cuMemGetInfo(&free_bytes, &total_bytes));
    printf("pitch %zu\n", pitch);
    CHECK(cuMemAlloc(&last, free_bytes + ((size_t)64 << 20)));
    return 0;
}
