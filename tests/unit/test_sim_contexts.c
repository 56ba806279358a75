/* test_sim_contexts.c -- contexts of every kind, peers, and the simulation's books of all of it.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/unit/sim_child.h"

#include <libgen.h>

/* --- green contexts --------------------------------------------------------------------------- */

static CUgreenCtx green_of(CUdevice device, unsigned int wanted)
{
    CUdevResource all, part, rest;
    CUdevResourceDesc desc;
    CUgreenCtx green;
    unsigned int groups = 1;
    CHECK_EQUAL(CU(cuDeviceGetDevResource)(device, &all, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuDevSmResourceSplitByCount)(&part, &groups, &all, &rest, 0, wanted),
                CUDA_SUCCESS);
    CHECK_EQUAL(groups, 1);
    CHECK(part.sm.smCount >= wanted);
    CHECK_EQUAL(part.sm.smCount % part.sm.smCoscheduledAlignment, 0);
    CHECK_EQUAL(part.sm.smCount + rest.sm.smCount, all.sm.smCount);
    CHECK_EQUAL(CU(cuDevResourceGenerateDesc)(&desc, &part, 1), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuGreenCtxCreate)(&green, desc, device, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuGreenCtxCreate)(&green, desc, device, CU_GREEN_CTX_DEFAULT_STREAM),
                CUDA_SUCCESS);
    return green;
}

static void body_green(void)
{
    CUcontext context, current;
    CUdeviceptr pointer;
    CUdevResource part;
    CUstream stream;
    CUdevice device;
    unsigned int flags;
    int active;
    CHECK_EQUAL(CU(cuInit)(0), CUDA_SUCCESS);
    CUgreenCtx green = green_of(1, 10);
    CHECK_EQUAL(CU(cuDevicePrimaryCtxGetState)(1, &flags, &active), CUDA_SUCCESS);
    CHECK(active);
    CHECK_EQUAL(CU(cuCtxFromGreenCtx)(&context, green), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuCtxSetCurrent)(context), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuCtxGetCurrent)(&current), CUDA_SUCCESS);
    CHECK(current == context);
    CHECK_EQUAL(CU(cuCtxGetDevice)(&device), CUDA_SUCCESS);
    CHECK_EQUAL(device, 1);
    CHECK_EQUAL(sim_free(), 24 * GIB - 330 * MIB);
    CHECK_EQUAL(CU(cuGreenCtxGetDevResource)(green, &part, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
    CHECK_EQUAL(part.sm.smCount, 16);
    CHECK_EQUAL(CU(cuGreenCtxStreamCreate)(&stream, green, 0, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuGreenCtxStreamCreate)(&stream, green, CU_STREAM_NON_BLOCKING, 0),
                CUDA_SUCCESS);
    pointer = sim_alloc(GIB);
    CHECK_EQUAL(CU(cuCtxDestroy_v2)(context), CUDA_ERROR_INVALID_CONTEXT);
    sim_start(1);
    CHECK_EQUAL(CU(cuGreenCtxDestroy)(green), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuGreenCtxDestroy)(green), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_EQUAL(sim_free(), 24 * GIB - 300 * MIB - GIB);
    CHECK_EQUAL(CU(cuMemFree_v2)(pointer), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuStreamDestroy_v2)(stream), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuDevicePrimaryCtxRelease_v2)(1), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuDevicePrimaryCtxGetState)(1, &flags, &active), CUDA_SUCCESS);
    CHECK(!active);
}

static void test_a_green_context_holds_the_primary_one_which_owns_what_it_makes(void **unused)
{
    (void)unused;
    IN_CHILD(body_green, "VGSIM_DEVICES=2");
}

static void body_split(void)
{
    CUdevResource all, parts[16];
    unsigned int groups = 0;
    CHECK_EQUAL(CU(cuInit)(0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuDeviceGetDevResource)(0, &all, CU_DEV_RESOURCE_TYPE_SM), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuDevSmResourceSplitByCount)(NULL, &groups, &all, NULL, 0, 16), CUDA_SUCCESS);
    CHECK_EQUAL(groups, 8);
    groups = 16;
    CHECK_EQUAL(CU(cuDevSmResourceSplitByCount)(parts, &groups, &all, NULL, 0, 16), CUDA_SUCCESS);
    CHECK_EQUAL(groups, 8);
    CHECK_EQUAL(CU(cuDevSmResourceSplitByCount)(parts, &groups, &all, NULL, 0, 500),
                CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuDeviceGetDevResource)(0, &all, CU_DEV_RESOURCE_TYPE_INVALID),
                CUDA_ERROR_INVALID_RESOURCE_TYPE);
}

static void test_a_device_is_split_in_aligned_groups(void **unused)
{
    (void)unused;
    IN_CHILD(body_split, NULL);
}

/* --- the old calls ---------------------------------------------------------------------------- */

static void body_attach(void)
{
    CUcontext context, again, popped;
    CHECK_EQUAL(CU(cuInit)(0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuCtxAttach)(&again, 0), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_EQUAL(CU(cuCtxCreate)(&context, 0, 0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuCtxAttach)(&again, 0), CUDA_SUCCESS);
    CHECK(again == context);
    CHECK_EQUAL(CU(cuCtxDetach)(context), CUDA_SUCCESS);
    CHECK_EQUAL(sim_free(), 24 * GIB - 300 * MIB);
    CHECK_EQUAL(CU(cuCtxPopCurrent)(&popped), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuCtxDetach)(context), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_EQUAL(CU(cuCtxPushCurrent)(context), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuCtxDetach)(context), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuCtxPushCurrent)(context), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_EQUAL(CU(cuCtxCreate)(&context, 0, 0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuCtxDestroy)(context), CUDA_SUCCESS);
}

static void test_the_last_user_that_detaches_ends_a_context(void **unused)
{
    (void)unused;
    IN_CHILD(body_attach, NULL);
}

static void body_cost(void)
{
    CUcontext contexts[3];
    sim_start(0);
    for (int i = 0; i < 3; i++)
        CHECK_EQUAL(CU(cuCtxCreate_v2)(&contexts[i], 0, 0), CUDA_SUCCESS);
    CHECK_EQUAL(sim_free(), 24 * GIB - 1200 * MIB);
    for (int i = 2; i >= 0; i--)
        CHECK_EQUAL(CU(cuCtxDestroy_v2)(contexts[i]), CUDA_SUCCESS);
    CHECK_EQUAL(sim_free(), 24 * GIB - 300 * MIB);
}

static void test_every_context_costs_memory(void **unused)
{
    (void)unused;
    IN_CHILD(body_cost, NULL);
}

/* --- peers ------------------------------------------------------------------------------------ */

static void body_peers(void)
{
    CUcontext first = sim_start(0), second = sim_start(1);
    int can;
    CHECK_EQUAL(CU(cuDeviceCanAccessPeer)(&can, 0, 1), CUDA_SUCCESS);
    CHECK_EQUAL(can, 1);
    CHECK_EQUAL(CU(cuDeviceCanAccessPeer)(&can, 1, 1), CUDA_SUCCESS);
    CHECK_EQUAL(can, 0);
    CHECK_EQUAL(CU(cuDeviceCanAccessPeer)(&can, 0, 2), CUDA_ERROR_INVALID_DEVICE);
    CHECK_EQUAL(CU(cuCtxEnablePeerAccess)(first, 1), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuCtxEnablePeerAccess)(second, 0), CUDA_ERROR_INVALID_CONTEXT);
    CHECK_EQUAL(CU(cuCtxDisablePeerAccess)(first), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    CHECK_EQUAL(CU(cuCtxEnablePeerAccess)(first, 0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuCtxEnablePeerAccess)(first, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    CHECK_EQUAL(CU(cuCtxDisablePeerAccess)(first), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuCtxDisablePeerAccess)(first), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
}

static void test_peers_are_enabled_once_and_in_one_direction(void **unused)
{
    (void)unused;
    IN_CHILD(body_peers, "VGSIM_DEVICES=2");
}

static void body_no_peers(void)
{
    CUcontext first = sim_start(0);
    int can;
    sim_start(1);
    CHECK_EQUAL(CU(cuDeviceCanAccessPeer)(&can, 0, 1), CUDA_SUCCESS);
    CHECK_EQUAL(can, 0);
    CHECK_EQUAL(CU(cuCtxEnablePeerAccess)(first, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
}

static void test_slices_have_no_peers(void **unused)
{
    (void)unused;
    IN_CHILD(body_no_peers, "VGSIM_DEVICES=2", "VGSIM_MIG=1");
}

/* --- the books -------------------------------------------------------------------------------- */

static const char *books_path;

static void read_books(char *out, size_t size)
{
    Dl_info info;
    char library[4096], command[8192];
    CHECK(dladdr((void *)(uintptr_t)CU(cuInit), &info) != 0);
    snprintf(library, sizeof library, "%s", info.dli_fname);
    snprintf(command, sizeof command, "%s/vgsim-account %s", dirname(library), books_path);
    FILE *pipe = popen(command, "r");
    CHECK(pipe != NULL);
    out[fread(out, 1, size - 1, pipe)] = '\0';
    CHECK_EQUAL(pclose(pipe), 0);
}

static void says(const char *wanted)
{
    static char json[65536];
    read_books(json, sizeof json);
    if (!strstr(json, wanted)) {
        fprintf(stderr, "no %s in %s\n", wanted, json);
        _exit(1);
    }
}

static void body_books(void)
{
    CUmemAllocationProp host = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_HOST, 0}};
    CUDA_ARRAY3D_DESCRIPTOR desc = {
        .Width = 64, .Height = 64, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CUmulticastObjectProp cast = {.numDevices = 1, .size = 2 * MIB};
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC external = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
                                                 .size = 12345};
    CUmemGenericAllocationHandle handle, object;
    CUmipmappedArray mipmap;
    CUexternalMemory memory;
    CUlibrary library;
    CUmodule module;
    CUarray array;
    external.handle.fd = dup(0);
    sim_start(0);
    CHECK_EQUAL(CU(cuMemCreate)(&handle, 4 * MIB, &host, 0), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMulticastCreate)(&object, &cast), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuArray3DCreate_v2)(&array, &desc), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuMipmappedArrayCreate)(&mipmap, &desc, 2), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuImportExternalMemory)(&memory, &external), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuModuleLoadData)(&module, "image"), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuLibraryLoadData)(&library, "image", NULL, NULL, 0, NULL, NULL, 0),
                CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuLibraryGetModule)(&module, library), CUDA_SUCCESS);
    says("\"vmm_host\": {\"requested_bytes\": 4194304, \"live_blocks\": 1, \"allocations\": 1}");
    says("\"imported\": {\"requested_bytes\": 2097152, \"live_blocks\": 1");
    says("\"array\": {\"requested_bytes\": 65536, \"live_blocks\": 1");
    says("\"mipmap\": {\"requested_bytes\": 131072, \"live_blocks\": 1");
    says("\"external\": {\"requested_bytes\": 12345, \"live_blocks\": 1");
    says("\"multicast\": {\"live\": 1, \"created\": 1, \"destroyed\": 0}");
    says("\"modules\": {\"live\": 2, \"created\": 2, \"destroyed\": 0}");
    says("\"peak_requested_bytes\": 196608");
    CHECK_EQUAL(CU(cuLibraryUnload)(library), CUDA_SUCCESS);
    says("\"modules\": {\"live\": 1, \"created\": 2, \"destroyed\": 1}");
    CHECK_EQUAL(CU(cuMemRelease)(object), CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuDevicePrimaryCtxReset_v2)(0), CUDA_SUCCESS);
    says("\"external\": {\"requested_bytes\": 0, \"live_blocks\": 0, \"allocations\": 1}");
    says("\"mipmap\": {\"requested_bytes\": 0, \"live_blocks\": 0, \"allocations\": 1}");
    says("\"contexts\": {\"live\": 0, \"created\": 1, \"destroyed\": 1}");
    says("\"modules\": {\"live\": 0, \"created\": 2, \"destroyed\": 2}");
    says("\"multicast\": {\"live\": 0, \"created\": 1, \"destroyed\": 1}");
}

static void test_the_books_have_every_kind_and_every_object(void **unused)
{
    (void)unused;
    char path[64], knob[96];
    snprintf(path, sizeof path, "/tmp/vgsim-kinds-%d", (int)getpid());
    snprintf(knob, sizeof knob, "VGSIM_ACCOUNT=%s", path);
    books_path = path;
    IN_CHILD(body_books, knob);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_green_context_holds_the_primary_one_which_owns_what_it_makes),
        cmocka_unit_test(test_a_device_is_split_in_aligned_groups),
        cmocka_unit_test(test_the_last_user_that_detaches_ends_a_context),
        cmocka_unit_test(test_every_context_costs_memory),
        cmocka_unit_test(test_peers_are_enabled_once_and_in_one_direction),
        cmocka_unit_test(test_slices_have_no_peers),
        cmocka_unit_test(test_the_books_have_every_kind_and_every_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
