/* test_render.c -- text and JSON.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Every key of the contract, valid UTF-8, lines that fit, figures that add up as shown.
 *
 * Links the renderers with a symbolizer of its own: native functions are called after their module.
 */
#include "tests/unit/report_fixture.h"

#include <json-c/json.h>

#include "tools/render.h"

/* --- a symbolizer ----------------------------------------------------------------------------- */
struct vg_symbols {
    const struct vg_view *view;
    struct vg_text_frame frames[64][16];
    unsigned stacks;
};

unsigned vg_symbols_stack(struct vg_symbols *symbols, uint32_t stack,
                          const struct vg_text_frame **frames_out)
{
    const struct vg_view *view = symbols->view;
    uint32_t head, count = 0;
    const uint32_t *ids;
    if (!vg_view_stack(view, stack, &head, &ids))
        return 0;
    struct vg_text_frame *frames = symbols->frames[symbols->stacks++ % 64];
    for (uint32_t i = 0; i < vg_stack_native(head) + vg_stack_python(head); i++) {
        const struct vg_frame *frame = vg_view_frame(view, ids[i] - 1);
        if (!frame || count == 16)
            break;
        if (frame->lang == VG_LANG_PYTHON) {
            frames[count++] =
                (struct vg_text_frame){.lang = "python",
                                       .line = frame->line,
                                       .function = vg_view_string(view, frame->function),
                                       .file = vg_view_string(view, frame->file)};
            continue;
        }
        const struct vg_module *module = vg_view_module(view, frame->module - 1);
        const char *path = module ? vg_view_string(view, module->path) : "";
        frames[count++] = (struct vg_text_frame){.lang = "native",
                                                 .function = "work",
                                                 .module = path,
                                                 .has_offset = true,
                                                 .offset = frame->offset,
                                                 .function_offset = 0x1c,
                                                 .guard = strstr(path, "libvramguard") != NULL,
                                                 .interpreter = strstr(path, "python") != NULL};
    }
    *frames_out = frames;
    return count;
}

/* --- helpers ---------------------------------------------------------------------------------- */
static char *rendered(const struct vg_report *report, vg_render_fn *render,
                      const struct vg_render_options *options)
{
    struct vg_symbols symbols = {.view = report->view};
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    assert_non_null(out);
    assert_int_equal(render(report, &symbols, options, out), 0);
    fclose(out);
    return text;
}

#define C10 "/opt/torch/libvramguard.so", "/opt/torch/libc10_cuda.so"

/* A torch program that fails at train.py:88: 20 GiB in segments, 18 of them live, NCCL, another
 * process, odd byte counts everywhere. */
static const struct vg_report *torch_report(struct fixture *f)
{
    fixture_open(f);
    context_of(f, 0, 1, true);
    uint32_t allocator = STACK(f, C10);
    uint32_t model = PYTHON_STACK(f, "/home/u/model.py", 57, C10);
    uint32_t train = PYTHON_STACK(f, "/home/u/train.py", 88, C10);
    for (unsigned i = 0; i < 10; i++) {
        uint64_t segment = alloc_of(f, VG_KIND_DEVICE, GIB(2), allocator);
        alloc_at(f, segment, VG_KIND_BLOCK, GIB(1) - 512, model);
        alloc_at(f, segment + GIB(1), VG_KIND_BLOCK, MIB(900) + 512, train);
    }
    alloc_of(f, VG_KIND_DEVICE, MIB(512) + 77, STACK(f, "/opt/libnccl.so.2"));
    alloc_of(f, VG_KIND_MANAGED, GIB(3), STACK(f, "/opt/libnccl.so.2"));
    struct vg_device *device = sample_of(f, UINT64_C(24146542592), MIB(211) + 3, GIB(21) + 12345);
    device->has_uuid = 1;
    other_of(f, 991, "Xorg", GIB(1), false);
    struct vg_incident *incident = fail_of(f, VG_KIND_DEVICE, "cuMemAlloc_v2", MIB(514), train);
    incident->requested_bytes = MIB(512);
    incident->family = text_id(f, "torch");
    incident->via = text_id(f, "cudaMalloc");
    incident->attempts = 2;
    return report_at(f, 1, false);
}

/* --- JSON ------------------------------------------------------------------------------------- */
static json_object *at(json_object *object, const char *path)
{
    char copy[128], *rest = copy;
    snprintf(copy, sizeof copy, "%s", path);
    for (char *key = strsep(&rest, "."); key; key = strsep(&rest, ".")) {
        if (json_object_is_type(object, json_type_array)) {
            object = json_object_array_get_idx(object, (size_t)atoi(key));
        } else if (!json_object_object_get_ex(object, key, &object)) {
            fail_msg("no key %s of %s", key, path);
        }
    }
    return object;
}

static void assert_keys(json_object *root, const char *path, const char *keys)
{
    char copy[400], *rest = copy;
    snprintf(copy, sizeof copy, "%s", keys);
    json_object *object = *path ? at(root, path) : root;
    for (char *key = strsep(&rest, " "); key; key = strsep(&rest, " "))
        if (!json_object_object_get_ex(object, key, NULL))
            fail_msg("no key %s in %s", key, path);
}

static json_object *parsed(const struct vg_report *report)
{
    char *text = rendered(report, vg_render_json, NULL);
    json_tokener *tokener = json_tokener_new();
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    json_object *root = json_tokener_parse_ex(tokener, text, (int)strlen(text) + 1);
    if (!root)
        fail_msg("%s", json_tokener_error_desc(json_tokener_get_error(tokener)));
    json_tokener_free(tokener);
    free(text);
    return root;
}

/* An object, and keys that it must have. */
static const char *const contract[][2] = {
    {"", "schema kind process failure devices sites objects steps peers leaks forecast "
         "timeline verdict hooks host"},
    {"process",
     "pid host rank cmdline exe start_time uptime driver_version python torch alive exit"},
    {"failure", "site api requested_via bytes requested_bytes device context error library thread "
                "stack attempts outcome count remedies"},
    {"failure.error", "code name"},
    {"devices.0",
     "index pci free_source name uuid total_bytes free_bytes peak_bytes process others "
     "unattributed_bytes"},
    {"devices.0.process",
     "tracked_bytes alloc_count free_count by_kind by_library framework pool_idle_bytes "
     "contexts"},
    {"devices.0.process.framework",
     "name reserved_bytes allocated_bytes cached_bytes largest_gap_bytes small_gaps_bytes "
     "private_gaps_bytes fragmentation pinned_segments state"},
    {"devices.0.process.contexts.0", "id primary live_bytes live_count overhead_bytes stack"},
    {"devices.0.process.by_library.0", "library bytes"},
    {"devices.0.others.0", "pid name bytes may_be_this_process"},
    {"sites.0", "id layer kind device library live_bytes live_count peak_live_bytes "
                "live_bytes_at_peak alloc_count free_count first_time last_time stack"},
    {"sites.0.stack.0", "lang function file line module offset"},
    {"objects", "contexts streams events modules pools ipc_open"},
    {"objects.streams", "live created destroyed top"},
    {"verdict", "class confidence summary evidence advice"},
    {"verdict.evidence.0", "text value unit"},
    {"verdict.advice.0", "action gain_bytes text"},
    {"hooks", "reached fallback_count unknown_free_count saturated notes"},
    {"hooks.reached", "driver runtime torch"},
    {"host", "mem_available_bytes cgroup_limit_bytes pinned_bytes platform"},
};

static void test_json_has_every_key_of_the_contract(void **state)
{
    (void)state;
    struct fixture f;
    json_object *root = parsed(torch_report(&f));
    for (size_t i = 0; i < sizeof contract / sizeof *contract; i++)
        assert_keys(root, contract[i][0], contract[i][1]);
    json_object_put(root);
    fixture_close(&f);
}

static const char *const lists[] = {"peers",
                                    "leaks",
                                    "timeline",
                                    "process.cmdline",
                                    "devices.0.others",
                                    "devices.0.process.by_library",
                                    "devices.0.process.contexts",
                                    "verdict.evidence",
                                    "verdict.advice",
                                    "hooks.notes",
                                    "sites.0.stack",
                                    "objects.events.top"};
static const char *const nulls[] = {"failure",
                                    "steps",
                                    "forecast",
                                    "process.rank",
                                    "process.exit",
                                    "process.torch",
                                    "devices.0.total_bytes",
                                    "devices.0.free_bytes",
                                    "devices.0.free_source",
                                    "devices.0.unattributed_bytes",
                                    "devices.0.uuid",
                                    "devices.0.process.framework",
                                    "devices.0.process.pool_idle_bytes",
                                    "devices.0.process.contexts.0.overhead_bytes",
                                    "host.mem_available_bytes",
                                    "hooks.saturated"};

static void test_json_lists_are_never_null_and_unknown_is(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    context_of(&f, 0, 1, true);
    alloc_of(&f, VG_KIND_DEVICE, UINT64_MAX - 5, 0);
    json_object *root = parsed(report_at(&f, 0, false));
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        assert_true(json_object_is_type(at(root, lists[i]), json_type_array));
    for (size_t i = 0; i < sizeof nulls / sizeof nulls[0]; i++)
        if (at(root, nulls[i]))
            fail_msg("%s is not null", nulls[i]);
    assert_int_equal(json_object_get_uint64(at(root, "devices.0.process.tracked_bytes")),
                     UINT64_MAX - 5);
    assert_string_equal(json_object_get_string(at(root, "kind")), "exit");
    json_object_put(root);
    fixture_close(&f);
}

static void test_json_does_not_know_the_peak_of_a_site_without_a_device(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    struct vg_event event = {
        .op = VG_OP_ALLOC, .kind = VG_KIND_PINNED, .addr = MIB(1), .bytes = 100, .device = -1};
    assert_int_equal(vg_ledger_apply(&f.ledger, &event), VG_OK);
    json_object *root = parsed(report_at(&f, 0, false));
    assert_null(at(root, "sites.0.device"));
    assert_null(at(root, "sites.0.live_bytes_at_peak"));
    json_object_put(root);
    fixture_close(&f);
}

static void test_json_balance_and_libraries_add_up(void **state)
{
    (void)state;
    struct fixture f;
    json_object *root = parsed(torch_report(&f));
    int64_t sum = 0, libraries = 0;
    static const char *const terms[] = {"process.tracked_bytes",
                                        "process.contexts.0.overhead_bytes", "others.0.bytes",
                                        "unattributed_bytes", "free_bytes"};
    json_object *device = at(root, "devices.0"), *list = at(device, "process.by_library");
    for (size_t i = 0; i < sizeof terms / sizeof terms[0]; i++)
        sum += json_object_get_int64(at(device, terms[i]));
    assert_int_equal(sum, json_object_get_int64(at(device, "total_bytes")));
    for (size_t i = 0; i < json_object_array_length(list); i++)
        libraries += json_object_get_int64(at(json_object_array_get_idx(list, i), "bytes"));
    assert_int_equal(libraries, json_object_get_int64(at(device, "process.tracked_bytes")));
    json_object_put(root);
    fixture_close(&f);
}

static void test_json_cuts_frames_of_the_guard(void **state)
{
    (void)state;
    struct fixture f;
    json_object *root = parsed(torch_report(&f)), *stack = at(root, "failure.stack");
    assert_int_equal(json_object_array_length(stack), 2);
    assert_string_equal(json_object_get_string(at(stack, "0.module")), "/opt/torch/libc10_cuda.so");
    assert_string_equal(json_object_get_string(at(stack, "1.lang")), "python");
    assert_int_equal(json_object_get_int(at(stack, "1.line")), 88);
    json_object_put(root);
    fixture_close(&f);
}

static void test_json_and_text_stay_valid_whatever_names_hold(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    context_of(&f, 0, 1, true);
    uint32_t stack = PYTHON_STACK(&f, "/home/\xff\xfe/\x1b[31mtr\xc3\xa4in\xc0\xaf.py", 3,
                                  "/opt/lib\xed\xa0\x80.so");
    alloc_of(&f, VG_KIND_DEVICE, MIB(5), stack);
    sample_of(&f, GIB(24), GIB(1), VG_UNKNOWN);
    other_of(&f, 9, "evil\x1b]0;x\x07", GIB(20), false);
    const struct vg_report *report = report_at(&f, 0, true);
    json_object_put(parsed(report)); /* validates UTF-8 */
    char *text = rendered(report, vg_render_text, NULL);
    assert_null(strchr(text, '\x1b'));
    assert_null(strchr(text, '\x07'));
    assert_non_null(strstr(text, "tr\xc3\xa4in"));
    free(text);
    fixture_close(&f);
}

/* --- text ------------------------------------------------------------------------------------- */
/* Sums a column of the balance table; *total_out from its last row. Columns: label (4 + 48), space,
 * 9, space, 6. */
static double column_sum(const char *text, size_t offset, double *total_out)
{
    double sum = 0;
    const char *line = strstr(text, "\n  GPU 0  ");
    assert_non_null(line);
    for (line = strchr(line + 1, '\n') + 1; strncmp(line, "    total", 9) != 0;
         line = strchr(line, '\n') + 1)
        sum += atof(line + offset);
    *total_out = atof(line + offset);
    return sum;
}

static void test_text_is_one_block_of_lines_that_fit(void **state)
{
    (void)state;
    struct fixture f;
    struct vg_render_options options = {.json_path = "/tmp/x.oom-1.json",
                                        .record_path = "/tmp/x.oom-1.vgr"};
    char *text = rendered(torch_report(&f), vg_render_text, &options);
    print_message("%s", text);
    unsigned lines = 0;
    const char *last = text;
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        assert_true(strcspn(line, "\n") <= 100);
        last = line;
        lines++;
    }
    assert_true(lines <= 40);
    assert_int_equal(strncmp(text, "VRAMGuard: out of memory on GPU 0 after ", 40), 0);
    assert_string_equal(
        last, "VRAMGuard: JSON /tmp/x.oom-1.json; again: vramguard report /tmp/x.oom-1.vgr\n");
    assert_null(strchr(text, '\x1b'));
    free(text);
    fixture_close(&f);
}

static void test_text_ends_with_a_command_that_a_shell_takes(void **state)
{
    (void)state;
    struct fixture f;
    struct vg_render_options options = {.json_path = "/a b/x.json", .record_path = "/a b/it's.vgr"};
    char *text = rendered(torch_report(&f), vg_render_text, &options);
    assert_non_null(
        strstr(text, "JSON /a b/x.json; again: vramguard report '/a b/it'\\''s.vgr'\n"));
    free(text);
    fixture_close(&f);
}

static void test_text_names_the_line_that_asked(void **state)
{
    (void)state;
    struct fixture f;
    char *text = rendered(torch_report(&f), vg_render_text, NULL);
    assert_non_null(strstr(text, "  request  512.0 MiB by torch at train.py:88 forward\n"));
    assert_non_null(strstr(text, "cuMemAlloc_v2 of 514.0 MiB through cudaMalloc, tried 2 times"));
    assert_non_null(
        strstr(text, "torch: live tensors                                  18.79   83.6"));
    assert_non_null(
        strstr(text, "torch: cached, too small for this request             1.21    5.4"));
    assert_null(strstr(text, "torch: cached, other stream"));
    assert_non_null(strstr(text, "other processes: 991 Xorg"));
    assert_non_null(strstr(text, "in no sum: managed 3.0 GiB"));
    assert_non_null(strstr(text, "model.py:57 forward"));
    assert_non_null(strstr(text, "libnccl.so.2"));
    free(text);
    fixture_close(&f);
}

static void test_text_adds_up_as_it_is_shown(void **state)
{
    (void)state;
    struct fixture f;
    char *text = rendered(torch_report(&f), vg_render_text, NULL);
    double total, sum = column_sum(text, 53, &total);
    assert_true(total > 22.48 && total < 22.50);
    assert_true(sum > total - 0.001 && sum < total + 0.001);
    sum = column_sum(text, 63, &total);
    assert_true(total > 99.99 && total < 100.01);
    assert_true(sum > 99.99 && sum < 100.01);
    free(text);
    fixture_close(&f);
}

static void test_text_shows_a_negative_rest_as_counted_not_resident(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    context_of(&f, 0, 1, true);
    alloc_of(&f, VG_KIND_DEVICE, GIB(4), STACK(&f, "/usr/bin/prog"));
    sample_of(&f, GIB(24), GIB(21), VG_UNKNOWN);
    char *text = rendered(report_at(&f, 0, true), vg_render_text, NULL);
    double total, sum = column_sum(text, 53, &total);
    assert_non_null(strstr(text, "counted, not resident"));
    assert_non_null(strstr(text, "prog (this program)"));
    assert_true(sum > total - 0.001 && sum < total + 0.001);
    free(text);
    fixture_close(&f);
}

static void test_text_of_a_process_that_never_failed_claims_nothing(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    context_of(&f, 0, 1, true);
    alloc_of(&f, VG_KIND_DEVICE, MIB(40), STACK(&f, "/usr/bin/prog"));
    f.record.header->ended = VG_ENDED_CODE;
    f.record.header->exit_status = 3;
    char *text = rendered(report_at(&f, 0, false), vg_render_text, NULL);
    assert_int_equal(strncmp(text, "VRAMGuard: pid 4242 (prog batch 4096) ended with status 3", 57),
                     0);
    assert_null(strstr(text, "leak"));
    assert_null(strstr(text, "what to do"));
    assert_non_null(strstr(text, "    total tracked (the device was not looked at)"));
    assert_non_null(strstr(text, "40.0 MiB held from the driver at the end, peak 40.0 MiB"));
    assert_non_null(strstr(text, "\nVRAMGuard: end of report\n"));
    free(text);
    fixture_close(&f);
}

static void assert_clean(const char *dirty, const char *wanted)
{
    char *clean = vg_render_clean(dirty, "?", false);
    assert_string_equal(clean, wanted);
    free(clean);
}

static void test_text_says_where_many_objects_come_from(void **state)
{
    (void)state;
    struct fixture f;
    fixture_open(&f);
    context_of(&f, 0, 1, true);
    uint32_t many = PYTHON_STACK(&f, "/home/u/train.py", 88, "/bin/x");
    uint32_t few = PYTHON_STACK(&f, "/home/u/train.py", 90, "/bin/x");
    for (uint64_t i = 1; i <= 1200; i++)
        alloc_at(&f, i, VG_KIND_EVENT, 0, i % 4 ? many : few);
    char *text = rendered(report_at(&f, 0, true), vg_render_text, NULL);
    assert_non_null(
        strstr(text, "\n  objects  1200 live events, 900 of them made at train.py:88 forward\n"));
    free(text);
    fixture_close(&f);
}

static void test_clean_text_is_valid_utf8_and_drives_no_terminal(void **state)
{
    (void)state;
    assert_clean("plain \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80",
                 "plain \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80");
    assert_clean("\xed\xa0\x80", "???");      /* a surrogate */
    assert_clean("\xc0\xaf", "??");           /* overlong */
    assert_clean("\xf4\x90\x80\x80", "????"); /* above U+10FFFF */
    assert_clean("\xe2\x82", "??");           /* cut */
    assert_clean("\x1b[1m\n\x7f\xc2\x9b", "?[1m???");
    char *kept = vg_render_clean("a\nb\xff", "\xef\xbf\xbd", true);
    assert_string_equal(kept, "a\nb\xef\xbf\xbd");
    free(kept);
}

static void test_shares_sum_to_the_shown_total(void **state)
{
    (void)state;
    uint64_t seed = 88172645463325252u;
    for (unsigned round = 0; round < 2000; round++) {
        int64_t parts[12], shown[12], total_shown, sum = 0;
        uint64_t total = 0;
        unsigned count = 1 + round % 12;
        for (unsigned i = 0; i < count; i++) {
            seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
            parts[i] = (int64_t)(seed % GIB(9));
            if (i && i + 1 == count && round % 3 == 0)
                parts[i] = -(parts[i] % parts[0]);
            total += (uint64_t)parts[i];
        }
        vg_render_shares(parts, count, total, (double)GIB(1) / 100, shown, &total_shown);
        for (unsigned i = 0; i < count; i++) {
            sum += shown[i];
            double exact = (double)parts[i] * 100 / (double)GIB(1);
            assert_true((double)shown[i] > exact - 1.0001 && (double)shown[i] < exact + 1.0001);
        }
        assert_int_equal(sum, total_shown);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_has_every_key_of_the_contract),
        cmocka_unit_test(test_json_lists_are_never_null_and_unknown_is),
        cmocka_unit_test(test_json_does_not_know_the_peak_of_a_site_without_a_device),
        cmocka_unit_test(test_json_balance_and_libraries_add_up),
        cmocka_unit_test(test_json_cuts_frames_of_the_guard),
        cmocka_unit_test(test_json_and_text_stay_valid_whatever_names_hold),
        cmocka_unit_test(test_text_is_one_block_of_lines_that_fit),
        cmocka_unit_test(test_text_ends_with_a_command_that_a_shell_takes),
        cmocka_unit_test(test_text_names_the_line_that_asked),
        cmocka_unit_test(test_text_adds_up_as_it_is_shown),
        cmocka_unit_test(test_text_shows_a_negative_rest_as_counted_not_resident),
        cmocka_unit_test(test_text_of_a_process_that_never_failed_claims_nothing),
        cmocka_unit_test(test_text_says_where_many_objects_come_from),
        cmocka_unit_test(test_clean_text_is_valid_utf8_and_drives_no_terminal),
        cmocka_unit_test(test_shares_sum_to_the_shown_total),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
