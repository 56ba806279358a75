/* error.c -- the last error of a thread, names and texts of errors, and what is not simulated.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Holds:      a failure stays in its thread until cudaGetLastError() reads it; a later success does
 *             not clear it.
 */
#include "runtime.h"

static _Thread_local cudaError_t last_error;

cudaError_t rt_done(cudaError_t error)
{
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

/* What unsupported.c returns; declared there too, as it cannot include the header. */
int vgsim_runtime_unsupported(void);
int vgsim_runtime_unsupported(void)
{
    return rt_done(cudaErrorNotSupported);
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

static const struct {
    cudaError_t error;
    const char *name, *text;
} errors[] = {
#define ERROR(name, text) {name, #name, text},
#include "errors.def"
};

const char *cudaGetErrorName(cudaError_t error)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (errors[i].error == error)
            return errors[i].name;
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (errors[i].error == error)
            return errors[i].text;
    return "unrecognized error code";
}
