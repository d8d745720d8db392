/* SPDX-License-Identifier: MIT */
#include "tools/demo/machine.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stats/counters.h"
#include "stats/tick.h"
#include "tools/cli/exits.h"
#include "tools/demo/roles.h"

#define CARDS     2
#define ROLES_MAX 16
#define GIB       ((int64_t)1 << 30)

/* What all processes see. */
struct shared {
	struct cm_demo_card card[CARDS];
	char path[ROLES_MAX][256];    /* of each region */
	_Atomic int error[ROLES_MAX]; /* 1: not started yet; else why it could not */
};

struct cm_demo_machine {
	struct shared *shared;
	pid_t pid[ROLES_MAX]; /* 0: ended */
	sigset_t signals;
};

static volatile sig_atomic_t ending;

static void note_end(int number)
{
	(void)number;
	ending = 1;
}

static void block_signals(sigset_t *signals)
{
	(void)sigemptyset(signals);
	(void)sigaddset(signals, SIGINT);
	(void)sigaddset(signals, SIGTERM);
	(void)sigaddset(signals, SIGHUP);
	(void)sigaddset(signals, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, signals, NULL);
}

static void name_process(const struct cm_demo_heap *heap)
{
	(void)prctl(PR_SET_NAME, heap->region->header->comm);
}

/* Acts in steps, and answers tools in between. */
static void act(const struct cm_demo_role *role, struct cm_demo_heap *heap)
{
	uint64_t next_ns = cm_monotonic_ns();
	uint32_t step;

	for (step = 0; !ending; step++) {
		if (role->step(heap, step) == CM_DEMO_CRASHES) {
			/* The card gets back what the process held. */
			(void)atomic_fetch_sub(&heap->card->used,
					       cm_stat_current(heap->row, CM_STAT_RESERVED_BYTES));
			(void)raise(SIGKILL);
		}
		for (next_ns += CM_DEMO_STEP_MS * UINT64_C(1000000);
		     !ending && cm_monotonic_ns() < next_ns;)
			cm_demo_heap_serve(heap,
					   (int)((next_ns - cm_monotonic_ns()) / 1000000) + 1);
		cm_demo_heap_poll(heap);
	}
	cm_region_remove(heap->region);
}

/* One process: ends with the parent, at a signal, or by its role. */
static void live(struct cm_demo_machine *machine, size_t number, const char *dir, pid_t parent)
{
	const struct cm_demo_role *role = &cm_demo_roles[number];
	struct sigaction action = {.sa_handler = note_end};
	struct cm_demo_heap *heap = calloc(1, sizeof(*heap));
	int err = -ENOMEM;

	(void)sigaction(SIGTERM, &action, NULL);
	(void)signal(SIGINT, SIG_IGN); /* of the terminal: the parent ends us */
	(void)signal(SIGHUP, SIG_IGN);
	(void)sigprocmask(SIG_UNBLOCK, &machine->signals, NULL);
	(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(1);
	if (heap)
		err = cm_demo_heap_init(heap, dir, &machine->shared->card[role->card], role->card,
					role->command);
	if (!err) {
		(void)snprintf(machine->shared->path[number], sizeof(machine->shared->path[number]),
			       "%s", heap->region->path);
		name_process(heap);
	}
	atomic_store(&machine->shared->error[number], err);
	if (!err)
		act(role, heap);
	_exit(err != 0);
}

/* Waits until the process reports that its region exists, or why it does not. */
static int wait_for_start(const struct cm_demo_machine *machine, size_t number)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	siginfo_t ended = {0};

	while (atomic_load(&machine->shared->error[number]) == 1) {
		if (waitid(P_PID, (id_t)machine->pid[number], &ended,
			   WEXITED | WNOHANG | WNOWAIT) ||
		    ended.si_pid)
			return -ECHILD;
		(void)nanosleep(&pause, NULL);
	}
	return atomic_load(&machine->shared->error[number]);
}

static int start_process(struct cm_demo_machine *machine, size_t number,
			 const struct cm_options *options)
{
	const pid_t parent = getpid();

	atomic_store(&machine->shared->error[number], 1);
	machine->pid[number] = fork();
	if (!machine->pid[number])
		live(machine, number, options->dir, parent);
	if (machine->pid[number] < 0) {
		machine->pid[number] = 0;
		return -errno;
	}
	return wait_for_start(machine, number);
}

static struct shared *make_shared(void)
{
	struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	size_t i;

	if (shared == MAP_FAILED)
		return NULL;
	for (i = 0; i < CARDS; i++) {
		shared->card[i].total = 80 * GIB;
		shared->card[i].others = (3 + 4 * (int64_t)i) * GIB;
	}
	return shared;
}

int cm_demo_machine_start(const struct cm_options *options, struct cm_demo_machine **ret_machine)
{
	struct cm_demo_machine *machine = calloc(1, sizeof(*machine));
	size_t i;
	int err = 0;

	if (machine)
		machine->shared = make_shared();
	if (!machine || !machine->shared) {
		free(machine);
		return cm_fail_memory();
	}
	block_signals(&machine->signals);
	for (i = 0; i < cm_demo_role_count && i < ROLES_MAX && !err; i++)
		err = start_process(machine, i, options);
	if (err) {
		cm_demo_machine_stop(machine);
		return cm_fail(CM_EXIT_TARGET, "%s: %s",
			       options->dir ? options->dir : CM_REGION_DIR, strerror(-err));
	}
	*ret_machine = machine;
	return CM_EXIT_OK;
}

size_t cm_demo_machine_running(const struct cm_demo_machine *machine)
{
	size_t i, n = 0;

	for (i = 0; i < ROLES_MAX; i++)
		n += machine->pid[i] > 0;
	return n;
}

/* Takes note of processes that have ended. */
static void reap(struct cm_demo_machine *machine)
{
	pid_t pid;
	size_t i;

	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		for (i = 0; i < ROLES_MAX; i++)
			if (machine->pid[i] == pid)
				machine->pid[i] = 0;
}

void cm_demo_machine_wait(struct cm_demo_machine *machine)
{
	int number = 0;

	while (cm_demo_machine_running(machine)) {
		if (sigwait(&machine->signals, &number))
			continue;
		if (number != SIGCHLD)
			return;
		reap(machine);
	}
}

void cm_demo_machine_stop(struct cm_demo_machine *machine)
{
	size_t i;

	if (!machine)
		return;
	for (i = 0; i < ROLES_MAX; i++)
		if (machine->pid[i] > 0)
			(void)kill(machine->pid[i], SIGTERM);
	for (i = 0; i < ROLES_MAX; i++) {
		if (machine->pid[i] > 0)
			(void)waitpid(machine->pid[i], NULL, 0);
		if (machine->shared->path[i][0])
			(void)unlink(machine->shared->path[i]); /* of one that crashed */
	}
	(void)munmap(machine->shared, sizeof(*machine->shared));
	free(machine);
}
