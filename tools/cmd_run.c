/* cmd_run.c -- `vramguard run`.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The program under the guard, its own exit status, and one closing line.
 */
#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/alloc.h"
#include "tools/cli.h"
#include "tools/guarded.h"
#include "tools/run_summary.h"

enum { KEY_FIRST = 256, KEY_SIM = KEY_FIRST + VG_OPTION_COUNT };

static char names[VG_OPTION_COUNT][32]; /* of the flags */

struct run {
    struct vg_guarded guarded;
    struct vg_options checked;
};

static bool is_program(const char *path)
{
    struct stat status;
    return !stat(path, &status) && S_ISREG(status.st_mode) && !access(path, X_OK);
}

static void set_option(struct run *run, enum vg_option_id id, const char *text)
{
    char why[512];
    if (!vg_options_set(&run->checked, id, text, why, sizeof(why)))
        vg_cli_fail("--%s=%s: want %s", names[id], text, vg_option_rows[id].legal_values);
    if (id == VG_OPTION_record_size && run->checked.record_size < VG_RECORD_SIZE_LEAST)
        vg_cli_fail("--%s=%s: want at least 1M", names[id], text);
    if (id == VG_OPTION_tool && *text && !is_program(text))
        vg_cli_fail("--%s=%s: want a program that can be started", names[id], text);
    run->guarded.option[id] = text;
}

static void set_simulation(struct run *run, const char *size)
{
    uint64_t bytes;
    run->guarded.simulate = true;
    run->guarded.sim_memory = size;
    if (size && (!vg_parse_size(size, &bytes) || !bytes))
        vg_cli_fail("--sim=%s: want a size, such as 24GiB", size);
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct run *run = state->input;
    if (key >= KEY_FIRST && key < KEY_SIM) {
        set_option(run, (enum vg_option_id)(key - KEY_FIRST), argument);
        return 0;
    }
    switch (key) {
    case KEY_SIM:
        set_simulation(run, argument);
        return 0;
    case ARGP_KEY_ARG: /* the program; all that follows is its own */
        run->guarded.command = &state->argv[state->next - 1];
        state->next = state->argc;
        return 0;
    case ARGP_KEY_END:
        if (!run->guarded.command)
            vg_cli_fail("no program given: vramguard run [OPTION...] [--] COMMAND [ARGUMENT...]");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* One flag for each row of options.def. */
static void make_options(struct argp_option *options)
{
    unsigned i;
    for (i = 0; i < VG_OPTION_COUNT; i++) {
        const struct vg_option_row *row = &vg_option_rows[i];
        snprintf(names[i], sizeof(names[i]), "%s", row->name);
        for (char *at = names[i]; *at; at++)
            *at = *at == '_' ? '-' : *at;
        char *help = NULL;
        if (*row->default_text &&
            asprintf(&help, "%s (default: %s)", row->help, row->default_text) < 0)
            help = NULL;
        options[i] = (struct argp_option){names[i], (int)(KEY_FIRST + i),    row->value_help,
                                          0,        help ? help : row->help, 0};
    }
    options[i++] =
        (struct argp_option){"sim",
                             KEY_SIM,
                             "SIZE",
                             OPTION_ARG_OPTIONAL,
                             "put a simulated GPU of SIZE in front, on a machine that has none",
                             0};
    options[i] = (struct argp_option){0};
}

/* Ends as the program did: the same status, or the same signal, without a second core file. */
static int pass_status_on(int status)
{
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    int number = WTERMSIG(status);
    fflush(NULL);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    signal(number, SIG_DFL);
    raise(number);
    return 128 + number;
}

/* What the program was told by the environment, where no flag says otherwise; a bad value is the
 * default, as in the library. */
static void take_environment(struct run *run, enum vg_option_id id)
{
    char name[64], why[512];
    const char *text;
    snprintf(name, sizeof(name), "VRAMGUARD_%s", vg_option_rows[id].name);
    for (char *at = name; *at; at++)
        *at = (char)toupper((unsigned char)*at);
    text = run->guarded.option[id] ? NULL : getenv(name);
    if (text)
        vg_options_set(&run->checked, id, text, why, sizeof(why));
}

int vg_cmd_run(int argc, char **argv)
{
    static struct argp_option options[VG_OPTION_COUNT + 2];
    static const struct argp argp = {
        options,
        parse,
        "[--] COMMAND [ARGUMENT...]",
        "Runs a program under the guard. Its own output and exit status stay as they are; at the "
        "end one line says how much memory "
        "it had at its peak, and whether a record was kept.",
        NULL,
        NULL,
        NULL};
    static struct run run;
    vg_options_defaults(&run.checked);
    make_options(options);
    vg_cli_parse(&argp, argc, argv, ARGP_IN_ORDER, &run);

    struct vg_run_end end = {.started_ns = vg_run_now()};
    int failed = vg_guarded_start(&run.guarded);
    if (failed)
        return failed;
    end.pid = run.guarded.pid;
    end.status = vg_guarded_wait(&run.guarded, NULL, NULL);
    const char *directory = run.guarded.option[VG_OPTION_dir];
    end.directory = directory ? directory : getenv("VRAMGUARD_DIR");
    end.summary = run.guarded.summary;
    take_environment(&run, VG_OPTION_report);
    take_environment(&run, VG_OPTION_max_reports);
    end.no_report = !run.checked.report;
    end.max_reports = run.checked.max_reports;
    vg_run_closing_line(&end);
    if (run.guarded.summary)
        unlink(run.guarded.summary);
    return pass_status_on(end.status);
}
