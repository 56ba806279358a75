/* test_sim_arrays.c -- arrays, mipmaps and textures of the simulated driver.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What they take, and what may be asked.
 */
#include "tests/unit/sim_child.h"

static CUDA_ARRAY3D_DESCRIPTOR plane(size_t width, size_t height, unsigned int flags)
{
    return (CUDA_ARRAY3D_DESCRIPTOR){.Width = width,
                                     .Height = height,
                                     .Format = CU_AD_FORMAT_FLOAT,
                                     .NumChannels = 1,
                                     .Flags = flags};
}

/* The size of such an array, asked as the interface lets it be asked: of one that takes nothing. */
static size_t needs(CUDA_ARRAY3D_DESCRIPTOR desc)
{
    CUDA_ARRAY_MEMORY_REQUIREMENTS need;
    CUarray twin;
    size_t before = sim_free();
    desc.Flags |= CUDA_ARRAY3D_DEFERRED_MAPPING;
    CHECK_EQUAL(CU(cuArray3DCreate_v2)(&twin, &desc), CUDA_SUCCESS);
    CHECK_EQUAL(sim_free(), before);
    CHECK_EQUAL(CU(cuArrayGetMemoryRequirements)(&need, twin, 0), CUDA_SUCCESS);
    CHECK_EQUAL(need.size % need.alignment, 0);
    CHECK_EQUAL(CU(cuArrayDestroy)(twin), CUDA_SUCCESS);
    return need.size;
}

static void body_sizes(void)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = plane(1000, 1001, 0), got;
    CUDA_ARRAY_MEMORY_REQUIREMENTS need;
    CUDA_ARRAY_DESCRIPTOR flat = {.Width = 100, .Format = CU_AD_FORMAT_HALF, .NumChannels = 4};
    CUarray array, row;
    sim_start(0);
    size_t before = sim_free();
    size_t size = needs(desc);
    CHECK(size > 1000 * 1001 * 4);
    CHECK_EQUAL(size, 4096 * 1008);
    CHECK_EQUAL(CU(cuArray3DCreate_v2)(&array, &desc), CUDA_SUCCESS);
    CHECK_EQUAL(before - sim_free(), 4 * MIB);
    CHECK_EQUAL(CU(cuArrayGetMemoryRequirements)(&need, array, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuArray3DGetDescriptor_v2)(&got, array), CUDA_SUCCESS);
    CHECK(!memcmp(&got, &desc, sizeof got));
    CHECK_EQUAL(CU(cuArrayCreate_v2)(&row, &flat), CUDA_SUCCESS);
    CHECK_EQUAL(before - sim_free(), 6 * MIB);
    CHECK_EQUAL(CU(cuArrayGetDescriptor_v2)(&flat, row), CUDA_SUCCESS);
    CHECK_EQUAL(flat.Height, 0);
    CHECK_EQUAL(CU(cuArrayDestroy)(row), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuArrayDestroy)(array), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuArrayDestroy)(array), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQUAL(sim_free(), before);
}

static void test_an_array_takes_its_padded_size_which_only_deferred_ones_tell(void **unused)
{
    (void)unused;
    IN_CHILD(body_sizes, NULL);
}

static void body_any_size(void)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = plane(1000, 1001, 0);
    CUDA_ARRAY_MEMORY_REQUIREMENTS need;
    CUarray array;
    sim_start(0);
    CHECK_EQUAL(CU(cuArray3DCreate_v2)(&array, &desc), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuArrayGetMemoryRequirements)(&need, array, 0), CUDA_SUCCESS);
    CHECK_EQUAL(need.size, needs(desc));
    CHECK_EQUAL(CU(cuArrayGetMemoryRequirements)(&need, array, 7), CUDA_ERROR_INVALID_VALUE);
}

static void test_every_array_tells_its_size_where_the_knob_says_so(void **unused)
{
    (void)unused;
    IN_CHILD(body_any_size, "VGSIM_ARRAY_SIZE=any");
}

static void refused(CUDA_ARRAY3D_DESCRIPTOR desc, CUresult wanted)
{
    CUarray array;
    CHECK_EQUAL(CU(cuArray3DCreate_v2)(&array, &desc), wanted);
}

static void body_extents(void)
{
    CUDA_ARRAY3D_DESCRIPTOR cube = plane(64, 64, CUDA_ARRAY3D_CUBEMAP);
    CUDA_ARRAY3D_DESCRIPTOR odd = plane(64, 64, 0);
    sim_start(0);
    cube.Depth = 6;
    refused(cube, CUDA_SUCCESS);
    cube.Depth = 5;
    refused(cube, CUDA_ERROR_INVALID_VALUE);
    cube.Flags |= CUDA_ARRAY3D_LAYERED;
    cube.Depth = 12;
    refused(cube, CUDA_SUCCESS);
    refused(plane(64, 64, CUDA_ARRAY3D_LAYERED), CUDA_ERROR_INVALID_VALUE);
    refused(plane(0, 64, 0), CUDA_ERROR_INVALID_VALUE);
    refused(plane(64, 64, CUDA_ARRAY3D_SPARSE), CUDA_ERROR_NOT_SUPPORTED);
    odd.NumChannels = 3;
    refused(odd, CUDA_ERROR_INVALID_VALUE);
    odd = plane(64, 0, 0);
    odd.Depth = 4;
    refused(odd, CUDA_ERROR_INVALID_VALUE);
    refused(plane(100000, 100000, 0), CUDA_ERROR_OUT_OF_MEMORY);
}

static void test_extents_must_fit_the_flags(void **unused)
{
    (void)unused;
    IN_CHILD(body_extents, NULL);
}

static void body_mipmap(void)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = plane(1024, 512, 0), level;
    CUDA_ARRAY3D_DESCRIPTOR later = plane(1024, 512, CUDA_ARRAY3D_DEFERRED_MAPPING);
    CUDA_ARRAY_MEMORY_REQUIREMENTS need;
    CUmipmappedArray mipmap, deferred;
    CUarray array, again;
    size_t sum = 0;
    sim_start(0);
    size_t before = sim_free();
    CHECK_EQUAL(CU(cuMipmappedArrayCreate)(&deferred, &later, 100), CUDA_SUCCESS);
    CHECK_EQUAL(sim_free(), before);
    CHECK_EQUAL(CU(cuMipmappedArrayGetMemoryRequirements)(&need, deferred, 0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMipmappedArrayCreate)(&mipmap, &desc, 100), CUDA_SUCCESS);
    CHECK_EQUAL(before - sim_free(), (need.size + 2 * MIB - 1) / (2 * MIB) * (2 * MIB));
    for (unsigned int i = 0; i < 11; i++) {
        CHECK_EQUAL(CU(cuMipmappedArrayGetLevel)(&array, mipmap, i), CUDA_SUCCESS);
        CHECK_EQUAL(CU(cuArray3DGetDescriptor_v2)(&level, array), CUDA_SUCCESS);
        CHECK_EQUAL(level.Width, 1024 >> i);
        CHECK_EQUAL(level.Height, i < 10 ? 512 >> i : 1);
        sum += needs(level);
    }
    CHECK_EQUAL(sum, need.size);
    CHECK_EQUAL(CU(cuMipmappedArrayGetLevel)(&again, mipmap, 11), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuMipmappedArrayGetLevel)(&again, mipmap, 10), CUDA_SUCCESS);
    CHECK(again == array);
    CHECK_EQUAL(CU(cuArrayDestroy)(array), CUDA_ERROR_INVALID_HANDLE);
    CHECK_EQUAL(CU(cuMipmappedArrayDestroy)(mipmap), CUDA_SUCCESS);
    CHECK_EQUAL(sim_free(), before);
    CHECK_EQUAL(CU(cuMipmappedArrayDestroy)(mipmap), CUDA_ERROR_INVALID_HANDLE);
}

static void test_a_mipmap_is_the_sum_of_its_levels(void **unused)
{
    (void)unused;
    IN_CHILD(body_mipmap, NULL);
}

static void body_copies(void)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = plane(4, 4, 0);
    CUarray array;
    float in[16], out[16] = {0};
    for (int i = 0; i < 16; i++)
        in[i] = (float)i;
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = in,
                          .srcPitch = 16,
                          .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                          .WidthInBytes = 16,
                          .Height = 4};
    sim_start(0);
    CHECK_EQUAL(CU(cuArray3DCreate_v2)(&array, &desc), CUDA_SUCCESS);
    copy.dstArray = array;
    CHECK_EQUAL(CU(cuMemcpy2D_v2)(&copy), CUDA_SUCCESS);
    copy.Height = 5;
    CHECK_EQUAL(CU(cuMemcpy2D_v2)(&copy), CUDA_ERROR_INVALID_VALUE);
    copy = (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                           .srcArray = array,
                           .srcXInBytes = 4,
                           .srcY = 1,
                           .dstMemoryType = CU_MEMORYTYPE_HOST,
                           .dstHost = out,
                           .dstPitch = 16,
                           .WidthInBytes = 8,
                           .Height = 2};
    CHECK_EQUAL(CU(cuMemcpy2D_v2)(&copy), CUDA_SUCCESS);
    CHECK(out[0] == 5 && out[1] == 6 && out[4] == 9 && out[5] == 10);
}

static void test_what_is_copied_into_an_array_comes_out_of_it(void **unused)
{
    (void)unused;
    IN_CHILD(body_copies, NULL);
}

static void body_textures(void)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = plane(64, 64, CUDA_ARRAY3D_SURFACE_LDST);
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY}, got;
    CUDA_TEXTURE_DESC how = {.flags = 0};
    CUtexObject texture;
    CUsurfObject surface;
    sim_start(0);
    CHECK_EQUAL(CU(cuTexObjectCreate)(&texture, &resource, &how, NULL), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuArray3DCreate_v2)(&resource.res.array.hArray, &desc), CUDA_SUCCESS);
    size_t before = sim_free();
    CHECK_EQUAL(CU(cuTexObjectCreate)(&texture, &resource, &how, NULL), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuSurfObjectCreate)(&surface, &resource), CUDA_SUCCESS);
    CHECK_EQUAL(sim_free(), before);
    CHECK_EQUAL(CU(cuTexObjectGetResourceDesc)(&got, texture), CUDA_SUCCESS);
    CHECK(got.res.array.hArray == resource.res.array.hArray);
    CHECK_EQUAL(CU(cuSurfObjectDestroy)(texture), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuSurfObjectDestroy)(surface), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuTexObjectDestroy)(texture), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuTexObjectDestroy)(texture), CUDA_ERROR_INVALID_VALUE);
}

static void test_textures_and_surfaces_take_nothing(void **unused)
{
    (void)unused;
    IN_CHILD(body_textures, NULL);
}

static void body_context_end(void)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = plane(1024, 1024, 0);
    CUmipmappedArray mipmap;
    CUarray array;
    sim_start(0);
    CHECK_EQUAL(CU(cuArray3DCreate_v2)(&array, &desc), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMipmappedArrayCreate)(&mipmap, &desc, 3), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMipmappedArrayGetLevel)(&array, mipmap, 1), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuDevicePrimaryCtxReset_v2)(0), CUDA_SUCCESS);
    sim_start(0);
    CHECK_EQUAL(sim_free(), 24 * GIB - 300 * MIB);
    CHECK_EQUAL(CU(cuMipmappedArrayDestroy)(mipmap), CUDA_ERROR_INVALID_HANDLE);
}

static void test_arrays_go_with_their_context(void **unused)
{
    (void)unused;
    IN_CHILD(body_context_end, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_array_takes_its_padded_size_which_only_deferred_ones_tell),
        cmocka_unit_test(test_every_array_tells_its_size_where_the_knob_says_so),
        cmocka_unit_test(test_extents_must_fit_the_flags),
        cmocka_unit_test(test_a_mipmap_is_the_sum_of_its_levels),
        cmocka_unit_test(test_what_is_copied_into_an_array_comes_out_of_it),
        cmocka_unit_test(test_textures_and_surfaces_take_nothing),
        cmocka_unit_test(test_arrays_go_with_their_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
