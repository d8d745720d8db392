/* SPDX-License-Identifier: MIT */
/*
 * The writer's side of the region: creates it, commits memory for the rows of its tables, removes
 * it.
 *
 * The region is a file in /dev/shm; if that fails, a memfd; if that fails too, private memory that
 * no tool can read. Space is allocated with posix_fallocate before it is touched, so a full tmpfs
 * is an error code and never a SIGBUS; uncommitted rows are not accessible. The owner holds an
 * open-file-description lock on the file while it lives (F_OFD_GETLK shows it). Nothing here prints
 * or changes process state. System calls on tmpfs apart, nothing blocks. cm_region_commit is
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
	uint32_t events; /* rows of a ring of events, rounded up to a power of two; 0: the default
			  * number, with recording off */
	uint64_t stack_bytes;    /* capacity of the table of stacks, 0: the default */
	uint64_t text_bytes;     /* capacity of the table of texts, 0: the default */
	enum cm_backing backing; /* the first kind to try; the later ones follow */
};

struct cm_region {
	struct cm_header *header;
	size_t map_bytes;
	enum cm_backing backing;
	int error;      /* why the first kind failed: negative errno, or 0 */
	char path[256]; /* "" if there is no file */
	bool keep;      /* cm_region_remove leaves the file; accessed atomically */
};

/* The length of a region's file: address space, of which little is backed by memory. */
uint64_t cm_region_file_bytes(const struct cm_region_params *params);

/*
 * Creates the region of this process. -ENOMEM: not even private memory was available. The file
 * descriptor stays open, since tables grow by posix_fallocate and readers find a memfd through
 * /proc. The region is owned by the caller until cm_region_abandon; it is never unmapped otherwise.
 */
int cm_region_create(const struct cm_region_params *params, struct cm_region **ret_region);

/* Unmaps the region and leaves its file, as in a forked child: the file is its parent's. NULL is
 * fine. */
void cm_region_abandon(struct cm_region *public);
/*
 * Marks the region exited and removes its file, unless `keep` is set. A process that has given up
 * its user may not: the next sweep by the file's owner does. The mapping stays, as other threads
 * may still write.
 */
void cm_region_remove(struct cm_region *public);

/*
 * Commits memory for the first `rows` rows of a table. -ENOSPC: no space; what was committed before
 * stays usable.
 */
int cm_region_commit(struct cm_region *public, enum cm_table table, uint32_t rows);

/* What regions leave free for programs of a file system of so many bytes: half of it, and no more
 * than 32 MiB. Tables without which nothing is cached may take that, too. */
uint64_t cm_region_left_bytes(uint64_t total_bytes);

/* Whether a file of the process may have this length. A write beyond the limit would raise SIGXFSZ,
 * which ends the program. */
bool cm_region_file_size_allowed(uint64_t bytes);

/* Backs `bytes` of a region's file from `offset` on with memory. 0 or negative errno. */
int cm_region_back_file(int fd, uint64_t offset, uint64_t bytes);

/* Row `index` of a table, which must be committed. Owned by the region. */
void *cm_region_row(const struct cm_region *region, enum cm_table table, uint32_t index);

#endif
