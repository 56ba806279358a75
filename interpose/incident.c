/* incident.c -- is a failed allocation final? What is counted, and what is written.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:   gate.c and torch.c report; families.def says who decides; incident_file.c writes the
 *          file and starts the tool.
 * Holds:   one failure is one incident, whatever reports it. Every final failure is counted at its
 *          site; only the 1st, 10th, 100th ... is written, and no more than max_reports of them:
 *          the record stays the same size however often a program fails and goes on. A failure that
 *          waits for a retry is in `unsettled`; what is still there at the end was final.
 * Threads: any; vg_thread.depth is set, no lock held on entry.
 */
#include "interpose/incident.h"

#include <string.h>

#include "interpose/cuda_abi.h"
#include "interpose/driver.h"
#include "interpose/hooks.h"
#include "interpose/incident_file.h"
#include "interpose/modules.h"
#include "interpose/origin.h"
#include "interpose/thread.h"

static _Atomic uint32_t caching_families; /* bit per family whose usage callback has come */

/* Failures that were not taken as final; under the ledger lock. One per thread and site. */
enum { UNSETTLED_MAX = 32 };
static struct unsettled {
    uint32_t thread; /* 0: free */
    uint8_t family;
    struct vg_pending failure;
} unsettled[UNSETTLED_MAX];

void vg_incident_framework_is_caching(uint8_t family)
{
    uint32_t bit = 1u << family;
    if (!(atomic_load_explicit(&caching_families, memory_order_relaxed) & bit))
        atomic_fetch_or(&caching_families, bit);
}

enum { CUDA_ERROR_CONTEXT_IS_DESTROYED = 709 };

bool vg_incident_is_no_fault(int status)
{
    return status == CUDA_ERROR_NOT_INITIALIZED || status == CUDA_ERROR_DEINITIALIZED ||
           status == CUDA_ERROR_CONTEXT_IS_DESTROYED || (status >= 900 && status <= 909);
}

/* Statuses that say nothing about memory or the device. Counted, never an incident. */
static bool is_a_wrong_call(int status, const struct vg_event *e)
{
    return vg_incident_is_no_fault(status) || status == CUDA_ERROR_INVALID_CONTEXT ||
           status == CUDA_ERROR_NOT_SUPPORTED ||
           (status == CUDA_ERROR_INVALID_VALUE && (e->bytes == 0 || e->op != VG_OP_ALLOC));
}

static uint8_t first_family(uint32_t families)
{
    return families ? (uint8_t)__builtin_ctz(families) : VG_FAMILY_NONE;
}

static struct vg_site *site_at(struct vg_guard *guard, uint32_t site)
{
    return site ? vg_record_at(&guard->record, VG_SEC_SITES, site - 1) : NULL;
}

/* Who decides, for this caller: the number of the failure in a row that is final. */
static unsigned final_at(struct vg_guard *guard, uint8_t family, const struct vg_pending *pending)
{
    if (pending->error != CUDA_ERROR_OUT_OF_MEMORY)
        return 1; /* nobody retries those */
    if (family == VG_FAMILY_NONE) {
        const struct vg_site *site = site_at(guard, pending->site);
        return site && site->retries ? 2 : 1;
    }
    if (vg_family_rows[family].final_at)
        return vg_family_rows[family].final_at;
    bool has_callback =
        atomic_load_explicit(&caching_families, memory_order_relaxed) & 1u << family;
    return has_callback ? 0 : 1;
}

/* How much was asked of the driver. A context names no size, and an array whose size nobody could
 * work out neither; the largest number is a size like others here, and no "unknown". */
static uint64_t asked_bytes(const struct vg_event *e)
{
    if (e->op != VG_OP_ALLOC || !e->bytes)
        return VG_UNKNOWN;
    return e->bytes < UINT64_MAX ? e->bytes : UINT64_MAX - 1;
}

/* Fills `pending` from this refusal and the ones before it. With the lock held. */
static void note_refusal(struct vg_guard *guard, const struct vg_event *e, uint8_t family,
                         struct vg_pending *pending)
{
    uint64_t bytes = asked_bytes(e);
    bool again = pending->set && pending->bytes == bytes && pending->kind == e->kind &&
                 pending->error == e->error;
    uint8_t attempts = again && pending->attempts < UINT8_MAX ? pending->attempts + 1 : 1;
    bool counted = again && pending->counted;
    struct vg_stacks *stacks = &guard->ledger.stacks;
    *pending = (struct vg_pending){.set = true,
                                   .counted = counted,
                                   .attempts = attempts,
                                   .kind = e->kind,
                                   .error = e->error,
                                   .bytes = bytes,
                                   .device = e->device,
                                   .stack = e->stack};
    pending->api = vg_strings_intern_z(stacks, vg_hooks_name(e->hook));
    pending->via =
        vg_strings_intern_z(stacks, vg_hooks_name(vg_thread.via ? vg_thread.via : e->hook));
    pending->context = vg_ledger_context(&guard->ledger, e->context_id);
    pending->site = vg_ledger_site(&guard->ledger, e->stack, pending->via, e->kind, e->device);
    struct vg_site *site = site_at(guard, pending->site);
    if (site && family == VG_FAMILY_NONE)
        pending->attempts =
            site->failed_in_row < UINT8_MAX ? (uint8_t)++site->failed_in_row : UINT8_MAX;
}

/* --- failures that wait for a retry ----------------------------------------------------------- */

/* With the lock held. A full list leaves it uncounted, as all were before there was a list. */
static void wait_for_retry(uint8_t family, const struct vg_pending *failure)
{
    uint32_t self = vg_thread_id();
    struct unsettled *place = NULL;
    for (unsigned i = 0; i < UNSETTLED_MAX; i++) {
        struct unsettled *item = &unsettled[i];
        bool same = item->thread == self && item->failure.site == failure->site;
        if (same || (!place && !item->thread))
            place = item;
        if (same)
            break;
    }
    if (!place)
        return;
    *place = (struct unsettled){.thread = self, .family = family, .failure = *failure};
    vg_thread.unsettled = true;
}

/* Takes out what this thread has there: of `family`, at `site`, or what a success makes good (of a
 * framework any does). With the lock held. */
static void settle(uint8_t family, uint32_t site, const struct vg_event *success)
{
    uint32_t self = vg_thread_id();
    bool more = false;
    for (unsigned i = 0; i < UNSETTLED_MAX; i++) {
        struct unsettled *item = &unsettled[i];
        if (item->thread != self)
            continue;
        const struct vg_pending *failure = &item->failure;
        bool is_family = family && item->family == family;
        bool is_enough = success && (item->family || (success->kind == failure->kind &&
                                                      asked_bytes(success) >= failure->bytes));
        if (is_family || is_enough || (site && failure->site == site))
            item->thread = 0;
        more |= item->thread == self;
    }
    vg_thread.unsettled = more;
}

static bool is_power_of_ten(uint64_t n)
{
    while (n >= 10 && n % 10 == 0)
        n /= 10;
    return n == 1;
}

/* Counts a final failure and fills the incident. False: this one is not written. With the lock
 * held. */
static bool count_final(struct vg_guard *guard, const struct vg_pending *pending, uint8_t family,
                        struct vg_incident *out)
{
    struct vg_header *header = guard->record.header;
    struct vg_site *site = site_at(guard, pending->site);
    header->final_count++;
    uint64_t count = site ? ++site->fail_count : header->final_count;
    if (!is_power_of_ten(count) || header->rendered_count >= guard->options.max_reports)
        return false;
    *out = (struct vg_incident){.kind = VG_INCIDENT_OOM,
                                .outcome = VG_OUTCOME_FAILED,
                                .attempts = pending->attempts,
                                .number = (uint32_t)++header->rendered_count,
                                .site = pending->site,
                                .api = pending->api,
                                .via = pending->via,
                                .error = pending->error,
                                .thread = vg_thread_id(),
                                .stack = pending->stack,
                                .count = count,
                                .bytes = pending->attempts ? pending->bytes : VG_UNKNOWN,
                                .requested_bytes = VG_UNKNOWN};
    out->family = vg_strings_intern_z(&guard->ledger.stacks, vg_family_rows[family].name);
    out->device =
        (uint16_t)(pending->device >= 0 ? vg_ledger_device(&guard->ledger, pending->device) : 0);
    out->context = (uint16_t)pending->context;
    return true;
}

void vg_incident_refused(struct vg_guard *guard, struct vg_event *e, int status)
{
    struct vg_origin origin;
    struct vg_driver_context context;
    struct vg_incident incident;
    uint32_t families;
    if (is_a_wrong_call(status, e)) {
        __atomic_fetch_add(&guard->record.header->other_error_count, 1, __ATOMIC_RELAXED);
        return;
    }
    vg_driver_current(&context);
    if (e->op == VG_OP_ALLOC)
        e->device = context.device;
    e->context_id = context.id;
    vg_origin_capture(&guard->options, &origin);
    if (!vg_guard_lock_for_change(guard))
        return;
    e->time_ns = vg_guard_now(guard);
    e->stack = vg_origin_intern(&guard->ledger, &guard->options, &origin, &families);
    uint8_t family = first_family(families);
    struct vg_pending *pending = &vg_thread.pending;
    note_refusal(guard, e, family, pending);
    unsigned decisive = final_at(guard, family, pending);
    bool final = !pending->counted && decisive && pending->attempts >= decisive;
    bool written = final && count_final(guard, pending, family, &incident);
    pending->counted |= final;
    if (pending->counted)
        settle(family, pending->site, NULL);
    else
        wait_for_retry(family, pending);
    if (final && family == VG_FAMILY_NONE)
        pending->counted = false; /* the next failure of such a caller is a failure of its own */
    vg_guard_unlock_changed(guard);
    if (written)
        vg_incident_write(guard, &incident, context.device, family == VG_FAMILY_NONE);
}

/* A success at the very site, with the same stack, that failed before: its caller retries. */
static void learn_retry(struct vg_guard *guard, const struct vg_pending *pending,
                        const struct vg_event *e, uint32_t success_site)
{
    struct vg_site *site = site_at(guard, pending->site);
    bool is_enough = asked_bytes(e) >= pending->bytes && e->kind == pending->kind;
    if (is_enough)
        guard->record.header->recovered_count++;
    if (site && is_enough && pending->site == success_site)
        site->retries = 1;
    if (site && (is_enough || pending->site == success_site))
        site->failed_in_row = 0;
}

void vg_incident_succeeded(struct vg_guard *guard, const struct vg_event *e)
{
    struct vg_pending *pending = &vg_thread.pending;
    bool settles = e->op == VG_OP_CTX_CREATE ||
                   (e->op == VG_OP_ALLOC && vg_kind_layer(e->kind) == VG_LAYER_DRIVER);
    if (!settles || !(pending->set || vg_thread.unsettled))
        return;
    if (vg_guard_lock_for_change(guard)) {
        uint32_t site = vg_ledger_site(&guard->ledger, e->stack, e->api, e->kind, e->device);
        if (pending->set)
            learn_retry(guard, pending, e, site);
        settle(VG_FAMILY_NONE, site, e);
        vg_guard_unlock_changed(guard);
    }
    pending->set = false;
}

void vg_incident_framework_gave_up(struct vg_guard *guard, uint8_t family, int32_t device,
                                   uint64_t requested_bytes)
{
    struct vg_pending pending = vg_thread.pending;
    struct vg_origin origin;
    struct vg_driver_context context;
    struct vg_incident incident;
    uint32_t families;
    vg_thread.pending.set = false;
    if (pending.set && pending.counted)
        return; /* its failed call was taken as final already */
    if (!pending.set)
        pending = (struct vg_pending){
            .error = CUDA_ERROR_OUT_OF_MEMORY}; /* a limit of the framework's own: no driver call */
    vg_driver_current(&context);
    vg_origin_capture(&guard->options, &origin);
    if (!vg_guard_lock_for_change(guard))
        return;
    settle(family, 0, NULL);
    pending.device = device;
    pending.stack = vg_origin_intern(&guard->ledger, &guard->options, &origin, &families);
    pending.site =
        vg_ledger_site(&guard->ledger, pending.stack, pending.via, VG_KIND_BLOCK, device);
    bool written = count_final(guard, &pending, family, &incident);
    vg_guard_unlock_changed(guard);
    if (!written)
        return;
    incident.requested_bytes = requested_bytes;
    vg_incident_write(guard, &incident, context.device, false);
}

void vg_incident_unsettled(struct vg_guard *guard)
{
    for (unsigned i = 0; i < UNSETTLED_MAX; i++) {
        struct vg_incident incident;
        if (!vg_guard_lock_for_change(guard))
            return;
        struct unsettled left = unsettled[i];
        unsettled[i].thread = 0;
        bool written = left.thread && count_final(guard, &left.failure, left.family, &incident);
        vg_guard_unlock_changed(guard);
        if (written) {
            incident.thread = left.thread;
            vg_incident_write(guard, &incident, left.failure.device, true);
        }
    }
}
