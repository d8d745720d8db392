/* SPDX-License-Identifier: MIT */
/*
 * What a preloaded library costs a program that never calls CUDA: starts a program many times, by
 * turns without and with it, and prints the median times from start to end. With --look it is such
 * a program itself, and says what it finds of itself: threads, open files, files in /dev/shm.
 */
#include <dirent.h>
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

#define TURNS_MAX 10000

static double now_us(void)
{
	return (double)clock_ns(CLOCK_MONOTONIC) / 1e3;
}

/* Microseconds that the program took, or a negative number. */
static double time_once(char **argv, char **env)
{
	double start = now_us();
	pid_t child;
	int status;

	if (posix_spawn(&child, argv[0], NULL, NULL, argv, env) ||
	    waitpid(child, &status, 0) != child || status)
		return -1;
	return now_us() - start;
}

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void print_times(const char *name, double *us, size_t n)
{
	qsort(us, n, sizeof(*us), compare);
	printf("%s_us %.1f\n", name, us[n / 2]);
	printf("%s_least_us %.1f\n", name, us[0]);
}

static int compare_starts(size_t turns, const char *library, char **argv)
{
	static double without[TURNS_MAX], with[TURNS_MAX];
	char preload[4096];
	char *env[2] = {preload, NULL}, *none[1] = {NULL};
	size_t i;

	snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", library);
	for (i = 0; i < turns; i++) {
		/* A-B-B-A: neither is always the first. */
		if (i % 2)
			with[i] = time_once(argv, env);
		without[i] = time_once(argv, none);
		if (i % 2 == 0)
			with[i] = time_once(argv, env);
		if (without[i] < 0 || with[i] < 0) {
			fprintf(stderr, "startup: %s did not run\n", argv[0]);
			return 1;
		}
	}
	print_times("without", without, turns);
	print_times("with", with, turns);
	return 0;
}

/* Entries of a folder, of those that hold `part`. */
static unsigned count_entries(const char *path, const char *part)
{
	DIR *folder = opendir(path);
	const struct dirent *entry;
	unsigned n = 0;

	if (!folder)
		return 0;
	while ((entry = readdir(folder)))
		n += entry->d_name[0] != '.' && strstr(entry->d_name, part);
	(void)closedir(folder);
	return n;
}

static int look(void)
{
	char own[32];

	snprintf(own, sizeof(own), ".%ld.", (long)getpid());
	printf("threads %u\n", count_entries("/proc/self/task", ""));
	printf("open_files %u\n", count_entries("/proc/self/fd", ""));
	printf("shared_files %u\n", count_entries("/dev/shm", own));
	return 0;
}

int main(int argc, char **argv)
{
	size_t turns = argc > 3 ? strtoul(argv[1], NULL, 10) : 0;

	if (argc == 2 && !strcmp(argv[1], "--look"))
		return look();
	if (!turns || turns > TURNS_MAX) {
		fprintf(stderr, "usage: startup TURNS LIBRARY PROGRAM [ARGUMENTS]\n"
				"       startup --look\n");
		return 2;
	}
	return compare_starts(turns, argv[2], argv + 3);
}
