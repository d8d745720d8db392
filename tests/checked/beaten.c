/* SPDX-License-Identifier: MIT */
/*
 * The library beside a tool that comes at the worst moment: the driver has refused for want of
 * memory, or has said what is free, and before the library looks at what lies idle a trim has given
 * it back.
 */
#include "allocator/cache.h"
#include "interpose/process.h"
#include "interpose/room.h"

#define WRAPPED(symbol)                     \
	__typeof__(symbol) __wrap_##symbol; \
	extern __typeof__(symbol) __real_##symbol __attribute__((visibility("hidden")))

WRAPPED(cm_room_make);
WRAPPED(cm_room_make_on);
WRAPPED(cm_cache_returnable);

static void trim(void)
{
	struct cm_cache *cache = cm_process_cache_if_made();

	if (cache)
		(void)cm_cache_trim(cache, UINT32_MAX, NULL);
}

bool __wrap_cm_room_make(uint64_t bytes, uint64_t returns)
{
	trim();
	return __real_cm_room_make(bytes, returns);
}

bool __wrap_cm_room_make_on(CUdevice device, uint64_t bytes, uint64_t returns)
{
	trim();
	return __real_cm_room_make_on(device, bytes, returns);
}

uint64_t __wrap_cm_cache_returnable(struct cm_cache *cache, uint64_t ctx)
{
	trim();
	return __real_cm_cache_returnable(cache, ctx);
}
