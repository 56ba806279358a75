/* guarded.c -- starts a program with the library in front of it.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tools/guarded.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/alloc.h"
#include "tools/cli.h"

/* Passed on to the program. Blocked from before it is started until that can be done. */
static const int passed_on[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
enum { PASSED_ON_COUNT = sizeof(passed_on) / sizeof(*passed_on) };
static sigset_t mask_before;
static struct sigaction
    child_before; /* of SIGCHLD: where it is ignored, nobody can wait for an end */

/* In front of what it says now; empty: nothing. */
static void prepend(const char *variable, const char *value)
{
    const char *now = getenv(variable);
    char *joined;
    if (asprintf(&joined, "%s%s%s", value, now && *now ? ":" : "", now ? now : "") >= 0) {
        setenv(variable, joined, 1);
        free(joined);
    }
}

/* The loader splits LD_PRELOAD at spaces and colons, and there is no way to quote them. */
static bool can_preload(const char *path)
{
    return !strpbrk(path, " :");
}

static const char *temporary(void)
{
    const char *path = getenv("TMPDIR");
    return path && *path ? path : "/tmp";
}

static void set_options(const struct vg_guarded *guarded)
{
    for (unsigned i = 0; i < VG_OPTION_COUNT; i++) {
        char name[64] = "VRAMGUARD_";
        size_t at = strlen(name);
        if (!guarded->option[i])
            continue;
        for (const char *c = vg_option_rows[i].name; *c && at + 1 < sizeof(name); c++)
            name[at++] = (char)toupper((unsigned char)*c);
        name[at] = 0;
        setenv(name, guarded->option[i], 1);
    }
    if (guarded->summary)
        setenv("VRAMGUARD_SUMMARY", guarded->summary, 1);
}

/* By path, not by search: torch's libraries carry an RPATH that goes before LD_LIBRARY_PATH, but a
 * library that is already loaded wins. */
static void set_simulation(const struct vg_guarded *guarded, const char *directory)
{
    static const char *const libraries[] = {"libnvidia-ml.so.1", "libcuda.so.1", "libcudart.so.13",
                                            "libvgsim_math.so"};
    for (size_t i = 0; i < sizeof(libraries) / sizeof(*libraries); i++) {
        char *path;
        if (asprintf(&path, "%s/%s", directory, libraries[i]) < 0)
            continue;
        if (!access(path, R_OK))
            prepend("LD_PRELOAD", path);
        free(path);
    }
    prepend("LD_LIBRARY_PATH", directory);
    if (guarded->sim_memory)
        setenv("VGSIM_MEMORY", guarded->sim_memory, 1);
}

static int prepare(const struct vg_guarded *guarded, char **library_out, char **simulation_out)
{
    *library_out = vg_cli_library();
    *simulation_out = NULL;
    if (!*library_out)
        return vg_cli_error("libvramguard.so is neither beside this program nor in ../lib");
    if (!can_preload(*library_out))
        return vg_cli_error("%s cannot be preloaded: its path has a space or a colon",
                            *library_out);
    if (!guarded->simulate)
        return 0;
    *simulation_out = vg_cli_simulation();
    if (!*simulation_out)
        return vg_cli_error("no simulated GPU beside this program or in ../lib/vramguard");
    if (!can_preload(*simulation_out))
        return vg_cli_error("%s cannot be preloaded: its path has a space or a colon",
                            *simulation_out);
    return 0;
}

static void make_summary(struct vg_guarded *guarded)
{
    if (asprintf(&guarded->summary, "%s/vramguard-run-XXXXXX", temporary()) < 0)
        guarded->summary = NULL;
    int fd = guarded->summary ? mkostemp(guarded->summary, O_CLOEXEC) : -1;
    if (fd >= 0) {
        close(fd);
        return;
    }
    free(guarded->summary); /* no place for it: only the closing line knows less */
    guarded->summary = NULL;
}

_Noreturn static void become(const struct vg_guarded *guarded, const char *library,
                             const char *simulation, int error_fd)
{
    if (simulation)
        set_simulation(guarded, simulation);
    prepend("LD_PRELOAD", library);
    set_options(guarded);
    if (guarded->stdout_to_stderr)
        dup2(STDERR_FILENO, STDOUT_FILENO);
    sigaction(SIGCHLD, &child_before, NULL);
    sigprocmask(SIG_SETMASK, &mask_before, NULL);
    execvp(guarded->command[0], guarded->command);
    int error = errno;
    if (write(error_fd, &error, sizeof(error)) < 0)
        _exit(127);
    _exit(127);
}

static void say_why(const struct vg_guarded *guarded, int error)
{
    const char *name = guarded->command[0];
    uint64_t bytes;
    bool missing = error == ENOENT && !strchr(name, '/');
    if (missing && guarded->simulate && !guarded->sim_memory && vg_parse_size(name, &bytes))
        vg_cli_error("%s: command not found; a size is given as --sim=%s", name, name);
    else
        vg_cli_error("%s: %s", name, missing ? "command not found" : strerror(error));
}

static int start(struct vg_guarded *guarded, const char *library, const char *simulation)
{
    int ends[2], error = 0;
    if (pipe2(ends, O_CLOEXEC))
        return vg_cli_error("no pipe: %s", strerror(errno));
    fflush(NULL);
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < PASSED_ON_COUNT; i++)
        sigaddset(&set, passed_on[i]);
    sigprocmask(SIG_BLOCK, &set, &mask_before);
    struct sigaction by_default = {.sa_handler = SIG_DFL};
    sigaction(SIGCHLD, &by_default, &child_before);
    guarded->pid = fork();
    if (guarded->pid == 0)
        become(guarded, library, simulation, ends[1]);
    close(ends[1]);
    if (guarded->pid < 0) {
        close(ends[0]);
        return vg_cli_error("no process: %s", strerror(errno));
    }
    ssize_t got = read(ends[0], &error, sizeof(error));
    close(ends[0]);
    if (got != sizeof(error))
        return 0;
    waitpid(guarded->pid, NULL, 0);
    say_why(guarded, error);
    return error == ENOENT || error == ENOTDIR ? 127 : 126;
}

int vg_guarded_start(struct vg_guarded *guarded)
{
    char *library, *simulation;
    int status = prepare(guarded, &library, &simulation);
    if (!status) {
        make_summary(guarded);
        status = start(guarded, library, simulation);
        if (status && guarded->summary)
            unlink(guarded->summary);
    }
    free(library);
    free(simulation);
    return status;
}

/* --- waiting ---------------------------------------------------------------------------------- */

static volatile pid_t target;

/* What the terminal sends goes to the program too; only what somebody sent to this process alone is
 * passed on. */
static void pass_on(int number, siginfo_t *info, void *context)
{
    (void)context;
    int saved = errno;
    if (info->si_code <= 0 && target > 0)
        kill(target, number);
    errno = saved;
}

int vg_guarded_wait(struct vg_guarded *guarded, void (*poll)(pid_t pid, void *context),
                    void *context)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_RESTART};
    action.sa_sigaction = pass_on;
    target = guarded->pid;
    for (int i = 0; i < PASSED_ON_COUNT; i++)
        sigaction(passed_on[i], &action, NULL);
    sigprocmask(SIG_SETMASK, &mask_before, NULL);
    int status;
    for (;;) {
        pid_t ended = waitpid(guarded->pid, &status, poll ? WNOHANG : 0);
        if (ended == guarded->pid)
            break;
        if (ended < 0 && errno != EINTR) {
            vg_cli_error("the end of %s was not seen: %s", guarded->command[0], strerror(errno));
            status = VG_EXIT_USAGE << 8;
            break;
        }
        if (poll) {
            poll(guarded->pid, context);
            nanosleep(&(struct timespec){0, 20000000}, NULL);
        }
    }
    target = 0;
    return status;
}
