/* SPDX-License-Identifier: MIT */
#include "tools/output/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/cli/exits.h"

static int complain(const char *path, int err)
{
	return cm_fail(CM_EXIT_TARGET, "%s: %s", path,
		       err == EEXIST ? "exists already; --force replaces it" : strerror(err));
}

/* The directory of a path; the caller frees it. */
static char *directory_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return strdup(".");
	return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

/* Opens a file without a name; if the file system cannot, a hidden temporary file. */
static int open_nameless(struct cm_output *output, unsigned mode)
{
	char *directory = directory_of(output->path);
	mode_t mask;
	int fd = -1;

	if (!directory)
		return -1;
	fd = open(directory, O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
	if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL) &&
	    asprintf(&output->temporary, "%s/.cudamem-XXXXXX", directory) >= 0) {
		fd = mkostemp(output->temporary, O_CLOEXEC);
		mask = umask(0);
		(void)umask(mask);
		if (fd >= 0)
			(void)fchmod(fd, (mode_t)(mode & ~mask));
	}
	free(directory);
	return fd;
}

bool cm_output_is_file(const char *path)
{
	struct stat st;

	return strcmp(path, "-") && (stat(path, &st) || S_ISREG(st.st_mode));
}

int cm_output_open(struct cm_output *output, const char *path, unsigned mode, bool force)
{
	struct stat st;
	int fd;

	memset(output, 0, sizeof(*output));
	output->force = force;
	if (!strcmp(path, "-")) {
		output->file = stdout;
		return 0;
	}
	if (!cm_output_is_file(path)) {
		/* A pipe or a device is written directly. */
		output->file = fopen(path, "we");
		return output->file ? 0 : complain(path, errno);
	}
	if (!force && !lstat(path, &st))
		return complain(path, EEXIST);
	/* Write through a symbolic link, such as /dev/stdout, instead of replacing it. */
	output->path = realpath(path, NULL);
	if (!output->path)
		output->path = strdup(path);
	fd = output->path ? open_nameless(output, mode) : -1;
	output->file = fd >= 0 ? fdopen(fd, "w") : NULL;
	if (output->file)
		return 0;
	(void)complain(path, errno);
	if (fd >= 0)
		(void)close(fd);
	free(output->path);
	free(output->temporary);
	return CM_EXIT_TARGET;
}

bool cm_output_is_terminal(const char *path)
{
	return (!path || !strcmp(path, "-")) && isatty(STDOUT_FILENO);
}

/* Links an open file without a name to `path`, which must not exist. */
static int link_open(int fd, const char *path)
{
	char self[40];

	(void)snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
}

/* Links the open file to a temporary name in the same directory, to be renamed from there. */
static int link_beside(struct cm_output *output, int fd)
{
	char *directory = directory_of(output->path);
	int attempt, err = -1;

	for (attempt = 0; directory && err && attempt < 100; attempt++) {
		free(output->temporary);
		output->temporary = NULL;
		if (asprintf(&output->temporary, "%s/.cudamem-%ld-%d", directory, (long)getpid(),
			     attempt) < 0) {
			output->temporary = NULL;
			break;
		}
		err = link_open(fd, output->temporary);
		if (err && errno != EEXIST)
			break;
	}
	if (err) {
		free(output->temporary);
		output->temporary = NULL;
	}
	free(directory);
	return err;
}

/* Gives the file its name. Without --force, link() fails if another file got that name
 * meanwhile. */
static int name(struct cm_output *output, int fd)
{
	if (!output->temporary && !output->force)
		return link_open(fd, output->path);
	if (!output->temporary && link_beside(output, fd))
		return -1;
	if (output->force)
		return rename(output->temporary, output->path);
	return link(output->temporary, output->path);
}

/* The new directory entry is on the disk only once the directory is. */
static void sync_directory(const char *path)
{
	char *directory = directory_of(path);
	const int fd = directory ? open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	if (fd >= 0) {
		(void)fsync(fd);
		(void)close(fd);
	}
	free(directory);
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
	if (output->path && (fsync(fd) || name(output, fd)))
		return errno;
	return 0;
}

int cm_output_close(struct cm_output *output, bool keep)
{
	const char *path = output->path ? output->path : "the output";
	int err = keep ? finish(output) : 0;

	if (output->temporary)
		(void)unlink(output->temporary); /* after a rename it no longer exists */
	if (output->file != stdout && fclose(output->file) && !err && keep && !output->path)
		err = errno;
	if (keep && !err && output->path)
		sync_directory(output->path);
	/* A reader that closes the pipe has read enough. */
	if (err == EPIPE && !output->path)
		err = 0;
	/* main() checks standard output in any case. */
	if (err && output->file != stdout)
		(void)complain(path, err);
	free(output->path);
	free(output->temporary);
	memset(output, 0, sizeof(*output));
	return err ? CM_EXIT_TARGET : 0;
}
