/* SPDX-License-Identifier: MIT */
/*
 * Virtual memory management: addresses without memory, memory without addresses, and mappings that
 * bring them together. Exact about granularity, access and double mapping, so that what works here
 * does not depend on leniency. Caller locks.
 */
#ifndef CM_SIM_VMM_H
#define CM_SIM_VMM_H

#include "memory.h"
#include "object.h"

#define SIM_GRANULARITY SIM_CHUNK_BYTES

/* Memory of cuMemCreate. Lives while somebody holds the handle or a mapping exists. */
struct sim_physical {
	struct sim_object object;
	struct sim_device *device;
	CUmemAllocationProp prop;
	uint64_t bytes;
	uint64_t offset; /* in the device's file, or in an imported one */
	int fd;          /* the imported file; -1: this process's own memory */
	unsigned handles;
	unsigned mappings;
};

/* What hangs on a SIM_MEM_MAPPED. */
struct sim_mapping {
	struct sim_mem *range; /* the SIM_MEM_RESERVED that it lies in */
	struct sim_physical *physical;
	unsigned readable; /* bit per device */
	unsigned writable;
};

/* The reserved range of a mapped one. */
const struct sim_mem *sim_vmm_range_of(const struct sim_mem *mapped);
/* Some device may read, or write, the mapping. */
bool sim_vmm_is_open(const struct sim_mem *mapped, bool write);
/* This one may. */
bool sim_vmm_is_open_to(const struct sim_mem *mapped, CUdevice device, bool write);
/* What mapped memory was asked to be good for; nothing, of any other. */
struct sim_abilities {
	unsigned char gpuDirectRDMACapable;
	unsigned short usage;
};
struct sim_abilities sim_vmm_can(const struct sim_mem *mem);
/* CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES. */
uint64_t sim_vmm_handle_types(const struct sim_mem *mem);

#endif
