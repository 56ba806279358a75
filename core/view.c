/* view.c -- reading a record: the copy, and the checks that make everything behind it safe.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Holds:     after an open, every chunk lies inside the copy, and every index in sites, slots,
 *            devices, contexts and incidents is in range. Strings and stacks are checked where they
 *            are looked up.
 * Not here:  sums and invariants (view_check.c), making counters again (view_repair.c).
 */
#include "core/view.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/view_sums.h"

/* A record that is in the middle of an event three times in a row has most likely lost its writer
 * there. */
enum { TRIES = 20, STRUCTURE_TRIES = 40, HALVES = 3 };
enum { HEADER_PAGES_BYTES = (sizeof(struct vg_header) + VG_PAGE - 1) / VG_PAGE * VG_PAGE };

static const uint32_t elem_bytes[VG_SEC_COUNT] = {
#define SECTION(NAME, name, element, base_count, saturated) sizeof(element),
#include "core/sections.def"
};
static const char *const section_names[VG_SEC_COUNT] = {
#define SECTION(NAME, name, element, base_count, saturated) name,
#include "core/sections.def"
};

#define DAMAGED(why_out, why_size, ...) (snprintf((why_out), (why_size), __VA_ARGS__), VG_DAMAGED)

/* --- access ----------------------------------------------------------------------------------- */

uint64_t vg_view_count(const struct vg_view *view, enum vg_section_id section)
{
    return atomic_load_explicit(&view->header->section[section].count, memory_order_relaxed);
}

static void *place(const struct vg_view *view, enum vg_section_id id, uint64_t index)
{
    const struct vg_section *section = &view->header->section[id];
    uint32_t k = vg_chunk_of(section->base_count, index);
    uint64_t within = index - vg_chunk_first(section->base_count, k);
    return view->base + (uint64_t)section->page[k] * VG_PAGE + within * section->elem_bytes;
}

const void *vg_view_at(const struct vg_view *view, enum vg_section_id section, uint64_t index)
{
    return index < vg_view_count(view, section) ? place(view, section, index) : NULL;
}

const struct vg_module *vg_view_module(const struct vg_view *view, uint64_t index)
{
    return vg_view_at(view, VG_SEC_MODULES, index);
}

const struct vg_frame *vg_view_frame(const struct vg_view *view, uint64_t index)
{
    return vg_view_at(view, VG_SEC_FRAMES, index);
}

const struct vg_site *vg_view_site(const struct vg_view *view, uint64_t index)
{
    return vg_view_at(view, VG_SEC_SITES, index);
}

const struct vg_slot *vg_view_slot(const struct vg_view *view, uint64_t index)
{
    return vg_view_at(view, VG_SEC_SLOTS, index);
}

const struct vg_device *vg_view_device(const struct vg_view *view, uint64_t index)
{
    return vg_view_at(view, VG_SEC_DEVICES, index);
}

const struct vg_context *vg_view_context(const struct vg_view *view, uint64_t index)
{
    return vg_view_at(view, VG_SEC_CONTEXTS, index);
}

const struct vg_incident *vg_view_incident(const struct vg_view *view, uint64_t index)
{
    return vg_view_at(view, VG_SEC_INCIDENTS, index);
}

/* `n` consecutive words from `index` on, or NULL where they are not all there or not in one
 * chunk. */
static const uint32_t *words_at(const struct vg_view *view, enum vg_section_id id, uint64_t index,
                                uint64_t n)
{
    uint32_t base_count = view->header->section[id].base_count;
    uint64_t count = vg_view_count(view, id);
    if (index >= count || n > count - index) {
        return NULL;
    }
    uint64_t chunk_end = vg_chunk_first(base_count, vg_chunk_of(base_count, index) + 1);
    return n <= chunk_end - index ? place(view, id, index) : NULL;
}

const char *vg_view_string(const struct vg_view *view, uint32_t id)
{
    const uint32_t *length = id ? words_at(view, VG_SEC_STRINGS, id - 1, 1) : NULL;
    if (!length) {
        return "";
    }
    uint64_t words = 1 + ((uint64_t)*length / sizeof(uint32_t) + 1);
    const uint32_t *at = words_at(view, VG_SEC_STRINGS, id - 1, words);
    const char *text = at ? (const char *)(at + 1) : "";
    return at && text[*length] == '\0' ? text : "";
}

bool vg_view_stack(const struct vg_view *view, uint32_t id, uint32_t *head_out,
                   const uint32_t **frames_out)
{
    const uint32_t *head = id ? words_at(view, VG_SEC_STACKS, id - 1, 1) : NULL;
    if (!head) {
        return false;
    }
    uint32_t frames = vg_stack_native(*head) + vg_stack_python(*head);
    const uint32_t *at = words_at(view, VG_SEC_STACKS, id - 1, 1 + (uint64_t)frames);
    if (!at || frames == 0 || frames > VG_STACK_FRAMES_MAX) {
        return false;
    }
    *head_out = *at;
    *frames_out = at + 1;
    return true;
}

uint64_t vg_view_site_at_peak(const struct vg_view *view, const struct vg_site *site)
{
    const struct vg_device *device = site->device ? vg_view_device(view, site->device - 1) : NULL;
    if (!device || site->layer >= VG_LAYER_COUNT) {
        return VG_UNKNOWN;
    }
    return site->peak_epoch == device->peak_epoch[site->layer] ? site->at_peak_bytes
                                                               : site->live_bytes;
}

/* --- structure -------------------------------------------------------------------------------- */

static enum vg_status check_header(const struct vg_header *header, uint64_t bytes, char *why_out,
                                   size_t why_size)
{
    size_t start = offsetof(struct vg_header, file_bytes);
    if (bytes < sizeof header->magic || memcmp(header->magic, VG_MAGIC, sizeof header->magic)) {
        return DAMAGED(why_out, why_size, "not a VRAMGuard record");
    }
    if (bytes >= start && header->version != VG_VERSION) {
        return DAMAGED(why_out, why_size, "record of version %u, this tool reads version %u",
                       header->version, VG_VERSION);
    }
    if (bytes < HEADER_PAGES_BYTES) {
        return DAMAGED(why_out, why_size, "truncated: %llu bytes, the header alone has %d",
                       (unsigned long long)bytes, HEADER_PAGES_BYTES);
    }
    if (header->header_bytes != sizeof *header) {
        return DAMAGED(why_out, why_size, "damaged: a header of %u bytes, expected %zu",
                       header->header_bytes, sizeof *header);
    }
    uint64_t used = atomic_load_explicit(&header->file_bytes, memory_order_relaxed);
    if (used < HEADER_PAGES_BYTES || used % VG_PAGE) {
        return DAMAGED(why_out, why_size, "damaged: %llu bytes used", (unsigned long long)used);
    }
    if (used > bytes) {
        return DAMAGED(why_out, why_size, "truncated: %llu of %llu bytes",
                       (unsigned long long)bytes, (unsigned long long)used);
    }
    return VG_OK;
}

/* The pages of the file that belong to something, one bit each. */
static bool take_pages(uint64_t *taken, uint64_t first, uint64_t n)
{
    for (uint64_t page = first; page < first + n; page++) {
        uint64_t bit = UINT64_C(1) << page % 64;
        if (taken[page / 64] & bit) {
            return false;
        }
        taken[page / 64] |= bit;
    }
    return true;
}

/* No chunk lies over another or over the header: what is written to one element (by the repair)
 * changes no other, and every walk is bounded by the size of the file. */
static enum vg_status check_chunk(const struct vg_header *header, enum vg_section_id id, uint32_t k,
                                  uint64_t *taken, char *why_out, size_t why_size)
{
    const struct vg_section *section = &header->section[id];
    uint64_t used = atomic_load_explicit(&header->file_bytes, memory_order_relaxed);
    uint64_t from = (uint64_t)section->page[k] * VG_PAGE;
    uint64_t bytes = vg_chunk_bytes(section->elem_bytes, section->base_count, k);
    if (from < HEADER_PAGES_BYTES || from > used || bytes > used - from) {
        return DAMAGED(why_out, why_size, "damaged: chunk %u of section %s is outside the file", k,
                       section_names[id]);
    }
    if (!take_pages(taken, section->page[k], bytes / VG_PAGE)) {
        return DAMAGED(why_out, why_size, "damaged: chunk %u of section %s lies over another", k,
                       section_names[id]);
    }
    return VG_OK;
}

static enum vg_status check_section(const struct vg_header *header, enum vg_section_id id,
                                    uint64_t *taken, char *why_out, size_t why_size)
{
    const struct vg_section *section = &header->section[id];
    uint64_t count = atomic_load_explicit(&section->count, memory_order_relaxed);
    uint32_t base = section->base_count;
    if (section->elem_bytes != elem_bytes[id] || base == 0 || (base & (base - 1)) ||
        base > 1u << 24 || section->chunk_count > VG_CHUNKS_MAX) {
        return DAMAGED(why_out, why_size, "damaged: table of section %s", section_names[id]);
    }
    for (uint32_t k = 0; k < section->chunk_count; k++) {
        enum vg_status status = check_chunk(header, id, k, taken, why_out, why_size);
        if (status != VG_OK) {
            return status;
        }
    }
    if (count > vg_chunk_first(base, section->chunk_count)) {
        return DAMAGED(why_out, why_size,
                       "damaged: section %s counts %llu elements, has room for %llu",
                       section_names[id], (unsigned long long)count,
                       (unsigned long long)vg_chunk_first(base, section->chunk_count));
    }
    return VG_OK;
}

static enum vg_status check_structure(const struct vg_header *header, uint64_t bytes, char *why_out,
                                      size_t why_size)
{
    enum vg_status status = check_header(header, bytes, why_out, why_size);
    if (status != VG_OK) {
        return status;
    }
    uint64_t used = atomic_load_explicit(&header->file_bytes, memory_order_relaxed);
    uint64_t *taken = calloc(used / VG_PAGE / 64 + 1, sizeof *taken);
    if (!taken) {
        snprintf(why_out, why_size, "no memory to read the record");
        return VG_IO;
    }
    for (int id = 0; id < VG_SEC_COUNT && status == VG_OK; id++) {
        status = check_section(header, id, taken, why_out, why_size);
    }
    free(taken);
    return status;
}

/* --- elements --------------------------------------------------------------------------------- */

static bool site_is_sound(const struct vg_view *view, const struct vg_site *site)
{
    return site->kind < VG_KIND_COUNT && site->layer == vg_kind_layer(site->kind) &&
           site->device <= vg_view_count(view, VG_SEC_DEVICES);
}

static bool slot_is_sound(const struct vg_view *view, const struct vg_slot *slot)
{
    return slot->kind == VG_KIND_NONE ||
           (slot->kind < VG_KIND_COUNT && slot->site <= vg_view_count(view, VG_SEC_SITES) &&
            slot->context <= vg_view_count(view, VG_SEC_CONTEXTS) &&
            (!slot->site || vg_view_site(view, slot->site - 1)->kind == slot->kind));
}

static bool device_is_sound(const struct vg_device *device)
{
    return device->ordinal >= 0 && device->free_source <= VG_FREE_NVML &&
           device->other_count <= VG_OTHERS_MAX;
}

static bool incident_is_sound(const struct vg_view *view, const struct vg_incident *incident)
{
    return incident->kind <= VG_INCIDENT_SNAPSHOT && incident->outcome <= VG_OUTCOME_RECOVERED &&
           incident->site <= vg_view_count(view, VG_SEC_SITES) &&
           incident->device <= vg_view_count(view, VG_SEC_DEVICES) &&
           incident->context <= vg_view_count(view, VG_SEC_CONTEXTS);
}

static bool is_sound(const struct vg_view *view, enum vg_section_id id, uint64_t index)
{
    const void *at = place(view, id, index);
    switch (id) {
    case VG_SEC_SITES:
        return site_is_sound(view, at);
    case VG_SEC_SLOTS:
        return slot_is_sound(view, at);
    case VG_SEC_DEVICES:
        return device_is_sound(at);
    case VG_SEC_CONTEXTS:
        return ((const struct vg_context *)at)->device <= vg_view_count(view, VG_SEC_DEVICES);
    case VG_SEC_INCIDENTS:
        return incident_is_sound(view, at);
    default:
        return true;
    }
}

/* In a copy of more than one moment a slot may name a site that is not in it: such a slot is left
 * out. */
static enum vg_status check_elements(struct vg_view *view, bool torn, char *why_out,
                                     size_t why_size)
{
    if (vg_view_count(view, VG_SEC_DEVICES) > VG_DEVICES_MAX) {
        return DAMAGED(why_out, why_size, "damaged: too many devices");
    }
    for (int id = VG_SEC_SITES; id < VG_SEC_COUNT; id++) {
        uint64_t count = vg_view_count(view, id);
        for (uint64_t i = 0; i < count; i++) {
            if (is_sound(view, id, i)) {
                continue;
            }
            if (!torn || id != VG_SEC_SLOTS) {
                return DAMAGED(why_out, why_size, "damaged: element %llu of section %s",
                               (unsigned long long)i, section_names[id]);
            }
            ((struct vg_slot *)place(view, id, i))->kind = VG_KIND_NONE;
        }
    }
    return VG_OK;
}

static bool is_half_applied(const struct vg_header *header)
{
    return atomic_load_explicit(&header->intent, memory_order_relaxed) != 0 ||
           (atomic_load_explicit(&header->seq, memory_order_relaxed) & 1);
}

static enum vg_status finish_open(struct vg_view *view, bool torn, char *why_out, size_t why_size)
{
    torn = torn || is_half_applied(view->header);
    enum vg_status status = check_elements(view, torn, why_out, why_size);
    if (status == VG_OK && torn) {
        if (!vg_view_repair(view)) {
            snprintf(why_out, why_size, "no memory to read the record");
            return VG_IO;
        }
        view->recomputed = true;
    }
    return status;
}

enum vg_status vg_view_adopt(struct vg_view *view, void *base, size_t bytes, char *why_out,
                             size_t why_size)
{
    *view = (struct vg_view){.base = base, .header = base};
    enum vg_status status = check_structure(base, bytes, why_out, why_size);
    if (status == VG_OK) {
        view->bytes = (size_t)atomic_load_explicit(&view->header->file_bytes, memory_order_relaxed);
        status = finish_open(view, false, why_out, why_size);
    }
    if (status != VG_OK) {
        *view = (struct vg_view){0};
    }
    return status;
}

/* --- the copy --------------------------------------------------------------------------------- */

/* Bytes read from `from` on, fewer at the end of the file; -1 with errno. */
static ssize_t read_at(int fd, void *to, size_t n, uint64_t from)
{
    size_t got = 0;
    while (got < n) {
        ssize_t done = pread(fd, (uint8_t *)to + got, n - got, (off_t)(from + got));
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done < 0) {
            return -1;
        }
        if (done == 0) {
            break;
        }
        got += (size_t)done;
    }
    return (ssize_t)got;
}

static uint64_t file_size(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_size > 0 ? (uint64_t)st.st_size : 0;
}

/* HALF: of one moment, in the middle of an event. TORN: of more than one moment. */
enum copy { COPIED, HALF, TORN, NOT_SOUND, FAILED };

struct header_pages {
    union {
        struct vg_header header;
        uint8_t pages[HEADER_PAGES_BYTES];
    };
};

static enum copy read_header(struct header_pages *out, int fd, char *why_out, size_t why_size)
{
    memset(out, 0, sizeof *out);
    ssize_t got = read_at(fd, out, sizeof *out, 0);
    if (got < 0) {
        snprintf(why_out, why_size, "cannot be read: %s", strerror(errno));
        return FAILED;
    }
    uint64_t size = (size_t)got < sizeof *out ? (uint64_t)got : file_size(fd);
    enum vg_status status = check_structure(&out->header, size, why_out, why_size);
    return status == VG_OK ? COPIED : status == VG_IO ? FAILED : NOT_SOUND;
}

static enum copy read_body(struct vg_view *view, struct header_pages *first, int fd, char *why_out,
                           size_t why_size)
{
    size_t used = (size_t)atomic_load_explicit(&first->header.file_bytes, memory_order_relaxed);
    size_t body = used - sizeof *first;
    uint8_t *base = realloc(view->base, used);
    if (!base) {
        snprintf(why_out, why_size, "no memory to read the record");
        return FAILED;
    }
    memcpy(base, first, sizeof *first);
    view->base = base;
    view->header = (const struct vg_header *)base;
    view->bytes = used;
    if (read_at(fd, base + sizeof *first, body, sizeof *first) != (ssize_t)body ||
        read_at(fd, first, sizeof *first, 0) != (ssize_t)sizeof *first) {
        snprintf(why_out, why_size, "truncated while it was read");
        return NOT_SOUND;
    }
    bool same = atomic_load(&first->header.seq) == atomic_load(&view->header->seq) &&
                atomic_load(&first->header.file_bytes) == used;
    return !same ? TORN : is_half_applied(view->header) ? HALF : COPIED;
}

/* One copy: the header first, so that nothing in it is newer than what follows, and once more at
 * the end, to see whether it was one moment. */
static enum copy copy_once(struct vg_view *view, int fd, char *why_out, size_t why_size)
{
    struct header_pages *first = malloc(sizeof *first);
    if (!first) {
        snprintf(why_out, why_size, "no memory to read the record");
        return FAILED;
    }
    enum copy copy = read_header(first, fd, why_out, why_size);
    if (copy == COPIED) {
        copy = read_body(view, first, fd, why_out, why_size);
    }
    free(first);
    return copy;
}

static void wait_ms(long ms)
{
    struct timespec pause = {.tv_nsec = ms * 1000000};
    nanosleep(&pause, NULL);
}

enum vg_status vg_view_open_fd(struct vg_view *view, int fd, char *why_out, size_t why_size)
{
    enum copy copy = FAILED;
    int halves = 0;
    *view = (struct vg_view){.owned = true};
    for (int try = 0; try < (copy == NOT_SOUND ? STRUCTURE_TRIES : TRIES); try++) {
        copy = copy_once(view, fd, why_out, why_size);
        halves += copy == HALF;
        if (copy == COPIED || copy == FAILED || halves == HALVES) {
            break;
        }
        wait_ms(1);
    }
    enum vg_status status = copy == FAILED ? VG_IO : VG_DAMAGED;
    if (copy == COPIED || copy == HALF || copy == TORN) {
        status = finish_open(view, copy == TORN, why_out, why_size);
    }
    if (status != VG_OK) {
        vg_view_close(view);
    }
    return status;
}

enum vg_status vg_view_open(struct vg_view *view, const char *path, char *why_out, size_t why_size)
{
    *view = (struct vg_view){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) {
        snprintf(why_out, why_size, "cannot be opened: %s", strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return VG_IO;
    }
    enum vg_status status = VG_DAMAGED;
    if (S_ISREG(st.st_mode)) {
        status = vg_view_open_fd(view, fd, why_out, why_size);
    } else {
        snprintf(why_out, why_size, "not a VRAMGuard record (not a regular file)");
    }
    close(fd);
    return status;
}

void vg_view_close(struct vg_view *view)
{
    if (view->owned) {
        free(view->base);
    }
    *view = (struct vg_view){0};
}
