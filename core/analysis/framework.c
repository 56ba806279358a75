/* framework.c -- what a caching allocator holds.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Segments asked from the driver, live blocks inside them, and the gaps between.
 *
 * A segment is a live driver allocation with an address, or a run of mappings without a hole
 * between them (an expandable segment), that occupies the device and was made with a libc10_cuda
 * frame on its stack, or that holds a block. Handles of cuMemCreate have no address: they count
 * where they are mapped. A gap is an upper bound of what can be reused: nothing here knows its
 * stream, its pool or a pending free. Where no block was ever told (torch=0, another allocator
 * behind the same library) nothing is known of what is live inside: no framework, no cache.
 * fragmentation = 1 - largest gap / cached bytes; 0 where nothing is cached.
 */
#include <stdlib.h>
#include <string.h>

#include "core/analysis/analysis.h"

static const char ALLOCATOR_MODULE[] = "libc10_cuda";
enum { BY_STACK = 1, BY_BLOCK = 2 }; /* how a site is known to ask for segments */

struct range {
    uint64_t low, bytes;
    uint32_t site;   /* index + 1, of the memory: of a mapping's handle */
    uint32_t caller; /* index + 1, of whoever made the range */
    bool captured, is_mapping;
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

static void ranges_add(struct vg_report *report, struct ranges *into, const struct range *range)
{
    into->range = vg_report_grow(report, into->range, into->count, sizeof *into->range);
    into->range[into->count++] = *range;
}

static const struct vg_site *site_of(const struct vg_view *view, uint32_t site)
{
    return site ? vg_view_site(view, site - 1) : NULL;
}

/* The range of a slot that may be a segment or a block. false: it has no address, does not occupy a
 * device, or is on another one. */
static bool range_of(const struct vg_view *view, const struct vg_slot *slot, uint32_t device,
                     struct range *out)
{
    const struct vg_site *site = site_of(view, slot->site);
    if (!site)
        return false;
    uint32_t on = site->device;
    *out = (struct range){.low = slot->addr,
                          .bytes = slot->bytes,
                          .site = slot->site,
                          .caller = slot->site,
                          .captured = slot->flags & VG_SLOT_CAPTURED};
    if (slot->kind == VG_KIND_MAPPING) {
        const struct vg_slot *memory = slot->target ? vg_view_slot(view, slot->target - 1) : NULL;
        const struct vg_site *its = memory ? site_of(view, memory->site) : NULL;
        if (memory && memory->kind != VG_KIND_VMM) /* another's memory, or the host's */
            return false;
        out->is_mapping = true;
        out->site = its ? memory->site : slot->site;
        on = its ? its->device : on;
    } else if (slot->kind != VG_KIND_BLOCK &&
               (!vg_kind_occupies(slot->kind) || vg_kind_space(slot->kind) != VG_SPACE_ADDRESS)) {
        return false;
    }
    return on == device;
}

/* The live slots of one device in both layers, by address. */
static void collect(struct vg_report *report, uint32_t device, struct ranges *blocks,
                    struct ranges *drivers)
{
    uint64_t count = vg_view_count(report->view, VG_SEC_SLOTS);
    for (uint64_t i = 0; i < count; i++) {
        const struct vg_slot *slot = vg_view_slot(report->view, i);
        struct range range;
        if (!slot || slot->kind == VG_KIND_NONE || slot->kind >= VG_KIND_COUNT)
            continue;
        if (range_of(report->view, slot, device, &range))
            ranges_add(report, slot->kind == VG_KIND_BLOCK ? blocks : drivers, &range);
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
                         const struct range *part)
{
    const char *library = report->site_libraries[part->site - 1];
    for (unsigned i = 0; library && i < device->library_count; i++) {
        struct vg_library_bytes *at = &device->libraries[i];
        if (strcmp(at->library, library) == 0) {
            uint64_t room = at->bytes - at->framework_bytes; /* memory may be mapped twice */
            at->framework_bytes += part->bytes < room ? part->bytes : room;
        }
    }
}

/* The end of the run of mappings that starts with part `first`; other allocations are runs of
 * one. */
static size_t run_end(const struct ranges *drivers, size_t first)
{
    size_t end = first + 1;
    while (end < drivers->count && drivers->range[end - 1].is_mapping &&
           drivers->range[end].is_mapping &&
           drivers->range[end].low - drivers->range[end - 1].low == drivers->range[end - 1].bytes)
        end++;
    return end;
}

static struct range whole_run(const struct range *parts, size_t count,
                              const uint8_t *allocator_site, bool *is_allocator_out)
{
    struct range run = parts[0];
    *is_allocator_out = false;
    for (size_t i = 0; i < count; i++) {
        run.bytes += i ? parts[i].bytes : 0;
        run.captured = run.captured || parts[i].captured;
        *is_allocator_out = *is_allocator_out || (allocator_site[parts[i].caller - 1] & BY_STACK);
    }
    return run;
}

static void sum_segments(struct vg_report *report, struct vg_report_device *device,
                         const struct ranges *blocks, const struct ranges *drivers,
                         uint8_t *allocator_site, struct gap_sums *gaps)
{
    struct vg_framework *framework = &device->framework;
    size_t next = 0;
    for (size_t i = 0, end; i < drivers->count; i = end) {
        bool by_allocator;
        const struct range *parts = &drivers->range[i];
        end = run_end(drivers, i);
        struct range run = whole_run(parts, end - i, allocator_site, &by_allocator);
        while (next < blocks->count && blocks->range[next].low < run.low)
            next++;
        size_t first = next;
        while (next < blocks->count && blocks->range[next].low - run.low < run.bytes)
            next++;
        bool holds_block = next > first;
        if (!holds_block && !by_allocator)
            continue;
        framework->segments++;
        framework->reserved_bytes += run.bytes;
        for (size_t k = 0; k < end - i; k++) {
            allocator_site[parts[k].site - 1] |= BY_BLOCK;
            mark_segment(report, device, &parts[k]);
        }
        add_gaps(gaps, &run, holds_block ? blocks->range + first : NULL, next - first);
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

/* Sites that ask for segments, told by their stack; objects are in no list of sites, so these are
 * looked for among all. */
static bool find_allocators(const struct vg_report *report, uint8_t *allocator_site)
{
    uint64_t count = vg_view_count(report->view, VG_SEC_SITES);
    bool any = false;
    for (uint64_t i = 0; i < count; i++) {
        const struct vg_site *site = vg_view_site(report->view, i);
        bool is_block = site->kind == VG_KIND_BLOCK;
        bool may_be = vg_kind_occupies(site->kind) || site->kind == VG_KIND_MAPPING;
        if (!site->live_count || !(is_block || may_be))
            continue;
        bool is_allocator =
            may_be && vg_report_stack_has(report->view, site->stack, ALLOCATOR_MODULE);
        allocator_site[i] = is_allocator ? BY_STACK : 0;
        any |= is_block || is_allocator;
    }
    return any;
}

void vg_analysis_framework(struct vg_report *report)
{
    uint8_t *allocator_site = vg_report_alloc(report, vg_view_count(report->view, VG_SEC_SITES), 1);
    bool is_followed = report->view->header->reached & VG_REACHED_TORCH;
    bool any = is_followed && find_allocators(report, allocator_site);
    for (unsigned i = 0; any && i < report->device_count; i++)
        fill_framework(report, &report->devices[i], allocator_site);
    for (unsigned i = 0; i < report->site_count; i++)
        report->sites[i].segment = allocator_site[report->sites[i].id - 1];
}
