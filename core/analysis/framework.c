/* framework.c -- what a caching allocator holds: segments asked from the driver, live blocks inside them, and the gaps between.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A segment is a live driver allocation that occupies the device and was made with a libc10_cuda frame on its stack, or that holds a block. A gap is
 * an upper bound of what can be reused: nothing here knows its stream, its pool or a pending free.
 * fragmentation = 1 - largest gap / cached bytes; 0 where nothing is cached.
 */
#include <stdlib.h>
#include <string.h>

#include "core/analysis/analysis.h"

static const char ALLOCATOR_MODULE[] = "libc10_cuda";
enum { BY_STACK = 1, BY_BLOCK = 2 }; /* how a site is known to ask for segments */

struct range {
    uint64_t low, bytes;
    uint32_t site; /* index + 1 */
    bool captured;
};
struct ranges {
    struct range *range;
    size_t count;
};
struct gap_sums {
    uint64_t largest, small, small_below, inside_private;
};

static int lower_first(const void *left, const void *right)
{
    const struct range *a = left, *b = right;
    if (a->low != b->low)
        return a->low < b->low ? -1 : 1;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

static void ranges_add(struct vg_report *report, struct ranges *into, const struct vg_slot *slot)
{
    into->range = vg_report_grow(report, into->range, into->count, sizeof *into->range);
    into->range[into->count++] = (struct range){.low = slot->addr,
                                                .bytes = slot->bytes,
                                                .site = slot->site,
                                                .captured = slot->flags & VG_SLOT_CAPTURED};
}

/* The live slots of one device in both layers, by address. */
static void collect(struct vg_report *report, uint32_t device, struct ranges *blocks,
                    struct ranges *drivers)
{
    uint64_t count = vg_view_count(report->view, VG_SEC_SLOTS);
    for (uint64_t i = 0; i < count; i++) {
        const struct vg_slot *slot = vg_view_slot(report->view, i);
        if (!slot || slot->kind == VG_KIND_NONE || slot->kind >= VG_KIND_COUNT || !slot->site)
            continue;
        const struct vg_site *site = vg_view_site(report->view, slot->site - 1);
        if (!site || site->device != device)
            continue;
        if (slot->kind == VG_KIND_BLOCK)
            ranges_add(report, blocks, slot);
        else if (vg_kind_occupies(slot->kind))
            ranges_add(report, drivers, slot);
    }
    if (blocks->count)
        qsort(blocks->range, blocks->count, sizeof *blocks->range, lower_first);
    if (drivers->count)
        qsort(drivers->range, drivers->count, sizeof *drivers->range, lower_first);
}

static void add_gap(struct gap_sums *sums, uint64_t bytes, bool captured)
{
    if (bytes > sums->largest)
        sums->largest = bytes;
    if (bytes < sums->small_below)
        sums->small += bytes;
    if (captured)
        sums->inside_private += bytes;
}

/* blocks: those that start inside the segment, by address. */
static void add_gaps(struct gap_sums *sums, const struct range *segment, const struct range *blocks,
                     size_t count)
{
    uint64_t at = 0; /* offset in the segment */
    for (size_t i = 0; i < count; i++) {
        uint64_t start = blocks[i].low - segment->low, room = segment->bytes - start;
        if (start > at)
            add_gap(sums, start - at, segment->captured);
        uint64_t end = start + (blocks[i].bytes < room ? blocks[i].bytes : room);
        if (end > at)
            at = end;
    }
    if (segment->bytes > at)
        add_gap(sums, segment->bytes - at, segment->captured);
}

static void mark_segment(struct vg_report *report, struct vg_report_device *device,
                         const struct range *segment)
{
    const char *library = report->site_libraries[segment->site - 1];
    for (unsigned i = 0; library && i < device->library_count; i++)
        if (strcmp(device->libraries[i].library, library) == 0)
            device->libraries[i].framework_bytes += segment->bytes;
}

static void sum_segments(struct vg_report *report, struct vg_report_device *device,
                         const struct ranges *blocks, const struct ranges *drivers,
                         uint8_t *allocator_site, struct gap_sums *gaps)
{
    struct vg_framework *framework = &device->framework;
    size_t next = 0;
    for (size_t i = 0; i < drivers->count; i++) {
        const struct range *driver = &drivers->range[i];
        while (next < blocks->count && blocks->range[next].low < driver->low)
            next++;
        size_t first = next;
        while (next < blocks->count && blocks->range[next].low - driver->low < driver->bytes)
            next++;
        bool holds_block = next > first;
        if (!holds_block && !(allocator_site[driver->site - 1] & BY_STACK))
            continue;
        allocator_site[driver->site - 1] |= BY_BLOCK;
        framework->segments++;
        framework->reserved_bytes += driver->bytes;
        mark_segment(report, device, driver);
        add_gaps(gaps, driver, holds_block ? blocks->range + first : NULL, next - first);
    }
}

static void fill_framework(struct vg_report *report, struct vg_report_device *device,
                           uint8_t *allocator_site)
{
    struct vg_framework *framework = &device->framework;
    struct ranges blocks = {0}, drivers = {0};
    collect(report, device->index + 1, &blocks, &drivers);
    const struct vg_incident *failure = report->failure;
    bool here = failure && failure->device == device->index + 1;
    uint64_t asked = !here                                    ? VG_UNKNOWN
                     : failure->requested_bytes != VG_UNKNOWN ? failure->requested_bytes
                                                              : failure->bytes;
    struct gap_sums gaps = {.small_below = asked == VG_UNKNOWN ? 0 : asked};
    sum_segments(report, device, &blocks, &drivers, allocator_site, &gaps);
    for (size_t i = 0; i < blocks.count; i++)
        framework->allocated_bytes += blocks.range[i].bytes;
    framework->live_blocks = blocks.count;
    device->has_framework = blocks.count || framework->segments;
    framework->name = "torch";
    if (framework->reserved_bytes > framework->allocated_bytes)
        framework->cached_bytes = framework->reserved_bytes - framework->allocated_bytes;
    framework->largest_gap_bytes = gaps.largest;
    framework->small_gaps_bytes = asked == VG_UNKNOWN ? VG_UNKNOWN : gaps.small;
    framework->private_gaps_bytes = gaps.inside_private;
    if (framework->cached_bytes && gaps.largest < framework->cached_bytes)
        framework->fragmentation = 1 - (double)gaps.largest / (double)framework->cached_bytes;
}

void vg_analysis_framework(struct vg_report *report)
{
    uint64_t count = vg_view_count(report->view, VG_SEC_SITES);
    uint8_t *allocator_site = vg_report_alloc(report, count, 1);
    bool any = false;
    for (unsigned i = 0; i < report->site_count; i++) {
        const struct vg_site *site = report->sites[i].site;
        bool is_block = site->kind == VG_KIND_BLOCK;
        bool is_allocator = !is_block && vg_kind_occupies(site->kind) &&
                            vg_report_stack_has(report->view, site->stack, ALLOCATOR_MODULE);
        allocator_site[report->sites[i].id - 1] = is_allocator ? BY_STACK : 0;
        any |= is_block || is_allocator;
    }
    for (unsigned i = 0; any && i < report->device_count; i++)
        fill_framework(report, &report->devices[i], allocator_site);
    for (unsigned i = 0; i < report->site_count; i++)
        report->sites[i].segment = allocator_site[report->sites[i].id - 1];
}
