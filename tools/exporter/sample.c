/* SPDX-License-Identifier: MIT */
#include "tools/exporter/sample.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "stats/counters.h"
#include "stats/region.h"
#include "stats/summary.h"
#include "stats/text.h"
#include "stats/tick.h"
#include "tools/cli/exits.h"
#include "tools/processes/collect.h"

#define FILES_MAX 65536 /* of the region folder that are looked at */

enum unreadable {
	CM_UNREADABLE_PERMISSION,
	CM_UNREADABLE_VERSION,
	CM_UNREADABLE_DAMAGED,
	CM_UNREADABLE_RESOURCES, /* of this process: descriptors or memory */
	CM_UNREADABLE_COUNT
};

const char *const cm_group_labels[CM_GROUP_BY_COUNT] = {"pid", "container_id", "slurm_job_id",
							"user", "comm"};

/* What the expressions of metrics.def call `from`, one a scope. */
struct device_source {
	struct cm_device_row row;
	struct cm_summary sum;
	const struct cm_survey_pool *found; /* NULL: the block table could not be read */
	double allocation_bytes;
};

struct process_source {
	struct cm_host_row host;
	uint64_t age_ns;
};

struct node_source {
	double lives[CM_LIFE_COUNT];
	double unreadable[CM_UNREADABLE_COUNT];
	double region_bytes;
	double dir_free_bytes;
	double scrape_ns;
	double dropped;
	double torn_reads;
};

#define OTHER(kind)   (double)from->row.other_bytes[CM_UNCACHED_##kind].current
#define SCALAR(field) (double)from->row.scalar[CM_SCALAR_##field]

/* The rows of one scope of the table as assignments; those of the other scopes expand to
 * nothing. */
#define SET(ID, expression) value[CM_METRIC_##ID] = (double)(expression);

static void fill_device(const struct device_source *from, double *value)
{
#define DEVICE(ID, expression) SET(ID, expression)
#define PROCESS(ID, expression)
#define GPU(ID, expression)
#define NODE(ID, expression)
#define CM_METRIC(ID, TYPE, SCOPE, JOIN, name, unit, label, word, expression, help) \
	SCOPE(ID, expression)
#include "tools/exporter/metrics.def"
#undef DEVICE
#undef PROCESS
}

static void fill_process(const struct process_source *from, double *value)
{
#define DEVICE(ID, expression)
#define PROCESS(ID, expression) SET(ID, expression)
#define CM_METRIC(ID, TYPE, SCOPE, JOIN, name, unit, label, word, expression, help) \
	SCOPE(ID, expression)
#include "tools/exporter/metrics.def"
#undef PROCESS
#undef GPU
}

static void fill_gpu(const struct cm_device_row *from, double *value)
{
#define PROCESS(ID, expression)
#define GPU(ID, expression) SET(ID, expression)
#define CM_METRIC(ID, TYPE, SCOPE, JOIN, name, unit, label, word, expression, help) \
	SCOPE(ID, expression)
#include "tools/exporter/metrics.def"
#undef GPU
#undef NODE
}

static void fill_node(const struct node_source *from, double *value)
{
#define GPU(ID, expression)
#define NODE(ID, expression) SET(ID, expression)
#define CM_METRIC(ID, TYPE, SCOPE, JOIN, name, unit, label, word, expression, help) \
	SCOPE(ID, expression)
#include "tools/exporter/metrics.def"
}

static void clear_values(double *value)
{
	size_t i;

	for (i = 0; i < CM_METRIC_COUNT; i++)
		value[i] = NAN;
}

static double seconds_of(uint64_t ns)
{
	return (double)ns / 1e9;
}

/* What one sample gathers. */
struct look {
	struct cm_sampler *sampler;
	struct cm_sample *sample;
	struct node_source node;
	bool failed; /* no memory */
};

static void read_mode(struct cm_reader *reader, char *to, size_t bytes)
{
	const uint32_t rows = reader->header.table[CM_TABLE_OPTION].rows;
	struct cm_option_row row;
	uint32_t i;

	for (i = 0; i < rows; i++)
		if (!cm_reader_read_option(reader, i, &row) && !strcmp(row.name, "mode"))
			cm_text_clean(to, bytes, row.value);
}

static void fill_who(const struct cm_process *process, enum cm_group_by group_by,
		     struct cm_who *who)
{
	const struct cm_header *header = &process->reader->header;

	memset(who, 0, sizeof(*who));
	who->pid = process->pid;
	who->ns_pid = (pid_t)header->pid;
	who->uid = process->uid;
	memcpy(who->user, process->user, sizeof(who->user));
	memcpy(who->comm, process->comm, sizeof(who->comm));
	cm_text_clean(who->version, sizeof(who->version), header->version);
	read_mode(process->reader, who->mode, sizeof(who->mode));
	if (process->reader->pid > 0)
		cm_identity_read(process->reader->pid, &who->identity);
	if (group_by == CM_GROUP_PID)
		(void)snprintf(who->group, sizeof(who->group), "%d", (int)who->pid);
	else
		(void)snprintf(who->group, sizeof(who->group), "%s",
			       group_by == CM_GROUP_CONTAINER ? who->identity.container_id
			       : group_by == CM_GROUP_JOB     ? who->identity.slurm_job_id
			       : group_by == CM_GROUP_USER    ? who->user
							      : who->comm);
}

static struct cm_who *add_who(struct cm_sample *sample)
{
	struct cm_who *who = reallocarray(sample->who, sample->who_count + 1, sizeof(*who));

	if (!who)
		return NULL;
	sample->who = who;
	return &who[sample->who_count++];
}

static void note_gpu(struct cm_sample *sample, const char *uuid, const struct cm_device_row *row)
{
	struct cm_gpu *gpu = sample->gpu;

	while (gpu < sample->gpu + sample->gpus && strcmp(gpu->uuid, uuid) != 0)
		gpu++;
	if (gpu == sample->gpu + sample->gpus) {
		if (sample->gpus == CM_DEVICES_MAX)
			return;
		sample->gpus++;
	} else if (row->free_seen_ns <= gpu->free_seen_ns) {
		return;
	}
	(void)snprintf(gpu->uuid, sizeof(gpu->uuid), "%s", uuid);
	cm_text_clean(gpu->model, sizeof(gpu->model), row->name);
	cm_text_clean(gpu->pci, sizeof(gpu->pci), row->pci);
	gpu->simulated = row->flags & CM_DEVICE_SIMULATED;
	gpu->free_seen_ns = row->free_seen_ns;
	clear_values(gpu->value);
	fill_gpu(row, gpu->value);
}

/* When the library says that it began to count; 0 if that is in the future. */
static double created_of(const struct cm_header *header)
{
	return header->time_base_ns <= cm_time_now() ? seconds_of(header->time_base_ns) : 0;
}

static struct cm_row *add_row(struct cm_rows *rows, const struct cm_process *process,
			      const struct cm_who *who)
{
	struct cm_row *row = cm_rows_add(rows);

	if (!row)
		return NULL;
	memcpy(row->group, who->group, sizeof(row->group));
	row->pid = process->pid;
	row->start = process->reader->header.start_time;
	row->created = created_of(&process->reader->header);
	return row;
}

static bool add_devices(struct look *look, const struct cm_process *process, struct cm_who *who)
{
	struct cm_survey *survey = NULL;
	struct device_source from;
	struct cm_device_view view;
	bool complete = true;
	struct cm_row *row;
	uint32_t index = 0;

	(void)cm_survey_create(process->reader, &survey);
	while (cm_process_next_device(look->sampler->options, process, &index, &view)) {
		row = add_row(&look->sample->devices, process, who);
		if (!row) {
			complete = false;
			break;
		}
		look->sampler->torn_reads += view.torn;
		from.row = view.row;
		from.sum = cm_summary_pool(&view.row, CM_POOL_ALL);
		from.found = survey ? &survey->pool[view.index][CM_POOL_ALL] : NULL;
		from.allocation_bytes = (double)cm_stat_read(&view.row, CM_POOL_ALL,
							     CM_STAT_ALLOCATED_BYTES)
						.allocated;
		fill_device(&from, row->value);
		row->weight = from.sum.reserved > 0 ? (double)from.sum.reserved : 0;
		who->weight += row->weight;
		(void)cm_uuid_format(view.row.uuid, view.row.name, row->gpu);
		note_gpu(look->sample, row->gpu, &view.row);
	}
	cm_survey_destroy(survey);
	return complete;
}

static bool add_process(struct look *look, const struct cm_process *process)
{
	struct process_source from = {.age_ns = process->age_ns};
	struct cm_who *who = add_who(look->sample);
	struct cm_row *row;
	bool torn;

	if (!who)
		return false;
	fill_who(process, look->sampler->group_by, who);
	if (!add_devices(look, process, who))
		return false;
	row = add_row(&look->sample->processes, process, who);
	if (!row)
		return false;
	row->weight = who->weight;
	if (!cm_reader_read_host(process->reader, &from.host, &torn))
		fill_process(&from, row->value);
	return true;
}

static enum unreadable reason_of(int error)
{
	if (error == -EACCES || error == -EPERM)
		return CM_UNREADABLE_PERMISSION;
	if (error == -EMFILE || error == -ENFILE || error == -ENOMEM)
		return CM_UNREADABLE_RESOURCES;
	return error == -EPROTONOSUPPORT ? CM_UNREADABLE_VERSION : CM_UNREADABLE_DAMAGED;
}

/* Whether the file belongs to the process whose pid it is named after. Anybody can create a file in
 * the folder with the pid of another process; a file that a process holds open is its own. */
static bool is_genuine(const struct cm_process *process)
{
	return process->held || process->reader->pid <= 0 ||
	       cm_identity_is_user(process->reader->pid, process->uid);
}

static void look_at(struct look *look, const struct cm_process *process)
{
	if (!process->reader) {
		look->node.unreadable[reason_of(process->error)]++;
		return;
	}
	if (cm_process_is_dead(process)) {
		look->node.lives[process->life]++;
		return;
	}
	if (!is_genuine(process)) {
		look->node.unreadable[CM_UNREADABLE_DAMAGED]++;
		return;
	}
	look->node.lives[process->life]++;
	look->failed |= !add_process(look, process);
}

/* The bytes that all files of regions take, readable or not, and the bytes that are left in the
 * folder. */
static void measure_dir(const char *path, struct node_source *node)
{
	struct dirent *entry;
	struct statvfs room;
	struct stat st;
	DIR *dir = opendir(path);
	int seen;

	node->region_bytes = NAN;
	node->dir_free_bytes = NAN;
	if (!dir)
		return;
	if (!statvfs(path, &room))
		node->dir_free_bytes = (double)room.f_bavail * (double)room.f_frsize;
	node->region_bytes = 0;
	for (seen = 0; seen < FILES_MAX && (entry = readdir(dir)); seen++)
		if (!strncmp(entry->d_name, CM_REGION_PREFIX, strlen(CM_REGION_PREFIX)) &&
		    !fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW))
			node->region_bytes += 512.0 * (double)st.st_blocks;
	(void)closedir(dir);
}

static int by_memory(const void *a, const void *b)
{
	const struct cm_who *x = a, *y = b;

	if (x->weight != y->weight)
		return x->weight > y->weight ? -1 : 1;
	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static bool is_known_before(const struct cm_who *who, size_t i)
{
	size_t k;

	for (k = 0; k < i; k++)
		if (!strcmp(who[k].group, who[i].group))
			return true;
	return false;
}

/* One entry for each group: two files with the same pid, or two processes of a container, are
 * joined. */
static void reduce_who(struct cm_sample *sample, size_t max)
{
	size_t i, kept = 0;

	if (!sample->who_count)
		return;
	qsort(sample->who, sample->who_count, sizeof(*sample->who), by_memory);
	for (i = 0; i < sample->who_count && kept < max; i++) {
		sample->who[kept] = sample->who[i];
		kept += !is_known_before(sample->who, kept);
	}
	sample->who_count = kept;
}

static void reduce(struct look *look)
{
	struct cm_sampler *sampler = look->sampler;
	struct cm_sample *sample = look->sample;

	if (sampler->group_by == CM_GROUP_PID)
		cm_rows_join(&sample->devices);
	else
		look->failed |= cm_ledger_join(&sampler->ledger, &sample->devices) != 0;
	cm_rows_join(&sample->processes);
	look->node.dropped = (double)cm_rows_cap(&sample->devices, sampler->max_series) +
			     (double)cm_rows_cap(&sample->processes, sampler->max_series);
	reduce_who(sample, sampler->max_series);
}

int cm_sample_take(struct cm_sampler *sampler, struct cm_sample *ret_sample)
{
	struct cm_sample *sample = ret_sample;
	struct look look = {.sampler = sampler, .sample = sample};
	const uint64_t begin = cm_monotonic_ns();
	struct cm_processes processes;
	size_t i;
	int exit;

	memset(sample, 0, sizeof(*sample));
	sample->group_by = sampler->group_by;
	sample->started = sampler->started;
	sample->dir = sampler->options->dir ? sampler->options->dir : CM_REGION_DIR;
	exit = cm_collect(sampler->options, NULL, &processes);
	if (exit)
		return exit;
	for (i = 0; i < processes.count; i++)
		look_at(&look, &processes.item[i]);
	cm_processes_free(&processes);
	reduce(&look);
	if (look.failed) {
		cm_sample_fini(sample);
		return cm_fail_memory();
	}
	measure_dir(sample->dir, &look.node);
	look.node.torn_reads = (double)sampler->torn_reads;
	look.node.scrape_ns = (double)(cm_monotonic_ns() - begin);
	clear_values(sample->value);
	fill_node(&look.node, sample->value);
	return CM_EXIT_OK;
}

void cm_sample_fini(struct cm_sample *sample)
{
	cm_rows_fini(&sample->devices);
	cm_rows_fini(&sample->processes);
	free(sample->who);
	memset(sample, 0, sizeof(*sample));
}
