/* SPDX-License-Identifier: MIT */
#include "tools/top/model.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stats/counters.h"
#include "stats/text.h"
#include "tools/cli/exits.h"
#include "tools/output/reserve.h"

void cm_top_init(struct cm_top *top)
{
	char host[sizeof(top->host)] = "";

	memset(top, 0, sizeof(*top));
	(void)gethostname(host, sizeof(host) - 1);
	cm_text_clean(top->host, sizeof(top->host), host);
	top->sort = CM_WATCH_COLUMN_ALLOC;
	top->interval_ns = UINT64_C(1000000000);
}

void cm_top_fini(struct cm_top *top)
{
	size_t i;

	for (i = 0; i < top->rows; i++)
		free(top->row[i]);
	for (i = 0; i < top->groups_room; i++)
		free(top->group[i]);
	free(top->row);
	free(top->group);
	free(top->shown);
	free(top->detail);
	cm_where_free(top->where);
	memset(top, 0, sizeof(*top));
}

void cm_top_say(struct cm_top *top, bool alarming, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(top->message, sizeof(top->message), format, args);
	va_end(args);
	top->message[strcspn(top->message, "\n")] = '\0';
	top->alarming = alarming;
}

void cm_top_set_detail(struct cm_top *top, char *text)
{
	free(top->detail);
	top->detail = text;
	top->wants_detail = false;
}

bool cm_top_set_filter(struct cm_top *top, const char *text)
{
	struct cm_where *where = NULL;
	FILE *complaints = fmemopen(top->message, sizeof(top->message), "w");
	int exit = CM_EXIT_OK;

	top->message[0] = '\0';
	cm_complain_to(complaints);
	if (*text)
		exit = cm_where_parse(&cm_top_column_set, "where", text, &where);
	cm_complain_to(NULL);
	if (complaints)
		(void)fclose(complaints);
	top->message[sizeof(top->message) - 1] = '\0';
	top->message[strcspn(top->message, "\n")] = '\0';
	top->alarming = exit != CM_EXIT_OK;
	if (exit)
		return false;
	cm_where_free(top->where);
	top->where = where;
	(void)snprintf(top->filter, sizeof(top->filter), "%s", text);
	return true;
}

bool cm_top_wants_survey(const struct cm_top *top)
{
	static const size_t slow[] = {CM_WATCH_COLUMN_LARGEST, CM_WATCH_COLUMN_FRAG};
	size_t i, k;

	for (k = 0; k < sizeof(slow) / sizeof(slow[0]); k++) {
		if (cm_where_wants(top->where, slow[k]) || top->sort == slow[k])
			return true;
		for (i = 0; i < top->columns; i++)
			if (top->column[i] == slow[k])
				return true;
	}
	return false;
}

static struct cm_top_row *find_row(const struct cm_top *top, const struct cm_watched *watched,
				   uint32_t device)
{
	size_t i;

	for (i = 0; i < top->rows; i++) {
		struct cm_top_row *row = top->row[i];

		if (row->pid == watched->process->pid && row->start_time == watched->start_time &&
		    row->device == device && !strcmp(row->path, watched->process->path))
			return row;
	}
	return NULL;
}

static struct cm_top_row *add_row(struct cm_top *top, const struct cm_watched *watched,
				  uint32_t device)
{
	struct cm_top_row *row;

	if (!cm_reserve(&top->row, &top->rows_room, top->rows + 1))
		return NULL;
	row = calloc(1, sizeof(*row));
	if (!row)
		return NULL;
	row->pid = watched->process->pid;
	row->start_time = watched->start_time;
	row->device = device;
	row->gpu = -1;
	row->place = SIZE_MAX;
	(void)snprintf(row->path, sizeof(row->path), "%s", watched->process->path);
	top->row[top->rows++] = row;
	return row;
}

static void copy_text(char *to, size_t bytes, const char *from)
{
	(void)cm_text_clean(to, bytes, from); /* cuts at a character's border */
}

/* Copies what a row needs of a process, and lets the values point at the copies. */
static void copy_process(struct cm_top_row *row, const struct cm_watched *watched)
{
	const struct cm_process *process = watched->process;
	struct cm_value *value = row->value;

	row->uid = process->uid;
	row->life = process->life;
	row->error = process->error;
	row->up_ns = process->age_ns;
	row->recording = process->reader && process->reader->header.record.events;
	copy_text(row->user, sizeof(row->user), process->user);
	copy_text(row->comm, sizeof(row->comm), process->comm);
	copy_text(row->command, sizeof(row->command), process->command);
	copy_text(row->version, sizeof(row->version), watched->version);
	copy_text(row->container, sizeof(row->container), watched->identity.container_id);
	copy_text(row->pod, sizeof(row->pod), watched->identity.pod_uid);
	copy_text(row->job, sizeof(row->job), watched->identity.slurm_job_id);
	cm_watch_fill_process(watched, value);
	value[CM_WATCH_COLUMN_USER].text = row->user;
	value[CM_WATCH_COLUMN_COMMAND].text = row->command;
	value[CM_WATCH_COLUMN_REGION].text = row->path;
	if (!row->error) {
		value[CM_WATCH_COLUMN_COMM].text = row->comm;
		value[CM_WATCH_COLUMN_VERSION].text = row->version;
	}
	if (*row->container)
		value[CM_TOP_COLUMN_CONTAINER] = cm_value_text(row->container);
	if (*row->pod)
		value[CM_TOP_COLUMN_POD] = cm_value_text(row->pod);
	if (*row->job)
		value[CM_TOP_COLUMN_JOB] = cm_value_text(row->job);
}

/* The change of a counter per second; nothing if it was reset meanwhile. */
static struct cm_value rate_of(int64_t before, int64_t after, uint64_t ns, bool counter)
{
	const double rate = ((double)after - (double)before) * 1e9 / (double)ns;

	if (!ns || (counter && after < before) || rate > 9e18 || rate < -9e18)
		return (struct cm_value){0};
	return cm_value_number((int64_t)(rate < 0 ? rate - 0.5 : rate + 0.5));
}

static struct cm_top_counters counters_of(const struct cm_device_row *row,
					  const struct cm_summary *sum, uint64_t taken_ns)
{
	return (struct cm_top_counters){
		.taken_ns = taken_ns,
		.allocated = sum->allocated,
		.allocs = sum->allocs,
		.driver_calls = cm_wrap_add(row->scalar[CM_SCALAR_num_device_alloc],
					    row->scalar[CM_SCALAR_num_device_free]),
		.ooms = row->scalar[CM_SCALAR_num_ooms],
	};
}

static void fill_rates(struct cm_top_row *row, const struct cm_top_counters *now)
{
	const struct cm_top_counters *last = &row->last;
	const uint64_t ns = last->taken_ns ? now->taken_ns - last->taken_ns : 0;

	row->value[CM_TOP_COLUMN_GROWTH] = rate_of(last->allocated, now->allocated, ns, false);
	if (row->value[CM_TOP_COLUMN_GROWTH].kind)
		row->value[CM_TOP_COLUMN_GROWTH].kind = CM_VALUE_BYTES;
	row->value[CM_TOP_COLUMN_ALLOC_RATE] = rate_of(last->allocs, now->allocs, ns, true);
	row->value[CM_TOP_COLUMN_DRIVER_RATE] = rate_of(last->driver_calls, now->driver_calls, ns,
							true);
}

static int find_gpu(struct cm_top *top, const struct cm_device_row *row)
{
	struct cm_top_gpu *gpu = top->gpu;

	while (gpu < top->gpu + top->gpus && memcmp(gpu->uuid, row->uuid, sizeof(gpu->uuid)) != 0)
		gpu++;
	if (gpu < top->gpu + top->gpus)
		return (int)(gpu - top->gpu);
	if (top->gpus == CM_TOP_GPUS_MAX)
		return -1;
	memset(gpu, 0, sizeof(*gpu));
	memcpy(gpu->uuid, row->uuid, sizeof(gpu->uuid));
	copy_text(gpu->model, sizeof(gpu->model), row->name);
	copy_text(gpu->pci, sizeof(gpu->pci), row->pci);
	gpu->ordinal = row->ordinal;
	gpu->simulated = row->flags & CM_DEVICE_SIMULATED;
	return (int)top->gpus++;
}

/* The youngest answer of the driver about the card counts. */
static void note_card(struct cm_top_gpu *gpu, const struct cm_device_row *row)
{
	gpu->total = row->total_bytes < INT64_MAX ? (int64_t)row->total_bytes : INT64_MAX;
	if (!row->free_seen_ns || row->free_seen_ns < gpu->free_seen_ns)
		return;
	gpu->free_seen_ns = row->free_seen_ns;
	gpu->free = row->free_bytes < (uint64_t)gpu->total ? (int64_t)row->free_bytes : gpu->total;
	gpu->free_known = true;
}

/* A torn sample is left out: the row keeps the figures of the one before. But a process that was
 * killed or stopped within a change stays torn, and has no better ones. */
static void take_device(struct cm_top *top, struct cm_top_row *row,
			const struct cm_watched *watched, const struct cm_device_view *view,
			uint64_t taken_ns, uint64_t time_ns)
{
	struct cm_top_counters now;

	row->gpu = find_gpu(top, &view->row);
	if (row->gpu >= 0)
		note_card(&top->gpu[row->gpu], &view->row);
	if (view->torn && row->life == CM_LIFE_RUNNING) {
		top->torn++;
		return;
	}
	row->sum = cm_summary_pool(&view->row, CM_POOL_ALL);
	row->uncached = cm_summary_other(&view->row);
	now = counters_of(&view->row, &row->sum, taken_ns);
	cm_watch_fill_device(watched, view, &row->texts, row->value);
	fill_rates(row, &now);
	if (row->last.taken_ns && now.ooms > row->last.ooms)
		row->oom_ns = time_ns;
	cm_top_history_add(&row->history,
			   (struct cm_top_point){now.allocated, row->sum.reserved,
						 row->last.taken_ns && now.ooms > row->last.ooms});
	row->last = now;
}

static int take_process(struct cm_top *top, const struct cm_watched *watched,
			const struct cm_watch_sample *sample)
{
	const size_t lines = watched->devices ? watched->devices : 1;
	size_t i;

	for (i = 0; i < lines; i++) {
		const struct cm_device_view *view = watched->devices ? &watched->device[i] : NULL;
		const uint32_t device = view ? view->index : CM_DEVICE_NONE;
		struct cm_top_row *row = find_row(top, watched, device);

		if (!row)
			row = add_row(top, watched, device);
		if (!row)
			return -ENOMEM;
		row->seen = true;
		copy_process(row, watched);
		if (view)
			take_device(top, row, watched, view, sample->monotonic_ns, sample->time_ns);
	}
	return 0;
}

static void drop_unseen(struct cm_top *top)
{
	size_t i, kept = 0;

	for (i = 0; i < top->rows; i++) {
		if (top->row[i]->seen) {
			top->row[kept++] = top->row[i];
			continue;
		}
		if (top->selected == top->row[i])
			top->selected = NULL;
		free(top->row[i]);
	}
	top->rows = kept;
}

static void clear_sums(struct cm_top_gpu *gpu)
{
	gpu->allocated = gpu->pending = gpu->fragmented = gpu->releasable = 0;
	gpu->others = gpu->reserved = gpu->ooms = 0;
	gpu->processes = 0;
}

/* The memory that a process had when it crashed is no longer on the card. */
static bool holds_memory(const struct cm_top_row *row)
{
	return row->gpu >= 0 && (row->life == CM_LIFE_RUNNING || row->life == CM_LIFE_STOPPED);
}

static void add_sums(struct cm_top_gpu *gpu, const struct cm_top_row *row)
{
	gpu->allocated = cm_wrap_add(gpu->allocated, row->sum.allocated);
	gpu->pending = cm_wrap_add(gpu->pending, row->sum.pending);
	gpu->fragmented = cm_wrap_add(gpu->fragmented, row->sum.fragmented);
	gpu->releasable = cm_wrap_add(gpu->releasable, row->sum.releasable);
	gpu->reserved = cm_wrap_add(gpu->reserved, row->sum.reserved);
	gpu->others = cm_wrap_add(gpu->others, row->uncached);
	gpu->processes++;
}

/*
 * The driver's answer is older than the sums. If the two contradict each other, the sums count and
 * less is free. What is neither free nor ours is held by others.
 */
static void balance(struct cm_top_gpu *gpu)
{
	const int64_t rest = cm_wrap_sub(cm_wrap_sub(gpu->total, gpu->reserved), gpu->others);

	/* What the driver told a process that has ended is out of date. */
	if (!gpu->processes)
		gpu->free_known = false;
	if (!gpu->free_known) {
		gpu->free = rest > 0 ? rest : 0;
		return;
	}
	if (gpu->free > rest)
		gpu->free = rest > 0 ? rest : 0;
	gpu->others = cm_wrap_sub(cm_wrap_sub(gpu->total, gpu->reserved), gpu->free);
}

static void sum_gpus(struct cm_top *top)
{
	size_t i;

	for (i = 0; i < top->gpus; i++)
		clear_sums(&top->gpu[i]);
	for (i = 0; i < top->rows; i++) {
		const struct cm_top_row *row = top->row[i];

		if (row->gpu >= 0)
			top->gpu[row->gpu].ooms = cm_wrap_add(top->gpu[row->gpu].ooms,
							      row->last.ooms);
		if (holds_memory(row))
			add_sums(&top->gpu[row->gpu], row);
	}
	for (i = 0; i < top->gpus; i++) {
		struct cm_top_gpu *gpu = &top->gpu[i];
		const bool oom = gpu->history.count && gpu->ooms > gpu->ooms_before;

		balance(gpu);
		cm_top_history_add(&gpu->history,
				   (struct cm_top_point){gpu->allocated, gpu->reserved, oom});
		gpu->ooms_before = gpu->ooms;
		gpu->free_seen_ns = 0; /* the next sample has answers of its own */
	}
}

static void count_lives(struct cm_top *top, const struct cm_watch_sample *sample)
{
	size_t i;

	top->running = top->stopped = top->crashed = top->unreadable = 0;
	for (i = 0; i < sample->count; i++) {
		const struct cm_process *process = sample->process[i].process;

		if (process->error)
			top->unreadable++;
		else if (process->life == CM_LIFE_RUNNING)
			top->running++;
		else if (process->life == CM_LIFE_STOPPED)
			top->stopped++;
		else if (process->life == CM_LIFE_CRASHED)
			top->crashed++;
	}
}

/* Adds a sample to the history of a row, and to the sums of its card. */
static void hold_row(struct cm_top_row *row, const struct cm_device_view *view,
		     struct cm_top_point *sums)
{
	const struct cm_top_point *last = cm_top_history_at(&row->history, 0, 0);
	const struct cm_summary sum = cm_summary_pool(&view->row, CM_POOL_ALL);
	struct cm_top_point point = {sum.allocated, sum.reserved, false};

	if (view->torn && last)
		point = (struct cm_top_point){last->allocated, last->reserved, false};
	row->seen = true;
	cm_top_history_add(&row->history, point);
	if (!holds_memory(row))
		return;
	sums[row->gpu].allocated = cm_wrap_add(sums[row->gpu].allocated, point.allocated);
	sums[row->gpu].reserved = cm_wrap_add(sums[row->gpu].reserved, point.reserved);
}

/* Adds one sample to each history, and changes nothing else. */
static void hold(struct cm_top *top, const struct cm_watch_sample *sample)
{
	struct cm_top_point sums[CM_TOP_GPUS_MAX] = {0};
	struct cm_top_row *row;
	size_t i, d;

	top->held++;
	for (i = 0; i < top->rows; i++)
		top->row[i]->seen = false;
	for (i = 0; i < sample->count; i++) {
		for (d = 0; d < sample->process[i].devices; d++) {
			row = find_row(top, &sample->process[i],
				       sample->process[i].device[d].index);
			if (row)
				hold_row(row, &sample->process[i].device[d], sums);
		}
	}
	for (i = 0; i < top->rows; i++)
		if (!top->row[i]->seen)
			cm_top_history_add(&top->row[i]->history, (struct cm_top_point){0});
	for (i = 0; i < top->gpus; i++)
		cm_top_history_add(&top->gpu[i].history, sums[i]);
}

void cm_top_forget(struct cm_top *top)
{
	const struct cm_top_row *row = top->selected;
	size_t i;

	if (row && !row->is_group)
		top->wanted = (struct cm_top_key){row->pid, row->start_time, row->device};
	for (i = 0; i < top->rows; i++)
		free(top->row[i]);
	top->rows = 0;
	top->selected = NULL;
	top->shown_count = 0;
	for (i = 0; i < top->gpus; i++) {
		top->gpu[i].history.count = 0;
		top->gpu[i].ooms_before = 0;
		top->gpu[i].free_known = false;
	}
}

/* Restores the selection from before the model was cleared, once that process is there again. */
static void select_wanted(struct cm_top *top)
{
	size_t i;

	for (i = 0; top->wanted.pid && i < top->rows; i++) {
		const struct cm_top_row *row = top->row[i];

		if (row->pid != top->wanted.pid || row->start_time != top->wanted.start_time ||
		    row->device != top->wanted.device)
			continue;
		top->selected = top->row[i];
		top->wanted.pid = 0;
	}
}

int cm_top_update(struct cm_top *top, const struct cm_watch_sample *sample)
{
	size_t i;

	if (top->paused) {
		hold(top, sample);
		return 0;
	}
	top->held = 0;
	top->time_ns = sample->time_ns;
	for (i = 0; i < top->rows; i++)
		top->row[i]->seen = false;
	for (i = 0; i < sample->count; i++)
		if (sample->process[i].process->life != CM_LIFE_EXITED &&
		    take_process(top, &sample->process[i], sample))
			return -ENOMEM;
	drop_unseen(top);
	count_lives(top, sample);
	sum_gpus(top);
	select_wanted(top);
	return cm_top_arrange(top);
}
