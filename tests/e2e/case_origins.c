/* case_origins.c -- one allocation by another thread, one in a stream, one while a stream captures.
 * SPDX-License-Identifier: Apache-2.0
 *
 * It prints the other thread's id and the stream, and waits to be killed or told to end.
 */
#include <pthread.h>
#include <sys/syscall.h>

#include "case.h"

static void *work(void *context)
{
    cuCtxSetCurrent(context);
    take(2 * MIB);
    printf("thread %ld\n", (long)syscall(SYS_gettid));
    return NULL;
}

int main(void)
{
    CUcontext context;
    CUstream stream;
    CUdeviceptr address;
    CUgraph graph;
    pthread_t thread;
    use_device();
    cuCtxGetCurrent(&context);
    pthread_create(&thread, NULL, work, context);
    pthread_join(thread, NULL);
    NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    NEED(cuMemAllocAsync(&address, 4 * MIB, stream) == CUDA_SUCCESS);
    printf("stream %llu\n", (unsigned long long)(uintptr_t)stream);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    NEED(cuStreamBeginCapture(stream, mode) == CUDA_SUCCESS);
    NEED(cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS);
    take(6 * MIB);
    NEED(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
    fflush(stdout);
    getchar();
    return 0;
}
