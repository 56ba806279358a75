/* python_frames.c -- the calling thread's Python frames, read raw: no Python.h, no GIL, no lock.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:      origin -> python_frames -> the interpreter's memory. Layouts: python_layout.def;
 *             texts: python_lines.c; which interpreter it is: python_probe.c.
 * Holds:      nothing is read through a layout before the interpreter's types carry the sizes of
 *             its row.
 * Threads:    any. A thread's frame chain changes only by that thread, which is inside our hook,
 *             and the frames hold their code objects, whose strings and tables never change: plain
 *             reads are safe.
 * Not here:   interning of frames and native frames (origin.c).
 */
#include "interpose/python_frames.h"
#include "interpose/python_layout.h"

#include <pthread.h>

enum { OWNER_GENERATOR = 1, OWNER_C_STACK = 3 };
enum { MOST_HIDDEN = 10000 }; /* in one walk: a bound against a chain that never ends */

/* Two words into one: the product of both, folded. Cheaper sums, of turned words or of words times
 * constants, were seen to come out equal for different tables. */
static inline uint64_t folded(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 wide;
    wide product = (wide)(a ^ 0x9e3779b97f4a7c15u) * (b ^ 0xd6e8feb86659fd93u);
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t short_text(struct vg_python_view text, uint64_t size)
{
    uint64_t word = 0;
    for (uint64_t i = 0; i < size; i++)
        word = word << 8 | text.data[i];
    return word;
}

/* The first and the last word of a text, and its length. */
static inline uint64_t ends(struct vg_python_view text, uint64_t seed)
{
    uint64_t size = text.data ? text.length * text.unit : 0;
    if (size < sizeof(uint64_t))
        return folded(short_text(text, size) + seed, size);
    return folded(vg_python_u64(text.data, 0) + seed,
                  vg_python_u64(text.data + size - sizeof(uint64_t), 0) + size);
}

/* Two words more, from a third and two thirds of its way. */
static inline uint64_t middle(struct vg_python_view text)
{
    if (text.length <= sizeof(uint64_t))
        return 0;
    uint64_t last = text.length - sizeof(uint64_t), third = last * 85 >> 8;
    return folded(vg_python_u64(text.data + third, 0),
                  vg_python_u64(text.data + (last - third), 0));
}

static __attribute__((noinline)) uint64_t hash_of_name(const struct vg_python_layout *l,
                                                       const void *name)
{
    return ends(vg_python_str(l, name), 0);
}

/* Tells a code object from the next one at its address, where it has no version number: to 3.11,
 * and where the interpreter ran out of numbers. Contents, not addresses: those of the strings are
 * reused as well. Samples: to read 20 tables of some hundred bytes to the end took longer than all
 * the rest of a walk. */
static inline uint64_t fingerprint(const struct vg_python_layout *l, const void *code)
{
    const void *name = vg_python_pointer(code, l->code.name);
    struct vg_python_view table = vg_python_bytes(l, vg_python_pointer(code, l->code.lines));
    uint64_t hash = vg_python_u64(name, l->str.length + 8);
    if (hash == UINT64_MAX) /* the interpreter has not needed it yet */
        hash = hash_of_name(l, name);
    return ends(vg_python_str(l, vg_python_pointer(code, l->code.filename)), hash) +
           ends(table, 0) + middle(table);
}

static inline void identify(const struct vg_python_layout *l, struct vg_python_frame *f)
{
    uint32_t version =
        l->code.version == VG_PYTHON_NONE ? 0 : vg_python_u32(f->code, l->code.version);
    f->key[0] = (uint64_t)(uintptr_t)f->code;
    if (version) {
        f->key[1] = (uint64_t)version << 32 | (uint32_t)f->lasti;
        f->key[2] = 0;
    } else {
        f->key[1] =
            (uint64_t)vg_python_u32(f->code, l->code.firstlineno) << 32 | (uint32_t)f->lasti;
        f->key[2] = fingerprint(l, f->code);
    }
}

static inline int32_t last_instruction(const struct vg_python_layout *l, const void *frame,
                                       const void *code)
{
    int64_t lasti;
    if (l->lasti == VG_PYTHON_POINTER)
        lasti = (const char *)vg_python_pointer(frame, l->frame.ip) -
                ((const char *)code + l->code.bytecode);
    else
        lasti = (int64_t)(int32_t)vg_python_u32(frame, l->frame.ip) *
                (l->lasti == VG_PYTHON_UNITS ? 2 : 1);
    return lasti < 0 ? -1 : (int32_t)lasti;
}

/* The innermost frame, if this thread has an interpreter state that is its own and alive. */
static const void *first_frame(const struct vg_python *p)
{
    const struct vg_python_layout *l = &p->layout;
    if (!p->is_initialized() || p->is_finalizing())
        return NULL;
    const void *ts = p->this_thread_state();
    if (!ts || vg_python_u64(ts, l->tstate.thread_id) != (uint64_t)pthread_self())
        return NULL;
    const void *frame = vg_python_pointer(ts, l->tstate.frame);
    if (frame && l->tstate.via != VG_PYTHON_NONE)
        frame = vg_python_pointer(frame, l->tstate.via);
    return frame;
}

enum verdict { SHOWN, HIDDEN, BROKEN };

/* What the interpreter itself hides is hidden: frames of the C stack, and those that have not yet
 * come to their first traceable instruction (the shim of a specialised class call, a function's
 * prologue). */
static inline enum verdict examine(const struct vg_python_layout *l, const void *frame,
                                   const void *code_type, struct vg_python_frame *f)
{
    int owner = l->frame.owner == VG_PYTHON_NONE ? 0 : ((const signed char *)frame)[l->frame.owner];
    if (owner >= OWNER_C_STACK)
        return HIDDEN;
    uintptr_t tagged = (uintptr_t)vg_python_pointer(frame, l->frame.code);
    f->code = (const void *)(tagged & ~(uintptr_t)7); /* 3.14 keeps a tag in the low bits */
    if (!f->code || vg_python_pointer(f->code, l->ob_type) != code_type)
        return BROKEN;
    f->lasti = last_instruction(l, frame, f->code);
    if (l->frame.owner == VG_PYTHON_NONE || owner == OWNER_GENERATOR)
        return SHOWN;
    return f->lasti < 2 * (int32_t)vg_python_u32(f->code, l->code.firsttraceable) ? HIDDEN : SHOWN;
}

unsigned vg_python_walk(struct vg_python_frame *out, unsigned max, bool *cut_out)
{
    const struct vg_python *p = vg_python_in_use();
    unsigned count = 0, hidden = 0;
    *cut_out = false;
    if (!p)
        return 0;
    const struct vg_python_layout *l = &p->layout;
    const void *frame = first_frame(p);
    for (; frame; frame = vg_python_pointer(frame, l->frame.prev)) {
        struct vg_python_frame f;
        enum verdict verdict = examine(l, frame, p->code_type, &f);
        if (verdict == HIDDEN && ++hidden <= MOST_HIDDEN)
            continue;
        if (verdict != SHOWN || count == max) {
            *cut_out = true;
            break;
        }
        identify(l, &f);
        out[count++] = f;
    }
    return count;
}

bool vg_python_frame_text(const struct vg_python_frame *f, char *file, size_t file_size,
                          char *function, size_t function_size, int *line_out)
{
    const struct vg_python *p = vg_python_in_use();
    if (file_size)
        file[0] = 0;
    if (function_size)
        function[0] = 0;
    if (!p || !f->code)
        return false;
    const struct vg_python_layout *l = &p->layout;
    if (vg_python_pointer(f->code, l->ob_type) != p->code_type)
        return false;
    struct vg_python_view table = vg_python_bytes(l, vg_python_pointer(f->code, l->code.lines));
    bool file_known = vg_python_utf8(vg_python_str(l, vg_python_pointer(f->code, l->code.filename)),
                                     file, file_size);
    bool name_known = vg_python_utf8(vg_python_str(l, vg_python_pointer(f->code, l->code.name)),
                                     function, function_size);
    *line_out =
        vg_python_line(l->lines, table, (int)vg_python_u32(f->code, l->code.firstlineno), f->lasti);
    return file_known || name_known;
}
