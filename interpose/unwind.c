/* unwind.c -- native stacks by a privately opened unwinder.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:   origin.c asks before the ledger lock is taken.
 * Holds:   libunwind is opened RTLD_LOCAL: linked or opened globally, its _Unwind_* would be bound
 *          by every library that throws (measured).
 * Threads: any. unw_backtrace with its per-thread cache does not allocate from libc after a
 * thread's first call.
 */
#include "interpose/unwind.h"

#include <dlfcn.h>
#include <string.h>
#include <unwind.h>

#include "interpose/resolve.h"

enum {
    CACHE_ENTRIES = 1024,
    UNW_CACHE_PER_THREAD_POLICY = 2
}; /* libunwind's unw_caching_policy_t: none, global, per thread */
#if defined(__x86_64__)
#define UNW(name)  "_Ux86_64_" name
#define UNWL(name) "_ULx86_64_" name
#else
#define UNW(name)  "_Uaarch64_" name
#define UNWL(name) "_ULaarch64_" name
#endif

typedef int backtrace_fn(void **, int);
typedef int set_policy_fn(void *, int);
typedef int set_size_fn(void *, size_t, int);
typedef void flush_fn(void *, uint64_t, uint64_t);
typedef _Unwind_Reason_Code gcc_backtrace_fn(_Unwind_Trace_Fn, void *);
typedef uintptr_t gcc_get_ip_fn(struct _Unwind_Context *);

static struct {
    const char *name;
    backtrace_fn *backtrace;
    flush_fn *flush;
    void *space;
    gcc_backtrace_fn *gcc_backtrace;
    gcc_get_ip_fn *gcc_get_ip;
} state = {.name = "none"};

static bool open_libunwind(void)
{
    void *handle = vg_resolve_open("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return false;
    set_policy_fn *set_policy;
    set_size_fn *set_size;
    void *space = vg_resolve_in(handle, UNWL("local_addr_space"));
    vg_resolve_into(&state.backtrace, handle, "unw_backtrace");
    vg_resolve_into(&set_policy, handle, UNWL("set_caching_policy"));
    vg_resolve_into(&set_size, handle, UNWL("set_cache_size"));
    vg_resolve_into(&state.flush, handle, UNW("flush_cache"));
    if (!state.backtrace)
        return false;
    if (space) {
        memcpy(&state.space, space, sizeof state.space);
        if (set_policy)
            set_policy(state.space, UNW_CACHE_PER_THREAD_POLICY);
        if (set_size)
            set_size(state.space, CACHE_ENTRIES, 0);
    }
    state.name = "libunwind";
    return true;
}

static bool open_libgcc(void)
{
    void *handle = vg_resolve_open("libgcc_s.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return false;
    vg_resolve_into(&state.gcc_backtrace, handle, "_Unwind_Backtrace");
    vg_resolve_into(&state.gcc_get_ip, handle, "_Unwind_GetIP");
    if (!state.gcc_backtrace || !state.gcc_get_ip)
        return false;
    state.name = "libgcc_s";
    return true;
}

void vg_unwind_init(void)
{
    if (!open_libunwind())
        open_libgcc();
}

const char *vg_unwind_name(void)
{
    return state.name;
}

struct gcc_walk {
    uint64_t *out;
    unsigned count, max;
};

static _Unwind_Reason_Code gcc_step(struct _Unwind_Context *context, void *argument)
{
    struct gcc_walk *walk = argument;
    if (walk->count >= walk->max)
        return _URC_END_OF_STACK;
    walk->out[walk->count++] = state.gcc_get_ip(context);
    return _URC_NO_REASON;
}

bool vg_unwind_is_there(void)
{
    return state.backtrace || state.gcc_backtrace;
}

unsigned vg_unwind(uint64_t *out, unsigned max)
{
    _Static_assert(sizeof(void *) == sizeof(uint64_t), "return addresses are 64-bit");
    if (state.backtrace) {
        int n = state.backtrace((void **)out, (int)max);
        return n > 0 ? (unsigned)n : 0;
    }
    if (state.gcc_backtrace) {
        struct gcc_walk walk = {out, 0, max};
        state.gcc_backtrace(gcc_step, &walk);
        return walk.count;
    }
    return 0;
}

void vg_unwind_flush(void)
{
    if (state.flush && state.space)
        state.flush(state.space, 0, 0);
}
