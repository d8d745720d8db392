/* SPDX-License-Identifier: MIT */
#include "tools/output/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stats/units.h"
#include "tools/cli/exits.h"

#define TEMPORARY_TRIES 100

static int complain(const char *path, int err)
{
	return cm_fail(CM_EXIT_TARGET, "%s: %s", path,
		       err == EEXIST ? "exists already; --force replaces it" : strerror(err));
}

/* The descriptor that a path names, such as /dev/stdout or a shell's >(command); -1: none. */
static int named_descriptor(const char *path)
{
	static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
	uint64_t number;
	size_t i;

	if (!strcmp(path, "/dev/stdout"))
		return STDOUT_FILENO;
	if (!strcmp(path, "/dev/stderr"))
		return STDERR_FILENO;
	for (i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
		if (!strncmp(path, folders[i], strlen(folders[i])) &&
		    !cm_number_parse(path + strlen(folders[i]), INT32_MAX, &number))
			return (int)number;
	return -1;
}

/* Opens the folder of a path. What follows is done relative to it, so that a folder that is
 * replaced meanwhile leads nowhere else. */
static int open_folder(const char *path)
{
	const size_t length = (size_t)(basename(path) - path);
	char *folder = length ? strndup(path, length) : strdup(".");
	int fd = folder ? open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;

	free(folder);
	return fd;
}

/* Tries temporary names in the folder until `make` finds one that is free. Its result; -1:
 * errno. */
static int make_temporary(struct cm_output *output,
			  int (*make)(const struct cm_output *output, const char *name, int arg),
			  int arg)
{
	int attempt, result = -1;

	for (attempt = 0; attempt < TEMPORARY_TRIES && result < 0; attempt++) {
		(void)snprintf(output->temporary, sizeof(output->temporary), ".cudamem-%ld-%d",
			       (long)getpid(), attempt);
		result = make(output, output->temporary, arg);
		if (result < 0 && errno != EEXIST)
			break;
	}
	if (result < 0)
		output->temporary[0] = '\0';
	return result;
}

static int create_new(const struct cm_output *output, const char *name, int mode)
{
	return openat(output->folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		      (mode_t)mode);
}

/* Opens a file without a name; if the file system cannot, a hidden temporary file. */
static int open_nameless(struct cm_output *output, unsigned mode)
{
	const int fd = openat(output->folder, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, (mode_t)mode);

	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
		return fd;
	return make_temporary(output, create_new, (int)mode);
}

bool cm_output_is_file(const char *path)
{
	struct stat st;

	return strcmp(path, "-") && named_descriptor(path) < 0 &&
	       (lstat(path, &st) || S_ISREG(st.st_mode));
}

/*
 * What has the name already. Others may have put it there, in /tmp for example: a link would lead
 * us to a file of their choice, and a pipe would keep us waiting. A device is root's.
 */
static int check_present(const struct cm_output *output, const char *name)
{
	struct stat st;

	if (fstatat(output->folder, name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT && *name ? 0 : complain(output->path, errno);
	if (S_ISLNK(st.st_mode))
		return cm_fail(CM_EXIT_TARGET, "%s: a symbolic link, not followed", output->path);
	if (S_ISDIR(st.st_mode))
		return complain(output->path, EISDIR);
	if (!S_ISREG(st.st_mode))
		return cm_fail(CM_EXIT_TARGET, "%s: not a regular file; -O - writes to a pipe",
			       output->path);
	if (!output->force)
		return complain(output->path, EEXIST);
	if (st.st_uid != geteuid())
		return cm_fail(CM_EXIT_TARGET, "%s: belongs to another user", output->path);
	return 0;
}

static int open_new(struct cm_output *output, unsigned mode)
{
	int exit, fd;

	output->folder = open_folder(output->path);
	if (output->folder < 0)
		return complain(output->path, errno);
	exit = check_present(output, basename(output->path));
	if (exit)
		return exit;
	fd = open_nameless(output, mode);
	output->file = fd >= 0 ? fdopen(fd, "w") : NULL;
	if (output->file)
		return 0;
	exit = complain(output->path, errno);
	if (fd >= 0)
		(void)close(fd);
	return exit;
}

/* Opens what is written directly: an open descriptor, or a device. -1: a file is to be made. */
static int open_directly(const char *path)
{
	const int named = named_descriptor(path);
	struct stat st;

	if (named >= 0)
		return fcntl(named, F_DUPFD_CLOEXEC, 0);
	errno = 0;
	if (lstat(path, &st) || !S_ISCHR(st.st_mode)) {
		errno = 0;
		return -1;
	}
	return open(path, O_WRONLY | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
}

int cm_output_open(struct cm_output *output, const char *path, unsigned mode, bool force)
{
	int fd, exit;

	memset(output, 0, sizeof(*output));
	output->force = force;
	output->folder = -1;
	if (!strcmp(path, "-")) {
		output->file = stdout;
		return 0;
	}
	fd = open_directly(path);
	if (fd >= 0)
		output->file = fdopen(fd, "w");
	if (output->file)
		return 0;
	if (errno)
		return complain(path, errno);
	output->path = strdup(path);
	exit = output->path ? open_new(output, mode) : cm_fail_memory();
	if (exit) {
		if (output->folder >= 0)
			(void)close(output->folder);
		free(output->path);
	}
	return exit;
}

bool cm_output_is_terminal(const char *path)
{
	return (!path || !strcmp(path, "-")) && isatty(STDOUT_FILENO);
}

/* Links an open file without a name to a name of the folder, which must not exist. */
static int link_open(const struct cm_output *output, const char *name, int fd)
{
	char self[40];

	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, self, output->folder, name, AT_SYMLINK_FOLLOW);
}

/* Gives the file its name. Without --force, link() fails if another file got that name
 * meanwhile. */
static int name_file(struct cm_output *output, int fd)
{
	const char *name = basename(output->path);

	if (!output->temporary[0] && !output->force)
		return link_open(output, name, fd);
	if (!output->temporary[0] && make_temporary(output, link_open, fd))
		return -1;
	if (output->force)
		return renameat(output->folder, output->temporary, output->folder, name);
	return linkat(output->folder, output->temporary, output->folder, name, 0);
}

/* The new directory entry is on the disk only once the folder is. */
static void sync_folder(int folder)
{
	const int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0) {
		(void)fsync(fd);
		(void)close(fd);
	}
}

int cm_output_flush(FILE *file)
{
	errno = 0;
	if (!fflush(file) && !ferror(file))
		return 0;
	/* A stream remembers that a write failed, but not why: writing one more byte fails
	 * likewise. */
	if (!errno && putc('\n', file) != EOF)
		(void)fflush(file);
	return errno ? errno : EIO;
}

static int finish(struct cm_output *output)
{
	const int fd = fileno(output->file);
	const int err = cm_output_flush(output->file);

	if (err)
		return err;
	if (output->path && (fsync(fd) || name_file(output, fd)))
		return errno;
	return 0;
}

int cm_output_close(struct cm_output *output, bool keep)
{
	const char *path = output->path ? output->path : "the output";
	int err = keep ? finish(output) : 0;

	if (output->temporary[0]) /* after a rename it no longer exists */
		(void)unlinkat(output->folder, output->temporary, 0);
	if (output->file != stdout && fclose(output->file) && !err && keep && !output->path)
		err = errno;
	if (keep && !err && output->path)
		sync_folder(output->folder);
	/* A reader that closes the pipe has read enough. */
	if (err == EPIPE && !output->path)
		err = 0;
	/* main() checks standard output in any case. */
	if (err && output->file != stdout)
		(void)complain(path, err);
	if (output->folder >= 0)
		(void)close(output->folder);
	free(output->path);
	memset(output, 0, sizeof(*output));
	return err ? CM_EXIT_TARGET : 0;
}
