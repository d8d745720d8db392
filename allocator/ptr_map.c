/* SPDX-License-Identifier: MIT */
#include "allocator/ptr_map.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

#define FIRST_BUCKETS 1024

static struct cm_ptr_bucket *map_buckets(uint64_t n)
{
	void *memory = mmap(NULL, n * sizeof(struct cm_ptr_bucket), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

CM_NOINLINE int cm_ptr_map_grow(struct cm_ptr_map *map)
{
	struct cm_ptr_map old = *map;
	uint64_t n = old.bucket ? (old.mask + 1) * 2 : FIRST_BUCKETS, i, addr;
	struct cm_ptr_bucket *bucket = map_buckets(n);
	uint32_t index;

	if (!bucket)
		return -ENOMEM;
	*map = (struct cm_ptr_map){
		.bucket = bucket, .mask = n - 1, .most = n * CM_PTR_BUCKET * 3 / 8};
	for (i = 0; i < cm_ptr_map_places(&old); i++) {
		index = cm_ptr_map_at(&old, i, &addr);
		if (index)
			cm_ptr_map_add(map, addr, index);
	}
	cm_ptr_map_fini(&old);
	return 0;
}

void cm_ptr_map_fini(struct cm_ptr_map *map)
{
	if (map->bucket)
		(void)munmap(map->bucket, (map->mask + 1) * sizeof(*map->bucket));
	*map = (struct cm_ptr_map){0};
}
