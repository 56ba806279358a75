/* test_space.c -- file systems that can't or won't give blocks.
 * SPDX-License-Identifier: Apache-2.0
 *
 * This program has a fallocate of its own, which the linker takes in place of libc's.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

static struct {
    int error;     /* 0: works */
    uint64_t free; /* refused with ENOSPC beyond it */
    int interruptions;
} disk;

int fallocate(int fd, int mode, off_t from, off_t bytes)
{
    (void)mode;
    if (disk.interruptions-- > 0) {
        errno = EINTR;
        return -1;
    }
    uint64_t end = (uint64_t)from + (uint64_t)bytes;
    if (disk.error || end > disk.free) {
        errno = disk.error ? disk.error : ENOSPC;
        return -1;
    }
    return posix_fallocate(fd, from, bytes);
}

static void fill(struct unit *unit)
{
    for (uint64_t i = 1; i <= 60000; i++) {
        unit_alloc(unit, VG_KIND_DEVICE, i * 512, 512, 0);
    }
    unit_check_ledger(unit);
}

static void expect_whole(struct unit *unit)
{
    struct stat st;
    fill(unit);
    assert_int_equal(vg_ledger_live_count(&unit->ledger), 60000);
    assert_int_equal(stat(unit->path, &st), 0);
    assert_int_equal(st.st_size, unit->record.mapped_bytes);
    assert_true(st.st_blocks * 512 >= st.st_size);
}

static void test_without_fallocate_zeros_are_written(void **state)
{
    struct unit unit;
    (void)state;
    disk.error = EOPNOTSUPP;
    unit_begin(&unit, 16 * MIB);
    expect_whole(&unit);
    unit_end(&unit);
}

static void test_signals_do_not_end_the_growth(void **state)
{
    struct unit unit;
    (void)state;
    disk.error = 0;
    disk.free = UINT64_MAX;
    unit_begin(&unit, 16 * MIB);
    disk.interruptions = 1000;
    expect_whole(&unit);
    unit_end(&unit);
    disk.interruptions = 0;
}

static void test_what_is_left_of_the_disk_is_used(void **state)
{
    struct unit unit;
    (void)state;
    disk.error = 0;
    disk.free = MIB + 700 * 1024; /* a chunk of slots, not a whole step */
    unit_begin(&unit, 16 * MIB);
    fill(&unit);
    assert_true(unit.record.stuck);
    assert_true(unit.record.mapped_bytes > MIB && unit.record.mapped_bytes <= disk.free);
    assert_true(unit.record.header->unlisted_count > 0);
    /* Once refused, the disk is not asked again at every allocation. */
    disk.free = UINT64_MAX;
    uint64_t mapped = unit.record.mapped_bytes;
    fill(&unit);
    assert_int_equal(unit.record.mapped_bytes, mapped);
    unit_end(&unit);
}

static void test_no_room_at_all_leaves_no_file(void **state)
{
    struct unit unit;
    (void)state;
    memset(&unit, 0, sizeof unit);
    disk.error = ENOSPC;
    unit_dir(&unit);
    assert_int_equal(vg_record_create(&unit.record, unit.path, 16 * MIB), VG_IO);
    assert_int_equal(errno, ENOSPC);
    assert_int_equal(rmdir(unit.dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_fallocate_zeros_are_written),
        cmocka_unit_test(test_signals_do_not_end_the_growth),
        cmocka_unit_test(test_what_is_left_of_the_disk_is_used),
        cmocka_unit_test(test_no_room_at_all_leaves_no_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
