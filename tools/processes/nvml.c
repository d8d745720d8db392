/* SPDX-License-Identifier: MIT */
#include "tools/processes/nvml.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#define PROCESSES_MAX 1024
#define TEXT_BYTES    96
#define SUCCESS       0
#define NOT_AVAILABLE UINT64_MAX

/* The part of nvml.h that is used here, after its documentation. */
typedef void *nvml_device;

struct nvml_memory {
	unsigned long long total, free, used;
};

/* nvmlProcessInfo_v1_t, for the first version of the call. */
struct nvml_process_1 {
	unsigned int pid;
	unsigned long long used;
};

/* nvmlProcessInfo_t since CUDA 11. */
struct nvml_process {
	unsigned int pid;
	unsigned long long used;
	unsigned int gpu_instance, compute_instance;
};

static struct {
	int (*init)(void);
	int (*shutdown)(void);
	int (*count)(unsigned int *count);
	int (*device)(unsigned int index, nvml_device *device);
	int (*uuid)(nvml_device device, char *text, unsigned int bytes);
	int (*name)(nvml_device device, char *text, unsigned int bytes);
	int (*memory)(nvml_device device, struct nvml_memory *memory);
	int (*processes)(nvml_device device, unsigned int *count, struct nvml_process *processes);
	int (*processes_1)(nvml_device device, unsigned int *count,
			   struct nvml_process_1 *processes);
} nvml;

static bool find_symbol(void *library, const char *symbol, void *slot, size_t bytes)
{
	void *found = dlsym(library, symbol);

	memcpy(slot, &found, bytes);
	return found != NULL;
}

#define FIND(library, member, symbol) \
	find_symbol(library, symbol, &nvml.member, sizeof(nvml.member))

static bool load_library(void)
{
	void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);

	if (!library)
		return false;
	return FIND(library, init, "nvmlInit_v2") && FIND(library, shutdown, "nvmlShutdown") &&
	       FIND(library, count, "nvmlDeviceGetCount_v2") &&
	       FIND(library, device, "nvmlDeviceGetHandleByIndex_v2") &&
	       FIND(library, uuid, "nvmlDeviceGetUUID") &&
	       FIND(library, name, "nvmlDeviceGetName") &&
	       FIND(library, memory, "nvmlDeviceGetMemoryInfo") &&
	       (FIND(library, processes, "nvmlDeviceGetComputeRunningProcesses_v3") ||
		FIND(library, processes, "nvmlDeviceGetComputeRunningProcesses_v2") ||
		FIND(library, processes_1, "nvmlDeviceGetComputeRunningProcesses"));
}

static unsigned ask_device(nvml_device device, struct nvml_process *found)
{
	static struct nvml_process_1 old[PROCESSES_MAX];
	unsigned count = PROCESSES_MAX, i;

	if (nvml.processes)
		return nvml.processes(device, &count, found) == SUCCESS ? count : 0;
	if (nvml.processes_1(device, &count, old) != SUCCESS)
		return 0;
	for (i = 0; i < count && i < PROCESSES_MAX; i++)
		found[i] = (struct nvml_process){.pid = old[i].pid, .used = old[i].used};
	return count;
}

static void visit(uint32_t index, cm_nvml_fn fn, void *data)
{
	static struct nvml_process found[PROCESSES_MAX];
	struct nvml_memory memory = {0};
	char uuid[TEXT_BYTES] = "", name[TEXT_BYTES] = "";
	nvml_device device;
	unsigned count, i;

	if (nvml.device(index, &device) != SUCCESS)
		return;
	(void)nvml.uuid(device, uuid, sizeof(uuid));
	(void)nvml.name(device, name, sizeof(name));
	(void)nvml.memory(device, &memory);
	count = ask_device(device, found);
	for (i = 0; i < count && i < PROCESSES_MAX; i++) {
		const struct cm_nvml_process process = {
			.pid = (pid_t)found[i].pid,
			.device = index,
			.uuid = uuid,
			.model = name,
			.total_bytes = (int64_t)memory.total,
			.bytes = found[i].used == NOT_AVAILABLE ? -1 : (int64_t)found[i].used,
		};

		fn(data, &process);
	}
}

int cm_nvml_processes(cm_nvml_fn fn, void *data, const char **ret_why)
{
	unsigned count, i;

	if (!load_library()) {
		*ret_why = "libnvidia-ml.so.1 not found";
		return -1;
	}
	if (nvml.init() != SUCCESS) {
		*ret_why = "libnvidia-ml.so.1 finds no driver";
		return -1;
	}
	if (nvml.count(&count) != SUCCESS)
		count = 0;
	for (i = 0; i < count; i++)
		visit(i, fn, data);
	(void)nvml.shutdown();
	return 0;
}
