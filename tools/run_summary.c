/* run_summary.c -- the one line at the end of `vramguard run`.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tools/run_summary.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "core/analysis/report.h"
#include "tools/alloc.h"
#include "tools/cli.h"
#include "tools/find_record.h"

struct totals {
    unsigned process_count;
    bool program_ended; /* the program itself left its line */
    uint64_t peak_bytes[VG_DEVICES_MAX];
    bool peak_known[VG_DEVICES_MAX];
    uint64_t incidents, reports, unreported;
    bool bounded; /* a process has written as many reports as it may */
    unsigned kept_count;
    char *record; /* the last one that was kept */
    bool killed;  /* record is that of a program that ended without a word */
};

uint64_t vg_run_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void note_peak(struct totals *totals, uint64_t ordinal, uint64_t bytes)
{
    if (ordinal >= VG_DEVICES_MAX)
        return;
    totals->peak_known[ordinal] = true;
    if (bytes > totals->peak_bytes[ordinal])
        totals->peak_bytes[ordinal] = bytes;
}

static uint64_t number_after(const char *line, const char *key)
{
    const char *at = strstr(line, key);
    return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

static void note_counts(const struct vg_run_end *end, struct totals *totals, uint64_t incidents,
                        uint64_t reports)
{
    totals->incidents += incidents;
    totals->reports += reports;
    if (incidents > reports)
        totals->unreported += incidents - reports;
    totals->bounded = totals->bounded || (incidents > reports && reports >= end->max_reports);
}

static void note_peaks(struct totals *totals, const char *line)
{
    const char *at = strstr(line, " peak=");
    at = at ? at + strlen(" peak=") : "";
    while (*at >= '0' && *at <= '9') {
        char *next;
        uint64_t ordinal = strtoull(at, &next, 10);
        if (*next != ':')
            return;
        note_peak(totals, ordinal, strtoull(next + 1, &next, 10));
        at = *next == ',' ? next + 1 : next;
    }
}

/* The path of the record is last: it may hold spaces. */
static void note_record(struct totals *totals, const char *line)
{
    const char *path = strstr(line, " record=");
    if (!path || !number_after(line, " kept="))
        return;
    path += strlen(" record=");
    totals->kept_count++;
    free(totals->record);
    totals->record = vg_need(strndup(path, strcspn(path, "\n")));
}

static void read_summary(const struct vg_run_end *end, struct totals *totals)
{
    FILE *file = end->summary ? fopen(end->summary, "re") : NULL;
    char *line = NULL;
    size_t room = 0;
    while (file && getline(&line, &room, file) > 0) {
        if (strncmp(line, "pid=", 4))
            continue;
        totals->process_count++;
        if (strtoull(line + 4, NULL, 10) == (uint64_t)end->pid)
            totals->program_ended = true;
        note_peaks(totals, line);
        note_counts(end, totals, number_after(line, " incidents="),
                    number_after(line, " reports="));
        note_record(totals, line);
    }
    free(line);
    if (file)
        fclose(file);
}

/* A program that was killed, or ended past every exit handler: its record is there. */
static void read_left_record(const struct vg_run_end *end, struct totals *totals)
{
    char *path = vg_find_left_record(end->directory, (uint32_t)end->pid, end->started_ns);
    struct vg_view view;
    char why[256];
    if (!path)
        return;
    totals->killed = true;
    totals->process_count++;
    totals->kept_count++;
    free(totals->record);
    totals->record = path;
    if (vg_view_open(&view, path, why, sizeof(why)) != VG_OK)
        return;
    for (uint64_t i = 0; i < vg_view_count(&view, VG_SEC_DEVICES); i++) {
        const struct vg_device *device = vg_view_device(&view, i);
        if (device && device->ordinal >= 0)
            note_peak(totals, (uint64_t)device->ordinal, device->peak_bytes[VG_LAYER_DRIVER]);
    }
    note_counts(end, totals, view.header->final_count, view.header->rendered_count);
    vg_view_close(&view);
}

static void put_peaks(const struct totals *totals, FILE *out)
{
    const char *separator = totals->process_count > 1 ? "highest peak " : "peak ";
    unsigned shown = 0;
    for (unsigned i = 0; i < VG_DEVICES_MAX; i++) {
        char size[VG_BYTES_TEXT_MAX];
        if (!totals->peak_known[i])
            continue;
        fprintf(out, "%s%s on GPU %u", separator, vg_bytes_text(size, totals->peak_bytes[i]), i);
        separator = ", ";
        shown++;
    }
    if (!shown)
        fputs("no GPU memory was allocated", out);
}

static void put_count(FILE *out, uint64_t count, const char *one)
{
    if (count == 0)
        fprintf(out, "no %s", one);
    else
        fprintf(out, "%llu %s%s", (unsigned long long)count, one, count == 1 ? "" : "s");
}

static void put_incidents(const struct vg_run_end *end, const struct totals *totals, FILE *out)
{
    unsigned long long unreported = totals->unreported;
    put_count(out, totals->incidents, "incident");
    if (!totals->incidents)
        return;
    if (end->no_report) {
        fputs(", no report (option report=none)", out);
        return;
    }
    if (unreported && totals->bounded)
        fprintf(out, " (%llu not reported: repeats, or beyond option max_reports)", unreported);
    else if (unreported)
        fprintf(out, " (%llu %s at a site already reported)", unreported,
                unreported == 1 ? "repeat" : "repeats");
    fputs(", ", out);
    put_count(out, totals->reports, "report");
}

static void put_end(const struct vg_run_end *end, const struct totals *totals, FILE *out)
{
    if (!totals->killed)
        return;
    if (WIFSIGNALED(end->status))
        fprintf(out, "; killed by signal %d (%s)", WTERMSIG(end->status),
                strsignal(WTERMSIG(end->status)));
    else
        fputs("; it ended without running its exit handlers", out);
}

static void put_record(const struct totals *totals, FILE *out)
{
    if (totals->kept_count == 0)
        fputs("; record removed", out);
    else if (totals->killed)
        fprintf(out, "; `vramguard report %s` shows what was live", totals->record);
    else if (totals->kept_count == 1)
        fprintf(out, "; record kept: %s", totals->record);
    else
        fprintf(out, "; %u records kept, the last: %s", totals->kept_count, totals->record);
}

void vg_run_closing_line(const struct vg_run_end *end)
{
    struct totals totals = {0};
    char *line = NULL;
    size_t length = 0;
    read_summary(end, &totals);
    if (!totals.program_ended)
        read_left_record(end, &totals);
    FILE *out = vg_need(open_memstream(&line, &length));
    fputs("VRAMGuard: ", out);
    if (totals.process_count > 1)
        fprintf(out, "%u processes, ", totals.process_count);
    if (!totals.process_count) {
        fputs("no allocation was seen, no record", out);
    } else {
        put_peaks(&totals, out);
        fputs("; ", out);
        put_incidents(end, &totals, out);
        put_end(end, &totals, out);
        put_record(&totals, out);
    }
    fputc('\n', out);
    fclose(out);
    fputs(line, stderr);
    free(line);
    free(totals.record);
}
