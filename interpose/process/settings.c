/* SPDX-License-Identifier: MIT */
#include "interpose/process/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "allocator/state/limit.h"
#include "interpose/core/log.h"
#include "interpose/process/sharing_probe.h"
#include "interpose/stacks/record.h"
#include "stats/tick.h"

#define CONFIG_ERRORS_LOGGED 8 /* errors of the configuration; a long one must not flood the log */
#define MIB_SHIFT            20

static void log_config_error(void *arg, const char *text)
{
	unsigned *count = arg;

	if (++*count <= CONFIG_ERRORS_LOGGED)
		cm_log(CM_LOG_WARNING, "%s", text);
}

/* Errors are logged as warnings until the configured level is known. */
void cm_settings_read(struct cm_config *config)
{
	unsigned count = 0;

	cm_log_set_level(CM_LOG_WARNING);
	cm_config_read(config, secure_getenv, environ, log_config_error, &count);
	if (count > CONFIG_ERRORS_LOGGED)
		cm_log(CM_LOG_WARNING, "and %u more; 'cudamemstat conf' lists them",
		       count - CONFIG_ERRORS_LOGGED);
	cm_log_set_level((enum cm_log_level)config->log);
}

/* Whether to assume accesses by devices other than the GPU; an explicit `reuse` overrides it. */
static bool has_other_devices(const struct cm_config *config,
			      const struct cm_probe_environment *found)
{
	return found->reaches && config->origin[CM_OPTION_reuse] == CM_ORIGIN_DEFAULT;
}

/* Chooses what the configuration leaves open to fit the process. */
static void adapt_to_process(struct cm_config *config, const struct cm_probe_environment *found)
{
	const char *variable;

	if (config->origin[CM_OPTION_mode] == CM_ORIGIN_DEFAULT) {
		variable = cm_probe_injection(secure_getenv);
		if (variable) {
			config->mode = CM_MODE_STATS;
			config->origin[CM_OPTION_mode] = CM_ORIGIN_LIBRARY;
			cm_record_cause(CM_CAUSE_MODE, variable, false);
			cm_log(CM_LOG_INFO, "%s is set: memory is not cached (mode:stats)",
			       variable);
		}
	}
	if (config->placement == CM_PLACEMENT_AUTO) {
		config->placement = found->exports ? CM_PLACEMENT_EXACT : CM_PLACEMENT_SPLIT;
		config->origin[CM_OPTION_placement] = CM_ORIGIN_LIBRARY;
		if (found->exports) {
			cm_record_cause(CM_CAUSE_EXACT, found->exports, false);
			cm_log(CM_LOG_INFO,
			       "%s may share memory with other processes (placement:exact)",
			       found->exports);
		}
	}
	if (has_other_devices(config, found)) {
		cm_record_cause(CM_CAUSE_REACHED, found->reaches, false);
		cm_log(CM_LOG_INFO,
		       "%s: other devices may access memory; freed memory is reused only when the "
		       "GPU has finished with it",
		       found->reaches);
	}
}

uint64_t cm_settings_bytes(uint64_t mib)
{
	return mib == CM_UNLIMITED ? UINT64_MAX : mib << MIB_SHIFT;
}

/* No more than threads can run at the same moment, but to try them out. The processors of the
 * machine count, as the calling thread may be bound to one of them. */
static uint32_t count_shards(enum cm_shards shards)
{
	/* Not sysconf(): Debian takes who calls that for one that needs GLIBC 2.34. */
	const long processors = get_nprocs();

	if (shards == CM_SHARDS_ALWAYS)
		return CM_SHARDS_MOST / 2;
	return processors < 1 || processors > CM_SHARDS_MOST ? CM_SHARDS_MOST
							     : (uint32_t)processors;
}

static void fill_policy(const struct cm_config *config, const struct cm_probe_environment *found,
			struct cm_policy *policy)
{
	cm_policy_init(policy);
	policy->mode = (enum cm_mode)config->mode;
	policy->reuse = (enum cm_reuse)config->reuse;
	policy->sync = config->sync == CM_SYNC_EPOCH ? CM_SYNC_NEVER : (enum cm_sync)config->sync;
	policy->oom_report = (enum cm_oom_report)config->oom_report;
	policy->placement = (enum cm_placement)config->placement;
	policy->reached = has_other_devices(config, found);
	/* Exported handles need whole driver allocations. */
	policy->expandable_segments = config->expandable_segments &&
				      policy->placement != CM_PLACEMENT_EXACT;
	policy->max_split_size = cm_settings_bytes(config->max_split_size_mb);
	policy->max_non_split_rounding = cm_settings_bytes(config->max_non_split_rounding_mb);
	policy->large_segment_size = cm_settings_bytes(config->large_segment_size_mb);
	policy->garbage_collection_threshold = config->garbage_collection_threshold;
	policy->exchange = config->exchange;
	policy->shards = (enum cm_shards)config->shards;
	policy->shards_most = count_shards(policy->shards);
	policy->peer_processes = config->peer_processes;
	policy->decay_ns = config->decay_seconds * CM_NS_PER_S;
	policy->memory_fraction = config->per_process_memory_fraction;
	policy->memory_limit = cm_settings_bytes(config->memory_limit_mb);
	memcpy(policy->roundup_power2_divisions, config->roundup_power2_divisions,
	       sizeof(policy->roundup_power2_divisions));
}

void cm_settings_apply(struct cm_config *config, struct cm_policy *ret_policy)
{
	struct cm_probe_environment found;

	cm_probe_sharing(secure_getenv, &found);
	adapt_to_process(config, &found);
	fill_policy(config, &found, ret_policy);
}

static void set_memory_limit_mb(struct cm_cache *cache, const struct cm_config *config)
{
	cm_cache_set_memory_limit(cache, cm_settings_bytes(config->memory_limit_mb));
}

static void set_per_process_memory_fraction(struct cm_cache *cache, const struct cm_config *config)
{
	cm_cache_set_memory_fraction(cache, config->per_process_memory_fraction);
}

static void set_decay_seconds(struct cm_cache *cache, const struct cm_config *config)
{
	cm_cache_set_decay(cache, config->decay_seconds * CM_NS_PER_S);
}

static void set_oom_report(struct cm_cache *cache, const struct cm_config *config)
{
	cm_cache_set_oom_report(cache, (enum cm_oom_report)config->oom_report);
}

static void (*const setters[CM_OPTION_COUNT])(struct cm_cache *cache,
					      const struct cm_config *config) = {
#define CM_OPTION_LIVE(name) [CM_OPTION_##name] = set_##name,
#include "stats/options.def"
};

int cm_settings_change(struct cm_cache *cache, struct cm_region *region, uint64_t option,
		       const char *value)
{
	struct cm_option_row row, *in_region;
	struct cm_config config;
	char pair[sizeof(row.name) + sizeof(row.value)];

	if (option >= CM_OPTION_COUNT || strchr(value, ','))
		return -EINVAL;
	if (!setters[option])
		return -EOPNOTSUPP;
	cm_config_init(&config);
	cm_config_row(&config, (enum cm_option)option, &row);
	(void)snprintf(pair, sizeof(pair), "%s:%s", row.name, value);
	cm_config_parse(&config, CM_CONF_VARIABLE, pair, NULL, NULL);
	if (config.errors)
		return -EINVAL;
	if (cm_region_commit(region, CM_TABLE_OPTION, CM_OPTION_COUNT))
		return -ENOSPC;
	setters[option](cache, &config);
	config.origin[option] = CM_ORIGIN_TOOL;
	cm_config_row(&config, (enum cm_option)option, &row);
	in_region = cm_region_row(region, CM_TABLE_OPTION, (uint32_t)option);
	memcpy(in_region->value, row.value, sizeof(row.value));
	memcpy(in_region->origin, row.origin, sizeof(row.origin));
	return 0;
}
