/* keeper_check.c -- programs that must not notice the keeper: one scenario a run, named by argv[1].
 * SPDX-License-Identifier: Apache-2.0
 *
 * Linked with interpose/keeper.c itself. argv[2] is keeper_tool. Status 0 and "ok", or 1 and the
 * line that was wrong.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/e2e/keeper_check.h"

extern char **environ;

const char *tool_path;
char **extra_args;
_Atomic(int) sigchld_count;
_Atomic(int) stop;

uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

void nap(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

void on_sigchld(int sig)
{
    (void)sig;
    sigchld_count++;
}

void handle(int sig, void (*handler)(int))
{
    struct sigaction a = {.sa_handler = handler};
    sigemptyset(&a.sa_mask);
    CHECK(sigaction(sig, &a, NULL) == 0);
}

enum vg_keeper_result start(const char *what, const char *a, const char *b, uint64_t limit_ns,
                            bool wait, int *status_out)
{
    char *argv[] = {"vramguard", (char *)what, (char *)a, (char *)b, NULL};
    struct vg_keeper_job job = {tool_path, argv, environ, -1, limit_ns, wait};
    return vg_keeper_run(&job, status_out);
}

enum vg_keeper_result run(const char *what, const char *a)
{
    return start(what, a, NULL, 10 * SECOND, true, NULL);
}

int own_children(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks != NULL);
    for (struct dirent *e; (e = readdir(tasks)) != NULL;) {
        char path[300], text[4096];
        snprintf(path, sizeof path, "/proc/self/task/%s/children", e->d_name);
        FILE *f = e->d_name[0] == '.' ? NULL : fopen(path, "re");
        if (f == NULL)
            continue;
        while (fscanf(f, "%4095s", text) == 1)
            count++;
        fclose(f);
    }
    closedir(tasks);
    return count;
}

/* What a program can find out about children, and what only /proc knows: no zombie of ours either.
 */
void expect_no_child(void)
{
    int status;
    errno = 0;
    CHECK(waitpid(-1, &status, WNOHANG) == -1);
    CHECK(errno == ECHILD);
    CHECK(sigchld_count == 0);
    CHECK(own_children() == 0);
}

/* A child of ours would be seen while it lives, not only after. */
static void *look_for_children(void *unused)
{
    (void)unused;
    while (!stop) {
        int status;
        pid_t pid = waitpid(-1, &status, 0);
        if (pid > 0)
            printf("waitpid found %d\n", (int)pid);
        CHECK(pid == -1 && errno == ECHILD);
    }
    return NULL;
}

static void each_kind_of_end(void)
{
    int status = -1;
    CHECK(run("nothing", NULL) == VG_KEEPER_DONE);
    CHECK(start("status", "3", NULL, 10 * SECOND, true, &status) == VG_KEEPER_FAILED);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    CHECK(run("sleep", "150") == VG_KEEPER_DONE);
    CHECK(start("sleep", "20000", NULL, SECOND / 5, true, NULL) == VG_KEEPER_TIMEOUT);
    CHECK(start("sleep", "150", NULL, 10 * SECOND, false, NULL) == VG_KEEPER_STARTED);
    vg_keeper_wait_all(5 * SECOND);
}

static void sigchld_handler(void)
{
    handle(SIGCHLD, on_sigchld);
    each_kind_of_end();
    expect_no_child();
}

static void waitpid_loop(void)
{
    pthread_t t;
    CHECK(pthread_create(&t, NULL, look_for_children, NULL) == 0);
    for (int i = 0; i < 5; i++)
        each_kind_of_end();
    stop = 1;
    pthread_join(t, NULL);
    expect_no_child();
}

static void sigchld_ignored(void)
{
    handle(SIGCHLD, SIG_IGN);
    each_kind_of_end();
    expect_no_child();
}

static void adopter(void)
{
    handle(SIGCHLD, on_sigchld);
    each_kind_of_end();
    expect_no_child();
    /* A tool that leaves a process behind: the result comes at once, the rest goes to the keeper.
     */
    uint64_t before = now_ns();
    CHECK(run("orphan", "700") == VG_KEEPER_DONE);
    CHECK(now_ns() - before < SECOND / 2);
    for (int i = 0; i < 12; i++, nap(100))
        CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    vg_keeper_reap();
    expect_no_child();
}

static void pid_1(void)
{
    CHECK(getpid() == 1);
    adopter();
}

static void subreaper(void)
{
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
    adopter();
}

/* What the tool's `tell` wrote: its own pid and the keeper's. */
void read_told(int *tool_out, int *keeper_out)
{
    uint64_t deadline_ns = now_ns() + 10 * SECOND;
    while (access(extra_args[0], F_OK) != 0) {
        CHECK(now_ns() < deadline_ns);
        nap(10);
    }
    FILE *f = fopen(extra_args[0], "re");
    CHECK(f != NULL && fscanf(f, "%d %d", tool_out, keeper_out) == 2);
    fclose(f);
}

static void tool_missing(void)
{
    int status = -1;
    handle(SIGCHLD, on_sigchld);
    tool_path = "/nonexistent/vramguard";
    CHECK(start("nothing", NULL, NULL, 10 * SECOND, true, &status) == VG_KEEPER_FAILED);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 127);
    tool_path = "/";
    CHECK(run("nothing", NULL) == VG_KEEPER_FAILED);
    expect_no_child();
}

static void killed_at_the_limit(void)
{
    handle(SIGCHLD, on_sigchld);
    uint64_t before = now_ns();
    CHECK(start("tell", extra_args[0], "20000", SECOND / 2, true, NULL) == VG_KEEPER_TIMEOUT);
    uint64_t took = now_ns() - before;
    CHECK(took >= SECOND / 2 && took < SECOND);
    int tool = 0, parent = 0;
    read_told(&tool, &parent);
    CHECK(parent != getpid());
    CHECK(kill(tool, 0) == -1 && errno == ESRCH);
    CHECK(kill(parent, 0) == -1 && errno == ESRCH);
    expect_no_child();
}

static long count_lines(const char *path)
{
    long lines = 0;
    FILE *f = fopen(path, "re");
    CHECK(f != NULL);
    for (int c; (c = fgetc(f)) != EOF;)
        lines += c == '\n';
    fclose(f);
    return lines;
}

/* Anonymous memory only: reading this very file maps more of libc. Not statm: its counters are kept
 * per CPU and inexact. */
static long anonymous_kib(void)
{
    char line[256];
    long kib = -1;
    FILE *f = fopen("/proc/self/smaps_rollup", "re");
    CHECK(f != NULL);
    while (kib < 0 && fgets(line, sizeof line, f) != NULL)
        sscanf(line, "Anonymous: %ld kB", &kib);
    fclose(f);
    return kib;
}

static int next_descriptor(void)
{
    int fd = dup(0);
    close(fd);
    return fd;
}

static void two_hundred(void)
{
    for (int i = 0; i < 20; i++)
        CHECK(run("nothing", NULL) == VG_KEEPER_DONE);
    long maps = count_lines("/proc/self/maps"), anonymous = anonymous_kib();
    int fd = next_descriptor();
    uint64_t before = now_ns();
    for (int i = 0; i < 200; i++)
        CHECK(run("nothing", NULL) == VG_KEEPER_DONE);
    uint64_t took = now_ns() - before;
    CHECK(next_descriptor() == fd);
    CHECK(count_lines("/proc/self/maps") == maps);
    long grown = anonymous_kib() - anonymous;
    printf("%ld KiB more\n", grown);
    CHECK(grown < 16);
    expect_no_child();
    printf("%llu us a run\n", (unsigned long long)(took / 200000));
}

/* For test_keeper.py, which reads what the tool wrote. argv[3]: the dump; argv[4]: the incident's
 * file, left open. */
static void what_the_tool_gets(void)
{
    handle(SIGCHLD, SIG_IGN);
    handle(SIGUSR1, on_sigchld);
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    int incident = open(extra_args[1], O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < 200; i++)
        CHECK(dup(0) >= 0);
    char *argv[] = {"vramguard", "dump", extra_args[0], "an argument", NULL};
    struct vg_keeper_job job = {tool_path, argv, environ, incident, 10 * SECOND, true};
    CHECK(incident >= 0 && vg_keeper_run(&job, NULL) == VG_KEEPER_DONE);
    CHECK(fcntl(incident, F_GETFD) == FD_CLOEXEC);
    for (int fd = 0; fd < 200; fd++)
        CHECK(fcntl(fd, F_GETFD) >= 0);
    long adjustment = -1;
    FILE *f = fopen("/proc/self/oom_score_adj", "re");
    CHECK(f != NULL && fscanf(f, "%ld", &adjustment) == 1 && adjustment != 1000);
    fclose(f);
}

/* As an old kernel or an old seccomp filter would: close_range does not exist. */
static void without_close_range(void)
{
    struct sock_filter lines[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 436 /* close_range */, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof lines / sizeof lines[0], lines};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
    what_the_tool_gets();
}

/* A pipe of the program ends when the program closes it, however long the tool runs. */
static void pipe_ends(void)
{
    int ends[2];
    char byte;
    CHECK(pipe(ends) == 0);
    CHECK(start("sleep", "1000", NULL, 10 * SECOND, false, NULL) == VG_KEEPER_STARTED);
    close(ends[1]);
    uint64_t before = now_ns();
    CHECK(read(ends[0], &byte, 1) == 0);
    CHECK(now_ns() - before < SECOND / 2);
    vg_keeper_wait_all(5 * SECOND);
    expect_no_child();
}

/* Waits for ever; test_keeper.py kills it. */
static void wait_to_be_killed(void)
{
    start("tell", extra_args[0], "30000", 30 * SECOND, true, NULL);
}

/* Ends while a tool runs that nobody waited for. */
static void exit_meanwhile(void)
{
    CHECK(start("tell", extra_args[0], "30000", 30 * SECOND, false, NULL) == VG_KEEPER_STARTED);
    int tool, keeper_pid;
    read_told(&tool, &keeper_pid);
}

#define SCENARIO(name)                                                                             \
    {                                                                                              \
#name, name                                                                                \
    }
static const struct {
    const char *name;
    void (*body)(void);
} scenarios[] = {
    SCENARIO(sigchld_handler),     SCENARIO(waitpid_loop),
    SCENARIO(sigchld_ignored),     SCENARIO(pid_1),
    SCENARIO(subreaper),           SCENARIO(thread_ends),
    SCENARIO(tool_missing),        SCENARIO(killed_at_the_limit),
    SCENARIO(blocked_in_wait4),    SCENARIO(sigterm),
    SCENARIO(fork_meanwhile),      SCENARIO(vfork_child),
    SCENARIO(several_threads),     SCENARIO(cancellation),
    SCENARIO(two_hundred),         SCENARIO(what_the_tool_gets),
    SCENARIO(without_close_range), SCENARIO(pipe_ends),
    SCENARIO(wait_to_be_killed),   SCENARIO(exit_meanwhile),
};

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    tool_path = argc > 2 ? argv[2] : "/bin/true";
    extra_args = argc > 3 ? argv + 3 : argv + argc;
    for (size_t i = 0; argc > 1 && i < sizeof scenarios / sizeof scenarios[0]; i++) {
        if (strcmp(argv[1], scenarios[i].name) != 0)
            continue;
        scenarios[i].body();
        puts("ok");
        return 0;
    }
    fputs("usage: keeper_check SCENARIO TOOL [ARGUMENT...]\n", stderr);
    return 2;
}
