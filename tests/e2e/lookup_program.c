/* lookup_program.c -- looks functions up in every way that programs do, and says what it was given.
 * SPDX-License-Identifier: Apache-2.0
 *
 * One line per look-up: key, then `library symbol` of the answer or what the error was. The same
 * run without the guard is what it is compared with.
 */
#include <dlfcn.h>

#include "case.h"
#include "cuda_runtime_api.h"

static const char *base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void say(const char *key, void *answer)
{
    Dl_info info;
    if (!answer)
        printf("%s: nothing\n", key);
    else if (!dladdr(answer, &info))
        printf("%s: somewhere\n", key);
    else
        printf("%s: %s %s\n", key, base(info.dli_fname),
               info.dli_saddr == answer ? info.dli_sname : "-");
}

static void say_with_error(const char *key, void *answer)
{
    const char *error = dlerror();
    say(key, answer);
    if (error)
        printf("%s-error: %s\n", key, error);
}

static void *open_or_die(const char *name, int flags)
{
    void *handle = dlopen(name, flags);
    if (!handle)
        fprintf(stderr, "%s\n", dlerror());
    NEED(handle);
    return handle;
}

/* dlsym <library with cudnn and cublas names> */
static int by_dlsym(int argc, char **argv)
{
    static const char *const names[] = {
        "cuInit",           "cuMemAlloc_v2",      "cuMemFree_v2",   "cuMemAlloc",
        "cuMemGetInfo_v2",  "cuLaunchKernel",     "cuCtxCreate_v4", "cuMemcpyHtoD_v2",
        "cuGetProcAddress", "cuGetProcAddress_v2"};
    static const char *const foreign[] = {"cudnnCreate", "cublasCreate_v2", "cuMemOfMyOwn",
                                          "curl_easy_init"};
    NEED(argc == 3);
    void *driver = open_or_die("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *other = open_or_die(argv[2], RTLD_NOW | RTLD_LOCAL);
    void *libm = open_or_die("libm.so.6", RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        say_with_error(names[i], dlsym(driver, names[i]));
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        say_with_error(foreign[i], dlsym(other, foreign[i]));
    say_with_error("unknown", dlsym(driver, "cuNoSuchFunction"));
    say_with_error("not-in-that-library", dlsym(libm, "cuMemAlloc_v2"));
    say_with_error("not-in-that-library-either", dlsym(libm, "cudaMalloc"));
    say_with_error("not-global", dlsym(RTLD_DEFAULT, "cuInit"));
    say_with_error("next-of-a-program", dlsym(RTLD_NEXT, "cuNoSuchFunction"));
    say_with_error("by-version", dlvsym(driver, "cuMemAlloc_v2", "NOSUCH_1.0"));
    /* An error that nobody has asked for, then a look-up that works. */
    (void)dlsym(driver, "cuNoSuchFunction");
    say_with_error("after-an-error", dlsym(driver, "cuMemFree_v2"));
    say_with_error("alias", dlsym(driver, "cuMemFree_v2") == dlsym(driver, "cuMemFree_v2")
                                ? dlsym(driver, "cuMemFree_v2")
                                : NULL);
    return 0;
}

typedef CUresult get4_fn(const char *, void **, int, cuuint64_t);
typedef CUresult get5_fn(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

static void *const untouched = (void *)16;

static void ask5(get5_fn *get, const char *name, int version, cuuint64_t flags)
{
    char key[128];
    void *with = untouched, *without = untouched;
    CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)77;
    CUresult rc = get(name, &with, version, flags, &status),
             again = get(name, &without, version, flags, NULL);
    NEED(rc == again && with == without);
    snprintf(key, sizeof key, "'%s'@%d/%d", name, version, (int)flags);
    printf("%s-status: %d %d%s\n", key, (int)rc, (int)status, with == untouched ? " kept" : "");
    if (with != untouched)
        say(key, with);
}

static void ask_all(get5_fn *get)
{
    static const char *const names[] = {"cuMemAlloc",
                                        "cuMemFree",
                                        "cuMemGetInfo",
                                        "cuCtxCreate",
                                        "cuDevicePrimaryCtxReset",
                                        "cuLaunchKernel",
                                        "cuGetProcAddress",
                                        "cuNoSuchFunction",
                                        "",
                                        "cuMemAlloc_v2"};
    static const int versions[] = {0, 2000, 3020, 7000, 11000, 11030, 12000, 12050, 13000, 99000};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        for (size_t v = 0; v < sizeof versions / sizeof *versions; v++)
            for (cuuint64_t flags = 0; flags <= 5; flags++)
                ask5(get, names[n], versions[v], flags);
    NEED(get(NULL, &(void *){NULL}, 12000, 0, NULL) == CUDA_ERROR_INVALID_VALUE);
    NEED(get("cuInit", NULL, 12000, 0, NULL) == CUDA_ERROR_INVALID_VALUE);
}

/* Both forms of cuGetProcAddress, as the runtime gets them: by its own versions. */
static int by_proc_address(int argc, char **argv)
{
    (void)argc, (void)argv;
    void *driver = open_or_die("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *found = dlsym(driver, "cuGetProcAddress_v2"), *four = NULL, *five = NULL, *alloc = NULL;
    get5_fn *get;
    get4_fn *old;
    CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)77;
    memcpy(&get, &found, sizeof get);
    ask_all(get);
    NEED(get("cuGetProcAddress", &five, 12000, 0, NULL) == CUDA_SUCCESS);
    NEED(get("cuGetProcAddress", &four, 11030, 0, NULL) == CUDA_SUCCESS);
    NEED(four != five);
    memcpy(&get, &five, sizeof get);
    NEED(get("cuMemAlloc", &alloc, 3020, 0, &status) == CUDA_SUCCESS && status == 0);
    say("by-the-form-of-12.0", alloc);
    memcpy(&old, &four, sizeof old);
    /* A wrapper with five arguments would hand the driver a place for the status that nobody
     * gave. */
    NEED(old("cuMemAlloc", &alloc, 3020, 0) == CUDA_SUCCESS);
    say("by-the-form-of-11.3", alloc);
    NEED(old("cuMemGetInfo", &alloc, 3020, 0) == CUDA_SUCCESS);
    say("not-hooked-by-the-form-of-11.3", alloc);
    NEED(old("cuNoSuchFunction", &alloc, 12000, 0) == CUDA_ERROR_NOT_FOUND);
    return 0;
}

/* local <library>: what a library opened RTLD_LOCAL finds through RTLD_DEFAULT. */
static int by_default_in_a_local_library(int argc, char **argv)
{
    NEED(argc == 3);
    void *library = open_or_die(argv[2], RTLD_NOW | RTLD_LOCAL);
    void *found = dlsym(library, "ask_default");
    void *(*ask)(const char *);
    memcpy(&ask, &found, sizeof ask);
    say("of-its-own-library", ask("only_in_here"));
    say("of-its-own-library-too", ask("cudnnCreate"));
    say("of-the-driver-it-is-linked-to", ask("cuMemAlloc_v2"));
    say("not-hooked", ask("cuMemGetInfo_v2"));
    say("unknown", ask("cuNoSuchFunction"));
    say("not-mine", dlsym(RTLD_DEFAULT, "only_in_here"));
    return 0;
}

/* --- runtimes --------------------------------------------------------------------------------- */

struct runtime {
    cudaError_t (*malloc)(void **, size_t);
    cudaError_t (*free)(void *);
    cudaError_t (*peek)(void);
};

static struct runtime open_runtime(const char *path)
{
    struct runtime runtime;
    void *handle = open_or_die(path, RTLD_NOW | RTLD_LOCAL);
    void *function[] = {dlsym(handle, "cudaMalloc"), dlsym(handle, "cudaFree"),
                        dlsym(handle, "cudaPeekAtLastError")};
    NEED(function[0] && function[1] && function[2]);
    memcpy(&runtime, function, sizeof runtime);
    return runtime;
}

/* two <runtime> <runtime>: each one's wrapper calls its own. The second allocation of the process
 * is planned to fail: only its runtime may know. */
static int two_runtimes(int argc, char **argv)
{
    void *a, *b, *c;
    NEED(argc == 4);
    struct runtime first = open_runtime(argv[2]), second = open_runtime(argv[3]);
    NEED(first.malloc != second.malloc && first.peek != second.peek);
    NEED(first.malloc(&a, 3 * MIB) == cudaSuccess);
    NEED(second.malloc(&b, MIB) == cudaErrorMemoryAllocation);
    printf("errors: %d %d\n", (int)first.peek(), (int)second.peek());
    NEED(second.malloc(&b, 5 * MIB) == cudaSuccess);
    NEED(first.malloc(&c, 7 * MIB) == cudaSuccess && first.free(c) == cudaSuccess);
    printf("live: %zu\n", 8 * MIB);
    return 0;
}

/* entry <runtime>: driver functions that the runtime hands out. */
static int by_entry_point(int argc, char **argv)
{
    static const char *const names[] = {"cuMemAlloc", "cuMemGetInfo", "cuLaunchKernel",
                                        "cuNoSuchFunction", "cuGetProcAddress"};
    NEED(argc == 3);
    void *handle = open_or_die(argv[2], RTLD_NOW | RTLD_LOCAL);
    void *found[] = {dlsym(handle, "cudaGetDriverEntryPoint"),
                     dlsym(handle, "cudaGetDriverEntryPointByVersion")};
    __typeof__(&cudaGetDriverEntryPoint) plain;
    __typeof__(&cudaGetDriverEntryPointByVersion) versioned;
    memcpy(&plain, &found[0], sizeof plain);
    memcpy(&versioned, &found[1], sizeof versioned);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        enum cudaDriverEntryPointQueryResult status = (enum cudaDriverEntryPointQueryResult)77;
        void *answer = untouched;
        cudaError_t rc = plain(names[i], &answer, cudaEnableDefault, &status);
        printf("%s-status: %d %d\n", names[i], (int)rc, (int)status);
        say(names[i], answer == untouched ? NULL : answer);
        rc = versioned(names[i], &answer, 12000, cudaEnableDefault, NULL);
        printf("%s-by-version-status: %d\n", names[i], (int)rc);
        say("by-version", rc ? NULL : answer);
    }
    return 0;
}

/* count <runtime>: the first call; with NVIDIA's own runtime on a simulated driver that is its
 * look-ups and an error. */
static int first_call(int argc, char **argv)
{
    int count = -1;
    NEED(argc == 3);
    void *handle = open_or_die(argv[2], RTLD_NOW | RTLD_LOCAL);
    void *found = dlsym(handle, "cudaGetDeviceCount");
    __typeof__(&cudaGetDeviceCount) get_count;
    memcpy(&get_count, &found, sizeof get_count);
    printf("%d\n", (int)get_count(&count));
    return 0;
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"dlsym", by_dlsym},
                                          {"proc-address", by_proc_address},
                                          {"local", by_default_in_a_local_library},
                                          {"two", two_runtimes},
                                          {"entry", by_entry_point},
                                          {"count", first_call}};
    return run_scenario(all, sizeof all / sizeof *all, argc, argv);
}
