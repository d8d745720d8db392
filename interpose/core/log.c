/* SPDX-License-Identifier: MIT */
#include "interpose/core/log.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "interpose/core/cancel.h"

#define LINE_BYTES 1024

static _Atomic enum cm_log_level level_now;

/* The file that was the standard error when the library was loaded; inode 0, which no file has:
 * none. */
static struct {
	dev_t device;
	ino_t inode;
} at_load;

/*
 * Asked at load, since later a file of the program's own may have got the number 2, and what we say
 * would go into it. The only thing that the library does before the first CUDA call.
 */
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

/* Whether it is still that file, and takes a line at once. */
static bool can_write(void)
{
	struct pollfd ask = {.fd = STDERR_FILENO, .events = POLLOUT};
	struct stat st;

	return !fstat(STDERR_FILENO, &st) && st.st_dev == at_load.device &&
	       st.st_ino == at_load.inode && poll(&ask, 1, 0) == 1 &&
	       (ask.revents & (POLLOUT | POLLERR | POLLHUP)) == POLLOUT;
}

/*
 * A write may raise SIGPIPE or SIGXFSZ, either of which ends the program for our sake: they are
 * held back in this thread, and taken away if they were not pending before.
 */
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
	atomic_store_explicit(&level_now, level, memory_order_relaxed);
}

void cm_log_text(enum cm_log_level level, const char *text, size_t bytes)
{
	const int saved = errno;

	cm_cancel_hold();
	if (level <= atomic_load_explicit(&level_now, memory_order_relaxed) && can_write())
		write_quietly(text, bytes < PIPE_BUF ? bytes : PIPE_BUF);
	cm_cancel_allow();
	errno = saved;
}

void cm_log(enum cm_log_level level, const char *format, ...)
{
	static const char prefix[] = "cudamem: ";
	const int prefix_bytes = (int)sizeof(prefix) - 1;
	const int saved = errno;
	char line[LINE_BYTES];
	va_list args;
	int n;

	cm_cancel_hold();
	if (level > atomic_load_explicit(&level_now, memory_order_relaxed) || !can_write())
		goto out;
	n = snprintf(line, sizeof(line), "%s", prefix);
	va_start(args, format);
	n += vsnprintf(line + prefix_bytes, sizeof(line) - sizeof(prefix), format, args);
	va_end(args);
	if (n < prefix_bytes)
		goto out;
	if (n > LINE_BYTES - 2)
		n = LINE_BYTES - 2;
	line[n] = '\n';
	write_quietly(line, (size_t)n + 1);
out:
	cm_cancel_allow();
	errno = saved;
}
