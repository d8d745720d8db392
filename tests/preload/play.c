/* SPDX-License-Identifier: MIT */
#include "tests/preload/play.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/cmocka_all.h"

#define FOLDER_PREFIX "regions."

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place)
{
	(void)status;
	(void)type;
	(void)place;
	return remove(path);
}

/* Folders of tests that were killed: each is named after its process. */
static void sweep(void)
{
	DIR *stream = opendir(".");
	struct dirent *entry;
	long pid;

	while (stream && (entry = readdir(stream))) {
		if (strncmp(entry->d_name, FOLDER_PREFIX, strlen(FOLDER_PREFIX)) != 0)
			continue;
		pid = strtol(entry->d_name + strlen(FOLDER_PREFIX), NULL, 10);
		if (pid > 0 && kill((pid_t)pid, 0) && errno == ESRCH)
			(void)nftw(entry->d_name, remove_entry, 4, FTW_DEPTH | FTW_PHYS);
	}
	if (stream)
		(void)closedir(stream);
}

int cm_play_setup(void **state)
{
	struct cm_play *play = calloc(1, sizeof(*play));
	static unsigned count;
	char here[PATH_MAX - 64];

	sweep();
	if (!play || !getcwd(here, sizeof(here)))
		return -1;
	/* Each case has one: a case that fails leaves something in its own. */
	(void)snprintf(play->dir, sizeof(play->dir), "%s/" FOLDER_PREFIX "%d.%u", here,
		       (int)getpid(), count++);
	if (mkdir(play->dir, 0700))
		return -1;
	*state = play;
	return 0;
}

/* There is one at least. */
static int remove_regions(const char *dir)
{
	char path[PATH_MAX + 300];
	DIR *stream = opendir(dir);
	struct dirent *entry;
	int removed = 0;

	while (stream && (entry = readdir(stream))) {
		if (strncmp(entry->d_name, "cudamem.", strlen("cudamem.")) != 0)
			continue;
		(void)snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
		removed += !unlink(path);
	}
	if (stream)
		(void)closedir(stream);
	return removed ? 0 : -1;
}

int cm_play_teardown(void **state)
{
	struct cm_play *play = *state;
	int err = play->keeps ? remove_regions(play->dir) : 0;

	if (!err)
		err = rmdir(play->dir);
	free(play);
	return err;
}

/* The plan of a role adds to the one that all of them are given from outside. */
static const char *add_plan(const char *more, char text[PATH_MAX])
{
	const char *given = getenv("CUDASIM");

	if (!more || !given || strncmp(more, "CUDASIM=", strlen("CUDASIM=")) != 0)
		return more;
	(void)snprintf(text, PATH_MAX, "%s,%s", more, given);
	return text;
}

void cm_play_under(struct cm_play *play, const char *role, const char *conf, const char *more,
		   void (*prepare)(void))
{
	char preload[PATH_MAX + 16], conf_text[PATH_MAX + 256], regions[PATH_MAX + 16];
	char plan[PATH_MAX];
	const char *environment[] = {regions,
				     "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0",
				     preload,
				     conf_text,
				     add_plan(more, plan),
				     NULL};
	const struct cm_rerun rerun = {
		.role = role, .environment = environment, .prepare = prepare};
	int status;

	(void)snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", conf ? getenv("MODULE") : "");
	/* Idle memory stays, however long the machine leaves us alone: a case that wants it to
	 * decay says so after this. */
	(void)snprintf(conf_text, sizeof(conf_text),
		       "CUDAMEM_CONF=region_dir:%s,decay_seconds:off,%s", play->dir,
		       conf ? conf : "");
	(void)snprintf(regions, sizeof(regions), "REGIONS=%s", play->dir);
	status = cm_rerun(&rerun, play->said);
	play->keeps |= strstr(play->said, "]: out of memory ") != NULL;
	if (status)
		fail_msg("%s (%s): ended with %d; said: %s", role, conf ? conf : "alone", status,
			 play->said);
}

void cm_play(void **state, const char *role, const char *conf, const char *more)
{
	struct cm_play *play = *state;

	cm_play_under(play, role, conf, more, NULL);
	assert_string_equal(play->said, "");
}

void cm_play_everywhere(void **state, const char *role, const char *more)
{
	/* What is said of a failure is for the user, and has tests of its own. */
	static const char *const confs[] = {
		NULL,
		"oom_report:off",
		"oom_report:off,placement:exact",
		"oom_report:off,expandable_segments:True",
		"oom_report:off,reuse:grow",
		"oom_report:off,sync:free",
		"oom_report:off,mode:stats",
		"mode:off",
	};
	size_t i;

	for (i = 0; i < sizeof(confs) / sizeof(confs[0]); i++)
		cm_play(state, role, confs[i], more);
}

bool cm_is_here(void)
{
	return dlsym(RTLD_DEFAULT, "cudamem_memory_allocated") != NULL;
}

unsigned cm_count_entries(const char *path, const char *beginning)
{
	DIR *stream = opendir(path);
	struct dirent *entry;
	unsigned n = 0;

	CM_MUST(stream);
	while ((entry = readdir(stream)))
		n += entry->d_name[0] != '.' &&
		     !strncmp(entry->d_name, beginning, strlen(beginning));
	(void)closedir(stream);
	return n;
}

unsigned cm_count_regions(void)
{
	return cm_count_entries(getenv("REGIONS"), CM_REGION_PREFIX);
}

void cm_wait_for_child(pid_t pid)
{
	int status;

	CM_MUST(waitpid(pid, &status, 0) == pid);
	CM_MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int cm_play_system(const struct cm_play *play, const char *command)
{
	char text[PATH_MAX + 512];

	(void)snprintf(text, sizeof(text), "cd '%s' && %s", play->dir, command);
	return system(text);
}

static void find_own_region(char path[PATH_MAX])
{
	DIR *stream = opendir(getenv("REGIONS"));
	struct dirent *entry;
	char beginning[64];

	CM_MUST(stream);
	(void)snprintf(beginning, sizeof(beginning), CM_REGION_PREFIX "%u.%d.", getuid(),
		       (int)getpid());
	do
		entry = readdir(stream);
	while (entry && strncmp(entry->d_name, beginning, strlen(beginning)) != 0);
	CM_MUST(entry);
	(void)snprintf(path, PATH_MAX, "%s/%s", getenv("REGIONS"), entry->d_name);
	(void)closedir(stream);
}

static struct cm_reader *open_own_region(void)
{
	char path[PATH_MAX], why[CM_READER_WHY_BYTES];
	struct cm_reader *reader;

	find_own_region(path);
	CM_MUST(!cm_reader_open(path, &reader, why));
	return reader;
}

enum cm_life cm_own_life(void)
{
	struct cm_reader *reader = open_own_region();
	enum cm_life life = cm_reader_life(reader);

	cm_reader_close(reader);
	return life;
}

struct cm_device_row cm_own_counters(uint32_t device)
{
	struct cm_reader *reader = open_own_region();
	struct cm_device_row row;
	bool torn;

	/* A thread of the library's own may be held up while it writes. */
	do
		CM_MUST(!cm_reader_read_device(reader, device, &row, &torn));
	while (torn);
	cm_reader_close(reader);
	return row;
}
