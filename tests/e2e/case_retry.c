/* case_retry.c -- programs that fail and try again, or do not.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <dlfcn.h>

#include "case.h"

static __attribute__((noinline)) int attempt(size_t bytes)
{
    CUdeviceptr address;
    CUresult status = cuMemAlloc(&address, bytes);
    if (status == CUDA_SUCCESS)
        give(address);
    return status == CUDA_SUCCESS;
}

/* script WORDS WAY: h holds 3 GiB, r releases them, a and b ask for 2 GiB, each at a place of its
 * own; a digit is what came of it. */
static int script(int argc, char **argv)
{
    CUdeviceptr held = 0;
    NEED(argc == 4);
    use_device();
    for (const char *step = argv[2]; *step; step++) {
        if (*step == 'h')
            held = take(3072 * MIB);
        else if (*step == 'r')
            give(held);
        else if (*step == 'a')
            printf("%d", attempt(2048 * MIB));
        else
            printf("%d", attempt(2048 * MIB));
    }
    puts("");
    fflush(stdout);
    if (strcmp(argv[3], "_exit") == 0)
        _exit(0);
    return 0;
}

/* Requests that no device can meet, and one that names no size. */
static int absurd(int argc, char **argv)
{
    CUdeviceptr address;
    size_t pitch;
    (void)argc, (void)argv;
    use_device();
    NEED(cuMemAlloc(&address, (size_t)-1) != CUDA_SUCCESS);
    NEED(cuMemAllocPitch(&address, &pitch, (size_t)1 << 40, (size_t)1 << 40, 4) != CUDA_SUCCESS);
    return 0;
}

static int second_context(int argc, char **argv)
{
    CUcontext context;
    (void)argc, (void)argv;
    use_device();
    take(3500 * MIB);
    NEED(cuCtxCreate(&context, NULL, 0, 0) == CUDA_ERROR_OUT_OF_MEMORY);
    return 0;
}

static int status(int argc, char **argv)
{
    CUdeviceptr address;
    (void)argc, (void)argv;
    use_device();
    printf("%d\n", (int)cuMemAlloc(&address, MIB));
    return 0;
}

static __attribute__((noinline)) int inner(void)
{
    return attempt(2048 * MIB) + 1;
}

static int outer(void)
{
    return inner() + 1;
}

/* family LIBRARY: fails and then succeeds, called through a library. */
static int family(int argc, char **argv)
{
    int (*through)(int (*)(void));
    NEED(argc == 3);
    void *library = dlopen(argv[2], RTLD_NOW);
    NEED(library);
    *(void **)&through = dlsym(library, "through");
    NEED(through);
    use_device();
    CUdeviceptr held = take(3072 * MIB);
    NEED(through(outer) == 3);
    give(held);
    NEED(through(outer) == 4);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"script", script},
                                          {"absurd", absurd},
                                          {"second-context", second_context},
                                          {"family", family},
                                          {"status", status}};
    return run_scenario(all, sizeof all / sizeof *all, argc, argv);
}
