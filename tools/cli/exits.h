/* SPDX-License-Identifier: MIT */
/*
 * Exit codes, and the one way to complain. Every verb returns one of these; the texts of
 * complaints go to stderr, one sentence that names the object and the reason.
 */
#ifndef CM_TOOLS_CLI_EXITS_H
#define CM_TOOLS_CLI_EXITS_H

enum cm_exit {
	CM_EXIT_OK = 0,
	CM_EXIT_NO = 1,      /* the answer is no: nothing matched, the configuration has mistakes */
	CM_EXIT_USAGE = 2,   /* bad verb, option, value or column */
	CM_EXIT_TARGET = 3,  /* gone, not managed, not yours, unreadable; output not written */
	CM_EXIT_TIMEOUT = 4, /* the process did not answer */
	CM_EXIT_PARTIAL = 64,
	CM_EXIT_RUN = 125, /* run: itself failed */
	CM_EXIT_NOT_EXECUTABLE = 126,
	CM_EXIT_NOT_FOUND = 127,
};

/* The verb that complaints name from now on; NULL: none. */
void cm_complain_as(const char *verb);
/* "cudamemstat: VERB: ..." on stderr. */
__attribute__((format(printf, 1, 2))) void cm_complain(const char *format, ...);
/* A further line below a complaint, indented. */
__attribute__((format(printf, 1, 2))) void cm_advise(const char *format, ...);

/*
 * The exit code after several targets: that of the only one or of all alike, 64 where they differ.
 * `so_far` starts as -1.
 */
int cm_exit_join(int so_far, int code);

#endif
