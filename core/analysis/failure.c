/* failure.c -- the failed request: what was wanted, by whom, where.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/analysis/analysis.h"

void vg_analysis_failure(struct vg_report *report)
{
    const struct vg_incident *failure = report->failure;
    if (!failure)
        return;
    report->request_bytes =
        failure->requested_bytes != VG_UNKNOWN ? failure->requested_bytes : failure->bytes;
    report->failure_library = vg_report_library(report->view, failure->stack);
    report->failure_name = failure->error ? vg_error_name(failure->error) : NULL;
    for (unsigned i = 0; i < report->device_count; i++)
        if (report->devices[i].index + 1 == failure->device)
            report->failure_device = &report->devices[i];
}
