/* hooks.c -- the wrappers, made from hooks.def.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:   program -> wrapper -> gate -> real function. One wrapper shape serves all rows of a
 *          class; what differs is in the row.
 * Holds:   a wrapper returns what the real function returned, and calls it exactly once.
 * Not here: the map from pointers to wrappers (providers.c), policy (gate.c, incident.c).
 */
#include "interpose/hooks.h"

#include "interpose/arrays.h"
#include "interpose/cuda_abi.h"
#include "interpose/export.h"
#include "interpose/gate.h"
#include "interpose/notes.h"
#include "interpose/registry.h"
#include "interpose/resolve.h"

#define UNWRAP(...) __VA_ARGS__

/* a x b, or nearly the largest number where that is more: an absurd request stays absurd (the
 * largest is VG_UNKNOWN). */
static inline uint64_t vg_bytes_product(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX - 1 : product;
}

/* A field of what the program points to; 0 where it passed NULL, which the driver will refuse. */
#define vg_field(pointer, field) ((pointer) ? (pointer)->field : 0)
/* The device that properties of memory or of a pool name; -1: the host. */
#define vg_device_of(props)                                                                        \
    ((props) && (props)->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? (props)->location.id : -1)
/* An array's shape, of either descriptor; it lives as long as the wrapper's call. */
#define vg_plane(desc)                                                                             \
    ((desc) ? &(struct vg_array_shape){.width = (desc)->Width,                                     \
                                       .height = (desc)->Height,                                   \
                                       .format = (uint32_t)(desc)->Format,                         \
                                       .channels = (desc)->NumChannels}                            \
            : NULL)
#define vg_box(desc, levels_)                                                                      \
    ((desc) ? &(struct vg_array_shape){.width = (desc)->Width,                                     \
                                       .height = (desc)->Height,                                   \
                                       .depth = (desc)->Depth,                                     \
                                       .format = (uint32_t)(desc)->Format,                         \
                                       .channels = (desc)->NumChannels,                            \
                                       .flags = (desc)->Flags,                                     \
                                       .levels = (levels_)}                                        \
            : NULL)

static void vg_note_node(struct vg_note *n, const CUgraphNodeParams *params)
{
    if (params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
        n->note = VG_NOTE_GRAPH_ALLOC;
        n->addr = params->alloc.dptr;
        n->bytes = params->alloc.bytesize;
    } else if (params->type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
        n->note = VG_NOTE_GRAPH_FREE;
        n->addr = params->free.dptr;
    }
}

/* Every exported name, declared: the compiler then checks wrapper, row and cuda_abi.h against each
 * other. */
#define HOOK(symbol, asked, since, ps, op, kind, params, args, before, after)                      \
    VG_EXPORT CUresult symbol params;
#define NOTE(symbol, asked, since, ps, note, params, args, before, after)                          \
    VG_EXPORT CUresult symbol params;
#define RUNTIME(symbol, op, kind, params, args, before, after) VG_EXPORT cudaError_t symbol params;
#define LOOKUP(symbol, class, type, params, args, out)         VG_EXPORT type symbol params;
#include "interpose/hooks.def"

/* --- the body of each wrapper; `slot` says whose real function is meant ----------------------- */

/* A direct call can reach us where the driver behind us lacks the function: that is what it says
 * then. */
#define REAL_OR(missing, symbol)                                                                   \
    __typeof__(&symbol) real = (__typeof__(&symbol))vg_hooks_real(slot, VG_HOOK_##symbol);         \
    if (!real)                                                                                     \
    return missing

#define HOOK(symbol, asked, since, ps, op_, kind_, params, args, before, after)                    \
    static VG_NOINLINE CUresult body_##symbol(unsigned slot, UNWRAP params)                        \
    {                                                                                              \
        REAL_OR(CUDA_ERROR_NOT_SUPPORTED, symbol);                                                 \
        struct vg_event e = {                                                                      \
            .hook = VG_HOOK_##symbol, .op = VG_OP_##op_, .kind = VG_KIND_##kind_, UNWRAP before};  \
        if (!vg_gate_enter(&e))                                                                    \
            return real args;                                                                      \
        CUresult rc = real args;                                                                   \
        if (rc == CUDA_SUCCESS) {                                                                  \
            UNWRAP after;                                                                          \
        }                                                                                          \
        vg_gate_leave(&e, (int)rc);                                                                \
        return rc;                                                                                 \
    }
#define NOTE(symbol, asked, since, ps, note_, params, args, before, after)                         \
    static VG_NOINLINE CUresult body_##symbol(unsigned slot, UNWRAP params)                        \
    {                                                                                              \
        REAL_OR(CUDA_ERROR_NOT_SUPPORTED, symbol);                                                 \
        struct vg_note n = {.hook = VG_HOOK_##symbol, .note = VG_NOTE_##note_, UNWRAP before};     \
        if (!vg_note_enter(&n))                                                                    \
            return real args;                                                                      \
        CUresult rc = real args;                                                                   \
        if (rc == CUDA_SUCCESS) {                                                                  \
            UNWRAP after;                                                                          \
        }                                                                                          \
        vg_note_leave(&n, (int)rc);                                                                \
        return rc;                                                                                 \
    }
#define RUNTIME(symbol, op_, kind_, params, args, before, after)                                   \
    static VG_NOINLINE cudaError_t body_##symbol(unsigned slot, UNWRAP params)                     \
    {                                                                                              \
        REAL_OR(cudaErrorNotSupported, symbol);                                                    \
        struct vg_event e = {                                                                      \
            .hook = VG_HOOK_##symbol, .op = VG_OP_##op_, .kind = VG_KIND_##kind_, UNWRAP before};  \
        struct vg_runtime_call call;                                                               \
        vg_gate_runtime_enter(&call, &e);                                                          \
        cudaError_t rc = real args;                                                                \
        if (rc == cudaSuccess) {                                                                   \
            UNWRAP after;                                                                          \
        }                                                                                          \
        vg_gate_runtime_leave(&call, &e, (int)rc);                                                 \
        return rc;                                                                                 \
    }
#define LOOKUP(symbol, class, type, params, args, out)                                             \
    static VG_NOINLINE type body_##symbol(unsigned slot, UNWRAP params)                            \
    {                                                                                              \
        REAL_OR((type)CUDA_ERROR_NOT_SUPPORTED, symbol);                                           \
        type rc = real args;                                                                       \
        if ((int)rc == 0 && out && *out) {                                                         \
            *out = vg_hooks_map(*out);                                                             \
            vg_resolve_calm();                                                                     \
        }                                                                                          \
        return rc;                                                                                 \
    }
#include "interpose/hooks.def"

/* --- one entry per provider slot, and the exported one ---------------------------------------- */

#define ENTRIES(symbol, type, params, args)                                                        \
    static type entry0_##symbol params                                                             \
    {                                                                                              \
        return body_##symbol(0, UNWRAP args);                                                      \
    }                                                                                              \
    static type entry1_##symbol params                                                             \
    {                                                                                              \
        return body_##symbol(1, UNWRAP args);                                                      \
    }                                                                                              \
    static type entry2_##symbol params                                                             \
    {                                                                                              \
        return body_##symbol(2, UNWRAP args);                                                      \
    }                                                                                              \
    static type entry3_##symbol params                                                             \
    {                                                                                              \
        return body_##symbol(3, UNWRAP args);                                                      \
    }                                                                                              \
    type symbol params                                                                             \
    {                                                                                              \
        return body_##symbol(                                                                      \
            vg_hooks_slot_of_caller(VG_HOOK_##symbol, __builtin_return_address(0)), UNWRAP args);  \
    }
#define HOOK(symbol, asked, since, ps, op, kind, params, args, before, after)                      \
    ENTRIES(symbol, CUresult, params, args)
#define NOTE(symbol, asked, since, ps, note, params, args, before, after)                          \
    ENTRIES(symbol, CUresult, params, args)
#define RUNTIME(symbol, op, kind, params, args, before, after)                                     \
    ENTRIES(symbol, cudaError_t, params, args)
#define LOOKUP(symbol, class, type, params, args, out) ENTRIES(symbol, type, params, args)
#include "interpose/hooks.def"

#define ROW(symbol, class_)                                                                        \
    [VG_HOOK_##symbol] = {                                                                         \
        #symbol,                                                                                   \
        VG_CLASS_##class_,                                                                         \
        (vg_any_fn *)symbol,                                                                       \
        {(vg_any_fn *)entry0_##symbol, (vg_any_fn *)entry1_##symbol, (vg_any_fn *)entry2_##symbol, \
         (vg_any_fn *)entry3_##symbol},                                                            \
    },
const struct vg_hook_row vg_hook_rows[VG_HOOK_COUNT] = {
    [VG_HOOK_NONE] = {"", VG_CLASS_DRIVER, NULL, {NULL, NULL, NULL, NULL}},
#define HOOK(symbol, ...)          ROW(symbol, DRIVER)
#define NOTE(symbol, ...)          ROW(symbol, DRIVER)
#define RUNTIME(symbol, ...)       ROW(symbol, RUNTIME)
#define LOOKUP(symbol, class, ...) ROW(symbol, class)
#include "interpose/hooks.def"
};
