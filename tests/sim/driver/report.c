/* SPDX-License-Identifier: MIT */
/*
 * With CUDASIM_REPORT=path in the environment, a process that used the driver leaves its counters
 * there as it ends; "%p" in the path is the process's number.
 */
#include "../cudasim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checker.h"
#include "device.h"
#include "state.h"

static void expand(const char *path, char *ret_text, size_t room)
{
	const char *mark = strstr(path, "%p");

	if (mark)
		snprintf(ret_text, room, "%.*s%ld%s", (int)(mark - path), path, (long)getpid(),
			 mark + 2);
	else
		snprintf(ret_text, room, "%s", path);
}

static void write_checked(FILE *file)
{
	struct cudasim_checked checked;

	cudasim_checked(&checked);
	fprintf(file,
		"checked allocations %llu accesses %llu strays %llu comparisons %llu lines %llu "
		"forgotten %llu violations %llu\n",
		(unsigned long long)checked.allocations, (unsigned long long)checked.accesses,
		(unsigned long long)checked.strays, (unsigned long long)checked.comparisons,
		(unsigned long long)checked.lines, (unsigned long long)checked.forgotten,
		(unsigned long long)cudasim_violations());
}

static void write_report(FILE *file)
{
	uint64_t calls = 0;

	for (unsigned i = 0; i < SIM_CALL_COUNT; i++) {
		uint64_t made = sim_calls_made((enum sim_call)i);

		calls += made;
		if (made)
			fprintf(file, "%s %llu %llu\n", sim_calls[i].name, (unsigned long long)made,
				(unsigned long long)sim_calls_ns((enum sim_call)i));
	}
	fprintf(file, "total %llu\n", (unsigned long long)calls);
	for (int i = 0; i < sim_device_count(); i++)
		fprintf(file, "device %d peak_bytes %llu used_bytes %llu\n", i,
			(unsigned long long)sim_device_get(i)->vram.peak,
			(unsigned long long)sim_device_get(i)->vram.used);
	if (sim_checking)
		write_checked(file);
}

__attribute__((destructor)) static void report_at_exit(void)
{
	const char *path = secure_getenv("CUDASIM_REPORT");
	char text[4096];
	FILE *file;

	if (!path || sim_phase() == SIM_FRESH || sim_phase() == SIM_FORKED)
		return;
	expand(path, text, sizeof(text));
	file = fopen(text, "we");
	if (!file)
		return;
	write_report(file);
	fclose(file);
}
