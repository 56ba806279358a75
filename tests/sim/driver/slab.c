/* slab.c -- address ranges of the host that stand for device memory, and handing one out in parts.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Holds:      ranges are sorted, never empty, and never touch each other; used + their sum = size.
 */
#include "tests/sim/driver/sim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* MAP_NORESERVE: a device of any size costs the host only what is touched. The exact size first:
 * the hole of the last free is then found again, as a driver would. */
void *vgsim_space_map(size_t bytes, size_t alignment)
{
    const int protection = PROT_READ | PROT_WRITE;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    char *exact = mmap(NULL, bytes, protection, flags, -1, 0);
    if (exact == MAP_FAILED)
        return NULL;
    if ((uintptr_t)exact % alignment == 0)
        return exact;
    munmap(exact, bytes);
    if (bytes > SIZE_MAX - alignment)
        return NULL;
    char *wide = mmap(NULL, bytes + alignment, protection, flags, -1, 0);
    if (wide == MAP_FAILED)
        return NULL;
    size_t head = (alignment - (uintptr_t)wide % alignment) % alignment;
    if (head)
        munmap(wide, head);
    if (head < alignment)
        munmap(wide + head + bytes, alignment - head);
    return wide + head;
}

void vgsim_space_unmap(void *address, size_t bytes)
{
    munmap(address, bytes);
}

struct vgsim_slab *vgsim_slab_open(size_t bytes)
{
    struct vgsim_slab *slab = calloc(1, sizeof *slab);
    struct vgsim_range *ranges = calloc(8, sizeof *ranges);
    void *base = slab && ranges ? vgsim_space_map(bytes, VGSIM_PAGE) : NULL;
    if (!base) {
        free(slab);
        free(ranges);
        return NULL;
    }
    ranges[0] = (struct vgsim_range){0, bytes};
    *slab = (struct vgsim_slab){.base = (uintptr_t)base,
                                .size = bytes,
                                .biggest = bytes,
                                .ranges = ranges,
                                .range_count = 1,
                                .range_room = 8};
    return slab;
}

void vgsim_slab_close(struct vgsim_slab *slab)
{
    vgsim_space_unmap((void *)slab->base, slab->size);
    free(slab->ranges);
    free(slab);
}

bool vgsim_slab_take(struct vgsim_slab *slab, size_t bytes, uintptr_t *address_out)
{
    size_t biggest = 0;
    if (bytes > slab->biggest)
        return false;
    for (size_t i = 0; i < slab->range_count; i++) {
        struct vgsim_range *range = &slab->ranges[i];
        if (range->length < bytes) {
            biggest = range->length > biggest ? range->length : biggest;
            continue;
        }
        *address_out = slab->base + range->offset;
        range->offset += bytes;
        range->length -= bytes;
        slab->used += bytes;
        if (range->length == 0)
            memmove(range, range + 1, (--slab->range_count - i) * sizeof *range);
        if (slab->range_count == 0)
            slab->biggest = 0;
        return true;
    }
    slab->biggest = biggest;
    return false;
}

static void insert_range(struct vgsim_slab *slab, size_t at, struct vgsim_range range)
{
    if (slab->range_count == slab->range_room) {
        size_t room = slab->range_room * 2;
        struct vgsim_range *ranges = realloc(slab->ranges, room * sizeof *ranges);
        if (!ranges)
            abort(); /* the host's own memory is gone: nothing here can be simulated any more */
        slab->ranges = ranges;
        slab->range_room = room;
    }
    memmove(&slab->ranges[at + 1], &slab->ranges[at],
            (slab->range_count - at) * sizeof *slab->ranges);
    slab->ranges[at] = range;
    slab->range_count++;
}

static size_t range_after(const struct vgsim_slab *slab, size_t offset)
{
    size_t low = 0, high = slab->range_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (slab->ranges[middle].offset < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void vgsim_slab_give(struct vgsim_slab *slab, uintptr_t address, size_t bytes)
{
    struct vgsim_range given = {address - slab->base, bytes};
    size_t at = range_after(slab, given.offset);
    slab->used -= bytes;
    struct vgsim_range *before = at > 0 ? &slab->ranges[at - 1] : NULL;
    if (before && before->offset + before->length == given.offset) {
        before->length += bytes;
        at--;
    } else {
        insert_range(slab, at, given);
    }
    struct vgsim_range *here = &slab->ranges[at];
    struct vgsim_range *after = at + 1 < slab->range_count ? here + 1 : NULL;
    if (after && here->offset + here->length == after->offset) {
        here->length += after->length;
        memmove(after, after + 1, (--slab->range_count - at - 1) * sizeof *after);
    }
    if (here->length > slab->biggest)
        slab->biggest = here->length;
}
