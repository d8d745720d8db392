/* SPDX-License-Identifier: MIT */
#include "timeline.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "work.h"

/* A binary heap. */
static struct sim_work **heap;
static size_t count;
static size_t room;

static bool ends_before(const struct sim_work *work, const struct sim_work *other)
{
	if (work->end_ns != other->end_ns)
		return work->end_ns < other->end_ns;
	return work->sequence < other->sequence;
}

static void swap(size_t i, size_t j)
{
	struct sim_work *work = heap[i];

	heap[i] = heap[j];
	heap[j] = work;
}

static void lift(size_t place)
{
	while (place && ends_before(heap[place], heap[(place - 1) / 2])) {
		swap(place, (place - 1) / 2);
		place = (place - 1) / 2;
	}
}

static void sink(size_t place)
{
	for (;;) {
		size_t least = place;

		for (size_t child = 2 * place + 1; child <= 2 * place + 2; child++) {
			if (child < count && ends_before(heap[child], heap[least]))
				least = child;
		}
		if (least == place)
			return;
		swap(place, least);
		place = least;
	}
}

int sim_timeline_add(struct sim_work *work)
{
	if (count == room) {
		size_t more = room ? 2 * room : 256;
		struct sim_work **grown = realloc(heap, more * sizeof(heap[0]));

		if (!grown)
			return -ENOMEM;
		heap = grown;
		room = more;
	}
	heap[count] = work;
	lift(count++);
	return 0;
}

struct sim_work *sim_timeline_first(void)
{
	return count ? heap[0] : NULL;
}

static void remove_at(size_t place)
{
	heap[place] = heap[--count];
	if (place < count) {
		lift(place);
		sink(place);
	}
}

void sim_timeline_remove_first(void)
{
	if (count)
		remove_at(0);
}

void sim_timeline_remove(const struct sim_work *work)
{
	for (size_t i = 0; i < count; i++) {
		if (heap[i] == work) {
			remove_at(i);
			return;
		}
	}
}
