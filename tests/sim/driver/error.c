/* error.c -- names and descriptions of results.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/sim/driver/sim.h"

static const struct error {
    CUresult code;
    const char *name, *text;
} errors[] = {
#define ERROR(code, text) {code, #code, text},
#include "tests/sim/driver/errors.def"
#undef ERROR
};

static const struct error *find(CUresult code)
{
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].code == code)
            return &errors[i];
    return NULL;
}

CUresult cuGetErrorString(CUresult error, const char **pStr)
{
    const struct error *known = find(error);
    if (!pStr)
        return CUDA_ERROR_INVALID_VALUE;
    *pStr = known ? known->text : NULL;
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult error, const char **pStr)
{
    const struct error *known = find(error);
    if (!pStr)
        return CUDA_ERROR_INVALID_VALUE;
    *pStr = known ? known->name : NULL;
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
