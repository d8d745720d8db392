/* SPDX-License-Identifier: MIT */
#include "program.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What is needed while a program is made, behind its public face. */
struct making {
	struct program program;
	size_t room;     /* of operations */
	uint64_t *size;  /* of what is in each slot, 0: nothing */
	uint32_t *spare; /* slots that are empty again, the last one first */
	size_t spares;
	size_t slot_room;
	uint64_t live;
	bool failed; /* no memory */
};

static struct making *making_of(struct program *program)
{
	return (struct making *)program;
}

static void add(struct making *making, const struct op *op)
{
	struct program *program = &making->program;
	struct op *more;

	if (program->ops == making->room) {
		making->room = making->room ? making->room * 2 : 1024;
		more = realloc(program->op, making->room * sizeof(*more));
		if (!more) {
			making->failed = true;
			return;
		}
		program->op = more;
	}
	program->op[program->ops++] = *op;
}

/* A slot without a block; PROGRAM_SYNC where there is no memory. */
static uint32_t empty_slot(struct making *making)
{
	uint64_t *size;
	uint32_t *spare;

	if (making->spares)
		return making->spare[--making->spares];
	if (making->program.slots == making->slot_room) {
		making->slot_room = making->slot_room ? making->slot_room * 2 : 1024;
		size = realloc(making->size, making->slot_room * sizeof(*size));
		if (size)
			making->size = size;
		spare = realloc(making->spare, making->slot_room * sizeof(*spare));
		if (spare)
			making->spare = spare;
		making->failed |= !size || !spare;
	}
	return making->failed ? PROGRAM_SYNC : (uint32_t)making->program.slots++;
}

uint32_t program_take(struct program *program, uint64_t bytes, uint32_t stream, uint32_t context)
{
	struct making *making = making_of(program);
	uint32_t slot;

	if (making->failed || !bytes || bytes > PROGRAM_PEAK_MAX - making->live)
		return PROGRAM_SYNC;
	slot = empty_slot(making);
	if (slot == PROGRAM_SYNC)
		return slot;
	making->size[slot] = bytes;
	making->live += bytes;
	if (making->live > program->peak)
		program->peak = making->live;
	if (context >= program->contexts)
		program->contexts = context + 1;
	add(making, &(struct op){bytes, slot, (uint16_t)stream, (uint16_t)context});
	return slot;
}

void program_give(struct program *program, uint32_t slot)
{
	struct making *making = making_of(program);

	if (making->failed || slot == PROGRAM_SYNC || !making->size[slot])
		return;
	making->live -= making->size[slot];
	making->size[slot] = 0;
	making->spare[making->spares++] = slot;
	add(making, &(struct op){.slot = slot});
}

void program_sync(struct program *program)
{
	add(making_of(program), &(struct op){.slot = PROGRAM_SYNC});
}

uint64_t program_live(const struct program *program)
{
	return ((const struct making *)program)->live;
}

int program_make(const struct family *family, uint64_t seed, struct program *ret_program)
{
	struct making making = {.program.contexts = 1};
	struct random random;
	size_t i;

	/* Equal seeds of two families shall have nothing in common. */
	for (i = 0; family->name[i]; i++)
		seed = (seed ^ (uint8_t)family->name[i]) * UINT64_C(0x100000001b3);
	random_init(&random, seed);
	family->make(&making.program, &random);
	free(making.size);
	free(making.spare);
	if (making.failed) {
		program_free(&making.program);
		return -1;
	}
	*ret_program = making.program;
	return 0;
}

void program_free(struct program *program)
{
	free(program->op);
	*program = (struct program){0};
}

static const char *check_op(const struct program *program, const struct op *op, uint64_t *size,
			    uint64_t *live)
{
	if (op->slot == PROGRAM_SYNC)
		return op->bytes ? "a request without a slot" : NULL;
	if (op->slot >= program->slots)
		return "a slot that is not there";
	if (op->bytes && size[op->slot])
		return "a request into a slot that is taken";
	if (!op->bytes && !size[op->slot])
		return "a free of what is not live";
	if (op->thread >= program->contexts || program->contexts > PROGRAM_CONTEXTS_MAX)
		return "a context that is not there";
	if (op->stream >= PROGRAM_STREAMS_MAX)
		return "a stream that is not there";
	*live += op->bytes - (op->bytes ? 0 : size[op->slot]);
	size[op->slot] = op->bytes;
	return *live > PROGRAM_PEAK_MAX ? "more live than the bound" : NULL;
}

const char *program_check(const struct program *program)
{
	uint64_t *size = calloc(program->slots + 1, sizeof(*size)), live = 0, peak = 0;
	const char *why = size ? NULL : "no memory";
	size_t i;

	for (i = 0; i < program->ops && !why; i++) {
		why = check_op(program, &program->op[i], size, &live);
		peak = live > peak ? live : peak;
	}
	free(size);
	if (!why && (!peak || peak != program->peak))
		why = "a peak that is not as told";
	return why;
}

void program_write(const struct program *program, FILE *file)
{
	size_t i;

	for (i = 0; i < program->ops; i++) {
		const struct op *op = &program->op[i];

		if (op->slot == PROGRAM_SYNC)
			fprintf(file, "# sync\n");
		else if (op->bytes)
			fprintf(file, "a %" PRIu32 " %" PRIu64 " %u %u\n", op->slot, op->bytes,
				op->stream, op->thread);
		else
			fprintf(file, "f %" PRIu32 " 0 0\n", op->slot);
	}
}

/* The number at the start of the text. strtoull takes a sign, and blanks before it. */
static int parse_number(const char *text, uint64_t *ret_value, const char **ret_end)
{
	char *end;

	if (!isdigit((unsigned char)*text))
		return -1;
	errno = 0;
	*ret_value = strtoull(text, &end, 10);
	*ret_end = end;
	return errno ? -1 : 0;
}

int parse_bytes(const char *text, uint64_t *ret_bytes)
{
	static const char units[] = "KMGT";
	const char *end, *unit;
	uint64_t bytes;

	if (parse_number(text, &bytes, &end))
		return -1;
	if (*end) {
		unit = strchr(units, *end);
		if (!unit || end[1])
			return -1;
		if (__builtin_mul_overflow(bytes, UINT64_C(1) << (10 * (unit - units + 1)), &bytes))
			return -1;
	}
	*ret_bytes = bytes;
	return 0;
}

int parse_range(const char *text, uint64_t *ret_from, uint64_t *ret_count)
{
	uint64_t from, count, sum;
	const char *end;

	if (parse_number(text, &from, &end) || *end != ':' || parse_number(end + 1, &count, &end) ||
	    *end || __builtin_add_overflow(from, count, &sum))
		return -1;
	*ret_from = from;
	*ret_count = count;
	return 0;
}
