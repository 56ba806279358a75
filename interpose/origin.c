/* origin.c -- native and Python frames of a call, and their ids in the record.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:   gate.c and incident.c: capture outside the lock (it may take microseconds), intern
 *          inside it (it may write to the record).
 * Holds:   frames of this library are never kept, and where not all fit, what is left out first is
 *          the driver's and the runtime's own. Who retries is looked for in all that was captured,
 *          however few are kept. Native frames come first, then Python's, each innermost first.
 */
#include "interpose/origin.h"

#include <string.h>

#include "interpose/modules.h"
#include "interpose/unwind.h"

struct cached_python {
    uint64_t key[VG_PYTHON_KEY_WORDS];
    uint32_t frame;
};
enum { PYTHON_CACHE = 8192, TEXT_MAX = 1024, FAMILY_DEPTH = 32 };
static struct cached_python *python_cache; /* under the ledger lock */

static void capture(const struct vg_options *options, unsigned native, unsigned depth,
                    struct vg_origin *out)
{
    out->native_count = out->python_count = 0;
    out->cut = false;
    if (options->stacks & VG_STACKS_NATIVE) {
        unsigned want = native + VG_ORIGIN_OWN_MAX;
        out->native_count = vg_unwind(out->native, want);
        out->cut = out->native_count == want;
    }
    if ((options->stacks & VG_STACKS_PYTHON) && vg_python_probe() == VG_PYTHON_OK) {
        bool cut = false;
        out->python_count = vg_python_walk(out->python, depth, &cut);
        out->cut |= cut;
    }
}

void vg_origin_capture(const struct vg_options *options, struct vg_origin *out)
{
    unsigned depth = (unsigned)options->stack_depth;
    capture(options, depth > FAMILY_DEPTH ? depth : FAMILY_DEPTH, depth, out);
}

void vg_origin_capture_some(const struct vg_options *options, unsigned depth, struct vg_origin *out)
{
    unsigned most = (unsigned)options->stack_depth;
    capture(options, depth, depth < most ? depth : most, out);
}

static uint32_t python_frame(struct vg_stacks *stacks, const struct vg_python_frame *f)
{
    if (!python_cache)
        python_cache = vg_arena_alloc(stacks->arena, sizeof *python_cache * PYTHON_CACHE);
    uint64_t hash =
        (f->key[0] >> 4) * UINT64_C(0x9e3779b97f4a7c15) ^ f->key[1] * UINT64_C(0xc2b2ae3d27d4eb4f);
    struct cached_python *cached = python_cache ? &python_cache[(hash >> 32) % PYTHON_CACHE] : NULL;
    if (cached && cached->frame && memcmp(cached->key, f->key, sizeof f->key) == 0)
        return cached->frame;
    char file[TEXT_MAX], function[TEXT_MAX];
    int line = -1;
    vg_python_frame_text(f, file, sizeof file, function, sizeof function, &line);
    uint32_t frame = vg_stacks_frame_python(stacks, vg_strings_intern_z(stacks, file),
                                            vg_strings_intern_z(stacks, function), line);
    if (cached) {
        memcpy(cached->key, f->key, sizeof f->key);
        cached->frame = frame;
    }
    return frame;
}

/* The native frames that are kept. */
static unsigned native_frames(struct vg_stacks *stacks, const struct vg_origin *origin,
                              unsigned depth, uint32_t *frames, uint32_t *families_out)
{
    unsigned count = 0, of_cuda = 0; /* those of CUDA at the inner end */
    for (unsigned i = 0; i < origin->native_count; i++) {
        uint32_t traits;
        uint32_t frame = vg_modules_frame(stacks, origin->native[i], &traits);
        *families_out |= traits & VG_TRAIT_FAMILIES;
        if (traits & VG_TRAIT_OWN)
            continue;
        of_cuda += of_cuda == count && traits & VG_TRAIT_CUDA;
        frames[count++] = frame;
    }
    unsigned skipped = count > depth && of_cuda < count ? count - depth : 0;
    skipped = skipped < of_cuda ? skipped : of_cuda;
    memmove(frames, frames + skipped, (count - skipped) * sizeof *frames);
    return count - skipped;
}

uint32_t vg_origin_intern(struct vg_ledger *ledger, const struct vg_options *options,
                          const struct vg_origin *origin, uint32_t *families_out)
{
    uint32_t frames[2 * VG_ORIGIN_DEPTH_MAX + VG_ORIGIN_OWN_MAX];
    unsigned python = 0, depth = (unsigned)options->stack_depth;
    if (origin->native_count)
        vg_modules_refresh(&ledger->stacks);
    *families_out = 0;
    unsigned native = native_frames(&ledger->stacks, origin, depth, frames, families_out);
    bool cut = origin->cut || native > depth;
    native = native < depth ? native : depth;
    for (; python < origin->python_count && python < depth; python++)
        frames[native + python] = python_frame(&ledger->stacks, &origin->python[python]);
    return vg_stacks_intern(&ledger->stacks, frames, native, python, cut);
}
