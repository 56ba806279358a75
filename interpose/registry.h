/* registry.h -- the rows of hooks.def as data; private to hooks.c and providers.c.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VG_REGISTRY_H
#define VG_REGISTRY_H

#include "interpose/hooks.h"

struct vg_hook_row {
    const char *symbol;
    enum vg_hook_class hook_class;
    vg_any_fn *exported;
    vg_any_fn *entry[VG_PROVIDERS_MAX];
};
extern const struct vg_hook_row vg_hook_rows[VG_HOOK_COUNT];

#endif
