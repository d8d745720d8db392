/* SPDX-License-Identifier: MIT */
#include "tests/checked/hold_up.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/preload/play.h"
#include "tests/sim/cudasim.h"

static void (*second)(void);
static pthread_t second_thread;
static _Atomic pid_t second_id;
static _Atomic bool second_done;
static bool started;

static void *begin_second(void *unused)
{
	(void)unused;
	atomic_store(&second_id, (pid_t)syscall(SYS_gettid));
	second();
	atomic_store(&second_done, true);
	return NULL;
}

/* A thread that sleeps waits for the one that is held up here, or backs off. */
static bool second_sleeps(void)
{
	char path[64], text[256] = "";
	const char *state;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)second_id);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	(void)!read(fd, text, sizeof(text) - 1);
	(void)close(fd);
	state = strrchr(text, ')');
	return state && state[1] && state[2] == 'S';
}

static void let_second_go(void *unused)
{
	(void)unused;
	started = true;
	CM_MUST(!pthread_create(&second_thread, NULL, begin_second, NULL));
	while (!atomic_load(&second_done) && !(atomic_load(&second_id) && second_sleeps()))
		(void)sched_yield();
}

void cm_hold_up(uint64_t n, void (*run)(void))
{
	second = run;
	cudasim_interrupt(n, let_second_go, NULL);
}

void cm_hold_up_end(void)
{
	cudasim_interrupt(0, NULL, NULL);
	if (!started)
		exit(CM_NOT_REACHED);
	CM_MUST(!pthread_join(second_thread, NULL));
}
