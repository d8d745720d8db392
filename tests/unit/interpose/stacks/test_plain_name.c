/* SPDX-License-Identifier: MIT */
/* Names of symbol tables as people read them. */
#include "interpose/stacks/plain_name.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka_all.h"

static const struct {
	const char *symbol;
	const char *name;
} rows[] = {
	{"main", "main"},
	{"grow.isra.0", "grow"},
	{"_Z12load_weightsv", "load_weights"},
	{"_ZL12load_weightsv", "load_weights"},
	{"_ZN6solver4growEm", "solver::grow"},
	{"_ZNK6solver4growEm.cold", "solver::grow"},
	{"_ZN6solverIfLi3ELb1EE4growEm", "solver::grow"},
	{"_ZN6solverINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEdE5orderEv",
	 "solver::order"},
	{"_ZN6solverIA4_iJDpT_EE4growEm", "solver::grow"},
	{"_ZN6solverIXsrT_EE4growEm", "solver::grow"},
	{"_ZN6thrust4sortIPfEEvT_S2_", "thrust::sort"},
	{"_Z4sortIPfEvT_", "sort"},
	{"_ZSt4sortIPfEvT_", "std::sort"},
	{"_ZNSt6vectorIfSaIfEE6resizeEm", "std::vector::resize"},
	{"_ZNSs6appendEPKc", "std::string::append"},
	{"_ZN6solverC2Ev", "solver::solver"},
	{"_ZN6solverIfED0Ev", "solver::~solver"},
	{"_ZNSsD1Ev", "std::string::~string"},
	{"_ZN12_GLOBAL__N_13runEi", "(anonymous namespace)::run"},
	{"_ZN6solverclEv", "solver::operator"},
	{"_ZZ4mainENKUlvE_clEv", "main"},
	{"_ZZN6solver4growEmENKUlvE_clEv", "solver::grow"},
	/* What cannot be read. */
	{"_Z", "_Z"},
	{"_Z99short", "_Z99short"},
	{"_ZN6solverILN1a1bE0EE4growEm", "solver"},
	{"", ""},
};

CM_TEST(names_are_those_of_the_source)
{
	char name[64];
	size_t i;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		cm_plain_name(name, sizeof(name), rows[i].symbol);
		assert_string_equal(name, rows[i].name);
	}
}

CM_TEST(a_name_is_cut_to_its_room)
{
	char name[9] = "........";

	cm_plain_name(name, 1, "main");
	assert_string_equal(name, "");
	cm_plain_name(name, 8, "_ZN6solver4growEm");
	assert_string_equal(name, "solver:");
}

/* Cut anywhere, on memory of its own, so that a sanitizer sees what is read behind the end. */
CM_TEST(any_text_has_a_name)
{
	char name[64], *cut;
	size_t i, length;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (length = 0; length < strlen(rows[i].symbol); length++) {
			cut = strdup(rows[i].symbol);
			assert_non_null(cut);
			cut = realloc(cut, length + 1);
			assert_non_null(cut);
			cut[length] = '\0';
			cm_plain_name(name, sizeof(name), cut);
			assert_true(strlen(name) < sizeof(name));
			free(cut);
		}
}
