/* test_options.c -- every option from text: legal, illegal, and what is said about it.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/unit/unit.h"

#include "core/options.h"

static const uint64_t second = 1000000000u;

static void test_defaults_are_those_of_the_table(void **state)
{
    (void)state;
    struct vg_options options;
    vg_options_defaults(&options);
    assert_true(options.enable);
    assert_string_equal(options.dir, ".");
    assert_int_equal(options.keep, VG_KEEP_AUTO);
    assert_int_equal(options.report, VG_REPORT_TEXT | VG_REPORT_JSON);
    assert_int_equal(options.report_timeout, 5 * second);
    assert_string_equal(options.tool, "");
    assert_int_equal(options.stacks, VG_STACKS_BOTH);
    assert_int_equal(options.stack_depth, 64);
    assert_int_equal(options.sample, second);
    assert_int_equal(options.record_size, 256 * MIB);
    assert_int_equal(options.max_reports, 10);
    assert_int_equal(options.log, VG_LOG_WARN);
}

static void test_every_default_is_legal(void **state)
{
    (void)state;
    struct vg_options options;
    char why[256];
    vg_options_defaults(&options);
    for (int id = 0; id < VG_OPTION_COUNT; id++) {
        assert_true(vg_options_set(&options, id, vg_option_rows[id].default_text, why, sizeof why));
    }
}

static const struct {
    const char *text;
    uint64_t bytes;
} good_sizes[] = {{"0", 0},
                  {"1073741824", 1073741824},
                  {"512M", 512 * MIB},
                  {"512MiB", 512 * MIB},
                  {"512MB", 512 * MIB},
                  {"1.5GiB", 1536 * MIB},
                  {"1.5g", 1536 * MIB},
                  {"4k", 4096},
                  {"2T", 2 * MIB *MIB},
                  {"100B", 100},
                  {"0.5K", 512},
                  {"18446744073709551615", UINT64_MAX}};
static const char *const bad_sizes[] = {"",
                                        "M",
                                        "-1",
                                        "1.5",
                                        "1.",
                                        "1Mi",
                                        "1MiBs",
                                        "1 M",
                                        "1,5G",
                                        "0x10",
                                        "1e9",
                                        "1Z",
                                        ".5G",
                                        "G1",
                                        "18446744073709551616",
                                        "16777216T",
                                        "99999999999999999999G"};

static void test_sizes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof good_sizes / sizeof *good_sizes; i++) {
        uint64_t bytes = 1;
        assert_true(vg_parse_size(good_sizes[i].text, &bytes));
        assert_int_equal(bytes, good_sizes[i].bytes);
    }
    for (size_t i = 0; i < sizeof bad_sizes / sizeof *bad_sizes; i++) {
        uint64_t bytes = 77;
        if (vg_parse_size(bad_sizes[i], &bytes)) {
            fail_msg("\"%s\" is no size", bad_sizes[i]);
        }
        assert_int_equal(bytes, 77);
    }
}

static void test_durations(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t ns;
    } good[] = {{"500ms", 500 * 1000000ull},
                {"5s", 5000000000},
                {"10m", 600000000000},
                {"2h", 7200000000000},
                {"3", 3000000000},
                {"0.5s", 500000000},
                {"0", 0},
                {"1.5", 1500000000}};
    static const char *const bad[] = {"", "s", "-5s", "5 s", "5S", "5sec", "1h30m", "99999999999d"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t ns = 1;
        assert_true(vg_parse_duration(good[i].text, &ns));
        assert_int_equal(ns, good[i].ns);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t ns = 77;
        if (vg_parse_duration(bad[i], &ns)) {
            fail_msg("\"%s\" is no duration", bad[i]);
        }
        assert_int_equal(ns, 77);
    }
}

static void test_a_bad_value_is_one_clear_line_and_changes_nothing(void **state)
{
    (void)state;
    static const struct {
        enum vg_option_id id;
        const char *text, *line;
    } bad[] = {
        {VG_OPTION_keep, "maybe", "VRAMGUARD_KEEP=maybe: want auto, always or never; using auto"},
        {VG_OPTION_enable, "2", "VRAMGUARD_ENABLE=2: want 0 or 1; using 1"},
        {VG_OPTION_enable, "", "VRAMGUARD_ENABLE=: want 0 or 1; using 1"},
        {VG_OPTION_report, "text,none",
         "VRAMGUARD_REPORT=text,none: want text, json, both with a comma, or none; using "
         "text,json"},
        {VG_OPTION_report, "text,",
         "VRAMGUARD_REPORT=text,: want text, json, both with a comma, or none; using text,json"},
        {VG_OPTION_stack_depth, "0", "VRAMGUARD_STACK_DEPTH=0: want 1 to 128; using 64"},
        {VG_OPTION_stack_depth, "129", "VRAMGUARD_STACK_DEPTH=129: want 1 to 128; using 64"},
        {VG_OPTION_max_reports, "1.0", "VRAMGUARD_MAX_REPORTS=1.0: want a whole number; using 10"},
        {VG_OPTION_log, "a\nb", "VRAMGUARD_LOG=a?b: want error, warn, info or debug; using warn"},
        {VG_OPTION_report_timeout, "soon",
         "VRAMGUARD_REPORT_TIMEOUT=soon: want a duration such as 500ms, 5s or 10m; using 5s"},
    };
    struct vg_options options, before;
    vg_options_defaults(&options);
    before = options;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char why[256] = "";
        assert_false(vg_options_set(&options, bad[i].id, bad[i].text, why, sizeof why));
        assert_string_equal(why, bad[i].line);
        assert_memory_equal(&options, &before, sizeof options);
    }
}

static void test_words_and_sets(void **state)
{
    (void)state;
    struct vg_options options;
    char why[256];
    vg_options_defaults(&options);
    assert_true(vg_options_set(&options, VG_OPTION_report, "none", why, sizeof why));
    assert_int_equal(options.report, VG_REPORT_NONE);
    assert_true(vg_options_set(&options, VG_OPTION_report, "json,text", why, sizeof why));
    assert_int_equal(options.report, VG_REPORT_TEXT | VG_REPORT_JSON);
    assert_true(vg_options_set(&options, VG_OPTION_report, "json", why, sizeof why));
    assert_int_equal(options.report, VG_REPORT_JSON);
    assert_true(vg_options_set(&options, VG_OPTION_stacks, "native", why, sizeof why));
    assert_int_equal(options.stacks, VG_STACKS_NATIVE);
    assert_true(vg_options_set(&options, VG_OPTION_dir, "/a b", why, sizeof why));
    assert_string_equal(options.dir, "/a b");
}

static void test_text_that_is_too_long_is_refused(void **state)
{
    (void)state;
    struct vg_options options;
    char why[256], text[VG_OPTION_TEXT_MAX + 1];
    vg_options_defaults(&options);
    memset(text, 'x', sizeof text);
    text[VG_OPTION_TEXT_MAX] = '\0';
    assert_false(vg_options_set(&options, VG_OPTION_dir, text, why, sizeof why));
    assert_true(strlen(why) < 200);
    text[VG_OPTION_TEXT_MAX - 1] = '\0';
    assert_true(vg_options_set(&options, VG_OPTION_dir, text, why, sizeof why));
}

static void test_names_in_both_spellings(void **state)
{
    (void)state;
    assert_int_equal(vg_options_find("report_timeout", 14), VG_OPTION_report_timeout);
    assert_int_equal(vg_options_find("report-timeout=5s", 14), VG_OPTION_report_timeout);
    assert_int_equal(vg_options_find("report", 6), VG_OPTION_report);
    assert_int_equal(vg_options_find("repor", 5), VG_OPTION_COUNT);
    assert_int_equal(vg_options_find("reports", 7), VG_OPTION_COUNT);
    assert_int_equal(vg_options_find("", 0), VG_OPTION_COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_are_those_of_the_table),
        cmocka_unit_test(test_every_default_is_legal),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_a_bad_value_is_one_clear_line_and_changes_nothing),
        cmocka_unit_test(test_words_and_sets),
        cmocka_unit_test(test_text_that_is_too_long_is_refused),
        cmocka_unit_test(test_names_in_both_spellings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
