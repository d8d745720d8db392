/* SPDX-License-Identifier: MIT */
#include "tests/proof/calls.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES  1024
#define MIB         (UINT64_C(1) << 20)
#define START_AFTER 20 /* calls, where nobody has called cuInit */

struct calls_slot calls_slot[CALLS_KIND_COUNT][CALLS_SLOTS];
bool calls_are_odd;
bool calls_have_captured;

static uint64_t state;
static FILE *transcript;
static char line[LINE_BYTES];
static size_t length;
static int self;                       /* the thread that has the baton */
static bool must_leave[CALLS_THREADS]; /* a context that was current there is gone */

/* splitmix64, by Sebastiano Vigna, in the public domain. */
static uint64_t next(void)
{
	uint64_t z = (state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

uint64_t calls_random(uint64_t n)
{
	return n ? next() % n : 0;
}

bool calls_one_in(uint64_t n)
{
	return calls_random(n) == 0;
}

void calls_say(const char *format, ...)
{
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(line + length, sizeof(line) - length, format, args);
	va_end(args);
	if (n > 0 && length + (size_t)n < sizeof(line))
		length += (size_t)n;
}

int calls_hear(int res)
{
	calls_say(" %d", res);
	return res;
}

/* ---- what the program holds ---- */

static bool is_address(enum calls_kind kind)
{
	return kind < CALLS_STREAM;
}

static bool is_held(uint64_t value, bool address)
{
	unsigned kind, i;

	for (kind = 0; kind < CALLS_KIND_COUNT; kind++)
		for (i = 0; i < CALLS_SLOTS && is_address(kind) == address; i++) {
			const struct calls_slot *slot = &calls_slot[kind][i];

			if (slot->live && value >= slot->value &&
			    value - slot->value < (slot->bytes ? slot->bytes : 1))
				return true;
		}
	return false;
}

static struct calls_slot *find_live(enum calls_kind kind, uint64_t from)
{
	unsigned i;

	for (i = 0; i < CALLS_SLOTS; i++)
		if (calls_slot[kind][(from + i) % CALLS_SLOTS].live)
			return &calls_slot[kind][(from + i) % CALLS_SLOTS];
	return NULL;
}

static struct calls_slot *find_empty(enum calls_kind kind)
{
	unsigned i;

	for (i = 0; i < CALLS_SLOTS; i++)
		if (!calls_slot[kind][i].live)
			return &calls_slot[kind][i];
	return NULL;
}

bool calls_have_room(enum calls_kind kind)
{
	if (find_empty(kind))
		return true;
	calls_say(" full");
	return false;
}

/* What makes no sense, or not here. */
static uint64_t pick_odd(enum calls_kind kind, const struct calls_slot *live, bool *ret_gone)
{
	const struct calls_slot *any = &calls_slot[kind][calls_random(CALLS_SLOTS)];
	const struct calls_slot *other =
		&calls_slot[calls_random(CALLS_KIND_COUNT)][calls_random(CALLS_SLOTS)];

	switch (calls_random(5)) {
	case 0:
		/* A handle may be a page of the library's by now; and a call that one run leaves
		 * out must not spoil a capture in the other. */
		*ret_gone = any->used && !any->live && kind != CALLS_HANDLE && !calls_have_captured;
		return *ret_gone ? any->value : 0;
	case 1:
		return other->live ? other->value : 0;
	case 2:
		return live && is_address(kind) ? live->value + 1 : 0;
	case 3:
		return live && is_address(kind) ? live->value + live->bytes / 2 : 0;
	default:
		return is_address(kind) ? UINT64_C(0x1000) : 0;
	}
}

bool calls_pick(enum calls_kind kind, uint64_t *ret_value)
{
	const struct calls_slot *live = find_live(kind, calls_random(CALLS_SLOTS));
	const bool odd = calls_are_odd && calls_one_in(4);
	bool gone = false;
	uint64_t value;

	value = odd ? pick_odd(kind, live, &gone) : live ? live->value : 0;
	if (gone && is_held(value, is_address(kind))) {
		calls_say(" ?");
		return false;
	}
	*ret_value = value;
	return true;
}

bool calls_pick_stream(CUstream *ret_stream)
{
	const uint64_t special = calls_random(6); /* NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD */
	uint64_t value = special;

	if (special > 2 && !calls_pick(CALLS_STREAM, &value))
		return false;
	*ret_stream = (CUstream)(uintptr_t)value;
	return true;
}

size_t calls_bytes(void)
{
	static const size_t odd[] = {0, SIZE_MAX, SIZE_MAX / 2 + 1, SIZE_MAX - 511, MIB * MIB};

	if (calls_are_odd && !calls_have_captured && calls_one_in(3))
		return odd[calls_random(sizeof(odd) / sizeof(odd[0]))];
	switch (calls_random(4)) {
	case 0:
		return 1 + calls_random(2048);
	case 1:
		return MIB + calls_random(3) - 1;
	case 2:
		return 1 + calls_random(3 * MIB);
	default:
		return UINT64_C(512) << calls_random(12);
	}
}

unsigned calls_flags(unsigned most)
{
	return (unsigned)(calls_are_odd && calls_one_in(8) ? next() : calls_random(most + 1));
}

static int find_context(uint64_t value)
{
	int i;

	for (i = 0; i < CALLS_SLOTS; i++)
		if (calls_slot[CALLS_CONTEXT][i].live &&
		    calls_slot[CALLS_CONTEXT][i].value == value)
			return i;
	return -1;
}

/* One that the runtime has made is taken in. */
int calls_context(void)
{
	struct calls_slot *empty = find_empty(CALLS_CONTEXT);
	CUcontext ctx = NULL;

	if (cuCtxGetCurrent(&ctx) != CUDA_SUCCESS || !ctx)
		return -1;
	if (find_context((uintptr_t)ctx) < 0 && empty)
		*empty = (struct calls_slot){
			.value = (uintptr_t)ctx, .ctx = -1, .live = true, .used = true};
	return find_context((uintptr_t)ctx);
}

void calls_got(enum calls_kind kind, int res, const uint64_t *value, uint64_t bytes)
{
	calls_say(" %s", !value                   ? "nowhere"
			 : *value == CALLS_UNTOLD ? "untouched"
			 : *value                 ? "filled"
						  : "zero");
	if (!res && value && *value && *value != CALLS_UNTOLD)
		*find_empty(kind) = (struct calls_slot){.value = *value,
							.bytes = bytes,
							.ctx = calls_context(),
							.live = true,
							.used = true};
}

void calls_gave(enum calls_kind kind, int res, uint64_t value)
{
	unsigned k, i;

	for (k = 0; !res && k < CALLS_KIND_COUNT; k++)
		for (i = 0; i < CALLS_SLOTS && is_address(k) == is_address(kind); i++)
			if (calls_slot[k][i].value == value)
				calls_slot[k][i].live = false;
}

/* All that goes with a context. */
static void drop_context(unsigned ctx)
{
	unsigned kind, i;

	for (kind = 0; kind < CALLS_CONTEXT; kind++)
		for (i = 0; i < CALLS_SLOTS && kind != CALLS_HANDLE && kind != CALLS_ASYNC; i++)
			if (calls_slot[kind][i].ctx == (int)ctx)
				calls_slot[kind][i].live = false;
	memset(must_leave, true, sizeof(must_leave));
}

/* What went with the last call, and what the driver alone knows of. */
static void look_around(void)
{
	unsigned i;
	int type;

	for (i = 0; i < CALLS_SLOTS; i++) {
		struct calls_slot *slot = &calls_slot[CALLS_CONTEXT][i];
		unsigned long long id = 0;

		if (!slot->live)
			continue;
		slot->live = cuCtxGetId((CUcontext)(uintptr_t)slot->value, &id) == CUDA_SUCCESS;
		if (!slot->live || (slot->id && slot->id != id))
			drop_context(i);
		slot->id = id;
	}
	/* Memory of a pool goes with the work of its stream, and that with the context. */
	for (i = 0; i < CALLS_SLOTS; i++)
		calls_slot[CALLS_ASYNC][i].live &=
			cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
					      calls_slot[CALLS_ASYNC][i].value) == CUDA_SUCCESS;
}

/* Whether a thread hears that its context is gone, where another one has the handle, is not
 * compared. */
static void leave_contexts(void)
{
	CUcontext ctx = NULL;

	if (!must_leave[self])
		return;
	must_leave[self] = false;
	while (cuCtxGetCurrent(&ctx) == CUDA_SUCCESS && ctx &&
	       cuCtxPopCurrent_v2(&ctx) == CUDA_SUCCESS)
		;
}

/* ---- the program ---- */

static const struct calls_op *choose(void)
{
	const struct calls_op *op = calls_ops;
	unsigned sum = 0;
	uint64_t n;
	size_t i;

	for (i = 0; i < calls_op_count; i++)
		sum += calls_ops[i].weight;
	for (n = calls_random(sum); n >= op->weight; op++)
		n -= op->weight;
	return op;
}

static void step(unsigned number)
{
	const struct calls_op *op = choose();
	const uint64_t after = next();

	length = 0;
	calls_are_odd = !calls_one_in(3);
	look_around();
	leave_contexts();
	calls_say("%u %s", number, op->name);
	op->run();
	calls_say(" in %d", calls_context());
	(void)fprintf(transcript, "%s\n", line);
	/* However much it has drawn. */
	state = after;
}

static sem_t baton[CALLS_THREADS], back;
static unsigned number, count;

static void *play(void *arg)
{
	const int thread = *(const int *)arg;

	while (!sem_wait(&baton[thread]) && number < count) {
		self = thread;
		step(number);
		(void)sem_post(&back);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int name[CALLS_THREADS] = {0, 1};
	pthread_t thread[CALLS_THREADS];
	unsigned i;

	if (argc != 4)
		return 2;
	state = strtoull(argv[1], NULL, 10);
	count = (unsigned)strtoul(argv[2], NULL, 10);
	transcript = fopen(argv[3], "we");
	if (!transcript || sem_init(&back, 0, 0))
		return 1;
	for (i = 0; i < CALLS_THREADS; i++)
		if (sem_init(&baton[i], 0, 0) || pthread_create(&thread[i], NULL, play, &name[i]))
			return 1;
	if (!calls_one_in(4))
		(void)cuInit(0);
	for (number = 0; number < count; number++) {
		if (number == START_AFTER)
			(void)cuInit(0);
		(void)sem_post(&baton[calls_one_in(4)]);
		(void)sem_wait(&back);
	}
	for (i = 0; i < CALLS_THREADS; i++) {
		(void)sem_post(&baton[i]);
		(void)pthread_join(thread[i], NULL);
	}
	return fclose(transcript) ? 1 : 0;
}
