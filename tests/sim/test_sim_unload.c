/* SPDX-License-Identifier: MIT */
/* Programs that open the driver and close it, as FFmpeg does for each of its devices. */
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cmocka_all.h"

/* What the driver keeps for a thread goes when the thread ends, which is after the close. */
static void *open_and_close(void *result)
{
	void *driver = dlopen(getenv("DRIVER"), RTLD_LAZY);
	void *symbol = driver ? dlsym(driver, "cuInit") : NULL;
	CUresult (*init)(unsigned int flags);

	if (!symbol)
		return NULL;
	memcpy(&init, &symbol, sizeof(init));
	*(CUresult *)result = init(0);
	dlclose(driver);
	return NULL;
}

CM_TEST(threads_end_after_the_driver_was_closed)
{
	for (unsigned i = 0; i < 3; i++) {
		CUresult result = CUDA_ERROR_UNKNOWN;
		pthread_t thread;

		assert_int_equal(pthread_create(&thread, NULL, open_and_close, &result), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_int_equal(result, CUDA_SUCCESS);
	}
}
