/* report.h -- the model of a report: what its keys say, as C structures.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Renderers read it, analyses fill it.
 *
 * Place:   view -> analyses (rows of analysis.def, in order) -> this model -> render_text,
 *          render_json, ... (tools/)
 * Holds:   bytes are integers, VG_UNKNOWN is "not known" (null in JSON), times are seconds. Strings
 *          belong to the view or to the report's own store; nothing is symbolized here: a stack is
 *          an id of the view.
 * Threads: made and used by one thread.
 */
#ifndef VG_REPORT_H
#define VG_REPORT_H

#include "core/view.h"

enum vg_verdict_class {
#define VERDICT(NAME, key) VG_VERDICT_##NAME,
#include "core/analysis/verdict.def"
    VG_VERDICT_COUNT
};
const char *vg_verdict_key(enum vg_verdict_class verdict);

enum vg_object {
#define OBJECT(NAME, key, KIND, remarkable) VG_OBJECT_##NAME,
#include "core/analysis/objects.def"
    VG_OBJECT_COUNT
};
enum { VG_OBJECT_PLACES_MAX = 5 };
struct vg_object_place {
    uint32_t stack;
    uint64_t live;
};
/* Streams, events, ...: how many there are, and the stacks that made most of the live ones. */
struct vg_objects {
    uint64_t live, created, destroyed;
    struct vg_object_place top[VG_OBJECT_PLACES_MAX];
    unsigned top_count;
};

/* Bytes of one library, of one device. The list of a device sums to its tracked_bytes. */
struct vg_library_bytes {
    const char *library; /* base name; "unknown" where no stack tells */
    uint64_t bytes;
    /* the part of them that a caching allocator of the framework holds as segments */
    uint64_t framework_bytes;
};

/* What a caching allocator holds on a device. */
struct vg_framework {
    const char *name; /* "torch" */
    uint64_t reserved_bytes, allocated_bytes, cached_bytes;
    uint64_t largest_gap_bytes;
    uint64_t small_gaps_bytes; /* gaps smaller than the failed request; VG_UNKNOWN without one */
    uint64_t private_gaps_bytes;
    double fragmentation;
    uint64_t live_blocks, segments;
};

struct vg_report_context {
    const struct vg_context *context;
    uint64_t overhead_bytes; /* VG_UNKNOWN */
};

struct vg_report_device {
    const struct vg_device *device;
    uint32_t index; /* in DEVICES */
    int32_t ordinal;
    uint64_t total_bytes, free_bytes; /* VG_UNKNOWN: never looked */
    const char *free_source;          /* "cuMemGetInfo", "nvml" or NULL */
    double free_age_seconds;          /* the last look, before the last event; 0 at an incident */
    uint64_t tracked_bytes, peak_bytes, alloc_count, free_count, pool_idle_bytes;
    uint32_t kinds_used; /* bit k: enum vg_kind k has had allocations here */
    struct vg_library_bytes *libraries;
    unsigned library_count;
    bool has_framework;
    struct vg_framework framework;
    struct vg_report_context *contexts;
    unsigned context_count;
    uint64_t overhead_bytes; /* sum of the contexts'; VG_UNKNOWN where none is known */
    uint64_t others_bytes;   /* sum without may_be_this_process and unknown ones */
    bool has_unattributed;
    int64_t unattributed_bytes;
};

struct vg_report_site {
    const struct vg_site *site;
    uint32_t id; /* index + 1 in SITES: the `id` of the report */
    const char *library;
    uint64_t at_peak_bytes;
    /* Of its live allocations: bytes made while a stream captured; the thread that made them and
     * the stream they were ordered in, 0 where there are several (or none is stream-ordered). */
    uint64_t captured_bytes, stream;
    uint32_t thread;
    bool has_live; /* a slot of it was seen */
    /* Driver memory asked for by the framework's caching allocator: its blocks have their own
     * sites. */
    bool segment;
};

struct vg_evidence {
    char *text;
    bool has_value;
    double value;
    bool exact; /* bytes below are the value */
    uint64_t bytes;
    const char *unit; /* "bytes", "percent", "seconds", NULL */
    /* Id of the site whose place the renderer puts behind the text; 0 none. */
    uint32_t site;
    bool is_shown; /* the text report says it elsewhere: in the summary, or in a table */
};
struct vg_advice {
    const char *action;  /* short key, from advice.def */
    uint64_t gain_bytes; /* VG_UNKNOWN */
    char *text;
    uint32_t site; /* as in struct vg_evidence */
};

struct vg_report {
    const struct vg_view *view;
    enum vg_incident_kind kind;
    const struct vg_incident *failure;  /* NULL: none in this report */
    const struct vg_incident *incident; /* what the report is about; NULL: the state as it is */
    const struct vg_report_device
        *failure_device; /* NULL: unknown, or host memory without a context */
    const char *failure_library, *failure_name; /* who asked; the error's name or NULL */
    /* what the caller wanted: the framework's figure where there is one; VG_UNKNOWN */
    uint64_t request_bytes;
    uint64_t time_ns; /* the moment of the report, since the start of the record */
    double uptime;
    struct vg_report_device *devices;
    unsigned device_count;
    struct vg_report_site *sites; /* by live_bytes, descending */
    unsigned site_count;
    struct {
        enum vg_verdict_class verdict;
        double confidence;
        char *summary;
        struct vg_evidence *evidence;
        unsigned evidence_count;
        struct vg_advice *advice;
        unsigned advice_count;
    } verdict;
    char **notes; /* hooks.notes[] */
    unsigned note_count;
    bool alive;            /* set by the tool */
    uint64_t pinned_bytes; /* host memory of kind pinned */
    struct vg_objects objects[VG_OBJECT_COUNT];
    const char **site_libraries;    /* by index in SITES; NULL where the site is not in `sites` */
    struct vg_report_piece *pieces; /* the report's own store */
};

struct vg_report_request {
    /* index + 1 in INCIDENTS of the view; 0: the state as it is (exit or snapshot) */
    uint32_t incident;
    bool alive;
    /* since the start of the record, where alive; 0: the last event is the moment of the report */
    uint64_t now_ns;
};

/* Runs every analysis. VG_OK or VG_INVALID (no such incident). Aborts only where malloc fails. */
enum vg_status vg_report_build(const struct vg_view *view, const struct vg_report_request *request,
                               struct vg_report *out);
void vg_report_free(struct vg_report *report);

const char *vg_object_key(enum vg_object object);
/* So many that people want to know: more than one context on a device, more than a thousand
 * streams. */
bool vg_objects_are_remarkable(const struct vg_report *report, enum vg_object object);

/* For analyses. The store lives as long as the report; memory from it is zeroed. */
void *vg_report_alloc(struct vg_report *report, size_t count, size_t size);
/* Room for one more element behind `count`: the array or its copy, twice as large. */
void *vg_report_grow(struct vg_report *report, void *array, size_t count, size_t size);
char *vg_report_format(struct vg_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The result is valid until the next line of evidence. */
struct vg_evidence *vg_report_evidence(struct vg_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void vg_report_note(struct vg_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

const char *vg_base_name(const char *path); /* of a folder's path ("/a/"): all of it */
bool vg_text_starts(const char *text, const char *with);

/* The module that owns a stack: the innermost native frame that is not plumbing; base name;
 * "unknown" where there is none. */
const char *vg_report_library(const struct vg_view *view, uint32_t stack);
/* A module that allocates for others: the driver, a CUDA runtime, the guard, or Python's bridge to
 * C. */
bool vg_report_is_plumbing(const char *module_path);
/* Does a native frame of this stack lie in a module whose base name starts so? */
bool vg_report_stack_has(const struct vg_view *view, uint32_t stack, const char *module_prefix);

/* "512.0 MiB"; bytes below 1 KiB exact. Returns `buffer`. */
enum { VG_BYTES_TEXT_MAX = 32 };
const char *vg_bytes_text(char buffer[VG_BYTES_TEXT_MAX], uint64_t bytes);
/* The driver's name of an error code, or NULL. */
const char *vg_error_name(int32_t code);

#endif
