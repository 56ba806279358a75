/* graph.c -- graphs: their nodes, what comes after what, and what can be asked.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Holds:      a graph with allocation or free nodes keeps all its nodes and edges, and is never
 *             cloned (CUDA Driver API, cuGraphAddMemAllocNode).
 * Not here:   what kernels, copies and callbacks of a graph would do: nothing, as kernels do
 *             nothing.
 */
#include "tests/sim/driver/sim.h"

#include <stdlib.h>

static uint64_t last_id;

/* --- sets of nodes ---------------------------------------------------------------------------- */

void vgsim_nodes_add(struct vgsim_nodes *set, CUgraphNode node)
{
    if (set->count == set->room) {
        size_t room = set->room ? set->room * 2 : 4;
        CUgraphNode *at = realloc(set->at, room * sizeof(CUgraphNode));
        if (!at)
            abort(); /* the host's own memory is gone */
        set->at = at;
        set->room = room;
    }
    set->at[set->count++] = node;
}

void vgsim_nodes_clear(struct vgsim_nodes *set)
{
    free(set->at);
    *set = (struct vgsim_nodes){0};
}

bool vgsim_nodes_have(const struct vgsim_nodes *set, CUgraphNode node)
{
    for (size_t i = 0; i < set->count; i++)
        if (set->at[i] == node)
            return true;
    return false;
}

/* Most edges lead to a later node, so that one pass from the end is mostly enough. */
void vgsim_graph_mark(CUgraph graph, const struct vgsim_nodes *from)
{
    bool again = true;
    for (size_t i = 0; i < graph->nodes.count; i++)
        graph->nodes.at[i]->marked = false;
    for (size_t i = 0; i < from->count; i++)
        from->at[i]->marked = true;
    while (again) {
        again = false;
        for (size_t i = graph->nodes.count; i-- > 0;) {
            const struct CUgraphNode_st *node = graph->nodes.at[i];
            for (size_t j = 0; node->marked && j < node->after.count; j++) {
                CUgraphNode before = node->after.at[j];
                again |= !before->marked && before->index > i;
                before->marked = true;
            }
        }
    }
}

/* --- life ------------------------------------------------------------------------------------- */

CUgraph vgsim_graph_new(void)
{
    struct CUgraph_st *graph = vgsim_object_add(GRAPH, sizeof *graph, NULL);
    if (!graph)
        return NULL;
    graph->device = vgsim_current() ? vgsim_current()->device : 0;
    graph->id = ++last_id;
    vgsim_books_object(graph->device, VGSIM_COUNTED_graphs, 1);
    return graph;
}

static void end_node(CUgraphNode node)
{
    if (node->memory)
        vgsim_graph_memory_drop(node->memory);
    vgsim_nodes_clear(&node->after);
    vgsim_object_remove(node);
}

void vgsim_graph_end(CUgraph graph)
{
    for (size_t i = 0; i < graph->nodes.count; i++)
        end_node(graph->nodes.at[i]);
    vgsim_nodes_clear(&graph->nodes);
    vgsim_books_object(graph->device, VGSIM_COUNTED_graphs, -1);
    vgsim_object_remove(graph);
}

CUgraphNode vgsim_graph_node(CUgraph graph, CUgraphNodeType type, const CUgraphNode *after,
                             size_t count)
{
    struct CUgraphNode_st *node = vgsim_object_add(GRAPH_NODE, sizeof *node, NULL);
    if (!node)
        abort(); /* the host's own memory is gone */
    node->graph = graph;
    node->type = type;
    node->index = graph->nodes.count;
    for (size_t i = 0; i < count; i++)
        vgsim_nodes_add(&node->after, after[i]);
    vgsim_nodes_add(&graph->nodes, node);
    return node;
}

/* What a new node may come after: nodes of the same graph, none of them twice. */
CUresult vgsim_graph_after(CUgraph graph, const CUgraphNode *after, size_t count)
{
    if (!vgsim_object_is(graph, GRAPH) || (count && !after))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        if (!vgsim_object_is(after[i], GRAPH_NODE) || after[i]->graph != graph)
            return CUDA_ERROR_INVALID_VALUE;
        for (size_t j = 0; j < i; j++)
            if (after[j] == after[i])
                return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static CUresult create(CUgraph *out, unsigned int flags)
{
    if (!out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraph graph = vgsim_graph_new();
    if (graph)
        *out = graph;
    return graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuGraphCreate(CUgraph *phGraph, unsigned int flags)
{
    CALL(INIT, create(phGraph, flags));
}

/* While it is captured into it can be neither destroyed nor lose a node (CUDA Driver API,
 * cuStreamGetCaptureInfo). */
static CUresult destroy(CUgraph graph)
{
    if (!vgsim_object_is(graph, GRAPH) || graph->captures)
        return CUDA_ERROR_INVALID_VALUE;
    vgsim_graph_end(graph);
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph hGraph)
{
    CALL(INIT, destroy(hGraph));
}

static CUresult destroy_node(CUgraphNode node)
{
    if (!vgsim_object_is(node, GRAPH_NODE) || node->graph->captures)
        return CUDA_ERROR_INVALID_VALUE;
    CUgraph graph = node->graph;
    if (graph->has_memory)
        return CUDA_ERROR_NOT_SUPPORTED;
    size_t kept = 0;
    for (size_t i = 0; i < graph->nodes.count; i++) {
        CUgraphNode other = graph->nodes.at[i];
        if (other == node)
            continue;
        size_t edges = 0;
        for (size_t j = 0; j < other->after.count; j++)
            if (other->after.at[j] != node)
                other->after.at[edges++] = other->after.at[j];
        other->after.count = edges;
        other->index = kept;
        graph->nodes.at[kept++] = other;
    }
    graph->nodes.count = kept;
    end_node(node);
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroyNode(CUgraphNode hNode)
{
    CALL(INIT, destroy_node(hNode));
}

static CUresult clone(CUgraph *out, CUgraph original)
{
    if (!out || !vgsim_object_is(original, GRAPH))
        return CUDA_ERROR_INVALID_VALUE;
    if (original->has_memory)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUgraph copy = vgsim_graph_new();
    if (!copy)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < original->nodes.count; i++)
        vgsim_graph_node(copy, original->nodes.at[i]->type, NULL, 0);
    for (size_t i = 0; i < original->nodes.count; i++) {
        const struct vgsim_nodes *after = &original->nodes.at[i]->after;
        for (size_t j = 0; j < after->count; j++)
            vgsim_nodes_add(&copy->nodes.at[i]->after, copy->nodes.at[after->at[j]->index]);
    }
    *out = copy;
    return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)
{
    CALL(INIT, clone(phGraphClone, originalGraph));
}

/* --- edges ------------------------------------------------------------------------------------ */

static CUresult add_edge(CUgraph graph, CUgraphNode from, CUgraphNode to)
{
    struct vgsim_nodes start = {.at = &from, .count = 1};
    vgsim_graph_mark(graph, &start);
    if (to->marked || vgsim_nodes_have(&to->after, from))
        return CUDA_ERROR_INVALID_VALUE; /* a circle, or there already */
    vgsim_nodes_add(&to->after, from);
    return CUDA_SUCCESS;
}

static CUresult add_edges(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                          size_t count)
{
    if (!vgsim_object_is(graph, GRAPH) || (count && (!from || !to)))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (vgsim_graph_after(graph, &from[i], 1) != CUDA_SUCCESS ||
            vgsim_graph_after(graph, &to[i], 1) != CUDA_SUCCESS)
            return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; i < count && result == CUDA_SUCCESS; i++)
        result = add_edge(graph, from[i], to[i]);
    return result;
}

CUresult cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                size_t numDependencies)
{
    CALL(INIT, add_edges(hGraph, from, to, numDependencies));
}

CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                   const CUgraphEdgeData *edgeData, size_t numDependencies)
{
    (void)edgeData;
    CALL(INIT, add_edges(hGraph, from, to, numDependencies));
}

/* --- questions: without an array, how many; with one, as many as it has room for, and nothing
 * after them */

static void give(CUgraphNode *out, size_t room, size_t *count, CUgraphNode node)
{
    if (out && *count < room)
        out[*count] = node;
    ++*count;
}

static void close_list(CUgraphNode *out, size_t room, size_t count, size_t *count_out)
{
    for (size_t i = count; out && i < room; i++)
        out[i] = NULL;
    *count_out = out && count > room ? room : count;
}

static CUresult get_nodes(CUgraph graph, CUgraphNode *out, size_t *count_out, bool roots)
{
    if (!vgsim_object_is(graph, GRAPH) || !count_out)
        return CUDA_ERROR_INVALID_VALUE;
    size_t count = 0;
    for (size_t i = 0; i < graph->nodes.count; i++)
        if (!roots || graph->nodes.at[i]->after.count == 0)
            give(out, *count_out, &count, graph->nodes.at[i]);
    close_list(out, *count_out, count, count_out);
    return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
    CALL(INIT, get_nodes(hGraph, nodes, numNodes, false));
}

CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes)
{
    CALL(INIT, get_nodes(hGraph, rootNodes, numRootNodes, true));
}

static CUresult get_edges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data,
                          size_t *count_out)
{
    if (!vgsim_object_is(graph, GRAPH) || !count_out || !from != !to || (data && !from))
        return CUDA_ERROR_INVALID_VALUE;
    size_t count = 0, room = *count_out;
    for (size_t i = 0; i < graph->nodes.count; i++)
        for (size_t j = 0; j < graph->nodes.at[i]->after.count; j++, count++)
            if (from && count < room) {
                from[count] = graph->nodes.at[i]->after.at[j];
                to[count] = graph->nodes.at[i];
                if (data)
                    data[count] = (CUgraphEdgeData){0};
            }
    close_list(from, room, count, count_out);
    close_list(to, room, count, count_out);
    return CUDA_SUCCESS;
}

CUresult cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, size_t *numEdges)
{
    CALL(INIT, get_edges(hGraph, from, to, NULL, numEdges));
}

CUresult cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
                            CUgraphEdgeData *edgeData, size_t *numEdges)
{
    CALL(INIT, get_edges(hGraph, from, to, edgeData, numEdges));
}

static CUresult get_before(CUgraphNode node, CUgraphNode *out, size_t *count_out)
{
    if (!vgsim_object_is(node, GRAPH_NODE) || !count_out)
        return CUDA_ERROR_INVALID_VALUE;
    size_t count = 0;
    for (size_t i = 0; i < node->after.count; i++)
        give(out, *count_out, &count, node->after.at[i]);
    close_list(out, *count_out, count, count_out);
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependencies(CUgraphNode hNode, CUgraphNode *dependencies,
                                    size_t *numDependencies)
{
    CALL(INIT, get_before(hNode, dependencies, numDependencies));
}

static CUresult get_before_data(CUgraphNode node, CUgraphNode *out, CUgraphEdgeData *data,
                                size_t *count_out)
{
    if (data && !out)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = get_before(node, out, count_out);
    for (size_t i = 0; result == CUDA_SUCCESS && data && i < *count_out; i++)
        data[i] = (CUgraphEdgeData){0};
    return result;
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies,
                                       CUgraphEdgeData *edgeData, size_t *numDependencies)
{
    CALL(INIT, get_before_data(hNode, dependencies, edgeData, numDependencies));
}

static CUresult get_type(CUgraphNode node, CUgraphNodeType *out)
{
    if (!vgsim_object_is(node, GRAPH_NODE) || !out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = node->type;
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
    CALL(INIT, get_type(hNode, type));
}
