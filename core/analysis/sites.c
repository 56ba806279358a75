/* sites.c -- the sites with live memory (no objects), largest first, and what each library holds.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Holds:      the libraries of a device sum to its tracked_bytes: what no listed site holds (a full
 *             record) goes to "unknown".
 */
#include <stdlib.h>
#include <string.h>

#include "core/analysis/analysis.h"

bool vg_report_is_plumbing(const char *module_path)
{
    static const char *const names[] = {"libcuda.so",      "libcudart", "libvramguard",
                                        "libnvidia-ml.so", "libffi.so", "_ctypes.",
                                        "_ctypes_cuda",    "linux-vdso"};
    const char *base = vg_base_name(module_path);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (vg_text_starts(base, names[i]))
            return true;
    return !*base;
}

static const char *frame_module(const struct vg_view *view, uint32_t frame_id)
{
    const struct vg_frame *frame = frame_id ? vg_view_frame(view, frame_id - 1) : NULL;
    if (!frame || frame->lang != VG_LANG_NATIVE || !frame->module)
        return NULL;
    const struct vg_module *module = vg_view_module(view, frame->module - 1);
    return module ? vg_view_string(view, module->path) : NULL;
}

const char *vg_report_library(const struct vg_view *view, uint32_t stack)
{
    uint32_t head;
    const uint32_t *frames;
    if (!vg_view_stack(view, stack, &head, &frames))
        return "unknown";
    for (uint32_t i = 0; i < vg_stack_native(head); i++) {
        const char *path = frame_module(view, frames[i]);
        if (path && !vg_report_is_plumbing(path))
            return vg_base_name(path);
    }
    return "unknown";
}

bool vg_report_stack_has(const struct vg_view *view, uint32_t stack, const char *module_prefix)
{
    uint32_t head;
    const uint32_t *frames;
    if (!vg_view_stack(view, stack, &head, &frames))
        return false;
    for (uint32_t i = 0; i < vg_stack_native(head); i++) {
        const char *path = frame_module(view, frames[i]);
        if (path && vg_text_starts(vg_base_name(path), module_prefix))
            return true;
    }
    return false;
}

static int larger_first(const void *left, const void *right)
{
    const struct vg_report_site *a = left, *b = right;
    if (a->site->live_bytes != b->site->live_bytes)
        return a->site->live_bytes < b->site->live_bytes ? 1 : -1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static struct vg_report_device *device_of(struct vg_report *report, uint16_t device)
{
    for (unsigned i = 0; i < report->device_count; i++)
        if (report->devices[i].index + 1 == device)
            return &report->devices[i];
    return NULL;
}

static void list_site(struct vg_report *report, const struct vg_site *site, uint32_t id)
{
    const char *library = vg_report_library(report->view, site->stack);
    report->site_libraries[id - 1] = library;
    report->sites =
        vg_report_grow(report, report->sites, report->site_count, sizeof *report->sites);
    report->sites[report->site_count++] =
        (struct vg_report_site){.site = site,
                                .id = id,
                                .library = library,
                                .at_peak_bytes = vg_view_site_at_peak(report->view, site)};
}

static void add_bytes(struct vg_report *report, struct vg_report_device *device,
                      const char *library, uint64_t bytes)
{
    for (unsigned i = 0; i < device->library_count; i++) {
        if (strcmp(device->libraries[i].library, library) == 0) {
            device->libraries[i].bytes += bytes;
            return;
        }
    }
    device->libraries =
        vg_report_grow(report, device->libraries, device->library_count, sizeof *device->libraries);
    device->libraries[device->library_count++] =
        (struct vg_library_bytes){.library = library, .bytes = bytes};
}

static int more_bytes_first(const void *left, const void *right)
{
    const struct vg_library_bytes *a = left, *b = right;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return strcmp(a->library, b->library);
}

static void fill_libraries(struct vg_report *report)
{
    for (unsigned i = 0; i < report->site_count; i++) {
        const struct vg_site *site = report->sites[i].site;
        struct vg_report_device *device = device_of(report, site->device);
        if (device && site->live_bytes && vg_kind_occupies(site->kind))
            add_bytes(report, device, report->sites[i].library, site->live_bytes);
    }
    for (unsigned i = 0; i < report->device_count; i++) {
        struct vg_report_device *device = &report->devices[i];
        uint64_t rest = device->tracked_bytes;
        for (unsigned k = 0; k < device->library_count; k++) {
            if (device->libraries[k].bytes > rest)
                device->libraries[k].bytes = rest;
            rest -= device->libraries[k].bytes;
        }
        if (rest)
            add_bytes(report, device, "unknown", rest);
        if (device->library_count)
            qsort(device->libraries, device->library_count, sizeof *device->libraries,
                  more_bytes_first);
    }
}

static bool is_stream_ordered(uint8_t kind)
{
    return kind == VG_KIND_POOL || kind == VG_KIND_GRAPH;
}

static void add_origin(struct vg_report_site *into, const struct vg_slot *slot)
{
    uint64_t stream = is_stream_ordered(slot->kind) ? slot->stream : 0;
    if (slot->flags & VG_SLOT_CAPTURED)
        into->captured_bytes += slot->bytes;
    into->thread = into->has_live && into->thread != slot->thread ? 0 : slot->thread;
    into->stream = into->has_live && into->stream != stream ? 0 : stream;
    into->has_live = true;
}

/* Who made what lives at each site, and when: slot by slot. */
static void fill_origins(struct vg_report *report)
{
    uint64_t sites = vg_view_count(report->view, VG_SEC_SITES);
    uint64_t slots = vg_view_count(report->view, VG_SEC_SLOTS);
    struct vg_report_site **of = vg_report_alloc(report, sites + 1, sizeof *of);
    for (unsigned i = 0; i < report->site_count; i++)
        of[report->sites[i].id] = &report->sites[i];
    for (uint64_t i = 0; i < slots; i++) {
        const struct vg_slot *slot = vg_view_slot(report->view, i);
        if (slot->kind != VG_KIND_NONE && slot->site <= sites && of[slot->site])
            add_origin(of[slot->site], slot);
    }
}

void vg_analysis_sites(struct vg_report *report)
{
    uint64_t count = vg_view_count(report->view, VG_SEC_SITES);
    uint32_t failing = report->failure ? report->failure->site : 0;
    report->site_libraries = vg_report_alloc(report, count, sizeof *report->site_libraries);
    for (uint64_t i = 0; i < count; i++) {
        const struct vg_site *site = vg_view_site(report->view, i);
        if (!site)
            continue;
        struct vg_report_device *device = device_of(report, site->device);
        if (device && site->alloc_count && site->kind < VG_KIND_COUNT)
            device->kinds_used |= 1u << site->kind;
        if (site->kind == VG_KIND_PINNED)
            report->pinned_bytes += site->live_bytes;
        bool is_memory = vg_kind_layer(site->kind) != VG_LAYER_OBJECT;
        if ((is_memory && (site->live_count || site->live_bytes)) || i + 1 == failing)
            list_site(report, site, (uint32_t)i + 1);
    }
    if (report->site_count)
        qsort(report->sites, report->site_count, sizeof *report->sites, larger_first);
    fill_origins(report);
    fill_libraries(report);
}
