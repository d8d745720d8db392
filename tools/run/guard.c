/* SPDX-License-Identifier: MIT */
#include "tools/run/guard.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stats/command_client.h"
#include "stats/counters.h"
#include "stats/region.h"
#include "stats/units.h"
#include "tools/cli/exits.h"
#include "tools/output/text.h"
#include "tools/processes/source.h"
#include "tools/run/leaks.h"
#include "tools/run/run_directory.h"
#include "tools/snapshot/figures.h"

#define LOOK_MS       20
#define HOLD_NS       UINT64_C(100000000) /* a program that ends does not answer */
#define OOM_WAIT      "5000"              /* ms that a failing request waits to be looked at */
#define PEAK_LOOKS    10                  /* between two copies for a peak ... */
#define PEAK_SHARE    4                   /* ... unless so much of the ring is new already */
#define OOM_FILES_MAX 10
#define PATH_BYTES    512

/* One process that has a region; a program that becomes another by exec(2) counts as two. */
struct watched {
	char name[64];
	ino_t inode; /* of the region, which stays its own as long as the reader has it open */
	struct cm_reader *reader;
	bool over;     /* and looked at since: nothing in it changes any more */
	uint32_t ooms; /* as last seen */
	/* Of the highest use: a copy that was made when it was over, so that it is in the
	 * events. */
	struct cm_image *peak; /* NULL: none so far */
	int64_t highest;       /* what it is a copy of, in bytes */
	int64_t in_use;        /* in it */
	bool whole;            /* its events reach back to the peak */
	unsigned since;        /* looks since it was made */
	uint64_t before;       /* number of events when there was no higher use than in it */
};

struct cm_guard {
	const struct cm_options *options;
	struct cm_suppressions *suppressions;
	struct cm_run_directory folder;
	char conf[128];
	struct watched *watched;
	size_t count;
	unsigned oom_files;
	bool leaks;
	bool blind; /* a region could not be opened, and that was said */
};

/* Who the signal goes to. */
static volatile sig_atomic_t child_pid;

/* What the terminal sends has reached the child too; what a process sends has come to us alone. */
static void pass_on(int number, siginfo_t *info, void *context)
{
	(void)context;
	if (child_pid > 0 && info->si_code <= 0)
		(void)kill((pid_t)child_pid, number);
}

int cm_guard_create(const struct cm_options *options, struct cm_guard **ret_guard,
		    const char **ret_conf)
{
	struct cm_guard *guard = calloc(1, sizeof(*guard));
	int exit, err = 0;

	if (!guard)
		return cm_fail(CM_EXIT_RUN, "no memory left");
	guard->options = options;
	/* Better now than when there is something to be saved. */
	if (!CM_HAVE_ZSTD && (options->oom || options->save_peak)) {
		cm_complain("this build has no zstd, which snapshots are saved with; --leaks does "
			    "without it");
		free(guard);
		return CM_EXIT_RUN;
	}
	exit = cm_suppressions_read(options->suppressions, &guard->suppressions);
	if (exit) {
		free(guard);
		return exit;
	}
	cm_run_directory_init(&guard->folder);
	/* Of a dry run the name is all that is wanted. */
	if (!options->dry_run) {
		cm_run_directory_sweep();
		err = cm_run_directory_create(&guard->folder);
	}
	if (err) {
		cm_complain("%s: %s", guard->folder.path, strerror(-err));
		cm_suppressions_free(guard->suppressions);
		free(guard);
		return CM_EXIT_RUN;
	}
	(void)snprintf(guard->conf, sizeof(guard->conf), "region_dir:%s,region_keep:on%s",
		       guard->folder.path, options->oom ? ",oom_wait_ms:" OOM_WAIT : "");
	*ret_guard = guard;
	*ret_conf = guard->conf;
	return 0;
}

void cm_guard_destroy(struct cm_guard *guard)
{
	size_t i;

	if (!guard)
		return;
	for (i = 0; i < guard->count; i++) {
		cm_reader_close(guard->watched[i].reader);
		cm_image_free(guard->watched[i].peak);
	}
	free(guard->watched);
	cm_run_directory_remove(&guard->folder);
	cm_suppressions_free(guard->suppressions);
	free(guard);
}

/* After exec(2) a process has another region under the name of its old one. */
static bool is_known(const struct cm_guard *guard, const char *name, ino_t inode)
{
	size_t i;

	for (i = 0; i < guard->count; i++)
		if (guard->watched[i].inode == inode && !strcmp(guard->watched[i].name, name))
			return true;
	return false;
}

static void complain_blind(struct cm_guard *guard, const char *name, const char *why)
{
	if (!guard->blind)
		cm_complain("%s: %s; this process is not watched", name, why);
	guard->blind = true;
}

static void watch_region(struct cm_guard *guard, const char *name, ino_t inode)
{
	char path[PATH_BYTES], why[CM_READER_WHY_BYTES];
	struct watched watched = {0}, *more;
	struct stat st;
	int err;

	if (is_known(guard, name, inode))
		return;
	(void)snprintf(path, sizeof(path), "%s/%s", guard->folder.path, name);
	if (stat(path, &st) || is_known(guard, name, st.st_ino))
		return;
	err = cm_reader_open(path, &watched.reader, why);
	if (err) {
		/* One in the making, or just replaced, is met again at the next look. */
		if (err != -EAGAIN && err != -ENOENT)
			complain_blind(guard, name, why);
		return;
	}
	more = reallocarray(guard->watched, guard->count + 1, sizeof(*more));
	if (!more) {
		cm_reader_close(watched.reader);
		complain_blind(guard, name, "no memory left");
		return;
	}
	/* What was opened may be another by now than what was looked at. */
	watched.inode = fstat(watched.reader->fd, &st) ? 0 : st.st_ino;
	(void)snprintf(watched.name, sizeof(watched.name), "%s", name);
	guard->watched = more;
	guard->watched[guard->count++] = watched;
}

static void find_regions(struct cm_guard *guard)
{
	DIR *dir = opendir(guard->folder.path);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (!strncmp(entry->d_name, CM_REGION_PREFIX, strlen(CM_REGION_PREFIX)) &&
		    strlen(entry->d_name) < sizeof(guard->watched->name))
			watch_region(guard, entry->d_name, entry->d_ino);
	if (dir)
		(void)closedir(dir);
}

/* Sums over the devices of a process. */
struct state {
	int64_t peak;    /* of one device at a time: no less than any moment's sum */
	uint64_t events; /* ever written */
};

static void read_state(struct cm_reader *reader, struct state *ret_state)
{
	struct cm_device_row row;
	struct state state = {0};
	uint32_t i;
	bool torn;

	(void)cm_reader_refresh(reader);
	for (i = 0; i < CM_DEVICES_MAX && i < reader->header.table[CM_TABLE_DEVICE].rows; i++) {
		if (cm_reader_read_device(reader, i, &row, &torn))
			continue;
		state.events += row.event_next;
		state.peak = cm_wrap_add(
			state.peak, cm_stat_read(&row, CM_POOL_ALL, CM_STAT_ALLOCATED_BYTES).peak);
	}
	*ret_state = state;
}

/* A program's own words about a file that could not be written go out by cm_save. */
static struct cm_image *take(const struct watched *watched, enum cm_reason reason)
{
	char why[CM_READER_WHY_BYTES];
	struct cm_image *image;

	if (cm_image_take(watched->reader, HOLD_NS, &image, why)) {
		cm_complain("%s: %s", watched->name, why);
		return NULL;
	}
	image->saved.reason = reason;
	return image;
}

/* %p is the pid; a second file gets its number before its suffix. */
static void spell_path(const char *pattern, unsigned pid, unsigned number, char *path, size_t bytes)
{
	const char *suffix = strrchr(pattern, '.');
	size_t used = 0;
	const char *at;
	int n;

	if (!suffix || strchr(suffix, '/'))
		suffix = pattern + strlen(pattern);
	for (at = pattern; *at && used + 1 < bytes; at++) {
		n = 0;
		if (at == suffix && number > 1)
			n = snprintf(path + used, bytes - used, "-%u", number);
		used += n > 0 ? (size_t)n : 0;
		if (used + 1 >= bytes)
			break;
		if (at[0] == '%' && at[1] == 'p') {
			n = snprintf(path + used, bytes - used, "%u", pid);
			used += n > 0 ? (size_t)n : 0;
			at++;
		} else {
			path[used++] = *at;
		}
	}
	if (!*suffix && number > 1 && used < bytes)
		(void)snprintf(path + used, bytes - used, "-%u", number);
	else
		path[used < bytes ? used : bytes - 1] = '\0';
}

static void save(const struct cm_guard *guard, struct cm_image *image, const char *pattern,
		 unsigned number, const char *what)
{
	const unsigned pid = image->header.pid;
	struct cm_symbols_report report;
	char path[PATH_BYTES];
	int64_t bytes;

	(void)cm_symbols_add(image, guard->options->debug_path, &report);
	spell_path(pattern, pid, number, path, sizeof(path));
	/* The name was given for this: what an earlier run left there gives way. */
	if (!cm_save(image, path, true, &bytes))
		(void)fprintf(stderr, "==%u== cudamem: %s, saved %s\n", pid, what, path);
}

/* Who waits for it goes on once the copy is there; that it gets names can be had later. */
static void look_for_oom(struct cm_guard *guard, struct watched *watched)
{
	const uint32_t ooms = watched->reader->header.channel.ooms;
	struct cm_image *image;

	if (!guard->options->oom || ooms == watched->ooms)
		return;
	watched->ooms = ooms;
	if (guard->oom_files == OOM_FILES_MAX) {
		(void)cm_client_oom_seen(watched->reader, CM_OOMS_ALL(ooms));
		return;
	}
	image = take(watched, CM_REASON_OOM);
	guard->oom_files++;
	(void)cm_client_oom_seen(watched->reader,
				 guard->oom_files < OOM_FILES_MAX ? ooms : CM_OOMS_ALL(ooms));
	if (image)
		save(guard, image, guard->options->oom, guard->oom_files, "out of memory");
	cm_image_free(image);
}

/* Rows of all rings together that are new since there was no higher use than in the copy. */
static bool is_much_new(const struct watched *watched, const struct state *state, uint32_t share)
{
	const uint32_t ring = watched->reader->header.table[CM_TABLE_EVENT].ring;

	return state->events - watched->before > ring / share;
}

static int64_t count_in_use(const struct cm_image *image)
{
	const struct cm_device_row *row = image->table[CM_TABLE_DEVICE].rows;
	int64_t bytes = 0;
	uint32_t i;

	for (i = 0; i < image->table[CM_TABLE_DEVICE].count; i++)
		if (row[i].flags & CM_DEVICE_USED)
			bytes = cm_wrap_add(bytes,
					    cm_stat_current(&row[i], CM_STAT_ALLOCATED_BYTES));
	return bytes;
}

static void look_for_peak(struct cm_guard *guard, struct watched *watched,
			  const struct state *state, bool last)
{
	struct cm_image *image;

	if (!guard->options->save_peak)
		return;
	watched->since++;
	if (state->peak <= watched->highest) {
		watched->before = state->events;
		return;
	}
	if (!last && watched->peak && watched->since < PEAK_LOOKS &&
	    !is_much_new(watched, state, PEAK_SHARE))
		return;
	image = take(watched, CM_REASON_PEAK);
	if (!image)
		return;
	cm_image_free(watched->peak);
	watched->peak = image;
	watched->highest = state->peak;
	watched->in_use = count_in_use(image);
	watched->whole = watched->reader->header.record.events && !is_much_new(watched, state, 1);
	watched->since = 0;
	watched->before = state->events;
}

static void look(struct cm_guard *guard, bool last)
{
	struct watched *watched;
	struct state state;
	size_t i;

	find_regions(guard);
	for (i = 0; i < guard->count; i++) {
		watched = &guard->watched[i];
		if (watched->over)
			continue;
		/* Before what it has come to is read. */
		watched->over = cm_reader_is_over(watched->reader);
		read_state(watched->reader, &state);
		/* Who waits to be seen goes on after this: first what wants it standing. */
		look_for_peak(guard, watched, &state, last || watched->over);
		look_for_oom(guard, watched);
	}
}

static void save_peak(struct cm_guard *guard, struct watched *watched, unsigned number)
{
	char what[160], in_use[CM_UNITS_BYTES], peak[CM_UNITS_BYTES];

	(void)cm_size_format(watched->highest, peak);
	if (watched->in_use >= watched->highest)
		(void)snprintf(what, sizeof(what), "peak of %s allocated", peak);
	else if (watched->whole)
		(void)snprintf(what, sizeof(what),
			       "peak of %s allocated, in the events; at the end of the file %s",
			       peak, cm_size_format(watched->in_use, in_use));
	else
		(void)snprintf(
			what, sizeof(what),
			"peak of %s allocated, which a longer ring (events:N) would hold; at "
			"the end of the file %s",
			peak, cm_size_format(watched->in_use, in_use));
	save(guard, watched->peak, guard->options->save_peak, number, what);
}

static void report_leaks(struct cm_guard *guard, struct watched *watched)
{
	struct cm_symbols_report report;
	struct cm_source source = {0};
	size_t leaks = 0;
	int err;

	source.image = take(watched, CM_REASON_EXIT);
	if (!source.image)
		return;
	source.pid = (pid_t)source.image->header.pid;
	err = cm_symbols_add(source.image, guard->options->debug_path, &report);
	if (!err)
		err = cm_snapshot_create(source.image, &source.snapshot);
	if (!err)
		err = cm_leaks_print(&source, guard->suppressions, stderr, &leaks);
	if (err)
		cm_complain("%s: %s", watched->name, strerror(-err));
	guard->leaks |= leaks > 0;
	cm_source_close(&source);
}

/* Where the status says that the program could not be started, that was said. */
static void report(struct cm_guard *guard, int exit)
{
	unsigned peaks = 0;
	size_t i;

	for (i = 0; i < guard->count; i++) {
		if (guard->watched[i].peak)
			save_peak(guard, &guard->watched[i], ++peaks);
		if (guard->options->leaks)
			report_leaks(guard, &guard->watched[i]);
	}
	if (!guard->count && exit != CM_EXIT_RUN && exit != CM_EXIT_NOT_EXECUTABLE &&
	    exit != CM_EXIT_NOT_FOUND)
		cm_complain("there is nothing to report: the program used no GPU memory, or the "
			    "library was not in it, or its statistics found no room in %s",
			    CM_REGION_DIR);
}

/* Waits for the child and looks meanwhile; its status. */
static int watch(struct cm_guard *guard, pid_t child)
{
	struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, child, 0), .events = POLLIN};
	int status = 0;

	while (!waitpid(child, &status, WNOHANG)) {
		look(guard, false);
		/* Without a pidfd (Linux before 5.3) it is only a pause. */
		(void)poll(&end, end.fd >= 0, LOOK_MS);
	}
	if (end.fd >= 0)
		(void)close(end.fd);
	look(guard, true);
	return status;
}

static void set_signals(void)
{
	static const int passed[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCONT};
	struct sigaction action = {.sa_sigaction = pass_on, .sa_flags = SA_RESTART | SA_SIGINFO};
	size_t i;

	/* Who no longer reads what is said here ends neither the program nor the clearing up. */
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGXFSZ, SIG_IGN);
	for (i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
		(void)sigaction(passed[i], &action, NULL);
}

/* Every region that is watched is an open file; the program keeps the limit that it was given. */
static void allow_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

int cm_guard_run(struct cm_guard *guard, int (*start)(void *data), void *data)
{
	sigset_t all, before;
	int status, exit;
	pid_t child;

	(void)fflush(NULL);
	/* A signal that comes before we know whom to pass it to waits. */
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_BLOCK, &all, &before);
	child = fork();
	if (child < 0) {
		cm_complain("%s", strerror(errno));
		(void)sigprocmask(SIG_SETMASK, &before, NULL);
		return CM_EXIT_RUN;
	}
	if (!child) {
		(void)sigprocmask(SIG_SETMASK, &before, NULL);
		_exit(start(data));
	}
	child_pid = child;
	set_signals();
	allow_files();
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	status = watch(guard, child);
	child_pid = 0;
	exit = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	report(guard, exit);
	if (!exit && guard->leaks && guard->options->leak_exit) {
		(void)fprintf(stderr, "==%d== cudamem: exit 0 changed to %d by --leak-exit-code\n",
			      (int)child, guard->options->leak_exit);
		exit = guard->options->leak_exit;
	}
	return exit;
}
