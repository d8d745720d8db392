/* SPDX-License-Identifier: MIT */
/*
 * A process, its devices and its pinned memory as JSON: the same objects in all verbs.
 */
#ifndef CM_TOOLS_PROCESSES_DESCRIBE_H
#define CM_TOOLS_PROCESSES_DESCRIBE_H

#include "stats/summary.h"
#include "tools/output/json.h"
#include "tools/processes/collect.h"

/* Begins a document: {"schema":"cudamemstat/NAME/1","time":...,"host":...; the object stays
 * open. */
void cm_json_open_document(struct cm_json *json, const char *name);

/* With --json, begins a document with one array in `json`, which it returns; else returns NULL. */
struct cm_json *cm_json_open_array(const struct cm_options *options, struct cm_json *json,
				   const char *name, const char *array);
/* Ends that document; NULL is ignored. */
void cm_json_close_array(struct cm_json *json);

/* Adds the members that identify the process to the open object. */
void cm_json_identity(struct cm_json *json, const struct cm_process *process);

/* Adds the members that identify the device to the open object. */
void cm_json_device(struct cm_json *json, const struct cm_device_row *row);

/* Adds an array "devices" with all that is known of each; returns their number. `survey` may be
 * NULL. */
size_t cm_json_devices(struct cm_json *json, const struct cm_options *options,
		       const struct cm_process *process, const struct cm_survey *survey);

/* Adds an object "host_memory" for pinned host memory; null if it cannot be read. */
void cm_json_host(struct cm_json *json, const struct cm_process *process);

#endif
