/* view.c -- reading a record: the copy of one moment, and access to what is in it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Holds:     after an open, every chunk lies inside the copy, and every index in sites, slots,
 *            devices, contexts and incidents is in range. Strings and stacks are checked where they
 *            are looked up.
 * Not here:  what a sound file is (view_sound.c), sums and invariants (view_check.c), making
 *            counters again (view_repair.c).
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

#include "core/view_parts.h"
#include "core/view_sums.h"

/* A record that is in the middle of an event three times in a row has most likely lost its writer
 * there. */
enum { TRIES = 20, STRUCTURE_TRIES = 40, HALVES = 3 };

/* --- access ----------------------------------------------------------------------------------- */

uint64_t vg_view_count(const struct vg_view *view, enum vg_section_id section)
{
    return atomic_load_explicit(&view->header->section[section].count, memory_order_relaxed);
}

void *vg_view_place(const struct vg_view *view, enum vg_section_id id, uint64_t index)
{
    const struct vg_section *section = &view->header->section[id];
    uint32_t k = vg_chunk_of(section->base_count, index);
    uint64_t within = index - vg_chunk_first(section->base_count, k);
    return view->base + (uint64_t)section->page[k] * VG_PAGE + within * section->elem_bytes;
}

const void *vg_view_at(const struct vg_view *view, enum vg_section_id section, uint64_t index)
{
    return index < vg_view_count(view, section) ? vg_view_place(view, section, index) : NULL;
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

const struct vg_fault *vg_view_fault(const struct vg_view *view, uint64_t index)
{
    return vg_view_at(view, VG_SEC_FAULTS, index);
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
    return n <= chunk_end - index ? vg_view_place(view, id, index) : NULL;
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

/* --- opening -------------------------------------------------------------------------------- */

static bool is_half_applied(const struct vg_header *header)
{
    return atomic_load_explicit(&header->intent, memory_order_relaxed) != 0 ||
           (atomic_load_explicit(&header->seq, memory_order_relaxed) & 1);
}

static enum vg_status finish_open(struct vg_view *view, bool torn, char *why_out, size_t why_size)
{
    torn = torn || is_half_applied(view->header);
    enum vg_status status = vg_view_check_elements(view, torn, why_out, why_size);
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
    enum vg_status status = vg_view_check_structure(base, bytes, why_out, why_size);
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
        uint8_t pages[VG_HEADER_PAGES_BYTES];
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
    enum vg_status status = vg_view_check_structure(&out->header, size, why_out, why_size);
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
