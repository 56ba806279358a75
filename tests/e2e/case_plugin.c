/* case_plugin.c -- a plugin.
 * SPDX-License-Identifier: Apache-2.0
 *
 * It says when it is unloaded, and with OWN_RUNTIME it brings a CUDA runtime of its own, as
 * statically linked ones are.
 */
#include <dlfcn.h>

#include "case.h"

int plugin_call(void);
static int calls;

__attribute__((destructor)) static void unloaded(void)
{
    puts("unloaded");
}

#ifdef OWN_RUNTIME
int cudaMalloc(void **out, size_t bytes);
int cudaMalloc(void **out, size_t bytes)
{
    CUdeviceptr address = 0;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    CUresult (*real)(CUdeviceptr *, size_t);
    *(void **)&real = dlsym(driver, "cuMemAlloc_v2");
    CUresult status = real(&address, bytes);
    *out = (void *)address;
    puts("own runtime");
    return (int)status;
}

int plugin_call(void)
{
    void *unused;
    return 10 * cudaMalloc(&unused, MIB) + calls++;
}
#else
int plugin_call(void)
{
    give(take(MIB));
    return calls++;
}
#endif
