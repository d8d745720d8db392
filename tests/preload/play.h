/* SPDX-License-Identifier: MIT */
/*
 * Test programs that are their own subject: each case plays a role of the program
 * (tests/unit/rerun.h) in another process, with the library preloaded and a folder of its own for
 * the regions. The paths come in as MODULE and DRIVER; a role finds its folder as REGIONS.
 */
#ifndef CM_TESTS_PRELOAD_PLAY_H
#define CM_TESTS_PRELOAD_PLAY_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "stats/layout.h"
#include "stats/reader.h"
#include "tests/unit/rerun.h"

/* ---- for the cases ---- */

struct cm_play {
	char dir[PATH_MAX];
	char said[CM_RERUN_SAID];
	bool keeps; /* a program reported out of memory: its region stays */
};

int cm_play_setup(void **state);
/* Fails where something was left in the folder: a clean exit leaves nothing, but for the region
 * of a program that has reported out of memory. */
int cm_play_teardown(void **state);

#define CM_PLAY_TEST(name) CM_TEST_WITH(name, cm_play_setup, cm_play_teardown)

/* Plays the role, which must end well. `conf`: of CUDAMEM_CONF, NULL: without the library; `more`:
 * NAME=value or NULL, as a rule CUDASIM; `prepare`: see struct cm_rerun. What it said is in the
 * fixture. */
void cm_play_under(struct cm_play *play, const char *role, const char *conf, const char *more,
		   void (*prepare)(void));
/* The same for a role that must say nothing. */
void cm_play(void **state, const char *role, const char *conf, const char *more);

/* The same without the library and in each of its modes: the program can't tell them apart. */
void cm_play_everywhere(void **state, const char *role, const char *more);

/* Runs a shell command in the fixture's folder. Returns what system(3) does. */
int cm_play_system(const struct cm_play *play, const char *command);

#define CM_PLAY(test, role, conf, more)           \
	CM_PLAY_TEST(test)                        \
	{                                         \
		cm_play(state, role, conf, more); \
	}

#define CM_PLAY_EVERYWHERE(test, role, more)           \
	CM_PLAY_TEST(test)                             \
	{                                              \
		cm_play_everywhere(state, role, more); \
	}

/* ---- for the roles ---- */

/* Whether the library is here: for the few lines of a role played everywhere that look at it. */
bool cm_is_here(void);

/* Entries of a folder whose names begin so, hidden ones left out. */
unsigned cm_count_entries(const char *path, const char *beginning);
unsigned cm_count_regions(void);

/* The child must end with status 0. */
void cm_wait_for_child(pid_t pid);

/* The counters of one device of this process, as its region has them. */
struct cm_device_row cm_own_counters(uint32_t device);

/* What a tool takes this process for. */
enum cm_life cm_own_life(void);

#endif
