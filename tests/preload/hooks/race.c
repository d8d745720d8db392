/* SPDX-License-Identifier: MIT */
/*
 * First look-ups from several threads at once, one of them from the constructor of a library that
 * is being loaded, under the loader's lock. Arguments: driver, that library. A deadlock is a
 * timeout.
 */
#include "tests/preload/hooks/check.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 50 };

static const char *driver_path;
static const char *plugin_path;
static pthread_barrier_t start;

static void *look_up(void *arg)
{
	bool plugin = arg != NULL;
	void *handle;

	(void)pthread_barrier_wait(&start);
	handle = dlopen(plugin ? plugin_path : driver_path, RTLD_NOW);
	if (!handle)
		return NULL;
	return plugin ? handle : dlsym(handle, "cuMemFree_v2");
}

static int run_once(void)
{
	pthread_t threads[THREADS];
	bool failed = false;
	size_t i;

	(void)pthread_barrier_init(&start, NULL, THREADS);
	for (i = 0; i < THREADS; i++) {
		if (pthread_create(&threads[i], NULL, look_up, i == 0 ? &start : NULL))
			return 2;
	}
	for (i = 0; i < THREADS; i++) {
		void *found = NULL;

		(void)pthread_join(threads[i], &found);
		if (!found || (i > 0 && ((any_fn *)found)() != number_cuMemFree_v2))
			failed = true;
	}
	return failed || calls("cuMemFree_v2") != THREADS - 1;
}

int main(int argc, char **argv)
{
	int status = 0;
	int round;

	if (argc < 3)
		return 2;
	driver_path = argv[1];
	plugin_path = argv[2];
	for (round = 0; round < ROUNDS && !status; round++) {
		pid_t child = fork();

		if (child == 0)
			_exit(run_once());
		if (child < 0 || waitpid(child, &status, 0) != child)
			return 2;
	}
	return status != 0;
}
