/* cmd_version.c -- `vramguard version`.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>

#include "core/layout.h"
#include "tools/cli.h"

int vg_cmd_version(int argc, char **argv)
{
    static const struct argp argp = {.doc = "Prints the version."};
    vg_cli_parse(&argp, argc, argv, 0, NULL);
    printf("vramguard %s (record format %u)\n", VG_TOOL_VERSION, VG_VERSION);
    return VG_EXIT_OK;
}
