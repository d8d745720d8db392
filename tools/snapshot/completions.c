/* SPDX-License-Identifier: MIT */
#include "tools/snapshot/completions.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NONE       UINT32_MAX
#define DIGIT_BITS 11
#define DIGITS     (1u << DIGIT_BITS)

/* A free in its heap's queue. */
struct queued {
	uint32_t event;   /* NONE: the place before a heap's first */
	uint32_t waiting; /* its own place; once it is completed, an older one on the way to the
			   * youngest older one that is not */
};

struct deriving {
	const struct cm_event *from;
	const uint64_t *number;
	size_t events;
	struct cm_event *to;
	size_t count;
	uint32_t heaps;
	uint32_t *earlier;    /* by event of a block: the one before at its address, or NONE */
	uint32_t *place;      /* by free: where it is queued */
	struct queued *queue; /* those of the heaps one after the other, each by number */
	uint32_t *begin;      /* by heap: of its queue */
	uint32_t *end;
};

static uint32_t digit_of(const struct cm_event *event, unsigned shift)
{
	return (uint32_t)(event->addr >> shift) & (DIGITS - 1);
}

/* Copies an order such that it is by one digit of the addresses, and as before within it. */
static void order_by_digit(const struct cm_event *event, unsigned shift, const uint32_t *from,
			   size_t count, uint32_t *to)
{
	uint32_t place[DIGITS + 1] = {0};
	size_t i;

	for (i = 0; i < count; i++)
		place[digit_of(&event[from[i]], shift) + 1]++;
	for (i = 1; i < DIGITS; i++)
		place[i] += place[i - 1];
	for (i = 0; i < count; i++)
		to[place[digit_of(&event[from[i]], shift)]++] = from[i];
}

size_t cm_events_order_by_address(const struct cm_event *event, size_t events, uint32_t *order,
				  uint32_t *scratch)
{
	uint64_t differ = 0;
	size_t i, n = 0;
	unsigned shift;

	for (i = 0; i < events; i++) {
		if (!cm_event_is_of_block(&event[i]))
			continue;
		order[n++] = (uint32_t)i;
		differ |= event[i].addr ^ event[order[0]].addr;
	}
	/* From the lowest digit to the highest. Addresses differ in few bits, so that this takes
	 * less time than comparisons. */
	shift = differ ? (unsigned)__builtin_ctzll(differ) : 64;
	for (; shift < 64 && differ >> shift; shift += DIGIT_BITS) {
		order_by_digit(event, shift, order, n, scratch);
		memcpy(order, scratch, n * sizeof(*order));
	}
	return n;
}

static void find_earlier(struct deriving *deriving)
{
	const struct cm_event *event = deriving->from;
	uint32_t *order = deriving->place; /* neither is in use yet */
	const size_t n = cm_events_order_by_address(event, deriving->events, order,
						    deriving->earlier);
	size_t i;

	for (i = 0; i < n; i++)
		deriving->earlier[order[i]] = i && event[order[i - 1]].addr == event[order[i]].addr
						      ? order[i - 1]
						      : NONE;
}

/* Lays out the queues: a place before the first free, and one for each. */
static void lay_out_queues(struct deriving *deriving)
{
	uint32_t heap, at = 0;
	size_t i;

	for (i = 0; i < deriving->events; i++)
		deriving->end[deriving->from[i].heap] += deriving->from[i].action ==
							 CM_ACTION_FREE_REQUESTED;
	for (heap = 0; heap < deriving->heaps; heap++) {
		const uint32_t frees = deriving->end[heap];

		deriving->queue[at] = (struct queued){NONE, at};
		deriving->begin[heap] = at;
		deriving->end[heap] = at + 1;
		at += 1 + frees;
	}
}

static void enqueue(struct deriving *deriving, uint32_t event)
{
	const uint32_t at = deriving->end[deriving->from[event].heap]++;

	deriving->queue[at] = (struct queued){event, at};
	deriving->place[event] = at;
}

/* The youngest at or before a place that waits, or the place before the first. */
static uint32_t find_waiting(struct queued *queue, uint32_t at)
{
	while (queue[at].waiting != at) {
		queue[at].waiting = queue[queue[at].waiting].waiting;
		at = queue[at].waiting;
	}
	return at;
}

/* Adds the completion of a free, at the time of another event. */
static void put_completion(struct deriving *deriving, uint32_t freed, const struct cm_event *by)
{
	struct cm_event *event = &deriving->to[deriving->count++];

	*event = deriving->from[freed];
	event->action = CM_ACTION_FREE_COMPLETED;
	event->number = by->number;
	event->tick = by->tick;
	event->thread = by->thread;
	event->annotation = by->annotation;
}

/* The last place of a heap with a number up to `number`. */
static uint32_t last_up_to(const struct deriving *deriving, uint16_t heap, uint64_t number)
{
	uint32_t low = deriving->begin[heap], high = deriving->end[heap] - 1, middle;

	while (low < high) {
		middle = high - (high - low) / 2;
		if (deriving->number[deriving->queue[middle].event] <= number)
			low = middle;
		else
			high = middle - 1;
	}
	return low;
}

/* Completes the frees that one event stands for. */
static void complete_all(struct deriving *deriving, const struct cm_event *by)
{
	struct queued *queue = deriving->queue;
	uint32_t at = find_waiting(queue, last_up_to(deriving, by->heap, by->addr));

	while (queue[at].event != NONE && deriving->number[queue[at].event] > by->size) {
		put_completion(deriving, queue[at].event, by);
		queue[at].waiting = at - 1;
		at = find_waiting(queue, at);
	}
}

/* If a free of the event's address waits, it does so no more: this event completes it, or what did
 * is not in the ring. */
static void end_earlier(struct deriving *deriving, uint32_t number)
{
	const uint32_t freed = deriving->earlier[number];
	const struct cm_event *event = &deriving->from[number];
	uint32_t at;

	if (freed == NONE || deriving->from[freed].action != CM_ACTION_FREE_REQUESTED)
		return;
	at = deriving->place[freed];
	if (deriving->queue[at].waiting != at)
		return;
	if (event->action != CM_ACTION_FREE_COMPLETED)
		put_completion(deriving, freed, event);
	deriving->queue[at].waiting = at - 1;
}

static void derive(struct deriving *deriving)
{
	const struct cm_event *event;
	uint32_t i;

	for (i = 0; i < deriving->events; i++) {
		event = &deriving->from[i];
		if (event->action == CM_ACTION_FREES_COMPLETED) {
			complete_all(deriving, event);
			continue;
		}
		if (cm_event_is_of_block(event))
			end_earlier(deriving, i);
		deriving->to[deriving->count++] = *event;
		if (event->action == CM_ACTION_FREE_REQUESTED)
			enqueue(deriving, i);
	}
}

/* How many heaps the events may be of; 0: no event is to be replaced. */
static uint32_t count_heaps(const struct cm_event *event, size_t events)
{
	uint32_t heaps = 0;
	bool any = false;
	size_t i;

	for (i = 0; i < events; i++) {
		any |= event[i].action == CM_ACTION_FREES_COMPLETED;
		if (event[i].heap >= heaps)
			heaps = event[i].heap + 1u;
	}
	return any ? heaps : 0;
}

int cm_completions_derive(struct cm_event *event, const uint64_t *number, size_t *events)
{
	const size_t n = *events;
	const uint32_t heaps = count_heaps(event, n);
	struct deriving deriving = {.number = number, .events = n, .to = event, .heaps = heaps};
	struct cm_event *from;
	uint32_t *numbers;
	int err = -ENOMEM;

	if (!heaps)
		return 0;
	from = malloc(n * sizeof(*from));
	numbers = calloc(2 * (n + heaps), sizeof(*numbers));
	deriving.queue = calloc(n + heaps, sizeof(*deriving.queue));
	if (from && numbers && deriving.queue) {
		memcpy(from, event, n * sizeof(*from));
		deriving.from = from;
		deriving.begin = numbers;
		deriving.end = numbers + heaps;
		deriving.earlier = deriving.end + heaps;
		deriving.place = deriving.earlier + n;
		find_earlier(&deriving);
		lay_out_queues(&deriving);
		derive(&deriving);
		*events = deriving.count;
		err = 0;
	}
	free(deriving.queue);
	free(numbers);
	free(from);
	return err;
}
