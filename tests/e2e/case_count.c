/* case_count.c -- programs that look at the devices and use none.
 * SPDX-License-Identifier: Apache-2.0
 *
 * And a check of what is in the process meanwhile.
 *
 * Prints the devices, then the threads and the open files of the process. RUNTIME: by the runtime,
 * else by the driver.
 */
#include <dirent.h>
#include <stdio.h>

#ifdef RUNTIME
#include "cuda_runtime_api.h"
#else
#include "cuda.h"
#endif

static int count_devices(void)
{
    int count = -1, value;
#ifdef RUNTIME
    static struct cudaDeviceProp properties;
    int version;
    if (cudaGetDeviceCount(&count) || cudaGetDeviceProperties(&properties, 0) ||
        cudaDriverGetVersion(&version) ||
        cudaDeviceGetAttribute(&value, cudaDevAttrMultiProcessorCount, 0))
        return -1;
#else
    CUdevice device;
    size_t total;
    if (cuInit(0) || cuDeviceGetCount(&count) || cuDeviceGet(&device, 0) ||
        cuDeviceTotalMem(&total, device) ||
        cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device))
        return -1;
#endif
    return count;
}

static int entries(const char *path)
{
    int count = 0;
    DIR *directory = opendir(path);
    while (directory && readdir(directory))
        count++;
    if (directory)
        closedir(directory);
    return count - 2;
}

int main(void)
{
    int devices = count_devices();
    printf("%d %d %d\n", devices, entries("/proc/self/task"), entries("/proc/self/fd"));
    return 0;
}
