/* gate.h -- enter and leave: the two places through which every wrapper passes.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VG_GATE_H
#define VG_GATE_H

#include "core/event.h"

/* True: the call is watched, and vg_gate_leave() must follow. False: cold, nested, stopping or off;
 * the wrapper passes through. Releases are taken out of the ledger here, before the real call.
 * Keeps errno. */
bool vg_gate_enter(struct vg_event *e);
/* After the real call with its status. Acquisitions are put into the ledger, a refused release is
 * put back, a refused acquisition is looked at (incident.c). Keeps errno. */
void vg_gate_leave(struct vg_event *e, int status);

/* Around a call of the runtime: the driver events inside it carry its name. */
struct vg_runtime_call {
    uint64_t driver_events, refusals;
    uint16_t outer;
};
void vg_gate_runtime_enter(struct vg_runtime_call *call, const struct vg_event *e);
void vg_gate_runtime_leave(struct vg_runtime_call *call, struct vg_event *e, int status);

struct vg_guard;
/* An event of a framework's own allocator (torch.c), between vg_own_enter() and _leave(); e->device
 * is the framework's. */
void vg_gate_block(struct vg_guard *guard, struct vg_event *e);

#endif
