/* entry_point.c -- cudaGetDriverEntryPoint: hands out driver functions by name and version.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:      through the cuGetProcAddress that was cached with everything else, never through
 *             dlsym: whoever stands between runtime and driver saw that pointer first.
 */
#include "runtime.h"

static cudaError_t find(const char *symbol, void **funcPtr, unsigned int cudaVersion,
                        unsigned long long flags,
                        enum cudaDriverEntryPointQueryResult *driverStatus)
{
    if (!symbol || !funcPtr)
        return rt_done(cudaErrorInvalidValue);
    cudaError_t error = rt_enter_driver();
    if (error != cudaSuccess)
        return rt_done(error);
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    *funcPtr = NULL;
    error = RT_CALL(cuGetProcAddress_5, (symbol, funcPtr, (int)cudaVersion, flags, &status));
    if (driverStatus)
        *driverStatus = (enum cudaDriverEntryPointQueryResult)status;
    /* With a place for the status, a name that is not there is an answer and no failure. */
    if (error == cudaErrorSymbolNotFound && driverStatus)
        error = cudaSuccess;
    return rt_done(error);
}

/* In a program with a per-thread default stream, no flags mean that stream's functions. */
#define ENTRY_POINTS(suffix, default_flags)                                                        \
    RT_EXPORT cudaError_t cudaGetDriverEntryPointByVersion##suffix(                                \
        const char *symbol, void **funcPtr, unsigned int cudaVersion, unsigned long long flags,    \
        enum cudaDriverEntryPointQueryResult *driverStatus);                                       \
    cudaError_t cudaGetDriverEntryPointByVersion##suffix(                                          \
        const char *symbol, void **funcPtr, unsigned int cudaVersion, unsigned long long flags,    \
        enum cudaDriverEntryPointQueryResult *driverStatus)                                        \
    {                                                                                              \
        return find(symbol, funcPtr, cudaVersion, flags ? flags : default_flags, driverStatus);    \
    }                                                                                              \
    RT_EXPORT cudaError_t cudaGetDriverEntryPoint##suffix(                                         \
        const char *symbol, void **funcPtr, unsigned long long flags,                              \
        enum cudaDriverEntryPointQueryResult *driverStatus);                                       \
    cudaError_t cudaGetDriverEntryPoint##suffix(                                                   \
        const char *symbol, void **funcPtr, unsigned long long flags,                              \
        enum cudaDriverEntryPointQueryResult *driverStatus)                                        \
    {                                                                                              \
        return find(symbol, funcPtr, CUDART_VERSION, flags ? flags : default_flags, driverStatus); \
    }
ENTRY_POINTS(, cudaEnableDefault)
ENTRY_POINTS(_ptsz, cudaEnablePerThreadDefaultStream)
