/* capture.c -- streams that capture, what they forbid, and the graphs that come of it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Holds:      the rule of the interface: in GLOBAL mode a call is forbidden while this thread captures in a
 *             mode that is not RELAXED, or any thread captures in GLOBAL mode; in THREAD_LOCAL mode only the
 *             first counts; in RELAXED mode nothing does. A forbidden call invalidates what forbade it.
 * Not here:   nodes. A graph knows how many there were; launching it does nothing, as kernels do nothing.
 */
#include "tests/sim/driver/sim.h"

#include <unistd.h>

#define MAX_CAPTURES 256

struct CUgraph_st {
    struct vgsim_object object;
    uint64_t nodes;
};

struct CUgraphExec_st {
    struct vgsim_object object;
    uint64_t nodes;
};

static struct {
    struct CUstream_st *capturing[MAX_CAPTURES];
    int count;
    uint64_t last_id;
} state;

static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static uint64_t this_thread(void)
{
    return (uint64_t)gettid();
}

static bool is_in_the_way(const struct CUstream_st *stream)
{
    if (stream->capture_thread == this_thread() &&
        stream->capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED)
        return true;
    return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
           stream->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult vgsim_capture_forbids(void)
{
    CUresult result = CUDA_SUCCESS;
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return result;
    for (int i = 0; i < state.count; i++)
        if (is_in_the_way(state.capturing[i])) {
            state.capturing[i]->capture = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return result;
}

void vgsim_capture_forget(struct CUstream_st *stream)
{
    for (int i = 0; i < state.count; i++)
        if (state.capturing[i] == stream)
            state.capturing[i] = state.capturing[--state.count];
    stream->capture = CU_STREAM_CAPTURE_STATUS_NONE;
}

static CUresult begin(CUstream stream, CUstreamCaptureMode mode)
{
    if ((unsigned int)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if ((uintptr_t)stream <= 1)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (!vgsim_object_is(stream, STREAM))
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture != CU_STREAM_CAPTURE_STATUS_NONE || state.count == MAX_CAPTURES)
        return CUDA_ERROR_ILLEGAL_STATE;
    stream->capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    stream->capture_mode = mode;
    stream->capture_thread = this_thread();
    stream->capture_id = ++state.last_id;
    stream->capture_nodes = 0;
    state.capturing[state.count++] = stream;
    return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
    CALL(CONTEXT, begin(hStream, mode));
}

static CUresult new_graph(CUgraph *out, uint64_t nodes)
{
    struct CUgraph_st *graph = vgsim_object_add(GRAPH, sizeof *graph, NULL);
    if (!graph)
        return CUDA_ERROR_OUT_OF_MEMORY;
    graph->nodes = nodes;
    *out = graph;
    return CUDA_SUCCESS;
}

static CUresult end(CUstream stream, CUgraph *out)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = NULL;
    if ((uintptr_t)stream <= 2)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (!vgsim_object_is(stream, STREAM))
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream->capture == CU_STREAM_CAPTURE_STATUS_NONE)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (stream->capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        stream->capture_thread != this_thread())
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    bool valid = stream->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE;
    vgsim_capture_forget(stream);
    return valid ? new_graph(out, stream->capture_nodes) : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
}

CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
    CALL(CONTEXT, end(hStream, phGraph));
}

static CUresult status(CUstream stream, CUstreamCaptureStatus *out, cuuint64_t *id_out)
{
    CUresult result = out ? vgsim_stream_check(stream) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    *out = (uintptr_t)stream <= 2 ? CU_STREAM_CAPTURE_STATUS_NONE : stream->capture;
    if (id_out && *out == CU_STREAM_CAPTURE_STATUS_ACTIVE)
        *id_out = stream->capture_id;
    return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
    CALL(CONTEXT, status(hStream, captureStatus, NULL));
}

CUresult cuStreamGetCaptureInfo(CUstream hStream, CUstreamCaptureStatus *status_out, cuuint64_t *id)
{
    CALL(CONTEXT, status(hStream, status_out, id));
}

/* The graph being captured and its nodes exist only when it ends: asking for them while it is captured is
 * refused rather than answered with an empty graph. */
static CUresult info(CUstream stream, CUstreamCaptureStatus *out, cuuint64_t *id_out,
                     CUgraph *graph_out, const CUgraphNode **nodes_out,
                     const CUgraphEdgeData **edges_out, size_t *count_out)
{
    CUresult result = status(stream, out, id_out);
    if (result != CUDA_SUCCESS || *out != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return result;
    return graph_out || nodes_out || edges_out || count_out ? CUDA_ERROR_NOT_SUPPORTED : result;
}

CUresult cuStreamGetCaptureInfo_v2(CUstream hStream, CUstreamCaptureStatus *status_out,
                                   cuuint64_t *id, CUgraph *graph, const CUgraphNode **dependencies,
                                   size_t *count)
{
    CALL(CONTEXT, info(hStream, status_out, id, graph, dependencies, NULL, count));
}

CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *status_out,
                                   cuuint64_t *id, CUgraph *graph, const CUgraphNode **dependencies,
                                   const CUgraphEdgeData **edges, size_t *count)
{
    CALL(CONTEXT, info(hStream, status_out, id, graph, dependencies, edges, count));
}

static CUresult exchange(CUstreamCaptureMode *mode)
{
    if (!mode || (unsigned int)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode old = thread_mode;
    thread_mode = *mode;
    *mode = old;
    return CUDA_SUCCESS;
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    CALL(NOTHING, exchange(mode));
}

/* --- graphs ------------------------------------------------------------------------------------------------------ */

static CUresult create(CUgraph *out, unsigned int flags)
{
    return out && !flags ? new_graph(out, 0) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphCreate(CUgraph *phGraph, unsigned int flags)
{
    CALL(INIT, create(phGraph, flags));
}

static CUresult destroy(void *handle, enum vgsim_type type)
{
    if (!vgsim_object_is(handle, type))
        return CUDA_ERROR_INVALID_VALUE;
    vgsim_object_remove(handle);
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph hGraph)
{
    CALL(INIT, destroy(hGraph, GRAPH));
}

CUresult cuGraphExecDestroy(CUgraphExec hGraphExec)
{
    CALL(INIT, destroy(hGraphExec, GRAPH_EXEC));
}

static CUresult instantiate(CUgraphExec *out, CUgraph graph)
{
    if (!out || !vgsim_object_is(graph, GRAPH))
        return CUDA_ERROR_INVALID_VALUE;
    struct CUgraphExec_st *exec = vgsim_object_add(GRAPH_EXEC, sizeof *exec, NULL);
    if (!exec)
        return CUDA_ERROR_OUT_OF_MEMORY;
    exec->nodes = graph->nodes;
    *out = exec;
    return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph,
                                     unsigned long long flags)
{
    (void)flags;
    CALL(CONTEXT, instantiate(phGraphExec, hGraph));
}

static CUresult launch(CUgraphExec exec, CUstream stream)
{
    if (!vgsim_object_is(exec, GRAPH_EXEC))
        return CUDA_ERROR_INVALID_VALUE;
    return vgsim_stream_check(stream);
}

CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
{
    CALL(CONTEXT, launch(hGraphExec, hStream));
}

CUresult cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream)
{
    CALL(CONTEXT, launch(hGraphExec, hStream));
}
