/* SPDX-License-Identifier: MIT */
#include "trace.h"

#include <errno.h>
#include <inttypes.h>
#include <search.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An identifier that has been seen, and its slot. */
struct id {
	uint64_t number;
	uint32_t slot;
	bool live;
};

struct reader {
	struct sequence sequence;
	size_t room;
	void *ids; /* a tree of struct id */
};

static int compare(const void *a, const void *b)
{
	const struct id *x = a, *y = b;

	return (x->number > y->number) - (x->number < y->number);
}

/* The identifier's row, made where it is new; NULL where there is no memory. */
static struct id *find_id(struct reader *reader, uint64_t number)
{
	struct id *id = malloc(sizeof(*id));
	void *found;

	if (!id)
		return NULL;
	*id = (struct id){.number = number};
	found = tsearch(id, &reader->ids, compare);
	if (!found || *(struct id **)found != id)
		free(id);
	else
		id->slot = (uint32_t)reader->sequence.slots++;
	return found ? *(struct id **)found : NULL;
}

static int add(struct reader *reader, const struct op *op)
{
	struct sequence *sequence = &reader->sequence;
	struct op *more;

	if (sequence->ops == reader->room) {
		reader->room = reader->room ? reader->room * 2 : 4096;
		more = realloc(sequence->op, reader->room * sizeof(*more));
		if (!more)
			return -ENOMEM;
		sequence->op = more;
	}
	sequence->op[sequence->ops++] = *op;
	return 0;
}

static int add_alloc(struct reader *reader, uint64_t number, uint64_t bytes, uint16_t stream,
		     uint16_t thread)
{
	struct id *id = bytes ? find_id(reader, number) : NULL;

	if (!bytes)
		return 0;
	if (!id)
		return -ENOMEM;
	if (id->live)
		return -EINVAL;
	id->live = true;
	return add(reader, &(struct op){bytes, id->slot, stream, thread});
}

static int add_free(struct reader *reader, uint64_t number, uint16_t stream, uint16_t thread)
{
	struct id *id = find_id(reader, number);

	if (!id)
		return -ENOMEM;
	/* Of a request of 0 bytes, or freed twice. */
	if (!id->live)
		return 0;
	id->live = false;
	return add(reader, &(struct op){0, id->slot, stream, thread});
}

static int read_line(struct reader *reader, const char *line)
{
	uint64_t number, bytes;
	uint16_t stream, thread;
	int end = 0;

	line += strspn(line, " \t\n");
	if (!*line || *line == '#')
		return 0;
	if (sscanf(line, "a %" SCNu64 " %" SCNu64 " %" SCNu16 " %" SCNu16 " %n", &number, &bytes,
		   &stream, &thread, &end) == 4 &&
	    !line[end])
		return add_alloc(reader, number, bytes, stream, thread);
	if (sscanf(line, "f %" SCNu64 " %" SCNu16 " %" SCNu16 " %n", &number, &stream, &thread,
		   &end) == 3 &&
	    !line[end])
		return add_free(reader, number, stream, thread);
	return -EINVAL;
}

static int read_lines(struct reader *reader, FILE *file, const char *path)
{
	char *line = NULL;
	size_t room = 0, number = 0;
	int err = 0;

	while (!err && getline(&line, &room, file) >= 0) {
		number++;
		err = read_line(reader, line);
	}
	free(line);
	if (err)
		fprintf(stderr, "replay: %s:%zu: %s\n", path, number, strerror(-err));
	else if (!reader->sequence.ops)
		fprintf(stderr, "replay: %s: no requests\n", path);
	return err || !reader->sequence.ops ? -1 : 0;
}

int trace_read(const char *path, struct sequence *ret_sequence)
{
	struct reader reader = {.sequence.rounds = 1};
	FILE *file = fopen(path, "re");
	int err;

	if (!file) {
		fprintf(stderr, "replay: %s: %s\n", path, strerror(errno));
		return -1;
	}
	err = read_lines(&reader, file, path);
	(void)fclose(file);
	tdestroy(reader.ids, free);
	if (err)
		sequence_free(&reader.sequence);
	else
		*ret_sequence = reader.sequence;
	return err;
}

uint64_t trace_peak_bytes(const struct sequence *sequence)
{
	uint64_t *size = calloc(sequence->slots, sizeof(*size)), now = 0, peak = 0;
	size_t i;

	for (i = 0; size && i < sequence->ops; i++) {
		const struct op *op = &sequence->op[i];

		now += op->bytes - (op->bytes ? 0 : size[op->slot]);
		size[op->slot] = op->bytes;
		if (now > peak)
			peak = now;
	}
	free(size);
	return peak;
}
