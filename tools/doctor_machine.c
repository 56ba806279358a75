/* doctor_machine.c -- what the guard would find on this machine.
 * SPDX-License-Identifier: Apache-2.0
 *
 * No context is made and no memory is taken.
 */
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/alloc.h"
#include "tools/cli.h"
#include "tools/doctor.h"

static struct json_object *string_or_null(const char *text)
{
    return text ? json_object_new_string(text) : NULL;
}

/* Where the loader finds a library; NULL handle: nowhere. */
static struct json_object *find_library(const char *name, void **handle_out)
{
    void *handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    struct link_map *map = NULL;
    if (handle_out)
        *handle_out = handle;
    if (!handle || dlinfo(handle, RTLD_DI_LINKMAP, &map) || !map)
        return NULL;
    return json_object_new_string(map->l_name);
}

static void add_driver(struct json_object *object)
{
    typedef int version_fn(int *);
    void *handle;
    json_object_object_add(object, "driver", find_library("libcuda.so.1", &handle));
    void *address = handle ? dlsym(handle, "cuDriverGetVersion") : NULL;
    version_fn *function;
    memcpy(&function, &address, sizeof(function));
    int version = 0;
    struct json_object *value = NULL;
    if (function && !function(&version) && version > 0) {
        char text[32];
        snprintf(text, sizeof(text), "%d.%d", version / 1000, version % 1000 / 10);
        value = json_object_new_string(text);
    }
    json_object_object_add(object, "driver_cuda_version", value);
}

static void add_runtime(struct json_object *object)
{
    static const char *const names[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"};
    struct json_object *found = NULL;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names) && !found; i++)
        found = find_library(names[i], NULL);
    json_object_object_add(object, "runtime", found);
}

static void add_unwinder(struct json_object *object)
{
    struct json_object *found = find_library("libunwind.so.8", NULL);
    json_object_object_add(object, "unwinder", found ? found : find_library("libgcc_s.so.1", NULL));
}

/* Starts this program with the library preloaded: what the loader says about it, or NULL where it
 * says nothing. */
static char *preload_complaint(const char *library)
{
    int ends[2];
    char text[512] = "";
    if (pipe(ends))
        return NULL;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        setenv("LD_PRELOAD", library, 1);
        execl("/proc/self/exe", "vramguard", "version", (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    size_t length = 0;
    ssize_t got;
    while (length + 1 < sizeof(text) &&
           (got = read(ends[0], text + length, sizeof(text) - 1 - length)) > 0)
        length += (size_t)got;
    close(ends[0]);
    int status = 0;
    if (child > 0)
        waitpid(child, &status, 0);
    text[strcspn(text, "\n")] = 0;
    if (status == 0 && !strncmp(text, "vramguard ", 10))
        return NULL;
    return vg_copy(*text ? text : "the program under it did not start");
}

struct json_object *vg_doctor_machine(void)
{
    struct json_object *object = json_object_new_object();
    char *library = vg_cli_library(), *simulation = vg_cli_simulation();
    char *complaint = library ? preload_complaint(library) : NULL;
    json_object_object_add(object, "tool_version", json_object_new_string(VG_TOOL_VERSION));
    json_object_object_add(object, "library", string_or_null(library));
    json_object_object_add(object, "library_loads",
                           library ? json_object_new_string(complaint ? complaint : "yes") : NULL);
    add_driver(object);
    add_runtime(object);
    json_object_object_add(object, "nvml", find_library("libnvidia-ml.so.1", NULL));
    add_unwinder(object);
    json_object_object_add(object, "glibc", json_object_new_string(gnu_get_libc_version()));
    json_object_object_add(object, "simulation", string_or_null(simulation));
    free(complaint);
    free(library);
    free(simulation);
    return object;
}
