/* SPDX-License-Identifier: MIT */
#include "tests/preload/record/history.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "stats/start_time.h"
#include "tests/unit/rerun.h"

struct cm_reader *history_open(const char *dir, unsigned pid)
{
	char path[4096], why[CM_READER_WHY_BYTES];
	struct cm_reader *reader = NULL;
	uint64_t start = 0;

	CM_MUST(!cm_process_start_time(pid, &start));
	(void)snprintf(path, sizeof(path), "%s/" CM_REGION_PREFIX "%u.%u.%llu", dir,
		       (unsigned)geteuid(), pid, (unsigned long long)start);
	CM_MUST(!cm_reader_open(path, &reader, why));
	return reader;
}

bool history_event(struct cm_reader *reader, enum cm_table table, uint64_t number,
		   struct cm_event *ret_event)
{
	const uint32_t ring = reader->header.table[table].ring;

	return number &&
	       !cm_reader_read(reader, table, (uint32_t)((number - 1) & (ring - 1)), 1, ret_event,
			       sizeof(*ret_event)) &&
	       ret_event->number == number;
}

static uint64_t count_events(struct cm_reader *reader, enum cm_table table)
{
	struct cm_device_row device;
	struct cm_host_row host;
	bool torn;

	if (table == CM_TABLE_HOST_EVENT) {
		do
			CM_MUST(!cm_reader_read_host(reader, &host, &torn));
		while (torn);
		return host.event_next;
	}
	do
		CM_MUST(!cm_reader_read_device(reader, 0, &device, &torn));
	while (torn);
	return device.event_next;
}

struct cm_event history_last(struct cm_reader *reader, enum cm_table table, enum cm_action action)
{
	struct cm_event event = {0};
	uint64_t number;

	CM_MUST(!cm_reader_refresh(reader));
	for (number = count_events(reader, table); history_event(reader, table, number, &event);
	     number--)
		if (event.action == action)
			return event;
	cm_rerun_fail(__FILE__, __LINE__, "no such event");
}

bool history_stack(struct cm_reader *reader, uint32_t id, struct history_stack *ret_stack)
{
	uint64_t word;

	if (!id)
		return false;
	CM_MUST(!cm_reader_refresh(reader));
	CM_MUST(!cm_reader_read(reader, CM_TABLE_STACK, id, 1, &word, sizeof(word)));
	ret_stack->count = cm_stack_frames(word);
	ret_stack->flags = cm_stack_flags(word);
	ret_stack->generation = cm_stack_generation(word);
	CM_MUST(ret_stack->count && ret_stack->count <= CM_STACK_FRAMES_MAX);
	CM_MUST(!cm_reader_read(reader, CM_TABLE_STACK, id + 1, ret_stack->count, ret_stack->frame,
				sizeof(word)));
	return true;
}

void history_text(struct cm_reader *reader, uint32_t id, char *text, size_t bytes)
{
	size_t n = 0;

	CM_MUST(!cm_reader_refresh(reader));
	while (id && n + 1 < bytes &&
	       !cm_reader_read(reader, CM_TABLE_TEXT, id + (uint32_t)n, 1, text + n, 1) && text[n])
		n++;
	text[n] = '\0';
}

bool history_module(struct cm_reader *reader, uint64_t addr, uint32_t generation,
		    struct cm_module *ret_module)
{
	uint32_t i;

	CM_MUST(!cm_reader_refresh(reader));
	for (i = 0; i < reader->header.table[CM_TABLE_MODULE].rows; i++) {
		CM_MUST(!cm_reader_read(reader, CM_TABLE_MODULE, i, 1, ret_module,
					sizeof(*ret_module)));
		if (addr >= ret_module->start && addr < ret_module->end &&
		    generation >= ret_module->first && generation <= ret_module->last)
			return true;
	}
	return false;
}
