/* SPDX-License-Identifier: MIT */
/*
 * What each option of CUDAMEM_CONF changes, seen by a whole program: every role is played without
 * the option and with it, and both must show. The list is held against stats/options.def.
 */
#include <string.h>

#include "stats/counters.h"
#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

/* Whether the option under test is set. */
static bool is_set(void)
{
	return getenv("IS_SET") != NULL;
}

static void get_and_free(uint64_t bytes)
{
	OK(cuMemFree_v2(cm_get(bytes)));
}

CM_ROLE(max_split_size)
{
	cm_open(0);
	get_and_free(40 * MIB);
	(void)cm_get(24 * MIB);
	CM_MUST(cm_reserved() == (int64_t)((is_set() ? 64 : 40) * MIB));
}

/* Blocks of 32 MiB and more are not split here; 64 MiB for 40 wastes 24. */
CM_ROLE(max_non_split_rounding)
{
	cm_open(0);
	get_and_free(64 * MIB);
	(void)cm_get(40 * MIB);
	CM_MUST(cm_reserved() == (int64_t)((is_set() ? 64 : 104) * MIB));
}

CM_ROLE(large_segment_size)
{
	cm_open(0);
	(void)cm_get(5 * MIB);
	CM_MUST(cm_reserved() == (int64_t)((is_set() ? 64 : 20) * MIB));
}

/* The cap is 0.9 GiB; what was idle longest goes back once 0.3 of it are reserved. */
CM_ROLE(garbage_collection)
{
	cm_open(0);
	get_and_free(200 * MIB);
	get_and_free(220 * MIB);
	get_and_free(230 * MIB);
	CM_MUST((cudasim_calls("cuMemFree_v2") > 0) == is_set());
}

CM_ROLE(roundup)
{
	cm_open(0);
	(void)cm_get(MIB + 1000);
	CM_MUST(cm_allocated() == (int64_t)(is_set() ? MIB + MIB / 4 : MIB + 1024));
}

CM_ROLE(memory_fraction)
{
	CUdeviceptr addr;

	cm_open(0);
	CM_MUST(cuMemAlloc_v2(&addr, 600 * MIB) ==
		(is_set() ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS));
}

/* By default the block is allocated at once, behind a barrier. */
CM_ROLE(reuse_grow)
{
	CUdeviceptr block, next;

	cm_open(0);
	block = cm_get(30 * MIB);
	cm_launch_slow(block);
	OK(cuMemFree_v2(block));
	next = cm_get(30 * MIB);
	CM_MUST((next == block) == !is_set());
	CM_MUST((cudasim_calls("cuCtxWaitEvent") > 0) == !is_set());
	CM_MUST(cudasim_now() < CM_SLOW_NS);
}

CM_ROLE(reuse_wait)
{
	CUdeviceptr block;

	cm_open(0);
	block = cm_get(30 * MIB);
	cm_launch_slow(block);
	OK(cuMemFree_v2(block));
	CM_MUST(cudasim_now() < CM_SLOW_NS);
	CM_MUST(cm_get(30 * MIB) == block);
	CM_MUST((cudasim_calls("cuCtxWaitEvent") > 0) == !is_set());
	CM_MUST((cudasim_now() >= CM_SLOW_NS) == is_set());
}

CM_ROLE(sync_free)
{
	CUdeviceptr block;

	cm_open(0);
	block = cm_get(30 * MIB);
	cm_launch_slow(block);
	OK(cuMemFree_v2(block));
	CM_MUST((cudasim_now() >= CM_SLOW_NS) == is_set());
}

CM_ROLE(placement)
{
	uint64_t first, second;

	cm_open(0);
	OK(cuPointerGetAttribute(&first, CU_POINTER_ATTRIBUTE_BUFFER_ID, cm_get(2 * MIB)));
	OK(cuPointerGetAttribute(&second, CU_POINTER_ATTRIBUTE_BUFFER_ID, cm_get(2 * MIB)));
	CM_MUST((first != second) == is_set());
	CM_MUST(cm_reserved() == (int64_t)((is_set() ? 4 : 20) * MIB));
}

/* Pages stand under the two blocks alone, side by side. */
CM_ROLE(expandable_segments)
{
	CUdeviceptr first, second;

	cm_open(0);
	first = cm_get(3 * MIB);
	second = cm_get(3 * MIB);
	CM_MUST(second == first + 3 * MIB);
	CM_MUST(cm_reserved() == (int64_t)((is_set() ? 6 : 20) * MIB));
	CM_MUST(cudasim_calls("cuMemCreate") == (is_set() ? 3 : 0));
}

CM_ROLE(control)
{
	cm_open(0);
	get_and_free(MIB);
	CM_MUST(cm_count_entries("/proc/self/task", "") == (is_set() ? 1 : 2));
}

/* The driver is asked each time, and counted all the same. */
CM_ROLE(mode_stats)
{
	struct cm_device_row row;
	int i;

	cm_open(0);
	for (i = 0; i < 3; i++)
		get_and_free(2 * MIB);
	CM_MUST(cudasim_calls("cuMemAlloc_v2") == (is_set() ? 3 : 1));
	row = cm_own_counters(0);
	CM_MUST(cm_stat_read(&row, CM_POOL_ALL, CM_STAT_ALLOCATION).allocated == 3);
}

CM_ROLE(exchange)
{
	cm_open(0);
	get_and_free(30 * MIB);
	(void)cm_get(40 * MIB);
	CM_MUST(cm_reserved() == (int64_t)((is_set() ? 70 : 40) * MIB));
}

CM_ROLE(mode_off)
{
	cm_open(0);
	get_and_free(2 * MIB);
	CM_MUST(cm_count_regions() == (is_set() ? 0 : 1));
}

/* The role under `with`, and under `without` in its place; a smaller card where it says so. */
static const struct effect {
	const char *option;
	const char *role;
	const char *without;
	const char *with;
	const char *card;
} effects[] = {
	{"max_split_size_mb", "max_split_size", "", "max_split_size_mb:32", NULL},
	{"max_non_split_rounding_mb", "max_non_split_rounding", "max_split_size_mb:32",
	 "max_split_size_mb:32,max_non_split_rounding_mb:32", NULL},
	{"large_segment_size_mb", "large_segment_size", "", "large_segment_size_mb:64", NULL},
	{"garbage_collection_threshold", "garbage_collection",
	 "per_process_memory_fraction:0.9,exchange:off",
	 "per_process_memory_fraction:0.9,exchange:off,garbage_collection_threshold:0.3",
	 "CUDASIM=memory:1G"},
	{"exchange", "exchange", "", "exchange:off", NULL},
	{"roundup_power2_divisions", "roundup", "", "roundup_power2_divisions:4", NULL},
	{"per_process_memory_fraction", "memory_fraction", "",
	 "per_process_memory_fraction:0.5,oom_report:off", "CUDASIM=memory:1G"},
	{"memory_limit_mb", "memory_fraction", "", "memory_limit_mb:512,oom_report:off",
	 "CUDASIM=memory:1G"},
	{"reuse", "reuse_grow", "", "reuse:grow", NULL},
	{"reuse", "reuse_wait", "", "reuse:wait", NULL},
	{"sync", "sync_free", "", "sync:free", NULL},
	{"placement", "placement", "", "placement:exact", NULL},
	{"expandable_segments", "expandable_segments", "", "expandable_segments:True", NULL},
	{"control", "control", "", "control:off", NULL},
	{"mode", "mode_stats", "", "mode:stats", NULL},
	{"mode", "mode_off", "", "mode:off", NULL},
};

/* What these change is not seen by the program, but by its user: where it is tested. */
static const char *const elsewhere[][2] = {
	{"stacks", "record_stacks"},
	{"stack_frames", "record_stacks"},
	{"stack_depth", "record_stacks"},
	{"stack_table_mb", "record_stacks"},
	{"text_table_mb", "record_stacks"},
	{"events", "process"},
	{"region_dir", "process"},
	{"region_keep", "snapshot_guard"},
	{"oom_wait_ms", "snapshot_guard"},
	{"warn", "process"},
	{"log", "process"},
	{"strict", "golden"},
	{"oom_report", "surface_oom"},
	{"peer_processes", "surface_peer_processes"},
	{"decay_seconds", "surface_peer_processes"},
	{"shards", "surface_shards"},
};

static const struct effect *find_effect(const char *option)
{
	size_t i;

	for (i = 0; i < sizeof(effects) / sizeof(effects[0]); i++)
		if (!strcmp(effects[i].option, option))
			return &effects[i];
	return NULL;
}

static void mark_as_set(void)
{
	CM_MUST(!setenv("IS_SET", "1", 1));
}

CM_PLAY_TEST(each_option_has_its_effect)
{
	struct cm_play *play = *state;
	size_t i;

	for (i = 0; i < sizeof(effects) / sizeof(effects[0]); i++) {
		const struct effect *effect = &effects[i];

		cm_play_under(play, effect->role, effect->without, effect->card, NULL);
		assert_string_equal(play->said, "");
		cm_play_under(play, effect->role, effect->with, effect->card, mark_as_set);
		assert_string_equal(play->said, "");
	}
}

CM_TEST(no_option_is_forgotten)
{
	static const char *const options[] = {
#define CM_OPTION(name, TYPE, fallback, words, min, max, help) #name,
#include "stats/options.def"
	};
	size_t i, k;
	bool found;

	for (i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		found = find_effect(options[i]) != NULL;
		for (k = 0; k < sizeof(elsewhere) / sizeof(elsewhere[0]); k++)
			found |= !strcmp(elsewhere[k][0], options[i]);
		if (!found)
			fail_msg("no test of the effect of %s", options[i]);
	}
}
