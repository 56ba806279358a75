/* cmd_report.c -- `vramguard report`.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The report of a record, chosen by the user, or for the library at an incident.
 *
 * Place:      find_record.c -> view -> analyses -> renderers
 * Not here:   the library's call (report_guard.c).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "core/analysis/report.h"
#include "core/options.h"
#include "tools/alloc.h"
#include "tools/cli.h"
#include "tools/find_record.h"
#include "tools/render.h"
#include "tools/report_guard.h"

enum { KEY_JSON = 256, KEY_INCIDENT, KEY_NOW, KEY_GUARD, KEY_FD, KEY_REPORT, KEY_STEM, KEY_LIMIT };

struct report {
    const char *target;
    bool json, now, all;
    uint32_t number; /* 0: not asked for */
    bool guard;
    struct vg_report_guard call;
};

static uint32_t parse_count(const char *name, const char *text, unsigned long max)
{
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno || end == text || *end || text[0] == '-' || value > max)
        vg_cli_fail("--%s=%s: want a number up to %lu", name, text, max);
    return (uint32_t)value;
}

static void parse_incident(struct report *report, const char *text)
{
    report->all = !strcmp(text, "all");
    char *end = NULL;
    unsigned long number = strspn(text, "0123456789") ? strtoul(text, &end, 10) : 0;
    if (!report->all && (!number || *end || number > UINT32_MAX))
        vg_cli_fail("--incident=%s: want a number from 1, or all", text);
    report->number = report->all ? 0 : (uint32_t)number;
}

static error_t parse_guard(int key, const char *argument, struct vg_report_guard *call)
{
    char why[256];
    static struct vg_options options;
    switch (key) {
    case KEY_FD:
        call->fd = (int)parse_count("fd", argument, 1 << 20);
        return 0;
    case KEY_REPORT:
        vg_options_defaults(&options);
        if (!vg_options_set(&options, VG_OPTION_report, argument, why, sizeof(why)))
            vg_cli_fail("%s", why);
        call->forms = options.report;
        return 0;
    case KEY_STEM:
        call->stem = argument;
        return 0;
    case KEY_LIMIT:
        call->limit_ms = parse_count("limit", argument, 86400000);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct report *report = state->input;
    switch (key) {
    case KEY_JSON:
        report->json = true;
        return 0;
    case KEY_INCIDENT:
        parse_incident(report, argument);
        return 0;
    case KEY_NOW:
        report->now = true;
        return 0;
    case KEY_GUARD:
        report->guard = true;
        return 0;
    case ARGP_KEY_ARG:
        if (report->target)
            vg_cli_fail("one record at a time, not '%s' too", argument);
        report->target = argument;
        return 0;
    case ARGP_KEY_END:
        if (!report->target && !report->guard)
            vg_cli_fail("nothing named: vramguard report FILE|PID|DIR");
        if (report->now && (report->number || report->all))
            vg_cli_fail("--now and --incident exclude each other");
        return 0;
    default:
        return parse_guard(key, argument, &report->call);
    }
}

/* --- which incident --------------------------------------------------------------------------- */

static bool is_final(const struct vg_incident *incident)
{
    return incident && incident->kind == VG_INCIDENT_OOM && incident->outcome == VG_OUTCOME_FAILED;
}

/* Index + 1 of the last final failure with this number (0: any); 0 none. */
static uint32_t find_incident(const struct vg_view *view, uint32_t number)
{
    for (uint64_t i = vg_view_count(view, VG_SEC_INCIDENTS); i > 0; i--) {
        const struct vg_incident *incident = vg_view_incident(view, i - 1);
        if (is_final(incident) && (!number || incident->number == number))
            return (uint32_t)i;
    }
    return 0;
}

static int no_such_incident(const struct vg_view *view, const char *name, uint32_t number)
{
    uint32_t last = find_incident(view, 0);
    if (!last)
        return vg_cli_error("%s: no incident %u: there was none", name, number);
    return vg_cli_error("%s: no incident %u: the last one is %u", name, number,
                        vg_view_incident(view, last - 1)->number);
}

/* --- one report ------------------------------------------------------------------------------- */

static unsigned terminal_width(void)
{
    struct winsize size;
    return isatty(STDOUT_FILENO) && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) ? size.ws_col : 0;
}

static char *json_beside(const char *path)
{
    char *made;
    size_t length = path ? strlen(path) : 0;
    if (length < 4 || strcmp(path + length - 4, ".vgr") ||
        asprintf(&made, "%.*s.json", (int)(length - 4), path) < 0)
        return NULL;
    if (!access(made, F_OK))
        return made;
    free(made);
    return NULL;
}

/* Nanoseconds since the record was made, by the clock that it is kept in. */
static uint64_t record_now(const struct vg_header *header)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    return ns > header->start_monotonic_ns ? ns - header->start_monotonic_ns : 0;
}

/* incident: index + 1 in the view, 0 the state as it is. note: NULL or a line for the report. */
static int print_report(const struct report *report, const struct vg_view *view, const char *path,
                        uint32_t incident, const char *note)
{
    struct vg_report_request request = {
        .incident = incident,
        .alive = vg_record_is_alive(view->header, vg_view_string(view, view->header->host)),
    };
    struct vg_report model;
    char why[256];
    if (request.alive)
        request.now_ns = record_now(view->header);
    if (vg_report_build(view, &request, &model) != VG_OK)
        return vg_cli_error("no such incident");
    if (note)
        vg_report_note(&model, "%s", note);
    if (!vg_view_check(view, why, sizeof(why)))
        vg_report_note(&model, "the record does not add up: %s", why);
    char *json = json_beside(path);
    struct vg_render_options options = {.json_path = json,
                                        .record_path = path,
                                        .color = vg_report_color(STDOUT_FILENO),
                                        .width = terminal_width()};
    struct vg_symbols *symbols = vg_symbols_open(view);
    vg_render_fn *render = report->json ? vg_render_json : vg_render_text;
    int status = VG_EXIT_OK;
    if (render(&model, symbols, &options, stdout))
        status = vg_cli_error("cannot write: %s", strerror(errno));
    vg_symbols_close(symbols);
    vg_report_free(&model);
    free(json);
    return status;
}

/* An incident has a file of its own, made at that moment: the whole record has gone on since. */
static int print_incident(const struct report *report, const struct vg_view *view, const char *path,
                          uint32_t incident)
{
    char kind[16], why[256], *own = NULL;
    uint32_t number = vg_view_incident(view, incident - 1)->number, found = 0;
    struct vg_view copy;
    if (path && vg_incident_name(path, kind, &found))
        return print_report(report, view, path, incident, NULL);
    own = path ? vg_incident_path(path, "oom", number) : NULL;
    if (own && vg_view_open(&copy, own, why, sizeof(why)) == VG_OK) {
        bool same = copy.header->pid == view->header->pid &&
                    copy.header->start_realtime_ns == view->header->start_realtime_ns;
        found = same ? find_incident(&copy, number) : 0;
        int status = found ? print_report(report, &copy, own, found, NULL) : 0;
        vg_view_close(&copy);
        if (found) {
            free(own);
            return status;
        }
    }
    free(own);
    return print_report(report, view, path, incident,
                        "the incident's own file is not there: the failure is as it was, all other "
                        "figures are of later");
}

static int print_all(const struct report *report, const struct vg_view *view, const char *path)
{
    int status = VG_EXIT_OK;
    bool first = true;
    if (report->json)
        fputs("[", stdout);
    for (uint64_t i = 0; i < vg_view_count(view, VG_SEC_INCIDENTS) && !status; i++) {
        if (!is_final(vg_view_incident(view, i)))
            continue;
        if (!first)
            fputs(report->json ? "," : "\n", stdout);
        first = false;
        status = print_incident(report, view, path, (uint32_t)i + 1);
    }
    if (report->json)
        fputs("]\n", stdout);
    return status;
}

static int print_chosen(const struct report *report, const struct vg_view *view, const char *path)
{
    uint32_t incident = report->now ? 0 : find_incident(view, report->number);
    char kind[16];
    uint32_t number;
    if (report->all && (incident || report->json))
        return print_all(report, view, path);
    if (report->all)
        return vg_cli_error("%s: no incident: there was none", report->target);
    if (report->number && !incident)
        return no_such_incident(view, report->target, report->number);
    if (incident && !report->number && path && vg_incident_name(path, kind, &number) &&
        !strcmp(kind, "oom") && find_incident(view, number))
        incident = find_incident(view, number);
    return incident ? print_incident(report, view, path, incident)
                    : print_report(report, view, path, 0, NULL);
}

static const struct argp_option options[] = {
    {"json", KEY_JSON, 0, 0, "as JSON (vramguard-report/1); with --incident=all a list", 0},
    {"incident", KEY_INCIDENT, "N", 0, "out-of-memory number N, or all", 0},
    {"now", KEY_NOW, 0, 0, "the state as it is, even if there was an incident", 0},
    {"from-guard", KEY_GUARD, 0, OPTION_HIDDEN, NULL, 0},
    {"fd", KEY_FD, "N", OPTION_HIDDEN, NULL, 0},
    {"report", KEY_REPORT, "FORMS", OPTION_HIDDEN, NULL, 0},
    {"stem", KEY_STEM, "PATH", OPTION_HIDDEN, NULL, 0},
    {"limit", KEY_LIMIT, "MILLISECONDS", OPTION_HIDDEN, NULL, 0},
    {0},
};
static const struct argp argp = {
    options,
    parse,
    "FILE|PID|DIR",
    "Reports who holds the memory and why an allocation failed: from a record file (or the JSON "
    "report beside it), the record of a live process (or of the one below it that has one), or "
    "the newest record of a directory. Without an option: the last final "
    "out-of-memory if there was one, else the state as it is.",
    NULL,
    NULL,
    NULL};

int vg_cmd_report(int argc, char **argv)
{
    struct report report = {.call = {.fd = 3}};
    vg_cli_parse(&argp, argc, argv, 0, &report);
    if (report.guard)
        return vg_report_from_guard(&report.call);

    struct vg_target target;
    struct vg_view view;
    char why[512];
    if (!vg_find_record(report.target, &target, why, sizeof(why)))
        return vg_cli_error("%s", why);
    int result;
    if (vg_view_open_fd(&view, target.fd, why, sizeof(why)) == VG_OK) {
        result = print_chosen(&report, &view, target.path);
        vg_view_close(&view);
    } else {
        result = vg_cli_error("%s: %s", target.path ? target.path : report.target, why);
    }
    vg_target_close(&target);
    return result;
}
