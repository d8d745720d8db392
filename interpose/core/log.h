/* SPDX-License-Identifier: MIT */
/*
 * Log lines on the standard error of a program that is not ours: one line a message, by one
 * write(2), with the prefix "cudamem: ". Silent until cm_log_set_level, which the first wrapped
 * CUDA call reaches; silent for ever if the program started without a standard error or has
 * replaced it since. Never blocks, raises no signal, keeps errno. Thread-safe.
 */
#ifndef CM_INTERPOSE_CORE_LOG_H
#define CM_INTERPOSE_CORE_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "stats/config.h"

/* Prints messages up to this level from now on. */
void cm_log_set_level(enum cm_log_level level);

/* Prints whole lines, line ends included, in one write, so that they stay together. Cut at PIPE_BUF
 * (4096) bytes, since a longer write might block. Returns whether such messages are printed. */
bool cm_log_text(enum cm_log_level level, const char *text, size_t bytes);

/* Prints one line; adds the line end. Cut at about 1000 bytes. */
void cm_log(enum cm_log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
