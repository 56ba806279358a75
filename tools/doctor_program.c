/* doctor_program.c -- a program is run under the guard, and its records say which calls were seen.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:      guarded.c -> records in a directory of our own -> findings
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/view.h"
#include "tools/alloc.h"
#include "tools/cli.h"
#include "tools/doctor.h"
#include "tools/find_record.h"
#include "tools/guarded.h"

struct seen {           /* in the program's mappings, looked at while it ran */
    bool driver, guard; /* guard: beside the driver; `env` itself has it before it drops it */
};

static void look(pid_t pid, void *context)
{
    struct seen *seen = context;
    char path[64], *line = NULL;
    size_t room = 0;
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    FILE *maps = fopen(path, "re");
    bool driver = false, guard = false;
    while (maps && getline(&line, &room, maps) > 0) {
        driver |= strstr(line, "/libcuda.so") != NULL;
        guard |= strstr(line, "/libvramguard.so") != NULL;
    }
    seen->driver |= driver;
    if (driver)
        seen->guard = guard; /* the last look counts: what ran before an exec is not the program */
    free(line);
    if (maps)
        fclose(maps);
}

static void add_count(struct json_object *object, const char *key, uint64_t count)
{
    json_object_object_add(object, key, json_object_new_uint64(count));
}

static struct json_object *describe(const struct vg_view *view)
{
    const struct vg_header *header = view->header;
    struct json_object *object = json_object_new_object(), *reached = json_object_new_object();
    add_count(object, "pid", header->pid);
    json_object_object_add(object, "exe",
                           json_object_new_string(vg_view_string(view, header->exe)));
    json_object_object_add(reached, "driver",
                           json_object_new_boolean((header->reached & VG_REACHED_DRIVER) != 0));
    json_object_object_add(reached, "runtime",
                           json_object_new_boolean((header->reached & VG_REACHED_RUNTIME) != 0));
    json_object_object_add(reached, "torch",
                           json_object_new_boolean((header->reached & VG_REACHED_TORCH) != 0));
    json_object_object_add(object, "reached", reached);
    add_count(object, "events", header->event_count);
    add_count(object, "dropped", header->dropped_count);
    add_count(object, "fallback_count", header->fallback_count);
    add_count(object, "unknown_free_count", header->unknown_free_count);
    add_count(object, "failed_free_count", header->failed_free_count);
    add_count(object, "sites", vg_view_count(view, VG_SEC_SITES));
    add_count(object, "frames", vg_view_count(view, VG_SEC_FRAMES));
    json_object_object_add(object, "saturated", json_object_new_boolean(header->saturated != 0));
    return object;
}

struct outcome {
    unsigned records, hooked; /* hooked: at least one driver event was seen */
};

/* Reads one file of the directory and removes it. */
static void take(int directory, const char *name, struct json_object *list, struct outcome *outcome)
{
    char kind[16], why[256];
    uint32_t number;
    struct vg_view view;
    bool record = strlen(name) > 4 && !strcmp(name + strlen(name) - 4, ".vgr") &&
                  !vg_incident_name(name, kind, &number);
    int fd = record ? openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    if (fd >= 0) {
        if (vg_view_open_fd(&view, fd, why, sizeof(why)) == VG_OK) {
            outcome->records++;
            outcome->hooked += (view.header->reached & VG_REACHED_DRIVER) != 0;
            json_object_array_add(list, describe(&view));
            vg_view_close(&view);
        }
        close(fd);
    }
    unlinkat(directory, name, 0);
}

static struct json_object *take_all(const char *path, struct outcome *outcome)
{
    struct json_object *list = json_object_new_array();
    DIR *directory = opendir(path);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
            take(dirfd(directory), entry->d_name, list, outcome);
    }
    if (directory)
        closedir(directory);
    rmdir(path);
    return list;
}

static struct json_object *exit_of(int status)
{
    char text[64];
    if (WIFEXITED(status))
        snprintf(text, sizeof(text), "status %d", WEXITSTATUS(status));
    else
        snprintf(text, sizeof(text), "signal %d", WTERMSIG(status));
    return json_object_new_string(text);
}

static const char *finding(const struct outcome *outcome, const struct seen *seen)
{
    if (outcome->hooked && outcome->hooked == outcome->records)
        return "the hooks are reached";
    if (outcome->records)
        return "a record was made, but memory calls came only from above the driver: what the "
               "driver does there is not seen";
    if (seen->driver && !seen->guard)
        return "the driver is loaded, the guard is not: LD_PRELOAD was dropped (set-user-ID "
               "program, or removed from the environment)";
    if (seen->driver)
        return "the driver is loaded, and no allocation or context was seen: the program made "
               "none, or its calls do not reach the hooks";
    return "no use of CUDA was seen";
}

int vg_doctor_program(const struct vg_doctor_run *run, struct json_object *object)
{
    const char *temporary = getenv("TMPDIR");
    char directory[4096];
    snprintf(directory, sizeof(directory), "%s/vramguard-doctor-XXXXXX",
             temporary && *temporary ? temporary : "/tmp");
    if (!mkdtemp(directory))
        return vg_cli_error("no directory can be made in %s",
                            temporary && *temporary ? temporary : "/tmp");
    struct vg_guarded guarded = {.command = run->command,
                                 .simulate = run->simulate,
                                 .sim_memory = run->sim_memory,
                                 .stdout_to_stderr = run->stdout_to_stderr};
    guarded.option[VG_OPTION_dir] = directory;
    guarded.option[VG_OPTION_keep] = "always";
    guarded.option[VG_OPTION_report] = "none";
    struct seen seen = {false, false};
    struct outcome outcome = {0, 0};
    int failed = vg_guarded_start(&guarded);
    int status = failed ? 0 : vg_guarded_wait(&guarded, look, &seen);
    struct json_object *records = take_all(directory, &outcome);
    if (guarded.summary)
        unlink(guarded.summary);
    free(guarded.summary);
    if (failed) {
        json_object_put(records);
        return failed;
    }
    struct json_object *program = json_object_new_object();
    json_object_object_add(program, "ended_with", exit_of(status));
    json_object_object_add(program, "driver_loaded",
                           json_object_new_boolean(seen.driver || outcome.hooked));
    json_object_object_add(program, "finding", json_object_new_string(finding(&outcome, &seen)));
    json_object_object_add(program, "processes", records);
    json_object_object_add(object, "program", program);
    bool used = outcome.records || seen.driver;
    return used && outcome.hooked < (outcome.records ? outcome.records : 1) ? VG_EXIT_FINDING
                                                                            : VG_EXIT_OK;
}
