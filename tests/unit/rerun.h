/* SPDX-License-Identifier: MIT */
/*
 * Runs this test program once more, as another process in a role of its own: for what happens once
 * in the life of a process, or ends it. A role is CM_ROLE(name) and its body.
 */
#ifndef CM_TESTS_UNIT_RERUN_H
#define CM_TESTS_UNIT_RERUN_H

#include <stdbool.h>
#include <stdlib.h>

/* In a role: ends the process, with the line on stderr, where something is not as it must be. */
#define CM_MUST(condition) ((condition) ? (void)0 : cm_rerun_fail(__FILE__, __LINE__, #condition))

_Noreturn void cm_rerun_fail(const char *file, int line, const char *condition);

/* In a role: whether a file with that in its path is mapped into the process. */
bool cm_rerun_is_mapped(const char *name);

struct cm_role {
	const char *name;
	void (*play)(void);
	struct cm_role *next;
};

/* All roles of this program, in no order. */
extern struct cm_role *cm_roles;

#define CM_ROLE(role)                                                    \
	static void play_##role(void);                                   \
	__attribute__((constructor)) static void add_role_##role(void)   \
	{                                                                \
		static struct cm_role this = {#role, play_##role, NULL}; \
		this.next = cm_roles;                                    \
		cm_roles = &this;                                        \
	}                                                                \
	static void play_##role(void)

/* Becomes this program in another role, as the same process. */
_Noreturn void cm_rerun_exec(const char *role);

/* Plays the role that the command line names, and ends; returns where it names none. For a program
 * with a main of its own, which calls it first. */
void cm_rerun_role(int argc, char **argv);

enum cm_rerun_reader {
	CM_RERUN_READ,
	CM_RERUN_CLOSED, /* the other end is closed */
	CM_RERUN_ASLEEP, /* it is open, but nobody reads */
};

struct cm_rerun {
	const char *role;
	const char *const *environment; /* "NAME=value" to add, NULL-terminated; may be NULL */
	void (*prepare)(void);          /* in the new process before it is the role; may be NULL */
	enum cm_rerun_reader reader;    /* of its stderr, a pipe */
};

#define CM_RERUN_SAID 4096

/*
 * Waits for the role to end and for all that it has left its stderr to. Its exit status, or 128 and
 * the number of the signal that ended it; `said` (CM_RERUN_SAID bytes) is what it wrote to stderr.
 */
int cm_rerun(const struct cm_rerun *rerun, char *said);

#endif
