/* SPDX-License-Identifier: MIT */
#include "stats/memory_stats.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "stats/counters.h"
#include "tests/unit/cmocka_all.h"

#define ENTRIES_MAX 512

struct entry {
	char key[96];
	int64_t value;
};

struct entries {
	struct entry entry[ENTRIES_MAX];
	size_t count;
};

static void keep(void *data, const char *key, int64_t value)
{
	struct entries *entries = data;

	assert_true(entries->count < ENTRIES_MAX);
	(void)snprintf(entries->entry[entries->count].key, sizeof(entries->entry[0].key), "%s",
		       key);
	entries->entry[entries->count++].value = value;
}

static bool find(const struct entries *entries, const char *key, int64_t *ret_value)
{
	size_t i;

	for (i = 0; i < entries->count; i++) {
		if (strcmp(entries->entry[i].key, key))
			continue;
		*ret_value = entries->entry[i].value;
		return true;
	}
	return false;
}

static void assert_entry(const struct entries *entries, const char *key, int64_t value)
{
	int64_t found = 0;

	if (!find(entries, key, &found))
		fail_msg("there is no key %s", key);
	if (found != value)
		fail_msg("%s is %lld, not %lld", key, (long long)found, (long long)value);
}

static void assert_sorted(const struct entries *entries)
{
	size_t i;

	assert_true(entries->count > 0);
	for (i = 1; i < entries->count; i++)
		if (strcmp(entries->entry[i - 1].key, entries->entry[i].key) >= 0)
			fail_msg("%s stands before %s", entries->entry[i - 1].key,
				 entries->entry[i].key);
}

CM_TEST(keys_are_in_order_and_unique)
{
	static struct cm_device_row device;
	static struct cm_host_row host;
	struct entries entries = {0};

	cm_memory_stats_each(&device, keep, &entries);
	assert_sorted(&entries);
	entries.count = 0;
	cm_host_memory_stats_each(&host, keep, &entries);
	assert_sorted(&entries);
}

/* The keys that torch.accelerator.memory_stats documents, and those that it returns. */
CM_TEST(every_key_of_pytorch_is_there)
{
	static const char *const families[] = {
		"allocated",       "allocation",     "allocated_bytes",
		"segment",         "reserved_bytes", "active",
		"active_bytes",    "inactive_split", "inactive_split_bytes",
		"requested_bytes",
	};
	static const char *const pools[] = {"all", "large_pool", "small_pool"};
	static const char *const values[] = {"current", "peak", "allocated", "freed"};
	static const char *const others[] = {
		"num_alloc_retries",
		"num_ooms",
		"num_sync_all_streams",
		"num_device_alloc",
		"num_device_free",
		"num_oom_rejections",
		"max_split_size",
		"oversize_allocations.current",
		"oversize_allocations.peak",
		"oversize_allocations.allocated",
		"oversize_allocations.freed",
		"oversize_segments.current",
		"oversize_segments.peak",
		"oversize_segments.allocated",
		"oversize_segments.freed",
	};
	static struct cm_device_row row;
	struct entries entries = {0};
	size_t f, p, v;
	char key[96];

	cm_memory_stats_each(&row, keep, &entries);
	for (f = 0; f < sizeof(families) / sizeof(families[0]); f++)
		for (p = 0; p < 3; p++)
			for (v = 0; v < 4; v++) {
				(void)snprintf(key, sizeof(key), "%s.%s.%s", families[f], pools[p],
					       values[v]);
				assert_entry(&entries, key, 0);
			}
	for (f = 0; f < sizeof(others) / sizeof(others[0]); f++)
		assert_entry(&entries, others[f], 0);
}

CM_TEST(values_come_from_their_own_counters)
{
	static struct cm_device_row row;
	struct entries entries = {0};

	row.max_split_size = -1;
	cm_counters_alloc(&row, CM_POOL_SMALL, 512, 100);
	cm_counters_alloc(&row, CM_POOL_LARGE, 2097152, 2000000);
	cm_counters_free(&row, CM_POOL_SMALL, 512);
	cm_counters_count(&row, CM_SCALAR_barriers, 3);
	cm_stat4_raise(&row.stat1[CM_STAT1_OVERSIZE_SEGMENTS], 2);
	cm_memory_stats_each(&row, keep, &entries);
	assert_entry(&entries, "allocated.all.allocated", 2);
	assert_entry(&entries, "allocation.all.allocated", 2);
	assert_entry(&entries, "allocated.all.current", 1);
	assert_entry(&entries, "allocated_bytes.small_pool.freed", 512);
	assert_entry(&entries, "allocated_bytes.all.peak", 512 + 2097152);
	assert_entry(&entries, "active.small_pool.current", 1);
	assert_entry(&entries, "requested_bytes.large_pool.current", 2000000);
	assert_entry(&entries, "oversize_segments.peak", 2);
	assert_entry(&entries, "max_split_size", -1);
	assert_entry(&entries, "barriers", 3);
}

CM_TEST(host_times_are_microseconds)
{
	struct cm_host_row row = {.alloc_time = {9000999, 5000000, 1000000, 3},
				  .num_host_alloc = 3,
				  .num_host_ooms = 7};
	struct entries entries = {0};

	cm_stat4_raise(&row.segment, 3);
	cm_stat4_raise(&row.allocated, 2);
	cm_host_memory_stats_each(&row, keep, &entries);
	assert_entry(&entries, "host_alloc_time.total", 9000);
	assert_entry(&entries, "host_alloc_time.avg", 3000);
	assert_entry(&entries, "host_alloc_time.max", 5000);
	assert_entry(&entries, "host_alloc_time.min", 1000);
	assert_entry(&entries, "host_alloc_time.count", 3);
	assert_entry(&entries, "host_free_time.avg", 0); /* none: nothing is divided by */
	assert_entry(&entries, "num_host_alloc", 3);
	assert_entry(&entries, "num_host_ooms", 7);
	assert_entry(&entries, "allocated.current", 2);
	assert_entry(&entries, "allocations.current", 3);
	assert_entry(&entries, "segment.peak", 3);
}
