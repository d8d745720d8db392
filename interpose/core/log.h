/* SPDX-License-Identifier: MIT */
/*
 * What the library says, on the standard error of a program that is not ours: one line a message,
 * by one write(2), beginning with "cudamem: ". Silent until cm_log_set_level, which is called in
 * the first wrapped CUDA call; silent for ever where the program was started without a standard
 * error, or has another file there by now. Never blocks, raises no signal, keeps errno.
 * Thread-safe.
 */
#ifndef CM_INTERPOSE_CORE_LOG_H
#define CM_INTERPOSE_CORE_LOG_H

#include <stdatomic.h>
#include <stddef.h>

enum cm_log_level { CM_LOG_OFF, CM_LOG_WARNING, CM_LOG_INFO };

/* Says messages up to this level from now on. */
void cm_log_set_level(enum cm_log_level level);

/* Says lines that the caller has made, line ends included, as they are: in one write, so that they
 * stay together. More than 4096 bytes might block, and are cut. */
void cm_log_text(enum cm_log_level level, const char *text, size_t bytes);

/* The text needs no line end; it is cut at about 1000 bytes. */
void cm_log(enum cm_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same, at most once in the life of the process from this line of the source. */
#define cm_log_once(level, ...)                                                       \
	do {                                                                          \
		static atomic_flag said_ = ATOMIC_FLAG_INIT;                          \
		if (!atomic_flag_test_and_set_explicit(&said_, memory_order_relaxed)) \
			cm_log(level, __VA_ARGS__);                                   \
	} while (0)

#endif
