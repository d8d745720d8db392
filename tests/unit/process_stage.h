/* SPDX-License-Identifier: MIT */
/*
 * Processes that start the library by themselves: each case plays roles (rerun.h) in a folder of
 * its own, over a driver that is a clock and no more.
 */
#ifndef CM_TESTS_UNIT_PROCESS_STAGE_H
#define CM_TESTS_UNIT_PROCESS_STAGE_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "tests/unit/rerun.h"

/* ---- for the roles ---- */

extern void (*stage_during_start)(void); /* called in the middle of the start; NULL: nothing */
extern bool stage_driver_is_complete;
extern unsigned stage_calls_into_start;
extern uint64_t *stage_published;     /* the counts of entry points */
extern unsigned stage_forgotten;      /* times that something was */
extern _Atomic unsigned stage_sleeps; /* of the helper, begun */

unsigned stage_count_regions(void);
/* Threads of this process; *ret_helper is the id of the one that is called cudamem. */
unsigned stage_count_threads(pid_t *ret_helper);
/* It must end well. */
void stage_wait_for_child(pid_t pid);

/* ---- for the cases ---- */

struct stage {
	char dir[PATH_MAX];
	char said[CM_RERUN_SAID];
};

int stage_setup(void **state);
/* What a clean exit leaves in the folder is nothing, so that it can be removed. */
int stage_teardown(void **state);
/* Of a folder where something is left on purpose. */
void stage_remove_regions(const char *dir);

/* Plays a role with region_dir and `conf` in CUDAMEM_CONF, and one more variable; checks its end.
 * FULL=n: the first n files have no space. NUDGES=lost: each comes just before a sleep of the
 * helper, which does not last as long as it says for that. */
void stage_play_with(struct stage *stage, struct cm_rerun rerun, const char *conf,
		     const char *variable, int want);
/* One that ends well, and says this. */
void stage_play(void **state, const char *role, const char *conf, const char *variable,
		const char *want_said);

#define STAGE_CASE(test, role, conf)                     \
	STAGE_TEST(test)                                 \
	{                                                \
		stage_play(state, role, conf, NULL, ""); \
	}

#define STAGE_TEST(name) CM_TEST_WITH(name, stage_setup, stage_teardown)

#endif
