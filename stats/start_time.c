/* SPDX-License-Identifier: MIT */
#include "stats/start_time.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Field `number` of a line of /proc/PID/stat, from the third on; NULL: it has fewer. */
static const char *find_field(const char *text, int number)
{
	/* The name may hold blanks and parentheses: the last ')' ends field 2. */
	const char *field = strrchr(text, ')');
	int i;

	for (i = 2; field && i < number; i++) {
		field = strchr(field, ' ');
		field = field ? field + 1 : NULL;
	}
	return field;
}

#define FIELD_STATE   3
#define FIELD_THREADS 20
#define FIELD_START   22

/* A process can outlive its main thread, which is then a zombie. In a dead process that waits for
 * its parent, the main thread is the only one left. */
static bool is_dead(const char *text)
{
	const char *state = find_field(text, FIELD_STATE);
	const char *threads = find_field(text, FIELD_THREADS);

	return state && threads && strchr("XxZ", *state) && strtoul(threads, NULL, 10) <= 1;
}

static int read_start_time(const char *path, uint64_t *ret_start)
{
	char text[1024];
	const char *start;
	ssize_t n;
	int fd;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	n = read(fd, text, sizeof(text) - 1);
	(void)close(fd);
	if (n <= 0)
		return -ESRCH;
	text[n] = '\0';
	start = find_field(text, FIELD_START);
	if (!start)
		return -EPROTO;
	if (is_dead(text))
		return -ESRCH;
	*ret_start = strtoull(start, NULL, 10);
	return 0;
}

int cm_process_start_time(uint32_t pid, uint64_t *ret_start)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	return read_start_time(path, ret_start);
}

int cm_process_own_start_time(uint64_t *ret_start)
{
	return read_start_time("/proc/self/stat", ret_start);
}
