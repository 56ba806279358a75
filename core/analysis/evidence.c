/* evidence.c -- a verdict in words: its summary, and the numbers that back it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Not here:   the rules (verdict.c), what to do (advice.c), places in source code (the renderers
 *             put them behind a text that names a site).
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/analysis/analysis.h"

typedef char text[VG_BYTES_TEXT_MAX];

static void set_bytes(struct vg_evidence *evidence, uint64_t bytes)
{
    evidence->has_value = evidence->exact = true;
    evidence->bytes = bytes;
    evidence->value = (double)bytes;
    evidence->unit = "bytes";
}

/* A line with one figure in it. */
static struct vg_evidence *add_bytes(struct vg_report *report, const char *before, uint64_t bytes,
                                     const char *after)
{
    text buffer;
    struct vg_evidence *evidence =
        vg_report_evidence(report, "%s%s%s", before, vg_bytes_text(buffer, bytes), after);
    set_bytes(evidence, bytes);
    return evidence;
}

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

static bool asks_for_a_context(const struct vg_report *report)
{
    const char *api = vg_view_string(report->view, report->failure->api);
    return strstr(api, "CtxCreate") || strstr(api, "CtxRetain");
}

static const char *request_text(const struct vg_report *report, text buffer)
{
    if (report->request_bytes == VG_UNKNOWN)
        return asks_for_a_context(report) ? "a context" : "the request";
    text bytes;
    snprintf(buffer, sizeof(text), "%s", vg_bytes_text(bytes, report->request_bytes));
    return buffer;
}

/* Whoever holds most of the device. */
static void add_largest_owner(struct vg_report *report, const struct vg_facts *facts)
{
    const struct vg_report_device *device = facts->device;
    const char *name = NULL, *suffix = "";
    uint64_t most = 0;
    for (unsigned i = 0; i < device->library_count; i++) {
        const struct vg_library_bytes *library = &device->libraries[i];
        uint64_t bytes = library->bytes - library->framework_bytes;
        if (bytes > most) {
            most = bytes;
            name = library->library;
        }
    }
    if (device->has_framework && device->framework.reserved_bytes > most) {
        most = device->framework.reserved_bytes;
        name = device->framework.name;
    }
    if (device->others_bytes > most) {
        most = device->others_bytes;
        name = "other processes";
        suffix = " together";
    }
    if (!name)
        return;
    text bytes;
    struct vg_evidence *evidence;
    if (device->total_bytes == VG_UNKNOWN)
        evidence = vg_report_evidence(report, "%s%s: %s, the largest owner", name, suffix,
                                      vg_bytes_text(bytes, most));
    else
        evidence = vg_report_evidence(report, "%s%s: %s (%.1f %% of the device), the largest owner",
                                      name, suffix, vg_bytes_text(bytes, most),
                                      percent(most, device->total_bytes));
    set_bytes(evidence, most);
    evidence->is_shown = device->total_bytes != VG_UNKNOWN;
}

static void add_largest_site(struct vg_report *report, const struct vg_facts *facts)
{
    if (!facts->largest)
        return;
    const struct vg_site *site = facts->largest->site;
    text bytes;
    struct vg_evidence *evidence =
        vg_report_evidence(report, "the largest live site holds %s in %" PRIu64 " %s",
                           vg_bytes_text(bytes, site->live_bytes), site->live_count,
                           site->live_count == 1 ? "allocation" : "allocations");
    set_bytes(evidence, site->live_bytes);
    evidence->site = facts->largest->id;
}

static void add_cache(struct vg_report *report, const struct vg_facts *facts)
{
    const struct vg_framework *framework = &facts->device->framework;
    if (!facts->device->has_framework || !framework->cached_bytes)
        return;
    text cached, largest;
    set_bytes(vg_report_evidence(report, "%s caches %s between live tensors, the largest gap is %s",
                                 framework->name, vg_bytes_text(cached, framework->cached_bytes),
                                 vg_bytes_text(largest, framework->largest_gap_bytes)),
              framework->cached_bytes);
}

/* Bytes that nobody counts are worth a line from 5 % of the device on. */
static void add_unattributed(struct vg_report *report, const struct vg_facts *facts)
{
    const struct vg_report_device *device = facts->device;
    if (!device->has_unattributed || device->unattributed_bytes <= 0 ||
        (uint64_t)device->unattributed_bytes < device->total_bytes / 20)
        return;
    text bytes;
    uint64_t rest = (uint64_t)device->unattributed_bytes;
    set_bytes(
        vg_report_evidence(
            report,
            "%s are accounted for by nobody: %sa process that the driver does not list here, or "
            "memory of the driver itself",
            vg_bytes_text(bytes, rest),
            device->overhead_bytes == VG_UNKNOWN ? "this process's contexts and code, " : ""),
        rest);
}

static void add_device_evidence(struct vg_report *report, const struct vg_facts *facts)
{
    if (!facts->device)
        return;
    if (facts->short_bytes != VG_UNKNOWN) {
        struct vg_evidence *evidence =
            add_bytes(report, "the request exceeds free memory by ", facts->short_bytes, "");
        evidence->is_shown = report->verdict.verdict == VG_VERDICT_UNKNOWN;
    }
    add_largest_owner(report, facts);
    add_largest_site(report, facts);
    add_cache(report, facts);
    add_unattributed(report, facts);
}

static void describe_other_error(struct vg_report *report, const struct vg_facts *facts)
{
    text request;
    const char *name = report->failure_name;
    report->verdict.summary = vg_report_format(
        report, "the driver refused %s with %s (%d), which does not mean that memory is short",
        request_text(report, request), name ? name : "error", (int)facts->incident->error);
}

static void describe_not_memory(struct vg_report *report, const struct vg_facts *facts)
{
    text request, free_text, total, host;
    request_text(report, request);
    if (!facts->out_of_memory)
        describe_other_error(report, facts);
    else if (facts->host)
        report->verdict.summary = vg_report_format(report,
                                                   "%s of pinned memory refused while the host has "
                                                   "%s available: WSL limits what can be pinned",
                                                   request_text(report, request),
                                                   vg_bytes_text(host, facts->available_bytes));
    else
        report->verdict.summary = vg_report_format(
            report,
            "out of memory returned for %s with %s of %s free: a limit on objects, sessions or "
            "single requests, not on bytes",
            request_text(report, request), vg_bytes_text(free_text, facts->free_bytes),
            vg_bytes_text(total, facts->total_bytes));
    if (facts->device && facts->free_bytes != VG_UNKNOWN)
        add_bytes(report, "", facts->free_bytes, " free on the device");
}

static void describe_host(struct vg_report *report, const struct vg_facts *facts)
{
    text request, available;
    bool managed = facts->kind == VG_KIND_MANAGED;
    bool is_known = facts->available_bytes != VG_UNKNOWN;
    report->verdict.summary = vg_report_format(
        report, "%s failed for %s: %s, not the GPU's own%s%s%s",
        vg_view_string(report->view, facts->incident->api), request_text(report, request),
        managed ? "managed memory is backed by the host's" : "it takes host memory",
        is_known ? "; the host has " : "",
        is_known ? vg_bytes_text(available, facts->available_bytes) : "",
        is_known ? " available" : "");
    if (report->pinned_bytes)
        add_bytes(report, "", report->pinned_bytes, " of host memory are pinned by this process");
    if (is_known)
        add_bytes(report, "", facts->available_bytes, " of host memory can be had");
    if (facts->free_bytes != VG_UNKNOWN)
        add_bytes(report, "", facts->free_bytes, " free on the device");
}

/* Sizes that come out of a wrong computation are easily told: a negative number, or all ones. */
static void describe_absurd(struct vg_report *report, const struct vg_facts *facts)
{
    text request, total;
    if (facts->total_bytes != VG_UNKNOWN && !facts->host)
        report->verdict.summary = vg_report_format(
            report, "%s is more than the whole device has (%s): freeing memory cannot help",
            request_text(report, request), vg_bytes_text(total, facts->total_bytes));
    else
        report->verdict.summary = vg_report_format(
            report, "%s is more than any process can address: freeing memory cannot help",
            request_text(report, request));
    uint64_t asked = facts->asked_bytes;
    struct vg_evidence *evidence;
    if (asked >> 63)
        evidence = vg_report_evidence(
            report, "the size looks like a negative number taken as unsigned: %" PRId64,
            (int64_t)asked);
    else if (asked == UINT32_MAX || asked == (uint64_t)INT32_MAX)
        evidence =
            vg_report_evidence(report, "the size is the largest 32-bit number: %" PRIu64, asked);
    else
        evidence = vg_report_evidence(report, "the size in bytes: %" PRIu64, asked);
    set_bytes(evidence, asked);
}

static void describe_others(struct vg_report *report, const struct vg_facts *facts)
{
    text others, own, request, bytes;
    report->verdict.summary = vg_report_format(
        report, "other processes hold %s, this one %s; without them %s would have fitted",
        vg_bytes_text(others, facts->others_bytes), vg_bytes_text(own, facts->own_bytes),
        request_text(report, request));
    for (uint32_t i = 0; i < facts->device->device->other_count && i < VG_OTHERS_MAX && i < 5;
         i++) {
        const struct vg_other *other = &facts->device->device->other[i];
        if (other->may_be_this_process || other->bytes == VG_UNKNOWN)
            continue;
        set_bytes(vg_report_evidence(report, "pid %u %s holds %s", other->pid,
                                     vg_view_string(report->view, other->name),
                                     vg_bytes_text(bytes, other->bytes)),
                  other->bytes);
    }
}

static const char *who_filled(const struct vg_facts *facts)
{
    if (facts->free_bytes > facts->total_bytes / 10)
        return "this process tracks";
    return facts->own_bytes >= facts->total_bytes / 2
               ? "no single cause, this process itself filled the device: it tracks"
               : "the device is full: this process tracks";
}

static void describe_unknown(struct vg_report *report, const struct vg_facts *facts)
{
    const struct vg_report_device *device = facts->device;
    text request, own, total, free_text, excess;
    request_text(report, request);
    if (!device || facts->free_bytes == VG_UNKNOWN)
        report->verdict.summary = vg_report_format(
            report, "%s failed; how much was free is not known, this process tracks %s",
            request_text(report, request), vg_bytes_text(own, device ? device->tracked_bytes : 0));
    else if (!facts->called)
        report->verdict.summary = vg_report_format(
            report,
            "%s was refused by the framework itself, without asking the driver (a limit of its "
            "own?): %s of %s are free",
            request_text(report, request), vg_bytes_text(free_text, facts->free_bytes),
            vg_bytes_text(total, facts->total_bytes));
    else if (facts->asked_bytes == VG_UNKNOWN)
        report->verdict.summary = vg_report_format(
            report,
            "%s could not be made: the driver does not say how much it needs, %s of %s are free",
            asks_for_a_context(report) ? "a context" : "what was asked for",
            vg_bytes_text(free_text, facts->free_bytes), vg_bytes_text(total, facts->total_bytes));
    else if (facts->short_bytes != VG_UNKNOWN)
        report->verdict.summary = vg_report_format(
            report, "%s %s of %s; the request of %s exceeds free %s by %s", who_filled(facts),
            vg_bytes_text(own, device->tracked_bytes), vg_bytes_text(total, facts->total_bytes),
            request_text(report, request), vg_bytes_text(free_text, facts->free_bytes),
            vg_bytes_text(excess, facts->short_bytes));
    else
        report->verdict.summary = vg_report_format(
            report, "the driver refused %s although it gives %s of %s as free",
            request_text(report, request), vg_bytes_text(free_text, facts->free_bytes),
            vg_bytes_text(total, facts->total_bytes));
}

void vg_verdict_describe(struct vg_report *report, const struct vg_facts *facts)
{
    switch (report->verdict.verdict) {
    case VG_VERDICT_NOT_MEMORY:
        describe_not_memory(report, facts);
        return;
    case VG_VERDICT_HOST_MEMORY:
        describe_host(report, facts);
        return;
    case VG_VERDICT_ABSURD_REQUEST:
        describe_absurd(report, facts);
        return;
    case VG_VERDICT_OTHER_PROCESS:
        describe_others(report, facts);
        break;
    default:
        describe_unknown(report, facts);
    }
    add_device_evidence(report, facts);
}
