/* quiet.h -- are what the device says and what the ledger says of one moment?
 * SPDX-License-Identifier: Apache-2.0
 *
 * A driver call that changes memory is under way from before the real call (a release leaves the
 * ledger there) until the ledger knows its outcome. A look at the device during which none was
 * under way, and none began, agrees with the ledger; any other is of several moments.
 */
#ifndef VG_QUIET_H
#define VG_QUIET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Calls under way in the low bits; above them, how many begins and ends there were. */
extern _Atomic uint64_t vg_quiet_word __attribute__((visibility("hidden")));
enum { VG_QUIET_BITS = 16 };

static inline void vg_quiet_begin(void)
{
    atomic_fetch_add(&vg_quiet_word, (UINT64_C(1) << VG_QUIET_BITS) + 1);
}
static inline void vg_quiet_end(void)
{
    atomic_fetch_add(&vg_quiet_word, (UINT64_C(1) << VG_QUIET_BITS) - 1);
}
/* Names this moment; 0: calls are under way. */
static inline uint64_t vg_quiet_now(void)
{
    uint64_t word = atomic_load(&vg_quiet_word);
    return word & ((UINT64_C(1) << VG_QUIET_BITS) - 1) ? 0 : word;
}
/* Has nothing begun since? */
static inline bool vg_quiet_since(uint64_t moment)
{
    return moment && atomic_load(&vg_quiet_word) == moment;
}

#endif
