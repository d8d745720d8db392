/* SPDX-License-Identifier: MIT */
/* A plain program in its threads: they count, and main compares. */
#include "allocator/base/lock.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/cmocka_all.h"

#define THREADS 4
#define ROUNDS  50000

static struct cm_lock lock;
static uint64_t counter; /* guarded by the lock */
static uint64_t overlaps;

static void *count(void *arg)
{
	uint64_t *errnos = arg;
	uint64_t before;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		errno = 4711;
		cm_lock_acquire(&lock);
		before = counter;
		if (i % 64 == 0)
			(void)sched_yield(); /* so that the others meet a lock that is held */
		if (counter != before)
			overlaps++;
		counter = before + 1;
		cm_lock_release(&lock);
		*errnos += errno != 4711 && i % 64 != 0;
	}
	return NULL;
}

static void take_often(uint32_t times)
{
	while (times--) {
		cm_lock_acquire(&lock);
		counter++;
		cm_lock_release(&lock);
	}
}

/* The kernel, which may come to refuse the barrier or a thread's id, as a filter makes it. */
static bool barrier_is_refused, ids_are_refused;
static unsigned refused;

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

long __wrap_syscall(long number, ...)
{
	long arg[6];
	va_list args;
	size_t i;

	if ((number == SYS_membarrier && barrier_is_refused) ||
	    (number == SYS_gettid && ids_are_refused)) {
		refused++;
		errno = EPERM;
		return -1;
	}
	va_start(args, number);
	for (i = 0; i < 6; i++)
		arg[i] = va_arg(args, long);
	va_end(args);
	return __real_syscall(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

static bool has_bias_owner(void)
{
	return atomic_load(&lock.bias_owner) != 0;
}

/* The first one: nobody has asked the kernel. */
CM_TEST(nobody_is_favoured_before_the_barrier_is_had)
{
	cm_lock_init(&lock, CM_LOCK_DEVICE, 0);
	take_often(2 * CM_LOCK_STREAK);
	assert_false(has_bias_owner());
	errno = 4711;
	cm_lock_agree();
	assert_int_equal(errno, 4711);
	take_often(CM_LOCK_STREAK - 1);
	assert_false(has_bias_owner());
	take_often(1);
	if (!has_bias_owner())
		cm_skip("no membarrier(2) here");
}

CM_TEST(one_thread_at_a_time_and_errno_stays)
{
	uint64_t errnos[THREADS] = {0};
	pthread_t thread[THREADS];
	size_t i;

	cm_lock_init(&lock, CM_LOCK_DEVICE, 0);
	counter = overlaps = 0;
	for (i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, count, &errnos[i]), 0);
	for (i = 0; i < THREADS; i++) {
		assert_int_equal(pthread_join(thread[i], NULL), 0);
		assert_int_equal(errnos[i], 0);
	}
	assert_int_equal(counter, THREADS * ROUNDS);
	assert_int_equal(overlaps, 0);
	assert_false(cm_lock_is_held(&lock));
}

static void *take_once(void *arg)
{
	(void)arg;
	take_often(1);
	return NULL;
}

static void in_another_thread(void *(*function)(void *arg))
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, function, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

CM_TEST(who_takes_it_often_is_favoured_until_another_comes)
{
	cm_lock_init(&lock, CM_LOCK_DEVICE, 0);
	counter = 0;
	take_often(CM_LOCK_STREAK - 1);
	assert_false(has_bias_owner());
	take_often(2);
	if (!has_bias_owner())
		cm_skip("no membarrier(2) here");
	assert_false(cm_lock_is_held(&lock));
	take_often(10);
	assert_int_equal(atomic_load(&lock.bias_owner), cm_thread_id());
	in_another_thread(take_once);
	assert_false(has_bias_owner());
	/* The way back takes as long as the way there. */
	take_often(CM_LOCK_STREAK - 1);
	assert_false(has_bias_owner());
	take_often(1);
	assert_true(has_bias_owner());
	assert_int_equal(counter, 2 * CM_LOCK_STREAK + 12);
}

static bool was_had;

static void *CM_UNCHECKED try_once(void *arg)
{
	(void)arg;
	was_had = cm_lock_try(&lock);
	if (was_had)
		cm_lock_release(&lock);
	return NULL;
}

CM_UNCHECKED CM_TEST(a_bias_owner_that_is_inside_has_it_alone)
{
	cm_lock_init(&lock, CM_LOCK_DEVICE, 0);
	take_often(CM_LOCK_STREAK + 1);
	if (!has_bias_owner())
		cm_skip("no membarrier(2) here");
	cm_lock_acquire(&lock);
	assert_true(cm_lock_is_held(&lock));
	assert_false(cm_lock_try(&lock));
	/* Who waited would wait for ever: the bias owner waits for it. */
	in_another_thread(try_once);
	assert_false(was_had);
	assert_int_equal(atomic_load(&lock.bias_owner), cm_thread_id());
	cm_lock_release(&lock);
	assert_false(cm_lock_is_held(&lock));
	assert_true(cm_lock_try(&lock));
	cm_lock_release(&lock);
	in_another_thread(try_once);
	assert_true(was_had);
	assert_false(has_bias_owner());
}

static void *CM_UNCHECKED borrow_once(void *arg)
{
	(void)arg;
	was_had = cm_lock_try(&lock);
	if (was_had)
		cm_lock_release_lent(&lock);
	return NULL;
}

CM_TEST(who_lends_it_is_still_favoured)
{
	cm_lock_init(&lock, CM_LOCK_DEVICE, 0);
	in_another_thread(borrow_once);
	assert_true(was_had);
	assert_false(has_bias_owner());
	take_often(CM_LOCK_STREAK + 1);
	if (!has_bias_owner())
		cm_skip("no membarrier(2) here");
	in_another_thread(borrow_once);
	assert_true(was_had);
	assert_int_equal(atomic_load(&lock.bias_owner), cm_thread_id());
	assert_false(cm_lock_is_held(&lock));
	take_often(2);
	/* What it lends to itself, too. */
	(void)borrow_once(NULL);
	assert_true(was_had);
	assert_int_equal(atomic_load(&lock.bias_owner), cm_thread_id());
	in_another_thread(take_once);
	assert_false(has_bias_owner());
}

/* More threads than flags, and streaks that are long enough for biases to come and go; the yields
 * let a bias owner be met inside. */
#define CROWD  (2 * CM_LOCK_FLAGS + 1)
#define BURSTS 20

static void *take_in_bursts(void *arg)
{
	uint64_t before;
	uint32_t i, burst;

	(void)arg;
	for (burst = 0; burst < BURSTS; burst++) {
		for (i = 0; i < 2 * CM_LOCK_STREAK; i++) {
			cm_lock_acquire(&lock);
			before = counter;
			if (i % 512 == 511)
				(void)sched_yield();
			if (counter != before)
				overlaps++;
			counter = before + 1;
			cm_lock_release(&lock);
		}
		(void)sched_yield();
	}
	return NULL;
}

CM_TEST(favours_that_come_and_go_let_one_in_at_a_time)
{
	pthread_t thread[CROWD];
	size_t i;

	cm_lock_init(&lock, CM_LOCK_DEVICE, 0);
	counter = overlaps = 0;
	for (i = 0; i < CROWD; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, take_in_bursts, NULL), 0);
	for (i = 0; i < CROWD; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	assert_int_equal(counter, CROWD * BURSTS * 2 * CM_LOCK_STREAK);
	assert_int_equal(overlaps, 0);
	assert_false(cm_lock_is_held(&lock));
}

static void *ask_id(void *arg)
{
	uint32_t *ret_id = arg, id;

	errno = 4711;
	id = cm_thread_id();
	*ret_id = errno == 4711 && id == cm_thread_id() ? id : 0;
	return NULL;
}

CM_TEST(threads_that_are_refused_their_ids_have_others)
{
	pthread_t thread[2];
	uint32_t id[2];
	size_t i;

	ids_are_refused = true;
	for (i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, ask_id, &id[i]), 0);
	for (i = 0; i < 2; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	ids_are_refused = false;
	assert_true(id[0] && id[1] && id[0] != id[1]);
	assert_true(id[0] > INT32_MAX && id[1] > INT32_MAX);
}

/* Takes what it holds on purpose, which the analysis would refuse. */
/* Enough for the kernel to let the other thread run on a machine with one processor. */
#define LET_INS 20000000

/* With and without the bias; the holder has it again afterwards. */
CM_UNCHECKED CM_TEST(another_is_let_in_by_a_holder_that_goes_on)
{
	uint64_t before;
	pthread_t thread;
	int owner, i;

	for (owner = 0; owner < 2; owner++) {
		cm_lock_init(&lock, CM_LOCK_DEVICE, 0);
		counter = 0;
		take_often(owner ? 2 * CM_LOCK_STREAK : 0);
		cm_lock_acquire(&lock);
		before = counter;
		assert_int_equal(pthread_create(&thread, NULL, take_once, NULL), 0);
		for (i = 0; i < LET_INS && counter == before; i++) {
			cm_lock_let_in(&lock, true);
			assert_true(cm_lock_is_held(&lock));
			if (i % 100 == 99)
				(void)sched_yield();
		}
		assert_int_equal(counter, before + 1);
		cm_lock_release(&lock);
		assert_int_equal(pthread_join(thread, NULL), 0);
	}
}

/* A thread whose bias another one has ended retires many blocks now and then. */
CM_UNCHECKED CM_TEST(who_lets_others_in_is_favoured_again)
{
	uint32_t i;

	cm_lock_init(&lock, CM_LOCK_DEVICE, 0);
	take_often(CM_LOCK_STREAK + 1);
	if (!has_bias_owner())
		cm_skip("no membarrier(2) here");
	in_another_thread(take_once);
	for (i = 0; i < 4; i++) {
		take_often(CM_LOCK_STREAK / 4);
		cm_lock_acquire(&lock);
		cm_lock_let_in(&lock, true);
		cm_lock_release(&lock);
	}
	assert_true(has_bias_owner());
}

/* Each wakes the thread and sleeps meanwhile. One is enough, but for a busy machine. */
#define NAPS 500

/* A thread that no longer spins finds the lock free when it wakes up. */
CM_UNCHECKED CM_TEST(one_that_sleeps_for_it_is_let_in)
{
	pthread_t thread;
	uint64_t before;
	int i;

	cm_lock_init(&lock, CM_LOCK_DEVICE, 0);
	cm_lock_acquire(&lock);
	before = counter;
	assert_int_equal(pthread_create(&thread, NULL, take_once, NULL), 0);
	while (atomic_load(&lock.word) != 2)
		(void)sched_yield();
	for (i = 0; i < NAPS && counter == before;) {
		/* It may not sleep yet, or no longer: then it is off its processor. */
		if (atomic_load(&lock.word) == 2)
			i++;
		else
			(void)sched_yield();
		cm_lock_let_in(&lock, false);
	}
	assert_int_equal(counter, before + 1);
	cm_lock_release(&lock);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

/* A quarter of what a thread pauses for while others take the lock in turn. */
#define STILL_PAUSES 1000u

static void *wait_once(void *arg)
{
	uint32_t *pauses = arg;

	take_often(1);
	*pauses = cm_thread.pauses;
	return NULL;
}

/* Its holder is not on a processor. */
CM_UNCHECKED CM_TEST(a_lock_that_stands_still_is_soon_slept_for)
{
	uint32_t pauses = 0;
	pthread_t thread;

	cm_lock_init(&lock, CM_LOCK_DEVICE, 0);
	cm_lock_acquire(&lock);
	assert_int_equal(pthread_create(&thread, NULL, wait_once, &pauses), 0);
	while (atomic_load(&lock.word) != 2)
		(void)sched_yield();
	cm_lock_release(&lock);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_in_range(pauses, 1, STILL_PAUSES);
}

CM_UNCHECKED CM_TEST(a_held_lock_is_not_had_by_trying)
{
	cm_lock_init(&lock, CM_LOCK_DEVICE, 0);
	assert_true(cm_lock_try(&lock));
	assert_true(cm_lock_is_held(&lock));
	assert_false(cm_lock_try(&lock));
	cm_lock_release(&lock);
	assert_true(cm_lock_try(&lock));
	cm_lock_release(&lock);
}

#ifdef NDEBUG
#define ORDER_IS_CHECKED false
#else
#define ORDER_IS_CHECKED true
#endif

/* Takes one lock and then the other, and the first one by trying where it says so. */
struct pair {
	struct rank {
		enum cm_lock_rank rank;
		uint32_t row;
	} first, second;
	bool tries_first, tries_second;
	const char *complaint; /* of assert(); NULL: there is none */
};

static void CM_UNCHECKED take(struct cm_lock *taken, bool tries)
{
	if (!tries)
		cm_lock_acquire(taken);
	else if (!cm_lock_try(taken))
		_exit(1);
}

static void CM_UNCHECKED take_pair(const struct pair *pair)
{
	struct cm_lock first, second;

	cm_lock_init(&first, pair->first.rank, pair->first.row);
	cm_lock_init(&second, pair->second.rank, pair->second.row);
	take(&first, pair->tries_first);
	take(&second, pair->tries_second);
	cm_lock_release(&first);
	cm_lock_release(&second);
	/* What has been released does not count. */
	take(&first, false);
	cm_lock_release(&first);
}

/* What a forked child that takes the pair says; how it ends. */
static int end_of_child(const struct pair *pair, char *text, size_t bytes)
{
	const struct rlimit no_core = {0};
	int end[2], status;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(end), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		(void)setrlimit(RLIMIT_CORE, &no_core);
		(void)dup2(end[1], STDERR_FILENO);
		take_pair(pair);
		_exit(0);
	}
	(void)close(end[1]);
	n = read(end[0], text, bytes - 1);
	assert_true(n >= 0);
	text[n] = '\0';
	(void)close(end[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

CM_TEST(a_lock_that_is_taken_against_the_order_ends_the_process)
{
	static const struct pair pairs[] = {
		{{CM_LOCK_EVENT, 0}, {CM_LOCK_DEVICE, 0}, false, false, NULL},
		{{CM_LOCK_DEVICE, 0}, {CM_LOCK_DEVICE, 1}, false, false, NULL},
		{{CM_LOCK_DEVICE, 0}, {CM_LOCK_EVENT, 0}, false, true, NULL},
		{{CM_LOCK_DEVICE, 1}, {CM_LOCK_DEVICE, 0}, false, true, NULL},
		{{CM_LOCK_DEVICE, 0},
		 {CM_LOCK_EVENT, 0},
		 false,
		 false,
		 "EVENT 0 is taken while DEVICE 0 is held"},
		{{CM_LOCK_DEVICE, 0},
		 {CM_LOCK_EVENT, 0},
		 true,
		 false,
		 "EVENT 0 is taken while DEVICE 0 is held"},
		{{CM_LOCK_DEVICE, 2},
		 {CM_LOCK_DEVICE, 1},
		 false,
		 false,
		 "DEVICE 1 is taken while DEVICE 2 is held"},
		{{CM_LOCK_DEVICE, 1},
		 {CM_LOCK_DEVICE, 1},
		 false,
		 false,
		 "DEVICE 1 is taken while DEVICE 1 is held"},
		{{CM_LOCK_UNRANKED, 0}, {CM_LOCK_DEVICE, 0}, false, false, "CM_LOCK_UNRANKED"},
	};
	char text[400];
	size_t i;
	int status;

	if (!ORDER_IS_CHECKED)
		cm_skip("built without assert()");
	for (i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		status = end_of_child(&pairs[i], text, sizeof(text));
		if (!pairs[i].complaint) {
			assert_int_equal(status, 0);
			continue;
		}
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
		assert_non_null(strstr(text, pairs[i].complaint));
	}
}

/* The last one: the process is without a barrier for good. */
CM_TEST(nobody_is_favoured_once_the_barrier_is_refused)
{
	cm_lock_init(&lock, CM_LOCK_DEVICE, 0);
	take_often(CM_LOCK_STREAK + 1);
	if (!has_bias_owner())
		cm_skip("no membarrier(2) here");
	barrier_is_refused = true;
	refused = 0;
	in_another_thread(take_once);
	assert_int_equal(refused, 1);
	assert_false(has_bias_owner());
	take_often(2 * CM_LOCK_STREAK);
	barrier_is_refused = false;
	take_often(2 * CM_LOCK_STREAK);
	assert_false(has_bias_owner());
	assert_false(cm_lock_is_held(&lock));
}
