/* SPDX-License-Identifier: MIT */
#include "tools/output/pickle.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/output/intern.h"
#include "tools/output/reserve.h"

enum opcode {
	OP_MARK = '(',
	OP_STOP = '.',
	OP_BINFLOAT = 'G',
	OP_BININT = 'J',
	OP_BININT1 = 'K',
	OP_BININT2 = 'M',
	OP_BINUNICODE = 'X',
	OP_EMPTY_LIST = ']',
	OP_APPENDS = 'e',
	OP_NONE = 'N',
	OP_BINGET = 'h',
	OP_LONG_BINGET = 'j',
	OP_SETITEMS = 'u',
	OP_EMPTY_DICT = '}',
	OP_PROTO = 0x80,
	OP_TUPLE2 = 0x86,
	OP_NEWTRUE = 0x88,
	OP_NEWFALSE = 0x89,
	OP_LONG1 = 0x8a,
	OP_SHORT_BINUNICODE = 0x8c,
	OP_MEMOIZE = 0x94,
};

/* The memo index of each thing of a kind, plus 1; 0: it has none. */
struct memo {
	uint32_t *at;
	size_t room;
};

struct cm_pickle {
	FILE *file;
	bool failed;
	uint32_t memos;        /* entries of the memo so far */
	struct cm_intern keys; /* their numbers index `key` */
	struct memo key;
	struct memo memo[CM_PICKLE_KINDS];
	struct memo *next; /* where the next container goes */
	uint32_t next_id;
};

static void put_op(struct cm_pickle *pickle, int op)
{
	(void)putc_unlocked(op, pickle->file);
}

static void put_bytes(struct cm_pickle *pickle, const void *bytes, size_t count)
{
	(void)fwrite_unlocked(bytes, 1, count, pickle->file);
}

struct cm_pickle *cm_pickle_open(FILE *file)
{
	struct cm_pickle *pickle = calloc(1, sizeof(*pickle));

	if (!pickle)
		return NULL;
	pickle->file = file;
	cm_intern_init(&pickle->keys);
	put_op(pickle, OP_PROTO);
	put_op(pickle, 4);
	return pickle;
}

int cm_pickle_close(struct cm_pickle *pickle)
{
	const bool failed = pickle->failed;
	size_t kind;

	put_op(pickle, OP_STOP);
	for (kind = 0; kind < CM_PICKLE_KINDS; kind++)
		free(pickle->memo[kind].at);
	free(pickle->key.at);
	cm_intern_fini(&pickle->keys);
	free(pickle);
	return failed ? -ENOMEM : 0;
}

static void put_get(struct cm_pickle *pickle, const struct memo *memo, uint32_t id)
{
	const uint32_t index = memo->at[id] - 1, little = htole32(index);

	if (index < 256) {
		put_op(pickle, OP_BINGET);
		put_op(pickle, (int)index);
	} else {
		put_op(pickle, OP_LONG_BINGET);
		put_bytes(pickle, &little, sizeof(little));
	}
}

static bool is_known(const struct memo *memo, uint32_t id)
{
	return id < memo->room && memo->at[id];
}

/* Lets later references find the thing that was just written. */
static void memoize(struct cm_pickle *pickle, struct memo *memo, uint32_t id)
{
	if (!cm_reserve(&memo->at, &memo->room, id + (size_t)1)) {
		pickle->failed = true;
		return;
	}
	put_op(pickle, OP_MEMOIZE);
	memo->at[id] = ++pickle->memos;
}

void cm_pickle_text(struct cm_pickle *pickle, const char *text)
{
	const size_t bytes = strlen(text);
	const uint32_t little = htole32((uint32_t)bytes);

	if (bytes < 256) {
		put_op(pickle, OP_SHORT_BINUNICODE);
		put_op(pickle, (int)bytes);
	} else {
		put_op(pickle, OP_BINUNICODE);
		put_bytes(pickle, &little, sizeof(little));
	}
	put_bytes(pickle, text, bytes);
}

void cm_pickle_begin_batch(struct cm_pickle *pickle)
{
	put_op(pickle, OP_MARK);
}

void cm_pickle_end_batch(struct cm_pickle *pickle, bool dict)
{
	put_op(pickle, dict ? OP_SETITEMS : OP_APPENDS);
}

void cm_pickle_key(struct cm_pickle *pickle, const char *key)
{
	const uint32_t number = cm_intern_text(&pickle->keys, key);

	if (number != CM_INTERN_NONE && is_known(&pickle->key, number)) {
		put_get(pickle, &pickle->key, number);
		return;
	}
	cm_pickle_text(pickle, key);
	if (number == CM_INTERN_NONE)
		pickle->failed = true;
	else
		memoize(pickle, &pickle->key, number);
}

void cm_pickle_container(struct cm_pickle *pickle, bool dict)
{
	put_op(pickle, dict ? OP_EMPTY_DICT : OP_EMPTY_LIST);
	if (pickle->next)
		memoize(pickle, pickle->next, pickle->next_id);
	pickle->next = NULL;
}

/* Whether `bytes` bytes, at most seven, can hold the number. */
static bool fits(int64_t number, size_t bytes)
{
	const int64_t half = INT64_C(1) << (8 * bytes - 1);

	return number >= -half && number < half;
}

/* The shortest form, as CPython writes it. */
void cm_pickle_number(struct cm_pickle *pickle, int64_t number)
{
	const uint64_t little = htole64((uint64_t)number);
	size_t bytes = 8;

	if (number >= 0 && number < 256) {
		put_op(pickle, OP_BININT1);
		put_bytes(pickle, &little, 1);
	} else if (number >= 0 && number < 65536) {
		put_op(pickle, OP_BININT2);
		put_bytes(pickle, &little, 2);
	} else if (number >= INT32_MIN && number <= INT32_MAX) {
		put_op(pickle, OP_BININT);
		put_bytes(pickle, &little, 4);
	} else {
		/* Two's complement, without the bytes that only repeat the sign. */
		while (bytes > 5 && fits(number, bytes - 1))
			bytes--;
		put_op(pickle, OP_LONG1);
		put_op(pickle, (int)bytes);
		put_bytes(pickle, &little, bytes);
	}
}

void cm_pickle_real(struct cm_pickle *pickle, double number)
{
	uint64_t bits;

	memcpy(&bits, &number, sizeof(bits));
	bits = htobe64(bits);
	put_op(pickle, OP_BINFLOAT);
	put_bytes(pickle, &bits, sizeof(bits));
}

void cm_pickle_bool(struct cm_pickle *pickle, bool value)
{
	put_op(pickle, value ? OP_NEWTRUE : OP_NEWFALSE);
}

void cm_pickle_none(struct cm_pickle *pickle)
{
	put_op(pickle, OP_NONE);
}

void cm_pickle_pair(struct cm_pickle *pickle, int64_t first, int64_t second)
{
	cm_pickle_number(pickle, first);
	cm_pickle_number(pickle, second);
	put_op(pickle, OP_TUPLE2);
}

bool cm_pickle_is_known(const struct cm_pickle *pickle, enum cm_pickle_kind kind, uint32_t id)
{
	return is_known(&pickle->memo[kind], id);
}

void cm_pickle_refer(struct cm_pickle *pickle, enum cm_pickle_kind kind, uint32_t id)
{
	put_get(pickle, &pickle->memo[kind], id);
}

void cm_pickle_expect(struct cm_pickle *pickle, enum cm_pickle_kind kind, uint32_t id)
{
	pickle->next = &pickle->memo[kind];
	pickle->next_id = id;
}
