/* SPDX-License-Identifier: MIT */
#include "tests/preload/driver.h"

#include <stdlib.h>

void cm_driver_open(struct cm_driver *driver, int devices)
{
	void *library = dlopen(getenv("DRIVER"), RTLD_NOW);
	int i;

	CM_MUST(library && devices <= CM_DRIVER_CONTEXTS);
	CM_LOOK_UP(library, "cuInit", driver->init);
	CM_LOOK_UP(library, "cuDevicePrimaryCtxRetain", driver->retain);
	CM_LOOK_UP(library, "cuCtxSetCurrent", driver->set_current);
	CM_LOOK_UP(library, "cuMemAlloc_v2", driver->alloc);
	CM_LOOK_UP(library, "cuMemFree_v2", driver->free);
	CM_LOOK_UP(library, "cuMemGetInfo_v2", driver->info);
	CM_LOOK_UP(library, "cuMemHostAlloc", driver->host_alloc);
	CM_LOOK_UP(library, "cuMemFreeHost", driver->host_free);
	CM_MUST(!driver->init(0));
	for (i = 0; i < devices; i++)
		CM_MUST(!driver->retain(&driver->context[i], i));
	CM_MUST(!driver->set_current(driver->context[0]));
}
