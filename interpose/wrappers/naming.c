/* SPDX-License-Identifier: MIT */
/*
 * Calls that name memory to devices other than the GPU: before the call goes on, the memory is
 * marked, and waited for until it is idle. A process without CUDA has no memory of ours.
 */
#include "interpose/wrappers/naming.h"

#include <stdint.h>
#include <sys/uio.h>

#include "allocator/cache.h"
#include "interpose/core/reached.h"
#include "interpose/process/process.h"
#include "interpose/stacks/record.h"
#include "interpose/symbols/hooks.h"

/* CUfileIOParams_t of cufile.h. */
struct file_operation {
	int mode;
	uint64_t addr;
	int64_t file_offset;
	int64_t offset;
	uint64_t bytes;
	void *file;
	int opcode;
	void *cookie;
};
_Static_assert(sizeof(struct file_operation) == 64, "the size of CUfileIOParams_t");

/* The beginning of struct mlx5dv_devx_umem_in. */
struct umem_in {
	uint64_t addr;
	uint64_t bytes;
};

static void name_memory(const struct cm_naming *row, uint64_t addr, uint64_t bytes)
{
	struct cm_cache *cache = cm_process_cache_if_made();

	if (!cache || !cm_hook_enter())
		return;
	if (cm_cache_mark_named(cache, addr, bytes))
		cm_record_cause(CM_CAUSE_NAMED, row->symbol, true);
	cm_hook_leave();
}

/* Before the start nobody listens to the note, and its stack is kept. */
static void name_all(const struct cm_naming *row)
{
	if (!cm_process_cache_if_made())
		cm_record_keep_stack(CM_CAUSE_REACHED, row->symbol);
	cm_reached_note(row->symbol);
}

void cm_name_range(const struct cm_naming *row, const uint64_t args[6])
{
	const uint64_t bytes = args[row->second];

	/* All addresses: paging on demand may reach memory that is allocated later. */
	if (bytes == UINT64_MAX)
		name_all(row);
	else
		name_memory(row, args[row->first], bytes);
}

void cm_name_block(const struct cm_naming *row, const uint64_t args[6])
{
	name_memory(row, args[row->first], 1);
}

void cm_name_vectors(const struct cm_naming *row, const uint64_t args[6])
{
	const struct iovec *vector = (const struct iovec *)args[row->first];
	uint64_t i;

	for (i = 0; vector && i < args[row->second]; i++)
		name_memory(row, (uintptr_t)vector[i].iov_base, vector[i].iov_len);
}

void cm_name_batch(const struct cm_naming *row, const uint64_t args[6])
{
	const struct file_operation *operation = (const struct file_operation *)args[row->first];
	uint32_t i;

	for (i = 0; operation && i < (uint32_t)args[row->second]; i++)
		name_memory(row, operation[i].addr, 1);
}

void cm_name_umem(const struct cm_naming *row, const uint64_t args[6])
{
	const struct umem_in *in = (const struct umem_in *)args[row->first];

	if (in)
		name_memory(row, in->addr, in->bytes);
}

void cm_name_all(const struct cm_naming *row, const uint64_t args[6])
{
	(void)args;
	name_all(row);
}
