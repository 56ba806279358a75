/* analysis.h -- the rows of analysis.def and verdict rules as prototypes.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VG_ANALYSIS_H
#define VG_ANALYSIS_H

#include "core/analysis/report.h"

#define ANALYSIS(name) void vg_analysis_##name(struct vg_report *report);
#include "core/analysis/analysis.def"

/* In sums, where what is unknown counts as 0. */
static inline uint64_t vg_known(uint64_t bytes)
{
    return bytes == VG_UNKNOWN ? 0 : bytes;
}

/* What the rules of a verdict look at: one failure and its device, unknown values as VG_UNKNOWN. */
struct vg_facts {
    const struct vg_report *report;
    const struct vg_incident *incident;
    const struct vg_report_device *device; /* NULL: unknown */
    uint64_t asked_bytes; /* the larger of the driver's call and the framework's request */
    uint64_t total_bytes, free_bytes;
    uint64_t own_bytes, others_bytes; /* this process: tracked, idle pools, contexts */
    /* how much the request exceeds free; VG_UNKNOWN where it does not or free is unknown */
    uint64_t short_bytes;
    uint64_t available_bytes; /* host memory that can be had: MemAvailable, cgroup */
    enum vg_kind kind;        /* of the failing call */
    bool host;                /* it asked for host memory, or for memory that the host backs */
    bool out_of_memory;       /* what the error code says */
    bool called;              /* a driver call was made (a framework can refuse by itself) */
    uint32_t platform;
    const struct vg_report_site *largest; /* live site on the device, NULL none */
};
void vg_facts_of(const struct vg_report *report, struct vg_facts *out);
enum vg_verdict_class vg_verdict_class_of(const struct vg_facts *facts, double *confidence_out);
bool vg_request_may_be_meant(const struct vg_facts *facts);
/* Summary and evidence of the class that report->verdict holds. */
void vg_verdict_describe(struct vg_report *report, const struct vg_facts *facts);
/* The rows of advice.def for this class whose condition holds. */
void vg_advice_add(struct vg_report *report, const struct vg_facts *facts);

#endif
