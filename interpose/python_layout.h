/* python_layout.h -- one CPython version's layout, and how its objects are read.
 * SPDX-License-Identifier: Apache-2.0
 *
 * For python_*.c only.
 */
#ifndef VG_PYTHON_LAYOUT_H
#define VG_PYTHON_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { VG_PYTHON_NONE = -1 };
enum vg_python_lasti { VG_PYTHON_BYTES, VG_PYTHON_UNITS, VG_PYTHON_POINTER };
enum vg_python_lines { VG_PYTHON_LNOTAB, VG_PYTHON_RANGES, VG_PYTHON_LOCATIONS };

struct vg_python_layout {
    int minor, threaded;
    struct {
        int code, frame, str, bytes, type;
    } size;
    struct {
        int frame, via, thread_id;
    } tstate;
    struct {
        int prev, code, ip, owner;
    } frame;
    struct {
        int filename, name, lines, firstlineno, firsttraceable, bytecode, version;
    } code;
    struct {
        int length, state, ascii, other;
    } str;
    int ob_type, ready;
    enum vg_python_lasti lasti;
    enum vg_python_lines lines;
};

/* The interpreter in use: its layout and the only calls ever made into it, none of which needs the
 * GIL. */
struct vg_python {
    struct vg_python_layout layout;
    const void *code_type;
    int (*is_initialized)(void);
    int (*is_finalizing)(void);
    const void *(*this_thread_state)(void);
};

/* NULL unless vg_python_probe() has said VG_PYTHON_OK. */
const struct vg_python *vg_python_in_use(void);

/* A str or bytes object as memory: `unit` bytes per character; data NULL: unreadable. */
struct vg_python_view {
    const unsigned char *data;
    uint64_t length;
    unsigned unit;
};

static inline const void *vg_python_pointer(const void *object, int offset)
{
    const void *value;
    memcpy(&value, (const char *)object + offset, sizeof value);
    return value;
}

static inline uint64_t vg_python_u64(const void *object, int offset)
{
    uint64_t value;
    memcpy(&value, (const char *)object + offset, sizeof value);
    return value;
}

static inline uint32_t vg_python_u32(const void *object, int offset)
{
    uint32_t value;
    memcpy(&value, (const char *)object + offset, sizeof value);
    return value;
}

static inline struct vg_python_view vg_python_bytes(const struct vg_python_layout *l,
                                                    const void *object)
{
    struct vg_python_view view = {.unit = 1, .length = vg_python_u64(object, l->str.length)};
    view.data = (const unsigned char *)object + l->str.length +
                16; /* size, hash, then the bytes: in every version */
    return view;
}

static inline struct vg_python_view vg_python_str(const struct vg_python_layout *l,
                                                  const void *object)
{
    enum { COMPACT = 1 << 5, ASCII = 1 << 6, READY = 1 << 7 };
    struct vg_python_view view = {.length = vg_python_u64(object, l->str.length)};
    uint32_t state = vg_python_u32(object, l->str.state);
    view.unit = state >> 2 & 7;
    if (l->ready && !(state & READY))
        return view;
    if (!(state & COMPACT)) /* an instance of a subclass */
        view.data = vg_python_pointer(object, l->str.other);
    else
        view.data = (const unsigned char *)object + (state & ASCII ? l->str.ascii : l->str.other);
    return view;
}

/* The line of a bytecode offset, as a traceback gives it; -1 where there is none. */
int vg_python_line(enum vg_python_lines format, struct vg_python_view table, int firstlineno,
                   int32_t lasti);

/* The text as UTF-8, NUL-terminated, cut at a character. False, and empty text, if it cannot be
 * read. */
bool vg_python_utf8(struct vg_python_view text, char *out, size_t size);

#endif
