/* green.c -- parts of a device, and green contexts that run on them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Follows:    Driver API, Green Contexts: cuGreenCtxCreate retains the primary context and
 *             cuGreenCtxDestroy releases it; cuCtxFromGreenCtx gives a context that can be made
 *             current; cuGreenCtxStreamCreate wants NON_BLOCKING; streams outlive the green
 *             context. cuDevSmResourceSplitByCount rounds a group up to the co-scheduled alignment,
 *             and with no result only tells how many there would be.
 * Holds:      memory and objects made while a green context is current are the primary context's. A
 *             green context costs a tenth of a context.
 */
#include "tests/sim/driver/sim.h"

#include <string.h>

#define SM_COUNT     132u
#define SM_ALIGNMENT 8u

struct CUdevResourceDesc_st {
    struct vgsim_object object;
    CUdevice device;
    unsigned int sm_count;
};

struct CUgreenCtx_st {
    struct vgsim_object object;
    CUdevice device;
    unsigned int sm_count;
    struct CUctx_st *context;
};

/* --- resources -------------------------------------------------------------------------------- */

/* Which device a resource came from is kept where programs do not look. */
static CUdevResource resource_of(CUdevice device, unsigned int sm_count)
{
    CUdevResource resource;
    memset(&resource, 0, sizeof resource);
    resource.type = CU_DEV_RESOURCE_TYPE_SM;
    resource.sm = (CUdevSmResource){sm_count, SM_ALIGNMENT, SM_ALIGNMENT};
    resource._internal_padding[0] = (unsigned char)(device + 1);
    return resource;
}

static bool is_resource(const CUdevResource *resource)
{
    return resource && resource->type == CU_DEV_RESOURCE_TYPE_SM &&
           vgsim_is_device(resource->_internal_padding[0] - 1) && resource->sm.smCount &&
           resource->sm.smCount <= SM_COUNT;
}

static CUresult get_resource(CUdevResource *out, CUdevice device, unsigned int sm_count,
                             CUdevResourceType type)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!vgsim_is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (type != CU_DEV_RESOURCE_TYPE_SM)
        return CUDA_ERROR_INVALID_RESOURCE_TYPE;
    *out = resource_of(device, sm_count);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetDevResource(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
    CALL(INIT, get_resource(resource, device, SM_COUNT, type));
}

static CUresult context_resource(CUcontext context, CUdevResource *out, CUdevResourceType type)
{
    if (!vgsim_is_context(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    return get_resource(out, context->device, context->green ? context->green->sm_count : SM_COUNT,
                        type);
}

CUresult cuCtxGetDevResource(CUcontext hCtx, CUdevResource *resource, CUdevResourceType type)
{
    CALL(INIT, context_resource(hCtx, resource, type));
}

static CUresult green_resource(CUgreenCtx green, CUdevResource *out, CUdevResourceType type)
{
    if (!vgsim_object_is(green, GREEN))
        return CUDA_ERROR_INVALID_CONTEXT;
    return get_resource(out, green->device, green->sm_count, type);
}

CUresult cuGreenCtxGetDevResource(CUgreenCtx hCtx, CUdevResource *resource, CUdevResourceType type)
{
    CALL(INIT, green_resource(hCtx, resource, type));
}

static CUresult split(CUdevResource *result, unsigned int *groups, const CUdevResource *input,
                      CUdevResource *remaining, unsigned int flags, unsigned int least)
{
    if (!groups || !is_resource(input) || flags > 3 || least > input->sm.smCount)
        return CUDA_ERROR_INVALID_VALUE;
    CUdevice device = input->_internal_padding[0] - 1;
    unsigned int step = flags & 1 ? 2 : SM_ALIGNMENT;
    unsigned int each = ((least ? least : 1) + step - 1) / step * step;
    unsigned int most = input->sm.smCount / each;
    if (most == 0)
        return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
    if (!result || *groups > most)
        *groups = most;
    if (!result)
        return CUDA_SUCCESS;
    for (unsigned int i = 0; i < *groups; i++)
        result[i] = resource_of(device, each);
    unsigned int rest = input->sm.smCount - *groups * each;
    if (remaining) {
        *remaining = resource_of(device, rest);
        remaining->type = rest ? CU_DEV_RESOURCE_TYPE_SM : CU_DEV_RESOURCE_TYPE_INVALID;
    }
    return CUDA_SUCCESS;
}

CUresult cuDevSmResourceSplitByCount(CUdevResource *result, unsigned int *nbGroups,
                                     const CUdevResource *input, CUdevResource *remaining,
                                     unsigned int useFlags, unsigned int minCount)
{
    CALL(INIT, split(result, nbGroups, input, remaining, useFlags, minCount));
}

static CUresult generate(CUdevResourceDesc *out, const CUdevResource *resources, unsigned int count)
{
    if (!out || !resources || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    unsigned int sm_count = 0;
    for (unsigned int i = 0; i < count; i++) {
        if (!is_resource(&resources[i]))
            return CUDA_ERROR_INVALID_RESOURCE_TYPE;
        if (resources[i]._internal_padding[0] != resources[0]._internal_padding[0])
            return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
        sm_count += resources[i].sm.smCount;
    }
    struct CUdevResourceDesc_st *desc = vgsim_object_add(RESOURCES, sizeof *desc, NULL);
    if (!desc)
        return CUDA_ERROR_OUT_OF_MEMORY;
    desc->device = resources[0]._internal_padding[0] - 1;
    desc->sm_count = sm_count;
    *out = desc;
    return CUDA_SUCCESS;
}

CUresult cuDevResourceGenerateDesc(CUdevResourceDesc *phDesc, CUdevResource *resources,
                                   unsigned int nbResources)
{
    CALL(INIT, generate(phDesc, resources, nbResources));
}

/* --- green contexts --------------------------------------------------------------------------- */

static CUresult create(CUgreenCtx *out, CUdevResourceDesc desc, CUdevice device, unsigned int flags)
{
    if (!out || !vgsim_object_is(desc, RESOURCES) || !(flags & CU_GREEN_CTX_DEFAULT_STREAM))
        return CUDA_ERROR_INVALID_VALUE;
    if (!vgsim_is_device(device) || desc->device != device)
        return CUDA_ERROR_INVALID_DEVICE;
    struct CUgreenCtx_st *green = vgsim_object_add(GREEN, sizeof *green, NULL);
    if (!green)
        return CUDA_ERROR_OUT_OF_MEMORY;
    green->device = device;
    green->sm_count = desc->sm_count;
    CUresult result = vgsim_green_open(green, device, &green->context);
    if (result != CUDA_SUCCESS) {
        vgsim_object_remove(green);
        return result;
    }
    *out = green;
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxCreate(CUgreenCtx *phCtx, CUdevResourceDesc desc, CUdevice dev,
                          unsigned int flags)
{
    CALL(INIT | UNSAFE, create(phCtx, desc, dev, flags));
}

static CUresult destroy(CUgreenCtx green)
{
    if (!vgsim_object_is(green, GREEN))
        return CUDA_ERROR_INVALID_CONTEXT;
    vgsim_green_close(green->context);
    vgsim_object_remove(green);
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxDestroy(CUgreenCtx hCtx)
{
    CALL(INIT | UNSAFE, destroy(hCtx));
}

static CUresult convert(CUcontext *out, CUgreenCtx green)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!vgsim_object_is(green, GREEN))
        return CUDA_ERROR_INVALID_CONTEXT;
    *out = green->context;
    return CUDA_SUCCESS;
}

CUresult cuCtxFromGreenCtx(CUcontext *pContext, CUgreenCtx hCtx)
{
    CALL(INIT, convert(pContext, hCtx));
}

static CUresult get_id(CUgreenCtx green, unsigned long long *out)
{
    if (!vgsim_object_is(green, GREEN))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = green->context->id;
    return CUDA_SUCCESS;
}

CUresult cuGreenCtxGetId(CUgreenCtx greenCtx, unsigned long long *greenCtxId)
{
    CALL(INIT, get_id(greenCtx, greenCtxId));
}

static CUresult new_stream(CUstream *out, CUgreenCtx green, unsigned int flags, int priority)
{
    if (!vgsim_object_is(green, GREEN))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (flags != CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    return vgsim_stream_new(out, flags, priority, green->context->primary);
}

CUresult cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx greenCtx, unsigned int flags,
                                int priority)
{
    CALL(INIT, new_stream(phStream, greenCtx, flags, priority));
}
