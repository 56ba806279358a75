/* report_guard.c -- the report as the library asks for it at an incident.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:      keeper (interpose/) -> execve -> here. Descriptor 2 is the guarded program's stderr:
 *             nothing but the report goes there.
 */
#include "tools/report_guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "core/analysis/report.h"
#include "core/options.h"
#include "tools/alloc.h"
#include "tools/cli.h"
#include "tools/find_record.h"
#include "tools/render.h"

bool vg_report_color(int fd)
{
    const char *terminal = getenv("TERM"), *none = getenv("NO_COLOR");
    return isatty(fd) && !(none && *none) && terminal && strcmp(terminal, "dumb");
}

static bool write_all(int fd, const char *bytes, size_t length)
{
    while (length) {
        ssize_t wrote = write(fd, bytes, length); /* all of it at once, but for a full pipe */
        if (wrote < 0 && errno != EINTR)
            return false;
        if (wrote > 0) {
            bytes += wrote;
            length -= (size_t)wrote;
        }
    }
    return true;
}

/* The JSON that is being written, under a name of its own: it goes where the time limit ends us
 * before it is whole. */
static char *unfinished;

static void out_of_time(int number)
{
    (void)number;
    if (unfinished)
        unlink(unfinished);
    _exit(VG_EXIT_USAGE);
}

static void set_limit(unsigned ms)
{
    struct sigaction action = {.sa_handler = out_of_time};
    sigset_t set;
    sigaction(SIGALRM, &action, NULL);
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    struct itimerval limit = {.it_value = {ms / 1000, (suseconds_t)(ms % 1000) * 1000}};
    setitimer(ITIMER_REAL, &limit, NULL);
}

/* With one write(2). */
static bool print_text(const struct vg_report *report, struct vg_symbols *symbols,
                       const struct vg_render_options *options)
{
    char *bytes = NULL;
    size_t length = 0;
    FILE *out = vg_need(open_memstream(&bytes, &length));
    bool made = !vg_render_text(report, symbols, options, out);
    made = !fclose(out) && made && write_all(STDERR_FILENO, bytes, length);
    free(bytes);
    return made;
}

/* Nothing is overwritten; file systems without renameat2's flag have links. */
static bool rename_new(const char *from, const char *to)
{
    if (!renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE))
        return true;
    return (errno == EINVAL || errno == ENOSYS) && !link(from, to) && !unlink(from);
}

/* Whoever finds a file of that name finds all of it. */
static bool write_json(const struct vg_report *report, struct vg_symbols *symbols,
                       const struct vg_render_options *options, const char *path)
{
    char *part = NULL;
    if (asprintf(&part, "%s.part", path) < 0)
        return false;
    int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    FILE *out = fd < 0 ? NULL : vg_need(fdopen(fd, "w"));
    bool made = out != NULL;
    if (made) {
        unfinished = part;
        made = !vg_render_json(report, symbols, options, out);
        made = !fclose(out) && made && rename_new(part, path);
        if (!made)
            unlink(part);
        unfinished = NULL;
    }
    free(part);
    return made;
}

/* NULL: no file is asked for. */
static char *json_path(const struct vg_report_guard *call)
{
    char *path = NULL;
    bool wanted = (call->forms & VG_REPORT_JSON) && call->stem && call->stem[0] == '/';
    return wanted && asprintf(&path, "%s.json", call->stem) >= 0 ? path : NULL;
}

/* True: what was asked for is there; a report that could be printed is one, even where its file has
 * no room. */
static bool write_forms(const struct vg_report_guard *call, const struct vg_report *report)
{
    char *json = json_path(call), *record = NULL;
    bool prints = call->forms & VG_REPORT_TEXT;
    if (call->stem && asprintf(&record, "%s.vgr", call->stem) < 0)
        record = NULL;
    struct vg_render_options options = {
        .record_path = record && !access(record, F_OK) ? record : NULL,
        .color = vg_report_color(STDERR_FILENO),
    };
    struct vg_symbols *symbols = vg_symbols_open(report->view);
    /* The file comes first, so that the text names a report that is really there. */
    bool has_json = json && write_json(report, symbols, &options, json);
    options.json_path = has_json ? json : NULL;
    bool done = prints ? print_text(report, symbols, &options)
                       : has_json || !(call->forms & VG_REPORT_JSON);
    vg_symbols_close(symbols);
    free(record);
    free(json);
    return done;
}

/* Index + 1 of the incident that the stem names, 0 where it is the end; without such a name the
 * last one: a copy ends with the incident that it was made for. */
static uint32_t incident_of(const struct vg_view *view, const char *stem)
{
    uint64_t count = vg_view_count(view, VG_SEC_INCIDENTS);
    char *name, kind[16];
    uint32_t number;
    if (!stem || asprintf(&name, "%s.vgr", stem) < 0)
        return (uint32_t)count;
    bool named = vg_incident_name(name, kind, &number);
    free(name);
    if (named && !strcmp(kind, "exit"))
        return 0;
    for (uint64_t i = count; named && i > 0; i--) {
        const struct vg_incident *incident = vg_view_incident(view, i - 1);
        bool is_oom = incident && incident->kind == VG_INCIDENT_OOM;
        if (incident && incident->number == number && is_oom == !strcmp(kind, "oom"))
            return (uint32_t)i;
    }
    return (uint32_t)count;
}

int vg_report_from_guard(const struct vg_report_guard *call)
{
    struct vg_view view;
    struct vg_report report;
    char why[256];
    if (call->limit_ms)
        set_limit(call->limit_ms);
    signal(SIGPIPE, SIG_IGN);
    if (vg_view_open_fd(&view, call->fd, why, sizeof(why)) != VG_OK)
        return VG_EXIT_USAGE;
    struct vg_report_request request = {.incident = incident_of(&view, call->stem),
                                        .alive = view.header->ended == VG_ENDED_NO};
    bool done = vg_report_build(&view, &request, &report) == VG_OK;
    if (done) {
        done = write_forms(call, &report);
        vg_report_free(&report);
    }
    vg_view_close(&view);
    return done ? VG_EXIT_OK : VG_EXIT_USAGE;
}
