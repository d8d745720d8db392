/* SPDX-License-Identifier: MIT */
/* The last error of a thread, and what errors are called. */
#include "runtime.h"

#define EXPORT __attribute__((visibility("default")))

struct error {
	cudaError_t code;
	const char *name;
	const char *text;
};

static const struct error errors[] = {
#define ERROR(code, text) {code, #code, text},
#include "errors.def"
#undef ERROR
};

static const struct error *find(cudaError_t code)
{
	for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		if (errors[i].code == code)
			return &errors[i];
	}
	return NULL;
}

EXPORT const char *cudaGetErrorName(cudaError_t error)
{
	const struct error *found = find(error);

	return found ? found->name : "unrecognized error code";
}

EXPORT const char *cudaGetErrorString(cudaError_t error)
{
	const struct error *found = find(error);

	return found ? found->text : "unrecognized error code";
}

EXPORT cudaError_t cudaPeekAtLastError(void)
{
	return rt_thread_self()->last_error;
}

EXPORT cudaError_t cudaGetLastError(void)
{
	cudaError_t error = rt_thread_self()->last_error;

	rt_thread_self()->last_error = cudaSuccess;
	return error;
}
