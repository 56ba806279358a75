/* mig.c -- slices of devices (VGSIM_MIG=1).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Each device that CUDA sees is the one slice of a bigger one.
 *
 * Follows:    NVML API Reference, Multi Instance GPU Management: nvmlDeviceGetHandleByIndex gives
 *             the whole device, a "MIG-" UUID or nvmlDeviceGetMigDeviceHandleByIndex the slice, and
 *             the two have different memory.
 */
#include "tests/sim/nvml/nvml_sim.h"

static nvmlReturn_t check(nvmlDevice_t device, const void *out, bool slice)
{
    if (!vgsim_nvml_ready())
        return NVML_ERROR_UNINITIALIZED;
    if (vgsim_nvml_index(device) < 0 || !out)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (!vgsim_knobs()->mig)
        return NVML_ERROR_NOT_SUPPORTED;
    return vgsim_nvml_is_slice(device) == slice ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *currentMode,
                                  unsigned int *pendingMode)
{
    nvmlReturn_t result = check(device, currentMode, false);
    if (result == NVML_SUCCESS && !pendingMode)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *currentMode = *pendingMode = NVML_DEVICE_MIG_ENABLE;
    return result;
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *isMigDevice)
{
    if (!vgsim_nvml_ready())
        return NVML_ERROR_UNINITIALIZED;
    if (vgsim_nvml_index(device) < 0 || !isMigDevice)
        return NVML_ERROR_INVALID_ARGUMENT;
    *isMigDevice = vgsim_nvml_is_slice(device);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count)
{
    if (!vgsim_nvml_ready())
        return NVML_ERROR_UNINITIALIZED;
    if (vgsim_nvml_index(device) < 0 || !count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *count = vgsim_knobs()->mig ? 7 : 0;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
                                                 nvmlDevice_t *migDevice)
{
    nvmlReturn_t result = check(device, migDevice, false);
    if (result == NVML_SUCCESS && index)
        return index < 7 ? NVML_ERROR_NOT_FOUND : NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
        *migDevice = vgsim_nvml_device(vgsim_nvml_index(device), true);
    return result;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t migDevice,
                                                          nvmlDevice_t *device)
{
    nvmlReturn_t result = check(migDevice, device, true);
    if (result == NVML_SUCCESS)
        *device = vgsim_nvml_device(vgsim_nvml_index(migDevice), false);
    return result;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id)
{
    nvmlReturn_t result = check(device, id, true);
    if (result == NVML_SUCCESS)
        *id = 1;
    return result;
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id)
{
    return nvmlDeviceGetGpuInstanceId(device, id);
}
