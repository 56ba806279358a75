/* objects.c -- how many contexts, streams, events, ... live and were made, and where.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>

#include "core/analysis/analysis.h"

struct places {
    struct vg_object_place *place;
    size_t count;
};

static void add_place(struct vg_report *report, struct places *into, uint32_t stack, uint64_t live)
{
    for (size_t i = 0; i < into->count; i++) {
        if (into->place[i].stack == stack) {
            into->place[i].live += live;
            return;
        }
    }
    into->place = vg_report_grow(report, into->place, into->count, sizeof *into->place);
    into->place[into->count++] = (struct vg_object_place){.stack = stack, .live = live};
}

static int most_first(const void *left, const void *right)
{
    const struct vg_object_place *a = left, *b = right;
    if (a->live != b->live)
        return a->live < b->live ? 1 : -1;
    return a->stack < b->stack ? -1 : a->stack > b->stack;
}

static void set_top(struct vg_objects *into, struct places *all)
{
    if (all->count)
        qsort(all->place, all->count, sizeof *all->place, most_first);
    for (size_t i = 0; i < all->count && i < VG_OBJECT_PLACES_MAX; i++)
        into->top[into->top_count++] = all->place[i];
}

static void count_sites(struct vg_report *report, struct vg_objects *into, enum vg_kind kind)
{
    struct places all = {0};
    for (uint64_t i = 0, n = vg_view_count(report->view, VG_SEC_SITES); i < n; i++) {
        const struct vg_site *site = vg_view_site(report->view, i);
        if (site->kind != kind)
            continue;
        into->live += site->live_count;
        into->created += site->alloc_count;
        into->destroyed += site->free_count;
        if (site->live_count)
            add_place(report, &all, site->stack, site->live_count);
    }
    set_top(into, &all);
}

static void count_contexts(struct vg_report *report, struct vg_objects *into)
{
    struct places all = {0};
    for (uint64_t i = 0, n = vg_view_count(report->view, VG_SEC_CONTEXTS); i < n; i++) {
        const struct vg_context *context = vg_view_context(report->view, i);
        into->created++;
        into->live += context->live != 0;
        into->destroyed += context->live == 0;
        if (context->live)
            add_place(report, &all, context->stack, 1);
    }
    set_top(into, &all);
}

void vg_analysis_objects(struct vg_report *report)
{
    static const enum vg_kind kinds[] = {
#define OBJECT(NAME, key, KIND, remarkable) VG_KIND_##KIND,
#include "core/analysis/objects.def"
    };
    for (unsigned i = 0; i < VG_OBJECT_COUNT; i++) {
        if (kinds[i] == VG_KIND_NONE)
            count_contexts(report, &report->objects[i]);
        else
            count_sites(report, &report->objects[i], kinds[i]);
    }
}

const char *vg_object_key(enum vg_object object)
{
    static const char *const keys[] = {
#define OBJECT(NAME, key, KIND, remarkable) key,
#include "core/analysis/objects.def"
    };
    return keys[object];
}

bool vg_objects_are_remarkable(const struct vg_report *report, enum vg_object object)
{
    static const uint64_t from[] = {
#define OBJECT(NAME, key, KIND, remarkable) remarkable,
#include "core/analysis/objects.def"
    };
    uint64_t live = report->objects[object].live;
    if (object == VG_OBJECT_CONTEXTS) { /* each device that is used has one */
        live = 0;
        for (unsigned i = 0; i < report->device_count; i++)
            if (report->devices[i].context_count > live)
                live = report->devices[i].context_count;
    }
    return from[object] && live >= from[object];
}
