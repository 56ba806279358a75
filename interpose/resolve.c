/* resolve.c -- the real dlsym, and the loader's answers as libvramguard needs them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:   dlsym_entry.S asks vg_dlsym_target() where a dlsym call goes on. Everything that looks a
 *          symbol up goes through here: calling the public dlsym from this library would call
 *          ourselves.
 * Threads: any; works before constructors have run.
 * Not here: which pointers are exchanged for wrappers (hooks.c).
 */
#include "interpose/resolve.h"

#include <dlfcn.h>
#include <string.h>

#include "interpose/hooks.h"

/* Since glibc 2.34 these live in libc under a new version that older systems do not have; the old
 * one is still there. Before 2.34 they are in libdl, which a program that never uses it does not
 * load: weak, so that such a program starts all the same. */
#if defined(__x86_64__)
#define VG_OLD "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define VG_OLD "GLIBC_2.17"
#endif
__asm__(".symver dlopen,dlopen@" VG_OLD);
__asm__(".symver dlclose,dlclose@" VG_OLD);
__asm__(".symver dlvsym,dlvsym@" VG_OLD);
__asm__(".symver dladdr,dladdr@" VG_OLD);
#pragma weak dlopen
#pragma weak dlclose
#pragma weak dlvsym
#pragma weak dladdr

typedef void *vg_dlsym_fn(void *, const char *);

static vg_dlsym_fn *fn_from(void *pointer)
{
    vg_dlsym_fn *fn;
    memcpy(&fn, &pointer, sizeof fn);
    return fn;
}

void *vg_resolve_real_dlsym(void)
{
    static void *found; /* the same value whoever writes it */
    void *real = __atomic_load_n(&found, __ATOMIC_RELAXED);
    if (real || !dlvsym)
        return real;
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    for (unsigned i = 0; !real && i < sizeof versions / sizeof *versions; i++)
        real = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    __atomic_store_n(&found, real, __ATOMIC_RELAXED);
    return real;
}

void *vg_resolve_in(void *handle, const char *name)
{
    void *real = vg_resolve_real_dlsym();
    return real ? fn_from(real)(handle, name) : NULL;
}

void *vg_resolve_default(const char *name)
{
    return vg_resolve_in(RTLD_DEFAULT, name);
}

void *vg_resolve_next(const char *name)
{
    /* RTLD_NEXT is answered for the module of the return address, so the call must not become a
     * jump. */
    void *volatile answer = vg_resolve_in(RTLD_NEXT, name);
    return answer;
}

void *vg_resolve_open(const char *path, int flags)
{
    return dlopen ? dlopen(path, flags) : NULL;
}

void vg_resolve_into(void *place, void *handle, const char *name)
{
    void *found = vg_resolve_in(handle, name);
    memcpy(place, &found, sizeof found);
}

void vg_resolve_close(void *handle)
{
    if (handle && dlclose)
        dlclose(handle);
}

void *vg_resolve_loaded(const char *path, const char *name)
{
    void *handle = vg_resolve_open(path, RTLD_LAZY | RTLD_NOLOAD);
    void *found = handle ? vg_resolve_in(handle, name) : NULL;
    vg_resolve_close(handle);
    return found;
}

void vg_resolve_calm(void)
{
    vg_resolve_default("dlsym");
}

bool vg_resolve_object(const void *address, struct vg_object *out)
{
    Dl_info info;
    if (!dladdr || !dladdr(address, &info) || !info.dli_fname)
        return false;
    out->base = (uintptr_t)info.dli_fbase;
    out->path = info.dli_fname;
    out->symbol = info.dli_saddr == address ? info.dli_sname : NULL;
    return true;
}

/* dlsym for a real handle and a name of the table: the real answer first, then its wrapper. Its
 * caller does not matter to a lookup by handle. */
static void *dlsym_mapped(void *handle, const char *name)
{
    void *real = vg_resolve_in(handle, name);
    void *mapped = real ? vg_hooks_map(real) : NULL;
    if (real)
        vg_resolve_in(
            handle,
            name); /* dlerror() speaks of the program's own look-up, not of ours in between */
    return mapped;
}

void *vg_dlsym_target(void *handle, const char *name)
{
    void *real = vg_resolve_real_dlsym();
    if (handle == RTLD_NEXT || handle == RTLD_DEFAULT || !name || !vg_hooks_has_name(name))
        return real;
    vg_dlsym_fn *mapped = dlsym_mapped;
    memcpy(&real, &mapped, sizeof real);
    return real;
}
