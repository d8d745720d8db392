/* SPDX-License-Identifier: MIT */
#include "tools/processes/targets.h"

#include <string.h>

#include "stats/units.h"
#include "tools/cli/exits.h"

static int work_on(const struct cm_options *options, struct cm_process *process, cm_work_fn work,
		   void *data)
{
	if (!process->reader)
		return cm_process_complain(process);
	/* With --all those are meant that can be changed. */
	if (options->every && cm_process_is_dead(process))
		return CM_EXIT_OK;
	return work(options, process, data);
}

/* How many of the processes found, of which the living come first, are to be changed: a word means
 * the living, if there are any; a pid means that process. */
static size_t count_changed(const char *target, const struct cm_processes *found)
{
	size_t living = 0;
	uint64_t pid;

	while (living < found->count && !cm_process_is_dead(&found->item[living]))
		living++;
	return living && target && cm_number_parse(target, INT32_MAX, &pid) ? living : found->count;
}

static int for_each(const struct cm_options *options, bool change, cm_work_fn work, void *data)
{
	const int count = options->region ? 1 : options->arg_count;
	struct cm_processes found;
	const char *target;
	int exit = -1, i, err;
	size_t p, end;

	for (i = 0; i < count; i++) {
		target = options->region ? NULL : options->args[i];
		err = cm_collect(options, target, &found);
		if (err) {
			exit = cm_exit_join(exit, err);
			continue;
		}
		end = change ? count_changed(target, &found) : found.count;
		for (p = 0; p < end; p++)
			exit = cm_exit_join(exit, work_on(options, &found.item[p], work, data));
		cm_processes_free(&found);
	}
	return exit;
}

int cm_for_processes(const struct cm_options *options, cm_work_fn work, void *data)
{
	return for_each(options, false, work, data);
}

int cm_change_processes(const struct cm_options *options, cm_work_fn work, void *data)
{
	return for_each(options, true, work, data);
}

/* One that has ended has nothing left to change. */
static bool is_meant(const struct cm_process *process, const char *pattern)
{
	return !cm_process_is_dead(process) && strstr(process->command, pattern);
}

static int check_pattern(const struct cm_processes *all, const char *pattern)
{
	size_t p, count = 0;

	for (p = 0; p < all->count; p++)
		count += is_meant(&all->item[p], pattern);
	if (count < 2)
		return CM_EXIT_OK;
	cm_complain("'%s' means %zu processes; name one by its pid, or say --all", pattern, count);
	for (p = 0; p < all->count; p++)
		if (is_meant(&all->item[p], pattern))
			cm_advise("%d %s", (int)all->item[p].pid, all->item[p].command);
	return CM_EXIT_USAGE;
}

int cm_check_targets(const struct cm_options *options)
{
	struct cm_processes all;
	uint64_t pid;
	int i, exit = CM_EXIT_OK;

	if (options->region || options->every)
		return CM_EXIT_OK;
	for (i = 0; i < options->arg_count && !exit; i++) {
		if (!cm_number_parse(options->args[i], INT32_MAX, &pid) ||
		    cm_is_file_name(options->args[i]))
			continue;
		exit = cm_collect(options, NULL, &all);
		if (exit)
			return exit;
		exit = check_pattern(&all, options->args[i]);
		cm_processes_free(&all);
	}
	return exit;
}
