/* SPDX-License-Identifier: MIT */
/*
 * Processes and one folder of files, for protocols that are made of system calls. Each thread of a
 * scenario is a process; before each call that others can notice the runtime decides who goes on,
 * and, where the process is mortal, whether it dies there. What the calls do follows POSIX and, for
 * locks of open file descriptions, Linux.
 */
#ifndef CM_TESTS_MODEL_KERNEL_H
#define CM_TESTS_MODEL_KERNEL_H

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#define KERNEL_DIR "/shm"
#define KERNEL_UID 7u

struct kernel_process {
	uint32_t pid;
	uint64_t start;
	unsigned pid_namespace; /* others see it in /proc only in the same one */
	bool mortal;            /* may be killed before any call */
	bool dead;
};

/* An empty folder; the processes of the scenario's threads, `n` of them. */
void kernel_init(const struct kernel_process *process, unsigned n);
/* The process that the calls of setup and finish are of. */
void kernel_act_as(unsigned process);
/* A file of a process that is gone, of two days ago. */
void kernel_leave_file(uint32_t pid, uint64_t start);
/* What exec(2) does to open files. */
void kernel_exec(void);
void kernel_pass(uint64_t seconds);
const struct kernel_process *kernel_process(unsigned process);

/* Whether the name is there; and means a file that the process holds the lock of. */
bool kernel_has(const char *path);
bool kernel_has_held(const char *path, unsigned process);
unsigned kernel_names(void);
/* Files that their user could open for writing. */
unsigned kernel_writable(void);

/* Planted faults: locks that nobody sees; that everybody gets. */
extern bool kernel_hides_locks, kernel_grants_locks;

/* Runs what may die. False: it has. */
#define KERNEL_LIVES(action) (!setjmp(*kernel_end()) ? ((action), true) : false)
jmp_buf *kernel_end(void);

int kernel_open(const char *path, int flags, ...);
int kernel_openat(int dir, const char *path, int flags, ...);
int kernel_close(int fd);
ssize_t kernel_read(int fd, void *to, size_t bytes);
int kernel_fcntl(int fd, int command, ...);
int kernel_unlink(const char *path);
int kernel_unlinkat(int dir, const char *path, int flags);
int kernel_ftruncate(int fd, off_t bytes);
int kernel_posix_fallocate(int fd, off_t at, off_t bytes);
int kernel_fchmod(int fd, mode_t mode);
int kernel_fstat(int fd, struct stat *ret_stat);
int kernel_fstatat(int dir, const char *path, struct stat *ret_stat, int flags);
int kernel_stat(const char *path, struct stat *ret_stat);
int kernel_memfd_create(const char *name, unsigned flags);
void *kernel_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t from);
int kernel_munmap(void *at, size_t bytes);
DIR *kernel_opendir(const char *path);
struct dirent *kernel_readdir(DIR *stream);
int kernel_closedir(DIR *stream);
int kernel_dirfd(DIR *stream);
int kernel_clock_gettime(clockid_t clock, struct timespec *ret_now);
int kernel_getrlimit(int which, struct rlimit *ret_limit);
pid_t kernel_getpid(void);
uid_t kernel_geteuid(void);
void *kernel_calloc(size_t n, size_t bytes);
void kernel_free(void *at);

#endif
