/* keeper_check.h -- what the scenarios of keeper_check.c and keeper_threads.c share.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef KEEPER_CHECK_H
#define KEEPER_CHECK_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "interpose/keeper.h"

#define SECOND UINT64_C(1000000000)
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("line %d: %s is not so\n", __LINE__, #condition);                               \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

extern const char *tool_path;
extern char **extra_args;
extern _Atomic(int) sigchld_count;
extern _Atomic(int) stop;

uint64_t now_ns(void);
void nap(long ms);
void on_sigchld(int sig);
void handle(int sig, void (*handler)(int));
enum vg_keeper_result start(const char *what, const char *a, const char *b, uint64_t limit_ns,
                            bool wait, int *status_out);
enum vg_keeper_result run(const char *what, const char *a);
int own_children(void);
void expect_no_child(void);
void read_told(int *tool_out, int *keeper_out);

void thread_ends(void);
void blocked_in_wait4(void);
void sigterm(void);
void fork_meanwhile(void);
void vfork_child(void);
void several_threads(void);
void cancellation(void);

#endif
