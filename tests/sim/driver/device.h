/* SPDX-License-Identifier: MIT */
/*
 * The devices of the plan. Made by cuInit, never unmade. Caller locks.
 */
#ifndef CM_SIM_DEVICE_H
#define CM_SIM_DEVICE_H

#include "call.h"
#include "vram.h"

struct sim_ctx;
struct sim_pool;

struct sim_device {
	int ordinal;
	struct sim_vram vram;
	struct sim_ctx *contexts; /* all living ones of the device */
	struct sim_ctx *primary;  /* NULL while nobody retains it */
	unsigned primary_refs;
	unsigned primary_flags;
	struct sim_pool *default_pool; /* made when first asked for */
	struct sim_pool *current_pool; /* NULL: the default one */
};

CUresult sim_devices_init(void);

int sim_device_count(void);
/* NULL when there is no such device. */
struct sim_device *sim_device_get(CUdevice ordinal);
/* The device in whose range the address lies, live or not; NULL for every other address. */
struct sim_device *sim_device_of_address(uint64_t addr);

#endif
