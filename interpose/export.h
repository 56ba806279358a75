/* export.h -- what is visible outside the library: everything else is hidden by the build.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VG_EXPORT_H
#define VG_EXPORT_H

#define VG_EXPORT   __attribute__((visibility("default")))
#define VG_NOINLINE __attribute__((noinline))
#define VG_COLD     __attribute__((cold, noinline))

#endif
