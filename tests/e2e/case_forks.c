/* case_forks.c -- children of every kind, of a process that uses CUDA or does not yet.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Scenarios print "pid live-bytes" of every process that has a record to be compared. A parent that
 * must still be guarded at its end kills itself: its record then shows whether a child marked it as
 * ended, and is there only if none removed it.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "case.h"

static void say(size_t live)
{
    printf("%d %zu\n", (int)getpid(), live);
    fflush(stdout);
}

static void wait_for(pid_t child, int expected)
{
    int status;
    NEED(child > 0 && waitpid(child, &status, 0) == child);
    NEED(WIFEXITED(status) && WEXITSTATUS(status) == expected);
}

static void die(void)
{
    kill(getpid(), SIGKILL);
}

/* A launcher: the child comes before CUDA, and both use it. */
static int cold(int argc, char **argv)
{
    (void)argc, (void)argv;
    pid_t child = fork();
    use_device();
    take(child ? 5 * MIB : 3 * MIB);
    say(child ? 5 * MIB : 3 * MIB);
    if (!child)
        _exit(7);
    wait_for(child, 7);
    return 0;
}

static pid_t by_clone(void)
{
    return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
}

static void end_child(const char *way, int status)
{
    if (strcmp(way, "exit") == 0)
        exit(status);
    if (strcmp(way, "_exit") == 0)
        _exit(status);
    if (strcmp(way, "_Exit") == 0)
        _Exit(status);
    if (strcmp(way, "quick_exit") == 0)
        quick_exit(status);
    abort();
}

/* What a child does before it ends: calls that the guard sees. The driver refuses them in a
 * child. */
static void use_in_child(void)
{
    CUdeviceptr address;
    NEED(cuMemAlloc(&address, MIB) != CUDA_SUCCESS);
    cuMemFree(4096);
}

/* forks <fork|_Fork|clone> <way the child ends> */
static int on(int argc, char **argv)
{
    NEED(argc == 4);
    use_device();
    take(7 * MIB);
    pid_t child = strcmp(argv[2], "fork") == 0    ? fork()
                  : strcmp(argv[2], "_Fork") == 0 ? _Fork()
                                                  : by_clone();
    if (!child) {
        use_in_child();
        end_child(argv[3], 9);
    }
    wait_for(child, 9);
    take(9 * MIB);
    say(16 * MIB);
    die();
    return 1;
}

/* A vfork child shares our memory. It ends by _exit, as where exec fails. */
static int vforked(int argc, char **argv)
{
    (void)argc, (void)argv;
    use_device();
    take(7 * MIB);
    pid_t child = vfork();
    if (!child) {
        execl("/nonexistent/program", "program", (char *)NULL);
        _exit(127);
    }
    wait_for(child, 127);
    take(9 * MIB);
    say(16 * MIB);
    die();
    return 1;
}

/* Another thread allocates all the time while children come and go. */
static volatile int stop;
static void *work(void *unused)
{
    (void)unused;
    CUcontext context;
    NEED(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    NEED(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    while (!stop)
        give(take(MIB));
    return NULL;
}

static int busy(int argc, char **argv)
{
    (void)argc, (void)argv;
    pthread_t thread;
    use_device();
    take(7 * MIB);
    NEED(pthread_create(&thread, NULL, work, NULL) == 0);
    for (int i = 0; i < 50; i++) {
        pid_t child = fork();
        if (!child) {
            use_in_child();
            end_child(i % 2 ? "exit" : "_exit", 3);
        }
        wait_for(child, 3);
    }
    stop = 1;
    pthread_join(thread, NULL);
    say(7 * MIB);
    die();
    return 1;
}

/* The pid stays, the program is another. Both records begin in the same second, as far as that can
 * be arranged. */
static int exec_self(int argc, char **argv)
{
    struct timespec now;
    if (argc == 2) {
        clock_gettime(CLOCK_REALTIME, &now);
        now.tv_sec++;
        now.tv_nsec = 0;
        clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &now, NULL);
        use_device();
        take(3 * MIB);
        say(3 * MIB);
        execl(argv[0], argv[0], argv[1], "again", (char *)NULL);
        return 1;
    }
    use_device();
    take(5 * MIB);
    say(5 * MIB);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"cold", cold}, {"on", on}, {"vfork", vforked}, {"busy", busy}, {"exec", exec_self}};
    return run_scenario(all, sizeof all / sizeof *all, argc, argv);
}
