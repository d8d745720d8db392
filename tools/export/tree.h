/* SPDX-License-Identifier: MIT */
/*
 * Writing nested data as it comes, as a pickle or as JSON: one description of a structure for both.
 * A key is given inside a dictionary and is NULL elsewhere.
 *
 * The pickle is of protocol 4 and uses only what PyTorch's viewer understands; containers of more
 * than 1000 items are filled in batches, as CPython does and as that viewer needs. Integers are
 * below 2^63.
 */
#ifndef CM_TOOLS_EXPORT_TREE_H
#define CM_TOOLS_EXPORT_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct cm_tree;

/* NULL: no memory. The file's errors are for its owner to find. */
struct cm_tree *cm_tree_pickle(FILE *file);
struct cm_tree *cm_tree_json(FILE *file);
/* Ends the data and frees; -ENOMEM: memory ran out on the way. */
int cm_tree_close(struct cm_tree *tree);

void cm_tree_dict(struct cm_tree *tree, const char *key);
void cm_tree_list(struct cm_tree *tree, const char *key);
void cm_tree_end(struct cm_tree *tree);
void cm_tree_text(struct cm_tree *tree, const char *key, const char *text);
void cm_tree_number(struct cm_tree *tree, const char *key, int64_t number);
void cm_tree_unsigned(struct cm_tree *tree, const char *key, uint64_t number);
void cm_tree_real(struct cm_tree *tree, const char *key, double number);
void cm_tree_flag(struct cm_tree *tree, const char *key, bool value);
void cm_tree_pair(struct cm_tree *tree, const char *key, int64_t first, int64_t second);

/* Things that may be written once and then referred to. */
enum cm_tree_kind { CM_TREE_FRAME, CM_TREE_STACK, CM_TREE_KINDS };

/*
 * True: thing `id` of the kind was written before, and a reference to it has been written now.
 * False: the container that is opened next is that thing. JSON has no references.
 */
bool cm_tree_refer(struct cm_tree *tree, const char *key, enum cm_tree_kind kind, uint32_t id);

#endif
