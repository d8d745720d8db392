/* SPDX-License-Identifier: MIT */
#include "tools/export/tree.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/output/json.h"
#include "tools/snapshot/intern.h"

#define DEPTH_MAX 16
#define BATCH     1000
#define NO_MEMO   UINT32_MAX

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

/* Where things of a kind stand in the memo. */
struct memo {
	uint32_t *at;
	uint32_t room;
};

struct cm_tree {
	FILE *file;
	bool pickle;
	bool failed;
	struct cm_json json;
	struct {
		bool dict;
		uint32_t items; /* of the present batch */
	} level[DEPTH_MAX];
	unsigned depth;
	uint32_t memos; /* entries of the memo so far */
	struct cm_intern keys;
	uint32_t *key_at; /* memo of each key */
	uint32_t key_room;
	struct memo memo[CM_TREE_KINDS];
	struct memo *next; /* the next container goes here */
	uint32_t next_id;
};

static struct cm_tree *create(FILE *file, bool pickle)
{
	struct cm_tree *tree = calloc(1, sizeof(*tree));

	if (!tree)
		return NULL;
	tree->file = file;
	tree->pickle = pickle;
	cm_intern_init(&tree->keys);
	if (!pickle)
		cm_json_init(&tree->json, file);
	return tree;
}

static void put_op(struct cm_tree *tree, int op)
{
	(void)putc_unlocked(op, tree->file);
}

static void put_bytes(struct cm_tree *tree, const void *bytes, size_t count)
{
	(void)fwrite_unlocked(bytes, 1, count, tree->file);
}

struct cm_tree *cm_tree_pickle(FILE *file)
{
	struct cm_tree *tree = create(file, true);

	if (tree) {
		put_op(tree, OP_PROTO);
		put_op(tree, 4);
	}
	return tree;
}

struct cm_tree *cm_tree_json(FILE *file)
{
	return create(file, false);
}

int cm_tree_close(struct cm_tree *tree)
{
	const bool failed = tree->failed;
	size_t kind;

	if (tree->pickle)
		put_op(tree, OP_STOP);
	for (kind = 0; kind < CM_TREE_KINDS; kind++)
		free(tree->memo[kind].at);
	free(tree->key_at);
	cm_intern_fini(&tree->keys);
	free(tree);
	return failed ? -ENOMEM : 0;
}

static void put_get(struct cm_tree *tree, uint32_t memo)
{
	const uint32_t little = htole32(memo);

	if (memo < 256) {
		put_op(tree, OP_BINGET);
		put_op(tree, (int)memo);
	} else {
		put_op(tree, OP_LONG_BINGET);
		put_bytes(tree, &little, sizeof(little));
	}
}

static void put_text(struct cm_tree *tree, const char *text)
{
	const size_t bytes = strlen(text);
	const uint32_t little = htole32((uint32_t)bytes);

	if (bytes < 256) {
		put_op(tree, OP_SHORT_BINUNICODE);
		put_op(tree, (int)bytes);
	} else {
		put_op(tree, OP_BINUNICODE);
		put_bytes(tree, &little, sizeof(little));
	}
	put_bytes(tree, text, bytes);
}

/* A key is a text that is there once. */
static void put_key(struct cm_tree *tree, const char *key)
{
	const uint32_t number = cm_intern_text(&tree->keys, key);
	uint32_t *more;

	if (number == CM_INTERN_NONE) {
		tree->failed = true;
		put_text(tree, key);
		return;
	}
	if (number < tree->key_room && tree->key_at[number] != NO_MEMO) {
		put_get(tree, tree->key_at[number]);
		return;
	}
	put_text(tree, key);
	if (number >= tree->key_room) {
		more = reallocarray(tree->key_at, number + (size_t)64, sizeof(*more));
		if (!more) {
			tree->failed = true;
			return;
		}
		memset(more + tree->key_room, 0xff, (number + 64 - tree->key_room) * sizeof(*more));
		tree->key_at = more;
		tree->key_room = number + 64;
	}
	put_op(tree, OP_MEMOIZE);
	tree->key_at[number] = tree->memos++;
}

/* Before each value: the batch that it belongs to is open, its key stands before it. */
static void begin_value(struct cm_tree *tree, const char *key)
{
	if (tree->depth && !tree->level[tree->depth - 1].items)
		put_op(tree, OP_MARK);
	if (key)
		put_key(tree, key);
}

static void close_batch(struct cm_tree *tree)
{
	if (tree->level[tree->depth - 1].items)
		put_op(tree, tree->level[tree->depth - 1].dict ? OP_SETITEMS : OP_APPENDS);
	tree->level[tree->depth - 1].items = 0;
}

/* After each value. */
static void end_value(struct cm_tree *tree)
{
	if (tree->depth && ++tree->level[tree->depth - 1].items == BATCH)
		close_batch(tree);
}

static void memoize(struct cm_tree *tree)
{
	struct memo *memo = tree->next;
	uint32_t *more, room;

	tree->next = NULL;
	if (tree->next_id >= memo->room) {
		room = tree->next_id < UINT32_MAX / 2 ? tree->next_id * 2 + 256 : UINT32_MAX;
		more = reallocarray(memo->at, room, sizeof(*more));
		if (!more) {
			tree->failed = true;
			return;
		}
		memset(more + memo->room, 0xff, (room - memo->room) * sizeof(*more));
		memo->at = more;
		memo->room = room;
	}
	put_op(tree, OP_MEMOIZE);
	memo->at[tree->next_id] = tree->memos++;
}

static void open_container(struct cm_tree *tree, const char *key, bool dict)
{
	if (tree->depth == DEPTH_MAX)
		abort(); /* the structures written here are of a few levels */
	begin_value(tree, key);
	put_op(tree, dict ? OP_EMPTY_DICT : OP_EMPTY_LIST);
	if (tree->next)
		memoize(tree);
	tree->level[tree->depth].dict = dict;
	tree->level[tree->depth++].items = 0;
}

void cm_tree_dict(struct cm_tree *tree, const char *key)
{
	if (tree->pickle)
		open_container(tree, key, true);
	else
		cm_json_object(&tree->json, key);
}

void cm_tree_list(struct cm_tree *tree, const char *key)
{
	if (tree->pickle)
		open_container(tree, key, false);
	else
		cm_json_array(&tree->json, key);
}

void cm_tree_end(struct cm_tree *tree)
{
	if (!tree->pickle) {
		cm_json_end(&tree->json);
		return;
	}
	close_batch(tree);
	tree->depth--;
	end_value(tree);
}

void cm_tree_text(struct cm_tree *tree, const char *key, const char *text)
{
	if (!tree->pickle) {
		cm_json_text(&tree->json, key, text);
		return;
	}
	begin_value(tree, key);
	put_text(tree, text);
	end_value(tree);
}

/* Whether so many bytes, at most seven, hold the number. */
static bool fits(int64_t number, size_t bytes)
{
	const int64_t half = INT64_C(1) << (8 * bytes - 1);

	return number >= -half && number < half;
}

/* The shortest form, as CPython writes it. */
static void put_number(struct cm_tree *tree, int64_t number)
{
	const uint64_t little = htole64((uint64_t)number);
	size_t bytes = 8;

	if (number >= 0 && number < 256) {
		put_op(tree, OP_BININT1);
		put_bytes(tree, &little, 1);
	} else if (number >= 0 && number < 65536) {
		put_op(tree, OP_BININT2);
		put_bytes(tree, &little, 2);
	} else if (number >= INT32_MIN && number <= INT32_MAX) {
		put_op(tree, OP_BININT);
		put_bytes(tree, &little, 4);
	} else {
		/* Two's complement, without bytes that only repeat the sign. */
		while (bytes > 5 && fits(number, bytes - 1))
			bytes--;
		put_op(tree, OP_LONG1);
		put_op(tree, (int)bytes);
		put_bytes(tree, &little, bytes);
	}
}

void cm_tree_number(struct cm_tree *tree, const char *key, int64_t number)
{
	if (!tree->pickle) {
		cm_json_number(&tree->json, key, number);
		return;
	}
	begin_value(tree, key);
	put_number(tree, number);
	end_value(tree);
}

void cm_tree_unsigned(struct cm_tree *tree, const char *key, uint64_t number)
{
	cm_tree_number(tree, key, number < INT64_MAX ? (int64_t)number : INT64_MAX);
}

void cm_tree_real(struct cm_tree *tree, const char *key, double number)
{
	uint64_t bits;

	if (!tree->pickle) {
		cm_json_real(&tree->json, key, number);
		return;
	}
	memcpy(&bits, &number, sizeof(bits));
	bits = htobe64(bits);
	begin_value(tree, key);
	put_op(tree, OP_BINFLOAT);
	put_bytes(tree, &bits, sizeof(bits));
	end_value(tree);
}

void cm_tree_flag(struct cm_tree *tree, const char *key, bool value)
{
	if (!tree->pickle) {
		cm_json_bool(&tree->json, key, value);
		return;
	}
	begin_value(tree, key);
	put_op(tree, value ? OP_NEWTRUE : OP_NEWFALSE);
	end_value(tree);
}

void cm_tree_pair(struct cm_tree *tree, const char *key, int64_t first, int64_t second)
{
	if (!tree->pickle) {
		cm_json_array(&tree->json, key);
		cm_json_number(&tree->json, NULL, first);
		cm_json_number(&tree->json, NULL, second);
		cm_json_end(&tree->json);
		return;
	}
	begin_value(tree, key);
	put_number(tree, first);
	put_number(tree, second);
	put_op(tree, OP_TUPLE2);
	end_value(tree);
}

bool cm_tree_refer(struct cm_tree *tree, const char *key, enum cm_tree_kind kind, uint32_t id)
{
	struct memo *memo = &tree->memo[kind];

	if (!tree->pickle)
		return false;
	if (id < memo->room && memo->at[id] != NO_MEMO) {
		begin_value(tree, key);
		put_get(tree, memo->at[id]);
		end_value(tree);
		return true;
	}
	tree->next = memo;
	tree->next_id = id;
	return false;
}
