/* lookup_spy.c -- a preload library that writes down every look-up of a runtime.
 * SPDX-License-Identifier: Apache-2.0
 *
 * It is in front of the guard, and notes what each look-up was given.
 *
 * SPY_LOG: a file; one line `name version flags status library symbol` per call of
 * cuGetProcAddress_v2, however it was come by.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>

#include "case.h"

#ifdef __aarch64__
#define OLDEST "GLIBC_2.17"
#else
#define OLDEST "GLIBC_2.2.5"
#endif

typedef void *dlsym_fn(void *, const char *);
typedef CUresult get5_fn(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static get5_fn *behind;
static int log_fd = -1;

static CUresult spy(const char *name, void **out, int version, cuuint64_t flags,
                    CUdriverProcAddressQueryResult *status)
{
    Dl_info info = {0};
    CUresult rc = behind(name, out, version, flags, status);
    bool found = rc == CUDA_SUCCESS && out && *out && dladdr(*out, &info);
    const char *slash = found ? strrchr(info.dli_fname, '/') : NULL;
    dprintf(log_fd, "'%s' %d %d %d %s %s\n", name, version, (int)flags, (int)rc,
            slash ? slash + 1 : "-", found && info.dli_saddr == *out ? info.dli_sname : "-");
    /* NVIDIA's runtime asks for this one itself, and goes on with the pointer that it gets. */
    if (found && strcmp(name, "cuGetProcAddress") == 0 && version >= 12000) {
        get5_fn *mine = spy;
        memcpy(&behind, out, sizeof behind);
        memcpy(out, &mine, sizeof mine);
    }
    return rc;
}

void *dlsym(void *handle, const char *name)
{
    static dlsym_fn *next;
    if (!next) {
        /* libc's own by its version, and through that whatever comes after this library. */
        void *found = dlvsym(RTLD_NEXT, "dlsym", OLDEST);
        NEED(found);
        memcpy(&next, &found, sizeof next);
        void *volatile behind_us = next(RTLD_NEXT, "dlsym");
        found = behind_us;
        memcpy(&next, &found, sizeof next);
    }
    void *answer = next(handle, name);
    if (strcmp(name, "cuGetProcAddress_v2") != 0 || !answer || !getenv("SPY_LOG"))
        return answer;
    if (log_fd < 0)
        log_fd = open(getenv("SPY_LOG"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    NEED(log_fd >= 0);
    memcpy(&behind, &answer, sizeof behind);
    get5_fn *mine = spy;
    memcpy(&answer, &mine, sizeof answer);
    return answer;
}
