/* device.c -- the driver's version, and what a device says of itself.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/sim/driver/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static CUresult init(unsigned int flags)
{
    return flags ? CUDA_ERROR_INVALID_VALUE : vgsim_state_init();
}

CUresult cuInit(unsigned int Flags)
{
    CALL(NOTHING, init(Flags));
}

static CUresult version(int *out)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = VGSIM_DRIVER_VERSION;
    return CUDA_SUCCESS;
}

/* Works in a forked child and before cuInit: asks nothing of the driver's state. */
CUresult cuDriverGetVersion(int *driverVersion)
{
    return version(driverVersion);
}

static CUresult get(CUdevice *out, int ordinal)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!vgsim_is_device(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *out = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    CALL(INIT, get(device, ordinal));
}

static CUresult count(int *out)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = vgsim_knobs()->devices;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count_out)
{
    CALL(INIT, count(count_out));
}

static CUresult check(const void *out, CUdevice device)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    return vgsim_is_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static CUresult name(char *out, int length, CUdevice device)
{
    CUresult result = check(out, device);
    if (result == CUDA_SUCCESS && length <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        snprintf(out, (size_t)length, "%s", VGSIM_NAME);
    return result;
}

CUresult cuDeviceGetName(char *name_out, int len, CUdevice dev)
{
    CALL(INIT, name(name_out, len, dev));
}

static CUresult uuid(CUuuid *out, CUdevice device)
{
    CUresult result = check(out, device);
    if (result == CUDA_SUCCESS) {
        unsigned char bytes[16];
        vgsim_uuid(device, bytes);
        memcpy(out->bytes, bytes, sizeof bytes);
    }
    return result;
}

/* Driver API, Device Management, cuDeviceGetUuid_v2: the second form gives a MIG slice's own UUID,
 * the first one the whole device's. */
static CUresult parent_uuid(CUuuid *out, CUdevice device)
{
    CUresult result = uuid(out, device);
    if (result == CUDA_SUCCESS && vgsim_knobs()->mig) {
        unsigned char bytes[16];
        vgsim_parent_uuid(device, bytes);
        memcpy(out->bytes, bytes, sizeof bytes);
    }
    return result;
}

CUresult cuDeviceGetUuid(CUuuid *uuid_out, CUdevice dev)
{
    CALL(INIT, parent_uuid(uuid_out, dev));
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid_out, CUdevice dev)
{
    CALL(INIT, uuid(uuid_out, dev));
}

/* Windows only, as the interface says. */
CUresult cuDeviceGetLuid(char *luid, unsigned int *deviceNodeMask, CUdevice dev)
{
    (void)luid;
    (void)deviceNodeMask;
    (void)dev;
    CALL(INIT, CUDA_ERROR_NOT_SUPPORTED);
}

static CUresult total_memory(size_t *out, CUdevice device)
{
    CUresult result = check(out, device);
    if (result == CUDA_SUCCESS)
        *out = vgsim_knobs()->memory[device];
    return result;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
    CALL(INIT, total_memory(bytes, dev));
}

static CUresult capability(int *major, int *minor, CUdevice device)
{
    CUresult result = check(major, device);
    if (result == CUDA_SUCCESS && !minor)
        return CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS) {
        *major = 9;
        *minor = 0;
    }
    return result;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
    CALL(INIT, capability(major, minor, dev));
}

static CUresult pci_id(char *out, int length, CUdevice device)
{
    CUresult result = check(out, device);
    if (result != CUDA_SUCCESS)
        return result;
    if (length < 13)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(out, (size_t)length, "0000:%02x:00.0", (unsigned int)vgsim_pci_bus(device));
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
    CALL(INIT, pci_id(pciBusId, len, dev));
}

/* [domain:]bus:device[.function], all hexadecimal. */
static CUresult by_pci_id(CUdevice *out, const char *text)
{
    unsigned int domain = 0, bus, slot, function = 0;
    if (!out || !text)
        return CUDA_ERROR_INVALID_VALUE;
    if (sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) {
        domain = function = 0;
        if (sscanf(text, "%x:%x.%x", &bus, &slot, &function) < 2)
            return CUDA_ERROR_INVALID_VALUE;
    }
    for (int i = 0; i < vgsim_knobs()->devices; i++)
        if (domain == 0 && slot == 0 && function == 0 && bus == (unsigned int)vgsim_pci_bus(i)) {
            *out = i;
            return CUDA_SUCCESS;
        }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
    CALL(INIT, by_pci_id(dev, pciBusId));
}

static const struct attribute {
    CUdevice_attribute attribute;
    int value;
} attributes[] = {
#define ATTRIBUTE(name, value) {CU_DEVICE_ATTRIBUTE_##name, value},
#include "tests/sim/driver/attributes.def"
#undef ATTRIBUTE
};

/* An attribute without a row is something that this device does not have: 0. */
static CUresult attribute(int *out, CUdevice_attribute which, CUdevice device)
{
    CUresult result = check(out, device);
    if (result != CUDA_SUCCESS)
        return result;
    if (which <= 0 || which >= CU_DEVICE_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    *out = which == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID ? vgsim_pci_bus(device) : 0;
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; i++)
        if (attributes[i].attribute == which)
            *out = attributes[i].value;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
    CALL(INIT, attribute(pi, attrib, dev));
}
