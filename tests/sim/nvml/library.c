/* library.c -- the simulated NVML's life, and what it says of the system and of devices.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/sim/nvml/nvml_sim.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

struct nvmlDevice_st {
    int unused;
};

static struct {
    _Atomic int users;
    struct nvmlDevice_st devices[VGSIM_MAX_DEVICES];
    struct nvmlDevice_st slices[VGSIM_MAX_DEVICES]; /* with VGSIM_MIG: one of each device */
} state;

bool vgsim_nvml_ready(void)
{
    return atomic_load(&state.users) > 0;
}

int vgsim_nvml_index(nvmlDevice_t device)
{
    for (int i = 0; i < vgsim_knobs()->devices; i++)
        if (device == &state.devices[i] || (vgsim_knobs()->mig && device == &state.slices[i]))
            return i;
    return -1;
}

bool vgsim_nvml_is_slice(nvmlDevice_t device)
{
    return device >= state.slices && device < state.slices + VGSIM_MAX_DEVICES;
}

nvmlDevice_t vgsim_nvml_device(int index, bool slice)
{
    return slice ? &state.slices[index] : &state.devices[index];
}

nvmlReturn_t vgsim_nvml_text(char *out, unsigned int length, const char *text)
{
    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (length <= strlen(text))
        return NVML_ERROR_INSUFFICIENT_SIZE;
    memcpy(out, text, strlen(text) + 1);
    return NVML_SUCCESS;
}

/* --- life ------------------------------------------------------------------------------------- */

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    if (vgsim_knobs()->devices == 0 && !(flags & NVML_INIT_FLAG_NO_GPUS))
        return NVML_ERROR_DRIVER_NOT_LOADED;
    atomic_fetch_add(&state.users, 1);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlInit(void)
{
    return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlShutdown(void)
{
    int users = atomic_load(&state.users);
    while (users > 0)
        if (atomic_compare_exchange_weak(&state.users, &users, users - 1))
            return NVML_SUCCESS;
    return NVML_ERROR_UNINITIALIZED;
}

const char *nvmlErrorString(nvmlReturn_t result)
{
    switch (result) {
    case NVML_SUCCESS:
        return "Success";
    case NVML_ERROR_UNINITIALIZED:
        return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
        return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
        return "Not Supported";
    case NVML_ERROR_NOT_FOUND:
        return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE:
        return "Insufficient Size";
    case NVML_ERROR_DRIVER_NOT_LOADED:
        return "Driver Not Loaded";
    case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
        return "Argument Version Mismatch";
    default:
        return "Unknown Error";
    }
}

/* --- the system ------------------------------------------------------------------------------- */

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
    return vgsim_nvml_ready() ? vgsim_nvml_text(version, length, "580.00.00")
                              : NVML_ERROR_UNINITIALIZED;
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
    return vgsim_nvml_ready() ? vgsim_nvml_text(version, length, "13.580.00.00")
                              : NVML_ERROR_UNINITIALIZED;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *cudaDriverVersion)
{
    if (!cudaDriverVersion)
        return NVML_ERROR_INVALID_ARGUMENT;
    *cudaDriverVersion = VGSIM_DRIVER_VERSION;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *cudaDriverVersion)
{
    return nvmlSystemGetCudaDriverVersion_v2(cudaDriverVersion);
}

static nvmlReturn_t real_name(unsigned int pid, char *name, unsigned int length)
{
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/%u/exe", pid);
    ssize_t count = readlink(path, text, sizeof text - 1);
    if (count < 0)
        return NVML_ERROR_NOT_FOUND;
    text[count] = '\0';
    return vgsim_nvml_text(name, length, text);
}

nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
    const struct vgsim_knobs *knobs = vgsim_knobs();
    if (!vgsim_nvml_ready())
        return NVML_ERROR_UNINITIALIZED;
    for (int i = 0; i < knobs->other_count; i++)
        if ((unsigned int)knobs->others[i].pid == pid)
            return vgsim_nvml_text(name, length, knobs->others[i].name);
    return real_name(pid, name, length);
}

/* --- which device ----------------------------------------------------------------------------- */

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *deviceCount)
{
    if (!vgsim_nvml_ready())
        return NVML_ERROR_UNINITIALIZED;
    if (!deviceCount)
        return NVML_ERROR_INVALID_ARGUMENT;
    *deviceCount = (unsigned int)vgsim_knobs()->devices;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
    if (!vgsim_nvml_ready())
        return NVML_ERROR_UNINITIALIZED;
    if (!device || index >= (unsigned int)vgsim_knobs()->devices)
        return NVML_ERROR_INVALID_ARGUMENT;
    *device = &state.devices[index];
    return NVML_SUCCESS;
}

static void format_uuid(int device, bool slice, char *out, size_t size)
{
    unsigned char u[16];
    if (vgsim_knobs()->mig && !slice)
        vgsim_parent_uuid(device, u);
    else
        vgsim_uuid(device, u);
    snprintf(out, size, "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             slice ? "MIG" : "GPU", u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9],
             u[10], u[11], u[12], u[13], u[14], u[15]);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
    char text[NVML_DEVICE_UUID_BUFFER_SIZE];
    if (!vgsim_nvml_ready())
        return NVML_ERROR_UNINITIALIZED;
    if (!uuid || !device)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; i < 2 * vgsim_knobs()->devices; i++) {
        bool slice = i % 2;
        format_uuid(i / 2, slice, text, sizeof text);
        if (!strcasecmp(text, uuid) && (!slice || vgsim_knobs()->mig)) {
            *device = vgsim_nvml_device(i / 2, slice);
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *pciBusId, nvmlDevice_t *device)
{
    unsigned int domain, bus, slot, function = 0;
    if (!vgsim_nvml_ready())
        return NVML_ERROR_UNINITIALIZED;
    if (!pciBusId || !device ||
        sscanf(pciBusId, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (int i = 0; i < vgsim_knobs()->devices; i++)
        if (!domain && !slot && !function && bus == (unsigned int)vgsim_pci_bus(i)) {
            *device = &state.devices[i];
            return NVML_SUCCESS;
        }
    return NVML_ERROR_NOT_FOUND;
}

/* --- what it is ------------------------------------------------------------------------------- */

static nvmlReturn_t check(nvmlDevice_t device, const void *out, int *index_out)
{
    if (!vgsim_nvml_ready())
        return NVML_ERROR_UNINITIALIZED;
    *index_out = vgsim_nvml_index(device);
    return *index_out < 0 || !out ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
    int number;
    nvmlReturn_t result = check(device, index, &number);
    if (result == NVML_SUCCESS)
        *index = (unsigned int)number;
    return result;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
    int number;
    nvmlReturn_t result = check(device, name, &number);
    return result == NVML_SUCCESS ? vgsim_nvml_text(name, length, VGSIM_NAME) : result;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
    char text[NVML_DEVICE_UUID_BUFFER_SIZE];
    int number;
    nvmlReturn_t result = check(device, uuid, &number);
    if (result != NVML_SUCCESS)
        return result;
    format_uuid(number, vgsim_nvml_is_slice(device), text, sizeof text);
    return vgsim_nvml_text(uuid, length, text);
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
    int number;
    nvmlReturn_t result = check(device, pci, &number);
    if (result != NVML_SUCCESS)
        return result;
    memset(pci, 0, sizeof *pci);
    pci->bus = (unsigned int)vgsim_pci_bus(number);
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "0000:%02X:00.0", pci->bus & 0xff);
    snprintf(pci->busId, sizeof pci->busId, "00000000:%02X:00.0", pci->bus & 0xff);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    int number;
    nvmlReturn_t result = check(device, major, &number);
    if (result == NVML_SUCCESS && !minor)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS) {
        *major = 9;
        *minor = 0;
    }
    return result;
}

/* --- links, of which there are none ----------------------------------------------------------- */

nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link,
                                                 nvmlIntNvLinkDeviceType_t *type)
{
    int number;
    (void)link;
    nvmlReturn_t result = check(device, type, &number);
    return result == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : result;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link,
                                                 nvmlPciInfo_t *pci)
{
    int number;
    (void)link;
    nvmlReturn_t result = check(device, pci, &number);
    return result == NVML_SUCCESS ? NVML_ERROR_NOT_SUPPORTED : result;
}

nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t *info)
{
    int number;
    nvmlReturn_t result = check(device, info, &number);
    if (result != NVML_SUCCESS)
        return result;
    unsigned int version = info->version;
    if (version != nvmlGpuFabricInfo_v2 && version != nvmlGpuFabricInfo_v3)
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    memset(info, 0, version & 0xffffff);
    info->version = version;
    info->state = NVML_GPU_FABRIC_STATE_NOT_SUPPORTED;
    return NVML_SUCCESS;
}
