/* event.c -- events.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A point in the host's time, since work is done when it is given, and in the work of a stream.
 */
#include "tests/sim/driver/sim.h"

#include <time.h>

struct CUevent_st {
    struct vgsim_object object;
    unsigned int flags;
    bool recorded;
    struct timespec at;
    uint64_t line, ticket, asked; /* the work that it stands for */
    uint64_t capture;             /* or the capture that it was recorded in, 0: none */
    struct vgsim_nodes nodes;
};

unsigned int vgsim_event_flags(CUevent event)
{
    return event->flags;
}

CUresult vgsim_event_new(CUevent *out, unsigned int flags)
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
    CALL(CONTEXT, vgsim_event_new(phEvent, Flags));
}

void vgsim_event_forget(CUevent event)
{
    vgsim_nodes_clear(&event->nodes);
}

static CUresult destroy(CUevent event)
{
    if (!vgsim_object_is(event, EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    vgsim_event_forget(event);
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

/* In a stream that captures, the event stands for the nodes that the stream's next node would come
 * after; or it is a node itself (CUDA Driver API, cuEventRecordWithFlags:
 * CU_EVENT_RECORD_EXTERNAL). */
static void record_captured(CUevent event, CUstream stream)
{
    event->capture = vgsim_capture_id(stream);
    vgsim_nodes_clear(&event->nodes);
    for (size_t i = 0; i < stream->last.count; i++)
        vgsim_nodes_add(&event->nodes, stream->last.at[i]);
}

/* An event is recorded in streams of its own context only. */
static CUresult record(CUevent event, CUstream stream, unsigned int flags)
{
    CUresult result = vgsim_stream_check(stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!vgsim_object_is(event, EVENT) || event->object.context != vgsim_stream_context(stream))
        return CUDA_ERROR_INVALID_HANDLE;
    bool captures = (uintptr_t)stream > 2 && stream->capture;
    if (flags > 1 || (flags && !captures))
        return CUDA_ERROR_INVALID_VALUE;
    if (flags) {
        vgsim_capture_node(stream, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
        return CUDA_SUCCESS;
    }
    event->recorded = true;
    clock_gettime(CLOCK_MONOTONIC, &event->at);
    if (captures) {
        record_captured(event, stream);
        return CUDA_SUCCESS;
    }
    struct vgsim_line *line = vgsim_stream_line(stream);
    event->capture = 0;
    event->line = line->id;
    event->ticket = line->last > line->done ? line->last : 0;
    event->asked = 0;
    return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent hEvent, CUstream hStream)
{
    CALL(CONTEXT, record(hEvent, hStream, 0));
}

CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
    CALL(CONTEXT, record(hEvent, hStream, flags));
}

/* An event of a capture cannot be asked, in whatever mode the thread is (CUDA Driver API,
 * cuThreadExchangeStreamCaptureMode). */
static CUresult query(CUevent event)
{
    if (!vgsim_object_is(event, EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    if (event->capture)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (event->ticket && event->asked != event->ticket) {
        event->asked = event->ticket;
        if (vgsim_work_is_pending(event->line, event->ticket))
            return CUDA_ERROR_NOT_READY;
    }
    vgsim_work_done(event->line, event->ticket);
    return CUDA_SUCCESS;
}

CUresult cuEventQuery(CUevent hEvent)
{
    CALL(INIT | UNSAFE, query(hEvent));
}

static CUresult synchronize(CUevent event)
{
    if (!vgsim_object_is(event, EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    if (event->capture)
        return CUDA_ERROR_CAPTURED_EVENT;
    vgsim_work_done(event->line, event->ticket);
    vgsim_pools_sync(event->object.context->device);
    return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent hEvent)
{
    CALL(INIT | UNSAFE, synchronize(hEvent));
}

/* Waiting takes a stream into the capture that the event is of, or keeps two orders of work apart.
 * An event that was never recorded is nothing to wait for. */
static CUresult wait_event(CUstream stream, CUevent event, unsigned int flags)
{
    CUresult result = vgsim_stream_check(stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (!vgsim_object_is(event, EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    bool captures = (uintptr_t)stream > 2 && stream->capture;
    if (flags > 1 || (flags && !captures))
        return CUDA_ERROR_INVALID_VALUE;
    if (flags) {
        vgsim_capture_node(stream, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
        return CUDA_SUCCESS;
    }
    if (!event->recorded)
        return CUDA_SUCCESS;
    if (event->capture || captures)
        return vgsim_capture_join(stream, event->capture, &event->nodes);
    vgsim_work_follows(vgsim_stream_line(stream), event->line, event->ticket);
    return CUDA_SUCCESS;
}

CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
    CALL(CONTEXT, wait_event(hStream, hEvent, Flags));
}

static CUresult elapsed(float *out, CUevent start, CUevent end)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!vgsim_object_is(start, EVENT) || !vgsim_object_is(end, EVENT) || !start->recorded ||
        !end->recorded || (start->flags | end->flags) & CU_EVENT_DISABLE_TIMING)
        return CUDA_ERROR_INVALID_HANDLE;
    if (start->capture || end->capture)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (vgsim_work_is_pending(start->line, start->ticket) ||
        vgsim_work_is_pending(end->line, end->ticket))
        return CUDA_ERROR_NOT_READY;
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
