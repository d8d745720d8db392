/* SPDX-License-Identifier: MIT */
#include "player.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "clock.h"

#define RING_ROOM 1024

/* Blocks on their way from the thread that took them to the one that frees them. */
struct ring {
	_Alignas(64) _Atomic size_t in;
	_Alignas(64) _Atomic size_t out;
	_Alignas(64) void *block[RING_ROOM];
};

struct player {
	const struct play *play;
	const struct sequence *sequence;
	struct ring *give; /* to the next thread; NULL: frees are local */
	struct ring *take;
	void **slot;
	unsigned number;
	bool refused;
	uint64_t wall_ns;
	uint64_t cpu_ns;
	struct played before; /* of the first player: the counters around the timed part */
	struct played after;
	pthread_t thread;
};

static pthread_barrier_t line;
static _Atomic unsigned playing; /* threads that still take blocks and pass them on */

/* A thread stays on one processor; the scheduler has no say in the figures. */
static void pin(unsigned number)
{
	cpu_set_t all, one;
	unsigned cpu, skip;

	if (sched_getaffinity(0, sizeof(all), &all))
		return;
	skip = number % (unsigned)CPU_COUNT(&all);
	for (cpu = 0; skip || !CPU_ISSET(cpu, &all); cpu++)
		skip -= CPU_ISSET(cpu, &all) ? 1 : 0;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	(void)pthread_setaffinity_np(pthread_self(), sizeof(one), &one);
}

static bool play_ops(const struct player *player, const struct op *op, size_t n)
{
	const struct allocator *allocator = player->play->allocator;
	const struct op *end = op + n;
	void **slot = player->slot;

	for (; op < end; op++) {
		if (!op->bytes)
			allocator->free(slot[op->slot]);
		else if (!(slot[op->slot] = allocator->alloc(op->bytes, 0)))
			return false;
	}
	return true;
}

static bool pass_on(struct ring *ring, void *block)
{
	size_t in = atomic_load_explicit(&ring->in, memory_order_relaxed);

	if (in - atomic_load_explicit(&ring->out, memory_order_acquire) == RING_ROOM)
		return false;
	ring->block[in % RING_ROOM] = block;
	atomic_store_explicit(&ring->in, in + 1, memory_order_release);
	return true;
}

/* Frees what has come in, at most so many blocks. */
static size_t free_some(const struct player *player, size_t most)
{
	struct ring *ring = player->take;
	size_t out = atomic_load_explicit(&ring->out, memory_order_relaxed), n = 0;

	while (n < most && out != atomic_load_explicit(&ring->in, memory_order_acquire)) {
		player->play->allocator->free(ring->block[out % RING_ROOM]);
		atomic_store_explicit(&ring->out, ++out, memory_order_release);
		n++;
	}
	return n;
}

/* Blocks that wait for a busy neighbour: it needs the processor more than this thread does. */
static void rest(void)
{
	const struct timespec backoff = {0, 20000};

	(void)nanosleep(&backoff, NULL);
}

/* While the neighbour has no room, what the other one sends is freed: so nobody waits in a ring. */
static bool play_remote(const struct player *player, const struct op *op, size_t n)
{
	const struct op *end = op + n;
	void **slot = player->slot;

	for (; op < end; op++) {
		if (!op->bytes) {
			while (!pass_on(player->give, slot[op->slot]))
				if (!free_some(player, RING_ROOM))
					rest();
			(void)free_some(player, 1);
		} else if (!(slot[op->slot] = player->play->allocator->alloc(op->bytes, 0))) {
			return false;
		}
	}
	return true;
}

static bool play_rounds(const struct player *player)
{
	const struct sequence *sequence = player->sequence;
	const struct op *op = sequence->op + sequence->warm;
	size_t ops = sequence->ops - sequence->warm, round;
	bool ok = true;

	for (round = 0; round < sequence->rounds && ok; round++)
		ok = player->give ? play_remote(player, op, ops) : play_ops(player, op, ops);
	return ok;
}

/* What the process has asked of the driver and the runtime. */
static struct played count_calls(const struct allocator *allocator)
{
	return (struct played){
		.calls = device_count(),
		.runtime_calls = allocator->calls ? allocator->calls() : 0,
	};
}

static void *run_player(void *arg)
{
	struct player *player = arg;
	uint64_t wall, cpu;

	pin(player->number);
	device_attach(player->number);
	player->refused = !play_ops(player, player->sequence->op, player->sequence->warm);
	pthread_barrier_wait(&line);
	if (!player->number)
		player->before = count_calls(player->play->allocator);
	pthread_barrier_wait(&line);
	wall = clock_ns(CLOCK_MONOTONIC);
	cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	if (!player->refused)
		player->refused = !play_rounds(player);
	player->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	player->wall_ns = clock_ns(CLOCK_MONOTONIC) - wall;
	atomic_fetch_sub(&playing, 1);
	while (player->take && atomic_load(&playing))
		if (!free_some(player, RING_ROOM)) /* the neighbour waits for room */
			rest();
	pthread_barrier_wait(&line);
	if (!player->number)
		player->after = count_calls(player->play->allocator);
	return NULL;
}

static uint64_t count_pairs(const struct sequence *sequence)
{
	uint64_t pairs = 0;
	size_t i;

	for (i = sequence->warm; i < sequence->ops; i++)
		pairs += sequence->op[i].bytes != 0;
	return pairs * sequence->rounds;
}

static int sum_up(const struct player *player, unsigned threads, struct played *ret_played)
{
	unsigned i;
	double ns = 0, cpu_ns = 0;

	for (i = 0; i < threads; i++) {
		if (player[i].refused) {
			fprintf(stderr, "bench: the allocator refused a request\n");
			return -1;
		}
		ret_played->pairs += count_pairs(player[i].sequence);
		ns += (double)(threads == 1 ? player[i].cpu_ns : player[i].wall_ns);
		cpu_ns += (double)player[i].cpu_ns;
	}
	ret_played->ns = ns / (double)ret_played->pairs;
	ret_played->cpu_ns = cpu_ns / (double)ret_played->pairs;
	return 0;
}

/* What an allocator prepares at its first request it does before there are threads, as in a program
 * that starts CUDA and then its threads. Else the preparation lasts as long as the measurement: its
 * helper thread has to wait for a processor. */
static void start_allocator(const struct allocator *allocator)
{
	void *first = allocator->alloc(1, 0);

	if (first)
		allocator->free(first);
}

/* The first one is this thread: with one thread the process has no other, which some allocators
 * make use of. */
static int run_players(struct player *player, unsigned threads, struct played *ret_played)
{
	struct played *before = &player[0].before, *after = &player[0].after;
	unsigned i;

	if (threads > 1)
		start_allocator(player[0].play->allocator);
	(void)pthread_barrier_init(&line, NULL, threads);
	atomic_store(&playing, threads);
	for (i = 1; i < threads; i++) {
		if (pthread_create(&player[i].thread, NULL, run_player, &player[i])) {
			fprintf(stderr, "bench: cannot start a thread\n");
			exit(1);
		}
	}
	(void)run_player(&player[0]);
	for (i = 1; i < threads; i++)
		(void)pthread_join(player[i].thread, NULL);
	(void)pthread_barrier_destroy(&line);
	*ret_played = (struct played){
		.calls = {after->calls.all - before->calls.all,
			  after->calls.current - before->calls.current,
			  after->calls.ns - before->calls.ns},
		.runtime_calls = after->runtime_calls - before->runtime_calls,
	};
	return sum_up(player, threads, ret_played);
}

static int make_players(const struct play *play, struct player *player, struct ring *ring)
{
	unsigned i, n = play->threads;

	for (i = 0; i < n; i++) {
		player[i] = (struct player){
			.play = play,
			.sequence = &play->sequence[i],
			.give = ring ? &ring[(i + 1) % n] : NULL,
			.take = ring ? &ring[i] : NULL,
			.slot = calloc(play->sequence[i].slots, sizeof(void *)),
			.number = i,
		};
		if (!player[i].slot)
			return -1;
	}
	return 0;
}

int play(const struct play *play, struct played *ret_played)
{
	struct ring *ring = play->remote ? aligned_alloc(64, play->threads * sizeof(*ring)) : NULL;
	struct player player[PLAYERS_MAX] = {0};
	int err = -1;
	unsigned i;

	for (i = 0; ring && i < play->threads; i++)
		ring[i] = (struct ring){.in = 0};
	if ((!play->remote || ring) && !make_players(play, player, ring))
		err = run_players(player, play->threads, ret_played);
	for (i = 0; i < play->threads; i++)
		free(player[i].slot);
	free(ring);
	return err;
}
