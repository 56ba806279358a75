/* forward.c -- expands forward.def: the runtime functions that are one driver call.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "runtime.h"

#include <stdint.h>

#define FORWARD(name, params, call, args)                                                          \
    cudaError_t name params                                                                        \
    {                                                                                              \
        cudaError_t error = rt_enter();                                                            \
        return rt_done(error == cudaSuccess ? RT_CALL(call, args) : error);                        \
    }
/* The second form calls the driver's second form; no header declares it. */
#define FORWARD_PS(suffix, name, params, call, args)                                               \
    FORWARD(name, params, call, args)                                                              \
    RT_EXPORT cudaError_t name##suffix params;                                                     \
    FORWARD(name##suffix, params, call##_ptsz, args)
/* A name that is itself made by a macro. */
#define FORWARD_NAMED(name, params, call, args)                                                    \
    RT_EXPORT cudaError_t name params;                                                             \
    FORWARD(name, params, call, args)
#include "forward.def"
