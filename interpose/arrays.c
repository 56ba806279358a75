/* arrays.c -- how many bytes an array takes: only the driver knows.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:   hooks.def describes, gate.c asks.
 * Holds:   the program's own array is never asked: one of the same shape without memory is
 *          (vg_driver_array_bytes). So an array that was made while a stream captured can be
 *          asked for afterwards, whatever has become of it meanwhile.
 * Threads: `waiting` is under the ledger lock, its count is read without it.
 */
#include "interpose/arrays.h"

#include "interpose/captures.h"
#include "interpose/cuda_abi.h"
#include "interpose/driver.h"
#include "interpose/lifecycle.h"

enum { WAITING_MAX = 256 };

static struct {
    struct waiting {
        uint64_t handle;
        int32_t device;
        uint8_t kind;
        struct vg_array_shape shape;
    } waiting[WAITING_MAX];
    _Atomic unsigned count;
} state;

static uint64_t product(uint64_t a, uint64_t b)
{
    uint64_t result;
    return __builtin_mul_overflow(a, b, &result) ? UINT64_MAX - 1 : result;
}

static uint64_t or_1(uint64_t n)
{
    return n ? n : 1;
}

/* CU_AD_FORMAT_*: 1, 8 are 8 bit; 2, 9, 16 are 16 bit; 3, 10, 32 are 32 bit. Others are block
 * formats: taken as 1 byte. */
static uint64_t format_bytes(uint32_t format)
{
    switch (format) {
    case 2:
    case 9:
    case 16:
        return 2;
    case 3:
    case 10:
    case 32:
        return 4;
    default:
        return 1;
    }
}

uint64_t vg_arrays_guess(const struct vg_array_shape *shape)
{
    uint64_t bytes = 0;
    if (!shape || shape->flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
        return 0;
    for (uint32_t level = 0; level < or_1(shape->levels) && level < 32; level++) {
        uint64_t plane = product(or_1(shape->width >> level), or_1(shape->height >> level));
        uint64_t box = product(plane, or_1(shape->depth >> level));
        uint64_t add = product(box, shape->channels * format_bytes(shape->format));
        bytes = add > UINT64_MAX - 1 - bytes ? UINT64_MAX - 1 : bytes + add;
    }
    return bytes;
}

static bool is_array(const struct vg_event *e)
{
    return (e->kind == VG_KIND_ARRAY || e->kind == VG_KIND_MIPMAP) && e->detail && e->bytes;
}

void vg_arrays_ask(struct vg_event *e)
{
    if (!is_array(e))
        return;
    if (vg_captures_any()) {
        e->flags |= VG_SLOT_GUESSED;
        return;
    }
    uint64_t told = vg_driver_array_bytes(e->detail, e->device);
    e->bytes = told ? told : e->bytes;
}

void vg_arrays_remember(const struct vg_event *e)
{
    unsigned i = 0, count = state.count;
    if (!is_array(e) || !(e->flags & VG_SLOT_GUESSED))
        return;
    while (i < count && state.waiting[i].handle != e->addr)
        i++; /* a handle that comes again is another array */
    if (i == WAITING_MAX)
        return; /* its guess stays */
    state.waiting[i] = (struct waiting){.handle = e->addr,
                                        .device = e->device,
                                        .kind = e->kind,
                                        .shape = *(const struct vg_array_shape *)e->detail};
    if (i == count)
        state.count = count + 1;
}

/* Takes one of this device out. */
static bool take(struct vg_guard *guard, int32_t device, struct waiting *out)
{
    bool found = false;
    if (!vg_guard_lock(guard))
        return false;
    for (unsigned i = 0; !found && i < state.count; i++) {
        found = state.waiting[i].device == device;
        if (!found)
            continue;
        *out = state.waiting[i];
        state.waiting[i] = state.waiting[--state.count];
    }
    vg_guard_unlock(guard);
    return found;
}

void vg_arrays_settle(struct vg_guard *guard)
{
    struct vg_driver_context context;
    struct waiting one;
    if (!state.count || vg_captures_any())
        return;
    vg_driver_current(&context);
    while (context.device >= 0 && take(guard, context.device, &one)) {
        uint64_t told = vg_driver_array_bytes(&one.shape, one.device);
        if (!told || !vg_guard_lock(guard))
            continue;
        struct vg_event e = {.op = VG_OP_RESIZE,
                             .kind = one.kind,
                             .addr = one.handle,
                             .bytes = told,
                             .time_ns = vg_guard_now(guard)};
        vg_ledger_apply(&guard->ledger, &e);
        vg_guard_unlock(guard);
    }
}
