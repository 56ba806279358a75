/* runtime.h -- inside the simulated CUDA runtime.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The cached driver table, entering a call and leaving it.
 *
 * Every function of the runtime has one shape: enter (driver loaded, where needed a context
 * current), driver calls, rt_done() with the outcome. Results of the driver and of the runtime have
 * the same numbers.
 */
#ifndef VGSIM_RUNTIME_H
#define VGSIM_RUNTIME_H

#include <cuda.h>
#include <cuda_runtime_api.h>

struct CUmipmappedArray_st; /* CUmipmappedArray, of which the runtime only passes pointers on */

#define CALL(name, since, params) CUresult(*name) params;
#define CALL_PS(name, since, since_ps, params)                                                     \
    CUresult(*name) params;                                                                        \
    CUresult(*name##_ptsz) params;
#define CALL_AS(field, name, since, params) CUresult(*field) params;
#define CALL_AS_PS(field, name, since, params)                                                     \
    CUresult(*field) params;                                                                       \
    CUresult(*field##_ptsz) params;
struct rt_driver {
#include "driver.def"
};
#undef CALL
#undef CALL_PS
#undef CALL_AS
#undef CALL_AS_PS

/* The cached pointers, good for the process's life once rt_enter_driver() succeeded. NULL: the
 * driver lacks it. */
extern struct rt_driver rt_driver;

/* Calls a driver function; cudaErrorNotSupported where the driver has none. */
#define RT_CALL(fn, args) (rt_driver.fn ? (cudaError_t)rt_driver.fn args : cudaErrorNotSupported)

/* The same of the form for a per-thread default stream, where that is asked for. */
#define RT_CALL_PS(per_thread, fn, args)                                                           \
    ((per_thread) ? RT_CALL(fn##_ptsz, args) : RT_CALL(fn, args))

/* For a function that the header does not declare: the second forms, and what the compiler
 * calls. */
#ifdef VGSIM_STATIC_RUNTIME
#define RT_EXPORT __attribute__((visibility("hidden")))
#else
#define RT_EXPORT __attribute__((visibility("default")))
#endif

/* Loads the driver at the process's first call and initialises it. Returns the outcome of that one
 * time. */
cudaError_t rt_enter_driver(void);
/* The same, and makes the calling thread's context current: its own, else the primary one of its
 * device. */
cudaError_t rt_enter(void);
/* Refuses a device number that is none. */
cudaError_t rt_check_device(int device);
/* Records a failure for cudaGetLastError() and hands it back. Every function returns through it. */
cudaError_t rt_done(cudaError_t error);

#endif
