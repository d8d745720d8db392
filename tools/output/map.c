/* SPDX-License-Identifier: MIT */
#include "tools/output/map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stats/summary.h"
#include "stats/units.h"
#include "tools/cli/width.h"
#include "tools/output/size.h"

#define LINE_CELLS   ((size_t)48) /* at most */
#define TEXT_WIDTH   ((size_t)32) /* of a segment, before its cells */
#define LARGEST_ROWS 12           /* segments drawn without --map=all */
#define CELLS_MAX    (LINE_CELLS * 64)
#define CHUNK_ROWS   256
#define INDENT       "\n                               " /* TEXT_WIDTH less a blank */
#define MIN_CELL     (UINT64_C(1) << 16)

/* One character of the map: bytes of live and of pending blocks. */
struct cell {
	uint64_t live;
	uint64_t pending;
};

struct drawing {
	const struct cm_segment *segment;
	uint64_t cell_bytes;
	size_t line_cells; /* on a line: a power of two times 3 */
	size_t count;
	struct cell cells[CELLS_MAX];
};

/* Adds a block to the cells that it overlaps. */
static void draw_block(void *data, const struct cm_block *block)
{
	struct drawing *drawing = data;
	uint64_t at = block->addr - drawing->segment->addr, left = block->size, part;
	struct cell *cell;

	for (; left && at / drawing->cell_bytes < drawing->count; at += part, left -= part) {
		part = drawing->cell_bytes - at % drawing->cell_bytes;
		if (part > left)
			part = left;
		cell = &drawing->cells[at / drawing->cell_bytes];
		if (block->state == CM_BLOCK_LIVE)
			cell->live += part;
		else if (block->state == CM_BLOCK_PENDING)
			cell->pending += part;
	}
}

/* '#': all live; a digit: tenths that are live; '~': pending free; '.': free. */
static char spell_cell(const struct cell *cell, uint64_t bytes)
{
	const uint64_t tenths = bytes ? cell->live / (bytes / 10 + 1) : 0;

	if (cell->live >= bytes)
		return '#';
	if (cell->live)
		return (char)('0' + (tenths < 1 ? 1 : tenths > 9 ? 9 : tenths));
	return cell->pending ? '~' : '.';
}

static void print_segment(struct cm_reader *reader, struct drawing *drawing)
{
	const struct cm_segment *segment = drawing->segment;
	const uint64_t size = segment->size;
	uint64_t live = 0, bytes;
	size_t i;
	int err;

	memset(drawing->cells, 0, sizeof(drawing->cells));
	drawing->count = (size_t)(size / drawing->cell_bytes + (size % drawing->cell_bytes != 0));
	if (drawing->count > CELLS_MAX)
		drawing->count = CELLS_MAX;
	err = cm_segment_walk(reader, segment, draw_block, drawing);
	for (i = 0; i < drawing->count; i++)
		live += drawing->cells[i].live;
	(void)printf("0x%012llx %6s %4u %3u%%", (unsigned long long)segment->addr,
		     cm_bytes_format((int64_t)size).text, segment->heap,
		     size ? (unsigned)(100 * ((double)live / (double)size)) : 0);
	for (i = 0; i < drawing->count; i++) {
		if (i % drawing->line_cells == 0)
			(void)printf("%s ", i ? INDENT : "");
		bytes = i + 1 < drawing->count || size % drawing->cell_bytes == 0
				? drawing->cell_bytes
				: size % drawing->cell_bytes;
		(void)putchar(spell_cell(&drawing->cells[i], bytes));
	}
	(void)printf("%s\n", err ? "  (changed while being read)" : "");
}

static int by_size(const void *a, const void *b)
{
	const struct cm_segment *x = a, *y = b;

	if (x->size != y->size)
		return x->size > y->size ? -1 : 1;
	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

/* Reads the segments of a device into an array, which the caller frees. Returns their number. */
static size_t load_segments(struct cm_reader *reader, uint32_t device, struct cm_segment **ret)
{
	const uint32_t rows = reader->header.table[CM_TABLE_SEGMENT].rows;
	struct cm_segment chunk[CHUNK_ROWS], *found = NULL, *more;
	struct cm_shard_map map;
	size_t count = 0;
	uint32_t first, n, i;

	*ret = NULL;
	if (cm_reader_read_shards(reader, &map))
		return 0;
	for (first = 0; first < rows; first += n) {
		n = rows - first < CHUNK_ROWS ? rows - first : CHUNK_ROWS;
		if (cm_reader_read(reader, CM_TABLE_SEGMENT, first, n, chunk, sizeof(chunk[0])))
			break;
		more = reallocarray(found, count + n, sizeof(*found));
		if (!more)
			break;
		found = more;
		for (i = 0; i < n; i++)
			if ((chunk[i].flags & CM_SEGMENT_USED) &&
			    !(chunk[i].flags & CM_SEGMENT_HOST) &&
			    cm_shard_map_device(&map, chunk[i].device) == device)
				found[count++] = chunk[i];
	}
	*ret = found;
	return count;
}

void cm_map_print(struct cm_reader *reader, uint32_t device, bool all)
{
	struct cm_segment *segments;
	struct drawing *drawing;
	size_t count, shown, i;

	drawing = calloc(1, sizeof(*drawing));
	count = load_segments(reader, device, &segments);
	if (!drawing || !count)
		goto out;
	qsort(segments, count, sizeof(*segments), by_size);
	/* The largest segment takes about three lines. */
	drawing->cell_bytes = MIN_CELL;
	drawing->line_cells = LINE_CELLS;
	while (TEXT_WIDTH + drawing->line_cells > cm_line_width(stdout))
		drawing->line_cells /= 2;
	while (segments[0].size / drawing->cell_bytes > UINT64_C(3) * drawing->line_cells)
		drawing->cell_bytes *= 2;
	shown = all || count < LARGEST_ROWS ? count : LARGEST_ROWS;
	(void)putchar('\n');
	cm_line(stdout, "",
		"1 character = %s   # allocated  1-9 tenths allocated  ~ pending free  . free",
		cm_size_format((int64_t)drawing->cell_bytes).text);
	(void)printf("%-14s %6s %4s %4s\n", "SEGMENT", "SIZE", "HEAP", "LIVE");
	for (i = 0; i < shown; i++) {
		drawing->segment = &segments[i];
		print_segment(reader, drawing);
	}
	if (shown < count)
		cm_line(stdout, "", "(%zu smaller segments; --map=all draws them too)",
			count - shown);
out:
	free(segments);
	free(drawing);
}
