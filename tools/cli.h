/* cli.h -- what the subcommands share.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Their table, one-line errors, and where the library and the simulation are.
 */
#ifndef VG_CLI_H
#define VG_CLI_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VG_TOOL_VERSION "0.1.0"

enum { VG_EXIT_OK = 0, VG_EXIT_FINDING = 1, VG_EXIT_USAGE = 2 };

typedef int vg_command_fn(int argc, char **argv);
struct vg_command {
    const char *name, *summary;
    vg_command_fn *function;
};
extern const struct vg_command vg_commands[]; /* ends with name NULL */
const struct vg_command *vg_command_find(const char *name);
/* Runs a command; argv[0] is its bare name. */
int vg_command_run(const struct vg_command *command, int argc, char **argv);

#define COMMAND(name, summary) vg_command_fn vg_cmd_##name;
#include "tools/commands.def"

/* One line on stderr, "vramguard <command>: ...". Returns VG_EXIT_USAGE. */
int vg_cli_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same out of an argp parser: does not return. */
_Noreturn void vg_cli_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* argp_parse() whose every error is exactly one line and status 2 (it would print two lines and end
 * with 64). */
void vg_cli_parse(const struct argp *argp, int argc, char **argv, unsigned flags, void *input);

/* Absolute path of the library or the directory of the simulated GPU that belong to this tool
 * (beside it, else installed); to be freed. NULL: not there. */
char *vg_cli_library(void);
char *vg_cli_simulation(void);

/* The generated pages of docs/. */
void vg_docs_options(void);
void vg_docs_hooks(void);
void vg_docs_man(void);

#endif
