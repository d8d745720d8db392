/* SPDX-License-Identifier: MIT */
#include "allocator/base/size_class.h"

#include <stddef.h>

#include "allocator/base/bins.h"

static uint64_t round_up(uint64_t n, uint64_t to)
{
	return (n + to - 1) / to * to;
}

static uint32_t divisions_of(const struct cm_policy *policy, uint64_t bytes)
{
	int slot = 63 - __builtin_clzll(bytes) - 20;

	if (slot < 0)
		slot = 0;
	if (slot >= CM_DIVISION_SLOTS)
		slot = CM_DIVISION_SLOTS - 1;
	return policy->roundup_power2_divisions[slot];
}

/* The next of `divisions` even steps between two powers of two. */
static uint64_t round_to_division(uint64_t bytes, uint32_t divisions)
{
	uint64_t power = UINT64_C(1) << (63 - __builtin_clzll(bytes));
	uint64_t step = power >> (31 - __builtin_clz(divisions));

	if (bytes == power)
		return bytes;
	return step ? round_up(bytes, step) : power << 1;
}

bool cm_size_is_rounded_up(const struct cm_policy *policy)
{
	size_t slot;

	for (slot = 0; slot < CM_DIVISION_SLOTS; slot++)
		if (policy->roundup_power2_divisions[slot] > 1)
			return true;
	return false;
}

uint64_t cm_size_round(const struct cm_policy *policy, uint64_t bytes)
{
	uint32_t divisions = divisions_of(policy, bytes);

	if (divisions > 1 && bytes > CM_GRAIN * divisions)
		bytes = round_to_division(bytes, divisions);
	return cm_size_grains(bytes);
}

uint64_t cm_size_segment(const struct cm_policy *policy, uint64_t size)
{
	const bool exact = policy->placement == CM_PLACEMENT_EXACT;

	/* The driver itself packs small allocations. */
	if (size <= CM_SMALL_MAX)
		return exact ? size : CM_SMALL_SEGMENT;
	if (size < CM_MEDIUM_MAX && !exact)
		return policy->large_segment_size;
	return cm_size_of_driver(size);
}
