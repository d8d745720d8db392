/* SPDX-License-Identifier: MIT */
#include "tools/top/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHUNK 4096

/* In the child: what it inherits must be as for a command of the shell. execv() leaves the words
 * alone, though its type does not say so. */
static void become(const char *path, const char *const *argv, int out)
{
	const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
	    dup2(out, STDERR_FILENO) >= 0)
		(void)execv(path, (char *const *)(uintptr_t)argv);
	_exit(127);
}

int cm_child_start(struct cm_child *child, const char *path, const char *const *argv)
{
	int ends[2];
	pid_t pid;

	cm_child_stop(child);
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	pid = fork();
	if (!pid) {
		(void)fcntl(ends[1], F_SETFL, 0); /* a full pipe makes it wait */
		become(path, argv, ends[1]);
	}
	(void)close(ends[1]);
	if (pid < 0) {
		(void)close(ends[0]);
		return -EAGAIN;
	}
	*child = (struct cm_child){.pid = pid, .fd = ends[0]};
	return 0;
}

/* Adds to the text. Output beyond its limit is read and dropped. */
static void keep_text(struct cm_child *child, const char *bytes, size_t count)
{
	char *text;

	if (child->length + count > CM_CHILD_TEXT_MAX)
		return;
	text = realloc(child->text, child->length + count + 1);
	if (!text)
		return;
	memcpy(text + child->length, bytes, count);
	child->text = text;
	child->length += count;
	child->text[child->length] = '\0';
}

bool cm_child_read(struct cm_child *child)
{
	char bytes[CHUNK];
	ssize_t n;

	if (!child->pid)
		return false;
	while ((n = read(child->fd, bytes, sizeof(bytes))) > 0)
		keep_text(child, bytes, (size_t)n);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	(void)close(child->fd);
	while (waitpid(child->pid, &child->status, 0) < 0 && errno == EINTR)
		;
	child->pid = 0;
	return true;
}

void cm_child_stop(struct cm_child *child)
{
	if (child->pid) {
		(void)kill(child->pid, SIGKILL);
		(void)close(child->fd);
		(void)waitpid(child->pid, NULL, 0);
	}
	free(child->text);
	memset(child, 0, sizeof(*child));
}

char *cm_child_take_text(struct cm_child *child)
{
	char *text = child->text;

	child->text = NULL;
	child->length = 0;
	return text;
}
