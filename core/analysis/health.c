/* health.c -- what a reader must know about the record itself before trusting a report.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>

#include "core/analysis/analysis.h"

void vg_analysis_health(struct vg_report *report)
{
    const struct vg_header *header = report->view->header;
    char text[VG_BYTES_TEXT_MAX];
    if (report->view->recomputed)
        vg_report_note(report, "the record ends in the middle of an event: every counter was made "
                               "again from the live allocations");
    if (header->unlisted_count)
        vg_report_note(report,
                       "the record is full: %" PRIu64
                       " live allocations of %s are in every sum, but not listed one by one",
                       header->unlisted_count, vg_bytes_text(text, header->unlisted_bytes));
    if (header->saturated & ~(uint32_t)VG_SAT_SLOTS)
        vg_report_note(report, "the record is full: some sites, stacks or names are missing");
    if (header->dropped_count)
        vg_report_note(report,
                       "%" PRIu64
                       " events are not counted: the guard was busy, or there was no memory for it",
                       header->dropped_count);
    if (header->duplicate_count)
        vg_report_note(
            report,
            "%" PRIu64
            " allocations came at an address that was still live: frees went past the guard",
            header->duplicate_count);
    if (header->failed_free_count)
        vg_report_note(report, "%" PRIu64 " frees were refused by the driver",
                       header->failed_free_count);
}
