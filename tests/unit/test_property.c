/* test_property.c -- random events against a naive model, and a storm of SIGKILLs.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The model keeps a plain list of what is live and adds it up from nothing after every event. Every
 * second run has a record that is full from the start but for a few slots: all totals have to be
 * the same.
 */
#include "tests/unit/unit.h"

#include <signal.h>
#include <sys/mman.h>
#include <time.h>

enum { SEEDS = 100, EVENTS = 300, ADDRESSES = 24, CONTEXT_IDS = 5, DEVICES = 3, STACKS = 6 };
enum { LIVE_MAX = VG_SPACE_COUNT * ADDRESSES, SITES_MAX = 1024, PENDING_MAX = 4, KILLS = 400 };

struct model_site {
    uint32_t stack;
    int device; /* -1 none */
    uint8_t kind;
    uint64_t live_bytes, live_count, peak, at_peak, allocs, frees;
};

struct model_live {
    bool used;
    uint64_t addr, bytes, context; /* context: number of the context's life; 0 none */
    int site;
};

struct model {
    struct model_live live[LIVE_MAX];
    struct model_site sites[SITES_MAX];
    int site_count;
    struct {
        uint64_t life; /* 0: not live */
        int device;
    } contexts[CONTEXT_IDS + 1]; /* by id */
    uint64_t lives;
    uint64_t peak[DEVICES][VG_LAYER_COUNT];
    uint64_t duplicates, unknown_frees, failed_frees;
    struct {
        struct vg_event event;
        struct model_live live;
    } pending[PENDING_MAX];
    int pending_count;
};

struct run {
    bool full;
    struct unit unit;
    struct model model;
    uint64_t random;
    uint32_t stacks[STACKS];
};

/* What an allocation was counted as, and whether it is in the file. */
static void expect_alloc(const struct run *run, enum vg_status status, bool duplicate)
{
    if (!run->full || status != VG_FULL) {
        assert_int_equal(status, duplicate ? VG_DUPLICATE : VG_OK);
    }
}

static struct model_live *model_find(struct model *model, enum vg_space space, uint64_t addr)
{
    for (int i = 0; i < LIVE_MAX; i++) {
        struct model_live *live = &model->live[i];
        if (live->used && live->addr == addr &&
            vg_kind_space(model->sites[live->site].kind) == space) {
            return live;
        }
    }
    return NULL;
}

static int model_site(struct model *model, uint32_t stack, uint8_t kind, int device)
{
    for (int i = 0; i < model->site_count; i++) {
        struct model_site *site = &model->sites[i];
        if (site->stack == stack && site->kind == kind && site->device == device) {
            return i;
        }
    }
    assert_true(model->site_count < SITES_MAX);
    model->sites[model->site_count] =
        (struct model_site){.stack = stack, .kind = kind, .device = device};
    return model->site_count++;
}

static void model_put(struct model *model, struct model_live live)
{
    for (int i = 0; i < LIVE_MAX; i++) {
        if (!model->live[i].used) {
            live.used = true;
            model->live[i] = live;
            return;
        }
    }
    fail_msg("the model is full");
}

static uint64_t model_sum(const struct model *model, int device, enum vg_layer layer)
{
    uint64_t sum = 0;
    for (int i = 0; i < LIVE_MAX; i++) {
        const struct model_live *live = &model->live[i];
        const struct model_site *site = &model->sites[live->site];
        bool counts = vg_kind_layer(site->kind) == layer &&
                      (layer == VG_LAYER_TORCH || vg_kind_occupies(site->kind));
        sum += live->used && site->device == device && counts ? live->bytes : 0;
    }
    return sum;
}

/* After every event: live bytes from nothing, then peaks. */
static void model_settle(struct model *model)
{
    for (int s = 0; s < model->site_count; s++) {
        struct model_site *site = &model->sites[s];
        site->live_bytes = site->live_count = 0;
        for (int i = 0; i < LIVE_MAX; i++) {
            if (model->live[i].used && model->live[i].site == s) {
                site->live_bytes += model->live[i].bytes;
                site->live_count++;
            }
        }
        site->peak = site->live_bytes > site->peak ? site->live_bytes : site->peak;
    }
    for (int d = 0; d < DEVICES; d++) {
        for (int layer = 0; layer < VG_LAYER_COUNT; layer++) {
            uint64_t sum = model_sum(model, d, layer);
            if (sum <= model->peak[d][layer]) {
                continue;
            }
            model->peak[d][layer] = sum;
            for (int s = 0; s < model->site_count; s++) {
                struct model_site *site = &model->sites[s];
                if (site->device == d && (int)vg_kind_layer(site->kind) == layer) {
                    site->at_peak = site->live_bytes;
                }
            }
        }
    }
}

/* --- one event of each kind, in the model and in the ledger ----------------------------------- */

/* Handles with references and what belongs to no context are in test_ledger_vmm.c. */
static uint8_t any_kind(struct run *run)
{
    for (;;) {
        uint8_t kind = (uint8_t)(1 + unit_random(&run->random) % (VG_KIND_COUNT - 1));
        if (vg_kind_space(kind) != VG_SPACE_VMM && kind != VG_KIND_IPC && kind != VG_KIND_MAPPING &&
            kind != VG_KIND_MEMPOOL) {
            return kind;
        }
    }
}

static void do_alloc(struct run *run)
{
    struct model *model = &run->model;
    uint64_t id = unit_random(&run->random) % (CONTEXT_IDS + 1);
    int device = (int)(unit_random(&run->random) % (DEVICES + 1)) - 1;
    struct vg_event event = {
        .op = VG_OP_ALLOC,
        .kind = any_kind(run),
        .addr = 4096 * (1 + unit_random(&run->random) % ADDRESSES),
        .bytes = unit_random(&run->random) % 1000,
        .stack = run->stacks[unit_random(&run->random) % STACKS],
        .context_id = id,
        .device = device,
    };
    struct model_live *old = model_find(model, vg_kind_space(event.kind), event.addr);
    if (old) {
        model->sites[old->site].frees++;
        old->used = false;
        model->duplicates++;
    }
    if (id && !model->contexts[id].life) {
        model->contexts[id].life = ++model->lives;
        model->contexts[id].device = device;
    }
    if (device < 0 && id) {
        device = model->contexts[id].device;
    }
    int site = model_site(model, event.stack, event.kind, device);
    model->sites[site].allocs++;
    model_put(model, (struct model_live){.addr = event.addr,
                                         .bytes = event.bytes,
                                         .context = id ? model->contexts[id].life : 0,
                                         .site = site});
    expect_alloc(run, vg_ledger_apply(&run->unit.ledger, &event), old);
}

static void do_free(struct run *run)
{
    struct model *model = &run->model;
    struct vg_event event = {.op = VG_OP_FREE,
                             .kind = any_kind(run),
                             .addr = 4096 * (1 + unit_random(&run->random) % ADDRESSES)};
    struct model_live *live = model_find(model, vg_kind_space(event.kind), event.addr);
    assert_int_equal(vg_ledger_apply(&run->unit.ledger, &event), live ? VG_OK : VG_NOT_FOUND);
    if (!live) {
        model->unknown_frees += vg_kind_layer(event.kind) == VG_LAYER_DRIVER;
        return;
    }
    model->sites[live->site].frees++;
    live->used = false;
    if (model->pending_count < PENDING_MAX && unit_random(&run->random) % 4 == 0) {
        model->pending[model->pending_count].event = event;
        model->pending[model->pending_count++].live = *live;
    }
}

static void do_restore(struct run *run)
{
    struct model *model = &run->model;
    if (!model->pending_count) {
        return;
    }
    struct vg_event event = model->pending[--model->pending_count].event;
    struct model_live live = model->pending[model->pending_count].live;
    enum vg_space space = vg_kind_space(model->sites[live.site].kind);
    struct model_live *taken = model_find(model, space, live.addr);
    event.op = VG_OP_RESTORE;
    assert_int_equal(vg_ledger_apply(&run->unit.ledger, &event), taken ? VG_DUPLICATE : VG_OK);
    model->failed_frees++;
    if (!taken) {
        model_put(model, live);
        model->sites[live.site].frees--;
    }
}

static void do_context(struct run *run)
{
    struct model *model = &run->model;
    struct vg_event event = {.context_id = 1 + unit_random(&run->random) % CONTEXT_IDS,
                             .device = (int)(unit_random(&run->random) % DEVICES)};
    uint64_t life = model->contexts[event.context_id].life;
    if (unit_random(&run->random) % 2) {
        event.op = VG_OP_CTX_CREATE;
        assert_int_equal(vg_ledger_apply(&run->unit.ledger, &event), life ? VG_DUPLICATE : VG_OK);
        if (!life) {
            model->contexts[event.context_id].life = ++model->lives;
            model->contexts[event.context_id].device = event.device;
        }
        return;
    }
    event.op = unit_random(&run->random) % 2 ? VG_OP_CTX_DESTROY : VG_OP_CTX_RESET;
    assert_int_equal(vg_ledger_apply(&run->unit.ledger, &event), life ? VG_OK : VG_NOT_FOUND);
    for (int i = 0; life && i < LIVE_MAX; i++) {
        struct model_live *live = &model->live[i];
        if (live->used && live->context == life) {
            model->sites[live->site].frees++;
            live->used = false;
        }
    }
    model->contexts[event.context_id].life = 0;
}

static void do_event(struct run *run)
{
    uint64_t choice = unit_random(&run->random) % 32;
    if (choice < 16) {
        do_alloc(run);
    } else if (choice < 27) {
        do_free(run);
    } else if (choice < 30) {
        do_restore(run);
    } else {
        do_context(run);
    }
}

/* --- comparison ------------------------------------------------------------------------------- */

static const struct vg_device *device_of(const struct vg_view *view, int ordinal, uint32_t *id_out)
{
    for (uint64_t i = 0; i < vg_view_count(view, VG_SEC_DEVICES); i++) {
        if (vg_view_device(view, i)->ordinal == ordinal) {
            *id_out = (uint32_t)i + 1;
            return vg_view_device(view, i);
        }
    }
    *id_out = 0;
    return NULL;
}

static const struct vg_site *site_of(const struct vg_view *view, const struct model_site *wanted)
{
    uint32_t device = 0;
    if (wanted->device >= 0) {
        device_of(view, wanted->device, &device);
    }
    for (uint64_t i = 0; i < vg_view_count(view, VG_SEC_SITES); i++) {
        const struct vg_site *site = vg_view_site(view, i);
        if (site->stack == wanted->stack && site->kind == wanted->kind && site->device == device) {
            return site;
        }
    }
    fail_msg("a site is missing");
    return NULL;
}

static void compare(struct run *run, const struct vg_view *view)
{
    const struct model *model = &run->model;
    assert_int_equal(vg_view_count(view, VG_SEC_SITES), model->site_count + run->full);
    for (int s = 0; s < model->site_count; s++) {
        const struct vg_site *site = site_of(view, &model->sites[s]);
        assert_int_equal(site->live_bytes, model->sites[s].live_bytes);
        assert_int_equal(site->live_count, model->sites[s].live_count);
        assert_int_equal(site->peak_live_bytes, model->sites[s].peak);
        assert_int_equal(site->alloc_count, model->sites[s].allocs);
        assert_int_equal(site->free_count, model->sites[s].frees);
        assert_int_equal(vg_view_site_at_peak(view, site),
                         model->sites[s].device < 0 ? VG_UNKNOWN : model->sites[s].at_peak);
    }
    for (int d = 0; d < DEVICES; d++) {
        uint32_t id;
        const struct vg_device *device = device_of(view, d, &id);
        if (device) {
            assert_int_equal(device->tracked_bytes, model_sum(model, d, VG_LAYER_DRIVER));
            assert_int_equal(device->block_bytes, model_sum(model, d, VG_LAYER_TORCH));
            assert_memory_equal(device->peak_bytes, model->peak[d], sizeof model->peak[d]);
        }
    }
    assert_int_equal(view->header->duplicate_count, model->duplicates);
    assert_int_equal(view->header->unknown_free_count, model->unknown_frees);
    assert_int_equal(view->header->failed_free_count, model->failed_frees);
}

static void begin_run(struct run *run, uint64_t seed)
{
    memset(run, 0, sizeof *run);
    run->random = 0x9e3779b97f4a7c15u * seed;
    unit_begin(&run->unit, 8 * MIB);
    for (uint64_t i = 0; i < STACKS; i++) {
        run->stacks[i] = unit_stack(&run->unit, i);
    }
    run->full = seed % 2;
    if (run->full) {
        unit_fill_slots(&run->unit, seed / 2 % 8);
    }
}

static void test_random_events_agree_with_a_naive_model(void **state)
{
    (void)state;
    struct run *run = malloc(sizeof *run);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct vg_view view;
        begin_run(run, seed);
        for (int i = 0; i < EVENTS; i++) {
            do_event(run);
            model_settle(&run->model);
            unit_check_ledger(&run->unit);
            struct vg_view now = {.base = run->unit.record.base, .header = run->unit.record.header};
            compare(run, &now);
        }
        unit_open(&run->unit, &view);
        assert_false(view.recomputed);
        unit_check_view(&run->unit, &view);
        compare(run, &view);
        vg_view_close(&view);
        unit_end(&run->unit);
    }
    free(run);
}

/* --- the storm -------------------------------------------------------------------------------- */

/* What the child knew: live bytes of the devices before and after the event that it is applying. */
struct truth {
    _Atomic uint64_t before, after;
    _Atomic bool ready;
};

static void storm_child(struct run *run, struct truth *truth)
{
    uint64_t live[64] = {0}, sum = 0;
    for (;;) {
        uint64_t at = unit_random(&run->random) % 64;
        struct vg_event event = {.op = live[at] ? VG_OP_FREE : VG_OP_ALLOC,
                                 .kind = VG_KIND_DEVICE,
                                 .addr = 4096 * (at + 1),
                                 .bytes = 1 + unit_random(&run->random) % 100000,
                                 .stack = run->stacks[at % STACKS],
                                 .context_id = 1 + at % 2};
        uint64_t change = live[at] ? 0 - live[at] : event.bytes;
        truth->after = sum + change;
        vg_ledger_apply(&run->unit.ledger, &event);
        sum += change;
        truth->before = sum;
        live[at] = live[at] ? 0 : event.bytes;
        truth->ready = true;
    }
}

static pid_t start_storm(struct run *run, struct truth *truth)
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (vg_record_create(&run->unit.record, run->unit.path, 8 * MIB) != VG_OK) {
            _exit(1);
        }
        vg_ledger_init(&run->unit.ledger, &run->unit.record);
        for (uint64_t i = 0; i < STACKS; i++) {
            run->stacks[i] = unit_stack(&run->unit, i);
        }
        if (run->full) {
            unit_fill_slots(&run->unit, 8);
        }
        storm_child(run, truth);
    }
    return pid;
}

static void test_every_record_of_a_killed_process_adds_up(void **state)
{
    (void)state;
    struct run *run = calloc(1, sizeof *run);
    struct truth *truth =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int recomputed = 0;
    unit_dir(&run->unit);
    for (uint64_t kill_number = 1; kill_number <= KILLS; kill_number++) {
        struct vg_view view;
        int status;
        run->random = 0x9e3779b97f4a7c15u * kill_number;
        run->full = kill_number % 2;
        truth->ready = false;
        pid_t pid = start_storm(run, truth);
        while (!truth->ready && waitpid(pid, &status, WNOHANG) == 0) {
        }
        struct timespec pause = {.tv_nsec = (long)(unit_random(&run->random) % 2000000)};
        nanosleep(&pause, NULL);
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        unit_open(&run->unit, &view);
        unit_check_view(&run->unit, &view);
        uint64_t tracked = vg_view_device(&view, 0)->tracked_bytes;
        assert_true(tracked == truth->before || tracked == truth->after);
        recomputed += view.recomputed;
        vg_view_close(&view);
        unlink(run->unit.path);
    }
    print_message("  %d kills, %d of them inside an event\n", KILLS, recomputed);
    assert_true(recomputed > 0);
    munmap(truth, 4096);
    rmdir(run->unit.dir);
    free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_events_agree_with_a_naive_model),
        cmocka_unit_test(test_every_record_of_a_killed_process_adds_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
