/* SPDX-License-Identifier: MIT */
/*
 * Freed blocks on their way from the thread that freed them to the one that is given them: the open
 * epoch under the device's lock, the closed ones under the event lock, and the driver's calls
 * between. The allocator is the real one, over the fake driver and its referee (tests/unit). Who
 * goes on is decided before each lock and each call of the driver, which is complete for what locks
 * guard; that nothing else is shared is ThreadSanitizer's to say (stress_cache).
 */
#include <string.h>

#include "allocator/base/lock.h"
#include "allocator/state/state.h"
#include "tests/model/model.h"
#include "tests/unit/fixture.h"

#define BYTES   (12 * MIB) /* a segment of its own */
#define WORK_NS UINT64_C(10000000)

static struct fixture fixture;
static bool is_open;

/* ---- planted faults ---- */

static struct {
	bool open_lock;    /* the event lock excludes no thread */
	bool no_barrier;   /* the device does not wait */
	bool hasty_answer; /* an event is complete at once */
	bool hasty_wait;   /* the program's wait for the context returns at once */
} planted;

/* ---- the locks ---- */

void __wrap_cm_lock_acquire_word(struct cm_lock *lock, uint32_t self);
bool __wrap_cm_lock_try_word(struct cm_lock *lock, uint32_t self);
void __wrap_cm_lock_release_word(struct cm_lock *lock);

/* A cache that is being created has no event lock as yet. */
static bool keeps_out(const struct cm_lock *lock)
{
	return !planted.open_lock || !fixture.cache || lock != &fixture.cache->event_lock;
}

void __wrap_cm_lock_acquire_word(struct cm_lock *lock, uint32_t self)
{
	(void)self;
	model_step();
	MODEL_SPIN_UNTIL(!keeps_out(lock) || !lock->word);
	lock->word++;
	lock->by_word = true;
}

bool __wrap_cm_lock_try_word(struct cm_lock *lock, uint32_t self)
{
	(void)self;
	model_step();
	if (lock->word)
		return false;
	lock->word = 1;
	lock->by_word = true;
	return true;
}

void __wrap_cm_lock_release_word(struct cm_lock *lock)
{
	lock->word--;
	lock->by_word = lock->word != 0; /* where several threads hold it */
}

/* ---- the driver ---- */

const struct cm_driver_ops *__real_fake_driver_ops(void);
const struct cm_driver_ops *__wrap_fake_driver_ops(void);

static const struct cm_driver_ops *fake(void)
{
	return __real_fake_driver_ops();
}

#define STEPPED(name, params, pass)       \
	static int name params            \
	{                                 \
		model_step();             \
		return fake()->name pass; \
	}

/* clang-format off */
STEPPED(mem_alloc, (uint64_t ctx, uint64_t bytes, uint64_t *ret_addr), (ctx, bytes, ret_addr))
STEPPED(mem_free, (uint64_t ctx, uint64_t addr), (ctx, addr))
STEPPED(event_record, (uint64_t ctx, uint64_t event), (ctx, event))
STEPPED(ctx_synchronize, (uint64_t ctx), (ctx))
/* clang-format on */

static int event_query(uint64_t ctx, uint64_t event)
{
	model_step();
	return planted.hasty_answer ? 0 : fake()->event_query(ctx, event);
}

static int ctx_wait_event(uint64_t ctx, uint64_t event)
{
	model_step();
	return planted.no_barrier ? 0 : fake()->ctx_wait_event(ctx, event);
}

static void sleep_ns(uint64_t ns)
{
	fake()->sleep_ns(ns);
	model_yield();
}

const struct cm_driver_ops *__wrap_fake_driver_ops(void)
{
	static struct cm_driver_ops ops;

	ops = *fake();
	ops.mem_alloc = mem_alloc;
	ops.mem_free = mem_free;
	ops.event_record = event_record;
	ops.event_query = event_query;
	ops.ctx_wait_event = ctx_wait_event;
	ops.ctx_synchronize = ctx_synchronize;
	ops.sleep_ns = sleep_ns;
	return &ops;
}

/* ---- the program ---- */

static struct cm_heap *second_heap;
static uint64_t second_ctx;

static void open_fixture(enum cm_reuse reuse)
{
	struct cm_policy policy;

	cm_policy_init(&policy);
	policy.reuse = reuse;
	memset(&planted, 0, sizeof(planted));
	if (is_open)
		fixture_close(&fixture);
	is_open = fixture_open(&fixture, &(struct fixture_params){.policy = &policy});
	if (!is_open)
		model_fail("no memory for the test itself");
	fixture.driver.modelled = true;
	second_ctx = 0;
}

static void setup(void)
{
	open_fixture(CM_REUSE_BARRIER);
}

/* No barrier: with a second context none is laid, so epochs are asked for. */
static void setup_contexts(void)
{
	setup();
	second_ctx = fixture_add_context(&fixture, 0, &second_heap);
}

static void use(struct cm_heap *heap, uint64_t ctx)
{
	uint64_t addr;

	MODEL_MUST(!fixture_alloc(&fixture, heap, BYTES, &addr));
	model_step();
	(void)fixture_launch(&fixture, ctx, model_thread(), addr, BYTES, WORK_NS);
	MODEL_MUST(!fixture_put(&fixture, addr));
}

/* Again and again, so that what one frees is given to whoever asks next. */
static void use_twice(void)
{
	use(fixture.heap, fixture.ctx);
	use(fixture.heap, fixture.ctx);
}

static void use_once(void)
{
	use(fixture.heap, fixture.ctx);
}

static void use_second(void)
{
	use(second_heap, second_ctx);
}

/* Time passes on the device: what runs may end at any moment. */
static void go_on(void)
{
	model_step();
	fake_advance(2 * WORK_NS);
}

static void poll(void)
{
	model_step();
	cm_cache_poll(fixture.cache);
}

static void trim(void)
{
	model_step();
	(void)cm_cache_trim(fixture.cache, 0, NULL);
}

/* The program's own wait, whatever others free and close meanwhile. */
static void wait_for_context(void)
{
	struct cm_program_wait wait;

	model_step();
	wait = cm_cache_begin_wait(fixture.cache, fixture.ctx);
	model_step();
	if (!planted.hasty_wait) {
		MODEL_MUST(fake()->gate_enter());
		MODEL_MUST(!fake()->ctx_synchronize(fixture.ctx));
		fake()->gate_leave();
	}
	model_step();
	cm_cache_end_wait(&wait);
}

static void leave_context(void)
{
	model_step();
	fixture_remove_context(&fixture, second_ctx);
}

/* The driver is asked to destroy the context, and refuses. */
static void stay(void)
{
	struct cm_heap *heap;

	model_step();
	cm_cache_lock_contexts(fixture.cache);
	heap = cm_cache_suspend_heap(fixture.cache, second_ctx);
	cm_cache_unlock_contexts(fixture.cache);
	cm_heap_await_calls(heap);
	model_step();
	cm_cache_lock_contexts(fixture.cache);
	if (heap)
		cm_cache_resume_heap(heap);
	cm_cache_unlock_contexts(fixture.cache);
}

/* Caching stops in it, whatever state it is in. */
static void stop(void)
{
	model_step();
	cm_cache_drain_heap(fixture.cache, second_ctx);
}

static void finish(void)
{
	const char *complaint = fixture_complaint(&fixture);

	if (complaint)
		model_fail(complaint);
}

static void setup_open_lock(void)
{
	setup();
	planted.open_lock = true;
}

static void setup_no_barrier(void)
{
	setup();
	planted.no_barrier = true;
}

static void setup_hasty_wait(void)
{
	setup();
	planted.hasty_wait = true;
}

static void setup_hasty_answer(void)
{
	setup_contexts();
	planted.hasty_answer = true;
}

static const struct model_scenario scenarios[] = {
	{"two threads in one context", setup, {use_twice, use_twice}, finish, 2, NULL},
	{"and a device that goes on", setup, {use_once, use_once, go_on}, finish, 2, NULL},
	{"two contexts, where none is ordered behind",
	 setup_contexts,
	 {use_twice, use_second, go_on},
	 finish,
	 2,
	 NULL},
	{"one that asks for epochs", setup_contexts, {use_twice, poll, go_on}, finish, 2, NULL},
	{"one that gives back", setup, {use_once, trim, go_on}, finish, 2, NULL},
	{"a context that goes", setup_contexts, {use_twice, leave_context, go_on}, finish, 2, NULL},
	{"a context that stays", setup_contexts, {use_twice, stay, go_on}, finish, 2, NULL},
	{"a context that stops being cached, and goes or stays",
	 setup_contexts,
	 {stop, stay, leave_context},
	 finish,
	 2,
	 NULL},
	{"a program that waits for its context",
	 setup,
	 {use_twice, wait_for_context, go_on},
	 finish,
	 2,
	 NULL},
	{"and another thread that does so too",
	 setup,
	 {use_once, wait_for_context, wait_for_context},
	 finish,
	 2,
	 NULL},
	{"while another context goes",
	 setup_contexts,
	 {use_once, wait_for_context, leave_context},
	 finish,
	 2,
	 NULL},
	{"a program's wait that ends too early",
	 setup_hasty_wait,
	 {use_twice, wait_for_context},
	 finish,
	 2,
	 "allocated while work may touch it"},
	{"a device that waits for nothing",
	 setup_no_barrier,
	 {use_twice, use_once},
	 finish,
	 3,
	 "allocated while work may touch it"},
	{"an answer that comes too early",
	 setup_hasty_answer,
	 {use_twice, use_once},
	 finish,
	 3,
	 "allocated while work may touch it"},
	{"an event lock that several hold", setup_open_lock, {use_twice, use_twice}, finish, 3, ""},
};

int main(void)
{
	model_thread_local(&cm_thread.locks, sizeof(cm_thread.locks));
	return model_explore(scenarios, sizeof(scenarios) / sizeof(scenarios[0]));
}
