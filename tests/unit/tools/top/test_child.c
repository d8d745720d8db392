/* SPDX-License-Identifier: MIT */
/* Commands that run beside the screen. */
#include "tools/top/child.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/unit/cmocka_all.h"

/* Runs a line of the shell to its end. */
static void run(struct cm_child *child, const char *line)
{
	const char *argv[] = {"sh", "-c", line, NULL};
	struct pollfd file;

	assert_int_equal(cm_child_start(child, "/bin/sh", argv), 0);
	do {
		file = (struct pollfd){.fd = child->fd, .events = POLLIN};
		assert_int_equal(poll(&file, 1, 60000), 1);
	} while (!cm_child_read(child));
}

CM_TEST(output_and_complaints_are_kept)
{
	struct cm_child child = {0};
	char *text;

	run(&child, "echo one; echo two >&2; exit 3");
	assert_string_equal(child.text, "one\ntwo\n");
	assert_true(WIFEXITED(child.status));
	assert_int_equal(WEXITSTATUS(child.status), 3);
	text = cm_child_take_text(&child);
	assert_null(child.text);
	free(text);
	cm_child_stop(&child);
}

CM_TEST(too_much_output_is_cut)
{
	struct cm_child child = {0};

	run(&child, "head -c 3000000 /dev/zero");
	assert_true(child.length <= CM_CHILD_TEXT_MAX);
	assert_int_equal(WEXITSTATUS(child.status), 0);
	cm_child_stop(&child);
}

CM_TEST(a_program_that_is_missing_fails)
{
	struct cm_child child = {0};
	const char *argv[] = {"missing", NULL};
	struct pollfd file;

	assert_int_equal(cm_child_start(&child, "/no/such/program", argv), 0);
	do {
		file = (struct pollfd){.fd = child.fd, .events = POLLIN};
		(void)poll(&file, 1, 60000);
	} while (!cm_child_read(&child));
	assert_int_equal(WEXITSTATUS(child.status), 127);
	assert_null(child.text);
	cm_child_stop(&child);
}

CM_TEST(one_that_runs_is_ended)
{
	struct cm_child child = {0};
	const char *argv[] = {"sleep", "1000", NULL};
	pid_t pid;

	assert_int_equal(cm_child_start(&child, "/bin/sleep", argv), 0);
	assert_false(cm_child_read(&child));
	pid = child.pid;
	cm_child_stop(&child);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), -1);
	assert_int_equal(child.pid, 0);
	cm_child_stop(&child);
}
