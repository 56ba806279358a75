/* context_query.c -- what a context says of itself, and its settings.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/sim/driver/sim.h"

/* NULL means the current one, for the calls that take a context. */
static struct CUctx_st *pick(CUcontext context, CUresult *result_out)
{
    if (!context) {
        *result_out = vgsim_current_state();
        return vgsim_current();
    }
    *result_out = vgsim_is_context(context) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    return *result_out == CUDA_SUCCESS ? context : NULL;
}

static CUresult get_device(CUdevice *out, CUcontext which)
{
    CUresult result;
    struct CUctx_st *context = pick(which, &result);
    if (context && !out)
        return CUDA_ERROR_INVALID_VALUE;
    if (context)
        *out = context->device;
    return result;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    CALL(CONTEXT, get_device(device, NULL));
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
    CALL(INIT, get_device(device, ctx));
}

static CUresult get_id(CUcontext which, unsigned long long *out)
{
    CUresult result;
    struct CUctx_st *context = pick(which, &result);
    if (context && !out)
        return CUDA_ERROR_INVALID_VALUE;
    if (context && !which)
        context = vgsim_current_itself(); /* a green one has an id of its own */
    if (context)
        *out = context->id;
    return result;
}

CUresult cuCtxGetId(CUcontext ctx, unsigned long long *ctxId)
{
    CALL(INIT, get_id(ctx, ctxId));
}

static CUresult get_api_version(CUcontext which, unsigned int *out)
{
    CUresult result;
    struct CUctx_st *context = pick(which, &result);
    if (context && !out)
        return CUDA_ERROR_INVALID_VALUE;
    if (context)
        *out = context->api_version;
    return result;
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
    CALL(INIT, get_api_version(ctx, version));
}

static CUresult get_flags(unsigned int *out)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = vgsim_current()->flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
    CALL(CONTEXT, get_flags(flags));
}

static CUresult set_flags(unsigned int flags)
{
    if (flags & ~(unsigned int)CU_CTX_FLAGS_MASK)
        return CUDA_ERROR_INVALID_VALUE;
    vgsim_current()->flags = flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags)
{
    CALL(CONTEXT, set_flags(flags));
}

static CUresult synchronize(CUcontext which)
{
    CUresult result;
    struct CUctx_st *context = pick(which, &result);
    if (context)
        result = vgsim_capture_over(context);
    if (!context || result != CUDA_SUCCESS)
        return result;
    vgsim_work_done_context(context);
    vgsim_pools_sync(context->device);
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
    CALL(CONTEXT | UNSAFE, synchronize(NULL));
}

CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
    CALL(INIT | UNSAFE, synchronize(ctx));
}

static CUresult set_limit(CUlimit limit, size_t value)
{
    if ((unsigned int)limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    vgsim_current()->limits[limit] = value;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    CALL(CONTEXT, set_limit(limit, value));
}

static CUresult get_limit(size_t *out, CUlimit limit)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if ((unsigned int)limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    *out = vgsim_current()->limits[limit];
    return CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
    CALL(CONTEXT, get_limit(pvalue, limit));
}

static CUresult priority_range(int *least_out, int *greatest_out)
{
    if (least_out)
        *least_out = 0;
    if (greatest_out)
        *greatest_out = -5;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
    CALL(CONTEXT, priority_range(leastPriority, greatestPriority));
}

static CUresult get_cache_config(CUfunc_cache *out)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = CU_FUNC_CACHE_PREFER_NONE;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *pconfig)
{
    CALL(CONTEXT, get_cache_config(pconfig));
}

/* A hint that this device does not follow, as many real ones do not. */
CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
    CALL(CONTEXT, (unsigned int)config <= 3 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuCtxResetPersistingL2Cache(void)
{
    CALL(CONTEXT, CUDA_SUCCESS);
}
