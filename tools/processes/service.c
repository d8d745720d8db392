/* SPDX-License-Identifier: MIT */
#include "tools/processes/service.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/width.h"
#include "tools/output/size.h"
#include "tools/snapshot/lines.h"

#define CONTEXT_EVENTS 12050 /* the first driver with events of a context */
#define OPTIONS_MAX    64

/* What the region says of a device. */
struct facts {
	const uint64_t *cause;
	uint64_t driver_version;
	uint32_t shards;
	uint32_t contexts;
	uint32_t draining;
	bool shared;
	bool named;
	char mode[sizeof(((struct cm_option_row *)0)->value)];
	char reuse[sizeof(((struct cm_option_row *)0)->value)];
	char sync[sizeof(((struct cm_option_row *)0)->value)];
	char placement[sizeof(((struct cm_option_row *)0)->value)];
	char pages[sizeof(((struct cm_option_row *)0)->value)];
};

static void read_options(struct cm_reader *reader, struct facts *facts)
{
	const struct {
		const char *name;
		char *value;
	} wanted[] = {{"mode", facts->mode},
		      {"reuse", facts->reuse},
		      {"sync", facts->sync},
		      {"placement", facts->placement},
		      {"expandable_segments", facts->pages}};
	struct cm_option_row row;
	uint32_t i;
	size_t j;

	for (i = 0; i < OPTIONS_MAX && !cm_reader_read_option(reader, i, &row); i++)
		for (j = 0; j < sizeof(wanted) / sizeof(wanted[0]); j++)
			if (!strcmp(row.name, wanted[j].name))
				memcpy(wanted[j].value, row.value, sizeof(row.value));
}

/* Each context has a heap in the first shard; those of later ones are further heaps of it. */
static void read_contexts(struct cm_reader *reader, uint32_t device, struct facts *facts)
{
	const uint32_t rows = reader->header.table[CM_TABLE_HEAP].rows;
	struct cm_shard_map map;
	struct cm_heap_row row;
	uint32_t i;

	if (cm_reader_read_shards(reader, &map))
		return;
	for (i = 0; i < CM_DEVICES_MAX; i++)
		facts->shards += cm_shard_map_device(&map, i) == device;
	for (i = 0; i < rows; i++) {
		if (cm_reader_read(reader, CM_TABLE_HEAP, i, 1, &row, sizeof(row)))
			return;
		if (!(row.flags & CM_HEAP_USED) || cm_shard_map_device(&map, row.device) != device)
			continue;
		facts->shared |= (row.flags & CM_HEAP_SHARED) != 0;
		facts->named |= (row.flags & CM_HEAP_NAMED) != 0;
		if (row.device != device)
			continue;
		facts->contexts++;
		facts->draining += (row.flags & CM_HEAP_DRAINING) != 0;
	}
}

static void __attribute__((format(printf, 3, 4)))
add(struct cm_service *service, enum cm_cause cause, const char *format, ...)
{
	struct cm_service_reason *reason = &service->reason[service->reasons];
	va_list args;

	if (service->reasons == CM_SERVICE_REASONS)
		return;
	service->reasons++;
	reason->cause = cause;
	va_start(args, format);
	(void)vsnprintf(reason->text, sizeof(reason->text), format, args);
	va_end(args);
}

/* Whether nothing is cached. */
static bool is_forwarded(const struct facts *facts, struct cm_service *service)
{
	service->reuse = "driver";
	if (*facts->mode && strcmp(facts->mode, "cache") != 0) {
		if (facts->cause[CM_CAUSE_MODE])
			add(service, CM_CAUSE_MODE, "a tool is injected into CUDA");
		else
			add(service, CM_CAUSE_COUNT, "mode:%s", facts->mode);
		return true;
	}
	if (facts->cause[CM_CAUSE_STOPPED]) {
		add(service, CM_CAUSE_STOPPED, "caching has stopped");
		return true;
	}
	if (facts->cause[CM_CAUSE_CAPTURE]) {
		add(service, CM_CAUSE_CAPTURE, "a stream is being captured");
		return true;
	}
	if (facts->contexts && facts->draining == facts->contexts) {
		add(service, CM_CAUSE_COUNT, "the context has failed");
		return true;
	}
	return false;
}

static bool is_waited_for(const struct facts *facts, struct cm_service *service)
{
	const unsigned version = (unsigned)facts->driver_version;

	service->reuse = "waiting";
	if (!strcmp(facts->sync, "free"))
		add(service, CM_CAUSE_COUNT, "sync:free, in each free");
	else if (!strcmp(facts->reuse, "wait"))
		add(service, CM_CAUSE_COUNT, "reuse:wait");
	else if (version && version < CONTEXT_EVENTS)
		add(service, CM_CAUSE_COUNT, "the driver is of CUDA %u.%u, before 12.5",
		    version / 1000, version % 1000 / 10);
	else
		return false;
	return true;
}

static bool is_asked_for(const struct facts *facts, struct cm_service *service)
{
	const size_t before = service->reasons;

	service->reuse = "event";
	if (!strcmp(facts->reuse, "grow"))
		add(service, CM_CAUSE_COUNT, "reuse:grow");
	if (facts->contexts > 1)
		add(service, CM_CAUSE_COUNT, "%u contexts have memory on the device",
		    facts->contexts);
	if (facts->shared && facts->cause[CM_CAUSE_REACHED])
		add(service, CM_CAUSE_REACHED, "other devices may access any memory");
	if (facts->shared && facts->cause[CM_CAUSE_PEERS])
		add(service, CM_CAUSE_PEERS, "peer access was given");
	if (facts->shared && service->reasons == before)
		add(service, CM_CAUSE_COUNT, "others can access the memory");
	if (facts->named)
		add(service, CM_CAUSE_COUNT, "work of another device names its memory");
	return service->reasons > before;
}

static void find_placement(const struct facts *facts, struct cm_service *service)
{
	if (strcmp(facts->placement, "exact") != 0) {
		service->placement = strcmp(facts->pages, "on") != 0 ? "pieces" : "pages";
		return;
	}
	service->placement = "exact";
	if (facts->cause[CM_CAUSE_EXACT])
		add(service, CM_CAUSE_EXACT, "memory may be shared with other processes");
	else
		add(service, CM_CAUSE_COUNT, "placement:exact");
}

void cm_service_find(const struct cm_process *process, uint32_t device, uint64_t named_bytes,
		     struct cm_service *ret_service)
{
	const struct cm_header *header = &process->reader->header;
	struct facts facts = {.cause = header->record.cause,
			      .driver_version = header->driver_version};

	*ret_service = (struct cm_service){.placement = NULL};
	read_options(process->reader, &facts);
	read_contexts(process->reader, device, &facts);
	ret_service->shards = facts.shards;
	if (is_forwarded(&facts, ret_service))
		return;
	if (!is_waited_for(&facts, ret_service) && !is_asked_for(&facts, ret_service)) {
		ret_service->reuse = "barrier";
		if (named_bytes)
			add(ret_service, CM_CAUSE_NAMED,
			    "%s by event: named to network cards or disks",
			    cm_size_format((int64_t)named_bytes).text);
	}
	find_placement(&facts, ret_service);
}

static const char *by_of(const struct cm_service_reason *reason, const struct cm_causes *causes)
{
	return reason->cause < CM_CAUSE_COUNT ? causes->by[reason->cause] : "";
}

static const struct cm_snap_stack *stack_of(const struct cm_service_reason *reason,
					    const struct cm_causes *causes)
{
	const struct cm_snap_stack *stack = reason->cause < CM_CAUSE_COUNT
						    ? cm_causes_stack(causes, reason->cause)
						    : NULL;

	return stack && stack->count ? stack : NULL;
}

static void print_stack(const struct cm_causes *causes, const struct cm_snap_stack *stack)
{
	const struct cm_view view = {.by = CM_BY_CALLER, .depth = CM_VIEW_DEPTH};
	char *line = cm_stack_spell(causes->snapshot, stack, &view);
	const int used = printf("    at ");

	cm_line_print(stdout, used > 0 ? (size_t)used : 0, line ? line : "?", false);
	free(line);
}

void cm_service_print(const struct cm_service *service, const struct cm_causes *causes)
{
	const struct cm_snap_stack *stack;
	char shards[24] = "";
	const char *by;
	size_t i;

	if (service->shards > 1)
		(void)snprintf(shards, sizeof(shards), ", %u shards", (unsigned)service->shards);
	cm_line(stdout, "         ", "service: reuse by %s%s%s%s%s",
		!strcmp(service->reuse, "driver") ? "the " : "", service->reuse,
		service->placement ? ", placement " : "",
		service->placement ? service->placement : "", shards);
	for (i = 0; i < service->reasons; i++) {
		by = by_of(&service->reason[i], causes);
		cm_line(stdout, "    ", "  %s%s%s", service->reason[i].text, *by ? ": " : "", by);
		stack = stack_of(&service->reason[i], causes);
		if (stack)
			print_stack(causes, stack);
	}
}

void cm_service_json(struct cm_json *json, const struct cm_service *service,
		     const struct cm_causes *causes)
{
	const struct cm_service_reason *reason;
	const char *by;
	size_t i;

	cm_json_text(json, "reuse", service->reuse);
	if (service->placement)
		cm_json_text(json, "placement", service->placement);
	else
		cm_json_null(json, "placement");
	cm_json_unsigned(json, "shards", service->shards);
	cm_json_array(json, "reasons");
	for (i = 0; i < service->reasons; i++) {
		reason = &service->reason[i];
		by = by_of(reason, causes);
		cm_json_object(json, NULL);
		cm_json_text(json, "reason", reason->text);
		if (*by)
			cm_json_text(json, "by", by);
		else
			cm_json_null(json, "by");
		cm_stack_json(json, causes->snapshot, stack_of(reason, causes));
		cm_json_end(json);
	}
	cm_json_end(json);
}
