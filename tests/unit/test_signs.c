/* SPDX-License-Identifier: MIT */
#include "interpose/signs.h"

#include <dlfcn.h>
#include <string.h>

#include "tests/unit/cmocka_all.h"

/* The only variable that is set. */
static const char *set_name;
static const char *set_value;

static char *get(const char *name)
{
	return set_name && !strcmp(name, set_name) ? (char *)set_value : NULL;
}

static const struct launch {
	const char *name;
	const char *value;
	bool shares;
} launches[] = {
	{"OMPI_COMM_WORLD_SIZE", "2", true},
	{"OMPI_COMM_WORLD_SIZE", "1", false},
	{"PMI_SIZE", "16", true},
	{"PMI_SIZE", "1", false},
	{"MV2_COMM_WORLD_SIZE", "2", true},
	{"SLURM_STEP_NUM_TASKS", "8", true},
	{"SLURM_STEP_NUM_TASKS", "1", false},
	{"WORLD_SIZE", "4", true},
	{"NVSHMEM_BOOTSTRAP", "1", true},
	{"SLURM_JOB_ID", "4711", false},
	{NULL, NULL, false},
};

static void launchers_of_several_processes_are_noticed(void **state)
{
	const char *sign;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(launches) / sizeof(launches[0]); i++) {
		set_name = launches[i].name;
		set_value = launches[i].value;
		sign = cm_signs_of_sharing(get);
		if ((sign != NULL) != launches[i].shares)
			fail_msg("%s=%s: %s", set_name, set_value, sign ? sign : "no sign");
	}
}

static void check_module(const char *path, const char *want_in_name)
{
	void *module = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	const char *sign;

	set_name = NULL;
	if (!module)
		fail_msg("%s", dlerror());
	sign = cm_signs_of_sharing(get);
	if (want_in_name) {
		assert_non_null(sign);
		assert_non_null(strstr(sign, want_in_name));
	} else {
		assert_null(sign);
	}
	(void)dlclose(module);
	assert_null(cm_signs_of_sharing(get));
}

static void a_library_that_shares_is_known_by_its_name(void **state)
{
	(void)state;
	check_module(MODULES "/libmpi_plain.so", "libmpi_plain.so");
	check_module(MODULES "/libempi.so", NULL);
}

static void a_library_that_shares_is_known_by_its_imports(void **state)
{
	(void)state;
	check_module(MODULES "/libipc_caller.so", "libipc_caller.so");
}

static void injected_tools_are_noticed(void **state)
{
	static const struct {
		const char *name;
		bool tool;
	} cases[] = {
		{"CUDA_INJECTION64_PATH", true},
		{"NVTX_INJECTION64_PATH", true},
		{"NV_SANITIZER_INJECTION_PORT_BASE", true},
		{"NV_SANITIZER_INJECTION_PORT_RANGE_BEGIN", true},
		{"CUDA_VISIBLE_DEVICES", false},
	};
	const char *sign;
	size_t i;

	(void)state;
	set_value = "";
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		set_name = cases[i].name;
		sign = cm_signs_of_injection(get);
		if ((sign != NULL) != cases[i].tool)
			fail_msg("%s: %s", set_name, sign ? sign : "no sign");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(launchers_of_several_processes_are_noticed),
		cmocka_unit_test(a_library_that_shares_is_known_by_its_name),
		cmocka_unit_test(a_library_that_shares_is_known_by_its_imports),
		cmocka_unit_test(injected_tools_are_noticed),
	};

	return cmocka_run_group_tests_name("signs", tests, NULL, NULL);
}
