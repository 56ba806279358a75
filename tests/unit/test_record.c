/* test_record.c -- the record file.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Space before touch, no signal whatever the machine refuses, no foreign file touched.
 *
 * The tests of refusals run in a child: a signal shows in its status, and limits and mounts end
 * with it.
 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* Allocations until the record can take no more, and some beyond. */
static void fill(struct unit *unit, uint64_t n)
{
    for (uint64_t i = 1; i <= n; i++) {
        unit_alloc(unit, VG_KIND_DEVICE, i * 512, 512, 0);
    }
}

static int is_sound(struct unit *unit)
{
    return vg_ledger_check(&unit->ledger, unit->why, sizeof unit->why);
}

static void test_a_fresh_record_is_one_step(void **state)
{
    struct unit *unit = *state;
    struct stat st;
    assert_int_equal(stat(unit->path, &st), 0);
    assert_true(st.st_size <= (off_t)MIB);
    assert_int_equal(st.st_mode & 0777, 0600);
    fill(unit, 1);
    unit_stack(unit, 1);
    assert_int_equal(stat(unit->path, &st), 0);
    assert_true(st.st_size <= (off_t)MIB);
    assert_true(unit->record.fd > STDERR_FILENO);
    assert_true(fcntl(unit->record.fd, F_GETFD) & FD_CLOEXEC);
}

static void test_a_file_that_exists_is_left_alone(void **state)
{
    struct unit *unit = *state;
    struct vg_record second;
    char link[300];
    assert_int_equal(vg_record_create(&second, unit->path, MIB), VG_IO);
    assert_int_equal(errno, EEXIST);
    assert_int_equal(access(unit->path, F_OK), 0);
    snprintf(link, sizeof link, "%s/link", unit->dir);
    assert_int_equal(symlink("elsewhere", link), 0);
    assert_int_equal(vg_record_create(&second, link, MIB), VG_IO);
    assert_int_equal(access(link, F_OK), -1);
    unlink(link);
}

static void test_the_file_is_never_sparse(void **state)
{
    struct unit *unit = *state;
    struct stat st;
    fill(unit, 60000);
    assert_int_equal(stat(unit->path, &st), 0);
    assert_true(st.st_size >= (off_t)(3 * MIB / 2));
    assert_true((uint64_t)st.st_size == unit->record.mapped_bytes);
    assert_true(st.st_blocks * 512 >= st.st_size);
    assert_true(unit->record.header->file_bytes <= unit->record.mapped_bytes);
    unit_check_ledger(unit);
}

static void test_the_limit_is_kept(void **state)
{
    struct unit *unit = *state;
    unit_end(unit);
    unit_begin(unit, 2 * MIB);
    fill(unit, 200000);
    struct stat st;
    assert_int_equal(stat(unit->path, &st), 0);
    assert_true(st.st_size <= (off_t)(2 * MIB));
    assert_true(unit->record.header->saturated & VG_SAT_SLOTS);
    unit_check_ledger(unit);
}

static void test_elements_that_would_straddle_a_chunk_are_in_the_next(void **state)
{
    struct unit *unit = *state;
    uint64_t index;
    uint32_t base = unit->record.header->section[VG_SEC_STACKS].base_count;
    assert_non_null(vg_record_reserve(&unit->record, VG_SEC_STACKS, base - 2, &index));
    vg_record_publish(&unit->record, VG_SEC_STACKS, base - 2);
    uint32_t *words = vg_record_reserve(&unit->record, VG_SEC_STACKS, 3, &index);
    assert_non_null(words);
    assert_int_equal(index, base);
    vg_record_publish(&unit->record, VG_SEC_STACKS, base + 3);
    assert_ptr_equal(vg_record_at(&unit->record, VG_SEC_STACKS, base), words);
    assert_null(vg_record_at(&unit->record, VG_SEC_STACKS, base + 3));
    /* More than the biggest chunk has. */
    assert_null(vg_record_reserve(&unit->record, VG_SEC_STACKS, 17 * base, &index));
}

static void test_without_a_path_it_is_memory(void **state)
{
    (void)state;
    struct vg_record record;
    assert_int_equal(vg_record_create(&record, NULL, MIB), VG_OK);
    assert_true(record.memory_only);
    vg_record_close(&record);
}

static void test_a_copy_is_the_record(void **state)
{
    struct unit *unit = *state;
    struct vg_view view;
    int fd;
    fill(unit, 100);
    assert_int_equal(vg_record_copy(&unit->record, &fd), VG_OK);
    assert_int_equal(vg_view_open_fd(&view, fd, unit->why, sizeof unit->why), VG_OK);
    unit_check_view(unit, &view);
    assert_int_equal(view.bytes, unit->record.header->file_bytes);
    assert_int_equal(vg_view_device(&view, 0)->tracked_bytes, 51200);
    vg_view_close(&view);
    close(fd);
}

/* qemu-user takes MADV_DONTFORK and does nothing. */
static bool dontfork_works(void)
{
    void *page = mmap(NULL, VG_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(page, VG_PAGE, MADV_DONTFORK);
    pid_t pid = fork();
    if (pid == 0) {
        unsigned char present;
        _exit(mincore(page, VG_PAGE, &present) == 0);
    }
    int status;
    waitpid(pid, &status, 0);
    munmap(page, VG_PAGE);
    return status == 0;
}

static void test_a_forked_child_does_not_have_it(void **state)
{
    struct unit *unit = *state;
    if (!dontfork_works()) {
        printf("skip: no right: this system ignores MADV_DONTFORK\n");
        skip();
    }
    fill(unit, 60000);
    pid_t pid = fork();
    if (pid == 0) {
        unsigned char present;
        bool gone = true;
        for (uint64_t at = 0; at < unit->record.limit_bytes; at += VG_PAGE) {
            gone = gone && mincore(unit->record.base + at, VG_PAGE, &present) != 0;
        }
        _exit(!gone);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

static int under_a_file_size_limit(struct unit *unit)
{
    struct rlimit limit = {.rlim_cur = 3 * MIB / 2, .rlim_max = 3 * MIB / 2};
    setrlimit(RLIMIT_FSIZE, &limit);
    fill(unit, 200000);
    struct stat st;
    stat(unit->path, &st);
    int fd;
    bool copied = vg_record_copy(&unit->record, &fd) == VG_OK;
    return !(is_sound(unit) && st.st_size <= (off_t)(3 * MIB / 2) && st.st_size > (off_t)MIB &&
             unit->record.stuck && unit->record.header->saturated && copied);
}

static void test_a_file_size_limit_is_no_signal(void **state)
{
    (void)state;
    assert_int_equal(unit_in_child(under_a_file_size_limit, 16 * MIB), 0);
}

static int under_a_tiny_file_size_limit(struct unit *unit)
{
    struct rlimit limit = {.rlim_cur = 1024, .rlim_max = 1024};
    struct vg_record record;
    char path[300];
    snprintf(path, sizeof path, "%s/tiny.vgr", unit->dir);
    setrlimit(RLIMIT_FSIZE, &limit);
    bool refused = vg_record_create(&record, path, MIB) == VG_IO && errno == EFBIG;
    bool gone = access(path, F_OK) != 0;
    bool memory_refused = vg_record_create(&record, NULL, MIB) == VG_IO && errno == EFBIG;
    int fd;
    bool copy_refused = vg_record_copy(&unit->record, &fd) == VG_IO && errno == EFBIG;
    return !(refused && gone && memory_refused && copy_refused);
}

static void test_no_room_for_a_header_leaves_nothing_behind(void **state)
{
    (void)state;
    assert_int_equal(unit_in_child(under_a_tiny_file_size_limit, 16 * MIB), 0);
}

/* The program closes every descriptor, and opens a file of its own that gets our number. */
static int with_a_foreign_descriptor(struct unit *unit)
{
    char path[300];
    snprintf(path, sizeof path, "%s/foreign", unit->dir);
    int number = unit->record.fd;
    close(number);
    int foreign = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (dup2(foreign, number) != number || write(foreign, "theirs", 6) != 6) {
        return 2;
    }
    fill(unit, 100000);
    bool sound = is_sound(unit) && unit->record.stuck;
    vg_record_close(&unit->record);
    struct stat st;
    bool open_still = fcntl(number, F_GETFD) >= 0;
    fstat(foreign, &st);
    unlink(path);
    return !(sound && open_still && st.st_size == 6);
}

static void test_a_foreign_file_under_our_number_is_never_written(void **state)
{
    (void)state;
    assert_int_equal(unit_in_child(with_a_foreign_descriptor, 16 * MIB), 0);
}

static int with_a_closed_descriptor(struct unit *unit)
{
    close(unit->record.fd);
    fill(unit, 100000);
    return !(is_sound(unit) && unit->record.stuck);
}

static void test_a_closed_descriptor_only_ends_the_growth(void **state)
{
    (void)state;
    assert_int_equal(unit_in_child(with_a_closed_descriptor, 16 * MIB), 0);
}

/* The mounts end with the child. */
enum { NO_RIGHT = 77 };
static int on_a_full_disk(struct unit *unit)
{
    char path[300];
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("vg", unit->dir, "tmpfs", 0, "size=1M") != 0) {
        return NO_RIGHT;
    }
    /* Something is there already: not even the first whole step fits. */
    snprintf(path, sizeof path, "%s/other", unit->dir);
    int other = open(path, O_RDWR | O_CREAT, 0600);
    if (posix_fallocate(other, 0, 300 * 1024) != 0) {
        return 3;
    }
    struct vg_record record;
    snprintf(path, sizeof path, "%s/full.vgr", unit->dir);
    if (vg_record_create(&record, path, 16 * MIB) != VG_OK) {
        return 4;
    }
    vg_ledger_init(&unit->ledger, &record);
    fill(unit, 100000);
    bool sound = is_sound(unit) && record.stuck && record.header->saturated & VG_SAT_SLOTS &&
                 record.mapped_bytes < 800 * 1024 && vg_ledger_live_count(&unit->ledger) > 1000;
    snprintf(path, sizeof path, "%s/filler", unit->dir);
    int filler = open(path, O_RDWR | O_CREAT, 0600);
    char page[VG_PAGE] = {0};
    while (write(filler, page, sizeof page) == sizeof page) {
    }
    snprintf(path, sizeof path, "%s/late.vgr", unit->dir);
    struct vg_record late;
    bool refused = vg_record_create(&late, path, 16 * MIB) == VG_IO && errno == ENOSPC;
    return !(sound && refused && access(path, F_OK) != 0);
}

static void test_a_full_disk_is_no_signal(void **state)
{
    (void)state;
    int status = unit_in_child(on_a_full_disk, 16 * MIB);
    if (WIFEXITED(status) && WEXITSTATUS(status) == NO_RIGHT) {
        print_message("skip: no right to mount a tmpfs\n");
        skip();
    }
    assert_int_equal(status, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, unit_setup, unit_teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_fresh_record_is_one_step),
        TEST(test_a_file_that_exists_is_left_alone),
        TEST(test_the_file_is_never_sparse),
        TEST(test_the_limit_is_kept),
        TEST(test_elements_that_would_straddle_a_chunk_are_in_the_next),
        TEST(test_without_a_path_it_is_memory),
        TEST(test_a_copy_is_the_record),
        TEST(test_a_forked_child_does_not_have_it),
        cmocka_unit_test(test_a_file_size_limit_is_no_signal),
        cmocka_unit_test(test_no_room_for_a_header_leaves_nothing_behind),
        cmocka_unit_test(test_a_foreign_file_under_our_number_is_never_written),
        cmocka_unit_test(test_a_closed_descriptor_only_ends_the_growth),
        cmocka_unit_test(test_a_full_disk_is_no_signal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
