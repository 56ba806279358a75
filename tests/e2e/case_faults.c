/* case_faults.c -- frees that the driver refuses: twice, of nobody's address, of what a reset took.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each of `first_owner`, `second_owner`, `teardown` and `stranger` is a function of its own: a
 * report has to name it.
 */
#include "case.h"

__attribute__((noinline)) static void first_owner(CUdeviceptr address)
{
    printf("first %d\n", (int)cuMemFree(address));
}

__attribute__((noinline)) static void second_owner(CUdeviceptr address)
{
    printf("second %d\n", (int)cuMemFree(address));
}

__attribute__((noinline)) static void stranger(CUdeviceptr address)
{
    printf("stranger %d\n", (int)cuMemFree(address));
}

__attribute__((noinline)) static void teardown(CUdeviceptr address)
{
    printf("reset %d\n", (int)cuDevicePrimaryCtxReset(0));
    use_device();
    printf("after reset %d\n", (int)cuMemFree(address));
}

int main(void)
{
    volatile int times = 3; /* one place that is called three times, not three places */
    use_device();
    CUdeviceptr address = take(3 << 20);
    first_owner(address);
    for (int i = 0; i < times; i++)
        second_owner(address);
    stranger(0x123456789000);
    printf("null %d\n", (int)cuMemFree(0));
    teardown(take(5 << 20));
    return 0;
}
