/* SPDX-License-Identifier: MIT */
/*
 * Graphs: operations and which must have ended before which. Caller locks.
 */
#ifndef CM_SIM_GRAPH_H
#define CM_SIM_GRAPH_H

#include "object.h"
#include "operation.h"

struct sim_event;
struct sim_graph;
struct sim_mem;
struct sim_vector;
struct sim_work;

/* A set of nodes, malloc'd; all zero is an empty one. */
struct sim_nodes {
	struct sim_node **items;
	size_t count;
	size_t room;
};

struct sim_node {
	struct sim_object object;
	CUgraphNodeType type;
	struct sim_graph *graph;
	struct sim_node *next;   /* of the graph, in the order of their making */
	struct sim_nodes before; /* must have ended */
	bool has_after;
	struct sim_op op;
	struct sim_event *event; /* of an event node */
	struct sim_mem *mem;     /* of an allocation or free node */
	struct sim_graph *child; /* of a child graph node, to look at: its nodes are copied */
	unsigned index;          /* while the graph is instantiated */
};

/*
 * Counted: the handle holds one reference, each executable graph one. Memory that allocation nodes
 * made lives as long, and until the last launch has ended.
 */
struct sim_graph {
	struct sim_object object;
	unsigned refs;
	bool destroyed; /* the handle is gone */
	struct sim_node *first;
	struct sim_node **end;
	size_t count;
	struct sim_work *launched; /* by executables that are gone: it may still run */
	struct sim_vector *ended;  /* of such launches, what is over */
};

/* False when memory is out. A node that is there already is not added again. */
bool sim_nodes_add(struct sim_nodes *nodes, struct sim_node *node);
bool sim_nodes_add_all(struct sim_nodes *nodes, const struct sim_nodes *more);
bool sim_nodes_has(const struct sim_nodes *nodes, const struct sim_node *node);
void sim_nodes_clear(struct sim_nodes *nodes);

struct sim_graph *sim_graph_create(void);
struct sim_graph *sim_graph_of(CUgraph handle);
static inline CUgraph sim_graph_handle(struct sim_graph *graph)
{
	return (CUgraph)(void *)graph;
}
struct sim_node *sim_node_of(CUgraphNode handle);
static inline CUgraphNode sim_node_handle(struct sim_node *node)
{
	return (CUgraphNode)(void *)node;
}
void sim_graph_ref(struct sim_graph *graph);
void sim_graph_unref(struct sim_graph *graph);
/* Its memory lives until that work has ended, too; NULL: nothing. */
void sim_graph_launched(struct sim_graph *graph, struct sim_work *work);

/* A node after all of `before`; takes the operation over. NULL when memory is out. */
struct sim_node *sim_graph_add(struct sim_graph *graph, CUgraphNodeType type,
			       const struct sim_nodes *before, struct sim_op *op);

/* Makes a copy of all that another graph, or executable, does in this one, after `before`; the
 * copies that nothing comes after go to ret_ends. */
bool sim_graph_add_copy(struct sim_graph *graph, const struct sim_graph *other,
			const struct sim_nodes *before, struct sim_nodes *ret_ends);

/* What an executable graph does for a node of the graph that it was made of, which has not changed
 * since; NULL if it is not of that graph. */
struct sim_op *sim_exec_op(CUgraphExec handle, CUgraphNode node_handle);

/*
 * The same by handles, as the functions that add nodes do; ret_node may be NULL. The operation is
 * taken over whatever the result.
 */
CUresult sim_graph_add_by_handle(CUgraphNode *ret_handle, CUgraph handle,
				 const CUgraphNode *dependencies, size_t count,
				 CUgraphNodeType type, struct sim_op *op,
				 struct sim_node **ret_node);

#endif
