/* SPDX-License-Identifier: MIT */
/*
 * Plays programs of the ensemble under each system, and prints a line for each program, system and
 * device: names and values, for judge.py.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "card.h"
#include "program.h"
#include "systems.h"

#define PASSES      4
#define SYSTEMS_MAX 16

struct options {
	const struct system *system[SYSTEMS_MAX];
	size_t systems;
	uint64_t from, count;        /* seeds of each family */
	uint64_t part, parts;        /* every parts-th program, from this one on */
	const struct family *family; /* NULL: all */
	uint64_t card;               /* bytes; 0: as the program says */
	uint64_t percent;            /* of the peak; 0: the same */
	const char *trace;           /* where the program is written to */
	bool smallest;
	bool list;
};

/* A pass: what was asked, and what it came to. */
struct pass {
	uint64_t requests, served, refused;
	uint64_t held;              /* bytes requested and live, the most */
	uint64_t reserved;          /* bytes of the card, the most */
	struct card_counters calls; /* of this pass alone */
};

struct player {
	const struct program *program;
	const struct system *system;
	bool busy;
	void **slot;
	uint64_t *size; /* of what is in each slot */
	uint64_t live;
};

static void give(struct player *player, uint32_t slot)
{
	if (!player->slot[slot])
		return;
	player->system->free(player->slot[slot]);
	player->slot[slot] = NULL;
	player->live -= player->size[slot];
}

/* False: refused. */
static bool take(struct player *player, const struct op *op, struct pass *pass)
{
	void *block = player->system->alloc(op->bytes, op->stream, op->thread);

	pass->requests++;
	if (!block) {
		pass->refused++;
		return false;
	}
	pass->served++;
	player->slot[op->slot] = block;
	player->size[op->slot] = op->bytes;
	player->live += op->bytes;
	if (player->live > pass->held)
		pass->held = player->live;
	if (player->busy) {
		if (player->system->before_work)
			player->system->before_work();
		card_work(op->thread);
	}
	return true;
}

/* Plays it once; what it leaves behind is freed at its end. True: it came to its end. */
static bool play(struct player *player, struct pass *ret_pass)
{
	const struct program *program = player->program;
	const struct op *op = program->op, *end = op + program->ops;
	struct card_counters before = *card_counters();
	size_t i;
	bool done = true;

	*ret_pass = (struct pass){0};
	card_reset_peak();
	for (; op < end && done; op++) {
		if (op->slot == PROGRAM_SYNC)
			player->system->wait();
		else if (!op->bytes)
			give(player, op->slot);
		else
			done = take(player, op, ret_pass) || program->kind == PROGRAM_GOES_ON;
	}
	for (i = 0; i < program->slots; i++)
		give(player, (uint32_t)i);
	card_wait();
	ret_pass->calls = *card_counters();
	ret_pass->reserved = ret_pass->calls.peak;
	for (i = 0; i < CARD_CALLS; i++)
		ret_pass->calls.calls[i] -= before.calls[i];
	ret_pass->calls.ns -= before.ns;
	return done || program->kind == PROGRAM_FILLS;
}

/* So many passes on a new card; how many came to their end, or -1. The last ones may be missing. */
static int play_passes(const struct program *program, const struct system *system, bool busy,
		       uint64_t bytes, int passes, struct pass *ret_passes)
{
	struct player player = {.program = program, .system = system, .busy = busy};
	int done = -1;

	card_open(bytes);
	player.slot = calloc(program->slots + 1, sizeof(*player.slot));
	player.size = calloc(program->slots + 1, sizeof(*player.size));
	if (player.slot && player.size && !system->open(system, bytes, program->contexts)) {
		for (done = 0; done < passes; done++)
			if (!play(&player, &ret_passes[done]))
				break;
		system->close();
	}
	free(player.slot);
	free(player.size);
	card_close();
	return done;
}

/* The smallest card on which the first pass comes to its end, to a quarter of a percent. */
static uint64_t find_smallest(const struct program *program, const struct system *system, bool busy)
{
	uint64_t low = program->peak / CARD_CHUNK, high = low + 1, step = high / 64 + 1, middle;
	struct pass pass;

	while (play_passes(program, system, busy, high * CARD_CHUNK, 1, &pass) != 1) {
		low = high;
		high += step;
		step *= 2;
	}
	while (high - low > high / 400 + 1) {
		middle = low + (high - low) / 2;
		if (play_passes(program, system, busy, middle * CARD_CHUNK, 1, &pass) == 1)
			high = middle;
		else
			low = middle;
	}
	return high * CARD_CHUNK;
}

/* The card of a program that may have any: a multiple of its peak, by its seed. */
static uint64_t card_of(const struct options *options, const struct program *program, uint64_t seed)
{
	static const uint64_t percents[] = {102, 105, 110, 120, 135, 150, 200, 300, 400};
	uint64_t percent = options->percent;

	if (options->card)
		return options->card;
	if (program->card && !percent)
		return program->card;
	/* A half of the ensemble is the even seeds: both get all cards. */
	if (!percent)
		percent = percents[seed / 2 % (sizeof(percents) / sizeof(percents[0]))];
	return program->peak / 100 * percent;
}

static void print_pass(const struct pass *pass, int n)
{
	const uint64_t *calls = pass->calls.calls;

	printf(" requests%d=%" PRIu64 " served%d=%" PRIu64 " held%d=%" PRIu64
	       " reserved%d=%" PRIu64,
	       n, pass->requests, n, pass->served, n, pass->held, n, pass->reserved);
	printf(" ns%d=%" PRIu64 " calls%d=%" PRIu64 " maps%d=%" PRIu64 " events%d=%" PRIu64, n,
	       pass->calls.ns, n, calls[CARD_ALLOC] + calls[CARD_FREE], n,
	       calls[CARD_MAP] + calls[CARD_UNMAP], n,
	       calls[CARD_RECORD] + calls[CARD_WAIT] + calls[CARD_QUERY] + calls[CARD_SYNC]);
}

static int judge(const struct options *options, const struct family *family, uint64_t seed,
		 const struct program *program, bool busy)
{
	uint64_t card = card_of(options, program, seed);
	struct pass passes[PASSES];
	int done, n;
	size_t i;

	for (i = 0; i < options->systems; i++) {
		memset(passes, 0, sizeof(passes));
		done = play_passes(program, options->system[i], busy, card, PASSES, passes);
		if (done < 0)
			return -1;
		printf("program=%s:%" PRIu64 " system=%s busy=%d kind=%d card=%" PRIu64
		       " live=%" PRIu64 " done=%d",
		       family->name, seed, options->system[i]->name, busy, (int)program->kind, card,
		       program->peak, done);
		for (n = 0; n < PASSES; n++)
			print_pass(&passes[n], n + 1);
		if (options->smallest && program->kind == PROGRAM_FAILS)
			printf(" smallest=%" PRIu64,
			       find_smallest(program, options->system[i], busy));
		printf("\n");
	}
	return 0;
}

static int write_trace(const struct program *program, const char *path)
{
	FILE *file = fopen(path, "we");

	if (!file) {
		perror(path);
		return -1;
	}
	program_write(program, file);
	return fclose(file) ? -1 : 0;
}

static int judge_program(const struct options *options, const struct family *family, uint64_t seed)
{
	struct program program;
	const char *why;
	int status = -1;

	if (program_make(family, seed, &program))
		return -1;
	why = program_check(&program);
	if (why)
		fprintf(stderr, "ensemble: %s:%" PRIu64 ": %s\n", family->name, seed, why);
	else if (options->trace)
		status = write_trace(&program, options->trace);
	else if (options->list)
		status = printf("program=%s:%" PRIu64 " ops=%zu live=%" PRIu64 " card=%" PRIu64
				" contexts=%u\n",
				family->name, seed, program.ops, program.peak, program.card,
				program.contexts) < 0;
	else
		status = judge(options, family, seed, &program, false) ||
			 judge(options, family, seed, &program, true);
	program_free(&program);
	return status;
}

static int judge_all(const struct options *options)
{
	uint64_t at = 0, seed;
	size_t i;

	for (seed = options->from; seed - options->from < options->count; seed++) {
		for (i = 0; family_at(i); i++) {
			if (options->family && options->family != family_at(i))
				continue;
			if (at++ % options->parts == options->part &&
			    judge_program(options, family_at(i), seed))
				return -1;
		}
	}
	return 0;
}

static int usage(void)
{
	size_t i;

	fprintf(stderr,
		"usage: ensemble [--seeds FROM:COUNT] [--program FAMILY:SEED] [--card CARD] "
		"[--smallest]\n"
		"                [--part N:OF] [--trace FILE | --list] SYSTEM...\n\n"
		"  --seeds     of each family\n"
		"  --program   that one alone\n"
		"  --card      16G, or a multiple of the peak in percent: 110%%\n"
		"  --smallest  find the smallest card, too\n"
		"  --part      every OF-th program, from the N-th on\n"
		"  --trace     write the program to a file that replay reads\n"
		"  --list      tell of the programs and play none\n\nsystems:\n");
	for (i = 0; system_at(i); i++)
		fprintf(stderr, "  %-12s %s\n", system_at(i)->name, system_at(i)->help);
	fprintf(stderr, "families:\n");
	for (i = 0; family_at(i); i++)
		fprintf(stderr, "  %-12s %s\n", family_at(i)->name, family_at(i)->help);
	return 2;
}

static int parse_program(const char *text, struct options *options)
{
	const char *colon = strchr(text, ':');

	if (!colon || parse_bytes(colon + 1, &options->from))
		return -1;
	options->family = family_find(text, (size_t)(colon - text));
	options->count = 1;
	return options->family ? 0 : -1;
}

static int parse_card(const char *text, struct options *options)
{
	char number[24];
	size_t length = strlen(text);

	if (!length || length >= sizeof(number))
		return -1;
	if (text[length - 1] != '%')
		return parse_bytes(text, &options->card) || options->card < CARD_CHUNK ? -1 : 0;
	memcpy(number, text, length - 1);
	number[length - 1] = '\0';
	/* A percentage that could make a product of it and a peak overflow is a mistake. */
	return parse_bytes(number, &options->percent) || options->percent < 100 ||
			       options->percent > 100000
		       ? -1
		       : 0;
}

static int parse_option(int opt, const char *text, struct options *options)
{
	switch (opt) {
	case 's':
		return parse_range(text, &options->from, &options->count);
	case 'p':
		return parse_program(text, options);
	case 'c':
		return parse_card(text, options);
	case 'P':
		return parse_range(text, &options->part, &options->parts) ||
				       options->part >= options->parts
			       ? -1
			       : 0;
	case 't':
		options->trace = text;
		return 0;
	case 'S':
		options->smallest = true;
		return 0;
	case 'l':
		options->list = true;
		return 0;
	default:
		return -1;
	}
}

static int parse(int argc, char **argv, struct options *options)
{
	static const struct option names[] = {
		{"seeds", required_argument, NULL, 's'}, {"program", required_argument, NULL, 'p'},
		{"card", required_argument, NULL, 'c'},  {"part", required_argument, NULL, 'P'},
		{"trace", required_argument, NULL, 't'}, {"smallest", no_argument, NULL, 'S'},
		{"list", no_argument, NULL, 'l'},        {NULL, 0, NULL, 0},
	};
	int opt;

	*options = (struct options){.count = 1, .parts = 1};
	while ((opt = getopt_long(argc, argv, "", names, NULL)) != -1)
		if (parse_option(opt, optarg, options))
			return -1;
	for (; optind < argc && options->systems < SYSTEMS_MAX; optind++) {
		options->system[options->systems] = system_find(argv[optind]);
		if (!options->system[options->systems++])
			return -1;
	}
	return options->trace && !options->family ? -1 : 0;
}

int main(int argc, char **argv)
{
	struct options options;

	if (parse(argc, argv, &options))
		return usage();
	return judge_all(&options) ? 1 : 0;
}
