/* SPDX-License-Identifier: MIT */
/*
 * Runs another command of cudamemstat beside the screen, and keeps what it prints. So an action
 * does what its command does, and the screen waits neither for a process that does not answer nor
 * for names of functions.
 */
#ifndef CM_TOOLS_TOP_CHILD_H
#define CM_TOOLS_TOP_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define CM_CHILD_TEXT_MAX ((size_t)1 << 20) /* bytes of output that are kept */

/* A struct that is all zero has no child. */
struct cm_child {
	pid_t pid;  /* 0: none */
	int fd;     /* what it prints, for poll(2) */
	char *text; /* with a zero byte at its end; NULL: nothing yet */
	size_t length;
	int status; /* as wait(2) has it, once it has ended */
};

/* Starts a program with its output and complaints in a pipe. 0 or a negative errno. */
int cm_child_start(struct cm_child *child, const char *path, const char *const *argv);
/* Reads what is there. Never blocks but for the end of the child. True: it has ended. */
bool cm_child_read(struct cm_child *child);
/* Ends the child, if there is one, and frees. */
void cm_child_stop(struct cm_child *child);
/* The text, which is then the caller's; NULL: it printed nothing. */
char *cm_child_take_text(struct cm_child *child);

#endif
