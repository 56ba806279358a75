/* knobs.h -- what the environment says about the simulated machine.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:      compiled into the simulated libcuda and libnvidia-ml; both see the same devices.
 * Threads:    vgsim_knobs() may be called by any thread; what it returns never changes.
 * Not here:   VGSIM_ACCOUNT's file (driver/account.c).
 */
#ifndef VGSIM_KNOBS_H
#define VGSIM_KNOBS_H

#include <stdbool.h>
#include <stdint.h>

#define VGSIM_MAX_DEVICES    16
#define VGSIM_MAX_OTHERS     32
#define VGSIM_MAX_RULES      32
#define VGSIM_NAME           "VGSIM GPU"
#define VGSIM_DRIVER_VERSION 13000

/* A process that is not ours. It occupies every device, or the one named. */
struct vgsim_other {
    int pid;
    int device; /* -1: every device */
    uint64_t bytes;
    char name[128];
};

/* A call that fails: the nth (and, with from_on, all later ones). */
struct vgsim_fail {
    char api[64];
    uint64_t nth;
    bool from_on;
    int code;
};

/* A call that takes at least so long. */
struct vgsim_latency {
    char api[64];
    uint64_t us;
};

struct vgsim_knobs {
    int devices;
    uint64_t memory[VGSIM_MAX_DEVICES];
    uint64_t context;
    uint64_t hidden;
    int other_count;
    struct vgsim_other others[VGSIM_MAX_OTHERS];
    int fail_count;
    struct vgsim_fail fails[VGSIM_MAX_RULES];
    int latency_count;
    struct vgsim_latency latencies[VGSIM_MAX_RULES];
    bool mig;                   /* the devices are slices of bigger ones */
    bool any_array_size;        /* the size of any array may be asked */
    const char *account;        /* NULL: no books */
    const char *shared;         /* NULL: the devices are this process's alone */
    const char *strict_capture; /* NULL: calls made during a capture are not listed */
};

/* The knobs, read once. A value that cannot be read is one line on stderr, and its default. */
const struct vgsim_knobs *vgsim_knobs(void);

/* What VGSIM_OTHER processes hold on this device. */
uint64_t vgsim_others_bytes(const struct vgsim_knobs *knobs, int device);

/* The 16 bytes of a device's UUID: other devices have others, and they never change. With VGSIM_MIG
 * the device is a slice, and the whole one it is cut from has a UUID of its own. */
void vgsim_uuid(int device, unsigned char uuid_out[16]);
void vgsim_parent_uuid(int device, unsigned char uuid_out[16]);

/* Domain 0; the bus is all that differs between devices. */
static inline int vgsim_pci_bus(int device)
{
    return 0x10 + device;
}

#endif
