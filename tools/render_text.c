/* render_text.c -- the report for people.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What happened, the verdict, the balance, the largest sites, what to do.
 *
 * Holds:      one block of at most about 40 lines that starts and ends with a line "VRAMGuard:
 *             ..."; written in one piece. Names from the record can not drive a terminal: control
 *             characters are replaced.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/render_text.h"

enum {
    WIDTH_DEFAULT = 100,
    WIDTH_LEAST = 76,
    WIDTH_MOST = 120,
    SITES_MAX = 6,
    ADVICE_MAX = 4,
    EVIDENCE_MAX = 4,
    NOTES_MAX = 3
};

/* Length of the piece at `text` that stays on one line: a word, with the unit that follows a number
 * and what an arrow points to. */
static size_t piece_length(const char *text)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "B", "%"};
    size_t length = strcspn(text, " ");
    if (strncmp(text, "<-", 2) == 0 && text[2] == ' ')
        return 3 + strcspn(text + 3, " ");
    for (size_t i = 0; i < sizeof units / sizeof units[0] && text[length]; i++) {
        size_t size = strlen(units[i]);
        if (strncmp(text + length + 1, units[i], size) == 0)
            return length + 1 + strcspn(text + length + 1, " ");
    }
    return length;
}

void vg_text_wrapped(FILE *out, const char *lead, const char *text, unsigned width)
{
    size_t indent = strlen(lead), at = indent, gap = 0;
    fputs(lead, out);
    while (*text) {
        size_t length = piece_length(text);
        if (gap && at + gap + length > width) {
            fprintf(out, "\n%*s", (int)indent, "");
            at = indent;
            gap = 0;
        }
        fprintf(out, "%*s%.*s", (int)gap, "", (int)length, text);
        at += gap + length;
        text += length;
        gap = strspn(text, " ");
        text += gap;
    }
    fputc('\n', out);
}

static void clean_into(char *to, size_t size, const char *text)
{
    char *clean = vg_render_clean(text, "?", false);
    snprintf(to, size, "%s", clean);
    free(clean);
}

/* "python train.py --batch 64": paths by their base name, the whole cut to what a head line
 * bears. */
static void command_text(const struct vg_report *report, char *to, size_t size)
{
    enum { COMMAND_MAX = 48 };
    const char *line = vg_view_string(report->view, report->view->header->cmdline);
    char whole[256] = "";
    size_t at = 0;
    if (!*line)
        line = vg_view_string(report->view, report->view->header->exe);
    while (*line && at < COMMAND_MAX) {
        char argument[200];
        size_t length = strcspn(line, "\x1f");
        snprintf(argument, sizeof argument, "%.*s", (int)(length < 4096 ? length : 4096), line);
        at += (size_t)snprintf(whole + at, sizeof whole - at, "%s%.100s", at ? " " : "",
                               at && argument[0] != '/' ? argument : vg_base_name(argument));
        line += length + (line[length] != 0);
    }
    if (at > COMMAND_MAX || *line)
        snprintf(whole + (at < COMMAND_MAX - 3 ? at : COMMAND_MAX - 3), 4, "...");
    clean_into(to, size, whole);
}

static const char *duration_text(char *to, size_t size, double seconds)
{
    uint64_t whole = seconds > 0 ? (uint64_t)seconds : 0;
    if (whole >= 86400)
        snprintf(to, size, "%" PRIu64 " d %" PRIu64 " h", whole / 86400, whole % 86400 / 3600);
    else if (whole >= 3600)
        snprintf(to, size, "%" PRIu64 " h %" PRIu64 " min", whole / 3600, whole % 3600 / 60);
    else if (whole >= 60)
        snprintf(to, size, "%" PRIu64 " min %" PRIu64 " s", whole / 60, whole % 60);
    else if (whole)
        snprintf(to, size, "%.1f s", seconds);
    else
        snprintf(to, size, "%.0f ms", seconds > 0 ? seconds * 1000 : 0);
    return to;
}

static void print_failure_head(FILE *out, const struct vg_report *report)
{
    const struct vg_incident *failure = report->failure;
    const struct vg_report_device *device = report->failure_device;
    if (failure->error == 2 || failure->error == 0)
        fputs("VRAMGuard: out of memory", out);
    else if (report->failure_name)
        fprintf(out, "VRAMGuard: %s", report->failure_name);
    else
        fprintf(out, "VRAMGuard: error %d", (int)failure->error);
    if (device)
        fprintf(out, " on GPU %d", (int)device->ordinal);
    if (failure->outcome == VG_OUTCOME_RECOVERED)
        fputs(", saved by a retry,", out);
}

static void print_head(FILE *out, const struct vg_report *report)
{
    const struct vg_header *header = report->view->header;
    char command[128], after[48];
    command_text(report, command, sizeof command);
    duration_text(after, sizeof after, report->uptime);
    if (report->failure) {
        print_failure_head(out, report);
        fprintf(out, " after %s (pid %u, %s)\n", after, header->pid, command);
    } else if (report->kind == VG_INCIDENT_SNAPSHOT) {
        fprintf(out, "VRAMGuard: pid %u (%s) is running, after %s\n", header->pid, command, after);
    } else if (report->kind == VG_INCIDENT_WARNING) {
        fprintf(out, "VRAMGuard: warning after %s (pid %u, %s)\n", after, header->pid, command);
    } else if (header->ended == VG_ENDED_CODE) {
        fprintf(out, "VRAMGuard: pid %u (%s) ended with status %u after %s\n", header->pid, command,
                header->exit_status, after);
    } else if (header->ended == VG_ENDED_NO) {
        fprintf(out, "VRAMGuard: pid %u (%s) was killed or crashed; its last event came after %s\n",
                header->pid, command, after);
    } else {
        fprintf(out, "VRAMGuard: pid %u (%s) ended after %s\n", header->pid, command, after);
    }
}

static const char *requester(const struct vg_report *report)
{
    const char *family = vg_view_string(report->view, report->failure->family);
    const char *exe = vg_base_name(vg_view_string(report->view, report->view->header->exe));
    if (*family)
        return family;
    return strcmp(report->failure_library, exe) == 0 ? "" : report->failure_library;
}

/* The driver call behind the request, where it says more than the request does. */
static void print_call(FILE *out, const struct vg_report *report, unsigned width)
{
    const struct vg_incident *failure = report->failure;
    const char *api = vg_view_string(report->view, failure->api);
    const char *via = vg_view_string(report->view, failure->via);
    char line[512], bytes[VG_BYTES_TEXT_MAX], clean[512];
    int at = 0;
    if (!*api)
        at += snprintf(line + at, sizeof line - (size_t)at, "no driver call was made");
    else
        at += snprintf(line + at, sizeof line - (size_t)at, "%.80s", api);
    if (*api && failure->bytes != VG_UNKNOWN)
        at += snprintf(line + at, sizeof line - (size_t)at, " of %s",
                       vg_bytes_text(bytes, failure->bytes));
    if (*via && strcmp(via, api) != 0)
        at += snprintf(line + at, sizeof line - (size_t)at, " through %.80s", via);
    if (failure->attempts > 1)
        at += snprintf(line + at, sizeof line - (size_t)at, ", tried %u times", failure->attempts);
    if (failure->count > 1)
        snprintf(line + at, sizeof line - (size_t)at, ", failure %" PRIu64 " of this site",
                 failure->count);
    clean_into(clean, sizeof clean, line);
    vg_text_wrapped(out, "           ", clean, width);
}

static void print_request(FILE *out, struct vg_text *text)
{
    const struct vg_report *report = text->report;
    if (!report->failure)
        return;
    char bytes[VG_BYTES_TEXT_MAX], who[96], *place, *line = NULL;
    place = vg_render_place(report, text->symbols, report->failure->stack);
    clean_into(who, sizeof who, requester(report));
    if (asprintf(&line, "%s%s%s at %s",
                 report->request_bytes == VG_UNKNOWN ? "unknown size"
                                                     : vg_bytes_text(bytes, report->request_bytes),
                 *who ? " by " : "", who, place) < 0)
        abort();
    vg_text_wrapped(out, "  request  ", line, text->width);
    free(line);
    free(place);
    print_call(out, report, text->width);
}

static void print_verdict(FILE *out, const struct vg_text *text)
{
    const struct vg_report *report = text->report;
    if (!report->failure) {
        vg_text_wrapped(out, "  summary  ", report->verdict.summary, text->width);
        return;
    }
    const char *key = vg_verdict_key(report->verdict.verdict), *summary = report->verdict.summary;
    char *line = NULL;
    int made = report->verdict.confidence > 0
                   ? asprintf(&line, "%s (%.2f): %s", key, report->verdict.confidence, summary)
                   : asprintf(&line, "%s: %s", key, summary);
    if (made < 0)
        abort();
    char *clean = vg_render_clean(line, "?", false);
    fputs(text->color ? "\033[1m" : "", out);
    vg_text_wrapped(out, "  verdict  ", clean, text->width);
    fputs(text->color ? "\033[0m" : "", out);
    free(clean);
    free(line);
}

/* A text, and behind it the place of the site that it names. */
static void print_line_at(FILE *out, const struct vg_text *text, const char *lead, const char *line,
                          uint32_t site_id)
{
    const struct vg_site *site = site_id ? vg_view_site(text->report->view, site_id - 1) : NULL;
    char *place = site ? vg_render_place(text->report, text->symbols, site->stack) : NULL;
    char *clean = vg_render_clean(line, "?", false), *whole = NULL;
    if (asprintf(&whole, "%s%s%s", clean, place ? ": " : "", place ? place : "") < 0)
        abort();
    vg_text_wrapped(out, lead, whole, text->width);
    free(whole);
    free(clean);
    free(place);
}

/* Without what the summary and the tables say. */
static void print_evidence(FILE *out, const struct vg_text *text)
{
    const struct vg_report *report = text->report;
    for (unsigned i = 0, shown = 0; i < report->verdict.evidence_count && shown < EVIDENCE_MAX;
         i++) {
        const struct vg_evidence *evidence = &report->verdict.evidence[i];
        if (evidence->site || evidence->is_shown)
            continue;
        print_line_at(out, text, "           ", evidence->text, 0);
        shown++;
    }
}

static void print_advice(FILE *out, const struct vg_text *text)
{
    const struct vg_report *report = text->report;
    if (!report->verdict.advice_count)
        return;
    fputs("\n  what to do\n", out);
    for (unsigned i = 0; i < report->verdict.advice_count && i < ADVICE_MAX; i++) {
        const struct vg_advice *row = &report->verdict.advice[i];
        char lead[16], bytes[VG_BYTES_TEXT_MAX], *line = NULL;
        snprintf(lead, sizeof lead, "    %u. ", i + 1);
        int made = row->gain_bytes == VG_UNKNOWN ? asprintf(&line, "%s", row->text)
                                                 : asprintf(&line, "%s (%s)", row->text,
                                                            vg_bytes_text(bytes, row->gain_bytes));
        if (made < 0)
            abort();
        print_line_at(out, text, lead, line, row->site);
        free(line);
    }
}

/* One line, and only where there are so many that it explains something. */
static void print_objects(FILE *out, const struct vg_text *text)
{
    const struct vg_report *report = text->report;
    char *line = NULL;
    size_t bytes = 0;
    FILE *into = open_memstream(&line, &bytes);
    if (!into)
        abort();
    for (unsigned i = 0; i < VG_OBJECT_COUNT; i++) {
        const struct vg_objects *objects = &report->objects[i];
        if (!vg_objects_are_remarkable(report, (enum vg_object)i))
            continue;
        fprintf(into, "%s%" PRIu64 " live %s", ftell(into) ? "; " : "", objects->live,
                vg_object_key((enum vg_object)i));
        char *place = vg_render_place(report, text->symbols, objects->top[0].stack);
        fprintf(into, ", %" PRIu64 " of them made at %s", objects->top[0].live, place);
        free(place);
    }
    if (fclose(into))
        abort();
    fputs(bytes ? "\n" : "", out);
    if (bytes)
        vg_text_wrapped(out, "  objects  ", line, text->width);
    free(line);
}

/* "0x7f.. (2.0 MiB) freed again at X, 3 times; first at Y 1.2 ms before, allocated at Z" */
static void print_fault(FILE *out, const struct vg_text *text, const struct vg_fault *fault)
{
    static const char *const what[VG_FAULT_COUNT] = {"", "no allocation known, freed at ",
                                                     "freed again at ", "live, not freed at "};
    const struct vg_view *view = text->report->view;
    char *line = NULL, size_text[32] = "";
    size_t bytes = 0;
    FILE *into = open_memstream(&line, &bytes);
    if (!into)
        abort();
    char *place = vg_render_place(text->report, text->symbols, fault->stack);
    if (fault->bytes != VG_UNKNOWN)
        vg_bytes_text(size_text, fault->bytes);
    fprintf(into, "0x%" PRIx64 "%s%s%s: %s%s (status %d, %" PRIu64 " times)", fault->addr,
            size_text[0] ? " (" : "", size_text, size_text[0] ? ")" : "", what[fault->kind], place,
            fault->status, fault->count);
    free(place);
    if (fault->kind == VG_FAULT_DOUBLE) {
        place = vg_render_place(text->report, text->symbols, fault->first.stack);
        fprintf(into, "; first by %s at %s", vg_view_string(view, fault->first.api), place);
        free(place);
    }
    const struct vg_site *site =
        fault->first.site ? vg_view_site(view, fault->first.site - 1) : NULL;
    if (site) {
        place = vg_render_place(text->report, text->symbols, site->stack);
        fprintf(into, "; allocated at %s", place);
        free(place);
    }
    if (fclose(into))
        abort();
    vg_text_wrapped(out, "  refused free  ", line, text->width);
    free(line);
}

static void print_faults(FILE *out, const struct vg_text *text)
{
    enum { FAULTS_SHOWN = 3 };
    uint64_t count = vg_view_count(text->report->view, VG_SEC_FAULTS);
    for (uint64_t i = 0; i < count && i < FAULTS_SHOWN; i++)
        print_fault(out, text, vg_view_fault(text->report->view, i));
    if (count > FAULTS_SHOWN)
        fprintf(out, "  %" PRIu64 " more places of refused frees in the JSON\n",
                count - FAULTS_SHOWN);
}

static void print_notes(FILE *out, const struct vg_text *text)
{
    const struct vg_report *report = text->report;
    if (report->note_count)
        fputc('\n', out);
    for (unsigned i = 0; i < report->note_count && i < NOTES_MAX; i++)
        vg_text_wrapped(out, "  note: ", report->notes[i], text->width);
    if (report->note_count > NOTES_MAX)
        fprintf(out, "  %u more notes in the JSON\n", report->note_count - NOTES_MAX);
}

/* As a shell takes it. */
static void print_argument(FILE *out, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789_./+-=:,@%";
    if (!text[strspn(text, plain)]) {
        fputs(text, out);
        return;
    }
    fputc('\'', out);
    for (; *text; text++)
        fputs(*text == '\'' ? "'\\''" : (char[]){*text, 0}, out);
    fputc('\'', out);
}

static void print_end(FILE *out, const struct vg_render_options *options)
{
    const char *json = options ? options->json_path : NULL;
    const char *record = options ? options->record_path : NULL;
    char *json_clean = vg_render_clean(json ? json : "", "?", false);
    char *record_clean = vg_render_clean(record ? record : "", "?", false);
    if (*json_clean && *record_clean) {
        fprintf(out, "VRAMGuard: JSON %s; again: vramguard report ", json_clean);
        print_argument(out, record_clean);
        fputc('\n', out);
    } else if (*json_clean)
        fprintf(out, "VRAMGuard: JSON %s\n", json_clean);
    else if (*record_clean)
        fprintf(out, "VRAMGuard: made from %s\n", record_clean);
    else
        fputs("VRAMGuard: end of report\n", out);
    free(record_clean);
    free(json_clean);
}

static unsigned width_of(const struct vg_render_options *options)
{
    unsigned width = options && options->width ? options->width : WIDTH_DEFAULT;
    return width < WIDTH_LEAST ? WIDTH_LEAST : width > WIDTH_MOST ? WIDTH_MOST : width;
}

int vg_render_text(const struct vg_report *report, struct vg_symbols *symbols,
                   const struct vg_render_options *options, FILE *out)
{
    struct vg_text text = {.report = report,
                           .symbols = symbols,
                           .width = width_of(options),
                           .color = options && options->color};
    char *block = NULL;
    size_t bytes = 0;
    FILE *into = open_memstream(&block, &bytes);
    if (!into)
        abort();
    print_head(into, report);
    print_request(into, &text);
    print_verdict(into, &text);
    print_evidence(into, &text);
    vg_text_balance(into, &text);
    vg_text_sites(into, &text, SITES_MAX);
    print_objects(into, &text);
    print_faults(into, &text);
    print_advice(into, &text);
    print_notes(into, &text);
    print_end(into, options);
    if (fclose(into))
        abort();
    int failed = fwrite(block, 1, bytes, out) != bytes;
    free(block);
    return failed ? -1 : 0;
}
