/* SPDX-License-Identifier: MIT */
#include "tools/snapshot/image.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "stats/command_client.h"
#include "stats/tick.h"
#include "tools/output/text.h"

#define STILL_TRIES 3
#define HOLD_TRIES  5
/* Rows that may be added between reading the size of a table and copying it; 256 times more at each
 * try. */
#define MORE_ROWS  4096
#define ROOM_TRIES 3
/* So much memory for rows that may be added is filled in advance, at most: the capacity of a table
 * is foreign data. */
#define FILLED_MOST (UINT64_C(128) << 20)
#define TEN_MS      UINT64_C(10000000)
/* An error of 5 us in a pause of 5 ms is one in a thousand. */
#define FIVE_US     5000
#define CLOCK_TRIES 1000

static const size_t row_bytes[CM_TABLE_COUNT] = {
	[CM_TABLE_OPTION] = sizeof(struct cm_option_row),
	[CM_TABLE_DEVICE] = sizeof(struct cm_device_row),
	[CM_TABLE_HEAP] = sizeof(struct cm_heap_row),
	[CM_TABLE_SEGMENT] = sizeof(struct cm_segment),
	[CM_TABLE_BLOCK] = sizeof(struct cm_block),
	[CM_TABLE_MODULE] = sizeof(struct cm_module),
	[CM_TABLE_STACK] = sizeof(uint64_t),
	[CM_TABLE_EVENT] = sizeof(struct cm_event),
	[CM_TABLE_HOST_EVENT] = sizeof(struct cm_event),
	[CM_TABLE_TEXT] = 1,
	[CM_TABLE_SAVED] = sizeof(struct cm_saved),
	[CM_TABLE_SITE] = sizeof(struct cm_site),
	[CM_TABLE_FRAME] = sizeof(struct cm_frame),
	[CM_TABLE_NAME] = 1,
};

/* The tables that must be of one moment. */
static const enum cm_table core[] = {CM_TABLE_DEVICE, CM_TABLE_HEAP, CM_TABLE_SEGMENT,
				     CM_TABLE_BLOCK};
/* The rings come before the rest: a busy process overwrites their oldest rows. */
static const enum cm_table rings[] = {CM_TABLE_EVENT, CM_TABLE_HOST_EVENT};
static const enum cm_table rest[] = {CM_TABLE_OPTION, CM_TABLE_STACK, CM_TABLE_TEXT,
				     CM_TABLE_MODULE, CM_TABLE_SAVED, CM_TABLE_SITE,
				     CM_TABLE_FRAME,  CM_TABLE_NAME};
#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

size_t cm_image_row_bytes(enum cm_table table)
{
	return row_bytes[table];
}

/* The block table of a running process, without rows that are added later; see map_blocks(). */
struct mapped {
	void *map; /* NULL: not mapped */
	size_t bytes;
	const char *from;
	uint64_t offset; /* of the table */
	uint32_t rows;
};

/* A copy in progress. */
struct copy {
	struct cm_reader *reader;
	struct cm_image *image;
	uint32_t room[CM_TABLE_COUNT]; /* rows for which memory is allocated */
	struct mapped mapped;
	int err;
};

static int make_room(struct copy *copy, enum cm_table table, uint32_t more)
{
	const struct cm_table_row *row = &copy->reader->header.table[table];
	const uint32_t rows = more < row->capacity - row->rows ? row->rows + more : row->capacity;
	const uint64_t bytes = (uint64_t)rows * row_bytes[table];
	const uint64_t fill = (uint64_t)row->rows * row_bytes[table] + FILLED_MOST;

	free(copy->image->table[table].rows);
	copy->image->table[table].rows = bytes ? malloc(bytes) : NULL;
	copy->room[table] = rows;
	if (bytes && !copy->image->table[table].rows)
		return -ENOMEM;
	/* Fault the pages in now, not while the process holds still. */
	if (bytes && more)
		memset(copy->image->table[table].rows, 0, bytes < fill ? bytes : fill);
	return 0;
}

static sigjmp_buf way_out;

static void leave(int number)
{
	(void)number;
	siglongjmp(way_out, 1);
}

/* False: the file was truncated meanwhile. */
static bool copy_mapped(void *to, const void *from, size_t bytes)
{
	const struct sigaction action = {.sa_handler = leave};
	struct sigaction before;
	volatile bool whole = false;

	if (sigaction(SIGBUS, &action, &before))
		return false;
	if (!sigsetjmp(way_out, 1)) {
		memcpy(to, from, bytes);
		whole = true;
	}
	(void)sigaction(SIGBUS, &before, NULL);
	return whole;
}

/*
 * Maps the block table, by far the largest, before the process holds still: a copy from a mapping
 * takes a third of the time of pread(). If the file shrinks, SIGBUS results, which copy_mapped()
 * handles.
 */
static void map_blocks(struct copy *copy)
{
	const struct cm_table_row *table = &copy->reader->header.table[CM_TABLE_BLOCK];
	const uint64_t within = table->offset & ((uint64_t)sysconf(_SC_PAGESIZE) - 1);
	const size_t bytes = (size_t)table->rows * table->stride + within;
	void *map;

	/* cm_reader_read() converts rows of another size. */
	if (!table->rows || table->stride != row_bytes[CM_TABLE_BLOCK])
		return;
	map = mmap(NULL, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, copy->reader->fd,
		   (off_t)(table->offset - within));
	if (map == MAP_FAILED)
		return;
	copy->mapped = (struct mapped){map, bytes, (const char *)map + within, table->offset,
				       table->rows};
}

static void unmap_blocks(struct copy *copy)
{
	if (copy->mapped.map)
		(void)munmap(copy->mapped.map, copy->mapped.bytes);
	copy->mapped.map = NULL;
}

/* Copies rows from the mapping. Returns their number; 0 if the table is not mapped. */
static uint32_t read_mapped(struct copy *copy, enum cm_table table, uint32_t rows, void *to)
{
	const struct mapped *mapped = &copy->mapped;

	if (!rows || table != CM_TABLE_BLOCK || !mapped->map ||
	    copy->reader->header.table[table].offset != mapped->offset)
		return 0;
	if (rows > mapped->rows)
		rows = mapped->rows;
	return copy_mapped(to, mapped->from, (size_t)rows * row_bytes[table]) ? rows : 0;
}

/* -EAGAIN: the table has outgrown the memory allocated for it. */
static int read_table(struct copy *copy, enum cm_table table)
{
	struct cm_image_table *to = &copy->image->table[table];
	const uint32_t rows = copy->reader->header.table[table].rows;
	uint32_t done;

	if (rows > copy->room[table])
		return -EAGAIN;
	to->count = rows;
	done = read_mapped(copy, table, rows, to->rows);
	if (done == rows)
		return 0;
	return cm_reader_read(copy->reader, table, done, rows - done,
			      (char *)to->rows + (size_t)done * row_bytes[table], row_bytes[table]);
}

/* Copies the tables that must be of one moment. */
static void read_core(void *data)
{
	struct copy *copy = data;
	size_t i;

	copy->err = cm_reader_refresh(copy->reader);
	for (i = 0; i < COUNT_OF(core) && !copy->err; i++)
		copy->err = read_table(copy, core[i]);
	copy->image->header = copy->reader->header;
}

/* The sequence numbers of all counters. If nothing changed they are even and equal before and
 * after. */
struct numbers {
	uint32_t seq[CM_DEVICES_MAX + 1];
	uint32_t count;
};

static int read_numbers(struct cm_reader *reader, struct numbers *ret_numbers)
{
	const uint32_t rows = reader->header.table[CM_TABLE_DEVICE].rows;
	struct numbers numbers = {0};
	uint32_t i;
	int err;

	for (i = 0; i < rows && i < CM_DEVICES_MAX; i++) {
		/* The number is the first word of its row. */
		err = cm_reader_read(reader, CM_TABLE_DEVICE, i, 1, &numbers.seq[i],
				     sizeof(numbers.seq[i]));
		if (err)
			return err;
	}
	if (pread(reader->fd, &numbers.seq[CM_DEVICES_MAX], sizeof(numbers.seq[0]),
		  (off_t)offsetof(struct cm_header, host.seq)) != sizeof(numbers.seq[0]))
		return -EIO;
	numbers.count = rows;
	*ret_numbers = numbers;
	return 0;
}

static bool are_even(const struct numbers *numbers)
{
	size_t i;

	for (i = 0; i < COUNT_OF(numbers->seq); i++)
		if (numbers->seq[i] & 1)
			return false;
	return true;
}

/*
 * Copies without the help of the process. 1: something changed meanwhile. The sequence numbers do
 * not show an unfinished change that has written rows but no counters yet;
 * tools/snapshot/consistent.h finds that.
 */
static int read_still(struct copy *copy)
{
	struct numbers before, after;
	int err;

	err = read_numbers(copy->reader, &before);
	if (err)
		return err;
	read_core(copy);
	err = copy->err ? copy->err : read_numbers(copy->reader, &after);
	if (err)
		return err;
	return memcmp(&before, &after, sizeof(before)) || !are_even(&before);
}

static int read_held(struct copy *copy, uint64_t timeout_ns)
{
	int err, i;

	for (i = 0; i < HOLD_TRIES; i++) {
		err = cm_client_hold(copy->reader, read_core, copy, timeout_ns,
				     &copy->image->saved.hold_ns);
		if (!err)
			return copy->err;
		if (err != -ETIME)
			break;
	}
	return 1;
}

static int make_core_room(struct copy *copy, uint32_t more)
{
	size_t i;
	int err = cm_reader_refresh(copy->reader);

	for (i = 0; i < COUNT_OF(core) && !err; i++)
		err = make_room(copy, core[i], more);
	for (i = 0; i < COUNT_OF(rings) && !err; i++)
		err = make_room(copy, rings[i], 1);
	return err;
}

/* -EAGAIN: a table has outgrown the memory allocated for it. */
static int try_core(struct copy *copy, uint64_t timeout_ns)
{
	struct cm_saved *saved = &copy->image->saved;
	int err, i;

	saved->moment = CM_MOMENT_HELD;
	if (saved->life == CM_LIFE_RUNNING) {
		map_blocks(copy);
		err = read_held(copy, timeout_ns);
		if (err <= 0)
			return err;
	}
	saved->moment = CM_MOMENT_STILL;
	for (i = 0; i < STILL_TRIES; i++) {
		err = read_still(copy);
		if (err <= 0)
			return err;
	}
	saved->moment = CM_MOMENT_TORN;
	read_core(copy);
	return copy->err;
}

static int take_core(struct copy *copy, uint64_t timeout_ns)
{
	uint32_t more = MORE_ROWS;
	int tries, err = -EAGAIN;

	for (tries = 0; tries < ROOM_TRIES && err == -EAGAIN; tries++) {
		err = make_core_room(copy, more);
		if (!err)
			err = try_core(copy, timeout_ns);
		unmap_blocks(copy);
		/* The last size suffices for any table: make_room() limits it to the capacity. */
		more <<= 8;
	}
	return err;
}

/*
 * Removes the rows that the process has begun to overwrite by now: some of them were copied while a
 * younger event was being written, with the number of the older one still in place. The remaining
 * rows have no gap. Pairs with cm_ring_add(), which counts an event before it writes its row.
 */
static void drop_overwritten(struct copy *copy, enum cm_table table, uint64_t first_row,
			     uint64_t next)
{
	const uint32_t ring = copy->image->header.table[table].ring;
	struct cm_event *row = copy->image->table[table].rows;
	uint64_t i;

	if (first_row + ring > copy->image->table[table].count || next <= ring)
		return;
	for (i = first_row; i < first_row + ring; i++)
		if (row[i].number <= next - ring)
			row[i].number = 0;
}

static int take_rings(struct copy *copy)
{
	const struct cm_image *image = copy->image;
	const uint64_t ring = image->header.table[CM_TABLE_EVENT].ring;
	struct cm_device_row now;
	uint32_t i;
	int err = 0;

	for (i = 0; i < COUNT_OF(rings) && !err; i++) {
		/* A device may have got its ring after the memory was allocated. */
		if (copy->reader->header.table[rings[i]].rows > copy->room[rings[i]])
			err = make_room(copy, rings[i], 0);
		if (!err)
			err = read_table(copy, rings[i]);
	}
	for (i = 0; i < image->table[CM_TABLE_DEVICE].count && !err; i++) {
		err = cm_reader_read(copy->reader, CM_TABLE_DEVICE, i, 1, &now, sizeof(now));
		if (!err)
			drop_overwritten(copy, CM_TABLE_EVENT, i * ring, now.event_next);
	}
	if (!err)
		err = cm_reader_refresh(copy->reader);
	if (!err)
		drop_overwritten(copy, CM_TABLE_HOST_EVENT, 0,
				 copy->reader->header.host.event_next);
	return err;
}

static int take_rest(struct copy *copy)
{
	size_t i;
	int err = cm_reader_refresh(copy->reader);

	if (!err)
		err = take_rings(copy);
	for (i = 0; i < COUNT_OF(rest) && !err; i++) {
		err = make_room(copy, rest[i], 0);
		if (!err)
			err = read_table(copy, rest[i]);
	}
	/* The present sizes of the tables, which are no less than those that the core refers to. */
	copy->image->header.record = copy->reader->header.record;
	return err;
}

/* Ends the last text, which a reader would else follow past the table. */
static void end_texts(struct cm_image *image, enum cm_table table)
{
	struct cm_image_table *texts = &image->table[table];

	if (texts->count)
		((char *)texts->rows)[texts->count - 1] = '\0';
}

struct clocks {
	uint64_t tick;
	uint64_t time_ns;
};

/* Reads both clocks at once. False: at every try another thread ran in between. */
static bool read_clocks(struct clocks *ret_clocks)
{
	struct clocks clocks;
	int tries;

	for (tries = 0; tries < CLOCK_TRIES; tries++) {
		clocks.time_ns = cm_time_now();
		clocks.tick = cm_tick();
		if (cm_time_now() - clocks.time_ns < FIVE_US) {
			*ret_clocks = clocks;
			return true;
		}
	}
	return false;
}

static double speed(const struct clocks *from, const struct clocks *to)
{
	return (double)(to->tick - from->tick) / (double)(to->time_ns - from->time_ns);
}

/*
 * Has the counter run at the same speed since the reading in the region as it runs here? That of
 * another machine or of an earlier boot has not. The tolerance is for a library that was
 * interrupted between reading its two clocks.
 */
static bool is_same_counter(const struct clocks *base, const struct clocks *now)
{
	const struct timespec pause = {.tv_nsec = TEN_MS / 2};
	struct clocks later;
	double ratio;

	(void)nanosleep(&pause, NULL);
	if (!read_clocks(&later) || later.tick <= now->tick || later.time_ns <= now->time_ns)
		return true; /* unknown */
	ratio = speed(base, now) / speed(now, &later);
	return ratio > 0.9 && ratio < 1.1;
}

/* Reads our clocks, late enough after the base to measure the speed: the process may be young. */
static bool read_clocks_apart(const struct clocks *base, struct clocks *ret_now)
{
	const struct timespec pause = {.tv_nsec = TEN_MS};

	if (!read_clocks(ret_now))
		return false;
	if (ret_now->time_ns >= base->time_ns && ret_now->time_ns <= base->time_ns + TEN_MS) {
		(void)nanosleep(&pause, NULL);
		if (!read_clocks(ret_now))
			return false;
	}
	return ret_now->tick > base->tick && ret_now->time_ns > base->time_ns + TEN_MS;
}

/*
 * Two readings of both clocks convert ticks to time. The library reads them rarely. If its last
 * reading is too close to the first, ours is used, provided that it is the same counter.
 */
static void set_clock(struct cm_image *image)
{
	struct cm_header *header = &image->header;
	const struct clocks base = {header->tick_base, header->time_base_ns};
	struct clocks now;

	if (header->tick_last > header->tick_base &&
	    header->time_last_ns > header->time_base_ns + TEN_MS)
		return;
	if (!read_clocks_apart(&base, &now) || !is_same_counter(&base, &now))
		return;
	header->tick_last = now.tick;
	header->time_last_ns = now.time_ns;
}

static void mark(struct copy *copy)
{
	struct cm_saved *saved = &copy->image->saved;
	const struct cm_image_table *old = &copy->image->table[CM_TABLE_SAVED];

	if (old->count) { /* the image of a saved snapshot keeps its time */
		memcpy(saved, old->rows, sizeof(*saved));
		saved->tool[sizeof(saved->tool) - 1] = '\0';
		return;
	}
	set_clock(copy->image);
	saved->time_ns = cm_time_now();
	(void)snprintf(saved->tool, sizeof(saved->tool), "%s", CM_VERSION);
}

struct cm_image *cm_image_create(void)
{
	/* The header is aligned to a page, which calloc() does not guarantee. */
	struct cm_image *image = aligned_alloc(_Alignof(struct cm_image), sizeof(*image));

	if (image)
		memset(image, 0, sizeof(*image));
	return image;
}

int cm_image_take(struct cm_reader *reader, uint64_t timeout_ns, struct cm_image **ret_image,
		  char *why)
{
	struct copy copy = {.reader = reader, .image = cm_image_create()};
	int err = -ENOMEM;

	if (!copy.image)
		goto err_image;
	copy.image->saved.life = (uint32_t)cm_reader_life(reader);
	err = take_core(&copy, timeout_ns);
	if (!err)
		err = take_rest(&copy);
	if (err)
		goto err_image;
	end_texts(copy.image, CM_TABLE_TEXT);
	end_texts(copy.image, CM_TABLE_NAME);
	mark(&copy);
	*ret_image = copy.image;
	return 0;

err_image:
	(void)snprintf(why, CM_READER_WHY_BYTES, "%s",
		       err == -EBADMSG ? "damaged: its header no longer makes sense"
				       : strerror(-err));
	cm_image_free(copy.image);
	return err;
}

void cm_image_free(struct cm_image *image)
{
	size_t i;

	if (!image)
		return;
	for (i = 0; i < CM_TABLE_COUNT; i++)
		free(image->table[i].rows);
	free(image);
}

uint64_t cm_image_time(const struct cm_image *image, uint64_t tick)
{
	const struct cm_header *header = &image->header;
	const bool before = tick < header->tick_base;
	const uint64_t ticks = before ? header->tick_base - tick : tick - header->tick_base;
	double ns;

	if (header->tick_last <= header->tick_base || header->time_last_ns <= header->time_base_ns)
		return 0;
	ns = (double)ticks * (double)(header->time_last_ns - header->time_base_ns) /
	     (double)(header->tick_last - header->tick_base);
	/* The row is damaged: the time is out of range. */
	if (!(ns < 9e18) || (before ? header->time_base_ns < (uint64_t)ns
				    : header->time_base_ns > UINT64_MAX - (uint64_t)ns))
		return 0;
	return before ? header->time_base_ns - (uint64_t)ns : header->time_base_ns + (uint64_t)ns;
}

const char *cm_image_range(const struct cm_image *image, uint32_t id)
{
	const char *path = cm_image_text(image, CM_TABLE_TEXT, id);
	const char *split = strrchr(path, CM_RANGE_SPLIT);

	return split ? split + 1 : path;
}

const char *cm_image_text(const struct cm_image *image, enum cm_table table, uint32_t id)
{
	const struct cm_image_table *texts = &image->table[table];

	return id && id < texts->count ? (const char *)texts->rows + id : "";
}
