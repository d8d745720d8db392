/* SPDX-License-Identifier: MIT */
#include "interpose/stacks/python_walk.h"

#include <stdatomic.h>
#include <string.h>

#include "allocator/base/attr.h"
#include "interpose/stacks/readable.h"

#define ABSENT     CM_PYTHON_ABSENT
#define STEPS_MAX  100000
#define LENGTH_MAX (1 << 20) /* the longest text or table that is accepted */

/* Offsets that have been the same in all versions. */
enum { OBJECT_TYPE = 8, OBJECT_SIZE = 16, TEXT_LENGTH = 16, TEXT_STATE = 32, BYTES_DATA = 32 };
#define TEXT_KIND(state) ((state) >> 2 & 7u) /* bytes of a character */
#define TEXT_COMPACT     0x20u               /* the characters stand behind the header */
#define TEXT_ASCII       0x40u

/*
 * Frames by code object and instruction, with what the code object was when the frame was named.
 * Its pointers were readable then, so the same ones need no further check. `check` is the key
 * combined with the frame: two threads that store at once leave a slot that fits no key, rather
 * than another frame's. (Two code objects of one address do not live at the same time.)
 */
#define SLOT_BITS 12
static struct slot {
	_Alignas(64) _Atomic uint64_t check;
	_Atomic uint64_t frame;
	_Atomic uint64_t code;
	_Atomic uint64_t name;
	_Atomic uint64_t file;
	_Atomic uint64_t table;
	_Atomic uint64_t hash;
} slots[1u << SLOT_BITS];

static uint64_t peek(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

static void poke(_Atomic uint64_t *word, uint64_t value)
{
	atomic_store_explicit(word, value, memory_order_relaxed);
}

/* The slot with this key, or the one for it. Each key has two slots: in three of ten stacks of 50
 * frames, two keys share the first one and would replace each other. */
static struct slot *slot_of(uint64_t key)
{
	const size_t first = key >> (64 - SLOT_BITS);
	const uint64_t frame = peek(&slots[first].frame);

	return !frame || (peek(&slots[first].check) ^ frame) == key ? &slots[first]
								    : &slots[first ^ 1];
}

uint64_t cm_python_recall(uint64_t key)
{
	const struct slot *slot = slot_of(key);
	const uint64_t frame = peek(&slot->frame);

	return (peek(&slot->check) ^ frame) == key ? frame : 0;
}

bool cm_python_remember_held(uint64_t key, uint64_t frame)
{
	struct slot *slot = slot_of(key);
	uint64_t empty = 0;

	if (!atomic_compare_exchange_strong(&slot->frame, &empty, frame))
		return false;
	poke(&slot->check, key ^ frame);
	return true;
}

void cm_python_forget_all(void)
{
	size_t i;

	for (i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) {
		poke(&slots[i].frame, 0);
		poke(&slots[i].check, 0);
		poke(&slots[i].code, 0);
	}
}

/* The loads are of memory that has been found readable. */
static void load_bytes(uintptr_t at, void *to, size_t bytes)
{
	memcpy(to, (const void *)at, bytes); /* NOLINT(performance-no-int-to-ptr) */
}

static uintptr_t load_word(uintptr_t at)
{
	uintptr_t word;

	load_bytes(at, &word, sizeof(word));
	return word;
}

static int32_t load_int(uintptr_t at)
{
	int32_t number;

	load_bytes(at, &number, sizeof(number));
	return number;
}

static uint8_t load_byte(uintptr_t at)
{
	uint8_t byte;

	load_bytes(at, &byte, sizeof(byte));
	return byte;
}

static bool get(uintptr_t at, void *to, size_t bytes)
{
	if (!cm_memory_was_readable(at, bytes))
		return false;
	load_bytes(at, to, bytes);
	return true;
}

static bool get_word(uintptr_t at, uintptr_t *ret_word)
{
	return get(at, ret_word, sizeof(*ret_word));
}

struct frame {
	uintptr_t code;
	uintptr_t previous;
	uintptr_t place; /* address of the instruction; before 3.11 an int, its number */
	bool flagged;    /* its C function runs no frame further out */
};

/* Frames that begin here are readable. They often stand side by side. */
struct range {
	uintptr_t start;
	size_t bytes;
};

static bool is_frame_readable(uintptr_t at, struct range *range)
{
	if (CM_LIKELY(at - range->start < range->bytes))
		return true;
	if (!cm_memory_was_readable(at, CM_PYTHON_FRAME_BYTES))
		return false;
	range->start = at >> CM_OS_PAGE_SHIFT << CM_OS_PAGE_SHIFT;
	range->bytes = at - range->start + 1;
	return true;
}

static bool get_frame(const struct cm_python_layout *layout, uintptr_t at, struct range *range,
		      struct frame *ret_frame)
{
	if ((at & 7) || !is_frame_readable(at, range))
		return false;
	*ret_frame = (struct frame){
		/* From 3.14 on a tagged pointer. */
		.code = load_word(at + layout->frame_code) & ~(uintptr_t)7,
		.previous = load_word(at + layout->frame_previous),
		.place = load_word(at + layout->frame_place),
		.flagged = load_byte(at + layout->frame_flag) >= layout->flag_least,
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

static struct code load_code(const struct cm_python_layout *layout, uintptr_t at)
{
	return (struct code){
		.at = at,
		.name = load_word(at + layout->code_name),
		.file = load_word(at + layout->code_file),
		.table = load_word(at + layout->code_table),
		.line = load_int(at + layout->code_line),
	};
}

static bool is_of(uintptr_t object, uintptr_t type)
{
	uintptr_t found;

	return object && !(object & 7) && get_word(object + OBJECT_TYPE, &found) && found == type;
}

/* Large odd numbers without a common pattern: the golden ratio, and those of xxHash. A processor
 * computes the products of a sum in parallel. */
#define FACTOR_1 UINT64_C(0x9e3779b97f4a7c15)
#define FACTOR_2 UINT64_C(0xc2b2ae3d27d4eb4f)
#define FACTOR_3 UINT64_C(0x165667b19e3779f9)
#define FACTOR_4 UINT64_C(0x85ebca77c2b2ae63)

/* All of fewer than 8 bytes, some of them twice, and nothing behind them. */
static uint64_t load_short(uintptr_t at, size_t bytes)
{
	const uint8_t *byte = (const uint8_t *)at; /* NOLINT(performance-no-int-to-ptr) */

	if (bytes >= 4)
		return (uint32_t)load_int(at) | (uint64_t)load_int(at + bytes - 4) << 32;
	return bytes ? byte[0] | byte[bytes / 2] << 8 | byte[bytes - 1] << 16 : 0;
}

/*
 * A hash of an object's size, and of its first and last 8 bytes. A new object may have the address
 * and the size of one that has gone; texts that agree in all of these are taken for the same.
 * `known`: the header and the first 8 bytes were readable. False: they are not, or the rest.
 */
CM_ALWAYS_INLINE bool hash_object(uintptr_t object, uint16_t data, bool known, uint64_t *ret_hash)
{
	const uintptr_t first = object + data;
	uintptr_t last;
	uint64_t size;

	if (!known && ((object & 7) || !cm_memory_was_readable(object, data + sizeof(uint64_t))))
		return false;
	size = load_word(object + OBJECT_SIZE);
	if (size < 8) {
		*ret_hash = size + load_short(first, size) * FACTOR_1;
		return true;
	}
	last = first + size - 8;
	/* The last bytes may reach into a page that was not checked. */
	if (((last + sizeof(uint64_t) - 1) ^ first) >> CM_OS_PAGE_SHIFT &&
	    !cm_memory_was_readable(last, sizeof(uint64_t)))
		return false;
	*ret_hash = size + load_word(first) * FACTOR_1 + load_word(last) * FACTOR_2;
	return true;
}

/* The hash of the file name of the last frame; most frames have the same file. */
struct memo {
	uintptr_t file;
	uint64_t hash;
};

/* A hash of what a code object refers to. 0: it is none. */
CM_ALWAYS_INLINE uint64_t hash_code(const struct cm_python_layout *layout, const struct code *code,
				    bool known, struct memo *memo)
{
	uint64_t name, table;

	/* For texts that are not ASCII, the bytes at the place of the characters are good
	 * enough. */
	if (!hash_object(code->name, layout->text_ascii, known, &name) ||
	    !hash_object(code->table, BYTES_DATA, known, &table))
		return 0;
	if (code->file != memo->file) {
		if (!hash_object(code->file, layout->text_ascii, known, &memo->hash))
			return 0;
		memo->file = code->file;
	}
	return (name * FACTOR_3 + table * FACTOR_4 + memo->hash + (uint32_t)code->line) | 1;
}

/* A text that is being written. */
struct text {
	char *to;
	size_t bytes;
	size_t used;
};

/* Appends a character in UTF-8; false: it does not fit. */
static bool put_character(struct text *text, uint32_t c)
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
		if (!put_character(text, c))
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
	int64_t offset = (int32_t)place, size = 0, line;
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
static uint64_t describe_code(const struct cm_python_reader *reader, const struct code *code,
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

/* The frame that is remembered for this code object and place; 0: none. */
static uint64_t recognise(const struct cm_python_reader *reader, const struct slot *slot,
			  uint64_t key, uintptr_t at, struct memo *memo)
{
	const uint64_t word = peek(&slot->frame);
	struct code code;

	if (!at || peek(&slot->code) != at || (peek(&slot->check) ^ word) != key ||
	    load_word(at + OBJECT_TYPE) != reader->code_type)
		return 0;
	code = load_code(&reader->layout, at);
	return peek(&slot->name) == code.name && peek(&slot->file) == code.file &&
			       peek(&slot->table) == code.table &&
			       peek(&slot->hash) == hash_code(&reader->layout, &code, true, memo)
		       ? word
		       : 0;
}

/* The frame of a code object and place that are not remembered; 0: there is none. */
static CM_NOINLINE uint64_t learn(const struct cm_python_reader *reader, struct slot *slot,
				  uint64_t key, uintptr_t at, uintptr_t place,
				  cm_python_text_fn *add_text)
{
	struct memo memo = {0};
	struct code code;
	uint64_t hash, word;

	if (!cm_memory_was_readable(at, CM_PYTHON_CODE_BYTES) ||
	    load_word(at + OBJECT_TYPE) != reader->code_type)
		return 0;
	code = load_code(&reader->layout, at);
	hash = hash_code(&reader->layout, &code, false, &memo);
	word = hash ? describe_code(reader, &code, place, add_text) : 0;
	if (word && cm_frame_text(word)) {
		poke(&slot->frame, word);
		poke(&slot->check, key ^ word);
		poke(&slot->code, code.at);
		poke(&slot->name, code.name);
		poke(&slot->file, code.file);
		poke(&slot->table, code.table);
		poke(&slot->hash, hash);
	}
	return word;
}

static uint64_t name_frame(const struct cm_python_reader *reader, uintptr_t at, uintptr_t place,
			   struct memo *memo, cm_python_text_fn *add_text)
{
	const uint64_t key = (at * FACTOR_1 ^ place) * FACTOR_2;
	struct slot *slot = slot_of(key);
	const uint64_t word = recognise(reader, slot, key, at, memo);

	return word ? word : learn(reader, slot, key, at, place, add_text);
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
	struct range range = {0};
	struct frame frame;
	size_t steps, count = 0;
	uintptr_t at;
	uint64_t word;

	to->count = 0;
	to->cut = false;
	to->placed = true;
	if (!find_first(&reader->layout, state, &at))
		return false;
	for (steps = 0; at && steps < STEPS_MAX; steps++, at = frame.previous) {
		if (!get_frame(&reader->layout, at, &range, &frame))
			return false;
		if (frame.flagged && reader->layout.shims) {
			if (count)
				to->entry[count - 1] = true;
			continue;
		}
		if (count == max) {
			to->cut = true;
			break;
		}
		word = name_frame(reader, frame.code, frame.place, &memo, add_text);
		if (!word)
			return false;
		to->frame[count] = word;
		to->entry[count] = frame.flagged;
		to->count = ++count;
	}
	return true;
}
