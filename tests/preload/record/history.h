/* SPDX-License-Identifier: MIT */
/* Reading what a region has recorded, of one's own process or another's; for tests and in small. */
#ifndef CM_TESTS_PRELOAD_RECORD_HISTORY_H
#define CM_TESTS_PRELOAD_RECORD_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stats/reader.h"

struct history_stack {
	uint32_t count;
	uint32_t flags;
	uint32_t generation;
	uint64_t frame[CM_STACK_FRAMES_MAX];
};

/* Opens the region of process `pid` in `dir`; ends the program where that fails. */
struct cm_reader *history_open(const char *dir, unsigned pid);

/* An event by its number, of device 0 or of pinned memory. False: it is not there. */
bool history_event(struct cm_reader *reader, enum cm_table table, uint64_t number,
		   struct cm_event *ret_event);
/* The youngest event of an action; ends the program where there is none. */
struct cm_event history_last(struct cm_reader *reader, enum cm_table table, enum cm_action action);

/* False: the id is 0. */
bool history_stack(struct cm_reader *reader, uint32_t id, struct history_stack *ret_stack);

/* "" for 0. */
void history_text(struct cm_reader *reader, uint32_t id, char *text, size_t bytes);

/* The module of an address in a generation. False: none. */
bool history_module(struct cm_reader *reader, uint64_t addr, uint32_t generation,
		    struct cm_module *ret_module);

#endif
