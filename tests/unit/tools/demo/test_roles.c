/* SPDX-License-Identifier: MIT */
/*
 * Made-up programs: what they write into their regions obeys the invariants of docs/architecture.md
 * after every step. Each runs in a child, as it has state of its own.
 */
#include "tools/demo/roles.h"

#include <sys/wait.h>
#include <unistd.h>

#include "stats/counters.h"
#include "stats/summary.h"
#include "tests/unit/cmocka_all.h"
#include "tests/unit/own_region.h"

#define STEPS 700
#define GIB   ((int64_t)1 << 30)

/* What the tables say, to compare the counters with. */
struct found {
	int64_t live, live_bytes, pending_bytes, split_bytes, segments, reserved, requested;
	bool broken;
};

static void walk_segment(const struct cm_demo_heap *heap, uint32_t index, struct found *found)
{
	const struct cm_segment *segment = cm_region_row(heap->region, CM_TABLE_SEGMENT, index);
	uint64_t addr = segment->addr;
	uint32_t at = segment->first, last = 0, n = 0;
	bool was_free = false;

	for (; at && n <= segment->blocks; n++) {
		const struct cm_block *block = cm_region_row(heap->region, CM_TABLE_BLOCK, at);

		found->broken |= block->addr != addr || block->prev != last ||
				 block->segment != index || !block->size ||
				 (was_free && block->state == CM_BLOCK_FREE);
		was_free = block->state == CM_BLOCK_FREE;
		found->live += block->state == CM_BLOCK_LIVE;
		if (block->state == CM_BLOCK_LIVE)
			found->live_bytes += (int64_t)block->size;
		else if (block->state == CM_BLOCK_PENDING)
			found->pending_bytes += (int64_t)block->size;
		else if (segment->blocks > 1)
			found->split_bytes += (int64_t)block->size;
		if (block->state != CM_BLOCK_FREE)
			found->requested += (int64_t)block->requested;
		addr += block->size;
		last = at;
		at = block->next;
	}
	found->broken |= n != segment->blocks || addr != segment->addr + segment->size;
	found->segments++;
	found->reserved += (int64_t)segment->size;
}

static bool balances(const struct cm_demo_heap *heap)
{
	const struct cm_summary sum = cm_summary_pool(heap->row, CM_POOL_ALL);
	struct found found = {0};
	uint32_t i;

	for (i = 1; i < CM_DEMO_SEGMENTS; i++) {
		const struct cm_segment *segment = cm_region_row(heap->region, CM_TABLE_SEGMENT, i);

		if (segment->flags & CM_SEGMENT_USED)
			walk_segment(heap, i, &found);
	}
	return !found.broken && !(heap->row->seq & 1) && found.live == sum.blocks &&
	       found.live_bytes == sum.allocated && found.pending_bytes == sum.pending &&
	       found.split_bytes == sum.fragmented && found.segments == sum.segments &&
	       found.reserved == sum.reserved && found.requested == sum.requested &&
	       sum.releasable >= 0 && sum.peak_reserved >= sum.reserved &&
	       sum.peak_allocated >= sum.allocated && sum.blocks == sum.allocs - sum.frees &&
	       sum.reserved == atomic_load(&heap->card->used) &&
	       heap->card->used + heap->card->others <= heap->card->total;
}

/* In a child: 0, or 1 where a step breaks an invariant. */
static int run_role(const struct cm_demo_role *role, const char *dir)
{
	struct cm_demo_card card = {.total = 80 * GIB, .others = 3 * GIB};
	struct cm_demo_heap *heap = calloc(1, sizeof(*heap));
	uint32_t step;
	int wrong = 0;

	if (!heap || cm_demo_heap_init(heap, dir, &card, role->card, role->command))
		return 1;
	for (step = 0; step < STEPS && !wrong; step++) {
		const bool ends = role->step(heap, step) != CM_DEMO_GOES_ON;

		wrong |= !balances(heap);
		cm_demo_heap_poll(heap);
		wrong |= !balances(heap);
		if (step % 100 == 99)
			(void)cm_demo_heap_trim(heap);
		wrong |= !balances(heap);
		if (ends)
			break;
	}
	wrong |= !heap->row->event_next || !heap->region->header->record.stack_count;
	cm_region_remove(heap->region);
	cm_intern_table_fini(&heap->texts);
	cm_intern_table_fini(&heap->stacks);
	cm_region_abandon(heap->region);
	free(heap);
	return wrong;
}

CM_TEST(every_step_balances)
{
	char dir[] = "cudamem-demo-XXXXXX";
	size_t i;
	int status;
	pid_t pid;

	assert_non_null(mkdtemp(dir));
	for (i = 0; i < cm_demo_role_count; i++) {
		pid = fork();
		if (!pid)
			_exit(run_role(&cm_demo_roles[i], dir));
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (!WIFEXITED(status) || WEXITSTATUS(status))
			print_message("%s: status %d\n", cm_demo_roles[i].command, status);
		assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
	}
	assert_int_equal(rmdir(dir), 0);
}
