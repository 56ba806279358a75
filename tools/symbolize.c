/* symbolize.c -- stacks of a record as text frames, each module and each frame worked out once.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:      renderers -> here -> elf_symbols.c, elf_lines.c, plain_name.c
 * Holds:      a frame of the record becomes one text frame, or several where functions were inlined
 *             there.
 */
#include "tools/symbolize.h"

#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "tools/alloc.h"
#include "tools/elf_symbols.h"

enum { INLINES_MAX = 32 };

struct module {
    bool tried, guard, interpreter;
    const char *path; /* NULL unknown */
    struct vg_elf *elf;
};

struct expansion { /* of one frame of the record */
    struct vg_text_frame *frames;
    unsigned count;
};

struct stack {
    uint32_t id;
    unsigned count;
    struct vg_text_frame *frames;
    UT_hash_handle hh;
};

struct vg_symbols {
    const struct vg_view *view;
    struct module *modules;
    struct expansion *expansions;
    uint64_t module_count, frame_count;
    struct stack *stacks;
};

struct vg_symbols *vg_symbols_open(const struct vg_view *view)
{
    unsetenv("DEBUGINFOD_URLS"); /* before the first call of libdw: it would go to the network */
    struct vg_symbols *symbols = vg_alloc(1, sizeof(*symbols));
    symbols->view = view;
    symbols->module_count = vg_view_count(view, VG_SEC_MODULES);
    symbols->frame_count = vg_view_count(view, VG_SEC_FRAMES);
    symbols->modules = vg_alloc(symbols->module_count, sizeof(*symbols->modules));
    symbols->expansions = vg_alloc(symbols->frame_count, sizeof(*symbols->expansions));
    return symbols;
}

void vg_symbols_close(struct vg_symbols *symbols)
{
    if (!symbols)
        return;
    struct stack *stack, *next;
    HASH_ITER (hh, symbols->stacks, stack, next) {
        HASH_DEL(symbols->stacks, stack);
        free(stack->frames);
        free(stack);
    }
    for (uint64_t i = 0; i < symbols->frame_count; i++) {
        const struct expansion *expansion = &symbols->expansions[i];
        bool native = expansion->count && !strcmp(expansion->frames[0].lang, "native");
        for (unsigned k = 0; native && k < expansion->count; k++)
            free((char *)(uintptr_t)expansion->frames[k].function);
        free(expansion->frames);
    }
    for (uint64_t i = 0; i < symbols->module_count; i++)
        vg_elf_close(symbols->modules[i].elf);
    free(symbols->modules);
    free(symbols->expansions);
    free(symbols);
}

/* libpython3.11.so.1.0, python3, python3.13t: CPython itself, not its extension modules. */
static bool is_interpreter(const char *name)
{
    if (!strncmp(name, "libpython", 9))
        return true;
    return !strncmp(name, "python", 6) && !name[6 + strspn(name + 6, "0123456789.dmt")];
}

static struct module *find_module(struct vg_symbols *symbols, uint32_t number)
{
    const struct vg_module *row = number ? vg_view_module(symbols->view, number - 1) : NULL;
    if (!row || number > symbols->module_count)
        return NULL;
    struct module *module = &symbols->modules[number - 1];
    if (module->tried)
        return module;
    module->tried = true;
    const char *path = vg_view_string(symbols->view, row->path);
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    module->path = *path ? path : "[vdso]";
    module->guard = !strncmp(name, "libvramguard.so", 15);
    module->interpreter = is_interpreter(name);
    size_t id_bytes = row->build_id_bytes;
    if (id_bytes <= sizeof(row->build_id))
        module->elf =
            vg_elf_open(path, row->build_id, id_bytes, symbols->view->header->start_realtime_ns);
    return module;
}

/* The function by the symbol table: the last frame of an expansion, or all there is. */
static void name_by_symbol(struct module *module, uint64_t call, struct vg_text_frame *frame)
{
    const struct vg_elf_symbol *symbol = vg_elf_function(module->elf, call);
    if (!symbol)
        return;
    if (!frame->function)
        frame->function = vg_symbols_plain_name(symbol->name);
    frame->function_offset = call + 1 - symbol->address;
}

static void expand_native(struct vg_symbols *symbols, const struct vg_frame *frame,
                          struct expansion *out)
{
    struct module *module = find_module(symbols, frame->module);
    struct vg_text_frame text = {.lang = "native", .has_offset = true, .offset = frame->offset};
    if (module) {
        text.module = module->path;
        text.guard = module->guard;
        text.interpreter = module->interpreter;
    }
    /* A return address may already belong to the next line or function: the call is before it. */
    uint64_t call = frame->offset ? frame->offset - 1 : 0;
    struct vg_elf_line lines[INLINES_MAX];
    unsigned count =
        module && module->elf ? vg_elf_lines(module->elf, call, lines, INLINES_MAX) : 0;
    out->count = count ? count : 1;
    out->frames = vg_alloc(out->count, sizeof(text));
    for (unsigned i = 0; i < out->count; i++) {
        out->frames[i] = text;
        if (i < count) {
            out->frames[i].function = lines[i].function;
            out->frames[i].file = lines[i].file;
            out->frames[i].line = lines[i].line;
        }
    }
    if (module && module->elf)
        name_by_symbol(module, call, &out->frames[out->count - 1]);
}

static const char *text_or_null(const struct vg_view *view, uint32_t string)
{
    const char *text = vg_view_string(view, string);
    return *text ? text : NULL;
}

static void expand_python(struct vg_symbols *symbols, const struct vg_frame *frame,
                          struct expansion *out)
{
    out->count = 1;
    out->frames = vg_alloc(1, sizeof(*out->frames));
    out->frames[0] = (struct vg_text_frame){
        .lang = "python",
        .function = text_or_null(symbols->view, frame->function),
        .file = text_or_null(symbols->view, frame->file),
        .line = frame->line > 0 ? frame->line : 0,
    };
}

static const struct expansion *expand(struct vg_symbols *symbols, uint32_t number)
{
    const struct vg_frame *frame = number ? vg_view_frame(symbols->view, number - 1) : NULL;
    if (!frame || number > symbols->frame_count)
        return NULL;
    struct expansion *expansion = &symbols->expansions[number - 1];
    if (expansion->count)
        return expansion;
    if (frame->lang == VG_LANG_PYTHON)
        expand_python(symbols, frame, expansion);
    else
        expand_native(symbols, frame, expansion);
    return expansion;
}

static struct stack *build_stack(struct vg_symbols *symbols, uint32_t id)
{
    uint32_t head;
    const uint32_t *frames;
    if (!vg_view_stack(symbols->view, id, &head, &frames))
        return NULL;
    unsigned recorded = vg_stack_native(head) + vg_stack_python(head), count = 0;
    for (unsigned i = 0; i < recorded; i++) {
        const struct expansion *expansion = expand(symbols, frames[i]);
        count += expansion ? expansion->count : 0;
    }
    struct stack *stack = vg_alloc(1, sizeof(*stack));
    stack->id = id;
    stack->frames = vg_alloc(count, sizeof(*stack->frames));
    for (unsigned i = 0; i < recorded; i++) {
        const struct expansion *expansion = expand(symbols, frames[i]);
        if (!expansion)
            continue;
        memcpy(stack->frames + stack->count, expansion->frames,
               expansion->count * sizeof(*stack->frames));
        stack->count += expansion->count;
    }
    HASH_ADD(hh, symbols->stacks, id, sizeof(stack->id), stack);
    return stack;
}

unsigned vg_symbols_stack(struct vg_symbols *symbols, uint32_t stack,
                          const struct vg_text_frame **frames_out)
{
    struct stack *found;
    HASH_FIND(hh, symbols->stacks, &stack, sizeof(stack), found);
    if (!found)
        found = build_stack(symbols, stack);
    if (!found)
        return 0;
    *frames_out = found->frames;
    return found->count;
}
