/* python_frames.h -- the calling thread's Python frames, read without Python.h, the GIL or a lock.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VG_PYTHON_FRAMES_H
#define VG_PYTHON_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Code object; last instruction with the code's version; what else tells a code object from the
 * next one at its address. From 3.12 the version is unique. Before, it is the first line, and the
 * last word stands for the function's name, both ends of the file name and four places of the line
 * table: no two of 20,000 functions made at one address were mixed up. */
enum { VG_PYTHON_KEY_WORDS = 3 };

struct vg_python_frame {
    uint64_t key[VG_PYTHON_KEY_WORDS]; /* equal keys: equal file, function and line, also after the
                                          address was reused */
    const void *code;                  /* valid until the walk's caller returns to Python */
    int32_t lasti;                     /* in bytes; -1: not started */
};

enum vg_python_state {
    VG_PYTHON_ABSENT, /* no interpreter, or not initialised yet: ask again */
    VG_PYTHON_OK,
    VG_PYTHON_REFUSED, /* an interpreter whose layout is not known: native frames only */
};

/* Finds the interpreter and checks its fingerprint. Any thread, at any time; later calls are cheap:
 * while there is none, one in 64 looks whether a module was loaded since, and only then searches.
 * May take the loader's lock. */
enum vg_python_state vg_python_probe(void);

/* "3.11.7"; NULL while absent. Also set where the build is refused. */
const char *vg_python_version(void);

/* The calling thread's frames, innermost first, at most max; returns how many. *cut_out: there were
 * more, or the chain was broken. Needs VG_PYTHON_OK, else 0. Never blocks, allocates or takes the
 * GIL. */
unsigned vg_python_walk(struct vg_python_frame *out, unsigned max, bool *cut_out);

/* File, plain function name and line of a frame of this thread's last walk; UTF-8 (surrogates
 * passed), NUL-terminated, cut at a character where size is too small. *line_out: -1 where the
 * interpreter has no line either. False, and all texts empty, where nothing is known. */
bool vg_python_frame_text(const struct vg_python_frame *f, char *file, size_t file_size,
                          char *function, size_t function_size, int *line_out);

#endif
