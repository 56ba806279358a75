/* keeper_threads.c -- the keeper beside other threads and forks of the program.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Scenarios of keeper_check.c.
 */
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/e2e/keeper_check.h"

static _Atomic(long) linger_ms;

static void *start_one_and_end(void *result)
{
    *(enum vg_keeper_result *)result =
        start("tell", extra_args[0], "600", 10 * SECOND, false, NULL);
    nap(linger_ms);
    return NULL;
}

/* The stack of the thread, with its thread-local storage, is gone while the keeper runs. */
static void thread_that_ends_after(long ms)
{
    size_t bytes = 1 << 20;
    char *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    enum vg_keeper_result result = VG_KEEPER_FAILED;
    pthread_attr_t attr;
    pthread_t t;
    unlink(extra_args[0]);
    linger_ms = ms;
    CHECK(stack != MAP_FAILED && pthread_attr_init(&attr) == 0);
    CHECK(pthread_attr_setstack(&attr, stack, bytes) == 0);
    CHECK(pthread_create(&t, &attr, start_one_and_end, &result) == 0);
    pthread_join(t, NULL);
    CHECK(munmap(stack, bytes) == 0);
    CHECK(result == VG_KEEPER_STARTED);
    uint64_t before = now_ns();
    int tool = 0, keeper_pid = 0;
    siginfo_t end;
    read_told(&tool, &keeper_pid);
    CHECK(waitid(P_PID, (id_t)keeper_pid, &end, WEXITED | WNOWAIT | __WALL) == 0);
    CHECK(end.si_code == CLD_EXITED && end.si_status == 0);
    CHECK(now_ns() - before > SECOND / 4); /* the tool was not cut short by the thread's end */
    vg_keeper_wait_all(5 * SECOND);
    expect_no_child();
}

void thread_ends(void)
{
    handle(SIGCHLD, on_sigchld);
    thread_that_ends_after(0);
    thread_that_ends_after(150);
}

static void *wait_for_own(void *child)
{
    int status = 0;
    pid_t got = waitpid(-1, &status, 0);
    CHECK(got == *(pid_t *)child && WEXITSTATUS(status) == 7);
    return NULL;
}

void blocked_in_wait4(void)
{
    pid_t child = fork();
    if (child == 0) {
        nap(600);
        _exit(7);
    }
    pthread_t t;
    CHECK(pthread_create(&t, NULL, wait_for_own, &child) == 0);
    nap(50);
    for (int i = 0; i < 20; i++)
        CHECK(run("nothing", NULL) == VG_KEEPER_DONE);
    CHECK(kill(child, 0) == 0);
    pthread_join(t, NULL);
    expect_no_child();
}

static void *send_sigterm(void *sent_ns)
{
    nap(200);
    *(uint64_t *)sent_ns = now_ns();
    kill(getpid(), SIGTERM);
    return NULL;
}

static _Atomic(uint64_t) sigterm_ns;

static void on_sigterm(int sig)
{
    (void)sig;
    sigterm_ns = now_ns();
}

/* ThreadSanitizer holds a handler back until the thread's next call that it intercepts; the
 * keeper's caller makes none. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SIGTERM_LIMIT_NS (2 * SECOND)
#endif
#endif
#ifndef SIGTERM_LIMIT_NS
#define SIGTERM_LIMIT_NS (SECOND / 5)
#endif

/* Only the waiting thread may take the signal, and it does so while it waits. */
void sigterm(void)
{
    handle(SIGTERM, on_sigterm);
    sigset_t set, before, after;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    uint64_t sent_ns = 0;
    pthread_t t;
    CHECK(pthread_create(&t, NULL, send_sigterm, &sent_ns) == 0);
    pthread_sigmask(SIG_UNBLOCK, &set, &before);
    sigdelset(&before, SIGTERM);
    CHECK(run("sleep", "800") == VG_KEEPER_DONE);
    pthread_join(t, NULL);
    CHECK(sigterm_ns >= sent_ns && sigterm_ns - sent_ns < SIGTERM_LIMIT_NS);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    for (int sig = 1; sig < 65; sig++)
        CHECK(sigismember(&before, sig) == sigismember(&after, sig));
    expect_no_child();
}

static void *fork_all_the_time(void *unused)
{
    (void)unused;
    while (!stop) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            vg_keeper_reap(); /* the table is a copy: nothing here is ours */
            vg_keeper_wait_all(SECOND);
            _exit(9);
        }
        CHECK(waitpid(-1, &status, 0) == child && WEXITSTATUS(status) == 9);
    }
    return NULL;
}

void fork_meanwhile(void)
{
    pthread_t t;
    CHECK(pthread_create(&t, NULL, fork_all_the_time, NULL) == 0);
    for (int i = 0; i < 50; i++) {
        CHECK(start("nothing", NULL, NULL, 10 * SECOND, i % 2 == 0, NULL) <= VG_KEEPER_STARTED);
        if (i % 2 == 1)
            vg_keeper_wait_all(SECOND);
    }
    stop = 1;
    pthread_join(t, NULL);
    vg_keeper_wait_all(SECOND);
    expect_no_child();
}

/* A vfork child shares the table, but not the children. */
void vfork_child(void)
{
    CHECK(start("nothing", NULL, NULL, 10 * SECOND, false, NULL) == VG_KEEPER_STARTED);
    nap(200);
    pid_t child = vfork();
    if (child == 0) {
        vg_keeper_reap();
        vg_keeper_wait_all(SECOND);
        _exit(0);
    }
    CHECK(waitpid(child, NULL, 0) == child);
    CHECK(own_children() == 1);
    vg_keeper_reap();
    expect_no_child();
}

static void *run_one(void *unused)
{
    (void)unused;
    return start("sleep", "300", NULL, 10 * SECOND, true, NULL) == VG_KEEPER_DONE ? NULL : &stop;
}

void several_threads(void)
{
    pthread_t t[VG_KEEPER_MAX];
    void *bad = NULL;
    handle(SIGCHLD, on_sigchld);
    for (int i = 0; i < VG_KEEPER_MAX; i++)
        CHECK(pthread_create(&t[i], NULL, run_one, NULL) == 0);
    nap(150);
    CHECK(run("nothing", NULL) == VG_KEEPER_UNAVAILABLE);
    for (int i = 0; i < VG_KEEPER_MAX; i++) {
        pthread_join(t[i], &bad);
        CHECK(bad == NULL);
    }
    for (int i = 0; i < VG_KEEPER_MAX; i++)
        CHECK(start("sleep", "100", NULL, SECOND, false, NULL) == VG_KEEPER_STARTED);
    CHECK(run("nothing", NULL) == VG_KEEPER_UNAVAILABLE);
    vg_keeper_wait_all(5 * SECOND);
    CHECK(run("nothing", NULL) == VG_KEEPER_DONE);
    expect_no_child();
}

/* Deferred cancellation and errno: what the failing call was going to do is not disturbed.
 * AddressSanitizer does not clean up after frames that a cancellation unwinds, so this one has none
 * of its marks. */
__attribute__((no_sanitize("address"))) static void *cancelled(void *result)
{
    errno = ERANGE;
    *(enum vg_keeper_result *)result = start("sleep", "400", NULL, 10 * SECOND, true, NULL);
    if (errno != ERANGE)
        *(enum vg_keeper_result *)result = VG_KEEPER_FAILED;
    pthread_testcancel();
    return NULL;
}

void cancellation(void)
{
    pthread_t t;
    void *end = NULL;
    enum vg_keeper_result result = VG_KEEPER_FAILED;
    CHECK(pthread_create(&t, NULL, cancelled, &result) == 0);
    nap(100);
    CHECK(pthread_cancel(t) == 0);
    pthread_join(t, &end);
    CHECK(end == PTHREAD_CANCELED && result == VG_KEEPER_DONE);
    expect_no_child();
}
