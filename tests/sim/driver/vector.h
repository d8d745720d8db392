/* SPDX-License-Identifier: MIT */
/*
 * Vector clocks: how far along each line (line.h) something comes after. NULL is the one that comes
 * after nothing. Counted, and copied only when one that others hold too is changed. When memory is
 * out the process stops: an order that is lost would be a false accusation. Caller locks.
 */
#ifndef CM_SIM_VECTOR_H
#define CM_SIM_VECTOR_H

#include <stdbool.h>
#include <stdint.h>

struct sim_vector {
	unsigned refs;
	uint32_t count;
	uint32_t at[];
};

static inline struct sim_vector *sim_vector_ref(struct sim_vector *vector)
{
	if (vector)
		vector->refs++;
	return vector;
}

void sim_vector_unref(struct sim_vector *vector);

/* Puts a reference to `vector` where another one was. */
void sim_vector_store(struct sim_vector **slot, struct sim_vector *vector);

/* The slot's comes after all that `other` comes after, too. */
void sim_vector_join(struct sim_vector **slot, struct sim_vector *other);
/* Comes after that much of the line. */
void sim_vector_set(struct sim_vector **slot, uint32_t line, uint32_t tick);
/* Comes after what both did. */
void sim_vector_meet(struct sim_vector **slot, struct sim_vector *other);

static inline uint32_t sim_vector_at(const struct sim_vector *vector, uint32_t line)
{
	return vector && line < vector->count ? vector->at[line] : 0;
}

static inline bool sim_vector_has(const struct sim_vector *vector, uint32_t line, uint32_t tick)
{
	return sim_vector_at(vector, line) >= tick;
}

#endif
