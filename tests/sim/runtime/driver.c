/* driver.c -- how the runtime reaches the driver.
 * SPDX-License-Identifier: Apache-2.0
 *
 * One dlopen, one dlsym, then a table that is kept for ever.
 *
 * Place:      the same sequence as NVIDIA's runtime 13.0, at the first API call and not before:
 *             dlopen of libcuda.so.1, dlsym of cuGetProcAddress_v2 and of nothing else, a look-up
 *             of the empty name, then every row of driver.def with symbolStatus NULL, all of it
 *             before cuInit.
 * Threads:    pthread_once; the table is never written again.
 */
#include "runtime.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

typedef CUresult (*get_proc_fn)(const char *, void **, int, cuuint64_t,
                                CUdriverProcAddressQueryResult *);

enum { FLAGS_NONE = 0, FLAGS_PER_THREAD_STREAM = 2 };

struct row {
    size_t offset; /* of the pointer in struct rt_driver */
    const char *name;
    int since;
    cuuint64_t flags;
};

#define AT(field)                 offsetof(struct rt_driver, field)
#define CALL(name, since, params) {AT(name), #name, since, FLAGS_NONE},
#define CALL_PS(name, since, since_ps, params)                                                     \
    {AT(name), #name, since, FLAGS_NONE},                                                          \
        {AT(name##_ptsz), #name, since_ps, FLAGS_PER_THREAD_STREAM},
#define CALL_AS(field, name, since, params) {AT(field), #name, since, FLAGS_NONE},
#define CALL_AS_PS(field, name, since, params)                                                     \
    {AT(field), #name, since, FLAGS_NONE},                                                         \
        {AT(field##_ptsz), #name, since, FLAGS_PER_THREAD_STREAM},
static const struct row rows[] = {
#include "driver.def"
};

struct rt_driver rt_driver;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static cudaError_t outcome;

static void fill_table(get_proc_fn get_proc)
{
    void *pointer = NULL;
    (void)get_proc("", &pointer, 0, FLAGS_NONE, NULL); /* NVIDIA's goes on whatever the answer is */
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        pointer = NULL;
        if (get_proc(rows[i].name, &pointer, rows[i].since, rows[i].flags, NULL) == CUDA_SUCCESS)
            memcpy((char *)&rt_driver + rows[i].offset, &pointer, sizeof(pointer));
    }
}

static cudaError_t load(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    void *symbol = library ? dlsym(library, "cuGetProcAddress_v2") : NULL;
    if (!symbol)
        return cudaErrorInsufficientDriver;
    get_proc_fn get_proc;
    memcpy(&get_proc, &symbol, sizeof(get_proc));
    fill_table(get_proc);
    int version = 0;
    cudaError_t error = RT_CALL(cuDriverGetVersion, (&version));
    if (error == cudaSuccess && version < CUDART_VERSION)
        error = cudaErrorInsufficientDriver;
    return error == cudaSuccess ? RT_CALL(cuInit, (0)) : error;
}

static void load_once(void)
{
    outcome = load();
}

cudaError_t rt_enter_driver(void)
{
    pthread_once(&once, load_once);
    return outcome;
}
