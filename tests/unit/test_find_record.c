/* test_find_record.c -- which file a process left, and whether its process lives.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <time.h>

#include "tools/find_record.h"

static void make(const struct unit *unit, const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", unit->dir, name);
    int fd = open(path, O_CREAT | O_WRONLY | O_EXCL, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static void expect_left(const struct unit *unit, uint64_t started, const char *name)
{
    char *found = vg_find_left_record(unit->dir, 77, started * 1000000000u);
    if (name) {
        assert_non_null(found);
        assert_string_equal(strrchr(found, '/') + 1, name);
    } else {
        assert_null(found);
    }
    free(found);
}

static void test_the_newest_record_of_a_process_is_found(void **state)
{
    (void)state;
    struct unit unit = {0};
    static const char *const names[] = {
        "vramguard.h.77-1000.vgr",         "vramguard.h.77-1500-2.vgr",
        "vramguard.h.77-1500-10.vgr",      "vramguard.h.77-1500.vgr",
        "vramguard.h.77-1200.vgr",         "vramguard.h.78-1900.vgr",
        "vramguard.h.77-1500-9.oom-1.vgr", "vramguard.h.77-1800.oom-1.vgr",
        "vramguard.h.rank3.77-1300.vgr",   "vramguard.h.77-1700.json"};
    unit_dir(&unit);
    setenv("TMPDIR", unit.dir, 1);
    expect_left(&unit, 1000, NULL);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        make(&unit, names[i]);
    expect_left(&unit, 1000, "vramguard.h.77-1500-10.vgr");
    expect_left(&unit, 1501, "vramguard.h.77-1500-10.vgr"); /* two clocks: a second apart */
    expect_left(&unit, 1600, NULL);
    unsetenv("TMPDIR");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[600];
        snprintf(path, sizeof path, "%s/%s", unit.dir, names[i]);
        unlink(path);
    }
    assert_int_equal(rmdir(unit.dir), 0);
}

static bool is_alive(const char *host, const char *behind)
{
    struct vg_header header = {.pid = (uint32_t)getpid()};
    struct timespec now;
    char whole[512];
    clock_gettime(CLOCK_REALTIME, &now);
    header.start_realtime_ns = (uint64_t)now.tv_sec * 1000000000u;
    snprintf(whole, sizeof whole, "%s%s", host, behind);
    return vg_record_is_alive(&header, whole);
}

static void test_a_host_is_known_up_to_its_first_dot(void **state)
{
    (void)state;
    char here[256] = "";
    gethostname(here, sizeof here - 1);
    assert_true(is_alive(here, ""));
    assert_true(is_alive(here, ".example.org"));
    here[strcspn(here, ".")] = 0;
    assert_true(is_alive(here, ""));
    assert_false(is_alive(here, "x"));
    here[strlen(here) - 1] = 0;
    assert_false(is_alive(here, ""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_newest_record_of_a_process_is_found),
        cmocka_unit_test(test_a_host_is_known_up_to_its_first_dot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
