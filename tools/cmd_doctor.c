/* cmd_doctor.c -- `vramguard doctor`.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the guard finds on this machine, and, with a program, which of its paths were reached.
 *
 * Place:      the loader (what is here), guarded.c (a run) -> records -> findings
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/alloc.h"
#include "core/options.h"
#include "tools/cli.h"
#include "tools/doctor.h"

enum { KEY_JSON = 256, KEY_SIM };

struct doctor {
    bool json, simulate;
    const char *memory;
    char **command;
};

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct doctor *doctor = state->input;
    uint64_t bytes;
    switch (key) {
    case KEY_JSON:
        doctor->json = true;
        return 0;
    case KEY_SIM:
        doctor->simulate = true;
        doctor->memory = argument;
        if (argument && (!vg_parse_size(argument, &bytes) || !bytes))
            vg_cli_fail("--sim=%s: want a size, such as 24GiB", argument);
        return 0;
    case ARGP_KEY_ARG:
        doctor->command = &state->argv[state->next - 1];
        state->next = state->argc;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char *in_words(struct json_object *value)
{
    if (!value)
        return "not found";
    if (json_object_is_type(value, json_type_boolean))
        return json_object_get_boolean(value) ? "yes" : "no";
    return json_object_get_string(value);
}

static void print_text(struct json_object *object, unsigned depth)
{
    json_object_object_foreach(object, key, value)
    {
        if (json_object_is_type(value, json_type_object)) {
            printf("%*s%s\n", (int)depth * 2, "", key);
            print_text(value, depth + 1);
        } else if (json_object_is_type(value, json_type_array)) {
            for (size_t i = 0; i < json_object_array_length(value); i++) {
                struct json_object *item = json_object_array_get_idx(value, i);
                if (json_object_is_type(item, json_type_object)) {
                    printf("%*s%s %zu\n", (int)depth * 2, "", key, i + 1);
                    print_text(item, depth + 1);
                } else {
                    printf("%*s%s\n", (int)depth * 2, "", json_object_get_string(item));
                }
            }
        } else {
            printf("%*s%-*s %s\n", (int)depth * 2, "", 24 - (int)depth * 2, key, in_words(value));
        }
    }
}

int vg_cmd_doctor(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"json", KEY_JSON, 0, 0, "as JSON; the program's standard output goes to stderr", 0},
        {"sim", KEY_SIM, "SIZE", OPTION_ARG_OPTIONAL, "run the program on a simulated GPU of SIZE",
         0},
        {0},
    };
    static const struct argp argp = {
        options,
        parse,
        "[[--] COMMAND [ARGUMENT...]]",
        "Says which library, driver, runtime and unwinder the guard finds on this machine. With a "
        "program: runs it under the guard "
        "and says which calls reached the guard. Exit status 1: the program loaded the CUDA "
        "driver, and no call of it was seen.",
        NULL,
        NULL,
        NULL};
    struct doctor doctor = {0};
    vg_cli_parse(&argp, argc, argv, ARGP_IN_ORDER, &doctor);
    int status = VG_EXIT_OK;
    struct json_object *object = json_object_new_object();
    json_object_object_add(object, "machine", vg_doctor_machine());
    if (doctor.command) {
        struct vg_doctor_run run = {.command = doctor.command,
                                    .simulate = doctor.simulate,
                                    .sim_memory = doctor.memory,
                                    .stdout_to_stderr = doctor.json};
        status = vg_doctor_program(&run, object);
    }
    if (status <= VG_EXIT_FINDING) {
        if (doctor.json)
            puts(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY |
                                                            JSON_C_TO_STRING_NOSLASHESCAPE));
        else
            print_text(object, 0);
    }
    json_object_put(object);
    return status;
}
