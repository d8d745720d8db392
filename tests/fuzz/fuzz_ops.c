/* SPDX-License-Identifier: MIT */
/* Any sequence of operations on the cache: see ops.h. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/ops.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char why[OPS_WHY_BYTES];

	if (ops_run(data, size, why)) {
		(void)fprintf(stderr, "%s\n", why);
		abort();
	}
	return 0;
}
