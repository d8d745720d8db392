/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <errno.h>
#include <stdbool.h>

#include "tests/unit/cmocka_all.h"
#include "tests/unit/rerun.h"

#define CASES_MOST 256

static struct CMUnitTest tests[CASES_MOST];
static int places[CASES_MOST];
static size_t count;

/* The compiler may have the calls in any order. */
void cm_case_add(const struct CMUnitTest *test, int place)
{
	size_t i;

	assert(count < CASES_MOST);
	for (i = count++; i && places[i - 1] > place; i--) {
		tests[i] = tests[i - 1];
		places[i] = places[i - 1];
	}
	tests[i] = *test;
	places[i] = place;
}

int cm_run_tests(CMFixtureFunction before, CMFixtureFunction after)
{
	return _cmocka_run_group_tests(program_invocation_short_name, tests, count, before, after);
}

/* Of programs that need nothing else. */
__attribute__((weak)) int main(int argc, char **argv)
{
	cm_rerun_role(argc, argv);
	return cm_run_tests(NULL, NULL);
}
