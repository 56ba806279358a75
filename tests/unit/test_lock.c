/* test_lock.c -- the ledger lock: exclusion, its owner, its limit in time.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <pthread.h>
#include <sys/time.h>
#include <time.h>

enum { THREADS = 4, ROUNDS = 50000 };

static struct {
    struct vg_lock lock;
    uint64_t count; /* guarded by the lock */
    volatile sig_atomic_t handled, busy;
} shared;

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void *count_up(void *id)
{
    for (int i = 0; i < ROUNDS; i++) {
        if (vg_lock_enter(&shared.lock, *(uint32_t *)id, 0) == VG_OK) {
            shared.count++;
            vg_lock_leave(&shared.lock);
        }
    }
    return NULL;
}

static void test_one_thread_at_a_time(void **state)
{
    pthread_t threads[THREADS];
    uint32_t ids[THREADS];
    (void)state;
    shared.count = 0;
    for (uint32_t i = 0; i < THREADS; i++) {
        ids[i] = i + 1;
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, &ids[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    assert_int_equal(shared.count, THREADS * ROUNDS);
    assert_int_equal(shared.lock.word, 0);
}

static void test_the_holder_is_told_at_once(void **state)
{
    (void)state;
    assert_int_equal(vg_lock_enter(&shared.lock, 7, 0), VG_OK);
    assert_int_equal(vg_lock_enter(&shared.lock, 7, 0), VG_BUSY);
    vg_lock_leave(&shared.lock);
    assert_int_equal(vg_lock_enter(&shared.lock, 7, 0), VG_OK);
    vg_lock_leave(&shared.lock);
}

static void test_others_give_up_in_time(void **state)
{
    (void)state;
    assert_int_equal(vg_lock_enter(&shared.lock, 7, 0), VG_OK);
    uint64_t from = now_ns();
    errno = 1234;
    assert_int_equal(vg_lock_enter(&shared.lock, 8, 20 * 1000000), VG_BUSY);
    assert_int_equal(errno, 1234);
    assert_true(now_ns() - from >= 20 * 1000000);
    assert_true(now_ns() - from < 5 * 1000000000ull);
    vg_lock_leave(&shared.lock);
    assert_int_equal(vg_lock_enter(&shared.lock, 8, 1), VG_OK);
    vg_lock_leave(&shared.lock);
}

static void on_signal(int number)
{
    (void)number;
    shared.handled++;
    if (vg_lock_enter(&shared.lock, 7, 0) == VG_BUSY) {
        shared.busy++;
    } else {
        vg_lock_leave(&shared.lock);
    }
}

/* A handler of the holding thread that waited for it would wait for ever, wherever it comes in. */
static void test_a_signal_handler_of_the_holder_never_waits(void **state)
{
    (void)state;
    struct itimerval often = {.it_interval = {.tv_usec = 50}, .it_value = {.tv_usec = 50}};
    struct itimerval never = {0};
    shared.handled = shared.busy = 0;
    signal(SIGALRM, on_signal);
    setitimer(ITIMER_REAL, &often, NULL);
    uint64_t from = now_ns();
    while (shared.handled < 1000 || !shared.busy) {
        if (vg_lock_enter(&shared.lock, 7, 0) == VG_OK) {
            vg_lock_leave(&shared.lock);
        }
        assert_true(now_ns() - from < 20 * 1000000000ull);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    assert_int_equal(shared.lock.word, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_thread_at_a_time),
        cmocka_unit_test(test_the_holder_is_told_at_once),
        cmocka_unit_test(test_others_give_up_in_time),
        cmocka_unit_test(test_a_signal_handler_of_the_holder_never_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
