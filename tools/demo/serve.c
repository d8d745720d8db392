/* SPDX-License-Identifier: MIT */
/*
 * How a made-up process answers the commands of tools.
 */
#include <errno.h>

#include "stats/command_channel.h"
#include "stats/counters.h"
#include "tools/demo/heap.h"

static void record(struct cm_demo_heap *heap, struct cm_command *command)
{
	struct cm_record *record = &heap->region->header->record;

	if (command->arg[0] & CM_RECORD_SET_EVENTS)
		record->events = cm_record_packed_events(command->arg[1]) != 0;
	if (command->arg[0] & CM_RECORD_SET_CONTEXT)
		record->context = cm_record_packed_context(command->arg[1]) % CM_CONTEXT_COUNT;
	if (command->arg[0] & CM_RECORD_SET_STACKS)
		record->stacks = cm_record_packed_stacks(command->arg[1]) % CM_STACKS_COUNT;
	if (command->arg[0] & CM_RECORD_SET_MAX_ENTRIES)
		record->max_entries = command->arg[2];
	if (command->arg[0] & CM_RECORD_CLEAR)
		heap->row->event_cleared = heap->row->event_next;
	command->result[0] = cm_record_pack(record->events, record->context, record->stacks);
	command->result[1] = record->max_entries;
}

/* Nothing changes while a command is answered: the process has one thread. */
static void hold(struct cm_demo_heap *heap, struct cm_command *command)
{
	const uint64_t most_ns = command->arg[0] < CM_HOLD_NS_MAX ? command->arg[0]
								  : CM_HOLD_NS_MAX;

	if (most_ns &&
	    !cm_channel_hold(&heap->region->header->channel, most_ns, &command->result[0]))
		command->status = -ETIME;
}

static void obey(struct cm_demo_heap *heap, struct cm_command *command)
{
	switch (command->code) {
	case CM_COMMAND_EMPTY_CACHE:
		cm_demo_heap_poll(heap);
		command->result[0] = (uint64_t)cm_demo_heap_trim(heap);
		break;
	case CM_COMMAND_RESET_PEAK:
	case CM_COMMAND_RESET_ACCUMULATED:
		cm_counters_begin(heap->row);
		if (command->code == CM_COMMAND_RESET_PEAK)
			cm_counters_reset_peak(heap->row);
		else
			cm_counters_reset_accumulated(heap->row);
		cm_counters_end(heap->row);
		break;
	case CM_COMMAND_RECORD:
		record(heap, command);
		break;
	case CM_COMMAND_CHECKPOINT:
		cm_demo_heap_poll(heap);
		break;
	case CM_COMMAND_SNAPSHOT:
		hold(heap, command);
		break;
	default:
		command->status = -EOPNOTSUPP;
		break;
	}
}

void cm_demo_heap_serve(struct cm_demo_heap *heap, int timeout_ms)
{
	struct cm_channel *channel = &heap->region->header->channel;
	struct cm_command command;

	if (!cm_channel_take(channel, &command)) {
		cm_channel_wait(channel, timeout_ms);
		if (!cm_channel_take(channel, &command))
			return;
	}
	obey(heap, &command);
	(void)cm_channel_answer(channel, &command);
}
