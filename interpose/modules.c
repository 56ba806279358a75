/* modules.c -- the loaded objects, as ids of the record.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:   origin.c turns raw return addresses into frames here.
 * Holds:   `table` is sorted by address and agrees with the loader's list as of `adds` and `subs`;
 *          an entry in `cache` is of the current table. The loader's counters are read before every
 *          stack: libraries also come and go without a dlopen that anybody sees.
 */
#include "interpose/modules.h"

#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "interpose/unwind.h"

const struct vg_family_row vg_family_rows[VG_FAMILY_COUNT] = {
    [VG_FAMILY_NONE] = {"", "", 1},
#define FAMILY(NAME, name, match, final_at) [VG_FAMILY_##NAME] = {name, match, final_at},
#include "interpose/families.def"
};

struct object {
    uint64_t low, high, bias;
    uint32_t id; /* in the record; 0: no room there */
    uint32_t traits;
};
struct cached {
    uint64_t ip;
    uint32_t frame, traits;
};

enum { OBJECTS_MAX = 4096, CACHE_ENTRIES = 16384 };
static struct {
    struct object *table, *fresh; /* OBJECTS_MAX each */
    struct cached *cache;
    unsigned count;
    uint64_t adds, subs;
    uint32_t generation;
    bool ready, failed;
} state;

static bool prepare(struct vg_stacks *stacks)
{
    if (state.ready || state.failed)
        return state.ready;
    state.table = vg_arena_alloc(stacks->arena, sizeof *state.table * OBJECTS_MAX);
    state.fresh = vg_arena_alloc(stacks->arena, sizeof *state.fresh * OBJECTS_MAX);
    state.cache = vg_arena_alloc(stacks->arena, sizeof *state.cache * CACHE_ENTRIES);
    state.ready = state.table && state.fresh && state.cache;
    state.failed = !state.ready;
    return state.ready;
}

static int read_counters(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)size;
    uint64_t *counters = argument;
    counters[0] = info->dlpi_adds;
    counters[1] = info->dlpi_subs;
    return 1;
}

/* NT_GNU_BUILD_ID among the notes of a mapped object. */
static void read_build_id(const struct dl_phdr_info *info, const ElfW(Phdr) * note,
                          struct vg_module *out)
{
    const uint8_t *p = (const uint8_t *)(info->dlpi_addr + note->p_vaddr), *end = p + note->p_memsz;
    while (end - p >= (ptrdiff_t)sizeof(ElfW(Nhdr))) {
        const ElfW(Nhdr) *head = (const ElfW(Nhdr) *)(const void *)p;
        const uint8_t *name = p + sizeof *head, *desc = name + ((head->n_namesz + 3u) & ~3u);
        if (head->n_namesz > (size_t)(end - name) || desc > end ||
            head->n_descsz > (size_t)(end - desc))
            return;
        if (head->n_type == NT_GNU_BUILD_ID && head->n_namesz == 4 && memcmp(name, "GNU", 4) == 0 &&
            head->n_descsz <= sizeof out->build_id) {
            memcpy(out->build_id, desc, head->n_descsz);
            out->build_id_bytes = (uint8_t)head->n_descsz;
            return;
        }
        p = desc + ((head->n_descsz + 3u) & ~3u);
    }
}

static void describe(const struct dl_phdr_info *info, struct vg_module *out)
{
    memset(out, 0, sizeof *out);
    out->low = UINT64_MAX;
    out->bias = info->dlpi_addr;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
        if (ph->p_type == PT_LOAD) {
            uint64_t low = info->dlpi_addr + ph->p_vaddr, high = low + ph->p_memsz;
            out->low = low < out->low ? low : out->low;
            out->high = high > out->high ? high : out->high;
        } else if (ph->p_type == PT_NOTE && !out->build_id_bytes) {
            read_build_id(info, ph, out);
        }
    }
}

/* `match` at the start of a component of the path. */
static bool path_has(const char *path, const char *match)
{
    size_t length = strlen(match);
    if (strncmp(path, match, length) == 0)
        return true;
    for (const char *p = strchr(path, '/'); p; p = strchr(p + 1, '/'))
        if (strncmp(p + 1, match, length) == 0)
            return true;
    return false;
}

static uint32_t traits_of(const char *path)
{
    uint32_t mask = 0;
    for (unsigned i = 1; i < VG_FAMILY_COUNT; i++)
        if (path_has(path, vg_family_rows[i].match))
            mask |= 1u << i;
    if (path_has(path, "libcuda.so") || path_has(path, "libcudart"))
        mask |= VG_TRAIT_CUDA;
    return mask;
}

static const struct object *find(uint64_t ip)
{
    unsigned low = 0, high = state.count;
    while (low < high) {
        unsigned mid = (low + high) / 2;
        if (ip < state.table[mid].low)
            high = mid;
        else if (ip >= state.table[mid].high)
            low = mid + 1;
        else
            return &state.table[mid];
    }
    return NULL;
}

struct scan {
    struct vg_stacks *stacks;
    unsigned count;
};

/* The same object as before: its id stays. */
static const struct object *known(const struct scan *scan, const struct vg_module *module)
{
    const struct object *old = find(module->low);
    if (!old || !old->id || old->low != module->low || old->high != module->high)
        return NULL;
    const struct vg_module *was = vg_record_at(scan->stacks->record, VG_SEC_MODULES, old->id - 1);
    return was && was->path == module->path &&
                   memcmp(was->build_id, module->build_id, sizeof was->build_id) == 0
               ? old
               : NULL;
}

static int add_object(struct dl_phdr_info *info, size_t size, void *argument)
{
    (void)size;
    struct scan *scan = argument;
    struct vg_module module;
    char exe[4096];
    describe(info, &module);
    if (module.low >= module.high || scan->count == OBJECTS_MAX)
        return 0;
    const char *path = info->dlpi_name;
    if (!path || !path[0]) { /* the program itself */
        ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
        const char *started_as = (const char *)getauxval(AT_EXECFN); /* where there is no /proc */
        exe[n > 0 ? n : 0] = 0;
        path = n > 0 || !started_as ? exe : started_as;
    }
    module.path = vg_strings_intern_z(scan->stacks, path);
    module.generation = state.generation;
    struct object *out = &state.fresh[scan->count++];
    const struct object *old = known(scan, &module);
    if (old) {
        *out = *old;
        return 0;
    }
    uint64_t self = (uint64_t)(uintptr_t)&vg_modules_refresh;
    bool is_own = self >= module.low && self < module.high;
    *out = (struct object){module.low, module.high, module.bias,
                           vg_stacks_module(scan->stacks, &module),
                           is_own ? VG_TRAIT_OWN : traits_of(path)};
    return 0;
}

static void sort(struct object *table, unsigned count)
{
    for (unsigned i = 1; i < count;
         i++) { /* nearly sorted, a few hundred entries, once per dlopen */
        struct object item = table[i];
        unsigned j = i;
        for (; j > 0 && table[j - 1].low > item.low; j--)
            table[j] = table[j - 1];
        table[j] = item;
    }
}

void vg_modules_refresh(struct vg_stacks *stacks)
{
    uint64_t counters[2] = {0, 0};
    dl_iterate_phdr(read_counters, counters);
    if ((counters[0] == state.adds && counters[1] == state.subs) || !prepare(stacks))
        return;
    if (counters[1] != state.subs)
        vg_unwind_flush();
    state.generation++;
    struct scan scan = {stacks, 0};
    dl_iterate_phdr(add_object, &scan);
    sort(state.fresh, scan.count);
    struct object *table = state.table;
    state.table = state.fresh;
    state.fresh = table;
    state.count = scan.count;
    state.adds = counters[0];
    state.subs = counters[1];
    memset(state.cache, 0, sizeof *state.cache * CACHE_ENTRIES);
}

uint32_t vg_modules_frame(struct vg_stacks *stacks, uint64_t ip, uint32_t *traits_out)
{
    *traits_out = 0;
    if (!state.ready)
        return vg_stacks_frame_native(stacks, 0, ip);
    struct cached *cached = &state.cache[(ip ^ ip >> 14) % CACHE_ENTRIES];
    if (cached->ip == ip && cached->frame) {
        *traits_out = cached->traits;
        return cached->frame;
    }
    const struct object *object = find(ip - 1); /* the call, not what follows it */
    *traits_out = object ? object->traits : 0;
    if (*traits_out & VG_TRAIT_OWN)
        return 0; /* never cached: cut by the caller */
    uint32_t module = object ? object->id : 0;
    uint32_t frame = vg_stacks_frame_native(stacks, module, module ? ip - object->bias : ip);
    *cached = (struct cached){ip, frame, *traits_out};
    return frame;
}
