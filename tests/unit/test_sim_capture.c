/* test_sim_capture.c -- stream capture on the simulated driver.
 * SPDX-License-Identifier: Apache-2.0
 *
 * What it forbids, how streams join, what it notes.
 */
#include "tests/unit/sim_books.h"

#include <pthread.h>

#define GLOBAL       CU_STREAM_CAPTURE_MODE_GLOBAL
#define THREAD_LOCAL CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
#define RELAXED      CU_STREAM_CAPTURE_MODE_RELAXED

static void begin(CUstream stream, CUstreamCaptureMode mode)
{
    SUCCEEDS(CU(cuStreamBeginCapture_v2)(stream, mode));
}

static CUstreamCaptureStatus status_of(CUstream stream)
{
    CUstreamCaptureStatus status;
    SUCCEEDS(CU(cuStreamIsCapturing)(stream, &status));
    return status;
}

static void ends_with(CUstream stream, CUresult wanted)
{
    CUgraph graph = (CUgraph)1;
    CHECK_EQUAL(CU(cuStreamEndCapture)(stream, &graph), wanted);
    CHECK(wanted == CUDA_SUCCESS || !graph);
    CHECK_EQUAL(status_of(stream), CU_STREAM_CAPTURE_STATUS_NONE);
    if (graph)
        SUCCEEDS(CU(cuGraphDestroy)(graph));
}

static CUstream stream_a, stream_b;
static CUevent event_a;

static void start(void)
{
    sim_start(0);
    stream_a = sim_stream(CU_STREAM_NON_BLOCKING);
    stream_b = sim_stream(CU_STREAM_NON_BLOCKING);
    SUCCEEDS(CU(cuEventCreate)(&event_a, 0));
}

/* --- potentially unsafe calls (CUDA Driver API, cuThreadExchangeStreamCaptureMode) ------------ */

static CUresult unsafe_call(int which)
{
    static char own[4096];
    CUdeviceptr pointer;
    CUmemoryPool pool;
    cuuint64_t value = 0;
    void *host;
    SUCCEEDS(CU(cuDeviceGetDefaultMemPool)(&pool, 0));
    switch (which) {
    case 0:
        return CU(cuMemAlloc_v2)(&pointer, 1);
    case 1:
        return CU(cuMemFree_v2)(0);
    case 2:
        return CU(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value);
    case 3:
        return CU(cuMemPoolSetAttribute)(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &value);
    case 4:
        return CU(cuMemPoolTrimTo)(pool, 0);
    case 5:
        return CU(cuMemHostAlloc)(&host, 1, 0);
    case 6:
        return CU(cuMemHostRegister_v2)(own, sizeof own, 0);
    case 7:
        return CU(cuEventQuery)(event_a);
    case 8:
        return CU(cuMemAllocManaged)(&pointer, 1, CU_MEM_ATTACH_GLOBAL);
    default:
        return CU(cuCtxSynchronize)();
    }
}

static void body_unsafe(void)
{
    start();
    for (int which = 0; which < 10; which++)
        for (CUstreamCaptureMode mode = GLOBAL; mode <= RELAXED; mode++) {
            /* waiting for the context is forbidden by the capture in it, whatever its mode */
            bool forbidden = mode != RELAXED || which == 9;
            begin(stream_a, mode);
            CUresult result = unsafe_call(which);
            CHECK_EQUAL(result, forbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS);
            CHECK_EQUAL(status_of(stream_a), forbidden ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                                       : CU_STREAM_CAPTURE_STATUS_ACTIVE);
            ends_with(stream_a, forbidden ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS);
            if (which == 6 && !forbidden)
                break;
        }
}

static void test_potentially_unsafe_calls_fail_and_invalidate(void **unused)
{
    (void)unused;
    IN_CHILD(body_unsafe, NULL);
}

static CUstreamCaptureMode thread_mode;
static CUresult thread_result;
static CUcontext thread_context;

static void *call_unsafe(void *unused)
{
    (void)unused;
    CUstreamCaptureMode mode = thread_mode;
    CUdeviceptr pointer;
    SUCCEEDS(CU(cuCtxSetCurrent)(thread_context));
    SUCCEEDS(CU(cuThreadExchangeStreamCaptureMode)(&mode));
    CHECK_EQUAL(mode, GLOBAL); /* what every thread begins with */
    thread_result = CU(cuMemAlloc_v2)(&pointer, 1);
    return NULL;
}

static void from_another_thread(CUstreamCaptureMode capture, CUstreamCaptureMode thread,
                                bool forbidden)
{
    pthread_t other;
    thread_mode = thread;
    begin(stream_a, capture);
    CHECK(!pthread_create(&other, NULL, call_unsafe, NULL) && !pthread_join(other, NULL));
    CHECK_EQUAL(thread_result, forbidden ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS);
    ends_with(stream_a, forbidden ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS);
}

static void body_threads(void)
{
    start();
    SUCCEEDS(CU(cuCtxGetCurrent)(&thread_context));
    from_another_thread(GLOBAL, GLOBAL, true);
    from_another_thread(GLOBAL, THREAD_LOCAL, false);
    from_another_thread(GLOBAL, RELAXED, false);
    from_another_thread(THREAD_LOCAL, GLOBAL, false);
    from_another_thread(RELAXED, GLOBAL, false);
}

static void test_a_global_capture_is_every_threads_that_did_not_say_otherwise(void **unused)
{
    (void)unused;
    IN_CHILD(body_threads, NULL);
}

static void *end_capture(void *unused)
{
    CUgraph graph;
    (void)unused;
    SUCCEEDS(CU(cuCtxSetCurrent)(thread_context));
    thread_result = CU(cuStreamEndCapture)(stream_a, &graph);
    return NULL;
}

static void body_wrong_thread(void)
{
    pthread_t other;
    start();
    SUCCEEDS(CU(cuCtxGetCurrent)(&thread_context));
    for (CUstreamCaptureMode mode = GLOBAL; mode <= RELAXED; mode++) {
        begin(stream_a, mode);
        CHECK(!pthread_create(&other, NULL, end_capture, NULL) && !pthread_join(other, NULL));
        CHECK_EQUAL(thread_result,
                    mode == RELAXED ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
        if (mode != RELAXED)
            ends_with(stream_a, CUDA_SUCCESS);
    }
}

static void test_a_capture_ends_in_the_thread_that_began_it_unless_relaxed(void **unused)
{
    (void)unused;
    IN_CHILD(body_wrong_thread, NULL);
}

/* --- waiting, destroying, the legacy stream --------------------------------------------------- */

static void body_waiting(void)
{
    CUgraph graph;
    start();
    CHECK_EQUAL(CU(cuStreamEndCapture)(stream_a, &graph), CUDA_ERROR_ILLEGAL_STATE);
    CHECK_EQUAL(CU(cuStreamBeginCapture_v2)(NULL, RELAXED), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    begin(stream_a, RELAXED);
    CHECK_EQUAL(CU(cuStreamBeginCapture_v2)(stream_a, RELAXED), CUDA_ERROR_ILLEGAL_STATE);
    CHECK_EQUAL(CU(cuStreamSynchronize)(stream_a), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK_EQUAL(CU(cuEventRecord)(event_a, stream_a), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    ends_with(stream_a, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    begin(stream_a, RELAXED);
    CHECK_EQUAL(CU(cuStreamQuery)(stream_a), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    ends_with(stream_a, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    begin(stream_a, RELAXED);
    SUCCEEDS(CU(cuEventRecord)(event_a, stream_a));
    CHECK_EQUAL(CU(cuEventQuery)(event_a), CUDA_ERROR_CAPTURED_EVENT);
    CHECK_EQUAL(CU(cuEventSynchronize)(event_a), CUDA_ERROR_CAPTURED_EVENT);
    ends_with(stream_a, CUDA_SUCCESS);
    CHECK_EQUAL(CU(cuStreamWaitEvent)(stream_b, event_a, 0), CUDA_ERROR_CAPTURED_EVENT);
}

static void test_a_capturing_stream_and_its_events_cannot_be_waited_for(void **unused)
{
    (void)unused;
    IN_CHILD(body_waiting, NULL);
}

static void body_destroyed(void)
{
    start();
    begin(stream_a, GLOBAL);
    CHECK_EQUAL(sim_books(0).objects[VGSIM_COUNTED_graphs].live, 1);
    SUCCEEDS(CU(cuStreamDestroy_v2)(stream_a));
    CHECK_EQUAL(sim_books(0).objects[VGSIM_COUNTED_graphs].live, 0);
    sim_alloc(1); /* nothing captures any more */
    stream_a = sim_stream(CU_STREAM_NON_BLOCKING);
    begin(stream_a, GLOBAL);
    SUCCEEDS(CU(cuEventRecord)(event_a, stream_a));
    SUCCEEDS(CU(cuStreamWaitEvent)(stream_b, event_a, 0));
    SUCCEEDS(CU(cuStreamDestroy_v2)(stream_b));
    ends_with(stream_a, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    begin(stream_a, GLOBAL);
    SUCCEEDS(CU(cuDevicePrimaryCtxReset_v2)(0));
    sim_start(0);
    sim_alloc(1);
}

static void test_destroying_the_stream_or_its_context_ends_the_capture(void **unused)
{
    (void)unused;
    IN_CHILD(body_destroyed, NULL);
}

/* cuStreamIsCapturing: the legacy stream cannot be used while a blocking stream of its context
 * captures. */
static void body_legacy(void)
{
    CUstreamCaptureStatus status;
    start();
    CUstream blocking = sim_stream(0);
    begin(stream_a, RELAXED);
    CUdeviceptr pointer = sim_alloc_async(1, NULL);
    ends_with(stream_a, CUDA_SUCCESS);
    begin(blocking, RELAXED);
    CHECK_EQUAL(CU(cuStreamIsCapturing)(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    CHECK_EQUAL(status_of(blocking), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CHECK_EQUAL(CU(cuMemFreeAsync)(pointer, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    ends_with(blocking, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    SUCCEEDS(CU(cuMemFreeAsync)(pointer, NULL));
    begin(blocking, RELAXED);
    SUCCEEDS(CU(cuEventRecord)(event_a, blocking));
    CHECK_EQUAL(CU(cuMemsetD8_v2)(sim_alloc(1), 1, 1), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    ends_with(blocking, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

static void test_the_legacy_stream_is_unusable_while_a_blocking_stream_captures(void **unused)
{
    (void)unused;
    IN_CHILD(body_legacy, NULL);
}

/* --- joining (CUDA Programming Guide, "Cross-stream Dependencies and Events") ----------------- */

static void fork_into(CUstream from, CUstream to)
{
    SUCCEEDS(CU(cuEventRecord)(event_a, from));
    SUCCEEDS(CU(cuStreamWaitEvent)(to, event_a, 0));
}

static void body_joins(void)
{
    CUgraph graph;
    CUgraphNode nodes[8], from[8], to[8];
    CUgraphNodeType type;
    size_t count = 8, edges = 8;
    start();
    CUdeviceptr memory = sim_alloc(16);
    begin(stream_a, GLOBAL);
    SUCCEEDS(CU(cuMemsetD8Async)(memory, 7, 16, stream_a));
    fork_into(stream_a, stream_b);
    CHECK_EQUAL(status_of(stream_b), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    SUCCEEDS(CU(cuMemcpyDtoDAsync_v2)(memory, memory + 8, 8, stream_b));
    SUCCEEDS(CU(cuMemsetD8Async)(memory, 9, 16, stream_a));
    CHECK_EQUAL(CU(cuStreamEndCapture)(stream_b, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    fork_into(stream_b, stream_a);
    SUCCEEDS(CU(cuMemsetD8Async)(memory, 9, 16, stream_a));
    SUCCEEDS(CU(cuStreamEndCapture)(stream_a, &graph));
    CHECK_EQUAL(status_of(stream_b), CU_STREAM_CAPTURE_STATUS_NONE);
    SUCCEEDS(CU(cuGraphGetNodes)(graph, nodes, &count));
    CHECK_EQUAL(count, 4);
    SUCCEEDS(CU(cuGraphNodeGetType)(nodes[1], &type));
    CHECK_EQUAL(type, CU_GRAPH_NODE_TYPE_MEMCPY);
    SUCCEEDS(CU(cuGraphGetEdges_v2)(graph, from, to, NULL, &edges));
    CHECK_EQUAL(edges, 4);
    char byte = 1;
    SUCCEEDS(CU(cuMemcpyDtoH_v2)(&byte, memory, 1));
    CHECK_EQUAL(byte, 0); /* noted, not done */
    /* a fork that is not joined */
    begin(stream_a, GLOBAL);
    fork_into(stream_a, stream_b);
    SUCCEEDS(CU(cuMemsetD8Async)(memory, 9, 16, stream_b));
    ends_with(stream_a, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    CHECK_EQUAL(status_of(stream_b), CU_STREAM_CAPTURE_STATUS_NONE);
}

static void test_streams_join_through_events_and_forks_must_be_joined(void **unused)
{
    (void)unused;
    IN_CHILD(body_joins, NULL);
}

static void body_apart(void)
{
    start();
    begin(stream_a, GLOBAL);
    begin(stream_b, GLOBAL);
    SUCCEEDS(CU(cuEventRecord)(event_a, stream_a));
    CHECK_EQUAL(CU(cuStreamWaitEvent)(stream_b, event_a, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
    ends_with(stream_a, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    ends_with(stream_b, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    SUCCEEDS(CU(cuEventRecord)(event_a, stream_b));
    begin(stream_a, GLOBAL);
    CHECK_EQUAL(CU(cuStreamWaitEvent)(stream_a, event_a, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    ends_with(stream_a, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

static void test_captures_do_not_merge_and_nothing_crosses_their_border(void **unused)
{
    (void)unused;
    IN_CHILD(body_apart, NULL);
}

static void body_info(void)
{
    CUgraph graph, end, mine;
    CUgraphNode root, all[8];
    const CUgraphNode *last;
    const CUgraphEdgeData *data;
    CUstreamCaptureStatus status;
    cuuint64_t id = 0, other = 0;
    size_t count = 0;
    start();
    begin(stream_a, GLOBAL);
    SUCCEEDS(CU(cuStreamGetCaptureInfo_v3)(stream_a, &status, &id, &graph, &last, &data, &count));
    CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && count == 0);
    CHECK_EQUAL(CU(cuGraphDestroy)(graph), CUDA_ERROR_INVALID_VALUE);
    SUCCEEDS(CU(cuGraphAddEmptyNode)(&root, graph, NULL, 0));
    SUCCEEDS(CU(cuStreamUpdateCaptureDependencies_v2)(stream_a, &root, NULL, 1,
                                                      CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    SUCCEEDS(CU(cuStreamGetCaptureInfo_v2)(stream_a, &status, &other, NULL, &last, &count));
    CHECK(other == id && count == 1 && last[0] == root);
    SUCCEEDS(CU(cuStreamEndCapture)(stream_a, &end));
    CHECK(end == graph);
    CHECK_EQUAL(CU(cuStreamUpdateCaptureDependencies_v2)(stream_a, &root, NULL, 1, 0),
                CUDA_ERROR_ILLEGAL_STATE);
    /* into a graph that is there */
    SUCCEEDS(CU(cuGraphCreate)(&mine, 0));
    SUCCEEDS(CU(cuGraphAddEmptyNode)(&root, mine, NULL, 0));
    SUCCEEDS(CU(cuStreamBeginCaptureToGraph)(stream_a, mine, &root, NULL, 1, GLOBAL));
    SUCCEEDS(CU(cuMemFreeAsync)(sim_alloc_async(100, stream_a), stream_a));
    CUgraphExec exec;
    CHECK_EQUAL(CU(cuGraphInstantiateWithFlags)(&exec, mine, 0), CUDA_ERROR_INVALID_VALUE);
    SUCCEEDS(CU(cuStreamEndCapture)(stream_a, &end));
    CHECK(end == mine);
    count = 8;
    SUCCEEDS(CU(cuGraphGetNodes)(mine, all, &count));
    CHECK_EQUAL(count, 3);
    SUCCEEDS(CU(cuGraphGetRootNodes)(mine, all, &count));
    CHECK(count == 1 && all[0] == root);
}

static void test_a_capture_tells_its_graph_and_goes_into_one_that_is_there(void **unused)
{
    (void)unused;
    IN_CHILD(body_info, NULL);
}

/* --- VGSIM_STRICT_CAPTURE --------------------------------------------------------------------- */

static void body_audit(void)
{
    CUcontext context;
    start();
    begin(stream_a, RELAXED);
    sim_free();
    SUCCEEDS(CU(cuCtxGetCurrent)(&context));
    ends_with(stream_a, CUDA_SUCCESS);
    sim_free();
}

static void test_the_calls_made_during_a_capture_are_listed(void **unused)
{
    char path[64], knob[96], text[256] = "";
    (void)unused;
    snprintf(path, sizeof path, "/tmp/vgsim-audit-%d", (int)getpid());
    snprintf(knob, sizeof knob, "VGSIM_STRICT_CAPTURE=%s", path);
    unlink(path);
    IN_CHILD(body_audit, knob);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    unlink(path);
    assert_string_equal(text, "cuMemGetInfo_v2\ncuCtxGetCurrent\ncuStreamEndCapture\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_potentially_unsafe_calls_fail_and_invalidate),
        cmocka_unit_test(test_a_global_capture_is_every_threads_that_did_not_say_otherwise),
        cmocka_unit_test(test_a_capture_ends_in_the_thread_that_began_it_unless_relaxed),
        cmocka_unit_test(test_a_capturing_stream_and_its_events_cannot_be_waited_for),
        cmocka_unit_test(test_destroying_the_stream_or_its_context_ends_the_capture),
        cmocka_unit_test(test_the_legacy_stream_is_unusable_while_a_blocking_stream_captures),
        cmocka_unit_test(test_streams_join_through_events_and_forks_must_be_joined),
        cmocka_unit_test(test_captures_do_not_merge_and_nothing_crosses_their_border),
        cmocka_unit_test(test_a_capture_tells_its_graph_and_goes_into_one_that_is_there),
        cmocka_unit_test(test_the_calls_made_during_a_capture_are_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
