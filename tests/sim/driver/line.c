/* SPDX-License-Identifier: MIT */
#include "line.h"

#include <stdlib.h>

#include "checker.h"

/*
 * Threads that never wait for anything keep lines from being given out again. Beyond so many lines
 * the one that was left first is taken, as if everybody had waited for it.
 */
enum { MANY = 256 };

struct line {
	uint32_t last;
	uint64_t left; /* a number that grows; 0: in use */
};

static struct line *lines;
static uint32_t count = 1; /* the first is SIM_NO_LINE */
static uint32_t room;
static uint64_t leavings;
static uint64_t forgotten;

static uint32_t add(void)
{
	if (count >= room) {
		uint32_t more = room ? 2 * room : 64;

		lines = realloc(lines, more * sizeof(lines[0]));
		if (!lines)
			abort();
		room = more;
	}
	lines[count] = (struct line){.last = 0};
	return count++;
}

static uint32_t take_oldest(void)
{
	uint32_t oldest = SIM_NO_LINE;

	for (uint32_t i = 1; i < count; i++) {
		if (lines[i].left && (!oldest || lines[i].left < lines[oldest].left))
			oldest = i;
	}
	if (oldest) {
		sim_checker_tell_everybody(oldest, lines[oldest].last);
		forgotten++;
	}
	return oldest;
}

uint32_t sim_line_take(void)
{
	uint32_t line = SIM_NO_LINE;

	for (uint32_t i = 1; i < count && !line; i++) {
		if (lines[i].left && sim_checker_everybody_knows(i, lines[i].last))
			line = i;
	}
	if (!line && count > MANY)
		line = take_oldest();
	if (!line)
		line = add();
	lines[line].left = 0;
	return line;
}

void sim_line_leave(uint32_t *line)
{
	if (*line != SIM_NO_LINE)
		lines[*line].left = ++leavings;
	*line = SIM_NO_LINE;
}

uint32_t sim_line_next(uint32_t line)
{
	return ++lines[line].last;
}

uint32_t sim_lines(void)
{
	return count - 1;
}

uint64_t sim_lines_forgotten(void)
{
	return forgotten;
}
