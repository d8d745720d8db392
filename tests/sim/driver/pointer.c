/* SPDX-License-Identifier: MIT */
/* What is known of an address. */
#include <string.h>

#include "context.h"
#include "memory.h"
#include "plan.h"
#include "vmm.h"

/* The answer to one question; its size is the attribute's. */
union answer {
	CUcontext context;
	CUmemoryPool pool;
	CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens;
	uint64_t word;
	unsigned number;
	int ordinal;
	bool flag;
};

static size_t size_of(CUpointer_attribute attribute)
{
	switch ((unsigned)attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		return sizeof(uint64_t);
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
		return sizeof(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS);
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		return sizeof(unsigned);
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_MAPPED:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		return sizeof(bool);
	}
	return 0;
}

static bool is_plain(const struct sim_mem *mem)
{
	return mem->kind == SIM_MEM_DEVICE;
}

/* A mapped page belongs to the range that was reserved for it. */
static const struct sim_mem *whole_range(const struct sim_mem *mem)
{
	return mem->kind == SIM_MEM_MAPPED ? sim_vmm_range_of(mem) : mem;
}

static CUresult ask_numbers(const struct sim_mem *mem, CUpointer_attribute attribute,
			    union answer *ret)
{
	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		ret->context = mem->ctx ? sim_ctx_handle(mem->ctx) : NULL;
		break;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		ret->word = mem->id;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		ret->word = whole_range(mem)->base;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		ret->word = whole_range(mem)->bytes;
		break;
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		ret->word = mem->base;
		break;
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		ret->word = mem->bytes;
		break;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		ret->word = sim_vmm_handle_types(mem);
		break;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		ret->pool = mem->kind == SIM_MEM_ASYNC ? mem->extra : NULL;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		ret->ordinal = mem->device ? mem->device->ordinal : CU_DEVICE_INVALID;
		break;
	default:
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	return CUDA_SUCCESS;
}

static CUresult ask(struct sim_mem *mem, CUpointer_attribute attribute, uint64_t addr,
		    union answer *ret)
{
	switch ((int)attribute) {
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		ret->number = sim_mem_is_on_device(mem) || mem->kind == SIM_MEM_MANAGED
				      ? CU_MEMORYTYPE_DEVICE
				      : CU_MEMORYTYPE_HOST;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		if (!sim_ctx_current())
			return CUDA_ERROR_INVALID_CONTEXT;
		ret->word = addr;
		break;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		if (sim_mem_is_on_device(mem))
			return CUDA_ERROR_INVALID_VALUE;
		ret->word = addr;
		break;
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
		if (!is_plain(mem))
			return CUDA_ERROR_INVALID_VALUE;
		mem->sync_memops = true;
		ret->tokens.p2pToken = mem->id;
		ret->tokens.vaSpaceToken = 1;
		break;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		ret->number = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
		break;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		ret->flag = mem->sync_memops;
		break;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		ret->flag = mem->kind == SIM_MEM_MANAGED;
		break;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		ret->flag = is_plain(mem);
		break;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		ret->flag = is_plain(mem) || sim_vmm_can(mem).gpuDirectRDMACapable;
		break;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		ret->flag = mem->kind != SIM_MEM_RESERVED;
		break;
	case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
		ret->flag = (sim_plan.abilities && is_plain(mem)) ||
			    sim_vmm_can(mem).usage & CU_MEM_CREATE_USAGE_HW_DECOMPRESS;
		break;
	default:
		return ask_numbers(mem, attribute, ret);
	}
	return CUDA_SUCCESS;
}

CUresult sim_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
	struct sim_mem *mem = sim_mem_find(ptr);
	size_t size = size_of(attribute);
	union answer answer = {.word = 0};
	CUresult result;

	if (!data || !size || !mem)
		return CUDA_ERROR_INVALID_VALUE;
	result = ask(mem, attribute, ptr, &answer);
	if (result == CUDA_SUCCESS)
		memcpy(data, &answer, size);
	return result;
}

/* Other than the single form it answers for any address: what it does not know is 0. */
CUresult sim_cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes,
				    void **data, CUdeviceptr ptr)
{
	struct sim_mem *mem = sim_mem_find(ptr);

	if (!numAttributes || !attributes || !data)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < numAttributes; i++) {
		size_t size = size_of(attributes[i]);
		union answer answer = {.word = 0};

		if (!size || !data[i])
			return CUDA_ERROR_INVALID_VALUE;
		if (attributes[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL)
			answer.ordinal = CU_DEVICE_INVALID;
		if (mem && ask(mem, attributes[i], ptr, &answer) != CUDA_SUCCESS)
			answer = (union answer){.word = 0};
		memcpy(data[i], &answer, size);
	}
	return CUDA_SUCCESS;
}

CUresult sim_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
				   CUdeviceptr ptr)
{
	struct sim_mem *mem = sim_mem_find(ptr);

	if (!value || !mem || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return CUDA_ERROR_INVALID_VALUE;
	mem->sync_memops = *(const unsigned *)value != 0;
	return CUDA_SUCCESS;
}
