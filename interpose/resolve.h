/* resolve.h -- the loader's own answers, past the dlsym that this library interposes.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VG_RESOLVE_H
#define VG_RESOLVE_H

/* The real dlsym(RTLD_DEFAULT, name) and dlsym(handle, name); NULL where there is none. */
void *vg_resolve_default(const char *name);
void *vg_resolve_in(void *handle, const char *name);

/* dlopen; NULL where the program has none. */
void *vg_resolve_open(const char *path, int flags);

#endif
