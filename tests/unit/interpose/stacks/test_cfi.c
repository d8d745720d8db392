/* SPDX-License-Identifier: MIT */
/* Call frame information built by hand: each instruction, encoding and error. */
#include "interpose/stacks/cfi.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tests/unit/cmocka_all.h"

#define HEADER 0u
#define CIE    32u
#define FDE    128u
#define CODE   384u
#define BYTES  512u
#define RANGE  64u /* of the function */

#define PCREL_SDATA4 0x1b

/* Fields left out have the values that compilers emit. */
struct entry {
	const char *what;
	const char *program; /* the function's instructions */
	size_t bytes;
	uint32_t pc; /* from the function's start */
	struct cm_rule expected;
	uint8_t encoding;         /* of addresses, 0: PCREL_SDATA4 */
	const char *augmentation; /* NULL: "zR" */
	uint8_t version;          /* 0: 1 */
	uint8_t ra;               /* 0: 16 */
};

static _Alignas(8) uint8_t memory[BYTES];

struct writer {
	uint8_t *at;
};

static void put(struct writer *writer, const void *from, size_t bytes)
{
	memcpy(writer->at, from, bytes);
	writer->at += bytes;
}

static void put_u8(struct writer *writer, uint8_t value)
{
	put(writer, &value, 1);
}

static void put_u32(struct writer *writer, uint32_t value)
{
	put(writer, &value, 4);
}

static size_t bytes_of(uint8_t encoding)
{
	switch (encoding & 0x07) {
	case 2:
		return 2;
	case 3:
		return 4;
	default:
		return 8;
	}
}

/* `relative`: to its own address, if the encoding says so. */
static void put_encoded(struct writer *writer, uint8_t encoding, uint64_t value, bool relative)
{
	if (relative && (encoding & 0x70) == 0x10)
		value -= (uintptr_t)writer->at;
	put(writer, &value, bytes_of(encoding));
}

static void put_augmentation(struct writer *writer, const char *text, uint8_t encoding)
{
	uint8_t *length = writer->at;

	put_u8(writer, 0);
	for (text++; *text; text++)
		if (*text == 'R') {
			put_u8(writer, encoding);
		} else if (*text == 'L') {
			put_u8(writer, PCREL_SDATA4);
		} else if (*text == 'P') {
			put_u8(writer, 0);
			put_encoded(writer, 0, 0, false);
		}
	*length = (uint8_t)(writer->at - length - 1);
}

static void close_entry(uint32_t start, const struct writer *writer)
{
	uint32_t bytes = (uint32_t)(writer->at - &memory[start]) - 4;

	memcpy(&memory[start], &bytes, sizeof(bytes));
}

/* CFA = stack pointer + 8, with the return address below it: the state at a function's start. */
static void put_cie(const struct entry *entry, uint8_t encoding)
{
	const char *text = entry->augmentation ? entry->augmentation : "zR";
	struct writer writer = {&memory[CIE + 4]};

	put_u32(&writer, 0);
	put_u8(&writer, entry->version ? entry->version : 1);
	put(&writer, text, strlen(text) + 1);
	put(&writer, "\x01\x78", 2); /* units of code 1, of data -8 */
	put_u8(&writer, entry->ra ? entry->ra : 16);
	if (*text == 'z')
		put_augmentation(&writer, text, encoding);
	put(&writer, "\x0c\x07\x08\x90\x01", 5);
	close_entry(CIE, &writer);
}

static void put_fde(const struct entry *entry, uint8_t encoding)
{
	const bool augmented = !entry->augmentation || *entry->augmentation == 'z';
	struct writer writer = {&memory[FDE + 4]};

	put_u32(&writer, FDE + 4 - CIE);
	put_encoded(&writer, augmented ? encoding : 0, (uintptr_t)&memory[CODE], true);
	put_encoded(&writer, augmented ? encoding : 0, RANGE, false);
	if (augmented)
		put_u8(&writer, 0);
	put(&writer, entry->program, entry->bytes);
	close_entry(FDE, &writer);
}

static void put_header(void)
{
	struct writer writer = {&memory[HEADER]};

	put(&writer, "\x01\x1b\x03\x3b", 4);
	put_u32(&writer, CIE - 4);
	put_u32(&writer, 1);
	put_u32(&writer, CODE - HEADER);
	put_u32(&writer, FDE - HEADER);
}

static struct cm_cfi_object make(const struct entry *entry)
{
	const uint8_t encoding = entry->encoding ? entry->encoding : PCREL_SDATA4;

	memset(memory, 0, sizeof(memory));
	put_header();
	put_cie(entry, encoding);
	put_fde(entry, encoding);
	return (struct cm_cfi_object){memory, memory + BYTES, &memory[HEADER], 20};
}

static struct cm_rule find(const struct cm_cfi_object *object, uint32_t pc)
{
	return cm_cfi_find(object, (uintptr_t)&memory[CODE] + pc);
}

#define PROGRAM(text) .program = (text), .bytes = sizeof(text) - 1
#define SP(cfa)                    \
	{                          \
		CM_RULE_SP, cfa, 0 \
	}
#define SP_FP(cfa)                     \
	{                              \
		CM_RULE_SP_FP, cfa, 16 \
	}
#define NOTHING                    \
	{                          \
		CM_RULE_NONE, 0, 0 \
	}

static const struct entry entries[] = {
	{"nothing", PROGRAM(""), 0, SP(8)},
	{"def_cfa_offset", PROGRAM("\x0e\x10"), 0, SP(16)},
	{"def_cfa_sf", PROGRAM("\x12\x07\x7e"), 0, SP(16)},
	{"def_cfa_offset_sf", PROGRAM("\x13\x7e"), 0, SP(16)},
	{"def_cfa", PROGRAM("\x0c\x07\x18"), 0, SP(24)},
	{"offset", PROGRAM("\x0e\x10\x86\x02"), 0, SP_FP(16)},
	{"offset_extended", PROGRAM("\x0e\x10\x05\x06\x02"), 0, SP_FP(16)},
	{"offset_extended_sf", PROGRAM("\x0e\x10\x11\x06\x02"), 0, SP_FP(16)},
	{"def_cfa_register", PROGRAM("\x0e\x10\x86\x02\x0d\x06"), 0, {CM_RULE_FP, 16, 16}},
	{"before advance_loc", PROGRAM("\x44\x0e\x10"), 3, SP(8)},
	{"behind advance_loc", PROGRAM("\x44\x0e\x10"), 4, SP(16)},
	{"before advance_loc1", PROGRAM("\x02\x05\x0e\x10"), 4, SP(8)},
	{"behind advance_loc1", PROGRAM("\x02\x05\x0e\x10"), 5, SP(16)},
	{"behind advance_loc2", PROGRAM("\x03\x05\x00\x0e\x10"), 5, SP(16)},
	{"before advance_loc4", PROGRAM("\x04\x05\x00\x00\x00\x0e\x10"), 4, SP(8)},
	{"behind advance_loc4", PROGRAM("\x04\x05\x00\x00\x00\x0e\x10"), 5, SP(16)},
	{"set_loc beyond", PROGRAM("\x01\xff\xff\xff\x00\x0e\x10"), 0, SP(8)},
	{"restore", PROGRAM("\x86\x02\xc6"), 0, SP(8)},
	{"restore of another register", PROGRAM("\x83\x02\xc3"), 0, SP(8)},
	{"restore_extended", PROGRAM("\x86\x02\x06\x06"), 0, SP(8)},
	{"same_value", PROGRAM("\x86\x02\x08\x06"), 0, SP(8)},
	{"undefined", PROGRAM("\x07\x10"), 0, {CM_RULE_END, 0, 0}},
	{"register", PROGRAM("\x09\x06\x03"), 0, NOTHING},
	{"val_offset", PROGRAM("\x14\x06\x01"), 0, NOTHING},
	{"val_expression", PROGRAM("\x16\x06\x01\x00"), 0, NOTHING},
	{"remember_state", PROGRAM("\x0a\x0e\x20\x0b"), 0, SP(8)},
	{"restore_state of none", PROGRAM("\x0b"), 0, NOTHING},
	{"too many states",
	 PROGRAM("\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a"), 0,
	 NOTHING},
	{"GNU_args_size", PROGRAM("\x2e\x10"), 0, SP(8)},
	{"no instruction", PROGRAM("\x3f\x00"), 0, NOTHING},
	{"a stack that was aligned",
	 PROGRAM("\x0f\x03\x76\x78\x06\x10\x06\x02\x76\x00"),
	 0,
	 {CM_RULE_FP_REF, 8, 0}},
	{"aligned, and saved elsewhere", PROGRAM("\x0f\x03\x76\x78\x06"), 0, NOTHING},
	{"an expression of another register", PROGRAM("\x0f\x03\x77\x08\x06"), 0, NOTHING},
	{"an expression of another kind", PROGRAM("\x0f\x02\x76\x78"), 0, NOTHING},
	{"an expression that is too long", PROGRAM("\x0f\x7f\x76"), 0, NOTHING},
	{"an expression for another register", PROGRAM("\x10\x03\x02\x76\x00"), 0, SP(8)},
	{"an instruction that is cut", PROGRAM("\x0e"), 0, NOTHING},
	{"a return address elsewhere", PROGRAM("\x90\x02"), 0, NOTHING},
	{"an odd offset", PROGRAM("\x0e\x0c"), 0, NOTHING},
	{"an address behind the function", PROGRAM(""), RANGE, NOTHING},
	{"addresses of 8 bytes", PROGRAM(""), 0, SP(8), .encoding = 0x10},
	{"addresses as sdata8", PROGRAM(""), 0, SP(8), .encoding = 0x1c},
	{"addresses as udata4", PROGRAM(""), 0, SP(8), .encoding = 0x13},
	{"addresses as udata2", PROGRAM(""), 0, SP(8), .encoding = 0x12},
	{"addresses as sdata2", PROGRAM(""), 0, SP(8), .encoding = 0x1a},
	{"addresses from another base", PROGRAM(""), 0, NOTHING, .encoding = 0x3b},
	{"addresses of no form", PROGRAM(""), 0, NOTHING, .encoding = 0x1f},
	{"a personality and data of its own", PROGRAM(""), 0, SP(8), .augmentation = "zPLR"},
	{"an augmentation that is new", PROGRAM(""), 0, SP(8), .augmentation = "zRX"},
	{"no augmentation", PROGRAM(""), 0, SP(8), .augmentation = ""},
	{"a signal's frame", PROGRAM(""), 0, {CM_RULE_END, 0, 0}, .augmentation = "zRS"},
	{"an augmentation of old", PROGRAM(""), 0, NOTHING, .augmentation = "eh"},
	{"version 3", PROGRAM(""), 0, SP(8), .version = 3},
	{"version 4", PROGRAM(""), 0, NOTHING, .version = 4},
	{"another return address", PROGRAM(""), 0, NOTHING, .ra = 15},
};

CM_TEST(each_instruction_is_read)
{
	size_t i;

	for (i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		const struct cm_rule *expected = &entries[i].expected;
		const struct cm_cfi_object object = make(&entries[i]);
		const struct cm_rule rule = find(&object, entries[i].pc);

		if (rule.kind != expected->kind || rule.cfa != expected->cfa ||
		    rule.fp != expected->fp)
			fail_msg("%s: kind %d, cfa %u, fp %u", entries[i].what, (int)rule.kind,
				 rule.cfa, rule.fp);
	}
}

/* One damaged value, which must give no rule. */
CM_TEST(damaged_tables_give_no_rule)
{
	static const struct {
		const char *what;
		uint32_t at, value;
	} damage[] = {
		{"a header of another version", HEADER, 0x3b031b02},
		{"a table of another form", HEADER, 0x1b031b01},
		{"no table", HEADER, 0x3b03ff01},
		{"an empty table", HEADER + 8, 0},
		{"a table that is too long", HEADER + 8, 9},
		{"a function that begins later", HEADER + 12, CODE + 32},
		{"an entry outside", HEADER + 16, BYTES},
		{"an empty entry", FDE, 0},
		{"an entry of 64 bits", FDE, UINT32_MAX},
		{"an entry that is too long", FDE, BYTES},
		{"an entry that is cut", FDE, 6},
		{"an entry of no other", FDE + 4, 4},
		{"a common entry that is empty", CIE, 0},
		{"a common entry that is none", CIE + 4, 7},
	};
	const struct entry plain = {"plain", PROGRAM(""), 0, SP(8)};
	struct cm_cfi_object object;
	size_t i;

	for (i = 0; i < sizeof(damage) / sizeof(damage[0]); i++) {
		object = make(&plain);
		assert_int_equal(find(&object, 0).kind, CM_RULE_SP);
		memcpy(&memory[damage[i].at], &damage[i].value, sizeof(damage[i].value));
		if (find(&object, 0).kind != CM_RULE_NONE)
			fail_msg("%s is understood", damage[i].what);
	}
	object = make(&plain);
	object.header = NULL;
	assert_int_equal(find(&object, 0).kind, CM_RULE_NONE);
}
