/* SPDX-License-Identifier: MIT */
#include "tests/model/model.h"

#include <errno.h>
#include <linux/futex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>

#define LOCATIONS   48u
#define MESSAGES    512u
#define CHOICES     4096u
#define STEPS       500u
#define STACK_BYTES (64u * 1024)
#define RUNS_MAX    20000000u
#define STALE_MAX   2 /* reads of one old value in a row; then the newest is seen */
#define GRANULES    4096u
#define PATIENCE    60u /* steps in a row of a thread that spins, before another may */
#define LOCAL_BYTES 64u /* of a thread-local variable */

/* What a thread knows: of each location the oldest value that it can still see, of each thread how
 * far it has come. */
struct view {
	uint16_t seen[LOCATIONS];
	uint32_t clock[MODEL_THREADS];
};

struct message {
	uint64_t value;
	struct view view; /* what who acquires it learns */
};

struct location {
	const void *addr;
	size_t bytes;
	unsigned count;
	unsigned sc_floor; /* the last sequentially consistent store */
	bool plain;        /* published, stored to by plain stores */
	struct view futex; /* what the kernel's lock on it hands on */
	struct message message[MESSAGES];
};

enum state { READY, WAITING, FINISHED };

struct thread {
	ucontext_t context;
	enum state state;
	bool timed, timed_out;
	unsigned behind; /* threads, as bits, that have to go on before this one that has yielded */
	unsigned in_a_row;
	const struct location *again; /* loaded by the last step, when it had so many values */
	unsigned again_count;
	const void *waits_on;
	struct view view, acquired,
		released; /* acquired: by loads before a fence; released: by one */
	struct location *stale;
	unsigned stale_message, stale_reads;
	unsigned char local[LOCAL_BYTES]; /* its value, while another thread runs */
	char *stack;
};

static void *local; /* the thread-local variable, NULL: none */
static size_t local_bytes;

static struct {
	const struct model_scenario *scenario;
	struct thread thread[MODEL_THREADS];
	unsigned threads, current, preemptions, steps;
	bool running; /* threads, and not setup or finish */
	struct location location[LOCATIONS];
	unsigned locations;
	struct view sc;
	uint64_t now_ns;
	struct location *pending[LOCATIONS]; /* plain stores whose value is not there yet */
	unsigned pendings;
	ucontext_t home;
	jmp_buf out;
	char why[300];
} run;

/* The decisions of the run, and of how many ways each. */
static struct {
	uint8_t taken[CHOICES], of[CHOICES];
	unsigned count, at;
} choices;

/* Who touched each eight bytes last, for plain accesses. */
static struct granule {
	uintptr_t at;
	uint64_t stamp;
	unsigned writer;
	uint32_t write_clock, read_clock[MODEL_THREADS];
} granules[GRANULES];
static uint64_t stamp;

/* ---- decisions ---- */

_Noreturn void model_fail(const char *why)
{
	(void)snprintf(run.why, sizeof(run.why), "%s", why);
	longjmp(run.out, 1);
}

static unsigned choose(unsigned n)
{
	if (n < 2)
		return 0;
	if (choices.at == CHOICES)
		model_fail("too many decisions in a run");
	if (choices.at == choices.count) {
		choices.taken[choices.count] = 0;
		choices.of[choices.count++] = (uint8_t)n;
	}
	return choices.taken[choices.at++];
}

/* The next way; false: there is none. */
static bool choose_next(void)
{
	while (choices.count &&
	       choices.taken[choices.count - 1] + 1u == choices.of[choices.count - 1])
		choices.count--;
	if (!choices.count)
		return false;
	choices.taken[choices.count - 1]++;
	choices.at = 0;
	return true;
}

unsigned model_choose(unsigned n)
{
	return choose(n);
}

/* ---- threads ---- */

static struct thread *self(void)
{
	return &run.thread[run.current];
}

uint32_t model_thread(void)
{
	return run.current + 1;
}

static bool can_go(const struct thread *thread)
{
	return thread->state == READY || (thread->state == WAITING && thread->timed);
}

static void switch_to(unsigned next)
{
	unsigned before = run.current;

	if (next == before)
		return;
	run.current = next;
	if (local) {
		memcpy(run.thread[before].local, local, local_bytes);
		memcpy(local, run.thread[next].local, local_bytes);
	}
	(void)swapcontext(&run.thread[before].context, &run.thread[next].context);
}

static unsigned bits_of_others(void)
{
	unsigned bits = 0, i;

	for (i = 0; i < run.threads; i++)
		if (i != run.current && can_go(&run.thread[i]))
			bits |= 1u << i;
	return bits;
}

/* Whether a thread that has yielded still gives way: nothing is fair that starves another. */
static bool gives_way(unsigned i)
{
	unsigned k;

	for (k = 0; k < run.threads; k++)
		if (run.thread[i].behind >> k & 1 && can_go(&run.thread[k]))
			return true;
	return false;
}

/* Lets one of those go on that can: the current one first, which costs nothing. */
static void schedule(void)
{
	struct thread *thread = self();
	unsigned option[MODEL_THREADS], n = 0, i, picked;
	bool may_stay = thread->state == READY && !gives_way(run.current);

	if (may_stay)
		option[n++] = run.current;
	for (i = 0; i < run.threads; i++)
		if (i != run.current && can_go(&run.thread[i]) && !gives_way(i) &&
		    (!may_stay || run.preemptions < run.scenario->preemptions))
			option[n++] = i;
	for (i = 0; !n && i < run.threads; i++)
		if (can_go(&run.thread[i]))
			option[n++] = i;
	if (!n) {
		for (i = 0; i < run.threads; i++)
			if (run.thread[i].state != FINISHED)
				model_fail("deadlock: every thread waits");
		(void)setcontext(&run.home);
	}
	picked = option[choose(n)];
	if (may_stay && picked != run.current)
		run.preemptions++;
	if (picked != run.current)
		thread->in_a_row = 0;
	run.thread[picked].behind = 0;
	for (i = 0; i < run.threads; i++)
		run.thread[i].behind &= ~(1u << picked);
	if (run.thread[picked].state == WAITING) {
		run.thread[picked].state = READY;
		run.thread[picked].timed_out = true;
	}
	switch_to(picked);
}

static void learn_pending(void);

/* Before everything that others can see. A load that repeats the last one, with nothing stored
 * since, sees what it saw: nothing new comes of going on elsewhere just then. */
static void step_at(const struct location *loaded)
{
	struct thread *thread = self();

	if (!run.running)
		return;
	learn_pending();
	if (++run.steps > STEPS)
		model_fail("no end: a thread spins for ever");
	if (++thread->in_a_row > PATIENCE)
		thread->behind = bits_of_others();
	if (!loaded || thread->again != loaded || thread->again_count != loaded->count ||
	    thread->behind)
		schedule();
	thread->again = loaded;
	thread->again_count = loaded ? loaded->count : 0;
	thread->view.clock[run.current]++;
}

static void step(void)
{
	step_at(NULL);
}

void model_step(void)
{
	step();
}

void model_yield(void)
{
	self()->behind = bits_of_others();
	step();
}

static void enter(void)
{
	run.scenario->thread[run.current]();
	learn_pending();
	self()->state = FINISHED;
	schedule();
}

/* ---- memory ---- */

static void join(struct view *view, const struct view *other)
{
	unsigned i;

	for (i = 0; i < LOCATIONS; i++)
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

static struct location *locate(const void *addr, size_t bytes)
{
	struct location *location;
	unsigned i;

	for (i = 0; i < run.locations; i++)
		if (run.location[i].addr == addr)
			return &run.location[i];
	if (run.locations == LOCATIONS)
		model_fail("too many atomic variables for the model");
	location = &run.location[run.locations++];
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
	return (unsigned)(location - run.location);
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
	struct thread *thread = self();
	const struct message *from = &location->message[message];

	if (thread->view.seen[index_of(location)] < message)
		thread->view.seen[index_of(location)] = (uint16_t)message;
	join(is_acquire(order) ? &thread->view : &thread->acquired, &from->view);
	return from->value;
}

/* Any value that is not known to be replaced; a thread does not see an old one for ever. */
static uint64_t load(struct location *location, int order)
{
	struct thread *thread = self();
	unsigned floor = thread->view.seen[index_of(location)], newest = location->count - 1,
		 picked;

	if (order == __ATOMIC_SEQ_CST && location->sc_floor > floor)
		floor = location->sc_floor;
	if (thread->stale == location && thread->stale_reads >= STALE_MAX &&
	    floor <= thread->stale_message)
		floor = newest;
	picked = newest - choose(newest - floor + 1);
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
	if (location->count == MESSAGES)
		model_fail("too many stores for the model");
	location->message[location->count] = (struct message){.value = value, .view = *view};
	self()->view.seen[index_of(location)] = (uint16_t)location->count;
	location->message[location->count].view.seen[index_of(location)] =
		(uint16_t)location->count;
	location->count++;
}

/* `of_update`: the message that a read-modify-write replaced, whose release it carries on. */
static void store(struct location *location, uint64_t value, int order,
		  const struct message *of_update)
{
	struct thread *thread = self();
	struct view view = is_release(order) ? thread->view : thread->released;

	if (of_update)
		join(&view, &of_update->view);
	append(location, value, &view);
	if (order == __ATOMIC_SEQ_CST)
		location->sc_floor = location->count - 1;
	memcpy((void *)(uintptr_t)location->addr, &value, location->bytes);
}

static void fence_sc(struct thread *thread)
{
	join(&thread->view, &thread->acquired);
	join(&thread->view, &run.sc);
	join(&run.sc, &thread->view);
	thread->released = thread->view;
}

static void fence(int order)
{
	struct thread *thread = self();

	step();
	if (!run.running)
		return;
	if (is_acquire(order))
		join(&thread->view, &thread->acquired);
	if (order == __ATOMIC_SEQ_CST)
		fence_sc(thread);
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

	for (i = 0; i < run.locations; i++)
		if (run.location[i].plain && (uintptr_t)run.location[i].addr <= at &&
		    at + bytes <= (uintptr_t)run.location[i].addr + run.location[i].bytes)
			return &run.location[i];
	return NULL;
}

/* The value is there when the thread comes to its next step. */
static void learn_pending(void)
{
	unsigned i;

	for (i = 0; i < run.pendings; i++)
		append(run.pending[i], fetch(run.pending[i]->addr, run.pending[i]->bytes),
		       &self()->released);
	run.pendings = 0;
}

static void touch(uintptr_t at, size_t bytes, bool write)
{
	const struct view *view = &self()->view;
	struct location *location;
	struct granule *granule;
	unsigned i;

	/* The stacks are each thread's own, and so is errno. */
	if (!run.running || at == (uintptr_t)&errno)
		return;
	for (i = 0; i < run.threads; i++)
		if (at >= (uintptr_t)run.thread[i].stack &&
		    at < (uintptr_t)run.thread[i].stack + STACK_BYTES)
			return;
	location = published(at, bytes);
	if (location) {
		if (write) {
			step();
			run.pending[run.pendings++] = location;
		}
		return;
	}
	granule = granule_of(at & ~UINT64_C(7));
	if (granule->write_clock > view->clock[granule->writer] && granule->writer != run.current)
		model_fail("a race: a plain access beside a store");
	for (i = 0; write && i < run.threads; i++)
		if (i != run.current && granule->read_clock[i] > view->clock[i])
			model_fail("a race: a plain store beside a load");
	if (write) {
		granule->writer = run.current;
		granule->write_clock = view->clock[run.current];
	} else {
		granule->read_clock[run.current] = view->clock[run.current];
	}
}

void model_publish(const void *addr, size_t bytes)
{
	size_t at;

	for (at = 0; at < bytes; at += 8)
		locate((const char *)addr + at, 8)->plain = true;
}

uint64_t model_peek(const void *addr, size_t bytes)
{
	step();
	return load(locate(addr, bytes), __ATOMIC_RELAXED);
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
		step();                                                                           \
		if (!run.running) {                                                               \
			old = *at;                                                                \
			*at = (uint##bits##_t)(expression);                                       \
			return old;                                                               \
		}                                                                                 \
		location = locate(at, bits / 8);                                                  \
		newest = location->count - 1;                                                     \
		old = (uint##bits##_t)see(location, newest, order);                               \
		store(location, (uint##bits##_t)(expression), order, &location->message[newest]); \
		return old;                                                                       \
	}

#define ATOMIC(bits)                                                                             \
	uint##bits##_t __tsan_atomic##bits##_load(const uint##bits##_t *at, int order);          \
	uint##bits##_t __tsan_atomic##bits##_load(const uint##bits##_t *at, int order)           \
	{                                                                                        \
		if (!run.running)                                                                \
			return *at;                                                              \
		step_at(locate(at, bits / 8));                                                   \
		return (uint##bits##_t)load(locate(at, bits / 8), order);                        \
	}                                                                                        \
	void __tsan_atomic##bits##_store(uint##bits##_t *at, uint##bits##_t value, int order);   \
	void __tsan_atomic##bits##_store(uint##bits##_t *at, uint##bits##_t value, int order)    \
	{                                                                                        \
		step();                                                                          \
		if (run.running)                                                                 \
			store(locate(at, bits / 8), value, order, NULL);                         \
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
		struct location *location = locate(at, bits / 8);                                \
		uint##bits##_t old;                                                              \
		unsigned newest;                                                                 \
                                                                                                 \
		step();                                                                          \
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

/* ---- the kernel ---- */

/* The kernel looks under a lock of the address: who wakes comes before or after. */
static long futex_wait(const void *addr, uint32_t expected, bool timed)
{
	struct location *location;
	struct thread *thread;

	step();
	thread = self();
	location = locate(addr, sizeof(expected));
	join(&thread->view, &location->futex);
	if ((uint32_t)load(location, __ATOMIC_RELAXED) != expected) {
		join(&location->futex, &thread->view);
		errno = EAGAIN;
		return -1;
	}
	join(&location->futex, &thread->view);
	thread->state = WAITING;
	thread->waits_on = addr;
	thread->timed = timed;
	thread->timed_out = false;
	schedule();
	thread->timed = false;
	thread->waits_on = NULL;
	join(&thread->view, &location->futex);
	if (!thread->timed_out)
		return 0;
	run.now_ns += UINT64_C(1000000000000);
	errno = ETIMEDOUT;
	return -1;
}

static long futex_wake(const void *addr, unsigned n)
{
	struct location *location;
	long woken = 0;
	unsigned i;

	step();
	location = locate(addr, 4);
	join(&self()->view, &location->futex);
	join(&location->futex, &self()->view);
	for (i = 0; i < run.threads && (unsigned)woken < n; i++) {
		struct thread *thread = &run.thread[i];

		if (thread->state == WAITING && thread->waits_on == addr) {
			thread->state = READY;
			thread->timed = false;
			woken++;
		}
	}
	return woken;
}

bool model_without_membarrier;
bool model_refuses_membarrier;

/* Every processor of the process orders its accesses, at some moment of the call. */
static long membarrier(void)
{
	unsigned i;

	step();
	fence_sc(self());
	for (i = 0; i < run.threads; i++)
		fence_sc(&run.thread[i]);
	fence_sc(self());
	return 0;
}

void model_settle(void)
{
	(void)membarrier();
}

long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
	const struct timespec *timeout;
	const void *addr;
	va_list args;
	int what;
	unsigned value;

	if (number == SYS_membarrier && model_refuses_membarrier)
		return -1;
	if (number == SYS_membarrier)
		return run.running && !model_without_membarrier ? membarrier() : 0;
	if (number != SYS_futex)
		model_fail("a system call that the model does not know");
	va_start(args, number);
	addr = va_arg(args, const void *);
	what = va_arg(args, int) & ~FUTEX_PRIVATE_FLAG;
	value = va_arg(args, unsigned);
	timeout = va_arg(args, const struct timespec *);
	va_end(args);
	/* Who waits for years does not see the end of it. */
	return what == FUTEX_WAIT ? futex_wait(addr, value, timeout && timeout->tv_sec < 1000000000)
				  : futex_wake(addr, value);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_now)
{
	(void)clock;
	ret_now->tv_sec = (time_t)(run.now_ns / 1000000000);
	ret_now->tv_nsec = (long)(run.now_ns % 1000000000);
	return 0;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *left);
int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
	(void)time;
	(void)left;
	model_yield();
	return 0;
}

int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
	model_yield();
	return 0;
}

/* ---- exploring ---- */

static void open_thread(unsigned i)
{
	struct thread *thread = &run.thread[i];
	char *stack = thread->stack ? thread->stack : malloc(STACK_BYTES);

	if (!stack)
		abort();
	memset(thread, 0, sizeof(*thread));
	thread->stack = stack;
	(void)getcontext(&thread->context);
	thread->context.uc_stack.ss_sp = stack;
	thread->context.uc_stack.ss_size = STACK_BYTES;
	thread->context.uc_link = NULL;
	makecontext(&thread->context, enter, 0);
	thread->view.clock[i] = 1;
}

/* False: it failed, and run.why says how. */
static bool run_once(void)
{
	volatile bool returned = false;
	unsigned i;

	run.locations = run.preemptions = run.steps = run.pendings = 0;
	run.now_ns = 0;
	run.running = false;
	if (local)
		memset(local, 0, local_bytes);
	memset(&run.sc, 0, sizeof(run.sc));
	stamp++;
	choices.at = 0;
	if (setjmp(run.out))
		return false;
	for (i = 0; i < run.threads; i++)
		open_thread(i);
	run.current = 0;
	run.scenario->setup();
	run.running = true;
	(void)getcontext(&run.home);
	if (!returned) {
		returned = true;
		run.current = choose(run.threads);
		(void)setcontext(&run.thread[run.current].context);
	}
	run.running = false;
	if (run.scenario->finish)
		run.scenario->finish();
	return true;
}

static bool explore(const struct model_scenario *scenario)
{
	unsigned runs = 0;
	bool ok;

	run.scenario = scenario;
	for (run.threads = 0; run.threads < MODEL_THREADS && scenario->thread[run.threads];)
		run.threads++;
	choices.count = 0;
	run.why[0] = '\0';
	do {
		ok = run_once();
		if (getenv("MODEL_PROGRESS") && runs % 100000 == 99999)
			(void)fprintf(stderr, "%u runs, %u decisions\n", runs + 1, choices.count);
	} while (++runs < RUNS_MAX && ok && choose_next());
	if (scenario->fails) {
		ok = !ok && strstr(run.why, scenario->fails);
		printf("%s %s: found after %u runs: %s\n", ok ? "ok" : "not ok", scenario->name,
		       runs, *run.why ? run.why : "nothing");
		return ok;
	}
	if (ok && runs == RUNS_MAX) {
		(void)snprintf(run.why, sizeof(run.why), "too many ways to try them all");
		ok = false;
	}
	printf("%s %s: %u runs%s%s\n", ok ? "ok" : "not ok", scenario->name, runs, ok ? "" : ": ",
	       run.why);
	return ok;
}

void model_thread_local(void *variable, size_t bytes)
{
	if (bytes > LOCAL_BYTES)
		abort();
	local = variable;
	local_bytes = bytes;
}

int model_explore(const struct model_scenario *scenarios, size_t n)
{
	bool ok = true;
	size_t i;

	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	printf("1..%zu\n", n);
	for (i = 0; i < n; i++)
		ok &= explore(&scenarios[i]);
	return ok ? 0 : 1;
}
