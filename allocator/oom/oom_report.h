/* SPDX-License-Identifier: MIT */
/*
 * Why a request failed for lack of memory, and what would have made it fit: arithmetic over the
 * figures of one moment. Pure. Bytes throughout; the figures come from several sources that are not
 * read at one instant, so they are signed, and what is left over may be negative.
 */
#ifndef CM_ALLOCATOR_OOM_OOM_REPORT_H
#define CM_ALLOCATOR_OOM_OOM_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Who has the bytes of a device. */
struct cm_oom_figures {
	int64_t asked;      /* the last request to the driver, rounded */
	int64_t total;      /* of the device, as the context sees it */
	int64_t free;       /* at the driver */
	int64_t live;       /* in blocks in use */
	int64_t pending;    /* cached: freed, the device may still use it */
	int64_t fragmented; /* cached: free, in segments with allocated blocks */
	int64_t releasable; /* cached: free, in segments without an allocated block */
	int64_t pages;      /* of these two: whole pages of 2 MiB, which could be moved */
	int64_t other;      /* of this process outside the cache */
	int64_t managed;    /* managed memory: it counts towards the limit, but may lie elsewhere */
	int64_t peers;      /* of other processes under the library */
	int64_t limit;      /* what the process may have, these two included; 0: no limit */
	bool limited;       /* the limit refused, the driver was not asked */
	/* What contexts and libraries of this process may take: what was missing when it started,
	 * up to what one process can take. */
	int64_t context;
};

enum cm_oom_verdict {
	CM_OOM_TOO_BIG,         /* larger than the device */
	CM_OOM_LIMIT,           /* the process's own limit, not the device */
	CM_OOM_CAPTURE,         /* a stream is captured; cm_oom_judge() does not answer this */
	CM_OOM_DRIVER,          /* as much is free, and still the driver refused */
	CM_OOM_FRAGMENTED,      /* enough is free or cached, but not in one piece */
	CM_OOM_OTHER_PROCESSES, /* it would fit if this process were alone on the device */
	CM_OOM_FULL,            /* none of these: the process itself holds too much */
};

enum cm_oom_verdict cm_oom_judge(const struct cm_oom_figures *figures);

int64_t cm_oom_cached(const struct cm_oom_figures *figures);
/* Bytes that none of the above holds: contexts, libraries, the driver, and processes without the
 * library. */
int64_t cm_oom_outside(const struct cm_oom_figures *figures);
/* The least that other processes have: what is known of peers, and the part of the rest that cannot
 * be this process's own. */
int64_t cm_oom_others(const struct cm_oom_figures *figures);

/* A change of circumstances under which the request might have fitted. */
enum cm_oom_remedy {
	CM_OOM_WITHOUT_LIMIT, /* no limit on this process */
	CM_OOM_ONE_SEGMENT,   /* what is free and cached, in one piece */
	CM_OOM_PAGED,         /* what is free, and what is cached as far as it is whole pages */
	CM_OOM_ALONE,         /* what is free, and what other processes hold */
	CM_OOM_REMEDY_COUNT
};

/* Whether the request would have fitted then; *ret_bytes: how much would have been available. */
bool cm_oom_would_fit(const struct cm_oom_figures *figures, enum cm_oom_remedy remedy,
		      int64_t *ret_bytes);
/* How much less the program would have had to hold for the request to fit; 0: the amount was not
 * the problem. */
int64_t cm_oom_excess(const struct cm_oom_figures *figures);

/*
 * Bytes in hundredths of `unit`: of one amount, and of the `n` parts of an amount, at most
 * CM_OOM_PARTS, rounded so that they add up to `sum`: those with the largest remainders are rounded
 * up. `sum` is the amount's own, rounded up or down.
 */
#define CM_OOM_PARTS 8
int64_t cm_oom_hundredths(int64_t bytes, int64_t unit);
void cm_oom_share(const int64_t *part, size_t n, int64_t unit, int64_t sum,
		  int64_t *ret_hundredths);

/* Blocks that have something in common. */
struct cm_oom_holder {
	uint64_t key; /* the size of the blocks, or the stack that asked for them */
	int64_t bytes;
	int64_t blocks;
};

/* Every holder of more than 1/CM_OOM_TALLY of the bytes is found, and the bytes of each are
 * exact. */
#define CM_OOM_TALLY   64
#define CM_OOM_HOLDERS 5

/* The largest holders in falling order, unused ones zero, and all others together. */
struct cm_oom_holders {
	bool by_stack;
	struct cm_oom_holder top[CM_OOM_HOLDERS];
	struct cm_oom_holder rest;
};

/*
 * Finds the largest holders in two walks over the blocks with no more memory than this: in the
 * first each block is proposed, in the second each is counted. The walks see the same blocks.
 */
struct cm_oom_tally {
	struct cm_oom_holder slot[CM_OOM_TALLY];
	struct cm_oom_holder rest;
};

void cm_oom_propose(struct cm_oom_tally *tally, uint64_t key, int64_t bytes);
/* Between the walks. */
void cm_oom_recount(struct cm_oom_tally *tally);
void cm_oom_count(struct cm_oom_tally *tally, uint64_t key, int64_t bytes);
void cm_oom_rank(const struct cm_oom_tally *tally, struct cm_oom_holders *ret_holders);

#endif
