/* SPDX-License-Identifier: MIT */
#include "tools/snapshot/apart.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534

/* Gives up root for good. A user without an entry has no group either. */
static bool become(uid_t owner)
{
	const struct passwd *user;
	gid_t group;

	if (geteuid() || !owner)
		return true;
	user = getpwuid(owner);
	group = user ? user->pw_gid : NOBODY;
	if (user ? initgroups(user->pw_name, group) : setgroups(0, NULL))
		return false;
	return !setresgid(group, group, group) && !setresuid(owner, owner, owner);
}

/* What a compressed file holds may be more than there is memory: rather this process ends than
 * another. While it is root's, as the kernel lets no other write this. */
static void volunteer(void)
{
	const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	(void)!write(fd, "1000", 4);
	(void)close(fd);
}

static void run_child(uid_t owner, int fd, void (*work)(void *data, FILE *to), void *data)
{
	FILE *to = fdopen(fd, "w");

	/* A reader that gives up, or is killed, ends us too. */
	(void)signal(SIGPIPE, SIG_DFL);
	volunteer();
	if (to && become(owner) && !prctl(PR_SET_PDEATHSIG, SIGKILL)) {
		work(data, to);
		(void)fflush(to);
	}
	_exit(0);
}

int cm_apart_start(uid_t owner, int silence_ms, void (*work)(void *data, FILE *to), void *data,
		   struct cm_apart *ret_apart)
{
	int ends[2], err;
	pid_t child;

	if (pipe2(ends, O_CLOEXEC))
		return -errno;
	(void)fflush(NULL);
	child = fork();
	if (!child)
		run_child(owner, ends[1], work, data);
	err = errno;
	(void)close(ends[1]);
	if (child < 0) {
		(void)close(ends[0]);
		return -err;
	}
	*ret_apart = (struct cm_apart){child, ends[0], silence_ms};
	return 0;
}

bool cm_apart_read(struct cm_apart *apart, void *bytes, size_t count)
{
	struct pollfd from = {.fd = apart->from, .events = POLLIN};
	char *to = bytes;
	ssize_t n;
	int ready;

	while (count) {
		ready = poll(&from, 1, apart->silence_ms);
		if (ready < 0 && errno == EINTR)
			continue;
		n = ready > 0 ? read(apart->from, to, count) : 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		to += n;
		count -= (size_t)n;
	}
	return true;
}

void cm_apart_end(struct cm_apart *apart)
{
	(void)close(apart->from);
	(void)kill(apart->child, SIGKILL);
	while (waitpid(apart->child, NULL, 0) < 0 && errno == EINTR)
		;
}
