/* SPDX-License-Identifier: MIT */
#include "device.h"

#include <stdio.h>
#include <string.h>

#include "card.h"
#include "plan.h"

static struct sim_device devices[SIM_MAX_DEVICES];
static int device_count;

CUresult sim_devices_init(void)
{
	if (!device_count && sim_plan.card[0] && sim_card_join(sim_plan.card))
		return CUDA_ERROR_OPERATING_SYSTEM;
	while (device_count < sim_plan.devices) {
		struct sim_device *device = &devices[device_count];

		if (sim_vram_init(&device->vram, device_count, sim_plan.memory, sim_plan.guard))
			return CUDA_ERROR_OUT_OF_MEMORY;
		device->ordinal = device_count++;
		device->primary_flags = CU_CTX_SCHED_AUTO;
	}
	return CUDA_SUCCESS;
}

int sim_device_count(void)
{
	return device_count;
}

struct sim_device *sim_device_get(CUdevice ordinal)
{
	return ordinal >= 0 && ordinal < device_count ? &devices[ordinal] : NULL;
}

struct sim_device *sim_device_of_address(uint64_t addr)
{
	for (int i = 0; i < device_count; i++) {
		if (sim_vram_has(&devices[i].vram, addr))
			return &devices[i];
	}
	return NULL;
}

CUresult sim_cuDeviceGetCount(int *count)
{
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = device_count;
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGet(CUdevice *device, int ordinal)
{
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_get(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetName(char *name, int len, CUdevice dev)
{
	if (!name || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	snprintf(name, (size_t)len, "Simulated CUDA device%s", sim_plan.mig ? " MIG 1g.16gb" : "");
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
	const uint64_t identity = sim_card_identity();

	if (!uuid)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	memcpy(uuid->bytes, "cudasim", 7);
	uuid->bytes[7] = (char)dev;
	memcpy(uuid->bytes + 8, &identity, sizeof(identity));
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
	return sim_cuDeviceGetUuid(uuid, dev);
}

CUresult sim_cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	struct sim_device *device = sim_device_get(dev);

	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	*bytes = device->vram.limit;
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
	if (!major || !minor)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*major = 9;
	*minor = 0;
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
	if (!pciBusId || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!sim_device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	snprintf(pciBusId, (size_t)len, "0000:%02X:00.0", (unsigned)dev + 1);
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
	unsigned domain;
	unsigned bus;

	if (!dev || !pciBusId)
		return CUDA_ERROR_INVALID_VALUE;
	if (sscanf(pciBusId, "%x:%x:00", &domain, &bus) != 2 || domain ||
	    !sim_device_get((CUdevice)bus - 1))
		return CUDA_ERROR_INVALID_DEVICE;
	*dev = (CUdevice)bus - 1;
	return CUDA_SUCCESS;
}
