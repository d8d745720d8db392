/* SPDX-License-Identifier: MIT */
/* The functions of cudamem.h as a program has them that finds the library at run time. */
#ifndef CM_TESTS_PRELOAD_API_H
#define CM_TESTS_PRELOAD_API_H

#include "interpose/cudamem.h"

/* clang-format off */
#define CM_API_FUNCTIONS(EACH) \
	EACH(empty_cache) \
	EACH(memory_stats) \
	EACH(memory_stats_json) \
	EACH(host_memory_stats) \
	EACH(host_memory_stats_json) \
	EACH(memory_allocated) \
	EACH(max_memory_allocated) \
	EACH(memory_reserved) \
	EACH(max_memory_reserved) \
	EACH(reset_accumulated_memory_stats) \
	EACH(reset_peak_memory_stats) \
	EACH(reset_accumulated_host_memory_stats) \
	EACH(reset_peak_host_memory_stats) \
	EACH(get_memory_info) \
	EACH(record_memory_history) \
	EACH(dump_snapshot) \
	EACH(annotation_push) \
	EACH(annotation_pop)
/* clang-format on */

struct cm_api {
#define FUNCTION(name) __typeof__(cudamem_##name) *name;
	CM_API_FUNCTIONS(FUNCTION)
#undef FUNCTION
};

/* Ends the role where one is missing. */
void cm_api_open(struct cm_api *api);

#endif
