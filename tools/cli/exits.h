/* SPDX-License-Identifier: MIT */
/*
 * Exit codes, and complaints. Every verb returns one of these codes. A complaint is one sentence on
 * stderr that names the object and the reason. Single-threaded.
 */
#ifndef CM_TOOLS_CLI_EXITS_H
#define CM_TOOLS_CLI_EXITS_H

#include <stddef.h>
#include <stdio.h>

enum cm_exit {
	CM_EXIT_OK = 0,
	CM_EXIT_NO = 1, /* the answer is no: nothing matched, snapshots differ, bad CUDAMEM_CONF */
	CM_EXIT_USAGE = 2,   /* bad verb, option, value or column */
	CM_EXIT_TARGET = 3,  /* process or file gone, unreadable or not yours; output not written */
	CM_EXIT_TIMEOUT = 4, /* the process did not answer */
	CM_EXIT_PARTIAL = 64, /* several targets, different results */
	CM_EXIT_RUN = 125,    /* `run` itself failed */
	CM_EXIT_NOT_EXECUTABLE = 126,
	CM_EXIT_NOT_FOUND = 127,
};

/* Names the verb in all later complaints; NULL: none. The text must stay valid. */
void cm_complain_as(const char *verb);
/* Prints all later complaints to this stream, without the program's name; NULL: to stderr. */
void cm_complain_to(FILE *stream);
/* Prints "cudamemstat: VERB: ..." on stderr, after what was printed on stdout so far. */
__attribute__((format(printf, 1, 2))) void cm_complain(const char *format, ...);
/* The same, as an expression with the value `exit`. A macro, so that the compiler sees the
 * value. */
#define cm_fail(exit, ...) (cm_complain(__VA_ARGS__), (exit))
/* Complains that this program has no memory left. */
#define cm_fail_memory() cm_fail(CM_EXIT_TARGET, "not enough memory on the host")
/* Prints another line below a complaint, indented. */
__attribute__((format(printf, 1, 2))) void cm_advise(const char *format, ...);

/*
 * Complains about a word that is none of `names`: "unknown WHAT 'PREFIXtyped' (did you mean
 * PREFIXname?)", followed by the text of `format`.
 */
__attribute__((format(printf, 6, 7))) void cm_complain_unknown(const char *what, const char *prefix,
							       const char *typed,
							       const char *const *names,
							       size_t count, const char *format,
							       ...);
#define cm_fail_unknown(...) (cm_complain_unknown(__VA_ARGS__), CM_EXIT_USAGE)

/*
 * Joins the exit codes of several targets: the common code if all are equal, else CM_EXIT_PARTIAL.
 * `so_far` is -1 for the first target.
 */
int cm_exit_join(int so_far, int code);

#endif
