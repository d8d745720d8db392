/* SPDX-License-Identifier: MIT */
/*
 * How processes live that use CUDA, and that do not: whatever they do, it ends as it does without
 * the library. test_process.c has what is the library's own in it.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "interpose/cudamem.h"
#include "tests/preload/surface/surface.h"
#include "tests/unit/cmocka_all.h"

/* ---- threads and contexts ---- */

struct errand {
	CUcontext ctx;
	CUdeviceptr block;
};

static void *free_in_another_context(void *arg)
{
	const struct errand *errand = arg;

	OK(cuCtxSetCurrent(errand->ctx));
	OK(cuMemFree_v2(errand->block));
	return NULL;
}

/* The thread's context is another one than the block's. */
CM_ROLE(free_by_a_stranger)
{
	CUcontext first = cm_open(0);
	struct errand errand = {.block = cm_get(30 * MIB)};
	CUdeviceptr again;
	pthread_t thread;
	CUcontext owner;

	OK(cuCtxCreate_v2(&errand.ctx, 0, 0));
	CM_MUST(!pthread_create(&thread, NULL, free_in_another_context, &errand));
	CM_MUST(!pthread_join(thread, NULL));
	CM_MUST(cuMemFree_v2(errand.block) == CUDA_ERROR_INVALID_VALUE);
	OK(cuCtxSetCurrent(first));
	again = cm_get(30 * MIB);
	OK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, again));
	CM_MUST(owner == first);
	OK(cuMemFree_v2(again));
}

/* ---- children ---- */

/* The first time it is the start. Whatever happens in between leaves the region where it is. */
static void must_still_serve(void)
{
	static unsigned regions = UINT32_MAX;

	OK(cuMemFree_v2(cm_get(3 * MIB)));
	if (regions == UINT32_MAX)
		regions = cm_count_regions();
	CM_MUST(cm_count_regions() == regions);
}

/* As posix_spawn and Python's subprocess do it: the child shares our memory until it is another. */
CM_ROLE(vfork)
{
	char *const command[] = {(char *)"true", NULL};
	pid_t pid;

	cm_open(0);
	must_still_serve();
	pid = vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork) */
	if (!pid) {
		(void)execvp("true", command);
		_exit(1);
	}
	cm_wait_for_child(pid);
	must_still_serve();
	CM_MUST(!posix_spawnp(&pid, "true", NULL, NULL, command, environ));
	cm_wait_for_child(pid);
	must_still_serve();
}

/* A child that no handler of fork hears of: to it there is no cache, and what is the parent's
 * stays. */
CM_ROLE(clone)
{
	__typeof__(cudamem_memory_allocated) *allocated;
	CUdeviceptr block;
	long pid;

	allocated = (__typeof__(allocated))dlsym(RTLD_DEFAULT, "cudamem_memory_allocated");
	CM_MUST(allocated);
	cm_open(0);
	block = cm_get(3 * MIB);
	pid = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (!pid) {
		CM_MUST(allocated(0) == 0);
		exit(0); /* with all that is to be done at exit */
	}
	cm_wait_for_child((pid_t)pid);
	CM_MUST(cm_count_regions() == 1);
	CM_MUST(cm_allocated() == (int64_t)(3 * MIB));
	OK(cuMemFree_v2(block));
}

/* The pool of processes that Python's multiprocessing makes: forked before, each with a life of its
 * own, all at once. */
CM_ROLE(workers)
{
	pid_t pid[4];
	int i;

	for (i = 0; i < 4; i++) {
		pid[i] = fork();
		if (!pid[i]) {
			cm_open(0);
			OK(cuMemFree_v2(cm_get(3 * MIB)));
			exit(0);
		}
	}
	for (i = 0; i < 4; i++)
		cm_wait_for_child(pid[i]);
	cm_open(0);
	OK(cuMemFree_v2(cm_get(3 * MIB)));
}

static int status_of(const char *command)
{
	int status = system(command);

	CM_MUST(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* They inherit the preload, and nothing of it shows. */
CM_ROLE(shell)
{
	cm_open(0);
	must_still_serve();
	CM_MUST(status_of("exit 3") == 3);
	CM_MUST(status_of("test \"$(printf 'a\\nb\\n' | sort -r | head -n 1)\" = b") == 0);
	CM_MUST(status_of("env -i true") == 0);
	must_still_serve();
}

CM_ROLE(compiler)
{
	char command[PATH_MAX + 256];

	cm_open(0);
	must_still_serve();
	(void)snprintf(command, sizeof(command),
		       "cd \"$REGIONS\" && echo 'int main(void){return 7;}' >p.c && cc -o p p.c "
		       "&& ./p; s=$?; rm -f p p.c; exit $s");
	CM_MUST(status_of(command) == 7);
	must_still_serve();
}

/* As by hand: what the test says of the order of libraries is not for it. */
CM_ROLE(guarded)
{
	CM_MUST(status_of("ASAN_OPTIONS=detect_leaks=0 \"$GUARDED\"") == 7);
}

/* The loader can't preload 64 bits into it and says so; it runs. */
CM_ROLE(32_bit)
{
	CM_MUST(status_of("cd \"$REGIONS\" && ./p32 2>/dev/null") == 7);
}

/* ---- the end ---- */

static CUdeviceptr last_block;
static CUresult wanted_at_the_end;

/* As the destructor of a C++ object of static duration, or of a shared library. */
__attribute__((destructor)) static void free_last(void)
{
	if (last_block)
		CM_MUST(cuMemFree_v2(last_block) == wanted_at_the_end);
}

CM_ROLE(destructor)
{
	cm_open(0);
	last_block = cm_get(3 * MIB);
	OK(cuMemFree_v2(cm_get(MIB)));
	wanted_at_the_end = CUDA_ERROR_DEINITIALIZED;
}

/* A driver that is still there then takes it. */
CM_ROLE(destructor_before_the_end)
{
	play_destructor();
	wanted_at_the_end = CUDA_SUCCESS;
}

static void *free_for_ever(void *arg)
{
	CUdeviceptr addr;

	(void)cuCtxSetCurrent(arg);
	for (;;)
		if (cuMemAlloc_v2(&addr, MIB) == CUDA_SUCCESS)
			(void)cuMemFree_v2(addr);
	return NULL;
}

/* Without any handler: what a crash leaves is for the next process to sweep. */
CM_ROLE(sudden_end)
{
	CUcontext ctx = cm_open(0);
	pthread_t thread;
	char command[64];

	CM_MUST(!pthread_create(&thread, NULL, free_for_ever, ctx));
	must_still_serve();
	(void)snprintf(command, sizeof(command), "rm -f \"$REGIONS\"/cudamem.*.%d.*",
		       (int)getpid());
	if (cm_is_here())
		CM_MUST(status_of(command) == 0);
	_exit(0);
}

/* ---- what a process is ---- */

/* What the start of a library could change of it. */
struct process_state {
	void (*handler[NSIG])(int);
	bool blocked[NSIG];
	mode_t umask;
	struct rlimit limit[RLIM_NLIMITS];
	char folder[PATH_MAX];
	char **environment;
	int errno_value;
};

static void read_state(struct process_state *state)
{
	struct sigaction action = {0};
	sigset_t blocked;
	int i;

	memset(state, 0, sizeof(*state));
	state->errno_value = errno;
	CM_MUST(!sigprocmask(SIG_BLOCK, NULL, &blocked));
	for (i = 1; i < NSIG; i++) {
		state->handler[i] = sigaction(i, NULL, &action) ? NULL : action.sa_handler;
		state->blocked[i] = sigismember(&blocked, i) == 1;
	}
	state->umask = umask(0);
	(void)umask(state->umask);
	for (i = 0; i < RLIM_NLIMITS; i++)
		CM_MUST(!getrlimit((__rlimit_resource_t)i, &state->limit[i]));
	CM_MUST(getcwd(state->folder, sizeof(state->folder)));
	state->environment = environ;
}

static bool is_same(const struct process_state *a, const struct process_state *b)
{
	return !memcmp(a->handler, b->handler, sizeof(a->handler)) &&
	       !memcmp(a->blocked, b->blocked, sizeof(a->blocked)) && a->umask == b->umask &&
	       !memcmp(a->limit, b->limit, sizeof(a->limit)) && !strcmp(a->folder, b->folder) &&
	       a->environment == b->environment && a->errno_value == b->errno_value;
}

CM_ROLE(state)
{
	static struct process_state before, after;
	CUdeviceptr block;

	cm_open(0);
	errno = EXDEV;
	read_state(&before);
	errno = EXDEV;
	block = cm_get(3 * MIB); /* the library starts */
	CM_MUST(errno == EXDEV);
	OK(cuMemFree_v2(block));
	CM_MUST(errno == EXDEV);
	read_state(&after);
	CM_MUST(is_same(&before, &after));
}

/* Another thread than the one that is inside of the driver. */
static void *fork_meanwhile(void *arg)
{
	CUcontext ctx;
	pid_t child;

	child = fork();
	CM_MUST(child >= 0);
	if (!child)
		_exit(cuDevicePrimaryCtxRetain(&ctx, 0) == CUDA_SUCCESS);
	cm_wait_for_child(child);
	return arg;
}

static void let_it_fork(void *arg)
{
	pthread_t thread;

	CM_MUST(!pthread_create(&thread, NULL, fork_meanwhile, arg));
	CM_MUST(!pthread_join(thread, NULL));
}

/* Before any memory is asked for; the child is told so by the driver. */
CM_ROLE(early_fork)
{
	CUcontext ctx;

	OK(cuInit(0));
	cudasim_interrupt(1, let_it_fork, NULL);
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	OK(cuMemFree_v2(cm_get(MIB)));
}

/* ---- the tests ---- */

CM_PLAY_EVERYWHERE(a_thread_frees_what_another_context_has, "free_by_a_stranger", NULL)
CM_PLAY_EVERYWHERE(a_child_that_shares_memory_changes_nothing, "vfork", NULL)
CM_PLAY(a_child_that_fork_did_not_make_has_no_cache, "clone", "", NULL)
CM_PLAY_EVERYWHERE(forked_workers_have_lives_of_their_own, "workers", NULL)
CM_PLAY_EVERYWHERE(a_child_forked_beside_a_retain_is_refused, "early_fork", NULL)
CM_PLAY_EVERYWHERE(a_shell_among_the_children_is_not_touched, "shell", NULL)
CM_PLAY_EVERYWHERE(a_destructor_after_the_driver_hears_that_it_has_gone, "destructor", NULL)
CM_PLAY_EVERYWHERE(a_destructor_before_its_end_frees, "destructor_before_the_end",
		   "CUDASIM=teardown:off")
CM_PLAY_EVERYWHERE(an_end_without_handlers_is_clean, "sudden_end", NULL)

CM_PLAY_EVERYWHERE(the_state_of_the_process_is_not_touched, "state", NULL)

CM_PLAY_TEST(a_compiler_among_the_children_is_not_touched)
{
	if (SANITIZED)
		cm_skip("a library with a sanitizer can't be preloaded into the compiler");
	if (system("cc --version >/dev/null 2>&1") != 0)
		cm_skip("no cc here");
	cm_play_everywhere(state, "compiler", NULL);
}

CM_PLAY_TEST(a_program_of_address_sanitizer_runs)
{
	if (access(getenv("GUARDED"), X_OK))
		cm_skip("the compiler has no shared AddressSanitizer");
	cm_play_everywhere(state, "guarded", NULL);
}

CM_PLAY_TEST(a_32_bit_child_runs)
{
	struct cm_play *play = *state;

	/* By hand, since the compiler's own 32-bit files do not go with a cross compiler
	 * (Debian). */
	static const char build[] =
		"echo 'void _start(void) { __asm__(\"int $0x80\" : : \"a\"(1), \"b\"(7)); }' | "
		"cc -m32 -nostdlib -fno-pic -no-pie -x c -o p32 - -Wl,--no-as-needed "
		"-L/lib32 -l:libc.so.6 -Wl,-dynamic-linker,/lib/ld-linux.so.2 2>/dev/null";

	if (cm_play_system(play, build))
		cm_skip("no 32-bit C library here (libc6-i386)");
	cm_play(state, "32_bit", "", NULL);
	assert_int_equal(cm_play_system(play, "rm p32"), 0);
}
