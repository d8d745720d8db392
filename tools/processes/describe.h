/* SPDX-License-Identifier: MIT */
/*
 * A process, its devices and its pinned memory as JSON: the same objects in every verb.
 */
#ifndef CM_TOOLS_PROCESSES_DESCRIBE_H
#define CM_TOOLS_PROCESSES_DESCRIBE_H

#include "stats/summary.h"
#include "tools/output/json.h"
#include "tools/processes/collect.h"

/* Opens a document: {"schema":"cudamemstat/NAME/1","time":...,"host":... and leaves it open. */
void cm_json_open_document(struct cm_json *json, const char *name);

/* The members that say who the process is, into the open object. */
void cm_json_identity(struct cm_json *json, const struct cm_process *process);

/* An array "devices" with everything that is known of each; how many. `survey` may be NULL. */
size_t cm_json_devices(struct cm_json *json, const struct cm_options *options,
		       const struct cm_process *process, const struct cm_survey *survey);

/* An object "host_memory" for pinned host memory; null where it can't be read. */
void cm_json_host(struct cm_json *json, const struct cm_process *process);

#endif
