/* SPDX-License-Identifier: MIT */
/*
 * Which service a process gets on a device (docs/service.md), and what took another one away. It
 * follows from the region: options, driver, contexts, and the causes that the library has left.
 * That work of another device names the memory is as of the last request that was not a hit.
 */
#ifndef CM_TOOLS_PROCESSES_SERVICE_H
#define CM_TOOLS_PROCESSES_SERVICE_H

#include <stddef.h>
#include <stdint.h>

#include "tools/output/json.h"
#include "tools/processes/collect.h"
#include "tools/snapshot/causes.h"

#define CM_SERVICE_REASONS 6

struct cm_service_reason {
	char text[128];
	enum cm_cause cause; /* CM_CAUSE_COUNT: no call took it away */
};

struct cm_service {
	const char *reuse;     /* "barrier", "event", "waiting", "driver" */
	const char *placement; /* "pieces", "pages", "exact"; NULL: nothing is cached */
	struct cm_service_reason reason[CM_SERVICE_REASONS];
	size_t reasons;
	uint32_t shards; /* of the device */
};

/* Of a device, by the row of its first shard; `named_bytes` as in struct cm_survey. */
void cm_service_find(const struct cm_process *process, uint32_t device, uint64_t named_bytes,
		     struct cm_service *ret_service);

/* Prints it in a line, and each reason with the stack of its call. */
void cm_service_print(const struct cm_service *service, const struct cm_causes *causes);

/* Adds the members to the open object. */
void cm_service_json(struct cm_json *json, const struct cm_service *service,
		     const struct cm_causes *causes);

#endif
