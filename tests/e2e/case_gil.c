/* case_gil.c -- memory taken by another thread while the caller holds Python's lock and waits.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Called through ctypes.PyDLL, which keeps the lock.
 */
#include <pthread.h>

#include "case.h"

static CUcontext context;

static void *take_some(void *address)
{
    NEED(cuCtxSetCurrent(context) == CUDA_SUCCESS);
    *(CUdeviceptr *)address = take(6 * MIB);
    return NULL;
}

CUdeviceptr take_in_a_thread(void);
CUdeviceptr take_in_a_thread(void)
{
    pthread_t thread;
    CUdeviceptr address = 0;
    use_device();
    NEED(cuCtxGetCurrent(&context) == CUDA_SUCCESS);
    NEED(pthread_create(&thread, NULL, take_some, &address) == 0);
    NEED(pthread_join(thread, NULL) == 0);
    return address;
}
