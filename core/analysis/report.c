/* report.c -- runs the analyses and owns what they make.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:      view -> here -> renderers.
 * Not here:   names of frames (tools/symbolize.c), words and tables (tools/render_*.c).
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/analysis/analysis.h"

struct vg_report_piece {
    struct vg_report_piece *next;
    max_align_t data[];
};

void *vg_report_alloc(struct vg_report *report, size_t count, size_t size)
{
    struct vg_report_piece *piece = NULL;
    if (!size || count <= (SIZE_MAX - sizeof *piece) / size)
        piece = calloc(1, sizeof *piece + count * size);
    if (!piece)
        abort();
    piece->next = report->pieces;
    report->pieces = piece;
    return piece->data;
}

void *vg_report_grow(struct vg_report *report, void *array, size_t count, size_t size)
{
    if (count & (count - 1)) /* full only at 0, 1, 2, 4, ... */
        return array;
    void *larger = vg_report_alloc(report, count ? 2 * count : 1, size);
    if (count)
        memcpy(larger, array, count * size);
    return larger;
}

__attribute__((format(printf, 2, 0))) static char *format_list(struct vg_report *report,
                                                               const char *format, va_list list)
{
    char *text = NULL;
    if (vasprintf(&text, format, list) < 0)
        abort();
    size_t bytes = strlen(text) + 1;
    char *kept = vg_report_alloc(report, 1, bytes);
    memcpy(kept, text, bytes);
    free(text);
    return kept;
}

char *vg_report_format(struct vg_report *report, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    char *text = format_list(report, format, list);
    va_end(list);
    return text;
}

struct vg_evidence *vg_report_evidence(struct vg_report *report, const char *format, ...)
{
    unsigned count = report->verdict.evidence_count;
    struct vg_evidence *all =
        vg_report_grow(report, report->verdict.evidence, count, sizeof *report->verdict.evidence);
    report->verdict.evidence = all;
    report->verdict.evidence_count = count + 1;
    va_list list;
    va_start(list, format);
    all[count] = (struct vg_evidence){.text = format_list(report, format, list)};
    va_end(list);
    return &all[count];
}

void vg_report_note(struct vg_report *report, const char *format, ...)
{
    report->notes =
        vg_report_grow(report, report->notes, report->note_count, sizeof *report->notes);
    va_list list;
    va_start(list, format);
    report->notes[report->note_count++] = format_list(report, format, list);
    va_end(list);
}

/* A live process: now. A failure: its moment. A process that has ended: its end, or the last event
 * where it was killed. */
static uint64_t moment(const struct vg_report *report, const struct vg_report_request *request)
{
    const struct vg_header *header = report->view->header;
    if (report->incident)
        return report->incident->time_ns;
    if (request->alive && request->now_ns)
        return request->now_ns;
    if (header->ended != VG_ENDED_NO && header->ended_ns)
        return header->ended_ns;
    return header->last_event_ns;
}

enum vg_status vg_report_build(const struct vg_view *view, const struct vg_report_request *request,
                               struct vg_report *out)
{
    struct vg_report report = {.view = view, .alive = request->alive, .request_bytes = VG_UNKNOWN};
    if (request->incident) {
        report.incident = vg_view_incident(view, request->incident - 1);
        if (!report.incident || report.incident->kind < VG_INCIDENT_OOM ||
            report.incident->kind > VG_INCIDENT_SNAPSHOT)
            return VG_INVALID;
        report.kind = report.incident->kind;
    } else {
        report.kind = request->alive ? VG_INCIDENT_SNAPSHOT : VG_INCIDENT_EXIT;
    }
    if (report.kind == VG_INCIDENT_OOM)
        report.failure = report.incident;
    report.time_ns = moment(&report, request);
    report.uptime = (double)report.time_ns / 1e9;
#define ANALYSIS(name) vg_analysis_##name(&report);
#include "core/analysis/analysis.def"
    *out = report;
    return VG_OK;
}

void vg_report_free(struct vg_report *report)
{
    struct vg_report_piece *piece = report->pieces;
    while (piece) {
        struct vg_report_piece *next = piece->next;
        free(piece);
        piece = next;
    }
    *report = (struct vg_report){0};
}

const char *vg_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

bool vg_text_starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

const char *vg_bytes_text(char buffer[VG_BYTES_TEXT_MAX], uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        snprintf(buffer, VG_BYTES_TEXT_MAX, "%u B", (unsigned)bytes);
        return buffer;
    }
    double value = (double)bytes / 1024;
    unsigned unit = 0;
    for (; value >= 1023.95 && unit < 5; unit++)
        value /= 1024;
    snprintf(buffer, VG_BYTES_TEXT_MAX, "%.1f %s", value, units[unit]);
    return buffer;
}

const char *vg_verdict_key(enum vg_verdict_class verdict)
{
    static const char *const keys[] = {
#define VERDICT(NAME, key) key,
#include "core/analysis/verdict.def"
    };
    return (unsigned)verdict < VG_VERDICT_COUNT ? keys[verdict] : "unknown";
}

const char *vg_error_name(int32_t code)
{
    switch (code) {
#define ERROR(number, name)                                                                        \
    case number:                                                                                   \
        return name;
#include "core/analysis/errors.def"
    default:
        return NULL;
    }
}
