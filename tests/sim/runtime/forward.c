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
#include "forward.def"
