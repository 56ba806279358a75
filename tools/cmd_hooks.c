/* cmd_hooks.c -- `vramguard hooks`.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Which functions are intercepted, and which are left alone and why.
 */
#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>

#include "tools/cli.h"
#include "tools/hooks_table.h"

enum { KEY_JSON = 256 };

static error_t parse(int key, char *argument, struct argp_state *state)
{
    (void)argument;
    if (key != KEY_JSON)
        return ARGP_ERR_UNKNOWN;
    *(bool *)state->input = true;
    return 0;
}

static void print_json(void)
{
    struct json_object *list = json_object_new_array();
    for (const struct vg_hook_row *row = vg_hook_rows; row->symbol; row++) {
        struct json_object *item = json_object_new_object();
        vg_hook_text does;
        json_object_object_add(item, "symbol", json_object_new_string(row->symbol));
        json_object_object_add(item, "layer", json_object_new_string(vg_hook_layer(row)));
        json_object_object_add(item, "role", json_object_new_string(vg_hook_role(row->role)));
        json_object_object_add(item, "does", json_object_new_string(vg_hook_does(row, does)));
        json_object_array_add(list, item);
    }
    puts(json_object_to_json_string_ext(list,
                                        JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(list);
}

static void print_text(void)
{
    unsigned count[VG_HOOK_IGNORED + 1] = {0};
    for (const struct vg_hook_row *row = vg_hook_rows; row->symbol; row++) {
        vg_hook_text does;
        printf("%-38s %-8s %-8s %s\n", row->symbol, vg_hook_layer(row), vg_hook_role(row->role),
               vg_hook_does(row, does));
        count[row->role]++;
    }
    printf("%u counted, %u noted, %u named, %u look-ups, %u left alone\n", count[VG_HOOK_COUNTED],
           count[VG_HOOK_NOTED], count[VG_HOOK_NAMED], count[VG_HOOK_LOOKUP],
           count[VG_HOOK_IGNORED]);
}

int vg_cmd_hooks(int argc, char **argv)
{
    static const struct argp_option options[] = {{"json", KEY_JSON, 0, 0, "as JSON", 0}, {0}};
    static const struct argp argp = {
        options,
        parse,
        NULL,
        "Prints the table of functions: counted (they change the books), noted (they tell of "
        "captures and graphs), named (the runtime's name for a driver call), look-up (they hand "
        "out function pointers), ignored (left alone, with the reason).",
        NULL,
        NULL,
        NULL};
    bool json = false;
    vg_cli_parse(&argp, argc, argv, 0, &json);
    if (json)
        print_json();
    else
        print_text();
    return VG_EXIT_OK;
}
