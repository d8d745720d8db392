/* SPDX-License-Identifier: MIT */
#include "tests/proof/program.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define USUAL_SIZES   5
#define LETTERS_EVERY 16 /* operations */
#define READS_EVERY   6
#define LENDS_EVERY   15

static const struct {
	const char *name;
	unsigned weight;
	const char *args;
} operations[PROOF_OP_COUNT] = {
#define OP(name, weight, args) [PROOF_OP_##name] = {#name, weight, args},
#include "tests/proof/operations.def"
#undef OP
};

/* splitmix64 (Steele, Lea and Flood, 2014): any seed will do. */
static uint64_t draw(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* Sizes as programs have them: mostly small ones, round ones, and now and then a large one. */
static uint64_t draw_size(uint64_t *state)
{
	switch (draw(state) % 8) {
	case 0:
		return draw(state) % 4096 + 1;
	case 1:
		return (draw(state) % 64 + 1) * 512;
	case 2:
	case 3:
		return (draw(state) % 64 + 1) << 14;
	case 4:
		return UINT64_C(1) << draw(state) % 24;
	case 5:
	case 6:
		return (draw(state) % 24 + 1) << 20;
	default:
		return (UINT64_C(1) << (10 + draw(state) % 15)) + draw(state) % 1000;
	}
}

/* A program asks for a few sizes again and again: so what is freed is wanted at once. */
static uint64_t pick_size(uint64_t *state, const uint64_t *usual)
{
	return draw(state) % 8 ? usual[draw(state) % USUAL_SIZES] : draw_size(state);
}

static uint64_t draw_argument(uint64_t *state, const uint64_t *usual, char what)
{
	switch (what) {
	case 's':
		return draw(state) % PROOF_SLOTS;
	case 'z':
		return pick_size(state, usual);
	case 'k':
		return draw(state) % PROOF_KINDS;
	case 't':
		return draw(state) % PROOF_STREAMS;
	case 'c':
		return draw(state) % PROOF_CONTEXTS;
	case 'g':
		return draw(state) % PROOF_GRAPHS;
	case 'd':
		return UINT64_C(1) << (8 + draw(state) % 16);
	case 'p':
		return UINT64_C(1) << draw(state) % 18;
	default:
		return draw(state) % 1000;
	}
}

/* By numbers of their own: the other operations are not shifted. */
static void put_commands(uint64_t seed, struct proof_op *ops, size_t count)
{
	static const uint8_t kinds[] = {PROOF_OP_command, PROOF_OP_command, PROOF_OP_command,
					PROOF_OP_age, PROOF_OP_stale};
	uint64_t state = ~seed;
	size_t i;

	for (i = 0; i < count; i++)
		if (draw(&state) % LETTERS_EVERY == 0)
			ops[i] = (struct proof_op){.thread = ops[i].thread,
						   .kind = kinds[draw(&state) % sizeof(kinds)],
						   .arg = {draw_argument(&state, NULL, 'n')}};
}

static void put_host_reads(uint64_t seed, struct proof_op *ops, size_t count)
{
	static const uint8_t kinds[] = {PROOF_OP_arrive, PROOF_OP_arrive, PROOF_OP_depart,
					PROOF_OP_meet};
	uint64_t state = seed ^ 1;
	size_t i, a;

	for (i = 0; i < count; i++) {
		if (draw(&state) % READS_EVERY)
			continue;
		ops[i] = (struct proof_op){.thread = ops[i].thread,
					   .kind = kinds[draw(&state) % sizeof(kinds)]};
		for (a = 0; operations[ops[i].kind].args[a]; a++)
			ops[i].arg[a] = draw_argument(&state, NULL,
						      operations[ops[i].kind].args[a]);
	}
}

/* Every second block is freed at once, and its memory is soon asked for again. */
static void put_lending(uint64_t seed, struct proof_op *ops, size_t count)
{
	uint64_t state = seed ^ 2, slot;
	size_t i;

	for (i = 0; i + 1 < count; i++) {
		if (draw(&state) % LENDS_EVERY)
			continue;
		slot = draw_argument(&state, NULL, 's');
		ops[i] = (struct proof_op){.thread = ops[i].thread,
					   .kind = PROOF_OP_lend,
					   .arg = {slot, draw_argument(&state, NULL, 'c'),
						   draw_argument(&state, NULL, 'n')}};
		if (draw(&state) % 2)
			ops[i + 1] = (struct proof_op){
				.thread = ops[i].thread, .kind = PROOF_OP_free, .arg = {slot}};
	}
}

void proof_generate(uint64_t seed, struct proof_op *ops, const struct proof_run *run)
{
	const size_t count = run->count;
	unsigned total = 0, at, kind;
	uint64_t state = seed, usual[USUAL_SIZES];
	uint8_t thread = 0;
	size_t i, a;

	for (i = 0; i < USUAL_SIZES; i++)
		usual[i] = draw_size(&state);
	for (kind = 0; kind < PROOF_OP_COUNT; kind++)
		total += operations[kind].weight;
	for (i = 0; i < count; i++) {
		if (draw(&state) % 16 == 0)
			thread = (uint8_t)(draw(&state) % PROOF_THREADS);
		at = (unsigned)(draw(&state) % total);
		for (kind = 0; at >= operations[kind].weight; kind++)
			at -= operations[kind].weight;
		ops[i] = (struct proof_op){.thread = thread, .kind = (uint8_t)kind};
		for (a = 0; operations[kind].args[a]; a++)
			ops[i].arg[a] = draw_argument(&state, usual, operations[kind].args[a]);
	}
	if (run->commands)
		put_commands(seed, ops, count);
	if (run->host_reads)
		put_host_reads(seed, ops, count);
	if (run->lends)
		put_lending(seed, ops, count);
}

void proof_print(FILE *file, const struct proof_op *op)
{
	size_t a;

	(void)fprintf(file, "%u %s", op->thread, operations[op->kind].name);
	for (a = 0; operations[op->kind].args[a]; a++)
		(void)fprintf(file, " %" PRIu64, op->arg[a]);
	(void)fputc('\n', file);
}

int proof_parse(const char *line, struct proof_op *ret_op)
{
	struct proof_op op = {0};
	char text[256], *word, *rest = NULL, *end;
	unsigned kind;
	size_t a;

	(void)snprintf(text, sizeof(text), "%s", line);
	text[strcspn(text, "#\n")] = '\0';
	word = strtok_r(text, " ", &rest);
	if (!word)
		return 0;
	op.thread = (uint8_t)strtoul(word, &end, 10);
	word = strtok_r(NULL, " ", &rest);
	if (*end || !word || op.thread >= PROOF_THREADS)
		return -1;
	for (kind = 0; kind < PROOF_OP_COUNT && strcmp(operations[kind].name, word) != 0; kind++)
		;
	if (kind == PROOF_OP_COUNT)
		return -1;
	op.kind = (uint8_t)kind;
	for (a = 0; operations[kind].args[a]; a++) {
		word = strtok_r(NULL, " ", &rest);
		op.arg[a] = word ? strtoull(word, &end, 10) : 0;
		if (!word || *end)
			return -1;
	}
	if (strtok_r(NULL, " ", &rest))
		return -1;
	*ret_op = op;
	return 1;
}
