/* SPDX-License-Identifier: MIT */
/* Names and texts of the error codes. */
#include "call.h"

struct error {
	CUresult code;
	const char *name;
	const char *text;
};

static const struct error errors[] = {
#define ERROR(code, text) {code, #code, text},
#include "errors.def"
#undef ERROR
};

static const struct error *find(CUresult code)
{
	for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		if (errors[i].code == code)
			return &errors[i];
	}
	return NULL;
}

CUresult sim_cuGetErrorName(CUresult error, const char **pStr)
{
	const struct error *found = find(error);

	if (!pStr)
		return CUDA_ERROR_INVALID_VALUE;
	*pStr = found ? found->name : NULL;
	return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGetErrorString(CUresult error, const char **pStr)
{
	const struct error *found = find(error);

	if (!pStr)
		return CUDA_ERROR_INVALID_VALUE;
	*pStr = found ? found->text : NULL;
	return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
