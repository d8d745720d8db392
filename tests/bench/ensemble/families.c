/* SPDX-License-Identifier: MIT */
/* The families of the ensemble: what each of its programs allocates and frees, and when. */
#include <math.h>
#include <string.h>

#include "program.h"

#define KIB          UINT64_C(1024)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* From least to most. */
static uint64_t between(struct random *random, uint64_t least, uint64_t most)
{
	return least + random_below(random, most - least + 1);
}

static uint64_t log_between(struct random *random, uint64_t least, uint64_t most)
{
	return random_log_uniform(random, least, most);
}

static bool chance(struct random *random, uint32_t percent)
{
	return random_below(random, 100) < percent;
}

static uint32_t take(struct program *program, uint64_t bytes)
{
	return program_take(program, bytes, 0, 0);
}

/* Cards on which programs grow. */
static uint64_t any_card(struct random *random)
{
	static const uint64_t cards[] = {1 * GIB, 16 * GIB, 80 * GIB};

	return cards[random_below(random, COUNT(cards))];
}

/* --- programs that fill the card ------------------------------------------------------------ */

#define GROWING_BLOCKS 1500       /* so many fit, or somewhat more */
#define GROWING_ROOM   (32 * MIB) /* at least so much is left for them */

/* One size or few, again and again. Where the blocks are small one large block takes most of the
 * card first. */
static void make_growing(struct program *program, struct random *random)
{
	uint64_t size[4], card = any_card(random), mean = 0, room, got = 0;
	size_t i, n = chance(random, 60) ? 1 : between(random, 2, COUNT(size));

	for (i = 0; i < n; i++) {
		size[i] = chance(random, 5) ? 512 : log_between(random, 512, card / 8);
		if (size[i] >= MIB && chance(random, 50))
			size[i] = size[i] / MIB * MIB;
		mean += size[i] / n;
	}
	room = mean * GROWING_BLOCKS;
	room = room < GROWING_ROOM ? GROWING_ROOM : room / (2 * MIB) * (2 * MIB);
	if (room < card)
		(void)take(program, card - room);
	else
		room = card;
	program->card = card;
	program->kind = PROGRAM_FILLS;
	for (i = 0; got <= room; i++) {
		(void)take(program, size[i % n]);
		got += size[i % n];
	}
}

/* Vectors to whose end is added in turn: a larger block, a copy, and the old one is freed. */
static void make_vectors(struct program *program, struct random *random)
{
	uint64_t card = any_card(random), size[8], n = between(random, 1, COUNT(size)), next, i;
	double factor = (double)log_between(random, 1030, 2000) / 1000;
	uint32_t slot[COUNT(size)], grown;

	for (i = 0; i < n; i++) {
		size[i] = log_between(random, card / 4000, card / 200);
		slot[i] = take(program, size[i]);
	}
	for (i = 0; program_live(program) < card; i = (i + 1) % n) {
		next = (uint64_t)((double)size[i] * factor) / 4 * 4;
		if (next >= card)
			break;
		grown = take(program, next);
		if (grown == PROGRAM_SYNC)
			break;
		program_give(program, slot[i]);
		slot[i] = grown;
		size[i] = next;
	}
	program->card = card;
	program->kind = PROGRAM_FILLS;
}

#define HALF_FREED_BLOCKS 1200

/* Large ones until as much has been asked for as is free, and somewhat more. */
static void ask_large(struct program *program, struct random *random, uint64_t room)
{
	uint64_t size = log_between(random, room / 60 + 1, room / 2), got;
	uint32_t slot[80], n = 0;

	for (got = 0; got < room + room / 10 && n < COUNT(slot); got += size)
		slot[n++] = take(program, size);
	while (n)
		program_give(program, slot[--n]);
}

/* The card is filled with small blocks, every k-th is freed, or stays alone, and large ones are
 * asked for. */
static void make_half_freed(struct program *program, struct random *random)
{
	uint64_t card = any_card(random), n = between(random, 50, HALF_FREED_BLOCKS), k, i, room;
	uint64_t size = card / 100 * between(random, 50, 97) / n;
	uint32_t slot[HALF_FREED_BLOCKS];
	bool few_stay = chance(random, 30);

	if (chance(random, 50) && size > MIB)
		size = size / MIB * MIB;
	for (i = 0; i < n; i++)
		slot[i] = take(program, chance(random, 10) ? size / 2 : size);
	k = between(random, 2, 6);
	for (i = 0; i < n; i++)
		if ((i % k == 0) != few_stay)
			program_give(program, slot[i]);
	room = card - program_live(program);
	for (i = 0; i < 3; i++)
		ask_large(program, random, room);
	program->card = card;
	program->kind = PROGRAM_GOES_ON;
}

/* Blocks of which some are live at a time. */
struct live_set {
	uint32_t slot[1024];
	uint64_t size[1024];
	uint32_t n;
	uint64_t bytes;
};

static void set_take(struct program *program, struct live_set *set, uint64_t bytes, uint32_t stream,
		     uint32_t context)
{
	if (set->n == COUNT(set->slot))
		return;
	set->slot[set->n] = program_take(program, bytes, stream, context);
	if (set->slot[set->n] == PROGRAM_SYNC)
		return;
	set->size[set->n++] = bytes;
	set->bytes += bytes;
}

static void set_give(struct program *program, struct live_set *set, uint32_t at)
{
	program_give(program, set->slot[at]);
	set->bytes -= set->size[at];
	set->n--;
	set->slot[at] = set->slot[set->n];
	set->size[at] = set->size[set->n];
}

/* Frees at random until no more than so many bytes are live. */
static void set_shrink(struct program *program, struct random *random, struct live_set *set,
		       uint64_t bytes)
{
	while (set->n && set->bytes > bytes)
		set_give(program, set, (uint32_t)random_below(random, set->n));
}

/* Large blocks at random on a card that is nearly full. */
static void make_crowded(struct program *program, struct random *random)
{
	struct live_set set = {0};
	uint64_t least = log_between(random, 4 * MIB, 128 * MIB), bytes, i;
	uint64_t most = least * between(random, 4, 20), n = between(random, 200, 600);
	uint64_t full = 16 * GIB / 100 * between(random, 80, 96);

	for (i = 0; i < n; i++) {
		bytes = log_between(random, least, most);
		set_shrink(program, random, &set, full - bytes);
		set_take(program, &set, bytes, 0, 0);
	}
	program->card = 16 * GIB;
	program->kind = PROGRAM_GOES_ON;
}

/* --- learning and using what was learned ---------------------------------------------------- */

#define LAYERS_MAX  48
#define TENSORS_MAX 5

/* The tensors that a layer keeps for its way back, in multiples of a token's width. */
struct model {
	uint64_t width; /* bytes a token */
	uint32_t layers;
	uint32_t tensors;
	uint32_t multiple[TENSORS_MAX];
	bool quadratic; /* one tensor is tokens times tokens */
};

static struct model any_model(struct random *random)
{
	static const uint32_t multiples[] = {1, 1, 1, 2, 3, 4};
	struct model model = {.layers = (uint32_t)between(random, 4, LAYERS_MAX),
			      .tensors = (uint32_t)between(random, 2, TENSORS_MAX),
			      .width = 2 * 64 * between(random, 4, 96),
			      .quadratic = chance(random, 30)};
	uint32_t i;

	for (i = 0; i < TENSORS_MAX; i++)
		model.multiple[i] = multiples[random_below(random, COUNT(multiples))];
	return model;
}

static uint64_t tensor_bytes(const struct model *model, uint64_t tokens, uint32_t i)
{
	if (model->quadratic && !i && tokens < 8192)
		return tokens * tokens * 2;
	return tokens * model->width * model->multiple[i];
}

/* Forwards, keeping, and backwards, freeing: a temporary beside each. */
static void train_step(struct program *program, const struct model *model, uint64_t tokens)
{
	uint32_t kept[LAYERS_MAX][TENSORS_MAX], layer, i, other;

	for (layer = 0; layer < model->layers; layer++) {
		for (i = 0; i < model->tensors; i++) {
			other = take(program, tensor_bytes(model, tokens, 1));
			kept[layer][i] = take(program, tensor_bytes(model, tokens, i));
			program_give(program, other);
		}
	}
	while (layer--) {
		for (i = model->tensors; i--;) {
			other = take(program, tensor_bytes(model, tokens, i));
			program_give(program, kept[layer][i]);
			program_give(program, other);
		}
	}
	program_sync(program);
}

/* Parameters, gradients and what an optimizer keeps of each layer. */
static void take_weights(struct program *program, const struct model *model, uint32_t from,
			 uint32_t copies)
{
	uint64_t bytes = model->width * model->width / 2;
	uint32_t layer, i;

	for (layer = from; layer < model->layers; layer++) {
		for (i = 0; i < copies; i++)
			(void)take(program, bytes * 4);
		(void)take(program, model->width * 4);
	}
}

/* Steps whose peak grows: longer sequences, or more layers. */
static void make_training(struct program *program, struct random *random)
{
	struct model model = any_model(random);
	uint64_t tokens = log_between(random, 256, 16384), steps = between(random, 3, 7), i;
	uint64_t growth = chance(random, 70) ? between(random, 2, 40) : 0;
	uint32_t all = model.layers, copies = (uint32_t)between(random, 1, 4), from = 0;
	bool deeper = !growth || chance(random, 20);

	for (i = 0; i < steps; i++) {
		if (deeper)
			model.layers = all / 2 + (uint32_t)(all * i / 2 / (steps - 1));
		take_weights(program, &model, from, copies);
		from = model.layers;
		train_step(program, &model, tokens);
		tokens += tokens * growth / 100 + (growth ? random_below(random, 7) : 0);
	}
}

/* Requests of random shapes through the layers, each with what it makes and what that was made
 * of. */
static void make_inference(struct program *program, struct random *random)
{
	struct model model = any_model(random);
	uint64_t requests = between(random, 15, 60), longest = log_between(random, 512, 65536), i;
	uint64_t layers = between(random, 3, 10), tokens, layer;
	uint32_t before, after, other,
		cache[4] = {PROGRAM_SYNC, PROGRAM_SYNC, PROGRAM_SYNC, PROGRAM_SYNC};
	bool caches = chance(random, 50);

	take_weights(program, &model, 0, 1);
	for (i = 0; i < requests; i++) {
		tokens = log_between(random, longest / 16, longest) * between(random, 1, 8);
		before = take(program, tensor_bytes(&model, tokens, 1));
		for (layer = 0; layer < layers; layer++) {
			other = take(program,
				     tensor_bytes(&model, tokens, 1 + (uint32_t)(layer % 3)));
			after = take(program, tensor_bytes(&model, tokens, 1));
			program_give(program, before);
			program_give(program, other);
			before = after;
		}
		if (caches) {
			program_give(program, cache[i % COUNT(cache)]);
			cache[i % COUNT(cache)] = before;
		} else {
			program_give(program, before);
		}
		program_sync(program);
	}
}

#define LEVELS_MAX 6

/* Down to small images and up again; each level's own is needed once more on the way up. */
static void climb(struct program *program, uint64_t top, uint32_t levels, uint32_t shrink)
{
	uint32_t skip[LEVELS_MAX], now = take(program, top), next, other, i;
	uint64_t size = top;

	for (i = 0; i < levels; i++) {
		other = take(program, size);
		program_give(program, now);
		skip[i] = take(program, size);
		program_give(program, other);
		size = size / shrink + 1;
		now = take(program, size);
	}
	while (i--) {
		size = size * shrink;
		next = take(program, size);
		program_give(program, now);
		other = take(program, 2 * size);
		program_give(program, next);
		program_give(program, skip[i]);
		now = take(program, size);
		program_give(program, other);
	}
	program_give(program, now);
	program_sync(program);
}

/* Images of random sizes, blocks of half a GiB to eight. */
static void make_pyramid(struct program *program, struct random *random)
{
	uint64_t top = log_between(random, GIB / 2, 8 * GIB), times = between(random, 6, 25);
	uint32_t levels = (uint32_t)between(random, 3, LEVELS_MAX), i;
	uint32_t shrink = chance(random, 50) ? 2 : 4, least = (uint32_t)between(random, 40, 100);

	for (i = 0; i < 40; i++)
		(void)take(program, log_between(random, 64 * KIB, 32 * MIB));
	while (times--)
		climb(program, top / 100 * between(random, least, 100), levels, shrink);
}

/* --- programs of other kinds ---------------------------------------------------------------- */

/* Sizes of one kind for a while, then of another. */
static void make_phases(struct program *program, struct random *random)
{
	static struct live_set set;
	uint64_t most = log_between(random, 128 * MIB, 32 * GIB), phases = between(random, 3, 6);
	uint64_t least, bytes, spread, n, live;

	set = (struct live_set){0};
	while (phases--) {
		least = log_between(random, 4 * KIB, most / 100);
		spread = between(random, 1, 40);
		live = most / 100 * between(random, 40, 100);
		for (n = between(random, 80, 300); n--;) {
			bytes = log_between(random, least, least * spread);
			if (chance(random, 5))
				set_shrink(program, random, &set, live / 2);
			set_shrink(program, random, &set, live - bytes);
			set_take(program, &set, bytes, 0, 0);
		}
		set_shrink(program, random, &set, chance(random, 50) ? 0 : live / 3);
		program_sync(program);
	}
}

/* Small blocks that stay, made between large ones that do not. */
static void make_long_lived(struct program *program, struct random *random)
{
	static struct live_set stay;
	struct live_set go = {0};
	uint64_t large = log_between(random, 8 * MIB, GIB), n = between(random, 150, 400);
	uint64_t small = log_between(random, 2 * KIB, 4 * MIB), few = between(random, 2, 8);

	stay = (struct live_set){0};
	while (n--) {
		set_take(program, &go, log_between(random, large / 4, large), 0, 0);
		if (chance(random, 60))
			set_take(program, &stay, log_between(random, small / 4, small), 0, 0);
		if (go.n > few)
			set_give(program, &go, (uint32_t)random_below(random, go.n));
		if (chance(random, 10) && stay.n)
			set_give(program, &stay, (uint32_t)random_below(random, stay.n));
	}
}

/* What sorts, scans and reductions take, and give back at once. */
static void use_temporaries(struct program *program, struct random *random, uint64_t elements,
			    uint64_t times)
{
	uint32_t slot;

	while (times--) {
		switch (random_below(random, 4)) {
		case 0:
			slot = take(program, elements * 8 + 768);
			break;
		case 1:
			slot = take(program, elements / 256 * 8 + 512);
			break;
		case 2:
			slot = take(program, elements * 16 + 1024 * between(random, 1, 8));
			break;
		default:
			slot = take(program, elements * 4);
			break;
		}
		program_give(program, slot);
	}
}

/* Matrices in levels, each made with temporaries from the one before; iterations on them; and the
 * next problem, of another size. */
static void make_solver(struct program *program, struct random *random)
{
	uint64_t elements = log_between(random, 100000, 200000000),
		 problems = between(random, 2, 5);
	uint64_t levels = between(random, 2, 6), row = between(random, 3, 9), n, level, i;
	uint32_t kept[6][3], vector[4], product;

	while (problems--) {
		n = elements / 100 * between(random, 60, 140);
		for (i = 0; i < COUNT(vector); i++)
			vector[i] = take(program, n * 8);
		for (level = 0; level < levels; level++, n /= between(random, 2, 6)) {
			product = take(program, n * row * 12);
			kept[level][0] = take(program, n * row * 8);
			kept[level][1] = take(program, n * row * 4);
			kept[level][2] = take(program, n * 4 + 4);
			use_temporaries(program, random, n, 3);
			program_give(program, product);
		}
		for (i = between(random, 10, 60); i--;)
			use_temporaries(program, random, n * between(random, 1, 16), 3);
		for (level = 0; level < levels; level++)
			for (i = 0; i < 3; i++)
				program_give(program, kept[level][i]);
		for (i = 0; i < COUNT(vector); i++)
			program_give(program, vector[i]);
		program_sync(program);
	}
}

#define TENANTS_MAX 8

struct tenant {
	struct live_set set;
	uint64_t size[6];
	uint64_t most;
};

static void move_in(struct random *random, struct tenant *tenant, uint64_t most)
{
	size_t i;

	*tenant = (struct tenant){.most = most / 100 * between(random, 20, 100)};
	for (i = 0; i < COUNT(tenant->size); i++)
		tenant->size[i] = log_between(random, 16 * KIB, tenant->most / 3);
}

/* A server with tenants, each with sizes and a stream of its own, who come and go. */
static void make_tenants(struct program *program, struct random *random)
{
	static struct tenant tenants[TENANTS_MAX];
	uint64_t most = log_between(random, 64 * MIB, 8 * GIB), ops = between(random, 300, 900);
	uint64_t n = between(random, 2, TENANTS_MAX), bytes, at;
	struct tenant *tenant;

	for (at = 0; at < n; at++)
		move_in(random, &tenants[at], most);
	while (ops--) {
		at = random_below(random, n);
		tenant = &tenants[at];
		bytes = tenant->size[random_below(random, COUNT(tenant->size))];
		set_shrink(program, random, &tenant->set, tenant->most - bytes);
		set_take(program, &tenant->set, bytes, (uint32_t)at, 0);
		if (chance(random, 1)) {
			set_shrink(program, random, &tenant->set, 0);
			move_in(random, tenant, most);
		}
	}
}

/* Of a language with a collector: what is dead is freed late, and much at a time. */
static void make_garbage(struct program *program, struct random *random)
{
	static struct live_set dead;
	struct live_set live = {0};
	uint64_t large = log_between(random, MIB, 512 * MIB), n = between(random, 200, 700), bytes;
	uint64_t late = between(random, 5, 100), few = between(random, 1, 30);
	uint64_t size[8];
	size_t i;

	dead = (struct live_set){0};
	for (i = 0; i < COUNT(size); i++)
		size[i] = log_between(random, large / 200, large);
	while (n--) {
		bytes = chance(random, 80) ? size[random_below(random, COUNT(size))]
					   : log_between(random, large / 200, large);
		set_take(program, &live, bytes, 0, 0);
		if (live.n > few) {
			i = random_below(random, live.n);
			/* From one set to the other; nothing is freed yet. */
			dead.slot[dead.n] = live.slot[i];
			dead.size[dead.n++] = live.size[i];
			dead.bytes += live.size[i];
			live.slot[i] = live.slot[--live.n];
			live.size[i] = live.size[live.n];
		}
		if (dead.n > late) {
			set_shrink(program, random, &dead, chance(random, 80) ? 0 : dead.bytes / 2);
			program_sync(program);
		}
	}
}

/* Several contexts of one card, each with sizes of its own, in turn. */
static void make_contexts(struct program *program, struct random *random)
{
	static struct live_set sets[PROGRAM_CONTEXTS_MAX];
	uint64_t most = log_between(random, 128 * MIB, 16 * GIB), turns = between(random, 4, 12);
	uint64_t n = between(random, 2, PROGRAM_CONTEXTS_MAX), least, bytes, ops, at;

	memset(sets, 0, sizeof(sets));
	while (turns--) {
		at = random_below(random, n);
		least = log_between(random, 4 * KIB, most / 50);
		for (ops = between(random, 20, 120); ops--;) {
			bytes = log_between(random, least, least * 10);
			set_shrink(program, random, &sets[at], most - bytes);
			set_take(program, &sets[at], bytes, 0, (uint32_t)at);
		}
		set_shrink(program, random, &sets[at], chance(random, 40) ? 0 : most / 3);
		program_sync(program);
	}
}

static const struct family families[] = {
	{"growing", "one size or few, until the card is full", make_growing},
	{"vectors", "vectors that grow in turn, until the card is full", make_vectors},
	{"half-freed", "small blocks, every k-th freed, then large ones", make_half_freed},
	{"crowded", "large blocks at random on a card that is nearly full", make_crowded},
	{"training", "steps whose peak grows", make_training},
	{"inference", "requests of random shapes", make_inference},
	{"pyramid", "U-Nets on images of random sizes, blocks of 0.5 to 8 GiB", make_pyramid},
	{"phases", "sizes of one kind for a while, then of another", make_phases},
	{"long-lived", "small blocks that stay among large ones that do not", make_long_lived},
	{"solver", "temporaries of sorts and scans beside a solver's levels", make_solver},
	{"tenants", "a server whose tenants come and go, a stream each", make_tenants},
	{"garbage", "a collector that frees late, and much at a time", make_garbage},
	{"contexts", "several contexts in turn", make_contexts},
};

const struct family *family_at(size_t i)
{
	return i < COUNT(families) ? &families[i] : NULL;
}

const struct family *family_find(const char *name, size_t bytes)
{
	size_t i;

	for (i = 0; i < COUNT(families); i++)
		if (strlen(families[i].name) == bytes && !memcmp(families[i].name, name, bytes))
			return &families[i];
	return NULL;
}
