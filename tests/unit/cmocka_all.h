/* SPDX-License-Identifier: MIT */
/* cmocka 1.x with the headers that it needs before it. */
#ifndef CM_TESTS_UNIT_CMOCKA_ALL_H
#define CM_TESTS_UNIT_CMOCKA_ALL_H

/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
/* clang-format on */

/*
 * In place of skip(), which cmocka 1.1.5 reports as "not ok": leaves the test, which is then
 * counted as skipped by tests/summary.py. The reason is for people. It leaves the function that it
 * stands in: `state` makes sure that this is the test, and not a helper of it.
 */
#define cm_skip(reason)                               \
	do {                                          \
		(void)(state);                        \
		print_message("# SKIP %s\n", reason); \
		return;                               \
	} while (0)

#endif
