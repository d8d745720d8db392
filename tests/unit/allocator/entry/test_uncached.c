/* SPDX-License-Identifier: MIT */
/* Memory outside the cache: counted by kind, from when the driver gives it until it has it back. */
#include "allocator/entry/uncached.h"

#include <errno.h>
#include <sys/mman.h>

#include "allocator/state/state.h"
#include "tests/unit/fixture_case.h"

/* The pages that the rows and maps are on. */
void *__real_mmap64(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset);
void *__real_mremap(void *addr, size_t bytes, size_t wanted, int flags, ...);
void *__wrap_mremap(void *addr, size_t bytes, size_t wanted, int flags, ...);

static bool out_of_pages;

void *__wrap_mmap64(void *addr, size_t bytes, int prot, int flags, int fd, off_t offset)
{
	return out_of_pages ? MAP_FAILED : __real_mmap64(addr, bytes, prot, flags, fd, offset);
}

void *__wrap_mremap(void *addr, size_t bytes, size_t wanted, int flags, ...)
{
	return out_of_pages ? MAP_FAILED : __real_mremap(addr, bytes, wanted, flags);
}

static void add(struct fixture *f, enum cm_uncached_kind kind, enum cm_uncached_name name,
		uint64_t key, uint64_t bytes)
{
	const struct cm_uncached_memory memory = {.kind = kind, .ctx = f->ctx, .bytes = bytes};

	cm_uncached_add(f->cache, name, key, &memory);
}

/* As the hooks do it where the driver agrees. */
static void give_up(struct fixture *f, enum cm_uncached_name name, uint64_t key)
{
	cm_uncached_drop(f->cache, cm_uncached_take(f->cache, name, key));
}

static void assert_kind(struct fixture *f, enum cm_uncached_kind kind, int64_t count,
			uint64_t bytes)
{
	struct cm_device_row row;

	assert_int_equal(cm_cache_read_device(f->cache, 0, &row), 0);
	assert_int_equal(row.other_count[kind].current, count);
	assert_int_equal(row.other_bytes[kind].current, bytes);
}

fixture_case(each_kind_has_its_own_bytes_and_pieces)
{
	struct fixture *f = *state;
	struct cm_device_row row;
	enum cm_uncached_kind kind;

	for (kind = 0; kind < CM_UNCACHED_COUNT; kind++) {
		add(f, kind, CM_NAME_ADDRESS, (kind + 1) * MIB, (kind + 1) * KIB);
		add(f, kind, CM_NAME_ADDRESS, (kind + 100) * MIB, 7);
	}
	for (kind = 0; kind < CM_UNCACHED_COUNT; kind++)
		assert_kind(f, kind, 2, (kind + 1) * KIB + 7);
	for (kind = 0; kind < CM_UNCACHED_COUNT; kind++)
		give_up(f, CM_NAME_ADDRESS, (kind + 1) * MIB);
	assert_int_equal(cm_cache_read_device(f->cache, 0, &row), 0);
	for (kind = 0; kind < CM_UNCACHED_COUNT; kind++) {
		assert_kind(f, kind, 1, 7);
		assert_int_equal(row.other_bytes[kind].peak, (kind + 1) * KIB + 7);
		assert_int_equal(row.other_bytes[kind].allocated, (kind + 1) * KIB + 7);
		assert_int_equal(row.other_bytes[kind].freed, (kind + 1) * KIB);
		assert_int_equal(row.other_count[kind].peak, 2);
	}
}

/* An array and an address may be the same number. */
fixture_case(names_of_different_kinds_do_not_meet)
{
	struct fixture *f = *state;
	enum cm_uncached_name name;

	for (name = 0; name < CM_NAME_COUNT; name++)
		if (name != CM_NAME_MAPPING)
			add(f, CM_UNCACHED_ARRAY, name, 4 * MIB, 1 << name);
	assert_kind(f, CM_UNCACHED_ARRAY, 4, 1 + 4 + 8 + 16);
	give_up(f, CM_NAME_MIPMAP, 4 * MIB);
	assert_kind(f, CM_UNCACHED_ARRAY, 3, 1 + 4 + 16);
}

/* Handles are numbers or addresses of the driver's, in no grain. */
fixture_case(handles_that_lie_close_are_told_apart)
{
	struct fixture *f = *state;
	uint64_t i;

	for (i = 1; i <= 3000; i++)
		add(f, CM_UNCACHED_VMM, CM_NAME_HANDLE, i, i);
	assert_kind(f, CM_UNCACHED_VMM, 3000, 3000 * 3001 / 2);
	for (i = 3000; i >= 1; i--) {
		give_up(f, CM_NAME_HANDLE, i);
		assert_kind(f, CM_UNCACHED_VMM, (int64_t)i - 1, (i - 1) * i / 2);
	}
}

fixture_case(what_has_no_name_or_no_size_is_not_counted)
{
	struct fixture *f = *state;

	add(f, CM_UNCACHED_ASYNC, CM_NAME_ADDRESS, 0, 5);
	add(f, CM_UNCACHED_ASYNC, CM_NAME_ADDRESS, MIB, 0);
	assert_kind(f, CM_UNCACHED_ASYNC, 0, 0);
	assert_int_equal(cm_uncached_take(f->cache, CM_NAME_ADDRESS, MIB), 0);
	cm_uncached_drop(f->cache, 0);
	cm_uncached_put_back(f->cache, 0);
}

fixture_case(a_refused_free_leaves_it_in_the_counters)
{
	struct fixture *f = *state;
	uint32_t taken;

	add(f, CM_UNCACHED_MANAGED, CM_NAME_ADDRESS, MIB, 512);
	taken = cm_uncached_take(f->cache, CM_NAME_ADDRESS, MIB);
	assert_int_not_equal(taken, 0);
	/* Nobody else gives it up meanwhile. */
	assert_int_equal(cm_uncached_take(f->cache, CM_NAME_ADDRESS, MIB), 0);
	cm_uncached_put_back(f->cache, taken);
	assert_kind(f, CM_UNCACHED_MANAGED, 1, 512);
	give_up(f, CM_NAME_ADDRESS, MIB);
	assert_kind(f, CM_UNCACHED_MANAGED, 0, 0);
}

/* The driver has it back and gives it to another thread, before the first one's call returns. */
fixture_case(an_address_may_be_allocated_before_its_free_returns)
{
	struct fixture *f = *state;
	uint32_t taken;

	add(f, CM_UNCACHED_ASYNC, CM_NAME_ADDRESS, MIB, 512);
	taken = cm_uncached_take(f->cache, CM_NAME_ADDRESS, MIB);
	add(f, CM_UNCACHED_ASYNC, CM_NAME_ADDRESS, MIB, 1024);
	assert_kind(f, CM_UNCACHED_ASYNC, 2, 1536);
	cm_uncached_drop(f->cache, taken);
	assert_kind(f, CM_UNCACHED_ASYNC, 1, 1024);
	give_up(f, CM_NAME_ADDRESS, MIB);
	assert_kind(f, CM_UNCACHED_ASYNC, 0, 0);
}

/* By who does not go through our hooks: the driver gives the name out again, and that is how we
 * learn. */
fixture_case(what_was_given_up_past_us_leaves_the_counters)
{
	struct fixture *f = *state;

	add(f, CM_UNCACHED_ARRAY, CM_NAME_ARRAY, 7, 512);
	add(f, CM_UNCACHED_ARRAY, CM_NAME_ARRAY, 7, 1024);
	assert_kind(f, CM_UNCACHED_ARRAY, 1, 1024);
	give_up(f, CM_NAME_ARRAY, 7);
	assert_kind(f, CM_UNCACHED_ARRAY, 0, 0);
	/* A mapping holds its memory, and is lost with its address. */
	add(f, CM_UNCACHED_VMM, CM_NAME_HANDLE, 1, 2 * MIB);
	add(f, CM_UNCACHED_VMM, CM_NAME_HANDLE, 2, 2 * MIB);
	cm_uncached_map(f->cache, GIB, 2 * MIB, 1);
	give_up(f, CM_NAME_HANDLE, 1);
	assert_kind(f, CM_UNCACHED_VMM, 2, 4 * MIB);
	cm_uncached_map(f->cache, GIB, 2 * MIB, 2);
	assert_kind(f, CM_UNCACHED_VMM, 1, 2 * MIB);
}

/* A block of the cache, too: else its free would put memory that is not ours into the cache. */
fixture_case(a_block_given_up_past_us_makes_way)
{
	const struct cm_driver_ops *ops = fake_driver_ops();
	struct fixture *f = *state;
	uint64_t addr = 0, again = 0, forward;

	assert_int_equal(cm_cache_alloc(f->cache, f->heap, 40 * MIB, &addr), 0);
	assert_true(ops->gate_enter());
	assert_int_equal(ops->mem_free(f->ctx, addr), 0);
	assert_int_equal(ops->mem_alloc(f->ctx, 40 * MIB, &again), 0);
	assert_int_equal(again, addr);
	add(f, CM_UNCACHED_FORWARDED, CM_NAME_ADDRESS, addr, 40 * MIB);
	assert_int_equal(cm_cache_free(f->cache, addr, &forward), -ENOENT);
	assert_int_equal(ops->mem_free(f->ctx, addr), 0);
	ops->gate_leave();
	give_up(f, CM_NAME_ADDRESS, addr);
}

fixture_case(mapped_memory_lasts_as_long_as_anything_holds_it)
{
	struct fixture *f = *state;

	add(f, CM_UNCACHED_VMM, CM_NAME_HANDLE, 11, 2 * MIB);
	cm_uncached_map(f->cache, GIB, 2 * MIB, 11);
	cm_uncached_map(f->cache, 2 * GIB, 2 * MIB, 11);
	cm_uncached_retain(f->cache, 11);
	give_up(f, CM_NAME_HANDLE, 11);
	give_up(f, CM_NAME_HANDLE, 11);
	/* No name is left, two mappings are. */
	assert_int_equal(cm_uncached_take(f->cache, CM_NAME_HANDLE, 11), 0);
	assert_kind(f, CM_UNCACHED_VMM, 1, 2 * MIB);
	cm_uncached_drop(f->cache, cm_uncached_take_mapped(f->cache, GIB, 2 * MIB));
	assert_kind(f, CM_UNCACHED_VMM, 1, 2 * MIB);
	cm_uncached_drop(f->cache, cm_uncached_take_mapped(f->cache, 2 * GIB, 2 * MIB));
	assert_kind(f, CM_UNCACHED_VMM, 0, 0);
}

/* Of several mappings in one range, refused once and then taken back. */
fixture_case(a_range_of_mappings_goes_together)
{
	struct fixture *f = *state;
	uint64_t i;

	for (i = 0; i < 4; i++) {
		add(f, CM_UNCACHED_VMM, CM_NAME_HANDLE, i + 1, 2 * MIB);
		cm_uncached_map(f->cache, GIB + i * 2 * MIB, 2 * MIB, i + 1);
		give_up(f, CM_NAME_HANDLE, i + 1);
	}
	assert_kind(f, CM_UNCACHED_VMM, 4, 8 * MIB);
	cm_uncached_put_back(f->cache, cm_uncached_take_mapped(f->cache, GIB, 8 * MIB));
	assert_kind(f, CM_UNCACHED_VMM, 4, 8 * MIB);
	cm_uncached_drop(f->cache, cm_uncached_take_mapped(f->cache, GIB, 4 * MIB));
	assert_kind(f, CM_UNCACHED_VMM, 2, 4 * MIB);
	cm_uncached_drop(f->cache, cm_uncached_take_mapped(f->cache, GIB + 4 * MIB, 4 * MIB));
	assert_kind(f, CM_UNCACHED_VMM, 0, 0);
	/* Nothing is mapped there, and memory of nobody known. */
	assert_int_equal(cm_uncached_take_mapped(f->cache, GIB, 8 * MIB), 0);
	cm_uncached_map(f->cache, GIB, 2 * MIB, 77);
	assert_int_equal(cm_uncached_take_mapped(f->cache, GIB, 2 * MIB), 0);
}

fixture_case(a_context_takes_along_what_it_had)
{
	struct fixture *f = *state;
	const struct cm_uncached_memory nobodys = {.kind = CM_UNCACHED_VMM, .bytes = 5};
	const struct cm_uncached_memory strange = {
		.kind = CM_UNCACHED_VMM, .ctx = f->ctx + 1, .bytes = 6};
	uint32_t taken;

	add(f, CM_UNCACHED_ARRAY, CM_NAME_ARRAY, 1, 512);
	add(f, CM_UNCACHED_MANAGED, CM_NAME_ADDRESS, MIB, 512);
	cm_uncached_add(f->cache, CM_NAME_HANDLE, 1, &nobodys);
	cm_uncached_add(f->cache, CM_NAME_HANDLE, 2, &strange);
	/* A free of it is under way. */
	taken = cm_uncached_take(f->cache, CM_NAME_ADDRESS, MIB);
	cm_uncached_forget_context(f->cache, f->ctx);
	assert_kind(f, CM_UNCACHED_ARRAY, 0, 0);
	assert_kind(f, CM_UNCACHED_MANAGED, 1, 512);
	cm_uncached_drop(f->cache, taken);
	assert_kind(f, CM_UNCACHED_MANAGED, 0, 0);
	assert_kind(f, CM_UNCACHED_VMM, 2, 11);
	give_up(f, CM_NAME_ARRAY, 1);
	assert_kind(f, CM_UNCACHED_ARRAY, 0, 0);
}

static struct fixture *napping;

/* The driver refuses a free in a context that another thread is destroying. */
fixture_case(a_context_takes_along_what_is_put_back_after_its_end)
{
	struct fixture *f = *state;
	uint32_t taken;

	add(f, CM_UNCACHED_PITCH, CM_NAME_ADDRESS, MIB, KIB);
	taken = cm_uncached_take(f->cache, CM_NAME_ADDRESS, MIB);
	assert_int_not_equal(taken, 0);
	cm_uncached_forget_context(f->cache, f->ctx);
	assert_kind(f, CM_UNCACHED_PITCH, 1, KIB);
	cm_uncached_put_back(f->cache, taken);
	assert_kind(f, CM_UNCACHED_PITCH, 0, 0);
	assert_int_equal(cm_uncached_take(f->cache, CM_NAME_ADDRESS, MIB), 0);
}

static void forget(uint64_t ns)
{
	struct fixture *f = napping;

	(void)ns;
	f->cache->ops = fake_driver_ops();
	cm_cache_lock_contexts(f->cache);
	(void)cm_cache_forget_heap(f->cache, f->ctx);
	cm_cache_context_has_ended(f->cache);
	cm_cache_unlock_contexts(f->cache);
}

/* The driver has given it anew; who has destroyed the context has not come so far as to say so. */
fixture_case(what_lies_where_a_going_context_had_memory_is_the_drivers_to_free)
{
	struct cm_driver_ops ops = *fake_driver_ops();
	struct fixture *f = *state;
	uint64_t addr = case_get(f, 10 * MIB), forward;
	const struct cm_uncached_memory memory = {.kind = CM_UNCACHED_MANAGED, .bytes = MIB};
	struct cm_heap *heap;

	(void)fixture_add_context(f, 0, &heap);
	cm_cache_lock_contexts(f->cache);
	(void)cm_cache_suspend_heap(f->cache, f->ctx);
	cm_cache_context_is_ending(f->cache);
	cm_cache_unlock_contexts(f->cache);
	fake_context_destroy(f->ctx);
	ops.sleep_ns = forget;
	f->cache->ops = &ops;
	napping = f;
	cm_uncached_add(f->cache, CM_NAME_ADDRESS, addr + MIB, &memory);
	assert_ptr_not_equal(f->cache->ops, &ops);
	assert_int_equal(cm_cache_free(f->cache, addr + MIB, &forward), -ENOENT);
	give_up(f, CM_NAME_ADDRESS, addr + MIB);
	assert_kind(f, CM_UNCACHED_MANAGED, 0, 0);
}

/* cuCtxDestroy of a NULL, which the driver refuses. */
fixture_case(no_context_takes_nothing_along)
{
	struct fixture *f = *state;
	const struct cm_uncached_memory nobodys = {.kind = CM_UNCACHED_VMM, .bytes = 2 * MIB};

	cm_uncached_add(f->cache, CM_NAME_HANDLE, 1, &nobodys);
	cm_uncached_map(f->cache, GIB, 2 * MIB, 1);
	cm_uncached_forget_context(f->cache, 0);
	give_up(f, CM_NAME_HANDLE, 1);
	assert_kind(f, CM_UNCACHED_VMM, 1, 2 * MIB);
	cm_uncached_drop(f->cache, cm_uncached_take_mapped(f->cache, GIB, 2 * MIB));
	assert_kind(f, CM_UNCACHED_VMM, 0, 0);
}

fixture_case(rows_are_used_again)
{
	struct fixture *f = *state;
	uint32_t rows, i;

	add(f, CM_UNCACHED_ASYNC, CM_NAME_ADDRESS, MIB, 1);
	rows = f->cache->uncached.rows;
	for (i = 0; i < 100; i++) {
		add(f, CM_UNCACHED_ASYNC, CM_NAME_ADDRESS, 2 * MIB, 1);
		give_up(f, CM_NAME_ADDRESS, 2 * MIB);
	}
	assert_int_equal(f->cache->uncached.rows, rows + 1);
}

/* Then it is not counted, and its end is none either. */
fixture_case(without_pages_nothing_is_counted)
{
	struct fixture *f = *state;
	uint64_t i, counted;
	struct cm_device_row row;

	out_of_pages = true;
	add(f, CM_UNCACHED_ASYNC, CM_NAME_ADDRESS, MIB, 1);
	assert_kind(f, CM_UNCACHED_ASYNC, 0, 0);
	out_of_pages = false;
	add(f, CM_UNCACHED_ASYNC, CM_NAME_ADDRESS, MIB, 1);
	out_of_pages = true;
	for (i = 2; i <= 5000; i++)
		add(f, CM_UNCACHED_ASYNC, CM_NAME_ADDRESS, i * MIB, 1);
	out_of_pages = false;
	assert_int_equal(cm_cache_read_device(f->cache, 0, &row), 0);
	counted = (uint64_t)row.other_count[CM_UNCACHED_ASYNC].current;
	assert_in_range(counted, 1, 4999);
	for (i = 1; i <= 5000; i++)
		give_up(f, CM_NAME_ADDRESS, i * MIB);
	assert_kind(f, CM_UNCACHED_ASYNC, 0, 0);
}
