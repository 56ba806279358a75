/* finish.h -- the end of a guarded process.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VG_FINISH_H
#define VG_FINISH_H

/* Notes the exit status when exit() is called. Once, when COLD ends. */
void vg_finish_register(void);

#endif
