/* case_frees.c -- frees that are wrong, or fail: what the driver says must come back unchanged.
 * SPDX-License-Identifier: Apache-2.0
 *
 * One line per call: what was freed and the status; last line: the live bytes as the program knows
 * them.
 */
#include "case.h"

static void try_free(const char *what, CUdeviceptr address)
{
    printf("%s %d\n", what, (int)cuMemFree(address));
}

int main(void)
{
    void *pinned;
    use_device();
    CUdeviceptr a = take(3 * MIB), b = take(5 * MIB), c = take(7 * MIB);
    NEED(cuMemHostAlloc(&pinned, 2 * MIB, 0) == CUDA_SUCCESS);
    try_free("planned", a); /* the test plans this one to fail: `a` stays */
    try_free("good", b);
    try_free("again", b);
    try_free("null", 0);
    try_free("unknown", 0x1234000);
    try_free("interior", c + 512);
    printf("host-null %d\n", (int)cuMemFreeHost(NULL));
    printf("host-unknown %d\n", (int)cuMemFreeHost(&pinned));
    printf("host-good %d\n", (int)cuMemFreeHost(pinned));
    printf("unregistered %d\n", (int)cuMemHostUnregister(&pinned));
    printf("live %zu\n", 10 * MIB);
    return 0;
}
