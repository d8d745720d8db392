/* SPDX-License-Identifier: MIT */
/* What is said to be wrong when memory is out, from figures alone. */
#include "allocator/oom/oom_report.h"

#include "tests/unit/cmocka_all.h"

#define GIB (INT64_C(1) << 30)

struct judged {
	const char *what;
	struct cm_oom_figures figures; /* in GiB */
	enum cm_oom_verdict verdict;
	bool without_limit, one_piece, paged, alone;
	int64_t excess; /* in GiB */
};

static const struct judged judged[] = {
	{"all of it in use",
	 {.asked = 9, .total = 100, .free = 5, .live = 95},
	 CM_OOM_FULL,
	 .excess = 4},
	{"a byte's worth short",
	 {.asked = 9, .total = 100, .free = 8, .live = 92},
	 CM_OOM_FULL,
	 .excess = 1},
	{"free and cached are just enough",
	 {.asked = 9, .total = 100, .free = 5, .live = 91, .fragmented = 3, .pending = 1},
	 CM_OOM_FRAGMENTED,
	 .one_piece = true},
	{"free and cached are not enough",
	 {.asked = 10, .total = 100, .free = 5, .live = 91, .fragmented = 3, .pending = 1},
	 CM_OOM_FULL,
	 .excess = 1},
	{"enough of it are pages",
	 {.asked = 9, .total = 100, .free = 4, .live = 90, .fragmented = 6, .pages = 5},
	 CM_OOM_FRAGMENTED,
	 .one_piece = true,
	 .paged = true},
	{"not enough of it are pages",
	 {.asked = 9, .total = 100, .free = 4, .live = 90, .fragmented = 6, .pages = 4},
	 CM_OOM_FRAGMENTED,
	 .one_piece = true},
	{"pages below the limit",
	 {.asked = 9,
	  .total = 100,
	  .free = 60,
	  .live = 30,
	  .fragmented = 10,
	  .pages = 9,
	  .limit = 40,
	  .limited = true},
	 CM_OOM_LIMIT,
	 .without_limit = true,
	 .one_piece = true,
	 .paged = true},
	{"whole segments that cannot be given back",
	 {.asked = 9, .total = 100, .free = 1, .live = 50, .releasable = 49},
	 CM_OOM_FRAGMENTED,
	 .one_piece = true},
	{"larger than the device",
	 {.asked = 101, .total = 100, .free = 100},
	 CM_OOM_TOO_BIG,
	 .excess = 1},
	{"as large as the device",
	 {.asked = 100, .total = 100, .free = 100},
	 CM_OOM_DRIVER,
	 .excess = 0},
	{"larger than the device and the limit",
	 {.asked = 101, .total = 100, .free = 100, .limit = 10, .limited = true},
	 CM_OOM_TOO_BIG,
	 .excess = 91},
	{"the limit, and room beyond it",
	 {.asked = 9,
	  .total = 100,
	  .free = 60,
	  .live = 35,
	  .fragmented = 5,
	  .limit = 41,
	  .limited = true},
	 CM_OOM_LIMIT,
	 .without_limit = true,
	 .excess = 3},
	{"the limit, and no room beyond it",
	 {.asked = 9, .total = 100, .free = 8, .live = 40, .limit = 41, .limited = true},
	 CM_OOM_LIMIT,
	 .excess = 8},
	{"the limit, for what lies in pieces",
	 {.asked = 9,
	  .total = 100,
	  .free = 60,
	  .live = 30,
	  .fragmented = 10,
	  .limit = 40,
	  .limited = true},
	 CM_OOM_LIMIT,
	 .without_limit = true,
	 .one_piece = true},
	{"the limit, and memory outside the cache",
	 {.asked = 9,
	  .total = 100,
	  .free = 60,
	  .live = 20,
	  .fragmented = 5,
	  .other = 10,
	  .limit = 35,
	  .limited = true},
	 CM_OOM_LIMIT,
	 .without_limit = true,
	 .excess = 4},
	{"the limit, and managed memory",
	 {.asked = 9,
	  .total = 100,
	  .free = 60,
	  .live = 20,
	  .fragmented = 5,
	  .managed = 10,
	  .limit = 35,
	  .limited = true},
	 CM_OOM_LIMIT,
	 .without_limit = true,
	 .excess = 4},
	{"the driver refuses what is free",
	 {.asked = 9, .total = 100, .free = 9, .live = 91},
	 CM_OOM_DRIVER,
	 .excess = 0},
	{"others hold it",
	 {.asked = 9, .total = 100, .free = 2, .live = 40, .context = 1},
	 CM_OOM_OTHER_PROCESSES,
	 .alone = true,
	 .excess = 7},
	{"others hold not enough of it",
	 {.asked = 61, .total = 100, .free = 2, .live = 40, .context = 1},
	 CM_OOM_FULL,
	 .excess = 59},
	{"what this process's contexts hold is not others'",
	 {.asked = 9, .total = 100, .free = 8, .live = 90, .context = 2},
	 CM_OOM_FULL,
	 .excess = 1},
	{"cached pieces do not join what others would free",
	 {.asked = 20, .total = 100, .free = 5, .live = 70, .fragmented = 14, .context = 1},
	 CM_OOM_FULL,
	 .excess = 1},
	{"its own memory outside the cache is not others'",
	 {.asked = 9, .total = 100, .free = 2, .live = 40, .other = 58},
	 CM_OOM_FULL,
	 .excess = 7},
	{"figures of different moments",
	 {.asked = 9, .total = 100, .free = 8, .live = 95},
	 CM_OOM_FULL,
	 .excess = 1},
};

static struct cm_oom_figures in_bytes(const struct cm_oom_figures *gib)
{
	return (struct cm_oom_figures){
		.asked = gib->asked * GIB,
		.total = gib->total * GIB,
		.free = gib->free * GIB,
		.live = gib->live * GIB,
		.pending = gib->pending * GIB,
		.fragmented = gib->fragmented * GIB,
		.releasable = gib->releasable * GIB,
		.pages = gib->pages * GIB,
		.other = gib->other * GIB,
		.managed = gib->managed * GIB,
		.limit = gib->limit * GIB,
		.limited = gib->limited,
		.context = gib->context * GIB,
	};
}

CM_TEST(each_verdict_follows_from_its_figures)
{
	size_t i;

	for (i = 0; i < sizeof(judged) / sizeof(judged[0]); i++) {
		const struct cm_oom_figures figures = in_bytes(&judged[i].figures);

		if (cm_oom_judge(&figures) != judged[i].verdict)
			fail_msg("%s: verdict %d", judged[i].what, cm_oom_judge(&figures));
	}
}

CM_TEST(each_remedy_is_judged_by_arithmetic)
{
	int64_t bytes;
	size_t i;

	for (i = 0; i < sizeof(judged) / sizeof(judged[0]); i++) {
		const struct judged *want = &judged[i];
		const struct cm_oom_figures figures = in_bytes(&want->figures);

		if (cm_oom_would_fit(&figures, CM_OOM_WITHOUT_LIMIT, &bytes) !=
			    want->without_limit ||
		    cm_oom_would_fit(&figures, CM_OOM_ONE_SEGMENT, &bytes) != want->one_piece ||
		    cm_oom_would_fit(&figures, CM_OOM_PAGED, &bytes) != want->paged ||
		    cm_oom_would_fit(&figures, CM_OOM_ALONE, &bytes) != want->alone ||
		    cm_oom_excess(&figures) != want->excess * GIB)
			fail_msg("%s", want->what);
	}
}

/* What a limit leaves is all that there would have been. */
CM_TEST(a_limit_bounds_what_is_available)
{
	const struct cm_oom_figures figures = {.asked = 9,
					       .total = 100,
					       .free = 60,
					       .live = 30,
					       .fragmented = 6,
					       .pages = 4,
					       .other = 2,
					       .limit = 40,
					       .limited = true};
	int64_t bytes;

	assert_false(cm_oom_would_fit(&figures, CM_OOM_ONE_SEGMENT, &bytes));
	assert_int_equal(bytes, 8);
	assert_false(cm_oom_would_fit(&figures, CM_OOM_PAGED, &bytes));
	assert_int_equal(bytes, 6);
	assert_false(cm_oom_would_fit(&figures, CM_OOM_ALONE, &bytes));
	assert_int_equal(bytes, 2);
	assert_true(cm_oom_would_fit(&figures, CM_OOM_WITHOUT_LIMIT, &bytes));
	assert_int_equal(bytes, 60);
}

CM_TEST(all_parts_add_up_to_the_device)
{
	size_t i;

	for (i = 0; i < sizeof(judged) / sizeof(judged[0]); i++) {
		const struct cm_oom_figures f = in_bytes(&judged[i].figures);

		assert_int_equal(f.live + cm_oom_cached(&f) + f.other + cm_oom_outside(&f) + f.free,
				 f.total);
		assert_true(cm_oom_others(&f) >= 0);
	}
}

CM_TEST(one_amount_is_rounded_to_the_nearest)
{
	assert_int_equal(cm_oom_hundredths(0, 1000), 0);
	assert_int_equal(cm_oom_hundredths(1004, 1000), 100);
	assert_int_equal(cm_oom_hundredths(1005, 1000), 101);
	assert_int_equal(cm_oom_hundredths(-1004, 1000), -100);
	assert_int_equal(cm_oom_hundredths(-1006, 1000), -101);
	assert_int_equal(cm_oom_hundredths(INT64_MAX, GIB), INT64_C(858993459200));
}

CM_TEST(parts_are_rounded_so_that_they_add_up)
{
	/* Thirds: each would be 33, and the sum 99. */
	const int64_t thirds[] = {3333, 3333, 3334}, negative[] = {10006, -6, 0};
	int64_t n[3];

	cm_oom_share(thirds, 3, 10000, 100, n);
	assert_int_equal(n[0], 33);
	assert_int_equal(n[1], 33);
	assert_int_equal(n[2], 34);
	cm_oom_share(negative, 3, 10000, 100, n);
	assert_int_equal(n[0] + n[1] + n[2], 100);
	/* A sum that was itself rounded up. */
	cm_oom_share(thirds, 2, 10000, 67, n);
	assert_int_equal(n[0] + n[1], 67);
}

/* 200 holders of a block each, and a few large ones between them. */
static void walk(struct cm_oom_tally *tally,
		 void (*each)(struct cm_oom_tally *tally, uint64_t key, int64_t bytes))
{
	uint64_t i;

	for (i = 1; i <= 200; i++) {
		each(tally, i, (int64_t)i);
		if (i % 2)
			each(tally, 5000, 5000);
		if (i % 4 == 0)
			each(tally, 7000, 7000);
		if (i == 100)
			each(tally, 90000, 90000);
	}
}

CM_TEST(the_largest_holders_are_found_and_counted_exactly)
{
	struct cm_oom_tally tally = {0};
	struct cm_oom_holders holders;
	int64_t sum, blocks;
	uint32_t i;

	walk(&tally, cm_oom_propose);
	cm_oom_recount(&tally);
	walk(&tally, cm_oom_count);
	cm_oom_rank(&tally, &holders);
	assert_int_equal(holders.top[0].key, 5000);
	assert_int_equal(holders.top[0].bytes, 500000);
	assert_int_equal(holders.top[0].blocks, 100);
	assert_int_equal(holders.top[1].key, 7000);
	assert_int_equal(holders.top[1].blocks, 50);
	assert_int_equal(holders.top[2].key, 90000);
	assert_int_equal(holders.top[2].blocks, 1);
	sum = holders.rest.bytes;
	blocks = holders.rest.blocks;
	for (i = 0; i < CM_OOM_HOLDERS; i++) {
		sum += holders.top[i].bytes;
		blocks += holders.top[i].blocks;
	}
	assert_int_equal(sum, 500000 + 350000 + 90000 + 200 * 201 / 2);
	assert_int_equal(blocks, 100 + 50 + 1 + 200);
}

CM_TEST(fewer_holders_than_there_is_room_for)
{
	struct cm_oom_tally tally = {0};
	struct cm_oom_holders holders;

	cm_oom_recount(&tally);
	cm_oom_rank(&tally, &holders);
	assert_int_equal(holders.top[0].bytes, 0);
	assert_int_equal(holders.rest.blocks, 0);
	cm_oom_propose(&tally, 512, 512);
	cm_oom_recount(&tally);
	cm_oom_count(&tally, 512, 512);
	cm_oom_rank(&tally, &holders);
	assert_int_equal(holders.top[0].blocks, 1);
	assert_int_equal(holders.top[1].bytes, 0);
	assert_int_equal(holders.rest.blocks, 0);
}
