/* SPDX-License-Identifier: MIT */
/*
 * The player keeps a model of what the program holds: which block, how large, in which stream its
 * work is ordered, what its first and last words must be. What the driver answers, what arrives from
 * the device and what the books say is compared with it.
 *
 * In the ordinary way the threads pass a baton, so a program has one order of calls and the tables
 * need no lock. Free-running threads have slots, graphs and capture streams of their own.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "interpose/cudamem.h"
#include "tests/proof/holdings.h"
#include "tests/proof/importer.h"
#include "tests/proof/program.h"
#include "tests/sim/cudasim.h"

#define WORDS     8 /* at each end of a block */
#define ENDS      (2 * WORDS * sizeof(uint32_t))
#define CHECKS    64
#define STREAMS   (PROOF_STREAMS + PROOF_THREADS) /* the last: for free-running threads' captures */
#define GONE      STREAMS /* a stream that was destroyed with work under way */
#define PER_GRAPH 4
#define TOLERATED 8

#define PAGE UINT64_C(4096)
#define MIB  UINT64_C(1048576)

enum kind { NONE, DEVICE, PINNED, HOST, REGISTERED, MANAGED, PITCH, ASYNC, ARRAY };

/* What a program asks for, of PROOF_KINDS: the last ones each once, what comes before the rest. */
static enum kind kind_of(uint64_t arg)
{
	static const enum kind rare[] = {MANAGED, PITCH, ASYNC, REGISTERED, ARRAY};
	const uint64_t n = sizeof(rare) / sizeof(rare[0]), at = arg % PROOF_KINDS;

	if (at >= PROOF_KINDS - n)
		return rare[PROOF_KINDS - 1 - at];
	return at % 16 == 0 ? PINNED : at % 16 == 1 ? HOST : DEVICE;
}

struct slot {
	enum kind kind;
	CUdeviceptr addr;
	uint64_t bytes;
	unsigned ctx, stream; /* where its work is ordered */
	bool fresh;           /* nothing was done with it: there is nothing to come after */
	bool known;           /* what its ends hold */
	uint32_t value;
	uint64_t serial; /* of the allocation */
	void *extra;     /* an array, registered pages */
};

struct stream {
	CUstream handle;
	CUevent event; /* to order another behind it */
	bool capturing;
	unsigned mode;
	uint8_t thread; /* that captures */
	uint32_t graph; /* the one that grows */
};

struct context {
	CUcontext handle;
	CUdevice device;
	CUfunction touch, copy;
	uint32_t *fetched; /* room for what each hand fetches */
	uint64_t generation;
	unsigned refs;             /* of a primary one: a reset leaves them */
	bool peer[PROOF_CONTEXTS]; /* whose memory it may reach */
	struct stream stream[STREAMS];
};

struct graph {
	CUgraphExec exec;
	uint64_t generation; /* of its context */
	unsigned ctx;
	uint32_t value, count;
	struct {
		unsigned slot;
		uint64_t serial;
	} touched[PER_GRAPH];
};

/* What has been fetched, and is to be compared once it has arrived. The words are pinned memory of
 * the block's context: a copy to other memory would wait. */
struct fetched {
	const volatile uint32_t *words;
	uint32_t value, n;
	unsigned ctx, stream;
	size_t op;
};

struct hand {
	uint8_t number;
	unsigned ctx;
	uint64_t generation;
	uint32_t checks;
	struct fetched check[CHECKS];
	uint64_t room_next; /* of the contexts' */
	CUdeviceptr gone;   /* the last block that was freed */
	uint64_t serial;
	size_t op;
	uint64_t done;
};

static struct {
	struct proof_run run;
	size_t end; /* of the operations that are played */
	struct context context[PROOF_CONTEXTS];
	struct slot slot[PROOF_SLOTS];
	struct graph graph[PROOF_GRAPHS + PROOF_THREADS];
	struct hand hand[PROOF_THREADS];
	unsigned opened; /* contexts, of those that are used */
	_Atomic int captures;
	bool broken; /* an error of the plan has been heard: what follows may fail with it */
	int tolerated[TOLERATED];
	bool simulated;
} play;

static sem_t baton[PROOF_THREADS]; /* one of them is up, or its thread is at work */

/* ---- answers ---- */

__attribute__((format(printf, 2, 3))) static _Noreturn void wrong(const struct hand *hand,
								  const char *format, ...)
{
	char text[400];
	va_list args;
	int n;

	n = snprintf(text, sizeof(text), "operation %zu, ", hand->op + 1);
	va_start(args, format);
	n += vsnprintf(text + n, sizeof(text) - (size_t)n - 1, format, args);
	va_end(args);
	text[n++] = '\n';
	(void)!write(STDERR_FILENO, text, (size_t)n);
	_exit(99);
}

static bool is_tolerated(CUresult res)
{
	size_t i;

	for (i = 0; i < TOLERATED && play.tolerated[i]; i++)
		if ((int)res == play.tolerated[i]) {
			play.broken = true;
			return true;
		}
	/* An error has consequences: what was not made can't be used. */
	return play.broken;
}

static bool is_of_captures(CUresult res)
{
	return res >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED && res <= CUDA_ERROR_CAPTURED_EVENT;
}

/* An answer that must be the same without the library: false where it is no success. */
static bool heard(const struct hand *hand, const char *what, CUresult res)
{
	if (play.run.transcript)
		(void)fprintf(play.run.transcript, "%zu %s %d\n", hand->op + 1, what, (int)res);
	if (res == CUDA_SUCCESS)
		return true;
	if (!is_tolerated(res) && !(is_of_captures(res) && !play.run.free_running))
		wrong(hand, "%s answered %d", what, (int)res);
	return false;
}

/* The same for what may find no memory left. */
static bool heard_memory(const struct hand *hand, const char *what, CUresult res)
{
	if (res == CUDA_ERROR_OUT_OF_MEMORY) {
		if (play.run.transcript)
			(void)fprintf(play.run.transcript, "%zu %s %d\n", hand->op + 1, what,
				      (int)res);
		return false;
	}
	return heard(hand, what, res);
}

#define CALL(hand, function, ...)   heard(hand, #function, function(__VA_ARGS__))
#define MEMORY(hand, function, ...) heard_memory(hand, #function, function(__VA_ARGS__))

/* ---- contexts and streams ---- */

/* A kernel writes the whole block as far as order goes, and the words at its beginning in truth;
 * a fill and a copy behind it do so at the end. */
static const char module_text[] = "cudasim-module\n"
				  "kernel touch\n"
				  " params ptr u64 u32 u64 u64\n"
				  " time 1us 1ns p4\n"
				  " writes p0 p1\n"
				  " do fill p0 p2 p3\n"
				  "end\n"
				  "kernel copy\n"
				  " params ptr u64 ptr u64 u64 u64\n"
				  " time 1us 1ns p5\n"
				  " reads p2 p3\n"
				  " writes p0 p1\n"
				  " do copy p0 p2 p4\n"
				  "end\n";

static bool make_stream(struct hand *hand, struct context *ctx, unsigned i)
{
	struct stream *stream = &ctx->stream[i];
	unsigned flags = i == 2 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING;

	*stream = (struct stream){0};
	return (!i || CALL(hand, cuStreamCreate, &stream->handle, flags)) &&
	       CALL(hand, cuEventCreate, &stream->event, CU_EVENT_DISABLE_TIMING);
}

static bool fill_context(struct hand *hand, unsigned c)
{
	struct context *ctx = &play.context[c];
	CUmodule module;
	unsigned i;

	ctx->generation++;
	memset(ctx->peer, 0, sizeof(ctx->peer));
	memset(ctx->stream, 0, sizeof(ctx->stream));
	for (i = 0; i < STREAMS; i++)
		if (!make_stream(hand, ctx, i))
			return false;
	ctx->fetched = NULL;
	if (!MEMORY(hand, cuMemAllocHost_v2, (void **)&ctx->fetched,
		    PROOF_THREADS * (CHECKS + 1) * ENDS))
		return false;
	return CALL(hand, cuModuleLoadData, &module, module_text) &&
	       CALL(hand, cuModuleGetFunction, &ctx->touch, module, "touch") &&
	       CALL(hand, cuModuleGetFunction, &ctx->copy, module, "copy");
}

static bool open_context(struct hand *hand, unsigned c)
{
	struct context *ctx = &play.context[c];

	ctx->device = c == 1;
	if (c < 2) {
		if (!CALL(hand, cuDevicePrimaryCtxRetain, &ctx->handle, ctx->device) ||
		    !CALL(hand, cuCtxSetCurrent, ctx->handle))
			return false;
		ctx->refs++;
	} else if (!MEMORY(hand, cuCtxCreate_v2, &ctx->handle, 0, ctx->device)) {
		return false;
	}
	return fill_context(hand, c);
}

/* Makes the hand's context current, also where another has come in its place. */
static void enter(struct hand *hand)
{
	struct context *ctx = &play.context[hand->ctx];

	if (hand->generation == ctx->generation)
		return;
	(void)CALL(hand, cuCtxSetCurrent, ctx->handle);
	hand->generation = ctx->generation;
}

/* For a call in another context than the hand's. */
static bool visit(struct hand *hand, unsigned c)
{
	return c == hand->ctx || CALL(hand, cuCtxPushCurrent_v2, play.context[c].handle);
}

static void leave(struct hand *hand, unsigned c)
{
	CUcontext popped;

	if (c != hand->ctx)
		(void)CALL(hand, cuCtxPopCurrent_v2, &popped);
}

static struct stream *stream_of(const struct slot *slot)
{
	return &play.context[slot->ctx].stream[slot->stream];
}

/* The stream that an argument means to a hand. */
static unsigned stream_number(const struct hand *hand, uint64_t arg)
{
	unsigned i = (unsigned)arg % PROOF_STREAMS;

	return play.run.free_running && i == PROOF_STREAMS - 1 ? PROOF_STREAMS + hand->number : i;
}

/* Work of `to` comes after what is in `from` now. A default stream is that of the current context. */
static bool order(struct hand *hand, unsigned from_ctx, struct stream *from, unsigned to_ctx,
		  struct stream *to)
{
	bool ok;

	if (from == to)
		return true;
	if (!visit(hand, from_ctx))
		return false;
	ok = CALL(hand, cuEventRecord, from->event, from->handle);
	leave(hand, from_ctx);
	if (!ok || !visit(hand, to_ctx))
		return false;
	ok = CALL(hand, cuStreamWaitEvent, to->handle, from->event, 0);
	leave(hand, to_ctx);
	return ok;
}

/* ---- contents ---- */

/* Words at each end that are looked at. */
static uint32_t words_of(const struct slot *slot)
{
	return slot->bytes >= ENDS ? WORDS : slot->bytes >= 4 ? 1 : 0;
}

static CUdeviceptr tail_of(const struct slot *slot)
{
	return slot->addr + ((slot->bytes & ~UINT64_C(3)) - 4 * words_of(slot));
}

static void compare(struct hand *hand, const struct fetched *check)
{
	uint32_t i;

	cm_holdings_cpu_reads(check->words, 2 * check->n * sizeof(uint32_t));
	for (i = 0; i < 2 * check->n; i++)
		if (check->words[i] != check->value && !play.broken)
			wrong(hand, "contents: what operation %zu fetched is %#x, and must be %#x",
			      check->op + 1, check->words[i], check->value);
}

/* Compares what has arrived: of one stream, or of a whole context. */
static void settle(struct hand *hand, unsigned c, int stream)
{
	uint32_t i, left = 0;

	for (i = 0; i < hand->checks; i++) {
		struct fetched *check = &hand->check[i];

		if (check->ctx == c && (stream < 0 || check->stream == (unsigned)stream))
			compare(hand, check);
		else
			hand->check[left++] = *check;
	}
	hand->checks = left;
}

static void settle_all(unsigned c, int stream)
{
	unsigned t;

	for (t = 0; t < PROOF_THREADS; t++)
		settle(&play.hand[t], c, stream);
}

/* Answers for what a wait for a stream has brought; false where it could not be waited for. */
static bool wait_stream(struct hand *hand, unsigned c, unsigned s)
{
	struct stream *stream = &play.context[c].stream[s];
	bool ok;

	if (stream->capturing || !visit(hand, c))
		return false;
	ok = CALL(hand, cuStreamSynchronize, stream->handle);
	leave(hand, c);
	if (ok && play.run.free_running)
		settle(hand, c, (int)s);
	else if (ok)
		settle_all(c, (int)s);
	return ok;
}

/* Its work goes on, and only a wait for the whole context tells when it is through. */
static void forget_stream(unsigned c, unsigned s)
{
	unsigned t;
	uint32_t i;

	for (t = 0; t < PROOF_THREADS; t++)
		for (i = 0; i < play.hand[t].checks; i++)
			if (play.hand[t].check[i].ctx == c && play.hand[t].check[i].stream == s)
				play.hand[t].check[i].stream = GONE;
}

static void finish(struct hand *hand, unsigned c)
{
	if (play.captures || play.run.free_running || !visit(hand, c))
		return;
	if (CALL(hand, cuCtxSynchronize))
		settle_all(c, -1);
	leave(hand, c);
}

/* What was fetched first has arrived. */
static void wait_for_first(struct hand *hand)
{
	const struct fetched *first = &hand->check[0];

	if (first->stream == GONE)
		finish(hand, first->ctx);
	else
		(void)wait_stream(hand, first->ctx, first->stream);
}

/* Words that no fetch under way goes to. NULL: none is free. */
static uint32_t *find_room(struct hand *hand, unsigned c)
{
	uint32_t *words = play.context[c].fetched;
	uint32_t i, k;

	if (!words)
		return NULL;
	for (i = 0; i <= CHECKS; i++) {
		uint32_t *at = words +
			       (hand->number * (CHECKS + 1) + hand->room_next++ % (CHECKS + 1)) *
				       2 * WORDS;

		for (k = 0; k < hand->checks && hand->check[k].words != at; k++)
			;
		if (k == hand->checks)
			return at;
	}
	return NULL;
}

/* Fetches both ends, behind what was done to the block before. */
static void fetch(struct hand *hand, struct slot *slot)
{
	struct stream *stream = stream_of(slot);
	uint32_t n = words_of(slot), *words;
	struct fetched *check;

	if (!slot->known || !n || slot->kind == ARRAY || stream->capturing)
		return;
	if (hand->checks == CHECKS)
		wait_for_first(hand);
	if (hand->checks == CHECKS || !visit(hand, slot->ctx))
		return;
	words = find_room(hand, slot->ctx);
	check = &hand->check[hand->checks];
	*check = (struct fetched){.words = words,
				  .value = slot->value,
				  .n = n,
				  .ctx = slot->ctx,
				  .stream = slot->stream,
				  .op = hand->op};
	if (words && CALL(hand, cuMemcpyDtoHAsync_v2, words, slot->addr, n * 4, stream->handle) &&
	    CALL(hand, cuMemcpyDtoHAsync_v2, words + n, tail_of(slot), n * 4, stream->handle))
		hand->checks++;
	leave(hand, slot->ctx);
}

static bool launch_touch(struct hand *hand, const struct context *ctx, CUstream stream,
			 struct slot *slot, uint32_t value, uint64_t ns)
{
	CUdeviceptr head = slot->addr;
	uint64_t bytes = slot->bytes, n = words_of(slot);
	void *params[] = {&head, &bytes, &value, &n, &ns};

	slot->fresh = false;
	return CALL(hand, cuLaunchKernel, ctx->touch, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL) &&
	       CALL(hand, cuMemsetD32Async, tail_of(slot), value, n, stream);
}

static uint32_t next_value(struct hand *hand)
{
	return (uint32_t)(++hand->serial * PROOF_THREADS + hand->number);
}

/* ---- the operations ---- */

/* Slots that an argument can mean: in a free-running program each thread has its own. */
static struct slot *slot_of(const struct hand *hand, uint64_t arg)
{
	unsigned i = (unsigned)arg % PROOF_SLOTS;

	if (play.run.free_running)
		i = i / PROOF_THREADS * PROOF_THREADS + hand->number;
	return &play.slot[i];
}

/* A slot whose work can be added to; NULL: empty, an array, or in a stream that is captured. */
static struct slot *workable(const struct hand *hand, uint64_t arg)
{
	struct slot *slot = slot_of(hand, arg);

	return slot->kind != NONE && slot->kind != ARRAY && words_of(slot) &&
			       !stream_of(slot)->capturing
		       ? slot
		       : NULL;
}

static bool is_hosts(const struct slot *slot)
{
	return slot->kind == PINNED || slot->kind == HOST || slot->kind == REGISTERED;
}

/* The CPU writes both ends; nothing else may do so meanwhile. */
static void write_by_cpu(struct hand *hand, struct slot *slot)
{
	volatile uint32_t *head = (void *)(uintptr_t)slot->addr;
	volatile uint32_t *tail = (void *)(uintptr_t)tail_of(slot);
	uint32_t n = words_of(slot), i;

	slot->value = next_value(hand);
	slot->known = true;
	slot->fresh = false;
	cm_holdings_cpu_writes(head, slot->bytes);
	for (i = 0; i < n; i++)
		head[i] = tail[i] = slot->value;
}

static bool alloc_array(struct hand *hand, struct slot *slot, uint64_t bytes)
{
	const CUDA_ARRAY_DESCRIPTOR array = {.Width = bytes % 4096 + 1,
					     .Height = 16,
					     .Format = CU_AD_FORMAT_UNSIGNED_INT8,
					     .NumChannels = 1};

	return MEMORY(hand, cuArrayCreate_v2, (CUarray *)&slot->extra, &array);
}

static bool alloc_registered(struct hand *hand, struct slot *slot)
{
	slot->bytes = (slot->bytes % (64 * PAGE) + PAGE) & ~(PAGE - 1);
	slot->extra = mmap(NULL, slot->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);
	if (slot->extra == MAP_FAILED)
		wrong(hand, "no memory for the test itself");
	if (MEMORY(hand, cuMemHostRegister_v2, slot->extra, slot->bytes,
		   CU_MEMHOSTREGISTER_PORTABLE)) {
		slot->addr = (uintptr_t)slot->extra;
		return true;
	}
	(void)munmap(slot->extra, slot->bytes);
	return false;
}

static bool alloc_kind(struct hand *hand, struct slot *slot)
{
	size_t pitch;
	void *host;
	bool ok;

	switch (slot->kind) {
	case DEVICE:
		return MEMORY(hand, cuMemAlloc_v2, &slot->addr, slot->bytes);
	case PINNED:
		ok = MEMORY(hand, cuMemAllocHost_v2, &host, slot->bytes);
		slot->addr = (uintptr_t)host;
		return ok;
	case HOST:
		ok = MEMORY(hand, cuMemHostAlloc, &host, slot->bytes, CU_MEMHOSTALLOC_PORTABLE);
		slot->addr = (uintptr_t)host;
		return ok;
	case MANAGED:
		return MEMORY(hand, cuMemAllocManaged, &slot->addr, slot->bytes,
			      CU_MEM_ATTACH_GLOBAL);
	case PITCH:
		ok = MEMORY(hand, cuMemAllocPitch_v2, &slot->addr, &pitch, slot->bytes % 2000 + 4,
			    slot->bytes / 2000 + 1, 4);
		slot->bytes = slot->bytes % 2000 + 4;
		return ok;
	case ASYNC:
		return MEMORY(hand, cuMemAllocAsync, &slot->addr, slot->bytes,
			      stream_of(slot)->handle);
	case REGISTERED:
		return alloc_registered(hand, slot);
	case ARRAY:
		return alloc_array(hand, slot, slot->bytes);
	case NONE:
		break;
	}
	return false;
}

static void must_be_apart(struct hand *hand, const struct slot *made)
{
	unsigned i;

	for (i = 0; i < PROOF_SLOTS && made->kind != ARRAY; i++) {
		const struct slot *slot = &play.slot[i];

		if (slot != made && slot->kind != NONE && slot->kind != ARRAY &&
		    made->addr < slot->addr + slot->bytes && slot->addr < made->addr + made->bytes)
			wrong(hand, "a block at %#llx lies in one that is in use",
			      (unsigned long long)made->addr);
	}
	if (made->kind == DEVICE && made->addr % 256)
		wrong(hand, "a block at %#llx, out of line", (unsigned long long)made->addr);
}

static void do_alloc(struct hand *hand, const uint64_t *arg)
{
	struct slot *slot = slot_of(hand, arg[0]),
		    made = {.kind = kind_of(arg[2]),
			    .fresh = true,
			    .bytes = arg[1] ? arg[1] : 1,
			    .ctx = hand->ctx,
			    .stream = stream_number(hand, arg[0] / PROOF_THREADS % 2 + arg[2] % 2)};

	if (slot->kind != NONE || (made.kind == ASYNC && stream_of(&made)->capturing))
		return;
	made.serial = ++hand->serial * PROOF_THREADS + hand->number;
	if (!alloc_kind(hand, &made))
		return;
	*slot = made;
	if (!play.run.free_running)
		must_be_apart(hand, slot);
	/* At once, as a program may that has just been given memory of its own. */
	if (is_hosts(slot))
		write_by_cpu(hand, slot);
}

static bool free_kind(struct hand *hand, struct slot *slot)
{
	bool ok;

	switch (slot->kind) {
	case DEVICE:
	case MANAGED:
	case PITCH:
		return CALL(hand, cuMemFree_v2, slot->addr);
	case PINNED:
	case HOST:
		return CALL(hand, cuMemFreeHost, (void *)(uintptr_t)slot->addr);
	case ASYNC:
		return CALL(hand, cuMemFreeAsync, slot->addr, stream_of(slot)->handle);
	case REGISTERED:
		(void)wait_stream(hand, slot->ctx, slot->stream);
		ok = CALL(hand, cuMemHostUnregister, slot->extra);
		if (ok)
			(void)munmap(slot->extra, slot->bytes);
		return ok;
	case ARRAY:
		return CALL(hand, cuArrayDestroy, slot->extra);
	case NONE:
		break;
	}
	return false;
}

static void do_free(struct hand *hand, const uint64_t *arg)
{
	struct slot *slot = slot_of(hand, arg[0]);

	if (slot->kind == NONE ||
	    ((slot->kind == ASYNC || slot->kind == REGISTERED) && stream_of(slot)->capturing))
		return;
	/* Where the driver forbids it the library waits: docs/transparency.md. */
	if ((slot->kind == PINNED || slot->kind == HOST) && play.captures)
		return;
	if (arg[0] % 2)
		fetch(hand, slot);
	/* The CUDA calls that free arrays and the like want the context itself. */
	if (slot->kind != DEVICE && !visit(hand, slot->ctx))
		return;
	if (free_kind(hand, slot)) {
		if (slot->kind == DEVICE)
			hand->gone = slot->addr;
		leave(hand, slot->kind == DEVICE ? hand->ctx : slot->ctx);
		slot->kind = NONE;
		return;
	}
	leave(hand, slot->kind == DEVICE ? hand->ctx : slot->ctx);
	/* An error may stand for an earlier one: the block is as good as lost. */
	if (play.broken)
		slot->kind = NONE;
}

static void touch_captured(struct hand *hand, struct slot *slot, uint64_t ns)
{
	struct stream *stream = stream_of(slot);
	struct graph *graph = &play.graph[stream->graph];

	if (graph->count == PER_GRAPH || graph->ctx != slot->ctx || !words_of(slot) ||
	    slot->kind == ARRAY || slot->kind == ASYNC || !visit(hand, slot->ctx))
		return;
	if (launch_touch(hand, &play.context[slot->ctx], stream->handle, slot, graph->value, ns)) {
		graph->touched[graph->count].slot = (unsigned)(slot - play.slot);
		graph->touched[graph->count++].serial = slot->serial;
	}
	leave(hand, slot->ctx);
}

static void do_touch(struct hand *hand, const uint64_t *arg)
{
	struct slot *slot = slot_of(hand, arg[0]);
	uint32_t value = next_value(hand);

	if (slot->kind != NONE && stream_of(slot)->capturing)
		touch_captured(hand, slot, arg[1]);
	slot = workable(hand, arg[0]);
	if (!slot || !visit(hand, slot->ctx))
		return;
	if (launch_touch(hand, &play.context[slot->ctx], stream_of(slot)->handle, slot, value,
			 arg[1])) {
		slot->value = value;
		slot->known = true;
	}
	leave(hand, slot->ctx);
}

static bool copy_within(struct hand *hand, const struct slot *to, const struct slot *from,
			uint64_t ns)
{
	CUdeviceptr dst = to->addr, src = from->addr;
	uint64_t dst_bytes = to->bytes, src_bytes = from->bytes, n = WORDS * 4;
	void *params[] = {&dst, &dst_bytes, &src, &src_bytes, &n, &ns};
	CUstream stream = stream_of(to)->handle;

	return CALL(hand, cuLaunchKernel, play.context[to->ctx].copy, 1, 1, 1, 1, 1, 1, 0, stream,
		    params, NULL) &&
	       CALL(hand, cuMemcpyAsync, tail_of(to), tail_of(from), n, stream);
}

static bool copy_between(struct hand *hand, const struct slot *to, const struct slot *from)
{
	CUcontext dst = play.context[to->ctx].handle, src = play.context[from->ctx].handle;
	CUstream stream = stream_of(to)->handle;

	if (is_hosts(to) || is_hosts(from))
		return CALL(hand, cuMemcpyAsync, to->addr, from->addr, WORDS * 4, stream) &&
		       CALL(hand, cuMemcpyAsync, tail_of(to), tail_of(from), WORDS * 4, stream);
	return CALL(hand, cuMemcpyPeerAsync, to->addr, dst, from->addr, src, WORDS * 4, stream) &&
	       CALL(hand, cuMemcpyPeerAsync, tail_of(to), dst, tail_of(from), src, WORDS * 4,
		    stream);
}

static void do_copy(struct hand *hand, const uint64_t *arg)
{
	struct slot *to = workable(hand, arg[0]), *from = workable(hand, arg[1]);
	bool ok;

	if (!to || !from || to == from || to->bytes < ENDS || from->bytes < ENDS || !from->known)
		return;
	if (!order(hand, from->ctx, stream_of(from), to->ctx, stream_of(to)) ||
	    !visit(hand, to->ctx))
		return;
	ok = to->ctx == from->ctx ? copy_within(hand, to, from, arg[2])
				  : copy_between(hand, to, from);
	leave(hand, to->ctx);
	to->known = ok;
	to->fresh = false;
	to->value = from->value;
	/* What is written to the source later must not arrive. */
	(void)order(hand, to->ctx, stream_of(to), from->ctx, stream_of(from));
}

static void do_move(struct hand *hand, const uint64_t *arg)
{
	struct slot *slot = workable(hand, arg[0]);
	unsigned number = stream_number(hand, arg[1]);
	struct stream *to;

	if (!slot || slot->kind == ASYNC)
		return;
	to = &play.context[slot->ctx].stream[number];
	if (to->capturing || !order(hand, slot->ctx, stream_of(slot), slot->ctx, to))
		return;
	slot->stream = number;
}

static void do_check(struct hand *hand, const uint64_t *arg)
{
	struct slot *slot = workable(hand, arg[0]);

	if (slot)
		fetch(hand, slot);
}

static void do_host(struct hand *hand, const uint64_t *arg)
{
	struct slot *slot = workable(hand, arg[0]);

	if (!slot || !is_hosts(slot))
		return;
	if (wait_stream(hand, slot->ctx, slot->stream))
		write_by_cpu(hand, slot);
}

static void do_sync(struct hand *hand, const uint64_t *arg)
{
	(void)wait_stream(hand, (unsigned)arg[0], stream_number(hand, arg[1]));
}

static void do_finish(struct hand *hand, const uint64_t *arg)
{
	finish(hand, (unsigned)arg[0]);
}

static void do_query(struct hand *hand, const uint64_t *arg)
{
	const struct stream *stream = &play.context[arg[0]].stream[stream_number(hand, arg[1])];
	CUresult res;

	if (stream->capturing || !visit(hand, (unsigned)arg[0]))
		return;
	res = cuStreamQuery(stream->handle);
	if (res != CUDA_SUCCESS && res != CUDA_ERROR_NOT_READY && !is_tolerated(res))
		wrong(hand, "cuStreamQuery answered %d", (int)res);
	leave(hand, (unsigned)arg[0]);
}

static void do_pass(struct hand *hand, const uint64_t *arg)
{
	(void)hand;
	if (play.simulated)
		cudasim_advance(arg[0]);
}

static void open_next(struct hand *hand)
{
	if (!open_context(hand, play.opened) && !play.broken)
		wrong(hand, "no context");
	play.opened++;
	hand->generation = 0;
	enter(hand);
}

static void do_open(struct hand *hand, const uint64_t *arg)
{
	(void)arg;
	if (play.opened < play.run.contexts && !play.captures)
		open_next(hand);
}

static void do_context(struct hand *hand, const uint64_t *arg)
{
	hand->ctx = (unsigned)arg[0];
	hand->generation = 0;
	enter(hand);
}

/* Whether blocks are at home in it: then it stays. */
static bool is_home(unsigned c, unsigned s)
{
	unsigned i;

	for (i = 0; i < PROOF_SLOTS; i++)
		if (play.slot[i].kind != NONE && play.slot[i].ctx == c && play.slot[i].stream == s)
			return true;
	return false;
}

/* With its work still under way, and blocks that were freed behind it. */
static void do_stream(struct hand *hand, const uint64_t *arg)
{
	unsigned c = (unsigned)arg[0], s = stream_number(hand, arg[1]);
	struct stream *stream = &play.context[c].stream[s];

	if (!s || stream->capturing || play.run.free_running || is_home(c, s))
		return;
	(void)wait_stream(hand, c, arg[2] % 2 ? s : 0);
	if (!visit(hand, c))
		return;
	if (CALL(hand, cuStreamDestroy_v2, stream->handle) &&
	    CALL(hand, cuEventDestroy_v2, stream->event)) {
		forget_stream(c, s);
		(void)make_stream(hand, &play.context[c], s);
	}
	leave(hand, c);
}

/* Each thread has one graph at most that grows; and so has the program, where it is in one order. */
static bool has_capture(const struct hand *hand)
{
	unsigned c, s;

	if (!play.run.free_running)
		return play.captures;
	for (c = 0; c < play.opened; c++)
		for (s = 1; s < STREAMS; s++)
			if (play.context[c].stream[s].capturing &&
			    play.context[c].stream[s].thread == hand->number)
				return true;
	return false;
}

static void do_capture(struct hand *hand, const uint64_t *arg)
{
	static const CUstreamCaptureMode modes[] = {CU_STREAM_CAPTURE_MODE_RELAXED,
						    CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
						    CU_STREAM_CAPTURE_MODE_GLOBAL};
	unsigned c = (unsigned)arg[0], s = stream_number(hand, PROOF_STREAMS - 1);
	unsigned mode = play.run.free_running ? 0 : (unsigned)arg[2] % 3, g;
	struct stream *stream = &play.context[c].stream[s];
	struct graph *graph;

	g = play.run.free_running ? PROOF_GRAPHS + hand->number : (unsigned)arg[2] % PROOF_GRAPHS;
	graph = &play.graph[g];
	if (stream->capturing || has_capture(hand) || !visit(hand, c))
		return;
	if (graph->exec && graph->generation == play.context[graph->ctx].generation)
		(void)CALL(hand, cuGraphExecDestroy, graph->exec);
	*graph = (struct graph){
		.ctx = c, .value = next_value(hand), .generation = play.context[c].generation};
	if (CALL(hand, cuStreamBeginCapture_v2, stream->handle, modes[mode])) {
		stream->capturing = true;
		stream->mode = mode;
		stream->thread = hand->number;
		stream->graph = g;
		play.captures++;
	}
	leave(hand, c);
}

static void end_capture(struct hand *hand, unsigned c, struct stream *stream)
{
	struct graph *made = &play.graph[stream->graph];
	CUgraph graph = NULL;

	if (!visit(hand, c))
		return;
	if (CALL(hand, cuStreamEndCapture, stream->handle, &graph) && graph) {
		if (!MEMORY(hand, cuGraphInstantiateWithFlags, &made->exec, graph, 0))
			made->exec = NULL;
		(void)CALL(hand, cuGraphDestroy, graph);
	}
	stream->capturing = false;
	play.captures--;
	leave(hand, c);
}

/* But for a relaxed one, a capture is ended by the thread that began it. */
static void end_captures(struct hand *hand, bool any_mode)
{
	unsigned c, s;

	for (c = 0; c < play.opened; c++)
		for (s = 1; s < STREAMS; s++) {
			struct stream *stream = &play.context[c].stream[s];

			if (stream->capturing &&
			    (stream->thread == hand->number ||
			     (any_mode && !play.run.free_running && !stream->mode)))
				end_capture(hand, c, stream);
		}
}

static void do_end(struct hand *hand, const uint64_t *arg)
{
	(void)arg;
	end_captures(hand, true);
}

/* Whether every block that the graph touches is still the one that it was made for. */
static bool is_launchable(const struct graph *graph)
{
	uint32_t i;

	if (!graph->exec || graph->generation != play.context[graph->ctx].generation)
		return false;
	for (i = 0; i < graph->count; i++) {
		const struct slot *slot = &play.slot[graph->touched[i].slot];

		if (slot->kind == NONE || slot->serial != graph->touched[i].serial ||
		    stream_of(slot)->capturing)
			return false;
	}
	return graph->count;
}

static void do_graph(struct hand *hand, const uint64_t *arg)
{
	unsigned g = play.run.free_running ? PROOF_GRAPHS + hand->number
					   : (unsigned)arg[0] % PROOF_GRAPHS;
	struct graph *graph = &play.graph[g];
	struct stream *stream;
	uint32_t i;
	bool ok;

	if (!is_launchable(graph))
		return;
	stream = stream_of(&play.slot[graph->touched[0].slot]);
	for (i = 1; i < graph->count; i++)
		if (!order(hand, graph->ctx, stream_of(&play.slot[graph->touched[i].slot]),
			   graph->ctx, stream))
			return;
	if (!visit(hand, graph->ctx))
		return;
	ok = CALL(hand, cuGraphLaunch, graph->exec, stream->handle);
	leave(hand, graph->ctx);
	for (i = 0; i < graph->count; i++) {
		struct slot *slot = &play.slot[graph->touched[i].slot];

		slot->known = ok;
		slot->value = graph->value;
		(void)order(hand, graph->ctx, stream, graph->ctx, stream_of(slot));
	}
}

static void must_refuse(struct hand *hand, CUdeviceptr addr)
{
	CUresult res = cuMemFree_v2(addr);

	if (res == CUDA_SUCCESS)
		wrong(hand, "a free of %#llx, where nothing starts, succeeded",
		      (unsigned long long)addr);
	if (res != CUDA_ERROR_INVALID_VALUE && !is_of_captures(res) && !is_tolerated(res))
		wrong(hand, "cuMemFree_v2 answered %d", (int)res);
}

static void do_misfree(struct hand *hand, const uint64_t *arg)
{
	const struct slot *slot = slot_of(hand, arg[0]);

	if (slot->kind == DEVICE && slot->bytes > 1 + arg[1])
		must_refuse(hand, slot->addr + 1 + arg[1]);
}

static void do_twice(struct hand *hand, const uint64_t *arg)
{
	unsigned i;

	(void)arg;
	/* Another thread may have got it by now. A capture is told apart by what is asked in it, and
	 * without the library another block may be there. */
	if (!hand->gone || play.captures || play.run.free_running)
		return;
	for (i = 0; i < PROOF_SLOTS; i++)
		if (play.slot[i].kind != NONE && play.slot[i].addr == hand->gone)
			return;
	must_refuse(hand, hand->gone);
}

static void do_ask(struct hand *hand, const uint64_t *arg)
{
	struct slot *slot = slot_of(hand, arg[0]);
	CUcontext owner = NULL;
	CUdeviceptr base = 0;
	size_t size = 0;

	if (slot->kind != DEVICE || !visit(hand, slot->ctx))
		return;
	if (CALL(hand, cuMemGetAddressRange_v2, &base, &size, slot->addr) &&
	    (base > slot->addr || slot->addr + slot->bytes > base + size))
		wrong(hand, "the address range of a block does not hold it");
	if (CALL(hand, cuPointerGetAttribute, &owner, CU_POINTER_ATTRIBUTE_CONTEXT, slot->addr) &&
	    owner != play.context[slot->ctx].handle)
		wrong(hand, "a block of another context");
	leave(hand, slot->ctx);
}

/* The other process reads and writes the block, whose work is through. */
static void be_imported(struct hand *hand, struct slot *slot, const CUipcMemHandle *handle,
			uint32_t value)
{
	const struct cm_import import = {.handle = *handle,
					 .device = play.context[slot->ctx].device,
					 .expected = slot->value,
					 .written = value,
					 .words = words_of(slot),
					 .tail = tail_of(slot) - slot->addr};
	int res = cm_importer_ask(&import);

	if (res)
		wrong(hand, "what another process opened: %d", res);
	slot->value = value;
}

static void do_export(struct hand *hand, const uint64_t *arg)
{
	struct slot *slot = slot_of(hand, arg[0]);
	uint32_t value = next_value(hand);
	CUipcMemHandle handle;
	CUresult res;
	bool waited;

	if (slot->kind != DEVICE)
		return;
	waited = wait_stream(hand, slot->ctx, slot->stream);
	if (!visit(hand, slot->ctx))
		return;
	/* A block inside an allocation can't be exported: docs/transparency.md. */
	res = cuIpcGetMemHandle(&handle, slot->addr);
	if (res != CUDA_SUCCESS && !cm_holdings_are_here() && !is_tolerated(res) &&
	    !is_of_captures(res))
		wrong(hand, "cuIpcGetMemHandle answered %d", (int)res);
	leave(hand, slot->ctx);
	if (res == CUDA_SUCCESS && play.run.imports && waited && slot->known && words_of(slot))
		be_imported(hand, slot, &handle, value);
}

static void do_mark(struct hand *hand, const uint64_t *arg)
{
	struct slot *slot = slot_of(hand, arg[0]);
	unsigned on = 1;

	if (slot->kind != DEVICE || !visit(hand, slot->ctx))
		return;
	(void)CALL(hand, cuPointerSetAttribute, &on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, slot->addr);
	leave(hand, slot->ctx);
}

static void do_peer(struct hand *hand, const uint64_t *arg)
{
	unsigned from = (unsigned)arg[0], to = (unsigned)arg[1];
	struct context *ctx = &play.context[from];
	CUresult res;

	if (ctx->device == play.context[to].device || !visit(hand, from))
		return;
	res = cuCtxEnablePeerAccess(play.context[to].handle, 0);
	if (res == CUDA_SUCCESS || res == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
		ctx->peer[to] = true;
	else
		(void)heard(hand, "cuCtxEnablePeerAccess", res);
	leave(hand, from);
}

/* A kernel of another context, which comes after what was done to the block, if anything was. */
static bool reach(struct hand *hand, struct slot *slot, unsigned c, uint64_t ns)
{
	struct context *ctx = &play.context[c];
	struct stream *stream = &ctx->stream[1];
	bool ok;

	if (!slot || slot->kind != DEVICE || stream->capturing || slot->ctx == c ||
	    (!ctx->peer[slot->ctx] && ctx->device != play.context[slot->ctx].device))
		return false;
	if (!slot->fresh && !order(hand, slot->ctx, stream_of(slot), c, stream))
		return false;
	if (!visit(hand, c))
		return false;
	slot->value = next_value(hand);
	slot->fresh = false;
	ok = launch_touch(hand, ctx, stream->handle, slot, slot->value, ns);
	leave(hand, c);
	return ok;
}

static void do_reach(struct hand *hand, const uint64_t *arg)
{
	struct slot *slot = workable(hand, arg[0]);
	unsigned c = (unsigned)arg[1];

	if (reach(hand, slot, c, arg[2]))
		slot->known = order(hand, c, &play.context[c].stream[1], slot->ctx,
				    stream_of(slot));
}

static void do_info(struct hand *hand, const uint64_t *arg)
{
	size_t free_bytes = 0, total = 0;

	(void)arg;
	if (CALL(hand, cuMemGetInfo_v2, &free_bytes, &total) && free_bytes > total)
		wrong(hand, "more memory is free than there is");
}

static void do_trim(struct hand *hand, const uint64_t *arg)
{
	(void)hand;
	cm_holdings_trim((unsigned)arg[0]);
}

static void do_limit(struct hand *hand, const uint64_t *arg)
{
	(void)MEMORY(hand, cuCtxSetLimit, CU_LIMIT_MALLOC_HEAP_SIZE, (arg[0] % 8 + 1) * MIB);
}

/* What is in the context goes with it; the program's own pages are taken back before. */
static void forget_context(struct hand *self, unsigned c)
{
	unsigned i, t;
	uint32_t k, left;

	for (i = 0; i < PROOF_SLOTS; i++) {
		struct slot *slot = &play.slot[i];

		if (slot->kind == NONE || slot->ctx != c)
			continue;
		if (slot->kind == REGISTERED && visit(self, c)) {
			(void)free_kind(self, slot);
			leave(self, c);
		}
		slot->kind = NONE;
	}
	for (t = 0; t < PROOF_THREADS; t++) {
		struct hand *hand = &play.hand[t];

		hand->gone = 0;
		for (k = left = 0; k < hand->checks; k++)
			if (hand->check[k].ctx != c)
				hand->check[left++] = hand->check[k];
		hand->checks = left;
	}
}

/* With work under way, which the driver ends. Others may have it current. */
static void do_reset(struct hand *hand, const uint64_t *arg)
{
	unsigned c = (unsigned)arg[0], i;
	struct context *ctx = &play.context[c];
	bool ok = true;

	if (play.captures || play.run.free_running)
		return;
	forget_context(hand, c);
	if (c == 2)
		ok = CALL(hand, cuCtxDestroy_v2, ctx->handle);
	else if (ctx->generation % 2)
		ok = CALL(hand, cuDevicePrimaryCtxReset_v2, ctx->device);
	else
		for (; ctx->refs && ok; ctx->refs--)
			ok = CALL(hand, cuDevicePrimaryCtxRelease_v2, ctx->device);
	for (i = 0; i < play.opened; i++)
		play.context[i].peer[c] = false;
	if (ok)
		(void)open_context(hand, c);
	hand->ctx = c;
	hand->generation = 0;
	enter(hand);
}

static void check_books(struct hand *hand)
{
	struct cm_holdings held = {0};
	const char *complaint;
	unsigned i;

	for (i = 0; i < PROOF_SLOTS; i++)
		if (play.slot[i].kind == DEVICE) {
			held.blocks++;
			held.bytes += play.slot[i].bytes;
		}
	/* What a driver that fails has given past the cache nobody can count for sure. */
	complaint = cm_holdings_compare(play.broken || play.tolerated[0] ? NULL : &held);

	if (complaint)
		wrong(hand, "books: %s", complaint);
}

static void do_books(struct hand *hand, const uint64_t *arg)
{
	(void)arg;
	if (!play.run.free_running)
		check_books(hand);
}

static void (*const operations[PROOF_OP_COUNT])(struct hand *hand, const uint64_t *arg) = {
#define OP(name, weight, args) [PROOF_OP_##name] = do_##name,
#include "tests/proof/operations.def"
#undef OP
};

/* ---- the threads ---- */

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
			arg[a] %= play.opened;
	}
}

static const struct proof_op *op_at(size_t i)
{
	return &play.run.ops[i % play.run.count];
}

static void perform(struct hand *hand, size_t i)
{
	uint64_t arg[PROOF_ARGS];

	hand->op = i;
	enter(hand);
	fold_contexts(op_at(i), arg);
	operations[op_at(i)->kind](hand, arg);
	hand->done++;
}

static void take_baton(const struct hand *hand)
{
	while (sem_wait(&baton[hand->number]))
		;
}

/* To whom the operation belongs; behind the last one, the threads end in turn. */
static void pass_baton(size_t i)
{
	size_t to = i < play.end ? op_at(i)->thread : i - play.end;

	if (to < PROOF_THREADS)
		(void)sem_post(&baton[to]);
}

static size_t next_of(uint8_t thread, size_t i)
{
	while (i < play.end && op_at(i)->thread != thread)
		i++;
	return i;
}

static void *live(void *arg)
{
	struct hand *hand = arg;
	size_t i = next_of(hand->number, 0);

	while (i < play.end) {
		if (!play.run.free_running)
			take_baton(hand);
		do
			perform(hand, i++);
		while (!play.run.free_running && i < play.end && op_at(i)->thread == hand->number);
		if (!play.run.free_running)
			pass_baton(i);
		i = next_of(hand->number, i);
	}
	/* Nobody else may end these. */
	if (!play.run.free_running)
		take_baton(hand);
	end_captures(hand, false);
	if (!play.run.free_running)
		pass_baton(play.end + hand->number + 1u);
	return NULL;
}

static void read_tolerated(void)
{
	const char *text = getenv("PROOF_TOLERATE");
	size_t i;

	for (i = 0; text && *text && i < TOLERATED; i++) {
		play.tolerated[i] = atoi(text);
		text = strchr(text, ',');
		text = text ? text + 1 : NULL;
	}
}

static void open_all(struct hand *hand)
{
	if (!CALL(hand, cuInit, 0))
		return;
	do
		open_next(hand);
	while (play.run.free_running && play.opened < play.run.contexts);
	play.simulated = cm_holdings_driver_is_simulated();
}

/* Everything is waited for, compared, given back and counted. */
static void close_all(struct hand *hand)
{
	unsigned c;
	uint64_t s;

	hand->op = play.run.count;
	hand->generation = 0; /* this is another thread than the hand's */
	enter(hand);
	play.run.free_running = false;
	for (c = 0; c < play.opened; c++)
		finish(hand, c);
	check_books(hand);
	for (s = 0; s < PROOF_SLOTS; s++)
		do_free(hand, &s);
	for (c = 0; c < play.opened; c++)
		finish(hand, c);
	cm_holdings_trim(0);
	check_books(hand);
}

void proof_play(const struct proof_run *run)
{
	pthread_t thread[PROOF_THREADS];
	unsigned t;

	play.run = *run;
	play.end = run->endless ? SIZE_MAX : run->count;
	read_tolerated();
	if (run->imports && !cm_importer_start())
		wrong(&play.hand[0], "no process");
	open_all(&play.hand[0]);
	play.hand[0].generation = 0; /* to be entered by the hand's own thread */
	for (t = 0; t < PROOF_THREADS; t++) {
		play.hand[t].number = (uint8_t)t;
		(void)sem_init(&baton[t], 0, 0);
	}
	pass_baton(0);
	for (t = 0; t < PROOF_THREADS; t++) {
		if (pthread_create(&thread[t], NULL, live, &play.hand[t]))
			wrong(&play.hand[t], "no thread");
	}
	for (t = 0; t < PROOF_THREADS; t++)
		(void)pthread_join(thread[t], NULL);
	close_all(&play.hand[0]);
	if (!cm_importer_stop())
		wrong(&play.hand[0], "the other process ended badly");
}
