/* SPDX-License-Identifier: MIT */
/*
 * Prints the allocations that a process has recorded, for scripts: print_history DIR PID
 *
 *   alloc SIZE STACK NATIVE CUT ORDER
 *     LINE<tab>FUNCTION<tab>FILE      a frame of Python, innermost first
 *
 * STACK: its id; NATIVE: how many return addresses it has; CUT: 1 where there were more frames;
 * ORDER: a letter for each frame, n or p, after a dot.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/preload/record/history.h"

static void print_frame(struct cm_reader *reader, uint64_t frame)
{
	char text[2000], *split;

	history_text(reader, cm_frame_text(frame), text, sizeof(text));
	split = strchr(text, CM_FRAME_TEXT_SPLIT);
	if (split)
		*split++ = '\0';
	printf("  %" PRIu32 "\t%s\t%s\n", cm_frame_line(frame), text, split ? split : "");
}

static void print_event(struct cm_reader *reader, const struct cm_event *event)
{
	struct history_stack stack = {0};
	char order[CM_STACK_FRAMES_MAX + 1];
	uint32_t i, native = 0;

	(void)history_stack(reader, event->stack, &stack);
	for (i = 0; i < stack.count; i++) {
		order[i] = stack.frame[i] & CM_FRAME_PYTHON ? 'p' : 'n';
		native += order[i] == 'n';
	}
	order[i] = '\0';
	printf("alloc %" PRIu64 " %" PRIu32 " %" PRIu32 " %d .%s\n", event->size, event->stack,
	       native, (stack.flags & CM_STACK_CUT) != 0, order);
	for (i = 0; i < stack.count; i++)
		if (stack.frame[i] & CM_FRAME_PYTHON)
			print_frame(reader, stack.frame[i]);
}

int main(int argc, char **argv)
{
	struct cm_reader *reader;
	struct cm_event event;
	uint64_t number;

	if (argc != 3) {
		(void)fprintf(stderr, "usage: print_history DIR PID\n");
		return 2;
	}
	reader = history_open(argv[1], (unsigned)strtoul(argv[2], NULL, 10));
	for (number = 1; history_event(reader, CM_TABLE_EVENT, number, &event); number++)
		if (event.action == CM_ACTION_ALLOC)
			print_event(reader, &event);
	cm_reader_close(reader);
	return 0;
}
