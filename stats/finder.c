/* SPDX-License-Identifier: MIT */
#include "stats/finder.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stats/open_files.h"
#include "stats/region.h"
#include "stats/start_time.h"
#include "stats/units.h"

#define FILES_MAX      65536 /* entries of a folder */
#define REGIONS_MAX    4096  /* that are found */
#define NAMESPACES_MAX 4096
#define PROCESSES_MAX  (1 << 22) /* the kernel gives out no more numbers */
/* The usual limits of a process's open files, soft and hard. One costs some 3 us to look at. */
#define OPEN_MAX_EACH 1024
#define OPEN_MAX_ONE  (1u << 20)

struct process {
	pid_t pid;
	pid_t inner;  /* in its own PID namespace; 0: not read yet */
	dev_t folder; /* the file system of its region folder; 0: unknown */
	bool found;   /* its region is */
};

struct region {
	struct cm_find find;
	dev_t dev;
	ino_t ino;
};

struct namespace
{
	uint64_t number;
	dev_t folder; /* its region folder; 0: not seen yet */
	ino_t folder_ino;
};

struct search {
	cm_find_fn fn;
	void *data;
	int found;
	pid_t pid; /* the one asked for, or 0 */
	struct process *process;
	size_t processes, process_room;
	struct region *region;
	size_t regions, region_room;
	struct namespace *namespace;
	size_t namespaces, namespace_room;
};

static void report(struct search *search, const struct cm_find *find)
{
	search->found++;
	search->fn(search->data, find);
}

/* Room for one more element behind `count`. False: there are `most`, or no memory is left. */
static bool grow(void *pointer, size_t *room, size_t count, size_t most, size_t size)
{
	void **array = pointer, *larger;

	if (count < *room)
		return true;
	if (count >= most)
		return false;
	larger = reallocarray(*array, *room ? *room * 2 : 64, size);
	if (!larger)
		return false;
	*array = larger;
	*room = *room ? *room * 2 : 64;
	return true;
}

/* Among the first `count` that were found. */
static struct region *find_file(const struct search *search, size_t count, const struct stat *st)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (search->region[i].ino == st->st_ino && search->region[i].dev == st->st_dev)
			return &search->region[i];
	return NULL;
}

static struct region *add_region(struct search *search, const struct stat *st)
{
	struct region *region;

	if (!grow(&search->region, &search->region_room, search->regions, REGIONS_MAX,
		  sizeof(*search->region)))
		return NULL;
	region = &search->region[search->regions++];
	memset(region, 0, sizeof(*region));
	region->dev = st->st_dev;
	region->ino = st->st_ino;
	region->find.uid = st->st_uid;
	return region;
}

/*
 * The user in a name is what the process called itself: in a user namespace that is another than
 * here. Of who may read the file more is known than its name; for others a file that belongs to
 * another user than its name says is somebody's trick.
 */
static bool is_plausible(const struct cm_region_name *name, const struct stat *st)
{
	return st->st_uid == (uid_t)name->uid || st->st_uid == geteuid() || !geteuid();
}

/*
 * Any user who may write to the folder can make a file under the number of any process. While that
 * process runs, a file of a user that it does not run as is not its region. It may be the leftover
 * of an earlier process, or belong to another PID namespace: a list has it, with its owner.
 */
static bool is_of_another(const struct cm_find *find)
{
	uint64_t start;

	return !cm_process_start_time((uint32_t)find->pid, &start) &&
	       !cm_process_runs_as(find->pid, find->uid);
}

static void add_named(struct search *search, const char *folder, const char *text,
		      const struct cm_region_name *name, const struct stat *st)
{
	struct region *region = add_region(search, st);

	if (!region)
		return;
	if (snprintf(region->find.path, sizeof(region->find.path), "%s/%s", folder, text) >=
	    (int)sizeof(region->find.path)) {
		search->regions--;
		return;
	}
	region->find.pid = (pid_t)name->pid;
	region->find.start = name->start;
}

/* Adds the regions of an open folder, whose path is `path`. Closes it. */
static void add_folder(struct search *search, int folder, const char *path)
{
	const size_t before = search->regions; /* of other folders */
	struct cm_region_name name;
	struct dirent *entry;
	struct stat st;
	DIR *stream;
	int seen;

	stream = folder < 0 ? NULL : fdopendir(folder);
	if (!stream) {
		if (folder >= 0)
			(void)close(folder);
		return;
	}
	for (seen = 0; seen < FILES_MAX && (entry = readdir(stream)); seen++)
		if (cm_region_name_parse(entry->d_name, &name) &&
		    !fstatat(dirfd(stream), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) &&
		    S_ISREG(st.st_mode) && is_plausible(&name, &st) &&
		    !find_file(search, before, &st))
			add_named(search, path, entry->d_name, &name, &st);
	(void)closedir(stream);
}

static int open_folder(const char *path)
{
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Of each part of the path: a link in somebody's container would lead out of it. */
static int open_beneath(int at, const char *name, int flags)
{
	const int fd = openat(at, name, flags | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	(void)close(at);
	return fd;
}

/* CM_REGION_DIR as the process sees it; `path` is then its path from here. -1: not allowed, or it
 * has none. */
static int open_folder_of(pid_t pid, char *path, size_t bytes)
{
	char part[sizeof(CM_REGION_DIR)], *rest = NULL, *name;
	int fd;

	(void)snprintf(path, bytes, "/proc/%d/root", (int)pid);
	fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	(void)snprintf(path, bytes, "/proc/%d/root" CM_REGION_DIR, (int)pid);
	(void)snprintf(part, sizeof(part), "%s", CM_REGION_DIR);
	for (name = strtok_r(part, "/", &rest); name && fd >= 0; name = strtok_r(NULL, "/", &rest))
		fd = open_beneath(fd, name, *rest ? O_PATH : O_RDONLY);
	return fd;
}

/* The number of a mount namespace; 0: we may not know. `process`: a number, or "self". */
static uint64_t read_namespace(const char *process)
{
	char path[64], target[64], *digits;
	uint64_t number;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "/proc/%s/ns/mnt", process);
	n = readlink(path, target, sizeof(target) - 1);
	target[n > 0 ? n : 0] = '\0';
	digits = strchr(target, '[');
	if (!digits)
		return 0;
	digits[strcspn(digits, "]")] = '\0';
	return cm_number_parse(digits + 1, UINT64_MAX, &number) ? 0 : number;
}

static struct namespace *find_namespace(struct search *search, uint64_t number)
{
	size_t i;

	for (i = 0; i < search->namespaces; i++)
		if (search->namespace[i].number == number)
			return &search->namespace[i];
	if (!grow(&search->namespace, &search->namespace_room, search->namespaces, NAMESPACES_MAX,
		  sizeof(*search->namespace)))
		return NULL;
	search->namespace[search->namespaces] = (struct namespace){.number = number};
	return &search->namespace[search->namespaces++];
}

/* Adds the folder's regions, too, the first time that it is seen. 0: unknown. */
static dev_t find_folder(struct search *search, struct namespace *namespace, pid_t pid)
{
	char path[64];
	struct stat st;
	size_t i;
	int fd;

	if (namespace->folder)
		return namespace->folder;
	fd = open_folder_of(pid, path, sizeof(path));
	if (fd < 0 || fstat(fd, &st)) {
		if (fd >= 0)
			(void)close(fd);
		return 0; /* another process of this namespace may have one */
	}
	/* Namespaces may share the folder, as the containers of a pod do. */
	for (i = 0; i < search->namespaces; i++)
		if (search->namespace[i].folder == st.st_dev &&
		    search->namespace[i].folder_ino == st.st_ino)
			break;
	if (i == search->namespaces)
		add_folder(search, fd, path);
	else
		(void)close(fd);
	namespace->folder = st.st_dev;
	namespace->folder_ino = st.st_ino;
	return namespace->folder;
}

static void add_process(struct search *search, pid_t pid)
{
	struct namespace *namespace;
	struct process *process;
	uint64_t number;
	char text[16];

	if (!grow(&search->process, &search->process_room, search->processes, PROCESSES_MAX,
		  sizeof(*search->process)))
		return;
	(void)snprintf(text, sizeof(text), "%d", (int)pid);
	number = read_namespace(text);
	namespace = number ? find_namespace(search, number) : NULL;
	process = &search->process[search->processes++];
	*process = (struct process){.pid = pid};
	process->folder = namespace ? find_folder(search, namespace, pid) : 0;
}

static void add_processes(struct search *search)
{
	struct dirent *entry;
	uint64_t pid;
	DIR *proc;

	proc = opendir("/proc");
	if (!proc)
		return;
	while (search->processes < PROCESSES_MAX && (entry = readdir(proc)))
		if (!cm_number_parse(entry->d_name, INT32_MAX, &pid))
			add_process(search, (pid_t)pid);
	(void)closedir(proc);
}

/* By its name and its user. The number in a name is that of the process's own PID namespace. */
static bool is_of(const struct cm_find *find, struct process *process)
{
	uint64_t start;

	if (process->found)
		return false;
	if (!process->inner)
		process->inner = cm_process_inner_pid(process->pid);
	return process->inner == find->pid &&
	       !cm_process_start_time((uint32_t)process->pid, &start) && start == find->start &&
	       cm_process_runs_as(process->pid, find->uid);
}

static int compare_pids(const void *a, const void *b)
{
	const struct process *x = a, *y = b;

	return x->pid < y->pid ? -1 : x->pid > y->pid;
}

/* The process that a file of CM_REGION_DIR, of any namespace, belongs to; NULL: none that runs. */
static struct process *find_owner(struct search *search, const struct region *region)
{
	const struct process like = {.pid = region->find.pid};
	struct process *process;
	size_t i;

	/* Nearly always it has this number here as well. /proc lists processes by number. */
	process = bsearch(&like, search->process, search->processes, sizeof(like), compare_pids);
	if (process && (!process->folder || process->folder == region->dev) &&
	    is_of(&region->find, process))
		return process;
	for (i = 0; i < search->processes; i++)
		if (search->process[i].folder == region->dev &&
		    is_of(&region->find, &search->process[i]))
			return &search->process[i];
	return NULL;
}

static void find_owners(struct search *search)
{
	struct process *process;
	size_t i;

	for (i = 0; i < search->regions; i++) {
		process = find_owner(search, &search->region[i]);
		if (!process)
			continue;
		process->found = true;
		search->region[i].find.pid = process->pid;
		search->region[i].find.held = true;
	}
}

/* A region of a process, by its open file; it may have a name that did not tell whose it is. */
static void add_open(void *data, pid_t pid, const char *path, const struct stat *st)
{
	struct search *search = data;
	struct region *region = find_file(search, search->regions, st);

	if (!region) {
		region = add_region(search, st);
		if (!region)
			return;
		(void)snprintf(region->find.path, sizeof(region->find.path), "%s", path);
	}
	region->find.pid = pid;
	region->find.held = true;
}

/* Looks at the open files of the processes whose region has no name. */
static void search_open_files(struct search *search)
{
	const unsigned most = search->pid ? OPEN_MAX_ONE : OPEN_MAX_EACH;
	struct cm_find missed = {.held = true};
	struct stat st;
	char path[32];
	size_t i;

	for (i = 0; i < search->processes; i++) {
		missed.pid = search->process[i].pid;
		if (search->process[i].found ||
		    cm_open_files_find(missed.pid, most, add_open, search) ||
		    !cm_open_files_is_mapped(missed.pid))
			continue;
		(void)snprintf(path, sizeof(path), "/proc/%d", (int)missed.pid);
		missed.uid = stat(path, &st) ? (uid_t)-1 : st.st_uid;
		report(search, &missed);
	}
}

static void report_regions(struct search *search)
{
	const struct cm_find *find;
	size_t i;

	for (i = 0; i < search->regions; i++) {
		find = &search->region[i].find;
		if (!search->pid ||
		    (find->pid == search->pid && (find->held || !is_of_another(find))))
			report(search, find);
	}
}

/* This namespace's own folder comes first: its files then have the shorter path. */
static void search_everywhere(struct search *search)
{
	struct namespace *own = find_namespace(search, read_namespace("self"));
	struct stat st;

	add_folder(search, open_folder(CM_REGION_DIR), CM_REGION_DIR);
	if (own && !stat(CM_REGION_DIR, &st)) {
		own->folder = st.st_dev;
		own->folder_ino = st.st_ino;
	}
	if (search->pid)
		add_process(search, search->pid);
	else
		add_processes(search);
	find_owners(search);
	search_open_files(search);
}

int cm_find_regions(const char *dir, pid_t pid, cm_find_fn fn, void *data)
{
	struct search search = {.fn = fn, .data = data, .pid = pid};

	if (dir)
		add_folder(&search, open_folder(dir), dir);
	else
		search_everywhere(&search);
	report_regions(&search);
	free(search.process);
	free(search.region);
	free(search.namespace);
	return search.found;
}
