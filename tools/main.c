/* main.c -- `vramguard`: finds the subcommand and runs it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:      commands.def -> here -> cmd_*.c. Reads records through core/; nothing of it is ever
 *             inside a guarded process.
 */
#include <stdio.h>
#include <string.h>

#include "tools/cli.h"

const char *argp_program_version = "vramguard " VG_TOOL_VERSION;

const struct vg_command vg_commands[] = {
#define COMMAND(name, summary) {#name, summary, vg_cmd_##name},
#include "tools/commands.def"
    {NULL, NULL, NULL},
};

const struct vg_command *vg_command_find(const char *name)
{
    for (const struct vg_command *command = vg_commands; command->name; command++) {
        if (!strcmp(command->name, name))
            return command;
    }
    return NULL;
}

static int dispatch(int argc, char **argv)
{
    if (argc < 2)
        return vg_cli_error("no command given; `vramguard help` lists them");
    const char *name = argv[1];
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "-?"))
        name = "help";
    else if (!strcmp(name, "--version") || !strcmp(name, "-V"))
        name = "version";
    else if (name[0] == '-')
        return vg_cli_error("unknown option '%s'; `vramguard help` lists the commands", name);
    const struct vg_command *command = vg_command_find(name);
    if (!command)
        return vg_cli_error("unknown command '%s'; `vramguard help` lists them", name);
    return vg_command_run(command, argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
    int status = dispatch(argc, argv);
    if (fflush(stdout) || ferror(stdout))
        return vg_cli_error("cannot write to standard output");
    return status;
}
