/* text_tables.c -- the two tables of the text report.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The balance of a device, and the largest sites.
 *
 * Holds:      the rows of a balance sum to the device's total on the integers; shown figures are
 *             rounded so that they sum to the shown total.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/render_text.h"

enum {
    ROWS_MAX = 24,
    LABEL_MAX = 160,
    LABEL_WIDTH = 48,
    LIBRARIES_MAX = 5,
    TABLES_MAX = 2,
    BAR_MAX = 30
};
#define GIB ((double)(1u << 30))
#define MIB ((double)(1u << 20))

struct balance {
    char label[ROWS_MAX][LABEL_MAX];
    int64_t bytes[ROWS_MAX];
    unsigned count;
    uint64_t total;
    const char *total_label;
};

static void add_row(struct balance *rows, int64_t bytes, const char *label)
{
    if (rows->count == ROWS_MAX)
        return;
    char *clean = vg_render_clean(label, "?", false);
    snprintf(rows->label[rows->count], LABEL_MAX, "%s", clean);
    free(clean);
    rows->bytes[rows->count++] = bytes;
}

static void add_some(struct balance *rows, uint64_t bytes, const char *label)
{
    if (bytes)
        add_row(rows, (int64_t)bytes, label);
}

/* What the framework's segments take, as far as libraries' bytes cover it: so the rows add up even
 * where a record is short of stacks. */
static void add_framework(struct balance *rows, const struct vg_report_device *device, bool failed)
{
    const struct vg_framework *framework = &device->framework;
    uint64_t inside = 0;
    for (unsigned i = 0; i < device->library_count; i++)
        inside += device->libraries[i].framework_bytes;
    uint64_t live = framework->allocated_bytes < inside ? framework->allocated_bytes : inside;
    uint64_t cached = inside - live, small = framework->small_gaps_bytes;
    char label[LABEL_MAX];
    snprintf(label, sizeof label, "%s: live tensors", framework->name);
    add_some(rows, live, label);
    if (!failed || small == VG_UNKNOWN) {
        snprintf(label, sizeof label, "%s: cached", framework->name);
        add_some(rows, cached, label);
        return;
    }
    small = small < cached ? small : cached;
    snprintf(label, sizeof label, "%s: cached, too small for this request", framework->name);
    add_some(rows, small, label);
    snprintf(label, sizeof label, "%s: cached, other stream, pool or pending", framework->name);
    add_some(rows, cached - small, label);
}

static uint64_t outside(const struct vg_library_bytes *library)
{
    return library->bytes - library->framework_bytes;
}

static void add_libraries(struct balance *rows, const struct vg_report *report,
                          const struct vg_report_device *device)
{
    const char *exe = vg_base_name(vg_view_string(report->view, report->view->header->exe));
    unsigned shown = 0, more = 0;
    uint64_t rest = 0;
    char label[LABEL_MAX];
    for (unsigned i = 0; i < device->library_count; i++) {
        const struct vg_library_bytes *library = &device->libraries[i];
        if (!outside(library))
            continue;
        if (shown == LIBRARIES_MAX) {
            more++;
            rest += outside(library);
            continue;
        }
        shown++;
        const char *name = library->library;
        if (strcmp(name, "unknown") == 0)
            snprintf(label, sizeof label, "this process, library unknown");
        else
            snprintf(label, sizeof label, "%s%s", name,
                     strcmp(name, exe) == 0 ? " (this program)" : "");
        add_some(rows, outside(library), label);
    }
    snprintf(label, sizeof label, "%u other librar%s", more, more == 1 ? "y" : "ies");
    add_some(rows, rest, label);
}

static void add_others(struct balance *rows, const struct vg_report *report,
                       const struct vg_report_device *device)
{
    char label[LABEL_MAX] = "other processes:";
    size_t at = strlen(label);
    const struct vg_device *raw = device->device;
    unsigned more = 0;
    for (uint32_t i = 0; i < raw->other_count && i < VG_OTHERS_MAX; i++) {
        const struct vg_other *other = &raw->other[i];
        if (other->may_be_this_process || other->bytes == VG_UNKNOWN || !other->bytes)
            continue;
        char item[96];
        const char *name = vg_base_name(vg_view_string(report->view, other->name));
        int length = snprintf(item, sizeof item, "%s%u%s%.40s", at > 16 ? ", " : " ", other->pid,
                              *name ? " " : "", name);
        if (at + (size_t)length > LABEL_WIDTH - 4) {
            more++;
            continue;
        }
        memcpy(label + at, item, (size_t)length + 1);
        at += (size_t)length;
    }
    if (more)
        snprintf(label + at, sizeof label - at, "%s%u%s", at > 16 ? " +" : " ", more,
                 at > 16 ? "" : " of them");
    add_some(rows, device->others_bytes, label);
}

static void fill_rows(struct balance *rows, const struct vg_report *report,
                      const struct vg_report_device *device)
{
    bool failed = device == report->failure_device;
    if (device->has_framework)
        add_framework(rows, device, failed);
    add_libraries(rows, report, device);
    rows->total = device->tracked_bytes;
    rows->total_label = "total tracked (the device was not looked at)";
    if (!device->has_unattributed)
        return;
    rows->total = device->total_bytes;
    rows->total_label = "total";
    if (device->pool_idle_bytes != VG_UNKNOWN)
        add_some(rows, device->pool_idle_bytes, "memory pools, idle");
    if (device->overhead_bytes != VG_UNKNOWN)
        add_some(rows, device->overhead_bytes, "CUDA context and code");
    add_others(rows, report, device);
    if (device->unattributed_bytes)
        add_row(rows, device->unattributed_bytes,
                device->unattributed_bytes < 0 ? "counted, not resident"
                : device->overhead_bytes == VG_UNKNOWN
                    ? "not accounted for (CUDA context, code, others)"
                    : "not accounted for");
    add_row(rows, (int64_t)device->free_bytes, "free");
}

/* A fixed-point figure: sign, whole part, decimals. */
static const char *fixed(char to[32], int64_t value, unsigned decimals)
{
    uint64_t scale = decimals == 2 ? 100 : 10;
    uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    snprintf(to, 32, "%s%" PRIu64 ".%0*" PRIu64, value < 0 ? "-" : "", size / scale, (int)decimals,
             size % scale);
    return to;
}

static void print_row(FILE *out, const char *label, int64_t hundredths, int64_t permille,
                      unsigned bar)
{
    static const char full[] = "##############################";
    char bytes[32], percent[32];
    unsigned length = permille > 0 ? (unsigned)((uint64_t)permille * bar / 1000) : 0;
    fprintf(out, "    %-*.*s %9s %6s%s%.*s\n", LABEL_WIDTH, LABEL_WIDTH, label,
            fixed(bytes, hundredths, 2), fixed(percent, permille, 1), length ? "  " : "",
            (int)length, full);
}

static void print_rows(FILE *out, const struct balance *rows, double unit, unsigned width)
{
    int64_t shown[ROWS_MAX], permille[ROWS_MAX], total, whole;
    unsigned fixed_width = 4 + LABEL_WIDTH + 1 + 9 + 1 + 6 + 2;
    unsigned bar = width > fixed_width ? width - fixed_width : 0;
    vg_render_shares(rows->bytes, rows->count, rows->total, unit / 100, shown, &total);
    vg_render_shares(rows->bytes, rows->count, rows->total, (double)rows->total / 1000, permille,
                     &whole);
    for (unsigned i = 0; i < rows->count; i++)
        print_row(out, rows->label[i], shown[i], permille[i], bar < BAR_MAX ? bar : BAR_MAX);
    print_row(out, rows->total_label, total, whole, 0);
}

/* Kinds that are listed and are in no sum: host memory, managed memory, other allocations'
 * aliases. */
static void print_aside(FILE *out, const struct vg_text *text,
                        const struct vg_report_device *device)
{
    char line[256], bytes[VG_BYTES_TEXT_MAX];
    int at = 0;
    for (unsigned kind = 1; kind < VG_KIND_COUNT; kind++) {
        uint64_t size = device->device->kind_bytes[kind];
        if (!size || vg_kind_occupies(kind) || vg_kind_layer(kind) != VG_LAYER_DRIVER)
            continue;
        at += snprintf(line + at, sizeof line - (size_t)at, "%s%s %s", at ? ", " : "",
                       vg_kind_key(kind), vg_bytes_text(bytes, size));
    }
    if (at)
        vg_text_wrapped(out, "    in no sum: ", line, text->width);
}

static void print_device(FILE *out, const struct vg_text *text,
                         const struct vg_report_device *device)
{
    struct balance rows = {.count = 0};
    fill_rows(&rows, text->report, device);
    bool giga = rows.total >= 4 * (uint64_t)GIB;
    char label[LABEL_MAX], peak[VG_BYTES_TEXT_MAX];
    const char *raw = vg_view_string(text->report->view, device->device->name);
    char *name = vg_render_clean(raw, "?", false);
    snprintf(label, sizeof label, "GPU %d  %.24s%speak of this process %s", (int)device->ordinal,
             name, *raw ? ", " : "", vg_bytes_text(peak, device->peak_bytes));
    if (strlen(label) > LABEL_WIDTH + 2) /* a long name pushes the columns aside */
        snprintf(label, sizeof label, "GPU %d  %.24s, own peak %s", (int)device->ordinal, name,
                 peak);
    free(name);
    fprintf(out, "\n  %-*s %9s %6s\n", LABEL_WIDTH + 2, label, giga ? "GiB" : "MiB", "%");
    if (rows.total)
        print_rows(out, &rows, giga ? GIB : MIB, text->width);
    else
        fputs("    nothing is live here, and its size is not known\n", out);
    print_aside(out, text, device);
}

static void print_device_line(FILE *out, const struct vg_text *text,
                              const struct vg_report_device *device)
{
    char tracked[VG_BYTES_TEXT_MAX], peak[VG_BYTES_TEXT_MAX], free_bytes[VG_BYTES_TEXT_MAX];
    bool known = device->free_bytes != VG_UNKNOWN;
    char line[200];
    snprintf(line, sizeof line, "%s live, peak %s%s%s",
             vg_bytes_text(tracked, device->tracked_bytes), vg_bytes_text(peak, device->peak_bytes),
             known ? ", free " : "", known ? vg_bytes_text(free_bytes, device->free_bytes) : "");
    char lead[32];
    snprintf(lead, sizeof lead, "  GPU %d  ", (int)device->ordinal);
    vg_text_wrapped(out, lead, line, text->width);
}

void vg_text_balance(FILE *out, const struct vg_text *text)
{
    const struct vg_report *report = text->report;
    unsigned tables = 0;
    for (unsigned i = 0; i < report->device_count; i++) {
        const struct vg_report_device *device = &report->devices[i];
        bool wanted = report->failure_device ? device == report->failure_device
                                             : device->peak_bytes || report->device_count == 1;
        if (wanted && tables < TABLES_MAX) {
            print_device(out, text, device);
            tables++;
        }
    }
    for (unsigned i = 0, lines = 0; i < report->device_count && lines < 8; i++) {
        const struct vg_report_device *device = &report->devices[i];
        bool used = device->peak_bytes || device->context_count;
        if (report->failure_device && device != report->failure_device && used) {
            print_device_line(out, text, device);
            lines++;
        }
    }
}

static bool site_is_shown(const struct vg_report *report, const struct vg_report_site *entry)
{
    const struct vg_report_device *failed = report->failure_device;
    return entry->site->live_bytes && !entry->segment &&
           (!failed || entry->site->device == failed->index + 1 || !entry->site->device);
}

/* The place of a site; behind it the library where a reader would not guess it. */
static char *site_label(const struct vg_text *text, const struct vg_report_site *entry)
{
    const char *exe =
        vg_base_name(vg_view_string(text->report->view, text->report->view->header->exe));
    char *place = vg_render_place(text->report, text->symbols, entry->site->stack), *label = NULL;
    bool block = entry->site->kind == VG_KIND_BLOCK;
    bool aside = !block && !vg_kind_occupies(entry->site->kind);
    bool foreign = !block && strcmp(entry->library, exe) != 0 &&
                   strcmp(entry->library, place) != 0 && strcmp(entry->library, "unknown") != 0;
    if (asprintf(&label, "%s%s%s%s%s%s", aside ? "[" : "",
                 aside ? vg_kind_key(entry->site->kind) : "", aside ? "] " : "",
                 foreign ? entry->library : "", foreign ? ": " : "", place) < 0)
        abort();
    free(place);
    char *clean = vg_render_clean(label, "?", false);
    free(label);
    return clean;
}

/* At most `width` bytes, never half a character. */
static void shorten(char *label, unsigned width)
{
    if (strlen(label) <= width)
        return;
    unsigned cut = width - 3;
    while (cut && (label[cut] & 0xc0) == 0x80)
        cut--;
    memcpy(label + cut, "...", 4);
}

void vg_text_sites(FILE *out, const struct vg_text *text, unsigned most)
{
    const struct vg_report *report = text->report;
    unsigned width = text->width > 60 ? text->width - 26 : 34, shown = 0, more = 0;
    bool giga = false;
    for (unsigned i = 0; i < report->site_count; i++)
        giga |= report->sites[i].site->live_bytes >= (uint64_t)GIB;
    for (unsigned i = 0; i < report->site_count; i++) {
        const struct vg_report_site *entry = &report->sites[i];
        if (!site_is_shown(report, entry))
            continue;
        if (shown == most) {
            more++;
            continue;
        }
        if (shown++ == 0)
            fprintf(out, "\n  %-*s %9s %9s\n", (int)width + 2, "largest sites, live now", "blocks",
                    giga ? "GiB" : "MiB");
        char *label = site_label(text, entry);
        shorten(label, width);
        fprintf(out, "    %-*s %9" PRIu64 " %9.2f\n", (int)width, label, entry->site->live_count,
                (double)entry->site->live_bytes / (giga ? GIB : MIB));
        free(label);
    }
    if (more)
        fprintf(out, "    and %u more\n", more);
}
