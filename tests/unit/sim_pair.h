/* sim_pair.h -- a test of two processes on one simulated machine.
 * SPDX-License-Identifier: Apache-2.0
 *
 * They share VGSIM_SHARED and take turns.
 */
#ifndef VG_TEST_SIM_PAIR_H
#define VG_TEST_SIM_PAIR_H

#include "tests/unit/sim_child.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <time.h>

/* What both see. */
static struct sim_pair {
    _Atomic int turn;
    pid_t pid[2];
    CUipcMemHandle memory[4];
    CUipcEventHandle event;
    size_t value[4];
} * pair;

/* Ten seconds are for ever. */
static inline void pair_wait(int turn)
{
    for (int i = 0; i < 10000 && atomic_load(&pair->turn) < turn; i++)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    CHECK(atomic_load(&pair->turn) >= turn);
}

static inline void pair_go(int turn)
{
    atomic_store(&pair->turn, turn);
}

static inline pid_t pair_fork(void (*body)(void), const char *const *knobs, const char *shared)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid)
        return pid;
    for (; *knobs; knobs++)
        putenv((char *)(uintptr_t)*knobs);
    setenv("VGSIM_SHARED", shared, 1);
    body();
    _exit(0);
}

/* Runs both at once, and waits for the second first; status_out: as waitpid gives them. */
static inline void pair_run(void (*first)(void), void (*second)(void), const char *const *knobs,
                            int status_out[2])
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/vgsim-shared-%d", (int)getpid());
    unlink(path);
    pair = mmap(NULL, sizeof *pair, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(pair != MAP_FAILED);
    fflush(NULL);
    pair->pid[0] = pair_fork(first, knobs, path);
    pair->pid[1] = pair_fork(second, knobs, path);
    for (int i = 1; i >= 0; i--)
        assert_int_equal(waitpid(pair->pid[i], &status_out[i], 0), pair->pid[i]);
    munmap(pair, sizeof *pair);
    unlink(path);
}

#define IN_PAIR(first, second, ...)                                                                \
    do {                                                                                           \
        const char *const knobs_[] = {__VA_ARGS__, NULL};                                          \
        int status_[2];                                                                            \
        pair_run(first, second, knobs_, status_);                                                  \
        assert_int_equal(status_[0], 0);                                                           \
        assert_int_equal(status_[1], 0);                                                           \
    } while (0)

#endif
