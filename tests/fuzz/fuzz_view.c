/* fuzz_view.c -- any bytes as a record: opened, walked through every accessor, checked.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/ledger.h"
#include "core/view.h"

static volatile uint64_t sink; /* what is read has to be read */

static void walk_stack(const struct vg_view *view, uint32_t id)
{
    uint32_t head;
    const uint32_t *frames;
    if (!vg_view_stack(view, id, &head, &frames)) {
        return;
    }
    for (uint32_t i = 0; i < vg_stack_native(head) + vg_stack_python(head); i++) {
        const struct vg_frame *frame = frames[i] ? vg_view_frame(view, frames[i] - 1) : NULL;
        if (frame) {
            const struct vg_module *module =
                frame->module ? vg_view_module(view, frame->module - 1) : NULL;
            sink += strlen(vg_view_string(view, frame->function)) +
                    strlen(vg_view_string(view, module ? module->path : frame->file));
        }
    }
}

static void walk(const struct vg_view *view)
{
    for (uint64_t i = 0; i < vg_view_count(view, VG_SEC_SITES); i++) {
        const struct vg_site *site = vg_view_site(view, i);
        sink += vg_view_site_at_peak(view, site) + strlen(vg_view_string(view, site->api));
        sink += vg_kind_key(site->kind)[0];
        walk_stack(view, site->stack);
    }
    for (uint64_t i = 0; i < vg_view_count(view, VG_SEC_SLOTS); i++) {
        const struct vg_slot *slot = vg_view_slot(view, i);
        if (slot->kind && slot->site) {
            sink += vg_view_site(view, slot->site - 1)->kind;
        }
        if (slot->kind && slot->context) {
            sink += vg_view_context(view, slot->context - 1)->id;
        }
    }
    for (uint64_t i = 0; i < vg_view_count(view, VG_SEC_DEVICES); i++) {
        const struct vg_device *device = vg_view_device(view, i);
        for (uint32_t k = 0; k < device->other_count; k++) {
            sink += strlen(vg_view_string(view, device->other[k].name));
        }
    }
    for (uint64_t i = 0; i < vg_view_count(view, VG_SEC_INCIDENTS); i++) {
        walk_stack(view, vg_view_incident(view, i)->stack);
    }
    for (uint32_t id = 0; id < 64; id++) {
        sink += strlen(vg_view_string(view, id));
        walk_stack(view, id);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct vg_view view;
    char why[256];
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) {
        return 0;
    }
    memcpy(copy, bytes, size);
    if (vg_view_adopt(&view, copy, size, why, sizeof why) == VG_OK) {
        walk(&view);
        /* What was made again from the slots adds up, whatever the file said. */
        if (!vg_view_check(&view, why, sizeof why) && view.recomputed) {
            abort();
        }
        vg_view_close(&view);
    } else if (strchr(why, '\n') || !*why) {
        abort();
    }
    free(copy);
    return 0;
}

static void fill(struct vg_ledger *ledger)
{
    for (uint64_t i = 1; i < 60; i++) {
        uint32_t file = vg_strings_intern_z(&ledger->stacks, "train.py");
        struct vg_module module = {.path = vg_strings_intern_z(&ledger->stacks, "/lib/libx.so")};
        uint32_t frames[2] = {
            vg_stacks_frame_native(&ledger->stacks, vg_stacks_module(&ledger->stacks, &module), i),
            vg_stacks_frame_python(&ledger->stacks, file, file, (int32_t)i)};
        struct vg_event event = {.op = i % 7 ? VG_OP_ALLOC : VG_OP_FREE,
                                 .kind = (uint8_t)(1 + i % (VG_KIND_COUNT - 1)),
                                 .addr = 512 * (i % 30),
                                 .bytes = i,
                                 .context_id = i % 3,
                                 .device = (int32_t)(i % 2),
                                 .api = file,
                                 .stack = vg_stacks_intern(&ledger->stacks, frames, 1, 1, false)};
        vg_ledger_apply(ledger, &event);
    }
}

/* A record as it is written; some in the middle of an event, some with one section's chunk moved
 * over another's. */
size_t vg_fuzz_seed(uint64_t number, uint8_t *out, size_t max)
{
    static uint8_t *good;
    static size_t size;
    if (!good) {
        struct vg_record record;
        static struct vg_ledger ledger;
        if (vg_record_create(&record, NULL, 1024 * 1024) != VG_OK) {
            return 0;
        }
        vg_ledger_init(&ledger, &record);
        fill(&ledger);
        size = (size_t)record.header->file_bytes;
        good = malloc(size);
        if (good) {
            memcpy(good, record.base, size);
        }
        vg_record_close(&record);
    }
    if (!good || size > max) {
        return 0;
    }
    memcpy(out, good, size);
    struct vg_header *header = (void *)out;
    if (number % 3 == 0) {
        header->intent = 0x80;
    }
    if (number % 5 == 0) {
        struct vg_section *moved = &header->section[number / 5 % VG_SEC_COUNT];
        const struct vg_section *over = &header->section[number / 5 / VG_SEC_COUNT % VG_SEC_COUNT];
        moved->page[0] = over->page[0] + (uint32_t)(number % 2);
    }
    return size;
}
