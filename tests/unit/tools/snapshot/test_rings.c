/* SPDX-License-Identifier: MIT */
/* The events of a device are those of its shards' rings, in one order. */
#include "tools/snapshot/rings.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/cmocka_all.h"

#define RING    8
#define DEVICES 4

struct fixture {
	struct cm_device_row device[DEVICES];
	struct cm_event event[DEVICES * RING];
	struct cm_event host[RING];
	struct cm_image image;
	struct cm_shard_map map;
};

static struct fixture f;

/* Rows 0, 2 and 3 are shards of a device, row 1 is another one. */
static int setup(void **state)
{
	static const uint32_t first_shard[DEVICES] = {0, 0, 1, 1};
	struct cm_header *header = &f.image.header;
	uint32_t i;

	(void)state;
	memset(&f, 0, sizeof(f));
	memset(f.map.first, CM_DEVICES_MAX, sizeof(f.map.first));
	f.image.table[CM_TABLE_DEVICE] = (struct cm_image_table){f.device, DEVICES};
	f.image.table[CM_TABLE_EVENT] = (struct cm_image_table){f.event, DEVICES * RING};
	f.image.table[CM_TABLE_HOST_EVENT] = (struct cm_image_table){f.host, RING};
	header->table[CM_TABLE_EVENT].ring = header->table[CM_TABLE_HOST_EVENT].ring = RING;
	header->record.max_entries = UINT64_MAX;
	for (i = 0; i < DEVICES; i++) {
		f.device[i].flags = CM_DEVICE_USED;
		f.device[i].first_shard = first_shard[i];
		cm_shard_map_add(&f.map, i, &f.device[i]);
	}
	return 0;
}

static void write_event(struct cm_event *ring, uint64_t *next, uint64_t tick)
{
	struct cm_event *event = &ring[*next % RING];

	*event = (struct cm_event){.number = ++*next, .tick = tick, .action = CM_ACTION_ALLOC};
	event->addr = tick;
}

static void write_to(uint32_t row, uint64_t tick)
{
	write_event(&f.event[row * RING], &f.device[row].event_next, tick);
}

/* The events as "number@tick", and the address where it is not the tick. */
static void assert_events(uint32_t device, uint64_t lost, const char *expected)
{
	struct cm_rings rings;
	struct cm_event event;
	char text[512] = "";

	cm_rings_open(&f.image, &f.map, device, &rings);
	while (cm_rings_next(&rings, &event)) {
		const size_t at = strlen(text);

		(void)snprintf(text + at, sizeof(text) - at, "%s%llu@%llu", at ? " " : "",
			       (unsigned long long)event.number, (unsigned long long)event.tick);
	}
	assert_string_equal(text, expected);
	assert_int_equal(rings.lost, lost);
}

CM_TEST_WITH(one_ring_is_read_as_it_was_written, setup, NULL)
{
	uint64_t tick;

	assert_events(1, 0, "");
	for (tick = 10; tick <= 100; tick += 10)
		write_to(1, tick);
	assert_events(1, 2, "3@30 4@40 5@50 6@60 7@70 8@80 9@90 10@100");
	f.device[1].event_cleared = 6;
	assert_events(1, 0, "7@70 8@80 9@90 10@100");
	/* Overwritten while it was copied, and what is no event. */
	f.event[RING + 7].number = 0;
	f.event[RING].action = CM_ACTION_COUNT;
	assert_events(1, 0, "7@70 10@100");
	f.image.header.record.max_entries = 1;
	assert_events(1, 0, "10@100");
}

CM_TEST_WITH(times_follow_the_numbers, setup, NULL)
{
	write_to(1, 100000);
	write_to(1, 99990);
	write_to(1, 100001);
	write_to(1, 7); /* damage */
	assert_events(1, 0, "1@100000 2@100000 3@100001 4@7");
}

CM_TEST_WITH(rings_of_one_device_are_merged_by_time, setup, NULL)
{
	write_to(0, 10);
	write_to(0, 40);
	write_to(1, 25);
	write_to(2, 20);
	write_to(2, 30);
	write_to(3, 5);
	write_to(2, 50);
	assert_events(0, 0, "1@5 2@10 3@20 4@30 5@40 6@50");
	assert_events(1, 0, "1@25");
	/* A later shard and an unknown one have no events of their own. */
	assert_events(2, 0, "");
	assert_events(CM_DEVICES_MAX, 0, "");
	/* As if nothing had been cleared: numbers count from the start. */
	f.device[0].event_cleared = 1;
	assert_events(0, 0, "2@5 3@20 4@30 5@40 6@50");
}

CM_TEST_WITH(events_of_one_tick_come_by_ring_in_their_order, setup, NULL)
{
	struct cm_rings rings;
	struct cm_event event;
	uint64_t i;

	for (i = 0; i < 3; i++) {
		write_to(2, 10);
		f.event[2 * RING + i].addr = 20 + i;
		write_to(0, 10);
		f.event[i].addr = i;
	}
	cm_rings_open(&f.image, &f.map, 0, &rings);
	for (i = 0; i < 6; i++) {
		assert_true(cm_rings_next(&rings, &event));
		assert_int_equal(event.addr, i < 3 ? i : 17 + i);
		assert_int_equal(event.number, i + 1);
	}
	assert_false(cm_rings_next(&rings, &event));
}

/* Before the first event of a ring that lost older ones, the others tell half of the story. */
CM_TEST_WITH(a_device_begins_where_its_shortest_ring_does, setup, NULL)
{
	uint64_t tick;

	for (tick = 10; tick <= 60; tick += 10)
		write_to(0, tick);
	for (tick = 35; tick < 35 + RING + 2; tick++)
		write_to(2, tick);
	/* 35 and 36 are lost, and so are 10, 20 and 30. */
	assert_events(0, 5, "6@37 7@38 8@39 9@40 10@40 11@41 12@42 13@43 14@44 15@50 16@60");
	/* What was cleared away is no loss: the ring has all since. */
	f.device[2].event_cleared = RING;
	assert_events(0, 0, "9@10 10@20 11@30 12@40 13@43 14@44 15@50 16@60");
}

/* Its oldest rows were overwritten while they were copied: it is complete from the next one on. */
CM_TEST_WITH(a_ring_that_was_overwritten_in_part_is_short, setup, NULL)
{
	write_to(0, 10);
	write_to(0, 40);
	write_to(2, 20);
	write_to(2, 30);
	write_to(2, 50);
	f.event[2 * RING].number = 0;
	/* 20 is lost, and so is 10. */
	assert_events(0, 2, "3@30 4@40 5@50");
}

/* What the other rings have ends before anything that is known of it. */
CM_TEST_WITH(a_ring_that_was_overwritten_whole_leaves_nothing, setup, NULL)
{
	write_to(0, 10);
	write_to(0, 40);
	write_to(2, 20);
	write_to(2, 30);
	f.event[2 * RING].number = f.event[2 * RING + 1].number = 0;
	assert_events(0, 4, "");
	/* What was cleared away is not missed. */
	f.device[2].event_cleared = 2;
	assert_events(0, 0, "3@10 4@40");
	write_to(1, 10);
	f.event[RING].number = 0;
	assert_events(1, 1, "");
}

CM_TEST_WITH(the_youngest_events_of_all_rings_are_shown, setup, NULL)
{
	uint64_t tick;

	for (tick = 10; tick <= 60; tick += 10)
		write_to(0, tick);
	for (tick = 45; tick <= 48; tick++)
		write_to(2, tick);
	write_to(3, 1);
	f.image.header.record.max_entries = 4;
	assert_events(0, 0, "8@47 9@48 10@50 11@60");
	f.image.header.record.max_entries = 100;
	assert_events(0, 0, "1@1 2@10 3@20 4@30 5@40 6@45 7@46 8@47 9@48 10@50 11@60");
}

CM_TEST_WITH(a_damaged_ring_is_left_out, setup, NULL)
{
	write_to(0, 10);
	write_to(2, 20);
	write_to(3, 30);
	f.device[2].event_next = UINT64_MAX;
	assert_events(0, 0, "1@10 2@30");
	f.device[2].event_next = 1;
	/* The table has no room for the last ring: the shard has not recorded. */
	f.image.table[CM_TABLE_EVENT].count--;
	assert_events(0, 0, "1@10 2@20");
	f.device[2].event_next = 0;
	f.device[0].event_cleared = UINT64_MAX;
	assert_events(0, 0, "");
	f.image.header.table[CM_TABLE_EVENT].ring = 0;
	assert_events(0, 0, "");
}

CM_TEST_WITH(pinned_memory_has_a_ring_of_its_own, setup, NULL)
{
	write_to(0, 10);
	write_event(f.host, &f.image.header.host.event_next, 15);
	write_event(f.host, &f.image.header.host.event_next, 16);
	assert_events(CM_DEVICE_NONE, 0, "1@15 2@16");
	assert_events(0, 0, "1@10");
}
