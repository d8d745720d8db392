/* SPDX-License-Identifier: MIT */
/*
 * Makes a region as a process would leave it, for testing the tool without the library:
 *
 *   make_region KIND DIR [PID]
 *
 * writes DIR/cudamem.<uid>.<PID>.<start> and prints its path. Without PID the region is this
 * process's own, which then answers commands until its standard input ends; but KIND "deaf" takes
 * none, "mute" takes them and never answers, and "dying" dies of the first one. The counters are
 * computed from the blocks, so that they balance.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stats/command_channel.h"
#include "stats/counters.h"
#include "stats/region.h"

#define MIB       UINT64_C(1048576)
#define GIB       (UINT64_C(1024) * MIB)
#define FAKE_TIME 4242 /* start time of a process that is not there */

struct piece {
	uint64_t size;
	enum cm_block_state state;
	uint64_t requested;
};

struct maker {
	struct cm_region *region;
	uint32_t segments;
	uint32_t blocks;
};

static void fail(const char *what)
{
	(void)fprintf(stderr, "make_region: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void set_text(char *to, size_t bytes, const char *text)
{
	(void)snprintf(to, bytes, "%s", text);
}

static void *row_at(struct maker *maker, enum cm_table table, uint32_t index)
{
	if (cm_region_commit(maker->region, table, index + 1))
		fail("no space");
	return cm_region_row(maker->region, table, index);
}

static struct cm_device_row *add_device(struct maker *maker, uint32_t index, const char *name,
					uint64_t total)
{
	struct cm_device_row *row = row_at(maker, CM_TABLE_DEVICE, index);
	size_t i;

	row->flags = CM_DEVICE_USED;
	row->ordinal = (int32_t)index;
	row->heaps = 1;
	for (i = 0; i < sizeof(row->uuid); i++)
		row->uuid[i] = (uint8_t)((size_t)index * 16 + i);
	(void)snprintf(row->name, sizeof(row->name), "%s", name);
	/* No machine has so many domains. */
	(void)snprintf(row->pci, sizeof(row->pci), "fffe:%02x:00.0", index + 1);
	row->total_bytes = total;
	row->max_split_size = -1;
	return row;
}

/* What the counters say when this block came into being, and what became of it. */
static void count_block(struct cm_device_row *row, enum cm_pool pool, const struct piece *piece)
{
	const int64_t size = (int64_t)piece->size, requested = (int64_t)piece->requested;

	if (piece->state == CM_BLOCK_FREE)
		return;
	cm_counters_alloc(row, pool, size, requested);
	if (piece->state == CM_BLOCK_PENDING)
		cm_counters_free(row, pool, size);
}

/* A segment that is tiled by `pieces`; a piece of size 0 ends them. */
static void add_segment(struct maker *maker, uint32_t device, bool small, uint64_t addr,
			const struct piece *pieces)
{
	struct cm_device_row *row = row_at(maker, CM_TABLE_DEVICE, device);
	const enum cm_pool pool = small ? CM_POOL_SMALL : CM_POOL_LARGE;
	const uint32_t index = ++maker->segments;
	struct cm_segment segment = {.addr = addr, .device = device, .heap = device};
	bool split = pieces[0].size && pieces[1].size;
	size_t i;

	segment.flags = CM_SEGMENT_USED | (small ? CM_SEGMENT_SMALL : 0);
	segment.first = maker->blocks + 1;
	for (i = 0; pieces[i].size; i++) {
		struct cm_block *block = row_at(maker, CM_TABLE_BLOCK, ++maker->blocks);

		block->addr = addr + segment.size;
		block->size = pieces[i].size;
		block->state = pieces[i].state;
		if (block->state != CM_BLOCK_FREE)
			block->requested = pieces[i].requested;
		block->segment = index;
		block->prev = i ? maker->blocks - 1 : 0;
		block->next = pieces[i + 1].size ? maker->blocks + 1 : 0;
		segment.size += block->size;
		segment.blocks++;
		count_block(row, pool, &pieces[i]);
		if (block->state == CM_BLOCK_FREE && split) {
			cm_counters_change(row, pool, CM_STAT_INACTIVE_SPLIT, 1);
			cm_counters_change(row, pool, CM_STAT_INACTIVE_SPLIT_BYTES,
					   (int64_t)block->size);
		}
	}
	cm_counters_raise(row, pool, CM_STAT_SEGMENT, 1);
	cm_counters_raise(row, pool, CM_STAT_RESERVED_BYTES, (int64_t)segment.size);
	cm_counters_count(row, CM_SCALAR_num_device_alloc, 1);
	memcpy(row_at(maker, CM_TABLE_SEGMENT, index), &segment, sizeof(segment));
}

/* Requests that came and went, so that sums differ from what is there now. */
static void add_traffic(struct cm_device_row *row, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		cm_counters_alloc(row, CM_POOL_LARGE, (int64_t)(32 * MIB), (int64_t)(31 * MIB));
		cm_counters_free(row, CM_POOL_LARGE, (int64_t)(32 * MIB));
		cm_counters_ready(row, CM_POOL_LARGE, 1, (int64_t)(32 * MIB), (int64_t)(31 * MIB));
	}
	cm_counters_count(row, CM_SCALAR_cache_hits, n);
	cm_counters_count(row, CM_SCALAR_cache_misses, row->scalar[CM_SCALAR_num_device_alloc]);
}

static void add_option(struct maker *maker, uint32_t index, const char *name, const char *value,
		       const char *fallback, const char *origin)
{
	struct cm_option_row *row = row_at(maker, CM_TABLE_OPTION, index);

	(void)snprintf(row->name, sizeof(row->name), "%s", name);
	(void)snprintf(row->value, sizeof(row->value), "%s", value);
	(void)snprintf(row->fallback, sizeof(row->fallback), "%s", fallback);
	(void)snprintf(row->origin, sizeof(row->origin), "%s", origin);
	(void)snprintf(row->help, sizeof(row->help), "what %s does", name);
}

static void add_host(struct cm_header *header)
{
	struct cm_host_row *host = &header->host;

	cm_stat4_raise(&host->allocated, 2);
	cm_stat4_raise(&host->allocated_bytes, (int64_t)(48 * MIB));
	cm_stat4_raise(&host->active, 2);
	cm_stat4_raise(&host->active_bytes, (int64_t)(48 * MIB));
	cm_stat4_raise(&host->segment, 3);
	cm_stat4_raise(&host->reserved_bytes, (int64_t)(64 * MIB));
	cm_stat4_raise(&host->registered, 2);
	cm_stat4_raise(&host->registered_bytes, (int64_t)(3 * MIB));
	host->alloc_time = (struct cm_duration){9000000, 5000000, 1000000, 3};
	host->num_host_alloc = 3;
}

/* Rings of 64 events, of which one has been filled twice; a few stacks. */
static void add_record(struct maker *maker)
{
	struct cm_header *header = maker->region->header;
	struct cm_record *record = &header->record;
	struct cm_device_row *row = cm_region_row(maker->region, CM_TABLE_DEVICE, 0);

	(void)row_at(maker, CM_TABLE_EVENT, 2 * header->table[CM_TABLE_EVENT].ring - 1);
	(void)row_at(maker, CM_TABLE_HOST_EVENT, header->table[CM_TABLE_HOST_EVENT].ring - 1);
	(void)row_at(maker, CM_TABLE_STACK, 999);
	(void)row_at(maker, CM_TABLE_TEXT, 99);
	(void)row_at(maker, CM_TABLE_MODULE, 2);
	row->event_next = 130;
	row->event_cleared = 2;
	row = cm_region_row(maker->region, CM_TABLE_DEVICE, 1);
	row->event_next = 7;
	header->host.event_next = 5;
	record->context = CM_CONTEXT_ALLOC;
	record->depth = 64;
	record->stack_words = 1000;
	record->text_bytes = 100;
	record->stacks_lost = 3;
}

/* Arrays that are there, managed memory that was, and nothing of the other kinds. */
static void add_others(struct cm_device_row *row)
{
	cm_stat4_raise(&row->other_count[CM_UNCACHED_ARRAY], 3);
	cm_stat4_raise(&row->other_bytes[CM_UNCACHED_ARRAY], (int64_t)(256 * MIB));
	cm_stat4_raise(&row->other_count[CM_UNCACHED_MANAGED], 1);
	cm_stat4_raise(&row->other_bytes[CM_UNCACHED_MANAGED], (int64_t)(12 * MIB));
	cm_stat4_lower(&row->other_count[CM_UNCACHED_MANAGED], 1);
	cm_stat4_lower(&row->other_bytes[CM_UNCACHED_MANAGED], (int64_t)(12 * MIB));
}

/* Two devices: one with all kinds of blocks, one nearly idle. */
static void fill(struct maker *maker)
{
	struct cm_device_row *row;

	add_option(maker, 0, "mode", "cache", "cache", "default");
	add_option(maker, 1, "max_split_size_mb", "512", "unlimited", "environment");
	row = add_device(maker, 0, "Test Device 80G", 80 * GIB);
	add_segment(maker, 0, true, UINT64_C(0x7f0000000000),
		    (struct piece[]){{512, CM_BLOCK_LIVE, 100},
				     {1536, CM_BLOCK_FREE, 0},
				     {MIB, CM_BLOCK_LIVE, MIB - 24},
				     {MIB - 2048, CM_BLOCK_FREE, 0},
				     {0}});
	add_segment(maker, 0, false, UINT64_C(0x7f1000000000),
		    (struct piece[]){{4 * GIB, CM_BLOCK_LIVE, 4 * GIB},
				     {GIB, CM_BLOCK_PENDING, GIB - 512},
				     {2 * GIB, CM_BLOCK_FREE, 0},
				     {GIB, CM_BLOCK_LIVE, GIB},
				     {0}});
	add_segment(maker, 0, false, UINT64_C(0x7f2000000000),
		    (struct piece[]){{512 * MIB, CM_BLOCK_FREE, 0}, {0}});
	add_others(row);
	row->free_bytes = 60 * GIB;
	row->free_seen_ns = 1;
	row->scalar[CM_SCALAR_num_ooms] = 1;
	row->scalar[CM_SCALAR_num_alloc_retries] = 2;
	row->scalar[CM_SCALAR_wait_ns] = 1840000;
	row->scalar[CM_SCALAR_peer_asks] = 1;
	row->scalar[CM_SCALAR_peer_bytes_got] = (int64_t)24 << 20;
	row->scalar[CM_SCALAR_peer_gives] = 2;
	row->scalar[CM_SCALAR_peer_bytes_given] = (int64_t)52 << 20;
	row->scalar[CM_SCALAR_decay_bytes] = (int64_t)1536 << 20;
	add_traffic(row, 1000);
	row = add_device(maker, 1, "Test Device 24G", 24 * GIB);
	add_segment(maker, 1, false, UINT64_C(0x7f8000000000),
		    (struct piece[]){{20 * MIB, CM_BLOCK_LIVE, 20 * MIB}, {0}});
	add_traffic(row, 3);
	add_host(maker->region->header);
	add_record(maker);
}

/* What a later version may do: longer rows, more tables, more counters. */
static void lengthen_rows(struct cm_header *header)
{
	struct cm_table_row *blocks = &header->table[CM_TABLE_BLOCK];

	header->minor = CM_LAYOUT_MINOR + 1;
	header->stat_count = CM_STAT_COUNT + 1;
	header->scalar_count = CM_SCALAR_COUNT + 3;
	blocks->stride = sizeof(struct cm_block) + 24;
	blocks->capacity /= 2;
	header->table[CM_TABLE_COUNT] = (struct cm_table_row){.offset = 12345, .stride = 1};
}

/* What a library has that was built before the last counters were added. */
static void shorten_rows(struct cm_header *header)
{
	header->stat_count = CM_STAT_COUNT - 1;
	header->scalar_count = CM_SCALAR_COUNT - 2;
}

#define CALLED_BY 30 /* texts, and a stack of two frames */
#define CALLED_IN 60
#define STACK     1

static void add_context(struct maker *maker, uint32_t index, uint32_t device, uint32_t flags)
{
	struct cm_heap_row *row = row_at(maker, CM_TABLE_HEAP, index);

	row->context = index + 1;
	row->device = device;
	row->flags = CM_HEAP_USED | flags;
}

static void add_cause(struct maker *maker, enum cm_cause cause, const char *by, uint32_t at)
{
	memcpy(cm_region_row(maker->region, CM_TABLE_TEXT, at), by, strlen(by) + 1);
	maker->region->header->record.cause[cause] = cm_cause_pack(at, STACK);
}

static void add_stack(struct maker *maker)
{
	static const char by[] = "register_buffer\ntransport.py", in[] = "main\ntrain.py";
	uint64_t *word = cm_region_row(maker->region, CM_TABLE_STACK, STACK);

	memcpy(cm_region_row(maker->region, CM_TABLE_TEXT, CALLED_BY), by, sizeof(by));
	memcpy(cm_region_row(maker->region, CM_TABLE_TEXT, CALLED_IN), in, sizeof(in));
	word[0] = cm_stack_word(2, 0, 0);
	word[1] = cm_frame_python(12, CALLED_BY);
	word[2] = cm_frame_python(31, CALLED_IN);
}

/* Services that were taken away. Returns whether the kind is one of these. */
static bool serve_less(struct maker *maker, const char *kind)
{
	struct cm_header *header = maker->region->header;
	struct cm_segment *segment = cm_region_row(maker->region, CM_TABLE_SEGMENT, 2);
	uint32_t i;

	if (!strcmp(kind, "served")) {
		add_stack(maker);
		add_context(maker, 0, 0, 0);
		add_context(maker, 1, 1, CM_HEAP_SHARED);
		add_context(maker, 2, 1, CM_HEAP_SHARED);
		add_option(maker, 2, "placement", "exact", "auto", "library");
		segment->flags |= CM_SEGMENT_NAMED;
		add_cause(maker, CM_CAUSE_NAMED, "ibv_reg_mr", 1);
		add_cause(maker, CM_CAUSE_PEERS, "cuCtxEnablePeerAccess", 75);
		add_cause(maker, CM_CAUSE_EXACT, "WORLD_SIZE", 14);
		header->record.cause[CM_CAUSE_EXACT] = cm_cause_pack(14, 0);
	} else if (!strcmp(kind, "stopped")) {
		add_stack(maker);
		add_context(maker, 0, 1, CM_HEAP_DRAINING);
		add_cause(maker, CM_CAUSE_STOPPED, "green contexts", 1);
	} else if (!strcmp(kind, "old-driver")) {
		add_context(maker, 0, 1, 0);
		header->driver_version = 12040;
	} else if (!strcmp(kind, "wild-causes")) {
		add_context(maker, 0, 1, CM_HEAP_SHARED);
		for (i = 0; i < CM_CAUSE_ROOM; i++)
			header->record.cause[i] = UINT64_MAX - i;
		header->record.cause[CM_CAUSE_STOPPED] = 0;
		header->record.cause[CM_CAUSE_CAPTURE] = 0;
		header->record.cause[CM_CAUSE_PEERS] = cm_cause_pack(99, 998);
		*(uint64_t *)cm_region_row(maker->region, CM_TABLE_STACK, 998) = UINT64_MAX;
		*(char *)cm_region_row(maker->region, CM_TABLE_TEXT, 99) = '\033';
	} else {
		return false;
	}
	return true;
}

static void spoil(struct maker *maker, const char *kind)
{
	struct cm_header *header = maker->region->header;
	struct cm_device_row *row = cm_region_row(maker->region, CM_TABLE_DEVICE, 0);
	struct cm_block *block = cm_region_row(maker->region, CM_TABLE_BLOCK, 2);
	uint32_t i;

	if (!strcmp(kind, "torn")) {
		row->seq |= 1;
	} else if (!strcmp(kind, "exited")) {
		header->state = CM_REGION_EXITED;
	} else if (!strcmp(kind, "other-major")) {
		header->major = CM_LAYOUT_MAJOR + 1;
	} else if (!strcmp(kind, "starting")) {
		header->magic = 0;
	} else if (!strcmp(kind, "wild-table")) {
		header->table[CM_TABLE_BLOCK].offset = UINT64_MAX - 100;
	} else if (!strcmp(kind, "hostile")) {
		set_text(header->cmdline, sizeof(header->cmdline),
			 "evil \033[31mred\007 \xff\xfe \"quoted\", $(x)");
		set_text(row->name, sizeof(row->name), "\033]0;title\007 name");
		row->total_bytes = UINT64_MAX;
		for (i = 0; i < CM_STAT_COUNT; i++)
			row->stat[CM_POOL_LARGE].current[i] = i % 2 ? INT64_MIN : INT64_MAX;
		row->scalar[CM_SCALAR_cache_hits] = INT64_MAX;
		row->scalar[CM_SCALAR_cache_misses] = INT64_MAX;
		block->next = 2; /* a ring */
		block->segment = UINT32_MAX;
	}
}

/* Gives the region the identity of a process that is not there. */
static void rename_region(struct cm_region *region, const char *dir, const char *pid)
{
	struct cm_header *header = region->header;
	char path[sizeof(region->path)] = "";

	header->pid = (uint32_t)strtoul(pid, NULL, 10);
	header->start_time = FAKE_TIME;
	header->flags |= CM_REGION_CONTROL;
	(void)snprintf(path, sizeof(path), "%s/" CM_REGION_PREFIX "%u.%s.%d", dir,
		       (unsigned)geteuid(), pid, FAKE_TIME);
	if (rename(region->path, path))
		fail(path);
	memcpy(region->path, path, sizeof(path));
}

/* The only segment that holds no live block goes back to the driver. */
static void trim(struct maker *maker)
{
	struct cm_device_row *row = cm_region_row(maker->region, CM_TABLE_DEVICE, 0);
	struct cm_segment *segment = cm_region_row(maker->region, CM_TABLE_SEGMENT, 3);

	if (!(segment->flags & CM_SEGMENT_USED))
		return;
	segment->flags = 0;
	cm_counters_lower(row, CM_POOL_LARGE, CM_STAT_SEGMENT, 1);
	cm_counters_lower(row, CM_POOL_LARGE, CM_STAT_RESERVED_BYTES, (int64_t)segment->size);
	cm_counters_count(row, CM_SCALAR_num_device_free, 1);
}

static void change_record(struct cm_header *header, const struct cm_command *command)
{
	struct cm_record *record = &header->record;

	if (command->arg[0] & CM_RECORD_SET_EVENTS)
		record->events = cm_record_packed_events(command->arg[1]);
	if (command->arg[0] & CM_RECORD_SET_EVENTS)
		record->devices = command->arg[3];
	if (command->arg[0] & CM_RECORD_SET_CONTEXT)
		record->context = cm_record_packed_context(command->arg[1]);
	if (command->arg[0] & CM_RECORD_SET_STACKS)
		record->stacks = cm_record_packed_stacks(command->arg[1]);
	if (command->arg[0] & CM_RECORD_SET_MAX_ENTRIES)
		record->max_entries = command->arg[2];
	if (command->arg[0] & CM_RECORD_CLEAR)
		header->host.event_cleared = header->host.event_next;
}

static void serve(struct maker *maker)
{
	struct cm_channel *channel = &maker->region->header->channel;
	struct cm_device_row *row;
	struct cm_command command;

	if (!cm_channel_take(channel, &command)) {
		cm_channel_wait(channel, 10);
		return;
	}
	row = cm_region_row(maker->region, CM_TABLE_DEVICE, (uint32_t)command.arg[0]);
	if (command.code == CM_COMMAND_RECORD)
		change_record(maker->region->header, &command);
	else if (command.code == CM_COMMAND_EMPTY_CACHE && command.arg[0] == 1)
		command.status = -EBUSY; /* as while a graph is captured */
	else if (command.code == CM_COMMAND_EMPTY_CACHE)
		trim(maker);
	else if (command.code == CM_COMMAND_RESET_PEAK)
		cm_counters_reset_peak(row);
	else if (command.code == CM_COMMAND_RESET_ACCUMULATED)
		cm_counters_reset_accumulated(row);
	(void)cm_channel_answer(channel, &command);
}

static bool input_has_ended(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

	return poll(&input, 1, 0) > 0 && getchar() == EOF;
}

static void live(struct maker *maker, const char *kind)
{
	const bool deaf = !strcmp(kind, "deaf"), mute = !strcmp(kind, "mute");
	const bool dying = !strcmp(kind, "dying");
	struct cm_command command;

	while (!input_has_ended()) {
		if (dying && cm_channel_take(&maker->region->header->channel, &command))
			(void)raise(SIGKILL);
		if (deaf || mute || dying)
			(void)poll(NULL, 0, 10);
		else
			serve(maker);
	}
	cm_region_remove(maker->region);
}

int main(int argc, char **argv)
{
	struct cm_region_params params = {.version = "0.1.0", .events = 64};
	struct maker maker = {0};

	if (argc < 3) {
		(void)fprintf(stderr, "usage: make_region KIND DIR [PID]\n");
		return 2;
	}
	params.dir = argv[2];
	if (cm_region_create(&params, &maker.region) || !maker.region->path[0])
		fail(argv[2]);
	set_text(maker.region->header->comm, sizeof(maker.region->header->comm), "train");
	set_text(maker.region->header->cmdline, sizeof(maker.region->header->cmdline),
		 "./train --config 7b.yaml");
	maker.region->header->state = CM_REGION_LIVE;
	if (!strcmp(argv[1], "future-minor"))
		lengthen_rows(maker.region->header);
	if (!strcmp(argv[1], "past-minor"))
		shorten_rows(maker.region->header);
	if (strcmp(argv[1], "empty"))
		fill(&maker);
	if (argc > 3)
		rename_region(maker.region, argv[2], argv[3]);
	if (!serve_less(&maker, argv[1]))
		spoil(&maker, argv[1]);
	if (!strcmp(argv[1], "truncated") &&
	    (chmod(maker.region->path, 0600) || truncate(maker.region->path, 100000)))
		fail("truncate");
	if (argc <= 3 && strcmp(argv[1], "deaf"))
		maker.region->header->flags |= CM_REGION_CONTROL;
	(void)printf("%s\n", maker.region->path);
	(void)fflush(stdout);
	if (argc <= 3)
		live(&maker, argv[1]);
	cm_region_abandon(maker.region);
	return 0;
}
