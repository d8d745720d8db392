/* SPDX-License-Identifier: MIT */
/* The memory of the model: which values an atomic load may see, and which plain accesses race. */
#include "tests/model/model_parts.h"

#include <errno.h>
#include <string.h>

#define STALE_MAX 2 /* reads of one old value in a row; then the newest is seen */
#define GRANULES  4096u

/* Who touched each byte last, by eights, for plain accesses. */
static struct granule {
	uintptr_t at;
	uint64_t stamp;
	struct byte {
		unsigned writer;
		uint32_t write_clock, read_clock[MODEL_THREADS];
	} byte[8];
} granules[GRANULES];
static uint64_t stamp;

void model_forget_touches(void)
{
	stamp++;
}

void model_join(struct view *view, const struct view *other)
{
	unsigned i;

	for (i = 0; i < MODEL_LOCATIONS; i++)
		if (other->seen[i] > view->seen[i])
			view->seen[i] = other->seen[i];
	for (i = 0; i < MODEL_THREADS; i++)
		if (other->clock[i] > view->clock[i])
			view->clock[i] = other->clock[i];
}

static uint64_t fetch(const void *addr, size_t bytes)
{
	uint64_t value = 0;

	memcpy(&value, addr, bytes);
	return value;
}

struct location *model_locate(const void *addr, size_t bytes)
{
	struct location *location;
	unsigned i;

	for (i = 0; i < model_run.locations; i++)
		if (model_run.location[i].addr == addr)
			return &model_run.location[i];
	if (model_run.locations == MODEL_LOCATIONS)
		model_fail("too many atomic variables for the model");
	location = &model_run.location[model_run.locations++];
	location->addr = addr;
	location->bytes = bytes;
	location->count = 1;
	location->sc_floor = 0;
	location->plain = false;
	memset(&location->futex, 0, sizeof(location->futex));
	memset(&location->message[0], 0, sizeof(location->message[0]));
	location->message[0].value = fetch(addr, bytes);
	return location;
}

static unsigned index_of(const struct location *location)
{
	return (unsigned)(location - model_run.location);
}

static bool is_acquire(int order)
{
	return order == __ATOMIC_ACQUIRE || order == __ATOMIC_CONSUME ||
	       order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

static bool is_release(int order)
{
	return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

static uint64_t see(struct location *location, unsigned message, int order)
{
	struct thread *thread = model_self();
	const struct message *from = &location->message[message];

	if (thread->view.seen[index_of(location)] < message)
		thread->view.seen[index_of(location)] = (uint16_t)message;
	model_join(is_acquire(order) ? &thread->view : &thread->acquired, &from->view);
	return from->value;
}

/* Any value that is not known to be replaced; a thread does not see an old one for ever. */
uint64_t model_load(struct location *location, int order)
{
	struct thread *thread = model_self();
	unsigned floor = thread->view.seen[index_of(location)], newest = location->count - 1,
		 picked;

	if (order == __ATOMIC_SEQ_CST && location->sc_floor > floor)
		floor = location->sc_floor;
	if (thread->stale == location && thread->stale_reads >= STALE_MAX &&
	    floor <= thread->stale_message)
		floor = newest;
	picked = newest - model_choose(newest - floor + 1);
	if (picked != newest && thread->stale == location && thread->stale_message == picked) {
		thread->stale_reads++;
	} else {
		thread->stale = location;
		thread->stale_message = picked;
		thread->stale_reads = picked != newest;
	}
	return see(location, picked, order);
}

static void append(struct location *location, uint64_t value, const struct view *view)
{
	if (location->count == MODEL_MESSAGES)
		model_fail("too many stores for the model");
	location->message[location->count] = (struct message){.value = value, .view = *view};
	model_self()->view.seen[index_of(location)] = (uint16_t)location->count;
	location->message[location->count].view.seen[index_of(location)] =
		(uint16_t)location->count;
	location->count++;
}

/* `of_update`: the message that a read-modify-write replaced, whose release it carries on. */
static void store(struct location *location, uint64_t value, int order,
		  const struct message *of_update)
{
	struct thread *thread = model_self();
	struct view view = is_release(order) ? thread->view : thread->released;

	if (of_update)
		model_join(&view, &of_update->view);
	append(location, value, &view);
	if (order == __ATOMIC_SEQ_CST)
		location->sc_floor = location->count - 1;
	memcpy((void *)(uintptr_t)location->addr, &value, location->bytes);
}

void model_fence_sc(struct thread *thread)
{
	model_join(&thread->view, &thread->acquired);
	model_join(&thread->view, &model_run.sc);
	model_join(&model_run.sc, &thread->view);
	thread->released = thread->view;
}

static void fence(int order)
{
	struct thread *thread = model_self();

	model_step();
	if (!model_run.running)
		return;
	if (is_acquire(order))
		model_join(&thread->view, &thread->acquired);
	if (order == __ATOMIC_SEQ_CST)
		model_fence_sc(thread);
	if (is_release(order))
		thread->released = thread->view;
}

/* ---- plain accesses ---- */

static struct granule *granule_of(uintptr_t at)
{
	size_t i = at / 8 * UINT64_C(0x9e3779b97f4a7c15) >> 52, tries;

	for (tries = 0; tries < GRANULES; tries++, i = (i + 1) % GRANULES) {
		if (granules[i].stamp != stamp) {
			granules[i] = (struct granule){.at = at, .stamp = stamp};
			return &granules[i];
		}
		if (granules[i].at == at)
			return &granules[i];
	}
	model_fail("too much memory for the model");
}

static struct location *published(uintptr_t at, size_t bytes)
{
	unsigned i;

	for (i = 0; i < model_run.locations; i++)
		if (model_run.location[i].plain && (uintptr_t)model_run.location[i].addr <= at &&
		    at + bytes <=
			    (uintptr_t)model_run.location[i].addr + model_run.location[i].bytes)
			return &model_run.location[i];
	return NULL;
}

/* The value is there when the thread comes to its next step. */
void model_learn_pending(void)
{
	unsigned i;

	for (i = 0; i < model_run.pendings; i++)
		append(model_run.pending[i],
		       fetch(model_run.pending[i]->addr, model_run.pending[i]->bytes),
		       &model_self()->released);
	model_run.pendings = 0;
}

static void touch_byte(struct byte *byte, bool write)
{
	const struct view *view = &model_self()->view;
	unsigned i;

	if (byte->write_clock > view->clock[byte->writer] && byte->writer != model_run.current)
		model_fail("a race: a plain access beside a store");
	for (i = 0; write && i < model_run.threads; i++)
		if (i != model_run.current && byte->read_clock[i] > view->clock[i])
			model_fail("a race: a plain store beside a load");
	if (write) {
		byte->writer = model_run.current;
		byte->write_clock = view->clock[model_run.current];
	} else {
		byte->read_clock[model_run.current] = view->clock[model_run.current];
	}
}

/* The stacks are each thread's own, and so is errno. */
static bool is_own(uintptr_t at)
{
	unsigned i;

	for (i = 0; i < model_run.threads; i++)
		if (at >= (uintptr_t)model_run.thread[i].stack &&
		    at < (uintptr_t)model_run.thread[i].stack + MODEL_STACK_BYTES)
			return true;
	return at == (uintptr_t)&errno || model_is_local(at);
}

static void touch(uintptr_t at, size_t bytes, bool write)
{
	struct granule *granule = NULL;
	struct location *location;
	uintptr_t end = at + bytes;

	if (!model_run.running || is_own(at))
		return;
	location = published(at, bytes);
	if (location && write) {
		model_step();
		model_run.pending[model_run.pendings++] = location;
	}
	for (; !location && at < end; at++) {
		if (!granule || !(at & 7))
			granule = granule_of(at & ~UINT64_C(7));
		touch_byte(&granule->byte[at & 7], write);
	}
}

void model_publish(const void *addr, size_t bytes)
{
	size_t at;

	for (at = 0; at < bytes; at += 8)
		model_locate((const char *)addr + at, 8)->plain = true;
}

uint64_t model_peek(const void *addr, size_t bytes)
{
	model_step();
	return model_load(model_locate(addr, bytes), __ATOMIC_RELAXED);
}

/* ---- what the instrumented code calls ---- */

#define PLAIN(bytes)                                  \
	void __tsan_read##bytes(void *at);            \
	void __tsan_read##bytes(void *at)             \
	{                                             \
		touch((uintptr_t)at, bytes, false);   \
	}                                             \
	void __tsan_write##bytes(void *at);           \
	void __tsan_write##bytes(void *at)            \
	{                                             \
		touch((uintptr_t)at, bytes, true);    \
	}                                             \
	void __tsan_unaligned_read##bytes(void *at);  \
	void __tsan_unaligned_read##bytes(void *at)   \
	{                                             \
		touch((uintptr_t)at, bytes, false);   \
	}                                             \
	void __tsan_unaligned_write##bytes(void *at); \
	void __tsan_unaligned_write##bytes(void *at)  \
	{                                             \
		touch((uintptr_t)at, bytes, true);    \
	}
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

void __tsan_read_range(void *at, size_t bytes);
void __tsan_read_range(void *at, size_t bytes)
{
	touch((uintptr_t)at, bytes, false);
}

void __tsan_write_range(void *at, size_t bytes);
void __tsan_write_range(void *at, size_t bytes)
{
	touch((uintptr_t)at, bytes, true);
}

void __tsan_init(void);
void __tsan_init(void)
{
}

void __tsan_func_entry(void *caller);
void __tsan_func_entry(void *caller)
{
	(void)caller;
}

void __tsan_func_exit(void);
void __tsan_func_exit(void)
{
}

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order)
{
	fence(order);
}

void __tsan_atomic_signal_fence(int order);
void __tsan_atomic_signal_fence(int order)
{
	(void)order;
}

/* A read-modify-write sees the newest value. */
#define UPDATE(bits, name, expression)                                                            \
	uint##bits##_t __tsan_atomic##bits##_##name(uint##bits##_t *at, uint##bits##_t with,      \
						    int order);                                   \
	uint##bits##_t __tsan_atomic##bits##_##name(uint##bits##_t *at, uint##bits##_t with,      \
						    int order)                                    \
	{                                                                                         \
		struct location *location;                                                        \
		unsigned newest;                                                                  \
		uint##bits##_t old;                                                               \
                                                                                                  \
		model_step();                                                                     \
		if (!model_run.running) {                                                         \
			old = *at;                                                                \
			*at = (uint##bits##_t)(expression);                                       \
			return old;                                                               \
		}                                                                                 \
		location = model_locate(at, bits / 8);                                            \
		newest = location->count - 1;                                                     \
		old = (uint##bits##_t)see(location, newest, order);                               \
		store(location, (uint##bits##_t)(expression), order, &location->message[newest]); \
		return old;                                                                       \
	}

#define ATOMIC(bits)                                                                             \
	uint##bits##_t __tsan_atomic##bits##_load(const uint##bits##_t *at, int order);          \
	uint##bits##_t __tsan_atomic##bits##_load(const uint##bits##_t *at, int order)           \
	{                                                                                        \
		if (!model_run.running)                                                          \
			return *at;                                                              \
		model_step_at(model_locate(at, bits / 8));                                       \
		return (uint##bits##_t)model_load(model_locate(at, bits / 8), order);            \
	}                                                                                        \
	void __tsan_atomic##bits##_store(uint##bits##_t *at, uint##bits##_t value, int order);   \
	void __tsan_atomic##bits##_store(uint##bits##_t *at, uint##bits##_t value, int order)    \
	{                                                                                        \
		model_step();                                                                    \
		if (model_run.running)                                                           \
			store(model_locate(at, bits / 8), value, order, NULL);                   \
		else                                                                             \
			*at = value;                                                             \
	}                                                                                        \
	UPDATE(bits, exchange, with)                                                             \
	UPDATE(bits, fetch_add, old + with)                                                      \
	UPDATE(bits, fetch_sub, old - with)                                                      \
	UPDATE(bits, fetch_or, old | with)                                                       \
	UPDATE(bits, fetch_and, old &with)                                                       \
	int __tsan_atomic##bits##_compare_exchange_strong(                                       \
		uint##bits##_t *at, uint##bits##_t *expected, uint##bits##_t value, int order,   \
		int failed);                                                                     \
	int __tsan_atomic##bits##_compare_exchange_strong(                                       \
		uint##bits##_t *at, uint##bits##_t *expected, uint##bits##_t value, int order,   \
		int failed)                                                                      \
	{                                                                                        \
		struct location *location = model_locate(at, bits / 8);                          \
		uint##bits##_t old;                                                              \
		unsigned newest;                                                                 \
                                                                                                 \
		model_step();                                                                    \
		newest = location->count - 1;                                                    \
		old = (uint##bits##_t)location->message[newest].value;                           \
		(void)see(location, newest, old == *expected ? order : failed);                  \
		if (old == *expected) {                                                          \
			store(location, value, order, &location->message[newest]);               \
			return 1;                                                                \
		}                                                                                \
		*expected = old;                                                                 \
		return 0;                                                                        \
	}                                                                                        \
	int __tsan_atomic##bits##_compare_exchange_weak(                                         \
		uint##bits##_t *at, uint##bits##_t *expected, uint##bits##_t value, int order,   \
		int failed);                                                                     \
	int __tsan_atomic##bits##_compare_exchange_weak(                                         \
		uint##bits##_t *at, uint##bits##_t *expected, uint##bits##_t value, int order,   \
		int failed)                                                                      \
	{                                                                                        \
		return __tsan_atomic##bits##_compare_exchange_strong(at, expected, value, order, \
								     failed);                    \
	}
ATOMIC(8)
ATOMIC(32)
ATOMIC(64)
