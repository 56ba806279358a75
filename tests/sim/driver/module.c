/* module.c -- modules, libraries, kernels.
 * SPDX-License-Identifier: Apache-2.0
 *
 * No image is ever read: whatever name is asked for exists.
 *
 * Holds:      the same name in the same module gives the same function, and the same global the
 *             same address. What an image would occupy is taken to be part of a context's cost.
 */
#include "tests/sim/driver/sim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GLOBAL_BYTES ((size_t)65536)

/* A function, a kernel and a global are entries of one list of their module. */
struct entry {
    struct vgsim_object object;
    char *name;
    int attributes[CU_FUNC_ATTRIBUTE_MAX];
    void *global;
    struct entry *next;
};

struct CUmod_st {
    struct vgsim_object object;
    struct CUlib_st *library;
    struct entry *entries;
};

struct CUlib_st {
    struct vgsim_object object;
    struct CUmod_st *module[VGSIM_MAX_DEVICES];
    struct entry *entries;
    CUdevice device; /* where it is counted: the one that was current, or the first */
};

static struct entry *find_or_add(struct entry **list, const char *name, void *owner)
{
    for (struct entry *at = *list; at; at = at->next)
        if (!strcmp(at->name, name))
            return at;
    struct entry *entry = vgsim_object_add(KERNEL, sizeof *entry, NULL);
    if (!entry)
        return NULL;
    entry->object.owner = owner;
    entry->name = strdup(name);
    entry->attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK] = 1024;
    entry->attributes[CU_FUNC_ATTRIBUTE_NUM_REGS] = 32;
    entry->attributes[CU_FUNC_ATTRIBUTE_PTX_VERSION] = 90;
    entry->attributes[CU_FUNC_ATTRIBUTE_BINARY_VERSION] = 90;
    entry->attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES] = 49152;
    entry->next = *list;
    *list = entry;
    return entry;
}

static void drop_entries(struct entry *entry)
{
    while (entry) {
        struct entry *next = entry->next;
        free(entry->global);
        free(entry->name);
        vgsim_object_remove(entry);
        entry = next;
    }
}

static CUresult global(struct entry **list, const char *name, void *owner, CUdeviceptr *out,
                       size_t *bytes_out)
{
    if (!name || (!out && !bytes_out))
        return CUDA_ERROR_INVALID_VALUE;
    struct entry *entry = find_or_add(list, name, owner);
    if (entry && !entry->global)
        entry->global = calloc(1, GLOBAL_BYTES);
    if (!entry || !entry->global)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (out)
        *out = (uintptr_t)entry->global;
    if (bytes_out)
        *bytes_out = GLOBAL_BYTES;
    return CUDA_SUCCESS;
}

/* --- modules ---------------------------------------------------------------------------------- */

/* The module of a library is part of it, and not counted again. */
static CUresult load(CUmodule *out, const void *image, struct CUlib_st *library)
{
    if (!out || !image)
        return CUDA_ERROR_INVALID_VALUE;
    struct CUmod_st *module = vgsim_object_add(MODULE, sizeof *module, vgsim_current());
    if (!module)
        return CUDA_ERROR_OUT_OF_MEMORY;
    module->library = library;
    if (!library)
        vgsim_books_object(module->object.context->device, VGSIM_COUNTED_modules, 1);
    *out = module;
    return CUDA_SUCCESS;
}

static CUresult load_file(CUmodule *out, const char *path)
{
    if (!out || !path)
        return CUDA_ERROR_INVALID_VALUE;
    return access(path, R_OK) ? CUDA_ERROR_FILE_NOT_FOUND : load(out, path, NULL);
}

CUresult cuModuleLoad(CUmodule *module, const char *fname)
{
    CALL(CONTEXT, load_file(module, fname));
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    CALL(CONTEXT, load(module, image, NULL));
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
                            CUjit_option *options, void **optionValues)
{
    (void)numOptions;
    (void)options;
    (void)optionValues;
    CALL(CONTEXT, load(module, image, NULL));
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
    CALL(CONTEXT, load(module, fatCubin, NULL));
}

void vgsim_module_forget(struct CUmod_st *module)
{
    if (!module->library)
        vgsim_books_object(module->object.context->device, VGSIM_COUNTED_modules, -1);
    drop_entries(module->entries);
    module->entries = NULL;
}

static CUresult unload(CUmodule module)
{
    if (!vgsim_object_is(module, MODULE) || module->library)
        return CUDA_ERROR_INVALID_HANDLE;
    vgsim_module_forget(module);
    vgsim_object_remove(module);
    return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule hmod)
{
    CALL(CONTEXT, unload(hmod));
}

static struct entry **entries_of(CUmodule module)
{
    return module->library ? &module->library->entries : &module->entries;
}

static CUresult get_function(CUfunction *out, CUmodule module, const char *name)
{
    if (!out || !name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!vgsim_object_is(module, MODULE))
        return CUDA_ERROR_INVALID_HANDLE;
    struct entry *entry = find_or_add(entries_of(module), name, module);
    *out = (CUfunction)entry;
    return entry ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
    CALL(CONTEXT, get_function(hfunc, hmod, name));
}

static CUresult get_global(CUdeviceptr *out, size_t *bytes_out, CUmodule module, const char *name)
{
    if (!vgsim_object_is(module, MODULE))
        return CUDA_ERROR_INVALID_HANDLE;
    return global(entries_of(module), name, module, out, bytes_out);
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
    CALL(CONTEXT, get_global(dptr, bytes, hmod, name));
}

static CUresult loading_mode(CUmoduleLoadingMode *out)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    CALL(INIT, loading_mode(mode));
}

/* --- libraries: no context of their own ------------------------------------------------------- */

static CUresult load_library(CUlibrary *out, const void *code)
{
    if (!out || !code)
        return CUDA_ERROR_INVALID_VALUE;
    struct CUlib_st *library = vgsim_object_add(LIBRARY, sizeof *library, NULL);
    if (!library)
        return CUDA_ERROR_OUT_OF_MEMORY;
    library->device = vgsim_current() ? vgsim_current()->device : 0;
    vgsim_books_object(library->device, VGSIM_COUNTED_modules, 1);
    *out = library;
    return CUDA_SUCCESS;
}

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
                           void **jitOptionsValues, unsigned int numJitOptions,
                           CUlibraryOption *libraryOptions, void **libraryOptionValues,
                           unsigned int numLibraryOptions)
{
    (void)jitOptions;
    (void)jitOptionsValues;
    (void)numJitOptions;
    (void)libraryOptions;
    (void)libraryOptionValues;
    (void)numLibraryOptions;
    CALL(INIT, load_library(library, code));
}

static CUresult unload_library(CUlibrary library)
{
    if (!vgsim_object_is(library, LIBRARY))
        return CUDA_ERROR_INVALID_HANDLE;
    for (int i = 0; i < VGSIM_MAX_DEVICES; i++)
        if (vgsim_object_is(library->module[i], MODULE) && library->module[i]->library == library)
            vgsim_object_remove(library->module[i]);
    drop_entries(library->entries);
    vgsim_books_object(library->device, VGSIM_COUNTED_modules, -1);
    vgsim_object_remove(library);
    return CUDA_SUCCESS;
}

CUresult cuLibraryUnload(CUlibrary library)
{
    CALL(INIT, unload_library(library));
}

/* A library is loaded into a context when it is first needed there; a module that went with its
 * context is loaded again. */
static CUresult library_module(CUmodule *out, CUlibrary library)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!vgsim_object_is(library, LIBRARY))
        return CUDA_ERROR_INVALID_HANDLE;
    struct CUmod_st **module = &library->module[vgsim_current()->device];
    if (!vgsim_object_is(*module, MODULE) || (*module)->library != library) {
        CUresult result = load(module, library, library);
        if (result != CUDA_SUCCESS)
            return result;
    }
    *out = *module;
    return CUDA_SUCCESS;
}

CUresult cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
    CALL(CONTEXT, library_module(pMod, library));
}

static CUresult library_kernel(CUkernel *out, CUlibrary library, const char *name)
{
    if (!out || !name)
        return CUDA_ERROR_INVALID_VALUE;
    if (!vgsim_object_is(library, LIBRARY))
        return CUDA_ERROR_INVALID_HANDLE;
    struct entry *entry = find_or_add(&library->entries, name, library);
    *out = (CUkernel)entry;
    return entry ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
    CALL(INIT, library_kernel(pKernel, library, name));
}

static CUresult library_global(CUdeviceptr *out, size_t *bytes_out, CUlibrary library,
                               const char *name)
{
    if (!vgsim_object_is(library, LIBRARY))
        return CUDA_ERROR_INVALID_HANDLE;
    return global(&library->entries, name, library, out, bytes_out);
}

CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
    CALL(CONTEXT, library_global(dptr, bytes, library, name));
}

/* --- functions and kernels -------------------------------------------------------------------- */

static CUresult to_function(CUfunction *out, CUkernel kernel)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!vgsim_object_is(kernel, KERNEL))
        return CUDA_ERROR_INVALID_HANDLE;
    *out = (CUfunction)kernel;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
    CALL(CONTEXT, to_function(pFunc, kernel));
}

static CUresult owner(void **out, const void *handle, enum vgsim_type type)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!vgsim_object_is(handle, KERNEL))
        return CUDA_ERROR_INVALID_HANDLE;
    struct vgsim_object *object = ((const struct entry *)handle)->object.owner;
    if (type == LIBRARY && object->type == MODULE)
        return CUDA_ERROR_INVALID_HANDLE;
    if (type == MODULE && object->type == LIBRARY)
        return library_module((CUmodule *)out, (CUlibrary)object);
    *out = object;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel)
{
    CALL(INIT, owner((void **)pLib, kernel, LIBRARY));
}

CUresult cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)
{
    CALL(CONTEXT, owner((void **)hmod, hfunc, MODULE));
}

static CUresult get_name(const char **out, const void *handle)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!vgsim_object_is(handle, KERNEL))
        return CUDA_ERROR_INVALID_HANDLE;
    *out = ((const struct entry *)handle)->name;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char **name, CUkernel hfunc)
{
    CALL(INIT, get_name(name, hfunc));
}

CUresult cuFuncGetName(const char **name, CUfunction hfunc)
{
    CALL(INIT, get_name(name, hfunc));
}

static CUresult get_attribute(int *out, CUfunction_attribute attribute, const void *handle)
{
    if (!out || (unsigned int)attribute >= CU_FUNC_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (!vgsim_object_is(handle, KERNEL))
        return CUDA_ERROR_INVALID_HANDLE;
    *out = ((const struct entry *)handle)->attributes[attribute];
    return CUDA_SUCCESS;
}

static CUresult set_attribute(void *handle, CUfunction_attribute attribute, int value)
{
    if ((unsigned int)attribute >= CU_FUNC_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (!vgsim_object_is(handle, KERNEL))
        return CUDA_ERROR_INVALID_HANDLE;
    ((struct entry *)handle)->attributes[attribute] = value;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev)
{
    CALL(INIT,
         vgsim_is_device(dev) ? get_attribute(pi, attrib, kernel) : CUDA_ERROR_INVALID_DEVICE);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev)
{
    CALL(INIT,
         vgsim_is_device(dev) ? set_attribute(kernel, attrib, val) : CUDA_ERROR_INVALID_DEVICE);
}

CUresult cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
    CALL(CONTEXT, get_attribute(pi, attrib, hfunc));
}

CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
    CALL(CONTEXT, set_attribute(hfunc, attrib, value));
}

static CUresult check(const void *handle)
{
    return vgsim_object_is(handle, KERNEL) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
    (void)config;
    CALL(INIT, vgsim_is_device(dev) ? check(kernel) : CUDA_ERROR_INVALID_DEVICE);
}

CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config)
{
    (void)config;
    CALL(CONTEXT, check(hfunc));
}

CUresult cuFuncLoad(CUfunction function)
{
    CALL(CONTEXT, check(function));
}
