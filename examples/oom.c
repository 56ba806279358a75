/* oom.c -- runs out of device memory in one place while another place holds nearly all of it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * By the CUDA runtime API.
 *
 * What a report of it must show: kind oom, failure.api cuMemAlloc_v2 requested via cudaMalloc by
 * `ask_for_more` in this file; the largest site is `load_weights`; on an otherwise empty device the
 * verdict is "unknown" and says how many bytes are missing.
 *
 *   vramguard run --sim=4GiB -- build/examples/oom
 */
#include <stdio.h>

#include "cuda_runtime_api.h"

enum { MIB = 1 << 20 };

static void *allocate(size_t bytes)
{
    void *pointer = NULL;
    cudaError_t rc = cudaMalloc(&pointer, bytes);
    if (rc != cudaSuccess) {
        printf("cudaMalloc of %zu MiB: %s\n", bytes / MIB, cudaGetErrorString(rc));
        return NULL;
    }
    return pointer;
}

/* Fills the device in pieces of 256 MiB, but for the last 512 MiB. */
static unsigned load_weights(void)
{
    size_t free_bytes = 0, total_bytes = 0;
    unsigned count = 0;
    while (cudaMemGetInfo(&free_bytes, &total_bytes) == cudaSuccess &&
           free_bytes > (size_t)768 * MIB && allocate((size_t)256 * MIB))
        count++;
    return count;
}

static int ask_for_more(void)
{
    return allocate((size_t)1024 * MIB) != NULL;
}

int main(void)
{
    printf("loaded %u pieces\n", load_weights());
    return ask_for_more() ? 0 : 1;
}
