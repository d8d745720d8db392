/* SPDX-License-Identifier: MIT */
/*
 * The checker against a slow reference. Random programs of streams, events, barriers and waits,
 * over memory that is cut, merged and allocated again; the reference keeps for every piece of work
 * the whole set of what it comes after, and for every 512 bytes their owner, and says of every
 * access whether it must be found. A failure names its program's number, which is all it depends
 * on.
 */
#include <stdio.h>
#include <string.h>

#include "tests/sim/sim_test.h"

enum {
	PROGRAMS = 400,
	STEPS = 250,
	STREAMS = 6, /* the first is the legacy one, every other one of the rest is non-blocking */
	EVENTS = 4,
	CELLS = 48,
	CELL = 512,
	WORKS = STEPS + 1,
	WORDS = WORKS / 64 + 1,
};

/* ---- the reference ---- */

struct set {
	uint64_t word[WORDS];
};

struct access {
	unsigned work;
	unsigned stream;
};

struct owner {
	bool live;
	unsigned first;
	unsigned cells;
	struct set left_after;
	struct access own[STEPS];
	unsigned owns;
	struct access inherited[STEPS];
	unsigned inherits;
};

struct reference {
	struct set before[WORKS]; /* what the work comes after, itself included */
	unsigned works;           /* number 0 comes after nothing */
	unsigned tail[STREAMS];
	unsigned event[EVENTS];
	unsigned gate;
	struct set thread;
	struct set allocator;
	struct owner owners[STEPS + 1];
	unsigned count;
	struct owner *cell[CELLS];
};

static bool has(const struct set *set, unsigned n)
{
	return set->word[n / 64] >> (n % 64) & 1;
}

static void add(struct set *set, const struct set *more)
{
	for (unsigned i = 0; i < WORDS; i++)
		set->word[i] |= more->word[i];
}

/* A piece of work that comes after what the thread knows, and after this. */
static unsigned create(struct reference *reference)
{
	unsigned work = ++reference->works;

	reference->before[work] = reference->thread;
	reference->before[work].word[work / 64] |= (uint64_t)1 << (work % 64);
	return work;
}

static void come_after(struct reference *reference, unsigned work, unsigned earlier)
{
	add(&reference->before[work], &reference->before[earlier]);
}

static bool is_blocking(unsigned stream)
{
	return stream % 2 == 0;
}

/* In a stream: `counts` where it is work, and not only somebody's question. */
static unsigned submit(struct reference *reference, unsigned stream, bool counts)
{
	unsigned work = create(reference);

	come_after(reference, work, reference->tail[stream]);
	come_after(reference, work, reference->gate);
	for (unsigned i = 1; i < STREAMS && stream == 0; i++) {
		if (is_blocking(i))
			come_after(reference, work, reference->tail[i]);
	}
	if (stream && is_blocking(stream))
		come_after(reference, work, reference->tail[0]);
	if (counts)
		reference->tail[stream] = work;
	return work;
}

static unsigned mark_all(struct reference *reference)
{
	unsigned work = create(reference);

	for (unsigned i = 0; i < STREAMS; i++)
		come_after(reference, work, reference->tail[i]);
	return work;
}

static void inherit(struct reference *reference, struct owner *heir, const struct owner *owner,
		    const struct access *accesses, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		unsigned work = accesses[i].work;
		bool twice = false;

		for (unsigned k = 0; k < heir->inherits; k++)
			twice |= heir->inherited[k].work == work;
		if (!twice && !has(&reference->thread, work) && !has(&reference->allocator, work) &&
		    !has(&owner->left_after, work))
			heir->inherited[heir->inherits++] = accesses[i];
	}
}

static void allocate(struct reference *reference, unsigned first, unsigned cells)
{
	struct owner *heir = &reference->owners[reference->count++];

	heir->live = true;
	heir->first = first;
	heir->cells = cells;
	for (unsigned i = first; i < first + cells; i++) {
		const struct owner *owner = reference->cell[i];

		if (owner) {
			inherit(reference, heir, owner, owner->own, owner->owns);
			inherit(reference, heir, owner, owner->inherited, owner->inherits);
		}
		reference->cell[i] = heir;
	}
}

/* Whether the work may meet an earlier owner's. What is found of a stream is not found again. */
static bool touch(struct reference *reference, struct owner *owner, unsigned work, unsigned stream)
{
	bool meets[STREAMS] = {false};
	bool any = false;
	unsigned left = 0;

	for (unsigned i = 0; i < owner->inherits; i++) {
		if (!has(&reference->before[work], owner->inherited[i].work))
			meets[owner->inherited[i].stream] = any = true;
	}
	for (unsigned i = 0; i < owner->inherits; i++) {
		if (!meets[owner->inherited[i].stream])
			owner->inherited[left++] = owner->inherited[i];
	}
	owner->inherits = left;
	owner->own[owner->owns++] = (struct access){work, stream};
	return any;
}

/* ---- the program, for the driver and the reference ---- */

struct program {
	struct reference reference;
	uint64_t seed;
	CUcontext ctx;
	CUstream stream[STREAMS];
	CUevent event[EVENTS];
	CUdeviceptr base;
	uint64_t found;
};

static unsigned draw(struct program *program, unsigned below)
{
	program->seed = program->seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (unsigned)(program->seed >> 33) % below;
}

static void *at(const struct program *program, unsigned cell)
{
	return (void *)(uintptr_t)(program->base + (uint64_t)cell * CELL);
}

/* Frees what is in the way of a new block, and hands that out. */
static void step_hand_out(struct program *program)
{
	struct reference *reference = &program->reference;
	unsigned cells = 1 + draw(program, 8);
	unsigned first = draw(program, CELLS - cells);

	for (unsigned i = first; i < first + cells; i++) {
		struct owner *owner = reference->cell[i];

		if (!owner || !owner->live)
			continue;
		assert_int_equal(cudasim_freed(at(program, owner->first)), 1);
		owner->live = false;
		owner->left_after = reference->thread;
	}
	cudasim_allocated(at(program, first), (size_t)cells * CELL, 0);
	allocate(reference, first, cells);
}

static void step_touch(struct program *program)
{
	struct reference *reference = &program->reference;
	unsigned stream = draw(program, STREAMS);
	unsigned cell = draw(program, CELLS);
	struct owner *owner = reference->cell[cell];
	bool must;
	uint64_t now;

	if (!owner || !owner->live)
		return;
	must = touch(reference, owner, submit(reference, stream, true), stream);
	assert_ok(cuMemsetD8Async(program->base + (uint64_t)cell * CELL, 1, CELL,
				  program->stream[stream]));
	now = cudasim_violations();
	if ((now != program->found) != must)
		fail_msg("access %s", must ? "was not found" : "was found, and should not");
	program->found = now;
}

static void step_event(struct program *program)
{
	struct reference *reference = &program->reference;
	unsigned event = draw(program, EVENTS);
	unsigned stream = draw(program, STREAMS);
	unsigned work;

	switch (draw(program, 6)) {
	case 0:
	case 1:
		assert_ok(cuEventRecord(program->event[event], program->stream[stream]));
		reference->event[event] = submit(reference, stream, true);
		break;
	case 2:
	case 3:
		assert_ok(cuStreamWaitEvent(program->stream[stream], program->event[event], 0));
		work = submit(reference, stream, true);
		come_after(reference, work, reference->event[event]);
		break;
	case 4:
		assert_ok(cuCtxRecordEvent(program->ctx, program->event[event]));
		reference->event[event] = mark_all(reference);
		break;
	default:
		assert_ok(cuCtxWaitEvent(program->ctx, program->event[event]));
		work = create(reference);
		come_after(reference, work, reference->gate);
		come_after(reference, work, reference->event[event]);
		reference->gate = work;
	}
}

/* What the host is told, for itself or for an allocator. */
static void step_ask(struct program *program)
{
	struct reference *reference = &program->reference;
	bool for_allocator = draw(program, 2);
	struct set *known = for_allocator ? &reference->allocator : &reference->thread;
	unsigned event = draw(program, EVENTS);
	unsigned stream = draw(program, STREAMS);

	if (for_allocator)
		cudasim_allocator_enter();
	switch (draw(program, 8)) {
	case 0:
		assert_ok(cuStreamSynchronize(program->stream[stream]));
		add(known, &reference->before[submit(reference, stream, false)]);
		break;
	case 1:
		assert_ok(cuCtxSynchronize());
		add(known, &reference->before[mark_all(reference)]);
		break;
	case 2:
		cudasim_complete_all();
		assert_ok(cuStreamQuery(program->stream[stream]));
		add(known, &reference->before[submit(reference, stream, false)]);
		break;
	case 3:
	case 4:
		assert_ok(cuEventSynchronize(program->event[event]));
		add(known, &reference->before[reference->event[event]]);
		break;
	default:
		cudasim_complete_all();
		assert_ok(cuEventQuery(program->event[event]));
		add(known, &reference->before[reference->event[event]]);
		break;
	}
	if (for_allocator)
		cudasim_allocator_leave();
}

static void run_step(struct program *program)
{
	unsigned what = draw(program, 100);

	if (what < 30)
		step_hand_out(program);
	else if (what < 70)
		step_touch(program);
	else if (what < 96)
		step_event(program);
	else
		step_ask(program);
}

static void begin(struct program *program, uint64_t number)
{
	*program = (struct program){.seed = number * UINT64_C(0x9e3779b97f4a7c15),
				    .found = cudasim_violations()};
	assert_ok(cuCtxCreate(&program->ctx, NULL, 0, 0));
	program->stream[0] = CU_STREAM_LEGACY;
	for (unsigned i = 1; i < STREAMS; i++)
		assert_ok(cuStreamCreate(&program->stream[i], is_blocking(i)
								      ? CU_STREAM_DEFAULT
								      : CU_STREAM_NON_BLOCKING));
	for (unsigned i = 0; i < EVENTS; i++)
		assert_ok(cuEventCreate(&program->event[i], CU_EVENT_DISABLE_TIMING));
	assert_ok(cuMemAlloc(&program->base, CELLS * CELL));
}

CM_TEST(twin_agrees)
{
	struct program *program = calloc(1, sizeof(*program));
	uint64_t found = cudasim_violations();

	assert_non_null(program);
	for (uint64_t number = 1; number <= PROGRAMS; number++) {
		/* The last line on stdout names the program that fails. */
		printf("# program %llu\n", (unsigned long long)number);
		begin(program, number);
		for (unsigned i = 0; i < STEPS; i++)
			run_step(program);
		assert_ok(cuCtxDestroy(program->ctx));
	}
	/* Neither says yes, or no, to everything. */
	found = cudasim_violations() - found;
	assert_in_range(found, PROGRAMS, PROGRAMS * STEPS / 10);
	free(program);
}

int main(void)
{
	if (cuInit(0))
		return 1;
	return cm_run_tests(NULL, NULL);
}
