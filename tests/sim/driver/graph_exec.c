/* graph_exec.c -- executable graphs: made, launched, updated, ended.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Holds:      of a graph with memory nodes at most one executable graph exists at a time. A launch
 *             makes the allocations that the graph does not free itself, and frees those of other
 *             graphs that it has nodes for.
 */
#include "tests/sim/driver/sim.h"

#include <stdlib.h>

struct exec_node {
    CUgraphNodeType type;
    size_t after;
    struct vgsim_graph_memory *memory;
    bool kept; /* an allocation that the graph does not free */
};

struct CUgraphExec_st {
    struct vgsim_object object;
    CUdevice device; /* in whose books it is */
    uint64_t graph_id;
    CUgraph graph; /* may be gone */
    unsigned long long flags;
    struct exec_node *nodes;
    size_t count;
    bool has_memory;
    bool mapped;           /* it was uploaded or launched, and not trimmed since */
    uint64_t line, ticket; /* its last launch */
    struct CUgraphExec_st *next;
};

static struct CUgraphExec_st *all;

/* --- memory that is mapped -------------------------------------------------------------------- */

/* What it needs besides allocations that live. */
static uint64_t needs(const struct CUgraphExec_st *exec, CUdevice device)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < exec->count; i++) {
        const struct exec_node *node = &exec->nodes[i];
        if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && !node->memory->live &&
            node->memory->block->device == device)
            bytes += node->memory->block->span;
    }
    return bytes;
}

uint64_t vgsim_graph_exec_shared(CUdevice device)
{
    uint64_t most = 0;
    for (const struct CUgraphExec_st *at = all; at; at = at->next)
        if (at->mapped && needs(at, device) > most)
            most = needs(at, device);
    return most;
}

/* A trim leaves alone what a launch that may not be over uses (CUDA Driver API,
 * cuDeviceGraphMemTrim). */
void vgsim_graph_exec_unmap(CUdevice device, bool also_pending)
{
    for (struct CUgraphExec_st *at = all; at; at = at->next)
        if (needs(at, device) && (also_pending || !vgsim_work_is_pending(at->line, at->ticket)))
            at->mapped = false;
}

static void pools_changed(const struct CUgraphExec_st *exec)
{
    for (size_t i = 0; i < exec->count; i++)
        if (exec->nodes[i].memory)
            vgsim_graph_pool_changed(exec->nodes[i].memory->block->device);
}

static CUdevice fit(const struct CUgraphExec_st *exec)
{
    for (size_t i = 0; i < exec->count; i++)
        if (exec->nodes[i].memory && !vgsim_graph_pool_fit(exec->nodes[i].memory->block->device))
            return exec->nodes[i].memory->block->device;
    return CU_DEVICE_INVALID;
}

static CUresult map(struct CUgraphExec_st *exec)
{
    bool before = exec->mapped;
    exec->mapped = exec->has_memory;
    CUdevice full = fit(exec);
    if (full == CU_DEVICE_INVALID)
        return CUDA_SUCCESS;
    exec->mapped = before;
    return vgsim_refused(full);
}

/* --- making ----------------------------------------------------------------------------------- */

#define FLAGS                                                                                      \
    (CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |        \
     CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY)

static CUresult may_instantiate(const struct CUgraph_st *graph, unsigned long long flags)
{
    if (!vgsim_object_is(graph, GRAPH) || flags & ~(unsigned long long)FLAGS || graph->captures)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH &&
        (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH || graph->has_memory))
        return CUDA_ERROR_INVALID_VALUE;
    return graph->has_memory && graph->execs ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static void copy_nodes(struct CUgraphExec_st *exec, const struct CUgraph_st *graph)
{
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const struct CUgraphNode_st *node = graph->nodes.at[i];
        exec->nodes[i] = (struct exec_node){node->type, node->after.count, node->memory, false};
        if (!node->memory)
            continue;
        node->memory->references++;
        exec->has_memory = true;
        exec->nodes[i].kept =
            node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && !node->memory->freed_by_owner;
    }
}

static CUresult instantiate(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
    CUresult result = out ? may_instantiate(graph, flags) : CUDA_ERROR_INVALID_VALUE;
    if (result != CUDA_SUCCESS)
        return result;
    struct CUgraphExec_st *exec = vgsim_object_add(GRAPH_EXEC, sizeof *exec, NULL);
    struct exec_node *nodes = calloc(graph->nodes.count + 1, sizeof *nodes);
    if (!exec || !nodes)
        abort(); /* the host's own memory is gone */
    exec->device = vgsim_current()->device;
    exec->graph = graph;
    exec->graph_id = graph->id;
    exec->flags = flags;
    exec->nodes = nodes;
    exec->count = graph->nodes.count;
    copy_nodes(exec, graph);
    exec->next = all;
    all = exec;
    graph->execs++;
    vgsim_books_object(exec->device, VGSIM_COUNTED_graph_execs, 1);
    *out = exec;
    return CUDA_SUCCESS;
}

/* The flag UPLOAD needs a stream, which only cuGraphInstantiateWithParams has. */
CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph,
                                     unsigned long long flags)
{
    CALL(CONTEXT, flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD
                      ? CUDA_ERROR_INVALID_VALUE
                      : instantiate(phGraphExec, hGraph, flags));
}

static CUresult instantiate_old(CUgraphExec *out, CUgraph graph, CUgraphNode *error_out, char *log,
                                size_t size)
{
    if (error_out)
        *error_out = NULL;
    if (log && size)
        *log = '\0';
    return instantiate(out, graph, 0);
}

CUresult cuGraphInstantiate(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
                            char *logBuffer, size_t bufferSize)
{
    CALL(CONTEXT, instantiate_old(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize));
}

CUresult cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
                               char *logBuffer, size_t bufferSize)
{
    CALL(CONTEXT, instantiate_old(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize));
}

static void end_exec(struct CUgraphExec_st *exec)
{
    for (struct CUgraphExec_st **at = &all; *at; at = &(*at)->next)
        if (*at == exec) {
            *at = exec->next;
            break;
        }
    if (vgsim_object_is(exec->graph, GRAPH) && exec->graph->id == exec->graph_id)
        exec->graph->execs--;
    pools_changed(exec);
    for (size_t i = 0; i < exec->count; i++)
        if (exec->nodes[i].memory)
            vgsim_graph_memory_drop(exec->nodes[i].memory);
    free(exec->nodes);
    vgsim_books_object(exec->device, VGSIM_COUNTED_graph_execs, -1);
    vgsim_object_remove(exec);
}

static CUresult destroy(CUgraphExec exec)
{
    if (!vgsim_object_is(exec, GRAPH_EXEC))
        return CUDA_ERROR_INVALID_VALUE;
    end_exec(exec);
    return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec hGraphExec)
{
    CALL(INIT, destroy(hGraphExec));
}

/* --- upload and launch ------------------------------------------------------------------------ */

static CUresult check(CUgraphExec exec, CUstream stream)
{
    return vgsim_object_is(exec, GRAPH_EXEC) ? vgsim_stream_check(stream)
                                             : CUDA_ERROR_INVALID_VALUE;
}

static CUresult upload(CUgraphExec exec, CUstream stream)
{
    CUresult result = check(exec, stream);
    if (result != CUDA_SUCCESS)
        return result;
    if ((uintptr_t)stream > 2 && stream->capture)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    result = map(exec);
    if (result == CUDA_SUCCESS)
        vgsim_stream_takes(stream, CU_GRAPH_NODE_TYPE_GRAPH);
    return result;
}

CUresult cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream)
{
    CALL(CONTEXT, upload(hGraphExec, hStream));
}

static CUresult instantiate_with(CUgraphExec *out, CUgraph graph,
                                 CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
    if (!params)
        return CUDA_ERROR_INVALID_VALUE;
    params->hErrNode_out = NULL;
    CUresult result = instantiate(out, graph, params->flags);
    if (result == CUDA_SUCCESS && params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) {
        result = upload(*out, params->hUploadStream);
        if (result != CUDA_SUCCESS)
            end_exec(*out);
    }
    params->result_out =
        result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    return result;
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    CALL(CONTEXT, instantiate_with(phGraphExec, hGraph, instantiateParams));
}

/* A graph whose allocations of an earlier launch are not freed fails to launch, unless it frees
 * them itself (CUDA Driver API, cuGraphLaunch). What it frees of other graphs must be there. */
static bool may_launch(const struct CUgraphExec_st *exec)
{
    for (size_t i = 0; i < exec->count; i++) {
        const struct exec_node *node = &exec->nodes[i];
        if (node->kept && node->memory->live &&
            !(exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH))
            return false;
        if (node->type == CU_GRAPH_NODE_TYPE_MEM_FREE && node->memory->owner != exec->graph_id &&
            !node->memory->live)
            return false;
    }
    return true;
}

static void free_all(struct CUgraphExec_st *exec, bool kept)
{
    for (size_t i = 0; i < exec->count; i++) {
        const struct exec_node *node = &exec->nodes[i];
        bool wanted = kept ? node->kept : node->type == CU_GRAPH_NODE_TYPE_MEM_FREE;
        if (wanted && node->memory->live)
            vgsim_graph_memory_stop(node->memory);
    }
}

static CUresult launch(CUgraphExec exec, CUstream stream)
{
    CUresult result = check(exec, stream);
    if (result != CUDA_SUCCESS)
        return result;
    if ((uintptr_t)stream > 2 && stream->capture) {
        if (exec->has_memory)
            return CUDA_ERROR_NOT_SUPPORTED; /* a child graph may have no memory nodes */
        vgsim_capture_node(stream, CU_GRAPH_NODE_TYPE_GRAPH);
        return CUDA_SUCCESS;
    }
    if (!may_launch(exec))
        return CUDA_ERROR_INVALID_VALUE;
    free_all(exec, true);
    result = map(exec);
    if (result != CUDA_SUCCESS)
        return result;
    for (size_t i = 0; i < exec->count; i++)
        if (exec->nodes[i].kept)
            vgsim_graph_memory_start(exec->nodes[i].memory, vgsim_stream_context(stream));
    CUdevice full = fit(exec);
    if (full != CU_DEVICE_INVALID) {
        free_all(exec, true);
        return vgsim_refused(full);
    }
    free_all(exec, false);
    vgsim_stream_takes(stream, CU_GRAPH_NODE_TYPE_GRAPH);
    exec->line = vgsim_stream_line(stream)->id;
    exec->ticket = vgsim_stream_line(stream)->last;
    return CUDA_SUCCESS;
}

CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
{
    CALL(CONTEXT, launch(hGraphExec, hStream));
}

/* --- flags and updates ------------------------------------------------------------------------ */

static CUresult get_flags(CUgraphExec exec, cuuint64_t *out)
{
    if (!vgsim_object_is(exec, GRAPH_EXEC) || !out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = exec->flags;
    return CUDA_SUCCESS;
}

CUresult cuGraphExecGetFlags(CUgraphExec hGraphExec, cuuint64_t *flags)
{
    CALL(INIT, get_flags(hGraphExec, flags));
}

/* The same nodes in the same order, none of them a memory node: then there is nothing that could
 * change. */
static CUgraphExecUpdateResult compare(const struct CUgraphExec_st *exec,
                                       const struct CUgraph_st *graph, CUgraphNode *error_out)
{
    if (exec->count != graph->nodes.count)
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (size_t i = 0; i < exec->count; i++) {
        *error_out = graph->nodes.at[i];
        if (exec->nodes[i].after != graph->nodes.at[i]->after.count)
            return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        if (exec->nodes[i].type != graph->nodes.at[i]->type)
            return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
        if (exec->nodes[i].memory != graph->nodes.at[i]->memory)
            return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    }
    *error_out = NULL;
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

static CUresult update(CUgraphExec exec, CUgraph graph, CUgraphNode *error_out,
                       CUgraphExecUpdateResult *result_out)
{
    CUgraphNode error = NULL;
    if (!vgsim_object_is(exec, GRAPH_EXEC) || !vgsim_object_is(graph, GRAPH) || !result_out)
        return CUDA_ERROR_INVALID_VALUE;
    *result_out = compare(exec, graph, &error);
    if (error_out)
        *error_out = error;
    return *result_out == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS
                                                       : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
                           CUgraphExecUpdateResult *updateResult_out)
{
    CALL(CONTEXT, update(hGraphExec, hGraph, hErrorNode_out, updateResult_out));
}

static CUresult update_info(CUgraphExec exec, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    if (!info)
        return CUDA_ERROR_INVALID_VALUE;
    info->errorFromNode = NULL;
    return update(exec, graph, &info->errorNode, &info->result);
}

CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
                              CUgraphExecUpdateResultInfo *resultInfo)
{
    CALL(CONTEXT, update_info(hGraphExec, hGraph, resultInfo));
}
