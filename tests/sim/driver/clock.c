/* SPDX-License-Identifier: MIT */
#include "clock.h"

#include <time.h>

#include "plan.h"
#include "state.h"

static uint64_t virtual_ns;
static uint64_t origin_ns;

static uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void sim_clock_start(void)
{
	virtual_ns = 0;
	origin_ns = monotonic_ns();
}

uint64_t sim_clock_now(void)
{
	return sim_plan.real_time ? monotonic_ns() - origin_ns : virtual_ns;
}

void sim_clock_set(uint64_t ns)
{
	if (ns > virtual_ns)
		virtual_ns = ns;
}

void sim_clock_spend(uint64_t ns)
{
	uint64_t until;

	if (!sim_plan.real_time) {
		virtual_ns += ns;
		return;
	}
	until = sim_clock_now() + ns;
	sim_unlock();
	while (sim_clock_now() < until)
		;
	sim_lock();
}
