/* SPDX-License-Identifier: MIT */
#include "tools/snapshot/lines.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/width.h"

#define BETWEEN       " < "
#define PATTERN_BYTES 512

struct cm_view cm_view_of(const struct cm_options *options)
{
	struct cm_view view = {CM_BY_CALLER, CM_VIEW_DEPTH, options->full, CM_VIEW_ROWS};

	if (options->given[CM_OPT_BY])
		view.by = (enum cm_by)options->by;
	else if (options->full)
		view.by = CM_BY_STACK;
	if (options->depth)
		view.depth = options->depth;
	if (options->top)
		view.rows = options->top;
	return view;
}

const char *cm_by_name(enum cm_by by)
{
	static const char *const names[CM_BY_COUNT] = {"stack",  "function", "file", "library",
						       "thread", "range",    "size", "caller"};

	return names[by];
}

const char *cm_by_names(enum cm_by by)
{
	static const char *const names[CM_BY_COUNT] = {"stacks",  "functions", "files", "libraries",
						       "threads", "ranges",    "sizes", "callers"};

	return names[by];
}

static bool matches(const char *pattern, const struct cm_snap_frame *frame)
{
	return !fnmatch(pattern, frame->function, 0) || !fnmatch(pattern, frame->file, 0) ||
	       !fnmatch(pattern, frame->module, 0);
}

/* Is the frame named by one of the patterns, which are separated by commas? */
static bool is_hidden(const char *hide, const struct cm_snap_frame *frame)
{
	char pattern[PATTERN_BYTES];
	size_t length;

	for (; hide && *hide; hide += length + (hide[length] == ',')) {
		length = strcspn(hide, ",");
		(void)snprintf(pattern, sizeof(pattern), "*%.*s*", (int)length, hide);
		if (length && matches(pattern, frame))
			return true;
	}
	return false;
}

void cm_layers_mark(struct cm_snapshot *snapshot, const char *hide)
{
	size_t i;

	for (i = 0; i < snapshot->frames; i++) {
		struct cm_snap_frame *frame = &snapshot->frame[i];

		frame->layer = frame->python ? cm_layer_python(frame->file, &frame->layer_name)
					     : cm_layer_native(frame->module, frame->function,
							       &frame->layer_name);
		if (is_hidden(hide, frame)) {
			frame->layer = CM_LAYER_PLUMBING;
			frame->layer_name = "hidden";
		}
	}
}

uint32_t cm_stack_caller_at(const struct cm_snapshot *snapshot, const struct cm_snap_stack *stack)
{
	uint32_t own = UINT32_MAX, library = UINT32_MAX, i;

	for (i = 0; i < stack->count; i++) {
		const struct cm_snap_frame *frame = cm_stack_frame(snapshot, stack, i);

		if (frame->layer == CM_LAYER_PROGRAM && frame->python)
			return i;
		if (frame->layer == CM_LAYER_PROGRAM && own == UINT32_MAX)
			own = i;
		if (frame->layer == CM_LAYER_LIBRARY && library == UINT32_MAX)
			library = i;
	}
	return own != UINT32_MAX ? own : library != UINT32_MAX ? library : 0;
}

const struct cm_snap_frame *cm_stack_caller(const struct cm_snapshot *snapshot,
					    const struct cm_snap_stack *stack)
{
	static const struct cm_snap_frame unknown = {
		.function = "(no stack recorded)", .file = "??", .module = ""};

	return stack->count ? cm_stack_frame(snapshot, stack, cm_stack_caller_at(snapshot, stack))
			    : &unknown;
}

const struct cm_snap_frame *cm_stack_called(const struct cm_snapshot *snapshot,
					    const struct cm_snap_stack *stack)
{
	uint32_t i;

	if (!cm_stack_caller(snapshot, stack)->python)
		return NULL;
	for (i = 0; i < stack->count; i++) {
		const struct cm_snap_frame *frame = cm_stack_frame(snapshot, stack, i);

		if (!frame->python && frame->layer == CM_LAYER_PROGRAM)
			return strchr(frame->function, '+') || !strcmp(frame->function, "main")
				       ? NULL
				       : frame;
	}
	return NULL;
}

uint32_t cm_stack_next(const struct cm_snapshot *snapshot, const struct cm_snap_stack *stack,
		       uint32_t at)
{
	/* Frames outside main say nothing about the program. */
	if (at >= stack->count || !strcmp(cm_stack_frame(snapshot, stack, at)->function, "main"))
		return stack->count;
	for (at++; at < stack->count; at++)
		if (cm_stack_frame(snapshot, stack, at)->layer == CM_LAYER_PROGRAM)
			break;
	return at;
}

struct cm_function_text cm_function_format(const struct cm_snap_frame *frame)
{
	struct cm_function_text to = {""};

	if (frame->python || *frame->function == '(')
		(void)snprintf(to.text, sizeof(to.text), "%s", frame->function);
	else
		cm_layer_short_name(to.text, sizeof(to.text), frame->function);
	return to;
}

/* A path of a damaged region may end in a slash. */
static const char *last_name(const char *path)
{
	const char *name = basename(path);

	return *name ? name : path;
}

const char *cm_stack_library(const struct cm_snapshot *snapshot, const struct cm_snap_stack *stack)
{
	uint32_t i;

	for (i = 0; i < stack->count; i++) {
		const struct cm_snap_frame *frame = cm_stack_frame(snapshot, stack, i);

		if (frame->layer == CM_LAYER_LIBRARY)
			return frame->layer_name;
		if (frame->layer == CM_LAYER_PROGRAM && frame->python)
			return last_name(frame->file);
		if (frame->layer == CM_LAYER_PROGRAM)
			return *frame->module ? last_name(frame->module) : frame->function;
	}
	return cm_stack_caller(snapshot, stack)->function;
}

static void put_frame(FILE *file, const struct cm_snap_frame *frame, bool full)
{
	const struct cm_function_text plain = cm_function_format(frame);

	(void)fputs(full ? frame->function : plain.text, file);
	if (frame->line)
		(void)fprintf(file, " %s:%u", full ? frame->file : basename(frame->file),
			      frame->line);
	else if (full && *frame->module && !strchr(frame->function, '+'))
		(void)fprintf(file, " %s", basename(frame->module));
}

static void put_stack(FILE *file, const struct cm_snapshot *snapshot,
		      const struct cm_snap_stack *stack, const struct cm_view *view)
{
	const bool all = view->full || view->by == CM_BY_STACK;
	uint32_t i = all ? 0 : cm_stack_caller_at(snapshot, stack);
	const struct cm_snap_frame *called = all ? NULL : cm_stack_called(snapshot, stack);
	uint64_t shown = 0;

	if (!stack->count)
		put_frame(file, cm_stack_caller(snapshot, stack), view->full);
	while (i < stack->count && (all || shown < view->depth)) {
		(void)fputs(shown++ ? BETWEEN : "", file);
		put_frame(file, cm_stack_frame(snapshot, stack, i), view->full);
		if (called && shown == 1)
			(void)fprintf(file, " (%s)", cm_function_format(called).text);
		i = all ? i + 1 : cm_stack_next(snapshot, stack, i);
	}
}

char *cm_stack_spell(const struct cm_snapshot *snapshot, const struct cm_snap_stack *stack,
		     const struct cm_view *view)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *memory = open_memstream(&text, &bytes);

	if (!memory)
		return NULL;
	put_stack(memory, snapshot, stack, view);
	if (!fclose(memory))
		return text;
	free(text);
	return NULL;
}

/* Prints `length` bytes; of what does not fit into `room` the end. Returns the columns, where all
 * characters have one. */
static size_t put_piece(FILE *file, const char *piece, size_t length, size_t room)
{
	const char *called = length > room ? memmem(piece, length, " (", 2) : NULL;
	size_t skip = 0;

	/* The function that is called is left out first. */
	if (called && called > piece)
		length = (size_t)(called - piece);
	if (length > room) {
		skip = length - room + strlen("...");
		while (skip < length && (piece[skip] & 0xc0) == 0x80)
			skip++; /* not inside a character */
		(void)fputs("...", file);
	}
	(void)fwrite(piece + skip, 1, length - skip, file);
	return length > room ? room : length;
}

void cm_line_print(FILE *file, size_t used, const char *text, bool full)
{
	const size_t width = cm_line_width(file), between = strlen(BETWEEN);
	const size_t line = width > used + 20 ? width - used : 20; /* behind the indentation */
	const size_t room = full ? SIZE_MAX : line;                /* of a frame */
	size_t left = line, length;
	const char *next;
	bool first = true;

	for (; text; text = next, first = false) {
		next = strstr(text, BETWEEN);
		length = next ? (size_t)(next - text) : strlen(text);
		next = next ? next + between : NULL;
		if (!first && length + between <= left) {
			(void)fputs(BETWEEN, file);
			left -= between + put_piece(file, text, length, room);
			continue;
		}
		if (!first) {
			(void)fprintf(file, "\n%*s%s", (int)used, "", &BETWEEN[1]);
			left = line - (between - 1);
		}
		length = put_piece(file, text, length, first || full ? room : left);
		left = length < left ? left - length : 0;
	}
	(void)putc('\n', file);
}

void cm_stack_json(struct cm_json *json, const struct cm_snapshot *snapshot,
		   const struct cm_snap_stack *stack)
{
	const struct cm_snap_frame *frame;
	uint32_t i;

	cm_json_array(json, "frames");
	for (i = 0; stack && i < stack->count; i++) {
		frame = cm_stack_frame(snapshot, stack, i);
		cm_json_object(json, NULL);
		cm_json_text(json, "function", frame->function);
		cm_json_text(json, "file", frame->file);
		cm_json_unsigned(json, "line", frame->line);
		cm_json_end(json);
	}
	cm_json_end(json);
}
