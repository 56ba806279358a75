/* context.c -- which device and context a thread's runtime calls go to.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:      a context that the program made current itself wins; otherwise the primary context of
 *             the thread's device, made at the first call that needs one.
 * Holds:      one reference to a device's primary context per cudaDeviceReset() period, however
 *             many threads use it.
 * Threads:    `lock` guards the primary contexts; device and reset count are per thread.
 */
#include "runtime.h"

#include <pthread.h>
#include <stdbool.h>

enum { DEVICE_LIMIT = 64 };

static struct {
    pthread_mutex_t lock;
    CUcontext primary[DEVICE_LIMIT];
    unsigned int resets; /* a thread whose count is behind may hold a context that is gone */
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local int thread_device;
static _Thread_local CUcontext thread_primary; /* the one made current for this thread, at: */
static _Thread_local unsigned int thread_resets;

static cudaError_t primary_context(int device, CUcontext *context_out, unsigned int *resets_out)
{
    cudaError_t error = cudaSuccess;
    pthread_mutex_lock(&state.lock);
    if (!state.primary[device])
        error = RT_CALL(vgsim_primary_context, (&state.primary[device], device));
    *context_out = state.primary[device];
    *resets_out = state.resets;
    pthread_mutex_unlock(&state.lock);
    return error;
}

cudaError_t rt_check_device(int device)
{
    int count = 0;
    cudaError_t error = RT_CALL(cuDeviceGetCount, (&count));
    if (error != cudaSuccess)
        return error;
    return device >= 0 && device < count && device < DEVICE_LIMIT ? cudaSuccess
                                                                  : cudaErrorInvalidDevice;
}

/* Makes the primary context of the thread's device current. */
static cudaError_t use_primary(void)
{
    cudaError_t error = rt_check_device(thread_device);
    if (error == cudaSuccess)
        error = primary_context(thread_device, &thread_primary, &thread_resets);
    return error == cudaSuccess ? RT_CALL(cuCtxSetCurrent, (thread_primary)) : error;
}

cudaError_t rt_enter(void)
{
    cudaError_t error = rt_enter_driver();
    if (error != cudaSuccess)
        return error;
    CUcontext context = NULL;
    error = RT_CALL(cuCtxGetCurrent, (&context));
    if (error != cudaSuccess)
        return error;
    bool gone = context == thread_primary &&
                thread_resets != __atomic_load_n(&state.resets, __ATOMIC_ACQUIRE);
    return !context || gone ? use_primary() : cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    cudaError_t error = rt_enter_driver();
    if (error == cudaSuccess)
        error = rt_check_device(device);
    if (error != cudaSuccess)
        return rt_done(error);
    thread_device = device;
    return rt_done(use_primary());
}

cudaError_t cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags)
{
    (void)deviceFlags;
    if (flags)
        return rt_done(cudaErrorNotSupported);
    CUcontext context;
    unsigned int resets;
    cudaError_t error = rt_enter_driver();
    if (error == cudaSuccess)
        error = rt_check_device(device);
    return rt_done(error == cudaSuccess ? primary_context(device, &context, &resets) : error);
}

/* Makes no context: a program that only asks must not pay for one. */
cudaError_t cudaGetDevice(int *device)
{
    CUcontext context = NULL;
    cudaError_t error = rt_enter_driver();
    if (error == cudaSuccess)
        error = RT_CALL(cuCtxGetCurrent, (&context));
    if (error != cudaSuccess)
        return rt_done(error);
    *device = thread_device;
    return rt_done(context ? RT_CALL(cuCtxGetDevice, (device)) : cudaSuccess);
}

cudaError_t cudaDeviceReset(void)
{
    int device = 0;
    cudaError_t error = cudaGetDevice(&device);
    if (error == cudaSuccess)
        error = rt_check_device(device);
    if (error != cudaSuccess)
        return rt_done(error);
    pthread_mutex_lock(&state.lock);
    error = RT_CALL(cuDevicePrimaryCtxReset, (device));
    if (error == cudaSuccess) {
        state.primary[device] = NULL;
        __atomic_add_fetch(&state.resets, 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&state.lock);
    return rt_done(error);
}

/* Makes the peer's primary context, where it is not there yet. */
static cudaError_t peer_context(int device, CUcontext *context_out)
{
    unsigned int resets;
    cudaError_t error = rt_enter();
    if (error == cudaSuccess)
        error = rt_check_device(device);
    return error == cudaSuccess ? primary_context(device, context_out, &resets) : error;
}

cudaError_t cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags)
{
    CUcontext peer;
    cudaError_t error = peer_context(peerDevice, &peer);
    return rt_done(error == cudaSuccess ? RT_CALL(cuCtxEnablePeerAccess, (peer, flags)) : error);
}

cudaError_t cudaDeviceDisablePeerAccess(int peerDevice)
{
    CUcontext peer;
    cudaError_t error = peer_context(peerDevice, &peer);
    return rt_done(error == cudaSuccess ? RT_CALL(cuCtxDisablePeerAccess, (peer)) : error);
}

/* Flags are the primary context's, whether it is there already or not. */
cudaError_t cudaGetDeviceFlags(unsigned int *flags)
{
    int device = 0, active;
    cudaError_t error = cudaGetDevice(&device);
    return rt_done(error == cudaSuccess
                       ? RT_CALL(cuDevicePrimaryCtxGetState, (device, flags, &active))
                       : error);
}

cudaError_t cudaSetDeviceFlags(unsigned int flags)
{
    int device = 0;
    cudaError_t error = cudaGetDevice(&device);
    return rt_done(error == cudaSuccess ? RT_CALL(cuDevicePrimaryCtxSetFlags, (device, flags))
                                        : error);
}
