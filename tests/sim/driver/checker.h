/* SPDX-License-Identifier: MIT */
/*
 * The checker: whether all that touches memory comes after all that touched it for earlier owners.
 * README.md has its rules. The rest of the driver tells it, through the functions below, of every
 * order as it is made, where the clock has long passed the earlier work too. What they do is
 * nothing while the plan has it off. Caller locks, but for the start.
 */
#ifndef CM_SIM_CHECKER_H
#define CM_SIM_CHECKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "memory.h"

struct sim_stream;
struct sim_vector;
struct sim_work;

/* Whether it is on; set by sim_checker_start() alone. */
extern bool sim_checking;

/* Takes from the plan whether it is on. Any time; with the lock free the first time. */
void sim_checker_start(void);

/* Order. */

/* New work comes after all that its thread knows to be done. */
void sim_checker_created(struct sim_work *work);
void sim_checker_after(struct sim_work *work, const struct sim_work *earlier);
/*
 * The work touches what its operation says, all orders of it being made. `line` is that of the
 * stream or the branch of a graph, which follows one after the other; it may be SIM_NO_LINE, and is
 * made then.
 */
void sim_checker_submitted(struct sim_work *work, const struct sim_stream *stream, uint32_t *line,
			   bool by_graph);
/* The calling thread knows that the work is done. */
void sim_checker_learnt(const struct sim_work *work);
/* The calling thread ended a context: that is known to allocators as well, which lose the events by
 * which they would have been told. */
void sim_checker_ended(struct sim_vector *works);

/* Owners. */

void sim_checker_allocated(const struct sim_mem *mem);
void sim_checker_freed(const struct sim_mem *mem);
/* Between these, what happens happens after all that and by no thread: an operation takes
 * effect. */
void sim_checker_acts(struct sim_vector *works);
void sim_checker_acted(void);

/* For line.h: whether every thread knows that much of the line, and telling them so. */
bool sim_checker_everybody_knows(uint32_t line, uint32_t tick);
void sim_checker_tell_everybody(uint32_t line, uint32_t tick);

#endif
