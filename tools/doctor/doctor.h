/* SPDX-License-Identifier: MIT */
/*
 * Runs the checks: each in a process of its own, so that one that hangs or crashes is a finding
 * like any other. All together they take two seconds at most. Single-threaded.
 */
#ifndef CM_TOOLS_DOCTOR_DOCTOR_H
#define CM_TOOLS_DOCTOR_DOCTOR_H

#include <stdbool.h>

#include "tools/doctor/checks.h"

struct cm_doctor_result {
	bool looked; /* false: the check's scope is not asked for */
	struct cm_finding finding;
};

struct cm_check_info {
	const char *name;
	const char *help;
	enum cm_check_scope scope;
	cm_check_fn look;
};

const struct cm_check_info *cm_check_info(enum cm_check check);

/* "ok", "note", "warn", "fail". */
const char *cm_verdict_name(enum cm_verdict verdict);

/* Looks at everything. -ENOMEM and other errors of mmap(2). */
int cm_doctor_look(const struct cm_patient *patient,
		   struct cm_doctor_result ret_results[CM_CHECK_COUNT]);

#endif
