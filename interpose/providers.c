/* providers.c -- which loaded library has the real functions, and their map to our wrappers.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:   dlsym and the LOOKUP rows give every pointer they hand out to vg_hooks_map(); wrappers
 *          ask vg_hooks_real().
 * Holds:   a wrapper is chosen by the pointer that the real look-up returned, never by the name
 *          that was asked for. A provider, once published, stays: its library is held open, because
 *          programs keep the pointers for ever.
 * Threads: any. The loader is never called with the lock held.
 */
#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "core/ledger.h"
#include "interpose/raw_syscall.h"
#include "interpose/registry.h"
#include "interpose/resolve.h"
#include "interpose/thread.h"

struct provider {
    _Atomic uintptr_t base; /* 0: not there yet; stored last */
    void *handle;
    vg_any_fn *real[VG_HOOK_COUNT];
};

enum { CALLER_CACHE = 256, LOCK_NS = 100000000 /* a fork may have left it locked */ };
static struct {
    struct vg_lock lock;
    struct provider provider[2][VG_PROVIDERS_MAX]; /* by class */
    _Atomic uint64_t unmapped;
    _Atomic uint64_t caller[CALLER_CACHE]; /* return address << 8 | slot + 1 */
} state;

bool vg_hooks_has_name(const char *name)
{
    if (name[0] != 'c' || name[1] != 'u')
        return false;
    for (unsigned i = 1; i < VG_HOOK_COUNT; i++)
        if (strcmp(vg_hook_rows[i].symbol, name) == 0)
            return true;
    return false;
}

const char *vg_hooks_name(unsigned hook)
{
    return hook < VG_HOOK_COUNT ? vg_hook_rows[hook].symbol : "";
}

static unsigned row_of_name(const char *name)
{
    for (unsigned i = 1; i < VG_HOOK_COUNT; i++)
        if (strcmp(vg_hook_rows[i].symbol, name) == 0)
            return i;
    return VG_HOOK_NONE;
}

static uintptr_t own_base(void)
{
    static uintptr_t base;
    if (!base) {
        struct vg_object self;
        if (vg_resolve_object((const void *)(uintptr_t)own_base, &self))
            base = self.base;
    }
    return base;
}

static vg_any_fn *fn_from(void *pointer)
{
    vg_any_fn *fn;
    memcpy(&fn, &pointer, sizeof fn);
    return fn;
}

static void *pointer_from(vg_any_fn *fn)
{
    void *pointer;
    memcpy(&pointer, &fn, sizeof pointer);
    return pointer;
}

static int slot_of_base(enum vg_hook_class class, uintptr_t base)
{
    for (int slot = 0; slot < VG_PROVIDERS_MAX; slot++)
        if (atomic_load_explicit(&state.provider[class][slot].base, memory_order_acquire) == base)
            return slot;
    return -1;
}

/* The real functions of a library, as its own handle gives them. A look-up by handle also searches
 * what the library needs: only its own count. */
static void collect(struct provider *out, enum vg_hook_class class, const struct vg_object *object)
{
    out->handle = vg_resolve_open(object->path, RTLD_LAZY | RTLD_NOLOAD);
    for (unsigned i = 1; out->handle && i < VG_HOOK_COUNT; i++) {
        struct vg_object found;
        void *real =
            vg_hook_rows[i].hook_class == class ? vg_resolve_in(out->handle, vg_hook_rows[i].symbol)
                                                : NULL;
        if (real && vg_resolve_object(real, &found) && found.base == object->base)
            out->real[i] = fn_from(real);
    }
}

static int publish(enum vg_hook_class class, const struct provider *fresh, uintptr_t base)
{
    if (vg_lock_enter(&state.lock, vg_thread_id(), LOCK_NS) != VG_OK)
        return -1;
    int slot = slot_of_base(class, base);
    for (int i = 0; slot < 0 && i < VG_PROVIDERS_MAX; i++) {
        struct provider *place = &state.provider[class][i];
        if (place->base)
            continue;
        place->handle = fresh->handle;
        memcpy(place->real, fresh->real, sizeof place->real);
        atomic_store_explicit(&place->base, base, memory_order_release);
        slot = i;
    }
    vg_lock_leave(&state.lock);
    if (slot < 0)
        state.unmapped++;
    if (slot < 0 || state.provider[class][slot].handle != fresh->handle)
        vg_resolve_close(fresh->handle);
    return slot;
}

static int learn_provider(enum vg_hook_class class, const struct vg_object *object)
{
    struct provider fresh = {0};
    collect(&fresh, class, object);
    return fresh.handle ? publish(class, &fresh, object->base) : -1;
}

/* Where `pointer` comes from: its slot and row; false: not an export of a row. */
static bool locate(void *pointer, unsigned *slot_out, unsigned *hook_out)
{
    struct vg_object object;
    if (!vg_resolve_object(pointer, &object) || object.base == own_base())
        return false;
    for (int class = VG_CLASS_DRIVER; class <= VG_CLASS_RUNTIME; class ++) {
        int slot = slot_of_base((enum vg_hook_class) class, object.base);
        unsigned named = object.symbol ? row_of_name(object.symbol) : VG_HOOK_NONE;
        if (slot < 0 && named && vg_hook_rows[named].hook_class == (enum vg_hook_class) class)
            slot = learn_provider((enum vg_hook_class) class, &object);
        if (slot < 0)
            continue;
        for (unsigned i = 1; i < VG_HOOK_COUNT; i++)
            if (pointer_from(state.provider[class][slot].real[i]) == pointer) {
                *slot_out = (unsigned)slot;
                *hook_out = i;
                return true;
            }
    }
    return false;
}

void *vg_hooks_map(void *pointer)
{
    unsigned slot, hook;
    if (!pointer || !locate(pointer, &slot, &hook))
        return pointer;
    return pointer_from(vg_hook_rows[hook].entry[slot]);
}

vg_any_fn *vg_hooks_real(unsigned slot, unsigned hook)
{
    if (slot >= VG_PROVIDERS_MAX)
        return NULL;
    return state.provider[vg_hook_rows[hook].hook_class][slot].real[hook];
}

struct order_search {
    uintptr_t wanted, own;
    bool found;
};

static int find_before_us(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)size;
    struct order_search *search = argument;
    search->found = info->dlpi_addr == search->wanted;
    return info->dlpi_addr == search->own || search->found;
}

/* Loaded before us, so that its definitions hide ours. */
static bool is_ahead_of_us(const struct vg_object *object)
{
    struct order_search search = {.wanted = object->base, .own = own_base()};
    dl_iterate_phdr(find_before_us, &search);
    return search.found && search.wanted != search.own;
}

/* What the caller's own module sees under that name: its own scope first (a library opened
 * RTLD_LOCAL sees its own runtime), then the global one. */
static void *real_for_caller(const char *symbol, const void *caller)
{
    struct vg_object object;
    unsigned slot, hook;
    if (caller && vg_resolve_object(caller, &object) && object.path[0]) {
        void *real = vg_resolve_loaded(object.path, symbol);
        struct vg_object provider;
        /* An interposer in front of us finds itself: what it means is whatever comes after us. A
         * library behind us that brought a runtime means that one. */
        bool is_its_own =
            real && vg_resolve_object(real, &provider) && provider.base == object.base;
        if (real && !(is_its_own && is_ahead_of_us(&object)) && locate(real, &slot, &hook))
            return real;
    }
    return vg_resolve_next(symbol);
}

static unsigned first_slot(unsigned hook)
{
    for (unsigned slot = 0; slot < VG_PROVIDERS_MAX; slot++)
        if (vg_hooks_real(slot, hook))
            return slot;
    return VG_PROVIDERS_MAX;
}

static unsigned find_slot(unsigned hook, const void *caller)
{
    const struct vg_hook_row *row = &vg_hook_rows[hook];
    unsigned slot, found;
    void *real = real_for_caller(row->symbol, caller);
    if (!real && row->hook_class == VG_CLASS_DRIVER)
        real = vg_resolve_loaded("libcuda.so.1", row->symbol);
    if (real && locate(real, &slot, &found))
        return slot;
    /* Called from code that is in no library's scope (a JIT, a foreign-function library). */
    return first_slot(hook);
}

unsigned vg_hooks_slot_of_caller(unsigned hook, const void *caller)
{
    uint64_t key = (uint64_t)(uintptr_t)caller << 8;
    _Atomic uint64_t *place = &state.caller[((uintptr_t)caller >> 2) % CALLER_CACHE];
    uint64_t known = atomic_load_explicit(place, memory_order_relaxed);
    if ((known & ~UINT64_C(0xff)) == key && (known & 0xff) &&
        vg_hooks_real((unsigned)(known & 0xff) - 1, hook))
        return (unsigned)(known & 0xff) - 1;
    /* From a signal handler that interrupted the guard: perhaps inside the loader, which must not
     * be entered again. */
    bool interrupts = vg_thread.depth && !vg_thread.calling;
    if (interrupts && first_slot(hook) < VG_PROVIDERS_MAX)
        return first_slot(hook);
    vg_thread.depth++;
    unsigned slot = find_slot(hook, caller);
    vg_thread.depth--;
    vg_resolve_calm();
    if (slot < VG_PROVIDERS_MAX)
        atomic_store_explicit(place, key | (slot + 1), memory_order_relaxed);
    return slot;
}

void *vg_hooks_driver_symbol(const char *name)
{
    void *found = NULL;
    /* A provider may be another interposer, which has its own few functions only. */
    for (unsigned slot = 0; !found && slot < VG_PROVIDERS_MAX; slot++) {
        const struct provider *provider = &state.provider[VG_CLASS_DRIVER][slot];
        if (atomic_load_explicit(&provider->base, memory_order_acquire))
            found = vg_resolve_in(provider->handle, name);
    }
    return found ? found : vg_resolve_loaded("libcuda.so.1", name);
}

uint64_t vg_hooks_unmapped_providers(void)
{
    return state.unmapped;
}
