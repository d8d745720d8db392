/* SPDX-License-Identifier: MIT */
/*
 * The layout is an ABI between builds of different age: what stands here was released. A change to
 * a number that is here is a new CM_LAYOUT_MAJOR; a row or a value that is added at the end of its
 * group is a new CM_LAYOUT_MINOR and a new line here.
 */
#include "stats/layout.h"

#include <stddef.h>
#include <string.h>

#include "tests/unit/cmocka_all.h"

struct pin {
	const char *what;
	size_t is, is_bytes;
	size_t want, want_bytes;
};

/* clang-format off */
#define FIELD(object, field, offset, bytes) \
	{#object "." #field, offsetof(struct object, field), \
	 sizeof(((struct object *)0)->field), offset, bytes}
#define SIZE(object, bytes) {#object, sizeof(struct object), 0, bytes, 0}

static const struct pin pins[] = {
	SIZE(cm_stat4, 32),
	FIELD(cm_stat4, current, 0, 8),
	FIELD(cm_stat4, peak, 8, 8),
	FIELD(cm_stat4, allocated, 16, 8),
	FIELD(cm_stat4, freed, 24, 8),
	SIZE(cm_stat_pool, 512),
	FIELD(cm_stat_pool, current, 0, 128),
	FIELD(cm_stat_pool, peak, 128, 128),
	FIELD(cm_stat_pool, freed, 256, 128),
	FIELD(cm_stat_pool, base, 384, 128),
	SIZE(cm_device_row, 3128),
	FIELD(cm_device_row, seq, 0, 4),
	FIELD(cm_device_row, flags, 4, 4),
	FIELD(cm_device_row, ordinal, 8, 4),
	FIELD(cm_device_row, heaps, 12, 4),
	FIELD(cm_device_row, uuid, 16, 16),
	FIELD(cm_device_row, name, 32, 64),
	FIELD(cm_device_row, total_bytes, 96, 8),
	FIELD(cm_device_row, free_bytes, 104, 8),
	FIELD(cm_device_row, free_seen_ns, 112, 8),
	FIELD(cm_device_row, max_split_size, 120, 8),
	FIELD(cm_device_row, allowed_bytes, 128, 8),
	FIELD(cm_device_row, event_next, 136, 8),
	FIELD(cm_device_row, event_cleared, 144, 8),
	FIELD(cm_device_row, pci, 152, 24),
	FIELD(cm_device_row, stat, 176, 1536),
	FIELD(cm_device_row, stat1, 1712, 128),
	FIELD(cm_device_row, scalar, 1840, 512),
	FIELD(cm_device_row, other_bytes, 2352, 384),
	FIELD(cm_device_row, other_count, 2736, 384),
	FIELD(cm_device_row, first_shard, 3120, 4),
	FIELD(cm_device_row, stops, 3124, 4),
	SIZE(cm_duration, 32),
	FIELD(cm_duration, total_ns, 0, 8),
	FIELD(cm_duration, max_ns, 8, 8),
	FIELD(cm_duration, min_ns, 16, 8),
	FIELD(cm_duration, count, 24, 8),
	SIZE(cm_host_row, 392),
	FIELD(cm_host_row, seq, 0, 4),
	FIELD(cm_host_row, flags, 4, 4),
	FIELD(cm_host_row, allocated, 8, 32),
	FIELD(cm_host_row, allocated_bytes, 40, 32),
	FIELD(cm_host_row, active, 72, 32),
	FIELD(cm_host_row, active_bytes, 104, 32),
	FIELD(cm_host_row, segment, 136, 32),
	FIELD(cm_host_row, reserved_bytes, 168, 32),
	FIELD(cm_host_row, registered, 200, 32),
	FIELD(cm_host_row, registered_bytes, 232, 32),
	FIELD(cm_host_row, alloc_time, 264, 32),
	FIELD(cm_host_row, free_time, 296, 32),
	FIELD(cm_host_row, num_host_alloc, 328, 8),
	FIELD(cm_host_row, num_host_free, 336, 8),
	FIELD(cm_host_row, cache_hits, 344, 8),
	FIELD(cm_host_row, event_next, 352, 8),
	FIELD(cm_host_row, event_cleared, 360, 8),
	FIELD(cm_host_row, num_host_ooms, 368, 8),
	FIELD(cm_host_row, reserved, 376, 16),
	SIZE(cm_block, 64),
	FIELD(cm_block, addr, 0, 8),
	FIELD(cm_block, size, 8, 8),
	FIELD(cm_block, requested, 16, 8),
	FIELD(cm_block, aged, 16, 8),
	FIELD(cm_block, prev, 24, 4),
	FIELD(cm_block, next, 28, 4),
	FIELD(cm_block, segment, 32, 4),
	FIELD(cm_block, link_prev, 36, 4),
	FIELD(cm_block, link_next, 40, 4),
	FIELD(cm_block, stack, 44, 4),
	FIELD(cm_block, state, 48, 4),
	FIELD(cm_block, age, 52, 4),
	FIELD(cm_block, free_stack, 52, 4),
	FIELD(cm_block, tick, 56, 8),
	FIELD(cm_block, freed, 56, 8),
	SIZE(cm_segment, 64),
	FIELD(cm_segment, addr, 0, 8),
	FIELD(cm_segment, size, 8, 8),
	FIELD(cm_segment, context, 16, 8),
	FIELD(cm_segment, heap, 24, 4),
	FIELD(cm_segment, device, 28, 4),
	FIELD(cm_segment, first, 32, 4),
	FIELD(cm_segment, blocks, 36, 4),
	FIELD(cm_segment, flags, 40, 4),
	FIELD(cm_segment, stack, 44, 4),
	FIELD(cm_segment, tick, 48, 8),
	FIELD(cm_segment, busy, 56, 4),
	FIELD(cm_segment, reserved, 60, 4),
	SIZE(cm_heap_row, 72),
	FIELD(cm_heap_row, context, 0, 8),
	FIELD(cm_heap_row, context_id, 8, 8),
	FIELD(cm_heap_row, device, 16, 4),
	FIELD(cm_heap_row, flags, 20, 4),
	FIELD(cm_heap_row, pending_bytes, 24, 8),
	FIELD(cm_heap_row, pending_blocks, 32, 8),
	FIELD(cm_heap_row, epoch_open, 40, 8),
	FIELD(cm_heap_row, epoch_ready, 48, 8),
	FIELD(cm_heap_row, reserved, 56, 16),
	SIZE(cm_event, 48),
	FIELD(cm_event, number, 0, 8),
	FIELD(cm_event, tick, 8, 8),
	FIELD(cm_event, addr, 16, 8),
	FIELD(cm_event, size, 24, 8),
	FIELD(cm_event, thread, 32, 4),
	FIELD(cm_event, stack, 36, 4),
	FIELD(cm_event, action, 40, 1),
	FIELD(cm_event, pool, 41, 1),
	FIELD(cm_event, heap, 42, 2),
	FIELD(cm_event, annotation, 44, 4),
	SIZE(cm_option_row, 384),
	FIELD(cm_option_row, name, 0, 48),
	FIELD(cm_option_row, value, 48, 64),
	FIELD(cm_option_row, fallback, 112, 64),
	FIELD(cm_option_row, origin, 176, 16),
	FIELD(cm_option_row, help, 192, 192),
	SIZE(cm_module, 64),
	FIELD(cm_module, start, 0, 8),
	FIELD(cm_module, end, 8, 8),
	FIELD(cm_module, bias, 16, 8),
	FIELD(cm_module, build_id, 24, 20),
	FIELD(cm_module, build_id_bytes, 44, 4),
	FIELD(cm_module, path, 48, 4),
	FIELD(cm_module, flags, 52, 4),
	FIELD(cm_module, first, 56, 4),
	FIELD(cm_module, last, 60, 4),
	SIZE(cm_record, 144),
	FIELD(cm_record, events, 0, 4),
	FIELD(cm_record, context, 4, 4),
	FIELD(cm_record, stacks, 8, 4),
	FIELD(cm_record, depth, 12, 4),
	FIELD(cm_record, max_entries, 16, 8),
	FIELD(cm_record, stack_words, 24, 8),
	FIELD(cm_record, text_bytes, 32, 8),
	FIELD(cm_record, stack_count, 40, 8),
	FIELD(cm_record, stacks_lost, 48, 8),
	FIELD(cm_record, texts_lost, 56, 8),
	FIELD(cm_record, modules_lost, 64, 8),
	FIELD(cm_record, generation, 72, 4),
	FIELD(cm_record, python, 76, 2),
	FIELD(cm_record, python_minor, 78, 2),
	FIELD(cm_record, devices, 80, 8),
	FIELD(cm_record, cause, 88, 56),
	SIZE(cm_saved, 128),
	FIELD(cm_saved, time_ns, 0, 8),
	FIELD(cm_saved, hold_ns, 8, 8),
	FIELD(cm_saved, moment, 16, 4),
	FIELD(cm_saved, reason, 20, 4),
	FIELD(cm_saved, life, 24, 4),
	FIELD(cm_saved, named, 28, 4),
	FIELD(cm_saved, tool, 32, 32),
	SIZE(cm_site, 24),
	FIELD(cm_site, address, 0, 8),
	FIELD(cm_site, generation, 8, 4),
	FIELD(cm_site, first, 12, 4),
	FIELD(cm_site, count, 16, 4),
	SIZE(cm_frame, 16),
	FIELD(cm_frame, function, 0, 4),
	FIELD(cm_frame, file, 4, 4),
	FIELD(cm_frame, line, 8, 4),
	SIZE(cm_channel, 104),
	FIELD(cm_channel, state, 0, 4),
	FIELD(cm_channel, command, 4, 4),
	FIELD(cm_channel, status, 8, 4),
	FIELD(cm_channel, sender, 12, 4),
	FIELD(cm_channel, sender_start, 16, 8),
	FIELD(cm_channel, arg, 24, 32),
	FIELD(cm_channel, result, 56, 32),
	FIELD(cm_channel, hold, 88, 4),
	FIELD(cm_channel, ooms, 92, 4),
	FIELD(cm_channel, ooms_seen, 96, 4),
	FIELD(cm_channel, reserved, 100, 4),
	SIZE(cm_table_row, 24),
	FIELD(cm_table_row, offset, 0, 8),
	FIELD(cm_table_row, stride, 8, 4),
	FIELD(cm_table_row, capacity, 12, 4),
	FIELD(cm_table_row, rows, 16, 4),
	FIELD(cm_table_row, ring, 20, 4),
	SIZE(cm_header, 8192),
	FIELD(cm_header, magic, 0, 8),
	FIELD(cm_header, major, 8, 2),
	FIELD(cm_header, minor, 10, 2),
	FIELD(cm_header, header_bytes, 12, 4),
	FIELD(cm_header, file_bytes, 16, 8),
	FIELD(cm_header, stat_count, 24, 4),
	FIELD(cm_header, stat1_count, 28, 4),
	FIELD(cm_header, scalar_count, 32, 4),
	FIELD(cm_header, other_count, 36, 4),
	FIELD(cm_header, pid, 40, 4),
	FIELD(cm_header, uid, 44, 4),
	FIELD(cm_header, start_time, 48, 8),
	FIELD(cm_header, pid_namespace, 56, 8),
	FIELD(cm_header, state, 64, 4),
	FIELD(cm_header, flags, 68, 4),
	FIELD(cm_header, tick_base, 72, 8),
	FIELD(cm_header, time_base_ns, 80, 8),
	FIELD(cm_header, tick_last, 88, 8),
	FIELD(cm_header, time_last_ns, 96, 8),
	FIELD(cm_header, driver_version, 104, 8),
	FIELD(cm_header, version, 112, 32),
	FIELD(cm_header, comm, 144, 64),
	FIELD(cm_header, cmdline, 208, 512),
	FIELD(cm_header, entry_point, 720, 128),
	FIELD(cm_header, table, 848, 384),
	FIELD(cm_header, host, 1232, 392),
	FIELD(cm_header, record, 1624, 144),
	FIELD(cm_header, channel, 4096, 104),
	FIELD(cm_header, pad, 4200, 3992),
};
/* clang-format on */

CM_TEST(every_field_stands_where_it_was)
{
	size_t i;

	for (i = 0; i < sizeof(pins) / sizeof(pins[0]); i++)
		if (pins[i].is != pins[i].want || pins[i].is_bytes != pins[i].want_bytes)
			fail_msg("%s: %zu, %zu bytes; was %zu, %zu bytes", pins[i].what, pins[i].is,
				 pins[i].is_bytes, pins[i].want, pins[i].want_bytes);
}

CM_TEST(a_device_row_fits_its_page)
{
	assert_true(sizeof(struct cm_device_row) <= 4096);
	assert_int_equal(sizeof(struct cm_header) % 4096, 0);
	assert_true(CM_STAT_COUNT <= CM_STAT_ROOM && CM_STAT1_COUNT <= CM_STAT1_ROOM &&
		    CM_SCALAR_COUNT <= CM_SCALAR_ROOM && CM_UNCACHED_COUNT <= CM_UNCACHED_ROOM &&
		    CM_TABLE_COUNT <= CM_TABLE_ROOM && CM_ENTRY_COUNT <= CM_ENTRY_ROOM);
}

struct value {
	const char *what;
	uint64_t is;
	uint64_t want;
};

/* clang-format off */
#define VALUE(name, number) {#name, name, number}
/* clang-format on */

static const struct value values[] = {
	VALUE(CM_LAYOUT_MAGIC, 0x006d656d61647563),
	VALUE(CM_LAYOUT_MAJOR, 2),
	VALUE(CM_LAYOUT_MINOR, 0),
	VALUE(CM_POOL_ALL, 0),
	VALUE(CM_POOL_SMALL, 1),
	VALUE(CM_POOL_LARGE, 2),
	VALUE(CM_UNCACHED_MANAGED, 0),
	VALUE(CM_UNCACHED_PITCH, 1),
	VALUE(CM_UNCACHED_ARRAY, 2),
	VALUE(CM_UNCACHED_ASYNC, 3),
	VALUE(CM_UNCACHED_VMM, 4),
	VALUE(CM_UNCACHED_FORWARDED, 5),
	VALUE(CM_BLOCK_NONE, 0),
	VALUE(CM_BLOCK_LIVE, 1),
	VALUE(CM_BLOCK_PENDING, 2),
	VALUE(CM_BLOCK_FREE, 3),
	VALUE(CM_ACTION_NONE, 0),
	VALUE(CM_ACTION_ALLOC, 1),
	VALUE(CM_ACTION_FREE_REQUESTED, 2),
	VALUE(CM_ACTION_FREE_COMPLETED, 3),
	VALUE(CM_ACTION_SEGMENT_ALLOC, 4),
	VALUE(CM_ACTION_SEGMENT_FREE, 5),
	VALUE(CM_ACTION_SEGMENT_MAP, 6),
	VALUE(CM_ACTION_SEGMENT_UNMAP, 7),
	VALUE(CM_ACTION_OOM, 8),
	VALUE(CM_ACTION_SNAPSHOT, 9),
	VALUE(CM_ACTION_OUTSIDE_ALLOC, 10),
	VALUE(CM_ACTION_OUTSIDE_FREE, 11),
	VALUE(CM_ACTION_OUTSIDE_OOM, 12),
	VALUE(CM_ACTION_FREES_COMPLETED, 13),
	VALUE(CM_COMMAND_NONE, 0),
	VALUE(CM_COMMAND_EMPTY_CACHE, 1),
	VALUE(CM_COMMAND_RESET_PEAK, 2),
	VALUE(CM_COMMAND_RESET_ACCUMULATED, 3),
	VALUE(CM_COMMAND_RECORD, 4),
	VALUE(CM_COMMAND_CHECKPOINT, 5),
	VALUE(CM_COMMAND_SNAPSHOT, 6),
	VALUE(CM_COMMAND_GIVE_BACK, 7),
	VALUE(CM_COMMAND_CONFIGURE, 8),
	VALUE(CM_RECORD_SET_EVENTS, 1),
	VALUE(CM_RECORD_SET_CONTEXT, 2),
	VALUE(CM_RECORD_SET_STACKS, 4),
	VALUE(CM_RECORD_SET_MAX_ENTRIES, 8),
	VALUE(CM_RECORD_CLEAR, 16),
	VALUE(CM_CONTEXT_NONE, 0),
	VALUE(CM_CONTEXT_STATE, 1),
	VALUE(CM_CONTEXT_ALLOC, 2),
	VALUE(CM_CONTEXT_ALL, 3),
	VALUE(CM_STACKS_ALL, 0),
	VALUE(CM_STACKS_PYTHON, 1),
	VALUE(CM_PYTHON_NONE, 0),
	VALUE(CM_PYTHON_UNCHECKED, 1),
	VALUE(CM_PYTHON_CHECKED, 2),
	VALUE(CM_PYTHON_FREE_THREADED, 3),
	VALUE(CM_PYTHON_UNKNOWN, 4),
	VALUE(CM_PYTHON_DIFFERS, 5),
	VALUE(CM_STACK_CUT, 1),
	VALUE(CM_STACK_FRAMES_MAX, 1024),
	VALUE(CM_FRAME_PYTHON, UINT64_C(1) << 63),
	VALUE(CM_MODULE_UNLOADED, 1),
	VALUE(CM_MODULE_EXECUTABLE, 2),
	VALUE(CM_HOLD_NONE, 0),
	VALUE(CM_HOLD_HELD, 1),
	VALUE(CM_HOLD_COPIED, 2),
	VALUE(CM_HOLD_ENDED, 3),
	VALUE(CM_CHANNEL_IDLE, 0),
	VALUE(CM_CHANNEL_CLAIMED, 1),
	VALUE(CM_CHANNEL_POSTED, 2),
	VALUE(CM_CHANNEL_RUNNING, 3),
	VALUE(CM_CHANNEL_DONE, 4),
	VALUE(CM_TABLE_OPTION, 0),
	VALUE(CM_TABLE_DEVICE, 1),
	VALUE(CM_TABLE_HEAP, 2),
	VALUE(CM_TABLE_SEGMENT, 3),
	VALUE(CM_TABLE_BLOCK, 4),
	VALUE(CM_TABLE_MODULE, 5),
	VALUE(CM_TABLE_STACK, 6),
	VALUE(CM_TABLE_EVENT, 7),
	VALUE(CM_TABLE_HOST_EVENT, 8),
	VALUE(CM_TABLE_TEXT, 9),
	VALUE(CM_TABLE_SAVED, 10),
	VALUE(CM_TABLE_SITE, 11),
	VALUE(CM_TABLE_FRAME, 12),
	VALUE(CM_TABLE_NAME, 13),
	VALUE(CM_REGION_SAVED, 3),
	VALUE(CM_MOMENT_TORN, 2),
	VALUE(CM_REASON_EXIT, 3),
	VALUE(CM_REGION_STARTING, 0),
	VALUE(CM_REGION_LIVE, 1),
	VALUE(CM_REGION_EXITED, 2),
	VALUE(CM_ENTRY_SYMBOL, 0),
	VALUE(CM_ENTRY_DLSYM, 1),
	VALUE(CM_ENTRY_GETPROC, 2),
	VALUE(CM_ENTRY_UNCOVERED, 3),
	VALUE(CM_ENTRY_CONFIG_ERRORS, 4),
	VALUE(CM_DEVICES_MAX, 64),
	VALUE(CM_DEVICE_NONE, 4294967295u),
	VALUE(CM_DEVICE_USED, 1),
	VALUE(CM_DEVICE_SIMULATED, 2),
	VALUE(CM_SEGMENT_USED, 1),
	VALUE(CM_SEGMENT_SMALL, 2),
	VALUE(CM_SEGMENT_EXPORTED, 4),
	VALUE(CM_SEGMENT_EXACT, 8),
	VALUE(CM_SEGMENT_HOST, 16),
	VALUE(CM_SEGMENT_DIRECT, 32),
	VALUE(CM_SEGMENT_REGISTERED, 64),
	VALUE(CM_SEGMENT_KIND_SHIFT, 8),
	VALUE(CM_HEAP_USED, 1),
	VALUE(CM_HEAP_DRAINING, 2),
	VALUE(CM_HEAP_SHARED, 4),
	VALUE(CM_HEAP_NAMED, 8),
	VALUE(CM_REGION_CONTROL, 1),
	VALUE(CM_REGION_UNREMOVED, 2),
	VALUE(CM_REGION_FOUND_DEAD, 4),
};

CM_TEST(every_value_means_what_it_meant)
{
	size_t i;

	for (i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		if (values[i].is != values[i].want)
			fail_msg("%s is %llu, was %llu", values[i].what,
				 (unsigned long long)values[i].is,
				 (unsigned long long)values[i].want);
	assert_memory_equal(&values[0].is, "cudamem", 8);
}

/* A stack's first word, a Python frame, and a command's arguments: bits are an ABI as well. */
CM_TEST(every_bit_means_what_it_meant)
{
	const uint64_t word = cm_stack_word(0x1234, CM_STACK_CUT, 0xdeadbeef);
	const uint64_t frame = cm_frame_python(CM_FRAME_LINE_MAX, 0xcafe);

	assert_true(word == UINT64_C(0xdeadbeef00011234));
	assert_int_equal(cm_stack_frames(word), 0x1234);
	assert_int_equal(cm_stack_generation(word), 0xdeadbeef);
	assert_int_equal(cm_stack_flags(word), CM_STACK_CUT);
	assert_true(frame == UINT64_C(0xffffffff0000cafe));
	assert_int_equal(cm_frame_line(frame), INT32_MAX);
	assert_int_equal(cm_frame_text(frame), 0xcafe);
	assert_true(cm_record_pack(1, CM_CONTEXT_ALL, CM_STACKS_PYTHON) == 0x010301);
}

CM_TEST(the_oldest_event_follows_from_the_numbers)
{
	static const struct {
		uint64_t next, cleared;
		uint32_t ring;
		uint64_t max_entries, want;
	} cases[] = {
		{0, 0, 8, UINT64_MAX, 1}, {8, 0, 8, UINT64_MAX, 1},  {9, 0, 8, UINT64_MAX, 2},
		{9, 5, 8, UINT64_MAX, 6}, {9, 9, 8, UINT64_MAX, 10}, {9, 0, 8, 3, 7},
		{9, 0, 8, 0, 10},         {9, 0, 0, UINT64_MAX, 10}, {9, 77, 8, UINT64_MAX, 10},
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (cm_event_first(cases[i].next, cases[i].cleared, cases[i].ring,
				   cases[i].max_entries) != cases[i].want)
			fail_msg("case %zu", i);
}

/* Readers of another age know a counter by its place. */
CM_TEST(counters_stand_in_their_order)
{
	static const char *const is[] = {
#define CM_STAT(ENUM, returned, documented, unit, help) returned,
#define CM_STAT1(ENUM, name, unit, help)                name,
#define CM_SCALAR(field, pytorch, help)                 #field,
#include "stats/counters.def"
	};
	static const char *const want[] = {
		"allocation",
		"allocated_bytes",
		"active",
		"active_bytes",
		"requested_bytes",
		"segment",
		"reserved_bytes",
		"inactive_split",
		"inactive_split_bytes",
		"oversize_allocations",
		"oversize_segments",
		"num_alloc_retries",
		"num_ooms",
		"num_sync_all_streams",
		"num_device_alloc",
		"num_device_free",
		"num_oom_rejections",
		"cache_hits",
		"cache_misses",
		"epochs_closed",
		"epochs_ready",
		"event_queries",
		"barriers",
		"waits",
		"wait_ns",
		"driver_alloc_ns",
		"driver_free_ns",
		"forwarded_allocs",
		"forwarded_frees",
		"trims",
		"gc_bytes",
		"peer_asks",
		"peer_bytes_got",
		"peer_gives",
		"peer_bytes_given",
		"decay_bytes",
		"exchange_bytes",
		"uncached_ooms",
	};
	size_t i;

	for (i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		if (i >= sizeof(is) / sizeof(is[0]) || strcmp(is[i], want[i]) != 0)
			fail_msg("counter %zu is %s, was %s", i,
				 i < sizeof(is) / sizeof(is[0]) ? is[i] : "none", want[i]);
	assert_int_equal(sizeof(is), sizeof(want));
}
