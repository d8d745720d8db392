/* SPDX-License-Identifier: MIT */
#include "tools/demo/roles.h"

#define MIB        ((int64_t)1 << 20)
#define GIB        ((int64_t)1 << 30)
#define PIECES_MAX 512

/* What a program holds. Each process has one role, so one of these. */
static uint32_t pieces[PIECES_MAX];
static size_t piece_count;

/* Marsaglia's xorshift: every run is the same. */
static uint32_t random_below(uint32_t most)
{
	static uint32_t seed = 2463534242;

	seed ^= seed << 13;
	seed ^= seed >> 17;
	seed ^= seed << 5;
	return seed % most;
}

static bool take_piece(struct cm_demo_heap *heap, int64_t bytes, uint32_t stack)
{
	const uint32_t block = piece_count < PIECES_MAX ? cm_demo_heap_alloc(heap, bytes, stack)
							: 0;

	if (block)
		pieces[piece_count++] = block;
	return block != 0;
}

/* Frees from the last one on, down to `left`. */
static void drop_pieces(struct cm_demo_heap *heap, size_t left)
{
	while (piece_count > left)
		cm_demo_heap_free(heap, pieces[--piece_count]);
}

static uint32_t stack_of(struct cm_demo_heap *heap, const char *function, const char *file,
			 uint32_t line, const char *caller, uint32_t caller_line)
{
	const struct cm_demo_frame frames[] = {
		{function, file, line}, {caller, file, caller_line}, {"main", file, 12}};

	return cm_demo_heap_stack(heap, frames, 3);
}

/* Weights and optimizer state stay; activations grow layer by layer and are freed again. */
static enum cm_demo_end train(struct cm_demo_heap *heap, uint32_t step)
{
	static size_t weights;
	const uint32_t phase = step % 40;
	uint32_t i;

	if (!step) {
		for (i = 0; i < 32; i++)
			(void)take_piece(heap, 420 * MIB,
					 stack_of(heap, "Linear.__init__", "model.py", 31 + i % 4,
						  "build_model", 88));
		for (i = 0; i < 16; i++)
			(void)take_piece(heap, 840 * MIB,
					 stack_of(heap, "Adam.step", "optim.py", 140,
						  "make_optimizer", 212));
		weights = piece_count;
	} else if (phase < 24) {
		(void)take_piece(heap, (300 + (int64_t)random_below(200)) * MIB,
				 stack_of(heap, phase % 2 ? "attention" : "feed_forward",
					  "model.py", phase % 2 ? 131 : 158, "forward", 88));
		(void)take_piece(heap, 60 * MIB + (int64_t)random_below(1000),
				 stack_of(heap, "dropout", "model.py", 140, "forward", 90));
	} else {
		drop_pieces(heap, piece_count > weights + 4 ? piece_count - 4 : weights);
	}
	cm_demo_heap_count_traffic(heap, 380 + random_below(60));
	return CM_DEMO_GOES_ON;
}

/* Grows until the card is full, frees most of it and starts over. Other programs need memory,
 * too. */
static enum cm_demo_end solve(struct cm_demo_heap *heap, uint32_t step)
{
	const uint32_t stack = stack_of(heap, step % 3 ? "refine" : "assemble", "solver.cu",
					step % 3 ? 77 : 31, "step", 140);

	if (!take_piece(heap, (80 + (int64_t)random_below(140)) * MIB, stack)) {
		drop_pieces(heap, piece_count / 3);
		cm_demo_heap_poll(heap);
		(void)cm_demo_heap_trim(heap);
	}
	cm_demo_heap_count_traffic(heap, 8);
	return CM_DEMO_GOES_ON;
}

/* A cache of sessions that is never emptied. */
static enum cm_demo_end leak(struct cm_demo_heap *heap, uint32_t step)
{
	if (!step)
		(void)take_piece(heap, 15 * GIB,
				 stack_of(heap, "load_weights", "server.cpp", 210, "start", 44));
	else if (step % 5 == 0 && piece_count < 300)
		(void)take_piece(
			heap, 24 * MIB,
			stack_of(heap, "Session::Session", "server.cpp", 97, "accept", 61));
	cm_demo_heap_count_traffic(heap, 90 + random_below(30));
	return CM_DEMO_GOES_ON;
}

/* Tiles of all sizes, freed in any order: holes stay between them. */
static enum cm_demo_end fragment(struct cm_demo_heap *heap, uint32_t step)
{
	uint32_t i, at;

	(void)step;
	for (i = 0; i < 6 && piece_count < 160; i++)
		(void)take_piece(heap, (8 + (int64_t)random_below(120)) * MIB,
				 stack_of(heap, "Tile::render", "render.cpp", 301, "frame", 52));
	for (i = 0; i < 6 && piece_count > 90; i++) {
		at = random_below((uint32_t)piece_count);
		cm_demo_heap_free(heap, pieces[at]);
		pieces[at] = pieces[--piece_count];
	}
	cm_demo_heap_count_traffic(heap, 40);
	return CM_DEMO_GOES_ON;
}

/* A notebook: one large result, then it is idle for a long time. */
static enum cm_demo_end idle(struct cm_demo_heap *heap, uint32_t step)
{
	uint32_t i;

	if (step % 600 == 0)
		for (i = 0; i < 12; i++)
			(void)take_piece(heap, 700 * MIB,
					 stack_of(heap, "matmul", "notebook.py", 7, "cell", 3));
	if (step % 600 == 12)
		drop_pieces(heap, 1);
	return CM_DEMO_GOES_ON;
}

/* Works for a while, and is killed. */
static enum cm_demo_end crash(struct cm_demo_heap *heap, uint32_t step)
{
	(void)take_piece(heap, 150 * MIB, stack_of(heap, "batch", "eval.py", 66, "evaluate", 40));
	cm_demo_heap_count_traffic(heap, 20);
	return step < 50 ? CM_DEMO_GOES_ON : CM_DEMO_CRASHES;
}

const struct cm_demo_role cm_demo_roles[] = {
	{"python3 train.py --config 7b.yaml", 0, train},
	{"./render --tiles 160 scene.usd", 0, fragment},
	{"python3 -m ipykernel_launcher", 0, idle},
	{"./solver --grid 4096", 1, solve},
	{"llama-server -m llama-8b.gguf", 1, leak},
	{"python3 eval.py --split test", 1, crash},
};
const size_t cm_demo_role_count = sizeof(cm_demo_roles) / sizeof(cm_demo_roles[0]);
