/* driver.c -- the guard's own calls into the driver.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:   gate.c and sample.c ask; nobody else in the guard calls the driver.
 * Holds:   nothing here synchronises, allocates on the device, or touches a stream, an event or a
 *          pool. cuMemGetInfo and the description of a device are asked in capture mode RELAXED, so
 *          that they never invalidate a capture of the program.
 */
#include "interpose/driver.h"

#include <string.h>

#include "interpose/captures.h"
#include "interpose/cuda_abi.h"
#include "interpose/hooks.h"
#include "interpose/thread.h"

static struct {
    vg_cuCtxGetCurrent *ctx_get_current;
    vg_cuCtxGetDevice *ctx_get_device;
    vg_cuCtxGetId *ctx_get_id; /* since 12.0 */
    vg_cuMemGetInfo *mem_get_info;
    vg_cuThreadExchangeStreamCaptureMode *exchange_mode;
    vg_cuDeviceGetUuid *get_uuid;
    vg_cuDeviceGetName *get_name;
    vg_cuDeviceGetPCIBusId *get_pci;
    vg_cuDeviceTotalMem *total_mem;
    vg_cuDriverGetVersion *get_version;
    vg_cuDeviceGetCount *get_count;
    vg_cuDevicePrimaryCtxGetState *primary_state;
    vg_cuArrayGetMemoryRequirements *array_requirements; /* since 11.6 */
    vg_cuMipmappedArrayGetMemoryRequirements *mipmap_requirements;
    vg_cuArray3DCreate *array_create;
    vg_cuArrayDestroy *array_destroy;
    vg_cuMipmappedArrayCreate *mipmap_create;
    vg_cuMipmappedArrayDestroy *mipmap_destroy;
    vg_cuMemGetAddressRange *address_range;
    vg_cuDeviceGetDefaultMemPool *default_pool; /* since 11.2 */
    vg_cuMemPoolGetAttribute *pool_attribute;
    vg_cuDeviceGetGraphMemAttribute *graph_attribute; /* since 11.4 */
} fn;

static void find(void *place, const char *name)
{
    void *found = vg_hooks_driver_symbol(name);
    if (found)
        memcpy(place, &found, sizeof found);
}

void vg_driver_init(void)
{
    find(&fn.ctx_get_current, "cuCtxGetCurrent");
    find(&fn.ctx_get_device, "cuCtxGetDevice");
    find(&fn.ctx_get_id, "cuCtxGetId");
    find(&fn.mem_get_info, "cuMemGetInfo_v2");
    find(&fn.exchange_mode, "cuThreadExchangeStreamCaptureMode");
    find(&fn.get_uuid, "cuDeviceGetUuid");
    find(&fn.get_uuid, "cuDeviceGetUuid_v2"); /* a MIG instance's own, where there is one */
    find(&fn.get_name, "cuDeviceGetName");
    find(&fn.get_pci, "cuDeviceGetPCIBusId");
    find(&fn.total_mem, "cuDeviceTotalMem_v2");
    find(&fn.get_version, "cuDriverGetVersion");
    find(&fn.get_count, "cuDeviceGetCount");
    find(&fn.primary_state, "cuDevicePrimaryCtxGetState");
    find(&fn.array_requirements, "cuArrayGetMemoryRequirements");
    find(&fn.mipmap_requirements, "cuMipmappedArrayGetMemoryRequirements");
    find(&fn.array_create, "cuArray3DCreate_v2");
    find(&fn.array_destroy, "cuArrayDestroy");
    find(&fn.mipmap_create, "cuMipmappedArrayCreate");
    find(&fn.mipmap_destroy, "cuMipmappedArrayDestroy");
    find(&fn.address_range, "cuMemGetAddressRange_v2");
    find(&fn.default_pool, "cuDeviceGetDefaultMemPool");
    find(&fn.pool_attribute, "cuMemPoolGetAttribute");
    find(&fn.graph_attribute, "cuDeviceGetGraphMemAttribute");
}

static CUstreamCaptureMode relax(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (fn.exchange_mode)
        fn.exchange_mode(&mode);
    return mode;
}

static void unrelax(CUstreamCaptureMode mode)
{
    if (fn.exchange_mode)
        fn.exchange_mode(&mode);
}

int32_t vg_driver_version(void)
{
    int version = 0;
    return fn.get_version && fn.get_version(&version) == CUDA_SUCCESS ? version : 0;
}

int32_t vg_driver_only_device(void)
{
    int count = 0;
    return fn.get_count && !vg_captures_any() && fn.get_count(&count) == CUDA_SUCCESS && count == 1
               ? 0
               : -1;
}

uint64_t vg_driver_context_id(uint64_t handle)
{
    unsigned long long id = 0;
    if (handle && fn.ctx_get_id && fn.ctx_get_id((CUcontext)(uintptr_t)handle, &id) == CUDA_SUCCESS)
        return id;
    return handle;
}

void vg_driver_current(struct vg_driver_context *out)
{
    CUcontext current = NULL;
    CUdevice device = -1;
    *out = (struct vg_driver_context){.device = -1};
    if (!fn.ctx_get_current || fn.ctx_get_current(&current) != CUDA_SUCCESS || !current)
        return;
    out->handle = (uint64_t)(uintptr_t)current;
    out->id = vg_driver_context_id(out->handle);
    struct vg_thread *thread = &vg_thread;
    if (fn.ctx_get_id && thread->context_id == out->id && thread->context_handle == out->handle) {
        out->device = thread->context_device; /* an id is never used again */
        return;
    }
    if (!fn.ctx_get_device || fn.ctx_get_device(&device) != CUDA_SUCCESS)
        return; /* a context that has ended is current still: nothing to remember */
    out->device = device;
    thread->context_handle = out->handle;
    thread->context_id = out->id;
    thread->context_device = out->device;
}

bool vg_driver_primary_is_active(int32_t device)
{
    unsigned flags = 0;
    int active = 1;
    return !fn.primary_state || fn.primary_state(device, &flags, &active) != CUDA_SUCCESS || active;
}

bool vg_driver_mem_info(uint64_t *free_out, uint64_t *total_out)
{
    size_t free_bytes = 0, total_bytes = 0;
    if (!fn.mem_get_info)
        return false;
    CUstreamCaptureMode mode = relax();
    CUresult rc = fn.mem_get_info(&free_bytes, &total_bytes);
    unrelax(mode);
    if (rc != CUDA_SUCCESS)
        return false;
    *free_out = free_bytes;
    *total_out = total_bytes;
    return true;
}

void vg_driver_describe(int32_t device, struct vg_driver_description *out)
{
    CUuuid uuid;
    size_t total = 0;
    memset(out, 0, sizeof *out);
    CUstreamCaptureMode mode = relax();
    if (fn.get_uuid && fn.get_uuid(&uuid, device) == CUDA_SUCCESS) {
        memcpy(out->uuid, uuid.bytes, sizeof out->uuid);
        out->has_uuid = true;
    }
    if (!fn.get_name || fn.get_name(out->name, sizeof out->name, device) != CUDA_SUCCESS)
        out->name[0] = 0;
    if (!fn.get_pci || fn.get_pci(out->pci, sizeof out->pci, device) != CUDA_SUCCESS)
        out->pci[0] = 0;
    if (fn.total_mem && fn.total_mem(&total, device) == CUDA_SUCCESS)
        out->total_bytes = total;
    unrelax(mode);
}

/* --- arrays ----------------------------------------------------------------------------------- */

static uint64_t flat_bytes(const CUDA_ARRAY3D_DESCRIPTOR *desc, int32_t device)
{
    CUDA_ARRAY_MEMORY_REQUIREMENTS need = {.size = 0};
    CUarray twin = NULL;
    if (!fn.array_requirements || !fn.array_create || !fn.array_destroy ||
        fn.array_create(&twin, desc) != CUDA_SUCCESS)
        return 0;
    bool told = fn.array_requirements(&need, twin, device) == CUDA_SUCCESS;
    fn.array_destroy(twin);
    return told ? need.size : 0;
}

static uint64_t mipmap_bytes(const CUDA_ARRAY3D_DESCRIPTOR *desc, unsigned levels, int32_t device)
{
    CUDA_ARRAY_MEMORY_REQUIREMENTS need = {.size = 0};
    CUmipmappedArray twin = NULL;
    if (!fn.mipmap_requirements || !fn.mipmap_create || !fn.mipmap_destroy ||
        fn.mipmap_create(&twin, desc, levels) != CUDA_SUCCESS)
        return 0;
    bool told = fn.mipmap_requirements(&need, twin, device) == CUDA_SUCCESS;
    fn.mipmap_destroy(twin);
    return told ? need.size : 0;
}

uint64_t vg_driver_array_bytes(const struct vg_array_shape *shape, int32_t device)
{
    CUDA_ARRAY3D_DESCRIPTOR desc = {.Width = shape->width,
                                    .Height = shape->height,
                                    .Depth = shape->depth,
                                    .Format = (CUarray_format)shape->format,
                                    .NumChannels = shape->channels,
                                    .Flags = shape->flags | CUDA_ARRAY3D_DEFERRED_MAPPING};
    CUstreamCaptureMode mode = relax();
    uint64_t bytes =
        shape->levels ? mipmap_bytes(&desc, shape->levels, device) : flat_bytes(&desc, device);
    unrelax(mode);
    return bytes;
}

/* --- pools and ranges ------------------------------------------------------------------------- */

uint64_t vg_driver_range_bytes(uint64_t addr)
{
    CUdeviceptr base = 0;
    size_t bytes = 0;
    if (!fn.address_range)
        return 0;
    CUstreamCaptureMode mode = relax();
    CUresult rc = fn.address_range(&base, &bytes, addr);
    unrelax(mode);
    return rc == CUDA_SUCCESS ? bytes : 0;
}

/* Attributes of pools are among what a capture forbids, and one may begin on another thread right
 * after nobody captured. */
static bool pool_attributes(CUmemoryPool pool, cuuint64_t *reserved, cuuint64_t *used)
{
    return fn.pool_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, reserved) ==
               CUDA_SUCCESS &&
           fn.pool_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, used) == CUDA_SUCCESS;
}

bool vg_driver_pool_levels(int32_t device, uint64_t pool, uint64_t *reserved_out,
                           uint64_t *used_out)
{
    CUmemoryPool handle = (CUmemoryPool)(uintptr_t)pool;
    if (!fn.pool_attribute || (!handle && !fn.default_pool))
        return false;
    CUstreamCaptureMode mode = relax();
    bool told = handle || fn.default_pool(&handle, device) == CUDA_SUCCESS;
    told = told && pool_attributes(handle, reserved_out, used_out);
    unrelax(mode);
    return told;
}

bool vg_driver_graph_levels(int32_t device, uint64_t *reserved_out, uint64_t *used_out)
{
    if (!fn.graph_attribute)
        return false;
    CUstreamCaptureMode mode = relax();
    bool told =
        fn.graph_attribute(device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, reserved_out) ==
            CUDA_SUCCESS &&
        fn.graph_attribute(device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, used_out) == CUDA_SUCCESS;
    unrelax(mode);
    return told;
}
