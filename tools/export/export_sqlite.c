/* SPDX-License-Identifier: MIT */
/*
 * A snapshot as an SQLite database, for queries over one file or over those of a fleet. Segments,
 * blocks and events are called as in PyTorch's snapshot: segments, blocks, device_traces. Their
 * stacks are numbers: `stacks` has a row for each frame of a stack, innermost first, `frames` the
 * names. NULL are `device` for pinned host memory, `stack` where none was recorded, and `kind` of
 * events of the cache.
 */
#include <errno.h>
#include <string.h>

#include "stats/text.h"
#include "tools/export/export.h"

#if CM_HAVE_SQLITE
#include <sqlite3.h>

#define TEXT_BYTES 4096

enum table { META, DEVICES, SEGMENTS, BLOCKS, EVENTS, FRAMES, STACKS, TABLES };

static const struct {
	const char *columns;
	const char *insert;
} tables[TABLES] = {
#define TABLE(id, name, columns, values) \
	[id] = {"CREATE TABLE " name " (" columns ")", "INSERT INTO " name " VALUES (" values ")"}
	TABLE(META, "meta", "key TEXT PRIMARY KEY, value", "?,?"),
	TABLE(DEVICES, "devices",
	      "device INTEGER, name TEXT, total_bytes INTEGER, lost_events INTEGER", "?,?,?,?"),
	TABLE(SEGMENTS, "segments",
	      "id INTEGER PRIMARY KEY, device INTEGER, context INTEGER, address INTEGER, "
	      "total_size INTEGER, allocated_size INTEGER, active_size INTEGER, "
	      "requested_size INTEGER, segment_type TEXT, is_expandable INTEGER, stack INTEGER",
	      "?,?,?,?,?,?,?,?,?,?,?"),
	TABLE(BLOCKS, "blocks",
	      "segment INTEGER REFERENCES segments, device INTEGER, address INTEGER, "
	      "size INTEGER, requested_size INTEGER, state TEXT, stack INTEGER",
	      "?,?,?,?,?,?,?"),
	TABLE(EVENTS, "device_traces",
	      "device INTEGER, number INTEGER, time_ns INTEGER, action TEXT, kind TEXT, "
	      "addr INTEGER, size INTEGER, context INTEGER, thread INTEGER, device_free INTEGER, "
	      "annotation TEXT, stack INTEGER",
	      "?,?,?,?,?,?,?,?,?,?,?,?"),
	TABLE(FRAMES, "frames",
	      "id INTEGER PRIMARY KEY, name TEXT, filename TEXT, line INTEGER, module TEXT, "
	      "is_python INTEGER",
	      "?,?,?,?,?,?"),
	TABLE(STACKS, "stacks",
	      "stack INTEGER, depth INTEGER, frame INTEGER REFERENCES frames, "
	      "PRIMARY KEY (stack, depth)",
	      "?,?,?"),
#undef TABLE
};

struct writer {
	const struct cm_snapshot *snapshot;
	sqlite3 *db;
	sqlite3_stmt *insert[TABLES];
	int err; /* the first error of SQLite; nothing is written after it */
};

static void check(struct writer *writer, int res)
{
	if (!writer->err && res != SQLITE_OK && res != SQLITE_DONE)
		writer->err = res;
}

static void run_sql(struct writer *writer, const char *sql)
{
	if (!writer->err)
		check(writer, sqlite3_exec(writer->db, sql, NULL, NULL, NULL));
}

/* The values of one row, in the order of the columns. What is not set is NULL. */
struct row {
	struct writer *writer;
	sqlite3_stmt *insert;
	int column;
};

static struct row begin_row(struct writer *writer, enum table table)
{
	return (struct row){writer, writer->insert[table], 0};
}

static void put_number(struct row *row, uint64_t value)
{
	row->column++;
	if (!row->writer->err)
		check(row->writer,
		      sqlite3_bind_int64(row->insert, row->column, (sqlite3_int64)value));
}

static void put_text(struct row *row, const char *text)
{
	row->column++;
	if (!row->writer->err)
		check(row->writer,
		      sqlite3_bind_text(row->insert, row->column, text, -1, SQLITE_TRANSIENT));
}

static void put_null(struct row *row)
{
	row->column++;
}

static void put_number_if(struct row *row, bool known, uint64_t value)
{
	if (known)
		put_number(row, value);
	else
		put_null(row);
}

static void put_device(struct row *row, const struct cm_snap_device *device)
{
	put_number_if(row, device->row, (uint64_t)device->ordinal);
}

static void put_stack(struct row *row, uint32_t id)
{
	const struct cm_snapshot *snapshot = row->writer->snapshot;
	const struct cm_snap_stack *stack = cm_snapshot_stack(snapshot, id);

	put_number_if(row, stack->count, (uint64_t)(stack - snapshot->stack));
}

static void end_row(struct row *row)
{
	if (row->writer->err)
		return;
	check(row->writer, sqlite3_step(row->insert));
	(void)sqlite3_reset(row->insert);
	(void)sqlite3_clear_bindings(row->insert);
}

static void put_fact(struct writer *writer, const char *key, const char *value)
{
	struct row row = begin_row(writer, META);

	put_text(&row, key);
	put_text(&row, value);
	end_row(&row);
}

static void put_count(struct writer *writer, const char *key, uint64_t value)
{
	struct row row = begin_row(writer, META);

	put_text(&row, key);
	put_number(&row, value);
	end_row(&row);
}

static void put_meta(struct writer *writer, const struct cm_source *source)
{
	const struct cm_header *header = &source->image->header;

	put_fact(writer, "schema", "cudamem-sqlite-1");
	put_fact(writer, "tool", CM_VERSION);
	put_fact(writer, "library", header->version);
	put_count(writer, "pid", (uint64_t)source->pid);
	put_fact(writer, "comm", source->comm);
	put_fact(writer, "command", source->command);
	put_fact(writer, "user", source->user);
}

static void put_devices(struct writer *writer)
{
	const struct cm_snapshot *snapshot = writer->snapshot;
	char name[TEXT_BYTES];
	size_t i;

	for (i = 0; i < snapshot->devices; i++) {
		const struct cm_snap_device *device = &snapshot->device[i];
		struct row row = begin_row(writer, DEVICES);

		put_device(&row, device);
		cm_text_clean(name, sizeof(name),
			      device->row ? device->row->name : "pinned host memory");
		put_text(&row, name);
		put_number_if(&row, device->row, device->row ? device->row->total_bytes : 0);
		put_number(&row, device->lost);
		end_row(&row);
	}
}

static void put_block(struct writer *writer, const struct cm_snap_device *device, size_t segment,
		      const struct cm_block *block)
{
	struct row row = begin_row(writer, BLOCKS);

	put_number(&row, segment);
	put_device(&row, device);
	put_number(&row, block->addr);
	put_number(&row, block->size);
	put_number_if(&row, block->state != CM_BLOCK_FREE, block->requested);
	put_text(&row, cm_block_state_name(block->state));
	put_stack(&row, cm_block_stack(block));
	end_row(&row);
}

static void put_segment(struct writer *writer, const struct cm_snap_device *device, size_t number)
{
	const struct cm_snap_segment *segment = &writer->snapshot->segment[number];
	struct row row = begin_row(writer, SEGMENTS);
	size_t i;

	put_number(&row, number);
	put_device(&row, device);
	put_number(&row, cm_snapshot_context(writer->snapshot, segment->row->heap));
	put_number(&row, segment->row->addr);
	put_number(&row, segment->row->size);
	put_number(&row, segment->allocated);
	put_number(&row, segment->active);
	put_number(&row, segment->requested);
	put_text(&row, cm_segment_pool_name(segment->row));
	put_number(&row, (segment->row->flags & CM_SEGMENT_PAGED) != 0);
	put_stack(&row, segment->row->stack);
	end_row(&row);
	for (i = 0; i < segment->count; i++)
		put_block(writer, device, number, &writer->snapshot->block[segment->first + i]);
}

static void put_event(struct writer *writer, const struct cm_snap_device *device,
		      const struct cm_event *event)
{
	const char *action = cm_snap_event_name(device, event);
	const bool oom = event->action == CM_ACTION_OOM;
	char annotation[TEXT_BYTES];
	struct row row;

	if (!action)
		return;
	row = begin_row(writer, EVENTS);
	put_device(&row, device);
	put_number(&row, event->number);
	put_number(&row, cm_image_time(writer->snapshot->image, event->tick));
	put_text(&row, action);
	if (device->outside)
		put_text(&row, cm_uncached_name(event->pool));
	else
		put_null(&row);
	put_number_if(&row, !oom, event->addr);
	put_number(&row, event->size);
	put_number(&row, cm_snapshot_context(writer->snapshot, event->heap));
	put_number(&row, event->thread);
	put_number_if(&row, oom && event->addr != CM_FREE_UNKNOWN, event->addr);
	if (event->annotation) {
		cm_text_clean(annotation, sizeof(annotation),
			      cm_image_range(writer->snapshot->image, event->annotation));
		put_text(&row, annotation);
	} else {
		put_null(&row);
	}
	put_stack(&row, event->stack);
	end_row(&row);
}

static void put_memory(struct writer *writer)
{
	const struct cm_snapshot *snapshot = writer->snapshot;
	const struct cm_snap_device *device;
	size_t d, i;

	for (d = 0; (device = cm_snapshot_device(snapshot, d)); d++) {
		for (i = 0; i < device->segments; i++)
			put_segment(writer, device, device->first_segment + i);
		for (i = 0; i < device->events; i++)
			put_event(writer, device, &snapshot->event[device->first_event + i]);
	}
}

static void put_frames(struct writer *writer)
{
	const struct cm_snapshot *snapshot = writer->snapshot;
	size_t i;

	for (i = 0; i < snapshot->frames; i++) {
		const struct cm_snap_frame *frame = &snapshot->frame[i];
		struct row row = begin_row(writer, FRAMES);

		put_number(&row, i);
		put_text(&row, frame->function);
		put_text(&row, frame->file);
		put_number_if(&row, frame->line, frame->line);
		put_text(&row, frame->module);
		put_number(&row, frame->python);
		end_row(&row);
	}
}

static void put_stacks(struct writer *writer)
{
	const struct cm_snapshot *snapshot = writer->snapshot;
	uint32_t depth;
	size_t i;

	for (i = 0; i < snapshot->stacks; i++)
		for (depth = 0; depth < snapshot->stack[i].count; depth++) {
			struct row row = begin_row(writer, STACKS);

			put_number(&row, i);
			put_number(&row, depth);
			put_number(&row, snapshot->frame_list[snapshot->stack[i].first + depth]);
			end_row(&row);
		}
}

static void prepare(struct writer *writer)
{
	int t;

	check(writer, sqlite3_open(":memory:", &writer->db));
	run_sql(writer, "BEGIN");
	for (t = 0; t < TABLES; t++) {
		run_sql(writer, tables[t].columns);
		if (!writer->err)
			check(writer, sqlite3_prepare_v2(writer->db, tables[t].insert, -1,
							 &writer->insert[t], NULL));
	}
}

static void save(struct writer *writer, FILE *file)
{
	unsigned char *image;
	sqlite3_int64 bytes;

	run_sql(writer, "COMMIT");
	if (writer->err)
		return;
	image = sqlite3_serialize(writer->db, "main", &bytes, 0);
	if (image)
		(void)fwrite(image, 1, (size_t)bytes, file);
	else
		check(writer, SQLITE_NOMEM);
	sqlite3_free(image);
}

/* The database is made in memory, then written: the format is one file, and may go to a pipe. */
int cm_export_sqlite(const struct cm_source *source, FILE *file)
{
	struct writer writer = {.snapshot = source->snapshot};
	int t;

	prepare(&writer);
	put_meta(&writer, source);
	put_devices(&writer);
	put_memory(&writer);
	put_frames(&writer);
	put_stacks(&writer);
	save(&writer, file);
	for (t = 0; t < TABLES; t++)
		(void)sqlite3_finalize(writer.insert[t]);
	(void)sqlite3_close(writer.db);
	return writer.err ? -ENOMEM : 0;
}

#else

int cm_export_sqlite(const struct cm_source *source, FILE *file)
{
	(void)source;
	(void)file;
	return -ENOSYS;
}

#endif
