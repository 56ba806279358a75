/* per_thread.c -- the second forms of streams.def: for the per-thread default stream.
 * SPDX-License-Identifier: Apache-2.0
 *
 * They do what the plain ones do: this device has no difference between the two default streams.
 */
#include "tests/sim/driver/sim.h"

#define PER_THREAD(symbol, suffix, parameters, arguments)                                          \
    CUresult symbol##suffix parameters                                                             \
    {                                                                                              \
        return symbol arguments;                                                                   \
    }
#include "tests/sim/driver/streams.def"
#undef PER_THREAD
