/* SPDX-License-Identifier: MIT */
#include "tools/watch/live.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "stats/region.h"
#include "stats/text.h"
#include "stats/tick.h"
#include "tools/cli/exits.h"
#include "tools/output/reserve.h"
#include "tools/output/text.h"

/* Regions in other folders are only found by looking through all processes, which takes 20 ms on a
 * busy node: at 10 s that is 0.2 % of a core. */
#define SCAN_NS     (10 * CM_NS_PER_S)
#define SCAN_MIN_NS (CM_NS_PER_S / 2) /* for a folder that changes all the time */

struct live {
	struct cm_watch_source source;
	const struct cm_options *options;
	struct cm_processes processes;
	struct cm_watched *watched; /* of each process */
	size_t watched_room;
	struct cm_device_view *devices; /* of all */
	size_t devices_room;
	struct timespec dir_changed;
	bool scan_again;     /* a region that was being created was left out */
	uint64_t scanned_ns; /* CLOCK_MONOTONIC; 0: never */
	uint64_t taken_ns;
};

/* Drops the processes that --pid does not name. */
static void select_wanted(struct live *live)
{
	struct cm_processes *all = &live->processes;
	size_t i, kept = 0;

	for (i = 0; i < all->count; i++) {
		if (cm_process_is_wanted(live->options, &all->item[i]))
			all->item[kept++] = all->item[i];
		else
			cm_reader_close(all->item[i].reader);
	}
	all->count = kept;
}

static void drop_samples(struct live *live)
{
	size_t i;

	for (i = 0; i < live->processes.count && i < live->watched_room; i++) {
		cm_survey_destroy(live->watched[i].survey);
		live->watched[i].survey = NULL;
	}
}

/* What does not change in the life of a process. */
static void identify(const struct cm_process *process, struct cm_watched *watched)
{
	memset(watched, 0, sizeof(*watched));
	watched->ns_pid = process->pid;
	if (!process->reader)
		return;
	watched->ns_pid = (pid_t)process->reader->header.pid;
	watched->start_time = process->reader->header.start_time;
	cm_text_clean(watched->version, sizeof(watched->version), process->reader->header.version);
	if (process->reader->pid > 0 && !cm_process_is_dead(process))
		cm_identity_read(process->reader->pid, &watched->identity);
}

/* Finds the processes again, those of `target` or all. 0, or an exit code after a complaint: then
 * the old ones stay. */
static int scan(struct live *live, const char *target)
{
	struct cm_processes found;
	size_t i;
	int exit;

	exit = cm_collect(live->options, target, &found);
	if (exit)
		return exit;
	drop_samples(live);
	if (!cm_reserve(&live->watched, &live->watched_room, found.count)) {
		cm_processes_free(&found);
		return cm_fail_memory();
	}
	cm_processes_free(&live->processes);
	live->processes = found;
	select_wanted(live);
	for (i = 0; i < live->processes.count; i++)
		identify(&live->processes.item[i], &live->watched[i]);
	live->scanned_ns = cm_monotonic_ns();
	return CM_EXIT_OK;
}

/* Was a file added to the region folder, or removed from it? */
static bool has_folder_changed(struct live *live)
{
	const char *dir = live->options->dir ? live->options->dir : CM_REGION_DIR;
	struct timespec before = live->dir_changed;
	struct stat st;

	if (stat(dir, &st))
		return false;
	live->dir_changed = st.st_mtim;
	return before.tv_sec != st.st_mtim.tv_sec || before.tv_nsec != st.st_mtim.tv_nsec;
}

/* A file that the user has named is read until the end, whatever happens to it. */
static bool is_scan_due(struct live *live)
{
	const uint64_t since = cm_monotonic_ns() - live->scanned_ns;
	bool again;

	if (live->options->region || since < SCAN_MIN_NS)
		return false;
	again = live->scan_again;
	live->scan_again = has_folder_changed(live);
	return live->scan_again || again || since >= SCAN_NS;
}

/* Reads the devices of a process behind those that live->devices has already. */
static bool read_devices(struct live *live, const struct cm_process *process, size_t *count)
{
	uint32_t index = 0;

	for (;; (*count)++) {
		if (!cm_reserve(&live->devices, &live->devices_room, *count + 1))
			return false;
		if (!cm_process_next_device(live->options, process, &index, &live->devices[*count]))
			return true;
	}
}

static bool read_process(struct live *live, size_t i, size_t *devices)
{
	struct cm_process *process = &live->processes.item[i];
	struct cm_watched *watched = &live->watched[i];
	const size_t first = *devices;
	struct cm_survey *survey = NULL;
	bool torn;

	watched->process = process;
	watched->devices = 0;
	if (!process->reader)
		return true;
	(void)cm_reader_refresh(process->reader); /* tables grow; on failure the old copy stays */
	process->life = cm_reader_life(process->reader);
	watched->has_host = !cm_reader_read_host(process->reader, &watched->host, &torn);
	if (live->source.want_survey)
		(void)cm_survey_create(process->reader, &survey);
	watched->survey = survey;
	if (!read_devices(live, process, devices))
		return false;
	watched->devices = *devices - first;
	return true;
}

static int take_sample(struct cm_watch_source *source, struct cm_watch_sample *ret_sample)
{
	struct live *live = (struct live *)source;
	const uint64_t now = cm_monotonic_ns();
	size_t devices = 0, i;

	drop_samples(live);
	if (is_scan_due(live))
		(void)scan(live, NULL); /* after a failure the old ones are watched on */
	for (i = 0; i < live->processes.count; i++) {
		if (live->processes.item[i].age_ns && live->taken_ns > live->scanned_ns)
			live->processes.item[i].age_ns += now - live->taken_ns;
		if (!read_process(live, i, &devices))
			return -ENOMEM;
	}
	/* The array has its place only now. */
	for (i = 0, devices = 0; i < live->processes.count; i++) {
		live->watched[i].device = live->devices + devices;
		devices += live->watched[i].devices;
	}
	live->taken_ns = now;
	ret_sample->time_ns = cm_time_now();
	ret_sample->monotonic_ns = now;
	ret_sample->process = live->watched;
	ret_sample->count = live->processes.count;
	return 0;
}

static void close_live(struct cm_watch_source *source)
{
	struct live *live = (struct live *)source;

	drop_samples(live);
	cm_processes_free(&live->processes);
	free(live->watched);
	free(live->devices);
	free(live);
}

int cm_watch_live_open(const struct cm_options *options, struct cm_watch_source **ret_source)
{
	struct live *live = calloc(1, sizeof(*live));
	int exit;

	if (!live)
		return cm_fail_memory();
	live->source.take = take_sample;
	live->source.close = close_live;
	live->options = options;
	(void)has_folder_changed(live);
	exit = scan(live, options->pid);
	if (exit) {
		close_live(&live->source);
		return exit;
	}
	*ret_source = &live->source;
	return CM_EXIT_OK;
}
