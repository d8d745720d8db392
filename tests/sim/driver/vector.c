/* SPDX-License-Identifier: MIT */
#include "vector.h"

#include <stdlib.h>
#include <string.h>

/* Room is given out in steps of so many lines, so that a vector that grows rarely moves. */
enum { STEP = 16 };

static struct sim_vector *create(uint32_t count)
{
	uint32_t room = (count + STEP - 1) / STEP * STEP;
	struct sim_vector *vector = calloc(1, sizeof(*vector) + room * sizeof(vector->at[0]));

	if (!vector)
		abort();
	vector->refs = 1;
	vector->count = room;
	return vector;
}

void sim_vector_unref(struct sim_vector *vector)
{
	if (vector && --vector->refs == 0)
		free(vector);
}

void sim_vector_store(struct sim_vector **slot, struct sim_vector *vector)
{
	struct sim_vector *old = *slot;

	*slot = sim_vector_ref(vector);
	sim_vector_unref(old);
}

/* One of at least `count` lines that is nobody else's. */
static struct sim_vector *make_own(struct sim_vector **slot, uint32_t count)
{
	struct sim_vector *old = *slot;
	struct sim_vector *own;

	if (old && old->refs == 1 && old->count >= count)
		return old;
	own = create(old && old->count > count ? old->count : count);
	if (old)
		memcpy(own->at, old->at, old->count * sizeof(own->at[0]));
	sim_vector_unref(old);
	*slot = own;
	return own;
}

static bool covers(const struct sim_vector *vector, const struct sim_vector *other)
{
	for (uint32_t i = 0; i < other->count; i++) {
		if (other->at[i] > sim_vector_at(vector, i))
			return false;
	}
	return true;
}

void sim_vector_join(struct sim_vector **slot, struct sim_vector *other)
{
	struct sim_vector *own;

	if (!other || *slot == other || covers(*slot, other))
		return;
	if (!*slot || covers(other, *slot)) {
		sim_vector_store(slot, other);
		return;
	}
	own = make_own(slot, other->count);
	for (uint32_t i = 0; i < other->count; i++) {
		if (own->at[i] < other->at[i])
			own->at[i] = other->at[i];
	}
}

void sim_vector_set(struct sim_vector **slot, uint32_t line, uint32_t tick)
{
	struct sim_vector *own = make_own(slot, line + 1);

	if (own->at[line] < tick)
		own->at[line] = tick;
}

void sim_vector_meet(struct sim_vector **slot, struct sim_vector *other)
{
	struct sim_vector *own;

	if (!*slot || *slot == other)
		return;
	own = make_own(slot, 0);
	for (uint32_t i = 0; i < own->count; i++) {
		uint32_t tick = sim_vector_at(other, i);

		if (own->at[i] > tick)
			own->at[i] = tick;
	}
}
