/* pyframes_host.c -- a program that opens its Python late and closes it again.
 * SPDX-License-Identifier: Apache-2.0
 *
 * At run time, and RTLD_LOCAL.
 *
 * Usage:      pyframes_host PROBE.so LIBPYTHON; the last line is "ok" if the walk was right at
 *             every stage.
 * Holds:      needs no Python.h: what it calls is in the stable ABI.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ABSENT, OK, METH_NOARGS = 4 };

struct method {
    const char *name;
    void *(*call)(void *self, void *none);
    int flags;
    const char *doc;
};

static struct {
    int (*state)(void);
    const char *(*capture)(unsigned max);
    void *(*bytes_from_string)(const char *text);
} self;

static void *find(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (!found) {
        printf("no %s\n", name);
        exit(1);
    }
    return found;
}

#define FIND(pointer, library, name)                                                               \
    memcpy(&(pointer), &(void *){find(library, name)}, sizeof(void *))

static void *capture(void *module, void *none)
{
    (void)module;
    (void)none;
    return self.bytes_from_string(self.capture(100));
}

static void expect(const char *when, int state, const char *frames)
{
    const char *seen = self.capture(100);
    if (self.state() == state && strcmp(seen, frames) == 0)
        return;
    printf("%s: state %d, frames %s\n", when, self.state(), seen);
    exit(1);
}

static void *outside_python(void *state)
{
    expect("in a thread without Python", *(int *)state,
           "0\x1f"
           "0\x1e");
    return NULL;
}

static const char program[] =
    "import sys\n"
    "def inner():\n"
    "    global raw, own\n"
    "    f, own = sys._getframe(), []\n"
    "    while f:\n"
    "        own.append((f.f_code.co_filename, f.f_code.co_name))\n"
    "        f = f.f_back\n"
    "    raw = capture()\n"
    "(lambda: inner())()\n"
    "rows = [r.split(b'\\x1f') for r in raw.split(b'\\x1e')[1:-1]]\n"
    "assert [(r[0].decode(), r[1].decode()) for r in rows] == own, (rows, own)\n"
    "assert [int(r[2]) for r in rows] == [8, 9, 9], rows\n";

#define NOTHING                                                                                    \
    "0\x1f"                                                                                        \
    "0\x1e"

/* The interpreter's functions, from a library opened late. */
static struct {
    void (*initialize)(void);
    int (*run)(const char *), (*finalize)(void), (*set)(void *, const char *, void *);
    void *(*add_module)(const char *), *(*function)(struct method *, void *, void *);
} python;

static void find_python(void *library)
{
    FIND(self.bytes_from_string, library, "PyBytes_FromString");
    FIND(python.initialize, library, "Py_Initialize");
    FIND(python.finalize, library, "Py_FinalizeEx");
    FIND(python.run, library, "PyRun_SimpleString");
    FIND(python.add_module, library, "PyImport_AddModule");
    FIND(python.function, library, "PyCFunction_NewEx");
    FIND(python.set, library, "PyObject_SetAttrString");
}

static int run_program(void)
{
    static struct method method = {"capture", capture, METH_NOARGS, NULL};
    python.set(python.add_module("__main__"), "capture", python.function(&method, NULL, NULL));
    return python.run(program);
}

static int walk_through_a_life(void)
{
    int state = OK;
    pthread_t thread;
    python.initialize();
    expect("with no frame yet", OK, NOTHING);
    if (run_program() != 0)
        return 1;
    pthread_create(&thread, NULL, outside_python, &state);
    pthread_join(thread, NULL);
    python.finalize();
    expect("after Py_FinalizeEx", OK, NOTHING);
    python.initialize();
    return run_program();
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    void *probe = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!probe)
        return printf("%s\n", dlerror()), 1;
    FIND(self.state, probe, "pyframes_state");
    FIND(self.capture, probe, "pyframes_capture");
    expect("without Python", ABSENT, NOTHING);
    expect("without Python, again", ABSENT, NOTHING);
    void *library = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return printf("%s\n", dlerror()), 1;
    for (int i = 0; i < 64; i++) /* one probe in 64 looks for what is new */
        self.state();
    expect("before Py_Initialize", ABSENT, NOTHING);
    find_python(library);
    if (walk_through_a_life() != 0)
        return 1;
    puts("ok");
    return 0;
}
