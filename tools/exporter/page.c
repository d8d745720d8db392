/* SPDX-License-Identifier: MIT */
#include "tools/exporter/page.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "stats/layout.h"
#include "stats/text.h"

#define LABELS_BYTES 1024
#define EXACT_MAX    9007199254740992.0 /* 2^53: a double has every whole number up to it */

/* A page under way. */
struct page {
	const struct cm_sample *sample;
	FILE *out;
	bool openmetrics;
	const struct cm_metric_info *family; /* the one whose samples are being written */
};

/* The labels of a sample, between braces. */
struct labels {
	char text[LABELS_BYTES];
	size_t bytes;
};

static void put_char(struct labels *labels, char c)
{
	if (labels->bytes + 1 < sizeof(labels->text))
		labels->text[labels->bytes++] = c;
	labels->text[labels->bytes] = '\0';
}

/* The text is clean: quotes and backslashes are all that it may have of what the formats escape. */
static void put_label(struct labels *labels, const char *name, const char *value)
{
	if (labels->bytes)
		put_char(labels, ',');
	for (; *name; name++)
		put_char(labels, *name);
	put_char(labels, '=');
	put_char(labels, '"');
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			put_char(labels, '\\');
		put_char(labels, *value);
	}
	put_char(labels, '"');
}

static void put_number_label(struct labels *labels, const char *name, int64_t value)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRId64, value);
	put_label(labels, name, text);
}

static const char *const type_names[] = {"info", "gauge", "counter"};

/* The suffix of a family's name. In the text format the lines about the family have it, too. */
static const char *suffix_of(const struct cm_metric_info *metric)
{
	return metric->type == CM_TYPE_COUNTER ? "_total"
	       : metric->type == CM_TYPE_INFO  ? "_info"
					       : "";
}

static void open_family(struct page *page, const struct cm_metric_info *metric)
{
	const char *suffix = page->openmetrics ? "" : suffix_of(metric);
	const char *type = metric->type == CM_TYPE_INFO && !page->openmetrics
				   ? type_names[CM_TYPE_GAUGE]
				   : type_names[metric->type];

	page->family = metric;
	(void)fprintf(page->out, "# HELP " CM_PREFIX "%s%s %s\n", metric->name, suffix,
		      metric->help);
	(void)fprintf(page->out, "# TYPE " CM_PREFIX "%s%s %s\n", metric->name, suffix, type);
	if (page->openmetrics && *metric->unit)
		(void)fprintf(page->out, "# UNIT " CM_PREFIX "%s %s\n", metric->name, metric->unit);
}

/* The family's first row of the table: rows of one name stand together. */
static const struct cm_metric_info *family_of(const struct cm_metric_info *metric)
{
	while (metric > cm_metrics && !strcmp(metric[-1].name, metric->name))
		metric--;
	return metric;
}

static void put_sample(struct page *page, const struct cm_metric_info *metric,
		       const struct labels *labels, double value)
{
	if (page->family != family_of(metric))
		open_family(page, family_of(metric));
	(void)fprintf(page->out, CM_PREFIX "%s%s", metric->name, suffix_of(metric));
	if (labels->bytes)
		(void)fprintf(page->out, "{%s}", labels->text);
	if (value < EXACT_MAX && value == floor(value))
		(void)fprintf(page->out, " %" PRId64 "\n", (int64_t)value);
	else
		(void)fprintf(page->out, " %.17g\n", value);
}

static void put_created(struct page *page, const struct cm_metric_info *metric,
			const struct labels *labels, double created)
{
	if (page->openmetrics && metric->type == CM_TYPE_COUNTER && created > 0)
		(void)fprintf(page->out, CM_PREFIX "%s_created%s%s%s %.3f\n", metric->name,
			      labels->bytes ? "{" : "", labels->text, labels->bytes ? "}" : "",
			      created);
}

static void put_word(struct labels *labels, const struct cm_metric_info *metric)
{
	if (*metric->word)
		put_label(labels, metric->label, metric->word);
}

static void put_rows(struct page *page, const struct cm_metric_info *metric,
		     const struct cm_rows *rows)
{
	const char *label = cm_group_labels[page->sample->group_by];
	size_t i;

	for (i = 0; i < rows->count; i++) {
		const struct cm_row *row = &rows->item[i];
		const double value = row->value[metric - cm_metrics];
		struct labels labels = {.bytes = 0};

		if (!(value >= 0) || (row->other && metric->type == CM_TYPE_COUNTER))
			continue;
		put_label(&labels, label, row->group);
		if (*row->gpu)
			put_label(&labels, "gpu_uuid", row->gpu);
		put_word(&labels, metric);
		put_sample(page, metric, &labels, value);
		put_created(page, metric, &labels, row->created);
	}
}

static void put_processes(struct page *page, const struct cm_metric_info *metric)
{
	const struct cm_who *who = page->sample->who;
	size_t i;

	for (i = 0; page->sample->group_by == CM_GROUP_PID && i < page->sample->who_count;
	     i++, who++) {
		struct labels labels = {.bytes = 0};

		put_label(&labels, "pid", who->group);
		put_label(&labels, "comm", who->comm);
		put_label(&labels, "user", who->user);
		put_number_label(&labels, "uid", (int64_t)who->uid);
		put_number_label(&labels, "ns_pid", who->ns_pid);
		put_label(&labels, "container_id", who->identity.container_id);
		put_label(&labels, "pod_uid", who->identity.pod_uid);
		put_label(&labels, "slurm_job_id", who->identity.slurm_job_id);
		put_label(&labels, "version", who->version);
		put_label(&labels, "mode", who->mode);
		put_sample(page, metric, &labels, 1);
	}
}

static void put_containers(struct page *page, const struct cm_metric_info *metric)
{
	const struct cm_who *who = page->sample->who;
	size_t i;

	for (i = 0; page->sample->group_by == CM_GROUP_CONTAINER && i < page->sample->who_count;
	     i++, who++) {
		struct labels labels = {.bytes = 0};

		put_label(&labels, "container_id", who->identity.container_id);
		put_label(&labels, "pod_uid", who->identity.pod_uid);
		put_sample(page, metric, &labels, 1);
	}
}

static void put_gpus(struct page *page, const struct cm_metric_info *metric)
{
	size_t i;

	for (i = 0; i < page->sample->gpus; i++) {
		const struct cm_gpu *gpu = &page->sample->gpu[i];
		const double value = gpu->value[metric - cm_metrics];
		struct labels labels = {.bytes = 0};

		if (!(value >= 0))
			continue;
		put_label(&labels, "gpu_uuid", gpu->uuid);
		if (metric->type == CM_TYPE_INFO) {
			put_label(&labels, "model", gpu->model);
			put_label(&labels, "pci", gpu->pci);
			put_label(&labels, "simulated", gpu->simulated ? "true" : "false");
		}
		put_sample(page, metric, &labels, value);
	}
}

static void put_node(struct page *page, const struct cm_metric_info *metric)
{
	const double value = page->sample->value[metric - cm_metrics];
	struct labels labels = {.bytes = 0};
	char layout[24], dir[256];

	if (!(value >= 0))
		return;
	if (metric->type == CM_TYPE_INFO) {
		(void)snprintf(layout, sizeof(layout), "%d.%d", CM_LAYOUT_MAJOR, CM_LAYOUT_MINOR);
		put_label(&labels, "version", CM_VERSION);
		put_label(&labels, "layout", layout);
	}
	put_word(&labels, metric);
	if (*metric->label && !*metric->word) { /* it has no words: the one value is the folder */
		cm_text_clean(dir, sizeof(dir), page->sample->dir);
		put_label(&labels, metric->label, dir);
	}
	put_sample(page, metric, &labels, value);
	put_created(page, metric, &labels, page->sample->started);
}

static void put_metric(struct page *page, enum cm_metric metric)
{
	const struct cm_metric_info *info = &cm_metrics[metric];

	if (metric == CM_METRIC_PROCESS_INFO)
		put_processes(page, info);
	else if (metric == CM_METRIC_CONTAINER_INFO)
		put_containers(page, info);
	else if (info->scope == CM_SCOPE_DEVICE)
		put_rows(page, info, &page->sample->devices);
	else if (info->scope == CM_SCOPE_PROCESS)
		put_rows(page, info, &page->sample->processes);
	else if (info->scope == CM_SCOPE_GPU)
		put_gpus(page, info);
	else
		put_node(page, info);
}

void cm_page_write(const struct cm_sample *sample, bool openmetrics, FILE *out)
{
	struct page page = {.sample = sample, .out = out, .openmetrics = openmetrics};
	int metric;

	for (metric = 0; metric < CM_METRIC_COUNT; metric++)
		put_metric(&page, (enum cm_metric)metric);
	if (openmetrics)
		(void)fputs("# EOF\n", out);
}
