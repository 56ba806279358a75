/* render_json.c -- the report as one JSON object, vramguard-report/1.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Holds:      every key of the contract is present; unknown is null, lists are never null; UTF-8 is
 *             valid whatever the record holds. What no analysis of this version works out (steps,
 *             leaks, forecast, ...) is null or empty, never 0.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/json_out.h"
#include "tools/render.h"

/* What every part needs. */
struct writer {
    struct vg_json json;
    const struct vg_report *report;
    struct vg_symbols *symbols;
};

static const char *string_of(const struct writer *to, uint32_t id)
{
    return vg_view_string(to->report->view, id);
}

static void put_stack(struct writer *to, const char *key, uint32_t stack)
{
    struct vg_json *json = &to->json;
    const struct vg_text_frame *frames = NULL;
    unsigned count = to->symbols ? vg_symbols_stack(to->symbols, stack, &frames) : 0;
    vg_json_list(json, key);
    for (unsigned i = 0; i < count; i++) {
        const struct vg_text_frame *frame = &frames[i];
        if (frame->guard)
            continue;
        vg_json_object(json, NULL);
        vg_json_text(json, "lang", frame->lang);
        vg_json_text_or_null(json, "function", frame->function);
        vg_json_text_or_null(json, "file", frame->file);
        vg_json_bytes(json, "line", frame->line > 0 ? (uint64_t)frame->line : VG_UNKNOWN);
        vg_json_text_or_null(json, "module", frame->module);
        vg_json_bytes(json, "offset", frame->has_offset ? frame->offset : VG_UNKNOWN);
        vg_json_end_object(json);
    }
    vg_json_end_list(json);
}

static void put_cmdline(struct writer *to)
{
    const char *text = string_of(to, to->report->view->header->cmdline);
    vg_json_list(&to->json, "cmdline");
    while (*text) {
        size_t length = strcspn(text, "\x1f");
        char *argument = strndup(text, length);
        if (!argument)
            abort();
        vg_json_text(&to->json, NULL, argument);
        free(argument);
        text += length + (text[length] != 0);
    }
    vg_json_end_list(&to->json);
}

static void put_process(struct writer *to)
{
    const struct vg_header *header = to->report->view->header;
    struct vg_json *json = &to->json;
    char version[32] = "";
    if (header->driver_version > 0)
        snprintf(version, sizeof version, "%d.%d", (int)header->driver_version / 1000,
                 (int)header->driver_version % 1000 / 10);
    vg_json_object(json, "process");
    vg_json_uint(json, "pid", header->pid);
    vg_json_text(json, "host", string_of(to, header->host));
    vg_json_bytes(json, "rank", header->rank >= 0 ? (uint64_t)header->rank : VG_UNKNOWN);
    put_cmdline(to);
    vg_json_text(json, "exe", string_of(to, header->exe));
    vg_json_seconds(json, "start_time", header->start_realtime_ns);
    vg_json_seconds(json, "uptime", to->report->time_ns);
    vg_json_text_or_null(json, "driver_version", version);
    vg_json_text_or_null(json, "python", string_of(to, header->python));
    vg_json_text_or_null(json, "torch", string_of(to, header->torch));
    vg_json_bool(json, "alive", to->report->alive);
    if (header->ended == VG_ENDED_CODE) {
        vg_json_object(json, "exit");
        vg_json_uint(json, "code", header->exit_status);
        vg_json_end_object(json);
    } else {
        vg_json_null(json, "exit");
    }
    vg_json_end_object(json);
}

static void put_error(struct writer *to, const struct vg_incident *failure)
{
    vg_json_object(&to->json, "error");
    vg_json_int(&to->json, "code", failure->error);
    vg_json_text_or_null(&to->json, "name", to->report->failure_name);
    vg_json_end_object(&to->json);
}

static void put_ordinal(struct writer *to, const char *key, const int32_t *ordinal)
{
    if (ordinal)
        vg_json_int(&to->json, key, *ordinal);
    else
        vg_json_null(&to->json, key);
}

static void put_failure(struct writer *to)
{
    const struct vg_report *report = to->report;
    const struct vg_incident *failure = report->failure;
    struct vg_json *json = &to->json;
    if (!failure) {
        vg_json_null(json, "failure");
        return;
    }
    const struct vg_context *context =
        failure->context ? vg_view_context(report->view, failure->context - 1u) : NULL;
    vg_json_object(json, "failure");
    vg_json_bytes(json, "site", failure->site ? failure->site : VG_UNKNOWN);
    vg_json_text_or_null(json, "api", string_of(to, failure->api));
    vg_json_text_or_null(json, "requested_via", string_of(to, failure->via));
    vg_json_text_or_null(json, "family", string_of(to, failure->family));
    vg_json_bytes(json, "bytes", failure->bytes);
    vg_json_bytes(json, "requested_bytes", failure->requested_bytes);
    put_ordinal(to, "device", report->failure_device ? &report->failure_device->ordinal : NULL);
    vg_json_bytes(json, "context", context ? context->id : VG_UNKNOWN);
    put_error(to, failure);
    vg_json_text(json, "library", report->failure_library);
    vg_json_uint(json, "thread", failure->thread);
    put_stack(to, "stack", failure->stack);
    vg_json_uint(json, "attempts", failure->attempts);
    vg_json_text(json, "outcome",
                 failure->outcome == VG_OUTCOME_RECOVERED ? "recovered" : "failed");
    vg_json_uint(json, "count", failure->count);
    vg_json_list(json, "remedies");
    vg_json_end_list(json);
    vg_json_end_object(json);
}

static void put_framework(struct writer *to, const struct vg_report_device *device)
{
    const struct vg_framework *framework = &device->framework;
    struct vg_json *json = &to->json;
    if (!device->has_framework) {
        vg_json_null(json, "framework");
        return;
    }
    vg_json_object(json, "framework");
    vg_json_text(json, "name", framework->name);
    vg_json_uint(json, "reserved_bytes", framework->reserved_bytes);
    vg_json_uint(json, "allocated_bytes", framework->allocated_bytes);
    vg_json_uint(json, "cached_bytes", framework->cached_bytes);
    vg_json_uint(json, "largest_gap_bytes", framework->largest_gap_bytes);
    vg_json_bytes(json, "small_gaps_bytes", framework->small_gaps_bytes);
    vg_json_uint(json, "private_gaps_bytes", framework->private_gaps_bytes);
    vg_json_real(json, "fragmentation", framework->fragmentation, 4);
    vg_json_uint(json, "live_blocks", framework->live_blocks);
    vg_json_uint(json, "segments", framework->segments);
    vg_json_list(json, "pinned_segments");
    vg_json_end_list(json);
    vg_json_null(json, "state");
    vg_json_end_object(json);
}

static void put_contexts(struct writer *to, const struct vg_report_device *device)
{
    struct vg_json *json = &to->json;
    vg_json_list(json, "contexts");
    for (unsigned i = 0; i < device->context_count; i++) {
        const struct vg_context *context = device->contexts[i].context;
        vg_json_object(json, NULL);
        vg_json_uint(json, "id", context->id);
        vg_json_bool(json, "primary", context->primary);
        vg_json_uint(json, "live_bytes", context->live_bytes);
        vg_json_uint(json, "live_count", context->live_count);
        vg_json_bytes(json, "overhead_bytes", device->contexts[i].overhead_bytes);
        put_stack(to, "stack", context->stack);
        vg_json_end_object(json);
    }
    vg_json_end_list(json);
}

static void put_use(struct writer *to, const struct vg_report_device *device)
{
    struct vg_json *json = &to->json;
    vg_json_object(json, "process");
    vg_json_uint(json, "tracked_bytes", device->tracked_bytes);
    vg_json_uint(json, "alloc_count", device->alloc_count);
    vg_json_uint(json, "free_count", device->free_count);
    vg_json_object(json, "by_kind");
    for (unsigned kind = 1; kind < VG_KIND_COUNT; kind++)
        if (vg_kind_layer(kind) == VG_LAYER_DRIVER &&
            (device->device->kind_bytes[kind] || device->kinds_used & 1u << kind))
            vg_json_uint(json, vg_kind_key(kind), device->device->kind_bytes[kind]);
    vg_json_end_object(json);
    vg_json_list(json, "by_library");
    for (unsigned i = 0; i < device->library_count; i++) {
        vg_json_object(json, NULL);
        vg_json_text(json, "library", device->libraries[i].library);
        vg_json_uint(json, "bytes", device->libraries[i].bytes);
        vg_json_end_object(json);
    }
    vg_json_end_list(json);
    put_framework(to, device);
    vg_json_bytes(json, "pool_idle_bytes", device->pool_idle_bytes);
    put_contexts(to, device);
    vg_json_end_object(json);
}

static void put_others(struct writer *to, const struct vg_report_device *device)
{
    struct vg_json *json = &to->json;
    uint32_t count = device->free_source ? device->device->other_count : 0;
    vg_json_list(json, "others");
    for (uint32_t i = 0; i < count && i < VG_OTHERS_MAX; i++) {
        const struct vg_other *other = &device->device->other[i];
        vg_json_object(json, NULL);
        vg_json_uint(json, "pid", other->pid);
        vg_json_text_or_null(json, "name", string_of(to, other->name));
        vg_json_bytes(json, "bytes", other->bytes);
        vg_json_bool(json, "may_be_this_process", other->may_be_this_process);
        vg_json_end_object(json);
    }
    vg_json_end_list(json);
}

static void put_uuid(struct writer *to, const struct vg_device *device)
{
    char text[48] = "";
    size_t at = (size_t)snprintf(text, sizeof text, "%s-", device->is_mig ? "MIG" : "GPU");
    for (unsigned i = 0; i < 16; i++)
        at += (size_t)snprintf(text + at, sizeof text - at,
                               i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
                               device->uuid[i]);
    vg_json_text_or_null(&to->json, "uuid", device->has_uuid ? text : NULL);
}

static void put_device(struct writer *to, const struct vg_report_device *device)
{
    struct vg_json *json = &to->json;
    vg_json_object(json, NULL);
    vg_json_int(json, "index", device->ordinal);
    vg_json_text_or_null(json, "pci", string_of(to, device->device->pci));
    vg_json_text_or_null(json, "free_source", device->free_source);
    if (device->free_source)
        vg_json_real(json, "free_age", device->free_age_seconds, 4);
    else
        vg_json_null(json, "free_age");
    vg_json_text_or_null(json, "name", string_of(to, device->device->name));
    put_uuid(to, device->device);
    vg_json_bytes(json, "total_bytes", device->total_bytes);
    vg_json_bytes(json, "free_bytes", device->free_bytes);
    vg_json_uint(json, "peak_bytes", device->peak_bytes);
    put_use(to, device);
    put_others(to, device);
    if (device->has_unattributed)
        vg_json_int(json, "unattributed_bytes", device->unattributed_bytes);
    else
        vg_json_null(json, "unattributed_bytes");
    vg_json_end_object(json);
}

static void put_site(struct writer *to, const struct vg_report_site *entry)
{
    const struct vg_site *site = entry->site;
    const struct vg_device *device =
        site->device ? vg_view_device(to->report->view, site->device - 1u) : NULL;
    struct vg_json *json = &to->json;
    vg_json_object(json, NULL);
    vg_json_uint(json, "id", entry->id);
    vg_json_text(json, "layer", vg_layer_key(site->layer));
    vg_json_text(json, "kind", vg_kind_key(site->kind));
    put_ordinal(to, "device", device ? &device->ordinal : NULL);
    vg_json_text(json, "library", entry->library);
    vg_json_text_or_null(json, "api", string_of(to, site->api));
    vg_json_uint(json, "live_bytes", site->live_bytes);
    vg_json_uint(json, "live_count", site->live_count);
    vg_json_uint(json, "peak_live_bytes", site->peak_live_bytes);
    vg_json_bytes(json, "live_bytes_at_peak", entry->at_peak_bytes);
    vg_json_uint(json, "alloc_count", site->alloc_count);
    vg_json_uint(json, "free_count", site->free_count);
    vg_json_seconds(json, "first_time", site->first_ns);
    vg_json_seconds(json, "last_time", site->last_ns);
    vg_json_uint(json, "captured_bytes", entry->captured_bytes);
    vg_json_bytes(json, "thread", entry->thread ? entry->thread : VG_UNKNOWN);
    vg_json_bytes(json, "stream", entry->stream ? entry->stream : VG_UNKNOWN);
    put_stack(to, "stack", site->stack);
    vg_json_end_object(json);
}

static void put_objects(struct writer *to)
{
    struct vg_json *json = &to->json;
    vg_json_object(json, "objects");
    for (unsigned i = 0; i < VG_OBJECT_COUNT; i++) {
        const struct vg_objects *objects = &to->report->objects[i];
        vg_json_object(json, vg_object_key((enum vg_object)i));
        vg_json_uint(json, "live", objects->live);
        vg_json_uint(json, "created", objects->created);
        vg_json_uint(json, "destroyed", objects->destroyed);
        vg_json_list(json, "top");
        for (unsigned k = 0; k < objects->top_count; k++) {
            vg_json_object(json, NULL);
            vg_json_uint(json, "live", objects->top[k].live);
            put_stack(to, "stack", objects->top[k].stack);
            vg_json_end_object(json);
        }
        vg_json_end_list(json);
        vg_json_end_object(json);
    }
    vg_json_end_object(json);
}

/* The text of an evidence or advice that ends with the place of a site. */
static void put_text_at(struct writer *to, const char *text, uint32_t site_id)
{
    const struct vg_site *site = site_id ? vg_view_site(to->report->view, site_id - 1) : NULL;
    if (!site) {
        vg_json_text(&to->json, "text", text);
        return;
    }
    char *place = vg_render_place(to->report, to->symbols, site->stack), *whole = NULL;
    if (asprintf(&whole, "%s: %s", text, place) < 0)
        abort();
    vg_json_text(&to->json, "text", whole);
    free(whole);
    free(place);
}

static void put_evidence(struct writer *to, const struct vg_evidence *line)
{
    struct vg_json *json = &to->json;
    vg_json_object(json, NULL);
    put_text_at(to, line->text, line->site);
    if (!line->has_value)
        vg_json_null(json, "value");
    else if (line->exact)
        vg_json_uint(json, "value", line->bytes);
    else
        vg_json_real(json, "value", line->value, 6);
    vg_json_text_or_null(json, "unit", line->unit);
    vg_json_end_object(json);
}

static void put_verdict(struct writer *to)
{
    struct vg_json *json = &to->json;
    const struct vg_report *report = to->report;
    vg_json_object(json, "verdict");
    vg_json_text(json, "class", vg_verdict_key(report->verdict.verdict));
    vg_json_real(json, "confidence", report->verdict.confidence, 4);
    vg_json_text(json, "summary", report->verdict.summary);
    vg_json_list(json, "evidence");
    for (unsigned i = 0; i < report->verdict.evidence_count; i++)
        put_evidence(to, &report->verdict.evidence[i]);
    vg_json_end_list(json);
    vg_json_list(json, "advice");
    for (unsigned i = 0; i < report->verdict.advice_count; i++) {
        const struct vg_advice *row = &report->verdict.advice[i];
        vg_json_object(json, NULL);
        vg_json_text(json, "action", row->action);
        vg_json_bytes(json, "gain_bytes", row->gain_bytes);
        put_text_at(to, row->text, row->site);
        vg_json_end_object(json);
    }
    vg_json_end_list(json);
    vg_json_end_object(json);
}

static const char *fault_key(uint32_t kind)
{
    static const char *const keys[VG_FAULT_COUNT] = {"", "unknown", "double", "refused"};
    return keys[kind < VG_FAULT_COUNT ? kind : 0];
}

static void put_address(struct vg_json *json, uint64_t addr)
{
    char text[24];
    snprintf(text, sizeof text, "0x%" PRIx64, addr);
    vg_json_text(json, "address", text);
}

/* Where it had been allocated; [] where nobody knows. */
static void put_allocated(struct writer *to, uint32_t site)
{
    const struct vg_site *at = site ? vg_view_site(to->report->view, site - 1) : NULL;
    put_stack(to, "allocated", at ? at->stack : 0);
}

static void put_fault(struct writer *to, const struct vg_fault *fault)
{
    struct vg_json *json = &to->json;
    vg_json_object(json, NULL);
    vg_json_text(json, "kind", fault_key(fault->kind));
    put_address(json, fault->addr);
    vg_json_bytes(json, "bytes", fault->bytes);
    vg_json_uint(json, "count", fault->count);
    vg_json_int(json, "status", fault->status);
    vg_json_text_or_null(json, "api", string_of(to, fault->api));
    vg_json_uint(json, "thread", fault->thread);
    vg_json_seconds(json, "time", fault->time_ns);
    put_stack(to, "stack", fault->stack);
    put_allocated(to, fault->first.site);
    if (fault->kind == VG_FAULT_DOUBLE) {
        vg_json_object(json, "first");
        vg_json_text_or_null(json, "api", string_of(to, fault->first.api));
        vg_json_uint(json, "thread", fault->first.thread);
        vg_json_seconds(json, "time", fault->first.time_ns);
        put_stack(to, "stack", fault->first.stack);
        vg_json_end_object(json);
    } else {
        vg_json_null(json, "first");
    }
    vg_json_end_object(json);
}

/* Frees of addresses that nobody knew, frees that the driver refused, and the latter by place. */
static void put_frees(struct writer *to)
{
    const struct vg_view *view = to->report->view;
    struct vg_json *json = &to->json;
    vg_json_object(json, "frees");
    vg_json_uint(json, "unknown_count", view->header->unknown_free_count);
    vg_json_uint(json, "failed_count", view->header->failed_free_count);
    vg_json_list(json, "faults");
    for (uint64_t i = 0; i < vg_view_count(view, VG_SEC_FAULTS); i++)
        put_fault(to, vg_view_fault(view, i));
    vg_json_end_list(json);
    vg_json_end_object(json);
}

static void put_hooks(struct writer *to)
{
    const struct vg_header *header = to->report->view->header;
    struct vg_json *json = &to->json;
    char saturated[96] = "";
    if (header->unlisted_count)
        snprintf(saturated, sizeof saturated, "%" PRIu64 " allocations not itemised",
                 header->unlisted_count);
    else if (header->saturated & ~(uint32_t)VG_SAT_SLOTS)
        snprintf(saturated, sizeof saturated, "sites, stacks or names are missing");
    vg_json_object(json, "hooks");
    vg_json_object(json, "reached");
    vg_json_bool(json, "driver", header->reached & VG_REACHED_DRIVER);
    vg_json_bool(json, "runtime", header->reached & VG_REACHED_RUNTIME);
    vg_json_bool(json, "torch", header->reached & VG_REACHED_TORCH);
    vg_json_end_object(json);
    vg_json_uint(json, "fallback_count", header->fallback_count);
    vg_json_uint(json, "unknown_free_count", header->unknown_free_count);
    vg_json_text_or_null(json, "saturated", saturated);
    vg_json_list(json, "notes");
    for (unsigned i = 0; i < to->report->note_count; i++)
        vg_json_text(json, NULL, to->report->notes[i]);
    vg_json_end_list(json);
    vg_json_end_object(json);
}

static void put_host(struct writer *to)
{
    static const char *const platforms[] = {"linux", "wsl", "tegra"};
    const struct vg_incident *incident = to->report->incident;
    uint32_t platform = to->report->view->header->platform;
    struct vg_json *json = &to->json;
    vg_json_object(json, "host");
    vg_json_bytes(json, "mem_available_bytes",
                  incident ? incident->mem_available_bytes : VG_UNKNOWN);
    vg_json_bytes(json, "cgroup_limit_bytes", incident ? incident->cgroup_limit_bytes : VG_UNKNOWN);
    vg_json_bytes(json, "cgroup_used_bytes", incident ? incident->cgroup_used_bytes : VG_UNKNOWN);
    vg_json_uint(json, "pinned_bytes", to->report->pinned_bytes);
    vg_json_text(json, "platform", platforms[platform <= VG_PLATFORM_TEGRA ? platform : 0]);
    vg_json_end_object(json);
}

/* What no analysis of this version works out. */
static void put_nothing_yet(struct writer *to)
{
    static const char *const lists[] = {"peers", "leaks", "timeline"};
    static const char *const values[] = {"steps", "forecast"};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        vg_json_list(&to->json, lists[i]);
        vg_json_end_list(&to->json);
    }
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        vg_json_null(&to->json, values[i]);
}

int vg_render_json(const struct vg_report *report, struct vg_symbols *symbols,
                   const struct vg_render_options *options, FILE *out)
{
    (void)options;
    struct writer to = {.json = {.out = out}, .report = report, .symbols = symbols};
    struct vg_json *json = &to.json;
    vg_json_object(json, NULL);
    vg_json_text(json, "schema", "vramguard-report/1");
    vg_json_text(json, "kind", vg_render_kind(report));
    put_process(&to);
    put_failure(&to);
    vg_json_list(json, "devices");
    for (unsigned i = 0; i < report->device_count; i++)
        put_device(&to, &report->devices[i]);
    vg_json_end_list(json);
    vg_json_list(json, "sites");
    for (unsigned i = 0; i < report->site_count; i++)
        put_site(&to, &report->sites[i]);
    vg_json_end_list(json);
    put_objects(&to);
    put_frees(&to);
    put_nothing_yet(&to);
    put_verdict(&to);
    put_hooks(&to);
    put_host(&to);
    vg_json_end_object(json);
    putc_unlocked('\n', out);
    return fflush(out) || ferror(out) ? -1 : 0;
}
