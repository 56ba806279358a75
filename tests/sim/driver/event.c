/* event.c -- events: a point in the host's time, since work is done when it is given.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/sim/driver/sim.h"

#include <time.h>

struct CUevent_st {
    struct vgsim_object object;
    unsigned int flags;
    bool recorded, captured;
    struct timespec at;
};

static CUresult create(CUevent *out, unsigned int flags)
{
    if (!out || flags > 7 || (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING)))
        return CUDA_ERROR_INVALID_VALUE;
    struct CUevent_st *event = vgsim_object_add(EVENT, sizeof *event, vgsim_current());
    if (!event)
        return CUDA_ERROR_OUT_OF_MEMORY;
    event->flags = flags;
    *out = event;
    return CUDA_SUCCESS;
}

CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
    CALL(CONTEXT, create(phEvent, Flags));
}

static CUresult destroy(CUevent event)
{
    if (!vgsim_object_is(event, EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    vgsim_object_remove(event);
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent hEvent)
{
    CALL(INIT, destroy(hEvent));
}

CUresult cuEventDestroy_v2(CUevent hEvent)
{
    CALL(INIT, destroy(hEvent));
}

/* An event is recorded in streams of its own context only. */
static CUresult record(CUevent event, CUstream stream)
{
    CUresult result = vgsim_stream_check(stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!vgsim_object_is(event, EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    struct CUctx_st *context = (uintptr_t)stream <= 2 ? vgsim_current() : stream->object.context;
    if (event->object.context != context)
        return CUDA_ERROR_INVALID_HANDLE;
    event->recorded = true;
    event->captured = vgsim_stream_capturing(stream);
    clock_gettime(CLOCK_MONOTONIC, &event->at);
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent hEvent, CUstream hStream)
{
    CALL(CONTEXT, record(hEvent, hStream));
}

CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
    CALL(CONTEXT, flags <= 1 ? record(hEvent, hStream) : CUDA_ERROR_INVALID_VALUE);
}

static CUresult query(CUevent event)
{
    if (!vgsim_object_is(event, EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    return event->captured ? CUDA_ERROR_CAPTURED_EVENT : CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent hEvent)
{
    CALL(INIT | UNSAFE, query(hEvent));
}

static CUresult synchronize(CUevent event)
{
    CUresult result = query(event);
    if (result == CUDA_SUCCESS)
        vgsim_pools_sync(event->object.context->device);
    return result;
}

CUresult cuEventSynchronize(CUevent hEvent)
{
    CALL(INIT | UNSAFE, synchronize(hEvent));
}

static CUresult elapsed(float *out, CUevent start, CUevent end)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!vgsim_object_is(start, EVENT) || !vgsim_object_is(end, EVENT) || !start->recorded ||
        !end->recorded || (start->flags | end->flags) & CU_EVENT_DISABLE_TIMING)
        return CUDA_ERROR_INVALID_HANDLE;
    *out = (float)((double)(end->at.tv_sec - start->at.tv_sec) * 1e3 +
                   (double)(end->at.tv_nsec - start->at.tv_nsec) / 1e6);
    return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    CALL(INIT, elapsed(pMilliseconds, hStart, hEnd));
}

CUresult cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    CALL(INIT, elapsed(pMilliseconds, hStart, hEnd));
}
