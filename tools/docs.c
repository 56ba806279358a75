/* docs.c -- the generated pages: docs/options.md, docs/hooks.md and the man page, from the tables.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/options.h"
#include "tools/cli.h"
#include "tools/hooks_table.h"

static void put_upper(const char *text)
{
    for (; *text; text++)
        putchar(toupper((unsigned char)*text));
}

static void put_dashed(const char *text, const char *dash)
{
    for (; *text; text++) {
        if (*text == '_')
            fputs(dash, stdout);
        else
            putchar(*text);
    }
}

/* Text inside a Markdown table. */
static void put_cell(const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            putchar('\\');
        putchar(*text);
    }
}

void vg_docs_options(void)
{
    puts("# Options\n\n"
         "Generated from `core/options.def` by `make docs`.\n\n"
         "Each option is an environment variable of the guarded program and a flag of `vramguard "
         "run`. A bad value is refused\n"
         "by `run`; in the environment it gives one line on stderr, and the default is used.\n\n"
         "| environment | flag | value | default | meaning |\n"
         "|---|---|---|---|---|");
    for (unsigned i = 0; i < VG_OPTION_COUNT; i++) {
        const struct vg_option_row *row = &vg_option_rows[i];
        fputs("| `VRAMGUARD_", stdout);
        put_upper(row->name);
        fputs("` | `--", stdout);
        put_dashed(row->name, "-");
        fputs("` | ", stdout);
        put_cell(row->value_help);
        fputs(*row->default_text ? " | `" : " | ", stdout);
        put_cell(row->default_text);
        fputs(*row->default_text ? "` | " : " | ", stdout);
        put_cell(row->help);
        puts(" |");
    }
}

void vg_docs_hooks(void)
{
    puts("# Hooks\n\n"
         "Generated from `interpose/hooks.def` by `make docs`.\n\n"
         "`counted` rows change the books; `noted` rows tell of captures and graphs; `named` rows "
         "of the CUDA runtime say which\n"
         "function the program called; `look-up` rows hand out function pointers. Every other "
         "function of the driver is left alone, and\n"
         "the second table says why; a name with `*` stands for all that begin so.\n\n"
         "| function | layer | role | does |\n"
         "|---|---|---|---|");
    for (const struct vg_hook_row *row = vg_hook_rows; row->symbol; row++) {
        vg_hook_text does;
        if (row->role != VG_HOOK_IGNORED)
            printf("| `%s` | %s | %s | %s |\n", row->symbol, vg_hook_layer(row),
                   vg_hook_role(row->role), vg_hook_does(row, does));
    }
    puts("\n## Left alone\n\n| function | why |\n|---|---|");
    for (const struct vg_hook_row *row = vg_hook_rows; row->symbol; row++) {
        if (row->role != VG_HOOK_IGNORED)
            continue;
        printf("| `%s` | ", row->symbol);
        put_cell(row->note);
        puts(" |");
    }
}

/* Text of a man page: a line may not start with a control character, dashes are plain ones. */
static void put_roff(const char *text)
{
    for (; *text; text++) {
        if (*text == '-' || *text == '\\')
            putchar('\\');
        if (*text == '\\')
            putchar('e');
        else
            putchar(*text);
    }
}

static void man_commands(void)
{
    puts(".SH COMMANDS");
    for (const struct vg_command *command = vg_commands; command->name; command++) {
        printf(".TP\n.B %s\n", command->name);
        put_roff(command->summary);
        puts("");
    }
    puts(".PP\nEach has \\fB\\-\\-help\\fR.");
}

static void man_options(void)
{
    puts(".SH OPTIONS OF RUN\n"
         "Each is also an environment variable of the program, \\fBVRAMGUARD_\\fINAME\\fR.\n"
         ".TP\n\\fB\\-\\-sim\\fR[=\\fISIZE\\fR]\n"
         "put a simulated GPU of SIZE in front, on a machine that has none");
    for (unsigned i = 0; i < VG_OPTION_COUNT; i++) {
        const struct vg_option_row *row = &vg_option_rows[i];
        fputs(".TP\n\\fB\\-\\-", stdout);
        put_dashed(row->name, "\\-");
        fputs("\\fR=\\fI", stdout);
        put_roff(row->value_help);
        puts("\\fR");
        put_roff(row->help);
        if (*row->default_text) {
            fputs(" (default: ", stdout);
            put_roff(row->default_text);
            putchar(')');
        }
        puts("");
    }
}

static void man_examples(void)
{
    static const char *const rows[][2] = {
        {"vramguard run \\-\\- python train.py", "the report comes when memory runs out"},
        {"vramguard run \\-\\-sim=24GiB \\-\\- python train.py",
         "the same on a machine without a GPU: nothing is computed, memory is counted"},
        {"vramguard report .", "the newest record of this directory"},
        {"vramguard report \\-\\-json 4242", "what process 4242 holds now, for programs"},
        {"vramguard doctor \\-\\-sim \\-\\- python train.py",
         "are the hooks reached, at the driver, the runtime and torch"},
    };
    puts(".SH EXAMPLES");
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        printf(".TP\n.B %s\n%s\n", rows[i][0], rows[i][1]);
}

static void man_head(void)
{
    puts(
        ".\\\" Generated by `make docs`.\n"
        ".TH VRAMGUARD 1\n"
        ".SH NAME\n"
        "vramguard \\- who holds the memory of a GPU, and why an allocation failed\n"
        ".SH SYNOPSIS\n"
        ".B vramguard run\n"
        "[\\fIOPTION\\fR...] [\\fB\\-\\-\\fR] \\fICOMMAND\\fR [\\fIARGUMENT\\fR...]\n"
        ".br\n"
        ".B vramguard report\n"
        "\\fIFILE\\fR|\\fIPID\\fR|\\fIDIR\\fR [\\fB\\-\\-json\\fR] [\\fB\\-\\-incident\\fR="
        "\\fIN\\fR|\\fBall\\fR] [\\fB\\-\\-now\\fR]\n"
        ".br\n"
        ".B vramguard doctor\n"
        "[\\fB\\-\\-json\\fR] [\\fB\\-\\-sim\\fR[=\\fISIZE\\fR]] [[\\fB\\-\\-\\fR] \\fICOMMAND\\fR "
        "[\\fIARGUMENT\\fR...]]\n"
        ".br\n"
        ".B vramguard hooks\n"
        "[\\fB\\-\\-json\\fR]\n"
        ".br\n"
        ".B vramguard help\n"
        "[\\fICOMMAND\\fR]\n"
        ".br\n"
        ".B vramguard version\n"
        ".SH DESCRIPTION\n"
        "libvramguard.so is preloaded into a program that uses CUDA and keeps books on its GPU "
        "memory in a record file, which is\n"
        "there after any end of the program. When an allocation finally fails, a report goes to "
        "stderr and to a JSON file.");
}

static void man_status_and_files(void)
{
    puts(
        ".SH EXIT STATUS\n"
        "0: fine. 1: a finding, from doctor alone so far (the hooks were not shown to be reached). "
        "2: a usage or input error, with one line on\n"
        "stderr. \\fBrun\\fR passes on the status of the program: its exit status, or death by "
        "the same signal; 126 and 127 where\n"
        "the program cannot be started or found.\n"
        ".SH FILES\n"
        ".TP\n"
        ".I vramguard.HOST.PID\\-TIME.vgr\n"
        "the record of a process; kept after a clean end only if something was found (option "
        "keep)\n"
        ".TP\n"
        ".I vramguard.HOST.PID\\-TIME.oom\\-N.vgr\n"
        "its copy at an out\\-of\\-memory; .json beside it is the report (its keys: "
        "docs/report.md)\n"
        ".TP\n"
        ".I vramguard.HOST.PID\\-TIME.exit\\-1.json\n"
        "the report of a process at its end, where its record is kept");
}

void vg_docs_man(void)
{
    man_head();
    man_commands();
    man_options();
    man_status_and_files();
    man_examples();
}
