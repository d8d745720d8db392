/* SPDX-License-Identifier: MIT */
/*
 * Processes with regions whose figures a test sets, without the library:
 *
 *   puppet DIR [COUNT [DEVICES]]
 *
 * makes COUNT processes (1), each with a region in DIR and DEVICES devices (1), prints their pids,
 * and lives until its standard input ends. One alone takes lines: NAME VALUE sets a figure of its
 * first device, "comm WORD" its name.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "stats/counters.h"
#include "stats/region.h"

#define GIB       (UINT64_C(1) << 30)
#define COUNT_MAX 4096

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static struct cm_device_row *add_device(struct cm_region *region, uint32_t index)
{
	struct cm_device_row *row;

	if (cm_region_commit(region, CM_TABLE_DEVICE, index + 1))
		fail("cm_region_commit");
	row = cm_region_row(region, CM_TABLE_DEVICE, index);
	row->flags = CM_DEVICE_USED | CM_DEVICE_SIMULATED;
	row->ordinal = (int32_t)index;
	row->uuid[0] = (uint8_t)(index + 1);
	(void)snprintf(row->name, sizeof(row->name), "Puppet");
	row->total_bytes = 80 * GIB;
	row->free_bytes = 40 * GIB;
	row->free_seen_ns = 1;
	return row;
}

static struct cm_region *make_region(const char *dir, uint32_t devices)
{
	const struct cm_region_params params = {.dir = dir, .version = "0.1.0", .events = 64};
	struct cm_region *region;
	struct timespec now;
	uint32_t i;

	if (cm_region_create(&params, &region) || !region->path[0])
		fail(dir);
	(void)snprintf(region->header->comm, sizeof(region->header->comm), "puppet");
	(void)snprintf(region->header->cmdline, sizeof(region->header->cmdline), "./puppet");
	for (i = 0; i < devices; i++)
		(void)add_device(region, i);
	(void)clock_gettime(CLOCK_REALTIME, &now);
	region->header->time_base_ns = (uint64_t)now.tv_sec * UINT64_C(1000000000) +
				       (uint64_t)now.tv_nsec;
	region->header->state = CM_REGION_LIVE;
	return region;
}

static void set_figure(struct cm_region *region, const char *name, int64_t value)
{
	struct cm_device_row *row = cm_region_row(region, CM_TABLE_DEVICE, 0);
	struct cm_stat_pool *pool = &row->stat[CM_POOL_LARGE];

	if (!strcmp(name, "allocated"))
		pool->current[CM_STAT_ALLOCATED_BYTES] = pool->current[CM_STAT_ACTIVE_BYTES] =
			value;
	else if (!strcmp(name, "reserved"))
		pool->current[CM_STAT_RESERVED_BYTES] = value;
	else if (!strcmp(name, "held"))
		pool->current[CM_STAT_INACTIVE_SPLIT_BYTES] = value;
	else if (!strcmp(name, "ooms"))
		row->scalar[CM_SCALAR_num_ooms] = value;
	else if (!strcmp(name, "hits"))
		row->scalar[CM_SCALAR_cache_hits] = value;
	else if (!strcmp(name, "gpu"))
		row->uuid[0] = (uint8_t)value;
	else if (!strcmp(name, "major"))
		region->header->major = (uint16_t)value;
	else
		fail(name);
}

static void obey(struct cm_region *region)
{
	char line[128], name[32], word[64];

	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "%31s %63[^\n]", name, word) != 2)
			fail(line);
		if (!strcmp(name, "comm"))
			(void)snprintf(region->header->comm, sizeof(region->header->comm), "%s",
				       word);
		else
			set_figure(region, name, strtoll(word, NULL, 0));
		(void)printf("done\n");
		(void)fflush(stdout);
	}
	cm_region_remove(region);
}

static void live_as_child(const char *dir, uint32_t devices)
{
	struct cm_region *region;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	region = make_region(dir, devices);
	set_figure(region, "reserved", getpid());
	(void)printf("%d\n", (int)getpid());
	(void)fflush(stdout);
	for (;;)
		(void)pause();
}

int main(int argc, char **argv)
{
	const int count = argc > 2 ? atoi(argv[2]) : 1;
	const uint32_t devices = argc > 3 ? (uint32_t)atoi(argv[3]) : 1;
	struct cm_region *region;
	int i;

	if (argc < 2 || count < 1 || count > COUNT_MAX || devices > CM_DEVICES_MAX)
		return 2;
	if (count == 1) {
		region = make_region(argv[1], devices);
		(void)printf("%d\n", (int)getpid());
		(void)fflush(stdout);
		obey(region);
		return 0;
	}
	for (i = 0; i < count; i++)
		if (!fork())
			live_as_child(argv[1], devices);
	while (getchar() != EOF)
		;
	(void)kill(0, SIGKILL); /* the caller has made us a group of our own */
	return 0;
}
