/* ledger_frees.c -- the last frees, and the frees that the driver refused.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:   ledger.c remembers; the gate tells of a refusal; reports say who freed it first.
 * Holds:   the ring of frees and the list of faults have a fixed size, however long a program runs.
 */
#include "core/ledger_parts.h"

void vg_ledger_remember(struct vg_ledger *ledger, const struct vg_event *event,
                        const struct vg_slot *was)
{
    struct vg_header *header = ledger->record->header;
    uint64_t index = header->freed_count % VG_FREED_MAX;
    if (vg_kind_layer(was->kind) != VG_LAYER_DRIVER) {
        return;
    }
    struct vg_freed *place = vg_record_at(ledger->record, VG_SEC_FREED, index);
    if (!place) {
        place = vg_record_reserve(ledger->record, VG_SEC_FREED, 1, &index);
        if (!place) {
            return;
        }
        vg_record_publish(ledger->record, VG_SEC_FREED, index + 1);
    }
    *place = (struct vg_freed){.addr = was->addr,
                               .bytes = was->bytes,
                               .time_ns = event->time_ns,
                               .site = was->site,
                               .stack = event->stack,
                               .api = event->api,
                               .thread = event->thread};
    header->freed_count++;
}

static struct vg_freed *find_freed(const struct vg_ledger *ledger, uint64_t addr)
{
    uint64_t count = ledger->record->header->freed_count;
    uint64_t kept = count < VG_FREED_MAX ? count : VG_FREED_MAX;
    for (uint64_t back = 1; back <= kept; back++) {
        struct vg_freed *freed =
            vg_record_at(ledger->record, VG_SEC_FREED, (count - back) % VG_FREED_MAX);
        if (freed && freed->addr == addr) {
            return freed;
        }
    }
    return NULL;
}

void vg_ledger_forget(struct vg_ledger *ledger, uint64_t addr)
{
    struct vg_freed *freed = find_freed(ledger, addr);
    if (freed) {
        freed->addr = 0;
    }
}

static struct vg_fault *fault_of(struct vg_ledger *ledger, uint32_t stack, enum vg_fault_kind kind)
{
    uint64_t count = vg_record_count(ledger->record, VG_SEC_FAULTS), index;
    for (uint64_t i = 0; i < count; i++) {
        struct vg_fault *fault = vg_record_at(ledger->record, VG_SEC_FAULTS, i);
        if (fault->stack == stack && fault->kind == kind) {
            return fault;
        }
    }
    if (count >= VG_FAULTS_MAX || !vg_record_reserve(ledger->record, VG_SEC_FAULTS, 1, &index)) {
        return NULL;
    }
    vg_record_publish(ledger->record, VG_SEC_FAULTS, index + 1);
    return vg_record_at(ledger->record, VG_SEC_FAULTS, index);
}

void vg_ledger_fault(struct vg_ledger *ledger, const struct vg_event *event)
{
    const struct vg_slot *live = &event->saved;
    const struct vg_freed *before = live->kind ? NULL : find_freed(ledger, event->addr);
    enum vg_fault_kind kind = live->kind ? VG_FAULT_REFUSED
                              : before   ? VG_FAULT_DOUBLE
                                         : VG_FAULT_UNKNOWN;
    struct vg_fault *fault = fault_of(ledger, event->stack, kind);
    if (!fault) {
        return;
    }
    uint64_t count = fault->count;
    *fault = (struct vg_fault){.addr = event->addr,
                               .bytes = live->kind ? live->bytes
                                        : before   ? before->bytes
                                                   : VG_UNKNOWN,
                               .time_ns = event->time_ns,
                               .count = count + 1,
                               .status = event->error,
                               .kind = kind,
                               .stack = event->stack,
                               .api = event->api,
                               .thread = event->thread};
    if (before) {
        fault->first = *before;
    } else if (live->kind) {
        fault->first.site = live->site;
    }
}
