/* SPDX-License-Identifier: MIT */
/*
 * The library beside others that come at the worst moment: the driver has refused for lack of
 * memory, and before the library looks at what lies idle a trim has given it back, or another
 * thread gets it before the library asks again; or the library has counted what lies idle, and
 * before the driver says what is free that goes back, or before it counts another thread has got
 * more.
 */
#include <stdatomic.h>

#include "allocator/cache.h"
#include "interpose/driver/context.h"
#include "interpose/process/process.h"
#include "interpose/symbols/hooks.h"
#include "interpose/wrappers/retry_after_trim.h"

#define WRAPPED(symbol)                     \
	__typeof__(symbol) __wrap_##symbol; \
	extern __typeof__(symbol) __real_##symbol __attribute__((visibility("hidden")))

WRAPPED(cm_retry_trim);
WRAPPED(cm_retry_trim_on);
WRAPPED(cm_cache_returnable);

static void trim(void)
{
	struct cm_cache *cache = cm_process_cache_if_made();

	if (cache)
		(void)cm_cache_trim(cache, UINT32_MAX, NULL);
}

/* Of a size that nothing idle serves for long, as each goes with the next trim. */
static void get_and_free(struct cm_cache *cache, uint64_t ctx)
{
	struct cm_heap *heap = cm_cache_find_heap(cache, ctx);
	uint64_t addr;

	if (heap && !cm_cache_alloc(cache, heap, UINT64_C(24) << 20, &addr))
		(void)cm_cache_free(cache, addr, &addr);
}

/* On a small card, alternating: another thread has got some of what was given back, and has
 * freed it since. */
static void get_and_free_sometimes(void)
{
	static atomic_uint times;
	struct cm_cache *cache = cm_process_cache_if_made();
	size_t free_bytes, total;

	if (cache && cm_real.cuMemGetInfo_v2(&free_bytes, &total) == CUDA_SUCCESS &&
	    total <= UINT64_C(64) << 20 && atomic_fetch_add(&times, 1) % 2 == 0)
		get_and_free(cache, cm_context_current());
}

bool __wrap_cm_retry_trim(uint64_t bytes, uint64_t returns)
{
	bool made;

	trim();
	made = __real_cm_retry_trim(bytes, returns);
	get_and_free_sometimes();
	return made;
}

bool __wrap_cm_retry_trim_on(CUdevice device, uint64_t bytes, uint64_t returns)
{
	bool made;

	trim();
	made = __real_cm_retry_trim_on(device, bytes, returns);
	get_and_free_sometimes();
	return made;
}

/* Alternating: it is counted anew where something has gone. */
uint64_t __wrap_cm_cache_returnable(struct cm_cache *cache, uint64_t ctx)
{
	static atomic_uint looks;
	const bool grows = atomic_fetch_add(&looks, 1) % 2;
	uint64_t bytes;

	if (grows)
		get_and_free(cache, ctx);
	bytes = __real_cm_cache_returnable(cache, ctx);
	if (!grows)
		trim();
	return bytes;
}
