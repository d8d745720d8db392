/* SPDX-License-Identifier: MIT */
/*
 * The other process of a random program: opens the memory that the program exports, finds in it
 * what must be there, and writes something else. One thread at a time.
 */
#ifndef CM_TESTS_PROOF_IMPORTER_H
#define CM_TESTS_PROOF_IMPORTER_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <stdbool.h>
#include <stdint.h>

struct cm_import {
	CUipcMemHandle handle;
	CUdevice device;
	uint32_t expected, written; /* the words at both ends, before and after */
	uint32_t words;
	uint64_t tail; /* where the second end begins, in bytes */
};

/* Before the driver is called for the first time. False: no process could be started. */
bool cm_importer_start(void);

/* What the other process heard from the driver, or -1 where the memory held something else. */
int cm_importer_ask(const struct cm_import *import);

/* The other process ends; false where it does so badly. Fine where there is none. */
bool cm_importer_stop(void);

#endif
