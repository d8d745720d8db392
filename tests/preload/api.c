/* SPDX-License-Identifier: MIT */
#include "tests/preload/api.h"

#include "tests/preload/driver.h"

void cm_api_open(struct cm_api *api)
{
#define FUNCTION(name) CM_LOOK_UP(RTLD_DEFAULT, "cudamem_" #name, api->name);
	CM_API_FUNCTIONS(FUNCTION)
#undef FUNCTION
}
