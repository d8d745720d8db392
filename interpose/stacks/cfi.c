/* SPDX-License-Identifier: MIT */
#include "interpose/stacks/cfi.h"

#include <stdbool.h>
#include <string.h>

/* DWARF register numbers of the AMD64 ABI. */
#define REGISTER_FP 6
#define REGISTER_SP 7
#define REGISTER_RA 16

#define STATES_MAX 8 /* of remember_state, nested */

/* Pointer encodings of the Linux Standard Base. */
#define ENCODING_FORM    0x0f
#define ENCODING_UDATA2  0x02
#define ENCODING_UDATA4  0x03
#define ENCODING_UDATA8  0x04
#define ENCODING_SDATA2  0x0a
#define ENCODING_SDATA4  0x0b
#define ENCODING_SDATA8  0x0c
#define ENCODING_BASE    0x70
#define ENCODING_PCREL   0x10
#define ENCODING_TABLE   0x3b /* signed 4 bytes, relative to .eh_frame_hdr */
#define ENCODING_OMITTED 0xff

/* The rest of the input. An overrun sets `bad` and reads zeros. */
struct cursor {
	const uint8_t *at;
	const uint8_t *end;
	bool bad;
};

static void read_bytes(struct cursor *cursor, void *to, size_t bytes)
{
	if ((size_t)(cursor->end - cursor->at) < bytes) {
		cursor->bad = true;
		cursor->at = cursor->end;
		memset(to, 0, bytes);
		return;
	}
	memcpy(to, cursor->at, bytes);
	cursor->at += bytes;
}

static void skip_bytes(struct cursor *cursor, uint64_t bytes)
{
	if ((uint64_t)(cursor->end - cursor->at) < bytes) {
		cursor->bad = true;
		bytes = (uint64_t)(cursor->end - cursor->at);
	}
	cursor->at += bytes;
}

static uint8_t read_u8(struct cursor *cursor)
{
	uint8_t value;

	read_bytes(cursor, &value, sizeof(value));
	return value;
}

static uint32_t read_u32(struct cursor *cursor)
{
	uint32_t value;

	read_bytes(cursor, &value, sizeof(value));
	return value;
}

/* A number in LEB128. */
static uint64_t read_leb(struct cursor *cursor, bool is_signed)
{
	uint64_t value = 0;
	unsigned shift = 0;
	uint8_t byte;

	do {
		byte = read_u8(cursor);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (byte & 0x80);
	if (is_signed && shift < 64 && byte & 0x40)
		value |= ~UINT64_C(0) << shift;
	return value;
}

static uint64_t read_uleb(struct cursor *cursor)
{
	return read_leb(cursor, false);
}

static int64_t read_sleb(struct cursor *cursor)
{
	return (int64_t)read_leb(cursor, true);
}

/* A pointer, absolute or relative to its own address; any other base is bad. */
static uint64_t read_encoded(struct cursor *cursor, uint8_t encoding)
{
	const uint64_t place = (uintptr_t)cursor->at;
	uint64_t value = 0;
	int16_t s2;
	int32_t s4;

	switch (encoding & ENCODING_FORM) {
	case 0:
	case ENCODING_UDATA8:
	case ENCODING_SDATA8:
		read_bytes(cursor, &value, 8);
		break;
	case ENCODING_UDATA2:
		read_bytes(cursor, &value, 2);
		break;
	case ENCODING_UDATA4:
		read_bytes(cursor, &value, 4);
		break;
	case ENCODING_SDATA2:
		read_bytes(cursor, &s2, sizeof(s2));
		value = (uint64_t)(int64_t)s2;
		break;
	case ENCODING_SDATA4:
		read_bytes(cursor, &s4, sizeof(s4));
		value = (uint64_t)(int64_t)s4;
		break;
	default:
		cursor->bad = true;
		break;
	}
	if ((encoding & ENCODING_BASE) == ENCODING_PCREL)
		return place + value;
	if (encoding & ENCODING_BASE)
		cursor->bad = true;
	return value;
}

/* A common information entry. */
struct cie {
	struct cursor program; /* its initial instructions */
	uint64_t code_align;
	int64_t data_align;
	uint8_t encoding; /* of addresses */
	bool augmented;   /* 'z': the augmentation data has a length */
	bool signal;      /* a signal frame, made by the kernel */
	bool bad;
};

/* Where the CFA or a register is, after the instructions so far. */
enum where_kind { WHERE_SAME, WHERE_GONE, WHERE_OFFSET, WHERE_REGISTER, WHERE_REF, WHERE_OTHER };

struct where {
	enum where_kind kind;
	uint64_t reg;   /* of the CFA: the register */
	int64_t offset; /* from it; of a register: from the CFA, or from the frame pointer (REF) */
};

struct row {
	struct where cfa;
	struct where fp;
	struct where ra;
};

static void read_augmentation(struct cie *cie, struct cursor *cursor, const char *text)
{
	const uint64_t bytes = read_uleb(cursor);
	struct cursor data = *cursor;

	skip_bytes(cursor, bytes);
	data.end = cursor->at;
	for (text++; *text && !data.bad; text++) {
		switch (*text) {
		case 'R':
			cie->encoding = read_u8(&data);
			break;
		case 'L':
			(void)read_u8(&data);
			break;
		case 'P':
			(void)read_encoded(&data, read_u8(&data) & ~0x80);
			break;
		case 'S':
			cie->signal = true;
			break;
		default:
			return; /* 'B' and unknown letters have no data that matters here */
		}
	}
	cie->bad |= data.bad;
}

/* The bounds of the entry whose length is at `at`. False if there is none, or it is a 64-bit
 * one. */
static bool open_entry(const struct cm_cfi_object *object, const uint8_t *at,
		       struct cursor *ret_entry)
{
	struct cursor cursor = {at, object->end, false};
	uint32_t bytes;

	if (at < object->start || at >= object->end)
		return false;
	bytes = read_u32(&cursor);
	if (cursor.bad || !bytes || bytes == UINT32_MAX ||
	    bytes > (size_t)(object->end - cursor.at))
		return false;
	cursor.end = cursor.at + bytes;
	*ret_entry = cursor;
	return true;
}

static bool read_cie(const struct cm_cfi_object *object, const uint8_t *at, struct cie *ret_cie)
{
	struct cie cie = {0};
	struct cursor cursor;
	const char *text;
	uint8_t version;

	if (!open_entry(object, at, &cursor) || read_u32(&cursor))
		return false;
	version = read_u8(&cursor);
	text = (const char *)cursor.at;
	while (read_u8(&cursor))
		;
	if (cursor.bad || (version != 1 && version != 3) || (*text && *text != 'z'))
		return false;
	cie.code_align = read_uleb(&cursor);
	cie.data_align = read_sleb(&cursor);
	if ((version == 1 ? read_u8(&cursor) : read_uleb(&cursor)) != REGISTER_RA)
		return false;
	if (*text) {
		cie.augmented = true;
		read_augmentation(&cie, &cursor, text);
	}
	cie.program = cursor;
	*ret_cie = cie;
	return !cursor.bad && !cie.bad;
}

/* The two expressions that gcc and clang emit in functions that align their stack: "the word at
 * frame pointer + offset" for the CFA, "frame pointer + offset" for where the frame pointer was
 * saved. */
static struct where read_expression(struct cursor *cursor, bool is_cfa)
{
	const uint64_t bytes = read_uleb(cursor);
	struct where where = {.kind = WHERE_OTHER};
	struct cursor text = *cursor;
	uint8_t op;

	skip_bytes(cursor, bytes);
	text.end = cursor->at;
	op = read_u8(&text); /* DW_OP_breg0 + the register */
	where.reg = op - 0x70u;
	where.offset = read_sleb(&text);
	if (is_cfa && read_u8(&text) != 0x06) /* DW_OP_deref */
		return where;
	if (where.reg == REGISTER_FP && text.at == text.end && !text.bad)
		where.kind = WHERE_REF;
	return where;
}

/* The state of executing instructions. */
struct run {
	const struct cie *cie;
	struct row row;
	struct row initial; /* what the CIE says: DW_CFA_restore */
	struct row saved[STATES_MAX];
	unsigned depth;
	uint64_t location;
	uint64_t target;
	bool bad;
};

static struct where *find_register(struct row *row, uint64_t reg)
{
	return reg == REGISTER_FP ? &row->fp : reg == REGISTER_RA ? &row->ra : NULL;
}

static void set_register(struct run *run, uint64_t reg, enum where_kind kind, int64_t offset)
{
	struct where *where = find_register(&run->row, reg);

	if (where)
		*where = (struct where){.kind = kind, .offset = offset};
}

static void restore_register(struct run *run, uint64_t reg)
{
	struct where *where = find_register(&run->row, reg);

	if (where)
		*where = *find_register(&run->initial, reg);
}

static void set_cfa(struct run *run, uint64_t reg, int64_t offset)
{
	run->row.cfa = (struct where){WHERE_REGISTER, reg, offset};
}

static void remember(struct run *run)
{
	if (run->depth == STATES_MAX)
		run->bad = true;
	else
		run->saved[run->depth++] = run->row;
}

static void recall(struct run *run)
{
	if (run->depth)
		run->row = run->saved[--run->depth];
	else
		run->bad = true;
}

static void advance(struct run *run, uint64_t units)
{
	run->location += units * run->cie->code_align;
}

static uint64_t read_delta(struct cursor *cursor, unsigned bytes)
{
	uint32_t delta = 0;

	read_bytes(cursor, &delta, bytes);
	return delta;
}

/* Executes an instruction that moves the location. False if it is another one. */
static bool step_location(struct run *run, struct cursor *cursor, uint8_t op)
{
	switch (op) {
	case 0x01: /* set_loc */
		run->location = read_encoded(cursor, run->cie->encoding);
		return true;
	case 0x02: /* advance_loc1 */
		advance(run, read_delta(cursor, 1));
		return true;
	case 0x03: /* advance_loc2 */
		advance(run, read_delta(cursor, 2));
		return true;
	case 0x04: /* advance_loc4 */
		advance(run, read_delta(cursor, 4));
		return true;
	default:
		return false;
	}
}

/* Executes an instruction about the CFA. False if it is another one. */
static bool step_cfa(struct run *run, struct cursor *cursor, uint8_t op)
{
	uint64_t reg;

	switch (op) {
	case 0x0c: /* def_cfa */
		reg = read_uleb(cursor);
		set_cfa(run, reg, (int64_t)read_uleb(cursor));
		return true;
	case 0x12: /* def_cfa_sf */
		reg = read_uleb(cursor);
		set_cfa(run, reg, read_sleb(cursor) * run->cie->data_align);
		return true;
	case 0x0d: /* def_cfa_register */
		set_cfa(run, read_uleb(cursor), run->row.cfa.offset);
		return true;
	case 0x0e: /* def_cfa_offset */
		set_cfa(run, run->row.cfa.reg, (int64_t)read_uleb(cursor));
		return true;
	case 0x13: /* def_cfa_offset_sf */
		set_cfa(run, run->row.cfa.reg, read_sleb(cursor) * run->cie->data_align);
		return true;
	case 0x0f: /* def_cfa_expression */
		run->row.cfa = read_expression(cursor, true);
		return true;
	default:
		return false;
	}
}

static void step_expression(struct run *run, struct cursor *cursor)
{
	const uint64_t reg = read_uleb(cursor);
	const struct where where = read_expression(cursor, false);

	if (find_register(&run->row, reg))
		*find_register(&run->row, reg) = where;
}

static void step_register(struct run *run, struct cursor *cursor, uint8_t op)
{
	uint64_t reg = op == 0x00 || op == 0x0a || op == 0x0b ? 0 : read_uleb(cursor);

	switch (op) {
	case 0x00: /* nop */
		break;
	case 0x05: /* offset_extended */
		set_register(run, reg, WHERE_OFFSET,
			     (int64_t)read_uleb(cursor) * run->cie->data_align);
		break;
	case 0x11: /* offset_extended_sf */
		set_register(run, reg, WHERE_OFFSET, read_sleb(cursor) * run->cie->data_align);
		break;
	case 0x06: /* restore_extended */
		restore_register(run, reg);
		break;
	case 0x07: /* undefined */
		set_register(run, reg, WHERE_GONE, 0);
		break;
	case 0x08: /* same_value */
		set_register(run, reg, WHERE_SAME, 0);
		break;
	case 0x09: /* register */
	case 0x14: /* val_offset */
	case 0x15: /* val_offset_sf */
		(void)read_uleb(cursor);
		set_register(run, reg, WHERE_OTHER, 0);
		break;
	case 0x0a: /* remember_state */
		remember(run);
		break;
	case 0x0b: /* restore_state */
		recall(run);
		break;
	case 0x16: /* val_expression */
		skip_bytes(cursor, read_uleb(cursor));
		set_register(run, reg, WHERE_OTHER, 0);
		break;
	case 0x2e: /* its operand was read above */
		break;
	default:
		run->bad = true;
		break;
	}
}

/* Executes the instructions up to `target`. */
static void execute(struct run *run, struct cursor cursor)
{
	uint8_t op, low;

	while (cursor.at < cursor.end && !cursor.bad && !run->bad && run->location <= run->target) {
		op = read_u8(&cursor);
		low = op & 0x3f;
		switch (op & 0xc0) {
		case 0x40: /* advance_loc */
			advance(run, low);
			break;
		case 0x80: /* offset */
			set_register(run, low, WHERE_OFFSET,
				     (int64_t)read_uleb(&cursor) * run->cie->data_align);
			break;
		case 0xc0: /* restore */
			restore_register(run, low);
			break;
		default:
			if (op == 0x10) /* expression */
				step_expression(run, &cursor);
			else if (!step_location(run, &cursor, op) && !step_cfa(run, &cursor, op))
				step_register(run, &cursor, op);
			break;
		}
	}
	run->bad |= cursor.bad;
}

static bool is_offset(int64_t offset)
{
	return offset >= 0 && offset <= INT32_MAX && !(offset & 7);
}

/* The row as a rule; CM_RULE_NONE if it does not fit. */
static struct cm_rule make_rule(const struct row *row)
{
	const struct cm_rule none = {.kind = CM_RULE_NONE};
	struct cm_rule rule = none;
	const bool saved = row->fp.kind == WHERE_OFFSET;

	if (row->ra.kind == WHERE_GONE)
		return (struct cm_rule){.kind = CM_RULE_END};
	if (row->ra.kind != WHERE_OFFSET || row->ra.offset != -8)
		return none;
	if (row->cfa.kind == WHERE_REF) {
		if (row->fp.kind != WHERE_REF || row->fp.offset || !is_offset(-row->cfa.offset))
			return none;
		return (struct cm_rule){CM_RULE_FP_REF, (uint32_t)-row->cfa.offset, 0};
	}
	if (row->cfa.kind != WHERE_REGISTER || !is_offset(row->cfa.offset) ||
	    (saved && !is_offset(-row->fp.offset)))
		return none;
	rule.cfa = (uint32_t)row->cfa.offset;
	rule.fp = saved ? (uint32_t)-row->fp.offset : 0;
	if (row->cfa.reg == REGISTER_FP && saved)
		rule.kind = CM_RULE_FP;
	else if (row->cfa.reg == REGISTER_SP && saved)
		rule.kind = CM_RULE_SP_FP;
	else if (row->cfa.reg == REGISTER_SP && row->fp.kind == WHERE_SAME)
		rule.kind = CM_RULE_SP;
	return rule.kind == CM_RULE_NONE ? none : rule;
}

static struct cm_rule read_fde(const struct cm_cfi_object *object, const uint8_t *at, uint64_t pc)
{
	const struct cm_rule none = {.kind = CM_RULE_NONE};
	struct run run = {.target = pc};
	struct cursor cursor;
	struct cie cie;
	const uint8_t *place;
	uint64_t bytes;

	if (!open_entry(object, at, &cursor))
		return none;
	place = cursor.at;
	if (!read_cie(object, place - read_u32(&cursor), &cie))
		return none;
	run.cie = &cie;
	run.location = read_encoded(&cursor, cie.encoding);
	bytes = read_encoded(&cursor, cie.encoding & ENCODING_FORM);
	if (cie.augmented)
		skip_bytes(&cursor, read_uleb(&cursor));
	if (cursor.bad || pc < run.location || pc - run.location >= bytes)
		return none;
	/* The interrupted function may have no frame pointer to continue by. */
	if (cie.signal)
		return (struct cm_rule){.kind = CM_RULE_END};
	execute(&run, cie.program);
	run.initial = run.row;
	execute(&run, cursor);
	return run.bad ? none : make_rule(&run.row);
}

/* The search table of .eh_frame_hdr: pairs of a function's start and its FDE, by start. */
struct table {
	const uint8_t *pairs;
	uint32_t count;
};

static bool find_table(const struct cm_cfi_object *object, struct table *ret_table)
{
	struct cursor cursor = {object->header, object->header + object->header_bytes, false};
	uint8_t version = read_u8(&cursor), frame = read_u8(&cursor), count = read_u8(&cursor);
	uint8_t pairs = read_u8(&cursor);

	if (version != 1 || pairs != ENCODING_TABLE || count != ENCODING_UDATA4 ||
	    frame == ENCODING_OMITTED)
		return false;
	(void)read_encoded(&cursor, frame);
	ret_table->count = read_u32(&cursor);
	ret_table->pairs = cursor.at;
	return !cursor.bad && ret_table->count <= (size_t)(cursor.end - cursor.at) / 8;
}

/* One half of a pair as an address. */
static uint64_t read_pair(const struct cm_cfi_object *object, const struct table *table,
			  uint32_t index, unsigned half)
{
	int32_t offset;

	memcpy(&offset, table->pairs + (size_t)index * 8 + half * sizeof(offset), sizeof(offset));
	return (uintptr_t)object->header + (uint64_t)(int64_t)offset;
}

struct cm_rule cm_cfi_find(const struct cm_cfi_object *object, uint64_t pc)
{
	const struct cm_rule none = {.kind = CM_RULE_NONE};
	uint32_t low = 0, high, middle;
	struct table table;

	if (!object->header || !find_table(object, &table) || !table.count ||
	    read_pair(object, &table, 0, 0) > pc)
		return none;
	/* The last function that starts at pc or before. */
	for (high = table.count; high - low > 1;) {
		middle = low + (high - low) / 2;
		if (read_pair(object, &table, middle, 0) <= pc)
			low = middle;
		else
			high = middle;
	}
	return read_fde(object, (const uint8_t *)(uintptr_t)read_pair(object, &table, low, 1), pc);
}
