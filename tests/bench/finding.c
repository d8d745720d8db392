/* SPDX-License-Identifier: MIT */
/*
 * What it takes to find the regions of a busy node:
 *
 *   finding PROCESSES NAMESPACES REGIONS FILES
 *
 * starts PROCESSES that share NAMESPACES mount namespaces, each with a /dev/shm of its own; REGIONS
 * of them have a region, in turn over the namespaces, and four others have FILES open files each.
 * Prints the least time of ten searches. Needs the right to make mount namespaces.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "clock.h"
#include "stats/finder.h"
#include "stats/region.h"

#define TURNS  10
#define OPENER 4 /* processes with many open files */

struct plan {
	unsigned processes, namespaces, regions, files;
};

static void fail(const char *what)
{
	(void)fprintf(stderr, "finding: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void open_files(unsigned files)
{
	const struct rlimit limit = {files + 64, files + 64};

	if (setrlimit(RLIMIT_NOFILE, &limit))
		fail("setrlimit");
	while (files--)
		if (open("/dev/null", O_RDONLY) < 0)
			fail("open");
}

static void make_region(void)
{
	const struct cm_region_params params = {.version = "finding"};
	struct cm_region *region;

	if (cm_region_create(&params, &region) || !region->path[0])
		fail("cm_region_create");
}

/* One process of a namespace; says that it is ready, and waits for the end. */
static void live(const struct plan *plan, unsigned number, int ready)
{
	if (prctl(PR_SET_PDEATHSIG, SIGKILL))
		fail("prctl");
	if (number < plan->regions)
		make_region();
	else if (number < plan->regions + OPENER)
		open_files(plan->files);
	if (write(ready, "", 1) != 1)
		fail("write");
	for (;;)
		(void)pause();
}

static void fork_member(const struct plan *plan, unsigned number, int ready)
{
	const pid_t child = fork();

	if (child < 0)
		fail("fork");
	if (!child)
		live(plan, number, ready);
}

/* A container: its first process makes the namespace and has the others as its children. */
static void contain(const struct plan *plan, unsigned number, int ready)
{
	unsigned member;

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || unshare(CLONE_NEWNS) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("shm", CM_REGION_DIR, "tmpfs", 0, "size=64m"))
		fail("a mount namespace");
	for (member = number + plan->namespaces; member < plan->processes;
	     member += plan->namespaces)
		fork_member(plan, member, ready);
	live(plan, number, ready);
}

static void count(void *data, const struct cm_find *find)
{
	unsigned *held = data;

	*held += find->held && strstr(find->path, "/root" CM_REGION_DIR) != NULL;
}

static double search(unsigned regions)
{
	const uint64_t from = clock_ns(CLOCK_MONOTONIC);
	unsigned held = 0;
	uint64_t to;

	(void)cm_find_regions(NULL, 0, count, &held);
	to = clock_ns(CLOCK_MONOTONIC);
	if (held < regions) {
		(void)fprintf(stderr, "finding: %u regions of %u\n", held, regions);
		exit(1);
	}
	return (double)(to - from) / 1e6;
}

int main(int argc, char **argv)
{
	struct plan plan;
	double least = 0, took;
	unsigned i;
	int ready[2];
	char byte;

	if (argc != 5) {
		(void)fprintf(stderr, "usage: finding PROCESSES NAMESPACES REGIONS FILES\n");
		return 2;
	}
	plan.processes = (unsigned)strtoul(argv[1], NULL, 10);
	plan.namespaces = (unsigned)strtoul(argv[2], NULL, 10);
	plan.regions = (unsigned)strtoul(argv[3], NULL, 10);
	plan.files = (unsigned)strtoul(argv[4], NULL, 10);
	if (pipe(ready))
		fail("pipe");
	for (i = 0; i < plan.namespaces; i++) {
		const pid_t child = fork();

		if (child < 0)
			fail("fork");
		if (!child)
			contain(&plan, i, ready[1]);
	}
	(void)close(ready[1]); /* if all of them fail, the read ends */
	for (i = 0; i < plan.processes; i++)
		if (read(ready[0], &byte, 1) != 1)
			fail("the processes");
	for (i = 0; i < TURNS; i++) {
		took = search(plan.regions);
		least = !i || took < least ? took : least;
	}
	(void)printf("find_ms %.2f\n", least);
	return 0;
}
