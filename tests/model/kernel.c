/* SPDX-License-Identifier: MIT */
#include "tests/model/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stats/region_mode.h"
#include "tests/model/model.h"

#define FILES     16u
#define NAMES     8u
#define OPEN      32u
#define FD_FIRST  10
#define DIR_FD    9
#define DAY_S     86400
#define HEAP      (1024u * 1024) /* of all processes together, in one run */
#define MAP_BYTES (64u * 1024)   /* as much of a region as is touched */

enum kind { CLOSED, REGULAR, TEXT };

struct description {
	enum kind kind;
	unsigned owner; /* the process */
	unsigned file;
	char text[160];
};

struct name {
	bool used;
	char text[64];
	unsigned file;
};

struct stream {
	unsigned at;
	struct dirent entry;
};

static struct {
	struct kernel_process process[MODEL_THREADS + 1];
	unsigned processes, actor;
	struct description open[OPEN];
	int lock[FILES];        /* the description that holds it, or -1 */
	int64_t written[FILES]; /* in seconds */
	mode_t mode[FILES];
	unsigned files;
	struct name name[NAMES];
	struct stream stream[MODEL_THREADS + 1];
	int64_t now_s;
	char heap[HEAP] __attribute__((aligned(16)));
	size_t heap_used;
	char map[MODEL_THREADS + 1][MAP_BYTES] __attribute__((aligned(4096)));
	jmp_buf end[MODEL_THREADS + 1];
} kernel;

bool kernel_hides_locks, kernel_grants_locks;

void kernel_init(const struct kernel_process *process, unsigned n)
{
	unsigned i;

	memset(kernel.open, 0, sizeof(kernel.open));
	memset(kernel.name, 0, sizeof(kernel.name));
	memcpy(kernel.process, process, n * sizeof(*process));
	for (i = 0; i < FILES; i++)
		kernel.lock[i] = -1;
	kernel.processes = n;
	kernel.actor = n;
	kernel.files = 0;
	kernel.now_s = 100 * DAY_S;
	kernel.heap_used = 0;
	kernel_hides_locks = kernel_grants_locks = false;
}

void kernel_act_as(unsigned process)
{
	kernel.actor = process;
}

static unsigned self(void)
{
	return kernel.actor < kernel.processes ? kernel.actor : model_thread() - 1;
}

const struct kernel_process *kernel_process(unsigned process)
{
	return &kernel.process[process];
}

static void close_all(unsigned process)
{
	unsigned i, f;

	for (i = 0; i < OPEN; i++) {
		if (kernel.open[i].kind == CLOSED || kernel.open[i].owner != process)
			continue;
		kernel.open[i].kind = CLOSED;
		for (f = 0; f < FILES; f++)
			if (kernel.lock[f] == (int)i)
				kernel.lock[f] = -1;
	}
}

jmp_buf *kernel_end(void)
{
	return &kernel.end[self()];
}

static void step(void)
{
	struct kernel_process *process = &kernel.process[self()];

	model_step();
	if (!process->mortal || kernel.actor < kernel.processes || !model_choose(2))
		return;
	process->dead = true;
	close_all(self());
	longjmp(*kernel_end(), 1);
}

void kernel_exec(void)
{
	step();
	close_all(self());
}

void kernel_pass(uint64_t seconds)
{
	model_step();
	kernel.now_s += (int64_t)seconds;
}

/* ---- names ---- */

static int fail(int err)
{
	errno = err;
	return -1;
}

/* The part behind the folder. */
static const char *plain(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static struct name *find_name(const char *path)
{
	unsigned i;

	for (i = 0; i < NAMES; i++)
		if (kernel.name[i].used && !strcmp(kernel.name[i].text, plain(path)))
			return &kernel.name[i];
	return NULL;
}

static struct name *free_name(void)
{
	unsigned i;

	for (i = 0; i < NAMES; i++)
		if (!kernel.name[i].used)
			return &kernel.name[i];
	model_fail("too many names for the model");
}

static unsigned new_file(void)
{
	if (kernel.files < FILES)
		return kernel.files++;
	model_fail("too many files for the model");
}

static struct name *add_name(const char *path)
{
	struct name *name = free_name();

	name->used = true;
	name->file = new_file();
	kernel.mode[name->file] = CM_REGION_MODE;
	(void)snprintf(name->text, sizeof(name->text), "%s", plain(path));
	return name;
}

void kernel_leave_file(uint32_t pid, uint64_t start)
{
	char name[64];

	(void)snprintf(name, sizeof(name), "cudamem.%u.%u.%llu", KERNEL_UID, pid,
		       (unsigned long long)start);
	kernel.written[add_name(name)->file] = kernel.now_s - (int64_t)2 * DAY_S;
}

bool kernel_has(const char *path)
{
	return find_name(path) != NULL;
}

bool kernel_has_held(const char *path, unsigned process)
{
	const struct name *name = find_name(path);

	return name && kernel.lock[name->file] >= 0 &&
	       kernel.open[kernel.lock[name->file]].owner == process;
}

unsigned kernel_names(void)
{
	unsigned i, n = 0;

	for (i = 0; i < NAMES; i++)
		n += kernel.name[i].used;
	return n;
}

/* ---- open files ---- */

static struct description *description_of(int fd)
{
	return &kernel.open[fd - FD_FIRST];
}

static int open_as(enum kind kind, unsigned file)
{
	unsigned i;

	for (i = 0; i < OPEN; i++) {
		if (kernel.open[i].kind != CLOSED)
			continue;
		kernel.open[i] = (struct description){.kind = kind, .owner = self(), .file = file};
		return FD_FIRST + (int)i;
	}
	model_fail("too many open files for the model");
}

/* What /proc/PID/stat says of a process that the caller can see. */
static int open_process(unsigned pid)
{
	const struct kernel_process *process;
	unsigned i;
	int fd;

	for (i = 0; i < kernel.processes; i++) {
		process = &kernel.process[i];
		if (process->pid != pid || process->dead ||
		    process->pid_namespace != kernel.process[self()].pid_namespace)
			continue;
		fd = open_as(TEXT, 0);
		(void)snprintf(description_of(fd)->text, sizeof(description_of(fd)->text),
			       "%u (a) S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 %llu 23\n",
			       pid, (unsigned long long)process->start);
		return fd;
	}
	return fail(ENOENT);
}

int kernel_openat(int dir, const char *path, int flags, ...)
{
	struct name *name;
	unsigned pid;

	(void)dir;
	step();
	if (!strcmp(path, "/proc/self/stat"))
		return open_process(kernel.process[self()].pid);
	/* NOLINTNEXTLINE(cert-err34-c): the caller has written it */
	if (sscanf(path, "/proc/%u/stat", &pid) == 1)
		return open_process(pid);
	if (!strncmp(path, "/proc/", 6))
		return fail(ENOENT);
	name = find_name(path);
	if (name && flags & O_EXCL)
		return fail(EEXIST);
	if (!name && !(flags & O_CREAT))
		return fail(ENOENT);
	if (name && flags & O_RDWR && !(kernel.mode[name->file] & S_IWUSR))
		return fail(EACCES);
	if (!name) {
		name = add_name(path);
		kernel.written[name->file] = kernel.now_s;
	}
	return open_as(REGULAR, name->file);
}

int kernel_open(const char *path, int flags, ...)
{
	return kernel_openat(AT_FDCWD, path, flags);
}

int kernel_close(int fd)
{
	struct description *description = description_of(fd);

	step();
	if (description->kind == REGULAR && kernel.lock[description->file] == fd - FD_FIRST)
		kernel.lock[description->file] = -1;
	description->kind = CLOSED;
	return 0;
}

ssize_t kernel_read(int fd, void *to, size_t bytes)
{
	const char *text = description_of(fd)->text;
	size_t n = strlen(text) < bytes ? strlen(text) : bytes;

	memcpy(to, text, n);
	return (ssize_t)n;
}

int kernel_fcntl(int fd, int command, ...)
{
	struct description *description = description_of(fd);
	struct flock *lock;
	bool is_free;
	va_list args;

	va_start(args, command);
	lock = va_arg(args, struct flock *);
	va_end(args);
	step();
	if (command == F_ADD_SEALS)
		return 0;
	is_free = kernel.lock[description->file] < 0 ||
		  kernel.lock[description->file] == fd - FD_FIRST;
	if (command == F_OFD_GETLK) {
		if (is_free || kernel_hides_locks)
			lock->l_type = F_UNLCK;
		return 0;
	}
	if (!is_free && !kernel_hides_locks && !kernel_grants_locks)
		return fail(EAGAIN);
	kernel.lock[description->file] = fd - FD_FIRST;
	return 0;
}

int kernel_unlinkat(int dir, const char *path, int flags)
{
	struct name *name;

	(void)dir;
	(void)flags;
	step();
	name = find_name(path);
	if (!name)
		return fail(ENOENT);
	name->used = false;
	return 0;
}

int kernel_unlink(const char *path)
{
	return kernel_unlinkat(AT_FDCWD, path, 0);
}

static void fill_stat(unsigned file, struct stat *ret_stat)
{
	*ret_stat = (struct stat){.st_ino = file + 1,
				  .st_mode = S_IFREG | kernel.mode[file],
				  .st_uid = KERNEL_UID,
				  .st_mtim = {.tv_sec = kernel.written[file]}};
}

int kernel_fchmod(int fd, mode_t mode)
{
	step();
	kernel.mode[description_of(fd)->file] = mode;
	return 0;
}

unsigned kernel_writable(void)
{
	unsigned i, n = 0;

	for (i = 0; i < kernel.files; i++)
		n += kernel.mode[i] != CM_REGION_MODE;
	return n;
}

int kernel_fstat(int fd, struct stat *ret_stat)
{
	fill_stat(description_of(fd)->file, ret_stat);
	return 0;
}

int kernel_fstatat(int dir, const char *path, struct stat *ret_stat, int flags)
{
	const struct name *name;

	(void)dir;
	(void)flags;
	step();
	name = find_name(path);
	if (!name)
		return fail(ENOENT);
	fill_stat(name->file, ret_stat);
	return 0;
}

int kernel_stat(const char *path, struct stat *ret_stat)
{
	(void)path;
	(void)ret_stat;
	return fail(ENOENT);
}

/* Nothing of these is seen by others. */

int kernel_ftruncate(int fd, off_t bytes)
{
	(void)fd;
	(void)bytes;
	return 0;
}

int kernel_posix_fallocate(int fd, off_t at, off_t bytes)
{
	(void)fd;
	(void)at;
	(void)bytes;
	return 0;
}

int kernel_memfd_create(const char *name, unsigned flags)
{
	(void)name;
	(void)flags;
	return open_as(REGULAR, new_file());
}

void *kernel_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t from)
{
	char *map = kernel.map[self()];

	(void)at;
	(void)bytes;
	(void)protection;
	(void)flags;
	(void)fd;
	(void)from;
	memset(map, 0, MAP_BYTES);
	return map;
}

int kernel_munmap(void *at, size_t bytes)
{
	(void)at;
	(void)bytes;
	return 0;
}

int kernel_getrlimit(int which, struct rlimit *ret_limit)
{
	(void)which;
	*ret_limit = (struct rlimit){.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
	return 0;
}

/* ---- the folder ---- */

DIR *kernel_opendir(const char *path)
{
	(void)path;
	kernel.stream[self()].at = 0;
	return (DIR *)&kernel.stream[self()];
}

struct dirent *kernel_readdir(DIR *stream)
{
	struct stream *from = (struct stream *)stream;

	step();
	while (from->at < NAMES && !kernel.name[from->at].used)
		from->at++;
	if (from->at == NAMES)
		return NULL;
	(void)snprintf(from->entry.d_name, sizeof(from->entry.d_name), "%s",
		       kernel.name[from->at++].text);
	return &from->entry;
}

int kernel_closedir(DIR *stream)
{
	(void)stream;
	return 0;
}

int kernel_dirfd(DIR *stream)
{
	(void)stream;
	return DIR_FD;
}

/* ---- the rest ---- */

int kernel_clock_gettime(clockid_t clock, struct timespec *ret_now)
{
	(void)clock;
	*ret_now = (struct timespec){.tv_sec = kernel.now_s};
	return 0;
}

pid_t kernel_getpid(void)
{
	return (pid_t)kernel.process[self()].pid;
}

uid_t kernel_geteuid(void)
{
	return KERNEL_UID;
}

/* What a process has goes with the run, also where it died. */
void *kernel_calloc(size_t n, size_t bytes)
{
	char *at = kernel.heap + kernel.heap_used;

	n = (n * bytes + 15) & ~(size_t)15;
	if (n > HEAP - kernel.heap_used)
		return NULL;
	kernel.heap_used += n;
	memset(at, 0, n);
	return at;
}

void kernel_free(void *at)
{
	(void)at;
}
