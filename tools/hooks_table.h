/* hooks_table.h -- interpose/hooks.def as data.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VG_HOOKS_TABLE_H
#define VG_HOOKS_TABLE_H

#include "core/event.h"

enum vg_hook_role {
    VG_HOOK_COUNTED,
    VG_HOOK_NOTED,
    VG_HOOK_NAMED,
    VG_HOOK_LOOKUP,
    VG_HOOK_IGNORED
};

struct vg_hook_row {
    const char *symbol; /* ends with * where it is a beginning of names */
    enum vg_hook_role role;
    const char *operation; /* name of the row in ops.def or notes.def, NULL none */
    enum vg_kind kind;
    const char *note; /* why it is left alone, NULL none */
};
extern const struct vg_hook_row vg_hook_rows[]; /* ends with symbol NULL */

typedef char vg_hook_text[64];
const char *vg_hook_role(enum vg_hook_role role);         /* "counted", "noted", "named", ... */
const char *vg_hook_layer(const struct vg_hook_row *row); /* "driver", "runtime" */
const char *vg_hook_does(const struct vg_hook_row *row,
                         vg_hook_text buffer); /* "alloc device", "free", or the note */

#endif
