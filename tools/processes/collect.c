/* SPDX-License-Identifier: MIT */
#include "tools/processes/collect.h"

#include <dirent.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "stats/start_time.h"
#include "stats/text.h"
#include "stats/tick.h"
#include "stats/units.h"
#include "tools/cli/exits.h"
#include "tools/output/reserve.h"
#include "tools/output/text.h"
#include "tools/processes/identity.h"
#include "tools/snapshot/saved.h"

static const char *const life_names[CM_LIFE_COUNT] = {
	[CM_LIFE_RUNNING] = "running", [CM_LIFE_STOPPED] = "stopped", [CM_LIFE_EXITED] = "exited",
	[CM_LIFE_CRASHED] = "crashed", [CM_LIFE_SAVED] = "saved",
};

const char *cm_life_name(enum cm_life life)
{
	return life_names[life];
}

bool cm_process_is_dead(const struct cm_process *process)
{
	return process->life == CM_LIFE_EXITED || process->life == CM_LIFE_CRASHED ||
	       process->life == CM_LIFE_SAVED;
}

static void name_user(struct cm_process *process)
{
	const struct passwd *user = getpwuid(process->uid);

	if (user)
		cm_text_clean(process->user, sizeof(process->user), user->pw_name);
	else
		(void)snprintf(process->user, sizeof(process->user), "%u", (unsigned)process->uid);
}

/* Reads the command line from /proc, with blanks between the arguments. */
static void read_command(pid_t pid, char *to, size_t bytes)
{
	char text[512];
	size_t n = cm_proc_read(pid, "cmdline", text, sizeof(text)), i;

	while (n && !text[n - 1])
		n--;
	for (i = 0; i < n; i++)
		if (!text[i])
			text[i] = ' ';
	text[n] = '\0';
	cm_text_clean(to, bytes, text);
}

/* The age of a process, from its start in clock ticks since boot. 0: unknown. */
static uint64_t read_age(uint64_t start_ticks)
{
	const uint64_t ticks_per_s = (uint64_t)sysconf(_SC_CLK_TCK);
	const uint64_t start_s = start_ticks / ticks_per_s;
	struct timespec now;
	uint64_t now_ns, start_ns;

	(void)clock_gettime(CLOCK_BOOTTIME, &now);
	now_ns = (uint64_t)now.tv_sec * CM_NS_PER_S + (uint64_t)now.tv_nsec;
	/* A process without /proc does not know its start. */
	if (!start_ticks || start_s > (uint64_t)now.tv_sec)
		return 0;
	start_ns = start_s * CM_NS_PER_S + start_ticks % ticks_per_s * (CM_NS_PER_S / ticks_per_s);
	return now_ns > start_ns ? now_ns - start_ns : 0;
}

/* Describes a process whose region cannot be read, by the name of the file. */
static void describe_unread(struct cm_process *process, uint64_t start)
{
	uint64_t now;

	if (start && (cm_process_start_time((uint32_t)process->pid, &now) || now != start))
		process->life = CM_LIFE_CRASHED;
	else
		read_command(process->pid, process->command, sizeof(process->command));
}

static void describe_process(struct cm_process *process)
{
	const struct cm_header *header;

	header = &process->reader->header;
	cm_text_clean(process->comm, sizeof(process->comm), header->comm);
	cm_text_clean(process->command, sizeof(process->command),
		      header->cmdline[0] ? header->cmdline : header->comm);
	process->life = cm_reader_life(process->reader);
	if (!cm_process_is_dead(process) && process->reader->pid > 0)
		process->age_ns = read_age(header->start_time);
}

/* The argument of gather(). */
struct gathering {
	struct cm_processes *all;
	bool failed;
};

static struct cm_process *add_process(struct cm_processes *all)
{
	if (!cm_reserve(&all->item, &all->room, all->count + 1))
		return NULL;
	memset(&all->item[all->count], 0, sizeof(*all->item)); /* it may have held a dropped one */
	return &all->item[all->count++];
}

static void gather(void *data, const struct cm_find *find)
{
	struct gathering *gathering = data;
	struct cm_process *process = add_process(gathering->all);

	if (!process) {
		gathering->failed = true;
		return;
	}
	(void)snprintf(process->path, sizeof(process->path), "%s", find->path);
	process->pid = find->pid;
	process->uid = find->uid;
	process->held = find->held;
	name_user(process);
	if (!*find->path) {
		process->error = cm_explain(process->why, -E2BIG, "it has too many open files");
		describe_unread(process, 0);
		return;
	}
	process->error = cm_reader_open(find->path, &process->reader, process->why);
	if (process->error == -ENOENT) {
		/* The process has ended since its region was found. */
		gathering->all->count--;
		return;
	}
	/* The region has the pid of the process's own namespace. */
	if (!process->error && find->held)
		process->reader->pid = find->pid;
	if (process->reader)
		describe_process(process);
	else
		describe_unread(process, find->start);
}

static bool is_program(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK);
}

static int open_file(const char *path, struct cm_processes *all)
{
	struct cm_process *process = add_process(all);

	if (!process)
		return cm_fail_memory();
	(void)snprintf(process->path, sizeof(process->path), "%s", path);
	process->error = cm_saved_open(path, &process->reader, process->why);
	if (process->error) {
		cm_complain("%s: %s", path, process->why);
		/* As it was started: ./program. */
		if (is_program(path))
			cm_advise("a word with a slash names a file; a process is named by its "
				  "pid, or by a part of its command line such as '%s'",
				  basename(path));
		return CM_EXIT_TARGET;
	}
	process->pid = process->reader->pid ? process->reader->pid
					    : (pid_t)process->reader->header.pid;
	describe_process(process);
	/* The owner of a snapshot file need not be the owner of the process. */
	process->uid = process->life == CM_LIFE_SAVED ? process->reader->header.uid
						      : process->reader->owner;
	name_user(process);
	return 0;
}

static uint64_t start_of(const struct cm_process *process)
{
	return process->reader ? process->reader->header.start_time : 0;
}

/* Running processes first; of one pid the latest first. */
static int by_life(const void *a, const void *b)
{
	const struct cm_process *x = a, *y = b;
	const bool dead_x = cm_process_is_dead(x), dead_y = cm_process_is_dead(y);

	if (dead_x != dead_y)
		return dead_x ? 1 : -1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	return start_of(x) > start_of(y) ? -1 : start_of(x) < start_of(y);
}

/* Of the regions of one process: first that of the running process. */
static int by_claim(const void *a, const void *b)
{
	const struct cm_process *x = a, *y = b;

	return x->held != y->held ? (x->held ? -1 : 1) : by_life(a, b);
}

static void drop(struct cm_processes *processes, size_t from, size_t to)
{
	size_t i;

	for (i = from; i < to; i++)
		cm_reader_close(processes->item[i].reader);
	if (to < processes->count)
		memmove(&processes->item[from], &processes->item[to],
			(processes->count - to) * sizeof(*processes->item));
	processes->count -= to - from;
}

/* May we not see the open files of the process? */
static bool is_hidden(pid_t pid)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	return access(path, R_OK | X_OK) && errno == EACCES;
}

static int complain_pid(pid_t pid, const char *digits, const char *dir)
{
	struct cm_process process;
	char command[64]; /* enough to recognise it */
	uint64_t start;

	if (dir) {
		cm_complain("no region of a process %s in %s", digits, dir);
	} else if (cm_process_start_time((uint32_t)pid, &start)) {
		cm_complain("no process %s", digits);
	} else if (is_hidden(pid)) {
		cm_process_describe(pid, &process);
		cm_complain("process %s belongs to %s; you may not see whether it uses libcudamem",
			    digits, process.user);
	} else {
		read_command(pid, command, sizeof(command));
		cm_complain("process %s (%s) does not use libcudamem, or has not called CUDA yet",
			    digits, command);
		/* Do not suggest a command line that may have been truncated. */
		if (!*command || strlen(command) + 4 >= sizeof(command))
			(void)snprintf(command, sizeof(command), "COMMAND");
		cm_advise("'%s doctor %s' says which; start it with '%s run -- %s'", CM_PROGRAM,
			  digits, CM_PROGRAM, command);
	}
	return CM_EXIT_TARGET;
}

static int collect_pid(const struct cm_options *options, const char *digits, pid_t pid,
		       struct gathering *gathering)
{
	struct cm_processes *all = gathering->all;

	if (pid)
		(void)cm_find_regions(options->dir, pid, gather, gathering);
	if (!all->count)
		return complain_pid(pid, digits, options->dir);
	qsort(all->item, all->count, sizeof(*all->item), by_claim);
	drop(all, 1, all->count);
	return 0;
}

/* Is the process creating its region at this moment? Then it is listed only by its pid. If it is
 * dead, the region is damaged instead. */
static bool is_starting(const struct cm_process *process)
{
	return process->error == -EAGAIN && !cm_process_is_dead(process);
}

static int collect_pattern(const struct cm_options *options, const char *pattern,
			   struct gathering *gathering)
{
	struct cm_processes *all = gathering->all;
	size_t i;

	(void)cm_find_regions(options->dir, 0, gather, gathering);
	for (i = 0; i < all->count;) {
		if (is_starting(&all->item[i]) ||
		    (pattern && !strstr(all->item[i].command, pattern)))
			drop(all, i, i + 1);
		else
			i++;
	}
	if (pattern && !all->count) {
		cm_complain("no process that uses libcudamem has '%s' in its command line",
			    pattern);
		if (pattern != options->pid && !access(pattern, F_OK))
			cm_advise("the file of this name is ./%s", pattern);
		return CM_EXIT_NO;
	}
	if (all->count)
		qsort(all->item, all->count, sizeof(*all->item), by_life);
	return 0;
}

bool cm_is_file_name(const char *word)
{
	const size_t length = strlen(word), suffix = strlen(CM_SAVED_SUFFIX);

	return strchr(word, '/') ||
	       (length > suffix && !strcmp(word + length - suffix, CM_SAVED_SUFFIX));
}

/* A directory that cannot be read must not appear empty. */
static int check_dir(const char *path)
{
	DIR *dir = opendir(path);

	if (dir)
		return closedir(dir);
	return cm_fail(CM_EXIT_TARGET, "%s: %s", path, strerror(errno));
}

int cm_collect(const struct cm_options *options, const char *target,
	       struct cm_processes *ret_processes)
{
	struct cm_processes all = {0};
	struct gathering gathering = {.all = &all};
	uint64_t pid;
	int err = 0;

	/* The empty text is in every command line: an unset variable of a script would name all
	 * processes. */
	if (target && !*target)
		return cm_fail(CM_EXIT_USAGE, "an empty word names no process");
	if (options->dir)
		err = check_dir(options->dir);
	if (err)
		return err;
	if (options->region)
		err = open_file(options->region, &all);
	else if (target && target != options->pid && cm_is_file_name(target))
		err = open_file(target, &all);
	else if (target && !cm_number_parse(target, INT32_MAX, &pid))
		err = collect_pid(options, target, (pid_t)pid, &gathering);
	else
		err = collect_pattern(options, target, &gathering);
	if (!err && gathering.failed)
		err = cm_fail_memory();
	if (err) {
		cm_processes_free(&all);
		return err;
	}
	*ret_processes = all;
	return 0;
}

void cm_processes_free(struct cm_processes *processes)
{
	drop(processes, 0, processes->count);
	free(processes->item);
	processes->item = NULL;
	processes->room = 0;
}

void cm_allow_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

bool cm_processes_can_be_seen(void)
{
	return !access("/proc/self", F_OK);
}

int cm_complain_nobody(const struct cm_options *options)
{
	if (!cm_processes_can_be_seen())
		return cm_fail(CM_EXIT_TARGET, "/proc is not mounted, so no process can be seen");
	if (options->dir) {
		cm_complain("no region in %s", options->dir);
	} else {
		cm_complain("no process uses libcudamem");
		cm_advise("start one with '%s run -- COMMAND'", CM_PROGRAM);
	}
	return CM_EXIT_NO;
}

int cm_complain_no_device(const struct cm_options *options, const struct cm_process *process)
{
	if (options->device_count)
		return cm_fail(CM_EXIT_USAGE, "process %d has no memory on the devices named",
			       (int)process->pid);
	return cm_fail(CM_EXIT_NO, "process %d has no memory on any device yet", (int)process->pid);
}

void cm_process_describe(pid_t pid, struct cm_process *ret_process)
{
	struct cm_process process = {.pid = pid};
	uint64_t start;
	struct stat st;
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	if (!stat(path, &st)) {
		process.uid = st.st_uid;
		name_user(&process);
		read_command(pid, process.command, sizeof(process.command));
		if (!cm_process_start_time((uint32_t)pid, &start))
			process.age_ns = read_age(start);
	}
	*ret_process = process;
}

int cm_process_complain(const struct cm_process *process)
{
	if (process->error == -EACCES)
		return cm_fail(CM_EXIT_TARGET,
			       "process %d belongs to %s; you may not read its region",
			       (int)process->pid, process->user);
	if (process->error == -E2BIG) {
		cm_complain("process %d has too many open files to find its region among them",
			    (int)process->pid);
		cm_advise("'%s show %d' looks at all of them", CM_PROGRAM, (int)process->pid);
		return CM_EXIT_TARGET;
	}
	return cm_fail(CM_EXIT_TARGET, "%s: %s", process->path, process->why);
}

bool cm_process_is_wanted(const struct cm_options *options, const struct cm_process *process)
{
	const char *target = options->pid;
	uint64_t pid;

	if (!target)
		return true;
	if (!cm_number_parse(target, INT32_MAX, &pid))
		return process->pid == (pid_t)pid;
	return strstr(process->command, target) != NULL;
}

bool cm_device_is_chosen(const struct cm_options *options, const struct cm_device_row *row)
{
	char uuid[CM_UUID_TEXT];
	uint64_t ordinal;
	size_t i;

	if (!options->device_count)
		return true;
	(void)cm_uuid_format(row->uuid, row->name, uuid);
	for (i = 0; i < options->device_count; i++) {
		const char *name = options->devices[i];

		if (!strcmp(name, "all") ||
		    (strlen(name) > 4 && !strncmp(name, uuid, strlen(name))))
			return true;
		if (!cm_number_parse(name, INT32_MAX, &ordinal) && (int32_t)ordinal == row->ordinal)
			return true;
	}
	return false;
}

bool cm_process_next_device(const struct cm_options *options, const struct cm_process *process,
			    uint32_t *index, struct cm_device_view *ret_view)
{
	int err;

	for (;; (*index)++) {
		err = cm_reader_read_device(process->reader, *index, &ret_view->row,
					    &ret_view->torn);
		if (err == -ERANGE || err == -EIO)
			return false;
		if (err || !cm_device_is_chosen(options, &ret_view->row))
			continue;
		ret_view->index = (*index)++;
		return true;
	}
}
