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
static int read_stat(const char *path, struct cm_process_stat *ret_stat)
{
	const char *state, *threads, *start;
	char text[1024];
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
	state = find_field(text, FIELD_STATE);
	threads = find_field(text, FIELD_THREADS);
	start = find_field(text, FIELD_START);
	if (!start)
		return -EPROTO;
	*ret_stat = (struct cm_process_stat){
		.state = *state,
		.threads = strtoul(threads, NULL, 10),
		.start = strtoull(start, NULL, 10),
	};
	ret_stat->is_dead = strchr("XxZ", ret_stat->state) && ret_stat->threads <= 1;
	return 0;
}

int cm_process_read_stat(uint32_t pid, struct cm_process_stat *ret_stat)
{
	char path[32];

	(void)snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	return read_stat(path, ret_stat);
}

int cm_process_read_own_stat(struct cm_process_stat *ret_stat)
{
	return read_stat("/proc/self/stat", ret_stat);
}

int cm_process_start_time(uint32_t pid, uint64_t *ret_start)
{
	struct cm_process_stat stat = {0};
	int err = cm_process_read_stat(pid, &stat);

	if (!err && stat.is_dead)
		err = -ESRCH;
	if (!err)
		*ret_start = stat.start;
	return err;
}
