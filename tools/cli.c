/* cli.c -- what the subcommands share.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tools/cli.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/alloc.h"

static const char *current = "vramguard";

__attribute__((format(printf, 1, 0))) static void print_error(const char *format, va_list arguments)
{
    char line[1024];
    vsnprintf(line, sizeof(line), format, arguments);
    for (char *at = line; *at; at++) {
        if ((unsigned char)*at < ' ') /* a file name with a line break is still one line */
            *at = '?';
    }
    fflush(stdout);
    fprintf(stderr, "%s: %s\n", current, line);
}

int vg_cli_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_error(format, arguments);
    va_end(arguments);
    return VG_EXIT_USAGE;
}

void vg_cli_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_error(format, arguments);
    va_end(arguments);
    exit(VG_EXIT_USAGE);
}

int vg_command_run(const struct vg_command *command, int argc, char **argv)
{
    char name[64];
    snprintf(name, sizeof(name), "vramguard %s", command->name);
    char *previous = argv[0];
    const char *outer = current;
    argv[0] = name;
    current = name;
    int status = command->function(argc, argv);
    argv[0] = previous;
    current = outer;
    return status;
}

/* getopt's own message is one clear line; "Try `--help'" after it goes nowhere. */
static error_t parse_quietly(int key, char *argument, struct argp_state *state)
{
    (void)argument;
    if (key != ARGP_KEY_INIT)
        return ARGP_ERR_UNKNOWN;
    static FILE *nowhere;
    if (!nowhere)
        nowhere = fopen("/dev/null", "we");
    if (nowhere)
        state->err_stream = nowhere;
    state->child_inputs[0] = state->input;
    return 0;
}

/* Asked last: an argument that no other parser took. */
static error_t parse_rest(int key, char *argument, struct argp_state *state)
{
    (void)state;
    if (key == ARGP_KEY_ARG)
        vg_cli_fail("unexpected argument '%s'", argument);
    return ARGP_ERR_UNKNOWN;
}

void vg_cli_parse(const struct argp *argp, int argc, char **argv, unsigned flags, void *input)
{
    static const struct argp rest = {.parser = parse_rest};
    struct argp_child children[] = {{argp, 0, NULL, 0}, {&rest, 0, NULL, 0}, {NULL, 0, NULL, 0}};
    struct argp outer = {NULL, parse_quietly, argp->args_doc, argp->doc, children, NULL, NULL};
    struct argp inner = *argp;
    inner.args_doc = inner.doc = NULL;
    children[0].argp = &inner;
    argp_err_exit_status = VG_EXIT_USAGE;
    error_t error = argp_parse(&outer, argc, argv, flags, NULL, input);
    if (error)
        vg_cli_fail("%s", strerror(error));
}

/* `<directory of this program>/relative`, where it exists. */
static char *beside(const char *relative)
{
    char self[PATH_MAX], *path = NULL;
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (length <= 0)
        return NULL;
    self[length] = 0;
    *strrchr(self, '/') = 0;
    if (asprintf(&path, "%s/%s", self, relative) < 0)
        return NULL;
    char *real = access(path, F_OK) ? NULL : realpath(path, NULL);
    free(path);
    return real;
}

char *vg_cli_library(void)
{
    char *path = beside("libvramguard.so");
    return path ? path : beside("../lib/libvramguard.so");
}

char *vg_cli_simulation(void)
{
    char *path = beside("sim");
    return path ? path : beside("../lib/vramguard/sim");
}
