/* case_thin_driver.c -- a libcuda.so.1 in front of the driver, as on WSL: few exports of its own.
 * SPDX-License-Identifier: Apache-2.0
 *
 * REAL_DRIVER: the path of the driver. cuInit looks its own name up in that one, over and over,
 * as drivers do while they start: it has to find the driver's, not itself or somebody's wrapper.
 */
#include <dlfcn.h>

#include "case.h"

typedef CUresult init_fn(unsigned int);
typedef CUresult get5_fn(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static void *real(const char *name)
{
    static void *handle;
    if (!handle)
        handle = dlopen(getenv("REAL_DRIVER"), RTLD_NOW | RTLD_LOCAL);
    NEED(handle);
    void *volatile found = dlsym(handle, name);
    NEED(found);
    return found;
}

CUresult cuInit(unsigned int flags)
{
    init_fn *init, *mine = cuInit;
    for (int i = 0; i < 1000; i++) {
        void *found = real("cuInit");
        memcpy(&init, &found, sizeof init);
        NEED(init != mine);
    }
    return init(flags);
}

CUresult cuGetProcAddress_v2(const char *name, void **out, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status)
{
    void *found = real("cuGetProcAddress_v2");
    get5_fn *get;
    memcpy(&get, &found, sizeof get);
    return get(name, out, version, flags, status);
}
