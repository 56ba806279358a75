/* balance.c -- where every byte of a device is: this process, its contexts, others, nobody, free.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Holds:      tracked + pool_idle + sum(overhead) + others + unattributed + free = total, on the
 *             integers; what is unknown counts as 0. Arithmetic wraps modulo 2^64, so the identity
 *             survives even the figures of a damaged record.
 */
#include "core/analysis/analysis.h"

static void fill_contexts(struct vg_report *report, struct vg_report_device *into)
{
    uint64_t count = vg_view_count(report->view, VG_SEC_CONTEXTS);
    for (uint64_t i = 0; i < count; i++) {
        const struct vg_context *context = vg_view_context(report->view, i);
        if (!context || !context->live || context->device != into->index + 1)
            continue;
        into->contexts =
            vg_report_grow(report, into->contexts, into->context_count, sizeof *into->contexts);
        into->contexts[into->context_count++] =
            (struct vg_report_context){.context = context, .overhead_bytes = VG_UNKNOWN};
    }
}

static struct vg_report_context *primary_context(const struct vg_report_device *device)
{
    for (unsigned i = 0; i < device->context_count; i++)
        if (device->contexts[i].context->primary)
            return &device->contexts[i];
    return device->context_count ? &device->contexts[0] : NULL;
}

/* NVML's figure for this process less what is tracked, both of the same moment; else what free
 * memory fell by when each context was made. NVML giving 0, or less than is tracked, knows this
 * process badly: then nothing is called overhead and the difference stays unattributed. Where other
 * threads changed memory during the look, the overhead of the last quiet one stands. */
static void fill_overhead(struct vg_report_device *into)
{
    const struct vg_device *device = into->device;
    uint64_t inside = device->sampled_tracked_bytes + vg_known(into->pool_idle_bytes);
    struct vg_report_context *primary = primary_context(into);
    into->overhead_bytes = VG_UNKNOWN;
    if (!primary)
        return;
    if (device->in_motion && into->total_bytes != VG_UNKNOWN &&
        device->settled_overhead_bytes != VG_UNKNOWN) {
        primary->overhead_bytes = into->overhead_bytes = device->settled_overhead_bytes;
        return;
    }
    if (into->total_bytes != VG_UNKNOWN && !device->in_motion &&
        device->nvml_self_bytes != VG_UNKNOWN && device->nvml_self_bytes >= inside &&
        device->nvml_self_bytes) {
        primary->overhead_bytes = device->nvml_self_bytes - inside;
        into->overhead_bytes = primary->overhead_bytes;
        return;
    }
    for (unsigned i = 0; i < into->context_count; i++) {
        uint64_t fall = into->contexts[i].context->free_fall_bytes;
        into->contexts[i].overhead_bytes = fall;
        if (fall != VG_UNKNOWN)
            into->overhead_bytes = vg_known(into->overhead_bytes) + fall;
    }
}

static void fill_others(struct vg_report_device *into)
{
    for (uint32_t i = 0; i < into->device->other_count && i < VG_OTHERS_MAX; i++) {
        const struct vg_other *other = &into->device->other[i];
        if (!other->may_be_this_process)
            into->others_bytes += vg_known(other->bytes);
    }
}

static void fill_sample(const struct vg_report *report, struct vg_report_device *into)
{
    const struct vg_device *device = into->device;
    bool looked = (device->free_source == VG_FREE_DRIVER || device->free_source == VG_FREE_NVML) &&
                  device->total_bytes != VG_UNKNOWN && device->free_bytes != VG_UNKNOWN;
    into->total_bytes = looked ? device->total_bytes : VG_UNKNOWN;
    into->free_bytes = looked ? device->free_bytes : VG_UNKNOWN;
    into->pool_idle_bytes = looked ? device->pool_idle_bytes : VG_UNKNOWN;
    if (!looked)
        return;
    into->free_source = device->free_source == VG_FREE_DRIVER ? "cuMemGetInfo" : "nvml";
    if (report->time_ns > device->sample_ns)
        into->free_age_seconds = (double)(report->time_ns - device->sample_ns) / 1e9;
}

static void note_age(struct vg_report *report, const struct vg_report_device *device)
{
    uint64_t then = device->device->sampled_tracked_bytes, now = device->tracked_bytes;
    char text[VG_BYTES_TEXT_MAX];
    if (device->free_source && device->device->in_motion)
        vg_report_note(report,
                       "GPU %d: other threads allocated or freed while it was looked at: what is "
                       "under way is part of the unattributed figure",
                       (int)device->ordinal);
    if (!device->free_source || then == now)
        return;
    vg_report_note(
        report,
        "GPU %d: free memory was read %.1f s before this moment; since then tracked memory "
        "%s by %s, which is part of the unattributed figure",
        (int)device->ordinal, device->free_age_seconds, now > then ? "rose" : "fell",
        vg_bytes_text(text, now > then ? now - then : then - now));
}

static void fill_device(struct vg_report *report, struct vg_report_device *into)
{
    const struct vg_device *device = into->device;
    into->ordinal = device->ordinal;
    into->tracked_bytes = device->tracked_bytes;
    into->peak_bytes = device->peak_bytes[VG_LAYER_DRIVER];
    into->alloc_count = device->alloc_count;
    into->free_count = device->free_count;
    fill_sample(report, into);
    fill_contexts(report, into);
    fill_overhead(into);
    if (into->free_source)
        fill_others(into);
    if (into->total_bytes != VG_UNKNOWN) {
        into->has_unattributed = true;
        into->unattributed_bytes = (int64_t)(into->total_bytes - into->free_bytes -
                                             into->tracked_bytes - vg_known(into->pool_idle_bytes) -
                                             vg_known(into->overhead_bytes) - into->others_bytes);
    }
    note_age(report, into);
    if (device->other_seen > device->other_count)
        vg_report_note(report, "GPU %d: %u other processes are not listed", (int)into->ordinal,
                       device->other_seen - device->other_count);
}

void vg_analysis_balance(struct vg_report *report)
{
    uint64_t count = vg_view_count(report->view, VG_SEC_DEVICES);
    report->devices = vg_report_alloc(report, count, sizeof *report->devices);
    for (uint64_t i = 0; i < count; i++) {
        const struct vg_device *device = vg_view_device(report->view, i);
        if (!device)
            continue;
        struct vg_report_device *into = &report->devices[report->device_count++];
        into->device = device;
        into->index = (uint32_t)i;
        fill_device(report, into);
    }
}
