/* SPDX-License-Identifier: MIT */
#include "tools/run/guard.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stats/command_client.h"
#include "stats/counters.h"
#include "stats/region.h"
#include "stats/region_name.h"
#include "stats/units.h"
#include "tools/cli/exits.h"
#include "tools/cli/width.h"
#include "tools/output/size.h"
#include "tools/processes/collect.h"
#include "tools/processes/source.h"
#include "tools/run/leaks.h"
#include "tools/run/live_view.h"
#include "tools/run/outcome.h"
#include "tools/run/run_directory.h"

#define PASS_MS       20
#define HOLD_NS       UINT64_C(100000000) /* a program that is ending does not answer */
#define OOM_WAIT      "5000"              /* ms that a failed request waits for its snapshot */
#define PEAK_PASSES   10                  /* passes of the loop between two copies for a peak ... */
#define PEAK_SHARE    4                   /* ... unless 1/PEAK_SHARE of the ring is new */
#define OOM_FILES_MAX 10
#define SUMMARIES_MAX 8
#define PATH_BYTES    512
#define LEAK_FRAMES   8 /* of a stack that leaks */

enum saved { SAVED_OOM, SAVED_PEAK, SAVED_KINDS };

/* A process with a region. A process that calls exec(2) becomes a second one. */
struct watched {
	char name[64];
	ino_t inode; /* of the region; not reused while the reader has the file open */
	struct cm_reader *reader;
	bool ended;                  /* and read since: its region no longer changes */
	uint32_t ooms;               /* as last seen */
	unsigned saved[SAVED_KINDS]; /* files */
	/* The copy for the peak is taken after the peak, so the events show it. */
	struct cm_image *peak; /* NULL: none yet */
	int64_t highest;       /* the peak, in bytes */
	int64_t in_use;        /* allocated in the copy, in bytes */
	bool whole;            /* the events of the copy reach back to the peak */
	unsigned since;        /* passes since the copy */
	uint64_t before;       /* number of events when the peak was last not exceeded */
};

struct cm_guard {
	const struct cm_options *options;
	struct cm_suppressions *suppressions;
	struct cm_run_directory directory;
	char conf[128];
	struct watched *watched;
	size_t count;
	unsigned oom_files; /* of all processes */
	bool leaks;
	size_t summaries; /* printed */
	struct cm_live_view view;
	bool blind; /* a region could not be opened; complained once */
};

/* The process that gets our signals. */
static volatile sig_atomic_t child_pid;

/* The child has left the terminal to a view that has ended. */
static volatile sig_atomic_t is_apart;

/* Signals of the terminal reach the child, too, unless it has left it; those that a process sends
 * reach only us. */
static void pass_on(int number, siginfo_t *info, void *context)
{
	(void)context;
	if (child_pid > 0 && info->si_code <= 0)
		(void)kill((pid_t)child_pid, number);
	else if (child_pid > 0 && is_apart)
		(void)kill(-(pid_t)child_pid, number); /* the group, as the terminal does */
}

/* Complains now, not when there is something to save. 0, or an exit code after a complaint. */
static int open_all(struct cm_guard *guard)
{
	const struct cm_options *options = guard->options;
	int exit, err;

	if (!CM_HAVE_ZSTD && (options->oom || options->save_peak))
		return cm_fail(CM_EXIT_RUN, "this build has no zstd, which snapshots need; --leaks "
					    "and --report work without it");
	exit = cm_suppressions_read(options->suppressions, &guard->suppressions);
	if (!exit)
		exit = cm_live_view_open(options, &guard->view);
	/* A dry run only prints the name. */
	if (exit || options->dry_run)
		return exit;
	cm_run_directory_sweep();
	err = cm_run_directory_create(&guard->directory);
	return err ? cm_fail(CM_EXIT_RUN, "%s: %s", guard->directory.path, strerror(-err)) : 0;
}

int cm_guard_create(const struct cm_options *options, struct cm_guard **ret_guard,
		    const char **ret_conf)
{
	struct cm_guard *guard = calloc(1, sizeof(*guard));
	int exit;

	if (!guard)
		return cm_fail(CM_EXIT_RUN, "not enough memory on the host");
	guard->options = options;
	guard->view.log = -1;
	cm_run_directory_init(&guard->directory);
	exit = open_all(guard);
	if (exit) {
		cm_guard_destroy(guard);
		return exit;
	}
	(void)snprintf(guard->conf, sizeof(guard->conf), "region_dir:%s,region_keep:on%s",
		       guard->directory.path, options->oom ? ",oom_wait_ms:" OOM_WAIT : "");
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
	cm_live_view_close(&guard->view);
	cm_run_directory_remove(&guard->directory);
	cm_suppressions_free(guard->suppressions);
	free(guard);
}

/* After exec(2) a process has a new region with the name of its old one. */
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

/* With --children none only the program itself is. */
static bool is_meant(const struct cm_guard *guard, const char *name)
{
	struct cm_region_name parts;

	return !guard->options->no_children ||
	       (cm_region_name_parse(name, &parts) && parts.pid == (uint32_t)child_pid);
}

static void watch_region(struct cm_guard *guard, const char *name, ino_t inode)
{
	char path[PATH_BYTES], why[CM_READER_WHY_BYTES];
	struct watched watched = {0}, *more;
	struct stat st;
	int err;

	if (is_known(guard, name, inode) || !is_meant(guard, name))
		return;
	(void)snprintf(path, sizeof(path), "%s/%s", guard->directory.path, name);
	if (stat(path, &st) || is_known(guard, name, st.st_ino))
		return;
	err = cm_reader_open(path, &watched.reader, why);
	if (err) {
		/* A region that is being created or replaced is tried again in the next pass. */
		if (err != -EAGAIN && err != -ENOENT)
			complain_blind(guard, name, why);
		return;
	}
	more = reallocarray(guard->watched, guard->count + 1, sizeof(*more));
	if (!more) {
		cm_reader_close(watched.reader);
		complain_blind(guard, name, "not enough memory on the host");
		return;
	}
	/* The file may have been replaced between stat() and open(). */
	watched.inode = fstat(watched.reader->fd, &st) ? 0 : st.st_ino;
	(void)snprintf(watched.name, sizeof(watched.name), "%s", name);
	guard->watched = more;
	guard->watched[guard->count++] = watched;
}

static void find_regions(struct cm_guard *guard)
{
	DIR *dir = opendir(guard->directory.path);
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
	int64_t peak;    /* sum of the peaks of its devices, an upper bound */
	uint64_t events; /* written so far */
	int64_t ooms;    /* requests of all kinds that ran out of memory */
};

static void read_state(struct cm_reader *reader, struct state *ret_state)
{
	struct cm_device_row row;
	struct state state = {0};
	struct cm_host_row host;
	uint32_t i;
	bool torn;

	(void)cm_reader_refresh(reader);
	for (i = 0; i < CM_DEVICES_MAX && i < reader->header.table[CM_TABLE_DEVICE].rows; i++) {
		if (cm_reader_read_device(reader, i, &row, &torn))
			continue;
		state.events += row.event_next;
		state.peak = cm_wrap_add(
			state.peak, cm_stat_read(&row, CM_POOL_ALL, CM_STAT_ALLOCATED_BYTES).peak);
		state.ooms = cm_wrap_add(state.ooms, row.scalar[CM_SCALAR_num_ooms]);
		state.ooms = cm_wrap_add(state.ooms, row.scalar[CM_SCALAR_uncached_ooms]);
	}
	if (!cm_reader_read_host(reader, &host, &torn))
		state.ooms = cm_wrap_add(state.ooms, (int64_t)host.num_host_ooms);
	*ret_state = state;
}

/* Copies the region. NULL after a complaint. */
static struct cm_image *copy_region(const struct watched *watched, enum cm_reason reason)
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

/* Replaces %p by the pid. From the second file on, a number is added before the suffix. */
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
	const struct cm_symbols_from from = {.debug_path = guard->options->debug_path,
					     .owner = geteuid()};
	const unsigned pid = image->header.pid;
	struct cm_symbols_report report;
	char path[PATH_BYTES];
	int64_t bytes;

	(void)cm_symbols_add(image, &from, &report);
	spell_path(pattern, pid, number, path, sizeof(path));
	/* Replaces the file of an earlier run. */
	if (!cm_save(image, path, true, &bytes))
		cm_line_of(stderr, pid, 4, "cudamem: %s, saved %s", what, path);
}

/* The number of the next file among those of its name; with %p, each pid has names of its own. */
static unsigned next_file(const struct cm_guard *guard, struct watched *watched,
			  const char *pattern, enum saved kind)
{
	const bool is_shared = !strstr(pattern, "%p");
	unsigned number = 1;
	size_t i;

	for (i = 0; i < guard->count; i++)
		if (is_shared ||
		    guard->watched[i].reader->header.pid == watched->reader->header.pid)
			number += guard->watched[i].saved[kind];
	watched->saved[kind]++;
	return number;
}

/* The failed request waits for the copy only; names are added after it was released. */
static void check_oom(struct cm_guard *guard, struct watched *watched)
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
	image = copy_region(watched, CM_REASON_OOM);
	guard->oom_files++;
	(void)cm_client_oom_seen(watched->reader,
				 guard->oom_files < OOM_FILES_MAX ? ooms : CM_OOMS_ALL(ooms));
	if (image)
		save(guard, image, guard->options->oom,
		     next_file(guard, watched, guard->options->oom, SAVED_OOM), "out of memory");
	cm_image_free(image);
}

/* Is 1/share of the ring newer than the last time at which the peak was exceeded? */
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

static void check_peak(struct cm_guard *guard, struct watched *watched, const struct state *state,
		       bool last)
{
	struct cm_image *image;

	if (!guard->options->save_peak)
		return;
	watched->since++;
	if (state->peak <= watched->highest) {
		watched->before = state->events;
		return;
	}
	if (!last && watched->peak && watched->since < PEAK_PASSES &&
	    !is_much_new(watched, state, PEAK_SHARE))
		return;
	image = copy_region(watched, CM_REASON_PEAK);
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
		if (watched->ended)
			continue;
		/* The state is read first: what is read after the end of the process is final. */
		watched->ended = cm_reader_is_over(watched->reader);
		read_state(watched->reader, &state);
		/* check_oom() lets the process go on, so the peak is copied first. */
		check_peak(guard, watched, &state, last || watched->ended);
		check_oom(guard, watched);
	}
}

static void save_peak(struct cm_guard *guard, struct watched *watched)
{
	const struct cm_units_text peak = cm_size_format(watched->highest);
	char what[192];

	if (watched->in_use >= watched->highest)
		(void)snprintf(what, sizeof(what), "peak of %s allocated", peak.text);
	else if (watched->whole)
		(void)snprintf(what, sizeof(what),
			       "peak of %s allocated, which is in the events; %s at their end",
			       peak.text, cm_size_format(watched->in_use).text);
	else
		(void)snprintf(what, sizeof(what),
			       "peak of %s allocated, which is older than the events: use a "
			       "longer ring (--history=N); %s at their end",
			       peak.text, cm_size_format(watched->in_use).text);
	save(guard, watched->peak, guard->options->save_peak,
	     next_file(guard, watched, guard->options->save_peak, SAVED_PEAK), what);
}

static void report_leaks(struct cm_guard *guard, struct watched *watched)
{
	const struct cm_symbols_from from = {.debug_path = guard->options->debug_path,
					     .owner = watched->reader->owner};
	struct cm_view view = cm_view_of(guard->options);
	struct cm_symbols_report report;
	struct cm_source source = {0};
	size_t leaks = 0;
	int err;

	if (!guard->options->depth)
		view.depth = LEAK_FRAMES;
	source.image = copy_region(watched, CM_REASON_EXIT);
	if (!source.image)
		return;
	source.pid = (pid_t)source.image->header.pid;
	err = cm_symbols_add(source.image, &from, &report);
	if (!err)
		err = cm_snapshot_create(source.image, guard->options->hide, &source.snapshot);
	if (!err)
		err = cm_leaks_print(&source, guard->suppressions, &view, stderr, &leaks);
	if (err)
		cm_complain("%s: %s", watched->name, strerror(-err));
	guard->leaks |= leaks > 0;
	cm_source_close(&source);
}

/* The lines of more processes would scroll off the screen. */
static void print_summary(struct cm_guard *guard, struct watched *watched)
{
	if (guard->summaries < SUMMARIES_MAX)
		guard->summaries += cm_run_outcome_print(watched->reader, guard->options->oom,
							 stderr);
	else if (guard->summaries++ == SUMMARIES_MAX)
		cm_line_of(stderr, watched->reader->header.pid, 4,
			   "cudamem: further processes are left out; --children none reports the "
			   "program alone");
}

/* A process that crashed, or reported out of memory, can still be looked at, as without `run`. */
static void keep_region(const struct cm_guard *guard, const struct watched *watched)
{
	const enum cm_life life = cm_reader_life(watched->reader);
	struct state state;

	read_state(watched->reader, &state);
	if (life == CM_LIFE_CRASHED || (life == CM_LIFE_EXITED && state.ooms))
		cm_run_directory_keep(&guard->directory, watched->name);
}

/* Reports all processes. If the program could not be started, that was reported already. */
static void report(struct cm_guard *guard, bool covered, int exit)
{
	size_t i;

	for (i = 0; i < guard->count; i++) {
		if (guard->watched[i].peak)
			save_peak(guard, &guard->watched[i]);
		if (guard->options->leaks)
			report_leaks(guard, &guard->watched[i]);
		if (guard->options->report)
			print_summary(guard, &guard->watched[i]);
		keep_region(guard, &guard->watched[i]);
	}
	if (covered && !guard->count && exit != CM_EXIT_RUN && exit != CM_EXIT_NOT_EXECUTABLE &&
	    exit != CM_EXIT_NOT_FOUND)
		cm_complain("nothing to report: the program%s used no GPU memory, or did not load "
			    "the library, or %s had no space for its statistics",
			    guard->options->no_children ? " itself (--children none)" : "",
			    CM_REGION_DIR);
}

/* Watches the regions until the child ends. Returns its status. */
static int watch(struct cm_guard *guard, pid_t child)
{
	struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, child, 0), .events = POLLIN};
	int status = 0;

	cm_live_view_start(&guard->view, guard->directory.path);
	while (!waitpid(child, &status, WNOHANG)) {
		look(guard, false);
		cm_live_view_poll(&guard->view, guard->options);
		is_apart = guard->view.ended;
		/* Without a pidfd (Linux before 5.3) this is only a pause. */
		(void)poll(&end, end.fd >= 0, PASS_MS);
	}
	if (end.fd >= 0)
		(void)close(end.fd);
	look(guard, true);
	cm_live_view_stop(&guard->view);
	return status;
}

static const int passed[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCONT};

static void set_signals(void)
{
	struct sigaction action = {.sa_sigaction = pass_on, .sa_flags = SA_RESTART | SA_SIGINFO};
	size_t i;

	/* A closed pipe on stderr must end neither the program nor our cleanup. */
	(void)signal(SIGPIPE, SIG_IGN);
	(void)signal(SIGXFSZ, SIG_IGN);
	for (i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
		(void)sigaction(passed[i], &action, NULL);
}

/* Without a child, a signal is meant for this process: it ends the reports. A later run removes the
 * folder. */
static void reset_signals(void)
{
	size_t i;

	for (i = 0; i < sizeof(passed) / sizeof(passed[0]); i++)
		(void)signal(passed[i], SIG_DFL);
}

int cm_guard_run(struct cm_guard *guard, bool covered, int (*start)(void *data), void *data)
{
	sigset_t all, before;
	int status, exit;
	pid_t child;

	(void)fflush(NULL);
	/* Signals wait until we know the child. */
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
		cm_live_view_leave_terminal(&guard->view);
		_exit(start(data));
	}
	child_pid = child;
	set_signals();
	cm_allow_files(); /* the program keeps its own limit */
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	status = watch(guard, child);
	reset_signals();
	child_pid = 0;
	exit = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	report(guard, covered, exit);
	if (!exit && guard->leaks && guard->options->leak_exit) {
		cm_line_of(stderr, child, 4, "cudamem: exit 0 changed to %d by --leak-exit-code",
			   guard->options->leak_exit);
		exit = guard->options->leak_exit;
	}
	return exit;
}
