/* SPDX-License-Identifier: MIT */
/*
 * The checks of `doctor`. Each looks at one thing, changes nothing, and says what it has found. A
 * check may wait for a file system or a process that does not answer: doctor.h runs each in a
 * process of its own, with a time limit.
 */
#ifndef CM_TOOLS_DOCTOR_CHECKS_H
#define CM_TOOLS_DOCTOR_CHECKS_H

#include <limits.h>
#include <sys/types.h>

#include "tools/cli/options.h"
#include "tools/doctor/finding.h"

enum cm_check {
#define CM_CHECK(ID, name, SCOPE, help) CM_CHECK_##ID,
#include "tools/doctor/checks.def"
	CM_CHECK_COUNT
};

enum cm_check_scope { CM_CHECK_SCOPE_HOST, CM_CHECK_SCOPE_PROGRAM, CM_CHECK_SCOPE_PROCESS };

/* What the checks look at. */
struct cm_patient {
	const struct cm_options *options;
	char library[PATH_MAX]; /* "": not found */
	char **command;         /* NULL: none is named */
	pid_t pid;              /* 0: none is named */
};

typedef void (*cm_check_fn)(const struct cm_patient *patient, struct cm_finding *ret_finding);

#define CM_CHECK(ID, name, SCOPE, help) \
	void cm_check_##ID(const struct cm_patient *patient, struct cm_finding *ret_finding);
#include "tools/doctor/checks.def"

#endif
