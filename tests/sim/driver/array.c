/* array.c -- arrays and mipmapped arrays: opaque layouts in device memory.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Follows:    Driver API, Memory Management: cuArray3DCreate (which extents and flags there are),
 *             cuMipmappedArrayCreate (levels), cuArrayGetMemoryRequirements (only arrays with
 *             deferred mapping may be asked; VGSIM_ARRAY_SIZE=any answers for all).
 * Holds:      rows are padded to 512 bytes and 8 rows, an array and each level of a mipmap to 64
 *             KiB; that is its size, and what it takes of the device as cuMemAlloc would. With
 *             deferred mapping it takes nothing.
 * Not here:   sparse arrays and mapping memory into arrays (refused), planar and block-compressed
 *             formats.
 */
#include "tests/sim/driver/sim.h"

#define ROW_BYTES  ((size_t)512)
#define ROW_COUNT  ((size_t)8)
#define ALIGNMENT  ((size_t)64 << 10)
#define MAX_EXTENT ((size_t)1 << 17)
#define KNOWN_FLAGS                                                                                \
    (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST | CUDA_ARRAY3D_CUBEMAP |                     \
     CUDA_ARRAY3D_TEXTURE_GATHER | CUDA_ARRAY3D_DEPTH_TEXTURE | CUDA_ARRAY3D_COLOR_ATTACHMENT |    \
     CUDA_ARRAY3D_DEFERRED_MAPPING | CUDA_ARRAY3D_VIDEO_ENCODE_DECODE)

struct CUarray_st {
    struct vgsim_object object;
    CUDA_ARRAY3D_DESCRIPTOR desc;
    struct CUmipmappedArray_st *mipmap; /* whose level it is */
    struct vgsim_block *block;          /* NULL: deferred, or the mipmap's */
    uintptr_t address;                  /* 0: nothing is mapped */
};

struct CUmipmappedArray_st {
    struct vgsim_object object;
    CUDA_ARRAY3D_DESCRIPTOR desc;
    unsigned int levels;
    struct vgsim_block *block;
    uintptr_t address;
    struct CUarray_st *level[32]; /* made when they are asked for */
};

/* --- layouts ---------------------------------------------------------------------------------- */

static size_t element_bytes(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    switch (desc->Format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return desc->NumChannels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2 * (size_t)desc->NumChannels;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 4 * (size_t)desc->NumChannels;
    default:
        return 0;
    }
}

static size_t padded(size_t value, size_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

static size_t pitch_of(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    return padded(desc->Width * element_bytes(desc), ROW_BYTES);
}

static size_t rows_of(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    return padded(desc->Height ? desc->Height : 1, ROW_COUNT);
}

static size_t size_of(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    return padded(pitch_of(desc) * rows_of(desc) * (desc->Depth ? desc->Depth : 1), ALIGNMENT);
}

static bool extents_fit_flags(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    bool layered = desc->Flags & CUDA_ARRAY3D_LAYERED, cube = desc->Flags & CUDA_ARRAY3D_CUBEMAP;
    if (desc->Width == 0 || desc->Width > MAX_EXTENT || desc->Height > MAX_EXTENT ||
        desc->Depth > MAX_EXTENT)
        return false;
    if (cube)
        return desc->Width == desc->Height &&
               (layered ? desc->Depth && desc->Depth % 6 == 0 : desc->Depth == 6);
    if (layered)
        return desc->Depth != 0;
    return !desc->Depth || desc->Height;
}

static CUresult check(const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    if (!desc || (desc->NumChannels != 1 && desc->NumChannels != 2 && desc->NumChannels != 4))
        return CUDA_ERROR_INVALID_VALUE;
    if (desc->Flags & CUDA_ARRAY3D_SPARSE)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (desc->Flags & ~(unsigned int)KNOWN_FLAGS || !extents_fit_flags(desc))
        return CUDA_ERROR_INVALID_VALUE;
    return element_bytes(desc) ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

/* --- arrays ----------------------------------------------------------------------------------- */

static CUresult create(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
    CUresult result = out ? check(desc) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    struct CUarray_st *array = vgsim_object_add(ARRAY, sizeof *array, vgsim_current());
    if (!array)
        return CUDA_ERROR_OUT_OF_MEMORY;
    array->desc = *desc;
    if (!(desc->Flags & CUDA_ARRAY3D_DEFERRED_MAPPING)) {
        array->block = vgsim_memory_take(VGSIM_KIND_array, size_of(desc));
        if (!array->block) {
            vgsim_object_remove(array);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        array->address = array->block->address;
    }
    *out = array;
    return CUDA_SUCCESS;
}

CUresult cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)
{
    CALL(CONTEXT | UNSAFE, create(pHandle, pAllocateArray));
}

static CUresult create_plane(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *desc)
{
    if (!desc)
        return CUDA_ERROR_INVALID_VALUE;
    CUDA_ARRAY3D_DESCRIPTOR wide = {.Width = desc->Width,
                                    .Height = desc->Height,
                                    .Format = desc->Format,
                                    .NumChannels = desc->NumChannels};
    return create(out, &wide);
}

CUresult cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray)
{
    CALL(CONTEXT | UNSAFE, create_plane(pHandle, pAllocateArray));
}

/* A level of a mipmap goes with the mipmap. */
static CUresult destroy(CUarray array)
{
    if (!vgsim_object_is(array, ARRAY) || array->mipmap)
        return CUDA_ERROR_INVALID_HANDLE;
    if (array->block)
        vgsim_memory_release(array->block);
    vgsim_object_remove(array);
    return CUDA_SUCCESS;
}

CUresult cuArrayDestroy(CUarray hArray)
{
    CALL(CONTEXT | UNSAFE, destroy(hArray));
}

static CUresult describe(CUDA_ARRAY3D_DESCRIPTOR *out, CUarray array)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!vgsim_object_is(array, ARRAY))
        return CUDA_ERROR_INVALID_HANDLE;
    *out = array->desc;
    return CUDA_SUCCESS;
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
    CALL(CONTEXT, describe(pArrayDescriptor, hArray));
}

static CUresult describe_plane(CUDA_ARRAY_DESCRIPTOR *out, CUarray array)
{
    CUDA_ARRAY3D_DESCRIPTOR wide;
    CUresult result = out ? describe(&wide, array) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *out = (CUDA_ARRAY_DESCRIPTOR){wide.Width, wide.Height, wide.Format, wide.NumChannels};
    return result;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
    CALL(CONTEXT, describe_plane(pArrayDescriptor, hArray));
}

/* --- mipmaps ---------------------------------------------------------------------------------- */

static size_t halved(size_t extent, unsigned int level)
{
    return extent == 0 ? 0 : extent >> level ? extent >> level : 1;
}

/* The layers of a layered one stay as many. */
static CUDA_ARRAY3D_DESCRIPTOR level_desc(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int level)
{
    bool flat = desc->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
    CUDA_ARRAY3D_DESCRIPTOR result = *desc;
    result.Width = halved(desc->Width, level);
    result.Height = halved(desc->Height, level);
    result.Depth = flat ? desc->Depth : halved(desc->Depth, level);
    return result;
}

static size_t offset_of(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int level)
{
    size_t bytes = 0;
    for (unsigned int i = 0; i < level; i++) {
        CUDA_ARRAY3D_DESCRIPTOR one = level_desc(desc, i);
        bytes += size_of(&one);
    }
    return bytes;
}

/* cuMipmappedArrayCreate: clamped to the range from 1 to 1 + floor(log2(the largest extent)). */
static unsigned int clamp_levels(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned int levels)
{
    size_t largest = desc->Width > desc->Height ? desc->Width : desc->Height;
    bool flat = desc->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
    if (!flat && desc->Depth > largest)
        largest = desc->Depth;
    unsigned int most = 1;
    while (largest >> most)
        most++;
    return levels < 1 ? 1 : levels > most ? most : levels;
}

CUresult vgsim_mipmap_new(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *desc,
                          unsigned int levels, bool external)
{
    CUresult result = out ? check(desc) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    struct CUmipmappedArray_st *mipmap = vgsim_object_add(MIPMAP, sizeof *mipmap, vgsim_current());
    if (!mipmap)
        return CUDA_ERROR_OUT_OF_MEMORY;
    mipmap->desc = *desc;
    mipmap->levels = clamp_levels(desc, levels);
    if (!external && !(desc->Flags & CUDA_ARRAY3D_DEFERRED_MAPPING)) {
        mipmap->block = vgsim_memory_take(VGSIM_KIND_mipmap, offset_of(desc, mipmap->levels));
        if (!mipmap->block) {
            vgsim_object_remove(mipmap);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        mipmap->address = mipmap->block->address;
    }
    *out = mipmap;
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *pHandle,
                                const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
                                unsigned int numMipmapLevels)
{
    CALL(CONTEXT | UNSAFE, vgsim_mipmap_new(pHandle, pMipmappedArrayDesc, numMipmapLevels, false));
}

static CUresult get_level(CUarray *out, CUmipmappedArray mipmap, unsigned int level)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!vgsim_object_is(mipmap, MIPMAP))
        return CUDA_ERROR_INVALID_HANDLE;
    if (level >= mipmap->levels)
        return CUDA_ERROR_INVALID_VALUE;
    if (!mipmap->level[level]) {
        struct CUarray_st *array = vgsim_object_add(ARRAY, sizeof *array, mipmap->object.context);
        if (!array)
            return CUDA_ERROR_OUT_OF_MEMORY;
        array->desc = level_desc(&mipmap->desc, level);
        array->mipmap = mipmap;
        array->address = mipmap->address ? mipmap->address + offset_of(&mipmap->desc, level) : 0;
        mipmap->level[level] = array;
    }
    *out = mipmap->level[level];
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetLevel(CUarray *pLevelArray, CUmipmappedArray hMipmappedArray,
                                  unsigned int level)
{
    CALL(CONTEXT, get_level(pLevelArray, hMipmappedArray, level));
}

static CUresult destroy_mipmap(CUmipmappedArray mipmap)
{
    if (!vgsim_object_is(mipmap, MIPMAP))
        return CUDA_ERROR_INVALID_HANDLE;
    for (unsigned int i = 0; i < mipmap->levels; i++)
        if (mipmap->level[i])
            vgsim_object_remove(mipmap->level[i]);
    if (mipmap->block)
        vgsim_memory_release(mipmap->block);
    vgsim_object_remove(mipmap);
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray)
{
    CALL(CONTEXT | UNSAFE, destroy_mipmap(hMipmappedArray));
}

/* --- what they need --------------------------------------------------------------------------- */

static CUresult requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out,
                             const CUDA_ARRAY3D_DESCRIPTOR *desc, size_t bytes, CUdevice device)
{
    if (!out || !vgsim_is_device(device))
        return CUDA_ERROR_INVALID_VALUE;
    if (!(desc->Flags & CUDA_ARRAY3D_DEFERRED_MAPPING) && !vgsim_knobs()->any_array_size)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUDA_ARRAY_MEMORY_REQUIREMENTS){.size = bytes, .alignment = ALIGNMENT};
    return CUDA_SUCCESS;
}

static CUresult array_requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out, CUarray array,
                                   CUdevice device)
{
    if (!vgsim_object_is(array, ARRAY))
        return CUDA_ERROR_INVALID_HANDLE;
    return requirements(out, &array->desc, size_of(&array->desc), device);
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements,
                                      CUarray array, CUdevice device)
{
    CALL(INIT, array_requirements(memoryRequirements, array, device));
}

static CUresult mipmap_requirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out, CUmipmappedArray mipmap,
                                    CUdevice device)
{
    if (!vgsim_object_is(mipmap, MIPMAP))
        return CUDA_ERROR_INVALID_HANDLE;
    return requirements(out, &mipmap->desc, offset_of(&mipmap->desc, mipmap->levels), device);
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements,
                                               CUmipmappedArray mipmap, CUdevice device)
{
    CALL(INIT, mipmap_requirements(memoryRequirements, mipmap, device));
}

bool vgsim_array_rows(CUarray array, struct vgsim_rows *out)
{
    if (!vgsim_object_is(array, ARRAY) || !array->address)
        return false;
    *out = (struct vgsim_rows){.address = array->address,
                               .pitch = pitch_of(&array->desc),
                               .rows = rows_of(&array->desc),
                               .width_bytes = array->desc.Width * element_bytes(&array->desc),
                               .height = array->desc.Height ? array->desc.Height : 1,
                               .depth = array->desc.Depth ? array->desc.Depth : 1};
    return true;
}
