/* SPDX-License-Identifier: MIT */
#include "interpose/core/log.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "interpose/core/cancel.h"

#define LINE_BYTES 1024

static _Atomic enum cm_log_level max_level;

/* The standard error at load; inode 0, which no file has, if there was none. */
static struct {
	dev_t device;
	ino_t inode;
} at_load;

/* Read at load, because a program may close the standard error and open a file of its own under
 * number 2, which our lines must not enter. Nothing else runs before the first CUDA call. */
__attribute__((constructor)) static void remember_stderr(void)
{
	int saved = errno;
	struct stat st;

	if (!fstat(STDERR_FILENO, &st)) {
		at_load.device = st.st_dev;
		at_load.inode = st.st_ino;
	}
	errno = saved;
}

/* Whether number 2 is still that file, and a write would not block. */
static bool is_writable(void)
{
	struct pollfd ask = {.fd = STDERR_FILENO, .events = POLLOUT};
	struct stat st;

	return !fstat(STDERR_FILENO, &st) && st.st_dev == at_load.device &&
	       st.st_ino == at_load.inode && poll(&ask, 1, 0) == 1 &&
	       (ask.revents & (POLLOUT | POLLERR | POLLHUP)) == POLLOUT;
}

/* A write may raise SIGPIPE or SIGXFSZ, which would end the program because of us. Both are blocked
 * in this thread, and consumed unless they were pending before. */
static void write_quietly(const char *line, size_t bytes)
{
	const struct timespec at_once = {0, 0};
	sigset_t ours, before, old;

	(void)sigemptyset(&ours);
	(void)sigaddset(&ours, SIGPIPE);
	(void)sigaddset(&ours, SIGXFSZ);
	(void)sigpending(&before);
	if (pthread_sigmask(SIG_BLOCK, &ours, &old))
		return;
	if (write(STDERR_FILENO, line, bytes) < 0 && (errno == EPIPE || errno == EFBIG) &&
	    !sigismember(&before, errno == EPIPE ? SIGPIPE : SIGXFSZ))
		(void)sigtimedwait(&ours, NULL, &at_once);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void cm_log_set_level(enum cm_log_level level)
{
	atomic_store_explicit(&max_level, level, memory_order_relaxed);
}

static bool is_wanted(enum cm_log_level level)
{
	return level <= atomic_load_explicit(&max_level, memory_order_relaxed);
}

bool cm_log_text(enum cm_log_level level, const char *text, size_t bytes)
{
	const int saved = errno;
	bool wanted;

	cm_cancel_hold();
	wanted = is_wanted(level) && is_writable();
	if (wanted)
		write_quietly(text, bytes < PIPE_BUF ? bytes : PIPE_BUF);
	cm_cancel_allow();
	errno = saved;
	return wanted;
}

void cm_log(enum cm_log_level level, const char *format, ...)
{
	static const char prefix[] = "cudamem: ";
	const int prefix_bytes = (int)sizeof(prefix) - 1;
	const int saved = errno;
	char line[LINE_BYTES];
	va_list args;
	int n;

	if (!is_wanted(level))
		return;
	n = snprintf(line, sizeof(line), "%s", prefix);
	va_start(args, format);
	n += vsnprintf(line + prefix_bytes, sizeof(line) - sizeof(prefix), format, args);
	va_end(args);
	if (n > LINE_BYTES - 2)
		n = LINE_BYTES - 2;
	line[n] = '\n';
	if (n >= prefix_bytes)
		(void)cm_log_text(level, line, (size_t)n + 1);
	errno = saved;
}
