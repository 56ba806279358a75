/* test_sim_graphs.c -- graphs on the simulated driver.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Memory nodes, launches, and the device's graph pool.
 */
#include "tests/unit/sim_books.h"

#define PTSZ(name) ((__typeof__(&name))sim_symbol("libcuda.so.1", #name "_ptsz"))

static struct vgsim_kind_books graph_books(void)
{
    return sim_books(0).kinds[VGSIM_KIND_graph];
}

static cuuint64_t attribute(CUgraphMem_attribute which)
{
    cuuint64_t value = 0;
    SUCCEEDS(CU(cuDeviceGetGraphMemAttribute)(0, which, &value));
    return value;
}

/* used and reserved, as the driver and the books say */
static void pool_is(uint64_t used, uint64_t reserved)
{
    struct vgsim_device_books books = sim_books(0);
    CHECK_EQUAL(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), used);
    CHECK_EQUAL(attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), reserved);
    CHECK_EQUAL(books.graph_used_bytes, used);
    CHECK_EQUAL(books.graph_reserved_bytes, reserved);
    CHECK_EQUAL(books.page_bytes, reserved);
}

static CUgraph new_graph(void)
{
    CUgraph graph;
    SUCCEEDS(CU(cuGraphCreate)(&graph, 0));
    return graph;
}

static CUdeviceptr add_alloc(CUgraph graph, size_t bytes, CUgraphNode *node_out)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
        .bytesize = bytes};
    SUCCEEDS(CU(cuGraphAddMemAllocNode)(node_out, graph, NULL, 0, &params));
    return params.dptr;
}

static void add_free(CUgraph graph, CUdeviceptr pointer, CUresult wanted)
{
    CUgraphNode node;
    CHECK_EQUAL(CU(cuGraphAddMemFreeNode)(&node, graph, NULL, 0, pointer), wanted);
}

static CUgraphExec instantiate(CUgraph graph, unsigned long long flags)
{
    CUgraphExec exec;
    SUCCEEDS(CU(cuGraphInstantiateWithFlags)(&exec, graph, flags));
    return exec;
}

static void launches(CUgraphExec exec)
{
    SUCCEEDS(CU(cuGraphLaunch)(exec, NULL));
}

/* Programming Guide, "Graph Memory Nodes": an allocation lives from the launch that makes it to its
 * free. */
static void body_life(void)
{
    CUgraphNode node;
    char byte;
    sim_start(0);
    CUgraph graph = new_graph();
    CUdeviceptr pointer = add_alloc(graph, 3 * MIB, &node);
    CHECK_EQUAL(graph_books().live_blocks, 0);
    pool_is(0, 0);
    CUgraphExec exec = instantiate(graph, 0);
    pool_is(0, 0);
    CHECK_EQUAL(CU(cuMemFree_v2)(pointer), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuMemcpyDtoH_v2)(&byte, pointer, 1), CUDA_ERROR_INVALID_VALUE);
    launches(exec);
    CHECK_EQUAL(graph_books().live_blocks, 1);
    CHECK_EQUAL(graph_books().requested_bytes, 3 * MIB);
    pool_is(4 * MIB, 4 * MIB);
    SUCCEEDS(CU(cuMemcpyDtoH_v2)(&byte, pointer, 1));
    /* cuGraphLaunch: not while an allocation of an earlier launch is unfreed */
    CHECK_EQUAL(CU(cuGraphLaunch)(exec, NULL), CUDA_ERROR_INVALID_VALUE);
    SUCCEEDS(CU(cuMemFreeAsync)(pointer, NULL));
    CHECK_EQUAL(graph_books().live_blocks, 0);
    pool_is(4 * MIB, 4 * MIB); /* the executable graph maps it still */
    launches(exec);
    SUCCEEDS(CU(cuMemFree_v2)(pointer));
    CHECK_EQUAL(CU(cuMemFree_v2)(pointer), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(graph_books().allocations, 2);
    launches(exec);
    SUCCEEDS(CU(cuGraphExecDestroy)(exec));
    SUCCEEDS(CU(cuGraphDestroy)(graph));
    CHECK_EQUAL(graph_books().live_blocks, 1); /* it outlives both */
    SUCCEEDS(CU(cuMemFree_v2)(pointer));
    pool_is(0, 4 * MIB);
    SUCCEEDS(CU(cuDeviceGraphMemTrim)(0));
    pool_is(0, 0);
}

static void test_a_graphs_allocation_lives_from_launch_to_free(void **unused)
{
    (void)unused;
    IN_CHILD(body_life, NULL);
}

static void body_frees(void)
{
    CUgraphNode node;
    sim_start(0);
    CUgraph owner = new_graph(), other = new_graph();
    CUdeviceptr inside = add_alloc(owner, MIB, &node), outside = add_alloc(owner, MIB, &node);
    add_free(owner, inside, CUDA_SUCCESS);
    add_free(owner, inside, CUDA_ERROR_INVALID_VALUE);
    add_free(other, inside, CUDA_ERROR_INVALID_VALUE);
    add_free(other, outside, CUDA_SUCCESS);
    add_free(owner, outside, CUDA_ERROR_INVALID_VALUE);
    add_free(other, outside + 512, CUDA_ERROR_INVALID_VALUE);
    add_free(other, sim_alloc(MIB), CUDA_ERROR_INVALID_VALUE);
    SUCCEEDS(CU(cuDevicePrimaryCtxReset_v2)(0));
    sim_start(0);
    CUgraphExec makes = instantiate(owner, 0), frees = instantiate(other, 0);
    CHECK_EQUAL(CU(cuGraphLaunch)(frees, NULL), CUDA_ERROR_INVALID_VALUE);
    launches(makes);
    CHECK_EQUAL(graph_books().live_blocks, 1);
    CHECK_EQUAL(graph_books().allocations, 1); /* what is freed inside is never seen outside */
    pool_is(4 * MIB, 4 * MIB);
    CHECK_EQUAL(CU(cuMemFree_v2)(inside), CUDA_ERROR_INVALID_VALUE);
    launches(frees);
    CHECK_EQUAL(graph_books().live_blocks, 0);
    launches(makes);
    SUCCEEDS(CU(cuMemFree_v2)(outside));
}

static void test_free_nodes_are_checked_and_free_at_launch(void **unused)
{
    (void)unused;
    IN_CHILD(body_frees, NULL);
}

static void body_auto(void)
{
    CUgraphNode node;
    CUgraphExec exec, second;
    cuuint64_t flags;
    sim_start(0);
    CUgraph graph = new_graph(), copy;
    CUdeviceptr pointer = add_alloc(graph, 5 * MIB, &node);
    exec = instantiate(graph, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
    SUCCEEDS(CU(cuGraphExecGetFlags)(exec, &flags));
    CHECK_EQUAL(flags, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
    launches(exec);
    launches(exec);
    CHECK_EQUAL(graph_books().live_blocks, 1);
    CHECK_EQUAL(graph_books().allocations, 2);
    pool_is(6 * MIB, 6 * MIB);
    /* one executable graph at a time, no clone, no node taken out */
    CHECK_EQUAL(CU(cuGraphInstantiateWithFlags)(&second, graph, 0), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(CU(cuGraphClone)(&copy, graph), CUDA_ERROR_NOT_SUPPORTED);
    CHECK_EQUAL(CU(cuGraphDestroyNode)(node), CUDA_ERROR_NOT_SUPPORTED);
    SUCCEEDS(CU(cuGraphExecDestroy)(exec));
    exec = instantiate(graph, 0);
    CHECK_EQUAL(CU(cuGraphLaunch)(exec, NULL), CUDA_ERROR_INVALID_VALUE);
    SUCCEEDS(CU(cuMemFree_v2)(pointer));
    launches(exec);
    CHECK_EQUAL(
        CU(cuGraphInstantiateWithFlags)(&second, new_graph(),
                                        CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
                                            CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH),
        CUDA_ERROR_INVALID_VALUE);
}

static void test_auto_free_and_what_memory_nodes_forbid(void **unused)
{
    (void)unused;
    IN_CHILD(body_auto, NULL);
}

/* Programming Guide, "Physical Memory Footprint": memory comes with the first upload or launch,
 * graphs that do not run together share it, and a trim takes what is not in use. */
static void body_footprint(void)
{
    CUgraphNode node;
    CUgraphExec first, second;
    cuuint64_t zero = 0;
    sim_start(0);
    CUstream stream = sim_stream(CU_STREAM_NON_BLOCKING);
    CUgraph small = new_graph(), big = new_graph();
    add_free(small, add_alloc(small, 10 * MIB, &node), CUDA_SUCCESS);
    add_free(big, add_alloc(big, 20 * MIB, &node), CUDA_SUCCESS);
    CUDA_GRAPH_INSTANTIATE_PARAMS params = {.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD,
                                            .hUploadStream = stream};
    CHECK_EQUAL(CU(cuGraphInstantiateWithFlags)(&first, small, CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD),
                CUDA_ERROR_INVALID_VALUE);
    SUCCEEDS(CU(cuGraphInstantiateWithParams)(&first, small, &params));
    CHECK_EQUAL(params.result_out, CUDA_GRAPH_INSTANTIATE_SUCCESS);
    pool_is(10 * MIB, 10 * MIB);
    second = instantiate(big, 0);
    pool_is(10 * MIB, 10 * MIB);
    SUCCEEDS(CU(cuGraphUpload)(second, stream));
    pool_is(20 * MIB, 20 * MIB);
    launches(first);
    SUCCEEDS(CU(cuGraphLaunch)(second, stream));
    pool_is(20 * MIB, 20 * MIB);
    CHECK_EQUAL(graph_books().allocations, 0);
    /* the second may still run, as far as the host knows */
    SUCCEEDS(CU(cuStreamSynchronize)(NULL));
    SUCCEEDS(CU(cuGraphExecDestroy)(first));
    SUCCEEDS(CU(cuDeviceGraphMemTrim)(0));
    pool_is(20 * MIB, 20 * MIB);
    SUCCEEDS(CU(cuStreamSynchronize)(stream));
    SUCCEEDS(CU(cuDeviceGraphMemTrim)(0));
    pool_is(0, 0);
    CHECK_EQUAL(attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH), 20 * MIB);
    CHECK_EQUAL(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH), 20 * MIB);
    SUCCEEDS(CU(cuDeviceSetGraphMemAttribute)(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &zero));
    CHECK_EQUAL(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH), 0);
    CHECK_EQUAL(CU(cuDeviceSetGraphMemAttribute)(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &zero),
                CUDA_ERROR_INVALID_VALUE);
    launches(second);
    pool_is(20 * MIB, 20 * MIB);
    SUCCEEDS(CU(cuDevicePrimaryCtxReset_v2)(0));
    pool_is(0, 0);
}

static void test_physical_memory_comes_late_is_shared_and_stays_until_trimmed(void **unused)
{
    (void)unused;
    IN_CHILD(body_footprint, NULL);
}

static void body_no_room(void)
{
    CUgraphNode node;
    sim_start(0);
    CUgraph graph = new_graph();
    CUdeviceptr pointer = add_alloc(graph, 90 * MIB, &node);
    CUgraphExec exec = instantiate(graph, 0);
    CUdeviceptr in_the_way = sim_alloc(20 * MIB);
    CHECK_EQUAL(CU(cuGraphLaunch)(exec, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(CU(cuGraphUpload)(exec, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_EQUAL(sim_books(0).failed_allocations, 2);
    CHECK_EQUAL(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0);
    CHECK_EQUAL(graph_books().live_blocks, 0);
    SUCCEEDS(CU(cuMemFree_v2)(in_the_way));
    launches(exec);
    SUCCEEDS(CU(cuMemFree_v2)(pointer));
}

static void test_a_launch_that_does_not_fit_is_out_of_memory_and_makes_nothing(void **unused)
{
    (void)unused;
    IN_CHILD(body_no_room, "VGSIM_MEMORY=400MiB");
}

/* cuMemAllocAsync and cuMemFreeAsync: nodes, while the stream captures. */
static void body_captured(void)
{
    CUgraph graph;
    CUgraphNode nodes[8];
    CUgraphNodeType type;
    CUDA_MEM_ALLOC_NODE_PARAMS params;
    CUdeviceptr freed;
    size_t count = 8;
    sim_start(0);
    CUstream stream = sim_stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr plain = sim_alloc_async(MIB, stream);
    SUCCEEDS(CU(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CUdeviceptr kept = sim_alloc_async(3000, stream), gone = sim_alloc_async(100, stream);
    SUCCEEDS(CU(cuMemsetD8Async)(kept, 1, 3000, stream));
    SUCCEEDS(CU(cuMemFreeAsync)(gone, stream));
    CHECK_EQUAL(CU(cuMemFreeAsync)(plain, stream), CUDA_ERROR_INVALID_VALUE);
    SUCCEEDS(CU(cuStreamEndCapture)(stream, &graph));
    CHECK_EQUAL(graph_books().live_blocks, 0);
    SUCCEEDS(CU(cuGraphGetNodes)(graph, nodes, &count));
    CHECK_EQUAL(count, 4);
    SUCCEEDS(CU(cuGraphNodeGetType)(nodes[0], &type));
    CHECK_EQUAL(type, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
    SUCCEEDS(CU(cuGraphMemAllocNodeGetParams)(nodes[0], &params));
    CHECK(params.dptr == kept && params.bytesize == 3000 && params.poolProps.location.id == 0);
    SUCCEEDS(CU(cuGraphMemFreeNodeGetParams)(nodes[3], &freed));
    CHECK(freed == gone);
    CUgraphExec exec = instantiate(graph, 0);
    SUCCEEDS(PTSZ(cuGraphLaunch)(exec, stream));
    CHECK_EQUAL(graph_books().requested_bytes, 3000);
    CHECK_EQUAL(sim_books(0).kinds[VGSIM_KIND_pool].requested_bytes, MIB);
    /* freed by another capture */
    SUCCEEDS(CU(cuStreamBeginCapture_v2)(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    SUCCEEDS(PTSZ(cuMemFreeAsync)(kept, stream));
    SUCCEEDS(CU(cuStreamEndCapture)(stream, &graph));
    CHECK_EQUAL(graph_books().live_blocks, 1);
    SUCCEEDS(CU(cuGraphLaunch)(instantiate(graph, 0), stream));
    CHECK_EQUAL(graph_books().live_blocks, 0);
}

static void test_captured_allocations_and_frees_are_memory_nodes(void **unused)
{
    (void)unused;
    IN_CHILD(body_captured, NULL);
}

static void body_context_end(void)
{
    CUgraphNode node;
    CUcontext mine;
    sim_start(0);
    SUCCEEDS(CU(cuCtxCreate_v4)(&mine, NULL, 0, 0));
    CUgraph graph = new_graph();
    CUdeviceptr pointer = add_alloc(graph, MIB, &node);
    launches(instantiate(graph, 0));
    CHECK_EQUAL(graph_books().live_blocks, 1);
    SUCCEEDS(CU(cuCtxDestroy_v2)(mine));
    CHECK_EQUAL(graph_books().live_blocks, 0);
    sim_start(0);
    CHECK_EQUAL(CU(cuMemFree_v2)(pointer), CUDA_ERROR_INVALID_VALUE);
}

static void test_the_end_of_a_context_ends_what_was_launched_in_it(void **unused)
{
    (void)unused;
    IN_CHILD(body_context_end, NULL);
}

/* --- nodes, edges, updates -------------------------------------------------------------------- */

static void host_function(void *unused)
{
    (void)unused;
    CHECK(!"a node's function ran");
}

static void body_structure(void)
{
    CUgraphNode a, b, c, list[4];
    CUgraph graph, clone;
    size_t count = 4;
    CUDA_HOST_NODE_PARAMS host = {.fn = host_function};
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    CUgraphExecUpdateResultInfo info;
    CUcontext context = sim_start(0);
    graph = new_graph();
    CUDA_MEMCPY3D copy = {0};
    SUCCEEDS(CU(cuGraphAddHostNode)(&a, graph, NULL, 0, &host));
    SUCCEEDS(CU(cuGraphAddMemcpyNode)(&b, graph, &a, 1, &copy, context));
    SUCCEEDS(CU(cuGraphAddEmptyNode)(&c, graph, NULL, 0));
    SUCCEEDS(CU(cuGraphAddDependencies_v2)(graph, &b, &c, NULL, 1));
    CHECK_EQUAL(CU(cuGraphAddDependencies)(graph, &c, &a, 1), CUDA_ERROR_INVALID_VALUE);
    SUCCEEDS(CU(cuGraphNodeGetDependencies_v2)(c, list, NULL, &count));
    CHECK(count == 1 && list[0] == b);
    CHECK_EQUAL(CU(cuGraphAddEmptyNode)(&c, new_graph(), &b, 1), CUDA_ERROR_INVALID_VALUE);
    CUgraphExec exec = instantiate(graph, 0);
    launches(exec);
    SUCCEEDS(CU(cuGraphClone)(&clone, graph));
    SUCCEEDS(CU(cuGraphExecUpdate_v2)(exec, clone, &info));
    CHECK_EQUAL(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    SUCCEEDS(CU(cuGraphAddEmptyNode)(&c, clone, NULL, 0));
    CHECK_EQUAL(CU(cuGraphExecUpdate_v2)(exec, clone, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    CHECK_EQUAL(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    SUCCEEDS(CU(cuGraphDestroyNode)(c));
    SUCCEEDS(CU(cuGraphExecUpdate_v2)(exec, clone, &info));
    /* the form for all kinds of nodes */
    params.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CHECK_EQUAL(CU(cuGraphAddNode_v2)(&c, clone, NULL, NULL, 0, &params), CUDA_ERROR_INVALID_VALUE);
    params.alloc.bytesize = 1;
    SUCCEEDS(CU(cuGraphAddNode_v2)(&c, clone, NULL, NULL, 0, &params));
    CUgraphNodeParams frees = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE,
                               .free = {.dptr = params.alloc.dptr}};
    SUCCEEDS(CU(cuGraphAddNode)(&a, clone, &c, 1, &frees));
    CHECK_EQUAL(sim_books(0).objects[VGSIM_COUNTED_graphs].live, 3);
    CHECK_EQUAL(sim_books(0).objects[VGSIM_COUNTED_graph_execs].live, 1);
    SUCCEEDS(CU(cuGraphDestroy)(graph));
    launches(exec);
    SUCCEEDS(CU(cuGraphExecDestroy)(exec));
    CHECK_EQUAL(CU(cuGraphExecDestroy)(exec), CUDA_ERROR_INVALID_VALUE);
    CHECK_EQUAL(sim_books(0).objects[VGSIM_COUNTED_graph_execs].live, 0);
}

static void test_nodes_edges_clones_and_updates(void **unused)
{
    (void)unused;
    IN_CHILD(body_structure, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_graphs_allocation_lives_from_launch_to_free),
        cmocka_unit_test(test_free_nodes_are_checked_and_free_at_launch),
        cmocka_unit_test(test_auto_free_and_what_memory_nodes_forbid),
        cmocka_unit_test(test_physical_memory_comes_late_is_shared_and_stays_until_trimmed),
        cmocka_unit_test(test_a_launch_that_does_not_fit_is_out_of_memory_and_makes_nothing),
        cmocka_unit_test(test_captured_allocations_and_frees_are_memory_nodes),
        cmocka_unit_test(test_the_end_of_a_context_ends_what_was_launched_in_it),
        cmocka_unit_test(test_nodes_edges_clones_and_updates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
