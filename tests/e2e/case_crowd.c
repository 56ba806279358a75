/* case_crowd.c -- threads that allocate all at once until one of them is refused.
 * SPDX-License-Identifier: Apache-2.0
 *
 * case_crowd THREADS PIECES MIB: every thread takes PIECES pieces of MIB MiB and keeps them.
 */
#include <pthread.h>

#include "case.h"

static int pieces;
static size_t bytes;

static void *work(void *context)
{
    CUdeviceptr address;
    cuCtxSetCurrent(context);
    for (int i = 0; i < pieces; i++)
        cuMemAlloc(&address, bytes);
    return NULL;
}

int main(int argc, char **argv)
{
    enum { THREADS_MAX = 64 };
    pthread_t thread[THREADS_MAX];
    CUcontext context;
    int threads = argc > 3 ? atoi(argv[1]) : 4;
    pieces = argc > 3 ? atoi(argv[2]) : 4;
    bytes = (argc > 3 ? (size_t)atoi(argv[3]) : 500) * MIB;
    use_device();
    cuCtxGetCurrent(&context);
    for (int i = 0; i < threads && i < THREADS_MAX; i++)
        pthread_create(&thread[i], NULL, work, context);
    for (int i = 0; i < threads && i < THREADS_MAX; i++)
        pthread_join(thread[i], NULL);
    return 0;
}
