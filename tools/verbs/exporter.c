/* SPDX-License-Identifier: MIT */
/*
 * `exporter`: metrics for Prometheus, as one page, as a file that is rewritten, or over HTTP.
 * tools/exporter builds the page. This file decides where it goes, and keeps the memory of the
 * process small while it waits.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "stats/tick.h"
#include "tools/cli/exits.h"
#include "tools/exporter/page.h"
#include "tools/exporter/server.h"
#include "tools/output/output.h"
#include "tools/processes/collect.h"
#include "tools/verbs/verbs.h"

/* A page grows to megabytes and goes again: in a mapping of its own, which grows without a copy,
 * and not in the heap, where the hole would stay. Huge pages would round it up by megabytes. */
static void keep_heap_small(void)
{
	(void)prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	(void)mallopt(M_MMAP_THRESHOLD, 128 * 1024);
}

/* A page under way. open_memstream(3) would hold it three times over while it grows. */
struct text {
	char *bytes;
	size_t count;
	size_t capacity;
};

static ssize_t append_to_page(void *cookie, const char *from, size_t count)
{
	struct text *text = cookie;
	const size_t capacity = text->count + count + text->capacity / 2;
	char *bytes = text->bytes;

	if (text->count + count > text->capacity) {
		bytes = realloc(bytes, capacity);
		if (!bytes)
			return 0;
		text->bytes = bytes;
		text->capacity = capacity;
	}
	memcpy(bytes + text->count, from, count);
	text->count += count;
	return (ssize_t)count;
}

static char *make_page(void *data, bool openmetrics, size_t *ret_bytes)
{
	struct cm_sampler *sampler = data;
	struct cm_sample sample;
	struct text text = {0};
	FILE *out;

	if (cm_sample_take(sampler, &sample))
		return NULL;
	/* The readers of all regions are gone: the page takes their place. */
	(void)malloc_trim(0);
	out = fopencookie(&text, "w", (cookie_io_functions_t){.write = append_to_page});
	if (out) {
		cm_page_write(&sample, openmetrics, out);
		if (ferror(out) | fclose(out)) {
			free(text.bytes);
			text.bytes = NULL;
		}
	}
	cm_sample_fini(&sample);
	/* Between two pages it holds nothing, and should take no more than that. */
	(void)malloc_trim(0);
	*ret_bytes = text.count;
	return text.bytes;
}

static int write_file(struct cm_sampler *sampler, const char *path, bool openmetrics)
{
	struct cm_output output;
	struct cm_sample sample;
	int exit = cm_sample_take(sampler, &sample);

	if (exit)
		return exit;
	exit = cm_output_open(&output, path, 0644, true);
	if (!exit) {
		cm_page_write(&sample, openmetrics, output.file);
		exit = cm_output_close(&output, true);
	}
	cm_sample_fini(&sample);
	return exit;
}

/* Ends if the first page can't be written, and says why. Later ones are tried again, since the disk
 * may have room by then. */
static int write_again_and_again(struct cm_sampler *sampler, const struct cm_options *options)
{
	const struct timespec pause = {
		.tv_sec = (time_t)(options->interval_ns / CM_NS_PER_S),
		.tv_nsec = (long)(options->interval_ns % CM_NS_PER_S),
	};
	const int exit = write_file(sampler, options->textfile, options->openmetrics);

	if (exit)
		return exit;
	for (;;) {
		(void)nanosleep(&pause, NULL);
		(void)write_file(sampler, options->textfile, options->openmetrics);
	}
}

static int listen_and_serve(struct cm_sampler *sampler, const struct cm_options *options)
{
	struct cm_listeners listeners;
	int exit = cm_listen(options->listen, options->listen_public, &listeners);

	if (exit)
		return exit;
	exit = cm_serve(&listeners, make_page, sampler);
	cm_listen_end(&listeners);
	return exit;
}

int cm_verb_exporter(const struct cm_options *options)
{
	struct cm_sampler sampler = {
		.options = options,
		.group_by = (enum cm_group_by)options->group_by,
		.max_series = options->max_series,
		.started = (double)cm_time_now() / (double)CM_NS_PER_S,
	};
	int exit;

	if (options->listen && (options->once || options->textfile))
		return cm_fail(CM_EXIT_USAGE, "choose one of --listen, --once and --textfile");
	cm_allow_files();
	keep_heap_small();
	if (options->once)
		exit = write_file(&sampler, options->textfile ? options->textfile : "-",
				  options->openmetrics);
	else if (options->textfile)
		exit = write_again_and_again(&sampler, options);
	else
		exit = listen_and_serve(&sampler, options);
	cm_ledger_fini(&sampler.ledger);
	return exit;
}
