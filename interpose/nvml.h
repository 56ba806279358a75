/* nvml.h -- what NVML says of a device: its memory, this process's share, and the other processes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Threads: any, without the ledger lock. The first call opens libnvidia-ml.so.1 privately
 * (milliseconds).
 */
#ifndef VG_NVML_H
#define VG_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "core/layout.h"

struct vg_nvml_process {
    uint32_t pid;
    uint64_t bytes; /* VG_UNKNOWN */
    bool may_be_this_process;
    char name[64]; /* base name; "" unknown */
};
struct vg_nvml_report {
    bool has_memory, is_mig; /* is_mig: known to NVML as a MIG instance */
    uint64_t free_bytes, total_bytes;
    bool has_processes;
    uint64_t self_bytes;  /* VG_UNKNOWN: not in the list, or NVML does not tell */
    uint32_t count, seen; /* other processes kept, and in all */
    struct vg_nvml_process other[VG_OTHERS_MAX];
};
/* The device is matched by UUID (a MIG instance's own), else by PCI address; never by index.
 * tracked_bytes: what the ledger holds there, to recognise this process under a foreign pid
 * namespace. False: no NVML, or it does not know the device. */
bool vg_nvml_is_open(void);
bool vg_nvml_query(const uint8_t *uuid, const char *pci, uint64_t tracked_bytes,
                   struct vg_nvml_report *out);

#endif
