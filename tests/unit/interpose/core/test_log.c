/* SPDX-License-Identifier: MIT */
/* What the start writes to standard error, and what it does if that cannot be written to. */
#include "interpose/core/log.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interpose/process/process.h"
#include "tests/unit/cmocka_all.h"
#include "tests/unit/process_stage.h"

/* ---- roles ---- */

CM_ROLE(start)
{
	CM_MUST(cm_process_cache());
}

/* The program started without a standard error, and its own file got that number. */
CM_ROLE(closed_stderr)
{
	char path[PATH_MAX];
	struct stat st;

	(void)snprintf(path, sizeof(path), "%s/own_file", getenv("REGIONS"));
	if (open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) != STDERR_FILENO)
		_exit(96);
	(void)cm_process_cache();
	if (fstat(STDERR_FILENO, &st) || st.st_size != 0)
		_exit(95);
	(void)unlink(path);
}

/* The same after the program has closed its standard error. */
CM_ROLE(replaced_stderr)
{
	(void)close(STDERR_FILENO);
	play_closed_stderr();
}

/* What nobody wants is not even read: the text is on a page that nobody may read. */
CM_ROLE(unwanted)
{
	const char *text = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CM_MUST(text != MAP_FAILED);
	CM_MUST(cm_process_cache());
	cm_log(CM_LOG_INFO, "%s", text);
}

CM_ROLE(full_pipe)
{
	char block[4096] = {0};
	int flags = fcntl(STDERR_FILENO, F_GETFL);

	(void)fcntl(STDERR_FILENO, F_SETFL, flags | O_NONBLOCK);
	while (write(STDERR_FILENO, block, sizeof(block)) > 0)
		;
	(void)fcntl(STDERR_FILENO, F_SETFL, flags);
	(void)cm_process_cache(); /* must not wait for the reader */
	(void)fcntl(STDERR_FILENO, F_SETFL, flags | O_NONBLOCK);
	if (write(STDERR_FILENO, block, 1) >= 0)
		_exit(94); /* the pipe was not full */
	_exit(0);
}

/* ---- the tests ---- */

STAGE_TEST(each_config_error_is_logged_once)
{
	stage_play(state, "start", "mode:cach,nonsense", NULL,
		   "cudamem: CUDAMEM_CONF: \"mode:cach\" is not understood, want cache|stats|off; "
		   "keeping cache\n"
		   "cudamem: CUDAMEM_CONF: unknown option \"nonsense\"; ignored\n");
	stage_play(state, "start", "mode:cach,warn:off", NULL, "");
	stage_play(
		state, "start", "", "CUDAMEM_COMF=1",
		"cudamem: CUDAMEM_COMF: unknown variable (did you mean CUDAMEM_CONF?); ignored\n");
}

STAGE_TEST(a_line_that_is_not_wanted_costs_nothing)
{
	stage_play(state, "unwanted", "", NULL, "");
}

STAGE_TEST(many_config_errors_are_cut_short)
{
	struct stage *stage = *state;

	stage_play_with(stage, (struct cm_rerun){.role = "start"}, "a,b,c,d,e,f,g,h,i,j,k", NULL,
			0);
	assert_non_null(strstr(stage->said, "\"h\"; ignored\ncudamem: and 3 more; "));
	assert_null(strstr(stage->said, "\"i\""));
}

STAGE_TEST(log_levels_are_kept)
{
	struct stage *stage = *state;

	stage_play_with(stage, (struct cm_rerun){.role = "start"}, "log:info", NULL, 0);
	assert_non_null(strstr(stage->said, "cudamem: statistics in "));
	stage_play(state, "start", "log:off,mode:stats,region_dir:/nonexistent", NULL, "");
}

static void close_stderr(void)
{
	(void)close(STDERR_FILENO);
}

static void send_stderr_to_file(void)
{
	char path[PATH_MAX];
	int fd;

	(void)snprintf(path, sizeof(path), "%s/stderr", getenv("REGIONS"));
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || dup2(fd, STDERR_FILENO) < 0 || close(fd))
		_exit(90);
}

STAGE_TEST(nothing_is_written_into_a_file_of_the_program)
{
	struct stage *stage = *state;

	stage_play_with(stage, (struct cm_rerun){.role = "closed_stderr", .prepare = close_stderr},
			"nonsense:1", NULL, 0);
	stage_play_with(stage, (struct cm_rerun){.role = "replaced_stderr"}, "nonsense:1", NULL, 0);
	/* Another file in the same folder, so that only its inode differs. */
	stage_play_with(
		stage, (struct cm_rerun){.role = "replaced_stderr", .prepare = send_stderr_to_file},
		"nonsense:1", NULL, 0);
	stage_remove_regions(stage->dir);
}

STAGE_TEST(a_broken_stderr_does_not_end_the_program)
{
	struct stage *stage = *state;

	stage_play_with(stage, (struct cm_rerun){.role = "start", .reader = CM_RERUN_CLOSED},
			"nonsense:1", NULL, 0);
}

STAGE_TEST(a_full_stderr_does_not_stop_the_program)
{
	struct stage *stage = *state;

	stage_play_with(stage, (struct cm_rerun){.role = "full_pipe", .reader = CM_RERUN_ASLEEP},
			"nonsense:1", NULL, 0);
	stage_remove_regions(stage->dir);
}
