/* cuda_runtime_api.h -- the part of the CUDA runtime's interface that the simulation implements.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:      stands in for the toolkit's header of the same name where no toolkit is installed.
 *             Same names, struct layouts and values as CUDA 13.0's, or 12.8's with
 *             -DCUDART_VERSION=12080, so that a program compiles against either; the simulated
 *             runtime itself is compiled against both (tests/e2e/test_sim_headers.py).
 * Not here:   what the simulation does not do; a program that uses it needs the toolkit's header.
 */
#ifndef VGSIM_CUDA_RUNTIME_API_H
#define VGSIM_CUDA_RUNTIME_API_H

#include <stddef.h>

#ifndef CUDART_VERSION
#define CUDART_VERSION 13000
#endif

#include "vgsim_cudart_names.h"

#ifdef __cplusplus
extern "C" {
#endif
/* Its names stay inside the program or library that it is linked into. */
#ifdef VGSIM_STATIC_RUNTIME
#pragma GCC visibility push(hidden)
#else
#pragma GCC visibility push(default)
#endif

#include "vgsim_cudart_enums.h"
#include "vgsim_cudart_types.h"
#include "vgsim_cudart_calls.h"

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
