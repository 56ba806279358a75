/* render_text.h -- the parts of the text report.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VG_RENDER_TEXT_H
#define VG_RENDER_TEXT_H

#include "tools/render.h"

struct vg_text {
    const struct vg_report *report;
    struct vg_symbols *symbols;
    unsigned width;
    bool color;
};

/* `lead`, then the words of `text`; further lines start under the first word. */
void vg_text_wrapped(FILE *out, const char *lead, const char *text, unsigned width);
/* The device that failed, or every device that is used: rows that add up to the total as they are
 * shown. */
void vg_text_balance(FILE *out, const struct vg_text *text);
void vg_text_sites(FILE *out, const struct vg_text *text, unsigned most);

#endif
