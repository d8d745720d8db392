/* SPDX-License-Identifier: MIT */
/* A kernel that nobody stops: what the runner's limit is for. */
#include "tests/gpu/kit/device.h"

int main(void)
{
	CUdeviceptr word;

	device_open();
	word = device_alloc(sizeof(uint32_t));
	CHECK(cuMemsetD32(word, 0, 1));
	tell_text("before", "it hangs", "planned");
	device_until(word, NULL);
	CHECK(cuCtxSynchronize());
	return 0;
}
