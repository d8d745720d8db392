/* SPDX-License-Identifier: MIT */
#include "stats/sparse.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>

#define FLAGS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

/* Whether new mappings are filled at once: pages that are locked may not be discarded. mincore(2)
 * would tell too, but is not among the calls that systemd allows services (@system-service). */
static bool is_all_locked(void)
{
	const size_t bytes = 1; /* and the rest of its page */
	void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const int saved = errno;
	bool locked;

	if (page == MAP_FAILED)
		return false;
	locked = madvise(page, bytes, MADV_DONTNEED) && errno == EINVAL;
	(void)munmap(page, bytes);
	errno = saved;
	return locked;
}

/* What nobody may read is not filled when it is locked, and stays unfilled once it is unlocked. */
static void *map_unfilled(size_t bytes)
{
	void *map = mmap(NULL, bytes, PROT_NONE, FLAGS, -1, 0);
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

/* map_unfilled only if needed: valgrind looks at each page of a range whose protection changes. */
void *cm_sparse_map(size_t bytes)
{
	void *map;

	if (is_all_locked())
		return map_unfilled(bytes);
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, FLAGS, -1, 0);
	return map == MAP_FAILED ? NULL : map;
}
