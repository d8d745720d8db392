/* SPDX-License-Identifier: MIT */
#include "interpose/driver/host_memory_ends.h"

#include "interpose/core/state.h"
#include "interpose/driver/host_work.h"

bool cm_end_is_host(CUdeviceptr addr)
{
	unsigned int type = 0, managed = 0;

	if (cm_process_lookup(addr).place != CM_PLACE_FOREIGN)
		return false;
	if (cm_real.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, addr) !=
		    CUDA_SUCCESS ||
	    type == CU_MEMORYTYPE_HOST)
		return true;
	(void)cm_real.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, addr);
	return managed != 0;
}

bool cm_end_of_device_is_host(CUdeviceptr addr)
{
	return cm_host_work_has_kernels() && cm_end_is_host(addr);
}

bool cm_end_of_box_is_host(CUmemorytype type, CUdeviceptr addr)
{
	switch (type) {
	case CU_MEMORYTYPE_HOST:
		return true;
	case CU_MEMORYTYPE_UNIFIED:
		return cm_end_is_host(addr);
	case CU_MEMORYTYPE_DEVICE:
		return cm_end_of_device_is_host(addr);
	case CU_MEMORYTYPE_ARRAY:
	default:
		return false;
	}
}

bool cm_end_of_box_is_mapped(CUmemorytype type, CUdeviceptr addr)
{
	return (type == CU_MEMORYTYPE_UNIFIED || type == CU_MEMORYTYPE_DEVICE) &&
	       cm_end_of_device_is_host(addr);
}

bool cm_ends_of_list_are_host(const CUdeviceptr *list, size_t count)
{
	bool found = false;
	size_t i;

	for (i = 0; i < count && !found; i++)
		found = cm_end_is_host(list[i]);
	return found;
}

static bool operand_is_host(const CUmemcpy3DOperand *operand)
{
	return operand->type == CU_MEMCPY_OPERAND_TYPE_POINTER &&
	       cm_end_is_host(operand->op.ptr.ptr);
}

bool cm_ends_of_boxes_are_host(const CUDA_MEMCPY3D_BATCH_OP *list, size_t count)
{
	bool found = false;
	size_t i;

	for (i = 0; i < count && !found; i++)
		found = operand_is_host(&list[i].src) || operand_is_host(&list[i].dst);
	return found;
}

/* The numbers of bytes that were written may be recorded in memory of the host. */
bool cm_ends_of_unpacked_are_host(const CUmemDecompressParams *list, size_t count)
{
	bool found = false;
	size_t i;

	for (i = 0; i < count && !found; i++)
		found = cm_end_is_host((uintptr_t)list[i].src) ||
			cm_end_is_host((uintptr_t)list[i].dst) ||
			cm_end_is_host((uintptr_t)list[i].dstActBytes);
	return found;
}
