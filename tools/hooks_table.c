/* hooks_table.c -- interpose/hooks.def as data: of a row only its names are taken, never its code.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tools/hooks_table.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/event.h"

const struct vg_hook_row vg_hook_rows[] = {
#define HOOK(symbol, asked, since, ps, op, kind, ...)                                              \
    {#symbol, VG_HOOK_COUNTED, #op, VG_KIND_##kind, NULL},
#define NOTE(symbol, asked, since, ps, note, ...)                                                  \
    {#symbol, VG_HOOK_NOTED, #note, VG_KIND_NONE, NULL},
#define RUNTIME(symbol, op, kind, ...) {#symbol, VG_HOOK_NAMED, #op, VG_KIND_##kind, NULL},
#define LOOKUP(symbol, ...)            {#symbol, VG_HOOK_LOOKUP, NULL, VG_KIND_NONE, NULL},
#define IGNORE(symbol, reason)         {#symbol, VG_HOOK_IGNORED, NULL, VG_KIND_NONE, reason},
#define IGNORE_FAMILY(beginning, reason)                                                           \
    {#beginning "*", VG_HOOK_IGNORED, NULL, VG_KIND_NONE, reason},
#include "interpose/hooks.def"
    {NULL, VG_HOOK_IGNORED, NULL, VG_KIND_NONE, NULL},
};

const char *vg_hook_role(enum vg_hook_role role)
{
    switch (role) {
    case VG_HOOK_COUNTED:
        return "counted";
    case VG_HOOK_NOTED:
        return "noted";
    case VG_HOOK_NAMED:
        return "named";
    case VG_HOOK_LOOKUP:
        return "look-up";
    default:
        return "ignored";
    }
}

const char *vg_hook_layer(const struct vg_hook_row *row)
{
    return strncmp(row->symbol, "cuda", 4) ? "driver" : "runtime";
}

const char *vg_hook_does(const struct vg_hook_row *row, vg_hook_text buffer)
{
    if (row->note)
        return row->note;
    if (!row->operation)
        return "hands out function pointers";
    if (!strcmp(row->operation, "NONE"))
        return "names the call";
    size_t at = 0;
    for (const char *c = row->operation; *c && at + 1 < sizeof(vg_hook_text); c++)
        buffer[at++] = *c == '_' ? ' ' : (char)tolower((unsigned char)*c);
    buffer[at] = 0;
    if (row->kind != VG_KIND_NONE)
        snprintf(buffer + at, sizeof(vg_hook_text) - at, " %s", vg_kind_key(row->kind));
    return buffer;
}
