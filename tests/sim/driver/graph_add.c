/* graph_add.c -- adding nodes to a graph.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Allocation and free nodes, and those that do nothing here.
 */
#include "tests/sim/driver/sim.h"

/* --- allocation and free (CUDA Driver API, cuGraphAddMemAllocNode and cuGraphAddMemFreeNode) -- */

static CUresult check_props(const CUmemPoolProps *props)
{
    if (props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        props->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
        return CUDA_ERROR_INVALID_VALUE;
    if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_NOT_SUPPORTED;
    return vgsim_is_device(props->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult vgsim_graph_alloc_node(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                                size_t count, const CUmemPoolProps *props, size_t bytes,
                                CUdeviceptr *address_out)
{
    CUresult result = vgsim_graph_after(graph, after, count);
    if (result == CUDA_SUCCESS)
        result = out && address_out && bytes ? check_props(props) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    struct vgsim_graph_memory *memory =
        vgsim_graph_memory_new(props->location.id, bytes, graph->id);
    if (!memory)
        return vgsim_refused(props->location.id);
    CUgraphNode node = vgsim_graph_node(graph, CU_GRAPH_NODE_TYPE_MEM_ALLOC, after, count);
    node->memory = memory;
    node->props = *props;
    graph->has_memory = true;
    *address_out = memory->block->address;
    *out = node;
    return CUDA_SUCCESS;
}

/* Once in a graph, and either in the owning graph or in another one (CUDA Driver API,
 * cuGraphAddMemFreeNode). */
static bool may_free(const struct vgsim_graph_memory *memory, const struct CUgraph_st *graph)
{
    for (size_t i = 0; i < graph->nodes.count; i++)
        if (graph->nodes.at[i]->type == CU_GRAPH_NODE_TYPE_MEM_FREE &&
            graph->nodes.at[i]->memory == memory)
            return false;
    return memory->owner == graph->id ? !memory->freed_by : !memory->freed_by_owner;
}

CUresult vgsim_graph_free_node(CUgraphNode *out, CUgraph graph, const CUgraphNode *after,
                               size_t count, CUdeviceptr address)
{
    CUresult result = vgsim_graph_after(graph, after, count);
    if (result != CUDA_SUCCESS)
        return result;
    struct vgsim_graph_memory *memory = vgsim_graph_memory_at(address);
    if (!out || !memory || !may_free(memory, graph))
        return CUDA_ERROR_INVALID_VALUE;
    CUgraphNode node = vgsim_graph_node(graph, CU_GRAPH_NODE_TYPE_MEM_FREE, after, count);
    node->memory = memory;
    memory->references++;
    if (memory->owner == graph->id)
        memory->freed_by_owner = true;
    else
        memory->freed_by = graph->id;
    graph->has_memory = true;
    *out = node;
    return CUDA_SUCCESS;
}

static CUresult add_alloc(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t count,
                          CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    if (!params || (params->accessDescCount && !params->accessDescs))
        return CUDA_ERROR_INVALID_VALUE;
    return vgsim_graph_alloc_node(out, graph, after, count, &params->poolProps, params->bytesize,
                                  &params->dptr);
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                const CUgraphNode *dependencies, size_t numDependencies,
                                CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
    CALL(INIT, add_alloc(phGraphNode, hGraph, dependencies, numDependencies, nodeParams));
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                               const CUgraphNode *dependencies, size_t numDependencies,
                               CUdeviceptr dptr)
{
    CALL(INIT, vgsim_graph_free_node(phGraphNode, hGraph, dependencies, numDependencies, dptr));
}

static CUresult get_alloc(CUgraphNode node, CUDA_MEM_ALLOC_NODE_PARAMS *out)
{
    if (!out || !vgsim_object_is(node, GRAPH_NODE) || node->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (CUDA_MEM_ALLOC_NODE_PARAMS){.poolProps = node->props,
                                        .bytesize = node->memory->block->bytes,
                                        .dptr = node->memory->block->address};
    return CUDA_SUCCESS;
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS *params_out)
{
    CALL(INIT, get_alloc(hNode, params_out));
}

static CUresult get_free(CUgraphNode node, CUdeviceptr *out)
{
    if (!out || !vgsim_object_is(node, GRAPH_NODE) || node->type != CU_GRAPH_NODE_TYPE_MEM_FREE)
        return CUDA_ERROR_INVALID_VALUE;
    *out = node->memory->block->address;
    return CUDA_SUCCESS;
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out)
{
    CALL(INIT, get_free(hNode, dptr_out));
}

/* --- nodes that do nothing here --------------------------------------------------------------- */

static CUresult add(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t count,
                    CUgraphNodeType type, bool valid)
{
    CUresult result = vgsim_graph_after(graph, after, count);
    if (result != CUDA_SUCCESS)
        return result;
    if (!out || !valid)
        return CUDA_ERROR_INVALID_VALUE;
    *out = vgsim_graph_node(graph, type, after, count);
    return CUDA_SUCCESS;
}

CUresult cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                             const CUgraphNode *dependencies, size_t numDependencies)
{
    CALL(INIT,
         add(phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_EMPTY, true));
}

CUresult cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                              const CUgraphNode *dependencies, size_t numDependencies,
                              const CUDA_KERNEL_NODE_PARAMS_v1 *nodeParams)
{
    CALL(INIT, add(phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_KERNEL,
                   nodeParams && vgsim_object_is(nodeParams->func, KERNEL)));
}

static bool is_kernel(const CUDA_KERNEL_NODE_PARAMS *params)
{
    return params && (params->func ? vgsim_object_is(params->func, KERNEL)
                                   : vgsim_object_is(params->kern, KERNEL));
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
                                 const CUgraphNode *dependencies, size_t numDependencies,
                                 const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    CALL(INIT, add(phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_KERNEL,
                   is_kernel(nodeParams)));
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                              const CUgraphNode *dependencies, size_t numDependencies,
                              const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
    CALL(INIT, add(phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_MEMCPY,
                   copyParams && vgsim_is_context(ctx)));
}

CUresult cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                              const CUgraphNode *dependencies, size_t numDependencies,
                              const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
    CALL(INIT, add(phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_MEMSET,
                   memsetParams && vgsim_is_context(ctx)));
}

CUresult cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                            const CUgraphNode *dependencies, size_t numDependencies,
                            const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    CALL(INIT, add(phGraphNode, hGraph, dependencies, numDependencies, CU_GRAPH_NODE_TYPE_HOST,
                   nodeParams && nodeParams->fn));
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                   const CUgraphNode *dependencies, size_t numDependencies,
                                   CUevent event)
{
    CALL(INIT, add(phGraphNode, hGraph, dependencies, numDependencies,
                   CU_GRAPH_NODE_TYPE_EVENT_RECORD, vgsim_object_is(event, EVENT)));
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                 const CUgraphNode *dependencies, size_t numDependencies,
                                 CUevent event)
{
    CALL(INIT, add(phGraphNode, hGraph, dependencies, numDependencies,
                   CU_GRAPH_NODE_TYPE_WAIT_EVENT, vgsim_object_is(event, EVENT)));
}

/* A graph with memory nodes could only be moved into its parent: that is not simulated. */
static CUresult add_child(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t count,
                          CUgraph child)
{
    if (!vgsim_object_is(child, GRAPH) || child == graph)
        return CUDA_ERROR_INVALID_VALUE;
    if (child->has_memory)
        return CUDA_ERROR_NOT_SUPPORTED;
    return add(out, graph, after, count, CU_GRAPH_NODE_TYPE_GRAPH, true);
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                  const CUgraphNode *dependencies, size_t numDependencies,
                                  CUgraph childGraph)
{
    CALL(INIT, add_child(phGraphNode, hGraph, dependencies, numDependencies, childGraph));
}

/* --- the form for all ------------------------------------------------------------------------- */

static CUresult add_any(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t count,
                        CUgraphNodeParams *params)
{
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    switch (params->type) {
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return add_alloc(out, graph, after, count, &params->alloc);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return vgsim_graph_free_node(out, graph, after, count, params->free.dptr);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return add_child(out, graph, after, count, params->graph.graph);
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return add(out, graph, after, count, params->type, is_kernel(&params->kernel));
    case CU_GRAPH_NODE_TYPE_HOST:
        return add(out, graph, after, count, params->type, params->host.fn != NULL);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
    case CU_GRAPH_NODE_TYPE_MEMSET:
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return add(out, graph, after, count, params->type, true);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return add(out, graph, after, count, params->type,
                   vgsim_object_is(params->eventWait.event, EVENT));
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return add(out, graph, after, count, params->type,
                   vgsim_object_is(params->eventRecord.event, EVENT));
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult cuGraphAddNode(CUgraphNode *phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies,
                        size_t numDependencies, CUgraphNodeParams *nodeParams)
{
    CALL(INIT, add_any(phGraphNode, hGraph, dependencies, numDependencies, nodeParams));
}

CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
                           const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
                           size_t numDependencies, CUgraphNodeParams *nodeParams)
{
    (void)dependencyData;
    CALL(INIT, add_any(phGraphNode, hGraph, dependencies, numDependencies, nodeParams));
}
