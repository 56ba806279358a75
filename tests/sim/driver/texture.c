/* texture.c -- texture and surface objects: names for arrays and memory, with nothing of their own.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Follows:    Driver API, Texture Object Management and Surface Object Management.
 */
#include "tests/sim/driver/sim.h"

struct texture {
    struct vgsim_object object;
    CUDA_RESOURCE_DESC resource;
};

static bool is_resource(const CUDA_RESOURCE_DESC *resource)
{
    switch (resource->resType) {
    case CU_RESOURCE_TYPE_ARRAY:
        return vgsim_object_is(resource->res.array.hArray, ARRAY);
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
        return vgsim_object_is(resource->res.mipmap.hMipmappedArray, MIPMAP);
    case CU_RESOURCE_TYPE_LINEAR:
        return vgsim_block_at((uintptr_t)resource->res.linear.devPtr) != NULL;
    case CU_RESOURCE_TYPE_PITCH2D:
        return vgsim_block_at((uintptr_t)resource->res.pitch2D.devPtr) != NULL;
    default:
        return false;
    }
}

static CUresult create(unsigned long long *out, const CUDA_RESOURCE_DESC *resource,
                       enum vgsim_type type)
{
    if (!out || !resource || resource->flags || !is_resource(resource) ||
        (type == SURFACE && resource->resType != CU_RESOURCE_TYPE_ARRAY))
        return CUDA_ERROR_INVALID_VALUE;
    struct texture *texture = vgsim_object_add(type, sizeof *texture, vgsim_current());
    if (!texture)
        return CUDA_ERROR_OUT_OF_MEMORY;
    texture->resource = *resource;
    *out = (uintptr_t)texture;
    return CUDA_SUCCESS;
}

CUresult cuTexObjectCreate(CUtexObject *pTexObject, const CUDA_RESOURCE_DESC *pResDesc,
                           const CUDA_TEXTURE_DESC *pTexDesc,
                           const CUDA_RESOURCE_VIEW_DESC *pResViewDesc)
{
    (void)pResViewDesc;
    CALL(CONTEXT, pTexDesc ? create(pTexObject, pResDesc, TEXTURE) : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuSurfObjectCreate(CUsurfObject *pSurfObject, const CUDA_RESOURCE_DESC *pResDesc)
{
    CALL(CONTEXT, create(pSurfObject, pResDesc, SURFACE));
}

static CUresult destroy(unsigned long long number, enum vgsim_type type)
{
    struct texture *texture = (struct texture *)(uintptr_t)number;
    if (!vgsim_object_is(texture, type))
        return CUDA_ERROR_INVALID_VALUE;
    vgsim_object_remove(texture);
    return CUDA_SUCCESS;
}

CUresult cuTexObjectDestroy(CUtexObject texObject)
{
    CALL(CONTEXT, destroy(texObject, TEXTURE));
}

CUresult cuSurfObjectDestroy(CUsurfObject surfObject)
{
    CALL(CONTEXT, destroy(surfObject, SURFACE));
}

static CUresult describe(CUDA_RESOURCE_DESC *out, unsigned long long number, enum vgsim_type type)
{
    struct texture *texture = (struct texture *)(uintptr_t)number;
    if (!out || !vgsim_object_is(texture, type))
        return CUDA_ERROR_INVALID_VALUE;
    *out = texture->resource;
    return CUDA_SUCCESS;
}

CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUtexObject texObject)
{
    CALL(CONTEXT, describe(pResDesc, texObject, TEXTURE));
}

CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUsurfObject surfObject)
{
    CALL(CONTEXT, describe(pResDesc, surfObject, SURFACE));
}
