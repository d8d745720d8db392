/* SPDX-License-Identifier: MIT */
/*
 * A stack on one line that begins with the frame that matters: the innermost one of the program's
 * own code, a Python frame if there is one. The frames below it (stats/code_layers.def, --hide) are
 * skipped, and so are those between its callers.
 */
#ifndef CM_TOOLS_SNAPSHOT_LINES_H
#define CM_TOOLS_SNAPSHOT_LINES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tools/cli/options.h"
#include "tools/output/json.h"
#include "tools/snapshot/snapshot.h"

/* What the rows of a report stand for: the words of --by, and its default. */
enum cm_by {
	CM_BY_STACK,
	CM_BY_FUNCTION,
	CM_BY_FILE,
	CM_BY_LIBRARY,
	CM_BY_THREAD,
	CM_BY_RANGE,
	CM_BY_SIZE,
	CM_BY_CALLER, /* the frame that matters and its callers, as far as they are shown */
	CM_BY_COUNT
};

#define CM_VIEW_DEPTH 3

struct cm_view {
	enum cm_by by;
	uint64_t depth; /* frames of a line */
	bool full;      /* names with all that belongs to them */
	uint64_t rows;  /* of each list; the others are summed up */
};

#define CM_VIEW_ROWS 10

/* What --by, --depth and --full say. */
struct cm_view cm_view_of(const struct cm_options *options);
/* "caller", "stack" ...; and of several. */
const char *cm_by_name(enum cm_by by);
const char *cm_by_names(enum cm_by by);

/* Decides of each frame whose code it is. For `hide` see cm_snapshot_create. */
void cm_layers_mark(struct cm_snapshot *snapshot, const char *hide);

/* The place of the frame that matters; 0 in the empty stack. */
uint32_t cm_stack_caller_at(const struct cm_snapshot *snapshot, const struct cm_snap_stack *stack);
/* That frame; of the empty stack "(no stack recorded)". */
const struct cm_snap_frame *cm_stack_caller(const struct cm_snapshot *snapshot,
					    const struct cm_snap_stack *stack);
/* The native code of the program that the Python frame which matters has called; NULL: it is not
 * known, or no such frame matters. */
const struct cm_snap_frame *cm_stack_called(const struct cm_snapshot *snapshot,
					    const struct cm_snap_stack *stack);
/* The place of the next outer frame that a line shows; `count` of the stack: there is none. */
uint32_t cm_stack_next(const struct cm_snapshot *snapshot, const struct cm_snap_stack *stack,
		       uint32_t at);
/* The name of a frame's function as lines show it. */
struct cm_function_text {
	char text[CM_LAYER_NAME_BYTES];
};
struct cm_function_text cm_function_format(const struct cm_snap_frame *frame);
/* The library whose code requested the memory, or the program. Never NULL. */
const char *cm_stack_library(const struct cm_snapshot *snapshot, const struct cm_snap_stack *stack);

/* "forward model.cu:88 < step solver.cu:31", innermost first, or "step train.py:31 (forward)" with
 * the native function that Python called; by stack or in full all frames. The caller frees it.
 * NULL: not enough memory. */
char *cm_stack_spell(const struct cm_snapshot *snapshot, const struct cm_snap_stack *stack,
		     const struct cm_view *view);

/*
 * Prints such a text and ends the line. `used` columns of the line are printed; what does not fit
 * the terminal, or 80 columns, continues below them. A frame that does not fit by itself loses its
 * beginning, unless `full`.
 */
void cm_line_print(FILE *file, size_t used, const char *text, bool full);

/* Adds "frames", all of the stack, innermost first; NULL: an empty list. */
void cm_stack_json(struct cm_json *json, const struct cm_snapshot *snapshot,
		   const struct cm_snap_stack *stack);

#endif
