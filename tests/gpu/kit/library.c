/* SPDX-License-Identifier: MIT */
#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stats/finder.h"
#include "stats/memory_stats.h"
#include "stats/reader.h"

bool library_is_here(void)
{
	return dlsym(RTLD_DEFAULT, "cudamem_memory_stats") != NULL;
}

static void open_region(void *data, const struct cm_find *find)
{
	struct cm_reader **reader = data;
	char why[CM_READER_WHY_BYTES];

	if (!*reader && cm_reader_open(find->path, reader, why))
		fprintf(stderr, "the region: %s\n", why);
}

/* NULL: the library is not here, or has not been called yet. */
static struct cm_reader *region(void)
{
	struct cm_reader *reader = NULL;

	if (library_is_here())
		(void)cm_find_regions(NULL, getpid(), open_region, &reader);
	return reader;
}

static void each_of_device(struct cm_reader *reader, cm_memory_stats_fn fn, void *data)
{
	struct cm_device_row row;
	bool torn;

	if (!cm_reader_read_device(reader, 0, &row, &torn))
		cm_memory_stats_each(&row, fn, data);
}

static void each_of_host(struct cm_reader *reader, cm_memory_stats_fn fn, void *data)
{
	struct cm_host_row row;
	bool torn;

	if (!cm_reader_read_host(reader, &row, &torn))
		cm_host_memory_stats_each(&row, fn, data);
}

struct wanted {
	const char *key;
	int64_t value;
};

static void take(void *data, const char *key, int64_t value)
{
	struct wanted *wanted = data;

	if (strcmp(key, wanted->key) == 0)
		wanted->value = value;
}

static int64_t figure(const char *key, void (*each)(struct cm_reader *, cm_memory_stats_fn, void *))
{
	struct cm_reader *reader = region();
	struct wanted wanted = {key, -1};

	if (!reader)
		return -1;
	each(reader, take, &wanted);
	cm_reader_close(reader);
	return wanted.value;
}

int64_t library_device_figure(const char *key)
{
	return figure(key, each_of_device);
}

int64_t library_host_figure(const char *key)
{
	return figure(key, each_of_host);
}

struct list {
	FILE *file;
	const char *separator;
};

static void put(void *data, const char *key, int64_t value)
{
	struct list *list = data;

	fprintf(list->file, "%s\"%s\": %lld", list->separator, key, (long long)value);
	list->separator = ", ";
}

void library_leave_figures(void)
{
	const char *path = getenv("GPU_SUITE_STATS");
	struct cm_reader *reader = path ? region() : NULL;
	struct list list = {NULL, ""};

	if (!reader)
		return;
	list.file = fopen(path, "w");
	if (list.file) {
		fputs("{\"device\": {", list.file);
		each_of_device(reader, put, &list);
		fputs("}, \"host\": {", list.file);
		list.separator = "";
		each_of_host(reader, put, &list);
		fputs("}}\n", list.file);
		(void)fclose(list.file);
	}
	cm_reader_close(reader);
}
