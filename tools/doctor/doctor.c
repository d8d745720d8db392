/* SPDX-License-Identifier: MIT */
#include "tools/doctor/doctor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stats/tick.h"

/* The limits for all checks and for one. Those that wait for the loader of a program take
 * longest. */
#define LIMIT_NS (CM_NS_PER_S * 19 / 10)
#define EACH_NS  (CM_NS_PER_S * 3 / 4)
#define MS_NS    UINT64_C(1000000)

static const struct cm_check_info infos[CM_CHECK_COUNT] = {
#define CM_CHECK(ID, name, SCOPE, help) \
	[CM_CHECK_##ID] = {name, help, CM_CHECK_SCOPE_##SCOPE, cm_check_##ID},
#include "tools/doctor/checks.def"
};

static const char *const verdict_names[CM_VERDICT_COUNT] = {
	[CM_VERDICT_OK] = "ok",
	[CM_VERDICT_NOTE] = "note",
	[CM_VERDICT_WARN] = "warn",
	[CM_VERDICT_FAIL] = "fail",
};

const struct cm_check_info *cm_check_info(enum cm_check check)
{
	return &infos[check];
}

const char *cm_verdict_name(enum cm_verdict verdict)
{
	return verdict_names[verdict];
}

static bool is_asked(const struct cm_patient *patient, enum cm_check_scope scope)
{
	switch (scope) {
	case CM_CHECK_SCOPE_HOST:
		return true;
	case CM_CHECK_SCOPE_PROGRAM:
		return patient->command != NULL;
	case CM_CHECK_SCOPE_PROCESS:
		return patient->pid != 0;
	}
	return false;
}

/* Waits until the other end of the pipe is closed. False: it is not, in time. */
static bool wait_for_end(int fd, uint64_t until_ns)
{
	struct pollfd end = {.fd = fd, .events = POLLIN};
	uint64_t now;
	int n;

	do {
		now = cm_monotonic_ns();
		n = poll(&end, 1, now < until_ns ? (int)((until_ns - now) / MS_NS) : 0);
	} while (n < 0 && errno == EINTR);
	return n > 0;
}

/* A child that waits in the kernel cannot be ended, and is not waited for. */
static void judge_end(pid_t child, bool ended, struct cm_finding *finding)
{
	int status = 0;

	if (!ended) {
		(void)kill(child, SIGKILL);
		cm_see(finding, CM_VERDICT_WARN, "gave no answer in time");
		return;
	}
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		continue;
	if (WIFSIGNALED(status))
		cm_see(finding, CM_VERDICT_WARN, "the check ended with signal %d (%s)",
		       WTERMSIG(status), strsignal(WTERMSIG(status)));
}

/* `finding` is shared with the child. */
static void look(const struct cm_patient *patient, enum cm_check check, uint64_t until_ns,
		 struct cm_finding *finding)
{
	int end[2];
	pid_t child;

	cm_see(finding, CM_VERDICT_WARN, "could not be looked at: no process could be started");
	if (pipe(end))
		return;
	child = fork();
	if (!child) {
		(void)close(end[0]);
		memset(finding, 0, sizeof(*finding));
		infos[check].look(patient, finding);
		_exit(0);
	}
	(void)close(end[1]);
	if (child > 0)
		judge_end(child, wait_for_end(end[0], until_ns), finding);
	(void)close(end[0]);
}

int cm_doctor_look(const struct cm_patient *patient,
		   struct cm_doctor_result ret_results[CM_CHECK_COUNT])
{
	const uint64_t end_ns = cm_monotonic_ns() + LIMIT_NS;
	struct cm_finding *shared;
	uint64_t until_ns;
	enum cm_check c;

	shared = mmap(NULL, sizeof(*shared) * CM_CHECK_COUNT, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return -errno;
	(void)fflush(NULL); /* or each child has what is not written yet */
	for (c = 0; c < CM_CHECK_COUNT; c++) {
		ret_results[c].looked = is_asked(patient, infos[c].scope);
		if (!ret_results[c].looked)
			continue;
		until_ns = cm_monotonic_ns() + EACH_NS;
		look(patient, c, until_ns < end_ns ? until_ns : end_ns, &shared[c]);
		ret_results[c].finding = shared[c];
	}
	(void)munmap(shared, sizeof(*shared) * CM_CHECK_COUNT);
	return 0;
}
