/* SPDX-License-Identifier: MIT */
/* cmocka 1.x with the headers that it needs before it, and tests that need no list. */
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
 * A test: CM_TEST(name) and its body, which has `state`. That it stands in a program is all that it
 * takes; tests run in the order in which they stand. A program without a main has that of cases.c,
 * which plays the role that it is asked for (rerun.h), or runs the tests.
 */
#define CM_TEST(test) CM_TEST_WITH(test, NULL, NULL)

/* One between functions of its own, either of which may be NULL. */
#define CM_TEST_WITH(test, before, after)                                                         \
	static void test(void **state);                                                           \
	__attribute__((constructor)) static void add_##test(void)                                 \
	{                                                                                         \
		cm_case_add(&(struct CMUnitTest){#test, test, before, after, NULL}, __COUNTER__); \
	}                                                                                         \
	static void test(__attribute__((unused)) void **state)

void cm_case_add(const struct CMUnitTest *test, int place);

/* Runs the tests between two functions for all of them, which may be NULL. How many failed. */
int cm_run_tests(CMFixtureFunction before, CMFixtureFunction after);

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
