/* SPDX-License-Identifier: MIT */
/*
 * What most frees need not do: the rest of cm_cache_free, which may call the driver.
 */
#ifndef CM_ALLOCATOR_ENTRY_REQUEST_H
#define CM_ALLOCATOR_ENTRY_REQUEST_H

#include <stdint.h>

#include "allocator/blocks/free.h"

/* What remains to be done for what was freed on the device, or was not. Results as
 * cm_cache_free. */
int cm_device_finish_free(struct cm_device *device, uint64_t addr, struct cm_freed freed,
			  uint64_t *ret_forward);

/* As cm_cache_free, for an address for which several devices are to be asked, or none. */
int cm_cache_free_on_any(struct cm_cache *cache, uint64_t addr, uint64_t *ret_forward);

#endif
