/* torch.c -- the reporting callbacks of c10.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every tensor that PyTorch's caching allocator hands out or takes back, and its word that it gives
 * up.
 *
 * Place:   libc10_cuda calls these through its PLT, so a preloaded definition comes first; the
 *          original is called after us (torch.profiler needs it).
 * Holds:   both run under the allocator's lock, with or without the GIL: nothing here calls torch,
 *          takes the GIL or waits. A size above zero is a block handed out, below zero one taken
 *          back; the device is two int8 in one register: type (1: CUDA) and index.
 * Source:  names from `nm -D` of the wheels 2.6 to 2.14 (size_t, "lmm") and Debian's 1.13 (int64_t,
 *          "lll"); both have the same C form.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "interpose/export.h"
#include "interpose/gate.h"
#include "interpose/incident.h"
#include "interpose/lifecycle.h"
#include "interpose/modules.h"
#include "interpose/resolve.h"
#include "interpose/text_file.h"
#include "interpose/thread.h"

struct c10_device {
    int8_t type, index;
};
enum { C10_CUDA = 1 };

typedef void usage_fn(void *, int64_t, size_t, size_t, struct c10_device);
typedef void oom_fn(int64_t, size_t, size_t, struct c10_device);

#define USAGE(suffix) _ZN3c1027reportMemoryUsageToProfilerEPv##suffix##NS_6DeviceE
#define OOM(suffix)   _ZN3c1027reportOutOfMemoryToProfilerE##suffix##NS_6DeviceE
#define TEXT(x)       TEXT_OF(x)
#define TEXT_OF(x)    #x

/* The original in libc10.so, which may have been opened RTLD_LOCAL; NULL: there is none. Looked up
 * once, for it is there before its first caller is; errno and dlerror() stay the program's. */
static void *original(void **place, const char *name)
{
    static char none;
    void *found = __atomic_load_n(place, __ATOMIC_RELAXED);
    if (!found) {
        int saved_errno = errno;
        found = vg_resolve_loaded("libc10.so", name);
        vg_resolve_calm();
        found = found ? found : &none;
        __atomic_store_n(place, found, __ATOMIC_RELAXED);
        errno = saved_errno;
    }
    return found == &none ? NULL : found;
}

/* "2.11.0+cu130" out of torch/version.py, which lies above the directory of libc10.so. Once,
 * without a lock. */
static void note_version(struct vg_guard *guard)
{
    static _Atomic bool done;
    static void *place;
    struct vg_object c10;
    char path[VG_PATH_MAX], text[1024];
    void *known = done ? NULL : original(&place, TEXT(USAGE(lmm)));
    if (!known || atomic_exchange(&done, true) || !vg_resolve_object(known, &c10) ||
        !strrchr(c10.path, '/'))
        return;
    int length = (int)(strrchr(c10.path, '/') - c10.path);
    if ((size_t)snprintf(path, sizeof path, "%.*s/../version.py", length, c10.path) >= sizeof path)
        return;
    vg_text_read(path, text, sizeof text);
    const char *version = strstr(text, "__version__ = '");
    if (version && vg_guard_lock(guard)) {
        version += strlen("__version__ = '");
        guard->record.header->torch =
            vg_strings_intern(&guard->ledger.stacks, version, strcspn(version, "'\n"));
        vg_guard_unlock(guard);
    }
}

/* Every block tells that the allocator is the caching one; which blocks there are is recorded where
 * the options say so. COLD ends here too: memory that was had in a way without a hook is handed out
 * all the same. */
static void note_usage(void *address, int64_t size, struct c10_device device)
{
    if (!address || !size || device.type != C10_CUDA)
        return;
    struct vg_event e = {.op = size > 0 ? VG_OP_ALLOC : VG_OP_FREE,
                         .kind = VG_KIND_BLOCK,
                         .layer = VG_LAYER_TORCH,
                         .addr = (uint64_t)(uintptr_t)address,
                         .bytes = (uint64_t)(size > 0 ? size : -size),
                         .device = device.index};
    vg_incident_framework_is_caching(VG_FAMILY_TORCH);
    struct vg_own own;
    if (!vg_own_enter(&own))
        return;
    struct vg_guard *guard = vg_lifecycle_guard(size > 0);
    if (guard && guard->options.torch)
        vg_gate_block(guard, &e);
    if (guard)
        note_version(guard);
    vg_own_leave(&own);
}

/* The framework's own word that it gives up, whether its blocks are followed or not, and also where
 * nothing was seen before. */
static void note_oom(int64_t size, struct c10_device device)
{
    struct vg_own own;
    if (device.type != C10_CUDA || !vg_own_enter(&own))
        return;
    struct vg_guard *guard = vg_lifecycle_guard(true);
    if (guard)
        vg_incident_framework_gave_up(guard, VG_FAMILY_TORCH, device.index,
                                      size > 0 ? (uint64_t)size : 0);
    vg_own_leave(&own);
}

#define CALLBACKS(suffix)                                                                          \
    VG_EXPORT void USAGE(suffix)(void *address, int64_t size, size_t allocated, size_t reserved,   \
                                 struct c10_device device);                                        \
    VG_EXPORT void OOM(suffix)(int64_t size, size_t allocated, size_t reserved,                    \
                               struct c10_device device);                                          \
    void USAGE(suffix)(void *address, int64_t size, size_t allocated, size_t reserved,             \
                       struct c10_device device)                                                   \
    {                                                                                              \
        static void *place;                                                                        \
        usage_fn *real;                                                                            \
        note_usage(address, size, device);                                                         \
        void *found = original(&place, TEXT(USAGE(suffix)));                                       \
        memcpy(&real, &found, sizeof real);                                                        \
        if (found)                                                                                 \
            real(address, size, allocated, reserved, device);                                      \
    }                                                                                              \
    void OOM(suffix)(int64_t size, size_t allocated, size_t reserved, struct c10_device device)    \
    {                                                                                              \
        static void *place;                                                                        \
        oom_fn *real;                                                                              \
        note_oom(size, device);                                                                    \
        void *found = original(&place, TEXT(OOM(suffix)));                                         \
        memcpy(&real, &found, sizeof real);                                                        \
        if (found)                                                                                 \
            real(size, allocated, reserved, device);                                               \
    }
CALLBACKS(lmm)
CALLBACKS(lll)
