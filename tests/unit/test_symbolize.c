/* test_symbolize.c -- stacks as names, files and lines.
 * SPDX-License-Identifier: Apache-2.0
 *
 * This program's own code, and what must not be believed.
 *
 * Each test makes a record whose module is a file made for it: this program itself, or a copy that
 * was stripped or cut.
 */
#include <elf.h>
#include <limits.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/stacks.h"
#include "core/view.h"
#include "tools/symbolize.h"

/* --- code to be found again ------------------------------------------------------------------- */

static uintptr_t captured[4];
static unsigned captured_count;

__attribute__((noinline)) static void capture(void)
{
    captured[captured_count++] = (uintptr_t)__builtin_return_address(0);
    __asm__ volatile("" ::: "memory");
}

static int inner_line, middle_line, outer_line, plain_line;

static inline __attribute__((always_inline)) void inner_inlined(void)
{
    inner_line = __LINE__ + 1;
    capture();
    __asm__ volatile("" ::: "memory");
}

static inline __attribute__((always_inline)) void middle_inlined(void)
{
    middle_line = __LINE__ + 1;
    inner_inlined();
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void outer_real(void)
{
    outer_line = __LINE__ + 1;
    middle_inlined();
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void plain_real(void)
{
    plain_line = __LINE__ + 1;
    capture();
    __asm__ volatile("" ::: "memory");
}

/* --- this program as a module ----------------------------------------------------------------- */

static struct vg_module self;
static char self_path[PATH_MAX], directory[] = "/tmp/vramguard-symbolize-XXXXXX";

static int find_self(struct dl_phdr_info *info, size_t bytes, void *context)
{
    (void)bytes;
    (void)context;
    self.bias = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_NOTE)
            continue;
        const char *at = (const char *)(info->dlpi_addr + segment->p_vaddr),
                   *end = at + segment->p_memsz;
        while (at + sizeof(ElfW(Nhdr)) < end) {
            const ElfW(Nhdr) *note = (const void *)at;
            const char *name = at + sizeof(*note), *data = name + (note->n_namesz + 3) / 4 * 4;
            if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && !memcmp(name, "GNU", 4)) {
                self.build_id_bytes = (uint8_t)note->n_descsz;
                memcpy(self.build_id, data, note->n_descsz);
            }
            at = data + (note->n_descsz + 3) / 4 * 4;
        }
    }
    return 1; /* the first object is the program */
}

/* --- a record of one stack -------------------------------------------------------------------- */

struct scene {
    struct vg_record record;
    struct vg_arena arena;
    struct vg_stacks stacks;
    struct vg_view view;
    struct vg_symbols *symbols;
    const struct vg_text_frame *frames;
    unsigned count;
};

static void begin(struct scene *scene)
{
    memset(scene, 0, sizeof(*scene));
    assert_int_equal(vg_record_create(&scene->record, NULL, 16 << 20), VG_OK);
    scene->stacks = (struct vg_stacks){.record = &scene->record, .arena = &scene->arena};
    scene->record.header->start_realtime_ns = UINT64_MAX / 2; /* every file is older */
}

static uint32_t module_at(struct scene *scene, const char *path)
{
    struct vg_module module = self;
    module.path = vg_strings_intern_z(&scene->stacks, path);
    return vg_stacks_module(&scene->stacks, &module);
}

static void resolve(struct scene *scene, const uint32_t *frames, uint32_t native, uint32_t python)
{
    char why[256];
    uint32_t stack = vg_stacks_intern(&scene->stacks, frames, native, python, false);
    assert_int_not_equal(stack, 0);
    assert_int_equal(vg_view_open_fd(&scene->view, scene->record.fd, why, sizeof(why)), VG_OK);
    scene->symbols = vg_symbols_open(&scene->view);
    scene->count = vg_symbols_stack(scene->symbols, stack, &scene->frames);
}

static void resolve_one(struct scene *scene, const char *path, uint64_t offset)
{
    uint32_t frame = vg_stacks_frame_native(&scene->stacks, module_at(scene, path), offset);
    resolve(scene, &frame, 1, 0);
}

static void end(struct scene *scene)
{
    vg_symbols_close(scene->symbols);
    vg_view_close(&scene->view);
    vg_record_close(&scene->record);
}

/* A changed copy of this program; skips the test where binutils are missing. */
static const char *changed_copy(const char *name, const char *how)
{
    static char path[PATH_MAX];
    char command[3 * PATH_MAX];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    snprintf(command, sizeof(command), "objcopy %s '%s' '%s'", how, self_path, path);
    if (system(command)) {
        print_message("skip: objcopy is not here\n");
        skip();
    }
    return path;
}

/* --- tests ------------------------------------------------------------------------------------ */

static void check_inlines(const struct scene *scene)
{
    assert_int_equal(scene->count, 3);
    assert_string_equal(scene->frames[0].function, "inner_inlined");
    assert_string_equal(scene->frames[1].function, "middle_inlined");
    assert_string_equal(scene->frames[2].function, "outer_real");
    assert_int_equal(scene->frames[0].line, inner_line);
    assert_int_equal(scene->frames[1].line, middle_line);
    assert_int_equal(scene->frames[2].line, outer_line);
    for (unsigned i = 0; i < 3; i++)
        assert_non_null(strstr(scene->frames[i].file, "test_symbolize.c"));
}

static void test_symbolize_gives_inlined_functions_as_frames(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene);
    resolve_one(&scene, self_path, captured[0] - self.bias);
    check_inlines(&scene);
    end(&scene);
}

static void test_symbolize_finds_units_without_aranges(void **state)
{
    struct scene scene;
    (void)state;
    const char *path = changed_copy("no-aranges", "--remove-section=.debug_aranges");
    begin(&scene);
    resolve_one(&scene, path, captured[0] - self.bias);
    check_inlines(&scene);
    end(&scene);
}

static void test_symbolize_names_a_function_with_its_line(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene);
    resolve_one(&scene, self_path, captured[1] - self.bias);
    assert_int_equal(scene.count, 1);
    assert_string_equal(scene.frames[0].lang, "native");
    assert_string_equal(scene.frames[0].function, "plain_real");
    assert_int_equal(scene.frames[0].line, plain_line);
    assert_string_equal(scene.frames[0].module, self_path);
    assert_true(scene.frames[0].has_offset);
    assert_int_equal(scene.frames[0].offset, captured[1] - self.bias);
    end(&scene);
}

static void test_symbolize_uses_the_symbol_table_without_debug_information(void **state)
{
    struct scene scene;
    (void)state;
    const char *path = changed_copy("no-debug", "--strip-debug");
    begin(&scene);
    resolve_one(&scene, path, captured[1] - self.bias);
    assert_int_equal(scene.count, 1);
    assert_string_equal(scene.frames[0].function, "plain_real");
    assert_null(scene.frames[0].file);
    assert_int_equal(scene.frames[0].line, 0);
    assert_int_equal(scene.frames[0].function_offset, captured[1] - (uintptr_t)plain_real);
    end(&scene);
}

static void check_unknown(const struct scene *scene, const char *path)
{
    assert_int_equal(scene->count, 1);
    assert_null(scene->frames[0].function);
    assert_null(scene->frames[0].file);
    assert_string_equal(scene->frames[0].module, path);
    assert_true(scene->frames[0].has_offset);
}

static void test_symbolize_gives_module_and_offset_of_a_stripped_file(void **state)
{
    struct scene scene;
    (void)state;
    const char *path = changed_copy("stripped", "--strip-all");
    begin(&scene);
    resolve_one(&scene, path, captured[1] - self.bias);
    check_unknown(&scene, path);
    end(&scene);
}

static void test_symbolize_gives_module_and_offset_of_a_missing_file(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene);
    resolve_one(&scene, "/nonexistent/libgone.so", 0x1234);
    check_unknown(&scene, "/nonexistent/libgone.so");
    assert_int_equal(scene.frames[0].offset, 0x1234);
    end(&scene);
}

static void test_symbolize_does_not_believe_another_build_id(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene);
    self.build_id[0] ^= 1;
    resolve_one(&scene, self_path, captured[1] - self.bias);
    self.build_id[0] ^= 1;
    check_unknown(&scene, self_path);
    end(&scene);
}

static void test_symbolize_does_not_believe_a_newer_file_without_build_id(void **state)
{
    (void)state;
    const char *path = changed_copy("no-id", "--remove-section=.note.gnu.build-id");
    uint8_t id_bytes = self.build_id_bytes;
    for (int newer = 0; newer < 2; newer++) {
        struct scene scene;
        begin(&scene);
        if (newer)
            scene.record.header->start_realtime_ns = 1000000000u;
        self.build_id_bytes = 0;
        resolve_one(&scene, path, captured[1] - self.bias);
        self.build_id_bytes = id_bytes;
        if (newer)
            check_unknown(&scene, path);
        else
            assert_string_equal(scene.frames[0].function, "plain_real");
        end(&scene);
    }
}

static void test_symbolize_opens_regular_files_only(void **state)
{
    struct scene scene;
    char path[PATH_MAX];
    (void)state;
    snprintf(path, sizeof(path), "%s/fifo", directory);
    assert_int_equal(mkfifo(path, 0600), 0);
    begin(&scene);
    resolve_one(&scene, path, 0x10);
    check_unknown(&scene, path);
    end(&scene);
}

static void test_symbolize_marks_the_guard_and_the_interpreter(void **state)
{
    static const struct {
        const char *path;
        bool guard, interpreter;
    } cases[] = {
        {"/opt/libvramguard.so", true, false},     {"/usr/lib/libpython3.11.so.1.0", false, true},
        {"/usr/bin/python3.11", false, true},      {"/usr/bin/python3", false, true},
        {"/opt/python3.13t", false, true},         {"/opt/python_extension.so", false, false},
        {"/opt/libtorch_python.so", false, false}, {"/usr/lib/libc.so.6", false, false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct scene scene;
        begin(&scene);
        resolve_one(&scene, cases[i].path, 0x10);
        assert_int_equal(scene.frames[0].guard, cases[i].guard);
        assert_int_equal(scene.frames[0].interpreter, cases[i].interpreter);
        end(&scene);
    }
}

static void test_symbolize_puts_python_frames_after_native_ones(void **state)
{
    struct scene scene;
    (void)state;
    begin(&scene);
    uint32_t frames[3];
    frames[0] = vg_stacks_frame_native(&scene.stacks, module_at(&scene, self_path),
                                       captured[0] - self.bias);
    frames[1] =
        vg_stacks_frame_python(&scene.stacks, vg_strings_intern_z(&scene.stacks, "train.py"),
                               vg_strings_intern_z(&scene.stacks, "forward"), 88);
    frames[2] = vg_stacks_frame_native(&scene.stacks, 0, 0xabcd); /* code outside any module */
    uint32_t order[3] = {frames[2], frames[0], frames[1]};
    resolve(&scene, order, 2, 1);
    assert_int_equal(scene.count, 5);
    assert_null(scene.frames[0].module);
    assert_int_equal(scene.frames[0].offset, 0xabcd);
    assert_string_equal(scene.frames[3].function, "outer_real");
    const struct vg_text_frame *python = &scene.frames[4];
    assert_string_equal(python->lang, "python");
    assert_string_equal(python->function, "forward");
    assert_string_equal(python->file, "train.py");
    assert_int_equal(python->line, 88);
    assert_null(python->module);
    assert_false(python->has_offset);
    end(&scene);
}

static void test_symbolize_answers_a_bad_stack_with_no_frames(void **state)
{
    struct scene scene;
    const struct vg_text_frame *frames;
    (void)state;
    begin(&scene);
    resolve_one(&scene, self_path, 0);
    assert_int_equal(vg_symbols_stack(scene.symbols, 0, &frames), 0);
    assert_int_equal(vg_symbols_stack(scene.symbols, 0xffffffu, &frames), 0);
    end(&scene);
}

static const struct {
    const char *symbol, *name;
} plain_names[] = {
    {"main", "main"},
    {"memcpy@@GLIBC_2.14", "memcpy"},
    {"work.constprop.0", "work"},
    {".L1", ".L1"},
    {"", ""},
    {"_Z3fooi", "foo"},
    {"_ZN2at6Tensor3addERKS0_", "at::Tensor::add"},
    {"_ZNK2at6Tensor4sizeEv", "at::Tensor::size"},
    {"_ZN12_GLOBAL__N_13barEi", "(anonymous namespace)::bar"},
    {"_Z3fooIiEvT_", "foo<int>"},
    {"_ZN1AclEi", "A::operator()"},
    {"_ZN1AltERKS_", "A::operator<"},
    {"_ZltIiEbRK1AIT_ES4_", "operator< <int>"},
    {"_ZN1AcvbEv", "A::operator bool"},
    {"_Znwm", "operator new"},
    {"_ZdaPv", "operator delete[]"},
    {"_ZN1AlsEi", "A::operator<<"},
    {"_ZN1AptEv", "A::operator->"},
    {"_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()"},
    {"_Z3fooi.part.0", "foo"},
    {"_ZNSt6vectorIfSaIfEE9push_backERKf", "std::vector<float, std::allocator<float> >::push_back"},
    {"_ZTv0_n24_N1A1bEv", "A::b"},
    {"_Znot_a_name", "_Znot_a_name"},
};

static void test_plain_name_drops_all_but_the_name(void **state)
{
    (void)state;
    char *probe = vg_symbols_plain_name("_Z3fooi");
    bool can_demangle = !strcmp(probe, "foo");
    free(probe);
    if (!can_demangle) {
        print_message("skip: no libstdc++ here\n");
        skip();
    }
    for (size_t i = 0; i < sizeof(plain_names) / sizeof(*plain_names); i++) {
        char *name = vg_symbols_plain_name(plain_names[i].symbol);
        assert_string_equal(name, plain_names[i].name);
        free(name);
    }
}

static int make_directory(void **state)
{
    (void)state;
    outer_real();
    plain_real();
    dl_iterate_phdr(find_self, NULL);
    ssize_t length = readlink("/proc/self/exe", self_path, sizeof(self_path) - 1);
    return length <= 0 || !self.build_id_bytes || !mkdtemp(directory);
}

static int remove_directory(void **state)
{
    char command[PATH_MAX];
    (void)state;
    snprintf(command, sizeof(command), "rm -r '%s'", directory);
    return system(command) != 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_symbolize_gives_inlined_functions_as_frames),
        cmocka_unit_test(test_symbolize_finds_units_without_aranges),
        cmocka_unit_test(test_symbolize_names_a_function_with_its_line),
        cmocka_unit_test(test_symbolize_uses_the_symbol_table_without_debug_information),
        cmocka_unit_test(test_symbolize_gives_module_and_offset_of_a_stripped_file),
        cmocka_unit_test(test_symbolize_gives_module_and_offset_of_a_missing_file),
        cmocka_unit_test(test_symbolize_does_not_believe_another_build_id),
        cmocka_unit_test(test_symbolize_does_not_believe_a_newer_file_without_build_id),
        cmocka_unit_test(test_symbolize_opens_regular_files_only),
        cmocka_unit_test(test_symbolize_marks_the_guard_and_the_interpreter),
        cmocka_unit_test(test_symbolize_puts_python_frames_after_native_ones),
        cmocka_unit_test(test_symbolize_answers_a_bad_stack_with_no_frames),
        cmocka_unit_test(test_plain_name_drops_all_but_the_name),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
