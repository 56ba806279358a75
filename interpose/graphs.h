/* graphs.h -- memory nodes of graphs: what a launch allocates and frees.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VG_GRAPHS_H
#define VG_GRAPHS_H

#include "interpose/lifecycle.h"
#include "interpose/notes.h"

/* A stream-ordered allocation or free inside a capture: a node of the graph to be. e->stack and
 * e->api are set. With the ledger lock held. */
void vg_graphs_capture_alloc(struct vg_guard *guard, uint64_t capture, const struct vg_event *e);
void vg_graphs_capture_free(struct vg_guard *guard, uint64_t capture, uint64_t addr);
/* A capture ended: its nodes are those of `graph`, or nobody's (0). With the ledger lock held. */
void vg_graphs_captured(struct vg_guard *guard, uint64_t capture, uint64_t graph);

void vg_graphs_alloc_node(struct vg_guard *guard, const struct vg_note *n);
void vg_graphs_free_node(struct vg_guard *guard, const struct vg_note *n);
void vg_graphs_other_node(struct vg_guard *guard, const struct vg_note *n);
void vg_graphs_instantiate(struct vg_guard *guard, const struct vg_note *n);
void vg_graphs_launch(struct vg_guard *guard, const struct vg_note *n);
void vg_graphs_exec_destroy(struct vg_guard *guard, const struct vg_note *n);
void vg_graphs_destroy(struct vg_guard *guard, const struct vg_note *n);

#endif
