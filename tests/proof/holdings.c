/* SPDX-License-Identifier: MIT */
#include "tests/proof/holdings.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "interpose/cudamem.h"
#include "stats/counters.h"
#include "stats/reader.h"
#include "tests/proof/program.h"

#define LOOKS 10000 /* at counters that are being written, a millisecond apart */

static char complaint[256];

__attribute__((format(printf, 1, 2))) static const char *complain(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(complaint, sizeof(complaint), format, args);
	va_end(args);
	return complaint;
}

/* A function of the library or of the simulated driver, or NULL. */
static void (*find(const char *name))(void)
{
	void (*function)(void) = NULL;
	void *found = dlsym(RTLD_DEFAULT, name);

	memcpy(&function, &found, sizeof(function));
	return function;
}

bool cm_holdings_are_here(void)
{
	return find("cudamem_empty_cache") != NULL;
}

bool cm_holdings_pass_on(void)
{
	const char *conf = getenv("CUDAMEM_CONF");

	return cm_holdings_are_here() && conf && strstr(conf, "mode:stats");
}

bool cm_holdings_driver_is_simulated(void)
{
	return find("cudasim_advance") != NULL;
}

void cm_holdings_trim(unsigned what)
{
	void (*empty)(void) = find("cudamem_empty_cache");
	void (*reset)(int device);

	if (!empty)
		return;
	if (what % 3 == 0) {
		empty();
		return;
	}
	reset = (void (*)(int))find(what % 3 == 1 ? "cudamem_reset_peak_memory_stats"
						  : "cudamem_reset_accumulated_memory_stats");
	reset(0);
}

uint64_t cm_holdings_card_bytes(int device)
{
	uint64_t (*used)(int device) = (uint64_t(*)(int))find("cudasim_used_bytes");

	return used ? used(device) : 0;
}

static void tell_simulation(const char *name, const volatile void *addr, size_t bytes)
{
	void (*touch)(const void *addr, size_t bytes) = (void (*)(const void *, size_t))find(name);

	if (touch)
		touch((const void *)addr, bytes);
}

void cm_holdings_cpu_writes(const volatile void *addr, size_t bytes)
{
	tell_simulation("cudasim_host_write", addr, bytes);
}

void cm_holdings_cpu_reads(const volatile void *addr, size_t bytes)
{
	tell_simulation("cudasim_host_read", addr, bytes);
}

bool cm_holdings_find_region(char ret_path[PATH_MAX])
{
	const char *folder = getenv("REGIONS");
	DIR *stream = folder ? opendir(folder) : NULL;
	struct dirent *entry;
	char beginning[64];
	bool found = false;

	if (!stream)
		return false;
	(void)snprintf(beginning, sizeof(beginning), CM_REGION_PREFIX "%u.%d.", getuid(),
		       (int)getpid());
	while (!found && (entry = readdir(stream)))
		if (!strncmp(entry->d_name, beginning, strlen(beginning))) {
			(void)snprintf(ret_path, PATH_MAX, "%s/%s", folder, entry->d_name);
			found = true;
		}
	(void)closedir(stream);
	return found;
}

static const char *compare_device(const struct cm_device_row *row, uint32_t device)
{
	uint32_t stat, pool;

	for (pool = 0; pool < CM_POOL_COUNT; pool++)
		for (stat = 0; stat < CM_STAT_COUNT; stat++) {
			const struct cm_stat4 value = cm_stat_read(row, (enum cm_pool)pool, stat);

			if (value.current < 0 || value.peak < value.current)
				return complain("device %u, pool %u, family %u: %lld, peak %lld",
						device, pool, stat, (long long)value.current,
						(long long)value.peak);
		}
	if (cm_stat_current(row, CM_STAT_ACTIVE_BYTES) <
		    cm_stat_current(row, CM_STAT_ALLOCATED_BYTES) ||
	    cm_stat_current(row, CM_STAT_RESERVED_BYTES) <
		    cm_stat_current(row, CM_STAT_ACTIVE_BYTES))
		return complain("device %u: more is in use than is there", device);
	return NULL;
}

/* Once more while it is written: a thread of the library's own may be held up in the middle. */
static bool read_device(struct cm_reader *reader, uint32_t device, struct cm_device_row *ret_row,
			bool *ret_torn)
{
	const struct timespec moment = {.tv_nsec = 1000000};
	int i;

	for (i = 0; i < LOOKS; i++) {
		if (cm_reader_read_device(reader, device, ret_row, ret_torn))
			return false;
		if (!*ret_torn)
			break;
		(void)nanosleep(&moment, NULL);
	}
	return true;
}

static const char *compare_region(struct cm_reader *reader, const struct cm_holdings *held)
{
	int64_t blocks = 0, bytes = 0;
	struct cm_device_row row;
	const char *why;
	uint32_t i;
	bool torn;

	for (i = 0; i < CM_DEVICES_MAX; i++) {
		if (!read_device(reader, i, &row, &torn))
			continue;
		if (torn)
			return complain("device %u is torn", i);
		why = compare_device(&row, i);
		if (why)
			return why;
		blocks += cm_stat_current(&row, CM_STAT_ALLOCATION) +
			  row.other_count[CM_UNCACHED_FORWARDED].current;
		bytes += cm_stat_current(&row, CM_STAT_ALLOCATED_BYTES) +
			 row.other_bytes[CM_UNCACHED_FORWARDED].current;
	}
	/* Sizes are rounded up, so the bytes may be more. */
	if (held &&
	    (blocks != (int64_t)held->blocks || bytes < (int64_t)held->bytes || (!blocks && bytes)))
		return complain("%lld blocks of %lld bytes are written down, the program holds "
				"%llu of %llu",
				(long long)blocks, (long long)bytes,
				(unsigned long long)held->blocks, (unsigned long long)held->bytes);
	return NULL;
}

const char *cm_holdings_compare(const struct cm_holdings *held)
{
	char path[PATH_MAX], why[CM_READER_WHY_BYTES];
	struct cm_reader *reader;
	const char *answer;

	if (!cm_holdings_are_here() || !cm_holdings_find_region(path))
		return NULL;
	if (cm_reader_open(path, &reader, why))
		return complain("the region can't be read: %s", why);
	answer = compare_region(reader, held);
	cm_reader_close(reader);
	return answer;
}

static void add_segments(void *data, const char *key, int64_t value)
{
	if (!strcmp(key, "segment.all.current"))
		*(uint64_t *)data += (uint64_t)value;
}

uint64_t cm_holdings_segments(void)
{
	size_t (*stats)(int device, cudamem_stat_fn fn, void *data);
	uint64_t segments = 0;
	int device;

	stats = (size_t(*)(int, cudamem_stat_fn, void *))find("cudamem_memory_stats");
	for (device = 0; stats && device < PROOF_DEVICES; device++)
		(void)stats(device, add_segments, &segments);
	return segments;
}
