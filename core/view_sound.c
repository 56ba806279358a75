/* view_sound.c -- is a file a record: its header, its tables, and the elements that name others.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:     view.c -> here. The file is hostile until all of this has passed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/view_parts.h"

static const uint32_t elem_bytes[VG_SEC_COUNT] = {
#define SECTION(NAME, name, element, base_count, saturated) sizeof(element),
#include "core/sections.def"
};
static const char *const section_names[VG_SEC_COUNT] = {
#define SECTION(NAME, name, element, base_count, saturated) name,
#include "core/sections.def"
};

#define DAMAGED(why_out, why_size, ...) (snprintf((why_out), (why_size), __VA_ARGS__), VG_DAMAGED)

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
    if (bytes < VG_HEADER_PAGES_BYTES) {
        return DAMAGED(why_out, why_size, "truncated: %llu bytes, the header alone has %d",
                       (unsigned long long)bytes, VG_HEADER_PAGES_BYTES);
    }
    if (header->header_bytes != sizeof *header) {
        return DAMAGED(why_out, why_size, "damaged: a header of %u bytes, expected %zu",
                       header->header_bytes, sizeof *header);
    }
    uint64_t used = atomic_load_explicit(&header->file_bytes, memory_order_relaxed);
    if (used < VG_HEADER_PAGES_BYTES || used % VG_PAGE) {
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
    if (from < VG_HEADER_PAGES_BYTES || from > used || bytes > used - from) {
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

enum vg_status vg_view_check_structure(const struct vg_header *header, uint64_t bytes,
                                       char *why_out, size_t why_size)
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

static bool freed_is_sound(const struct vg_view *view, const struct vg_freed *freed)
{
    return freed->site <= vg_view_count(view, VG_SEC_SITES);
}

static bool fault_is_sound(const struct vg_view *view, const struct vg_fault *fault)
{
    return fault->kind < VG_FAULT_COUNT && freed_is_sound(view, &fault->first);
}

static bool is_sound(const struct vg_view *view, enum vg_section_id id, uint64_t index)
{
    const void *at = vg_view_place(view, id, index);
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
    case VG_SEC_FREED:
        return freed_is_sound(view, at);
    case VG_SEC_FAULTS:
        return fault_is_sound(view, at);
    default:
        return true;
    }
}

enum vg_status vg_view_check_elements(struct vg_view *view, bool torn, char *why_out,
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
            ((struct vg_slot *)vg_view_place(view, id, i))->kind = VG_KIND_NONE;
        }
    }
    return VG_OK;
}
