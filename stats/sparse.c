/* SPDX-License-Identifier: MIT */
#include "stats/sparse.h"

#include <errno.h>
#include <sys/mman.h>

/* What nobody may read is not filled when it is locked, and stays unfilled once it is unlocked. */
void *cm_sparse_map(size_t bytes, int flags, int fd)
{
	void *map = mmap(NULL, bytes, PROT_NONE, flags | MAP_NORESERVE, fd, 0);
	int err;

	if (map == MAP_FAILED)
		return NULL;
	if (!munlock(map, bytes) && !mprotect(map, bytes, PROT_READ | PROT_WRITE))
		return map;
	err = errno;
	(void)munmap(map, bytes);
	errno = err;
	return NULL;
}
