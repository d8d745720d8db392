/* SPDX-License-Identifier: MIT */
#include "tests/unit/process_stage.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "interpose/driver/driver_ops.h"
#include "interpose/symbols/hooks.h"
#include "stats/command_channel.h"
#include "stats/config.h"
#include "tests/unit/cmocka_all.h"

bool __wrap_cm_real_is_complete(void);
const struct cm_driver_ops *__wrap_cm_driver_ops(void);
void __wrap_cm_entry_points_publish(uint64_t *counts);
void __wrap_cm_capture_forget_all(void);
void __wrap_cm_context_forget_all(void);
void __wrap_cm_host_work_disable(void);
int __wrap_cm_channel_wake(struct cm_channel *channel);
int __real_cm_channel_wake(struct cm_channel *channel);
void __wrap_cm_channel_wait(struct cm_channel *channel, int timeout_ms);
void __real_cm_channel_wait(struct cm_channel *channel, int timeout_ms);
int __wrap_posix_fallocate64(int fd, off_t offset, off_t bytes);
int __real_posix_fallocate64(int fd, off_t offset, off_t bytes);

static CUresult get_version(int *version)
{
	*version = 13000;
	return CUDA_SUCCESS;
}

struct cm_real cm_real = {.cuDriverGetVersion = get_version};
__thread unsigned int cm_hook_depth;

void (*stage_during_start)(void);
bool stage_driver_is_complete = true;
unsigned stage_calls_into_start;

bool __wrap_cm_real_is_complete(void)
{
	stage_calls_into_start++;
	if (stage_during_start)
		stage_during_start();
	return stage_driver_is_complete;
}

static uint64_t count_ticks(void)
{
	static _Atomic uint64_t ticks;

	return ++ticks;
}

static bool gate_enter(void)
{
	return true;
}

static void gate_leave(void)
{
}

const struct cm_driver_ops *__wrap_cm_driver_ops(void)
{
	static const struct cm_driver_ops ops = {
		.tick = count_ticks,
		.now_ns = count_ticks,
		.gate_enter = gate_enter,
		.gate_leave = gate_leave,
	};

	return &ops;
}

uint64_t *stage_published;

void __wrap_cm_entry_points_publish(uint64_t *counts)
{
	stage_published = counts;
}

unsigned stage_forgotten;

void __wrap_cm_capture_forget_all(void)
{
	stage_forgotten++;
}

void __wrap_cm_host_work_disable(void)
{
}

void __wrap_cm_context_forget_all(void)
{
	stage_forgotten++;
}

_Atomic unsigned stage_sleeps;

static bool nudges_are_lost(void)
{
	return getenv("NUDGES") != NULL;
}

int __wrap_cm_channel_wake(struct cm_channel *channel)
{
	return nudges_are_lost() ? 0 : __real_cm_channel_wake(channel);
}

void __wrap_cm_channel_wait(struct cm_channel *channel, int timeout_ms)
{
	atomic_fetch_add(&stage_sleeps, 1);
	__real_cm_channel_wait(channel, nudges_are_lost() && timeout_ms != CM_CHANNEL_FOREVER
						? timeout_ms / 100
						: timeout_ms);
}

int __wrap_posix_fallocate64(int fd, off_t offset, off_t bytes)
{
	static int files;
	const char *full = getenv("FULL");

	if (full && offset == 0 && ++files <= atoi(full))
		return ENOSPC;
	return __real_posix_fallocate64(fd, offset, bytes);
}

unsigned stage_count_regions(void)
{
	DIR *stream = opendir(getenv("REGIONS"));
	struct dirent *entry;
	unsigned n = 0;

	CM_MUST(stream);
	while ((entry = readdir(stream)))
		n += !strncmp(entry->d_name, CM_REGION_PREFIX, strlen(CM_REGION_PREFIX));
	(void)closedir(stream);
	return n;
}

unsigned stage_count_threads(pid_t *ret_helper)
{
	DIR *stream = opendir("/proc/self/task");
	struct dirent *entry;
	char path[300], name[32];
	unsigned n = 0;
	FILE *file;

	CM_MUST(stream);
	*ret_helper = 0;
	while ((entry = readdir(stream))) {
		if (entry->d_name[0] == '.')
			continue;
		n++;
		(void)snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		file = fopen(path, "r");
		if (file && fgets(name, sizeof(name), file) && !strcmp(name, "cudamem\n"))
			*ret_helper = atoi(entry->d_name);
		if (file)
			(void)fclose(file);
	}
	(void)closedir(stream);
	return n;
}

void stage_wait_for_child(pid_t pid)
{
	int status;

	CM_MUST(waitpid(pid, &status, 0) == pid);
	CM_MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int stage_setup(void **state)
{
	struct stage *stage = calloc(1, sizeof(*stage));
	char here[PATH_MAX - 64];

	if (!stage || !getcwd(here, sizeof(here)))
		return -1;
	/* As the whole-program tests name theirs, which sweep those of processes that are gone. */
	(void)snprintf(stage->dir, sizeof(stage->dir), "%s/regions.%d.XXXXXX", here, (int)getpid());
	if (!mkdtemp(stage->dir))
		return -1;
	*state = stage;
	return 0;
}

void stage_remove_regions(const char *dir)
{
	char path[PATH_MAX + NAME_MAX + 2];
	DIR *stream = opendir(dir);
	struct dirent *entry;

	while (stream && (entry = readdir(stream))) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
		(void)unlink(path);
	}
	if (stream)
		(void)closedir(stream);
}

int stage_teardown(void **state)
{
	struct stage *stage = *state;
	int err = rmdir(stage->dir);

	free(stage);
	return err;
}

void stage_play_with(struct stage *stage, struct cm_rerun rerun, const char *conf,
		     const char *variable, int want)
{
	char conf_text[PATH_MAX + 512], regions_text[PATH_MAX + 16];
	/* The library leaks on purpose, and the leak checker needs what some roles go without. */
	const char *environment[] = {conf_text, regions_text, "ASAN_OPTIONS=detect_leaks=0",
				     variable, NULL};
	int status;

	(void)snprintf(conf_text, sizeof(conf_text), CM_CONF_VARIABLE "=region_dir:%s,%s",
		       stage->dir, conf);
	(void)snprintf(regions_text, sizeof(regions_text), "REGIONS=%s", stage->dir);
	rerun.environment = environment;
	status = cm_rerun(&rerun, stage->said);
	if (status != want)
		fail_msg("%s: ended with %d, want %d; said: %s", rerun.role, status, want,
			 stage->said);
}

void stage_play(void **state, const char *role, const char *conf, const char *variable,
		const char *want_said)
{
	struct stage *stage = *state;

	stage_play_with(stage, (struct cm_rerun){.role = role}, conf, variable, 0);
	if (strcmp(stage->said, want_said) != 0)
		fail_msg("%s: said %s", role, stage->said);
}
