/* hooks.h -- what the table hooks.def makes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of the rows, the registry, and the map from real pointers to wrappers.
 *
 * Threads: any; the map is filled under its own small lock, never while calling the loader.
 */
#ifndef VG_HOOKS_H
#define VG_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vg_hook_id {
    VG_HOOK_NONE,
#define HOOK(symbol, ...)    VG_HOOK_##symbol,
#define NOTE(symbol, ...)    VG_HOOK_##symbol,
#define RUNTIME(symbol, ...) VG_HOOK_##symbol,
#define LOOKUP(symbol, ...)  VG_HOOK_##symbol,
#include "interpose/hooks.def"
    VG_HOOK_COUNT
};

enum vg_hook_class { VG_CLASS_DRIVER, VG_CLASS_RUNTIME };

/* A provider is a loaded library that has real functions of the table: a libcuda, or one of several
 * libcudarts. A wrapper exists once per provider, so that it knows which real function is its own;
 * a provider more than there are slots is passed through unseen (and counted). */
enum { VG_PROVIDERS_MAX = 4 };

typedef void vg_any_fn(void);

/* Is there a row with this symbol? */
bool vg_hooks_has_name(const char *name);
const char *vg_hooks_name(unsigned hook); /* "" for VG_HOOK_NONE */
/* The wrapper of a real pointer that is the export of a row; anything else (NULL, our own wrappers,
 * unknown pointers) comes back unchanged. */
void *vg_hooks_map(void *pointer);
/* The real function of a row for a provider slot; NULL: it has none. */
vg_any_fn *vg_hooks_real(unsigned slot, unsigned hook);
/* The slot for a direct call of an export of ours, from the address it returns to.
 * VG_PROVIDERS_MAX: no library provides it. */
unsigned vg_hooks_slot_of_caller(unsigned hook, const void *caller);
/* A driver function that has no row (the guard's own needs), from the first driver seen; NULL: not
 * there. */
void *vg_hooks_driver_symbol(const char *name);
uint64_t vg_hooks_unmapped_providers(void);

#endif
