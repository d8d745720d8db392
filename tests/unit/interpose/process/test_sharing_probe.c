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

CM_TEST(launchers_of_several_processes_are_detected)
{
	struct cm_probe_environment found;
	size_t i;

	for (i = 0; i < sizeof(launches) / sizeof(launches[0]); i++) {
		set_name = launches[i].name;
		set_value = launches[i].value;
		cm_probe_sharing(get, &found);
		if ((found.exports != NULL) != launches[i].shares || found.reaches)
			fail_msg("%s=%s: %s", set_name, set_value,
				 found.exports ? found.exports : "nothing found");
	}
}

/* Fails if the object is reported against expectation, or under another name. */
static void check_found(const char *file, const char *what, const char *object, bool wanted)
{
	if ((object && strstr(object, file)) != wanted || (object && !wanted))
		fail_msg("%s %s: %s", file, what, object ? object : "nothing found");
}

static void check_module(const char *file, bool exports, bool reaches)
{
	struct cm_probe_environment found;
	char path[sizeof(MODULES) + 64];
	void *module;

	set_name = NULL;
	(void)snprintf(path, sizeof(path), MODULES "/%s", file);
	module = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	if (!module)
		fail_msg("%s", dlerror());
	cm_probe_sharing(get, &found);
	check_found(file, "exports", found.exports, exports);
	check_found(file, "reaches", found.reaches, reaches);
	(void)dlclose(module);
	cm_probe_sharing(get, &found);
	assert_null(found.exports);
	assert_null(found.reaches);
}

CM_TEST(a_library_that_shares_is_known_by_its_name)
{
	check_module("libmpi_plain.so", true, false);
	check_module("libempi.so", false, false);
}

/* Every process with PyTorch loads NCCL. */
CM_TEST(nccl_alone_does_not_count)
{
	check_module("libnccl.so", false, false);
}

/* Its calls are hooked, and tell what they name. */
CM_TEST(a_library_of_other_devices_does_not_count)
{
	check_module("libibverbs.so", false, false);
}

CM_TEST(one_whose_calls_are_not_hooked_is_known_by_its_name)
{
	check_module("libcxi.so", false, true);
}

/* This program is not the library: calls are bound past it. */
CM_TEST(calls_that_are_bound_past_the_library_count)
{
	check_module("libverbs_caller.so", false, true);
}

CM_TEST(a_library_that_shares_is_known_by_its_imports)
{
	check_module("libipc_caller.so", true, false);
}

/* This library reads NVTX ranges through that variable, and does not count as a tool. */
CM_TEST(this_library_is_no_injected_tool)
{
	set_name = "NVTX_INJECTION64_PATH";
	set_value = "/usr/lib/cudamem/libcudamem.so";
	assert_null(cm_probe_injection(get));
	set_value = "libcudamem.so";
	assert_null(cm_probe_injection(get));
	set_value = "/opt/libcudamem/tool.so";
	assert_string_equal(cm_probe_injection(get), set_name);
}

CM_TEST(injected_tools_are_detected)
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
	const char *object;
	size_t i;

	set_value = "";
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		set_name = cases[i].name;
		object = cm_probe_injection(get);
		if ((object != NULL) != cases[i].tool)
			fail_msg("%s: %s", set_name, object ? object : "nothing found");
	}
}
