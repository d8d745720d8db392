/* SPDX-License-Identifier: MIT */
/* The checks of a program before it is started. They do not run it. */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/doctor/checks.h"
#include "tools/run/loader.h"

void cm_check_PROGRAM(const struct cm_patient *patient, struct cm_finding *finding)
{
	char path[PATH_MAX];

	(void)cm_loader_find(patient->command[0], patient->library, path);
	if (*path) {
		cm_see(finding, CM_VERDICT_OK, "%s", path);
		return;
	}
	cm_see(finding, CM_VERDICT_FAIL, "%s: no program of this name can be executed",
	       patient->command[0]);
	cm_remedy(finding, "ls -l %s", patient->command[0]);
}

/* Whether this is why the library does not cover the program. `other` is said if it is not. */
static void see_loader(const struct cm_patient *patient, enum cm_loader cause, const char *other,
		       struct cm_finding *finding)
{
	char path[PATH_MAX];

	if (cm_loader_find(patient->command[0], patient->library, path) != cause) {
		if (*path)
			cm_see(finding, CM_VERDICT_OK, "%s %s", path, other);
		else
			cm_see(finding, CM_VERDICT_OK, "not looked at: there is no program");
		return;
	}
	cm_see(finding, CM_VERDICT_FAIL, "%s %s: it is not covered", path, cm_loader_why(cause));
	cm_remedy(finding, "%s", cm_loader_remedy(cause));
}

void cm_check_PROGRAM_STATIC(const struct cm_patient *patient, struct cm_finding *finding)
{
	see_loader(patient, CM_LOADER_NONE, "is not static", finding);
}

void cm_check_PROGRAM_RIGHTS(const struct cm_patient *patient, struct cm_finding *finding)
{
	see_loader(patient, CM_LOADER_SECURE, "has no more rights than you", finding);
}

void cm_check_PROGRAM_MACHINE(const struct cm_patient *patient, struct cm_finding *finding)
{
	see_loader(patient, CM_LOADER_MACHINE, "is not for another machine", finding);
}

void cm_check_PROGRAM_MUSL(const struct cm_patient *patient, struct cm_finding *finding)
{
	see_loader(patient, CM_LOADER_MUSL, "does not use musl", finding);
}

void cm_check_PROGRAM_WRAPPER(const struct cm_patient *patient, struct cm_finding *finding)
{
	const char *name = basename(patient->command[0]);
	const char *why = cm_loader_wraps(patient->command);

	if (!why) {
		cm_see(finding, CM_VERDICT_OK, "%s is not known to start programs elsewhere", name);
		return;
	}
	cm_see(finding, CM_VERDICT_WARN, "%s %s", name, why);
	cm_remedy(finding, "%s", CM_LOADER_BEHIND);
}

/* Reads what the child writes, up to the end. */
static void read_all(int fd, char *to, size_t bytes)
{
	size_t used = 0;
	ssize_t n;

	while (used < bytes - 1) {
		n = read(fd, to + used, bytes - 1 - used);
		if (n <= 0)
			break;
		used += (size_t)n;
	}
	to[used] = '\0';
}

/* The loader lists what it would load and does not start the program. */
static bool ask_loader(const char *path, const char *library, char *answer, size_t bytes)
{
	char preload[PATH_MAX + 16], *argv[] = {(char *)(uintptr_t)path, NULL};
	char *env[] = {preload, (char *)(uintptr_t) "LD_TRACE_LOADED_OBJECTS=1", NULL};
	posix_spawn_file_actions_t actions;
	bool asked = false;
	pid_t child;
	int out[2];

	if (pipe2(out, O_CLOEXEC))
		return false;
	(void)snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", library);
	if (!posix_spawn_file_actions_init(&actions)) {
		(void)posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
		(void)posix_spawn_file_actions_adddup2(&actions, out[1], STDERR_FILENO);
		asked = !posix_spawn(&child, path, &actions, NULL, argv, env);
		(void)posix_spawn_file_actions_destroy(&actions);
	}
	(void)close(out[1]);
	if (asked) {
		read_all(out[0], answer, bytes);
		(void)waitpid(child, NULL, 0);
	}
	(void)close(out[0]);
	return asked;
}

void cm_check_PROGRAM_LOADED(const struct cm_patient *patient, struct cm_finding *finding)
{
	char path[PATH_MAX], answer[8192];

	cm_see(finding, CM_VERDICT_OK, "not asked: the loader takes no library");
	/* Without a glibc loader the program itself would run. */
	if (cm_loader_find(patient->command[0], patient->library, path) != CM_LOADER_PRELOADS ||
	    !*path || !*patient->library || !cm_loader_is_glibc(path) ||
	    !ask_loader(path, patient->library, answer, sizeof(answer)))
		return;
	if (strstr(answer, patient->library) && !strstr(answer, "not found")) {
		cm_see(finding, CM_VERDICT_OK, "the loader of %s loads the library", path);
		return;
	}
	answer[strcspn(answer, "\n")] = '\0';
	cm_see(finding, CM_VERDICT_FAIL, "the loader of %s says: %.300s", path, answer);
	cm_remedy(finding, "LD_PRELOAD=%s ldd %s shows all of it", patient->library, path);
}

void cm_check_PROGRAM_PYTORCH(const struct cm_patient *patient, struct cm_finding *finding)
{
	const char *set = getenv("PYTORCH_NO_CUDA_MEMORY_CACHING");

	if (strncmp(basename(patient->command[0]), "python", 6) != 0 || (set && *set)) {
		cm_see(finding, CM_VERDICT_OK, "PyTorch does not cache, or it is no Python");
		return;
	}
	cm_see(finding, CM_VERDICT_NOTE,
	       "it is Python; if it uses PyTorch, that has a cache of its own, and is seen as "
	       "a few large blocks");
	cm_remedy(finding, "PYTORCH_NO_CUDA_MEMORY_CACHING=1 leaves caching to the library");
}
