/* SPDX-License-Identifier: MIT */
/*
 * The writer's side of the region: making it, backing its tables row by row, removing it.
 *
 * The file lies in /dev/shm; where that cannot be, a memfd; where even that cannot be, private
 * memory that nobody else can read. All space is taken with posix_fallocate before it is touched,
 * so a full tmpfs is an error code here and never a SIGBUS; what has not been taken can't be
 * touched. The owner holds an open-file-description lock on the file for as long as it lives
 * (F_OFD_GETLK tells). Nothing here prints or changes process state. cm_region_commit is
 * thread-safe; the rest is called by one thread.
 */
#ifndef CM_STATS_REGION_H
#define CM_STATS_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stats/layout.h"

#define CM_REGION_DIR "/dev/shm"

enum cm_backing { CM_BACKING_FILE, CM_BACKING_MEMFD, CM_BACKING_PRIVATE };

struct cm_region_params {
	const char *dir;     /* NULL: CM_REGION_DIR */
	const char *version; /* of the library, for the header */
	uint32_t events; /* rows of a ring of events, rounded up to a power of two; 0: as many as by
			  * default, but nothing is recorded at first */
	uint64_t stack_bytes;    /* that stacks may take, 0: the default */
	uint64_t text_bytes;     /* and texts */
	enum cm_backing backing; /* the best kind to try; the next ones follow */
};

struct cm_region {
	struct cm_header *header;
	size_t map_bytes;
	enum cm_backing backing;
	int error;      /* why the first kind tried did not serve: negative errno, or 0 */
	char path[256]; /* "" where there is no file */
	bool keep;      /* cm_region_remove leaves the file */
};

/*
 * Makes the region of this process. -ENOMEM where not even private memory is to be had. The file
 * descriptor stays open: tables grow by posix_fallocate, and a reader finds a memfd through /proc.
 */
int cm_region_create(const struct cm_region_params *params, struct cm_region **ret_region);

/* Unmaps without removing the file (a forked child: the region is its parent's). NULL is fine. */
void cm_region_abandon(struct cm_region *public);
/* Marks the region exited and removes its file, unless it is to be kept. The mapping stays: other
 * threads may still write. */
void cm_region_remove(struct cm_region *public);

/* Backs the first `rows` rows of a table. -ENOSPC: no space, the rows before stay usable. */
int cm_region_commit(struct cm_region *public, enum cm_table table, uint32_t rows);

/* Row `index` of a table; the caller has committed it. */
void *cm_region_row(const struct cm_region *region, enum cm_table table, uint32_t index);

/*
 * Removes regions of this user in `dir` whose process is gone and that are no longer needed: those
 * older than `keep_ns`, and all but the `keep_count` youngest. What stays is a flight record. At
 * most 4096 directory entries are looked at. Returns how many were removed.
 */
int cm_region_sweep(const char *dir, uint64_t keep_ns, uint32_t keep_count);

/*
 * Removes the file of that name in an open folder, unless a process holds it: -EAGAIN. -ESTALE: the
 * name has come to mean another's meanwhile.
 */
int cm_region_remove_leftover(int dir, const char *name);

/* Start time of a process: field 22 of /proc/PID/stat. -ESRCH, also where it is dead and its parent
 * has not asked for it yet, or what reading gave. */
int cm_process_start_time(uint32_t pid, uint64_t *ret_start);

#endif
