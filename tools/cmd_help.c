/* cmd_help.c -- `vramguard help [COMMAND]`, and the generated pages of docs/.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>

#include "tools/cli.h"

struct help {
    const char *command;
    void (*page)(void);
};

enum { KEY_OPTIONS = 256, KEY_HOOKS, KEY_MAN };

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct help *help = state->input;
    switch (key) {
    case KEY_OPTIONS:
        help->page = vg_docs_options;
        return 0;
    case KEY_HOOKS:
        help->page = vg_docs_hooks;
        return 0;
    case KEY_MAN:
        help->page = vg_docs_man;
        return 0;
    case ARGP_KEY_ARG:
        if (help->command)
            vg_cli_fail("one command at most, not '%s' too", argument);
        help->command = argument;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static void list(void)
{
    puts(
        "VRAMGuard shows who holds the memory of a GPU, and why an allocation failed.\n\n"
        "  vramguard run python train.py        run under the guard; a report at an out-of-memory\n"
        "  vramguard report FILE|PID|DIR        the same report again, of a live process or after "
        "a crash\n\n"
        "commands");
    for (const struct vg_command *command = vg_commands; command->name; command++)
        printf("  %-9s %s\n", command->name, command->summary);
    puts("\n`vramguard help COMMAND` says more.");
}

int vg_cmd_help(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"markdown-options", KEY_OPTIONS, 0, OPTION_HIDDEN, NULL, 0},
        {"markdown-hooks", KEY_HOOKS, 0, OPTION_HIDDEN, NULL, 0},
        {"man", KEY_MAN, 0, OPTION_HIDDEN, NULL, 0},
        {0},
    };
    static const struct argp argp = {
        options, parse, "[COMMAND]", "Lists the commands, or prints the help of one.",
        NULL,    NULL,  NULL};
    struct help help = {NULL, NULL};
    vg_cli_parse(&argp, argc, argv, 0, &help);
    if (help.page) {
        help.page();
        return VG_EXIT_OK;
    }
    if (!help.command) {
        list();
        return VG_EXIT_OK;
    }
    const struct vg_command *command = vg_command_find(help.command);
    if (!command)
        return vg_cli_error("unknown command '%s'; `vramguard help` lists them", help.command);
    char option[] = "--help", *arguments[] = {(char *)(uintptr_t)command->name, option, NULL};
    return vg_command_run(command, 2, arguments);
}
