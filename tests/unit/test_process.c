/* SPDX-License-Identifier: MIT */
#include "interpose/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "interpose/driver_ops.h"
#include "interpose/hooks.h"
#include "stats/config.h"
#include "stats/mailbox.h"
#include "tests/unit/cmocka_all.h"
#include "tests/unit/rerun.h"

/* clang has another way to say it. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

/* ---- the world around it: a driver with a clock, and a start that can be held up ---- */

bool __wrap_cm_real_is_complete(void);
const struct cm_driver_ops *__wrap_cm_driver_ops(void);
void __wrap_cm_doors_publish(uint64_t *door);
void __wrap_cm_capture_forget_all(void);
void __wrap_cm_context_forget_all(void);
int __wrap_cm_mailbox_nudge(struct cm_mailbox *mailbox);
int __real_cm_mailbox_nudge(struct cm_mailbox *mailbox);
void __wrap_cm_mailbox_wait(struct cm_mailbox *mailbox, int timeout_ms);
void __real_cm_mailbox_wait(struct cm_mailbox *mailbox, int timeout_ms);
int __wrap_posix_fallocate64(int fd, off_t offset, off_t bytes);
int __real_posix_fallocate64(int fd, off_t offset, off_t bytes);

static CUresult get_version(int *version)
{
	*version = 13000;
	return CUDA_SUCCESS;
}

struct cm_real cm_real = {.cuDriverGetVersion = get_version};
__thread unsigned int cm_hook_depth;

static void (*during_start)(void);
static bool driver_is_complete = true;
static unsigned calls_into_start;

bool __wrap_cm_real_is_complete(void)
{
	calls_into_start++;
	if (during_start)
		during_start();
	return driver_is_complete;
}

static uint64_t count_ticks(void)
{
	static _Atomic uint64_t ticks;

	return ++ticks;
}

static bool gate_enter(void)
{
	return true;
}

static void gate_leave(void)
{
}

const struct cm_driver_ops *__wrap_cm_driver_ops(void)
{
	static const struct cm_driver_ops ops = {
		.tick = count_ticks,
		.now_ns = count_ticks,
		.gate_enter = gate_enter,
		.gate_leave = gate_leave,
	};

	return &ops;
}

static uint64_t *published;

void __wrap_cm_doors_publish(uint64_t *door)
{
	published = door;
}

static unsigned forgotten;

void __wrap_cm_capture_forget_all(void)
{
	forgotten++;
}

void __wrap_cm_context_forget_all(void)
{
	forgotten++;
}

static _Atomic unsigned sleeps;

/* NUDGES=lost: each comes just before a sleep, which does not last as long as it says for that. */
static bool nudges_are_lost(void)
{
	return getenv("NUDGES") != NULL;
}

int __wrap_cm_mailbox_nudge(struct cm_mailbox *mailbox)
{
	return nudges_are_lost() ? 0 : __real_cm_mailbox_nudge(mailbox);
}

void __wrap_cm_mailbox_wait(struct cm_mailbox *mailbox, int timeout_ms)
{
	atomic_fetch_add(&sleeps, 1);
	__real_cm_mailbox_wait(mailbox, nudges_are_lost() && timeout_ms != CM_MAIL_FOREVER
						? timeout_ms / 100
						: timeout_ms);
}

/* FULL=n: the first n files have no space. */
int __wrap_posix_fallocate64(int fd, off_t offset, off_t bytes)
{
	static int files;
	const char *full = getenv("FULL");

	if (full && offset == 0 && ++files <= atoi(full))
		return ENOSPC;
	return __real_posix_fallocate64(fd, offset, bytes);
}

/* ---- what a role looks at ---- */

static unsigned count_regions(void)
{
	DIR *stream = opendir(getenv("REGIONS"));
	struct dirent *entry;
	unsigned n = 0;

	CM_MUST(stream);
	while ((entry = readdir(stream)))
		n += !strncmp(entry->d_name, CM_REGION_PREFIX, strlen(CM_REGION_PREFIX));
	(void)closedir(stream);
	return n;
}

/* Threads of this process; *ret_helper is the id of the one that is called cudamem. */
static unsigned count_threads(pid_t *ret_helper)
{
	DIR *stream = opendir("/proc/self/task");
	struct dirent *entry;
	char path[300], name[32];
	unsigned n = 0;
	FILE *file;

	CM_MUST(stream);
	*ret_helper = 0;
	while ((entry = readdir(stream))) {
		if (entry->d_name[0] == '.')
			continue;
		n++;
		(void)snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		file = fopen(path, "r");
		if (file && fgets(name, sizeof(name), file) && !strcmp(name, "cudamem\n"))
			*ret_helper = atoi(entry->d_name);
		if (file)
			(void)fclose(file);
	}
	(void)closedir(stream);
	return n;
}

static const struct cm_option_row *find_option(const char *name)
{
	const struct cm_region *region = cm_process_region();
	const struct cm_option_row *row;
	uint32_t i;

	for (i = 0; i < region->header->table[CM_TABLE_OPTION].rows; i++) {
		row = cm_region_row(region, CM_TABLE_OPTION, i);
		if (!strcmp(row->name, name))
			return row;
	}
	CM_MUST(!"such an option");
	return NULL;
}

static void wait_for_child(pid_t pid)
{
	int status;

	CM_MUST(waitpid(pid, &status, 0) == pid);
	CM_MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- roles ---- */

static void play_nothing(void)
{
	pid_t helper;

	CM_MUST(!cm_process_cache_if_made());
	CM_MUST(count_threads(&helper) == 1);
	CM_MUST(count_regions() == 0);
	CM_MUST(calls_into_start == 0);
}

static void play_first_call(void)
{
	struct cm_cache *cache;
	struct stat st;
	pid_t helper;

	errno = ENOTTY;
	cache = cm_process_cache();
	CM_MUST(cache);
	CM_MUST(errno == ENOTTY);
	CM_MUST(cm_process_cache() == cache);
	CM_MUST(calls_into_start == 1);
	CM_MUST(count_regions() == 1);
	CM_MUST(count_threads(&helper) == 2);
	CM_MUST(helper);
	CM_MUST(!stat(cm_process_region()->path, &st));
	CM_MUST((st.st_mode & 07777) == 0600);
	CM_MUST(cm_process_region()->header->state == CM_REGION_LIVE);
	CM_MUST(cm_process_region()->header->flags & CM_REGION_CONTROL);
	CM_MUST(cm_process_region()->header->tick_base);
	CM_MUST(cm_process_region()->header->time_base_ns);
	CM_MUST(cm_process_region()->header->driver_version == 13000);
	CM_MUST(published == cm_process_region()->header->door);
	CM_MUST(!strcmp(find_option("mode")->value, "cache"));
	CM_MUST(!strcmp(find_option("region_dir")->origin, "environment"));
}

static void play_off(void)
{
	pid_t helper;

	CM_MUST(!cm_process_cache());
	CM_MUST(!cm_process_cache());
	CM_MUST(!cm_process_policy());
	CM_MUST(!cm_process_region());
	CM_MUST(calls_into_start == 1);
	CM_MUST(count_threads(&helper) == 1);
	CM_MUST(count_regions() == 0);
}

static void play_incomplete_driver(void)
{
	driver_is_complete = false;
	play_off();
}

static void play_without_control(void)
{
	pid_t helper;

	CM_MUST(cm_process_cache());
	CM_MUST(count_threads(&helper) == 1);
	CM_MUST(!(cm_process_region()->header->flags & CM_REGION_CONTROL));
}

static void play_memfd(void)
{
	CM_MUST(cm_process_cache());
	CM_MUST(cm_process_region()->backing == CM_BACKING_MEMFD);
	CM_MUST(cm_process_region()->header->flags & CM_REGION_CONTROL);
}

static void play_private(void)
{
	CM_MUST(cm_process_cache());
	CM_MUST(cm_process_region()->backing == CM_BACKING_PRIVATE);
	CM_MUST(!(cm_process_region()->header->flags & CM_REGION_CONTROL));
}

/* Sets a limit in the role itself: what runs the role may not live with it. */
static void limit(int resource, rlim_t value)
{
	const struct rlimit limit = {value, value};

	CM_MUST(!setrlimit(resource, &limit));
}

/* None but the standard ones; what serves then is private memory, and the program goes on. */
static void play_few_files(void)
{
	limit(RLIMIT_NOFILE, 3);
	play_private();
}

static void play_small_files(void)
{
	limit(RLIMIT_FSIZE, 1 << 20);
	play_private();
}

/* Less than the address space of a region. */
static void play_little_memory(void)
{
	limit(RLIMIT_AS, UINT64_C(256) << 20);
	CM_MUST(!cm_process_cache());
	CM_MUST(!cm_process_cache());
}

static void play_no_threads(void)
{
	/* Counted for the user, and not for root: become nobody. */
	CM_MUST(!setgid(65534) && !setuid(65534));
	limit(RLIMIT_NPROC, 0);
	play_without_control();
}

static void play_policy(void)
{
	const struct cm_policy *policy = cm_process_policy();

	CM_MUST(policy);
	CM_MUST(policy->mode == CM_MODE_STATS);
	CM_MUST(policy->reuse == CM_REUSE_WAIT);
	CM_MUST(policy->sync == CM_SYNC_FREE);
	CM_MUST(policy->placement == CM_PLACEMENT_EXACT);
	CM_MUST(policy->max_split_size == UINT64_C(64) << 20);
	CM_MUST(policy->large_segment_size == UINT64_C(32) << 20);
	CM_MUST(policy->max_non_split_rounding == UINT64_C(32) << 20);
	CM_MUST(policy->garbage_collection_threshold == 0.75);
	CM_MUST(policy->memory_fraction == 0.5);
	CM_MUST(policy->roundup_power2_divisions[0] == 2);
	CM_MUST(policy->roundup_power2_divisions[15] == 8);
	CM_MUST(cm_process_region()->header->table[CM_TABLE_EVENT].ring == 1024);
}

static void play_default_policy(void)
{
	const struct cm_policy *policy = cm_process_policy();

	CM_MUST(policy);
	CM_MUST(policy->mode == CM_MODE_CACHE);
	CM_MUST(policy->placement == CM_PLACEMENT_SPLIT);
	CM_MUST(policy->max_split_size == UINT64_MAX);
	CM_MUST(!strcmp(find_option("placement")->value, "split"));
	CM_MUST(!strcmp(find_option("placement")->origin, "library"));
}

static void play_exact(void)
{
	CM_MUST(cm_process_policy()->placement == CM_PLACEMENT_EXACT);
}

static void play_stats(void)
{
	CM_MUST(cm_process_policy()->mode == CM_MODE_STATS);
	CM_MUST(!strcmp(find_option("mode")->value, "stats"));
}

static void play_cache(void)
{
	CM_MUST(cm_process_policy()->mode == CM_MODE_CACHE);
}

static void call_from_inside(void)
{
	CM_MUST(!cm_process_cache());
}

static void play_call_from_inside(void)
{
	during_start = call_from_inside;
	CM_MUST(cm_process_cache());
	CM_MUST(calls_into_start == 1);
}

static sem_t start_reached, start_may_go_on;

static void hold_the_start(void)
{
	(void)sem_post(&start_reached);
	(void)sem_wait(&start_may_go_on);
}

static void *call_once(void *arg)
{
	(void)arg;
	return cm_process_cache();
}

/* Calls in another thread and returns when that is in the middle of the start. */
static pthread_t start_and_hold(void)
{
	pthread_t thread;

	CM_MUST(!sem_init(&start_reached, 0, 0));
	CM_MUST(!sem_init(&start_may_go_on, 0, 0));
	during_start = hold_the_start;
	CM_MUST(!pthread_create(&thread, NULL, call_once, NULL));
	(void)sem_wait(&start_reached);
	return thread;
}

static void play_start_that_hangs(void)
{
	pthread_t thread = start_and_hold();
	void *cache = NULL;

	CM_MUST(!cm_process_cache()); /* waits a little, then passes on */
	(void)sem_post(&start_may_go_on);
	CM_MUST(!pthread_join(thread, &cache));
	CM_MUST(cache && cm_process_cache() == cache);
}

static void play_fork_in_start(void)
{
	pthread_t thread = start_and_hold();
	pid_t pid = fork();

	if (!pid) {
		during_start = NULL;
		CM_MUST(cm_process_cache());
		CM_MUST(cm_process_region()->header->pid == (uint32_t)getpid());
		exit(0);
	}
	wait_for_child(pid);
	(void)sem_post(&start_may_go_on);
	CM_MUST(!pthread_join(thread, NULL));
	CM_MUST(count_regions() == 1);
}

static void play_fork_before(void)
{
	pid_t pid = fork();

	if (!pid) {
		CM_MUST(cm_process_cache());
		CM_MUST(count_regions() == 1);
		exit(0);
	}
	wait_for_child(pid);
	CM_MUST(count_regions() == 0);
	CM_MUST(!cm_process_cache_if_made());
	CM_MUST(cm_process_cache());
}

static pid_t fork_by_clone(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

static bool is_mapped(const char *path)
{
	char line[PATH_MAX + 128];
	bool found = false;
	FILE *maps = fopen("/proc/self/maps", "r");

	CM_MUST(maps);
	while (!found && fgets(line, sizeof(line), maps))
		found = strstr(line, path) != NULL;
	(void)fclose(maps);
	return found;
}

/* The child is on its own: another region, and its exit leaves the parent's alone. */
static void play_fork_after(pid_t (*make_child)(void), bool calls_cuda)
{
	char path[sizeof(((struct cm_region *)0)->path)];
	pid_t pid, helper;

	CM_MUST(cm_process_cache());
	(void)snprintf(path, sizeof(path), "%s", cm_process_region()->path);
	pid = make_child();
	if (!pid) {
		CM_MUST(!cm_process_cache_if_made());
		if (calls_cuda) {
			CM_MUST(cm_process_cache());
			CM_MUST(strcmp(cm_process_region()->path, path) != 0);
			CM_MUST(count_regions() == 2);
			CM_MUST(count_threads(&helper) == 2 && helper);
			CM_MUST(!is_mapped(path));
		}
		exit(0);
	}
	wait_for_child(pid);
	CM_MUST(count_regions() == 1);
	CM_MUST(!access(path, F_OK));
	CM_MUST(cm_process_region()->header->state == CM_REGION_LIVE);
}

static void play_fork(void)
{
	play_fork_after(fork, true);
}

static void play_clone(void)
{
	play_fork_after(fork_by_clone, true);
}

static void play_idle_fork(void)
{
	play_fork_after(fork, false);
}

static void play_idle_clone(void)
{
	play_fork_after(fork_by_clone, false);
}

static void forked_child_gives_up_at_once(void)
{
	char path[sizeof(((struct cm_region *)0)->path)];
	pid_t pid;

	CM_MUST(cm_process_cache());
	(void)snprintf(path, sizeof(path), "%s", cm_process_region()->path);
	pid = fork();
	if (!pid) {
		CM_MUST(!is_mapped(path));
		CM_MUST(!published);
		CM_MUST(forgotten == 2);
		_exit(0);
	}
	wait_for_child(pid);
}

/* Under the same pid and start time: the new program must find its way past the old file. */
static void play_exec(void)
{
	CM_MUST(cm_process_cache());
	cm_rerun_exec("first_call");
}

static void play_thread_end(void)
{
	CM_MUST(cm_process_cache());
	pthread_exit(NULL);
}

static void play_late_thread_end(void)
{
	CM_MUST(cm_process_cache());
	while (!atomic_load(&sleeps))
		(void)sched_yield();
	pthread_exit(NULL);
}

static void play_blocked_signals(void)
{
	unsigned long long blocked = 0;
	char path[64], line[128];
	sigset_t mine;
	pid_t helper;
	FILE *file;

	CM_MUST(cm_process_cache());
	(void)count_threads(&helper);
	(void)snprintf(path, sizeof(path), "/proc/self/task/%d/status", helper);
	file = fopen(path, "r");
	CM_MUST(file);
	while (fgets(line, sizeof(line), file))
		(void)sscanf(line, "SigBlk: %llx", &blocked);
	(void)fclose(file);
	/* All but KILL, STOP and the two that the C library keeps for itself. */
	CM_MUST((blocked & 0x7fffffff) ==
		(0x7fffffff & ~(1u << (SIGKILL - 1)) & ~(1u << (SIGSTOP - 1))));
	CM_MUST(!pthread_sigmask(SIG_BLOCK, NULL, &mine));
	CM_MUST(!sigismember(&mine, SIGTERM) && !sigismember(&mine, SIGPIPE));
}

static int32_t send(uint32_t command, uint64_t arg)
{
	struct cm_mailbox *mailbox = &cm_process_region()->header->mailbox;
	uint32_t state;

	mailbox->command = command;
	mailbox->arg[0] = arg;
	__atomic_store_n(&mailbox->state, CM_MAIL_POSTED, __ATOMIC_RELEASE);
	(void)cm_mailbox_nudge(mailbox);
	while ((state = __atomic_load_n(&mailbox->state, __ATOMIC_ACQUIRE)) != CM_MAIL_DONE)
		(void)usleep(1000);
	__atomic_store_n(&mailbox->state, CM_MAIL_IDLE, __ATOMIC_RELEASE);
	return mailbox->status;
}

static void play_mail(void)
{
	CM_MUST(cm_process_cache());
	CM_MUST(send(CM_COMMAND_CHECKPOINT, 0) == 0);
	CM_MUST(cm_process_region()->header->tick_last);
	CM_MUST(cm_process_region()->header->time_last_ns);
	CM_MUST(send(CM_COMMAND_EMPTY_CACHE, UINT64_MAX) == 0);
	CM_MUST(send(CM_COMMAND_EMPTY_CACHE, 0) == -ENODEV);
	CM_MUST(send(CM_COMMAND_RESET_PEAK, UINT64_MAX) == 0);
	CM_MUST(send(CM_COMMAND_RESET_PEAK, 1u << 31) == -ENODEV);
	CM_MUST(send(CM_COMMAND_RESET_ACCUMULATED, UINT64_MAX) == 0);
	CM_MUST(send(CM_COMMAND_NONE, 0) == -EOPNOTSUPP);
	CM_MUST(send(UINT32_MAX, 0) == -EOPNOTSUPP);
}

static struct cm_region *region_after_exit;

/* Registered before the library's own handler, so it runs after that. */
static void after_our_exit(void)
{
	struct cm_mailbox *mailbox = &region_after_exit->header->mailbox;
	struct cm_letter letter;

	CM_MUST(region_after_exit->header->state == CM_REGION_EXITED);
	CM_MUST(count_regions() == 0);
	mailbox->command = CM_COMMAND_CHECKPOINT;
	__atomic_store_n(&mailbox->state, CM_MAIL_POSTED, __ATOMIC_RELEASE);
	(void)cm_mailbox_nudge(mailbox);
	while (__atomic_load_n(&mailbox->state, __ATOMIC_ACQUIRE) != CM_MAIL_DONE)
		(void)usleep(1000);
	letter.status = mailbox->status;
	CM_MUST(letter.status == -ESHUTDOWN);
	CM_MUST(cm_process_cache_if_made());
}

static void play_exit(void)
{
	CM_MUST(!atexit(after_our_exit));
	CM_MUST(cm_process_cache());
	region_after_exit = cm_process_region();
}

static void play_quick_exit(void)
{
	CM_MUST(cm_process_cache());
	quick_exit(0);
}

static void play_killed(void)
{
	CM_MUST(cm_process_cache());
	(void)kill(getpid(), SIGKILL);
}

/* The program's own file has got the number of the standard error that it was started without. */
static void play_closed_stderr(void)
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

/* As above, but the program has closed it itself meanwhile. */
static void play_replaced_stderr(void)
{
	(void)close(STDERR_FILENO);
	play_closed_stderr();
}

/* The program has closed all that it knows nothing of, and opened a file under each number. */
static void play_taken_fd(void)
{
	char path[PATH_MAX];
	struct stat st;
	pid_t pid;
	int fd;

	CM_MUST(cm_process_cache());
	(void)snprintf(path, sizeof(path), "%s/own_file", getenv("REGIONS"));
	for (fd = 3; fd < 64; fd++)
		(void)close(fd);
	for (fd = 3; fd < 64; fd++)
		CM_MUST(open(path, O_RDWR | O_CREAT, 0600) == fd);
	CM_MUST(cm_region_commit(cm_process_region(), CM_TABLE_STACK, 1u << 20) == -EBADF);
	CM_MUST(!fstat(3, &st) && st.st_size == 0);
	pid = fork();
	if (!pid) {
		for (fd = 3; fd < 64; fd++)
			CM_MUST(!fstat(fd, &st));
		_exit(0);
	}
	wait_for_child(pid);
	(void)unlink(path);
}

static void play_no_standard_files(void)
{
	CM_MUST(!close(STDIN_FILENO) && !close(STDOUT_FILENO));
	CM_MUST(cm_process_cache());
	CM_MUST(dup(STDERR_FILENO) == STDIN_FILENO);
	CM_MUST(dup(STDERR_FILENO) == STDOUT_FILENO);
}

static void play_full_pipe(void)
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
		_exit(94); /* there was room after all */
	_exit(0);
}

static const struct cm_role roles[] = {
	{"nothing", play_nothing},
	{"first_call", play_first_call},
	{"off", play_off},
	{"incomplete_driver", play_incomplete_driver},
	{"without_control", play_without_control},
	{"memfd", play_memfd},
	{"private", play_private},
	{"few_files", play_few_files},
	{"small_files", play_small_files},
	{"little_memory", play_little_memory},
	{"no_threads", play_no_threads},
	{"policy", play_policy},
	{"default_policy", play_default_policy},
	{"exact", play_exact},
	{"stats", play_stats},
	{"cache", play_cache},
	{"call_from_inside", play_call_from_inside},
	{"start_that_hangs", play_start_that_hangs},
	{"fork_in_start", play_fork_in_start},
	{"fork_before", play_fork_before},
	{"fork", play_fork},
	{"clone", play_clone},
	{"idle_fork", play_idle_fork},
	{"idle_clone", play_idle_clone},
	{"giving_up", forked_child_gives_up_at_once},
	{"exec", play_exec},
	{"thread_end", play_thread_end},
	{"late_thread_end", play_late_thread_end},
	{"blocked_signals", play_blocked_signals},
	{"mail", play_mail},
	{"exit", play_exit},
	{"quick_exit", play_quick_exit},
	{"killed", play_killed},
	{"closed_stderr", play_closed_stderr},
	{"replaced_stderr", play_replaced_stderr},
	{"taken_fd", play_taken_fd},
	{"no_standard_files", play_no_standard_files},
	{"full_pipe", play_full_pipe},
	{NULL, NULL},
};

/* ---- the tests: each plays roles in a folder of its own ---- */

struct fixture {
	char dir[PATH_MAX];
	char said[CM_RERUN_SAID];
};

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	char here[PATH_MAX - 64];

	if (!fixture || !getcwd(here, sizeof(here)))
		return -1;
	/* As the whole-program tests name theirs, which sweep those of processes that are gone. */
	(void)snprintf(fixture->dir, sizeof(fixture->dir), "%s/regions.%d.XXXXXX", here,
		       (int)getpid());
	if (!mkdtemp(fixture->dir))
		return -1;
	*state = fixture;
	return 0;
}

static void remove_regions(const char *dir)
{
	char path[PATH_MAX + NAME_MAX + 2];
	DIR *stream = opendir(dir);
	struct dirent *entry;

	while (stream && (entry = readdir(stream))) {
		(void)snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
		(void)unlink(path);
	}
	if (stream)
		(void)closedir(stream);
}

/* What a clean exit leaves in the folder is nothing, so that it can be removed. */
static int teardown(void **state)
{
	struct fixture *fixture = *state;
	int err = rmdir(fixture->dir);

	free(fixture);
	return err;
}

/* Plays a role with region_dir and `conf` in CUDAMEM_CONF, and one more variable; checks its end. */
static void play_with(struct fixture *fixture, struct cm_rerun rerun, const char *conf,
		      const char *variable, int want)
{
	char conf_text[PATH_MAX + 512], regions_text[PATH_MAX + 16];
	/* The library leaks on purpose, and the leak checker needs what some roles go without. */
	const char *environment[] = {conf_text, regions_text, "ASAN_OPTIONS=detect_leaks=0",
				     variable, NULL};
	int status;

	(void)snprintf(conf_text, sizeof(conf_text), CM_CONF_VARIABLE "=region_dir:%s,%s",
		       fixture->dir, conf);
	(void)snprintf(regions_text, sizeof(regions_text), "REGIONS=%s", fixture->dir);
	rerun.environment = environment;
	status = cm_rerun(&rerun, fixture->said);
	if (status != want)
		fail_msg("%s: ended with %d, want %d; said: %s", rerun.role, status, want,
			 fixture->said);
}

static void play(void **state, const char *role, const char *conf, const char *variable,
		 const char *want_said)
{
	struct fixture *fixture = *state;

	play_with(fixture, (struct cm_rerun){.role = role}, conf, variable, 0);
	if (strcmp(fixture->said, want_said) != 0)
		fail_msg("%s: said %s", role, fixture->said);
}

#define SIMPLE_TEST(test, role, conf)              \
	static void test(void **state)             \
	{                                          \
		play(state, role, conf, NULL, ""); \
	}

SIMPLE_TEST(nothing_is_made_or_said_before_the_first_call, "nothing", "nonsense:1")
SIMPLE_TEST(the_first_call_makes_all_and_exit_removes_it, "first_call", "")
SIMPLE_TEST(mode_off_makes_nothing, "off", "mode:off")
SIMPLE_TEST(control_off_starts_no_thread, "without_control", "control:off")
SIMPLE_TEST(the_configuration_reaches_the_policy, "policy",
	    "mode:stats,reuse:wait,sync:free,placement:exact,max_split_size_mb:64,"
	    "large_segment_size_mb:32,garbage_collection_threshold:0.75,"
	    "per_process_memory_fraction:0.5,roundup_power2_divisions:[1:2,>:8],events:1000")
SIMPLE_TEST(the_default_is_to_cache_and_split, "default_policy", "")
SIMPLE_TEST(a_call_from_inside_the_start_passes_through, "call_from_inside", "")
SIMPLE_TEST(a_start_that_hangs_holds_nobody_up, "start_that_hangs", "")
SIMPLE_TEST(a_fork_in_the_middle_of_the_start_is_a_fresh_start, "fork_in_start", "")
SIMPLE_TEST(a_child_forked_before_the_start_has_its_own, "fork_before", "")
SIMPLE_TEST(a_forked_child_starts_anew, "fork", "")
SIMPLE_TEST(a_cloned_child_starts_anew, "clone", "")
SIMPLE_TEST(a_forked_child_without_cuda_leaves_the_region_alone, "idle_fork", "")
SIMPLE_TEST(a_cloned_child_without_cuda_leaves_the_region_alone, "idle_clone", "")
SIMPLE_TEST(a_forked_child_unmaps_the_region_at_once, "giving_up", "")
SIMPLE_TEST(a_file_of_the_program_is_not_taken_for_ours, "taken_fd", "")
SIMPLE_TEST(standard_files_stay_the_programs, "no_standard_files", "")
SIMPLE_TEST(exec_makes_room_for_the_next_program, "exec", "")
SIMPLE_TEST(the_helper_does_not_keep_the_process_alive, "thread_end", "")
SIMPLE_TEST(the_helper_takes_no_signals, "blocked_signals", "")
SIMPLE_TEST(the_helper_answers_the_mail, "mail", "")
SIMPLE_TEST(no_command_runs_once_exit_has_begun, "exit", "")

SIMPLE_TEST(a_quick_exit_removes_the_region_too, "quick_exit", "")

/* A helper that slept on would be a time-out of the test. */
static void a_helper_that_was_not_woken_looks_by_itself(void **state)
{
	play(state, "late_thread_end", "decay_seconds:off", "NUDGES=lost", "");
}

static void mistakes_are_told_once(void **state)
{
	play(state, "first_call", "mode:cach,nonsense", NULL,
	     "cudamem: CUDAMEM_CONF: \"mode:cach\" is not understood, want cache|stats|off; "
	     "keeping cache\n"
	     "cudamem: CUDAMEM_CONF: unknown option \"nonsense\"; ignored\n");
	play(state, "first_call", "mode:cach,warn:off", NULL, "");
	play(state, "first_call", "", "CUDAMEM_COMF=1",
	     "cudamem: CUDAMEM_COMF: unknown variable (did you mean CUDAMEM_CONF?); ignored\n");
}

static void many_mistakes_are_cut_short(void **state)
{
	struct fixture *fixture = *state;

	play_with(fixture, (struct cm_rerun){.role = "first_call"}, "a,b,c,d,e,f,g,h,i,j,k", NULL,
		  0);
	assert_non_null(strstr(fixture->said, "\"h\"; ignored\ncudamem: and 3 more; "));
	assert_null(strstr(fixture->said, "\"i\""));
}

static void log_levels_are_kept(void **state)
{
	struct fixture *fixture = *state;

	play_with(fixture, (struct cm_rerun){.role = "first_call"}, "log:info", NULL, 0);
	assert_non_null(strstr(fixture->said, "cudamem: statistics in "));
	play(state, "memfd", "log:off,mode:stats,region_dir:/nonexistent", NULL, "");
}

static void an_incomplete_driver_is_left_alone(void **state)
{
	play(state, "incomplete_driver", "", NULL,
	     "cudamem: the driver lacks functions that are needed; doing nothing\n");
}

static void a_full_folder_means_a_memfd(void **state)
{
	struct fixture *fixture = *state;
	char want[PATH_MAX + 256];

	(void)snprintf(want, sizeof(want),
		       "cudamem: no statistics file in %s (No space left on device); kept in "
		       "memory, where cudamemstat finds them while the process lives\n",
		       fixture->dir);
	play(state, "memfd", "", "FULL=1", want);
	(void)snprintf(want, sizeof(want),
		       "cudamem: no statistics file in %s (No space left on device), nor in memory "
		       "to share; cudamemstat will not see this process\n",
		       fixture->dir);
	play(state, "private", "", "FULL=2", want);
}

static void a_missing_folder_means_a_memfd(void **state)
{
	play(state, "memfd", "region_dir:/nonexistent", NULL,
	     "cudamem: no statistics file in /nonexistent (No such file or directory); kept in "
	     "memory, where cudamemstat finds them while the process lives\n");
}

/* The system call fails as it does under a sandbox's filter. */
static void refuse_memfd(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_memfd_create, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(93);
}

static void a_refused_memfd_means_private_memory(void **state)
{
	struct fixture *fixture = *state;

	play_with(fixture, (struct cm_rerun){.role = "private", .prepare = refuse_memfd},
		  "region_dir:/nonexistent", NULL, 0);
	assert_non_null(strstr(fixture->said, "cudamemstat will not see this process\n"));
}

static void low_limits_stop_nothing(void **state)
{
	struct fixture *fixture = *state;

	play_with(fixture, (struct cm_rerun){.role = "few_files"}, "", NULL, 0);
	assert_non_null(strstr(fixture->said, "(Too many open files), nor in memory to share"));
	play_with(fixture, (struct cm_rerun){.role = "small_files"}, "", NULL, 0);
	assert_non_null(strstr(fixture->said, "(File too large), nor in memory to share"));
#if !defined(__SANITIZE_ADDRESS__)
	play(state, "little_memory", "", NULL,
	     "cudamem: cannot start (Cannot allocate memory); the program runs as without it\n");
#endif
}

static bool nobody_can_write(const char *dir)
{
	pid_t pid = fork();
	int status = 1;

	if (!pid)
		_exit(setgid(65534) || setuid(65534) || access(dir, W_OK));
	return waitpid(pid, &status, 0) == pid && status == 0;
}

static void no_thread_to_be_had_means_no_commands(void **state)
{
	struct fixture *fixture = *state;

	if (geteuid() != 0)
		cm_skip("only root can become a user whose threads are counted");
	assert_int_equal(chmod(fixture->dir, 0777), 0);
	if (!nobody_can_write(fixture->dir))
		cm_skip("another user cannot reach the build folder");
	play(state, "no_threads", "", NULL,
	     "cudamem: no thread to be had; cudamemstat can look but not command\n");
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

static void nothing_is_written_into_a_file_of_the_program(void **state)
{
	struct fixture *fixture = *state;

	play_with(fixture, (struct cm_rerun){.role = "closed_stderr", .prepare = close_stderr},
		  "nonsense:1", NULL, 0);
	play_with(fixture, (struct cm_rerun){.role = "replaced_stderr"}, "nonsense:1", NULL, 0);
	/* Another file of the same folder, so that only its inode differs. */
	play_with(fixture,
		  (struct cm_rerun){.role = "replaced_stderr", .prepare = send_stderr_to_file},
		  "nonsense:1", NULL, 0);
	remove_regions(fixture->dir);
}

static void a_broken_stderr_does_not_end_the_program(void **state)
{
	struct fixture *fixture = *state;

	play_with(fixture, (struct cm_rerun){.role = "first_call", .reader = CM_RERUN_CLOSED},
		  "nonsense:1", NULL, 0);
}

static void a_full_stderr_does_not_stop_the_program(void **state)
{
	struct fixture *fixture = *state;

	play_with(fixture, (struct cm_rerun){.role = "full_pipe", .reader = CM_RERUN_ASLEEP},
		  "nonsense:1", NULL, 0);
	remove_regions(fixture->dir);
}

static void launchers_and_injected_tools_are_noticed(void **state)
{
	play(state, "exact", "", "OMPI_COMM_WORLD_SIZE=4", "");
	play(state, "default_policy", "", "OMPI_COMM_WORLD_SIZE=1", "");
	play(state, "stats", "", "CUDA_INJECTION64_PATH=/x.so", "");
	play(state, "stats", "", "NVTX_INJECTION64_PATH=/x.so", "");
	play(state, "cache", "mode:cache", "CUDA_INJECTION64_PATH=/x.so", "");
}

static void a_crash_leaves_the_region_behind(void **state)
{
	struct fixture *fixture = *state;
	DIR *stream;
	struct dirent *entry;
	unsigned left = 0;

	play_with(fixture, (struct cm_rerun){.role = "killed"}, "", NULL, 128 + SIGKILL);
	stream = opendir(fixture->dir);
	assert_non_null(stream);
	while ((entry = readdir(stream)))
		left += entry->d_name[0] != '.';
	(void)closedir(stream);
	assert_int_equal(left, 1);
	remove_regions(fixture->dir);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(nothing_is_made_or_said_before_the_first_call),
		TEST(the_first_call_makes_all_and_exit_removes_it),
		TEST(mode_off_makes_nothing),
		TEST(control_off_starts_no_thread),
		TEST(the_configuration_reaches_the_policy),
		TEST(the_default_is_to_cache_and_split),
		TEST(a_call_from_inside_the_start_passes_through),
		TEST(a_start_that_hangs_holds_nobody_up),
		TEST(a_fork_in_the_middle_of_the_start_is_a_fresh_start),
		TEST(a_child_forked_before_the_start_has_its_own),
		TEST(a_forked_child_starts_anew),
		TEST(a_cloned_child_starts_anew),
		TEST(a_forked_child_without_cuda_leaves_the_region_alone),
		TEST(a_cloned_child_without_cuda_leaves_the_region_alone),
		TEST(a_forked_child_unmaps_the_region_at_once),
		TEST(a_file_of_the_program_is_not_taken_for_ours),
		TEST(standard_files_stay_the_programs),
		TEST(exec_makes_room_for_the_next_program),
		TEST(the_helper_does_not_keep_the_process_alive),
		TEST(a_helper_that_was_not_woken_looks_by_itself),
		TEST(the_helper_takes_no_signals),
		TEST(the_helper_answers_the_mail),
		TEST(no_command_runs_once_exit_has_begun),
		TEST(a_quick_exit_removes_the_region_too),
		TEST(mistakes_are_told_once),
		TEST(many_mistakes_are_cut_short),
		TEST(log_levels_are_kept),
		TEST(an_incomplete_driver_is_left_alone),
		TEST(a_full_folder_means_a_memfd),
		TEST(a_missing_folder_means_a_memfd),
		TEST(a_refused_memfd_means_private_memory),
		TEST(low_limits_stop_nothing),
		TEST(no_thread_to_be_had_means_no_commands),
		TEST(nothing_is_written_into_a_file_of_the_program),
		TEST(a_broken_stderr_does_not_end_the_program),
		TEST(a_full_stderr_does_not_stop_the_program),
		TEST(launchers_and_injected_tools_are_noticed),
		TEST(a_crash_leaves_the_region_behind),
	};

	cm_rerun_role(argc, argv, roles);
	return cmocka_run_group_tests_name("process", tests, NULL, NULL);
}
