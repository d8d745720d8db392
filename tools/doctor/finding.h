/* SPDX-License-Identifier: MIT */
/*
 * What a check of `doctor` has found. Single-threaded.
 */
#ifndef CM_TOOLS_DOCTOR_FINDING_H
#define CM_TOOLS_DOCTOR_FINDING_H

enum cm_verdict {
	CM_VERDICT_OK,
	CM_VERDICT_NOTE, /* good to know */
	CM_VERDICT_WARN, /* something will not work, or not as expected */
	CM_VERDICT_FAIL, /* the library cannot serve, or cannot be watched */
	CM_VERDICT_COUNT
};

struct cm_finding {
	enum cm_verdict verdict;
	char seen[512];
	char remedy[512]; /* a command, or what else to do; "": nothing is to be done */
};

/* Fills in what was seen. */
__attribute__((format(printf, 3, 4))) void cm_see(struct cm_finding *finding,
						  enum cm_verdict verdict, const char *format, ...);
/* Fills in what to do about it. */
__attribute__((format(printf, 2, 3))) void cm_remedy(struct cm_finding *finding, const char *format,
						     ...);

#endif
