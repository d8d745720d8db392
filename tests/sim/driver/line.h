/* SPDX-License-Identifier: MIT */
/*
 * Lines: sequences of work in which each piece follows the one before whatever happens, such as a
 * stream or a branch of a graph. A vector has one entry for each, so they are kept few: a line that
 * goes on no more is given out again as soon as every thread of the host knows that its work is
 * done, for then all that is submitted from there on comes after it anyway. Caller locks.
 */
#ifndef CM_SIM_LINE_H
#define CM_SIM_LINE_H

#include <stdint.h>

#include "vector.h"

/* No line; what a zeroed struct holds. */
#define SIM_NO_LINE 0

/* Never SIM_NO_LINE. */
uint32_t sim_line_take(void);
/* Nothing more follows in the line; SIM_NO_LINE: nothing to do. Sets it to SIM_NO_LINE. */
void sim_line_leave(uint32_t *line);
/* The number of the line's next piece of work, from 1. */
uint32_t sim_line_next(uint32_t line);

/* Lines there are, and how often one had to be given out again too early. */
uint32_t sim_lines(void);
uint64_t sim_lines_forgotten(void);

#endif
