/* case_ends.c -- all the ways in which a guarded process ends, and what ends inside it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Scenarios of ends print the live bytes at that moment and end with status 5.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <time.h>

#include "case.h"

static CUcontext context;
static const char *way;

static void say(size_t live)
{
    printf("%zu\n", live);
    fflush(stdout);
}

static void begin(void)
{
    use_device();
    NEED(cuCtxGetCurrent(&context) == CUDA_SUCCESS);
}

static void end(void)
{
    if (strcmp(way, "exit") == 0)
        exit(5);
    if (strcmp(way, "_exit") == 0)
        _exit(5);
    if (strcmp(way, "_Exit") == 0)
        _Exit(5);
    if (strcmp(way, "quick_exit") == 0)
        quick_exit(5);
    abort();
}

static CUdeviceptr late;
static void free_late(void)
{
    give(late);
}

/* end <way>: with handlers of the program that free after us or before us. */
static int plainly(int argc, char **argv)
{
    NEED(argc == 3);
    way = argv[2];
    begin();
    late = take(3 * MIB);
    NEED(at_quick_exit(free_late) == 0);
    take(4 * MIB);
    say(7 * MIB);
    end();
    return 1;
}

static int returns(int argc, char **argv)
{
    (void)argc, (void)argv;
    begin();
    take(7 * MIB);
    say(7 * MIB);
    return 5;
}

static void *end_in_thread(void *unused)
{
    (void)unused;
    NEED(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    take(4 * MIB);
    say(7 * MIB);
    end();
    return NULL;
}

static int from_a_thread(int argc, char **argv)
{
    pthread_t thread;
    NEED(argc == 3);
    way = argv[2];
    begin();
    take(3 * MIB);
    NEED(pthread_create(&thread, NULL, end_in_thread, NULL) == 0);
    pthread_join(thread, NULL);
    return 1;
}

/* The main thread ends first; the process ends with its last thread, by exit(0) of libc. */
static void *outlive(void *main_thread)
{
    NEED(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    pthread_join(*(pthread_t *)main_thread, NULL);
    take(4 * MIB);
    say(7 * MIB);
    return NULL;
}

static int main_thread_ends(int argc, char **argv)
{
    static pthread_t self;
    pthread_t thread;
    (void)argc, (void)argv;
    begin();
    take(3 * MIB);
    self = pthread_self();
    NEED(pthread_create(&thread, NULL, outlive, &self) == 0);
    pthread_exit(NULL);
}

/* --- signals ---------------------------------------------------------------------------------- */

static void *churn(void *unused)
{
    (void)unused;
    NEED(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    for (;;)
        give(take(MIB));
    return NULL;
}

static void end_on_signal(int number)
{
    (void)number;
    end();
}

/* The handler ends the process while other threads are anywhere in the guard, and this one too
 * where <where> is "inside". */
static int in_a_handler(int argc, char **argv)
{
    pthread_t thread[2];
    sigset_t alarm_only;
    NEED(argc == 4);
    way = argv[2];
    begin();
    take(7 * MIB);
    say(7 * MIB);
    sigemptyset(&alarm_only);
    sigaddset(&alarm_only, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm_only, NULL);
    for (int i = 0; i < 2; i++)
        NEED(pthread_create(&thread[i], NULL, churn, NULL) == 0);
    signal(SIGALRM, end_on_signal);
    struct itimerval soon = {.it_value = {0, 20000 + getpid() % 1000}};
    setitimer(ITIMER_REAL, &soon, NULL);
    pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
    if (strcmp(argv[3], "inside") == 0)
        churn(NULL);
    for (;;)
        pause();
}

/* A handler that allocates and frees at any instruction of the guard. For a driver without locks
 * (the no-op one of the bench). */
static atomic_uint handled;
static CUdeviceptr kept[8];
static void use_on_signal(int number)
{
    unsigned n = atomic_fetch_add(&handled, 1);
    CUdeviceptr *place = &kept[n % 8];
    (void)number;
    if (*place)
        cuMemFree(*place);
    *place = 0;
    cuMemAlloc(place, 1000 + n % 8);
}

static int handler_uses_memory(int argc, char **argv)
{
    struct itimerval often = {{0, 50}, {0, 50}};
    struct timespec begun, now;
    CUdeviceptr mine[32] = {0};
    unsigned n = 0;
    (void)argc, (void)argv;
    signal(SIGALRM, use_on_signal);
    setitimer(ITIMER_REAL, &often, NULL);
    clock_gettime(CLOCK_MONOTONIC, &begun);
    do {
        CUdeviceptr *place = &mine[n++ % 32];
        if (*place)
            give(*place);
        *place = take(4096);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec - begun.tv_sec < 2);
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    printf("%u %u\n", n, atomic_load(&handled));
    return 0;
}

/* --- threads ---------------------------------------------------------------------------------- */

/* Cancelled where it next calls anything that may be a cancellation point: nothing of ours may be
 * one while it holds what others need. */
static void *cancelled(void *unused)
{
    (void)unused;
    NEED(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    pthread_cancel(pthread_self());
    for (int i = 0; i < 30000; i++)
        take(512);
    pthread_testcancel();
    NEED(!"cancelled");
    return NULL;
}

static int cancels(int argc, char **argv)
{
    pthread_t thread;
    (void)argc, (void)argv;
    begin();
    void *result;
    take(MIB);
    NEED(pthread_create(&thread, NULL, cancelled, NULL) == 0);
    NEED(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    take(MIB);
    say(2 * MIB + (size_t)30000 * 512);
    return 0;
}

/* The first call of all, in a thread that has been cancelled already. */
static void *cancelled_first(void *unused)
{
    (void)unused;
    pthread_cancel(pthread_self());
    begin();
    take(3 * MIB);
    pthread_testcancel();
    return NULL;
}

static int cancels_first(int argc, char **argv)
{
    pthread_t thread;
    void *result;
    (void)argc, (void)argv;
    NEED(pthread_create(&thread, NULL, cancelled_first, NULL) == 0);
    NEED(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    begin();
    take(4 * MIB);
    say(7 * MIB);
    return 0;
}

enum { THREADS = 16, ROUNDS = 3000, HELD = 40 };
static _Atomic size_t live_bytes;
static void *allocate(void *seed)
{
    unsigned random = (unsigned)(uintptr_t)seed;
    CUdeviceptr block[HELD] = {0};
    size_t size[HELD];
    if (context)
        NEED(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    else
        use_device();
    for (int i = 0; i < ROUNDS; i++) {
        int at = rand_r(&random) % HELD;
        if (block[at]) {
            give(block[at]);
            live_bytes -= size[at];
            block[at] = 0;
        } else {
            size[at] = 1 + (size_t)rand_r(&random) % 100000;
            block[at] = take(size[at]);
            live_bytes += size[at];
        }
    }
    return NULL; /* what is left lives on without its thread */
}

static int sixteen(int argc, char **argv)
{
    pthread_t thread[THREADS];
    NEED(argc == 3);
    if (strcmp(argv[2], "warm") == 0)
        begin(); /* else each thread begins, and all at the same time */
    for (uintptr_t i = 0; i < THREADS; i++)
        NEED(pthread_create(&thread[i], NULL, allocate, (void *)(i + 1)) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    say(live_bytes);
    return 0;
}

/* cycles <library> <library>: each allocates through code that is unmapped afterwards; where one
 * was, the other may be next. */
static int cycles(int argc, char **argv)
{
    NEED(argc == 4);
    begin();
    for (int i = 0; i < 100; i++) {
        void *library = dlopen(argv[2 + i % 2], RTLD_NOW | RTLD_LOCAL);
        NEED(library);
        void *found = dlsym(library, "keep_one");
        void (*keep_one)(void);
        memcpy(&keep_one, &found, sizeof keep_one);
        keep_one();
        dlclose(library);
    }
    say((50 * 3 + 50 * 5) * 4096);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"end", plainly},          {"return", returns},
        {"thread", from_a_thread}, {"outlive", main_thread_ends},
        {"handler", in_a_handler}, {"handler-uses", handler_uses_memory},
        {"cancel", cancels},       {"cancel-first", cancels_first},
        {"sixteen", sixteen},      {"cycles", cycles}};
    return run_scenario(all, sizeof all / sizeof *all, argc, argv);
}
