/* pyframes_probe.c -- the frame walk as a library that Python programs load.
 * SPDX-License-Identifier: Apache-2.0
 *
 * They compare it with their own frames.
 *
 * Place:      tests/e2e/test_python_frames.py builds it with interpose/python_*.c;
 *             pyframes_cases.py calls it.
 */
#include "interpose/python_frames.h"
#include "interpose/resolve.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

enum { MOST_FRAMES = 4096, TEXT_BYTES = 1024 };

EXPORT int pyframes_state(void);
EXPORT const char *pyframes_version(void);
EXPORT const char *pyframes_capture(unsigned max);
EXPORT void pyframes_call(void (*callback)(void));
EXPORT double pyframes_cost(unsigned max, unsigned rounds);
EXPORT double pyframes_text_cost(unsigned max, unsigned rounds);
EXPORT void pyframes_text_cut(size_t size, char *file, char *function);

void *vg_resolve_default(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

void *vg_resolve_in(void *handle, const char *name)
{
    return dlsym(handle, name);
}

void *vg_resolve_open(const char *path, int flags)
{
    return dlopen(path, flags);
}

int pyframes_state(void)
{
    return (int)vg_python_probe();
}

const char *pyframes_version(void)
{
    return vg_python_version();
}

/* First line: cut, count. Then one line per frame, fields separated by bytes no name has. Valid
 * until the thread's next capture. */
const char *pyframes_capture(unsigned max)
{
    static _Thread_local struct vg_python_frame frames[MOST_FRAMES];
    static _Thread_local char *text;
    char file[TEXT_BYTES], function[TEXT_BYTES];
    bool cut;
    size_t used, size = (size_t)MOST_FRAMES * 300;
    if (!text && !(text = malloc(size)))
        return "";
    vg_python_probe();
    unsigned count = vg_python_walk(frames, max < MOST_FRAMES ? max : MOST_FRAMES, &cut);
    used = (size_t)snprintf(text, size, "%d\x1f%u\x1e", cut, count);
    for (unsigned i = 0; i < count; i++) {
        int line = -2;
        bool known =
            vg_python_frame_text(&frames[i], file, sizeof file, function, sizeof function, &line);
        if (used + 2 * TEXT_BYTES + 200 > size)
            break;
        used += (size_t)snprintf(text + used, size - used, "%s\x1f%s\x1f%d\x1f%d\x1f%d\x1f", file,
                                 function, line, (int)frames[i].lasti, known);
        for (int k = 0; k < VG_PYTHON_KEY_WORDS; k++)
            used += (size_t)snprintf(text + used, size - used, "%016llx",
                                     (unsigned long long)frames[i].key[k]);
        used += (size_t)snprintf(text + used, size - used, "\x1e");
    }
    return text;
}

void pyframes_call(void (*callback)(void))
{
    callback();
}

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* Nanoseconds per walk, the best of nine runs. */
double pyframes_cost(unsigned max, unsigned rounds)
{
    struct vg_python_frame frames[64];
    double best = 1e18;
    bool cut;
    vg_python_probe();
    for (int run = 0; run < 9; run++) {
        double begin = now_ns();
        for (unsigned i = 0; i < rounds; i++)
            vg_python_walk(frames, max < 64 ? max : 64, &cut);
        double each = (now_ns() - begin) / rounds;
        best = each < best ? each : best;
    }
    return best;
}

double pyframes_text_cost(unsigned max, unsigned rounds)
{
    struct vg_python_frame frames[64];
    char file[TEXT_BYTES], function[TEXT_BYTES];
    bool cut;
    int line;
    vg_python_probe();
    unsigned count = vg_python_walk(frames, max < 64 ? max : 64, &cut);
    double begin = now_ns();
    for (unsigned i = 0; i < rounds; i++)
        for (unsigned k = 0; k < count; k++)
            vg_python_frame_text(&frames[k], file, sizeof file, function, sizeof function, &line);
    return (now_ns() - begin) / rounds;
}

/* The innermost frame's texts in buffers of `size` bytes. */
void pyframes_text_cut(size_t size, char *file, char *function)
{
    struct vg_python_frame frame;
    bool cut;
    int line;
    if (vg_python_walk(&frame, 1, &cut) == 1)
        vg_python_frame_text(&frame, file, size, function, size, &line);
}
