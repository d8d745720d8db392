/* SPDX-License-Identifier: MIT */
#include "graph.h"

#include <stdlib.h>

#include "checker.h"
#include "memory.h"
#include "vector.h"
#include "work.h"

bool sim_nodes_has(const struct sim_nodes *nodes, const struct sim_node *node)
{
	for (size_t i = 0; i < nodes->count; i++) {
		if (nodes->items[i] == node)
			return true;
	}
	return false;
}

bool sim_nodes_add(struct sim_nodes *nodes, struct sim_node *node)
{
	if (sim_nodes_has(nodes, node))
		return true;
	if (nodes->count == nodes->room) {
		size_t more = nodes->room ? 2 * nodes->room : 4;
		struct sim_node **grown = realloc(nodes->items, more * sizeof(nodes->items[0]));

		if (!grown)
			return false;
		nodes->items = grown;
		nodes->room = more;
	}
	nodes->items[nodes->count++] = node;
	return true;
}

bool sim_nodes_add_all(struct sim_nodes *nodes, const struct sim_nodes *more)
{
	for (size_t i = 0; i < more->count; i++) {
		if (!sim_nodes_add(nodes, more->items[i]))
			return false;
	}
	return true;
}

void sim_nodes_clear(struct sim_nodes *nodes)
{
	free(nodes->items);
	*nodes = (struct sim_nodes){.count = 0};
}

struct sim_graph *sim_graph_create(void)
{
	struct sim_graph *graph = sim_object_create(SIM_GRAPH, sizeof(*graph));

	if (!graph)
		return NULL;
	graph->refs = 1;
	graph->end = &graph->first;
	return graph;
}

struct sim_graph *sim_graph_of(CUgraph handle)
{
	struct sim_graph *graph = (struct sim_graph *)(void *)handle;

	return sim_object_is(handle, SIM_GRAPH) && !graph->destroyed ? graph : NULL;
}

struct sim_node *sim_node_of(CUgraphNode handle)
{
	return sim_object_is(handle, SIM_GRAPH_NODE) ? (struct sim_node *)(void *)handle : NULL;
}

/* Work that is over may have been of a context that is gone: then only its order is left of it. */
static void put_away(struct sim_graph *graph, const struct sim_work *work)
{
	sim_vector_join(&graph->ended, work->vector);
}

void sim_graph_launched(struct sim_graph *graph, struct sim_work *work)
{
	static const struct sim_op mark = {.kind = SIM_OP_MARK};
	struct sim_work *join;

	if (!work)
		return;
	if (sim_work_is_done(work)) {
		put_away(graph, work);
		return;
	}
	join = sim_work_create(work->ctx, &mark);
	if (!join)
		return;
	sim_work_after(join, graph->launched);
	sim_work_after(join, work);
	sim_work_commit(join);
	sim_work_store(&graph->launched, join);
	sim_work_unref(join);
}

/* At once when no launch is under way. */
static void free_memory(struct sim_graph *graph, struct sim_mem *mem)
{
	struct sim_op op = {.kind = SIM_OP_FREE, .u.freed = mem};
	struct sim_work *work = NULL;

	if (!sim_work_is_done(graph->launched))
		work = sim_work_create(graph->launched->ctx, &op);
	if (work) {
		sim_work_after(work, graph->launched);
		sim_vector_join(&work->vector, graph->ended);
		sim_work_commit(work);
		sim_work_unref(work);
		return;
	}
	if (graph->launched)
		put_away(graph, graph->launched);
	sim_checker_acts(graph->ended);
	sim_mem_free(mem);
	sim_checker_acted();
}

static void destroy_node(struct sim_graph *graph, struct sim_node *node)
{
	if (node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && node->mem)
		free_memory(graph, node->mem);
	sim_graph_unref(node->child);
	sim_op_release(&node->op);
	sim_nodes_clear(&node->before);
	sim_object_destroy(node);
}

void sim_graph_ref(struct sim_graph *graph)
{
	graph->refs++;
}

void sim_graph_unref(struct sim_graph *graph)
{
	if (!graph || --graph->refs)
		return;
	while (graph->first) {
		struct sim_node *node = graph->first;

		graph->first = node->next;
		destroy_node(graph, node);
	}
	sim_work_unref(graph->launched);
	sim_vector_unref(graph->ended);
	sim_object_destroy(graph);
}

struct sim_node *sim_graph_add(struct sim_graph *graph, CUgraphNodeType type,
			       const struct sim_nodes *before, struct sim_op *op)
{
	struct sim_node *node = sim_object_create(SIM_GRAPH_NODE, sizeof(*node));

	if (!node || !sim_nodes_add_all(&node->before, before)) {
		sim_op_release(op);
		if (node)
			sim_object_destroy(node);
		return NULL;
	}
	node->graph = graph;
	node->type = type;
	node->op = *op;
	*graph->end = node;
	graph->end = &node->next;
	graph->count++;
	for (size_t i = 0; i < before->count; i++)
		before->items[i]->has_after = true;
	return node;
}

/* What comes before the copy of a node: the copies of what comes before the node. */
static bool translate(struct sim_node **copies, const struct sim_node *node,
		      const struct sim_nodes *before, struct sim_nodes *ret)
{
	if (!node->before.count)
		return sim_nodes_add_all(ret, before);
	for (size_t i = 0; i < node->before.count; i++) {
		if (!sim_nodes_add(ret, copies[node->before.items[i]->index]))
			return false;
	}
	return true;
}

static struct sim_node *add_one_copy(struct sim_graph *graph, struct sim_node **copies,
				     const struct sim_node *node, const struct sim_nodes *before)
{
	struct sim_nodes translated = {.count = 0};
	struct sim_node *copy = NULL;
	struct sim_op op;

	if (translate(copies, node, before, &translated) && sim_op_clone(&node->op, &op))
		copy = sim_graph_add(graph, node->type, &translated, &op);
	sim_nodes_clear(&translated);
	if (copy)
		copy->event = node->event;
	if (copy && node->child)
		sim_graph_ref(copy->child = node->child);
	return copy;
}

bool sim_graph_add_copy(struct sim_graph *graph, const struct sim_graph *other,
			const struct sim_nodes *before, struct sim_nodes *ret_ends)
{
	struct sim_node **copies = calloc(other->count + 1, sizeof(copies[0]));
	bool ok = copies != NULL;
	unsigned index = 0;

	for (struct sim_node *node = other->first; ok && node; node = node->next) {
		node->index = index;
		copies[index] = add_one_copy(graph, copies, node, before);
		ok = copies[index] && (node->has_after || sim_nodes_add(ret_ends, copies[index]));
		index++;
	}
	free(copies);
	return ok;
}
