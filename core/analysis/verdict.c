/* verdict.c -- the class of a failure.
 * SPDX-License-Identifier: Apache-2.0
 *
 * One rule per class, the first that holds decides; then the words and numbers that back it.
 *
 * Place:      the last analysis. Reads the model, never the record's slots.
 * Holds:      a rule uses known values only; where one that it needs is unknown, it does not hold.
 *             Nothing is called usable or leaked here.
 * Confidence: 0.95 and more: arithmetic on known figures. 0.7 to 0.9: figures that other
 * explanations could share. 0: nothing is claimed.
 * Not here:   what to do about it (advice.def, advice.c).
 */
#include <string.h>

#include "core/analysis/analysis.h"

enum { OUT_OF_MEMORY = 2 };
/* No process can map more than this: sizes above it are wrong by computation, host memory or
 * not. */
#define ADDRESS_SPACE_BYTES (UINT64_C(1) << 47)

static bool api_is_host(const char *api)
{
    static const char *const parts[] = {"Host", "Managed"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strstr(api, parts[i]))
            return true;
    return false;
}

static uint64_t host_available(const struct vg_incident *incident)
{
    uint64_t available = incident->mem_available_bytes;
    uint64_t limit = incident->cgroup_limit_bytes, used = incident->cgroup_used_bytes;
    if (limit != VG_UNKNOWN && used != VG_UNKNOWN) {
        uint64_t room = limit > used ? limit - used : 0;
        if (available == VG_UNKNOWN || room < available)
            available = room;
    }
    return available;
}

/* A framework may ask for its block in smaller pieces, or for more than it was asked for: what
 * had to fit is the larger. */
static uint64_t larger_known(uint64_t a, uint64_t b)
{
    if (a == VG_UNKNOWN || b == VG_UNKNOWN)
        return a == VG_UNKNOWN ? b : a;
    return a > b ? a : b;
}

static const struct vg_report_site *largest_site(const struct vg_report *report, uint16_t device)
{
    for (unsigned i = 0; i < report->site_count; i++) {
        const struct vg_report_site *entry = &report->sites[i];
        if (entry->site->device == device && entry->site->live_bytes && !entry->segment &&
            (entry->site->kind == VG_KIND_BLOCK || vg_kind_occupies(entry->site->kind)))
            return entry;
    }
    return NULL;
}

void vg_facts_of(const struct vg_report *report, struct vg_facts *out)
{
    const struct vg_incident *incident = report->failure;
    const struct vg_report_device *device = report->failure_device;
    const struct vg_site *site =
        incident->site ? vg_view_site(report->view, incident->site - 1) : NULL;
    const char *api = vg_view_string(report->view, incident->api);
    *out = (struct vg_facts){
        .report = report,
        .incident = incident,
        .device = device,
        .asked_bytes = larger_known(incident->bytes, incident->requested_bytes),
        .total_bytes = device ? device->total_bytes : VG_UNKNOWN,
        .free_bytes = device ? device->free_bytes : VG_UNKNOWN,
        .short_bytes = VG_UNKNOWN,
        .available_bytes = host_available(incident),
        .kind = site ? (enum vg_kind)site->kind : VG_KIND_NONE,
        .out_of_memory = incident->error == OUT_OF_MEMORY || incident->error == 0,
        .called = incident->api != 0,
        .platform = report->view->header->platform,
        .largest = largest_site(report, incident->device),
    };
    out->host = out->kind == VG_KIND_PINNED || out->kind == VG_KIND_REGISTERED ||
                out->kind == VG_KIND_MANAGED || api_is_host(api);
    if (device) {
        out->own_bytes = device->tracked_bytes + vg_known(device->pool_idle_bytes) +
                         vg_known(device->overhead_bytes);
        out->others_bytes = device->others_bytes;
    }
    if (out->asked_bytes != VG_UNKNOWN && out->free_bytes != VG_UNKNOWN &&
        out->asked_bytes > out->free_bytes)
        out->short_bytes = out->asked_bytes - out->free_bytes;
}

/* The driver said something else than "out of memory". */
static double rule_other_error(const struct vg_facts *facts)
{
    return facts->called && !facts->out_of_memory ? 0.99 : 0;
}

/* A few times the device: a model or a batch may really need that. */
bool vg_request_may_be_meant(const struct vg_facts *facts)
{
    return !facts->host && facts->asked_bytes != VG_UNKNOWN && facts->total_bytes != VG_UNKNOWN &&
           facts->asked_bytes / 10 <= facts->total_bytes;
}

/* More than the whole device (or, of the host, than any address space) has: no amount of freeing
 * helps. */
static double rule_absurd_request(const struct vg_facts *facts)
{
    if (facts->asked_bytes == VG_UNKNOWN)
        return 0;
    if (facts->asked_bytes >= ADDRESS_SPACE_BYTES)
        return 0.99;
    if (facts->host || facts->total_bytes == VG_UNKNOWN || !facts->total_bytes)
        return 0;
    if (facts->asked_bytes <= facts->total_bytes)
        return 0;
    return vg_request_may_be_meant(facts) ? 0.7 : 0.99;
}

/* WSL limits pinned memory far below what the host has. */
static double rule_platform_limit(const struct vg_facts *facts)
{
    if (facts->host)
        return facts->platform == VG_PLATFORM_WSL && facts->available_bytes != VG_UNKNOWN &&
                       facts->asked_bytes < facts->available_bytes
                   ? 0.8
                   : 0;
    return facts->platform == VG_PLATFORM_TEGRA && facts->called &&
                   facts->free_bytes != VG_UNKNOWN && facts->asked_bytes <= facts->free_bytes
               ? 0.7
               : 0;
}

static double rule_host_memory(const struct vg_facts *facts)
{
    if (!facts->host)
        return 0;
    bool too_much = facts->asked_bytes != VG_UNKNOWN && facts->available_bytes != VG_UNKNOWN &&
                    facts->asked_bytes > facts->available_bytes;
    return too_much ? 0.95 : 0.8;
}

/* The device is all but empty and the request fits: a count of objects or a session limit, not
 * bytes. */
static double rule_empty_device(const struct vg_facts *facts)
{
    if (!facts->called || facts->free_bytes == VG_UNKNOWN || facts->total_bytes == VG_UNKNOWN)
        return 0;
    /* What is not known does not fit. */
    bool fits = facts->asked_bytes != VG_UNKNOWN && facts->asked_bytes <= facts->free_bytes;
    return fits && facts->free_bytes >= facts->total_bytes - facts->total_bytes / 10 ? 0.9 : 0;
}

/* A context has no size that anybody tells. Where others hold half of a full device, it is they
 * whom it does not fit beside. */
static bool others_leave_no_room(const struct vg_facts *facts)
{
    return facts->asked_bytes == VG_UNKNOWN && facts->free_bytes != VG_UNKNOWN &&
           facts->total_bytes != VG_UNKNOWN && facts->free_bytes <= facts->total_bytes / 10 &&
           facts->others_bytes >= facts->total_bytes / 2;
}

/* Without the others the request would have fitted, and they hold more than this process does. */
static double rule_other_process(const struct vg_facts *facts)
{
    if (others_leave_no_room(facts))
        return 0.8;
    if (facts->short_bytes == VG_UNKNOWN || facts->others_bytes < facts->short_bytes ||
        facts->others_bytes <= facts->own_bytes)
        return 0;
    return facts->others_bytes / 2 >= facts->own_bytes ? 0.9 : 0.75;
}

static const struct rule {
    enum vg_verdict_class verdict;
    double (*holds)(const struct vg_facts *facts); /* its confidence; 0: does not hold */
} rules[] = {
    {VG_VERDICT_NOT_MEMORY, rule_other_error},    {VG_VERDICT_ABSURD_REQUEST, rule_absurd_request},
    {VG_VERDICT_NOT_MEMORY, rule_platform_limit}, {VG_VERDICT_HOST_MEMORY, rule_host_memory},
    {VG_VERDICT_NOT_MEMORY, rule_empty_device},   {VG_VERDICT_OTHER_PROCESS, rule_other_process},
};

enum vg_verdict_class vg_verdict_class_of(const struct vg_facts *facts, double *confidence_out)
{
    *confidence_out = 0;
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        double confidence = rules[i].holds(facts);
        if (confidence > 0) {
            *confidence_out = confidence;
            return rules[i].verdict;
        }
    }
    return VG_VERDICT_UNKNOWN;
}

/* A report without a failure claims nothing: what is live is said, not judged. */
static void describe_state(struct vg_report *report)
{
    uint64_t live = 0, peak = 0;
    for (unsigned i = 0; i < report->device_count; i++) {
        live += report->devices[i].tracked_bytes;
        if (report->devices[i].peak_bytes > peak)
            peak = report->devices[i].peak_bytes;
    }
    char now[VG_BYTES_TEXT_MAX], most[VG_BYTES_TEXT_MAX];
    report->verdict.verdict = VG_VERDICT_UNKNOWN;
    if (!report->device_count)
        report->verdict.summary = vg_report_format(report, "no device memory was seen");
    else
        report->verdict.summary = vg_report_format(
            report, "no failure in this report: %s held from the driver%s, peak %s on one GPU",
            vg_bytes_text(now, live), report->kind == VG_INCIDENT_EXIT ? " at the end" : "",
            vg_bytes_text(most, peak));
}

void vg_analysis_verdict(struct vg_report *report)
{
    if (!report->failure) {
        describe_state(report);
        return;
    }
    struct vg_facts facts;
    vg_facts_of(report, &facts);
    report->verdict.verdict = vg_verdict_class_of(&facts, &report->verdict.confidence);
    vg_verdict_describe(report, &facts);
    vg_advice_add(report, &facts);
}
