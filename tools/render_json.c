/* render_json.c -- the report as one JSON object, vramguard-report/1.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Holds:      every key of the contract is present; unknown is null, lists are never null; UTF-8 is
 *             valid whatever the record holds. What no analysis of this version works out (steps,
 *             leaks, forecast, ...) is null or empty, never 0.
 */
#include <inttypes.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "tools/render.h"

typedef struct json_object json;

static void put(json *into, const char *key, json *value)
{
    json_object_object_add(into, key, value);
}

static json *text_or_null(const char *text)
{
    if (!text || !*text)
        return NULL;
    char *clean = vg_render_clean(text, "\xef\xbf\xbd", true);
    json *value = json_object_new_string(clean);
    free(clean);
    return value;
}

static json *text_always(const char *text)
{
    return text && *text ? text_or_null(text) : json_object_new_string("");
}

static json *bytes_or_null(uint64_t bytes)
{
    return bytes == VG_UNKNOWN ? NULL : json_object_new_uint64(bytes);
}

/* Exact in decimals: a nanosecond does not survive the shortest form of a double of 1e9 seconds. */
static json *seconds(uint64_t ns)
{
    char text[48];
    snprintf(text, sizeof text, "%" PRIu64 ".%06" PRIu64, ns / 1000000000u,
             ns % 1000000000u / 1000u);
    return json_object_new_double_s((double)ns / 1e9, text);
}

static json *fraction(double value)
{
    char text[48];
    snprintf(text, sizeof text, "%.4f", value);
    return json_object_new_double_s(value, text);
}

static json *string_of(const struct vg_report *report, uint32_t id)
{
    return text_or_null(vg_view_string(report->view, id));
}

static json *stack_json(struct vg_symbols *symbols, uint32_t stack)
{
    json *list = json_object_new_array();
    const struct vg_text_frame *frames = NULL;
    unsigned count = symbols ? vg_symbols_stack(symbols, stack, &frames) : 0;
    for (unsigned i = 0; i < count; i++) {
        const struct vg_text_frame *frame = &frames[i];
        if (frame->guard)
            continue;
        json *item = json_object_new_object();
        put(item, "lang", text_always(frame->lang));
        put(item, "function", text_or_null(frame->function));
        put(item, "file", text_or_null(frame->file));
        put(item, "line", frame->line > 0 ? json_object_new_int(frame->line) : NULL);
        put(item, "module", text_or_null(frame->module));
        put(item, "offset", frame->has_offset ? json_object_new_uint64(frame->offset) : NULL);
        json_object_array_add(list, item);
    }
    return list;
}

static json *cmdline_json(const struct vg_report *report)
{
    json *list = json_object_new_array();
    const char *text = vg_view_string(report->view, report->view->header->cmdline);
    while (*text) {
        size_t length = strcspn(text, "\x1f");
        char *argument = strndup(text, length);
        if (!argument)
            abort();
        json_object_array_add(list, text_always(argument));
        free(argument);
        text += length + (text[length] != 0);
    }
    return list;
}

static json *process_json(const struct vg_report *report)
{
    const struct vg_header *header = report->view->header;
    json *process = json_object_new_object();
    char version[32] = "";
    if (header->driver_version > 0)
        snprintf(version, sizeof version, "%d.%d", (int)header->driver_version / 1000,
                 (int)header->driver_version % 1000 / 10);
    put(process, "pid", json_object_new_uint64(header->pid));
    put(process, "host", text_always(vg_view_string(report->view, header->host)));
    put(process, "rank", header->rank >= 0 ? json_object_new_int(header->rank) : NULL);
    put(process, "cmdline", cmdline_json(report));
    put(process, "exe", text_always(vg_view_string(report->view, header->exe)));
    put(process, "start_time", seconds(header->start_realtime_ns));
    put(process, "uptime", seconds(report->time_ns));
    put(process, "driver_version", text_or_null(version));
    put(process, "python", string_of(report, header->python));
    put(process, "torch", string_of(report, header->torch));
    put(process, "alive", json_object_new_boolean(report->alive));
    json *ended = NULL;
    if (header->ended == VG_ENDED_CODE) {
        ended = json_object_new_object();
        put(ended, "code", json_object_new_uint64(header->exit_status));
    }
    put(process, "exit", ended);
    return process;
}

static json *failure_json(const struct vg_report *report, struct vg_symbols *symbols)
{
    const struct vg_incident *failure = report->failure;
    if (!failure)
        return NULL;
    json *object = json_object_new_object(), *error = json_object_new_object();
    const struct vg_context *context =
        failure->context ? vg_view_context(report->view, failure->context - 1u) : NULL;
    put(object, "site", failure->site ? json_object_new_uint64(failure->site) : NULL);
    put(object, "api", string_of(report, failure->api));
    put(object, "requested_via", string_of(report, failure->via));
    put(object, "family", string_of(report, failure->family));
    put(object, "bytes", bytes_or_null(failure->bytes));
    put(object, "requested_bytes", bytes_or_null(failure->requested_bytes));
    put(object, "device",
        report->failure_device ? json_object_new_int(report->failure_device->ordinal) : NULL);
    put(object, "context", context ? json_object_new_uint64(context->id) : NULL);
    put(error, "code", json_object_new_int(failure->error));
    put(error, "name", text_or_null(report->failure_name));
    put(object, "error", error);
    put(object, "library", text_always(report->failure_library));
    put(object, "thread", json_object_new_uint64(failure->thread));
    put(object, "stack", stack_json(symbols, failure->stack));
    put(object, "attempts", json_object_new_int(failure->attempts));
    put(object, "outcome",
        text_always(failure->outcome == VG_OUTCOME_RECOVERED ? "recovered" : "failed"));
    put(object, "count", json_object_new_uint64(failure->count));
    put(object, "remedies", json_object_new_array());
    return object;
}

static json *framework_json(const struct vg_report_device *device)
{
    if (!device->has_framework)
        return NULL;
    const struct vg_framework *framework = &device->framework;
    json *object = json_object_new_object();
    put(object, "name", text_always(framework->name));
    put(object, "reserved_bytes", json_object_new_uint64(framework->reserved_bytes));
    put(object, "allocated_bytes", json_object_new_uint64(framework->allocated_bytes));
    put(object, "cached_bytes", json_object_new_uint64(framework->cached_bytes));
    put(object, "largest_gap_bytes", json_object_new_uint64(framework->largest_gap_bytes));
    put(object, "small_gaps_bytes", bytes_or_null(framework->small_gaps_bytes));
    put(object, "private_gaps_bytes", json_object_new_uint64(framework->private_gaps_bytes));
    put(object, "fragmentation", fraction(framework->fragmentation));
    put(object, "live_blocks", json_object_new_uint64(framework->live_blocks));
    put(object, "segments", json_object_new_uint64(framework->segments));
    put(object, "pinned_segments", json_object_new_array());
    put(object, "state", NULL);
    return object;
}

static json *contexts_json(const struct vg_report_device *device, struct vg_symbols *symbols)
{
    json *list = json_object_new_array();
    for (unsigned i = 0; i < device->context_count; i++) {
        const struct vg_context *context = device->contexts[i].context;
        json *item = json_object_new_object();
        put(item, "id", json_object_new_uint64(context->id));
        put(item, "primary", json_object_new_boolean(context->primary));
        put(item, "live_bytes", json_object_new_uint64(context->live_bytes));
        put(item, "live_count", json_object_new_uint64(context->live_count));
        put(item, "overhead_bytes", bytes_or_null(device->contexts[i].overhead_bytes));
        put(item, "stack", stack_json(symbols, context->stack));
        json_object_array_add(list, item);
    }
    return list;
}

static json *use_json(const struct vg_report_device *device, struct vg_symbols *symbols)
{
    json *object = json_object_new_object(), *kinds = json_object_new_object(),
         *libraries = json_object_new_array();
    for (unsigned kind = 1; kind < VG_KIND_COUNT; kind++)
        if (vg_kind_layer(kind) == VG_LAYER_DRIVER &&
            (device->device->kind_bytes[kind] || device->kinds_used & 1u << kind))
            put(kinds, vg_kind_key(kind), json_object_new_uint64(device->device->kind_bytes[kind]));
    for (unsigned i = 0; i < device->library_count; i++) {
        json *item = json_object_new_object();
        put(item, "library", text_always(device->libraries[i].library));
        put(item, "bytes", json_object_new_uint64(device->libraries[i].bytes));
        json_object_array_add(libraries, item);
    }
    put(object, "tracked_bytes", json_object_new_uint64(device->tracked_bytes));
    put(object, "alloc_count", json_object_new_uint64(device->alloc_count));
    put(object, "free_count", json_object_new_uint64(device->free_count));
    put(object, "by_kind", kinds);
    put(object, "by_library", libraries);
    put(object, "framework", framework_json(device));
    put(object, "pool_idle_bytes", bytes_or_null(device->pool_idle_bytes));
    put(object, "contexts", contexts_json(device, symbols));
    return object;
}

static json *others_json(const struct vg_report *report, const struct vg_report_device *device)
{
    json *list = json_object_new_array();
    if (!device->free_source)
        return list;
    for (uint32_t i = 0; i < device->device->other_count && i < VG_OTHERS_MAX; i++) {
        const struct vg_other *other = &device->device->other[i];
        json *item = json_object_new_object();
        put(item, "pid", json_object_new_uint64(other->pid));
        put(item, "name", string_of(report, other->name));
        put(item, "bytes", bytes_or_null(other->bytes));
        put(item, "may_be_this_process", json_object_new_boolean(other->may_be_this_process));
        json_object_array_add(list, item);
    }
    return list;
}

static json *uuid_json(const struct vg_device *device)
{
    if (!device->has_uuid)
        return NULL;
    char text[48];
    size_t at = (size_t)snprintf(text, sizeof text, "%s-", device->is_mig ? "MIG" : "GPU");
    for (unsigned i = 0; i < 16; i++)
        at += (size_t)snprintf(text + at, sizeof text - at,
                               i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
                               device->uuid[i]);
    return json_object_new_string(text);
}

static json *device_json(const struct vg_report *report, const struct vg_report_device *device,
                         struct vg_symbols *symbols)
{
    json *object = json_object_new_object();
    put(object, "index", json_object_new_int(device->ordinal));
    put(object, "pci", string_of(report, device->device->pci));
    put(object, "free_source", text_or_null(device->free_source));
    put(object, "free_age", device->free_source ? fraction(device->free_age_seconds) : NULL);
    put(object, "name", string_of(report, device->device->name));
    put(object, "uuid", uuid_json(device->device));
    put(object, "total_bytes", bytes_or_null(device->total_bytes));
    put(object, "free_bytes", bytes_or_null(device->free_bytes));
    put(object, "peak_bytes", json_object_new_uint64(device->peak_bytes));
    put(object, "process", use_json(device, symbols));
    put(object, "others", others_json(report, device));
    put(object, "unattributed_bytes",
        device->has_unattributed ? json_object_new_int64(device->unattributed_bytes) : NULL);
    return object;
}

static json *site_json(const struct vg_report *report, const struct vg_report_site *entry,
                       struct vg_symbols *symbols)
{
    const struct vg_site *site = entry->site;
    const struct vg_device *device =
        site->device ? vg_view_device(report->view, site->device - 1u) : NULL;
    json *object = json_object_new_object();
    put(object, "id", json_object_new_uint64(entry->id));
    put(object, "layer", text_always(vg_layer_key(site->layer)));
    put(object, "kind", text_always(vg_kind_key(site->kind)));
    put(object, "device", device ? json_object_new_int(device->ordinal) : NULL);
    put(object, "library", text_always(entry->library));
    put(object, "api", string_of(report, site->api));
    put(object, "live_bytes", json_object_new_uint64(site->live_bytes));
    put(object, "live_count", json_object_new_uint64(site->live_count));
    put(object, "peak_live_bytes", json_object_new_uint64(site->peak_live_bytes));
    put(object, "live_bytes_at_peak", bytes_or_null(entry->at_peak_bytes));
    put(object, "alloc_count", json_object_new_uint64(site->alloc_count));
    put(object, "free_count", json_object_new_uint64(site->free_count));
    put(object, "first_time", seconds(site->first_ns));
    put(object, "last_time", seconds(site->last_ns));
    put(object, "stack", stack_json(symbols, site->stack));
    return object;
}

static json *objects_json(const struct vg_report *report, struct vg_symbols *symbols)
{
    json *object = json_object_new_object();
    for (unsigned i = 0; i < VG_OBJECT_COUNT; i++) {
        const struct vg_objects *objects = &report->objects[i];
        json *item = json_object_new_object(), *top = json_object_new_array();
        for (unsigned k = 0; k < objects->top_count; k++) {
            json *place = json_object_new_object();
            put(place, "live", json_object_new_uint64(objects->top[k].live));
            put(place, "stack", stack_json(symbols, objects->top[k].stack));
            json_object_array_add(top, place);
        }
        put(item, "live", json_object_new_uint64(objects->live));
        put(item, "created", json_object_new_uint64(objects->created));
        put(item, "destroyed", json_object_new_uint64(objects->destroyed));
        put(item, "top", top);
        put(object, vg_object_key((enum vg_object)i), item);
    }
    return object;
}

/* The text of an evidence or advice that ends with the place of a site. */
static json *text_at(const struct vg_report *report, struct vg_symbols *symbols, const char *text,
                     uint32_t site_id)
{
    const struct vg_site *site = site_id ? vg_view_site(report->view, site_id - 1) : NULL;
    if (!site)
        return text_always(text);
    char *place = vg_render_place(report, symbols, site->stack), *whole = NULL;
    if (asprintf(&whole, "%s: %s", text, place) < 0)
        abort();
    json *value = text_always(whole);
    free(whole);
    free(place);
    return value;
}

static json *verdict_json(const struct vg_report *report, struct vg_symbols *symbols)
{
    json *object = json_object_new_object(), *evidence = json_object_new_array(),
         *advice = json_object_new_array();
    for (unsigned i = 0; i < report->verdict.evidence_count; i++) {
        const struct vg_evidence *line = &report->verdict.evidence[i];
        json *item = json_object_new_object();
        put(item, "text", text_at(report, symbols, line->text, line->site));
        put(item, "value",
            !line->has_value ? NULL
            : line->exact    ? json_object_new_uint64(line->bytes)
                             : json_object_new_double(line->value));
        put(item, "unit", text_or_null(line->unit));
        json_object_array_add(evidence, item);
    }
    for (unsigned i = 0; i < report->verdict.advice_count; i++) {
        const struct vg_advice *row = &report->verdict.advice[i];
        json *item = json_object_new_object();
        put(item, "action", text_always(row->action));
        put(item, "gain_bytes", bytes_or_null(row->gain_bytes));
        put(item, "text", text_at(report, symbols, row->text, row->site));
        json_object_array_add(advice, item);
    }
    put(object, "class", text_always(vg_verdict_key(report->verdict.verdict)));
    put(object, "confidence", fraction(report->verdict.confidence));
    put(object, "summary", text_always(report->verdict.summary));
    put(object, "evidence", evidence);
    put(object, "advice", advice);
    return object;
}

static json *hooks_json(const struct vg_report *report)
{
    const struct vg_header *header = report->view->header;
    json *object = json_object_new_object(), *reached = json_object_new_object(),
         *notes = json_object_new_array();
    put(reached, "driver", json_object_new_boolean(header->reached & VG_REACHED_DRIVER));
    put(reached, "runtime", json_object_new_boolean(header->reached & VG_REACHED_RUNTIME));
    put(reached, "torch", json_object_new_boolean(header->reached & VG_REACHED_TORCH));
    for (unsigned i = 0; i < report->note_count; i++)
        json_object_array_add(notes, text_always(report->notes[i]));
    char saturated[96] = "";
    if (header->unlisted_count)
        snprintf(saturated, sizeof saturated, "%" PRIu64 " allocations not itemised",
                 header->unlisted_count);
    else if (header->saturated & ~(uint32_t)VG_SAT_SLOTS)
        snprintf(saturated, sizeof saturated, "sites, stacks or names are missing");
    put(object, "reached", reached);
    put(object, "fallback_count", json_object_new_uint64(header->fallback_count));
    put(object, "unknown_free_count", json_object_new_uint64(header->unknown_free_count));
    put(object, "saturated", text_or_null(saturated));
    put(object, "notes", notes);
    return object;
}

static json *host_json(const struct vg_report *report)
{
    static const char *const platforms[] = {"linux", "wsl", "tegra"};
    const struct vg_incident *incident = report->incident;
    uint32_t platform = report->view->header->platform;
    json *object = json_object_new_object();
    put(object, "mem_available_bytes",
        bytes_or_null(incident ? incident->mem_available_bytes : VG_UNKNOWN));
    put(object, "cgroup_limit_bytes",
        bytes_or_null(incident ? incident->cgroup_limit_bytes : VG_UNKNOWN));
    put(object, "cgroup_used_bytes",
        bytes_or_null(incident ? incident->cgroup_used_bytes : VG_UNKNOWN));
    put(object, "pinned_bytes", json_object_new_uint64(report->pinned_bytes));
    put(object, "platform", text_always(platforms[platform <= VG_PLATFORM_TEGRA ? platform : 0]));
    return object;
}

static json *report_json(const struct vg_report *report, struct vg_symbols *symbols)
{
    json *root = json_object_new_object(), *devices = json_object_new_array(),
         *sites = json_object_new_array();
    for (unsigned i = 0; i < report->device_count; i++)
        json_object_array_add(devices, device_json(report, &report->devices[i], symbols));
    for (unsigned i = 0; i < report->site_count; i++)
        json_object_array_add(sites, site_json(report, &report->sites[i], symbols));
    put(root, "schema", text_always("vramguard-report/1"));
    put(root, "kind", text_always(vg_render_kind(report)));
    put(root, "process", process_json(report));
    put(root, "failure", failure_json(report, symbols));
    put(root, "devices", devices);
    put(root, "sites", sites);
    put(root, "objects", objects_json(report, symbols));
    put(root, "steps", NULL);
    put(root, "peers", json_object_new_array());
    put(root, "leaks", json_object_new_array());
    put(root, "forecast", NULL);
    put(root, "timeline", json_object_new_array());
    put(root, "verdict", verdict_json(report, symbols));
    put(root, "hooks", hooks_json(report));
    put(root, "host", host_json(report));
    return root;
}

int vg_render_json(const struct vg_report *report, struct vg_symbols *symbols,
                   const struct vg_render_options *options, FILE *out)
{
    (void)options;
    json *root = report_json(report, symbols);
    const char *text = json_object_to_json_string_ext(
        root, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED | JSON_C_TO_STRING_NOSLASHESCAPE);
    int failed = !text || fputs(text, out) < 0 || fputc('\n', out) < 0;
    json_object_put(root);
    return failed ? -1 : 0;
}
