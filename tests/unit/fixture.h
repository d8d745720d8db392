/* SPDX-License-Identifier: MIT */
/*
 * A cache over the fake driver, and what a program would do with it. Each allocation goes past the
 * referee (fake_driver.h); fixture_complaint adds the walker's judgement, and that of the rings of
 * events (ring_check.h). No test framework in here: the fuzz target and the threaded test use it
 * too.
 */
#ifndef CM_TESTS_UNIT_FIXTURE_H
#define CM_TESTS_UNIT_FIXTURE_H

#include "allocator/cache.h"
#include "tests/unit/fake_driver.h"

#define KIB UINT64_C(1024)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

struct fixture_params {
	const struct cm_policy *policy; /* NULL: the defaults */
	uint64_t limit_bytes;           /* of a device; 0: 64 GiB */
	bool old_driver;                /* without events of a context */
	uint32_t events;                /* rows of the event ring */
};

struct fixture {
	struct fake_driver driver;
	bool old_driver;
	struct cm_region *region;
	struct cm_cache *cache;
	uint64_t ctx; /* a context of device 0, and its heap */
	struct cm_heap *heap;
	bool record_has_gaps; /* events were not recorded for a while */
	char why[200];
};

/* False: no memory. */
bool fixture_open(struct fixture *fixture, const struct fixture_params *params);
void fixture_close(struct fixture *fixture);

/* A context and its heap, as the hooks make them; 0: too many. */
uint64_t fixture_add_context(struct fixture *fixture, uint32_t device, struct cm_heap **ret_heap);
void fixture_remove_context(struct fixture *fixture, uint64_t ctx);

/* As cm_cache_alloc. */
int fixture_alloc(struct fixture *fixture, struct cm_heap *heap, uint64_t bytes,
		  uint64_t *ret_addr);
/* A block of the first heap, or 0. */
uint64_t fixture_get(struct fixture *fixture, uint64_t bytes);
/* As cm_cache_free, for who knows that the address is ours. */
int fixture_put(struct fixture *fixture, uint64_t addr);

/* Submits a kernel, or a copy, with what the hooks tell the cache of it. */
uint64_t fixture_launch(struct fixture *fixture, uint64_t ctx, uint64_t stream, uint64_t addr,
			uint64_t bytes, uint64_t duration_ns);
uint64_t fixture_copy(struct fixture *fixture, uint64_t ctx, uint64_t stream, uint64_t addr,
		      uint64_t bytes, uint64_t duration_ns);

/* What is wrong, in a sentence, or NULL. */
const char *fixture_complaint(struct fixture *fixture);

struct cm_stat4 fixture_stat(struct fixture *fixture, enum cm_pool pool, enum cm_stat stat);
struct cm_stat4 fixture_stat1(struct fixture *fixture, enum cm_stat1 stat);
int64_t fixture_scalar(struct fixture *fixture, enum cm_scalar scalar);

#endif
