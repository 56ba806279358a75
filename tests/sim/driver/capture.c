/* capture.c -- streams that capture.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What they forbid, how streams join, and the graph that comes of it.
 *
 * Holds:      the rules of the interface (CUDA Driver API, cuThreadExchangeStreamCaptureMode): a
 *             thread in GLOBAL mode may make no potentially unsafe call while it captures in a mode
 *             that is not RELAXED, or while any thread captures in GLOBAL mode; in THREAD_LOCAL
 *             mode only the first counts; in RELAXED mode neither does. A forbidden call
 *             invalidates what forbade it. An invalid capture stays until it is ended where it
 *             began, or its stream is destroyed.
 */
#include "tests/sim/driver/sim.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct vgsim_capture {
    uint64_t id, thread;
    CUstreamCaptureMode mode;
    bool invalid, into_existing;
    struct CUstream_st *origin, *streams;
    CUgraph graph;
    struct vgsim_capture *next;
};

static struct {
    struct vgsim_capture *all;
    _Atomic int count; /* for the audit, which takes no lock */
    uint64_t last_id;
} state;

static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static uint64_t this_thread(void)
{
    return (uint64_t)gettid();
}

/* --- what a capture forbids ------------------------------------------------------------------- */

static bool is_in_the_way(const struct vgsim_capture *capture)
{
    if (capture->thread == this_thread() && capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED)
        return true;
    return thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
           capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

CUresult vgsim_capture_forbids(void)
{
    CUresult result = CUDA_SUCCESS;
    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return result;
    for (struct vgsim_capture *at = state.all; at; at = at->next)
        if (is_in_the_way(at)) {
            at->invalid = true;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    return result;
}

static bool has_blocking_stream(const struct vgsim_capture *capture, const struct CUctx_st *context)
{
    for (const struct CUstream_st *at = capture->streams; at; at = at->next)
        if (at->object.context == context && !(at->flags & CU_STREAM_NON_BLOCKING))
            return true;
    return false;
}

/* The legacy stream would wait for the blocking streams of its context: unusable while one of them
 * captures (CUDA Driver API, cuStreamIsCapturing). */
static CUresult implicit(bool invalidate)
{
    CUresult result = CUDA_SUCCESS;
    const struct CUctx_st *context = vgsim_current();
    for (struct vgsim_capture *at = state.all; at; at = at->next)
        if (context && has_blocking_stream(at, context)) {
            at->invalid |= invalidate;
            result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    return result;
}

CUresult vgsim_capture_implicit(void)
{
    return implicit(true);
}

/* Nor may what holds a capturing stream be waited for (CUDA Programming Guide, "Prohibited and
 * Unhandled Operations" of stream capture). */
CUresult vgsim_capture_over(const struct CUctx_st *context)
{
    CUresult result = CUDA_SUCCESS;
    for (struct vgsim_capture *at = state.all; at; at = at->next)
        for (const struct CUstream_st *stream = at->streams; stream; stream = stream->next)
            if (stream->object.context == context) {
                at->invalid = true;
                result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
            }
    return result;
}

/* --- VGSIM_STRICT_CAPTURE --------------------------------------------------------------------- */

bool vgsim_capture_any(void)
{
    return state.count != 0;
}

/* One write, so that the lines of several threads stay whole. */
void vgsim_capture_audit(const char *api)
{
    char line[128];
    size_t length = strlen(api);
    if (!vgsim_capture_any() || strncmp(api, "cu", 2) || length + 1 > sizeof line)
        return;
    memcpy(line, api, length);
    line[length++] = '\n';
    int fd = open(vgsim_knobs()->strict_capture, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd < 0)
        return;
    if (write(fd, line, length) < 0)
        abort(); /* a list with a hole would pass for a clean one */
    close(fd);
}

/* --- a stream and its capture ----------------------------------------------------------------- */

bool vgsim_capture_is_active(const struct CUstream_st *stream)
{
    return stream->capture && !stream->capture->invalid;
}

uint64_t vgsim_capture_id(const struct CUstream_st *stream)
{
    return stream->capture ? stream->capture->id : 0;
}

void vgsim_capture_invalidate(struct CUstream_st *stream)
{
    stream->capture->invalid = true;
}

static void enter(struct vgsim_capture *capture, struct CUstream_st *stream)
{
    stream->capture = capture;
    stream->next = capture->streams;
    capture->streams = stream;
}

static void leave(struct CUstream_st *stream)
{
    for (struct CUstream_st **at = &stream->capture->streams; *at; at = &(*at)->next)
        if (*at == stream) {
            *at = stream->next;
            break;
        }
    stream->capture = NULL;
    vgsim_nodes_clear(&stream->last);
}

/* The capture is over; its graph lives on if it was not the capture's own, or if it is kept. */
static void finish(struct vgsim_capture *capture, bool keep)
{
    while (capture->streams)
        leave(capture->streams);
    capture->graph->captures--;
    if (!keep && !capture->into_existing)
        vgsim_graph_end(capture->graph);
    for (struct vgsim_capture **at = &state.all; *at; at = &(*at)->next)
        if (*at == capture) {
            *at = capture->next;
            break;
        }
    free(capture);
    state.count--;
}

/* A capture ends with the stream that it began in; without another one it cannot be joined any
 * more. */
void vgsim_capture_forget(struct CUstream_st *stream)
{
    struct vgsim_capture *capture = stream->capture;
    if (!capture)
        return;
    if (capture->origin == stream) {
        finish(capture, false);
        return;
    }
    capture->invalid = true;
    leave(stream);
}

static void set_last(struct CUstream_st *stream, CUgraphNode node)
{
    stream->last.count = 0;
    vgsim_nodes_add(&stream->last, node);
}

CUgraphNode vgsim_capture_node(CUstream stream, CUgraphNodeType type)
{
    CUgraphNode node =
        vgsim_graph_node(stream->capture->graph, type, stream->last.at, stream->last.count);
    set_last(stream, node);
    return node;
}

CUresult vgsim_capture_alloc(CUstream stream, const CUmemPoolProps *props, size_t bytes,
                             CUdeviceptr *out)
{
    CUgraphNode node;
    CUresult result = vgsim_graph_alloc_node(&node, stream->capture->graph, stream->last.at,
                                             stream->last.count, props, bytes, out);
    if (result == CUDA_SUCCESS)
        set_last(stream, node);
    return result;
}

CUresult vgsim_capture_free(CUstream stream, CUdeviceptr address)
{
    CUgraphNode node;
    CUresult result = vgsim_graph_free_node(&node, stream->capture->graph, stream->last.at,
                                            stream->last.count, address);
    if (result == CUDA_SUCCESS)
        set_last(stream, node);
    return result;
}

/* --- joining: a stream waits for an event of the capture -----------------------------------------
 * Source: CUDA Programming Guide, "Cross-stream Dependencies and Events". */

static struct vgsim_capture *find(uint64_t id)
{
    struct vgsim_capture *capture = state.all;
    while (capture && capture->id != id)
        capture = capture->next;
    return capture;
}

/* id: the capture of the event; 0: it was recorded outside of all. */
CUresult vgsim_capture_join(CUstream stream, uint64_t id, const struct vgsim_nodes *after)
{
    struct vgsim_capture *theirs = id ? find(id) : NULL;
    struct vgsim_capture *ours = (uintptr_t)stream > 2 ? stream->capture : NULL;
    if (id && !theirs)
        return CUDA_ERROR_CAPTURED_EVENT; /* its capture is over */
    if (ours != theirs && ours) {
        ours->invalid = true;
        if (theirs)
            theirs->invalid = true;
        return theirs ? CUDA_ERROR_STREAM_CAPTURE_MERGE : CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (theirs->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if ((uintptr_t)stream <= 2) {
        theirs->invalid = true;
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    if (!ours)
        enter(theirs, stream);
    for (size_t i = 0; i < after->count; i++)
        if (!vgsim_nodes_have(&stream->last, after->at[i]))
            vgsim_nodes_add(&stream->last, after->at[i]);
    return CUDA_SUCCESS;
}

/* --- begin and end ---------------------------------------------------------------------------- */

static CUresult may_begin(CUstream stream, CUstreamCaptureMode mode)
{
    if ((unsigned int)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    if ((uintptr_t)stream <= 2)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (!vgsim_object_is(stream, STREAM))
        return CUDA_ERROR_INVALID_HANDLE;
    return stream->capture ? CUDA_ERROR_ILLEGAL_STATE : CUDA_SUCCESS;
}

/* graph: NULL for one of the capture's own. */
static CUresult begin(CUstream stream, CUstreamCaptureMode mode, CUgraph graph,
                      const CUgraphNode *after, size_t count)
{
    CUresult result = may_begin(stream, mode);
    if (result == CUDA_SUCCESS && graph)
        result = vgsim_graph_after(graph, after, count);
    if (result != CUDA_SUCCESS)
        return result;
    struct vgsim_capture *capture = calloc(1, sizeof *capture);
    CUgraph target = graph ? graph : vgsim_graph_new();
    if (!capture || !target) {
        free(capture);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *capture = (struct vgsim_capture){.id = ++state.last_id,
                                      .thread = this_thread(),
                                      .mode = mode,
                                      .into_existing = graph != NULL,
                                      .origin = stream,
                                      .graph = target,
                                      .next = state.all};
    state.all = capture;
    state.count++;
    target->captures++;
    enter(capture, stream);
    for (size_t i = 0; i < count; i++)
        vgsim_nodes_add(&stream->last, after[i]);
    return CUDA_SUCCESS;
}

/* The form of 10.0 has no mode. */
CUresult cuStreamBeginCapture(CUstream hStream)
{
    CALL(CONTEXT, begin(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL, NULL, NULL, 0));
}

CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
    CALL(CONTEXT, begin(hStream, mode, NULL, NULL, 0));
}

CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
                                     const CUgraphNode *dependencies,
                                     const CUgraphEdgeData *dependencyData, size_t numDependencies,
                                     CUstreamCaptureMode mode)
{
    (void)dependencyData;
    CALL(CONTEXT, hGraph ? begin(hStream, mode, hGraph, dependencies, numDependencies)
                         : CUDA_ERROR_INVALID_VALUE);
}

/* Every stream that joined must lead back to the one where the capture began (error 904). */
static bool is_joined(const struct vgsim_capture *capture)
{
    vgsim_graph_mark(capture->graph, &capture->origin->last);
    for (const struct CUstream_st *at = capture->streams; at; at = at->next)
        for (size_t i = 0; i < at->last.count; i++)
            if (!at->last.at[i]->marked)
                return false;
    return true;
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
    struct vgsim_capture *capture = stream->capture;
    if (!capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (capture->origin != stream)
        return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != this_thread())
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    CUresult result = capture->invalid      ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                      : !is_joined(capture) ? CUDA_ERROR_STREAM_CAPTURE_UNJOINED
                                            : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS)
        *out = capture->graph;
    finish(capture, result == CUDA_SUCCESS);
    return result;
}

CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
    CALL(CONTEXT, end(hStream, phGraph));
}

/* --- questions -------------------------------------------------------------------------------- */

static CUresult status(CUstream stream, CUstreamCaptureStatus *out, cuuint64_t *id_out)
{
    CUresult result = out ? vgsim_stream_known(stream) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    if ((uintptr_t)stream <= 2) {
        *out = CU_STREAM_CAPTURE_STATUS_NONE;
        return stream == CU_STREAM_PER_THREAD ? CUDA_SUCCESS : implicit(false);
    }
    *out = !stream->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
           : stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                      : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    if (id_out && *out == CU_STREAM_CAPTURE_STATUS_ACTIVE)
        *id_out = stream->capture->id;
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

/* Edges have no data here: as many zeros as anybody asked for. */
static const CUgraphEdgeData *no_data(size_t count)
{
    static CUgraphEdgeData *zeros;
    static size_t room;
    if (count > room) {
        free(zeros);
        zeros = calloc(count, sizeof *zeros);
        room = zeros ? count : 0;
    }
    return zeros;
}

static CUresult info(CUstream stream, CUstreamCaptureStatus *out, cuuint64_t *id_out,
                     CUgraph *graph_out, const CUgraphNode **nodes_out,
                     const CUgraphEdgeData **edges_out, size_t *count_out)
{
    if ((edges_out && !nodes_out) || (nodes_out && !count_out))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = status(stream, out, id_out);
    if (result != CUDA_SUCCESS || *out != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return result;
    if (graph_out)
        *graph_out = stream->capture->graph;
    if (nodes_out)
        *nodes_out = stream->last.at;
    if (count_out)
        *count_out = stream->last.count;
    if (edges_out)
        *edges_out = no_data(stream->last.count);
    return CUDA_SUCCESS;
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

static CUresult update(CUstream stream, const CUgraphNode *nodes, size_t count, unsigned int flags)
{
    CUresult result = vgsim_stream_known(stream);
    if (result != CUDA_SUCCESS)
        return result;
    if ((uintptr_t)stream <= 2 || !stream->capture)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (stream->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        return CUDA_ERROR_INVALID_VALUE;
    result = vgsim_graph_after(stream->capture->graph, nodes, count);
    if (result != CUDA_SUCCESS)
        return result;
    if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        stream->last.count = 0;
    for (size_t i = 0; i < count; i++)
        if (!vgsim_nodes_have(&stream->last, nodes[i]))
            vgsim_nodes_add(&stream->last, nodes[i]);
    return CUDA_SUCCESS;
}

CUresult cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode *dependencies,
                                           size_t numDependencies, unsigned int flags)
{
    CALL(CONTEXT, update(hStream, dependencies, numDependencies, flags));
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode *dependencies,
                                              const CUgraphEdgeData *dependencyData,
                                              size_t numDependencies, unsigned int flags)
{
    (void)dependencyData;
    CALL(CONTEXT, update(hStream, dependencies, numDependencies, flags));
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
