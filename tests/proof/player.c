/* SPDX-License-Identifier: MIT */
/* The threads of a program, and its beginning and end. */
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <string.h>

#include "tests/proof/answers.h"
#include "tests/proof/commands.h"
#include "tests/proof/contents.h"
#include "tests/proof/contexts.h"
#include "tests/proof/holdings.h"
#include "tests/proof/host_reads.h"
#include "tests/proof/importer.h"
#include "tests/proof/losses.h"
#include "tests/proof/operations.h"

struct proof_state proof_state;

static sem_t baton[PROOF_THREADS]; /* one of them is up, or its thread is at work */

static void (*const operations[PROOF_OP_COUNT])(struct proof_hand *hand, const uint64_t *arg) = {
#define OP(name, weight, args) [PROOF_OP_##name] = proof_do_##name,
#include "tests/proof/operations.def"
#undef OP
};

/* Contexts that are not open are folded into those that are. */
static void fold_contexts(const struct proof_op *op, uint64_t *arg)
{
	static const char *const args[PROOF_OP_COUNT] = {
#define OP(name, weight, args) [PROOF_OP_##name] = args,
#include "tests/proof/operations.def"
#undef OP
	};
	size_t a;

	for (a = 0; a < PROOF_ARGS; a++) {
		arg[a] = op->arg[a];
		if (a < strlen(args[op->kind]) && args[op->kind][a] == 'c')
			arg[a] %= proof_state.opened;
	}
}

static const struct proof_op *op_at(size_t i)
{
	return &proof_state.run.ops[i % proof_state.run.count];
}

static void perform(struct proof_hand *hand, size_t i)
{
	uint64_t arg[PROOF_ARGS];

	hand->op = i;
	proof_enter(hand);
	fold_contexts(op_at(i), arg);
	operations[op_at(i)->kind](hand, arg);
	hand->done++;
}

static void take_baton(const struct proof_hand *hand)
{
	while (sem_wait(&baton[hand->number]))
		;
}

/* To whom the operation belongs; behind the last one, the threads end in turn. */
static void pass_baton(size_t i)
{
	size_t to = i < proof_state.end ? op_at(i)->thread : i - proof_state.end;

	if (to < PROOF_THREADS)
		(void)sem_post(&baton[to]);
}

static size_t next_of(uint8_t thread, size_t i)
{
	while (i < proof_state.end && op_at(i)->thread != thread)
		i++;
	return i;
}

static void *live(void *arg)
{
	struct proof_hand *hand = arg;
	size_t i = next_of(hand->number, 0);

	while (i < proof_state.end) {
		if (!proof_state.run.free_running)
			take_baton(hand);
		do
			perform(hand, i++);
		while (!proof_state.run.free_running && i < proof_state.end &&
		       op_at(i)->thread == hand->number);
		if (!proof_state.run.free_running)
			pass_baton(i);
		i = next_of(hand->number, i);
	}
	/* Nobody else may end these. */
	if (!proof_state.run.free_running)
		take_baton(hand);
	proof_end_captures(hand, false);
	if (!proof_state.run.free_running)
		pass_baton(proof_state.end + hand->number + 1u);
	return NULL;
}

static void open_all(struct proof_hand *hand)
{
	if (!CALL(hand, cuInit, 0))
		return;
	do
		proof_open_next(hand);
	while (proof_state.run.free_running && proof_state.opened < proof_state.run.contexts);
	proof_state.simulated = cm_holdings_driver_is_simulated();
}

/* Nothing of the cards may be left, of whatever kind. */
static void check_cards(const struct proof_hand *hand)
{
	int device;

	for (device = 0; device < (proof_state.run.contexts > 3 ? PROOF_DEVICES : 2); device++)
		if (cm_holdings_card_bytes(device))
			proof_wrong(hand, "%llu bytes of device %d are never given back",
				    (unsigned long long)cm_holdings_card_bytes(device), device);
}

static void free_fetched(struct proof_hand *hand, unsigned c)
{
	struct proof_context *ctx = &proof_state.context[c];
	unsigned t;

	/* What has not been compared by now never will be. */
	for (t = 0; t < PROOF_THREADS; t++)
		proof_state.hand[t].checks = 0;
	if (!ctx->fetched || !proof_visit(hand, c))
		return;
	if (CALL(hand, cuMemFreeHost, ctx->fetched))
		ctx->fetched = NULL;
	proof_leave(hand, c);
}

/* All is given back, also where it could not be before: the error of the plan comes once. */
static void free_all(struct proof_hand *hand)
{
	unsigned c;
	uint64_t s;

	for (s = 0; s < PROOF_SLOTS; s++)
		proof_do_free(hand, &s);
	for (c = 0; c < proof_state.opened; c++)
		proof_finish(hand, c);
	for (c = 0; c < proof_state.opened; c++)
		free_fetched(hand, c);
	proof_free_areas(hand);
	proof_free_owed(hand);
	cm_holdings_trim(0);
}

/* Everything is waited for, compared, given back and counted. */
static void close_all(struct proof_hand *hand)
{
	unsigned c;

	hand->op = proof_state.run.count;
	hand->generation = 0; /* this is another thread than the hand's */
	proof_enter(hand);
	proof_state.run.free_running = false;
	proof_await_answer(hand);
	if (proof_state.broken)
		proof_drop_captures(hand);
	for (c = 0; c < proof_state.opened; c++)
		proof_finish(hand, c);
	proof_check_counters(hand);
	free_all(hand);
	if (proof_state.tolerated[0])
		free_all(hand);
	proof_check_counters(hand);
	proof_check_losses(hand, false);
	if (!proof_state.tolerated[0])
		check_cards(hand);
	for (c = 0; c < proof_state.opened; c++)
		proof_end_context(hand, c);
	for (c = 0; c < proof_state.opened && proof_state.tolerated[0]; c++)
		proof_end_context(hand, c);
	proof_check_losses(hand, true);
}

void proof_play(const struct proof_run *run)
{
	pthread_t thread[PROOF_THREADS];
	unsigned t;

	proof_state.run = *run;
	proof_state.end = run->endless ? SIZE_MAX : run->count;
	proof_read_tolerated();
	if (run->imports && !cm_importer_start())
		proof_wrong(&proof_state.hand[0], "no process");
	open_all(&proof_state.hand[0]);
	if (run->commands)
		proof_open_channel(&proof_state.hand[0]);
	proof_state.hand[0].generation = 0; /* to be entered by the hand's own thread */
	for (t = 0; t < PROOF_THREADS; t++) {
		proof_state.hand[t].number = (uint8_t)t;
		(void)sem_init(&baton[t], 0, 0);
	}
	pass_baton(0);
	for (t = 0; t < PROOF_THREADS; t++) {
		if (pthread_create(&thread[t], NULL, live, &proof_state.hand[t]))
			proof_wrong(&proof_state.hand[t], "no thread");
	}
	for (t = 0; t < PROOF_THREADS; t++)
		(void)pthread_join(thread[t], NULL);
	close_all(&proof_state.hand[0]);
	if (!cm_importer_stop())
		proof_wrong(&proof_state.hand[0], "the other process ended badly");
}
