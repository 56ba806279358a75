/* python_probe.c -- which interpreter this process holds, and whether its layout is known.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:      origin -> python_probe -> resolve. Sets what python_frames.c reads through.
 * Holds:      ABSENT -> OK or REFUSED, once. A build is accepted only if its version, its release
 *             level and the sizes of five of its types are those of one row of python_layout.def.
 * Threads:    any; one thread searches, the others meanwhile see ABSENT.
 * Not here:   reading of frames (python_frames.c).
 */
#include "interpose/python_frames.h"
#include "interpose/python_layout.h"
#include "interpose/resolve.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>

#define NONE VG_PYTHON_NONE
#define SIZES(...)                                                                                 \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define TSTATE(...)                                                                                \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define FRAME(...)                                                                                 \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define CODE(...)                                                                                  \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define STRING(...)                                                                                \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define PYTHON_LAYOUT(minor, threaded, size, tstate, frame, code, str, ob_type, ready, lasti,      \
                      lines)                                                                       \
    {minor,                                                                                        \
     threaded,                                                                                     \
     size,                                                                                         \
     tstate,                                                                                       \
     frame,                                                                                        \
     code,                                                                                         \
     str,                                                                                          \
     ob_type,                                                                                      \
     ready,                                                                                        \
     VG_PYTHON_##lasti,                                                                            \
     VG_PYTHON_##lines},
static const struct vg_python_layout layouts[] = {
#include "interpose/python_layout.def"
};

static struct {
    _Atomic int state; /* enum vg_python_state */
    atomic_flag searching;
    _Atomic unsigned asked; /* probes since no interpreter was found */
    unsigned long long
        loads_seen; /* the loader's count of loaded modules at the last fruitless search */
    char version[32];
    struct vg_python python;
    const char *(*get_version)(void);
    void *handle; /* of a libpython outside the default scope, else NULL; never closed */
} self = {.searching = ATOMIC_FLAG_INIT};

static void *look_up(const char *name)
{
    return self.handle ? vg_resolve_in(self.handle, name) : vg_resolve_default(name);
}

static bool look_up_function(const char *name, void *pointer_out)
{
    void *found = look_up(name);
    memcpy(pointer_out, &found, sizeof found);
    return found != NULL;
}

static int count_loads(struct dl_phdr_info *info, size_t size, void *loads_out)
{
    (void)size;
    memcpy(loads_out, &info->dlpi_adds, sizeof info->dlpi_adds);
    return 1;
}

enum { PATH_BYTES = 4096 };

static int find_libpython(struct dl_phdr_info *info, size_t size, void *path_out)
{
    (void)size;
    const char *path = info->dlpi_name;
    if (!path)
        return 0;
    const char *slash = strrchr(path, '/');
    size_t length = strlen(path);
    if (strncmp(slash ? slash + 1 : path, "libpython3", 10) != 0 || length >= PATH_BYTES)
        return 0;
    memcpy(path_out, path, length + 1);
    return 1;
}

/* The default scope holds the interpreter of an ordinary program; a program may have opened a
 * libpython RTLD_LOCAL. */
static bool find_interpreter(void)
{
    char path[PATH_BYTES];
    unsigned long long loads = 0;
    if (self.get_version)
        return true;
    dl_iterate_phdr(count_loads, &loads);
    if (loads == self.loads_seen)
        return false;
    self.loads_seen = loads;
    if (look_up_function("Py_GetVersion", &self.get_version))
        return true;
    if (dl_iterate_phdr(find_libpython, path) != 0)
        self.handle = vg_resolve_open(path, RTLD_LAZY | RTLD_NOLOAD);
    return self.handle && look_up_function("Py_GetVersion", &self.get_version);
}

static bool find_calls(void)
{
    struct vg_python *p = &self.python;
    return look_up_function("Py_IsInitialized", &p->is_initialized) &&
           look_up_function("PyGILState_GetThisThreadState", &p->this_thread_state) &&
           (look_up_function("Py_IsFinalizing", &p->is_finalizing) ||
            look_up_function("_Py_IsFinalizing", &p->is_finalizing));
}

static bool is_type(const struct vg_python_layout *l, const char *symbol, const char *name,
                    int size)
{
    const void *type = look_up(symbol), *type_type = look_up("PyType_Type");
    return type && vg_python_pointer(type, l->ob_type) == type_type &&
           strcmp(vg_python_pointer(type, l->ob_type + 16), name) == 0 &&
           vg_python_u64(type, l->ob_type + 24) == (uint64_t)size;
}

static bool has_sizes_of(const struct vg_python_layout *l)
{
    return is_type(l, "PyType_Type", "type", l->size.type) &&
           is_type(l, "PyCode_Type", "code", l->size.code) &&
           is_type(l, "PyFrame_Type", "frame", l->size.frame) &&
           is_type(l, "PyUnicode_Type", "str", l->size.str) &&
           is_type(l, "PyBytes_Type", "bytes", l->size.bytes);
}

/* Alphas and betas still move fields. From 3.11 the number is exported, from 3.13 the runtime
 * repeats it. */
static bool is_release_of(const struct vg_python_layout *l)
{
    uint32_t number;
    if (l->minor < 11)
        return !strpbrk(self.version, "ab");
    const void *exported = look_up("Py_Version");
    if (!exported)
        return false;
    number = vg_python_u32(exported, 0);
    if (number >> 16 != (0x300u | (unsigned)l->minor) || (number & 0xff) < 0xc0)
        return false;
    if (l->minor < 13)
        return true;
    const void *runtime = look_up("_PyRuntime");
    return runtime && memcmp(runtime, "xdebugpy", 8) == 0 && vg_python_u64(runtime, 8) == number &&
           vg_python_u64(runtime, 16) == (uint64_t)l->threaded;
}

static int number_at(const char *text)
{
    int n = 0;
    for (; *text >= '0' && *text <= '9' && n < 1000; text++)
        n = 10 * n + (*text - '0');
    return n;
}

static const struct vg_python_layout *known_layout(const char *text)
{
    int threaded = strstr(text, "free-threading") != NULL;
    int minor = strncmp(self.version, "3.", 2) == 0 ? number_at(self.version + 2) : -1;
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        const struct vg_python_layout *l = &layouts[i];
        if (l->minor == minor && l->threaded == threaded)
            return is_release_of(l) && has_sizes_of(l) ? l : NULL;
    }
    return NULL;
}

/* The types are complete only once the interpreter is initialised: no judgement before. */
static enum vg_python_state search(void)
{
    if (!find_interpreter())
        return VG_PYTHON_ABSENT;
    bool complete = self.python.is_finalizing || find_calls(); /* found last */
    if (complete && !self.python.is_initialized()) {
        atomic_store_explicit(&self.asked, 0, memory_order_relaxed); /* soon: ask each time */
        return VG_PYTHON_ABSENT;
    }
    const char *text = self.get_version();
    size_t length = strcspn(text, " ");
    if (length >= sizeof self.version)
        length = sizeof self.version - 1;
    memcpy(self.version, text, length);
    const struct vg_python_layout *l = complete ? known_layout(text) : NULL;
    if (!l)
        return VG_PYTHON_REFUSED;
    self.python.layout = *l;
    self.python.code_type = look_up("PyCode_Type");
    return VG_PYTHON_OK;
}

/* In a program without Python every allocation asks. Even whether a module was loaded is 50 ns, so
 * it is looked at once in 64 times. A lost increment does no harm. */
static bool is_worth_a_search(void)
{
    unsigned asked = atomic_load_explicit(&self.asked, memory_order_relaxed);
    atomic_store_explicit(&self.asked, asked + 1, memory_order_relaxed);
    return asked % 64 == 0;
}

enum vg_python_state vg_python_probe(void)
{
    int state = atomic_load_explicit(&self.state, memory_order_acquire);
    if (state != VG_PYTHON_ABSENT || !is_worth_a_search() ||
        atomic_flag_test_and_set(&self.searching))
        return (enum vg_python_state)state;
    state = atomic_load(&self.state);
    if (state == VG_PYTHON_ABSENT)
        state = search();
    atomic_store_explicit(&self.state, state, memory_order_release);
    atomic_flag_clear(&self.searching);
    return (enum vg_python_state)state;
}

const char *vg_python_version(void)
{
    return atomic_load_explicit(&self.state, memory_order_acquire) == VG_PYTHON_ABSENT
               ? NULL
               : self.version;
}

const struct vg_python *vg_python_in_use(void)
{
    return atomic_load_explicit(&self.state, memory_order_acquire) == VG_PYTHON_OK ? &self.python
                                                                                   : NULL;
}
