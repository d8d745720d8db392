/* SPDX-License-Identifier: MIT */
#include "interpose/stacks/python_walk.h"

#include <stdatomic.h>
#include <string.h>

#include "interpose/stacks/readable.h"

#define ABSENT     CM_PYTHON_ABSENT
#define STEPS_MAX  100000
#define LENGTH_MAX (1 << 20) /* of a text or a table that is believed */

/* Owners from this one on: the frame is the interpreter's own, at the outer end of a run of Python
 * frames. */
#define OWNER_SHIM 3

/* Offsets that have been the same in all versions. */
enum { OBJECT_TYPE = 8, OBJECT_SIZE = 16, TEXT_LENGTH = 16, TEXT_STATE = 32, BYTES_DATA = 32 };
#define TEXT_KIND(state) ((state) >> 2 & 7u) /* bytes of a character */
#define TEXT_COMPACT     0x20u               /* the characters stand behind the header */
#define TEXT_ASCII       0x40u

/*
 * Frames by code object and instruction. A slot holds the frame, and its key combined with it: two
 * threads that store at once leave a slot that fits no key, rather than another frame's.
 */
#define SLOTS 4096u
static struct slot {
	_Atomic uint64_t check;
	_Atomic uint64_t frame;
} slots[SLOTS];

uint64_t cm_python_recall(uint64_t key)
{
	const struct slot *slot = &slots[key % SLOTS];
	const uint64_t frame = atomic_load_explicit(&slot->frame, memory_order_relaxed);
	const uint64_t check = atomic_load_explicit(&slot->check, memory_order_relaxed);

	return (check ^ frame) == key ? frame : 0;
}

static void remember(uint64_t key, uint64_t frame)
{
	struct slot *slot = &slots[key % SLOTS];

	atomic_store_explicit(&slot->frame, frame, memory_order_relaxed);
	atomic_store_explicit(&slot->check, key ^ frame, memory_order_relaxed);
}

bool cm_python_remember_held(uint64_t key, uint64_t frame)
{
	struct slot *slot = &slots[key % SLOTS];
	uint64_t empty = 0;

	if (!atomic_compare_exchange_strong(&slot->frame, &empty, frame))
		return false;
	atomic_store_explicit(&slot->check, key ^ frame, memory_order_relaxed);
	return true;
}

void cm_python_forget_all(void)
{
	size_t i;

	for (i = 0; i < SLOTS; i++) {
		atomic_store_explicit(&slots[i].frame, 0, memory_order_relaxed);
		atomic_store_explicit(&slots[i].check, 0, memory_order_relaxed);
	}
}

/* The loads are of memory that has been found readable. */
static void load(uintptr_t at, void *to, size_t bytes)
{
	memcpy(to, (const void *)at, bytes); /* NOLINT(performance-no-int-to-ptr) */
}

static uintptr_t load_word(uintptr_t at)
{
	uintptr_t word;

	load(at, &word, sizeof(word));
	return word;
}

static int32_t load_int(uintptr_t at)
{
	int32_t number;

	load(at, &number, sizeof(number));
	return number;
}

static bool load_flag(uintptr_t at, uint16_t offset, uint8_t from)
{
	uint8_t byte = 0;

	if (offset != ABSENT)
		load(at + offset, &byte, 1);
	return byte >= from;
}

static bool get(uintptr_t at, void *to, size_t bytes)
{
	if (!cm_memory_was_readable(at, bytes))
		return false;
	load(at, to, bytes);
	return true;
}

static bool get_word(uintptr_t at, uintptr_t *ret_word)
{
	return get(at, ret_word, sizeof(*ret_word));
}

struct frame {
	uintptr_t code;
	uintptr_t previous;
	uintptr_t place; /* address of the instruction, or before 3.11 its number */
	bool shim;
	bool entry; /* the C function that runs this frame runs none further out */
};

static bool get_frame(const struct cm_python_layout *layout, uintptr_t at, struct frame *ret_frame)
{
	/* Before 3.11 each frame has a C function of its own. */
	const bool alone = layout->code_start == ABSENT;

	if ((at & 7) || !cm_memory_was_readable(at, CM_PYTHON_FRAME_BYTES))
		return false;
	*ret_frame = (struct frame){
		/* From 3.14 on a tagged pointer. */
		.code = load_word(at + layout->frame_code) & ~(uintptr_t)7,
		.previous = load_word(at + layout->frame_previous),
		.place = alone ? (uintptr_t)(intptr_t)load_int(at + layout->frame_place)
			       : load_word(at + layout->frame_place),
		.shim = layout->minor >= 12 && load_flag(at, layout->frame_owner, OWNER_SHIM),
		.entry = alone || load_flag(at, layout->frame_entry, 1),
	};
	return true;
}

/* The fields of a code object that tell it from another one at the same address. */
struct code {
	uintptr_t at;
	uintptr_t name;
	uintptr_t file;
	uintptr_t table;
	int32_t line;
};

static bool is_of(uintptr_t object, uintptr_t type)
{
	uintptr_t found;

	return object && !(object & 7) && get_word(object + OBJECT_TYPE, &found) && found == type;
}

static bool get_code(const struct cm_python_reader *reader, uintptr_t at, struct code *ret_code)
{
	const struct cm_python_layout *layout = &reader->layout;

	if (!at || !cm_memory_was_readable(at, CM_PYTHON_CODE_BYTES) ||
	    load_word(at + OBJECT_TYPE) != reader->code_type)
		return false;
	*ret_code = (struct code){
		.at = at,
		.name = load_word(at + layout->code_name),
		.file = load_word(at + layout->code_file),
		.table = load_word(at + layout->code_table),
		.line = load_int(at + layout->code_line),
	};
	return true;
}

/* The hash of the file name of the last frame; most frames have the same file. */
struct memo {
	uintptr_t file;
	uint64_t weight;
};

static uint64_t mix(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

/* The multipliers are large and odd; sums of products need not wait for each other. */
#define WEIGHT(i) (UINT64_C(0x9e3779b97f4a7c15) * (2 * (uint64_t)(i) + 1))

/* Loads fewer than 8 bytes, and reads nothing behind them. */
static uint64_t load_short(uintptr_t at, size_t bytes)
{
	uint64_t word = 0;

	if (bytes & 4)
		word = (uint32_t)load_int(at);
	for (at += bytes & 4, bytes &= 3; bytes; bytes--)
		word = word << 8 | *(const uint8_t *)at++; /* NOLINT(performance-no-int-to-ptr) */
	return word;
}

/*
 * A hash of an object's address, size, and first and last 8 bytes. A new object may have the
 * address and the size of one that has gone; texts that agree in all of these are taken for the
 * same.
 */
static bool weigh(uintptr_t object, uint16_t data, uint64_t *ret_weight)
{
	uintptr_t first, last;
	int64_t size;

	if ((object & 7) || !cm_memory_was_readable(object, data + sizeof(uint64_t)))
		return false;
	size = (int64_t)load_word(object + OBJECT_SIZE);
	if (size < 0 || size > LENGTH_MAX)
		return false;
	first = object + data;
	last = size > 8 ? first + (uintptr_t)size - 8 : first;
	/* The last bytes may reach into a page that the check above has not seen. */
	if (((last + sizeof(uint64_t) - 1) ^ first) >> CM_PAGE_SHIFT &&
	    !cm_memory_was_readable(last, sizeof(uint64_t)))
		return false;
	*ret_weight = object * WEIGHT(1) + (uint64_t)size * WEIGHT(2);
	if (size < 8)
		*ret_weight += load_short(first, (size_t)size) * WEIGHT(3);
	else
		*ret_weight += load_word(first) * WEIGHT(3) + load_word(last) * WEIGHT(4);
	return true;
}

/* A hash of a place in a code object. False: it is none. */
static bool get_key(const struct cm_python_reader *reader, const struct code *code, uintptr_t place,
		    struct memo *memo, uint64_t *ret_key)
{
	uint64_t name, table;

	/* Of texts that are not ASCII what stands in the place of the characters is good enough. */
	if (!weigh(code->name, reader->layout.text_ascii, &name) ||
	    !weigh(code->table, BYTES_DATA, &table))
		return false;
	if (code->file != memo->file) {
		if (!weigh(code->file, reader->layout.text_ascii, &memo->weight))
			return false;
		memo->file = code->file;
	}
	*ret_key = mix(code->at * WEIGHT(5) + place * WEIGHT(6) + name * WEIGHT(7) +
			       memo->weight * WEIGHT(8) + table * WEIGHT(9),
		       (uint32_t)code->line);
	return true;
}

/* A text that is being written. */
struct text {
	char *to;
	size_t bytes;
	size_t used;
};

/* Appends a character in UTF-8; false: it does not fit. */
static bool put(struct text *text, uint32_t c)
{
	char *to = text->to + text->used;
	size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4, i;

	if (c == 0 || c == CM_FRAME_TEXT_SPLIT || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) {
		c = ' ';
		n = 1;
	}
	if (text->used + n >= text->bytes)
		return false;
	for (i = n; i-- > 1; c >>= 6)
		to[i] = (char)(0x80 | (c & 0x3f));
	to[0] = (char)(n == 1 ? c : (0xf0u << (4 - n) & 0xff) | c);
	text->used += n;
	return true;
}

/* Appends a str object, cut to what fits. False: it is none. */
static bool put_object(const struct cm_python_reader *reader, uintptr_t object, struct text *text)
{
	uint32_t state = 0, c, kind;
	int64_t length = 0, i;
	uintptr_t at;

	if (!is_of(object, reader->text_type) ||
	    !get(object + TEXT_LENGTH, &length, sizeof(length)) ||
	    !get(object + TEXT_STATE, &state, sizeof(state)))
		return false;
	kind = TEXT_KIND(state);
	if (length < 0 || length > LENGTH_MAX || !(state & TEXT_COMPACT) ||
	    (kind != 1 && kind != 2 && kind != 4))
		return false;
	at = object + (state & TEXT_ASCII ? reader->layout.text_ascii : reader->layout.text_wide);
	for (i = 0; i < length; i++, at += kind) {
		c = 0; /* little-endian */
		if (!get(at, &c, kind))
			return false;
		if (!put(text, c))
			break;
	}
	return true;
}

/* The bytes of a table of lines. */
struct table {
	uintptr_t at;
	uintptr_t end;
	bool failed;
};

static uint8_t next(struct table *table)
{
	uint8_t byte = 0;

	if (table->at >= table->end || !get(table->at, &byte, 1))
		table->failed = true;
	table->at++;
	return byte;
}

/* Pairs of a distance in bytecode and one in lines (lnotab), as in 3.9. */
static int64_t find_line_39(struct table *table, int64_t line, int64_t place)
{
	int64_t addr = 0;

	while (table->at + 1 < table->end && !table->failed) {
		addr += next(table);
		if (addr > place)
			break;
		line += (int8_t)next(table);
	}
	return line;
}

/* The same, where the distance comes after the line, and -128 means none, as in 3.10. */
static int64_t find_line_310(struct table *table, int64_t line, int64_t place)
{
	int64_t end = 0;
	int8_t delta;

	while (table->at + 1 < table->end && !table->failed) {
		end += next(table);
		delta = (int8_t)next(table);
		line += delta == INT8_MIN ? 0 : delta;
		if (end > place)
			return delta == INT8_MIN ? 0 : line;
	}
	return 0;
}

static int64_t next_signed(struct table *table)
{
	uint64_t value = 0;
	unsigned shift = 0;
	uint8_t byte;

	do {
		byte = next(table);
		value |= (uint64_t)(byte & 63) << shift;
		shift += 6;
	} while ((byte & 64) && shift < 36 && !table->failed);
	return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

/* Entries of a byte with bit 7 and others without, since 3.11. */
static int64_t find_line_311(struct table *table, int64_t line, int64_t place)
{
	int64_t end = 0;
	unsigned head, kind;
	uint8_t byte;

	while (table->at < table->end && !table->failed) {
		head = next(table);
		kind = head >> 3 & 15;
		end += 2 * (int64_t)((head & 7) + 1);
		if (kind == 13 || kind == 14)
			line += next_signed(table);
		else if (kind >= 10 && kind <= 12)
			line += kind - 10;
		if (end > place)
			return kind == 15 ? 0 : line;
		while (table->at < table->end && get(table->at, &byte, 1) && !(byte & 0x80))
			table->at++;
	}
	return 0;
}

/* The line of a place in a code object, 0: none. False: the table is none. */
static bool find_line(const struct cm_python_reader *reader, const struct code *code,
		      uintptr_t place, uint32_t *ret_line)
{
	const struct cm_python_layout *layout = &reader->layout;
	int64_t offset = (int64_t)place, size = 0, line;
	struct table table;

	if (!is_of(code->table, reader->byte_type) ||
	    !get(code->table + OBJECT_SIZE, &size, sizeof(size)) || size < 0 || size > LENGTH_MAX)
		return false;
	table = (struct table){code->table + BYTES_DATA, code->table + BYTES_DATA + (uintptr_t)size,
			       false};
	if (layout->code_start != ABSENT)
		offset = (int64_t)(place - code->at - layout->code_start);
	else if (layout->minor == 10)
		offset *= 2;
	if (offset < 0)
		line = code->line;
	else if (layout->minor == 9)
		line = find_line_39(&table, code->line, offset);
	else if (layout->minor == 10)
		line = find_line_310(&table, code->line, offset);
	else
		line = find_line_311(&table, code->line, offset);
	*ret_line = line > 0 && line <= CM_FRAME_LINE_MAX ? (uint32_t)line : 0;
	return !table.failed;
}

/* The frame for a code object that is seen for the first time; 0: it is none. A name gets at most
 * half of the space. */
static uint64_t describe(const struct cm_python_reader *reader, const struct code *code,
			 uintptr_t place, cm_python_text_fn *add_text)
{
	char buffer[CM_PYTHON_TEXT];
	struct text text = {buffer, sizeof(buffer) / 2, 0};
	uint32_t line;

	if (!put_object(reader, code->name, &text))
		return 0;
	buffer[text.used++] = CM_FRAME_TEXT_SPLIT;
	text.bytes = sizeof(buffer);
	if (!put_object(reader, code->file, &text) || !find_line(reader, code, place, &line))
		return 0;
	buffer[text.used] = '\0';
	return cm_frame_python(line, add_text(buffer));
}

static uint64_t name_frame(const struct cm_python_reader *reader, const struct frame *frame,
			   struct memo *memo, cm_python_text_fn *add_text)
{
	struct code code;
	uint64_t key, word;

	if (!get_code(reader, frame->code, &code) ||
	    !get_key(reader, &code, frame->place, memo, &key))
		return 0;
	word = cm_python_recall(key);
	if (word)
		return word;
	word = describe(reader, &code, frame->place, add_text);
	if (word && cm_frame_text(word))
		remember(key, word);
	return word;
}

static bool find_first(const struct cm_python_layout *layout, uintptr_t state, uintptr_t *ret_frame)
{
	uintptr_t at;

	if (!get_word(state + layout->state_frame, &at))
		return false;
	if (layout->cframe_frame != ABSENT && (!at || !get_word(at + layout->cframe_frame, &at)))
		return false;
	*ret_frame = at;
	return true;
}

bool cm_python_walk(const struct cm_python_reader *reader, uintptr_t state,
		    struct cm_python_frames *to, size_t max, cm_python_text_fn *add_text)
{
	struct memo memo = {0};
	struct frame frame;
	uintptr_t at;
	size_t steps;

	to->count = 0;
	to->cut = false;
	to->placed = true;
	if (!find_first(&reader->layout, state, &at))
		return false;
	for (steps = 0; at && steps < STEPS_MAX; steps++, at = frame.previous) {
		if (!get_frame(&reader->layout, at, &frame))
			return false;
		if (frame.shim && to->count)
			to->entry[to->count - 1] = true;
		if (frame.shim)
			continue;
		if (to->count == max) {
			to->cut = true;
			break;
		}
		to->frame[to->count] = name_frame(reader, &frame, &memo, add_text);
		to->entry[to->count] = frame.entry;
		if (!to->frame[to->count])
			return false;
		to->count++;
	}
	return true;
}
