/* resolve.h -- the loader's own answers, past the dlsym that this library interposes.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Threads: any. Nothing here is called with a lock of ours held, except vg_resolve_real_dlsym. On
 * systems before glibc 2.34 a program without libdl
 *          has none of these functions: they are weak here, and every answer is then NULL.
 */
#ifndef VG_RESOLVE_H
#define VG_RESOLVE_H

#include <stdbool.h>
#include <stdint.h>

/* The next dlsym behind ours: libc's, or another interposer's. NULL: the program has none. */
void *vg_resolve_real_dlsym(void);
/* The real dlsym(RTLD_DEFAULT, name), dlsym(RTLD_NEXT, name) from here, and dlsym(handle, name);
 * NULL where there is none. */
void *vg_resolve_default(const char *name);
void *vg_resolve_next(const char *name);
void *vg_resolve_in(void *handle, const char *name);
/* dlopen; NULL where the program has none. */
void *vg_resolve_open(const char *path, int flags);

/* The same for a function pointer at place; a null pointer where there is none. */
void vg_resolve_into(void *place, void *handle, const char *name);
void vg_resolve_close(void *handle);
/* A symbol of a library that is loaded already, without holding it: the program may unload it as
 * before. */
void *vg_resolve_loaded(const char *path, const char *name);
/* After look-ups of ours that may have failed inside a call of the program: dlerror() has nothing
 * to say. */
void vg_resolve_calm(void);

/* The loaded object that holds an address. name_out: its path as the loader knows it ("" for the
 * program), valid while it is loaded. */
struct vg_object {
    uintptr_t base;
    const char *path;
    const char *symbol; /* the exported symbol that starts exactly at the address, or NULL */
};
bool vg_resolve_object(const void *address, struct vg_object *out);

/* Called by dlsym_entry.S: where dlsym(handle, name) goes on. */
void *vg_dlsym_target(void *handle, const char *name);

#endif
