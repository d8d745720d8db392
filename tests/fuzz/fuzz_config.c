/* SPDX-License-Identifier: MIT */
/*
 * Any text as CUDAMEM_CONF: every value stays in its range, every message is fit for a terminal,
 * and what is printed of the result reads back as the same.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stats/config.h"
#include "stats/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define MUST(condition) ((condition) ? (void)0 : abort())

static void check_message(void *arg, const char *text)
{
	unsigned *told = arg;
	char clean[1024];

	++*told;
	MUST(cm_text_clean(clean, sizeof(clean), text) == strlen(text) && !strcmp(clean, text));
}

static void check_ranges(const struct cm_config *config)
{
	int i;

	MUST(config->mode <= CM_MODE_OFF && config->reuse <= CM_REUSE_WAIT);
	MUST(config->sync <= CM_SYNC_EPOCH && config->placement <= CM_PLACEMENT_SPLIT);
	MUST(config->log <= CM_LOG_INFO);
	MUST(config->large_segment_size_mb > 10);
	MUST(config->max_split_size_mb >= config->large_segment_size_mb);
	MUST(config->max_non_split_rounding_mb >= config->large_segment_size_mb);
	MUST(config->garbage_collection_threshold >= 0 && config->garbage_collection_threshold < 1);
	MUST(config->per_process_memory_fraction >= 0 && config->per_process_memory_fraction <= 1);
	MUST((double)config->events <= CM_EVENTS_MAX);
	MUST(config->region_dir[0] == '/');
	MUST(memchr(config->region_dir, 0, sizeof(config->region_dir)));
	for (i = 0; i < CM_DIVISION_SLOTS; i++)
		MUST(!(config->roundup_power2_divisions[i] &
		       (config->roundup_power2_divisions[i] - 1)));
}

/* A list of many slots does not fit into a row; what was cut cannot be read back. */
static void check_rows(const struct cm_config *config)
{
	struct cm_option_row row, again;
	char text[4096] = "";
	struct cm_config copy;
	unsigned told = 0;
	uint32_t i;

	for (i = 0; i < CM_OPTION_COUNT; i++) {
		cm_config_row(config, i, &row);
		MUST(strlen(row.value) > 0);
		if (strlen(row.value) + 1 < sizeof(row.value))
			(void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s:%s,",
				       row.name, row.value);
	}
	cm_config_init(&copy);
	cm_config_parse(&copy, CM_CONF_VARIABLE, text, check_message, &told);
	MUST(copy.errors == 0);
	for (i = 0; i < CM_OPTION_COUNT; i++) {
		cm_config_row(config, i, &row);
		cm_config_row(&copy, i, &again);
		MUST(strlen(row.value) + 1 >= sizeof(row.value) || !strcmp(row.value, again.value));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct cm_config config;
	unsigned told = 0;
	char *text;

	text = malloc(bytes + 1); /* its exact size, so that a sanitizer sees a byte too far */
	MUST(text);
	memcpy(text, data, bytes);
	text[bytes] = '\0';
	cm_config_init(&config);
	cm_config_parse(&config, CM_CONF_VARIABLE, text, check_message, &told);
	free(text);
	MUST(told <= config.errors);
	check_ranges(&config);
	check_rows(&config);
	return 0;
}
