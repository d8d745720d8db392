/* SPDX-License-Identifier: MIT */
#include "tests/unit/rerun.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROLE "--role"

_Noreturn void cm_rerun_fail(const char *file, int line, const char *condition)
{
	char text[512];
	int n;

	n = snprintf(text, sizeof(text), "%s:%d: not true: %s\n", file, line, condition);
	(void)!write(STDERR_FILENO, text, (size_t)n);
	_exit(99);
}

bool cm_rerun_is_mapped(const char *name)
{
	char line[PATH_MAX + 128];
	bool found = false;
	FILE *maps = fopen("/proc/self/maps", "r");

	CM_MUST(maps);
	while (!found && fgets(line, sizeof(line), maps))
		found = strstr(line, name) != NULL;
	(void)fclose(maps);
	return found;
}

struct cm_role *cm_roles;

void cm_rerun_role(int argc, char **argv)
{
	const struct cm_role *role;

	if (argc < 3 || strcmp(argv[1], ROLE) != 0)
		return;
	for (role = cm_roles; role; role = role->next) {
		if (!strcmp(role->name, argv[2])) {
			role->play();
			exit(0);
		}
	}
	cm_rerun_fail(__FILE__, __LINE__, argv[2]);
}

/* By its name: under valgrind the link itself leads to valgrind. */
static void find_program(char path[PATH_MAX])
{
	const ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);

	path[n > 0 ? n : 0] = '\0';
}

static _Noreturn void exec_role(const char *path, const char *role)
{
	char *arguments[] = {(char *)"rerun", (char *)ROLE, (char *)role, NULL};

	(void)execv(path, arguments);
	_exit(98);
}

void cm_rerun_exec(const char *role)
{
	char path[PATH_MAX];

	find_program(path);
	exec_role(path, role);
}

static _Noreturn void become(const struct cm_rerun *rerun, const int *ends)
{
	const char *const *entry;
	char path[PATH_MAX];

	/* First: in a mount namespace that `prepare` enters inside a changed root, the link names
	 * the path from outside that root. */
	find_program(path);
	/* A role may wait for ever: it goes with the test, however that ends. */
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)dup2(ends[1], STDERR_FILENO);
	(void)close(ends[0]);
	(void)close(ends[1]);
	for (entry = rerun->environment; entry && *entry; entry++)
		(void)putenv((char *)*entry);
	if (rerun->prepare)
		rerun->prepare();
	exec_role(path, rerun->role);
}

/* Until the last writer has closed its end; what does not fit is dropped. */
static void read_all(int fd, char *said)
{
	size_t used = 0;
	char rest[256];
	ssize_t n;

	do {
		if (used < CM_RERUN_SAID - 1)
			n = read(fd, said + used, CM_RERUN_SAID - 1 - used);
		else
			n = read(fd, rest, sizeof(rest));
		if (n > 0 && used < CM_RERUN_SAID - 1)
			used += (size_t)n;
	} while (n > 0);
}

int cm_rerun(const struct cm_rerun *rerun, char *said)
{
	int ends[2], status;
	pid_t pid;

	memset(said, 0, CM_RERUN_SAID);
	if (pipe(ends))
		return 97;
	pid = fork();
	if (pid < 0)
		return 97;
	if (!pid)
		become(rerun, ends);
	(void)close(ends[1]);
	if (rerun->reader == CM_RERUN_CLOSED)
		(void)close(ends[0]);
	else if (rerun->reader == CM_RERUN_READ)
		read_all(ends[0], said);
	if (waitpid(pid, &status, 0) != pid)
		return 97;
	if (rerun->reader != CM_RERUN_CLOSED)
		(void)close(ends[0]);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
