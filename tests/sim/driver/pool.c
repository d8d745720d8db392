/* SPDX-License-Identifier: MIT */
/*
 * Stream-ordered memory. A pool here keeps nothing: memory goes back to the card when the free's
 * turn comes in its stream. Pools and their memory belong to devices, and outlive contexts.
 */
#include "capture.h"
#include "context.h"
#include "memory.h"
#include "plan.h"
#include "stream.h"

struct sim_pool {
	struct sim_object object;
	struct sim_device *device;
	int reuse[3]; /* CU_MEMPOOL_ATTR_REUSE_*, kept and given back */
	uint64_t threshold;
	uint64_t used;
	uint64_t used_high;
};

static struct sim_pool *pool_of(CUmemoryPool handle)
{
	return sim_object_is(handle, SIM_POOL) ? (struct sim_pool *)(void *)handle : NULL;
}

static struct sim_pool *create(struct sim_device *device)
{
	struct sim_pool *pool = sim_object_create(SIM_POOL, sizeof(*pool));

	if (!pool)
		return NULL;
	pool->device = device;
	for (unsigned i = 0; i < 3; i++)
		pool->reuse[i] = 1;
	return pool;
}

static struct sim_pool *default_pool(struct sim_device *device)
{
	if (!device->default_pool)
		device->default_pool = create(device);
	return device->default_pool;
}

static struct sim_pool *current_pool(struct sim_device *device)
{
	return device->current_pool ? device->current_pool : default_pool(device);
}

/* The memory of a pool is gone. */
static void leave(struct sim_mem *mem)
{
	struct sim_pool *pool = mem->extra;

	pool->used -= mem->bytes;
}

static struct sim_mem *alloc(struct sim_pool *pool, uint64_t bytes)
{
	struct sim_mem *mem = sim_mem_alloc_on(pool->device, SIM_MEM_ASYNC, bytes);

	if (!mem) {
		/* Frees that have been submitted may still give some back. */
		sim_device_drain(pool->device);
		mem = sim_mem_alloc_on(pool->device, SIM_MEM_ASYNC, bytes);
	}
	if (!mem)
		return NULL;
	mem->extra = pool;
	mem->dispose = leave;
	pool->used += bytes;
	if (pool->used > pool->used_high)
		pool->used_high = pool->used;
	return mem;
}

/* In a capture the address is made now, and is the graph's. */
static CUresult alloc_node(struct sim_stream *stream, struct sim_device *device, uint64_t bytes,
			   CUdeviceptr *ret_addr)
{
	struct sim_op op = {.kind = SIM_OP_MARK};
	struct sim_mem *mem = sim_mem_alloc_on(device, SIM_MEM_GRAPH, bytes);
	struct sim_node *node;
	CUresult result;

	if (!mem)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = sim_capture_add(stream, &op, &node);
	if (result != CUDA_SUCCESS) {
		sim_mem_free(mem);
		return result;
	}
	node->type = CU_GRAPH_NODE_TYPE_MEM_ALLOC;
	node->mem = mem;
	*ret_addr = mem->base;
	return CUDA_SUCCESS;
}

static CUresult alloc_in_stream(CUdeviceptr *ret_addr, uint64_t bytes, struct sim_pool *pool,
				CUstream handle)
{
	CUresult result;
	struct sim_stream *stream = sim_stream_of(handle, &result);
	struct sim_mem *mem;

	if (!stream)
		return result;
	if (!ret_addr || !bytes)
		return CUDA_ERROR_INVALID_VALUE;
	if (!pool)
		pool = current_pool(stream->ctx->device);
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (stream->capture)
		return alloc_node(stream, pool->device, bytes, ret_addr);
	result = sim_capture_check_stream(stream);
	if (result != CUDA_SUCCESS)
		return result;
	mem = alloc(pool, bytes);
	if (!mem)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret_addr = mem->base;
	return CUDA_SUCCESS;
}

CUresult sim_cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
	return alloc_in_stream(dptr, bytesize, NULL, hStream);
}

CUresult sim_cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
				     CUstream hStream)
{
	if (!pool_of(pool))
		return CUDA_ERROR_INVALID_VALUE;
	return alloc_in_stream(dptr, bytesize, pool_of(pool), hStream);
}

static CUresult free_node(struct sim_stream *stream, struct sim_mem *mem)
{
	struct sim_op op = {.kind = SIM_OP_MARK};
	struct sim_node *node;
	CUresult result;

	if (mem->kind != SIM_MEM_GRAPH)
		return CUDA_ERROR_INVALID_VALUE;
	result = sim_capture_add(stream, &op, &node);
	if (result == CUDA_SUCCESS) {
		node->type = CU_GRAPH_NODE_TYPE_MEM_FREE;
		node->mem = mem;
	}
	return result;
}

CUresult sim_cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
	CUresult result;
	struct sim_stream *stream = sim_stream_of(hStream, &result);
	struct sim_mem *mem = sim_mem_find_base(dptr);
	struct sim_op op = {.kind = SIM_OP_FREE, .u.freed = mem};

	if (!stream)
		return result;
	if (!mem || mem->going ||
	    (mem->kind != SIM_MEM_ASYNC && mem->kind != SIM_MEM_DEVICE &&
	     mem->kind != SIM_MEM_GRAPH))
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->capture)
		return free_node(stream, mem);
	/* A graph's memory is the graph's until it goes. */
	if (mem->kind == SIM_MEM_GRAPH)
		return CUDA_SUCCESS;
	result = sim_capture_check_stream(stream);
	if (result != CUDA_SUCCESS)
		return result;
	mem->going = true;
	return sim_stream_submit(stream, &op, NULL);
}

/* Pools. */

CUresult sim_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
	struct sim_device *device;
	struct sim_pool *made;

	if (!pool || !poolProps || poolProps->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    poolProps->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	if (poolProps->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
		return CUDA_ERROR_NOT_SUPPORTED;
	device = sim_device_get(poolProps->location.id);
	made = device ? create(device) : NULL;
	if (!made)
		return device ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_DEVICE;
	*pool = (CUmemoryPool)(void *)made;
	return CUDA_SUCCESS;
}

/* A pool that still has memory out stays, as nobody's, until the process ends. */
CUresult sim_cuMemPoolDestroy(CUmemoryPool pool)
{
	struct sim_pool *stolen_part = pool_of(pool);

	if (!stolen_part || stolen_part == stolen_part->device->default_pool)
		return CUDA_ERROR_INVALID_VALUE;
	if (stolen_part->device->current_pool == stolen_part)
		stolen_part->device->current_pool = NULL;
	if (!stolen_part->used)
		sim_object_destroy(stolen_part);
	return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
	(void)minBytesToKeep;
	return pool_of(pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The attribute's place, a word where it is one of bytes, a number where it is a switch. */
static bool find_attribute(struct sim_pool *pool, CUmemPool_attribute attr, uint64_t **ret_word,
			   int **ret_number)
{
	*ret_word = NULL;
	*ret_number = NULL;
	switch ((int)attr) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		*ret_number = &pool->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
		return true;
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		*ret_word = &pool->threshold;
		return true;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		*ret_word = &pool->used;
		return true;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		*ret_word = &pool->used_high;
		return true;
	default:
		return false;
	}
}

CUresult sim_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	uint64_t *word;
	int *number;

	if (!pool_of(pool) || !value || !find_attribute(pool_of(pool), attr, &word, &number))
		return CUDA_ERROR_INVALID_VALUE;
	if (word)
		*(uint64_t *)value = *word;
	else
		*(int *)value = *number;
	return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	struct sim_pool *asked = pool_of(pool);
	uint64_t *word;
	int *number;

	if (!asked || !value || !find_attribute(asked, attr, &word, &number))
		return CUDA_ERROR_INVALID_VALUE;
	if (number)
		*number = *(const int *)value;
	else if (word == &asked->threshold)
		*word = *(const uint64_t *)value;
	else if (word == &asked->used_high && *(const uint64_t *)value == 0)
		*word = asked->used;
	else
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
	if (!pool_of(pool) || (count && !map))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
		    !sim_device_get(map[i].location.id))
			return CUDA_ERROR_INVALID_DEVICE;
	}
	return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool,
				CUmemLocation *location)
{
	const struct sim_pool *pool = pool_of(memPool);

	if (!flags || !pool || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = location->id == pool->device->ordinal || sim_plan.peers
			 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
			 : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	return CUDA_SUCCESS;
}

static CUresult give_pool(CUmemoryPool *ret_handle, CUdevice dev,
			  struct sim_pool *(*choose)(struct sim_device *device))
{
	struct sim_device *device = sim_device_get(dev);
	struct sim_pool *pool = device ? choose(device) : NULL;

	if (!ret_handle)
		return CUDA_ERROR_INVALID_VALUE;
	if (!pool)
		return device ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_DEVICE;
	*ret_handle = (CUmemoryPool)(void *)pool;
	return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
	return give_pool(pool_out, dev, default_pool);
}

CUresult sim_cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
	return give_pool(pool, dev, current_pool);
}

CUresult sim_cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
	struct sim_device *device = sim_device_get(dev);

	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!pool_of(pool) || pool_of(pool)->device != device)
		return CUDA_ERROR_INVALID_VALUE;
	device->current_pool = pool_of(pool);
	return CUDA_SUCCESS;
}
