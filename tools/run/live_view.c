/* SPDX-License-Identifier: MIT */
#include "tools/run/live_view.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/cli/exits.h"
#include "tools/cli/width.h"

#define SELF "/proc/self/exe"

int cm_live_view_open(const struct cm_options *options, struct cm_live_view *ret_view)
{
	*ret_view = (struct cm_live_view){.log = -1};
	if (!options->live)
		return 0;
	if (!CM_HAVE_NCURSES)
		return cm_fail(CM_EXIT_USAGE,
			       "--top: this build has no full screen: it was built without "
			       "ncursesw");
	if (!options->log)
		return cm_fail(CM_EXIT_USAGE, "--top takes the screen; name a file for the "
					      "program's output with --log FILE");
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return cm_fail(CM_EXIT_USAGE, "--top needs a terminal");
	if (options->dry_run)
		return 0;
	ret_view->log = open(options->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW,
			     0600);
	if (ret_view->log < 0)
		return cm_fail(CM_EXIT_RUN, "--log %s: %s", options->log,
			       errno == ELOOP ? "a symbolic link, not followed" : strerror(errno));
	return 0;
}

/* A process group of its own: the view gets what is typed, and Ctrl-C ends the view alone. */
void cm_live_view_leave_terminal(const struct cm_live_view *view)
{
	const int nothing = view->log < 0 ? -1 : open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (view->log < 0)
		return;
	(void)setpgid(0, 0);
	if (nothing >= 0)
		(void)dup2(nothing, STDIN_FILENO);
	(void)dup2(view->log, STDOUT_FILENO);
	(void)dup2(view->log, STDERR_FILENO);
}

void cm_live_view_start(struct cm_live_view *view, const char *folder)
{
	if (view->log < 0)
		return;
	view->pid = fork();
	/* The program has left the terminal already: Ctrl-C must reach it all the same. */
	if (view->pid < 0) {
		cm_complain("the view cannot be started: %s; the program runs on, Ctrl-C ends it",
			    strerror(errno));
		view->ended = true;
	}
	if (view->pid)
		return;
	(void)execl(SELF, CM_PROGRAM, "top", "--dir", folder, (char *)NULL);
	_exit(CM_EXIT_RUN);
}

void cm_live_view_poll(struct cm_live_view *view, const struct cm_options *options)
{
	if (view->pid <= 0 || !waitpid(view->pid, NULL, WNOHANG))
		return;
	view->pid = 0;
	view->ended = true;
	cm_line(stderr, "  ",
		"cudamem: the view has ended, the program runs on; its output is in %s, Ctrl-C "
		"ends it",
		options->log);
}

void cm_live_view_stop(struct cm_live_view *view)
{
	if (view->pid <= 0)
		return;
	(void)kill(view->pid, SIGTERM);
	while (waitpid(view->pid, NULL, 0) < 0 && errno == EINTR)
		continue;
	view->pid = 0;
}

void cm_live_view_close(struct cm_live_view *view)
{
	if (view->log >= 0)
		(void)close(view->log);
	view->log = -1;
}
