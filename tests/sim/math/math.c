/* math.c -- the few cuBLAS calls that a linear layer and a matmul make.
 * SPDX-License-Identifier: Apache-2.0
 *
 * For real torch on the simulated GPU.
 *
 * Place:      preloaded before the real libcublas, which cannot start on a simulated driver (it
 *             holds a static runtime). Everything that is not here goes to the real library and
 *             fails there.
 * Holds:      a handle is a number that is never looked into; only calls with a host output have a
 *             body.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

typedef enum { SUCCESS = 0, INVALID_VALUE = 7 } status;

#define SUCCEED(name)                                                                              \
    EXPORT status name(void);                                                                      \
    status name(void)                                                                              \
    {                                                                                              \
        return SUCCESS;                                                                            \
    }
#include "succeed.def"

/* Every object is this one. */
static char object;

#define CREATES(name)                                                                              \
    EXPORT status name(void **object_out);                                                         \
    status name(void **object_out)                                                                 \
    {                                                                                              \
        if (!object_out)                                                                           \
            return INVALID_VALUE;                                                                  \
        *object_out = &object;                                                                     \
        return SUCCESS;                                                                            \
    }
CREATES(cublasCreate_v2)
CREATES(cublasLtCreate)
CREATES(cublasLtMatmulDescCreate)
CREATES(cublasLtMatrixLayoutCreate)
CREATES(cublasLtMatmulPreferenceCreate)

EXPORT status cublasGetMathMode(void *handle, int *mode_out);
EXPORT status cublasGetPointerMode_v2(void *handle, int *mode_out);
EXPORT size_t cublasLtGetVersion(void);
EXPORT status cublasLtMatmulAlgoGetHeuristic(void *handle, void *operation, void *a, void *b,
                                             void *c, void *d, void *preference, int wanted,
                                             void *results, int *count_out);

status cublasGetMathMode(void *handle, int *mode_out)
{
    (void)handle;
    *mode_out = 0; /* default */
    return SUCCESS;
}

status cublasGetPointerMode_v2(void *handle, int *mode_out)
{
    (void)handle;
    *mode_out = 0; /* scalars lie in host memory */
    return SUCCESS;
}

size_t cublasLtGetVersion(void)
{
    return 130100;
}

/* One of cuBLASLt's answers; all zero is an algorithm without workspace that works. */
struct heuristic {
    uint64_t algorithm[8];
    size_t workspace_bytes;
    status state;
    float waves;
    int reserved[4];
};

status cublasLtMatmulAlgoGetHeuristic(void *handle, void *operation, void *a, void *b, void *c,
                                      void *d, void *preference, int wanted, void *results,
                                      int *count_out)
{
    (void)handle, (void)operation, (void)a, (void)b, (void)c, (void)d, (void)preference;
    if (wanted < 1 || !results || !count_out)
        return INVALID_VALUE;
    memset(results, 0, sizeof(struct heuristic));
    *count_out = 1;
    return SUCCESS;
}
