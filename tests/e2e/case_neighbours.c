/* case_neighbours.c -- programs that share the process with more than the guard.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Plugins that come and go, a runtime of one's own, sanitizers.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

#include "case.h"

/* argv[2]: the plugin; it is loaded, called and unloaded three times. */
static int plugin(int argc, char **argv)
{
    use_device();
    for (int i = 0; argc > 2 && i < 3; i++) {
        void *handle = dlopen(argv[2], RTLD_NOW | RTLD_LOCAL);
        NEED(handle);
        int (*call)(void);
        *(void **)&call = dlsym(handle, "plugin_call");
        NEED(call);
        printf("call %d\n", call());
        NEED(dlclose(handle) == 0);
    }
    return 0;
}

static void *pairs(void *unused)
{
    use_device();
    for (int i = 0; i < 500; i++)
        give(take(MIB));
    return unused;
}

static int threads(int argc, char **argv)
{
    (void)argc, (void)argv;
    pthread_t thread[8];
    use_device();
    for (int i = 0; i < 8; i++)
        NEED(pthread_create(&thread[i], NULL, pairs, NULL) == 0);
    for (int i = 0; i < 8; i++)
        pthread_join(thread[i], NULL);
    return 0;
}

static pthread_barrier_t all_there;

static void *fail(void *unused)
{
    CUdeviceptr none;
    use_device();
    pthread_barrier_wait(&all_there);
    NEED(cuMemAlloc(&none, (size_t)1 << 40) == CUDA_ERROR_OUT_OF_MEMORY);
    return unused;
}

/* Ten threads out of memory at once: the first and the tenth are reported. */
static int fail_together(int argc, char **argv)
{
    (void)argc, (void)argv;
    pthread_t thread[10];
    NEED(pthread_barrier_init(&all_there, NULL, 10) == 0);
    for (int i = 0; i < 10; i++)
        NEED(pthread_create(&thread[i], NULL, fail, NULL) == 0);
    for (int i = 0; i < 10; i++)
        pthread_join(thread[i], NULL);
    return 0;
}

/* Out of memory in the first second, then nearly everything freed, and killed. */
static int killed_after_oom(int argc, char **argv)
{
    (void)argc, (void)argv;
    CUdeviceptr large, none;
    use_device();
    large = take((size_t)20 << 30);
    NEED(cuMemAlloc(&none, (size_t)8 << 30) != CUDA_SUCCESS);
    give(large);
    take(10 * MIB);
    kill(getpid(), SIGKILL);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct scenario all[] = {{"plugin", plugin},
                                          {"threads", threads},
                                          {"fail-together", fail_together},
                                          {"killed-after-oom", killed_after_oom}};
    setvbuf(stdout, NULL, _IOLBF, 0);
    return run_scenario(all, sizeof all / sizeof *all, argc, argv);
}
