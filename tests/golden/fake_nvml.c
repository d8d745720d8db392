/* SPDX-License-Identifier: MIT */
/*
 * NVIDIA's management library of a machine with one device. NVML_PIDS has the processes on it, as
 * "PID:MIB PID:MIB", without ":MIB" where the library does not tell.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct memory {
	unsigned long long total, free, used;
};

struct process {
	unsigned int pid;
	unsigned long long used;
	unsigned int gpu_instance, compute_instance;
};

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned int *count);
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device);
int nvmlDeviceGetUUID(void *device, char *text, unsigned int bytes);
int nvmlDeviceGetName(void *device, char *text, unsigned int bytes);
int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory);
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count,
					    struct process *processes);

int nvmlInit_v2(void)
{
	return 0;
}

int nvmlShutdown(void)
{
	return 0;
}

int nvmlDeviceGetCount_v2(unsigned int *count)
{
	*count = 1;
	return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device)
{
	static int only;

	*device = &only;
	return index ? 2 : 0;
}

int nvmlDeviceGetUUID(void *device, char *text, unsigned int bytes)
{
	(void)device;
	(void)snprintf(text, bytes, "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f");
	return 0;
}

int nvmlDeviceGetName(void *device, char *text, unsigned int bytes)
{
	(void)device;
	(void)snprintf(text, bytes, "Fake device");
	return 0;
}

int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory)
{
	(void)device;
	*memory = (struct memory){.total = 16ull << 30};
	return 0;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count,
					    struct process *processes)
{
	const char *text = getenv("NVML_PIDS");
	unsigned int n = 0;
	char *end;

	(void)device;
	for (; text && *text && n < *count; n++) {
		processes[n].pid = (unsigned int)strtoul(text, &end, 10);
		processes[n].used = *end == ':' ? strtoull(end + 1, &end, 10) << 20 : ~0ull;
		text = end + strspn(end, " ");
	}
	*count = n;
	return 0;
}
