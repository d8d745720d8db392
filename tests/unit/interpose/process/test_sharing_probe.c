/* SPDX-License-Identifier: MIT */
#include "interpose/process/sharing_probe.h"

#include <dlfcn.h>
#include <stdio.h>
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
	struct cm_probe_environment signs;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(launches) / sizeof(launches[0]); i++) {
		set_name = launches[i].name;
		set_value = launches[i].value;
		cm_probe_sharing(get, &signs);
		if ((signs.exports != NULL) != launches[i].shares ||
		    (signs.reaches != NULL) != launches[i].shares)
			fail_msg("%s=%s: %s", set_name, set_value,
				 signs.exports ? signs.exports : "no sign");
	}
}

/* A sign that is not wanted is there, or one that is does not name the library. */
static void check_sign(const char *file, const char *what, const char *sign, bool wanted)
{
	if ((sign && strstr(sign, file)) != wanted || (sign && !wanted))
		fail_msg("%s %s: %s", file, what, sign ? sign : "no sign");
}

static void check_module(const char *file, bool exports, bool reaches)
{
	struct cm_probe_environment signs;
	char path[sizeof(MODULES) + 64];
	void *module;

	set_name = NULL;
	(void)snprintf(path, sizeof(path), MODULES "/%s", file);
	module = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	if (!module)
		fail_msg("%s", dlerror());
	cm_probe_sharing(get, &signs);
	check_sign(file, "exports", signs.exports, exports);
	check_sign(file, "reaches", signs.reaches, reaches);
	(void)dlclose(module);
	cm_probe_sharing(get, &signs);
	assert_null(signs.exports);
	assert_null(signs.reaches);
}

static void a_library_that_shares_is_known_by_its_name(void **state)
{
	(void)state;
	check_module("libmpi_plain.so", true, true);
	check_module("libempi.so", false, false);
}

/* Every process with PyTorch has it. */
static void nccl_alone_is_no_sign(void **state)
{
	(void)state;
	check_module("libnccl.so", false, false);
}

static void a_library_of_cards_that_write_is_known_by_its_name(void **state)
{
	(void)state;
	check_module("libibverbs.so", false, true);
}

static void a_library_that_shares_is_known_by_its_imports(void **state)
{
	(void)state;
	check_module("libipc_caller.so", true, false);
}

/* This library hears of ranges by that variable; it does not hide from itself. */
static void this_library_is_no_injected_tool(void **state)
{
	(void)state;
	set_name = "NVTX_INJECTION64_PATH";
	set_value = "/usr/lib/cudamem/libcudamem.so";
	assert_null(cm_probe_injection(get));
	set_value = "libcudamem.so";
	assert_null(cm_probe_injection(get));
	set_value = "/opt/libcudamem/tool.so";
	assert_string_equal(cm_probe_injection(get), set_name);
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
		sign = cm_probe_injection(get);
		if ((sign != NULL) != cases[i].tool)
			fail_msg("%s: %s", set_name, sign ? sign : "no sign");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(launchers_of_several_processes_are_noticed),
		cmocka_unit_test(a_library_that_shares_is_known_by_its_name),
		cmocka_unit_test(nccl_alone_is_no_sign),
		cmocka_unit_test(a_library_of_cards_that_write_is_known_by_its_name),
		cmocka_unit_test(a_library_that_shares_is_known_by_its_imports),
		cmocka_unit_test(injected_tools_are_noticed),
		cmocka_unit_test(this_library_is_no_injected_tool),
	};

	return cmocka_run_group_tests_name("signs", tests, NULL, NULL);
}
