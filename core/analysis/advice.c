/* advice.c -- the conditions and figures that rows of advice.def name, and the rows that apply.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "core/analysis/analysis.h"

static bool when_always(const struct vg_facts *facts)
{
    return facts->incident;
}
static bool when_pins(const struct vg_facts *facts)
{
    return facts->report->pinned_bytes;
}
static bool when_host_call(const struct vg_facts *facts)
{
    return facts->host && facts->out_of_memory;
}
static bool when_other_error(const struct vg_facts *facts)
{
    return !facts->out_of_memory;
}
static bool when_empty_device(const struct vg_facts *facts)
{
    return !facts->host && facts->out_of_memory;
}
static bool when_largest_would_do(const struct vg_facts *facts)
{
    return facts->called && facts->largest &&
           (facts->short_bytes == VG_UNKNOWN ||
            facts->largest->site->live_bytes >= facts->short_bytes);
}
static bool when_is_short(const struct vg_facts *facts)
{
    return facts->called && facts->short_bytes != VG_UNKNOWN;
}
static bool asks_torch(const struct vg_facts *facts)
{
    return strcmp(vg_view_string(facts->report->view, facts->incident->family), "torch") == 0;
}
static bool when_torch_is_short(const struct vg_facts *facts)
{
    return when_is_short(facts) && asks_torch(facts);
}
static bool when_other_is_short(const struct vg_facts *facts)
{
    return when_is_short(facts) && !asks_torch(facts);
}
static bool when_may_be_meant(const struct vg_facts *facts)
{
    return when_is_short(facts) && vg_request_may_be_meant(facts);
}
static bool when_refused_by_framework(const struct vg_facts *facts)
{
    return !facts->called;
}
static bool when_others_would_do(const struct vg_facts *facts)
{
    return when_is_short(facts) && facts->others_bytes >= facts->short_bytes;
}
/* Gaps that are each too small, yet together with free memory would hold the request. */
static bool when_gaps_would_do(const struct vg_facts *facts)
{
    return when_is_short(facts) && facts->device->has_framework &&
           facts->device->framework.small_gaps_bytes != VG_UNKNOWN &&
           facts->device->framework.small_gaps_bytes >= facts->short_bytes;
}

static uint64_t gain_nothing(const struct vg_facts *facts)
{
    (void)facts;
    return VG_UNKNOWN;
}
static uint64_t gain_others(const struct vg_facts *facts)
{
    return facts->others_bytes;
}
static uint64_t gain_pinned(const struct vg_facts *facts)
{
    return facts->report->pinned_bytes;
}
static uint64_t gain_largest(const struct vg_facts *facts)
{
    return facts->largest->site->live_bytes;
}
static uint64_t gain_small_gaps(const struct vg_facts *facts)
{
    return facts->device->framework.small_gaps_bytes;
}
static uint64_t gain_short_by(const struct vg_facts *facts)
{
    return facts->short_bytes;
}

static const struct row {
    enum vg_verdict_class verdict;
    const char *action, *text;
    bool (*when)(const struct vg_facts *facts);
    uint64_t (*gain)(const struct vg_facts *facts);
} rows[] = {
#define ADVICE(CLASS, action, when, gain, text)                                                    \
    {VG_VERDICT_##CLASS, action, text, when_##when, gain_##gain},
#include "core/analysis/advice.def"
};

void vg_advice_add(struct vg_report *report, const struct vg_facts *facts)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *row = &rows[i];
        if (row->verdict != report->verdict.verdict || !row->when(facts))
            continue;
        unsigned count = report->verdict.advice_count;
        report->verdict.advice =
            vg_report_grow(report, report->verdict.advice, count, sizeof *report->verdict.advice);
        report->verdict.advice[count] = (struct vg_advice){
            .action = row->action,
            .text = vg_report_format(report, "%s", row->text),
            .gain_bytes = row->gain(facts),
            .site = row->gain == gain_largest ? facts->largest->id : 0,
        };
        report->verdict.advice_count = count + 1;
    }
}
