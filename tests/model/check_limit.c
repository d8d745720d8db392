/* SPDX-License-Identifier: MIT */
/*
 * The limit of a device: a thread sets it while another one publishes the device, or sets another
 * limit. Whichever comes last, the row has the limit of the policy in the end.
 */
#include "allocator/state/limit.c" /* NOLINT(bugprone-suspicious-include) */

#include "tests/model/model.h"

static struct cm_cache cache;
static struct cm_device device;
static struct cm_device_row row;

static void setup_unknown(void)
{
	device.cache = &cache;
	device.row = &row;
	cache.device[0] = &device;
	cache.policy.memory_limit = UINT64_MAX;
	cache.policy.memory_fraction = 1;
	row.allowed_bytes = 0;
	row.total_bytes = 100;
	atomic_store(&cache.devices, 0);
}

static void setup_known(void)
{
	setup_unknown();
	atomic_store(&cache.devices, 1);
}

static void publish(void)
{
	atomic_store_explicit(&cache.devices, 1, memory_order_release);
	cm_limit_apply(&device);
}

static void limit_to_5(void)
{
	cm_cache_set_memory_limit(&cache, 5);
}

static void limit_to_7(void)
{
	cm_cache_set_memory_limit(&cache, 7);
}

static void limit_to_half(void)
{
	cm_cache_set_memory_fraction(&cache, 0.5);
}

static void the_row_has_it(void)
{
	MODEL_MUST(row.allowed_bytes == read_limit(&cache.policy, row.total_bytes));
}

/* A planted fault: the limit is not read again after it was stored. */
static void publish_once(void)
{
	uint64_t bytes;

	atomic_store_explicit(&cache.devices, 1, memory_order_release);
	atomic_thread_fence(memory_order_seq_cst);
	bytes = read_limit(&cache.policy, row.total_bytes);
	__atomic_store_n(&row.allowed_bytes, bytes, __ATOMIC_RELAXED);
}

int main(void)
{
	static const struct model_scenario scenarios[] = {
		{"a device is published while a limit is set",
		 setup_unknown,
		 {publish, limit_to_5},
		 the_row_has_it,
		 4,
		 NULL},
		{"two limits are set at once",
		 setup_known,
		 {limit_to_7, limit_to_half},
		 the_row_has_it,
		 4,
		 NULL},
		{"a device is published while two limits are set",
		 setup_unknown,
		 {publish, limit_to_5, limit_to_half},
		 the_row_has_it,
		 2,
		 NULL},
		{"a device that reads the limit once keeps an old one",
		 setup_unknown,
		 {publish_once, limit_to_5},
		 the_row_has_it,
		 ~0u,
		 "allowed_bytes"},
	};

	return model_explore(scenarios, sizeof(scenarios) / sizeof(scenarios[0]));
}
