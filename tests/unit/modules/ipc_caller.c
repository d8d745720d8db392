/* SPDX-License-Identifier: MIT */
/* A library that imports one of the calls by which device memory is shared. */
int cudaIpcGetMemHandle(void *handle, void *address);
int cm_ipc_caller(void *handle, void *address);

int cm_ipc_caller(void *handle, void *address)
{
	return cudaIpcGetMemHandle(handle, address);
}
