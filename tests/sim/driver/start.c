/* SPDX-License-Identifier: MIT */
/* cuInit and what can be asked before it. */
#include "plan.h"
#include "state.h"

CUresult sim_cuInit(unsigned int Flags)
{
	if (Flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (sim_phase() == SIM_DEAD)
		return CUDA_ERROR_DEINITIALIZED;
	if (sim_phase() == SIM_FORKED)
		return CUDA_ERROR_NOT_INITIALIZED;
	return sim_initialise();
}

CUresult sim_cuDriverGetVersion(int *driverVersion)
{
	if (!driverVersion)
		return CUDA_ERROR_INVALID_VALUE;
	*driverVersion = sim_plan.version;
	return CUDA_SUCCESS;
}
