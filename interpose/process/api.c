/* SPDX-License-Identifier: MIT */
/* The functions of cudamem.h, which programs call themselves. */
#include "interpose/cudamem.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "interpose/driver/current.h"
#include "interpose/process/process.h"
#include "interpose/stacks/annotation.h"
#include "interpose/stacks/record.h"
#include "interpose/symbols/entry_points.h"
#include "interpose/symbols/hooks.h"
#include "stats/counters.h"
#include "stats/memory_stats.h"

/* Answers to the program's own questions may take the 3 KiB of a device's row on the stack. */
#pragma GCC diagnostic ignored "-Wframe-larger-than="

/* Functions that take a lock of the allocator enter the hook first, as wrappers do: an allocation
 * in a signal handler then goes to the driver and does not wait for its own thread. */
static void leave_if_entered(bool entered)
{
	if (entered)
		cm_hook_leave();
}

static int resolve_device(int device)
{
	CUdevice current = 0;

	if (device != CUDAMEM_CURRENT_DEVICE)
		return device;
	return cm_real.cuCtxGetDevice(&current) == CUDA_SUCCESS ? current : 0;
}

/* Whether the driver says that it has no such device. */
static bool is_no_device(int device)
{
	int value;

	return device < CUDAMEM_CURRENT_DEVICE ||
	       (device != CUDAMEM_CURRENT_DEVICE &&
		cm_real.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, device) ==
			CUDA_ERROR_INVALID_DEVICE);
}

/* The row of a device with an allocation. False if there is none; errno is EINVAL if there is no
 * such device. */
static bool find_device(int device, struct cm_cache **ret_cache, uint32_t *ret_row)
{
	struct cm_cache *cache = cm_process_cache_if_made();
	uint32_t row;

	row = cache ? cm_cache_device_row(cache, resolve_device(device)) : UINT32_MAX;
	if (row == UINT32_MAX) {
		if (cm_entry_points_find_driver() && is_no_device(device))
			errno = EINVAL;
		return false;
	}
	*ret_cache = cache;
	*ret_row = row;
	return true;
}

static bool read_device(int device, struct cm_device_row *ret_stats)
{
	struct cm_cache *cache;
	uint32_t row;
	bool entered, read;

	if (!find_device(device, &cache, &row))
		return false;
	entered = cm_hook_enter();
	read = !cm_cache_read_device(cache, row, ret_stats);
	leave_if_entered(entered);
	return read;
}

void cudamem_empty_cache(void)
{
	struct cm_cache *cache = cm_process_cache_if_made();

	if (!cache || !cm_hook_enter())
		return;
	(void)cm_cache_trim(cache, UINT32_MAX, NULL);
	cm_hook_leave();
}

struct visitor {
	cudamem_stat_fn fn;
	void *data;
	size_t count;
};

static void visit(void *data, const char *key, int64_t value)
{
	struct visitor *visitor = data;

	visitor->fn(visitor->data, key, value);
	visitor->count++;
}

size_t cudamem_memory_stats(int device, cudamem_stat_fn fn, void *data)
{
	struct visitor visitor = {fn, data, 0};
	struct cm_device_row stats;

	if (read_device(device, &stats))
		cm_memory_stats_each(&stats, visit, &visitor);
	return visitor.count;
}

size_t cudamem_host_memory_stats(cudamem_stat_fn fn, void *data)
{
	struct cm_cache *cache = cm_process_cache_if_made();
	struct visitor visitor = {fn, data, 0};
	struct cm_host_row stats;
	bool entered;

	if (cache) {
		entered = cm_hook_enter();
		cm_cache_read_host(cache, &stats);
		leave_if_entered(entered);
		cm_host_memory_stats_each(&stats, visit, &visitor);
	}
	return visitor.count;
}

struct json {
	char *text;
	size_t bytes;
	size_t used; /* length of the whole text, even if it does not fit */
};

static void add_entry(void *data, const char *key, int64_t value)
{
	struct json *json = data;
	size_t left = json->used < json->bytes ? json->bytes - json->used : 0;
	int n;

	n = snprintf(left ? json->text + json->used : NULL, left, "%s\"%s\": %lld",
		     json->used > 1 ? ", " : "", key, (long long)value);
	json->used += n > 0 ? (size_t)n : 0;
}

static struct json open_json(char *text, size_t bytes)
{
	if (bytes)
		(void)snprintf(text, bytes, "{");
	return (struct json){text, bytes, 1};
}

static size_t close_json(const struct json *json)
{
	if (json->used < json->bytes)
		(void)snprintf(json->text + json->used, json->bytes - json->used, "}");
	return json->used + 1;
}

size_t cudamem_memory_stats_json(int device, char *text, size_t bytes)
{
	struct json json = open_json(text, bytes);

	(void)cudamem_memory_stats(device, add_entry, &json);
	return close_json(&json);
}

size_t cudamem_host_memory_stats_json(char *text, size_t bytes)
{
	struct json json = open_json(text, bytes);

	(void)cudamem_host_memory_stats(add_entry, &json);
	return close_json(&json);
}

static uint64_t read_family(int device, enum cm_stat stat, bool peak)
{
	struct cm_device_row stats;
	int64_t value;

	if (!read_device(device, &stats))
		return 0;
	value = peak ? stats.stat[CM_POOL_ALL].peak[stat] : cm_stat_current(&stats, stat);
	return value > 0 ? (uint64_t)value : 0;
}

uint64_t cudamem_memory_allocated(int device)
{
	return read_family(device, CM_STAT_ALLOCATED_BYTES, false);
}

uint64_t cudamem_max_memory_allocated(int device)
{
	return read_family(device, CM_STAT_ALLOCATED_BYTES, true);
}

uint64_t cudamem_memory_reserved(int device)
{
	return read_family(device, CM_STAT_RESERVED_BYTES, false);
}

uint64_t cudamem_max_memory_reserved(int device)
{
	return read_family(device, CM_STAT_RESERVED_BYTES, true);
}

static void reset_device(int device, void (*reset)(struct cm_cache *cache, uint32_t row))
{
	struct cm_cache *cache;
	uint32_t row;
	bool entered;

	if (!find_device(device, &cache, &row))
		return;
	entered = cm_hook_enter();
	reset(cache, row);
	leave_if_entered(entered);
}

void cudamem_reset_accumulated_memory_stats(int device)
{
	reset_device(device, cm_cache_reset_accumulated);
}

void cudamem_reset_peak_memory_stats(int device)
{
	reset_device(device, cm_cache_reset_peak);
}

static void reset_host(void (*reset)(struct cm_cache *cache))
{
	struct cm_cache *cache = cm_process_cache_if_made();
	bool entered;

	if (!cache)
		return;
	entered = cm_hook_enter();
	reset(cache);
	leave_if_entered(entered);
}

void cudamem_reset_accumulated_host_memory_stats(void)
{
	reset_host(cm_cache_host_reset_accumulated);
}

void cudamem_reset_peak_host_memory_stats(void)
{
	reset_host(cm_cache_host_reset_peak);
}

/* The index of a word in a list in which NULL comes first; -1 if it is not there. */
static int find_word(const char *word, const char *const *words, int count)
{
	int i;

	if (!word)
		return words[0] ? -1 : 0;
	for (i = 0; i < count; i++)
		if (words[i] && !strcmp(words[i], word))
			return i;
	return -1;
}

int cudamem_record_memory_history(const char *enabled, const char *context, const char *stacks,
				  uint64_t max_entries, int clear_history)
{
	static const char *const enabled_words[] = {NULL, "state", "all"};
	static const char *const context_words[] = {
		[CM_CONTEXT_NONE] = NULL,
		[CM_CONTEXT_STATE] = "state",
		[CM_CONTEXT_ALLOC] = "alloc",
		[CM_CONTEXT_ALL] = "all",
	};
	static const char *const stacks_words[] = {
		[CM_STACKS_ALL] = "all",
		[CM_STACKS_PYTHON] = "python",
	};
	const int enabled_index = find_word(enabled, enabled_words, 3);
	const int context_index = find_word(context, context_words, CM_CONTEXT_COUNT);
	const int stacks_index = find_word(stacks, stacks_words, CM_STACKS_COUNT);
	const struct cm_record_request request = {
		.devices = CM_ALL_DEVICES,
		.set = CM_RECORD_SET_EVENTS | CM_RECORD_SET_CONTEXT | CM_RECORD_SET_STACKS |
		       CM_RECORD_SET_MAX_ENTRIES | (clear_history ? CM_RECORD_CLEAR : 0),
		.events = enabled_index == 2,
		.context = enabled_index ? (uint32_t)context_index : CM_CONTEXT_NONE,
		.stacks = (uint32_t)stacks_index,
		.max_entries = max_entries,
	};
	bool entered;
	int err;

	if (enabled_index < 0 || context_index < 0 || stacks_index < 0)
		return -EINVAL;
	/* The only function that may be called before the program has reached the driver. A start
	 * without a driver would turn the library off for good, so nothing is started then, and the
	 * next call tries again. */
	if (!cm_entry_points_find_driver() || !cm_process_cache())
		return -ENODEV;
	entered = cm_hook_enter();
	err = cm_record_change(&request);
	leave_if_entered(entered);
	return err;
}

/* The domain of the program's own names, apart from NVTX's. */
#define OWN_DOMAIN ((uintptr_t)1)

void cudamem_annotation_push(const char *name)
{
	(void)cm_annotation_push(OWN_DOMAIN, name);
}

int cudamem_annotation_pop(void)
{
	return cm_annotation_pop(OWN_DOMAIN);
}

/* A context of the device with a heap, the current one if possible. 0: none. */
static uint64_t find_context(struct cm_cache *cache, int ordinal)
{
	const struct cm_region *region = cm_process_region();
	uint32_t row = cm_cache_device_row(cache, ordinal), i;
	const struct cm_heap_row *heap;
	const uint64_t ctx = cm_context_current();
	CUdevice device;

	if (ctx && cm_real.cuCtxGetDevice(&device) == CUDA_SUCCESS && device == ordinal &&
	    cm_cache_find_heap(cache, ctx))
		return ctx;
	for (i = 0; i < region->header->table[CM_TABLE_HEAP].rows; i++) {
		heap = cm_region_row(region, CM_TABLE_HEAP, i);
		if ((heap->flags & CM_HEAP_USED) && heap->device == row)
			return heap->context;
	}
	return 0;
}

/* Before the context has allocated nothing is cached in it: the driver's answer is right. Only for
 * the current context. */
static int ask_driver(int ordinal, uint64_t *ret_free, uint64_t *ret_total)
{
	size_t free_bytes, total_bytes;
	CUdevice device;
	CUresult res;

	if (cm_real.cuCtxGetDevice(&device) != CUDA_SUCCESS || device != ordinal)
		return -ENODEV;
	res = cm_real.cuMemGetInfo_v2(&free_bytes, &total_bytes);
	if (res == CUDA_SUCCESS) {
		*ret_free = free_bytes;
		*ret_total = total_bytes;
	}
	return (int)res;
}

int cudamem_get_memory_info(int device, uint64_t *ret_free, uint64_t *ret_total)
{
	struct cm_cache *cache = cm_process_cache_if_made();
	uint64_t ctx, free_bytes, total_bytes, sum, unused = 0;
	struct cm_info_snapshot before;
	bool entered;
	int err;

	ret_free = ret_free ? ret_free : &unused;
	ret_total = ret_total ? ret_total : &unused;
	*ret_free = 0;
	*ret_total = 0;
	if (!cm_entry_points_find_driver())
		return -ENODEV;
	if (is_no_device(device))
		return -EINVAL;
	ctx = cache ? find_context(cache, resolve_device(device)) : 0;
	if (!ctx)
		return ask_driver(resolve_device(device), ret_free, ret_total);
	entered = cm_hook_enter();
	before = cm_cache_info_begin(cache);
	do {
		sum = cm_cache_returnable(cache, ctx);
		err = cm_cache_mem_info(cache, ctx, &free_bytes, &total_bytes);
	} while (!err && cm_cache_info_must_retry(cache, ctx, &before));
	leave_if_entered(entered);
	if (err)
		return err;
	sum += free_bytes;
	*ret_free = sum < total_bytes ? sum : total_bytes;
	*ret_total = total_bytes;
	return 0;
}
