/* case_paths.c -- ways to the driver that once led another interposer astray.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What it prints is the same with and without the guard.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

#include "case.h"
#include "steps.h"

typedef CUresult get4_fn(const char *, void **, int, cuuint64_t);
typedef CUresult get5_fn(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
typedef CUresult alloc_fn(CUdeviceptr *, size_t);
typedef CUresult init_fn(unsigned int);

static void *driver(void)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        fprintf(stderr, "%s\n", dlerror());
    NEED(handle);
    return handle;
}

static get5_fn *get_proc_address(void)
{
    void *found = dlsym(driver(), "cuGetProcAddress_v2");
    get5_fn *get;
    NEED(found);
    memcpy(&get, &found, sizeof get);
    return get;
}

static void *asked(const char *name, int version)
{
    void *found = NULL;
    NEED(get_proc_address()(name, &found, version, 0, NULL) == CUDA_SUCCESS && found);
    return found;
}

/* arity: the look-up of 11.3 has four arguments; what lies where the fifth would be is not its. */
static int arity(int argc, char **argv)
{
    (void)argc, (void)argv;
    CUdriverProcAddressQueryResult canary = (CUdriverProcAddressQueryResult)77;
    void *old = asked("cuGetProcAddress", 11030), *new = asked("cuGetProcAddress", 12000), *out;
    get5_fn *get;
    memcpy(&get, &old, sizeof get);
    CUresult rc = get("cuMemAlloc", &out, 3020, 0, &canary);
    printf("11.3: %d, the fifth argument is %d\n", (int)rc, (int)canary);
    memcpy(&get, &new, sizeof get);
    rc = get("cuMemAlloc", &out, 3020, 0, &canary);
    printf("12.0: %d, the fifth argument is %d\n", (int)rc, (int)canary);
    return 0;
}

/* null: look-ups that leave out what they may, and what they may not. */
static int null(int argc, char **argv)
{
    (void)argc, (void)argv;
    get5_fn *get = get_proc_address();
    CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)77;
    void *out = NULL;
    printf("%d", (int)get("cuMemAlloc", NULL, 12000, 0, &status));
    printf(" %d", (int)get("cuMemAlloc", NULL, 12000, 0, NULL));
    printf(" %d", (int)get("cuNoSuchFunction", NULL, 12000, 0, NULL));
    printf(" %d", (int)get(NULL, &out, 12000, 0, NULL));
    printf(" %d %d\n", (int)get("", &out, 0, 0, NULL), out == NULL);
    return 0;
}

/* versions: each version of a name is the export of that version. */
static int versions(int argc, char **argv)
{
    static const struct {
        const char *asked, *symbol;
        int version;
    } all[] = {{"cuMemAlloc", "cuMemAlloc", 2000},
               {"cuMemAlloc", "cuMemAlloc_v2", 3020},
               {"cuMemAlloc", "cuMemAlloc_v2", 13000},
               {"cuCtxCreate", "cuCtxCreate_v2", 3020},
               {"cuCtxCreate", "cuCtxCreate_v2", 11030},
               {"cuCtxCreate", "cuCtxCreate_v4", 13000},
               {"cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset", 7000},
               {"cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset_v2", 11000},
               {"cuStreamBeginCapture", "cuStreamBeginCapture_v2", 10010},
               {"cuGraphAddNode", "cuGraphAddNode", 12020},
               {"cuGraphAddNode", "cuGraphAddNode_v2", 12030},
               {"cuIpcOpenMemHandle", "cuIpcOpenMemHandle", 4010},
               {"cuIpcOpenMemHandle", "cuIpcOpenMemHandle_v2", 11000}};
    (void)argc, (void)argv;
    void *handle = driver();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        void *found = NULL, *exported = dlsym(handle, all[i].symbol);
        CUresult rc = get_proc_address()(all[i].asked, &found, all[i].version, 0, NULL);
        printf("%s@%d: %d, %s %s\n", all[i].asked, all[i].version, (int)rc,
               found && found == exported ? "is" : "is not", all[i].symbol);
    }
    return 0;
}

/* next: the same look-up after itself is answered alike, twice. Linked to the driver. */
static int next(int argc, char **argv)
{
    (void)argc, (void)argv;
    void *volatile once = dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    void *volatile again = dlsym(RTLD_NEXT, "cuMemAlloc_v2");
    void *volatile unhooked = dlsym(RTLD_NEXT, "cuMemGetInfo_v2");
    printf("found %d, again %d, another %d\n", once != NULL, once == again, unhooked != NULL);
    return 0;
}

static void *look_up_for_ever(void *stop)
{
    void *handle = driver();
    while (!*(volatile bool *)stop)
        NEED(dlsym(handle, "cuInit") != NULL);
    return NULL;
}

/* thin: the driver is found through another one that stands in front of it (case_thin_driver.c),
 * while a thread looks things up. */
static int thin(int argc, char **argv)
{
    (void)argc, (void)argv;
    volatile bool stop = false;
    pthread_t thread;
    init_fn *init;
    alloc_fn *alloc;
    CUcontext context;
    CUdeviceptr address;
    CUresult (*retain)(CUcontext *, CUdevice), (*set)(CUcontext);
    NEED(pthread_create(&thread, NULL, look_up_for_ever, (void *)&stop) == 0);
    void *found[] = {dlsym(driver(), "cuInit"), asked("cuMemAlloc", 3020),
                     asked("cuDevicePrimaryCtxRetain", 7000), asked("cuCtxSetCurrent", 4000)};
    memcpy(&init, &found[0], sizeof init);
    memcpy(&alloc, &found[1], sizeof alloc);
    memcpy(&retain, &found[2], sizeof retain);
    memcpy(&set, &found[3], sizeof set);
    NEED(init(0) == CUDA_SUCCESS && retain(&context, 0) == CUDA_SUCCESS);
    NEED(set(context) == CUDA_SUCCESS && alloc(&address, 5 * MIB) == CUDA_SUCCESS);
    stop = true;
    NEED(pthread_join(thread, NULL) == 0);
    printf("absent %d\n", dlsym(driver(), "cuMemAllocAsync") == NULL);
    printf("live {\"device\": %zu}\n", 5 * MIB);
    step("made");
    return 0;
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {
        {"arity", arity}, {"null", null}, {"versions", versions}, {"next", next}, {"thin", thin}};
    return run_scenario(all, sizeof all / sizeof *all, argc, argv);
}
