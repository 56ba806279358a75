/* case_slow_nvml.c -- an NVML that takes its time to start and knows one other process.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>
#include <time.h>

#include "nvml.h"

nvmlReturn_t nvmlInit_v2(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    *device = (nvmlDevice_t)uuid; /* any pointer: there is one device */
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
    (void)device;
    memset(memory, 0, sizeof *memory);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
                                                     nvmlProcessInfo_t *processes)
{
    (void)device;
    *count = 1;
    memset(processes, 0, sizeof *processes);
    processes->pid = 991;
    processes->usedGpuMemory = 1500ull << 20;
    return NVML_SUCCESS;
}
